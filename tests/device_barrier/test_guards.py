"""Jumps of all that none makes, in places to which only some work-items come: guards against what never happens.

PoCL took the conditions around such a jump for the same in all of a work-group, and gave all of them one work-item's way.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyopencl as cl
import pytest

from tests import support

pytestmark = pytest.mark.device

ITEMS, TURNS, ROOM = 8, 3, 64
HEAD = """
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
"""
KERNEL = (
    HEAD
    + """
kernel void k(PORTBAR_GRID_PARAM, global uint *out, global const uint *from, const uint n)
{{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const uint me = portbar_global_id(&grid), x = from[me];
    uint v = 0u;
    for (uint t = 0u; t < {turns}u; ++t) {{
        v += portbar_work_group_broadcast(scratch, 100u, t);
        {body}
    }}
    away: out[me] = v;
}}
"""
)
#: A branch with a barrier. With three or more, the work-group jumps by a flag.
BRANCH = "if (n == 3u) v += portbar_work_group_broadcast(scratch, 0u, t);\n"


def chain(v: int, x: int) -> int:
    return v + (11 if x & 1 else 3 if x & 2 else 0) + 1000


def cases(v: int, x: int) -> int:
    v += {1: 5, 2: 7}.get(x & 3, 1)
    return v + 1000 if x & 3 in (1, 2) else v


def loop_of_labels(v: int, x: int) -> int:
    v += 1
    while v & 7 < x & 7:
        v += 1
    return v + 1000


def nested(v: int, x: int) -> int:
    if x & 1:
        if x & 7 == 1:
            return v + 16 + 1000 + 20000
        v += 6 if x & 7 == 3 else 4 if x & 7 == 5 else 8
        if x & 7 in (3, 5):
            return v
        return v + 16 + 1000 + 20000
    return v + sum(range(min(x, 4))) + 1000 + 20000


def once(v: int, x: int) -> int:
    v += 0 if x & 1 else 3 if x & 2 else 8
    return v + 1000


#: Name -> statements of a turn, and what they make of `v`. All conditions with 99 or more are false.
BODIES: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "return in a branch": (
        "if (x & 1u) { v += 1u; if (v > 100000u) return; v += 10u; }",
        lambda v, x: v + 11 * (x & 1),
    ),
    "in a chain of branches": (
        """if (x & 1u) { v += 1u; if (v > 100000u) break; v += 10u; }
        else if (x & 2u) { if (n == 99u) return; v += 3u; } v += 1000u;""",
        chain,
    ),
    "break after a continue": (
        "if (x & 1u) continue; v += 1u; if (n == 99u) break; v += 10u;",
        lambda v, x: v + 11 * (not x & 1),
    ),
    "break in the way of a continue": (
        "if (x & 1u) continue; else if (n == 99u) break; v += 3u;",
        lambda v, x: v + 3 * (not x & 1),
    ),
    "return after a goto": (
        "if (x & 1u) goto next; v += 1u; if (n == 99u) return; v += 10u; next: v += 1000u;",
        lambda v, x: v + 1000 + 11 * (not x & 1),
    ),
    "in cases": (
        """switch ((x & 3u) + n) { case 4u: v += 5u; break; case 5u: if (n == 99u) return; v += 7u; break;
        default: v += 1u; if (n == 98u) goto away; continue; } v += 1000u;""",
        cases,
    ),
    "in a loop": (
        "for (uint j = 0u; j < x; ++j) { if (j == 2u) goto next; if (n == 99u) return; v += 1u; } v += 5u; next: v += 1000u;",
        lambda v, x: v + min(x, 2) + (5 if x <= 2 else 0) + 1000,
    ),
    "out of a loop of labels": (
        "again: v += 1u; if (n == 99u) break; if ((v & 7u) < (x & 7u)) goto again; v += 1000u;",
        loop_of_labels,
    ),
    "to the label of a loop of labels": (
        """again: v += 1u; if ((v & 7u) < (x & 7u)) goto again; if (n == 99u) { v = 0u; goto again; } v += 1000u;
        v += portbar_work_group_broadcast(scratch, 0u, t); if (n == 99u) goto again;""",
        loop_of_labels,
    ),
    "in a block with a barrier": (
        """if (n == 3u) { { v += portbar_work_group_broadcast(scratch, 10u, t); if (x & 1u) continue;
        if (n == 99u) break; v += 1u; } v += 1u; } v += 1000u;""",
        lambda v, x: v + 10 if x & 1 else v + 1012,
    ),
    "several ways out": (
        """if (x & 1u) { switch ((x & 7u) + n) {
        case 4u: if (n == 99u) return; break; case 6u: v += 2u; if (v == 777777u) goto away;
        case 8u: v += 4u; if (n == 98u) break; continue; default: v += 8u; } v += 16u; }
        else { for (uint j = 0u; j < x; ++j) { if (j > 3u) break; if (n == 97u) return; v += j; } } v += 1000u; v += 20000u;""",
        nested,
    ),
    "out of a loop of one turn": (
        """do { v += portbar_work_group_broadcast(scratch, 0u, t); if (x & 1u) break; if (n == 99u) return; v += 3u;
        if (x & 2u) continue; if (n == 98u) goto away; v += 5u; } while (0); v += 1000u;""",
        once,
    ),
}


@pytest.mark.parametrize("branches", [0, 3], ids=["few", "many"])
@pytest.mark.parametrize("name", BODIES)
def test_a_guard_in_the_way_of_some_changes_nothing(
    context: cl.Context, queue: cl.CommandQueue, name: str, branches: int
) -> None:
    body, turn = BODIES[name]
    kernel = support.kernel(context, KERNEL.format(turns=TURNS, body=branches * BRANCH + body), "k")
    numbers = np.arange(ROOM, dtype=np.uint32)
    out, given = support.filled(queue, ROOM), support.to_device(queue, numbers)
    groups = min(2, kernel.occupancy(queue, (ITEMS,)).groups)
    launch = kernel(queue, None, (ITEMS,), out, given, np.uint32(3), num_groups=groups)
    launch.wait()

    def last(x: int) -> int:
        v = 0
        for _ in range(TURNS):
            v = turn(v + 100, x)
        return v

    size = ITEMS * launch.num_groups
    assert support.uints(queue, out)[:size].tolist() == [last(x) for x in range(size)]


@pytest.mark.parametrize("n", [3, 99])
def test_a_guard_that_all_meet_is_made_by_all(context: cl.Context, queue: cl.CommandQueue, n: int) -> None:
    """In a helper, too: who does not make the jump goes on with the barrier after it."""
    text = f"""{HEAD}
static uint two(PORTBAR_SCRATCH_PARAM scratch, uint v, const uint x, const uint n)
{{
    if (x < 1000u) {{
        v += 1u;
        if (n == 99u)
            return v;
        v += x;
    }}
    return v + portbar_work_group_reduce_add(scratch, 1u);
}}
kernel void k(PORTBAR_GRID_PARAM, global uint *out, global const uint *from, const uint n)
{{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const uint me = portbar_global_id(&grid);
    uint v = two(scratch, 5u, from[me], n);
    if (from[me] < 1000u) {{
        v += 100u;
        if (n == 99u) {{
            out[me] = v;
            return;
        }}
        v += 100u;
    }}
    out[me] = v + portbar_work_group_reduce_add(scratch, 1u);
}}
"""
    kernel = support.kernel(context, text, "k")
    numbers = np.arange(ROOM, dtype=np.uint32)
    out, given = support.filled(queue, ROOM), support.to_device(queue, numbers)
    kernel(queue, None, (ITEMS,), out, given, np.uint32(n), num_groups=1).wait()
    expected = [106 if n == 99 else 206 + x + 2 * ITEMS for x in range(ITEMS)]
    assert support.uints(queue, out)[:ITEMS].tolist() == expected


@pytest.mark.parametrize("n", [2, 5])
def test_the_work_group_may_leave_a_do_loop_by_a_break(context: cl.Context, queue: cl.CommandQueue, n: int) -> None:
    """With a second end of such a loop, PoCL 5.0 ended the process, or the kernel did."""
    text = f"""{HEAD}
kernel void k(PORTBAR_GRID_PARAM, global uint *out, global const uint *from, const uint n)
{{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const uint me = portbar_global_id(&grid);
    uint v = 0u, w = 0u, t = 0u;
    do {{
        ++t;
        out[me] = t;
        barrier(CLK_GLOBAL_MEM_FENCE);
        v += out[me ^ 1u];
        if (!portbar_device_barrier(&grid))
            return;
        if (t == n) {{
            break;
        }}
        w += 100u;
    }} while (t < 3u);
    out[me] = v + w;
}}
"""
    kernel = support.kernel(context, text, "k")
    out, given = support.filled(queue, ROOM), support.filled(queue, ROOM)
    launch = kernel(queue, None, (ITEMS,), out, given, np.uint32(n), num_groups=1)
    launch.wait()
    assert support.uints(queue, out)[:ITEMS].tolist() == [103 if n == 2 else 306] * ITEMS
