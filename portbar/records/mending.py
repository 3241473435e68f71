"""Fits records of this machine to the format, whatever its drivers say."""

from __future__ import annotations

import math
from typing import Any

from portbar.records.bounds import MAX_ENTRIES, MAX_INTEGER, MAX_NAME, MAX_NUMBER, MAX_TEXT
from portbar.records.plain import plain_text
from portbar.records.reading import missing
from portbar.records.scrubbing import without_personal_data
from portbar.records.validation import schema, schema_errors


def mended(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record with texts, numbers and lists as the format allows them.

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
        return without_personal_data(plain_text(value, MAX_TEXT), name)
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
    """Fix a value that is too long or empty for the schema; other problems stay."""
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
        holder[place] = "no reason was given"


def _at(value: Any, pointer: str) -> Any:
    """Return the value that a JSON pointer leads to."""
    for part in pointer.split("/")[1:]:
        value = value[int(part) if isinstance(value, list) else _member(part)]
    return value


def _member(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")
