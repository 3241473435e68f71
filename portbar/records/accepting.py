"""Compiles a JSON Schema into functions that say yes or no, a hundred times faster than a library that explains itself.

Not for saying what is wrong: jsonschema does that, with the same schema, once something is. It knows the keywords that
portbar's schemas use, refuses any other, and a test holds it against jsonschema.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

Accepts = Callable[[Any], bool]

#: Keywords that say nothing about what is valid, or that another one's function reads.
_ASIDE: Final = frozenset(["$schema", "$id", "$defs", "title", "description", "then", "else"])

_TYPES: Final[dict[str, frozenset[type]]] = {
    "array": frozenset([list]),
    "boolean": frozenset([bool]),
    "integer": frozenset([int]),
    "null": frozenset([type(None)]),
    "number": frozenset([int, float]),
    "object": frozenset([dict]),
    "string": frozenset([str]),
}


def compiled(schema: Mapping[str, Any]) -> Accepts:
    """A function that says whether a JSON value is valid.

    Whole numbers are those written as such: `4.0` is not one.

    Raises
    ------
    ValueError
        The schema uses a keyword that is not known here.
    """
    return _Compiler(schema).accepts(schema)


class _Compiler:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._known: dict[str, Accepts] = {}

    def accepts(self, schema: Any) -> Accepts:
        if isinstance(schema, bool):
            return lambda _: schema
        unknown = [word for word in schema if word not in _ASIDE and not hasattr(self, _method(word))]
        if unknown:
            raise ValueError(f"the schema's keyword {unknown[0]!r} is not known here")
        checks: list[Accepts] = [
            getattr(self, _method(word))(rule, schema) for word, rule in schema.items() if word not in _ASIDE
        ]
        if len(checks) == 1:
            return checks[0]

        def accept(value: Any) -> bool:
            for check in checks:  # noqa: SIM110 (a generator takes twice the time)
                if not check(value):
                    return False
            return True

        return accept

    def _ref(self, rule: str, _: Any) -> Accepts:
        if rule not in self._known:
            name = rule.removeprefix("#/$defs/")
            self._known[rule] = self.accepts(self._root["$defs"][name])
        return self._known[rule]

    def _type(self, rule: str | list[str], _: Any) -> Accepts:
        kinds = frozenset().union(*(_TYPES[name] for name in ([rule] if isinstance(rule, str) else rule)))
        return lambda value: type(value) in kinds

    def _const(self, rule: Any, _: Any) -> Accepts:
        return lambda value: type(value) is type(rule) and value == rule

    def _enum(self, rule: list[Any], _: Any) -> Accepts:
        allowed = frozenset(rule)
        return lambda value: type(value) is str and value in allowed

    def _properties(self, rule: Mapping[str, Any], _: Any) -> Accepts:
        known = {name: self.accepts(below) for name, below in rule.items()}

        def check(value: Any) -> bool:
            if type(value) is not dict:
                return True
            for name, item in value.items():
                below = known.get(name)
                if below is not None and not below(item):
                    return False
            return True

        return check

    def _additional_properties(self, rule: Any, schema: Mapping[str, Any]) -> Accepts:
        listed, below = frozenset(schema.get("properties", ())), self.accepts(rule)
        if rule is False:
            return lambda value: type(value) is not dict or value.keys() <= listed
        return lambda value: (
            type(value) is not dict or all(below(item) for name, item in value.items() if name not in listed)
        )

    def _property_names(self, rule: Any, _: Any) -> Accepts:
        below = self.accepts(rule)
        return lambda value: type(value) is not dict or all(map(below, value))

    def _required(self, rule: list[str], _: Any) -> Accepts:
        needed = frozenset(rule)
        return lambda value: type(value) is not dict or needed <= value.keys()

    def _max_properties(self, rule: int, _: Any) -> Accepts:
        return lambda value: type(value) is not dict or len(value) <= rule

    def _items(self, rule: Any, schema: Mapping[str, Any]) -> Accepts:
        below, first = self.accepts(rule), len(schema.get("prefixItems", ()))
        if rule == {"type": "number"}:
            return lambda value: type(value) is not list or set(map(type, value)) <= _TYPES["number"]
        return lambda value: type(value) is not list or all(map(below, value[first:]))

    def _prefix_items(self, rule: list[Any], _: Any) -> Accepts:
        first = [self.accepts(below) for below in rule]
        return lambda value: (
            type(value) is not list or all(below(item) for below, item in zip(first, value, strict=False))
        )

    def _min_items(self, rule: int, _: Any) -> Accepts:
        return lambda value: type(value) is not list or len(value) >= rule

    def _max_items(self, rule: int, _: Any) -> Accepts:
        return lambda value: type(value) is not list or len(value) <= rule

    def _min_length(self, rule: int, _: Any) -> Accepts:
        return lambda value: type(value) is not str or len(value) >= rule

    def _max_length(self, rule: int, _: Any) -> Accepts:
        return lambda value: type(value) is not str or len(value) <= rule

    def _pattern(self, rule: str, _: Any) -> Accepts:
        found = re.compile(rule).search
        return lambda value: type(value) is not str or found(value) is not None

    def _minimum(self, rule: float, _: Any) -> Accepts:
        return lambda value: type(value) not in _TYPES["number"] or value >= rule

    def _maximum(self, rule: float, _: Any) -> Accepts:
        return lambda value: type(value) not in _TYPES["number"] or value <= rule

    def _exclusive_minimum(self, rule: float, _: Any) -> Accepts:
        return lambda value: type(value) not in _TYPES["number"] or value > rule

    def _exclusive_maximum(self, rule: float, _: Any) -> Accepts:
        return lambda value: type(value) not in _TYPES["number"] or value < rule

    def _one_of(self, rule: list[Any], _: Any) -> Accepts:
        ways = [self.accepts(below) for below in rule]
        return lambda value: sum(way(value) for way in ways) == 1

    def _not(self, rule: Any, _: Any) -> Accepts:
        below = self.accepts(rule)
        return lambda value: not below(value)

    def _if(self, rule: Any, schema: Mapping[str, Any]) -> Accepts:
        test, then, other = (
            self.accepts(rule),
            self.accepts(schema.get("then", True)),
            self.accepts(schema.get("else", True)),
        )
        return lambda value: then(value) if test(value) else other(value)


def _method(word: str) -> str:
    """Name of the method for a keyword: `maxItems` is handled by `_max_items`."""
    return "_" + re.sub(r"[A-Z]", lambda match: f"_{match[0].lower()}", word.removeprefix("$"))
