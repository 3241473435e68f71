"""A long program without what its reading does not need: the bodies of other functions, and the values of other tables.

The front end takes most of its time for what functions do, and little to find where they are. So it goes past their bodies
first. Functions that neither reach a call which many must make nor are reached by one that does, by the names in their text,
are then parsed as if they were empty. No part moves.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from portbar.reading.names import closure, definitions, macros_of
from portbar.reading.promises import Function, Parameter, Promises
from portbar.reading.tree import FUNCTION, VARIABLE, Outline, Top, Tree, UnparsedError
from portbar.rendering.source import UnreadableError, closed, without_comments, words_in

#: Characters of a program that is parsed faster as it is, and of a body that is.
SHORT: Final = 12_000
_FEW: Final = 20
#: Brackets within each other, past which the front end would overflow its stack.
_DEEPEST: Final = 200
_NO_BRACKETS: Final = bytes(sorted(set(range(256)) - set(b"()[]{}")))
_VALUES: Final = re.compile(r"=\s*\{")
#: Values in braces, numbers and names, that take long.
_TABLE: Final = re.compile(r"(=\s*\{)([\w\s.,+-]{1000,})\}", re.ASCII)
_BODY: Final = re.compile(r"\s*\{")
#: May take an address.
_AND: Final = re.compile(r"&(?<!&&)(?!&)")


@dataclass(eq=False)
class _Part:
    """A function or variables, and what is within their braces."""

    begin: int
    end: int
    opening: int
    is_function: bool
    names: set[str]


@lru_cache(maxsize=8)
def outline_of(
    name: str, text: str, files: tuple[tuple[str, str], ...], options: tuple[str, ...], names: frozenset[str]
) -> Outline | None:
    """The outline of a program for the calls of functions of some `names`; None of one that the front end cannot go through.

    The other parameters are those of `Tree`.
    """
    if _is_deep(text):
        return None
    try:
        # Places of declarations do not depend on the numbers in a table.
        tree = Tree(name, _TABLE.sub(_as_zero, text), dict(files), options, skims=True)
    except UnparsedError:
        return None
    try:
        return _Outliner(tree, text, options).outline(names)
    finally:
        tree.close()


def _as_zero(table: re.Match[str]) -> str:
    """A table with one number, as long and with the same lines."""
    inside = "\n".join(" " * len(line) for line in table[2].split("\n"))
    return f"{table[1]}{inside.replace(' ', '0', 1)}}}"


def _is_deep(text: str) -> bool:
    """Whether brackets may be too deep within each other."""
    brackets = text.encode().translate(None, _NO_BRACKETS)
    for _ in range(_DEEPEST):
        before = len(brackets)
        for pair in (b"()", b"[]", b"{}"):
            brackets = brackets.replace(pair, b"")
        if len(brackets) == before:
            break
    # Some are in comments, so that they are left.
    return len(brackets) > _DEEPEST


class _Outliner:
    """Makes the outline of one program."""

    def __init__(self, tree: Tree, text: str, options: tuple[str, ...]) -> None:
        self._tree = tree
        # As many characters as bytes.
        self._is_ascii = text.isascii()
        self._text = text if self._is_ascii else text.encode().decode("latin-1")
        self._code = without_comments(self._text, keep_strings=False)
        self._macros = macros_of(text, options)
        self._begins = sorted({top.begin for top in tree.tops})
        self._parts = {part.begin: part for part in self._found_parts()}
        # The names that macros use, and the macros that may take an address.
        used = frozenset[str]().union(*self._macros.values())
        taking = {one for one, body in definitions(text, options) if _AND.search(body)}
        addresses = closure(self._macros, taking) if taking else set[str]()
        self._promises = Promises(self._function_of, used, self._macros.keys(), addresses)
        self._functions: dict[int, Function] = {}
        self._named: dict[str, list[Top]] = {}
        for top in tree.tops:
            if top.node.kind == FUNCTION and (top.begin in self._parts or not self._is_declared_only(top)):
                self._named.setdefault(tree.spelling(top.node), []).append(top)

    def outline(self, names: Iterable[str]) -> Outline:
        """The outline for calls of functions of some names."""
        reached = closure(self._bodies(), names)
        needless = self._needless(reached)
        emptied = self._emptied(needless)
        return Outline(
            emptied if self._is_ascii else emptied.encode("latin-1").decode(),
            tuple(top.begin for top in self._tree.tops),
            frozenset(reached),
            frozenset(part.begin for part in needless if part.is_function),
        )

    def _next(self, begin: int) -> int:
        """Where the declaration after one begins."""
        place = bisect.bisect_right(self._begins, begin)
        return self._begins[place] if place < len(self._begins) else len(self._code)

    def _found_parts(self) -> Iterator[_Part]:
        """The functions and variables of which something can be emptied, in order."""
        made: dict[int, _Part] = {}
        for top in self._tree.tops:
            name = self._tree.spelling(top.node) if top.node.kind in (FUNCTION, VARIABLE) else ""
            if top.begin in made:
                # Several in one declaration.
                made[top.begin].names.add(name)
                continue
            opening = None
            if top.node.kind == FUNCTION:
                opening = _BODY.match(self._code, top.end)
            elif top.node.kind == VARIABLE:
                opening = _VALUES.search(self._code, top.begin, top.end)
            end = 0 if opening is None else self._end(opening.end(), self._next(top.begin))
            if opening is not None and end:
                made[top.begin] = _Part(top.begin, end, opening.end(), top.node.kind == FUNCTION, {name})
        yield from made.values()

    def _end(self, opening: int, most: int) -> int:
        """Where the bracket before a place is closed before another place, without a directive; 0 if it is not."""
        try:
            end = closed(self._code, opening - 1)
        except UnreadableError:
            return 0
        return end if end <= most and self._code.find("#", opening, end) < 0 else 0

    def _words(self, part: _Part) -> frozenset[str]:
        return words_in(self._code[part.begin : part.end])

    def _bodies(self) -> dict[str, frozenset[str]]:
        """The macros and functions, each with the words that it may stand for."""
        made = dict(self._macros)
        for name, tops in self._named.items():
            for top in tops:
                part = self._parts.get(top.begin)
                end = self._next(top.begin) if part is None else part.end
                made[name] = words_in(self._code[top.begin : end]) | made.get(name, frozenset())
        return made

    def _is_declared_only(self, top: Top) -> bool:
        return self._code[top.end : self._next(top.begin)].lstrip().startswith((";", ","))

    def _needless(self, reached: set[str]) -> list[_Part]:
        """The parts that neither reach what counts nor are reached by a part that does."""
        waiting: dict[str, list[_Part]] = {}
        for part in self._parts.values():
            for name in part.names:
                waiting.setdefault(name, []).append(part)
        kept = {part for part in self._parts.values() if part.is_function and not part.names.isdisjoint(reached)}
        kept |= {
            self._parts[top.begin]
            for top in self._tree.tops
            if top.node.kind == FUNCTION and top.begin in self._parts and self._may_break(top)
        }
        words = set(words_in(self._rest())).union(*map(self._words, kept))
        new = list(words)
        while new:
            for part in waiting.pop(new.pop(), ()):
                if part not in kept:
                    kept.add(part)
                    more = self._words(part) - words
                    words |= more
                    new += more
        return [part for part in self._parts.values() if part not in kept]

    def _may_break(self, top: Top) -> bool:
        """Whether a function may store through a parameter that it promises only to read from."""
        is_promise = "restrict" in self._code[top.begin : top.end]
        return is_promise and self._promises.may_break(self._read(top))

    def _read(self, top: Top) -> Function:
        if top.begin not in self._functions:
            part, tree = self._parts[top.begin], self._tree
            parameters = [
                Parameter(tree.spelling(one), tree.points_to_constant(one), tree.is_read_only(one))
                for one in tree.parameters(top.node)
            ]
            self._functions[top.begin] = Function(parameters, self._code[part.opening : part.end])
        return self._functions[top.begin]

    def _function_of(self, name: str) -> Function | None:
        """The function of a name, None where there are several or its text is not certain; `KeyError` if there is none."""
        found = self._named[name]
        return self._read(found[0]) if len(found) == 1 and found[0].begin in self._parts else None

    def _rest(self) -> str:
        """The text outside the parts, and outside functions that are declared only."""
        spans = [(part.begin, part.end) for part in self._parts.values()]
        spans += [
            (top.begin, top.end)
            for top in self._tree.tops
            if top.node.kind == FUNCTION and top.begin not in self._parts
        ]
        found, done = [], 0
        for begin, end in sorted(spans):
            found.append(self._code[done:begin])
            done = max(done, end)
        return " ".join([*found, self._code[done:]])

    def _emptied(self, parts: Iterable[_Part]) -> str:
        """The text with nothing in the braces of functions, and a zero in those of variables."""
        found, done = [], 0
        for part in parts:
            # Variables may have more after their first braces.
            end = part.end - 1
            if end - part.opening < _FEW:
                continue
            inside = "\n".join(" " * len(line) for line in self._text[part.opening : end].split("\n"))
            found += [self._text[done : part.opening], inside if part.is_function else inside.replace(" ", "0", 1)]
            done = end
        return "".join([*found, self._text[done:]])
