"""Reads OpenCL C as functions, statements and blocks, as far as one must know to say where control goes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from portbar.rendering.source import UnreadableError, closed

#: Loops that are macros.
_LOOPS: Final = re.compile(r"PORTBAR_FOR(?:_\w+)?")
_WORD: Final = re.compile(r"[A-Za-z_]\w*")
_SPACE: Final = re.compile(r"\s*")
#: The text after a macro's arguments where the macro heads a statement, as the author's own loops do.
_HEADED: Final = re.compile(r"\s*(?:\{|(?:if|for|while|switch|do)\b)")
_OPENING_OR_END: Final = re.compile(r"[;({\[]")
_BRACKET_OR_END: Final = re.compile(r"[;({\[)}\]]")
_LABELLED: Final = re.compile(r"(?:case\b[^:;{}]*|default\s*|[A-Za-z_]\w*\s*):(?!:)")

_Kind = Literal["block", "if", "loop", "switch", "label", "jump", "plain"]


@dataclass
class Statement:
    """A statement, its span, what decides about its parts, and these."""

    kind: _Kind
    start: int
    end: int = 0
    condition: str = ""
    word: str = ""
    parts: list[Statement] = field(default_factory=list)


@dataclass(frozen=True)
class Function:
    """A function and its body."""

    name: str
    is_kernel: bool
    body: Statement


def functions_in(code: str) -> Iterator[Function]:
    """The functions that a text without comments and directives defines, as far as they can be read."""
    at = begin = 0
    while found := _OPENING_OR_END.search(code, at):
        at = found.start()
        if code[at] == ";":
            begin = at = found.end()
            continue
        try:
            end = closed(code, at)
            head = re.sub(r"__attribute__\s*\(\(.*?\)\)", "", code[begin:at], flags=re.DOTALL)
            named = re.search(r"([A-Za-z_]\w*)\s*\(.*\)\s*$", head, re.DOTALL)
            if code[at] == "{" and named and "=" not in head:
                yield Function(named[1], re.search(r"\b(?:__)?kernel\b", head) is not None, _read(code, at))
                begin = end
        except UnreadableError:
            return
        at = end


def _skip(code: str, at: int) -> int:
    space = _SPACE.match(code, at)
    if space is None or space.end() == len(code):
        raise UnreadableError
    return space.end()


def _read(code: str, at: int) -> Statement:
    """The statement that begins at or after `at`."""
    at = _skip(code, at)
    if code[at] == "{":
        parts: list[Statement] = []
        inner = _skip(code, at + 1)
        while code[inner] != "}":
            parts.append(_read(code, inner))
            inner = _skip(code, parts[-1].end)
        return Statement("block", at, inner + 1, parts=parts)
    if code[at] in ")]}":
        raise UnreadableError
    if labelled := _LABELLED.match(code, at):
        return Statement("label", at, labelled.end())
    found = _WORD.match(code, at)
    word = found[0] if found else ""
    if word == "__attribute__" and code.startswith("(", opening := _skip(code, at + len(word))):
        made = _read(code, closed(code, opening))
        made.start = at
        return made
    if word in {"if", "for", "while", "switch"} or _LOOPS.fullmatch(word) or _heads(code, at + len(word), word):
        return _headed(code, at, word)
    if word == "do":
        part = _read(code, at + 2)
        return Statement("loop", at, _plain_end(code, part.end), parts=[part])
    kind: _Kind = "jump" if word in {"return", "goto", "break", "continue"} else "plain"
    return Statement(kind, at, _plain_end(code, at), word=word)


def _heads(code: str, at: int, word: str) -> bool:
    """Whether a word before `at` is a macro whose arguments are followed by the statement that it heads."""
    opening = _skip(code, at)
    is_call = word not in {"", "return"} and code[opening] == "("
    return is_call and _HEADED.match(code, closed(code, opening)) is not None


def _headed(code: str, at: int, word: str) -> Statement:
    """A statement that begins with a word and a condition."""
    opening = _skip(code, at + len(word))
    if code[opening] != "(":
        raise UnreadableError
    end = closed(code, opening)
    parts = [_read(code, end)]
    other = re.compile(r"\s*else\b").match(code, parts[0].end) if word == "if" else None
    if other:
        parts.append(_read(code, other.end()))
    kind: _Kind = "if" if word == "if" else "switch" if word == "switch" else "loop"
    return Statement(kind, at, parts[-1].end, code[at:end], parts=parts)


def _plain_end(code: str, at: int) -> int:
    """Where a statement without parts ends."""
    while found := _BRACKET_OR_END.search(code, at):
        if found[0] == ";":
            return found.end()
        if found[0] in ")]}":
            raise UnreadableError
        at = closed(code, found.start())
    raise UnreadableError
