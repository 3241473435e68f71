"""Declared loops at all seven level combinations: start values once, every receiver or none, several reductions at one time."""

from __future__ import annotations

import numpy as np
import pytest

import portbar
from portbar.primitives.reduction.loops import LEVELS
from tests.reduction.support import STRATEGIES, device_array, host_array, program, scale

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

BODY = """
kernel void {level}({param}global const int *in, uint n, uint receive,
                    global long *total, global float *peak, global uchar *bits, global int *holds,
                    global long *totals, global float *peaks, global uchar *many_bits, global int *many_holds)
{{
    {enter}
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const uint own = {own};
    sums_results results = {{ 0, 0, 0, 0 }};
    if (receive) {{
        results.total = total + own;
        results.peak = peak + own;
        results.bits = bits + own;
        results.holds = holds + own;
    }}
    sums_local mine = {{ {total}, {peak}f, {bits}, {holds} }};
    mine = sums_setup_{level}({with_}scratch, results, mine);
    mine = sums_init_{level}({with_}scratch, results, mine);
    for (uint i = portbar_loop_id_{level}({grid}); i < n; i += portbar_loop_count_{level}({grid})) {{
        const int x = in[i];
        mine.total += x;
        mine.peak = fmax(mine.peak, (float)x);
        mine.bits ^= (uchar)x;
        mine.holds = mine.holds && x != 77;
    }}
    mine = sums_fini_{level}({with_}scratch, results, mine);
    mine = sums_teardown_{level}({with_}scratch, results, mine);
    const uint i = {place};
    totals[i] = mine.total;
    peaks[i] = mine.peak;
    many_bits[i] = mine.bits;
    many_holds[i] = mine.holds;
}}
"""


def source(level, *, grid=False, local_size=128):
    is_gang = level.startswith("gang")
    own = "0" if is_gang else "(uint)get_group_id(0)"
    if level == "vector":
        own = "(uint)get_group_id(0) * 64u + portbar_sub_group_id()"
    lines = [f"#define PORTBAR_REDUCTION_LOCAL_SIZE {local_size}"]
    lines += ['#include "portbar/device_barrier.h"'] if grid else []
    lines += ['#include "portbar/reduction.h"']
    body = BODY.format(
        level=level,
        param="PORTBAR_GRID_PARAM, " if grid else "PORTBAR_REDUCTION_PARAM, " if is_gang else "",
        enter="PORTBAR_ENTER(grid);" if grid else "",
        with_="&grid, " if grid else "",
        grid="&grid" if grid else "",
        own=own,
        place="portbar_global_id(&grid)" if grid else "(uint)get_global_id(0)",
        **START,
    )
    return "\n".join(lines) + body


def numbers(n, seed):
    return np.random.default_rng(seed).integers(-10_000, 10_000, n).astype(np.int32)


def expected(x, start):
    return {
        "total": start["total"] + int(x.sum()),
        "peak": max(start["peak"], float(x.max(initial=-(10**6)))),
        "bits": int(np.bitwise_xor.reduce(x.astype(np.uint8), initial=start["bits"])),
        "holds": int(bool(start["holds"]) and not (x == 77).any()),
    }


def run(context, queue, made, level, groups, local, x, receive, global_size="given"):
    """Return receivers and what every work-item got, after one launch."""
    count = groups * 64 if level == "vector" else groups
    start = {name: np.full(count, START[name] + (name == "total"), dtype) for name, dtype in DTYPES.items()}
    receivers = {name: device_array(queue, held) for name, held in start.items()}
    kernel = made.kernel(level)
    room = groups * local
    if global_size is None:
        empty = [device_array(queue, np.zeros(1, np.int32))] * 9
        room = 2 * local * kernel.occupancy(queue, (local,), empty[0], np.uint32(0), np.uint32(0), *empty[1:]).groups
    many = {name: device_array(queue, np.zeros(room, dtype)) for name, dtype in DTYPES.items()}
    launch = kernel(
        queue,
        (groups * local,) if global_size == "given" else None,
        (local,),
        device_array(queue, x if len(x) else np.zeros(1, np.int32)),
        np.uint32(len(x)),
        np.uint32(receive),
        *receivers.values(),
        *many.values(),
    )
    launch.wait()
    return (
        {name: host_array(queue, held, DTYPES[name]) for name, held in receivers.items()},
        {name: host_array(queue, held, DTYPES[name]) for name, held in many.items()},
        launch,
    )


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("how", STRATEGIES)
@pytest.mark.parametrize("level", [level for level in LEVELS if not level.startswith("gang")])
def test_levels_within_a_group_give_every_member_the_result_once(context, queue, level, how):
    made = program(context, source(level), how, ordering="work_group", loops=[SUMS])
    for local in (1, 33, 64):
        for n in (0, 1, 1000):
            x = numbers(n, local)
            for receive in (0, 1):
                receivers, many, _ = run(context, queue, made, level, 2, local, x, receive)
                start = START | {"total": START["total"] + receive}
                for name, value in expected(x, start).items():
                    got = set(many[name].tolist())
                    assert got == {value}, (name, local, n, receive)
                    held = receivers[name].tolist()
                    assert value in held if receive else set(held) == {START[name] + (name == "total")}


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("how", STRATEGIES)
@pytest.mark.parametrize("level", [level for level in LEVELS if level.startswith("gang")])
def test_gang_levels_leave_the_result_in_the_receivers(context, queue, level, how):
    made = program(context, source(level), how, loops=[SUMS])
    many_groups = 40 if scale(context.devices[0]).is_simulator else 700
    for groups, local in ((1, 1), (1, 33), (7, 5), (many_groups, 8)):
        for n in (0, 1, 3000):
            x = numbers(n, groups)
            start = START | {"total": START["total"] + 1}
            for _ in range(2):  # nothing is cleared between launches
                receivers, _, _ = run(context, queue, made, level, groups, local, x, 1)
                for name, value in expected(x, start).items():
                    assert receivers[name][0] == value, (name, groups, local, n)


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("level", [level for level in LEVELS if level.startswith("gang")])
def test_gang_levels_without_receivers_stay_within_the_group(context, queue, level):
    made = program(context, source(level), loops=[SUMS])
    x = numbers(500, 3)
    receivers, many, _ = run(context, queue, made, level, 1, 33, x, 0)
    assert set(receivers["total"].tolist()) == {START["total"] + 1}
    # With one group, the group's own result is the whole.
    assert many["total"][0] == expected(x, START)["total"]


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("how", STRATEGIES)
@pytest.mark.parametrize("level", [level for level in LEVELS if level.startswith("gang")])
def test_in_a_grid_every_work_item_of_every_group_gets_the_result(context, queue, level, how):
    made = program(context, source(level, grid=True), how, loops=[SUMS])
    for local in (1, 33):
        for n in (0, 2000):
            x = numbers(n, local)
            for receive in (0, 1):
                receivers, many, launch = run(context, queue, made, level, 1, local, x, receive, global_size=None)
                start = START | {"total": START["total"] + receive}
                taking_part = launch.num_groups * local
                for name, value in expected(x, start).items():
                    assert set(many[name][:taking_part].tolist()) == {value}, (name, local, n, receive)
                    if receive:
                        assert receivers[name][0] == value
