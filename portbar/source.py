"""Reads just enough of an author's OpenCL C to resolve portbar's includes and to name the kernels.

Not a preprocessor and not a parser: comments and strings are told apart from code, the rest is left to the driver.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
    (?P<comment> //(?:\\\n|[^\n])* | /\*.*?(?:\*/|\Z) )
  | (?P<string> "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' )
    """,
    re.VERBOSE | re.DOTALL,
)
_INCLUDE = re.compile(r'^[ \t]*\#[ \t]*include[ \t]*["<](?P<name>portbar/[^">\n]*)[">][^\n]*$', re.MULTILINE)
_KERNEL = re.compile(
    r"\b(?:__kernel|kernel)\b(?:\s|__attribute__\s*\(\(.*?\)\))*\bvoid\b"
    r"(?:\s|__attribute__\s*\(\(.*?\)\))*\b(?P<name>[A-Za-z_]\w*)\s*\(",
    re.DOTALL,
)


@dataclass(frozen=True)
class Include:
    """One `#include "portbar/..."` line: its header, its 1-based line, and the span of text it takes."""

    name: str
    line: int
    start: int
    end: int


def without_comments(text: str, *, keep_strings: bool = True) -> str:
    """`text` with each comment (and each string, unless kept) blanked out, same length and same lines."""

    def blank(match: re.Match[str]) -> str:
        if match["string"] is not None and keep_strings:
            return match[0]
        return re.sub(r"[^\n]", " ", match[0])

    return _TOKEN.sub(blank, text)


def includes(text: str) -> Iterator[Include]:
    """Each include of a portbar header outside comments, in order."""
    for match in _INCLUDE.finditer(without_comments(text)):
        line = text.count("\n", 0, match.start()) + 1
        yield Include(match["name"], line, match.start(), match.end())


def kernel_names(text: str) -> list[str]:
    """Names of the kernels that `text` spells out, in order; kernels made by macros are not seen."""
    return [m["name"] for m in _KERNEL.finditer(without_comments(text, keep_strings=False))]


def mentions(text: str, word: str) -> bool:
    """Whether the identifier `word` stands anywhere in the code of `text`, comments and strings left out."""
    return re.search(rf"\b{re.escape(word)}\b", without_comments(text, keep_strings=False)) is not None
