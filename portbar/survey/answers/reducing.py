"""Programs that reduce inside a kernel: over lanes, sub-groups, work-groups, and the whole grid."""

from __future__ import annotations

from typing import Final

import numpy as np

from portbar.primitives.reduction.loops import Reduction, ReductionLoop
from portbar.primitives.scan import DeviceScan
from portbar.survey.answers.program import Compared, Desk, Results

GROUPS: Final = 16
#: Elements of an array that a loop over all work-items reduces.
ELEMENTS: Final = 5003

WITHIN: Final = """
#include "portbar/reduction.h"
kernel void within(global const int *a, global int *out, global uint *members)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const uint i = get_global_id(0);
    found_local mine = found_identity();
    mine.sum = a[i];
    mine.most = a[i];
    mine = found_reduce_LEVEL(scratch, mine);
    out[2u * i] = mine.sum;
    out[2u * i + 1u] = mine.most;
    members[2u * i] = portbar_sub_group_id();
    members[2u * i + 1u] = portbar_sub_group_local_id();
}
"""

GANG: Final = """
#include "portbar/reduction.h"
kernel void gang(PORTBAR_REDUCTION_PARAM, global const int *a, uint n, global int *sum, global int *most)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const found_results results = { sum, most };
    found_local mine = found_identity();
    mine = found_setup_gang_worker_vector(scratch, results, mine);
    mine = found_init_gang_worker_vector(scratch, results, mine);
    for (uint i = portbar_loop_id_gang_worker_vector(); i < n; i += portbar_loop_count_gang_worker_vector()) {
        mine.sum += a[i];
        mine.most = max(mine.most, a[i]);
    }
    mine = found_fini_gang_worker_vector(scratch, results, mine);
    found_teardown_gang_worker_vector(scratch, results, mine);
}
"""

GRID: Final = """
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
kernel void whole(PORTBAR_GRID_PARAM, global const int *a, global int *out)
{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const uint me = portbar_global_id(&grid);
    out[3u * me] = portbar_device_reduce_add(&grid, scratch, a[me]);
    out[3u * me + 1u] = portbar_device_reduce_max(&grid, scratch, a[me]);
    out[3u * me + 2u] = portbar_device_scan_inclusive_add(&grid, scratch, a[me]);
}
"""

SCAN: Final = """
#include "portbar/scan.h"
static uint supplied(global const uint *a, uint tile)
{
    return a[tile * (uint)get_local_size(0) + (uint)get_local_id(0)];
}

kernel void prefixes(PORTBAR_SCAN_PARAM, global const uint *a, global uint *out)
{
    local rank_scan scan;
    const uint tile = rank_begin(&scan);
    rank_publish(&scan, supplied(a, tile));
    while (rank_missing(&scan))
        rank_supply(&scan, supplied(a, rank_missing_tile(&scan)));
    out[tile * (uint)get_local_size(0) + (uint)get_local_id(0)] = rank_inclusive(&scan);
}
"""


def _loop() -> ReductionLoop:
    return ReductionLoop("found", {"sum": Reduction(np.int32, "+"), "most": Reduction(np.int32, "max")})


def _within(desk: Desk, level: str) -> Results:
    kernel = desk.kernel(WITHIN.replace("LEVEL", level), "within", reductions=[_loop()])
    values, a = desk.drawn(GROUPS * desk.local, np.int32)
    out, members = desk.zeros(2 * values.size, np.int32), desk.zeros(2 * values.size)
    kernel(desk.queue, (values.size,), (desk.local,), a, out, members).wait()
    sub_groups, lanes = members.get().reshape(-1, 2).T
    sums, most = np.empty_like(values), np.empty_like(values)
    groups = np.arange(values.size) // desk.local
    together = groups * desk.local + (sub_groups if level == "vector" else 0)
    counted = lanes == 0 if level == "worker" else np.ones(values.size, bool)
    for one in np.unique(together):
        mine = values[(together == one) & counted]
        sums[together == one], most[together == one] = mine.sum(), mine.max()
    got = out.get().reshape(-1, 2)
    yield Compared(f"sums at level {level}", got[:, 0], sums)
    yield Compared(f"maxima at level {level}", got[:, 1], most)


def of_lanes(desk: Desk) -> Results:
    """A sum and a maximum of each sub-group."""
    return _within(desk, "vector")


def of_sub_groups(desk: Desk) -> Results:
    """A sum and a maximum of the first lane of each sub-group of a work-group."""
    return _within(desk, "worker")


def of_a_group(desk: Desk) -> Results:
    """A sum and a maximum of each work-group."""
    return _within(desk, "worker_vector")


def of_all_groups(desk: Desk) -> Results:
    """A sum and a maximum of an array, by a loop that all work-groups share."""
    kernel = desk.kernel(GANG, "gang", reductions=[_loop()])
    values, a = desk.drawn(ELEMENTS, np.int32)
    total, most = desk.given(np.array([17], np.int32)), desk.zeros(1, np.int32)
    arguments = (a, np.uint32(ELEMENTS), total, most)
    kernel(desk.queue, (GROUPS * desk.local,), (desk.local,), *arguments).wait()
    yield Compared("the sum and its start value", total.get(), values.sum(keepdims=True) + 17)
    yield Compared("the maximum", most.get(), values.max(keepdims=True))


def of_a_grid(desk: Desk) -> Results:
    """A sum, a maximum and prefix sums over all work-items of a grid."""
    kernel = desk.kernel(GRID, "whole")
    values, a = desk.drawn(desk.room(kernel), np.int32)
    out = desk.zeros(3 * values.size, np.int32)
    items = desk.launch(kernel, a, out)
    mine, got = values[:items], out.get().reshape(-1, 3)[:items]
    yield Compared("the sum", got[:, 0], np.full(items, mine.sum()))
    yield Compared("the maximum", got[:, 1], np.full(items, mine.max()))
    yield Compared("prefix sums", got[:, 2], np.cumsum(mine))


def scanned(desk: Desk) -> Results:
    """Prefix sums over all work-groups of a launch, none of which waits for another."""
    kernel = desk.kernel(SCAN, "prefixes", scans=(DeviceScan("rank", np.uint32, "+"),))
    values, a = desk.drawn(GROUPS * desk.local)
    out = desk.zeros(values.size)
    kernel(desk.queue, (values.size,), (desk.local,), a, out).wait()
    yield Compared("prefix sums", out.get(), np.cumsum(values))
