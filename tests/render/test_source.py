"""Reading an author's OpenCL C: code is told apart from comments and strings, and lines keep their numbers."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portbar.reading.apart import possible_macros
from portbar.reading.own_headers import includes
from portbar.reading.words import words
from portbar.rendering.source import without_comments, words_in

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
    assert "needle" not in words(text)
    assert "needle" in words(text + " needle ")
    assert "needle" in words("needle; " + text)


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


@given(st.text(alphabet="aZ_09.+-()#\n\t é«", max_size=60))
def test_words_are_those_that_a_search_for_each_finds_but_for_ends_of_numbers(text):
    assert words_in(text) == {word for word in re.findall(r"\w+", text) if re.match(r"[A-Za-z_]", word)}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("#define A 1\n# /* */ define /* b */ B(x) x\n", {"A", "B"}),
        ("#define \\\n  C\n", {"C"}),
        ("redefine d; undefine e; define_f g; predefined h\n", set()),
        ("%:define I\n??=define J\n", {"I", "J"}),
    ],
)
def test_a_macro_may_be_whatever_stands_after_define(text, names):
    assert possible_macros(text, ()) == names
