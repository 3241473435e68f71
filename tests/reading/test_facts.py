"""The tree knows kernels and names in all the ways that people write them."""

from __future__ import annotations

import pytest

from portbar.reading.doubt import doubtful_words
from portbar.reading.found import Facts, Place, joined
from portbar.reading.words import hides_names, may_use, reads_files, words
from tests.reading import trees
from tests.reading.trees import needs_libclang

INCLUDES = '#include "portbar/device_barrier.h"\n#include "portbar/reduction.h"\n#include "portbar/split_barrier.h"\n'


def facts(text: str, *options: str) -> Facts:
    return trees.facts(INCLUDES + text, *options)


@needs_libclang
@pytest.mark.parametrize(
    "head",
    [
        "kernel void k(PORTBAR_GRID_PARAM)",
        "__kernel __attribute__((vec_type_hint(int))) void k (PORTBAR_GRID_PARAM)",
        "#define KERNEL(name) kernel void name\nKERNEL(k)(PORTBAR_GRID_PARAM)",
        "#define PASTED(a, b) kernel void a##b(PORTBAR_GRID_PARAM)\nPASTED(, k)",
        "#define FIRST PORTBAR_GRID_PARAM\nkernel /* void other( */ void\nk(FIRST)",
    ],
)
def test_kernels_are_found_however_their_heads_are_written(head):
    found = facts(f"void helper(void);\n{head} {{ PORTBAR_ENTER(grid); }}\n")
    assert list(found.kernels) == ["k"]
    assert found.kernels["k"].parameters == ("portbar_grid_param", "portbar_grid_launch")


@needs_libclang
@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("kernel __attribute__((reqd_work_group_size(32, 2, 1))) void k(void) { }", ()),
        (
            "#define N (1 << 5)\n#define K(x) __attribute__((reqd_work_group_size(x, 2, 1))) kernel\nK(N) void k(void) { }",
            (),
        ),
        (
            "kernel\n#ifdef SMALL\n__attribute__((reqd_work_group_size(8, 1, 1)))\n#else\nSHAPE\n#endif\nvoid k(void) { }",
            ("-DSHAPE=__attribute__((reqd_work_group_size(32,2,1)))",),
        ),
        ("SHAPE void k(void) { }", ('-DSHAPE="kernel __attribute__((reqd_work_group_size(32, 2, 1)))"',)),
        ("SHAPE void k(void) { }", ("-D", 'SHAPE="kernel __attribute__((reqd_work_group_size(32, 2, 1)))"')),
        ("SHAPE void k(void) { }", ('-D "SHAPE=kernel __attribute__((reqd_work_group_size(32, 2, 1)))" -w',)),
    ],
)
def test_sizes_that_a_kernel_states(text, options):
    assert facts(text, *options).kernels["k"].required == (32, 2, 1)


@needs_libclang
def test_kernels_use_what_their_functions_and_macros_use():
    found = facts(
        """
        #define ROOM(name) PORTBAR_REDUCTION_SCRATCH(name)
        typedef portbar_split_barrier own_barrier;
        uint inner(PORTBAR_SCRATCH_PARAM s) { return portbar_work_group_reduce_add(s, 1.5f); }
        uint outer(PORTBAR_SCRATCH_PARAM s) { return inner(s); }
        kernel void uses(global uint *out)
        {
            ROOM(room);
            local own_barrier b[2];
            portbar_split_barrier_arrive_and_wait(b);
            out[0] = outer(room);
        }
        kernel void uses_not(global uint *out) { uint portbar_scratch = 1; out[0] = portbar_scratch; }
        """
    )
    assert {"portbar_scratch", "portbar_split_barrier"} <= found.kernels["uses"].types
    assert "portbar_work_group_reduce_add" in found.kernels["uses"].calls
    assert "portbar_scratch" not in found.kernels["uses_not"].types
    assert not found.kernels["uses_not"].calls


@needs_libclang
def test_types_of_combined_values_are_those_of_the_language():
    found = facts(
        """
        typedef float real;
        struct pair { real first; uchar4 second; };
        kernel void k(PORTBAR_GRID_PARAM, global struct pair *in)
        {
            PORTBAR_ENTER(grid);
            PORTBAR_REDUCTION_SCRATCH(room);
            uint x = 1;
            { float x = in->first; portbar_sub_group_reduce_max(room, x); }
            portbar_sub_group_reduce_max(room, x * in->first);
            portbar_work_group_reduce_add(room, in->second.x);
            portbar_work_group_scan_inclusive_add(room, in->second.x + in->second.y);
            portbar_device_broadcast(&grid, room, in->second, 0);
            portbar_device_reduce_min(&grid, room, (ulong)x);
        }
        """
    )
    types = {name: sorted(kinds) for name, kinds in found.calls.items() if kinds}
    vector = types.pop("portbar_device_broadcast")
    assert types == {
        "portbar_sub_group_reduce_max": ["float"],
        "portbar_work_group_reduce_add": ["uchar"],
        "portbar_work_group_scan_inclusive_add": ["int"],
        "portbar_device_reduce_min": ["ulong"],
    }
    assert "uchar" in vector[0]
    assert vector != ["uchar"]


@needs_libclang
def test_results_that_nothing_uses():
    text = "void f(local portbar_split_barrier *b, portbar_arrival_token t, uint n) {{ {} }}"
    unused = [
        "W;",
        "(void)W;",
        "if (n) W; else W;",
        "for (;;) W;",
        "do W; while (n);",
        "switch (n) { case 1: W; }",
        "(W);",
    ]
    used = ["n = W;", "if (W) n = 1;", "while (!W);", "n = ({ W; });", "n ? W : W;", "for (; W;);", "(void)(W + 1);"]
    for statement in [*unused, *used]:
        found = facts(text.format(statement.replace("W", "portbar_split_barrier_wait(b, t)")))
        assert found.is_whole, statement
        assert ("portbar_split_barrier_wait" in found.results) is (statement in used), statement


@needs_libclang
def test_names_outside_of_functions():
    found = facts(
        """
        #define DEFINED(name) void name##_one(void) { int local_name = 0; local_name++; }
        DEFINED(made)
        typedef struct { int member; } of_struct, *pointer;
        struct tag { int a; };
        constant int values[2] = {1, 2};
        kernel void k(global int *parameter) { typedef int inner; parameter[0] = (inner)1; }
        """
    )
    assert set(found.declared) == {"made_one", "of_struct", "pointer", "tag", "values", "k"}
    assert found.declared["k"] == Place("program.cl", 10, 21)


@needs_libclang
def test_facts_are_whole_only_where_all_types_are_known():
    assert facts("kernel void k(global float *a) { a[0] = sqrt(a[1]); }").is_whole
    assert not facts("kernel void k(global float *a) { a[0] = vendor_only(a[1]); }").is_whole
    assert not facts("kernel void k(global vendor_type *a) { }").is_whole


@needs_libclang
def test_facts_of_several_devices_hold_on_each():
    shaped = "kernel __attribute__((reqd_work_group_size({}, 1, 1))) void k(void) {{ barrier(1); }}"
    one, other = facts(shaped.format(4)), facts(shaped.format(8) + "kernel void more(void) { }")
    both = joined([one, other])
    assert both is not None
    assert set(both.kernels) == {"k", "more"}
    assert both.kernels["k"].required is None
    assert joined([one, one]) == one
    assert joined([one, None]) is None


@pytest.mark.parametrize(
    ("text", "options", "doubtful"),
    [
        ("#ifndef GUARD\n#define GUARD\n#ifdef WIDE\nint x;\n#else\nint y;\n#endif\n#endif\nint z;", (), set()),
        ("#ifndef GUARD\n#define GUARD\n#ifdef __VENDOR__\nx\n#endif\n#endif\ny", (), {"x"}),
        ("#ifdef __VENDOR__\nfloat x;\n#else\nint y;\n#endif\nint z;", (), {"float", "x", "int", "y"}),
        ("#if N > 3 && defined(cl_khr_fp64)\nx\n#elif N\ny\n#endif\nz", ("-DN=2",), set()),
        ("#if N > 3 && defined(cl_khr_fp64)\nx\n#elif N\ny\n#endif\nz", ("-DN=4",), {"x", "y"}),
        ("#ifdef __VENDOR__\n#define N 1\n#endif\n#if N\nx\n#endif\n", (), {"N", "x"}),
        ("/* #ifdef __VENDOR__ */ x\n", (), set()),
    ],
)
def test_words_that_a_driver_decides_about(text, options, doubtful):
    assert doubtful_words(text, options) == doubtful


def test_words_of_a_text():
    text = 'a /* b */ "c" d // e\n#define f g\\\nh\n'
    assert words(text, ("-Di=j", "-O2")) >= {"a", "d", "define", "f", "gh", "i", "j"}
    assert words(text).isdisjoint({"b", "c", "e"})
    assert may_use("a", text)
    assert not may_use("b", text)
    assert may_use("b", text + "#define P(x, y) x##y\n")
    assert may_use("b", text, ("-include", "more.h"))
    assert hides_names('#include "other.h"\n')
    assert not hides_names('#include "portbar/other.h"\n// #include "other.h"\n')


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ('#include "own.h"\n', True),
        ("  #  include <own.h>\n", True),
        ("/* the */ #include <own.h>\n", True),
        ("#/* the */include <own.h>\n", True),
        ("#/* the\n */ include <own.h>\n", True),
        ("#inc\\\nlude <own.h>\n", True),
        ("%:include <own.h>\n", True),
        ("#import <own.h>\n", True),
        ("#if __has_include(<own.h>)\n#endif\n", True),
        ("/*\n#include <own.h>\n*/\n", False),
        ("// \\\n#include <own.h>\n", False),
        ("int included; // what to include\n", False),
        ("", False),
    ],
)
def test_files_that_a_driver_reads(text, reads):
    assert reads_files(text) is reads
    assert reads_files("int x;", ("-include own.h",)) is reads_files("int x;", ("-include", "own.h")) is True
    assert reads_files("int x;", ("-I", "include-files")) is False
