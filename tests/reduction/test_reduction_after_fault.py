"""Reductions over a grid after a fault: their answers end the loops around them."""

from __future__ import annotations

import numpy as np
import pytest

cl = pytest.importorskip("pyopencl")

import portbar  # noqa: E402
from tests import support  # noqa: E402 (needs PyOpenCL)

pytestmark = pytest.mark.device

#: A loop that only a fault ends, since group 0 leaves -> the type of its value, its condition and the call.
LOOPS = {
    "sum_above": ("float", "value > 0.5f", "portbar_device_reduce_add(&grid, scratch, 1.0f)"),
    "changed": ("int", "value", "portbar_device_reduce_logical_or(&grid, scratch, 1)"),
    "greatest_above": ("float", "value > -1000.0f", "portbar_device_reduce_max(&grid, scratch, 3.0f)"),
    "least_below": ("int", "value < 1000", "portbar_device_reduce_min(&grid, scratch, 3)"),
    "not_all": ("uint", "!value", "portbar_device_reduce_logical_and(&grid, scratch, 0u)"),
    "scanned": ("uint", "value != 0u", "portbar_device_scan_inclusive_add(&grid, scratch, 1u)"),
    "broadcast": ("uint", "value", "portbar_device_broadcast(&grid, scratch, 1u, 0u)"),
    "declared": ("uint", "value", "sum_reduce_gang_worker_vector(&grid, scratch, (sum_local){ 1u }).v"),
    "asks": (
        "uint",
        "value < 1000000u && portbar_device_ok(&grid)",
        "portbar_device_reduce_add(&grid, scratch, 1u)",
    ),
}

HEADERS = """
#define PORTBAR_REDUCTION_LOCAL_SIZE 8
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
"""

#: `most` turns end a loop that a fault does not end.
KERNEL = """
kernel void go_on(PORTBAR_GRID_PARAM, global uint *ends, const uint most)
{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    TYPE value = CALL;
    const bool began = (CONDITION) && portbar_device_ok(&grid);
    if (portbar_group_id(&grid) == 0u)
        return;
    uint turns = 0u;
    for (; (CONDITION) && turns < most; ++turns)
        value = CALL;
    ends[portbar_global_id(&grid)] = (began ? 1u : 0u) + (turns != 0u && turns < most ? 2u : 0u)
        + (portbar_device_ok(&grid) ? 4u : 0u) + (portbar_device_barrier(&grid) ? 8u : 0u);
}
"""


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_around_a_reduction_ends_after_a_fault(context, queue, name):
    kind, condition, call = LOOPS[name]
    source = HEADERS + KERNEL.replace("TYPE", kind).replace("CONDITION", condition).replace("CALL", call)
    loop = portbar.ReductionLoop("sum", {"v": portbar.Reduction(np.uint32, "+")})
    made = portbar.Program(context, source, reductions=[loop] if name == "declared" else [], spin_limit=0.02).kernel(
        "go_on"
    )
    bound = support.need_groups(made, queue, (8,), 2)
    most = 1_000 if support.scale(queue.device).is_simulator else 100_000
    for _ in range(20):
        ends = support.filled(queue, 8 * 4)
        launch = made(queue, None, (8,), ends, np.uint32(most), num_groups=min(bound, 4))
        if launch.num_groups >= 2:
            break
    else:
        pytest.skip("the busy machine never ran 2 work-groups at once")
    with pytest.raises(portbar.BarrierTimeoutError):
        launch.wait()
    assert (support.uints(queue, ends)[8 : 8 * launch.num_groups] == 3).all()


def test_a_reduction_orders_plain_stores_as_a_barrier_does(context, queue):
    source = (
        HEADERS
        + """
    kernel void ring(PORTBAR_GRID_PARAM, global uint *values, global uint *wrong, const uint rounds)
    {
        PORTBAR_ENTER(grid);
        PORTBAR_REDUCTION_SCRATCH(scratch);
        const uint me = portbar_global_id(&grid), all = portbar_global_size(&grid);
        uint bad = 0u;
        for (uint r = 1u; r <= rounds; ++r) {
            values[me] = r * (me + 1u);
            bad += portbar_device_reduce_max(&grid, scratch, r) != r;
            const uint other = (me + 8u * r + 3u) % all;
            bad += values[other] != r * (other + 1u);
            bad += portbar_device_broadcast(&grid, scratch, r, 0u) != r;
        }
        wrong[me] = bad;
    }
    """
    )
    made = portbar.Program(context, source).kernel("ring")
    values, wrong = support.cells(made, queue, (8,)), support.cells(made, queue, (8,))
    rounds = support.scale(queue.device).rounds
    made(queue, None, (8,), values, wrong, np.uint32(rounds)).wait()
    assert not support.uints(queue, wrong).any()
