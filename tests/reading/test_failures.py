"""Loops that end after a fault are accepted, whatever they look like; those that do not are named with the call."""

from __future__ import annotations

import pytest

from portbar.primitives.headers import declarations
from portbar.reading.reader import is_available, read
from tests.reading.programs import grid

pytestmark = pytest.mark.skipif(not is_available(), reason="no libclang for this platform")

B = "portbar_device_barrier(&grid)"
#: Loops that a fault ends, or of which that is not known.
ENDING = {
    "by return": f"while (a[0] < n) if (!{B}) return;",
    "by a condition": f"while ({B}) a[0] += 1;",
    "by one of two": f"while (a[0] < n && {B}) a[0] += 1;",
    "by a count": f"for (uint i = 0; i < n; ++i) {{ {B}; a[i] = 1; }}",
    "by a count of tries": f"uint tries = 0; while (!{B}) if (++tries == 3) break;",
    "by a count in the condition": f"uint tries = 0; while (!{B} && tries++ < 3) a[0] += 1;",
    "by a helper's result that is not known": "while (!unknown(&grid)) a[0] += 1;",
    "by memory": f"while (a[0] != 0) {{ {B}; a[0] -= 1; }}",
    "by memory that others write": f"for (uint left = 1; left != 0;) {{ {B}; left = *a; {B}; }}",
    "by a pointer": f"bool go = true; bool *p = &go; while (go) {{ if (!{B}) *p = false; }}",
    "by a structure": f"struct {{ bool go; }} s = {{ true }}; while (s.go) {{ s.go = {B}; }}",
    "by local memory": f"local bool go; go = true; while (go) {{ if (!{B}) go = false; }}",
    "by a function that writes": f"bool go = true; while (go) {{ if (!{B}) stop(&go); }}",
    "by goto": f"while (true) {{ if (!{B}) goto end; a[0] += 1; }} end: a[1] = 1;",
    "by break in a block": f"while (true) {{ bool ok = {B}; {{ if (ok == false) {{ break; }} }} a[0] += 1; }}",
    "by a switch": f"while (true) {{ switch (a[0]) {{ case 1: if (!{B}) return; break; default: break; }} }}",
    "by the outer loop's condition": f"bool ok = true; while (ok) for (uint i = 0; ok && i < n; ++i) ok = {B};",
    "by a block that is gone through once": "do { if (portbar_device_barrier_any(&grid, n > 3)) return; } while (0);",
    "by a vote": "bool go = true; while (go) go = portbar_device_barrier_any(&grid, a[0] > 3);",
    "by a vote of all": "while (!portbar_device_barrier_all(&grid, a[0] > 3)) a[0] += 1;",
    "by a count of votes": "while (portbar_device_barrier_count(&grid, a[0] > 3) > 0) a[0] += 1;",
    "by counts that may differ": "while (portbar_device_barrier_count(&grid, a[0] > 3) < n) a[0] += 1;",
    "by the state of the launch": "while (portbar_device_ok(&grid) && !portbar_device_barrier_any(&grid, a[0] > 3)) a[0] += 1;",
    "by a test": "portbar_device_token t = portbar_device_barrier_arrive(&grid); "
    "while (!portbar_device_barrier_test_wait(&grid, t)) a[0] += 1;",
    "by a result that is kept": f"bool ok = true; do {{ ok = ok && {B}; a[0] += 1; }} while (ok);",
    "by a result that is joined": f"bool ok = true; do {{ ok &= {B}; a[0] += 1; }} while (ok);",
    "by a ternary": f"uint go = 1; while (go) go = {B} ? a[0] : 0u;",
    "by a flag before continue": (
        f"bool bad = false; while (!bad) {{ if (!{B}) {{ bad = true; continue; }} a[0] += 1; }}"
    ),
    "by a counter before continue": f"uint i = 0; while (i < n) {{ if (!{B}) {{ i = n; continue; }} a[i++] = 1; }}",
    "by memory before continue": f"a[0] = 1; while (a[0]) {{ if (!{B}) {{ a[0] = 0; continue; }} a[1] += 1; }}",
    "continue on success": f"for (uint i = 0; i < n; ++i) {{ if ({B}) continue; return; }}",
    "continue on a vote": (
        "for (uint i = 0; i < n; ++i) { if (!portbar_device_barrier_any(&grid, a[i] > 3)) continue; a[i] = 1; }"
    ),
    "continue of a loop inside": f"for (uint i = 0; i < n; ++i) {{ if (!{B}) {{ for (uint j = 0; j < n; ++j) "
    "{ if (j == 3) continue; a[j] = 0; } return; } }",
    "no end at all": f"while (true) {{ {B}; a[0] += 1; }}",
    "a condition that nothing changes": f"while (n > 3) {{ {B}; a[0] += 1; }}",
    "by a trap": f"while (true) {{ if (!{B}) __builtin_trap(); else if (a[0]) break; }}",
    "by a pointer to the result": f"bool ok = false; bool *p = &ok; while (!ok) {{ ok = {B}; *p = true; }}",
    "by a result that others may write": f"local bool ok; ok = false; while (!ok) ok = {B};",
    "in the second turn of a loop inside": (
        f"bool ok; do {{ ok = {B}; bool go = false; for (uint i = 0; i < n; ++i) {{ if (go) return; go = true; }} }} "
        "while (!ok);"
    ),
    "by what a loop inside assigns": f"bool ok; do {{ ok = {B}; for (uint i = 0; i < n; ++i) ok = true; }} while (!ok);",
}
HELPERS = """\
bool unknown(portbar_grid *g);
void stop(bool *go);
"""


@pytest.mark.parametrize("name", ENDING)
def test_a_loop_that_a_fault_may_end_is_accepted(name):
    include, _, rest = grid(f"    {ENDING[name]}").partition("\n")
    text = f"{include}\n{HELPERS}{rest}"
    found = read("k.cl", text, declarations())
    assert not found.unread
    assert not found.misuses
    # The same with a loop that nothing ends is refused.
    endless = text.replace("PORTBAR_ENTER(grid);", f"PORTBAR_ENTER(grid); do {{ a[n] += 1; }} while (!{B});")
    (misuse,) = read("k.cl", endless, declarations()).misuses
    assert misuse.kind == "failure"


def test_the_report_has_the_loop_or_the_jump_and_what_to_write():
    (misuse,) = read("k.cl", grid(f"    while (!{B})\n        a[0] += 1;"), declarations()).misuses
    assert (misuse.place.line, misuse.condition.line, misuse.call) == (5, 5, "portbar_device_barrier")
    assert "never ends" in misuse.message
    assert "return;" in misuse.remedy
    loop = f"    for (uint i = 0; i < n; ++i) {{\n        if (!{B})\n            continue;\n        a[i] = 1;\n    }}"
    (misuse,) = read("k.cl", grid(loop), declarations()).misuses
    assert (misuse.place.line, misuse.condition.line) == (6, 7)
    assert misuse.steps[0].says.endswith("the loop in line 5")
    (misuse,) = read(
        "k.cl", grid("    while (portbar_device_barrier_all(&grid, a[0] < n)) a[0] += 1;"), declarations()
    ).misuses
    assert "returns true at once" in misuse.message
    assert "portbar_device_ok" in misuse.remedy


#: Bounds that fit 32 bits, or that the author says fit.
FITTING = (
    "n",
    "n * n",
    "8",
    "8ul",
    "sizeof(uint) * 4",
    "0xfffffffful",
    "get_global_size(0)",
    "n * get_local_size(0)",
    "get_num_groups(0) * get_local_size(0) / 2",
    "(uint)big",
    "(int)(big / 2)",
    "(size_t)n",
    "(size_t)n * sizeof(uint)",
    "(ulong)n + 1",
    "min(big, (ulong)n)",
    "n > 3 ? get_global_size(0) : n",
    "big & 0xff",
    "big % 8",
    "big >> 32",
    "stride",
    "small",
    "a[3]",
    "portbar_global_size(&grid)",
)


@pytest.mark.parametrize("bound", FITTING)
@pytest.mark.parametrize("loop", ["PORTBAR_FOR(i, &grid, {})", "PORTBAR_FOR_TILES(i, &grid, {})"])
def test_a_bound_that_fits_is_accepted(bound, loop):
    start = "    ulong big = a[1]; big += n; const size_t stride = get_global_size(0) * 2; const uint small = big;\n"
    assert not read("k.cl", grid(f"{start}    {loop.format(bound)} a[i] = 1;"), declarations()).misuses
    found = read("k.cl", grid(f"{start}    {loop.format('big')} a[i] = 1;"), declarations()).misuses
    assert [misuse.kind for misuse in found] == ["bound"]
    assert "`big` is of the type ulong" in found[0].message
