"""Kernels that execute task graphs. Data are plain words: only the graph orders them."""

from __future__ import annotations

from typing import Final

_HEAD: Final = '#include "portbar/task_graph.h"\n'

#: A task notes that it was executed, and that all tasks that it waits for were, by every work-item of a group.
_VISIT: Final = """
#define CELLS 8u

static void visit(global const uint *first, global const uint *waits, global uint *cells, global uint *seen,
                  global uint *wrong, uint task, uint run)
{
    const uint me = (uint)get_local_id(0), others = (uint)get_local_size(0);
    for (uint i = first[task]; i < first[task + 1u]; ++i)
        for (uint c = 0u; c < CELLS; ++c)
            if (cells[waits[i] * CELLS + c] != waits[i] * 3u + run)
                wrong[0] = task + 1u;
    for (uint c = me; c < CELLS; c += others)
        cells[task * CELLS + c] = task * 3u + run;
    if (me == 0u)
        seen[task] += 1u;
}
"""

_GIVEN: Final = """PORTBAR_GRID_PARAM, global portbar_tasks *tasks, global const uint *first, global const uint *waits,
                global uint *cells, global uint *seen, global uint *wrong, const uint run"""
_RUNS: Final = """
kernel void at_once(GIVEN)
{
    PORTBAR_ENTER(grid);
    PORTBAR_TASKS(graph, &grid, tasks);
    uint task;
    while (portbar_work_group_task_graph_next(&grid, &graph, &task))
        visit(first, waits, cells, seen, wrong, task, run);
}

/* Tasks are taken first and waited for later, and some are finished before the next one is taken. */
kernel void in_parts(GIVEN)
{
    PORTBAR_ENTER(grid);
    PORTBAR_TASKS(graph, &grid, tasks);
    uint task;
    bool held = true;
    while (held && portbar_work_group_task_graph_take(&grid, &graph, &task)) {
        const uint number = task;
        held = portbar_work_group_task_graph_wait(&grid, &graph);
        if (held)
            visit(first, waits, cells, seen, wrong, number, run);
        portbar_work_group_task_graph_done(&grid, &graph);
    }
}

/* Several runs of the graph in one launch. */
kernel void again(GIVEN)
{
    PORTBAR_ENTER(grid);
    PORTBAR_TASKS(graph, &grid, tasks);
    uint task;
    bool held = true;
    for (uint r = 0u; r < 3u && held; ++r) {
        while (portbar_work_group_task_graph_next(&grid, &graph, &task))
            visit(first, waits, cells, seen, wrong, task, run + r);
        held = portbar_work_group_task_graph_again(&grid, &graph);
    }
    if (!held)
        wrong[1] = 1u;
}
"""
#: Names of the kernels that execute each task once.
ONCE: Final = ("at_once", "in_parts")

SOURCE: Final = _HEAD + _VISIT + _RUNS.replace("GIVEN", _GIVEN)

#: Kernels that do wrong, or wait for those that do.
FAULTS: Final = (
    _HEAD
    + """
/* The work-group that gets task `which` leaves with it. */
kernel void leaves(PORTBAR_GRID_PARAM, global portbar_tasks *tasks, global uint *out, const uint which)
{
    PORTBAR_ENTER(grid);
    PORTBAR_TASKS(graph, &grid, tasks);
    uint task, met = 0u;
    bool stays = true;
    while (stays && portbar_work_group_task_graph_next(&grid, &graph, &task)) {
        ++met;
        stays = task != which;
    }
    const bool held = portbar_device_ok(&grid);
    barrier(CLK_LOCAL_MEM_FENCE);
    out[portbar_global_id(&grid)] = 2u * met + (held ? 1u : 0u);
}

/* Takes tasks and never waits. */
kernel void grabs(PORTBAR_GRID_PARAM, global portbar_tasks *tasks, global uint *out)
{
    PORTBAR_ENTER(grid);
    PORTBAR_TASKS(graph, &grid, tasks);
    uint task, met = 0u;
    while (portbar_work_group_task_graph_take(&grid, &graph, &task))
        ++met;
    out[portbar_global_id(&grid)] = met;
}
"""
)
