"""Branches for all values that a compiler knows a value can have: PoCL let work-items take each other's, or ended the process.

LLVM makes a `switch` without a default of them, and PoCL a way to the end of the kernel of the default.
"""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.device import quirks
from portbar.device.facts import facts
from tests import support

pytestmark = pytest.mark.device

ITEMS, ROOM = 8, 64
HEAD = """
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"

static uint returned(volatile global uint *counts, uint c, uint v)
{
    switch (c & 3u) {
    case 0u: atomic_inc(counts); return v + 10u;
    case 1u: atomic_inc(counts + 1); return v ^ 32u;
    case 2u: atomic_inc(counts + 2); return v * 3u;
    case 3u: atomic_inc(counts + 3); return v + 40u;
    }
    return 0u;
}

static uint chained(volatile global uint *counts, uint c, uint v)
{
    c &= 3u;
    if (c == 0u) {
        atomic_inc(counts);
        return v + 10u;
    }
    if (c == 1u) {
        atomic_inc(counts + 1);
        return v ^ 32u;
    }
    if (c == 2u) {
        atomic_inc(counts + 2);
        return v * 3u;
    }
    if (c == 3u) {
        atomic_inc(counts + 3);
        return v + 40u;
    }
    return 0u;
}
"""
CALLS = """
static uint add(volatile global uint *counts, const uint v) { atomic_inc(counts); return v + 10u; }
static uint flip(volatile global uint *counts, const uint v) { atomic_inc(counts + 1); return v ^ 32u; }
static uint triple(volatile global uint *counts, const uint v) { atomic_inc(counts + 2); return v * 3u; }
static uint more(volatile global uint *counts, const uint v) { atomic_inc(counts + 3); return v + 40u; }
static bool is(const uint c, const uint one) { return c == one; }
#define IF(condition) if (condition)
#define SWITCH(value) switch (value)
#define ON(n, arm) if (c == n) { arm }
"""
KERNEL = """
kernel void k(PORTBAR_GRID_PARAM, volatile global uint *counts, global uint *out, global const uint *from, const uint turns)
{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const uint me = portbar_global_id(&grid), x = from[me], c = x & 3u;
    uint v = me;
    for (uint t = 0u; t < turns; ++t) {
        BODY
        v += portbar_work_group_reduce_add(scratch, 1u);
    }
    out[me] = v;
}
"""
ARMS = tuple(
    f"atomic_inc(counts + {place}); {change};"
    for place, change in enumerate(("v += 10u", "v ^= 32u", "v *= 3u", "v += 40u"))
)
CASES = " ".join(f"case {number}u: {arm} break;" for number, arm in enumerate(ARMS))
#: Ways to write the same four branches.
WAYS = {
    "switch": f"switch (x & 3u) {{ {CASES} }}",
    "a remainder": f"switch (x % 4u) {{ {CASES} }}",
    "of two conditions": f"switch ((x & 2u ? 1 : 0) * 2 + (x & 1u ? 1 : 0)) {{ {CASES.replace('u:', ':')} }}",
    "a default that nothing takes": f"switch (c) {{ {CASES} default: v += 1000u; }}",
    "a default that is never reached": f"switch (c % 5u) {{ {CASES} default: __builtin_unreachable(); }}",
    "a chain": " else ".join(f"if (c == {number}u) {{ {arm} }}" for number, arm in enumerate(ARMS)),
    "a chain in another order": " else ".join(f"if ({number}u == c) {{ {ARMS[number]} }}" for number in (3, 1, 0, 2)),
    "a chain with an else": " else ".join(f"if (c == {number}u) {{ {arm} }}" for number, arm in enumerate(ARMS))
    + " else v += 1000u;",
    "branches in branches": (
        f"if (c != 0u) {{ if (c != 1u) {{ if (c != 2u) {{ if (c == 3u) {{ {ARMS[3]} }} }} else {{ {ARMS[2]} }} }}"
        f" else {{ {ARMS[1]} }} }} else {{ {ARMS[0]} }}"
    ),
    "returns of a function": "v = returned(counts, x, v);",
    "a chain of returns": "v = chained(counts, x, v);",
    "conditional operators": (
        "v = c == 0u ? add(counts, v) : c == 1u ? flip(counts, v) : c == 2u ? triple(counts, v) : more(counts, v);"
    ),
    "logical operators": (
        "uint w = 0u; (void)((c == 0u && (w = add(counts, v))) || (c == 1u && (w = flip(counts, v))) || "
        "(c == 2u && (w = triple(counts, v))) || (c == 3u && (w = more(counts, v)))); v = w;"
    ),
    "a statement in an expression": (
        "v = ({ uint w = v; switch (c) { case 0u: w = add(counts, w); break; case 1u: w = flip(counts, w); break; "
        "case 2u: w = triple(counts, w); break; case 3u: w = more(counts, w); } w; });"
    ),
    **{
        name: " else ".join(f"{condition} {{ {arm} }}" for condition, arm in zip(conditions, ARMS, strict=True))
        for name, conditions in {
            "differences": ("if (!c)", "if (!(c - 1u))", "if (!(c - 2u))", "if (!(c - 3u))"),
            "bits that differ": ("if (!c)", "if (!(c ^ 1u))", "if (!(c ^ 2u))", "if (!(c ^ 3u))"),
            "the value in several ways": (
                *("if (c == 0u)", "if ((x & 3u) == 1u)", "if ((uint)(c) == 2u)", "if (x % 4u == 3u)"),
            ),
            "a function's": ("if (is(c, 0u))", "if (is(c, 1u))", "if (is(c, 2u))", "if (is(c, 3u))"),
            "orders": ("if (c < 1u)", "if (c < 2u)", "if (c < 3u)", "if (c < 4u)"),
            "a macro's": ("IF(c == 0u)", "IF(c == 1u)", "IF(c == 2u)", "IF(c == 3u)"),
            "two of which one is never": (
                *(
                    "if (c == 0u || c == 9u)",
                    "if (c == 1u || c == 8u)",
                    "if (c == 2u || c == 7u)",
                    "if (c == 3u || c == 6u)",
                ),
            ),
        }.items()
    },
    "a macro's switch": f"SWITCH(c) {{ {CASES} }}",
    "a macro's arms": " else ".join(f"ON({number}u, {arm})" for number, arm in enumerate(ARMS)),
    # Loops that end where one of all values is found.
    **{
        name: loop.replace(
            "LEAVES", " ".join(f"if (c == {number}u) {{ {arm} {leave} }}" for number, arm in enumerate(ARMS))
        )
        for name, (loop, leave) in {
            "a loop without a condition": ("for (;;) { LEAVES }", "break;"),
            "a loop with a flag": ("bool more = true; while (more) { LEAVES }", "more = false; continue;"),
            "a loop that tests at its end": ("do { LEAVES } while (true);", "break;"),
            "a loop made of jumps": ("again: LEAVES goto again; out: ;", "goto out;"),
        }.items()
    },
    "a loop of a switch": f"bool more = true; while (more) switch (c) {{ {CASES.replace('break;', 'more = false; break;')} }}",
    "a loop of switches": f"for (uint i = 0u; i < 1u; ++i) switch (x & 3u) {{ {CASES} }}",
}


@pytest.mark.parametrize("way", WAYS)
def test_each_work_item_takes_its_own_of_all_branches(context: cl.Context, queue: cl.CommandQueue, way: str) -> None:
    source = HEAD + CALLS + KERNEL.replace("BODY", WAYS[way])
    if "oclgrind-narrow-switches" in {quirk.name for quirk in quirks.matching(facts(context.devices[0]))}:
        kernel = portbar.Program(context, source, options="-cl-opt-disable").kernel("k")
    else:
        kernel = support.kernel(context, source, "k")
    numbers = np.arange(ROOM, dtype=np.uint64) * 2654435761 % 2**32 >> 13
    counts, out = support.filled(queue, 4), support.filled(queue, ROOM)
    given = support.to_device(queue, numbers.astype(np.uint32))
    groups, turns = min(2, kernel.occupancy(queue, (ITEMS,)).groups), 3
    launch = kernel(queue, None, (ITEMS,), counts, out, given, np.uint32(turns), num_groups=groups)
    launch.wait()
    size = ITEMS * launch.num_groups
    expected, taken = [], [0] * 4
    for me in range(size):
        v, c = me, int(numbers[me]) & 3
        for _ in range(turns):
            v = (v + 10, v ^ 32, v * 3, v + 40)[c] + ITEMS
        taken[c] += turns
        expected.append(v)
    assert support.uints(queue, out)[:size].tolist() == expected
    assert support.uints(queue, counts).tolist() == taken
