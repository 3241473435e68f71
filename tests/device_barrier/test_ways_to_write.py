"""Ordinary ways to write a program with barriers, which PoCL's compiler took wrongly as they were."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pytest

import portbar
from tests import support
from tests.programs import zeros

pytestmark = pytest.mark.device

HEAD = '#include "portbar/device_barrier.h"\n'
_KERNEL = """
kernel void k(PORTBAR_GRID_PARAM, volatile global uint *a, global uint *out, const uint n)
{
    PORTBAR_ENTER(grid);
    const uint me = portbar_global_id(&grid), all = portbar_global_size(&grid);
    uint v = 0u;
    if (n == 5u) {
        a[me] = 2u * me;
        if (!MEET)
            return;
        v = a[(me + 1u) % all];
        if (get_local_id(0) == 3u)
            a[me] = 7u;
    }
    out[me] = v;
}
"""
_BARRIER = "portbar_device_barrier(&grid)"
_HELPER = "static bool g(portbar_grid *grid)\n{\n    bool ok = portbar_device_barrier(grid);\n    return ok;\n}\n"
_PLAIN = _KERNEL.replace("MEET", _BARRIER)
WAYS = {
    "plain": _PLAIN,
    "a helper": _HELPER + _KERNEL.replace("MEET", "g(&grid)"),
    "a helper after a function from a macro": "#define F(n) static uint f##n(uint x) { uint y = x; return y; }\nF(1)\n"
    + _HELPER
    + _KERNEL.replace("MEET", "g(&grid)"),
    "two heads of one if": _PLAIN.replace(
        "    if (n == 5u) {", "#ifdef EARLY\n    if (n == 4u) {\n#else\n    if (n == 5u) {\n#endif"
    ),
    "an empty macro after a head": "#define PURE\nstatic uint f(uint x) PURE\n{\n    uint y = x;\n    return y;\n}\n"
    + _PLAIN,
    "an if from a macro": "#define WHEN(x) if (x)\n" + _PLAIN.replace("if (n == 5u)", "WHEN(n == 5u)"),
    "all from a macro": f"#define BODY(n) {' '.join(_PLAIN[_PLAIN.index('    PORTBAR_ENTER') : _PLAIN.rindex('}')].split())}\n"
    + _PLAIN[: _PLAIN.index("    PORTBAR_ENTER")]
    + "    BODY(n)\n}\n",
    "a name from a macro": "#define MEETS portbar_device_barrier\n" + _KERNEL.replace("MEET", "MEETS(&grid)"),
    "two conditions": _PLAIN.replace("if (!portbar", "if (n == 5u && !portbar"),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_write_a_barrier_in_a_branch_is_right(
    context: cl.Context, queue: cl.CommandQueue, way: str
) -> None:
    kernel = support.kernel(context, HEAD + WAYS[way], "k")
    groups = kernel.occupancy(queue, (8,)).groups
    a, out = zeros(queue, 8 * groups), zeros(queue, 8 * groups)
    launch = kernel(queue, None, (8,), a, out, np.uint32(5))
    launch.wait()
    size = 8 * launch.num_groups
    assert out.get()[:size].tolist() == [2 * ((i + 1) % size) for i in range(size)]


_UNTIL_DONE = {
    "do-while": "do { bool go = false; FIRST again = go; } while (portbar_device_barrier_any(&grid, again));",
    "do": "do { bool go = false; FIRST again = portbar_device_barrier_any(&grid, go); } while (again);",
    "while": "again = true; while (again) { bool go = false; FIRST again = portbar_device_barrier_any(&grid, go); }",
}
_FIRST = """PORTBAR_FOR(i, &grid, n) { if (v[i] == 5) { v[i] = 6; go = true; } }
    if (!portbar_device_barrier(&grid)) return;
    PORTBAR_FOR(i, &grid, n) if (u[i] == -2) c[i] = u[i];"""


@pytest.mark.parametrize("form", _UNTIL_DONE)
@pytest.mark.parametrize("local", [1, 2, 16, 64])
def test_a_vote_may_end_a_loop(context: cl.Context, queue: cl.CommandQueue, form: str, local: int) -> None:
    n = 100 if support.scale(queue.device).is_simulator else 1000
    text = f"""{HEAD}
kernel void k(PORTBAR_GRID_PARAM, global int *u, global int *c, global int *v, uint n)
{{
    PORTBAR_ENTER(grid);
    bool again = false;
    {_UNTIL_DONE[form].replace("FIRST", _FIRST)}
}}
"""
    given = np.where(np.random.default_rng(1).random(n) < 0.6, -2, -1).astype(np.int32)
    u, c, v = (cl.array.to_device(queue, one) for one in (given, np.full(n, -1, np.int32), np.full(n, 5, np.int32)))
    support.kernel(context, text, "k")(queue, None, (local,), u, c, v, np.uint32(n)).wait()
    assert np.flatnonzero(c.get() != given)[:10].tolist() == []
    assert (v.get() == 6).all()


def test_a_store_after_a_sum_in_a_loop_over_tiles_is_made(context: cl.Context, queue: cl.CommandQueue) -> None:
    text = f"""{HEAD}
#define PORTBAR_REDUCTION_LOCAL_SIZE 8
#include "portbar/reduction.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *sums, global uint *done)
{{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const uint lid = portbar_local_linear_id();
    PORTBAR_FOR_TILES(tile, &grid, 20u) {{
        const uint total = portbar_work_group_reduce_add(scratch, tile + lid);
        if (lid == 0u)
            sums[tile] = total;
    }}
    if (lid == 0u)
        done[portbar_group_id(&grid)] = 1u;
}}
"""
    kernel = support.kernel(context, text, "k")
    sums, done = zeros(queue, 20), zeros(queue, kernel.occupancy(queue, (8,)).groups)
    kernel(queue, None, (8,), sums, done).wait()
    assert sums.get().tolist() == [8 * tile + 28 for tile in range(20)]


@pytest.mark.parametrize("local", [8, 13, 33])
def test_tasks_that_some_push_at_the_start_of_a_turn_are_done_once(
    context: cl.Context, queue: cl.CommandQueue, local: int
) -> None:
    text = """
#include "portbar/worklist.h"
kernel void k(PORTBAR_GRID_PARAM, global portbar_worklist *list, global uint *items, global uint *seen, const uint turns)
{
    local uint task;
    PORTBAR_ENTER(grid);
    PORTBAR_TASK_QUEUE(queue, &grid, list);
    const uint me = portbar_global_id(&grid), lid = portbar_local_linear_id();
    if (!portbar_device_barrier(&grid)) return;
    for (uint turn = 0u; turn < 1u + turns % 1u; ++turn) {
        if (me % 5u == 3u) portbar_task_queue_push(&grid, &queue, items, me);
        if (!portbar_device_barrier(&grid)) return;
        while (portbar_work_group_task_queue_pop(&grid, &queue, items, &task)) {
            const uint mine = task;
            if (lid == (uint)get_local_size(0) - 1u) atomic_inc(seen + mine);
        }
        if (!portbar_device_barrier(&grid)) return;
    }
}
"""
    if support.scale(queue.device).is_cut_short:
        pytest.skip("fences of diverging lanes are barriers on this device")
    kernel = support.kernel(context, text, "k")
    for groups in (1, min(2, kernel.occupancy(queue, (local,)).groups)):
        tasks, seen = portbar.TaskQueue(queue, 256), zeros(queue, 256)
        kernel(queue, None, (local,), *tasks.args, seen, np.uint32(2), num_groups=groups).wait()
        expected = [int(i % 5 == 3 and i < local * groups) for i in range(256)]
        assert seen.get().tolist() == expected


_ROUND = "a[me] = {0}; if (!portbar_device_barrier(&grid)) return; {1} a[(me + 1u) % all]; (void)portbar_device_barrier(&grid);"


def _round(value: str, result: str = "v +=") -> str:
    """Each work-item gives a value to the one before it."""
    return _ROUND.format(value, result)


def _next(values: np.ndarray) -> np.ndarray:
    return np.roll(values, -1)


_ANY = "portbar_device_barrier_any(&grid, me == 0u)"
#: Statements, and what `v` is after them for each `me`, by n.
STATEMENTS = {
    "a range of cases": (
        f"switch (n) {{ case 1u ... 3u: {_round('me')} break; case 5u: v = 8u; break; default: v = 9u; }}",
        lambda me, n: _next(me) if 1 <= n <= 3 else me * 0 + (8 if n == 5 else 9),
    ),
    "cases that share a variable": (
        (
            f"switch (n) {{ case 1u:; uint w = 3u; v = 1u; case 2u: w = n + 4u; {_round('w + me')} v += w; break; "
            f"case 3u: v = 7u; break; case 4u: {_round('me')} default: v += 2u; }}"
        ),
        lambda me, n: {1: _next(me + 5) + 6, 2: _next(me + 6) + 6, 3: me * 0 + 7, 4: _next(me) + 2}.get(n, me * 0 + 2),
    ),
    "a variable before the first case": (
        f"switch (n) {{ uint w = 1u; case 1u: w = 5u; {_round('me')} v += w; break; case 2u: {_round('2u * me')} }}",
        lambda me, n: {1: _next(me) + 5, 2: _next(2 * me)}.get(n, me * 0),
    ),
    "a switch of one statement": (
        f"switch (n) case 2u: {{ {_round('me')} }}",
        lambda me, n: _next(me) if n == 2 else me * 0,
    ),
    "cases that fall through": (
        f"switch (n) {{ default: v = 4u; case 1u: {_round('me')} case 2u: v += 1u; break; case 3u: {_round('3u * me')} }}",
        lambda me, n: {1: _next(me) + 1, 2: me * 0 + 1, 3: _next(3 * me)}.get(n, _next(me) + 5),
    ),
    "a statement expression": (
        f"v = ({{ uint w = n; if (n > 1u) {{ {_round('me', 'w +=')} }} w + 1u; }}) + n;",
        lambda me, n: (_next(me) if n > 1 else 0) + me * 0 + 2 * n + 1,
    ),
    "a macro with a statement expression": (
        f"v = LARGER({_ANY} ? n : 7u, 2u);",
        lambda me, n: me * 0 + max(n, 2),
    ),
    "a macro that evaluates a vote in a branch": (f"v = CHOSEN(n > 2u, {_ANY});", lambda me, n: me * 0 + (n > 2)),
    "a macro that evaluates a vote twice": (f"v = SUM({_ANY}, n);", lambda me, n: me * 0 + 2 + n),
    "a goto forward": (
        f"if (n == 2u) goto out; {_round('me')} out: v += 1u;",
        lambda me, n: (0 if n == 2 else _next(me)) + me * 0 + 1,
    ),
    "a goto back": (
        f"uint turn = 0u; again: v += turn; {_round('me')} if (++turn < n) goto again;",
        lambda me, n: max(n, 1) * _next(me) + sum(range(max(n, 1))),
    ),
    "a goto over branches": (
        (
            f"if (n > 3u) goto out; if (n == 1u) {{ {_round('me')} }} if (n == 2u) {{ {_round('me')} }} "
            f"else {{ {_round('2u * me')} }} out: v += 1u;"
        ),
        lambda me, n: (0 if n > 3 else _next(me) * (n in {1, 2}) + _next(2 * me) * (n != 2)) + me * 0 + 1,
    ),
    "a goto back over branches": (
        (
            f"uint turn = 0u; again: if (turn == 0u) {{ {_round('me')} }} if (turn == 1u) {{ {_round('2u * me')} }} "
            f"if (turn == 2u) {{ {_round('3u * me')} }} if (++turn < n) goto again;"
        ),
        lambda me, n: _next(me) * sum(range(min(max(n, 1), 3) + 1)),
    ),
    "a goto into the next turn and out": (
        (
            f"uint turn = 0u; again: if (++turn > n) goto out; if (turn == 2u) goto again; "
            f"if (turn == 1u) {{ {_round('me')} }} if (turn == 3u) {{ {_round('3u * me')} }} "
            f"if (turn < 4u) {{ {_round('me')} goto again; }} out: v += turn;"
        ),
        lambda me, n: _next(me) * (0, 2, 2, 6, 6, 6)[n] + me * 0 + min(n + 1, 4),
    ),
    "a goto out of a loop in a loop with a vote": (
        (
            f"uint turn = 0u; while ({_ANY}) {{ ++turn; for (uint j = 0u; j < n; ++j) {{ v += j; if (j == 2u) goto out; }} "
            f"if (turn > 1u) {{ break; }} {_round('me')} }} out: v += 100u;"
        ),
        lambda me, n: (3 if n > 2 else 2 * sum(range(n)) + _next(me)) + me * 0 + 100,
    ),
    "a goto after a branch of some": (
        (
            "for (uint k = 0u; k < 1u; ++k) { for (uint j = 0u; j < n; ++j) { if (me & 1u) v += 2u; goto out; } "
            f"if (me & 1u) {{ if (a[me] == 12345u) {{ v = 9u; }} }} }} if (n == 0u) {{ {_round('me')} }} "
            f"if (n > 6u) {{ {_round('me')} }} if (n > 7u) {{ {_round('me')} }} out: v += 1u;"
        ),
        lambda me, n: (2 * (me % 2) if n else _next(me)) + 1,
    ),
    "loops made of goto that some repeat": (
        (
            f"{_round('me')} uint k = 0u; again: ++k; uint j = 0u; more: ++j; v += k; if (j && n == 7u) goto more; "
            "if (k < n && (me & 1u)) goto again;"
        ),
        lambda me, n: _next(me) + np.where(me % 2, sum(range(max(n, 1) + 1)), 1),
    ),
    "goto where all and some meet": (
        f"if (n == 2u) goto out; {_round('me')} if (me & 1u) goto out; if (n) {{ if (me & 2u) v += 4u; }} out: v += 1u;",
        lambda me, n: me * 0 + 1 if n == 2 else _next(me) + 4 * ((me % 4 == 2) & (n > 0)) + 1,
    ),
    "a directive in a condition": (
        f"if (n &&\n#ifdef NOT_DEFINED\n n > 9u &&\n#else\n n > 1u &&\n#endif\n {_ANY}) v = n;",
        lambda me, n: me * 0 + (n if n > 1 else 0),
    ),
    "a condition without a value": (
        f"n > 2u ? (void){_ANY} : (void)(v = 5u); {_round('me')}",
        lambda me, n: _next(me) + (0 if n > 2 else 5),
    ),
    "a continue in a loop of work-items": (
        f"PORTBAR_FOR(i, &grid, 2u * all) {{ if (i % 3u == n % 3u) continue; v += i; }} {_round('me')}",
        None,
    ),
    "a dynamic loop in a loop": (
        (
            "for (uint turn = 0u; turn < n; ++turn) { PORTBAR_FOR_DYNAMIC(i, &grid, 50u, 3u) { if (i % 3u == 1u) continue; "
            "if (i % 2u) atomic_inc(counts); else atomic_inc(counts + 1); } }"
        ),
        lambda me, _n: me * 0,
    ),
}
_STATEMENT = """
#define LARGER(x, y) ({{ uint x_ = (x), y_ = (y); x_ > y_ ? x_ : y_; }})
#define CHOSEN(c, x) ((c) ? (uint)(x) : 0u)
#define SUM(x, y) ((x) + (x) + (y))
kernel void k(PORTBAR_GRID_PARAM, volatile global uint *a, global uint *out, volatile global uint *counts, const uint n)
{{
    PORTBAR_ENTER(grid);
    const uint me = portbar_global_id(&grid), all = portbar_global_size(&grid);
    uint v = 0u;
    {0}
    out[me] = v;
    if (get_local_id(0) == 0) {{
        if (n % 2u) atomic_inc(counts + 2); else atomic_inc(counts + 3);
    }}
}}
"""


@pytest.mark.parametrize("way", STATEMENTS)
def test_each_statement_around_a_barrier_is_right(context: cl.Context, queue: cl.CommandQueue, way: str) -> None:
    text, expected = STATEMENTS[way]
    if support.scale(queue.device).is_cut_short and "goto" in way:
        pytest.skip("lanes that jump are not lanes that branch on this device")
    kernel = support.kernel(context, HEAD + _STATEMENT.format(text), "k")
    for local in (1, 8):
        groups = kernel.occupancy(queue, (local,)).groups
        a, out = zeros(queue, local * groups), zeros(queue, local * groups)
        for n in range(6):
            counts = zeros(queue, 4)
            launch = kernel(queue, None, (local,), a, out, counts, np.uint32(n))
            launch.wait()
            size = local * launch.num_groups
            me = np.arange(size, dtype=np.uint32)
            if expected is None:
                found = np.where(me % 3 == n % 3, 0, me) + np.where((me + size) % 3 == n % 3, 0, me + size)
                assert out.get()[:size].sum() == found.sum() + _next(me).sum()
            else:
                assert out.get()[:size].tolist() == np.broadcast_to(expected(me, n), size).tolist(), n
            tail = [launch.num_groups * (n % 2), launch.num_groups * (1 - n % 2)]
            shares = [n * 16, n * 17] if "dynamic" in way else [0, 0]
            assert counts.get().tolist() == [*shares, *tail], n


_SWITCHES = {
    "a chain of cases": """switch (g % 4u) {
            case 3u: g += 1u; break;
            case 2u: g = portbar_work_group_reduce_add(scratch, 1u); break;
            default: (void)portbar_work_group_reduce_xor(scratch, g); g = 2u; break;
        }""",
    "a case that falls": """switch (turn) {
            case 2u: g += 5u;
            case 0u: g += 1u; break;
            default: g += portbar_device_broadcast(&grid, scratch, 3u, 0u); break;
        }""",
    "a case that falls from a chain": """switch (turn) {
            case 2u: g = 9u; break;
            case 1u: g += 1u;
            default: g += portbar_device_broadcast(&grid, scratch, g, 0u); break;
            case 3u: g = 11u; break;
        }""",
    "cases that share a variable": """switch (turn) {
            case 2u: ; uint kept; kept = g; g += kept; break;
            case 1u: kept = 4u; g = portbar_work_group_reduce_max(scratch, kept); break;
            default: g += 1u; break;
        }""",
}


def _after_switches(way: str, local: int) -> int:
    g = 7
    for turn in range(3):
        if way == "a chain of cases":
            g = {3: g + 1, 2: local}.get(g % 4, 2)
        elif way == "a case that falls":
            g += {2: 6, 0: 1}.get(turn, 3)
        elif way == "a case that falls from a chain":
            g = {2: 9, 1: 2 * (g + 1), 3: 11}.get(turn, 2 * g)
        else:
            g = {2: 2 * g, 1: 4}.get(turn, g + 1)
    return g


@pytest.mark.parametrize("way", _SWITCHES)
@pytest.mark.parametrize("local", [1, 2, 8])
def test_a_switch_in_a_loop_may_meet_in_some_cases(
    context: cl.Context, queue: cl.CommandQueue, way: str, local: int
) -> None:
    """For groups of one or two work-items PoCL copies the code for each, where `else if` after a case ended the process."""
    text = f"""{HEAD}#include "portbar/reduction.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *out, const uint turns)
{{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    uint g = 7u, v = 0u;
    for (uint turn = 0u; turn < turns; ++turn) {{
        {_SWITCHES[way]}
        v += g;
    }}
    out[portbar_global_id(&grid)] = g;
}}
"""
    kernel = support.kernel(context, text, "k")
    out = zeros(queue, local * kernel.occupancy(queue, (local,)).groups)
    launch = kernel(queue, None, (local,), out, np.uint32(3))
    launch.wait()
    size = local * launch.num_groups
    assert out.get()[:size].tolist() == [_after_switches(way, local)] * size


_TWO_BRANCHES = {
    "if and else": "if (lid % 4u == 3u) { if (lid != 3u) atomic_add(c, 1u); } else { if (lid) atomic_add(c + 1, lid); }",
    "without braces": "if (lid % 4u != 3u) if (lid) atomic_add(c + 1, lid); else; else if (lid != 3u) atomic_add(c, 1u);",
    "cases": """switch (lid % 4u) {
            case 3u: if (lid != 3u) atomic_add(c, 1u); break;
            default: if (lid) atomic_add(c + 1, lid); break;
        }""",
    "helpers": "if (lid % 4u == 3u) once(c, lid); else more(c + 1, lid);",
}


@pytest.mark.parametrize("way", _TWO_BRANCHES)
def test_two_branches_of_work_items_that_end_in_branches_may_lead_to_a_barrier(
    context: cl.Context, queue: cl.CommandQueue, way: str
) -> None:
    """PoCL 5.0 ended the process over the part between them and the barrier."""
    text = f"""{HEAD}
static void once(volatile global uint *c, uint lid) {{ if (lid != 3u) atomic_add(c, 1u); }}
static void more(volatile global uint *c, uint lid) {{ if (lid) atomic_add(c, lid); }}
kernel void k(PORTBAR_GRID_PARAM, volatile global uint *c, const uint n)
{{
    PORTBAR_ENTER(grid);
    const uint lid = (uint)get_local_id(0);
    for (uint t = 0u; t < n; ++t) {{
        {_TWO_BRANCHES[way]}
        if (!portbar_device_barrier(&grid))
            return;
    }}
}}
"""
    kernel, c = support.kernel(context, text, "k"), zeros(queue, 2)
    launch = kernel(queue, None, (8,), c, np.uint32(3), num_groups=min(2, kernel.occupancy(queue, (8,)).groups))
    launch.wait()
    assert c.get().tolist() == [3 * launch.num_groups, 54 * launch.num_groups]


_CONTINUES = {
    "if": "if (lid % 4u == 3u) { if (lid != 3u) atomic_add(c, 1u); continue; }",
    "loop": "if (lid % 4u == 3u) { for (uint k = 3u; k < lid; k += 4u) atomic_add(c, 1u); continue; }",
    "call": "if (lid % 4u == 3u) { once(c, lid); continue; }",
    "two": """if (lid == 3u) { if (n == 9u) atomic_add(c, 1u); continue; }
        if (lid == 7u) { if (n) atomic_add(c, 1u); continue; }""",
}


@pytest.mark.parametrize("way", _CONTINUES)
@pytest.mark.parametrize("tiles", [False, True], ids=["turns", "tiles"])
def test_work_items_may_continue_after_a_branch_of_their_own(
    context: cl.Context, queue: cl.CommandQueue, way: str, tiles: bool
) -> None:
    """As two branches that end in branches."""
    loop = "PORTBAR_FOR_TILES(t, &grid, n) {"
    if not tiles:
        loop = "for (uint t = 0u; t < n; ++t) { (void)portbar_device_barrier(&grid);"
    text = f"""{HEAD}
static void once(volatile global uint *c, uint lid) {{ if (lid != 3u) atomic_add(c, 1u); }}
kernel void k(PORTBAR_GRID_PARAM, volatile global uint *c, const uint n)
{{
    PORTBAR_ENTER(grid);
    const uint lid = (uint)get_local_id(0);
    {loop}
        {_CONTINUES[way]}
        if (lid)
            atomic_add(c + 1, lid);
        if (t == 0u)
            continue;
        if (lid == 1u)
            atomic_add(c + 2, t);
    }}
}}
"""
    kernel, c = support.kernel(context, text, "k"), zeros(queue, 3)
    launch = kernel(queue, None, (8,), c, np.uint32(3), num_groups=min(2, kernel.occupancy(queue, (8,)).groups))
    launch.wait()
    groups = 1 if tiles else launch.num_groups
    assert c.get().tolist() == [3 * groups, 54 * groups, 3 * groups]


#: The beginning of a kernel.
_REDUCES = f"""{HEAD}#include "portbar/reduction.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *out, global const uint *x, const uint n)
{{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const uint lid = (uint)get_local_id(0);
"""
_JUMPS_TO_THE_END = "if (lid & 1u) { if (x[k] == 1u) continue; } else { if (x[k] == 2u) continue; }"
_SUM = "v += portbar_work_group_reduce_add(scratch, 1u);"


@pytest.mark.parametrize(
    "body",
    [
        f"if (n == 99u) {{ v = 77u; }} else {{ {_SUM} {_JUMPS_TO_THE_END} }}",
        f"if (n == 99u) {{ {_SUM} }} else {{ switch (n) {{ case 3u: {_SUM} break; default: break; }} {_JUMPS_TO_THE_END} }}",
        f"if (n == 98u) break; {_SUM} {_JUMPS_TO_THE_END}",
        f"if (n) {{ if (n == 98u) break; {_SUM} {_JUMPS_TO_THE_END} }}",
        f"if (n) {{ if (n == 98u) break; {_SUM} {_JUMPS_TO_THE_END} ++v; }} v += 100u;",
    ],
)
def test_work_items_may_jump_from_two_branches_to_the_end_of_a_turn(
    context: cl.Context, queue: cl.CommandQueue, body: str
) -> None:
    """PoCL 5.0 ended the process where the branches come right before that end."""
    text = f"""{_REDUCES}    uint v = 0u;
    for (uint k = 0u; k < n; ++k) {{
        {body}
    }}
    if (n == 3u) {{ {_SUM} }}
    if (n == 3u) {{ {_SUM} }}
    out[portbar_global_id(&grid)] = v;
}}
"""
    kernel = support.kernel(context, text, "k")
    out, x = zeros(queue, 8), support.to_device(queue, np.arange(4, dtype=np.uint32))
    kernel(queue, None, (8,), out, x, np.uint32(3), num_groups=1).wait()
    expected = []
    for lid in range(8):
        stays = [k != (1 if lid & 1 else 2) for k in range(3)]
        expected.append(8 * 5 + sum(stays) * ("++v" in body) + 100 * sum(stays) * ("100u" in body))
    assert out.get().tolist() == expected


@pytest.mark.parametrize("many", [False, True])
def test_a_value_before_the_end_of_a_turn_of_a_loop_in_a_loop_is_kept(
    context: cl.Context, queue: cl.CommandQueue, *, many: bool
) -> None:
    """PoCL 5.0 lost it where some work-items jump to that end."""
    text = f"""{HEAD}#include "portbar/reduction.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *out, const uint n)
{{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    uint v = (uint)get_local_id(0), w = 0u;
    for (uint a = 0u; a < 1u; ++a) {{
        uint k = 0u;
        for (;;) {{
            if (portbar_work_group_reduce_max(scratch, (uint)(k < 2u)) == 0u)
                break;
            ++k;
            if (v)
                continue;
            v = 1u;
        }}
        w += 10u * v;
    }}
    {f"if (n == 3u) {{ {_SUM} }} " * 3 * many}
    out[portbar_global_id(&grid)] = v + w;
}}
"""
    kernel, out = support.kernel(context, text, "k"), zeros(queue, 8)
    kernel(queue, None, (8,), out, np.uint32(3), num_groups=1).wait()
    assert out.get().tolist() == [24 * many + 11 * max(1, lid) for lid in range(8)]


@pytest.mark.parametrize("begins", ["for (uint j = 2u; j > 0u; --j) atomic_add(c, 1u);", "twice(c);"])
def test_a_function_with_a_barrier_may_begin_with_a_loop(
    context: cl.Context, queue: cl.CommandQueue, begins: str
) -> None:
    """PoCL 5.0 ended the process, or compiled it for ever, where the call was in a branch."""
    text = f"""{HEAD}#include "portbar/reduction.h"
static void twice(volatile global uint *c) {{ for (uint j = 2u; j > 0u; --j) atomic_add(c, 1u); }}
static uint counted(volatile global uint *c, PORTBAR_SCRATCH_PARAM scratch)
{{
    {begins}
    return portbar_work_group_reduce_min(scratch, 5u);
}}
kernel void k(PORTBAR_GRID_PARAM, global uint *out, volatile global uint *c, const uint n)
{{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    uint v = 1u;
    if (n == 1u) {{
    }} else {{
        if (n) {{
            if (counted(c, scratch))
                v += portbar_work_group_reduce_add(scratch, 1u);
        }}
    }}
    out[portbar_global_id(&grid)] = v;
}}
"""
    kernel = support.kernel(context, text, "k")
    out, c = zeros(queue, 8), zeros(queue, 1)
    kernel(queue, None, (8,), out, c, np.uint32(3), num_groups=1).wait()
    assert out.get().tolist() == [9] * 8
    assert c.get().tolist() == [16]


def test_a_turn_of_a_loop_in_a_loop_may_end_in_a_branch_of_work_items(
    context: cl.Context, queue: cl.CommandQueue
) -> None:
    """PoCL 5.0 let all work-items take it."""
    text = f"""{_REDUCES}    uint v = 0u, sum = 0u;
    for (uint i = 0u; i < 1u; ++i) {{
        uint k = 0u;
        while (k < 1u) {{
            ++k;
            sum += portbar_work_group_reduce_add(scratch, lid);
            for (uint j = 0u; j < (lid != n); ++j)
                v ^= x[1];
        }}
    }}
    out[portbar_global_id(&grid)] = v + sum;
}}
"""
    kernel = support.kernel(context, text, "k")
    groups = min(2, kernel.occupancy(queue, (8,)).groups)
    out, x = zeros(queue, 8 * groups), support.to_device(queue, np.arange(4, dtype=np.uint32))
    kernel(queue, None, (8,), out, x, np.uint32(3), num_groups=groups).wait()
    assert out.get().tolist() == [29, 29, 29, 28, 29, 29, 29, 29] * groups


def test_a_work_item_goes_on_alone_after_a_loop_that_all_may_leave_in_two_ways(
    context: cl.Context, queue: cl.CommandQueue
) -> None:
    """PoCL 5.0 lost what only some work-items do between such a loop and the next barrier."""
    text = f"""{HEAD}
kernel void k(PORTBAR_GRID_PARAM, volatile global uint *c, const uint n)
{{
    PORTBAR_ENTER(grid);
    const uint lid = (uint)get_local_id(0), group = portbar_group_id(&grid);
    for (;;) {{
        if (!portbar_device_barrier_any(&grid, n != 0u))
            break;
        if (!portbar_device_barrier(&grid))
            return;
        if (lid)
            atomic_or(c + 2, 1u);
    }}
    if (lid == 0u && c[2] == 0u)
        atomic_add(c + group % 2u, 5u);
    if (portbar_device_barrier_count(&grid, true)) {{
    }}
}}
"""
    kernel, c = support.kernel(context, text, "k"), zeros(queue, 3)
    launch = kernel(queue, None, (8,), c, np.uint32(0), num_groups=min(2, kernel.occupancy(queue, (8,)).groups))
    launch.wait()
    assert c.get().tolist() == [5, 5 * (launch.num_groups - 1), 0]


#: Loops that work-items leave at different turns, each with the `v` of work-item `i` after it; `x` is six ones, then zeros.
LOOPS = {
    "a bound by ids": ("for (uint k = n; k > lid; --k) v = 5u;", lambda i, n: 5 if i < n else 0),
    "two conditions": ("for (uint k = n; k > 0u && lid == 0u; --k) v = 5u;", lambda i, n: 5 if n and i == 0 else 0),
    "a search": ("uint k = lid; while (x[k] != 0u) { ++k; v = 5u; }", lambda i, _: 5 if i < 6 else 0),
    "a break": (
        "for (uint k = n; k > 0u; --k) { if (lid == 3u) break; v = 5u; }",
        lambda i, n: 5 if n and i != 3 else 0,
    ),
    "a break or else": (
        "for (uint k = n; k > 0u; --k) { if (lid) break; else v = n; }",
        lambda i, n: n if i == 0 else 0,
    ),
    "a turn late": (
        "uint w = 0u; for (uint k = 0u; k < n; ++k) { if (k == lid) break; v = w; w = 5u; }",
        lambda i, n: 5 if min(i, n) > 1 else 0,
    ),
    "a loop in another": (
        "for (uint k = 3u; k > 0u; --k) if (n == 5u) { if (lid) break; v = 5u; } else for (uint j = 0u; j < n;) x[9] = ++j;",
        lambda i, n: 5 if n == 5 and i == 0 else 0,
    ),
    "a function": ("v = found(x, lid);", lambda i, _: 5 if i < 6 else 0),
    "a macro": ("TURNS(x[lid] && k < n) v = 5u;", lambda i, n: 5 if i < 6 and n else 0),
    "a loop over the grid": ("PORTBAR_FOR(i, &grid, n) v = 5u;", None),
}


@pytest.mark.parametrize("way", LOOPS)
@pytest.mark.parametrize("turns", [0, 1, 5])
def test_a_variable_keeps_each_work_item_s_value_after_a_loop_that_some_leave_before_others(
    context: cl.Context, queue: cl.CommandQueue, way: str, turns: int
) -> None:
    """PoCL 3.0 and 3.1 took it for the same in all where each value that the loop gives it is; in plain OpenCL C, too."""
    loop, expected = LOOPS[way]
    text = f"""{HEAD}
#define TURNS(c) for (uint k = 0u; c; ++k)
static uint found(global const uint *x, uint k)
{{
    uint v = 0u;
    while (x[k] != 0u) {{
        ++k;
        v = 5u;
    }}
    return v;
}}

kernel void k(PORTBAR_GRID_PARAM, global uint *x, global uint *out, const uint n)
{{
    PORTBAR_ENTER(grid);
    const uint lid = (uint)get_local_id(0);
    uint v = 0u;
    {loop}
    barrier(CLK_LOCAL_MEM_FENCE);
    out[portbar_global_id(&grid)] = v;
}}
"""
    kernel, out = support.kernel(context, text, "k"), zeros(queue, 8)
    x = support.to_device(queue, np.array([1] * 6 + [0] * 10, dtype=np.uint32))
    kernel(queue, None, (8,), x, out, np.uint32(turns), num_groups=1).wait()
    found = out.get().tolist()
    if expected is None:
        assert sorted(found) == [0] * (8 - turns) + [5] * turns
    else:
        assert found == [expected(i, turns) for i in range(8)]


def test_a_vote_on_ids_decides_between_sums_and_a_branch_of_ids(context: cl.Context, queue: cl.CommandQueue) -> None:
    """A random program made small: on an H100 one of its three votes came out as true."""
    text = f"""{HEAD}#include "portbar/reduction.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *cell, global uint *out, const uint n)
{{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const uint lid = (uint)get_local_id(0), me = portbar_global_id(&grid);
    uint v0 = 0u, v1 = 0u, g0 = 0u, k = 0u;
    while (k < n) {{
        ++k;
        if (portbar_device_barrier_all(&grid, lid < 3u)) {{
            {{
                sum_local d = {{ 1u }};
                d = sum_reduce_gang_worker_vector(&grid, scratch, d);
                v0 += d.total;
            }}
            {{
                sum_local d = {{ v1 }};
                d = sum_reduce_gang_worker_vector(&grid, scratch, d);
                g0 += d.total;
            }}
        }} else {{
            if (lid)
                atomic_max(cell, 7u);
        }}
    }}
    out[me] = v0 + g0;
}}
"""
    loops = (portbar.ReductionLoop("sum", {"total": portbar.Reduction(np.uint32, "+")}),)
    kernel = portbar.Program(context, text, reductions=loops).kernel("k")
    groups = min(4, kernel.occupancy(queue, (8,)).groups)
    cell, out = zeros(queue, 1), zeros(queue, 8 * groups)
    kernel(queue, None, (8,), cell, out, np.uint32(3), num_groups=groups).wait()
    assert out.get().tolist() == [0] * (8 * groups)


_MANY = 9


def _many_branches() -> str:
    meets = (
        "a[me] = v; barrier(CLK_GLOBAL_MEM_FENCE); v += a[me ^ 1u]; barrier(CLK_GLOBAL_MEM_FENCE); if (v & 1u) v += 7u;"
    )
    other = "v = 3u * v + me; barrier(CLK_GLOBAL_MEM_FENCE);"
    branches = "\n".join(
        f"if (chosen & {1 << one}u) {{ {meets} }}{f' else {{ {other} }}' if one % 2 else ''}" for one in range(_MANY)
    )
    return f"""
kernel void k(PORTBAR_GRID_PARAM, volatile global uint *a, global uint *out, const uint chosen, const uint n)
{{
    PORTBAR_ENTER(grid);
    const uint me = portbar_global_id(&grid);
    uint v = me;
    for (uint turn = 0u; turn < n; ++turn) {{
{branches}
        const bool both = (chosen & 1u) && portbar_device_barrier_any(&grid, me == 2u);
        v += (chosen & 2u) ? (portbar_device_barrier_all(&grid, true) ? 5u : 6u) : both ? 9u : 1u;
    }}
    out[me] = v;
}}
"""


def _after_many(chosen: int, turns: int, size: int) -> np.ndarray:
    me = np.arange(size, dtype=np.uint32)
    v = me.copy()
    for _ in range(turns):
        for one in range(_MANY):
            if chosen >> one & 1:
                v += v[me ^ np.uint32(1)]
                v = np.where(v & np.uint32(1), v + np.uint32(7), v)
            elif one % 2:
                v = np.uint32(3) * v + me
        v += np.uint32(5 if chosen & 2 else 9 if chosen & 1 else 1)
    return v


def test_many_branches_with_barriers_are_built_in_time_and_right(context: cl.Context, queue: cl.CommandQueue) -> None:
    """PoCL copies all code after each: with branches as they are written, building this takes it hours."""
    kernel = support.kernel(context, HEAD + _many_branches(), "k")
    seed = 20
    drawn = np.random.default_rng(seed).integers(0, 1 << _MANY, 12)
    for chosen in (0, (1 << _MANY) - 1, *map(int, drawn)):
        a, out = zeros(queue, 16), zeros(queue, 16)
        launch = kernel(queue, (16,), (8,), a, out, np.uint32(chosen), np.uint32(3))
        launch.wait()
        size = 8 * launch.num_groups
        assert out.get()[:size].tolist() == _after_many(chosen, 3, size).tolist(), (seed, chosen)
