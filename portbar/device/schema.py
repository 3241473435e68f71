"""The JSON Schema of records, made of the types in `portbar.records.format` and of the classes that a device's entry holds.

`python -m portbar.device.schema` prints it as `portbar/records/schema/` has it.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import reduce
from operator import or_
from typing import Annotated, Any, Final, Literal, NotRequired, TypeVar, Union, get_args, get_origin, get_type_hints

from portbar.device.addresses import DeviceAddress
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings
from portbar.records.classes import Rule, Text, is_left_out, rule_of, without_none
from portbar.records.files import text
from portbar.records.format import Record
from portbar.records.validation import FORMAT

Json = dict[str, Any]

#: The classes of an entry's parts that `records.format` only names.
CLASSES: Final[dict[str, type]] = {"address": DeviceAddress, "facts": DeviceFacts, "findings": Findings}

_TYPES: Final = {str: "string", int: "integer", float: "number", bool: "boolean", types.NoneType: "null"}

#: Types that have these rules where a record holds them without rules of their own.
_USUAL: Final[dict[Any, Any]] = {
    str: Annotated[str, Rule("name", maxLength=300)],
    int: Annotated[int, Rule("count", minimum=0)],
    int | None: Annotated[int | None, Rule("countOrNull", minimum=0)],
    list[str]: Annotated[list[str], Rule("names", maxItems=2000)],
    tuple[str, ...]: Annotated[tuple[str, ...], Rule("names", maxItems=2000)],
    Mapping[str, str]: Annotated[Mapping[str, Text], Rule("words", maxProperties=200)],
}


def record_schema() -> Json:
    """Return the schema of a record."""
    made = _Schema()
    record = made.of(Record)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"urn:portbar:record:{FORMAT}"}
    return {**head, **record, "$defs": made.definitions}


class _Schema:
    """A schema under way, and its definitions, in the order of their first use."""

    def __init__(self) -> None:
        self.definitions: Json = {}

    def of(self, kind: Any) -> Json:
        """Return the schema of a type, with the rules that it has or that are usual for it."""
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is NotRequired:
            return self.of(arguments[0])
        if origin is not Annotated:
            return self._ruled(*_parts(_USUAL[kind])) if kind in _USUAL else self._plain(kind)
        base, rules = _parts(kind)
        has_own = any(one.name or one.kind is not None or set(one.keywords) - {"description"} for one in rules)
        return self._ruled(base, rules) if has_own else self.of(base) | _keywords(rules)

    def _ruled(self, base: Any, rules: list[Rule]) -> Json:
        found: Json | None = None
        for rule in rules:

            def made(before: Json | None = found, rule: Rule = rule) -> Json:
                if rule.name in CLASSES:
                    return self._members(CLASSES[rule.name])
                return (self._plain(rule.kind or base) if before is None else before) | rule.keywords

            found = self._defined(rule.name, made) if rule.name else made()
        return found or self._plain(base)

    def _defined(self, name: str, made: Callable[[], Json]) -> Json:
        if name not in self.definitions:
            self.definitions[name] = {}
            self.definitions[name] |= made()
        return {"$ref": f"#/$defs/{name}"}

    def _plain(self, kind: Any) -> Json:
        """Return the schema of a type by itself; of what it holds by the rules."""
        origin, arguments = get_origin(kind), get_args(kind)
        if kind in _TYPES:
            return {"type": _TYPES[kind]}
        if origin is Literal:
            return {"const": arguments[0]} if len(arguments) == 1 else {"enum": list(arguments)}
        if origin in {Union, types.UnionType}:
            return self._alternatives(kind)
        if origin is list or (origin is tuple and arguments[-1] is Ellipsis):
            items = {} if isinstance(arguments[0], TypeVar) else {"items": self.of(arguments[0])}
            return {"type": "array", **items}
        if origin is tuple:
            count = len(arguments)
            return {"type": "array", "prefixItems": [*map(self.of, arguments)], "minItems": count, "maxItems": count}
        if origin in {dict, Mapping}:
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        if origin is not None:
            return self._generic(origin, arguments)
        name = rule_of(kind).name
        return self._defined(name, lambda: self._members(kind)) if name else self._members(kind)

    def _alternatives(self, kind: Any) -> Json:
        kinds = get_args(kind)
        if all(one in _TYPES for one in kinds):
            return {"type": [_TYPES[one] for one in kinds]}
        other = without_none(kind)
        if other is None and all(get_origin(one) is None for one in kinds):
            # Two kinds of objects are told apart by the first member of the first.
            one, another = ({k: v for k, v in self._members(one).items() if k != "type"} for one in kinds)
            return {"type": "object", "if": {"required": one["required"][:1]}, "then": one, "else": another}
        if other is None:
            return {"oneOf": [*map(self.of, kinds)]}
        if get_origin(other) is Annotated and not _parts(other)[1]:
            return self.of(_base(other) | None)
        found = self.of(other)
        return found | {"type": [found["type"], "null"]} if "type" in found else {"oneOf": [found, {"type": "null"}]}

    def _generic(self, kind: Any, arguments: tuple[Any, ...]) -> Json:
        """Return the schema of a class with parameters, each of which one of its lists holds."""
        of = dict(zip(kind.__parameters__, arguments, strict=True))
        held = {
            name: {"items": self._row(of[get_args(_base(hint))[0]])}
            for name, hint in get_type_hints(kind, include_extras=True).items()
            if any(isinstance(one, TypeVar) for one in get_args(_base(hint)))
        }
        return self._plain(kind) | {"properties": held}

    def _row(self, kind: type) -> Json:
        return self._defined(kind.__name__[0].lower() + kind.__name__[1:], lambda: self._members(kind))

    def _members(self, kind: Any) -> Json:
        """Return the schema of a class's object."""
        rule = rule_of(kind)
        head: Json = {name: rule.keywords[name] for name in ("title", "description") if name in rule.keywords}
        hints = get_type_hints(kind, include_extras=True)
        left_out: set[str] = set()
        if is_dataclass(kind):
            left_out = {one.name for one in fields(kind) if is_left_out(one)}
            needed = [one.name for one in fields(kind) if one.default is MISSING and one.default_factory is MISSING]
        else:
            needed = [name for name, hint in hints.items() if get_origin(hint) is not NotRequired]
        properties = {name: self.of(without_none(hint) if name in left_out else hint) for name, hint in hints.items()}
        # `additionalProperties` would refuse the members that a schema beside this one adds.
        closed: Json = {"propertyNames": {"enum": list(hints)}} if getattr(kind, "__parameters__", ()) else {}
        found: Json = {
            **head,
            "type": "object",
            **(closed or {"additionalProperties": False}),
            **({"required": needed} if needed else {}),
            "properties": properties,
            **{name: item for name, item in rule.keywords.items() if name not in head},
        }
        # True is what JSON Schema takes a missing `additionalProperties` for.
        return {name: item for name, item in found.items() if item is not True}


def _base(kind: Any) -> Any:
    """Return a type without its rules."""
    return _base(get_args(kind)[0]) if get_origin(kind) in {Annotated, NotRequired} else kind


def _parts(kind: Any) -> tuple[Any, list[Rule]]:
    base, *metadata = get_args(kind)
    return base, [one for one in metadata if isinstance(one, Rule)]


def _keywords(rules: list[Rule]) -> Json:
    return reduce(or_, (rule.keywords for rule in rules), {})


if __name__ == "__main__":
    sys.stdout.write(text(record_schema()))
