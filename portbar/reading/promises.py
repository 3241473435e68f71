"""Which functions may store through a parameter that is `const` and `restrict`, by their text: most only read its elements.

A function of which this is not certain is looked into by `portbar.reading.stores`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from portbar.reading.stores import writes_to
from portbar.rendering.source import words_in

#: Characters around a use of a pointer that are looked at, and before an argument.
_NEAR, _REACH = 80, 2_000
_BEFORE: Final = re.compile(r"([A-Za-z_]\w*)\s*\Z")
_AFTER: Final = re.compile(r"[,)]|\+(?![+=])")
#: Words before a bracket that do not name functions.
_STATEMENTS: Final = frozenset({"return", "sizeof", "for", "__attribute__"})


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function."""

    name: str
    #: Whether it points to what is `const`, and whether also `restrict`.
    is_constant: bool
    is_read_only: bool


@dataclass(frozen=True)
class Function:
    """A function with its body, without comments."""

    parameters: Sequence[Parameter]
    body: str


class Promises:
    """The promises of a program's functions.

    Parameters
    ----------
    function_of : callable
        The function of a name; None where there are several, or where its text is not certain; `KeyError` for a name that the
        program does not define.
    used : set of str
        Words of the author's macros.
    macros : set of str
        Names of the author's macros.
    taking : set of str
        Names of those that may take an address.
    """

    def __init__(
        self,
        function_of: Callable[[str], Function | None],
        used: AbstractSet[str],
        macros: AbstractSet[str],
        taking: AbstractSet[str],
    ) -> None:
        self._function_of, self._used, self._macros, self._taking = function_of, used, macros, taking
        self._known: dict[tuple[str, int], bool] = {}

    def may_break(self, function: Function) -> bool:
        """Whether a function may store through a parameter that is `const` and `restrict`."""
        return any(one.is_read_only and not self._only_reads(one.name, function) for one in function.parameters)

    def _only_reads(self, name: str, function: Function) -> bool:
        body = function.body
        if name in self._used or not self._taking.isdisjoint(words_in(body)):
            return False
        uses = re.finditer(rf"{name}\b(?<!\w{name})", body)
        return all(self._is_harmless(body, found.start(), found.end()) for found in uses)

    def _is_harmless(self, body: str, begin: int, end: int) -> bool:
        """Whether a use of a pointer is that of an element or a member, or an argument of a function that only reads."""
        following = body[end : end + _NEAR].lstrip()
        if following.startswith(("[", "->")):
            before = body[max(begin - _NEAR, 0) : begin].rstrip("( \t\r\n")
            return bool(before) and (not before.endswith("&") or before.endswith("&&"))
        return _AFTER.match(following) is not None and self._is_passed(body, begin)

    def _is_passed(self, body: str, begin: int) -> bool:
        opening, number = _argument(body, begin)
        found = _BEFORE.search(body, max(opening - _NEAR, 0), opening) if opening > 0 else None
        name = found[1] if found else ""
        if not name or name in _STATEMENTS or name in self._macros or writes_to(name):
            return False
        if not self._macros.isdisjoint(words_in(body[opening:begin])):
            return False
        try:
            function = self._function_of(name)
        except KeyError:
            return True
        if function is None or number >= len(function.parameters):
            return False
        memo = (name, number)
        if memo not in self._known:
            parameter = function.parameters[number]
            self._known[memo] = True
            # One that is `restrict`, too, is a promise of its own.
            self._known[memo] = parameter.is_read_only or (
                parameter.is_constant and self._only_reads(parameter.name, function)
            )
        return self._known[memo]


def _argument(body: str, begin: int) -> tuple[int, int]:
    """Where the bracket opens of which an argument begins at a place, and its number; (0, 0) of other expressions."""
    depth = number = 0
    for place in range(begin - 1, max(begin - _REACH, 0), -1):
        character = body[place]
        if character in ")]":
            depth += 1
        elif character == "(" and depth == 0:
            return place, number
        elif character in "([":
            depth -= 1
        elif character == "," and depth == 0:
            number += 1
        if depth < 0 or character in ";{}" or (number == 0 and not character.isspace()):
            break
    return 0, 0
