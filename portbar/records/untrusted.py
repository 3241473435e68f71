"""Reads JSON that a stranger wrote: size, depth, counts, numbers and texts are bounded before anything looks at them.

Not for what the members of a record mean (`portbar.records.validation`).
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

from portbar.errors import RecordError
from portbar.system.plain import HIDDEN

#: Bytes of a file.
MAX_BYTES: Final = 16 * 1024 * 1024
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

#: Faults that are told of one record; more would hide the first.
MAX_FAULTS: Final = 20

#: What holds other values.
CONTAINERS: Final = frozenset([dict, list])

#: Where a value stands: the place of what holds it, and its name or index there; None for the whole.
Place: TypeAlias = "tuple[Place, Any] | None"

#: Digits of a whole number: no record needs as many, and Python takes quadratic time for them.
MAX_DIGITS: Final = 50


def read_bytes(path: Path) -> bytes:
    """The bytes of a regular file that is not a link and not too large.

    Raises
    ------
    RecordError
        It is something else, too large, or cannot be read.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        if path.is_symlink():
            raise RecordError(f"{path.name!r} is a link: name the file that it leads to")
        descriptor = os.open(path, flags)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise RecordError(f"{path.name!r} is not a regular file: records are files of JSON")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                data = file.read(MAX_BYTES + 1)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise RecordError(f"{path.name!r} cannot be read: {why}") from None
    if len(data) > MAX_BYTES:
        raise RecordError(
            f"{path.name!r} is larger than {MAX_BYTES} bytes: split it into one record a device with `portbar submit`"
        )
    return data


def parse(data: bytes) -> Any:
    """The JSON value in some bytes.

    Raises
    ------
    RecordError
        This is no JSON in UTF-8, nests deeper than Python can read, names a member twice, or holds a whole number of more
        than 50 digits. `faults` finds the rest.
    """
    if len(data) > MAX_BYTES:
        raise RecordError(f"a record has at most {MAX_BYTES} bytes, this has {len(data)}")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecordError(f"a record is JSON in UTF-8, and byte {error.start} is not: save it as UTF-8") from None
    try:
        return json.loads(text, object_pairs_hook=_object, parse_int=_integer, parse_constant=_constant)
    except json.JSONDecodeError as error:
        raise RecordError(f"this is no JSON: {error.msg} in line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise RecordError(f"objects and arrays nest deeper than {MAX_DEPTH}, and those of a record do not") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise RecordError(f"an object names its member {_shown(twice)} twice, so that one of the two would be lost")
    return value


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise RecordError(f"a number has more than {MAX_DIGITS} digits, and none of a record has")
    return int(digits)


def _constant(name: str) -> Any:
    raise RecordError(f"{name} is no JSON number: leave the value out and give the status and reason instead")


def _shown(text: str) -> str:
    """A stranger's text, fit to be printed."""
    return ascii(text if len(text) <= 80 else f"{text[:77]}...")


def walk(value: Any) -> Iterator[tuple[Any, list[tuple[Any, Any]], Place, int]]:
    """Yield every object and array inside a JSON value, in order: itself, what it holds, its place and its depth.

    What it holds comes as pairs of name or index and value. An array of plain numbers counts as one that holds nothing.
    """
    waiting: list[tuple[Any, Place, int]] = [(value, None, 1)] if type(value) in CONTAINERS else []
    while waiting:
        item, place, depth = waiting.pop()
        held = _held(item)
        yield item, held, place, depth
        waiting += [(entry, (place, key), depth + 1) for key, entry in reversed(held) if type(entry) in CONTAINERS]


def _held(item: Any) -> list[tuple[Any, Any]]:
    if type(item) is dict:
        return list(item.items())
    return [] if _only_plain_numbers(item) else list(enumerate(item))


def pointer(place: Place) -> str:
    """Return the JSON pointer to a place."""
    parts: list[str] = []
    while place is not None:
        place, part = place
        parts.append(f"/{str(part).replace('~', '~0').replace('/', '~1')}")
    return "".join(reversed(parts)) or "/"


def faults(value: Any) -> list[str]:
    """Return what no record may hold, as sentences with a JSON pointer; at most a few, empty if there is nothing.

    These are the bounds above, and values that JSON does not have.

    Parameters
    ----------
    value : dict or list
    """
    found: list[str] = []
    # Names that were looked at: most of a record's are the same few.
    seen: set[Any] = set()
    count = 0
    for item, held, place, depth in walk(value):
        count += len(item)
        if depth > MAX_DEPTH:
            return [*found, f"{pointer(place)}: nests deeper than {MAX_DEPTH}"]
        if count > MAX_VALUES:
            return [*found, f"{pointer(place)}: the record has more than {MAX_VALUES} values"]
        if type(item) is list and len(item) > MAX_ENTRIES:
            found.append(f"{pointer(place)}: has {len(item)} entries, more than {MAX_ENTRIES}")
        if type(item) is dict:
            if len(item) > MAX_MEMBERS:
                found.append(f"{pointer(place)}: has {len(item)} members, more than {MAX_MEMBERS}")
            new = [name for name in item if name not in seen]
            found += [f"{pointer(place)}: {fault}" for name in new if (fault := _fault_of_name(name))]
            seen.update(new)
        found += [
            f"{pointer((place, key))}: {fault}"
            for key, entry in held
            if type(entry) not in CONTAINERS and (fault := _fault_of_scalar(entry))
        ]
        if len(found) >= MAX_FAULTS:
            break
    return found[:MAX_FAULTS]


def _only_plain_numbers(items: list[Any]) -> bool:
    """Whether a list holds nothing but numbers within bounds, which is what most of a record is."""
    if not items or set(map(type, items)) - {int, float}:
        return False
    # NaN compares false with everything, so it may hide from min and max, but not from the sum.
    return min(items) >= -MAX_NUMBER and max(items) <= MAX_NUMBER and not math.isnan(sum(items))


def _fault_of_name(name: Any) -> str:
    if type(name) is not str:
        return f"a member is named by {type(name).__name__}, not by text"
    if not 0 < len(name) <= MAX_NAME:
        return f"a member's name has {len(name)} characters; 1 to {MAX_NAME} are allowed"
    if HIDDEN.search(name):
        return f"the member's name {_shown(name)} holds a control character or one that cannot be seen"
    return ""


def _fault_of_scalar(item: Any) -> str:
    kind = type(item)
    if kind is str:
        if len(item) > MAX_TEXT:
            return f"a text has {len(item)} characters, more than {MAX_TEXT}"
        if HIDDEN.search(item):
            return f"{_shown(item)} holds a control character, a terminal escape or a character that cannot be seen"
        return ""
    if kind is bool or item is None:
        return ""
    if kind is int:
        return "" if abs(item) < MAX_INTEGER else f"a whole number is beyond {MAX_INTEGER}"
    if kind is float:
        return "" if math.isfinite(item) and abs(item) <= MAX_NUMBER else "a number is not finite or beyond 1e18"
    return f"{kind.__name__} is no value of JSON"
