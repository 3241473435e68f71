"""Reads a rendered header as a list of functions, types, macros and conditional regions.

Each is one `Item`. A line of it that ends with the mark `/* where NAME is used */` is an item of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Final

from portbar.rendering.source import UnreadableError, closed, without_comments

WORD: Final = re.compile(r"[A-Za-z_]\w*")
_DIRECTIVE: Final = re.compile(r"\s*#\s*(\w*)")
_NO_FUNCTION: Final = re.compile(r"\s*(?:typedef|enum)\b|[^({]*[={]")
_HEAD_WORD: Final = re.compile(r"[\s*]*([A-Za-z_]\w*)\s*(\()?")
_MACRO: Final = re.compile(r"__attribute__|[A-Z][A-Z0-9_]*")
_OF_AUTHOR: Final = re.compile(r"^\s*#\s*line\b", re.MULTILINE)
#: Marks a line of a function, a type or a macro that stays only where something else uses the name.
_MARK: Final = re.compile(r"[ \t]*/\* where (\w+) is used \*/(?=[ \t]*\\?$)", re.MULTILINE)


@dataclass(eq=False)
class Item:
    """A function, a type, a macro, or something that always stays."""

    #: As written but for the marks of lines, and without comments and strings.
    text: str
    code: str
    #: The names that it defines; empty if it always stays.
    names: tuple[str, ...]
    #: Directives of the regions that enclose it.
    regions: tuple[str, ...]
    #: Macros before a function's name.
    head: tuple[str, ...] = ()
    #: Of a function.
    parameters: str | None = None
    #: Lines of it that stay only where the name that they are for is used, with what they use themselves.
    lines: dict[int, Item] = field(default_factory=dict)

    @cached_property
    def words(self) -> frozenset[str]:
        """Every identifier that it needs."""
        return frozenset(WORD.findall(" ".join([self.code, *self.regions])))


@dataclass
class Run:
    """Comments with the text that they precede, up to a blank line or the next comment."""

    comments: list[str] = field(default_factory=list)
    parts: list[Item | Region] = field(default_factory=list)
    is_spaced: bool = False


@dataclass
class Region:
    """The branches of an `#if`, each with its directive, and the `#endif`."""

    branches: list[tuple[str, list[Run]]]
    end: str = ""


@lru_cache(maxsize=32)
def runs_of(text: str) -> list[Run]:
    """A header's text, read."""
    reader = _Reader(text)
    runs = reader.runs(())
    if not reader.is_done:
        raise UnreadableError
    return runs


def items_in(runs: Iterable[Run]) -> Iterator[Item]:
    """Every item, in order."""
    for run in runs:
        for part in run.parts:
            if isinstance(part, Item):
                yield part
                yield from part.lines.values()
            else:
                for _, inner in part.branches:
                    yield from items_in(inner)


class _Reader:
    """Reads the lines of a header one by one."""

    def __init__(self, text: str) -> None:
        self._lines = text.removesuffix("\n").split("\n")
        self._code = without_comments(text, keep_strings=False).removesuffix("\n").split("\n")
        self._at = 0

    @property
    def is_done(self) -> bool:
        """Whether all lines are read."""
        return self._at == len(self._lines)

    def runs(self, regions: tuple[str, ...]) -> list[Run]:
        """Return the parts up to the end of the text or of a branch."""
        runs = [Run()]
        while not self.is_done:
            line, code = self._lines[self._at], self._code[self._at]
            last = runs[-1]
            if not line.strip():
                if last.parts:
                    runs.append(Run())
                runs[-1].is_spaced = True
                self._at += 1
            elif not code.strip():
                if last.parts:
                    runs.append(Run())
                runs[-1].comments.append(self._comment())
            elif directive := _DIRECTIVE.match(code):
                if directive[1] in {"elif", "else", "endif"}:
                    break
                if directive[1] in {"if", "ifdef", "ifndef"}:
                    last.parts.append(self._region(regions))
                else:
                    last.parts.append(self._macro(directive[1], regions))
            else:
                last.parts.append(self._declaration(regions))
        return runs

    def _take(self, end: int) -> tuple[str, str]:
        start, self._at = self._at, end
        return "\n".join(self._lines[start:end]), "\n".join(self._code[start:end])

    def _comment(self) -> str:
        end = self._at
        while "*/" not in self._lines[end]:
            end += 1
            if end == len(self._lines) or self._code[end].strip():
                raise UnreadableError
        return self._take(end + 1)[0]

    def _directive(self) -> tuple[str, str]:
        end = self._at
        while self._code[end].rstrip().endswith("\\"):
            end += 1
            if end == len(self._lines):
                raise UnreadableError
        return self._take(end + 1)

    def _region(self, regions: tuple[str, ...]) -> Region:
        directive, code = self._directive()
        inner = (*regions, code)
        made = Region([(directive, self.runs(inner))])
        while not self.is_done:
            directive, code = self._directive()
            if code.split("#", 1)[1].split()[0] == "endif":
                made.end = directive
                return made
            inner = (*inner, code)
            made.branches.append((directive, self.runs(inner)))
        raise UnreadableError

    def _macro(self, kind: str, regions: tuple[str, ...]) -> Item:
        text, code = self._directive()
        named = re.match(r"\s*#\s*(?:define|undef)\s+(\w+)", code)
        if kind in {"define", "undef"} and named is None:
            raise UnreadableError
        text, code, lines = _lines_for(text, code, regions)
        return Item(text, code, (named[1],) if named else (), regions, lines=lines)

    def _declaration(self, regions: tuple[str, ...]) -> Item:
        end, braces, brackets = self._at, 0, 0
        while end == self._at or braces or brackets or self._code[end - 1].rstrip()[-1:] not in {";", "}"}:
            if end == len(self._code):
                raise UnreadableError
            line = self._code[end]
            braces += line.count("{") - line.count("}")
            brackets += line.count("(") - line.count(")")
            if braces < 0 or brackets < 0:
                raise UnreadableError
            end += 1
        text, code = self._take(end)
        if _OF_AUTHOR.search(code):
            # An author's expression is compiled even if unused, so that its errors are reported.
            return Item(text, code, (), regions)
        text, code, lines = _lines_for(text, code, regions)
        if found := _function(code):
            return Item(text, code, (found[1],), regions, found[0], found[2], lines)
        return Item(text, code, _type_names(code), regions, lines=lines)


def unmarked(text: str) -> str:
    """A header's text without the marks of lines that stay only where a name is used."""
    return _MARK.sub("", text)


def _lines_for(text: str, code: str, regions: tuple[str, ...]) -> tuple[str, str, dict[int, Item]]:
    """The text without marks, the code of what always stays, and each line that does not, by its number."""
    always, lines = [], {}
    for number, (line, words) in enumerate(zip(text.split("\n"), code.split("\n"), strict=True)):
        if found := _MARK.search(line):
            lines[number] = Item(line, words, (found[1],), regions)
        else:
            always.append(words)
    return unmarked(text) if lines else text, "\n".join(always), lines


def _function(code: str) -> tuple[tuple[str, ...], str, str] | None:
    """Words before a function's name, its name and its parameters; None if it is not a function."""
    if _NO_FUNCTION.match(code):
        return None
    head: list[str] = []
    at = 0
    while found := _HEAD_WORD.match(code, at):
        word, call = found.groups()
        at = found.end()
        if not call:
            head.append(word)
            continue
        end = closed(code, at - 1)
        if not _MACRO.fullmatch(word):
            return tuple(head), word, code[at : end - 1]
        head += [word, *WORD.findall(code, at, end)]
        at = end
    return None


def _type_names(code: str) -> tuple[str, ...]:
    """The names that a type defines; an empty set if they are unknown."""
    if re.match(r"\s*enum\s*\{[^{}]*\}\s*;\s*$", code):
        return tuple(re.findall(r"[{,]\s*(\w+)", code))
    last = re.search(r"[\s*}](\w+)\s*;\s*$", code)
    if re.match(r"\s*typedef\b", code) and last and not re.search(r"\benum\b|\(\s*\*", code):
        return last[1], *re.findall(r"\b(?:struct|union)\s+(\w+)\s*\{", code)
    return ()
