"""Values come back from JSON exactly as they went, and other JSON is refused."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from portbar.records.coding import DamagedError, Later, decoded, encoded


@dataclass(frozen=True)
class Point:
    x: Any
    y: Any = None


@dataclass(frozen=True)
class Pair:
    x: Any


CLASSES = (Point, Pair)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        1,
        1.5,
        "tuple",
        (),
        ("tuple", 1),
        [1, (2, [3])],
        {"a": (1,), ("b", 2): None},
        {},
        frozenset({"a", "b"}),
        frozenset(),
        Point(1, Pair(("x", Point(None)))),
        {"Point": frozenset({("Pair", 1)})},
    ],
)
def test_values_come_back_as_they_were(value: Any) -> None:
    made = decoded(json.loads(json.dumps(encoded(value))), CLASSES)
    assert made == value
    assert repr(made) == repr(value) or isinstance(value, frozenset)


@pytest.mark.parametrize("value", [object(), Point, 1j, b"bytes", (1, {2: object()})])
def test_other_values_have_no_form(value: Any) -> None:
    with pytest.raises(TypeError, match="no form"):
        encoded(value)


@pytest.mark.parametrize(
    "value",
    [["Point"], ["Point", 1, 2, 3], ["Other", 1], [], {"a": 1}, ["mapping", 5], ["set", ["list"]], [1], [["tuple"]]],
)
def test_what_is_no_value_is_refused(value: Any) -> None:
    with pytest.raises(DamagedError):
        decoded(value, CLASSES)


def test_classes_for_later_are_asked_for_with_their_values() -> None:
    asked = []

    def later() -> Iterable[type]:
        asked.append("later")
        return CLASSES

    given = json.loads(json.dumps(encoded(("a", Later(lambda: Point(1))))))
    name, point = decoded(given, (), later)
    assert (name, asked) == ("a", [])
    assert point.value == Point(1)
    assert point.value is point.value
    assert asked == ["later"]
    assert decoded(encoded(Point(Pair(2))), (Point,), later) == Point(Pair(2))
    assert asked == ["later", "later"]
    with pytest.raises(DamagedError):
        decoded(["later", 1, 2], CLASSES)
