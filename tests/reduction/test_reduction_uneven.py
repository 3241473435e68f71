"""Launches whose last work-groups are smaller, as OpenCL C 2.0 allows, and work-groups of several dimensions."""

from __future__ import annotations

import math
import struct
from itertools import product

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.launching.build import build_options, compile_program
from portbar.primitives import layout
from portbar.primitives.fault import OPEN
from portbar.primitives.headers import HEADERS, layout_of
from tests.reduction.support import AFFINE, affine, composed, head, kernel_text, program, strategy
from tests.support import host_array, to_device

pytestmark = pytest.mark.device

#: Global and local size; the first has a smaller last group, others have them in several dimensions.
UNEVEN = [((250,), (64,)), ((10, 7), (4, 4)), ((33, 9), (5, 7)), ((7, 5, 5), (4, 2, 3)), ((13,), (64,))]
EVEN = [((256,), (64,)), ((12, 8), (4, 4)), ((40, 3), (10, 3)), ((8, 4, 6), (4, 2, 3))]

SUM = portbar.ReductionLoop("sum", {"v": portbar.Reduction(np.int32, "+")})
F = portbar.ReductionLoop("f", {"map": affine("f")})

#: One work-item of each member, which marks what the member is dealt.
FIRSTS = {
    "gang": "portbar_reduction_id() == 0u",
    "gang_vector": "portbar_sub_group_id() == 0u",
    "gang_worker": "portbar_sub_group_local_id() == 0u",
    "gang_worker_vector": "true",
}
ATOMICS = '#include "portbar/atomics.h"\n'
#: By level; programs of their own, since portbar refuses smaller groups to a whole program.
DEALT = {
    level: head(64, more=ATOMICS)
    + kernel_text(
        "dealt",
        "global uint *times, uint n, global int *total",
        f"""
    const sum_results results = {{ total }};
    sum_local mine = sum_identity();
    for (uint i = portbar_loop_id_{level}(); i < n; i += portbar_loop_count_{level}()) {{
        mine.v += (int)i;
        if ({first})
            portbar_atomic_fetch_add(times + i, 1u);
    }}
    sum_reduce_{level}(scratch, results, mine);""",
        "gangs",
    )
    for level, first in FIRSTS.items()
}
COMPOSE = head(64) + kernel_text(
    "compose",
    "global f_map *map",
    """
    const f_results results = { map };
    const f_local mine = { { 3u, portbar_loop_id_gang_worker_vector() } };
    f_reduce_gang_worker_vector(scratch, results, mine);""",
    "gangs",
)
WITHIN = head(64) + kernel_text(
    "within",
    "global int *sums, global int *scans",
    """
    const size_t i = get_global_id(1) * get_global_size(0) + get_global_id(0);
    const int one = 1 + (int)portbar_reduction_id();
    sums[i] = portbar_work_group_reduce_add(scratch, one);
    scans[i] = portbar_work_group_scan_inclusive_add(scratch, one);""",
)


def launched(kernel, queue, sizes, *args):
    """Launch and wait; skip where the driver wants whole work-groups."""
    try:
        kernel(queue, *sizes, *args).wait()
    except cl.LogicError as error:
        if error.code != cl.status_code.INVALID_WORK_GROUP_SIZE:
            raise
        pytest.skip("the driver refuses global sizes that are no multiple of the local size")


def dealt(context, queue, level, sizes):
    """Check that each of 300 numbers is dealt once, and that their sum is right."""
    n = 300
    kernel = program(context, DEALT[level], loops=[SUM]).kernel("dealt")
    times, total = to_device(queue, np.zeros(n, np.uint32)), to_device(queue, np.zeros(1, np.int32))
    launched(kernel, queue, sizes, times, np.uint32(n), total)
    assert set(host_array(queue, times, np.uint32).tolist()) == {1}
    assert host_array(queue, total, np.int32)[0] == n * (n - 1) // 2


@pytest.mark.parametrize(
    ("level", "sizes"),
    [*product(FIRSTS, EVEN), *product(["gang", "gang_worker_vector"], UNEVEN)],
    ids=str,
)
def test_groups_deal_every_number_once(context, queue, level, sizes):
    """Also where the last groups are smaller."""
    dealt(context, queue, level, sizes)


@pytest.mark.parametrize("level", ["gang_vector", "gang_worker"])
def test_sub_groups_of_smaller_groups_are_refused_their_share(context, queue, level):
    with pytest.raises(portbar.LaunchError, match=r"equal size.*\(250,\).*multiple of the local size"):
        dealt(context, queue, level, ((250,), (64,)))


@pytest.mark.parametrize("sizes", UNEVEN, ids=str)
def test_smaller_last_groups_keep_the_order_of_the_ids(context, queue, sizes):
    held = to_device(queue, np.array([(1, 0)], AFFINE))
    launched(program(context, COMPOSE, loops=[F]).kernel("compose"), queue, sizes, held)
    wanted = composed((3, i) for i in range(math.prod(sizes[0])))[-1]
    assert host_array(queue, held, AFFINE)[0].tolist() == wanted


@pytest.mark.parametrize("sizes", UNEVEN[:3], ids=str)
def test_smaller_groups_reduce_and_scan_their_own_work_items(context, queue, sizes):
    whole, local = (*sizes[0], 1)[:2], (*sizes[1], 1)[:2]
    sums, scans = (to_device(queue, np.zeros(math.prod(whole), np.int32)) for _ in range(2))
    launched(program(context, WITHIN, ordering="work_group").kernel("within"), queue, sizes, sums, scans)
    got = [host_array(queue, held, np.int32).reshape(whole[1], whole[0]) for held in (sums, scans)]
    for y in range(0, whole[1], local[1]):
        for x in range(0, whole[0], local[0]):
            group = [held[y : y + local[1], x : x + local[0]].ravel().tolist() for held in got]
            running = np.cumsum(np.arange(1, len(group[0]) + 1)).tolist()
            assert group == [[running[-1]] * len(running), running]


GRID = head(64, grid=True, more=ATOMICS) + kernel_text(
    "shared",
    "global uint *times, uint n, global uint *wrong",
    """
    uint own = 0u;
    for (uint i = portbar_global_id(&grid); i < n; i += portbar_global_size(&grid)) {
        portbar_atomic_fetch_add(times + i, 1u);
        ++own;
    }
    const uint before = portbar_device_scan_exclusive_add(&grid, scratch, 1u);
    const uint all = portbar_device_reduce_add(&grid, scratch, own);
    if (all != n || before != portbar_global_id(&grid))
        portbar_atomic_fetch_add(wrong, 1u);""",
    "grid",
)


@pytest.mark.parametrize("sizes", [((100,), (64,)), ((5, 7), (5, 4)), ((13,), (64,))], ids=str)
def test_a_foreign_host_s_smaller_groups_take_no_part_in_a_grid(context, queue, sizes):
    """Python refuses such a launch, so this one goes past it, as a host in C does."""
    device, n = context.devices[0], 1000
    chosen = strategy(context, None)
    made = program(context, GRID)
    kernel = cl.Kernel(compile_program(context, device, made.rendered(device), build_options(chosen, ())), "shared")
    times, wrong = to_device(queue, np.zeros(n, np.uint32)), to_device(queue, np.zeros(1, np.uint32))
    state = np.zeros(layout_of(HEADERS).words(64), np.uint32)
    state[layout.OFFSETS["POLL_ODD"]] = 128
    words = to_device(queue, state)
    kernel.set_args(words, bytearray(struct.pack("=4I", 6 << 24 | 1, 2, 1 << 12, 1 << 24)), times, np.uint32(n), wrong)
    launched(lambda *args: cl.enqueue_nd_range_kernel(*args[:1], kernel, *args[1:]), queue, sizes)
    assert host_array(queue, wrong, np.uint32)[0] == 0
    assert set(host_array(queue, times, np.uint32).tolist()) == {1}
    report = host_array(queue, words, np.uint32)[layout.OFFSETS["REPORTS"] + layout.REPORT_WORDS :]
    assert report[:2].tolist() == [1, OPEN]
