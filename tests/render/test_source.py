"""Reading an author's OpenCL C: code is told apart from comments and strings, and lines keep their numbers."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portbar.rendering.source import (
    early_statement,
    includes,
    kernel_names,
    kernel_text,
    mentions,
    open_enter,
    without_comments,
)

INCLUDE = '#include "portbar/device_barrier.h"'

#: Pieces of text that contain the word `needle`: as code, and hidden from the compiler.
HIDDEN = [
    "// needle\n",
    "/* needle */",
    "/* a\n needle\n*/",
    '"needle"',
    '"\\"needle"',
    "// a \\\n needle\n",
    '"/* needle"',
    "/* \" needle ' */",
    "'\"' /* needle */",
    "// it's needle\n",
]
HARMLESS = ["x = 1;\n", " / ", "*", "'a'", "'\\''", '"// no"', '"\\\\"', "\n", "a/b*c ", "needles ", "the_needle "]


@given(st.text(alphabet="ab\"'/*\\\n #", max_size=60))
def test_blanking_keeps_length_and_lines(text):
    for keep in (True, False):
        blanked = without_comments(text, keep_strings=keep)
        assert len(blanked) == len(text)
        assert [i for i, c in enumerate(blanked) if c == "\n"] == [i for i, c in enumerate(text) if c == "\n"]
        assert all(new in (old, " ") for new, old in zip(blanked, text, strict=True))


@given(st.lists(st.sampled_from(HIDDEN + HARMLESS), max_size=8))
def test_a_word_in_comments_and_strings_is_not_mentioned(pieces):
    text = " ".join(pieces)
    assert not mentions(text, "needle")
    assert mentions(text + " needle ", "needle")
    assert mentions("needle; " + text, "needle")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a /* b */ c", "a         c"),
        ("a // b\nc", "a     \nc"),
        ("a // b \\\nc\nd", "a       \n \nd"),
        ('x = "/* no */"; /* yes */', 'x = "/* no */";          '),
        ("/* open\nto the end", "       \n          "),
        ("/**/a", "    a"),
        ("/* // */ a", "         a"),
        ("'\"' // b", "'\"'     "),
    ],
)
def test_comments_are_blanked_and_strings_kept(text, kept):
    assert without_comments(text) == kept


@given(st.integers(0, 30), st.sampled_from(["", " ", "\t", "  # "]), st.booleans())
def test_an_include_is_found_on_its_line(before, indent, angled):
    name = "<portbar/device_barrier.h>" if angled else '"portbar/device_barrier.h"'
    line = f"{indent.replace('#', '').rstrip(' ')}# include {name} /* why */"
    text = "int a; /* b\n" + "\n" * before + "*/\n" + line + "\nint c;"
    (found,) = includes(text)
    assert (found.name, found.line) == ("portbar/device_barrier.h", before + 3)
    assert text[found.start : found.end] + " /* why */" == line.strip()


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (f"{INCLUDE} /* begun here\nended there */", " /* begun here\nended there */"),
        (f"/* begun here\nended there */ {INCLUDE}", "/* begun here\nended there */ "),
        (f"/**/ # /* odd */ include /* as\n it is */ {INCLUDE[9:]}\n", "/**/ \n"),
        (f"# \\\n include \\\r\n {INCLUDE[9:]}\r\n", "\r\n"),
    ],
)
def test_an_include_takes_no_comment_beside_it(text, kept):
    (found,) = includes(text)
    assert text[: found.start] + text[found.end :] == kept


HARMLESS_BEFORE_ENTER = [
    "const uint n = (uint)5;",
    "const float w = (1.0f + 2.0f) * 3.0f; uint four = 4;",
    "uint4 v = (uint4)(1, 2, 3, 4);",
    "const uint id = get_local_id(0) + get_local_size (0) * get_work_dim();",
    "const uint size = sizeof(float) * min(4, max(1, (int)sizeof n));",
    "const float3 half_of = convert_float3(q) * 0.5f; uint bits = as_uint(1.0f);",
    "float w[3] = {0.25f, (0.5f), 0.25f}, v[2][2] = {{1, 2}, {3, 4}};",
    "uint x = a[0], y = a[1] == 1 ? a[2] : a[n <= 3], z = a[y] != x;",
    "const uint n = p->n + p->q.x; global float *row = p->row;",
    "global float *const b = a + n, *c = (global float *)a;",
    "local float tile[64]; private uint *r = &n;",
    "typedef struct { int a; } pair; enum { A = 1 }; const uint2 v = (uint2){1, 2};",
    "global float (*rows)[16] = (global float (*)[16])a;",
    "__attribute__((aligned(16))) float f[4] = {0}; uint n __attribute__((unused)) = 1;",
    "/* if (x) f(); */ const uint n = 5; // g();",
    "\n#define STRANGE(x) f(x)\n#if 1\nuint n = (1);\n#endif\n",
]
DOES_SOMETHING = [
    "atomic_inc(a);",
    "if (n) a[0] = 1;",
    "const uint ticket = get_ticket(a);",
    "const uint old = (uint)(atomic_add(a, 1));",
    "uint v[2] = {1, atomic_inc(a)};",
    "*a = 1;",
    "*(a + 1) = 1;",
    "(*a) = 1;",
    "a[0] = 1;",
    "a[0] += 1;",
    "a[0] <<= 1;",
    "a[0].x = 1;",
    "p->n = 1;",
    "p->q.x |= 1;",
    "a[p->n].v[2] = 1;",
    "n++;",
    "{ a[0] = 1; }",
    "do a[0] = 1; while (0);",
    "barrier(CLK_LOCAL_MEM_FENCE);",
    "for (uint i = 0; i < 3; i += 1) n += i;",
    '__asm__ volatile ("");',
]


def entered(before: str) -> str:
    return f"kernel void k(PORTBAR_GRID_PARAM, global uint *a)\n{{\n{before}\nPORTBAR_ENTER(grid);\na[0] = f(1);\n}}"


@pytest.mark.parametrize("before", ["", *HARMLESS_BEFORE_ENTER])
def test_declarations_may_stand_before_the_grid_is_entered(before):
    assert early_statement(entered(before)) is None


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("PORTBAR_ENTER(grid);", None),
        ("PORTBAR_ENTER ( grid ) /* here */ ;", None),
        ("#define ENTER PORTBAR_ENTER(grid)\nENTER;", None),
        ("// PORTBAR_ENTER(grid)\nPORTBAR_ENTER(grid);", None),
        ("\nPORTBAR_ENTER(grid)\na[0] = f(1);", 2),
        ("PORTBAR_ENTER(grid) /* ; */ }", 1),
    ],
)
def test_a_missing_semicolon_would_make_the_next_statement_a_value(body, line):
    assert open_enter(body) == line


@pytest.mark.parametrize("before", DOES_SOMETHING)
@pytest.mark.parametrize("first", ["", "const uint one = (uint)1;", "uint w[2] = {1, 2};"])
def test_code_before_the_grid_is_entered_is_found(before, first):
    assert early_statement(entered(f"{first}\n{before}")) == ("k", 4)


@pytest.mark.parametrize(
    "text",
    [
        f"// {INCLUDE}",
        f"/*\n{INCLUDE}\n*/",
        f"// goes on \\\n{INCLUDE}",
        f"int x; {INCLUDE}",
        '#include "mine/portbar/device_barrier.h"',
        '#include "portbar.h"',
        '#define NAME "portbar/device_barrier.h"',
        f"/* open\n{INCLUDE}",
    ],
)
def test_text_that_only_looks_like_an_include_is_ignored(text):
    assert list(includes(text)) == []


def test_kernels_are_named_in_order():
    text = """
    // kernel void commented(void) {}
    __kernel void first(int a) {}
    kernel
      void second (void);
    __attribute__((x)) kernel __attribute__((reqd_work_group_size(8, 1, 1))) void third(global int *p) {}
    kernel void __attribute__((vec_type_hint(float4))) fourth(void) {}
    constant char text[] = "kernel void quoted(void)";
    void helper(void) {}
    kernel /* odd */ void fifth(void) {}
    int mykernel; void sixth_not(void);
    """
    assert kernel_names(text) == ["first", "second", "third", "fourth", "fifth"]


@given(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,12}", fullmatch=True))
def test_any_identifier_can_name_a_kernel(name):
    if name in {"void", "kernel", "__kernel"}:
        return
    assert kernel_names(f"kernel void {name}(int a) {{}}") == [name]
    assert mentions(f"kernel void {name}(int a) {{}}", name)
    assert not mentions(f"kernel void {name}x(int a) {{}}", name) or re.fullmatch("kernel|void|int|a", name)


def test_a_kernel_s_text_ends_where_the_next_one_begins():
    source = """
    void helper(void) { shared; }
    kernel void one(int a) { first; /* second */ }
    __kernel __attribute__((reqd_work_group_size(1, 1, 1))) void two(void) { second; }
    """
    assert "first" in kernel_text(source, "one")
    assert "second" not in kernel_text(source, "one")
    assert "second" in kernel_text(source, "two")
    assert "shared" not in kernel_text(source, "one") + kernel_text(source, "two")
    assert kernel_text(source, "three") == kernel_text("KERNEL(three) { }", "three") == ""
