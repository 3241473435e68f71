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

#: What makes a statement more than a declaration: a call, a block, a store through a pointer or into an array.
_ACTION = re.compile(r"[({]|->|\][^=]*=|\+\+|--|^\s*\*+\s*\w+\s*=")


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


def kernel_text(text: str, name: str) -> str:
    """The code from a kernel's definition to that of the next, comments and strings left out; "" if it is not spelled out."""
    code = without_comments(text, keep_strings=False)
    kernels = list(_KERNEL.finditer(code))
    following = [*(kernel.start() for kernel in kernels[1:]), len(code)]
    # One more end than there are kernels where there are none.
    pairs = zip(kernels, following, strict=False)
    return "".join(code[kernel.start() : end] for kernel, end in pairs if kernel["name"] == name)


def early_statement(text: str) -> tuple[str, int] | None:
    """The first kernel that does something before PORTBAR_ENTER, with the 1-based line of what it does; None if none does.

    Declarations do nothing, nor do their initial values unless they call something. Kernels whose PORTBAR_ENTER comes from a
    macro of the author's are not judged.
    """
    code = without_comments(text, keep_strings=False)
    for match in _KERNEL.finditer(code):
        body = code.find("{", match.end())
        enter = re.compile(r"\bPORTBAR_ENTER\b").search(code, body)
        following = _KERNEL.search(code, match.end())
        if body < 0 or enter is None or (following is not None and following.start() < enter.start()):
            continue
        done = body + 1
        for statement in re.finditer(r"[^;]*", code[body + 1 : enter.start()]):
            doing = re.sub(r"__attribute__\s*\(\(.*?\)\)|\#[^\n]*", "", statement[0])
            if _ACTION.search(doing):
                blank = len(statement[0]) - len(statement[0].lstrip())
                return match["name"], code.count("\n", 0, done + statement.start() + blank) + 1
    return None


def mentions(text: str, word: str) -> bool:
    """Whether the identifier `word` stands anywhere in the code of `text`, comments and strings left out."""
    return re.search(rf"\b{re.escape(word)}\b", without_comments(text, keep_strings=False)) is not None
