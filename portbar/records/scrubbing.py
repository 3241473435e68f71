"""Prepares records of this machine for sharing: removes personal data, and fits values to the format.

Drivers' messages and tracebacks quote paths and hosts, so whole JSON values are cleaned rather than texts where they are made.
"""

from __future__ import annotations

import math
import re
import socket
from typing import Any, Final

from portbar.records.bounds import (
    COMMON,
    IPV4,
    KINDS,
    MAX_ENTRIES,
    MAX_INTEGER,
    MAX_NAME,
    MAX_NUMBER,
    MAX_TEXT,
    VERSIONS,
    told_by,
)
from portbar.records.plain import plain_text
from portbar.records.reading import missing
from portbar.records.validation import schema, schema_errors

#: The reason for the format if the driver gave none.
_NO_REASON: Final = "no reason was given"

#: Members that hold what drivers and systems call themselves, which a host may be called too.
_NAMES: Final = {"address", "environment", "facts", "host", "name", "platform"}

#: Members that hold portbar's own words wherever they hold text, so that a host called `us` or `ok` makes no record invalid.
_WORDS: Final = {
    "algorithm",
    "command",
    "implementation",
    "kind",
    "level",
    "lock",
    "operation",
    "schema",
    "space",
    "status",
    "strategy",
    "type",
    "unit",
}

_POSIX_FILE: Final = re.compile(r"(?<![\w./])(?:~|\.{1,2})?(?:/[^\s/:;,'\"`()<>]+)+/([^\s/:;,'\"`()<>]*)")
_WINDOWS_FILE: Final = re.compile(r"(?<!\w)(?:[A-Za-z]:|\\)(?:[\\/][^\s\\/:;,'\"`()<>]+)*[\\/]([^\s\\/:;,'\"`()<>]*)")


def anonymous(value: Any, host: str | None = None) -> Any:
    """A copy of a JSON value in which every path is cut to its last part, and the host's name to `host`.

    Parameters
    ----------
    value : JSON value
    host : str, optional
        The host name to remove; by default that of this machine.
    """
    name = socket.gethostname() if host is None else host
    pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", re.IGNORECASE) if name else None
    return _scrubbed(value, pattern)


def _scrubbed(value: Any, host: re.Pattern[str] | None) -> Any:
    if isinstance(value, dict):
        return {
            key: _scrubbed(item, None if key in _NAMES or (key in _WORDS and isinstance(item, str)) else host)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_scrubbed(item, host) for item in value]
    if isinstance(value, str):
        text = _WINDOWS_FILE.sub(_last_part, _POSIX_FILE.sub(_last_part, value))
        return host.sub("host", text) if host is not None else text
    return value


def _last_part(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith(COMMON) else match[1]


def mended(record: dict[str, Any]) -> dict[str, Any]:
    """A record with texts, numbers and lists as the format allows them.

    Texts lose line breaks, hidden characters, personal data, and excess length. Whole numbers of 2^63 and more become the
    largest that a record can hold; a reading that is no number becomes one of status `error`.

    Parameters
    ----------
    record : dict
        JSON values; NaN and infinity are allowed.
    """
    plain: dict[str, Any] = _plain(record, "")
    # Lists last: until then every error still points to something.
    for error in sorted(schema_errors(plain), key=lambda error: error["schemaLocation"].endswith("/maxItems")):
        _shorten(plain, error)
    return plain


def _plain(value: Any, name: str) -> Any:
    kind = type(value)
    if kind is str:
        return _without_personal_data(plain_text(value, MAX_TEXT), name)
    if kind is int:
        return max(1 - MAX_INTEGER, min(value, MAX_INTEGER - 1))
    if kind is float:
        return None if _is_no_number(value) else max(-MAX_NUMBER, min(value, MAX_NUMBER))
    if kind is dict:
        if _is_no_number(value.get("value")):
            return missing("error", f"the measurement gave {value['value']}")
        members = {plain_text(str(key), MAX_NAME): _plain(item, key) for key, item in value.items()}
        # A reading may leave out its mean, but not have one of null.
        return {key: item for key, item in members.items() if item is not None} if "value" in value else members
    if kind is list:
        return [_plain(item, name) for item in value[:MAX_ENTRIES] if not _is_no_number(item)]
    return value


def _is_no_number(value: Any) -> bool:
    return type(value) is float and not math.isfinite(value)


def _shorten(record: dict[str, Any], error: dict[str, str]) -> None:
    """Fix values that are too long or empty for the schema; other problems stay."""
    rule = error["schemaLocation"].partition("#")[2]
    keyword = rule.rpartition("/")[2]
    if keyword not in {"maxLength", "maxItems", "minLength"}:
        return
    above, _, last = error["instanceLocation"].rpartition("/")
    holder, limit = _at(record, above), _at(schema(), rule)
    place = int(last) if isinstance(holder, list) else _member(last)
    if keyword == "maxLength":
        holder[place] = plain_text(holder[place], limit)
    elif keyword == "maxItems":
        holder[place] = holder[place][:limit]
    else:
        holder[place] = _NO_REASON


def _at(value: Any, pointer: str) -> Any:
    """The value that a JSON pointer leads to."""
    for part in pointer.split("/")[1:]:
        value = value[int(part) if isinstance(value, list) else _member(part)]
    return value


def _member(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")


def _without_personal_data(text: str, name: str) -> str:
    """A text of a member in which whatever `told_by` would find has been replaced by words for what it was."""
    while told_by(text, name):
        for pattern, what in KINDS:
            if pattern is not IPV4 or name not in VERSIONS:
                text = pattern.sub(lambda match, what=what: _replaced(match, what), text)  # type: ignore[misc]
    return text


def _replaced(match: re.Match[str], what: str) -> str:
    return match[0] if match[0].startswith(COMMON) else f"[{what}]"
