"""Reading an author's OpenCL C: code is told apart from comments and strings, and lines keep their numbers."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portbar.source import includes, kernel_names, kernel_text, mentions, without_comments

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
    assert text[found.start : found.end].strip() == line.strip()


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
def test_what_only_looks_like_an_include_is_none(text):
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
