"""Makes a record that a survey wrote one that every reader takes, whatever drivers say in it.

Not for records of strangers: those are refused (`portbar.records.validation`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

from portbar.records.private import without_betrayals
from portbar.records.reading import missing
from portbar.records.untrusted import MAX_ENTRIES, MAX_INTEGER, MAX_NAME, MAX_NUMBER, printable
from portbar.records.validation import schema_errors, validate

#: What stands where the format wants a reason and the driver gave none.
_NO_REASON: Final = "no reason was given"


def mended(record: dict[str, Any]) -> dict[str, Any]:
    """A record with texts, numbers and lists as the format allows them.

    Texts lose line breaks, hidden characters, what tells whose machine it is, and what is too long. Whole numbers of 2^63 and
    more become the largest that a record can hold; a reading that is no number becomes one of status `error`.

    Parameters
    ----------
    record : dict
        JSON values; NaN and infinity are allowed.
    """
    plain: dict[str, Any] = _plain(record, "")
    if validate(plain):
        for error in schema_errors(plain):
            _shorten(plain, error)
    return plain


def _plain(value: Any, name: str) -> Any:
    kind = type(value)
    if kind is str:
        return without_betrayals(printable(value), name)
    if kind is int:
        return max(1 - MAX_INTEGER, min(value, MAX_INTEGER - 1))
    if kind is float:
        return None if _is_no_number(value) else max(-MAX_NUMBER, min(value, MAX_NUMBER))
    if kind is dict:
        if _is_no_number(value.get("value")):
            return missing("error", f"the measurement gave {value['value']}")
        members = {printable(str(key), MAX_NAME): _plain(item, key) for key, item in value.items()}
        # A reading may leave out its mean, but not have one of null.
        return {key: item for key, item in members.items() if item is not None} if "value" in value else members
    if kind is list:
        return [_plain(item, name) for item in value[:MAX_ENTRIES] if not _is_no_number(item)]
    return value


def _is_no_number(value: Any) -> bool:
    return type(value) is float and not math.isfinite(value)


def _shorten(record: Any, error: Any) -> None:
    """Mend what a schema says is too long or empty; what it says else is left."""
    causes: Iterable[Any] = error.context or [error]
    for cause in causes:
        if cause.validator not in {"maxLength", "maxItems", "minLength"} or not cause.absolute_path:
            continue
        *above, last = cause.absolute_path
        holder = record
        for part in above:
            holder = holder[part]
        most = cause.validator_value
        if cause.validator == "maxLength":
            holder[last] = printable(holder[last], most)
        elif cause.validator == "maxItems":
            holder[last] = holder[last][:most]
        else:
            holder[last] = _NO_REASON
