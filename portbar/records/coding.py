"""Dataclasses of portbar's own as JSON values and back, exactly: tuples, sets and mappings with any keys stay what they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class DamagedError(Exception):
    """A JSON value is not what `encoded` returns for the classes that are known."""


class Later(Generic[T]):
    """A value that is made when it is first asked for."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make

    @cached_property
    def value(self) -> T:
        """The value."""
        return self._make()


def encoded(value: Any) -> Any:
    """Return a JSON value for one of None, numbers, texts, dataclasses, and tuples, lists, sets, mappings and `Later` of these.

    `TypeError` for anything else. Fields that a dataclass does not take as arguments are computed anew by `decoded`.
    """
    # Types that `json` writes in another way than itself, such as numbers of an enumeration, are not these.
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is tuple:
        return ["tuple", *map(encoded, value)]
    if type(value) is list:
        return ["list", *map(encoded, value)]
    if isinstance(value, Later):
        return ["later", encoded(value.value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [one.name for one in dataclasses.fields(value) if one.init]
        return [type(value).__qualname__, *(encoded(getattr(value, name)) for name in fields)]
    if isinstance(value, Mapping):
        return ["mapping", *([encoded(key), encoded(one)] for key, one in value.items())]
    if isinstance(value, AbstractSet):
        return ["set", *sorted(map(encoded, value), key=repr)]
    raise TypeError(f"{type(value).__name__} has no form in JSON here")


def decoded(value: Any, classes: Iterable[type], later: Callable[[], Iterable[type]] = tuple) -> Any:
    """Return what `encoded` was given, whose dataclasses are among `classes`; a `DamagedError` where it was not.

    `later` returns more classes. It is called for a value that has one of these, and for a `Later` when that is asked for.
    """
    known = {one.__qualname__: one for one in classes}

    def class_of(name: str) -> type:
        if name not in known:
            known.update({one.__qualname__: one for one in later()})
        return known[name]

    def read(one: Any) -> Any:
        if not isinstance(one, list):
            if isinstance(one, dict):
                raise DamagedError("an object of JSON is not a value")
            return one
        name, *parts = one
        if name == "tuple":
            return tuple(map(read, parts))
        if name == "list":
            return [*map(read, parts)]
        if name == "mapping":
            return {read(key): read(each) for key, each in parts}
        if name == "set":
            return frozenset(map(read, parts))
        if name == "later":
            (part,) = parts
            return Later(lambda: decoded(part, classes, later))
        made = class_of(name)
        names = [field.name for field in dataclasses.fields(made) if field.init]
        return made(**dict(zip(names, map(read, parts), strict=True)))

    try:
        return read(value)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise DamagedError(f"{type(error).__name__}: {error}") from None
