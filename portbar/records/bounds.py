"""Looks through a record from any source: sizes, hidden characters, and personal data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from portbar.records.plain import HIDDEN
from portbar.records.scrubbing import fault_of_name, told_by

#: Objects and arrays inside each other.
MAX_DEPTH: Final = 24
#: Values in a whole record.
MAX_VALUES: Final = 1_000_000
#: Members of one object, entries of one array.
MAX_MEMBERS: Final = 2_000
MAX_ENTRIES: Final = 100_000
#: Characters of a member's name, and of a text.
MAX_NAME: Final = 200
MAX_TEXT: Final = 8_000
#: Largest magnitude of a whole number, and of another number.
MAX_INTEGER: Final = 2**63
MAX_NUMBER: Final = 1e18

#: Faults that are reported per record; more would hide the first.
MAX_FAULTS: Final = 20

_CONTAINERS: Final = frozenset([dict, list])

#: The place of a value: that of its container, and its name or index there; None for the whole.
Place: TypeAlias = "tuple[Place, Any] | None"


class Examined(NamedTuple):
    """Forbidden parts of a value, as sentences with a JSON pointer; at most a few of each.

    `faults` are values out of bounds or not JSON; `private` are personal data of the machine's owner.
    """

    faults: list[str]
    private: list[str]


def examined(value: Any) -> Examined:
    """Look through a JSON value once."""
    found = Examined([], [])
    count = 0
    for item, held, place, depth in _walk(value):
        count += len(item)
        if depth > MAX_DEPTH:
            found.faults.append(f"{_pointer(place)}: nests deeper than {MAX_DEPTH}")
            break
        if count > MAX_VALUES:
            found.faults.append(f"{_pointer(place)}: the record has more than {MAX_VALUES} values")
            break
        most, what = (MAX_MEMBERS, "members") if type(item) is dict else (MAX_ENTRIES, "entries")
        if len(item) > most:
            found.faults.append(f"{_pointer(place)}: has {len(item)} {what}, more than {most}")
        for key, entry in held:
            if type(item) is dict:
                if fault := _fault_of_name(key):
                    found.faults.append(f"{_pointer(place)}: {fault}")
                elif what := fault_of_name(key):
                    found.private.append(f"{_pointer((place, key))}: {what}; remove it")
            if type(entry) in _CONTAINERS:
                continue
            if fault := _fault_of_scalar(entry):
                found.faults.append(f"{_pointer((place, key))}: {fault}")
            elif type(entry) is str and told_by(entry) and (what := told_by(entry, _member((place, key)))):
                where = _pointer((place, key))
                found.private.append(
                    f"{where}: looks as if it held {what}, which identifies the machine or its owner; replace that part"
                )
        if len(found.faults) >= MAX_FAULTS:
            break
    return Examined(found.faults[:MAX_FAULTS], found.private[:MAX_FAULTS])


def _walk(value: Any) -> Iterator[tuple[Any, list[tuple[Any, Any]], Place, int]]:
    """Yield every object and array inside a JSON value, in order: itself, what it holds, its place and its depth.

    Its parts are pairs of name or index and value. An array of plain numbers counts as one that holds nothing.
    """
    waiting: list[tuple[Any, Place, int]] = [(value, None, 1)] if type(value) in _CONTAINERS else []
    while waiting:
        item, place, depth = waiting.pop()
        held = _held(item)
        yield item, held, place, depth
        waiting += [(entry, (place, key), depth + 1) for key, entry in reversed(held) if type(entry) in _CONTAINERS]


def _held(item: Any) -> list[tuple[Any, Any]]:
    if type(item) is dict:
        return list(item.items())
    return [] if _only_plain_numbers(item) else list(enumerate(item))


def _pointer(place: Place) -> str:
    parts: list[str] = []
    while place is not None:
        place, part = place
        parts.append(f"/{str(part).replace('~', '~0').replace('/', '~1')}")
    return "".join(reversed(parts)) or "/"


def _only_plain_numbers(items: list[Any]) -> bool:
    """Whether a list holds nothing but numbers within bounds, which is what most of a record is."""
    if not items or set(map(type, items)) - {int, float}:
        return False
    # NaN compares false with everything, so it may hide from min and max, but not from the sum.
    return min(items) >= -MAX_NUMBER and max(items) <= MAX_NUMBER and not math.isnan(sum(items))


@lru_cache(maxsize=2048)
def _fault_of_name(name: Any) -> str:
    if type(name) is not str:
        return f"a member's name is {type(name).__name__}, not text"
    if not 0 < len(name) <= MAX_NAME:
        return f"a member's name has {len(name)} characters; 1 to {MAX_NAME} are allowed"
    if HIDDEN.search(name):
        return f"the member's name {shown(name)} holds a control character or an invisible one"
    return ""


def _fault_of_scalar(item: Any) -> str:
    kind = type(item)
    if kind is str:
        if len(item) > MAX_TEXT:
            return f"a text has {len(item)} characters, more than {MAX_TEXT}"
        if HIDDEN.search(item):
            return f"{shown(item)} holds a control character, a terminal escape or an invisible character"
        return ""
    if kind is bool or item is None:
        return ""
    if kind is int:
        return "" if abs(item) < MAX_INTEGER else f"a whole number is beyond {MAX_INTEGER}"
    if kind is float:
        return "" if math.isfinite(item) and abs(item) <= MAX_NUMBER else "a number is not finite or beyond 1e18"
    return f"{kind.__name__} is not a JSON value"


def shown(text: str) -> str:
    """A stranger's text, fit to be printed."""
    return ascii(text if len(text) <= 80 else f"{text[:77]}...")


def _member(place: Place) -> str:
    """The name of the member that holds a value, itself or in a list."""
    while place is not None:
        place, part = place
        if isinstance(part, str):
            return part
    return ""
