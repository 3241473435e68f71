"""Programs that random ones were made small to, each wrong on some runtime once."""

from __future__ import annotations

from typing import Any

import pyopencl as cl
import pytest

import portbar
from tests import support
from tests.device import quirk_programs

pytestmark = pytest.mark.device

#: Work-groups larger than a vector of any CPU's, whose last vector is not full.
UNEVEN = 13

SKIPS_A_LOOP = """
#include "portbar/device_barrier.h"
kernel void skips(PORTBAR_GRID_PARAM, global uint *out)
{
    PORTBAR_ENTER(grid);
    if (portbar_device_barrier(&grid)) {
    } else {
        uint turn = 0u;
        do {
            ++turn;
            portbar_device_barrier_sum(&grid, turn);
        } while (turn < 3u);
    }
    out[portbar_global_id(&grid)] = 7u;
}
"""

PUSHES_APART = """
#include "portbar/device_barrier.h"
#include "portbar/worklist.h"
kernel void pushes(PORTBAR_GRID_PARAM, global uint *out, global portbar_worklist *tasks, global uint *items)
{
    PORTBAR_ENTER(grid);
    local uint task[1];
    PORTBAR_TASK_QUEUE(queue, &grid, tasks);
    if (portbar_global_id(&grid) == 0u)
        (void)portbar_task_queue_push(&grid, &queue, items, 3u);
    if (!portbar_device_barrier(&grid))
        return;
    while (portbar_work_group_task_queue_pop(&grid, &queue, items, task)) {
        const uint left = *task;
        for (uint i = (uint)get_local_id(0); i < 1u; i += (uint)get_local_size(0))
            if (left >= 2u)
                (void)portbar_task_queue_push(&grid, &queue, items, left - 1u);
    }
    out[portbar_global_id(&grid)] = 7u;
}
"""


def written(queue: cl.CommandQueue, source: str, name: str, *arguments: Any) -> list[int]:
    """Return the words that the work-items of one work-group write."""
    out = support.filled(queue, UNEVEN)
    program = portbar.Program(queue.context, source)
    program.kernel(name)(queue, None, (UNEVEN,), out, *arguments, num_groups=1).wait()
    return support.uints(queue, out).tolist()


def test_work_items_that_skip_a_loop_with_barriers_go_on(queue: cl.CommandQueue) -> None:
    assert written(queue, SKIPS_A_LOOP, "skips") == [7] * UNEVEN


def test_a_task_that_one_work_item_pushes_loses_no_other(queue: cl.CommandQueue) -> None:
    tasks = portbar.TaskQueue(queue, 16)
    tasks.set([])
    assert written(queue, PUSHES_APART, "pushes", *tasks.args) == [7] * UNEVEN


def test_a_kernel_with_many_barriers_comes_to_its_end(queue: cl.CommandQueue) -> None:
    buffers = [support.filled(queue, 16) for _ in range(3)]
    program = portbar.Program(queue.context, quirk_programs.KEEPS_POINTERS)
    kernel = program.kernel("keeps_pointers")
    groups = min(16, kernel.occupancy(queue, (1,)).groups)
    kernel(queue, None, (1,), *buffers, num_groups=groups).wait()
    assert support.uints(queue, buffers[0])[:groups].tolist() == [2] * groups
