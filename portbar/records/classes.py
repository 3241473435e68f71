"""Classes as the description of JSON values: what reads into their members, and what `derived` makes a schema of.

A member's annotation says it all. `Annotated` adds a `Rule` for the schema, and functions that check what is read.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, Final, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
Class = TypeVar("Class", bound=type)

#: Metadata of a dataclass's field that a JSON object lacks where it is None.
LEFT_OUT: Final = {"left_out": True}

#: The rules of classes.
_RULES: Final[dict[type, Rule]] = {}


class Rule:
    """Keywords of JSON Schema that a type does not say by itself.

    With a `name`, the schema has the type among its definitions. A `kind` is the type that the schema has in place of the
    annotated one, where JSON may hold more than what is read.
    """

    __slots__ = ("keywords", "kind", "name")

    def __init__(self, name: str = "", kind: Any = None, **keywords: Any) -> None:
        self.name, self.kind, self.keywords = name, kind, keywords


#: Words of a record, longer than a name.
Text: TypeAlias = Annotated[str, Rule("text", maxLength=8000)]


def ruled(name: str = "", **keywords: Any) -> Callable[[Class], Class]:
    """Give a class a `Rule`."""

    def note(one: Class) -> Class:
        _RULES[one] = Rule(name, **keywords)
        return one

    return note


def rule_of(kind: type) -> Rule:
    """Return the rule of a class, empty where it has none."""
    return _RULES.get(kind) or Rule()


def within(least: int, most: int) -> Callable[[int], int]:
    """Return a check of `Annotated` that a number is within these bounds; ValueError otherwise.

    The schema leaves more room, so that a record with a number that portbar does not believe is still a record.
    """

    def check(value: int) -> int:
        if not least <= value <= most:
            raise ValueError(f"{value!r} is not between {least} and {most}")
        return value

    return check


def exactly(kind: type[T], value: Any) -> T:
    """Return a value of this type and no other; raise TypeError otherwise."""
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not {kind.__name__}")
    return value


_readers: Final[dict[type, dict[str, Callable[[Any], Any]]]] = {}


def readers(kind: type) -> dict[str, Callable[[Any], Any]]:
    """Return the members of a dataclass, each with the function that reads its JSON value.

    Annotations of its module are values, not texts: evaluating those takes milliseconds of each start.

    The function raises TypeError or ValueError for a value of another type, or one that a check of the member refuses.
    """
    if kind not in _readers:
        _readers[kind] = {field.name: _reader(field.type) for field in fields(kind) if field.init}
    return _readers[kind]


def members(kind: type, value: Any, called: str) -> dict[str, Any]:
    """Read a JSON object as the arguments of a dataclass.

    TypeError or ValueError if a member is unknown or missing, of the wrong type, or refused.
    """
    known = readers(kind)
    required = {one.name for one in fields(kind) if one.default is MISSING and one.default_factory is MISSING}
    if not isinstance(value, dict) or not required <= set(value) <= set(known):
        raise ValueError(f"{called} must have the fields {', '.join(known)}")
    return {name: known[name](found) for name, found in value.items()}


def plain(value: Any) -> Any:
    """Return the JSON value of a dataclass, or of what it holds."""
    if is_dataclass(value) and not isinstance(value, type):
        found = {one: getattr(value, one.name) for one in fields(value)}
        return {one.name: plain(item) for one, item in found.items() if item is not None or not is_left_out(one)}
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (tuple, list)) else value


def is_left_out(field: Any) -> bool:
    """Whether a field of a dataclass is left out of JSON where it is None."""
    return bool(field.metadata.get("left_out"))


def without_none(kind: Any) -> Any:
    """Return a type without its alternative None, or None where it has no such alternative."""
    if get_origin(kind) not in {Union, types.UnionType} or types.NoneType not in get_args(kind):
        return None
    others = [one for one in get_args(kind) if one is not types.NoneType]
    return Union[tuple(others)]  # noqa: UP007 (of types that are found here)


def in_words(kind: type, name: str) -> str:
    """Return the type of a member, as one writes it."""

    def written(hint: Any) -> str:
        other = without_none(hint)
        if other is not None:
            return f"{written(other)} | None"
        return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint).rpartition("abc.")[2]

    return written(get_type_hints(kind)[name])


def _reader(kind: Any) -> Callable[[Any], Any]:
    """Return the function that reads JSON values of a type."""
    origin, arguments = get_origin(kind), get_args(kind)
    other = without_none(kind)
    if other is not None:
        read = _reader(other)
        return lambda value: None if value is None else read(value)
    if origin is Annotated:
        return _checked(_reader(arguments[0]), [one for one in arguments[1:] if callable(one)])
    if origin is tuple:
        return _tuple(arguments)
    if origin is Mapping:
        return _mapping(_reader(arguments[1]))
    if kind is float:
        return _number
    return getattr(kind, "from_json", None) or (lambda value: exactly(kind, value))


def _checked(read: Callable[[Any], Any], checks: list[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def reader(value: Any) -> Any:
        found = read(value)
        for check in checks:
            found = check(found)
        return found

    return reader


def _tuple(kinds: tuple[Any, ...]) -> Callable[[Any], Any]:
    is_open = kinds[-1] is Ellipsis
    reads = [_reader(one) for one in kinds if one is not Ellipsis]

    def reader(value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            raise TypeError(f"{value!r} is {type(value).__name__}, not a list")
        if is_open:
            return tuple(map(reads[0], value))
        if len(value) != len(reads):
            raise ValueError(f"{value!r} cannot be unpacked: it has {len(value)} values, not {len(reads)}")
        return tuple(read(one) for read, one in zip(reads, value, strict=True))

    return reader


def _mapping(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def reader(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise TypeError(f"{value!r} is {type(value).__name__}, which has no items by name")
        return {str(name): read(one) for name, one in value.items()}

    return reader


def _number(value: Any) -> Any:
    if type(value) not in {int, float}:
        raise TypeError(f"{value!r} is not a number")
    return value
