"""Programs whose work appears or becomes ready while they run: worklists and task graphs."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from portbar.arrays.task_graph import TaskGraph
from portbar.arrays.worklist import Frontier, TaskQueue
from portbar.survey.answers.program import Compared, Desk, Results

#: Vertices of a tree, whose depths are found; the children of a vertex.
VERTICES: Final = 500
MOST_CHILDREN: Final = 4
#: Side of a table whose blocks wait for those on the left and above.
SIDE: Final = 7

SEARCH: Final = """
#include "portbar/worklist.h"
kernel void search(PORTBAR_GRID_PARAM, global portbar_worklist *list, global uint *items, global const uint *first,
                   global uint *depths)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FRONTIER(frontier, &grid, list);
    uint depth = 0;
    do {
        ++depth;
        PORTBAR_FOR(i, &grid, portbar_frontier_size(&frontier)) {
            const uint vertex = items[portbar_frontier_at(&frontier, i)];
            for (uint child = first[vertex]; child < first[vertex + 1u]; ++child) {
                depths[child] = depth;
                portbar_frontier_push(&frontier, items, child);
            }
        }
    } while (portbar_device_frontier_swap(&grid, &frontier));
}
"""

WALK: Final = """
#include "portbar/worklist.h"
kernel void walk(PORTBAR_GRID_PARAM, global portbar_worklist *list, global uint *items, global const uint *first,
                 global uint *values)
{
    local uint vertex;
    PORTBAR_ENTER(grid);
    PORTBAR_TASK_QUEUE(queue, &grid, list);
    while (portbar_work_group_task_queue_pop(&grid, &queue, items, &vertex)) {
        for (uint child = first[vertex] + (uint)get_local_id(0); child < first[vertex + 1u];
             child += (uint)get_local_size(0)) {
            values[child] += values[vertex];
            portbar_task_queue_push(&grid, &queue, items, child);
        }
    }
}
"""

SWEEP: Final = """
#include "portbar/task_graph.h"
kernel void sweep(PORTBAR_GRID_PARAM, global portbar_tasks *tasks, global uint *cells, const uint side)
{
    PORTBAR_ENTER(grid);
    PORTBAR_TASKS(graph, &grid, tasks);
    uint task;
    while (portbar_work_group_task_graph_next(&grid, &graph, &task)) {
        const uint x = task % side, y = task / side;
        if (get_local_id(0) == 0u)
            cells[task] += (x > 0u ? cells[task - 1u] : 0u) + (y > 0u ? cells[task - side] : 0u);
    }
}
"""


def _tree(desk: Desk) -> tuple[Any, Any, Any]:
    """Draw a tree: the first child of each vertex as NumPy's array and the device's, and the parents.

    Children have consecutive numbers, above that of their parent.
    """
    children = desk.random.integers(1, MOST_CHILDREN + 1, VERTICES)
    first = np.minimum(1 + np.concatenate(([0], np.cumsum(children))), VERTICES).astype(np.uint32)
    return first, desk.given(first), np.repeat(np.arange(VERTICES), np.diff(first.astype(np.int64)))


def searched(desk: Desk) -> Results:
    """Depths of the vertices of a tree, by phases."""
    kernel = desk.kernel(SEARCH, "search")
    _, first, parents = _tree(desk)
    frontier, depths = Frontier(desk.queue, capacity=VERTICES, dtype=np.uint32), desk.zeros(VERTICES)
    frontier.set([0])
    desk.launch(kernel, *frontier.args, first, depths)
    expected = np.zeros(VERTICES, np.uint32)
    for child, parent in enumerate(parents, start=1):
        expected[child] = expected[parent] + 1
    yield Compared("depths of vertices", depths.get(), expected)


def walked(desk: Desk) -> Results:
    """Sums along the branches of a tree, by tasks that push others."""
    kernel = desk.kernel(WALK, "walk")
    _, first, parents = _tree(desk)
    tasks, (expected, values) = TaskQueue(desk.queue, capacity=2 * VERTICES, dtype=np.uint32), desk.drawn(VERTICES)
    tasks.set([0])
    desk.launch(kernel, *tasks.args, first, values)
    for child, parent in enumerate(parents, start=1):
        expected[child] += expected[parent]
    yield Compared("sums along branches", values.get(), expected)


def swept(desk: Desk) -> Results:
    """A table, each block of which needs those on the left and above."""
    kernel = desk.kernel(SWEEP, "sweep")
    tasks = np.arange(SIDE * SIDE).reshape(SIDE, SIDE)
    across = np.stack([tasks[:, :-1].ravel(), tasks[:, 1:].ravel()], axis=1)
    down = np.stack([tasks[:-1].ravel(), tasks[1:].ravel()], axis=1)
    graph = TaskGraph(desk.queue, SIDE * SIDE, np.concatenate([across, down]))
    expected, cells = desk.drawn(SIDE * SIDE)
    desk.launch(kernel, *graph.args, cells, np.uint32(SIDE), max_groups=graph.width)
    table = expected.reshape(SIDE, SIDE)
    for y in range(SIDE):
        for x in range(SIDE):
            table[y, x] += (table[y, x - 1] if x else 0) + (table[y - 1, x] if y else 0)
    yield Compared("blocks of the table", cells.get(), table.ravel())
