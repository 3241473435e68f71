"""Short forms over a whole grid, calls back to back, and updates of receivers in no fixed order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import portbar
from portbar.device import quirks
from tests.reduction.support import (
    STRATEGIES,
    folded,
    head,
    kernel_text,
    launched,
    program,
    scalars,
    values,
    wrapped,
)
from tests.rows import some
from tests.support import scale

pytestmark = pytest.mark.device

#: Kernel -> call, and what each of the work-items gets.
GRIDS = {
    "sum": ("reduce_add(&grid, scratch, x)", lambda x, _: np.full(len(x), x.sum())),
    "peak": ("reduce_max(&grid, scratch, x)", lambda x, _: np.full(len(x), x.max())),
    "sums": ("scan_inclusive_add(&grid, scratch, x)", lambda x, _: np.cumsum(x)),
    "peaks": (
        "scan_exclusive_max(&grid, scratch, x)",
        lambda x, _: np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(x)[:-1])),
    ),
    "one": (
        "broadcast(&grid, scratch, x, 40u % portbar_global_size(&grid))",
        lambda x, _: np.full(len(x), x[40 % len(x)]),
    ),
    "ids": (
        "reduce_xor(&grid, scratch, x ^ portbar_group_id(&grid))",
        lambda x, local: np.full(len(x), np.bitwise_xor.reduce(x ^ (np.arange(len(x)) // local))),
    ),
}
GRID = head(128, grid=True) + "".join(
    f"""
kernel void {name}(PORTBAR_GRID_PARAM, global const long *in, global long *out)
{{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const long x = in[portbar_global_id(&grid)];
    out[portbar_global_id(&grid)] = portbar_device_{call};
}}
"""
    for name, (call, _) in GRIDS.items()
)


#: As on a device that holds thousands of work-groups.
SLICED = "#define PORTBAR_GRID_FLAT 1u\n#define PORTBAR_GRID_SLICE 2u\n"


@pytest.mark.parametrize("sliced", ["", SLICED], ids=["flat", "sliced"])
@pytest.mark.parametrize("how", STRATEGIES)
@pytest.mark.parametrize("local", [1, 33, 64])
def test_over_a_grid_every_work_item_gets_the_result(context, queue, how, local, sliced):
    made = program(context, sliced + GRID, how)
    room = local * (2 * made.kernel("sum").occupancy(queue, (local,)).groups + 8)
    x = np.random.default_rng(local).integers(-(2**40), 2**40, room)
    for name, (_, expected) in some([*GRIDS.items()], STRATEGIES.index(how) + local % 3):
        launch, (_, out) = launched(queue, made.kernel(name), None, local, x, np.zeros(room, np.int64))
        n = launch.num_groups * local
        assert out[:n].tolist() == expected(x[:n], local).tolist(), name


@pytest.mark.parametrize("op", ["min", "max", "mul", "and"])
def test_over_a_grid_small_integers_are_combined(context, queue, op):
    """Operators whose neutral value is not 0, for which llvmpipe may mistake choices of chars (llvmpipe-chosen-chars)."""
    kinds = [kind for kind in scalars(context, op) if kind.c in {"char", "uchar", "short", "ushort"}]
    text = "".join(
        kernel_text(
            f"of_{kind.c}",
            f"global const {kind.c} *in, global {kind.c} *out",
            f"    const uint i = portbar_global_id(&grid);\n    out[i] = portbar_device_reduce_{op}(&grid, scratch, in[i]);",
            "grid",
        )
        for kind in kinds
    )
    made = program(context, head(40, grid=True) + text)
    for kind in kinds:
        room = 40 * (2 * made.kernel(f"of_{kind.c}").occupancy(queue, (40,)).groups + 8)
        x = values(kind, op, room, seed=room)
        launch, (_, out) = launched(queue, made.kernel(f"of_{kind.c}"), None, 40, x, np.zeros(room, kind.dtype))
        used = x[: launch.num_groups * 40]
        assert set(out[: len(used)].tolist()) == {wrapped(folded(op, used), kind.dtype)}, kind.c


BACK_TO_BACK = (
    head(128, grid=True)
    + """
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
)


@pytest.mark.parametrize("how", STRATEGIES)
@pytest.mark.parametrize(
    ("kernel", "local", "sliced"),
    [("groups", 32, ""), ("groups", 50, ""), ("grids", 32, ""), ("grids", 32, SLICED)],
    ids=["groups-32", "groups-50", "grids-32", "grids-32-sliced"],
)
def test_a_thousand_reductions_back_to_back_do_not_disturb_each_other(context, queue, kernel, local, sliced, how):
    size = scale(context.devices[0])
    if how == "tree" and "PoCL" in context.devices[0].platform.version:
        pytest.skip("PoCL's compiler takes minutes for many loops with barriers in one kernel, and portbar folds there")
    made = program(context, sliced + BACK_TO_BACK, how).kernel(kernel)
    groups = 4 if kernel == "groups" else 2 * made.occupancy(queue, (local,)).groups + 8
    rounds = 20 if size.is_simulator else 30 if size.is_cut_short else 1000
    empty = np.zeros(groups * local, np.uint32)
    _, (wrong,) = launched(queue, made, None if kernel == "grids" else groups, local, empty, np.uint32(rounds))
    assert not wrong.any()


def test_the_form_for_a_compiler_that_loses_ids_is_right_everywhere(context, queue):
    """So that it stays right on machines without that compiler."""
    chosen = portbar.choose(portbar.describe(queue.device))
    strategy = replace(chosen, workarounds=chosen.workarounds & {quirks.WIDE_VECTORS_LOST} | {quirks.IDS_LOST})
    made = portbar.Program(context, BACK_TO_BACK.partition("kernel void grids")[0], strategy=strategy)
    _, (wrong,) = launched(queue, made.kernel("groups"), 4, 32, np.zeros(128, np.uint32), np.uint32(10))
    assert not wrong.any()


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
ATOMICALLY = (
    head(128)
    + """
kernel void k(PORTBAR_REDUCTION_PARAM, global float *total, global float *peak, global uint *product, global int *any)
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
)


def test_without_determinism_receivers_are_updated_by_atomics(context, queue):
    kernel = program(context, ATOMICALLY, loops=[LOOSE]).kernel("k")
    start = [np.array([value]) for value in (np.float32(4), np.float32(-5), np.uint32(7), np.int32(0))]
    _, got = launched(queue, kernel, 50, 8, *start)
    product = 7 * 3 ** len(range(0, 400, 17)) % 2**32
    assert [value[0] for value in got] == [4 + 0.5 * (400 * 399 // 2), 399, product, 1]
