"""Says what is wrong with a record: bounds first, then the schema of its format, then what a schema cannot say.

Not for reading files (`portbar.records.folder`).
"""

from __future__ import annotations

import importlib
import importlib.resources
import json
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from itertools import islice
from typing import Any, Final

from portbar.records.accepting import Accepts, compiled
from portbar.records.private import betrayals
from portbar.records.untrusted import faults

#: Format -> what the member `schema` of its records says.
NAMES: Final = {1: "portbar-survey", 2: "portbar-record"}
NEWEST: Final = max(NAMES)

#: Problems that are told of one record; more would hide the first.
_MOST: Final = 20
#: Characters of one.
_LONGEST: Final = 400


@cache
def schema(number: int) -> dict[str, Any]:
    """The JSON Schema of a format."""
    path = importlib.resources.files("portbar.records") / "schema" / str(number) / "record.schema.json"
    value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return value


@cache
def _accepts(number: int) -> Accepts:
    return compiled(schema(number))


@cache
def _explainer(number: int) -> Any:
    """The validator of jsonschema, which says what is wrong."""
    # Loading it takes a tenth of a second, which only those should pay whose record is wrong.
    jsonschema = importlib.import_module("jsonschema")
    plain = jsonschema.Draft202012Validator
    types = plain.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
    return jsonschema.validators.extend(plain, type_checker=types)(schema(number))


def schema_errors(value: dict[str, Any]) -> list[Any]:
    """What the schema of the newest format says is wrong, as errors of jsonschema."""
    return [] if _accepts(NEWEST)(value) else list(_explainer(NEWEST).iter_errors(value))


def format_of(value: Any) -> int | None:
    """The format of a record; None if it is no record, or of a format that this portbar does not know."""
    if not isinstance(value, dict):
        return None
    number = value.get("format")
    return number if type(number) is int and value.get("schema") == NAMES.get(number) is not None else None


def validate(value: Any) -> list[str]:
    """What is wrong with a record of any known format, as sentences that begin with a JSON pointer; empty if nothing is."""
    return [_fit(problem) for problem in islice(_problems(value), _MOST)]


def _problems(value: Any) -> Iterator[str]:
    found = faults(value)
    number = format_of(value)
    if found:
        yield from found
    elif number is None:
        yield _no_format(value)
    elif not _accepts(number)(value):
        yield from map(_sentence, _explainer(number).iter_errors(value))
    else:
        yield from _impossible(value)
        yield from betrayals(value)


def _fit(problem: str) -> str:
    """A sentence that quotes a stranger, fit to be printed: no code that a terminal may not know, and no endless one."""
    plain = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in problem)
    return plain if len(plain) <= _LONGEST else f"{plain[: _LONGEST // 2]} ... {plain[-_LONGEST // 2 :]}"


def _impossible(value: dict[str, Any]) -> list[str]:
    """What is wrong with a record that its schema allows."""
    try:
        datetime.fromisoformat(value["created"])
    except ValueError:
        return [f"/created: {value['created']!r} is no time that ever was"]
    return []


def _no_format(value: Any) -> str:
    if not isinstance(value, dict):
        return "/: a record is a JSON object"
    number = value.get("format")
    if value.get("schema") in NAMES.values() and type(number) is int and number > NEWEST:
        return f"/format: {number} is newer than what this portbar reads (up to {NEWEST}): update portbar"
    known = " or ".join(f'"{name}" with format {number}' for number, name in NAMES.items())
    return f"/schema: a portbar record says {known}, as `portbar survey -o FILE` writes it"


def _sentence(error: Any) -> str:
    pointer = "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in error.absolute_path)
    return f"{pointer or '/'}: {error.message}"
