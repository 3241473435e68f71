"""An operator that does not commute keeps the order of the work-items in every function: reductions, scans, grids."""

from __future__ import annotations

import numpy as np
import pytest

import portbar
from tests.reduction.support import STRATEGIES, device_array, host_array, program

#: Affine maps x -> p * x + q, composed; they wrap, and no two orders give the same.
MAP = np.dtype([("p", np.uint32), ("q", np.uint32)], align=True)
AFTER = portbar.Operator("((f_map){ a.p * b.p, b.p * a.q + b.q })", neutral="{ 1u, 0u }", commutative=False)
LOOP = portbar.ReductionLoop("f", {"map": portbar.Reduction(MAP, AFTER)})

VALUE = "const f_local x = { { 2u * i + 3u, i * i + 7u } };"
#: Function -> whether it is over the sub-group, and what of the values it takes.
WITHIN = {
    "portbar_sub_group_reduce_f": (True, "all"),
    "portbar_sub_group_scan_inclusive_f": (True, "with"),
    "portbar_sub_group_scan_exclusive_f": (True, "before"),
    "portbar_work_group_reduce_f": (False, "all"),
    "portbar_work_group_scan_inclusive_f": (False, "with"),
    "portbar_work_group_scan_exclusive_f": (False, "before"),
}
GROUPS = (
    """
#define PORTBAR_REDUCTION_LOCAL_SIZE 128
#include "portbar/reduction.h"
kernel void k(global f_map *out, global uint *where)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const uint i = (uint)get_local_id(0), n = (uint)get_local_size(0);
    """
    + VALUE
    + "".join(f"\n    out[{place} * n + i] = {name}(scratch, x).map;" for place, name in enumerate(WITHIN))
    + """
    where[i] = portbar_sub_group_id();
}
"""
)
GRID = f"""
#define PORTBAR_REDUCTION_LOCAL_SIZE 128
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
kernel void k(PORTBAR_GRID_PARAM, global f_map *out)
{{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const uint i = portbar_global_id(&grid), n = portbar_global_size(&grid);
    {VALUE}
    out[i] = portbar_device_reduce_f(&grid, scratch, x).map;
    out[n + i] = portbar_device_scan_inclusive_f(&grid, scratch, x).map;
    out[2 * n + i] = portbar_device_scan_exclusive_f(&grid, scratch, x).map;
}}
"""


def running(indices):
    """Return the maps composed before each of some work-items, and through all of them."""
    found = [(1, 0)]
    for i in indices:
        p, q = found[-1]
        factor = 2 * i + 3
        found.append((p * factor % 2**32, (factor * q + i * i + 7) % 2**32))
    return found


def expected(indices, taken):
    """Return what each of some work-items gets."""
    found = running(indices)
    return {"all": [found[-1]] * len(indices), "with": found[1:], "before": found[:-1]}[taken]


def sizes_for(context, how):
    """Return local sizes; PoCL compiles a kernel for each, and takes long for many loops with barriers."""
    few = how == "tree" and "PoCL" in context.devices[0].platform.version
    return (7, 33) if few else (7, 33, 1, 64, 100)


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("how", STRATEGIES)
def test_functions_of_groups_and_sub_groups_keep_the_order(context, queue, how):
    made = program(context, GROUPS, how, ordering="work_group", loops=[LOOP])
    for local in sizes_for(context, how):
        out = device_array(queue, np.zeros(len(WITHIN) * local, MAP))
        where = device_array(queue, np.zeros(local, np.uint32))
        made.kernel("k")(queue, (local,), (local,), out, where).wait()
        got = host_array(queue, out, MAP).reshape(len(WITHIN), local)
        ids = host_array(queue, where, np.uint32)
        for row, (name, (by_sub_group, taken)) in zip(got, WITHIN.items(), strict=True):
            for part in sorted(set(ids.tolist())) if by_sub_group else [None]:
                indices = [i for i in range(local) if part is None or ids[i] == part]
                assert row[indices].tolist() == expected(indices, taken), (name, local, part)


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("how", STRATEGIES)
def test_functions_of_grids_keep_the_order(context, queue, how):
    made = program(context, GRID, how, loops=[LOOP])
    for local in sizes_for(context, how)[:2]:
        room = 3 * local * (2 * made.kernel("k").occupancy(queue, (local,)).groups + 8)
        out = device_array(queue, np.zeros(room, MAP))
        launch = made.kernel("k")(queue, None, (local,), out)
        launch.wait()
        n = launch.num_groups * local
        got = host_array(queue, out, MAP)[: 3 * n].reshape(3, n)
        indices = list(range(n))
        for row, taken in zip(got, ("all", "with", "before"), strict=True):
            assert row.tolist() == expected(indices, taken), (taken, local, launch.num_groups)
