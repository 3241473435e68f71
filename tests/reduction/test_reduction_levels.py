"""Declared loops at all seven level combinations: start values once, every receiver or none, several reductions at one time."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import portbar
from portbar.primitives.reduction.loops import LEVELS
from tests.reduction.support import STRATEGIES, head, kernel_text, launched, program
from tests.support import scale, to_device

pytestmark = [pytest.mark.device, pytest.mark.slow]

#: Four operators of which none is like another, on four types.
SUMS = portbar.ReductionLoop(
    "sums",
    {
        "total": portbar.Reduction(np.int64, "+"),
        "peak": portbar.Reduction(np.float32, "max"),
        "bits": portbar.Reduction(np.uint8, "^"),
        "holds": portbar.Reduction(np.int32, "&&"),
    },
)
START = {"total": 1000, "peak": 3.5, "bits": 0x5A, "holds": 2}
DTYPES = {"total": np.int64, "peak": np.float32, "bits": np.uint8, "holds": np.int32}

RECEIVERS = "global long *total, global float *peak, global uchar *bits, global int *holds"
RESULTS = RECEIVERS.replace(" *", " *all_")


def source(level, *, grid=False):
    gangs, ids, first = level.startswith("gang"), "&grid" if grid else "", "&grid, " if grid else ""
    own = "0" if gangs else "(uint)get_group_id(0)"
    if level == "vector":
        own = "(uint)get_group_id(0) * 64u + portbar_sub_group_id()"
    body = f"""
    const uint own = {own};
    sums_results results = {{ 0, 0, 0, 0 }};
    if (receive) {{
        {" ".join(f"results.{name} = {name} + own;" for name in START)}
    }}
    sums_local mine = {{ {"{total}, {peak}f, {bits}, {holds}".format(**START)} }};
    mine = sums_init_{level}({first}scratch, results, sums_setup_{level}({first}scratch, results, mine));
    for (uint i = portbar_loop_id_{level}({ids}); i < n; i += portbar_loop_count_{level}({ids})) {{
        const int x = in[i];
        mine.total += x;
        mine.peak = fmax(mine.peak, (float)x);
        mine.bits ^= (uchar)x;
        mine.holds = mine.holds && x != 77;
    }}
    mine = sums_teardown_{level}({first}scratch, results, sums_fini_{level}({first}scratch, results, mine));
    const uint i = {"portbar_global_id(&grid)" if grid else "(uint)get_global_id(0)"};
    {" ".join(f"all_{name}[i] = mine.{name};" for name in START)}"""
    parameters = f"global const int *in, uint n, uint receive, {RECEIVERS}, {RESULTS}"
    return head(128, grid=grid) + kernel_text("k", parameters, body, "grid" if grid else "gangs" if gangs else "")


def numbers(n, seed):
    return np.random.default_rng(seed).integers(-10_000, 10_000, n).astype(np.int32)


def expected(x, start):
    return {
        "total": start["total"] + int(x.sum()),
        "peak": max(start["peak"], float(x.max(initial=-(10**6)))),
        "bits": int(np.bitwise_xor.reduce(x.astype(np.uint8), initial=start["bits"])),
        "holds": int(bool(start["holds"]) and not (x == 77).any()),
    }


def run(queue, made, groups, local, x, receive):
    """Return receivers, what every work-item got, and the launch, whose groups are as many as fit where that is None."""
    # One receiver per group and sub-group; sums start from one more, to identify received values.
    start = [np.full(64 * (groups or 1), START[name] + (name == "total"), dtype) for name, dtype in DTYPES.items()]
    kernel = made.kernel("k")
    room = (groups or 1) * local
    if groups is None:
        empty = [to_device(queue, np.zeros(1, np.int32))] * 9
        room = 2 * local * kernel.occupancy(queue, (local,), empty[0], np.uint32(0), np.uint32(0), *empty[1:]).groups
    many = [np.zeros(room, dtype) for dtype in DTYPES.values()]
    given = x if len(x) else np.zeros(1, np.int32)
    launch, (_, *found) = launched(
        queue, kernel, groups, local, given, np.uint32(len(x)), np.uint32(receive), *start, *many
    )
    return dict(zip(START, found[:4], strict=True)), dict(zip(START, found[4:], strict=True)), launch


GANGS = [level for level in LEVELS if level.startswith("gang")]


@pytest.mark.parametrize("how", STRATEGIES)
@pytest.mark.parametrize(
    ("level", "grid"), [*((level, False) for level in LEVELS), *((level, True) for level in GANGS)]
)
def test_every_member_and_receiver_has_the_result_once(context, queue, level, grid, how):
    """Within a group its members have it, in a grid all work-items do, and gangs without a grid leave it in the receivers."""
    gangs = level in GANGS
    made = program(context, source(level, grid=grid), how, ordering="device" if gangs else "work_group", loops=[SUMS])
    many_groups = 40 if scale(context.devices[0]).is_simulator else 700
    sizes = [(2, 1), (2, 33), (2, 64)]
    if gangs:
        sizes = [(None, 1), (None, 33)] if grid else [(1, 1), (1, 33), (7, 33), (many_groups, 5)]
    for (groups, local), n, receive in itertools.product(sizes, (0, 1, 3000), (0, 1)):
        x = numbers(n, local)
        right = expected(x, START | {"total": START["total"] + receive})
        for _ in range(2):  # nothing is cleared between launches
            receivers, many, launch = run(queue, made, groups, local, x, receive)
            for name, value in right.items():
                where, held, got = (name, groups, local, n, receive), receivers[name].tolist(), many[name]
                if grid or not gangs:
                    members = launch.num_groups * local if grid else None
                    assert set(got[:members].tolist()) == {value}, where
                elif name == "total" and groups == 1 and not receive:
                    assert got[0] == value, where
                if receive:
                    assert value == held[0] if gangs else value in held, where
                else:
                    assert set(held) == {START[name] + (name == "total")}, where
