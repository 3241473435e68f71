"""An operator that does not commute keeps the order of the work-items in every function: reductions, scans, grids."""

from __future__ import annotations

import numpy as np
import pytest

import portbar
from tests.reduction.support import AFFINE, STRATEGIES, affine, composed, head, kernel_text, launched, program

LOOP = portbar.ReductionLoop("f", {"map": affine("f")})

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
GROUPS = head(128) + kernel_text(
    "k",
    "global f_map *out, global uint *where",
    f"""
    const uint i = (uint)get_local_id(0), n = (uint)get_local_size(0);
    {VALUE}
    where[i] = portbar_sub_group_id();"""
    + "".join(f"\n    out[{place} * n + i] = {name}(scratch, x).map;" for place, name in enumerate(WITHIN)),
)
#: Function -> what of the values it takes. A kernel for each: PoCL takes half a minute for all of a tree's in one.
OVER_GRIDS = {"reduce": "all", "scan_inclusive": "with", "scan_exclusive": "before"}
GRID = head(128, grid=True) + "".join(
    kernel_text(
        f"k_{name}",
        "global f_map *out",
        f"""
    const uint i = portbar_global_id(&grid);
    {VALUE}
    out[i] = portbar_device_{name}_f(&grid, scratch, x).map;""",
        "grid",
    )
    for name in OVER_GRIDS
)


def expected(indices, taken):
    """Return what each of some work-items gets."""
    found = composed((2 * i + 3, i * i + 7) for i in indices)
    return {"all": [found[-1]] * len(indices), "with": found[1:], "before": found[:-1]}[taken]


def sizes_for(context, how):
    """Return local sizes; PoCL compiles a kernel for each, and takes long for many loops with barriers."""
    few = how == "tree" and "PoCL" in context.devices[0].platform.version
    return (7, 33) if few else (7, 33, 1, 100)


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("how", STRATEGIES)
def test_functions_of_groups_and_sub_groups_keep_the_order(context, queue, how):
    kernel = program(context, GROUPS, how, ordering="work_group", loops=[LOOP]).kernel("k")
    for local in sizes_for(context, how):
        empty = np.zeros(len(WITHIN) * local, AFFINE), np.zeros(local, np.uint32)
        _, (got, ids) = launched(queue, kernel, 1, local, *empty)
        for row, (name, (by_sub_group, taken)) in zip(got.reshape(len(WITHIN), local), WITHIN.items(), strict=True):
            for part in sorted(set(ids.tolist())) if by_sub_group else [None]:
                indices = [i for i in range(local) if part is None or ids[i] == part]
                assert row[indices].tolist() == expected(indices, taken), (name, local, part)


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("how", STRATEGIES)
def test_functions_of_grids_keep_the_order(context, queue, how):
    made = program(context, GRID, how, loops=[LOOP])
    # More than one sub-group, the last one with a single work-item.
    local = 33
    for name, taken in OVER_GRIDS.items():
        kernel = made.kernel(f"k_{name}")
        room = local * (2 * kernel.occupancy(queue, (local,)).groups + 8)
        launch, (got,) = launched(queue, kernel, None, local, np.zeros(room, AFFINE))
        n = launch.num_groups * local
        assert got[:n].tolist() == expected(list(range(n)), taken), (taken, launch.num_groups)
