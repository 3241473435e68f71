"""Finds what is wrong with a record: bounds first, then the schema, then what a schema cannot say."""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from portbar.records.bounds import MAX_FAULTS, examined

if TYPE_CHECKING:  # imported with the package that does the work
    from portbar.records.schemas import Validator

#: The values of a record's members `schema` and `format`.
SCHEMA: Final = "portbar-record"
FORMAT: Final = 2

#: The file of a record's schema.
_SCHEMA_FILE: Final = f"{FORMAT}/record.schema.json"

#: Characters of one problem.
_LONGEST: Final = 400


def _text(file: str) -> str:
    return (importlib.resources.files("portbar.records") / "schema" / file).read_text(encoding="utf-8")


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a record."""
    value: dict[str, Any] = json.loads(_text(_SCHEMA_FILE))
    return value


@cache
def validator(file: str = _SCHEMA_FILE) -> Validator:
    """Return a validator of the schema in a file of the folder `schema`.

    It goes through the package jsonschema-rs where PyPI has a wheel of it, else through jsonschema, which takes a hundred times
    as long.
    """
    # Imported late: many commands read no record.
    from portbar.records import schemas  # noqa: PLC0415

    try:
        return schemas.CompiledSchema(_text(file))
    except ImportError:
        return schemas.InterpretedSchema(_text(file))


def schema_errors(value: dict[str, Any]) -> list[dict[str, str]]:
    """Return what the schema says is wrong, in the output format of JSON Schema.

    `instanceLocation` points to the value, `schemaLocation` to the rule; `error` is a sentence.
    """
    return validator().errors(value)


def validate(value: Any) -> list[str]:
    """Return the problems of a record, as sentences that begin with a JSON pointer; none if it is valid."""
    return [_fit(problem) for problem in [*_problems(value)][:MAX_FAULTS]]


def _problems(value: Any) -> Iterator[str]:
    found = examined(value)
    if found.faults:
        yield from found.faults
    elif not isinstance(value, dict):
        yield "/: a record is a JSON object"
    elif value.get("schema") != SCHEMA or type(value.get("format")) is not int or value["format"] != FORMAT:
        yield _no_format(value)
    elif errors := schema_errors(value):
        yield from (f"{error['instanceLocation'] or '/'}: {error['error']}" for error in errors)
    else:
        try:
            datetime.fromisoformat(value["created"])
        except ValueError:
            # Such as the 30th of February, which fits the schema.
            yield f"/created: {value['created']!r} is not a valid timestamp"
        yield from found.private


def _fit(problem: str) -> str:
    """Return a sentence that quotes a stranger so that it can be printed: no hidden characters, and not too long."""
    plain = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in problem)
    return plain if len(plain) <= _LONGEST else f"{plain[: _LONGEST // 2]} ... {plain[-_LONGEST // 2 :]}"


def _no_format(value: dict[str, Any]) -> str:
    number = value.get("format")
    if value.get("schema") == SCHEMA and type(number) is int and number > FORMAT:
        return f"/format: {number} is newer than what this portbar reads ({FORMAT}): update portbar"
    return f'/schema: a portbar record says "{SCHEMA}" with format {FORMAT}, as `portbar survey -o FILE` writes it'
