"""Any text as an author's source: its includes are resolved or refused, and every line keeps its number."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from portbar.device import quirks
from portbar.errors import Error
from portbar.primitives import headers
from portbar.primitives.atomics_table import AtomicsTable
from portbar.primitives.reduction.use import use_of
from portbar.primitives.strategy import Capabilities, Choice, Strategy
from portbar.reading.doubt import doubtful_words
from portbar.reading.entering import open_enter
from portbar.reading.own_headers import includes
from portbar.reading.settings import read_settings
from portbar.reading.words import words
from portbar.rendering import source
from tests.fuzz import target

CHOICES = Choice("c11", ""), Choice("packed", ""), Choice("counter", "")
CAPABILITIES = Capabilities(atomics_table=AtomicsTable(types=("int", "uint", "float")))
PLAIN = Strategy(*CHOICES, capabilities=CAPABILITIES)
JOINING = Strategy(*CHOICES, capabilities=CAPABILITIES, workarounds=frozenset({quirks.JOINS_LOST}))

#: Tokens that change the meaning of the text around them.
SIGNS = [*"\"'\\#{}()[];,:?=+-*/<>.a10", "/*", "*/", "//", "##", "->", "\u00e9", "\x00", "\f", "\t", "\u2028"]
WORDS = r"""
#include "portbar/device_barrier.h"|#include <portbar/atomics.h>|# include "portbar/|#include "portbar/nothing.h"
#include "portbar/lock.h" /* one|#include "portbar/reduction.h"|#include "portbar/host.h"|#include "other.h"
#define X(a)|#define|#pragma|_Pragma("once")|#if 1|#ifdef X|#elif|#else|#endif|#if
kernel void k(PORTBAR_GRID_PARAM) {|kernel|__kernel void|void f(int a) {|__attribute__((|PORTBAR_ENTER(grid);
portbar_device_barrier(&grid);|barrier(CLK_LOCAL_MEM_FENCE);|if (a)|else|for (;;)|while (1)|do|switch (a)|case 1:
return;|goto a;|a:|break;|x[i] = 1;|PORTBAR_REDUCTION_LOCAL_SIZE 64|portbar_work_group_reduce_add(s, 1.0f)
"""
PARTS = [*SIGNS, *re.split(r"[|\n]", WORDS.strip()), "\\\n", "\\\r\n", "\r\n"]

#: Texts with marks, each there once.
texts = st.lists(st.sampled_from(PARTS) | st.sampled_from(["\n", " ", "MARK"]) | st.text(max_size=6), max_size=40).map(
    lambda parts: "".join(f" mark{n}_ " if part == "MARK" else part for n, part in enumerate(parts))
)


def lines_of_marks(text: str) -> dict[str, int]:
    """Mark -> its line, by the directives in what was made of `program.cl`."""
    found, line = {}, 1
    for physical in text.split("\n"):
        if (directive := re.fullmatch(r'#line (\d+) "program\.cl"', physical)) is not None:
            line = int(directive[1])
            continue
        found |= dict.fromkeys(re.findall(r"\bmark\d+_", physical), line)
        line += 1
    return found


@target
@given(texts, st.booleans())
def test_lines_of_any_text_keep_their_numbers(text, joins):
    given = {mark: source.line_of(text, text.index(mark)) for mark in re.findall(r"\bmark\d+_", text)}
    try:
        made = headers.resolve_includes(text, JOINING if joins else PLAIN, use=use_of(text))
    except Error as error:
        assert str(error)  # noqa: PT017 (as good an end)
        return
    assert lines_of_marks(made) == given
    assert len(re.findall(r'^\s*#line 1 "portbar/', made, re.MULTILINE)) == len(list(includes(text)))


@target
@given(texts)
def test_any_text_can_be_looked_into(text):
    code = source.spliced(source.without_comments(text, keep_strings=False))
    # Letters right after a digit belong to a number.
    assert words(text) == set(re.findall(r"(?<!\w)[A-Za-z_]\w*", code))
    assert doubtful_words(text) <= set(re.findall(r"[A-Za-z_]\w*", source.spliced(source.spaced(text))))
    read_settings(("N",), "portbar/reduction.h", text)
    line = open_enter(text)
    assert line is None or 1 <= line <= text.count("\n") + 1
    for include in includes(text):
        assert text[include.start] == "#"
        assert include.line == source.line_of(text, include.start)
