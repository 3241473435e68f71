"""Reads JSON that a stranger wrote: size, depth, counts, numbers and texts are bounded before anything looks at them.

Not for what the members of a record mean (`portbar.records.validation`).
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections import Counter
from pathlib import Path
from typing import Any, Final

from portbar.errors import RecordError

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

#: Control characters and terminal escapes; marks that turn the direction of text, join or hide it; halves of pairs.
_HIDDEN: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202f\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\uffff\U000e0000-\U000e0fff]"
)
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


def printable(text: str, limit: int = MAX_TEXT) -> str:
    """A text as a record may hold it: in one line, no hidden character, at most `limit` characters.

    For those who write records from what drivers say.
    """
    plain = " ".join(_HIDDEN.sub(" ", text).split())
    return plain if len(plain) <= limit else f"{plain[: limit - 3]}..."


def faults(value: Any) -> list[str]:
    """What no record may hold, as sentences with a JSON pointer; at most a few, empty if there is nothing.

    These are the bounds above, and values that JSON does not have.
    """
    if _is_clean(value):
        return []
    found: list[str] = []
    count = 0
    waiting: list[tuple[Any, str, int]] = [(value, "", 1)]
    while waiting and len(found) < 20:
        item, where, depth = waiting.pop()
        kind = type(item)
        if kind is dict or kind is list:
            count += len(item)
            if depth > MAX_DEPTH:
                return [*found, f"{where}: nests deeper than {MAX_DEPTH}"]
            if count > MAX_VALUES:
                return [*found, f"{where}: the record has more than {MAX_VALUES} values"]
        if kind is list:
            if len(item) > MAX_ENTRIES:
                found.append(f"{where}: has {len(item)} entries, more than {MAX_ENTRIES}")
            elif not _only_plain_numbers(item):
                waiting += [(entry, f"{where}/{index}", depth + 1) for index, entry in enumerate(item)]
        elif kind is dict:
            if len(item) > MAX_MEMBERS:
                found.append(f"{where}: has {len(item)} members, more than {MAX_MEMBERS}")
                continue
            for name, entry in item.items():
                fault = _fault_of_name(name)
                if fault:
                    found.append(f"{where or '/'}: {fault}")
                else:
                    waiting.append((entry, f"{where}/{name.replace('~', '~0').replace('/', '~1')}", depth + 1))
        else:
            fault = _fault_of_scalar(item)
            if fault:
                found.append(f"{where or '/'}: {fault}")
    return found


def _is_clean(value: Any) -> bool:
    """Whether `faults` has nothing to find, in a quarter of its time: places are not kept, and equal texts seen once."""
    texts: set[str] = set()
    names: set[Any] = set()
    count = 0
    level = [value]
    for depth in range(1, MAX_DEPTH + 2):
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is str:
                texts.add(item)
            elif kind is dict:
                if len(item) > MAX_MEMBERS or depth > MAX_DEPTH:
                    return False
                names.update(item)
                below += item.values()
            elif kind is list:
                if len(item) > MAX_ENTRIES or depth > MAX_DEPTH:
                    return False
                if _only_plain_numbers(item):
                    count += len(item)
                else:
                    below += item
            elif _fault_of_scalar(item):
                return False
        count += len(below)
        if count > MAX_VALUES:
            return False
        if not below:
            return not any(map(_fault_of_name, names)) and not any(map(_fault_of_scalar, texts))
        level = below
    return False


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
    if _HIDDEN.search(name):
        return f"the member's name {_shown(name)} holds a control character or one that cannot be seen"
    return ""


def _fault_of_scalar(item: Any) -> str:
    kind = type(item)
    if kind is str:
        if len(item) > MAX_TEXT:
            return f"a text has {len(item)} characters, more than {MAX_TEXT}"
        if _HIDDEN.search(item):
            return f"{_shown(item)} holds a control character, a terminal escape or a character that cannot be seen"
        return ""
    if kind is bool or item is None:
        return ""
    if kind is int:
        return "" if abs(item) < MAX_INTEGER else f"a whole number is beyond {MAX_INTEGER}"
    if kind is float:
        return "" if math.isfinite(item) and abs(item) <= MAX_NUMBER else "a number is not finite or beyond 1e18"
    return f"{kind.__name__} is no value of JSON"
