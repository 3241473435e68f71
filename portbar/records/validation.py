"""Says what is wrong with a record: bounds first, then the schema, then what a schema cannot say.

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

#: What a record says in its members `schema` and `format`.
SCHEMA: Final = "portbar-record"
FORMAT: Final = 2

#: Problems that are told of one record; more would hide the first.
_MOST: Final = 20
#: Characters of one.
_LONGEST: Final = 400


@cache
def schema() -> dict[str, Any]:
    """The JSON Schema of a record."""
    path = importlib.resources.files("portbar.records") / "schema" / str(FORMAT) / "record.schema.json"
    value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return value


@cache
def _accepts() -> Accepts:
    return compiled(schema())


@cache
def _explainer() -> Any:
    """The validator of jsonschema, which says what is wrong."""
    # Loading it takes a tenth of a second, which only those should pay whose record is wrong.
    jsonschema = importlib.import_module("jsonschema")
    plain = jsonschema.Draft202012Validator
    types = plain.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
    return jsonschema.validators.extend(plain, type_checker=types)(schema())


def schema_errors(value: dict[str, Any]) -> list[Any]:
    """What the schema says is wrong, as errors of jsonschema."""
    return [] if _accepts()(value) else list(_explainer().iter_errors(value))


def validate(value: Any) -> list[str]:
    """What is wrong with a record, as sentences that begin with a JSON pointer; empty if nothing is."""
    return [_fit(problem) for problem in islice(_problems(value), _MOST)]


def _problems(value: Any) -> Iterator[str]:
    found = faults(value)
    if found:
        yield from found
    elif not isinstance(value, dict):
        yield "/: a record is a JSON object"
    elif value.get("schema") != SCHEMA or type(value.get("format")) is not int or value["format"] != FORMAT:
        yield _no_format(value)
    elif not _accepts()(value):
        yield from map(_sentence, _explainer().iter_errors(value))
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


def _no_format(value: dict[str, Any]) -> str:
    number = value.get("format")
    if value.get("schema") == SCHEMA and type(number) is int and number > FORMAT:
        return f"/format: {number} is newer than what this portbar reads ({FORMAT}): update portbar"
    return f'/schema: a portbar record says "{SCHEMA}" with format {FORMAT}, as `portbar survey -o FILE` writes it'


def _sentence(error: Any) -> str:
    pointer = "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in error.absolute_path)
    return f"{pointer or '/'}: {error.message}"
