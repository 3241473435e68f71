"""Checks JSON values against a JSON Schema, through whichever package is there.

Both take integers alone for integers: JSON Schema takes 4.0 for one, too, and readers of records do not.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol


class Validator(Protocol):
    """A schema that values can be checked against."""

    def is_valid(self, value: object) -> bool:
        """Whether a value fits the schema."""

    def errors(self, value: object) -> list[dict[str, str]]:
        """Return the errors: sentence `error`, JSON pointers `instanceLocation` to the value, `schemaLocation` to the rule."""


class _WholeNumber:
    """A keyword for integers."""

    def __init__(self, *_place: object) -> None:
        pass

    def validate(self, value: object) -> None:
        if type(value) is float:
            raise ValueError(f'{value} is not of type "integer"')


def _strict(part: dict[str, Any]) -> dict[str, Any]:
    return {**part, "wholeNumber": True} if "integer" in part.get("type", ()) else part


class CompiledSchema:
    """By the package jsonschema-rs; an ImportError where it is not installed."""

    def __init__(self, schema: str) -> None:
        package = importlib.import_module("jsonschema_rs")
        strict = json.loads(schema, object_hook=_strict)
        self._validator = package.validator_for(strict, keywords={"wholeNumber": _WholeNumber})

    def is_valid(self, value: object) -> bool:
        """Whether a value fits the schema."""
        return bool(self._validator.is_valid(value))

    def errors(self, value: object) -> list[dict[str, str]]:
        """Return the errors, as `Validator.errors`."""
        # Validates twice, since its `iter_errors` takes a hundred times the time where there are many.
        found: list[dict[str, str]] = [] if self.is_valid(value) else self._validator.evaluate(value).errors()
        return found


class InterpretedSchema:
    """By the package jsonschema, for processors for which PyPI has no wheel of the other, such as RISC-V."""

    def __init__(self, schema: str) -> None:
        package = importlib.import_module("jsonschema")
        whole = json.loads(schema)
        plain = package.Draft202012Validator
        types = plain.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
        self._validator = package.validators.extend(plain, type_checker=types)(whole)
        self._places = dict(_places(whole, ""))

    def is_valid(self, value: object) -> bool:
        """Whether a value fits the schema."""
        return bool(self._validator.is_valid(value))

    def errors(self, value: object) -> list[dict[str, str]]:
        """Return the errors, as `Validator.errors`."""
        return [
            {
                "instanceLocation": _pointer(error.absolute_path),
                # The way that an error gives passes over references; the part of the schema is the one that was read.
                "schemaLocation": f"#{self._places[id(error.schema)]}{_pointer([error.validator])}",
                "error": error.message,
            }
            for error in _leaves(self._validator.iter_errors(value))
        ]


def _leaves(errors: Iterable[Any]) -> Iterator[Any]:
    """The errors, and those of each alternative in place of one that none fits."""
    for error in errors:
        yield from _leaves(error.context) if error.context else (error,)


def _places(part: object, pointer: str) -> Iterator[tuple[int, str]]:
    """The parts of a schema, by identity, and where they are."""
    if isinstance(part, dict):
        yield id(part), pointer
        for name, below in part.items():
            yield from _places(below, pointer + _pointer([name]))
    elif isinstance(part, list):
        for i, below in enumerate(part):
            yield from _places(below, f"{pointer}/{i}")


def _pointer(path: Sequence[str | int]) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)
