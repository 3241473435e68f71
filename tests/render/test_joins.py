"""Barriers that portbar adds to an author's text: where branches meet, and nowhere that a work-item may have left before."""

from __future__ import annotations

import pytest

from portbar.primitives.joins import with_joins

BARRIER = "barrier(CLK_LOCAL_MEM_FENCE);"
BEGIN = "{ volatile size_t portbar_item = get_local_id(0); (void)portbar_item; }"
JOIN = f"{BARRIER} {BEGIN}"
MEET = "portbar_device_barrier(&grid);"
#: A branch that is nothing but a barrier.
OWN = f"{{ {BEGIN} {MEET} {JOIN} }}"


def kernel(body: str) -> str:
    return f"kernel void k(PORTBAR_GRID_PARAM, uint n)\n{{ PORTBAR_ENTER(grid); start(); {body} }}\n"


def joined(body: str) -> str:
    """The body of a kernel as it is compiled."""
    found = with_joins(kernel(body))
    return " ".join(found.split("start();")[1].rsplit("}", 1)[0].split())


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("a();", "a();"),
        (f"{MEET} if (n) return; a();", f"{MEET} if (n) goto portbar_joined; a(); portbar_joined:"),
        (f"if (n) return; {MEET}", f"if (n) return; {BEGIN} {MEET}"),
        (f"if (n) {{ a(); return; }} {MEET}", f"if (n) {{ a(); {JOIN} return; }} {BEGIN} {MEET}"),
        (f"if (n) {{ {MEET} a(); }}", f"if (n) {{ {BEGIN} {MEET} a(); {JOIN} }}"),
        (f"if (n) {MEET} else a();", f"if (n) {OWN} else {{ {BEGIN} a(); {JOIN} }}"),
        (
            f"if (n) {{ {MEET} }} else if (m) a(); else b();",
            f"if (n) {OWN} else {{ {BEGIN} if (m) a(); else b(); {JOIN} }}",
        ),
        (
            f"if (n) {{ {MEET} }} else if (m) return;",
            f"if (n) {OWN} else if (m) goto portbar_joined; portbar_joined:",
        ),
        (
            f"if (n) {{ {MEET} return; }} else {{ a(); }} {MEET}",
            f"if (n) {{ {BEGIN} {MEET} {JOIN} return; }} else {{ {BEGIN} a(); {JOIN} }} {BEGIN} {MEET}",
        ),
        (f"while (n) {{ {MEET} a(); }}", f"while (n) {{ {MEET} a(); }}"),
        (f"while ({MEET[:-1]}) {{ a(); {MEET} }}", f"while ({MEET[:-1]}) {{ {BEGIN} a(); {MEET} }}"),
        (
            f"PORTBAR_FOR_TILES(t, &grid, n) {{ a(); {MEET} }}",
            f"PORTBAR_FOR_TILES(t, &grid, n) {{ {BEGIN} a(); {MEET} }}",
        ),
        (
            f"while (n) {{ {MEET} if (n) break; a(); {MEET} }}",
            f"while (n) {{ {MEET} {BEGIN} if (n) break; {BEGIN} a(); {MEET} }}",
        ),
        # A loop that is a macro, at the end of a block.
        (
            f"do {{ PORTBAR_FOR(i, &grid, n) {{ a(); }} }} while ({MEET[:-1]}); if (n) return;",
            f"do {{ PORTBAR_FOR(i, &grid, n) {{ a(); }} }} while ({MEET[:-1]}); if (n) goto portbar_joined; portbar_joined:",
        ),
        (f"while (n) {{ {MEET} a(); break; }}", f"while (n) {{ {BEGIN} {MEET} a(); {JOIN} break; }}"),
        (
            f"while (n) {{ if (n) continue; {MEET} a(); }}",
            f"while (n) {{ {BEGIN} if (n) continue; {BEGIN} {MEET} a(); {JOIN} }}",
        ),
        # Nothing but branches between two barriers.
        (f"{MEET} if (n) a(); {MEET}", f"{MEET} {BEGIN} if (n) a(); {MEET}"),
        (f"{MEET} {{ if (n) a(); {MEET} }}", f"{MEET} {BEGIN} {{ if (n) a(); {MEET} }}"),
        (f"{MEET} b(); if (n) a(); {MEET}", f"{MEET} b(); if (n) a(); {MEET}"),
        # Before other branches.
        (
            f"if (n) {MEET} a(); if (n) b();",
            f"if (n) {{ {BEGIN} {MEET} {JOIN} }} {JOIN} a(); if (n) b();",
        ),
        (f"while (n) {{ if (n) {MEET} a(); }}", f"while (n) {{ if (n) {OWN} a(); }}"),
        # Early returns in branches, some of which meet again.
        (f"if (n) {{ if (m) return; }} else a(); {MEET}", f"if (n) {{ if (m) return; }} else a(); {JOIN} {MEET}"),
        (f"if (n) a(); else if (m) return; {MEET}", f"if (n) a(); else if (m) return; {JOIN} {MEET}"),
        (f"if (n) a(); else return; {MEET}", f"if (n) a(); else return; {BEGIN} {MEET}"),
        # Only one work-item may be here.
        (
            f"if (n) {{ if (m) {{ if (k) return; }} a(); }} {MEET}",
            f"if (n) {{ if (m) {{ if (k) return; }} a(); }} {JOIN} {MEET}",
        ),
        (f"while (n) {{ {MEET} if (a()) continue; a(); }}", f"while (n) {{ {MEET} if (a()) continue; a(); }}"),
        (
            f"switch (n) {{ case 1: {MEET} a(); break; default: a(); }}",
            f"switch (n) {{ case 1: {BEGIN} {MEET} a(); {JOIN} break; default: {BEGIN} a(); {JOIN} }}",
        ),
        # Cases that fall into others, or that some work-items leave.
        (
            f"switch (n) {{ case 1: a(); case 2: {MEET} break; case 3: if (m) break; a(); }}",
            f"switch (n) {{ case 1: {BEGIN} a(); case 2: {JOIN} {MEET} {JOIN} break; case 3: {BEGIN} if (m) break; a(); }}",
        ),
        ("switch (n) { case 1: a(); break; default: if (m) b(); }",) * 2,
        # The condition has a barrier, and its value may differ between work-items.
        ("if (portbar_work_group_scan_inclusive_add(s, 1u) > 3u) a(); else b();",) * 2,
        ("switch (portbar_work_group_scan_inclusive_add(s, 1u)) { case 1: a(); break; default: b(); }",) * 2,
        (
            f"switch (n) {{ case 1: a(); break; default: {MEET} }} if (n) {MEET}",
            f"switch (n) {{ case 1: {BEGIN} a(); {JOIN} break; default: {BEGIN} {MEET} {JOIN} }} {JOIN} if (n) {OWN}",
        ),
        *(
            (f"if (n) {{ {call}; a(); }}", f"if (n) {{ {BEGIN} {call}; a(); {JOIN} }}")
            for call in (
                "portbar_work_group_signal_add(&grid, s, 1u)",
                "portbar_work_group_signal_wait_until_at_least(&grid, s, 1u)",
                "portbar_device_signals_clear(&grid, s, 1u)",
                "portbar_work_group_task_queue_pop(&grid, &queue, items, &task)",
                "portbar_work_group_frontier_push(&grid, &frontier, items, n, n > 1)",
                "portbar_device_frontier_swap(&grid, &frontier)",
                "portbar_work_group_task_graph_next(&grid, &graph, &task)",
                "portbar_team_by_colour(&grid, n)",
                "portbar_team_barrier_any(&grid, &team, n > 1)",
                "portbar_team_reduce_add(&grid, &team, 1u)",
                "portbar_team_broadcast(&grid, &team, 1u, 0u)",
            )
        ),
        ("if (n) { portbar_signal_add(&grid, s, 1u); a(); }", "if (n) { portbar_signal_add(&grid, s, 1u); a(); }"),
        ("if (n) portbar_split_barrier_initialize(&b, 8u);", "if (n) portbar_split_barrier_initialize(&b, 8u);"),
        ("if (n) { portbar_sub_group_size(); a(); }", "if (n) { portbar_sub_group_size(); a(); }"),
        # The author's own loop, and what belongs to a statement.
        (f"if (n) EACH(i, 3) {{ {MEET} }} y = 5;", f"if (n) {{ {BEGIN} EACH(i, 3) {{ {MEET} }} {JOIN} }} y = 5;"),
        (
            f"EACH(i, n) {{ {MEET} }} if (n) return;",
            f"EACH(i, n) {{ {MEET} }} if (n) goto portbar_joined; portbar_joined:",
        ),
        *(
            (
                f"if (n)\n{hint}\nfor (; n;) {MEET}\ny = 5;",
                f"if (n){gap}{{ {BEGIN} {hint} for (; n;) {MEET} {JOIN} }} y = 5;",
            )
            for hint, gap in (("__attribute__((opencl_unroll_hint(1)))", " "), ("#pragma unroll 1", ""))
        ),
        # Some work-items may not come to the end of the branch.
        (
            f"while (n) {{ if (n) {{ {MEET} if (a()) continue; }} }}",
            f"while (n) {{ if (n) {{ {BEGIN} {MEET} if (a()) continue; }} }}",
        ),
    ],
)
def test_branches_meet_at_a_barrier(body: str, expected: str) -> None:
    assert joined(body) == f"{expected} {BARRIER}"


def test_functions_and_macros_that_hold_a_barrier_count_as_one() -> None:
    text = (
        "#define STEP(g) portbar_device_barrier(g)\n"
        "static uint f(portbar_grid *g, uint n)\n{\n    if (!STEP(g))\n        return 0;\n    a(n);\n    return n;\n}\n"
        + kernel("if (n) f(&grid, n);")
    )
    found = with_joins(text)
    assert f"    {JOIN} return n;" in found
    assert f"if (n) {{ {BEGIN} f(&grid, n); {JOIN} }}" in found


def test_a_variable_with_the_name_of_a_function_or_kernel_is_not_a_call() -> None:
    text = "static uint total(portbar_grid *g)\n{\n    portbar_device_barrier(g);\n    return 1;\n}\n" + kernel(
        "uint total = 0; if (n > 1) for (uint k = 0; k < n; ++k) total += k; a(total);"
    )
    assert "for (uint k = 0; k < n; ++k) total += k; a(total);" in with_joins(text)


def test_a_function_of_the_author_s_counts_by_its_body_whatever_its_name() -> None:
    text = "static uint my_reduce_worker(uint n)\n{\n    return n + 1;\n}\n" + kernel(
        f"{MEET} if (n) n = my_reduce_worker(n); a(n);"
    )
    assert "if (n) n = my_reduce_worker(n); a(n);" in with_joins(text)


@pytest.mark.parametrize(
    "text",
    [
        "kernel void k(global uint *a) { if (a[0]) return; a[1] = 2; }",
        "kernel void k() { barrier(0); ",
        "kernel void k() { if barrier(0); }",
        '/* kernel void k() { barrier(0); } */ constant char *a = "{ barrier(";',
        "struct a { int b; }; constant int c[] = { 1, 2 };",
        "#define K kernel void k() { barrier(0); }\nK",
        "",
    ],
)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert with_joins(text) == text


def test_no_line_moves() -> None:
    text = kernel(f"\n  if (n)\n    {{ {MEET} /* }} */\n return; }}\n // {{\n if (n)\n\n {MEET}\n return;")
    found = with_joins(text)
    assert found.count("\n") == text.count("\n")
    assert found != text
