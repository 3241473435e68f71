"""Short forms over a whole grid, calls back to back, and the gang level's promises in kernels without a grid."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.device import quirks
from tests.reduction.support import STRATEGIES, device_array, host_array, program, scale

GRID = """
#define PORTBAR_REDUCTION_LOCAL_SIZE 128
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
#define KERNEL(name, call) \\
    kernel void name(PORTBAR_GRID_PARAM, global const long *in, global long *out, uint from) \\
    { \\
        PORTBAR_ENTER(grid); \\
        PORTBAR_REDUCTION_SCRATCH(scratch); \\
        const uint i = portbar_global_id(&grid); \\
        const long x = in[i]; \\
        out[i] = call; \\
    }
KERNEL(sum, portbar_device_reduce_add(&grid, scratch, x))
KERNEL(peak, portbar_device_reduce_max(&grid, scratch, x))
KERNEL(sums, portbar_device_scan_inclusive_add(&grid, scratch, x))
KERNEL(peaks, portbar_device_scan_exclusive_max(&grid, scratch, x))
KERNEL(one, portbar_device_broadcast(&grid, scratch, x, from % portbar_global_size(&grid)))
KERNEL(ids, portbar_device_reduce_xor(&grid, scratch, x ^ portbar_group_id(&grid)))
"""


@pytest.mark.device
@pytest.mark.parametrize("how", STRATEGIES)
@pytest.mark.parametrize("local", [1, 33, 64])
def test_over_a_grid_every_work_item_gets_the_result(context, queue, how, local):
    made = program(context, GRID, how)
    room = local * (2 * made.kernel("sum").occupancy(queue, (local,)).groups + 8)
    x = np.random.default_rng(local).integers(-(2**40), 2**40, room)
    lowest = np.array([np.iinfo(np.int64).min])
    on_host = {
        "sum": lambda x: np.full(len(x), x.sum()),
        "peak": lambda x: np.full(len(x), x.max()),
        "sums": np.cumsum,
        "peaks": lambda x: np.concatenate((lowest, np.maximum.accumulate(x)[:-1])),
        "one": lambda x: np.full(len(x), x[40 % len(x)]),
        "ids": lambda x: np.full(len(x), np.bitwise_xor.reduce(x ^ (np.arange(len(x)) // local))),
    }
    for name, expected in on_host.items():
        out = device_array(queue, np.zeros(room, np.int64))
        launch = made.kernel(name)(queue, None, (local,), device_array(queue, x), out, np.uint32(40))
        launch.wait()
        n = launch.num_groups * local
        assert host_array(queue, out, np.int64)[:n].tolist() == expected(x[:n]).tolist(), name


BACK_TO_BACK = """
#define PORTBAR_REDUCTION_LOCAL_SIZE 128
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
kernel void groups(global uint *wrong, uint rounds)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const uint id = (uint)get_local_id(0), n = (uint)get_local_size(0);
    uint bad = 0;
    for (uint r = 0; r < rounds; ++r) {
        /* Work-items run at different speeds, so that one call's memory is still read while the next begins. */
        const uint x = (id + 1u) * (r + 1u);
        bad += portbar_work_group_reduce_add(scratch, x) != (r + 1u) * (n * (n + 1u) / 2u);
        bad += portbar_work_group_reduce_max(scratch, (long)x) != (long)n * (r + 1u);
        bad += portbar_sub_group_reduce_xor(scratch, (uchar)r) != (uchar)(portbar_sub_group_size() & 1u ? r : 0u);
        bad += portbar_work_group_scan_inclusive_add(scratch, r) != r * (id + 1u);
        bad += portbar_work_group_broadcast(scratch, x, r % n) != (r % n + 1u) * (r + 1u);
        bad += portbar_sub_group_broadcast(scratch, x, 0u) != (id - portbar_sub_group_local_id() + 1u) * (r + 1u);
        bad += portbar_sub_group_scan_exclusive_add(scratch, 2u) != 2u * portbar_sub_group_local_id();
    }
    wrong[get_global_id(0)] = bad;
}
kernel void grids(PORTBAR_GRID_PARAM, global uint *wrong, uint rounds)
{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const uint i = portbar_global_id(&grid), n = portbar_global_size(&grid);
    uint bad = 0;
    for (uint r = 0; r < rounds; ++r) {
        bad += portbar_device_reduce_add(&grid, scratch, (i + 1u) * (r + 1u)) != (r + 1u) * (n * (n + 1u) / 2u);
        bad += portbar_device_broadcast(&grid, scratch, i + r, r % n) != r % n + r;
    }
    wrong[i] = bad;
}
"""


@pytest.mark.device
@pytest.mark.parametrize("how", STRATEGIES)
@pytest.mark.parametrize("local", [32, 50])
def test_a_thousand_reductions_back_to_back_do_not_disturb_each_other(context, queue, how, local):
    size = scale(context.devices[0])
    if how == "tree" and "PoCL" in context.devices[0].platform.version:
        pytest.skip("PoCL's compiler takes minutes for many loops with barriers in one kernel, and portbar folds there")
    made = program(context, BACK_TO_BACK, how)
    wrong = device_array(queue, np.zeros(4 * local, np.uint32))
    rounds = 20 if size.is_simulator else 30 if size.is_cut_short else 1000
    made.kernel("groups")(queue, (4 * local,), (local,), wrong, np.uint32(rounds)).wait()
    assert not host_array(queue, wrong, np.uint32).any()


@pytest.mark.device
def test_the_form_for_a_compiler_that_loses_ids_is_right_everywhere(context, queue):
    """So that it stays right where that compiler is not at hand."""
    strategy = replace(portbar.choose(portbar.describe(queue.device)), workarounds=frozenset({quirks.IDS_LOST}))
    made = portbar.Program(context, BACK_TO_BACK.partition("kernel void grids")[0], strategy=strategy)
    wrong = device_array(queue, np.zeros(128, np.uint32))
    made.kernel("groups")(queue, (128,), (32,), wrong, np.uint32(10)).wait()
    assert not host_array(queue, wrong, np.uint32).any()


@pytest.mark.device
@pytest.mark.parametrize("how", STRATEGIES)
def test_a_thousand_reductions_over_a_grid_do_not_disturb_each_other(context, queue, how):
    size = scale(context.devices[0])
    if how == "tree" and "PoCL" in context.devices[0].platform.version:
        pytest.skip("PoCL's compiler takes minutes for many loops with barriers in one kernel, and portbar folds there")
    kernel = program(context, BACK_TO_BACK, how).kernel("grids")
    wrong = device_array(queue, np.zeros(32 * (2 * kernel.occupancy(queue, (32,)).groups + 8), np.uint32))
    rounds = 10 if size.is_simulator else 30 if size.is_cut_short else 1000
    kernel(queue, None, (32,), wrong, np.uint32(rounds)).wait()
    assert not host_array(queue, wrong, np.uint32).any()


FLOATS = portbar.ReductionLoop("floats", {"total": portbar.Reduction(np.float32, "+")})
LOOSE = portbar.ReductionLoop(
    "loose",
    {
        "total": portbar.Reduction(np.float32, "+"),
        "peak": portbar.Reduction(np.float32, "max"),
        "product": portbar.Reduction(np.uint32, "*"),
        "any": portbar.Reduction(np.int32, "||"),
    },
    deterministic=False,
)
LOCKED = portbar.ReductionLoop(
    "locked",
    {"sum": portbar.Reduction(np.complex64, "+"), "least": portbar.Reduction(np.int32, "argmin")},
    deterministic=False,
)

GANGS = """
#define PORTBAR_REDUCTION_LOCAL_SIZE 128
#include "portbar/reduction.h"
kernel void ordered(PORTBAR_REDUCTION_PARAM, global const float *in, uint n, global float *total)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const floats_results results = { total };
    floats_local mine = floats_identity();
    for (uint i = portbar_loop_id_gang_worker_vector(); i < n; i += portbar_loop_count_gang_worker_vector())
        mine.total += in[i];
    floats_reduce_gang_worker_vector(scratch, results, mine);
}
kernel void again(PORTBAR_REDUCTION_PARAM, global float *total, uint times)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const floats_results results = { total };
    for (uint i = 0; i < times; ++i) {
        floats_local one = { i + 1.0f };
        floats_reduce_gang(scratch, results, one);
    }
}
kernel void some(PORTBAR_REDUCTION_PARAM, global float *total, uint without)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const floats_results results = { total };
    const floats_local one = { 1.0f };
    if (get_group_id(0) != without)
        floats_reduce_gang(scratch, results, one);
}
kernel void atomically(PORTBAR_REDUCTION_PARAM, global float *total, global float *peak, global uint *product, global int *any)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const loose_results results = { total, peak, product, any };
    loose_local mine = loose_identity();
    const uint i = (uint)get_global_id(0);
    mine = loose_init_gang_worker_vector(scratch, results, loose_setup_gang_worker_vector(scratch, results, mine));
    mine.total += 0.5f * i;
    mine.peak = fmax(mine.peak, (float)i);
    mine.product *= i % 17 ? 1u : 3u;
    mine.any = mine.any || i == 40;
    mine = loose_fini_gang_worker_vector(scratch, results, mine);
    loose_teardown_gang_worker_vector(scratch, results, mine);
}
"""
UNDER_A_LOCK = """
#define PORTBAR_REDUCTION_LOCAL_SIZE 128
#include "portbar/reduction.h"
kernel void under_a_lock(PORTBAR_REDUCTION_PARAM, global float2 *sum, global portbar_indexed_int *least)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const locked_results results = { sum, least };
    const int i = (int)get_global_id(0);
    const locked_local mine = { (float2)(i, -i), { (i * 37) % 101 - 7, i } };
    locked_reduce_gang_worker_vector(scratch, results, mine);
}
"""


def gangs(context):
    return program(context, GANGS, loops=[FLOATS, LOOSE])


def locked(context):
    return program(context, UNDER_A_LOCK, loops=[LOCKED])


@pytest.mark.device
def test_the_last_group_s_sum_has_the_same_bits_in_every_launch(context, queue):
    groups, local = (20, 8) if scale(context.devices[0]).is_simulator else (300, 32)
    x = np.random.default_rng(7).standard_normal(20_000 if local > 8 else 1000).astype(np.float32)
    held, found = device_array(queue, x), set()
    for _ in range(12):
        total = device_array(queue, np.array([0.25], np.float32))
        gangs(context).kernel("ordered")(queue, (groups * local,), (local,), held, np.uint32(len(x)), total).wait()
        found.add(host_array(queue, total, np.float32)[0].tobytes())
    assert len(found) == 1
    assert np.frombuffer(found.pop(), np.float32)[0] == pytest.approx(
        x.sum(dtype=np.float64) + 0.25, rel=1e-3, abs=1e-2
    )


@pytest.mark.device
def test_a_loop_may_be_reduced_again_in_one_launch_and_across_launches(context, queue):
    total = device_array(queue, np.array([100], np.float32))
    kernel = gangs(context).kernel("again")
    for launches in (1, 2, 3):
        kernel(queue, (40,), (4,), total, np.uint32(4)).wait()
        assert host_array(queue, total, np.float32)[0] == 100 + launches * 10 * (1 + 2 + 3 + 4)


@pytest.mark.device
def test_more_uses_than_declared_are_an_error_that_says_so(context, queue):
    total = device_array(queue, np.zeros(1, np.float32))
    kernel = gangs(context).kernel("again")
    with pytest.raises(portbar.Error, match=r"loop 'floats' .* more often than its uses=4 .* uses="):
        kernel(queue, (40,), (4,), total, np.uint32(5)).wait()
    kernel(queue, (40,), (4,), total, np.uint32(1)).wait()
    assert host_array(queue, total, np.float32)[0] == 10 * (1 + 2 + 3 + 4) + 10


@pytest.mark.device
def test_a_call_that_not_all_groups_make_is_an_error_and_later_launches_are_right(context, queue):
    kernel = gangs(context).kernel("some")
    total = device_array(queue, np.zeros(1, np.float32))
    with pytest.raises(portbar.Error, match=r"9 of the 10 work-groups reduced loop 'floats'"):
        kernel(queue, (40,), (4,), total, np.uint32(3)).wait()
    kernel(queue, (40,), (4,), total, np.uint32(99)).wait()
    assert host_array(queue, total, np.float32)[0] == 10


@pytest.mark.device
def test_without_determinism_receivers_are_updated_by_atomics(context, queue):
    start = {"total": np.float32(4), "peak": np.float32(-5), "product": np.uint32(7), "any": np.int32(0)}
    held = [device_array(queue, np.array([value])) for value in start.values()]
    gangs(context).kernel("atomically")(queue, (400,), (8,), *held).wait()
    got = [host_array(queue, buffer, value.dtype)[0] for buffer, value in zip(held, start.values(), strict=True)]
    product = 7 * 3 ** len(range(0, 400, 17)) % 2**32
    assert got == [4 + 0.5 * (400 * 399 // 2), 399, product, 1]


@pytest.mark.device
def test_without_determinism_what_has_no_atomics_is_updated_under_a_lock(context, queue):
    least = np.array([(50, 3)], dtype=LOCKED.fields["least"].result_dtype)
    total = device_array(queue, np.array([1 + 1j], np.complex64))
    where = device_array(queue, least)
    locked(context).kernel("under_a_lock")(queue, (202,), (2,), total, where).wait()
    assert host_array(queue, total, np.complex64)[0] == 1 + 1j + (1 - 1j) * (202 * 201 // 2)
    values = [(i * 37) % 101 - 7 for i in range(202)]
    assert host_array(queue, where, least.dtype)[0].tolist() == (min(values), values.index(min(values)))


@pytest.mark.device
def test_an_out_of_order_queue_runs_gang_launches_one_after_another(context):
    properties = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    try:
        queue = cl.CommandQueue(context, properties=properties)
    except cl.Error:
        pytest.skip("the device has no out-of-order queues")
    total = device_array(queue, np.zeros(1, np.float32))
    launches = [gangs(context).kernel("again")(queue, (40,), (4,), total, np.uint32(1)) for _ in range(20)]
    for launch in launches:
        launch.wait()
    queue.finish()
    assert host_array(queue, total, np.float32)[0] == 20 * 10
