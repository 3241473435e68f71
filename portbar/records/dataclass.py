"""`dataclass` as in the standard library, but without compiling text: an import takes 90% less time for each class.

The standard library compiles the text of each class's methods at import, which takes more time than anything else in a start
of a script whose programs are cached. Fields are the standard library's, as are `fields`, `replace` and `asdict`; most classes
get their `Field` objects when one of these asks for them.
"""

from __future__ import annotations

import dataclasses
import inspect
import operator
import reprlib
import types
from collections.abc import Callable, Sequence
from dataclasses import MISSING
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, TypeAlias, get_origin
from weakref import WeakKeyDictionary

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


#: A field's default, `MISSING` without one, and what `field` returned for it; None where its class says nothing more.
_Member: TypeAlias = "tuple[Any, dataclasses.Field[Any] | None]"

#: Class -> its fields by name, those of the classes that it is made of first.
_members: Final[WeakKeyDictionary[type, dict[str, _Member]]] = WeakKeyDictionary()


def _with_methods(cls: type, *, is_shown: bool, is_compared: bool, is_frozen: bool, has_slots: bool) -> type:
    own = set(vars(cls))
    if vars(cls).get("__hash__") is None:
        # Python sets it where a class has an `__eq__` of its own.
        own.discard("__hash__")
    members = None if has_slots else _plain_members(cls)
    if members is None:
        # With slots, the class is another one.
        cls = dataclasses.dataclass(init=False, repr=False, eq=False, slots=has_slots)(cls)
        members = {one.name: (one.default, one) for one in dataclasses.fields(cls)}
    _members[cls] = members
    methods: dict[str, Any] = {
        "__init__": _init(cls, members, has_slots=has_slots),
        "__signature__": _LazySignature(cls),
    }
    if is_shown:
        methods["__repr__"] = _repr
    if is_compared:
        given = [(name, of) for name, (_, of) in members.items()]
        methods["__eq__"] = _eq(_getter([name for name, of in given if of is None or of.compare]))
        if is_frozen:
            hashed = [name for name, of in given if of is None or (of.compare if of.hash is None else of.hash)]
            methods["__hash__"] = _hash(_getter(hashed))
        else:
            methods["__hash__"] = None
    if is_frozen:
        _refuse_changes(cls, frozenset(members))
    for name, method in methods.items():
        if name not in own:
            setattr(cls, name, method)
    return cls


def _plain_members(cls: type) -> dict[str, _Member] | None:
    """The fields of a class that gets its `Field` objects when they are asked for; None for one that needs them now."""
    members: dict[str, _Member] = {}
    for base in reversed(cls.__mro__[1:]):
        if base in _members:
            members |= _members[base]
        elif "__dataclass_fields__" in vars(base):
            return None
    annotations = cls.__annotations__
    own: dict[str, _Member] = {}
    for name, kind in annotations.items():
        if _is_special(kind):
            return None
        default = getattr(cls, name, MISSING)
        if type(default) is dataclasses.Field:
            own[name] = default.default, default
        elif isinstance(default, types.MemberDescriptorType):
            own[name] = MISSING, None
        else:
            own[name] = default, None
    # The standard library writes a text for a class without one, and says what is wrong with a class.
    is_right = all(name in annotations for name, one in vars(cls).items() if type(one) is dataclasses.Field) and all(
        type(default).__hash__ is not None for default, _ in own.values()
    )
    if not cls.__doc__ or not is_right:
        return None
    for name, (default, given) in own.items():
        if given is not None and default is MISSING:
            delattr(cls, name)
        elif given is not None:
            setattr(cls, name, default)
    cls.__dataclass_fields__ = _LazyFields(cls, own)  # type: ignore[attr-defined]
    members |= own
    cls.__match_args__ = _positional(members)  # type: ignore[attr-defined, misc]
    return members


def _is_special(kind: Any) -> bool:
    """Whether an annotation is not that of a field, or changes those after it."""
    if type(kind) is str:
        return "ClassVar" in kind or "InitVar" in kind or "KW_ONLY" in kind
    special = (dataclasses.KW_ONLY, dataclasses.InitVar, ClassVar)
    return kind in special or type(kind) is dataclasses.InitVar or get_origin(kind) is ClassVar


def _positional(members: dict[str, _Member]) -> tuple[str, ...]:
    return tuple(name for name, (_, of) in members.items() if of is None or (of.init and of.kw_only is not True))


class _LazyFields:
    """The `Field` objects of one class, made when they are first asked for: by `dataclasses.fields`, `replace`, and others."""

    def __init__(self, cls: type, own: dict[str, _Member]) -> None:
        self._cls, self._own = cls, own

    def __get__(self, instance: object, owner: type | None = None) -> dict[str, dataclasses.Field[Any]]:
        cls = self._cls
        given = {name: default if of is None else of for name, (default, of) in self._own.items()}
        body = {name: one for name, one in given.items() if one is not MISSING}
        body |= {"__annotations__": cls.__annotations__, "__module__": cls.__module__, "__doc__": cls.__doc__}
        own: Any = dataclasses.dataclass(init=False, repr=False, eq=False)(type(cls.__name__, (), body))
        made: dict[str, dataclasses.Field[Any]] = {}
        for base in reversed(cls.__mro__[1:]):
            made |= getattr(base, "__dataclass_fields__", {})
        made |= own.__dataclass_fields__
        # A class derived by the standard library asks for them after the fields.
        cls.__dataclass_params__ = own.__dataclass_params__  # type: ignore[attr-defined]
        cls.__dataclass_fields__ = made  # type: ignore[attr-defined]
        return made


def _init(cls: type, members: dict[str, _Member], *, has_slots: bool) -> Callable[..., None]:
    names = frozenset(name for name, (_, of) in members.items() if of is None or of.init)
    positional = _positional(members)
    defaults: dict[str, Any] = {}
    factories: dict[str, Callable[[], Any]] = {}
    for name, (default, of) in members.items():
        if default is not MISSING:
            # A class without slots has the others' defaults itself.
            if has_slots or name in names:
                defaults[name] = default
        elif of is not None and callable(of.default_factory):
            factories[name] = of.default_factory
    assigned = tuple(name for name in members if name in names or name in factories or name in defaults)
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


def _hash(values: Callable[[Any], Any]) -> Callable[[Any], int]:
    return lambda self: hash(values(self))


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
