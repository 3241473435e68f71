"""The page of task graphs: the messages that it quotes, and graphs that are not run; and inputs of any kind."""

from __future__ import annotations

import re

import numpy as np
import pyopencl.array as cl_array
import pytest

import portbar
from tests import support
from tests.checkout import ROOT

pytestmark = pytest.mark.device

PAGE = (ROOT / "docs" / "task_graph.md").read_text(encoding="utf-8")
QUOTED = dict(re.findall(r"^\| ([^|]+) \| `([^`]+)` \|$", PAGE, re.MULTILINE))
#: The inputs of the page's table: tasks, edges and order.
INPUTS = {
    "a cycle": (3, [(0, 1), (1, 2), (2, 0)], None),
    "an edge to a task that does not exist": (9, [(0, 1), (4, 9)], None),
    "an edge from a task to itself": (4, [(3, 3)], None),
    "an order that lacks a task": (3, [], [0, 1, 1]),
}
DECLARED = """
#include "portbar/task_graph.h"
kernel void idle(PORTBAR_GRID_PARAM, global portbar_tasks *tasks, const uint runs, global uint *done)
{
    PORTBAR_ENTER(grid);
    PORTBAR_TASKS(graph, &grid, tasks);
    if (runs == 0u)
        return;
    uint task;
    while (portbar_work_group_task_graph_next(&grid, &graph, &task))
        if (get_local_id(0) == 0)
            done[task] += 1u;
}
"""


def test_every_quoted_message_has_an_input():
    assert set(QUOTED) == set(INPUTS)


@pytest.mark.parametrize("what", INPUTS)
def test_messages_are_those_of_the_page(queue, what):
    tasks, edges, order = INPUTS[what]
    said = re.escape(QUOTED[what]).replace("0\\ \\->\\ 1\\ \\->\\ 2\\ \\->\\ 0", ".*")
    with pytest.raises(portbar.LaunchError, match=said):
        portbar.TaskGraph(queue, tasks, edges, order)


def test_a_graph_that_was_declared_and_not_run_is_an_error_until_it_is_reset(context, queue):
    with support.skipped_where_refused():
        idle = support.kernel(context, DECLARED, "idle")
    graph, done = portbar.TaskGraph(queue, 3, [(0, 1)]), cl_array.zeros(queue, 3, np.uint32)

    def launch(runs):
        idle(queue, None, (4,), graph.words, np.uint32(runs), done).wait()

    launch(1)
    launch(0)
    with pytest.raises(portbar.Error, match="reset"):
        launch(1)
    graph.reset()
    done.fill(0)
    launch(1)
    assert done.get().tolist() == [1, 1, 1]


def test_edges_orders_and_values_are_any_iterables(queue):
    edges = {(0, 1): "a", (1, 2): "b"}
    for given in (edges, edges.keys(), set(edges), (pair for pair in edges), zip([0, 1], [1, 2], strict=True)):
        graph = portbar.TaskGraph(queue, 3, given, iter([0, 1, 2]))
        assert graph.levels.tolist() == [0, 1, 2]
    assert portbar.TaskGraph(queue, 2, iter(())).groups == 1
    assert repr(graph) == "<portbar.TaskGraph of 3 tasks on 1 work-group>"
    frontier = portbar.Frontier(queue, 4)
    frontier.set({7})
    assert frontier.get().tolist() == [7]
    frontier.set(place for place in range(3))
    assert frontier.get().tolist() == [0, 1, 2]
    assert repr(frontier) == "<portbar.Frontier with room for 4 of uint32>"
