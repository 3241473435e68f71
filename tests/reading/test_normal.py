"""The form in which PoCL gets a program: barriers on all edges of what a work-group does as a whole, and nowhere else."""

from __future__ import annotations

import re

import pytest

from portbar.primitives.headers import declarations
from portbar.reading.reader import in_normal_form, is_available

pytestmark = pytest.mark.skipif(not is_available(), reason="there is no libclang")

HEAD = '#include "portbar/device_barrier.h"\n#include "portbar/reduction.h"\n'
MEET = "portbar_device_barrier(&grid);"
#: The subject `n` of a switch of work-items.
HIDDEN = "((n) ^ -(get_local_id(1) >= get_local_size(1)))"
SUM = "portbar_work_group_reduce_add(scratch, 1u)"


def ending(head: str, does: str, number: int = 1) -> str:
    """A loop that ends in any case."""
    turns = f"portbar_turns_{number}"
    return f"{{ ulong {turns} = 0; {head} {{ if (++{turns} == 0) break; {does} }} }}"


def formed(text: str, options: tuple[str, ...] = ()) -> str:
    """The text of a program, with B in place of a barrier and W of a statement of all work-items."""
    found = in_normal_form("k.cl", text, declarations(), options, barrier="B;", work="W;", wide=True)
    assert found is not None
    return found


def body(text: str, before: str = "") -> str:
    """The statements of a kernel in that form, in one line."""
    source = (
        f"{HEAD}{before}kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)\n"
        f"{{ PORTBAR_ENTER(grid); PORTBAR_REDUCTION_SCRATCH(scratch); a[7] = 7u;\n{text}\na[8] = 8u; }}\n"
    )
    found = formed(source.replace("kernel", "void f(void);\nkernel", 1))
    found = found.replace("if (get_local_id(0) < get_local_size(0))", "EACH")
    found = found.replace("(get_local_id(1) < get_local_size(1))", "HERE")
    return " ".join(found.split("a[7] = 7u;")[1].split("a[8] = 8u;")[0].split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f();", "f();"),
        ("if (n) f(); else a[0] = 1u;", "if (n) f(); else a[0] = 1u;"),
        ("if (n) { if (a[0]) f(); } else if (a[1]) f();", "if (n) { if (a[0]) f(); W; } else if (a[1]) f();"),
        ("if (n) f(); else { a[0] = 1u; f(); }", "if (n) { f(); W; } else { a[0] = 1u; f(); }"),
        (
            "if (n) if (a[0]) a[1] = 1u; else a[1] = 2u; else while (a[2]) a[2] = a[3];",
            f"if (n) {{ if (a[0]) a[1] = 1u; else a[1] = 2u; W; }} else {{ EACH {ending('while (a[2])', 'a[2] = a[3];')} }}",
        ),
        (
            "switch (n) { case 1u: if (a[0]) f(); break; case 2u: a[0] = 1u; break; default: f(); break; }",
            f"switch {HIDDEN} {{ case 1u: if (a[0]) f(); W; break; case 2u: a[0] = 1u; break; default: f(); W; break; }}",
        ),
        (MEET, f"B; {MEET} B; W;"),
        ("f(); barrier(CLK_LOCAL_MEM_FENCE); f();", "f(); barrier(CLK_LOCAL_MEM_FENCE); W; f();"),
        (f"const uint v = {SUM};", f"B; const uint v = {SUM}; B; W;"),
        (f"if (n) {{ {MEET} }}", f"B; if (n) {{ B; {MEET} B; W; }} B; W;"),
        (f"if (n) {MEET} else f();", f"B; if (n) {{ B; {MEET} B; W; }} else {{ B; W; f(); B; W; }} B; W;"),
        (
            f"for (uint k = 0u; k < n; ++k) {{ f(); {MEET} }}",
            f"B; for (uint k = 0u; ; ++k) {{ B; if (!(k < n)) break; B; W; f(); B; {MEET} B; }} B; W;",
        ),
        (
            f"for (uint k = 0u; k < n; ++k) {{ {MEET} if (a[k]) f(); }}",
            f"B; for (uint k = 0u; ; ++k) {{ B; if (!(k < n)) break; B; {MEET} B; W; if (a[k]) f(); W; B; }} B; W;",
        ),
        (f"if (n) return; {MEET}", f"B; if (n) {{ B; W; goto portbar_end_all; }} B; {MEET} B; W;"),
        (f"{MEET} if (n) return;", f"B; {MEET} B; W; if (n) goto portbar_end;"),
        (
            "for (uint k = 0u; k < n; ++k) { if (k == 3u) continue; f(); }",
            "for (uint k = 0u; k < n; ++k) { if (k == 3u) continue; f(); }",
        ),
    ],
)
def test_a_statement_has_this_form(text: str, expected: str) -> None:
    assert body(text) == expected


@pytest.mark.parametrize(
    "loop",
    [
        "for (uint k = 0u; k < n; ++k) f();",
        "for (int k = 8; k >= 0; k -= 2) f();",
        "uint k; for (k = 1u; k < 2u * n + (uint)get_local_size(0); k <<= 1) f();",
        "const uint most = min(n, 5u); for (uint k = 0u; k != most; k++) f();",
        "for (uint j = 0u; j < portbar_num_groups(&grid); ++j) for (uint k = j; k < n; ++k) f();",
        "for (uint j = 0u, k = 1u; j < n; ++j) f();",
        "uint v = 0u; while (v < n) { if (v == 3u) { v += 2u; continue; } ++v; }",
        "uint v = 0u; for (;;) { if (v == n) break; ++v; }",
        "uint v = 0u; do v += n; while (v < 9u);",
        "uint v = 1u; if (n) v = 2u; for (uint k = 0u; k < v; ++k) f();",
    ],
)
def test_a_loop_that_all_go_through_alike_stays(loop: str) -> None:
    assert "EACH" not in body(loop)


@pytest.mark.parametrize(
    "loop",
    [
        "for (uint k = 0u; k < a[0]; ++k) f();",
        "for (uint k = (uint)get_local_id(0); k < n; ++k) f();",
        "for (uint k = 0u; k < n; ++k) { if (a[k]) break; }",
        "for (uint k = 0u; k < n; ++k) { if (a[k]) ++k; }",
        "for (uint k = 0u; k < n; k += a[k]) f();",
        "uint v = 1u; if (a[0]) v = 2u; for (uint k = 0u; k < v; ++k) f();",
        "uint v = 1u; uint *p = &v; *p = a[0]; for (uint k = 0u; k < v; ++k) f();",
        "uint v = 0u; while (v < n) v += 1u + a[v];",
        "uint v = 0u; while (v < n) { if (a[v]) continue; ++v; }",
        "uint v = 0u; do { if (a[v]) break; } while (0);",
        "for (uint k = 0u; k < n; ++k) { if (n == 3u) return; }",
        "uint v = 0u; do v += a[v]; while (v < n);",
        "PORTBAR_FOR(i, &grid, n) a[i] = 1u;",
        "for (uint j = 0u; j < n; ++j) while (a[j]) f();",
        "a[1] = ({ uint k = 0u; while (a[k]) ++k; k; });",
        "const uint v = ({ uint k = 0u; while (a[k]) ++k; k; });",
        "\n#pragma unroll\nfor (uint k = 0u; k < a[0]; ++k) f();",
        "__attribute__((opencl_unroll_hint(2))) for (uint k = 0u; k < a[0]; ++k) f();",
        "if (n) for (uint k = 0u; k < a[0]; ++k) f(); else f();",
    ],
)
def test_a_loop_that_some_may_leave_before_others_is_under_a_condition_on_ids(loop: str) -> None:
    assert body(loop).count("{ EACH") == 1


def test_of_loops_in_loops_the_outermost_that_some_may_leave_is_under_the_condition() -> None:
    inner = "while (a[n]) { for (uint k = 0u; k < a[1]; ++k) f(); }"
    expected = f"{{ EACH {ending('while (a[n])', 'for (uint k = 0u; k < a[1]; ++k) f();')} }}"
    assert body(f"for (uint j = 0u; j < n; ++j) {inner}") == f"for (uint j = 0u; j < n; ++j) {expected}"


def test_loops_of_functions_without_a_barrier_are_under_the_condition_too() -> None:
    function = "static uint g(global uint *a) { uint v = 0u; while (a[v]) ++v; return v; }\n"
    found = formed(
        f"{HEAD}{function}kernel void k(PORTBAR_GRID_PARAM, global uint *a)\n{{ PORTBAR_ENTER(grid); {MEET} }}\n"
    )
    assert f"{{ if (get_local_id(0) < get_local_size(0)) {ending('while (a[v])', '++v;')} }}" in " ".join(found.split())


def test_parameters_of_helper_functions_may_differ() -> None:
    """Portbar's text calls operators of reductions."""
    function = "static uint g(uint n) { uint v = 0u; while (v < n) ++v; return v; }\n"
    found = formed(
        f"{HEAD}{function}kernel void k(PORTBAR_GRID_PARAM, uint n)\n{{ PORTBAR_ENTER(grid); {MEET} g(n); }}\n"
    )
    assert "{ if (get_local_id(0) < get_local_size(0)) while (v < n) ++v; }" in found


def test_a_loop_from_a_macro_is_written_out_where_it_is_under_the_condition() -> None:
    found = body(
        "TO(a[0]) f(); EACH_ONE",
        "#define TO(x) for (uint k = 0u; k < (x); ++k)\n#define EACH_ONE if (n) { TO(a[1]) f(); }\n",
    )
    assert found.count("{ EACH for (uint k = 0u;") == 2
    found = body("TWICE(while (a[0]) f();)", "#define TWICE(x) x x\n")
    assert found == f"TWICE( {{ EACH {{ EACH {ending('while (a[0])', 'f();')} }} }})"


@pytest.mark.parametrize(
    "text",
    [
        f"do {{ f(); }} while ({SUM} < n);",
        f"while (n && {SUM} < n) f();",
        f"for (uint k = {SUM}; k < {SUM}; k += {SUM}) f();",
        f"a[0] = n ? {SUM} : 3u;",
        f"if (n == 1u || {SUM} == 2u) f();",
        f"uint v = n, w = {SUM}, z = w;",
        f"a[{SUM}] += portbar_work_group_reduce_max(scratch, {SUM});",
        f"switch ({SUM}) {{ case 1u: f(); default: a[0] = {SUM}; break; }}",
        f"f(), (void){SUM};",
    ],
)
def test_a_call_with_a_barrier_is_a_statement_of_its_own(text: str) -> None:
    """Nothing else of the author's is evaluated between the barriers around a call."""
    found = body(text)
    for part in re.sub(r"__typeof__\(.*?\) portbar_value", "", found).split("B;"):
        if "portbar_work_group_reduce_" in part:
            assert not any(word in part for word in ("f()", "?", "&&", "||", "if ", "while", "for ")), part


def test_those_who_leave_alone_meet_the_others_before_they_go() -> None:
    found = body(f"if (n) {{ {MEET} if (a[0]) return; f(); }}")
    assert "{ portbar_left = 1u; goto portbar_meet_" in found
    leaves = found.index("B; W; } B; W; if (portbar_left == 1u)")
    assert found.index("goto portbar_meet_") < leaves < found.index("goto portbar_end;")


def test_a_loop_that_work_items_go_through_alone_holds_no_barrier() -> None:
    found = body(f"for (uint k = 0u; k < n; ++k) {{ if (a[k]) return; }} {MEET}")
    loop = found[found.index("for (") : found.index("portbar_out_")]
    assert "B;" not in loop
    assert "goto portbar_end" not in loop


@pytest.mark.parametrize(
    "text",
    [
        f"for (uint k = 0u; k < n; ++k) {{ {MEET} if (a[k]) break; f(); }}",
        "for (uint k = 0u; k < n; ++k) { if (!portbar_device_barrier(&grid)) return; f(); }",
        f"while (true) {{ {MEET} if (n) break; f(); }}",
        f"while (n) {{ {MEET} for (;;) {{ {MEET} if (n) return; if (a[0]) goto out; }} }} out: f();",
    ],
)
def test_a_loop_with_a_barrier_is_left_at_its_head_alone(text: str) -> None:
    """PoCL copies all code after a loop that has a second end."""
    found = body(text)
    for loop in found.split("for (")[1:]:
        assert loop.split("B; W;")[0].count("break;") == 1
        assert loop.count("break;") == 1
    assert "goto portbar_turn_" in found
    assert found.count("portbar_left = 0u;") == found.count("portbar_left = ") // 2


_TURN = (
    "{ B; const bool portbar_goes_on_%d = portbar_turn_%d < %s; B; if (!portbar_goes_on_%d) break; B; %s B; W; } B; W;"
)


def _turned(number: int, *arms: str) -> str:
    """Branches as loops; `number` is that of the first name made for them."""
    on, most = f"portbar_on_{number}", f"portbar_most_{number + 1}"
    made = f"{{ volatile uint {on} = (n) ? 1u : 0u; const uint {most} = {on}; B; "
    for at, (arm, bound) in enumerate(zip(arms, (most, f"1u - {most}"), strict=False)):
        turn, goes = number + 2 + 2 * at, number + 3 + 2 * at
        made += f"for (uint portbar_turn_{turn} = 0u; ; ++portbar_turn_{turn}) "
        made += _TURN % (goes, turn, bound, goes, arm) + " "
    return made + "}"


def test_three_branches_with_barriers_are_loops_that_nobody_can_count() -> None:
    found = body(f"if (n) {{ {MEET} }} if (n) {MEET} else f(); if (n) {MEET}")
    one, two = _turned(1, MEET), _turned(6, MEET, "W; f();")
    assert found.replace("++portbar_turn_3)", "++portbar_turn_3) ", 1).startswith(one), found
    assert two in found


@pytest.mark.parametrize(
    "text",
    [
        f"if (n && {SUM} == 1u) f(); if (n || {SUM} == 1u) f(); if (n && {SUM} == 2u) f();",
        f"a[0] = n ? {SUM} : 3u; a[1] = n ? {SUM} : 3u; a[2] = n ? 2u : {SUM};",
        f"switch (n) {{ case 1u: {MEET} break; case 2u: f(); break; default: {MEET} }} if (n) {MEET}",
    ],
)
def test_all_that_branches_counts(text: str) -> None:
    assert "portbar_turn_" in body(text)
    assert "portbar_turn_" not in body(text.split(";", maxsplit=1)[0] + ";") or text.startswith("switch")


def test_branches_of_helper_functions_count_at_each_call() -> None:
    function = f"static void g(private portbar_grid *grid, uint n) {{ if (n) {MEET.replace('&grid', 'grid')} }}\n"
    kernel = "kernel void k(PORTBAR_GRID_PARAM, uint n)\n{ PORTBAR_ENTER(grid); %s }\n"
    assert "portbar_turn_" not in formed(HEAD + function + kernel % "g(&grid, n); g(&grid, n);")
    assert "portbar_turn_" in formed(HEAD + function + kernel % "g(&grid, n); g(&grid, n); g(&grid, n);")


_MANY = f"if (n) {MEET} if (n) {MEET} if (n) {MEET}"


def test_among_many_branches_all_leave_a_loop_by_a_flag() -> None:
    found = body(f"for (uint k = 0u; k < n; ++k) {{ if (k == 3u) continue; f(); {MEET} if (k) break; f(); }} {_MANY}")
    assert "goto" not in found
    assert "goes_on_1 = portbar_gone == 0u && (k < n); B; if (!portbar_goes_on_1) break;" in found
    assert "if (k == 3u) { portbar_gone = 1u; } { volatile uint" in found
    assert "if (k) { portbar_gone = 2u; } if (portbar_gone == 0u) { f(); } W;" in found
    assert "portbar_gone = portbar_gone == 1u ? 0u : portbar_gone; if (portbar_gone == 0u) { ++k; } B; }" in found
    assert "} B; W; portbar_gone = portbar_gone == 2u ? 0u : portbar_gone;" in found


def test_a_jump_of_some_leaves_what_others_reach_by_a_flag() -> None:
    found = body(f"for (;;) {{ if (n) continue; {MEET} if (a[0]) continue; f(); }} {_MANY}")
    assert "portbar_left = 1u; goto portbar_meet_" in found
    assert "W; } B; W; if (portbar_left == 1u) { portbar_left = 0u; goto portbar_turn_" in found


@pytest.mark.parametrize(
    ("text", "has_end"),
    [
        ("if (n) { if (a[0]) { if (a[1]) f(); } }", True),
        ("if (n) { if (a[0]) a[1] = 1u; }", False),
        ("if (n) a[0] = 1u; else if (a[0]) a[1] = 1u; else if (a[1]) a[2] = 1u; else a[3] = 1u;", False),
        (f"if (n) {{ if (a[0]) a[1] = 1u; }} {_MANY}", True),
    ],
)
def test_branches_in_the_end_of_others_have_ends_of_their_own(text: str, *, has_end: bool) -> None:
    assert ("W; }" in body(text).split("{ volatile")[0]) is has_end


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Nothing that PoCL could copy is after the end of a kernel.
        (f"if (n) return; {_MANY}", "B; if (n) { B; W; goto portbar_end_all; } B; W; {"),
        (
            f"{{ for (;;) {{ if (n) return; {MEET} }} }} {_MANY}",
            "if (portbar_gone != 0u) { B; W; goto portbar_end_all; }",
        ),
        (f"do {{ if (n) break; {MEET} }} while (a[0]); {_MANY}", "again_1 = portbar_gone == 0u && (a[0]); B; }"),
        (
            f"do {{ if (n) continue; {MEET} }} while (a[0]); {_MANY}",
            "portbar_gone == 1u ? 0u : portbar_gone; } while (a[0]);",
        ),
        (f"do {{ if (n) break; {MEET} }} while (0); {_MANY}", "} while (0); B; W; portbar_gone = portbar_gone == 1u"),
        (f"for (;;) {{ if (n) break; {MEET} }} {_MANY}", "for (;;) { B; if (portbar_gone != 0u) break; B; W; if (n)"),
        (
            f"for (;;) {{ while (a[0]) {{ if (n) return; f(); }} {MEET} }} {_MANY}",
            "{ W; portbar_left_2 = 1u; goto portbar_out_2; } f(); } } } portbar_out_2: W; if (portbar_left_2 == 1u) {",
        ),
        (
            f"for (;;) {{ if (n) {{ {MEET} if (a[0]) return; {MEET} }} f(); }} {_MANY}",
            "if (a[0]) { portbar_gone = 1u; } { volatile uint",
        ),
        (f"while ({SUM} == n) {{ if (n) break; f(); }} {_MANY}", "= false; volatile uint"),
    ],
)
def test_each_way_to_leave_has_its_flag(text: str, expected: str) -> None:
    assert expected in body(text)


@pytest.mark.parametrize(
    "loop",
    [
        "for (uint k = 0u; k < n; ++k) { f(); if (a[k]) continue; f(); }",
        "PORTBAR_FOR(k, &grid, n) { f(); if (a[k]) continue; f(); }",
        "while (n) { f(); if (a[0]) break; f(); }",
    ],
)
def test_a_loop_right_after_a_jump_of_all_is_left_within_itself(loop: str) -> None:
    found = body(f"if (a[9]) {{ if (n) return; {loop} {MEET} }} {_MANY}")
    assert re.search(r"if \(a\[[k0]\]\) (continue|break); f\(\);", found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "if (n) { if (a[0]) f(); continue; } if (a[1]) continue;",
            "if (n) { if (a[0]) f(); W; goto portbar_turn_1; }",
        ),
        ("if (n) { a[2] = 1u; continue; } if (a[1]) continue;", "if (n) { a[2] = 1u; goto portbar_turn_1; }"),
        # A value that a way brings to the end of a turn is lost right before the barrier.
        ("if (a[1]) continue; a[2] = 1u;", "if (a[1]) goto portbar_turn_1; a[2] = 1u; portbar_turn_1: W; B;"),
        # In a loop of their own, it would cost something in each turn.
        (
            "while (a[2]) { if (n) { if (a[0]) f(); continue; } if (a[1]) continue; }",
            "if (n) { if (a[0]) f(); continue; } if ((!(a[1]) ^ HERE)) continue;",
        ),
    ],
)
def test_a_continue_of_work_items_is_parted_from_a_branch_before_it(text: str, expected: str) -> None:
    assert expected in body(f"for (uint k = 0u; k < n; ++k) {{ {MEET} {text} }}")


def test_a_case_that_all_leave_falls_into_none() -> None:
    found = body(f"switch (n) {{ case 1u: if (a[0]) break; {MEET} case 2u: {MEET} break; default: f(); }} {_MANY}")
    assert found.count("++portbar_turn_") == 7
    assert "= portbar_gone == 0u ? 1u : portbar_case_" in found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f"if (n) goto out; {MEET} a[0] = 1u; out: f(); {_MANY}",
            "if (n) { portbar_gone = 1u; } { volatile uint portbar_on_",
        ),
        (
            f"if (n) goto out; {MEET} a[0] = 1u; out: f(); {_MANY}",
            "} B; W; } portbar_gone = portbar_gone == 1u ? 0u : portbar_gone; out: f();",
        ),
        (
            f"again: f(); {MEET} if (n) goto again; {_MANY}",
            "const bool portbar_again_3 = portbar_gone == 1u; B; if (!portbar_again_3) break; B; W; portbar_gone = 0u;",
        ),
        (f"again: f(); {MEET} if (n) goto again; {_MANY}", "if (n) { portbar_gone = 1u; } W; B; W; } B; W;"),
        (
            f"for (;;) {{ if (a[0]) goto out; {MEET} }} out: f(); {_MANY}",
            "B; if (portbar_gone != 0u) break; B; W; if (a[0])",
        ),
    ],
)
def test_jumps_to_labels_have_a_flag(text: str, expected: str) -> None:
    assert expected in body(text)


@pytest.mark.parametrize(
    "text",
    [
        # A variable is declared where the jump passes, or in the loop, and used after it.
        f"if (n) goto out; {MEET} uint v = a[0]; f(); out: v = 1u; a[1] = v;",
        f"again: f(); uint v = 3u; {MEET} if (n) goto again; a[1] = v;",
        f"one: f(); {MEET} two: f(); {MEET} if (n) goto one; {MEET} if (a[0]) goto two;",
        # An earlier jump skips the declaration.
        f"for (;;) {{ if (a[0]) break; uint v = 3u; {MEET} if (n) goto out; {MEET} out: f(); a[1] = v; }}",
        f"if (a[0]) return; uint v = 3u; {MEET} if (n) goto out; {MEET} out: f(); a[1] = v;",
        f"if (a[0]) goto one; {MEET} one: f(); uint v = 3u; {MEET} if (n) goto two; {MEET} two: f(); a[1] = v;",
        # Some work-items jump over a jump of all.
        f"for (;;) {{ {MEET} if (a[n]) goto next; if (n) break; next: f(); }}",
        f"for (;;) {{ {MEET} again: f(); if (n) break; if (a[n]) goto again; }}",
    ],
)
def test_jumps_that_no_flag_can_make_are_as_they_were(text: str) -> None:
    assert "portbar_gone" not in body(f"{text} {_MANY}")


def test_some_work_items_may_jump_beside_jumps_of_all() -> None:
    some = "if (a[n]) { a[0] = 1u; goto next; } next: f();"
    found = body(f"{some} if (n) goto out; {MEET} out: f(); {_MANY}")
    assert found.startswith(f"{some} if (n) {{ portbar_gone = 1u; }} {{ volatile uint")
    left = "if (a[1]) goto next; f();"
    found = body(f"for (;;) {{ if (a[0]) break; if (a[n]) {{ {MEET} {left} }} next: f(); }} {_MANY}")
    assert "if (a[1]) { portbar_left = 1u; goto portbar_meet_" in found
    assert "if (portbar_left == 1u) { portbar_left = 0u; goto next; } } next: f(); B; W; }" in found


def test_a_loop_made_of_jumps_of_some_work_items_may_be_under_a_flag() -> None:
    found = body(f"for (;;) {{ {MEET} if (n) break; again: f(); if (a[n]) goto again; }} {_MANY}")
    assert "if (portbar_gone == 0u) { if (get_local_id(0) >= get_local_size(0)) goto portbar_past_" in found
    assert re.search(r"== 0\) goto portbar_past_\d+; f\(\); if \(a\[n\]\) goto again; portbar_past_\d+: ; } W;", found)
    found = body(f"if (a[0]) goto one; {MEET} one: f(); again: f(); if (a[n]) goto again; {_MANY}")
    assert "portbar_gone = portbar_gone == 1u ? 0u : portbar_gone; one: f(); if (get_local_id(0) >=" in found


def test_statements_that_a_jump_of_all_leaves_have_no_barriers() -> None:
    """Conditions around the jump may differ where no work-item makes it."""
    found = body(f"if (a[n]) {{ f(); if (n) return; f(); }} {MEET}")
    assert (
        "{ uint portbar_left_1 = 0u; if (a[n]) { f(); if (n) { W; portbar_left_1 = 1u; goto portbar_out_1; } f(); } "
        in found
    )
    assert " if (portbar_left_1 == 1u) { B; W; goto portbar_end_all; } B; W; }" in found
    # All who come there make it.
    assert "B; if (a[n]) { B; W; f(); { B; W; goto portbar_end_all; }" in body(f"if (a[n]) {{ f(); return; }} {MEET}")
    found = body(f"for (;;) {{ {MEET} if (a[n]) continue; if (n) break; f(); }}")
    assert (
        "if (a[n]) { portbar_left_2 = 1u; goto portbar_out_2; } if (n) { W; portbar_left_2 = 2u; goto portbar_out_2; }"
        in found
    )
    assert (
        "} B; W; if (portbar_left_2 == 1u) { portbar_left_2 = 0u; goto portbar_turn_1; } W; f(); W; portbar_turn_1: W; B;"
        in found
    )


def test_compilers_do_not_know_the_last_of_several_values() -> None:
    """Of a chain for all values, LLVM makes a `switch` without a default."""
    chain = " else ".join(f"if (a[0] == {number}u) ++a[1];" for number in range(4))
    found = body(f"{chain} {MEET}")
    assert "if (a[0] == 0u) ++a[1]; else if (a[0] == 1u) ++a[1]; else if ((!(" in found
    for number in (2, 3):
        assert f"if ((!(a[0] == {number}u) ^ HERE)) " in found
    assert "^" not in body(f"if (a[0] == 0u) f(); else if (a[0] == 1u) f(); else if (n == 2u) f(); {MEET}")
    assert f"if (a[0] == 3u) {{ B; {MEET}" in body(f"{chain} if (a[0] == 3u) {{ {MEET} }}")
    found = body(f"switch (n) {{ case 0u: f(); break; default: __builtin_unreachable(); }} {MEET}")
    assert f"switch {HIDDEN} {{ case 0u: f(); W; break; default: (void)0; }}" in found


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("v = a[0] == 0u ? 1u : a[0] == 1u ? 2u : a[0] == 2u ? 3u : 4u;", ["a[0] == 2u"]),
        ("v = (a[0] == 0u && n == 1u) || (a[0] == 1u) || (a[0] == 2u && n == 2u);", ["a[0] == 2u"]),
        ("if (!a[0]) f(); else if (!(a[0] - 1u)) f(); else if (!(a[0] ^ 2u)) f();", ["!(a[0] ^ 2u)"]),
        ("const uint c = n & 3u; if (c == 0u) f(); if ((n & 3u) == 1u) f(); if (c == 2u) f();", ["c == 2u"]),
        ("const bool b = n == 0u; if (n == 1u) f(); v = (uint)(n == 2u) + (n != 3u);", ["n == 2u", "n != 3u"]),
        ("if (n < 1u) f(); else if (n < 2u) f(); else if (n < 3u) f();", ["n < 3u"]),
        ("if (v < n) f(); if (v + 1u < n) f(); if (v + 2u < n) f(); if (v + 3u < n) f();", []),
        ("if (n == 0u) f(); while (n == 1u) f(); if (n == 2u) f();", ["n == 2u"]),
        ("if (n) f(); if (n - 1u) f(); if (n - 2u) f();", ["n - 2u"]),
        # The operator is in the macro.
        ("if (n == 0u) f(); if (n == 1u) f(); v = IS(n, 2u) ? 1u : 2u;", ["IS(n, 2u)"]),
        ("if (n == 0u) f(); if (n == 1u) f(); v = CHOSEN(n, 1u, 2u);", []),
        ("if (n == 0u) f(); if (n == 1u) f(); IF(n == 2u) f();", ["n == 2u"]),
        ("const uint2 w = (uint2)(n); const int2 e = w == 0u, g = w == 1u, h = w == 2u;", []),
        ("uint w[N == 2 ? 1 : 2]; if (N == 0) f(); if (N == 1) f(); if (N == 2) f(); w[0] = sizeof(v == 1u);", []),
    ],
)
def test_comparisons_of_a_variable_from_the_third_on_are_hidden(text: str, hidden: list[str]) -> None:
    macros = (
        "#define IS(x, y) ((x) == (y))\n#define CHOSEN(c, x, y) ((c) ? (x) : (y))\n#define IF(c) if (c)\n#define N 2\n"
    )
    found = body(f"uint v = 0u; {text}", macros)
    assert re.findall(r"\(!\(((?:(?!\(!\().)*?)\) \^ HERE\)", found) == hidden


@pytest.mark.parametrize(
    ("loop", "has_end"),
    [
        ("for (;;) { if (a[0] == 1u) break; }", True),
        ("for (;;) if (a[0] == 1u) break;", True),
        ("bool more = true; while (more) { if (a[0] == 1u) more = false; }", True),
        ("do { if (a[0] == 1u) break; f(); } while (1);", True),
        ("while (a[0] != 3u) f();", True),
        ("uint v = 0u; while (v < n) ++v;", False),
        ("uint v = 0u; while (v != n && a[v]) ++v;", False),
        ("for (uint v = 0u; v < 9u; ++v) f();", False),
        ("do { if (a[0] == 1u) break; f(); } while (0);", False),
        (f"for (;;) {{ {MEET} if (n) break; }}", False),
    ],
)
def test_a_loop_whose_condition_counts_no_turns_has_an_end(loop: str, *, has_end: bool) -> None:
    assert ("if (++portbar_turns_" in body(loop)) is has_end
    assert ("ulong portbar_turns_" in body(loop)) is has_end


def test_a_macro_that_may_return_is_left_by_no_flag() -> None:
    # PORTBAR_ENTER is before the declaration.
    assert "portbar_gone" in body(f"uint v = 3u; if (n) goto out; {MEET} out: f(); a[1] = v; {_MANY}")


def test_loops_made_of_jumps_are_under_a_condition() -> None:
    nobody = "if (get_local_id(0) >= get_local_size(0)) goto portbar_past_"
    found = body("again: f(); if (a[0]) goto again;")
    ends = "if (++portbar_turns_3 == 0) goto portbar_past_2;"
    assert f"{nobody}2; again: {ends} f(); if (a[0]) goto again; portbar_past_2: ;" in found
    function = "static uint g(global uint *a) { uint v = 0u; again: ++v; if (a[v]) goto again; return v; }\n"
    found = formed(f"{HEAD}{function}kernel void k(PORTBAR_GRID_PARAM)\n{{ PORTBAR_ENTER(grid); {MEET} }}\n")
    assert "static uint g(global uint *a) { ulong portbar_turns_" in found
    assert body("{ f(); } again: f(); if (a[0]) goto again;").startswith("{ f(); }")
    assert nobody not in body(f"again: f(); {MEET} if (n) goto again;")
    assert nobody not in body("if (a[0]) goto out; f(); out: f();")
    nested = body("one: f(); two: f(); if (a[0]) goto two; if (a[1]) goto one; f();")
    assert nested.count(nobody) == 1
    assert "goto one; portbar_past_" in nested


def test_all_and_some_who_jump_to_a_label_have_a_barrier_each() -> None:
    found = body(f"if (n) goto out; {MEET} if (a[0]) goto out; f(); out: a[1] = 1u;")
    assert "B; W; goto portbar_label_1_all; }" in found
    assert "if (a[0]) goto out; f(); out: B; W; portbar_label_1_all: B; W; a[1] = 1u;" in found


@pytest.mark.parametrize("kind", ["break;", "return;"])
def test_a_loop_with_a_barrier_in_its_head_is_left_by_a_flag(kind: str) -> None:
    found = body(f"while ({SUM} < n) {{ if (n) {kind} f(); }}")
    assert "if (n) { portbar_gone = 1u; }" in found


@pytest.mark.parametrize(
    ("defined", "text"),
    [
        ("#define WHEN(c) if (c)\n", f"WHEN(n) {{ {MEET} }}"),
        ("#define MEETS portbar_device_barrier\n", "if (n) { MEETS(&grid); }"),
        ("#define STEP(c) do { if (c) { portbar_device_barrier(&grid); } } while (0)\n", "STEP(n);"),
        ("#define BOTH(c, ...) if (c) { __VA_ARGS__ }\n", f"BOTH(n, f(); {MEET})"),
        ("#define NAME(x) portbar_device_##x\n#define CALL(x) NAME(x)(&grid)\n", "if (n) CALL(barrier);"),
    ],
)
def test_macros_hide_nothing(defined: str, text: str) -> None:
    found = body(text, defined)
    assert "if (n) { B;" in found.replace("(n ", "(n")


_LINES = """#define WHEN(c, x) if (c) { \\
    x \\
  }
static bool g(portbar_grid *grid)
{
    return portbar_device_barrier(grid);
}
kernel void k(PORTBAR_GRID_PARAM, uint n)
{
    PORTBAR_ENTER(grid);
    if (n &&
        g(
            &grid))
        return;
    WHEN(n,
        g(&grid);
    )
    switch (n) {
    case 1u:
        g(&grid);
        break;
    default:
        n = 2u;
    }
    /* last */ n = 7u;
}
"""


@pytest.mark.parametrize(
    "value", ["n ? 2u : LAST", "n ? 2u : 5u - LAST", "n && LAST", "n ? f2(1u, LAST) : -LAST /* of all */"]
)
def test_an_argument_may_end_with_a_macro(value: str) -> None:
    """libclang knows only where a macro in an argument of a macro begins."""
    before = "#define LAST 3u\nuint f2(uint x, uint y);\n"
    found = body(f"a[0] = portbar_work_group_reduce_max(scratch, {value});", before)
    written = value.partition(" /*")[0]
    assert f"= {written};" in found
    assert found.count(written) == 2


def test_no_line_moves() -> None:
    text = HEAD + _LINES
    made = formed(text)
    assert made.count("\n") == text.count("\n")
    for word in ("/* last */", "default", "PORTBAR_ENTER", "static bool g"):
        if word != "default":
            assert made[: made.index(word)].count("\n") == text[: text.index(word)].count("\n")


_TWICE = "a[0] = a[1] ? (a[2] ? g(5u) : g(6u)) : (a[3] ? g(7u) : g(8u));"
_NOBODY = "if (get_local_id(0) >= get_local_size(0)) W;"


@pytest.mark.parametrize(
    ("text", "is_parted"),
    [
        (f"for (uint k = 0u; k < n; ++k) {{ {MEET} {_TWICE} }}", True),
        (f"for (uint k = 0u; k < n; ++k) {{ {MEET} if (a[1]) {_TWICE} }}", True),
        (f"for (uint k = 0u; k < n; ++k) {{ a[0] = n ? {SUM} : {_TWICE[7:-1]}; }}", True),
        (f"for (uint k = 0u; k < n; ++k) {{ {MEET} f2(a); }}", True),
        (f"for (uint k = 0u; k < n; ++k) {{ {MEET} f3(a); }}", True),
        (f"for (uint k = 0u; k < n; ++k) {{ {MEET} f1(a); }}", False),
        (f"for (uint k = 0u; k < n; ++k) {{ {MEET} a[0] = a[1] ? (a[2] ? a[5] : a[6]) : 1u; }}", False),
        # No loop is around the barrier, or the loop has none.
        (f"{_TWICE} {MEET}", False),
        (f"for (uint k = 0u; k < n; ++k) {{ {MEET} for (uint j = 0u; j < n; ++j) {{ {_TWICE} }} }}", False),
    ],
)
def test_what_branches_twice_is_parted_from_a_barrier_in_a_loop(text: str, *, is_parted: bool) -> None:
    functions = (
        "uint g(uint n);\n"
        "static void f1(global uint *a) { if (a[1]) { if (a[2]) g(1u); } else a[3] = 1u; }\n"
        "static void f2(global uint *a) { if (a[1]) { if (a[2]) g(1u); } else if (a[3]) g(2u); }\n"
        "static uint f3(global uint *a) { if (a[1]) { if (a[2]) return 1u; return 2u; } return 3u; }\n"
    )
    assert (_NOBODY in body(text, functions)) is is_parted


@pytest.mark.parametrize(
    ("text", "is_parted"),
    [
        ("for (uint j = 0u; j < n; ++j) f(); for (uint j = 0u; j < n; ++j) f();", True),
        ("uint q = 1u; for (uint j = 0u; j < n; ++j) f(); if (n) for (uint j = 0u; j < n; ++j) f();", True),
        ("for (uint j = 0u; j < n; ++j) f();", False),
        ("if (n) f(); for (uint j = 0u; j < n; ++j) f(); for (uint j = 0u; j < n; ++j) f();", False),
    ],
)
def test_a_turn_that_begins_with_one_of_several_loops_begins_with_a_statement(text: str, *, is_parted: bool) -> None:
    found = body(f"for (uint k = 0u; k < n; ++k) {{ {text} }}")
    assert found.startswith("for (uint k = 0u; k < n; ++k) { W;") is is_parted


def test_branches_of_expressions_and_turns_that_all_leave_end_in_a_statement() -> None:
    assert body(f"a[0] = n ? {SUM} : 3u;").count("B; W; } ") == 2
    # A turn has one end, of those who leave, too.
    found = body(f"do {{ if (n) break; {MEET} }} while (a[0] + n < 3u);")
    assert "if (n) { B; W; portbar_left = 1u; goto portbar_turn_2_all; }" in found
    assert "portbar_again_1 = portbar_left == 0u && (a[0] + n < 3u); B; } while (portbar_again_1); B; W;" in found
    assert "B; } while (portbar_again_" in body(f"do {{ f(); }} while ({SUM} < n);")
