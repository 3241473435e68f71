"""The arms of `#if` in a part of a program, without those that a compiler skips, where one statement goes through several.

libclang says what is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from portbar.reading.edits import UnformedError
from portbar.reading.opencl import BASE
from portbar.reading.tree import Tree
from portbar.rendering.source import without_comments

_CONDITIONAL: Final = re.compile(
    r"^[ \t]*#[ \t]*(?P<word>if|ifdef|ifndef|elif|else|endif)\b(?:\\\r?\n|[^\n])*", re.MULTILINE
)
_INK: Final = re.compile(r"[^\s]")


def decided(name: str, text: str, headers: Mapping[str, str], options: Sequence[str], span: tuple[int, int]) -> str:
    """`text` in which each conditional with a directive in a part of it is replaced by what a compiler takes of it.

    No line and no column moves.

    Parameters
    ----------
    name, text, headers, options
        As for `Tree`.
    span : tuple of int
        The part, in bytes.

    Raises
    ------
    UnformedError
        Other directives are there, or conditionals do not end.
    UnparsedError
        The front end gave no tree.
    """
    tree = Tree(name, text, {"opencl-c-base.h": BASE, **headers}, options, uses=True)
    try:
        skipped = [tuple(len(tree.contents[:at].decode()) for at in one) for one in tree.skipped()]
        begin, end = (len(tree.contents[:at].decode()) for at in span)
    finally:
        tree.close()
    made = text
    for group in _groups(text):
        if not any(begin <= found.start() < end for found in group):
            continue
        for found, following in zip(group, [*group[1:], None], strict=True):
            made = _blanked(made, found.start(), found.end())
            if following and any(first <= found.end() < last for first, last in skipped):
                made = _blanked(made, found.end(), following.start())
    if made == text:
        remedy = "Write whole statements into each arm of #if, and other directives between statements."
        raise UnformedError("a directive within a statement", text.count("\n", 0, begin) + 1, remedy=remedy)
    return made


def _groups(text: str) -> list[list[re.Match[str]]]:
    """The directives of each conditional, from `#if` to `#endif`."""
    found: list[list[re.Match[str]]] = []
    still_open: list[list[re.Match[str]]] = []
    for directive in _CONDITIONAL.finditer(without_comments(text, keep_strings=False)):
        if directive["word"].startswith("if"):
            still_open.append([])
            found.append(still_open[-1])
        if still_open:
            still_open[-1].append(directive)
            if directive["word"] == "endif":
                still_open.pop()
    return found


def _blanked(text: str, begin: int, end: int) -> str:
    return text[:begin] + _INK.sub(" ", text[begin:end]) + text[end:]
