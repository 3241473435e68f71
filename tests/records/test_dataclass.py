"""Dataclasses with shared methods do as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import KW_ONLY, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from portbar.records import dataclass as own

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from portbar.records.dataclass import dataclass

Decorator = Callable[..., Any]
BOTH = {"own": own.dataclass, "standard": dataclasses.dataclass}


def point(decorator: Decorator, **arguments: Any) -> Any:
    @decorator(**arguments)
    class Point:
        """A class with every kind of field."""

        x: Any
        y: Any = 5
        made: list[int] = field(default_factory=list)
        hidden: Any = field(default=None, repr=False)
        apart: Any = field(default=0, compare=False)
        unhashed: Any = field(default=(), hash=False)
        kept: dict[str, int] = field(init=False, default_factory=dict, compare=False)
        later: Any = field(init=False, default=7)
        _: KW_ONLY
        last: Any = None
        one: Any = field(default=1)

    return Point


def plain_point(decorator: Decorator, **arguments: Any) -> Any:
    @decorator(**arguments)
    class Point:
        """Every kind of field but those that follow KW_ONLY."""

        x: Any
        y: Any = 5
        made: list[int] = field(default_factory=list)
        hidden: Any = field(default=None, repr=False)
        apart: Any = field(default=0, compare=False)
        unhashed: Any = field(default=(), hash=False)
        kept: dict[str, int] = field(init=False, default_factory=dict, compare=False)
        later: Any = field(init=False, default=7)
        last: Any = field(default=None, kw_only=True)

    return Point


def first_only(decorator: Decorator, **arguments: Any) -> Any:
    @decorator(**arguments)
    class First:
        """One field."""

        x: Any

    return First


def told(call: Callable[[], Any]) -> Any:
    """A value, or the class of an error."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 (errors of all kinds are compared)
        return type(error)


ARGUMENTS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((1,), {}),
    ((1, 2, [3], 4, 5, 6), {}),
    ((1,), {"last": 3, "hidden": 2, "made": [1]}),
    ((), {"x": 1, "apart": 9}),
    ((), {}),
    ((), {"y": 1}),
    ((1,), {"x": 1}),
    ((1, 2, 3, 4, 5, 6, 7), {}),
    ((1,), {"other": 1}),
    ((), {"y": 1, "other": 1}),
    ((1,), {"kept": {}}),
    ((1,), {"later": 1}),
]


@pytest.mark.parametrize(("args", "named"), ARGUMENTS, ids=str)
@pytest.mark.parametrize("made", [point, plain_point, first_only])
@pytest.mark.parametrize("settings", [{}, {"frozen": True}, {"eq": False}, {"repr": False}, {"slots": True}], ids=str)
def test_objects_are_those_of_the_standard_library(
    made: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any], settings: dict[str, Any]
) -> None:
    found = []
    for decorator in BOTH.values():
        kind = made(decorator, **settings)
        one = told(lambda kind=kind: kind(*args, **named))
        if isinstance(one, type):
            found.append([one])
            continue
        again, names = kind(*args, **named), [each.name for each in dataclasses.fields(kind)]
        found.append(
            [
                [(name, told(lambda one=one, name=name: getattr(one, name))) for name in names],
                one == again,
                one != dataclasses.replace(again, x=0),
                one == (1,),
                repr(one) if settings.get("repr", True) else None,
                told(lambda one=one: hash(one)) if settings != {"eq": False} else kind.__hash__ is object.__hash__,
                told(lambda one=one, again=again: hash(one) == hash(again)) if settings != {"eq": False} else None,
                dataclasses.asdict(one),
                told(lambda one=one: setattr(one, "x", 3)),
                told(lambda one=one: delattr(one, "y")),
                told(lambda one=one: setattr(one, "another", 3)),
                copy.copy(again).x,
                kind.__match_args__,
                kind.__doc__,
            ]
        )
    ours, standard = found
    if len(ours) > 6 and settings.get("frozen"):
        # The numbers themselves may differ.
        ours[5], standard[5] = type(ours[5]), type(standard[5])
    assert ours == standard


def test_what_is_not_hashed_or_not_compared_is_as_it_is_declared() -> None:
    kind = point(own.dataclass, frozen=True)
    assert hash(kind(1, made=(), unhashed=[1])) == hash(kind(1, made=(), unhashed=[2]))
    assert kind(1, unhashed=[1]) != kind(1, unhashed=[2])
    assert kind(1, apart=1) == kind(1, apart=2)
    assert hash(kind(1, made=())) != hash(kind(2, made=()))


@dataclass(frozen=True)
class Base:
    """With a method that follows."""

    x: int
    doubled: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "doubled", 2 * self.x)

    @cached_property
    def squared(self) -> int:
        return self.x**2


@dataclass(frozen=True)
class Below(Base):
    """With a field more, and a representation of its own."""

    y: int = 1

    def __repr__(self) -> str:
        return "below"


class Plain(Base):
    """Not a dataclass."""


def test_classes_inherit() -> None:
    assert (Below(2, 3).doubled, Below(2, y=3).y, repr(Below(1)), Below(3).squared) == (4, 3, "below", 9)
    assert Below(1) != Base(1)
    assert Plain(2).doubled == 4
    plain = Plain(2)
    plain.other = 1  # type: ignore[attr-defined]
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        plain.x = 1  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
        del Base(1).x
    assert pickle.loads(pickle.dumps(Below(2, 3))) == Below(2, 3)  # noqa: S301 (its own)


def test_the_standard_library_derives_from_classes_whose_fields_were_not_asked_for() -> None:
    def below(decorator: Decorator) -> Any:
        base = plain_point(decorator)

        @dataclasses.dataclass
        class Derived(base):
            """Of the standard library."""

            y: Any = 6
            z: Any = 1

        return Derived

    ours, standard = (below(decorator) for decorator in BOTH.values())
    assert repr(ours(1)) == repr(standard(1))
    assert [one.name for one in dataclasses.fields(ours)] == [one.name for one in dataclasses.fields(standard)]


def test_fields_are_made_when_they_are_asked_for() -> None:
    def mine(one: Any) -> list[tuple[Any, ...]]:
        return [(each.name, each.type, each.init, each.kw_only, each.compare) for each in dataclasses.fields(one)]

    ours, standard = (plain_point(decorator) for decorator in BOTH.values())
    assert not isinstance(vars(ours)["__dataclass_fields__"], dict)
    assert mine(ours) == mine(standard)
    assert isinstance(vars(ours)["__dataclass_fields__"], dict)
    assert mine(Below) == [*mine(Base), ("y", "int", True, False, True)]
    assert [one.name for one in dataclasses.fields(Plain)] == ["x", "doubled"]


def test_wrong_classes_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="mutable default"):
        own.dataclass(type("Wrong", (), {"__annotations__": {"x": "Any"}, "x": []}))
    with pytest.raises(TypeError, match="has no type annotation"):
        own.dataclass(type("Wrong", (), {"x": field(default=1)}))


def test_variables_of_classes_are_no_fields() -> None:
    for kinds in ({"x": "Any", "of_class": "ClassVar[int]"}, {"x": Any, "of_class": ClassVar[int]}):
        made = own.dataclass(type("Made", (), {"__annotations__": kinds, "of_class": 1, "__module__": __name__}))
        assert [one.name for one in dataclasses.fields(made)] == ["x"]


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(TypeError, match=r"^Base: missing a required argument: 'x'$"):
        Base()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^Base: got an unexpected keyword argument 'z'$"):
        Base(1, z=2)  # type: ignore[call-arg]


def test_an_own_equality_or_hash_stays() -> None:
    @own.dataclass(frozen=True)
    class Equal:
        """With both."""

        x: int

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 3

    assert Equal(1) == Equal(2)
    assert hash(Equal(1)) == 3


def test_signatures_are_those_of_the_fields() -> None:
    expected = "(x: 'Any', y: 'Any' = 5, made: 'list[int]' = Ellipsis, hidden: 'Any' = None, apart: 'Any' = 0, "
    expected += "unhashed: 'Any' = (), *, last: 'Any' = None, one: 'Any' = 1) -> None"
    assert str(inspect.signature(point(own.dataclass))) == expected
    assert str(inspect.signature(Plain)) == "(*args: 'Any', **named: 'Any') -> 'None'"
    assert not hasattr(Base(1), "__signature__")


def test_an_object_that_holds_itself_can_be_shown() -> None:
    one = point(own.dataclass)(1)
    one.x = one
    assert "x=..." in repr(one)


def test_no_method_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a method was compiled")

    monkeypatch.setattr(dataclasses, "exec", refuse, raising=False)
    assert point(own.dataclass, frozen=True)(1).x == 1
    with pytest.raises(AssertionError, match="was compiled"):
        point(dataclasses.dataclass)
