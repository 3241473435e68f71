"""Launches whose last work-groups are smaller, as OpenCL C 2.0 allows, and work-groups of several dimensions."""

from __future__ import annotations

import math
import struct

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.launching.build import build_options, compile_program
from portbar.primitives import layout
from tests.reduction.support import device_array, host_array, program, strategy

#: Global and local size; the first has a smaller last group, others have them in several dimensions.
UNEVEN = [((250,), (64,)), ((10, 7), (4, 4)), ((33, 9), (5, 7)), ((7, 5, 5), (4, 2, 3)), ((13,), (64,))]
EVEN = [((256,), (64,)), ((12, 8), (4, 4)), ((40, 3), (10, 3)), ((8, 4, 6), (4, 2, 3))]

SUM = portbar.ReductionLoop("sum", {"v": portbar.Reduction(np.int32, "+")})
AFFINE = np.dtype([("p", np.uint32), ("q", np.uint32)], align=True)
AFTER = portbar.Operator("((f_map){ a.p * b.p, b.p * a.q + b.q })", neutral="{ 1u, 0u }", commutative=False)
F = portbar.ReductionLoop("f", {"map": portbar.Reduction(AFFINE, AFTER)})

HEAD = """
#define PORTBAR_REDUCTION_LOCAL_SIZE 64
#include "portbar/reduction.h"
"""

DEALT = """
kernel void dealt(PORTBAR_REDUCTION_PARAM, global uint *times, uint n, global int *total)
{{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const sum_results results = {{ total }};
    sum_local mine = sum_identity();
    for (uint i = portbar_loop_id_{level}(); i < n; i += portbar_loop_count_{level}()) {{
        mine.v += (int)i;
        if ({first})
            portbar_atomic_fetch_add(times + i, 1u);
    }}
    sum_reduce_{level}(scratch, results, mine);
}}
"""
#: One work-item of each member, which marks what the member is dealt.
FIRSTS = {
    "gang": "portbar_reduction_id() == 0u",
    "gang_vector": "portbar_sub_group_id() == 0u",
    "gang_worker": "portbar_sub_group_local_id() == 0u",
    "gang_worker_vector": "true",
}
DEALT_HEAD = HEAD.replace('#include "portbar/r', '#include "portbar/atomics.h"\n#include "portbar/r')

COMPOSE = """
kernel void compose(PORTBAR_REDUCTION_PARAM, global f_map *map)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const f_results results = { map };
    const f_local mine = { { 3u, portbar_loop_id_gang_worker_vector() } };
    f_reduce_gang_worker_vector(scratch, results, mine);
}
"""

WITHIN = """
kernel void within(global int *sums, global int *scans)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const size_t i = get_global_id(1) * get_global_size(0) + get_global_id(0);
    const int one = 1 + (int)portbar_reduction_id();
    sums[i] = portbar_work_group_reduce_add(scratch, one);
    scans[i] = portbar_work_group_scan_inclusive_add(scratch, one);
}
"""


def launched(kernel, queue, sizes, *args):
    """Launch and wait; skip where the driver wants whole work-groups."""
    try:
        kernel(queue, *sizes, *args).wait()
    except cl.LogicError as error:
        if error.code != cl.status_code.INVALID_WORK_GROUP_SIZE:
            raise
        pytest.skip("the driver refuses global sizes that are no multiple of the local size")


def dealt(context, queue, level, sizes):
    """Return how often each of 300 numbers was dealt, and their sum as the kernel has it."""
    n = 300
    source = DEALT_HEAD + DEALT.format(level=level, first=FIRSTS[level])
    kernel = program(context, source, loops=[SUM]).kernel("dealt")
    times, total = device_array(queue, np.zeros(n, np.uint32)), device_array(queue, np.zeros(1, np.int32))
    launched(kernel, queue, sizes, times, np.uint32(n), total)
    return host_array(queue, times, np.uint32), int(host_array(queue, total, np.int32)[0])


@pytest.mark.device
@pytest.mark.parametrize("level", FIRSTS)
@pytest.mark.parametrize("sizes", EVEN, ids=str)
def test_whole_groups_deal_every_number_once(context, queue, level, sizes):
    times, total = dealt(context, queue, level, sizes)
    assert set(times.tolist()) == {1}
    assert total == 300 * 299 // 2


@pytest.mark.device
@pytest.mark.parametrize("level", ["gang", "gang_worker_vector"])
@pytest.mark.parametrize("sizes", UNEVEN, ids=str)
def test_smaller_last_groups_deal_every_number_once(context, queue, level, sizes):
    times, total = dealt(context, queue, level, sizes)
    assert set(times.tolist()) == {1}
    assert total == 300 * 299 // 2


@pytest.mark.device
@pytest.mark.parametrize("level", ["gang_vector", "gang_worker"])
def test_sub_groups_of_smaller_groups_are_refused_their_share(context, queue, level):
    with pytest.raises(portbar.LaunchError, match=r"smaller.*\(250,\).*multiple of the local size"):
        dealt(context, queue, level, ((250,), (64,)))


@pytest.mark.device
@pytest.mark.parametrize("sizes", UNEVEN, ids=str)
def test_smaller_last_groups_keep_the_order_of_the_ids(context, queue, sizes):
    start = np.array([(1, 0)], AFFINE)
    held = device_array(queue, start)
    launched(program(context, HEAD + COMPOSE, loops=[F]).kernel("compose"), queue, sizes, held)
    p, q = 1, 0
    for i in range(math.prod(sizes[0])):
        p, q = p * 3 % 2**32, (3 * q + i) % 2**32
    assert host_array(queue, held, AFFINE)[0].tolist() == (p, q)


@pytest.mark.device
@pytest.mark.parametrize("sizes", UNEVEN[:3], ids=str)
def test_smaller_groups_reduce_and_scan_their_own_work_items(context, queue, sizes):
    whole, local = (*sizes[0], 1)[:2], (*sizes[1], 1)[:2]
    sums, scans = (device_array(queue, np.zeros(math.prod(whole), np.int32)) for _ in range(2))
    launched(program(context, HEAD + WITHIN, ordering="work_group").kernel("within"), queue, sizes, sums, scans)
    got = [host_array(queue, held, np.int32).reshape(whole[1], whole[0]) for held in (sums, scans)]
    for y in range(0, whole[1], local[1]):
        for x in range(0, whole[0], local[0]):
            group = [held[y : y + local[1], x : x + local[0]].ravel().tolist() for held in got]
            running = np.cumsum(np.arange(1, len(group[0]) + 1)).tolist()
            assert group == [[running[-1]] * len(running), running]


GRID = """
#define PORTBAR_REDUCTION_LOCAL_SIZE 64
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
kernel void shared(PORTBAR_GRID_PARAM, global uint *times, uint n, global uint *wrong)
{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    uint own = 0u;
    for (uint i = portbar_global_id(&grid); i < n; i += portbar_global_size(&grid)) {
        portbar_atomic_fetch_add(times + i, 1u);
        ++own;
    }
    const uint before = portbar_device_scan_exclusive_add(&grid, scratch, 1u);
    const uint all = portbar_device_reduce_add(&grid, scratch, own);
    if (all != n || before != portbar_global_id(&grid))
        portbar_atomic_fetch_add(wrong, 1u);
}
"""


@pytest.mark.device
@pytest.mark.parametrize("sizes", [((100,), (64,)), ((5, 7), (5, 4)), ((13,), (64,))], ids=str)
def test_a_foreign_host_s_smaller_groups_take_no_part_in_a_grid(context, queue, sizes):
    """Python refuses such a launch, so this one goes past it, as a host in C does."""
    device, n = context.devices[0], 1000
    chosen = strategy(context, None)
    made = program(context, GRID.replace('#include "portbar/r', '#include "portbar/atomics.h"\n#include "portbar/r'))
    kernel = cl.Kernel(compile_program(context, device, made.rendered(device), build_options(chosen, ())), "shared")
    times, wrong = device_array(queue, np.zeros(n, np.uint32)), device_array(queue, np.zeros(1, np.uint32))
    state = np.zeros(layout.state_words(64) + 4096, np.uint32)
    state[layout.OFFSETS["POLL_ODD"]] = 128
    words = device_array(queue, state)
    kernel.set_args(words, bytearray(struct.pack("=4I", 6 << 24 | 1, 2, 1 << 12, 1 << 24)), times, np.uint32(n), wrong)
    launched(lambda *args: cl.enqueue_nd_range_kernel(*args[:1], kernel, *args[1:]), queue, sizes)
    assert host_array(queue, wrong, np.uint32)[0] == 0
    assert set(host_array(queue, times, np.uint32).tolist()) == {1}
    report = host_array(queue, words, np.uint32)[layout.OFFSETS["REPORTS"] + layout.REPORT_WORDS :]
    assert report[:2].tolist() == [1, layout.STATUS_OPEN]
