"""Calls that not all reach who must make them are refused with their line; their right twins are not."""

from __future__ import annotations

import re

import pytest

from portbar.launching.analysis import check_misuse, read_source
from portbar.primitives.headers import declarations
from portbar.reading.reader import is_available, read
from portbar.reading.tree import Node
from tests.reading.programs import PAIRS, WIDE, Pair, grid, kernel

pytestmark = pytest.mark.skipif(not is_available(), reason="no libclang for this platform")


def lines_with(text: str, mark: str) -> set[int]:
    return {number for number, line in enumerate(text.split("\n"), 1) if mark in line}


#: Macros of devices that make sub-groups of work-items: the usual ones, of a size that the program defines, of one each.
MADE = ("PORTBAR_REDUCTION_TREE",)
SIZED = (*MADE, "PORTBAR_SUB_GROUP_SIZE=8")
SINGLE = (*MADE, "PORTBAR_SINGLE_SUB_GROUPS")


def reading_of(text: str, defined: tuple[str, ...] = ()):
    found = read("k.cl", text, declarations(), defined=defined)
    assert not found.unread
    return found


def test_the_table_is_long_enough():
    assert len(PAIRS) >= 60
    assert len({pair.name for pair in (*PAIRS, *WIDE)}) == len(PAIRS) + len(WIDE)


def check_wrong(pair: Pair, defined: tuple[str, ...] = ()) -> None:
    found = reading_of(pair.wrong, defined).misuses
    calls = lines_with(pair.wrong, "/* call */")
    assert {misuse.place.line for misuse in found} == calls
    assert {misuse.condition.line for misuse in found} == (lines_with(pair.wrong, "/* by */") or calls)
    assert {misuse.place.file for misuse in found} == {"k.cl"}


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_a_wrong_program_is_refused_at_its_line(pair):
    check_wrong(pair)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_its_right_twin_is_not_refused(pair):
    for defined in ((), MADE, SIZED, SINGLE):
        assert not reading_of(pair.right, defined).misuses


@pytest.mark.parametrize("pair", WIDE, ids=lambda pair: pair.name)
def test_sub_groups_that_are_parts_of_a_barrier_s_group_are_refused_only_where_they_are(pair):
    for defined in (MADE, SIZED, SINGLE):
        check_wrong(pair, defined)
        assert not reading_of(pair.right, defined).misuses
    assert not reading_of(pair.wrong).misuses


#: Loops in which sub-groups take turns of their own, by the level that deals them, and calls inside.
TURNS = {
    "a loop of workers": "for (uint r = portbar_loop_id_worker(); r < n; r += portbar_loop_count_worker()) { L }",
    "a loop of all workers": "for (uint r = portbar_loop_id_gang_worker(); r < n; r += portbar_loop_count_gang_worker()) { L }",
    "by the sub-group's id": "for (uint r = portbar_sub_group_id(); r < n; r += portbar_num_sub_groups()) { L }",
    "while": "uint r = portbar_loop_id_worker(); while (r < n) { L r += portbar_loop_count_worker(); }",
    "one turn": "const uint r = portbar_loop_id_gang_worker(); if (r < n) { L }",
    "a return": "const uint r = portbar_loop_id_gang_worker(); if (r >= n) return; L",
    "some turns": "for (uint r = portbar_loop_id_worker(); r < n; r += portbar_loop_count_worker()) { if (r % 3) { L } }",
}


@pytest.mark.parametrize("name", TURNS)
def test_turns_of_sub_groups_are_right_where_these_need_not_meet(name):
    call = "a[r] = portbar_sub_group_reduce_add(scratch, a[n + r]); /* call */\n"
    body = f"PORTBAR_REDUCTION_SCRATCH(scratch);\n{TURNS[name].replace('L', call)}"
    text = kernel(body, before='#include "portbar/reduction.h"\n')
    for defined in ((), ("PORTBAR_REDUCTION_SUB_GROUP",), ("PORTBAR_REDUCTION_SHUFFLE",), SINGLE):
        assert not reading_of(text, defined).misuses
    for defined in (MADE, SIZED, ("PORTBAR_REDUCTION_SHUFFLE", "PORTBAR_SUB_GROUP_SIZE=8")):
        assert {misuse.place.line for misuse in reading_of(text, defined).misuses} == lines_with(text, "/* call */")
    assert not reading_of(text, ("PORTBAR_REDUCTION_SHUFFLE", "PORTBAR_SUB_GROUP_SIZE=32")).misuses


#: Bodies that are the same for all of a work-group, though ids of work-items occur in them.
UNIFORM = {
    "the group's first element": "uint first = get_global_id(0) - get_local_id(0); if (first < n) { B }",
    "the group's number": "uint group = get_global_id(0) / get_local_size(0); if (group < n) { B }",
    "by a division and a product": "for (uint i = get_global_id(0) / 64u * 64u; i < n; i += 64u) { B }",
    "rounded down": "uint i = get_global_id(0); if (i - i % 64u < n) { B }",
    "rounded down by a mask": "uint i = get_global_id(0); if ((i & ~63u) < n) { B }",
    "a bound rounded up": (
        "uint L = get_local_size(0), end = (n + L - 1) / L * L; "
        "for (uint i = get_local_id(0); i < end; i += L) { if (i < n) a[i] = 1; B }"
    ),
    "a bound rounded up by a remainder": (
        "uint L = get_local_size(0), end = n + (L - n % L) % L; for (uint i = get_local_id(0); i < end; i += L) { B }"
    ),
    "a bound of the group's size": "for (uint i = get_local_id(0); i < 4 * get_local_size(0); i += get_local_size(0)) { B }",
    "always": "if (get_local_id(0) < get_local_size(0)) { B }",
    "never": "if (get_local_id(0) > 5000u) return; B",
    "from memory": "if (a[get_local_id(0)] > 3) { B }",
    "from local memory": "local uint x; if (get_local_id(0) == 0) x = a[0]; B if (x > 3) { B }",
    "from an atomic": "uint old = atomic_add(a, get_local_id(0)); if (old > 3) { B }",
    "assigned again": "uint i = get_local_id(0); a[i] = 1; i = n; if (i > 3) { B }",
    "assigned again in a loop": (
        "uint i; for (uint t = 0; t < n; ++t) { i = t; if (i > 3) { B } i = get_local_id(0); a[i] = 1; }"
    ),
    "another member": "struct { uint i, n; } s = { get_local_id(0), n }; if (s.n > 3) { B }",
    "another component": "uint2 v = (uint2)(get_local_id(0), n); if (v.y > 3) { B }",
    "a component of its own": "uint2 v; v.x = get_local_id(0); v.y = n; if (v.y > 3) { B }",
    "an element of an array": "uint v[2] = { get_local_id(0), n }; if (v[1] > 3) { B }",
    "the size of an id": "if (sizeof(get_local_id(0)) > 4) { B }",
    "leaving a switch": "switch (n) { case 1: if (get_local_id(0)) break; a[0] = 1; break; default: a[1] = 1; } B",
    "leaving a loop without barriers": "for (uint t = 0; t < n; ++t) { if (get_local_id(0) == t) break; a[t] = 1; } B",
    "continue without barriers": "for (uint t = 0; t < n; ++t) { B if (get_local_id(0) == t) continue; a[t] = 1; }",
    "once": "do { B if (get_local_id(0) == 0) break; a[0] = 1; } while (0); B",
    "the last statement": "B if (get_global_id(0) >= n) return; a[get_global_id(0)] = 1;",
    "the author knows": "if (PORTBAR_UNIFORM(get_local_id(0) < n)) { B }",
    "the author knows of a loop": "for (uint i = get_local_id(0); PORTBAR_UNIFORM(i < n); i += get_local_size(0)) { B }",
    "the author knows of a value": "const bool go = PORTBAR_UNIFORM(get_local_id(0) < n); if (!go) return; B",
    "another item's number": "for (uint t = 0; t < get_local_size(0); ++t) { if (t == get_local_id(0)) a[t] = t; B }",
    "a leader's loop in nested loops": (
        "for (uint r = 0; r < n; ++r) { B for (uint j = r % 3u; j > 0u && r + 1u < n; --j) { "
        "++r; if (get_local_id(0) == 0) for (uint i = 0; i < a[0]; ++i) a[i] = r; B } }"
    ),
    "a result of the group": "int any = work_group_any(get_local_id(0) == 3); if (any) { B }",
}


def with_barriers(body: str) -> str:
    return re.sub(r"\bB\b", "barrier(CLK_LOCAL_MEM_FENCE);", body)


@pytest.mark.parametrize("name", UNIFORM)
def test_what_is_the_same_for_the_group_is_not_refused(name):
    assert not reading_of(kernel(with_barriers(UNIFORM[name]))).misuses
    # A barrier that some certainly miss is seen in the same places.
    assert reading_of(kernel(with_barriers(f"{UNIFORM[name]} if (get_local_id(0) == 0) {{ B }}"))).misuses


def test_a_vote_is_the_same_for_the_grid_and_what_a_group_reads_is_not_known():
    vote = "go = portbar_device_barrier_any(&grid, a[get_global_id(0)] > n);"
    body = f"    bool go = true;\n    while (go) {{\n        {vote}\n    }}"
    assert not reading_of(grid(body)).misuses


def test_the_report_has_the_chain_of_assignments_and_a_remedy():
    (misuse,) = reading_of(
        kernel(
            "    const uint lid = get_local_id(0);\n    uint twice = lid * 2;\n    bool go = twice < n;\n    if (go)\n"
            "        barrier(CLK_LOCAL_MEM_FENCE);"
        )
    ).misuses
    assert [(step.place.line, step.source) for step in misuse.steps] == [
        (6, "if (go)"),
        (5, "bool go = twice < n"),
        (4, "uint twice = lid * 2"),
        (3, "const uint lid = get_local_id(0)"),
    ]
    assert (misuse.place.line, misuse.place.column) == (7, 9)
    assert "barrier must be called by all work-items of a work-group" in misuse.message
    assert "PORTBAR_UNIFORM" in misuse.remedy


def test_a_helper_is_named_where_it_is_called_and_where_its_barrier_is():
    text = kernel(
        "    if (get_local_id(0) == 0)\n        sync();",
        before="static void sync(void) { barrier(CLK_LOCAL_MEM_FENCE); }\n",
    )
    (misuse,) = reading_of(text).misuses
    assert misuse.message.startswith("sync, which calls barrier (line 1), must be called")


def test_lines_are_the_author_s_in_included_text():
    text = '#line 1 "own.h"\nvoid step(void) { if (get_local_id(0)) barrier(1); }\n#line 7 "main.cl"\n' + kernel(
        "    step();"
    )
    (misuse,) = reading_of(text).misuses
    assert (misuse.place.file, misuse.place.line) == ("own.h", 1)


def test_each_call_of_a_helper_that_some_miss_is_reported():
    text = kernel(
        "    uint lid = get_local_id(0);\n    if (lid == 0) sync();\n    if (lid == 1) sync();",
        before="static void sync(void) { barrier(CLK_LOCAL_MEM_FENCE); }\n",
    )
    assert [misuse.place.line for misuse in reading_of(text).misuses] == [5, 6]


@pytest.mark.parametrize(
    "more",
    [
        "x = vendor_shuffle(x, 3u);",
        "vendor_hint();",
        "x = VENDOR_CONSTANT;",
        'asm volatile("mov.u32 %0, %%laneid;" : "=l"(x));',
        "x = __builtin_vendor_op(x);",
    ],
)
def test_what_only_a_driver_knows_hides_nothing_around_it(more):
    body = f"    uint x = n;\n    {more}\n    if (get_local_id(0) == 0)\n        barrier(CLK_LOCAL_MEM_FENCE);"
    (misuse,) = reading_of(kernel(body)).misuses
    assert misuse.place.line == 6


def test_what_cannot_be_parsed_is_said_and_the_rest_is_read():
    text = kernel("    vendor_type x = 3;\n    if (get_local_id(0) == 0) barrier(CLK_LOCAL_MEM_FENCE);") + (
        "void other(void) { if (get_local_id(0) == 0) barrier(1); }\n"
    )
    found = read("k.cl", text, declarations())
    assert [unread.place.line for unread in found.unread] == [3]
    assert [misuse.place.line for misuse in found.misuses] == [6]


def test_macros_of_the_options_and_of_the_device_choose_what_is_read():
    text = "#ifdef FIRST\n#define WHO get_local_id(0) == 0\n#else\n#define WHO n == 0\n#endif\n" + kernel(
        "    if (WHO)\n        barrier(CLK_LOCAL_MEM_FENCE);"
    )
    assert not read("k.cl", text, declarations()).misuses
    assert read("k.cl", text, declarations(), ("-D", "FIRST")).misuses
    assert read("k.cl", text, declarations(), ("-DFIRST=1 -cl-fast-relaxed-math",)).misuses
    khronos = text.replace("FIRST", "cl_khr_fp64")
    assert read("k.cl", khronos, declarations(), extensions=("cl_khr_fp64",)).misuses
    assert not read("k.cl", khronos, declarations(), extensions=("cl_khr_fp16",)).misuses
    vendor = text.replace("FIRST", "cl_intel_subgroups")
    assert read("k.cl", vendor, declarations(), extensions=("cl_intel_subgroups",)).misuses
    version = text.replace("#ifdef FIRST", "#if __OPENCL_C_VERSION__ >= 200")
    assert not read("k.cl", version, declarations(), ("-cl-std=CL1.2",)).misuses
    assert read("k.cl", version, declarations(), ("-cl-std=CL3.0",)).misuses


def test_text_that_calls_nothing_together_is_not_parsed(monkeypatch):
    monkeypatch.setattr("portbar.reading.reader.Tree", None)
    assert read("k.cl", kernel("    a[get_global_id(0)] = n;"), declarations()).misuses == ()


def test_libclang_is_not_loaded_for_text_that_calls_nothing_together(monkeypatch):
    for module in ("portbar.reading.reader.library", "portbar.launching.analysis.is_available"):
        monkeypatch.setattr(module, lambda: pytest.fail("libclang was asked for"))
    source = read_source('#include "portbar/atomics.h"\n' + kernel("    portbar_atomic_fetch_add(a, n);"))
    assert check_misuse(source, [], (), ()).unread == ()


def test_what_is_nested_too_deeply_is_said_and_the_rest_is_read():
    text = kernel(
        f"    uint x = {' + '.join(['n'] * 1400)};\n    if (x > 3)\n        barrier(CLK_LOCAL_MEM_FENCE);"
    ) + ("void other(void) { if (get_local_id(0) == 0) barrier(1); }\n")
    found = read("k.cl", text, declarations())
    assert [unread.reason for unread in found.unread] == ["it is nested too deeply"]
    assert [misuse.place.line for misuse in found.misuses] == [7]


@pytest.mark.parametrize("depth", [20_000, 200_000])
def test_a_text_that_would_overflow_the_front_end_is_said(depth):
    (unread,) = read("k.cl", kernel(f"    uint x = {'+'.join(['n'] * depth)}; barrier(1);"), declarations()).unread
    assert unread.reason == "an expression in the program is too long"
    (unread,) = read("k.cl", kernel(f"    uint x = {'!' * 4000}n; barrier(1);"), declarations()).unread
    assert unread.reason == "an expression in the program is too long"
    blocks = read("k.cl", kernel("{" * depth + "barrier(1);" + "}" * depth), declarations()).unread
    assert "nesting level exceeded" in blocks[0].reason


def test_an_interrupt_while_a_tree_is_made_ends_the_reading(monkeypatch):
    class Interrupted(Node):
        def __init__(self, *_: object) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr("portbar.reading.tree.Node", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        read("k.cl", kernel("    barrier(CLK_LOCAL_MEM_FENCE); /* interrupted */"), declarations())
