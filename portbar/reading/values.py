"""Values as the analysis knows them: among whom they certainly differ, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from portbar.reading import kinds

#: The same for all as far as is known; or certainly not the same for all work-groups of a grid, for all sub-groups of a
#: work-group, for all work-items of a sub-group.
SAME, GROUP, SUB_GROUP, ITEM = range(4)

#: Level -> who differ.
DIFFERING: Final = {GROUP: "work-groups", SUB_GROUP: "sub-groups", ITEM: "work-items"}

#: Flags of values. A whole number of work-groups; a quotient, a remainder, a complement, from which such are made;
#: a constant of the program or of the launch.
WHOLE, QUOTIENT, REMAINDER, MASK, CONSTANT = 1, 2, 4, 8, 16

#: Dimension -> how often its local id is in a sum.
Lanes = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Declaration:
    """The declaration of a function, as far as the analysis needs it."""

    #: All work-items among whom control flow may not differ must call it together: a level above is misuse.
    caller: int | None = None
    #: The level of its result.
    differs: int = SAME
    #: "local" or "global" for ids of work-items.
    id_of: str = ""
    #: Whether it is a whole number of work-groups.
    is_size: bool = False
    #: Whether it is a constant of the launch.
    is_constant: bool = False
    #: Whether a sub-group must call it that is one of several parts of what calls it.
    is_part: bool = False
    #: Whether a sub-group must call it that is a single work-item.
    is_single: bool = False


class Value:
    """A value; never changed once it is made."""

    __slots__ = ("flags", "lanes", "level", "points", "rest", "why")

    def __init__(
        self,
        level: int = SAME,
        why: Why | None = None,
        flags: int = 0,
        lanes: Lanes | None = None,
        rest: int = SAME,
        points: Any = None,
    ) -> None:
        self.level, self.why, self.flags, self.lanes, self.rest, self.points = level, why, flags, lanes, rest, points

    def same_as(self, other: Value) -> bool:
        """Whether nothing that is known differs."""
        return self is other or (
            self.level == other.level
            and self.flags == other.flags
            and self.lanes == other.lanes
            and self.rest == other.rest
            and self.points == other.points
        )

    def __repr__(self) -> str:
        return f"Value({self.level}, flags={self.flags}, lanes={self.lanes}, rest={self.rest})"


class Why:
    """Why a value differs: the part of the program where it comes to differ, and why what it is made of does."""

    __slots__ = ("before", "node")

    def __init__(self, node: Any, before: Why | None = None) -> None:
        self.node, self.before = node, before


UNKNOWN: Final = Value()
A_CONSTANT: Final = Value(flags=CONSTANT)
A_SIZE: Final = Value(flags=CONSTANT | WHOLE)


def higher(one: Value, other: Value) -> Value:
    """A value made of two, of which nothing but level and reason is kept."""
    first = one if one.level >= other.level else other
    return Value(first.level, first.why, one.flags & other.flags & CONSTANT)


def coarser(value: Value) -> Value:
    """An id divided by some number: certainly different only for work-groups, or for sub-groups if it is a local one."""
    if value.level < SUB_GROUP:
        return Value(value.level, value.why, QUOTIENT)
    if value.level == SUB_GROUP:
        return Value(SUB_GROUP, value.why, QUOTIENT)
    level = value.rest or SUB_GROUP
    return Value(level, value.why, QUOTIENT)


def total(one: Value, other: Value, sign: int) -> Value:
    """The sum of two values, or their difference with `sign` -1."""
    flags = one.flags & other.flags & (WHOLE | CONSTANT)
    if sign < 0 and other.flags & REMAINDER and not one.flags & REMAINDER:
        if one.level >= SUB_GROUP:
            return coarser(one)
        # n - n % k, or k - n % k, which makes a whole number of n.
        flags |= WHOLE | REMAINDER
    elif any(value.flags & WHOLE and value.flags & REMAINDER for value in (one, other)):
        flags |= WHOLE
    if one.level < SUB_GROUP and other.level < SUB_GROUP:
        first = one if one.level >= other.level else other
        return Value(first.level, first.why, flags)
    made = higher(one, other)
    if SUB_GROUP in (one.level, other.level):
        return made
    mine, others = _lanes(one), _lanes(other)
    if mine is None or others is None:
        return made
    counts = dict(mine)
    for name, count in others:
        counts[name] = counts.get(name, 0) + sign * count
    lanes = tuple(sorted((name, count) for name, count in counts.items() if count))
    rest = max(one.rest if one.level == ITEM else one.level, other.rest if other.level == ITEM else other.level)
    why = made.why
    return Value(ITEM, why, 0, lanes, rest) if lanes else Value(rest, why if rest else None)


def _lanes(value: Value) -> Lanes | None:
    return value.lanes if value.level == ITEM else ()


def joined(one: Value, other: Value, control: Value) -> Value:
    """The value of a variable where two paths meet that give it different ones, by a condition."""
    if one.same_as(other) and (one.level or not control.level):
        return one
    first = one if one.level >= other.level else other
    same = one.lanes == other.lanes and one.level == other.level
    flags = one.flags & other.flags
    points = one.points if one.points == other.points else None
    if control.level > first.level:
        return Value(control.level, control.why, 0, points=points)
    lanes, rest = (first.lanes, max(one.rest, other.rest)) if same else (None, SAME)
    return Value(first.level, first.why, flags, lanes, rest, points)


#: More work-items than groups have, and the number of which most groups have a multiple.
_MOST_ITEMS: Final = 1000
_USUAL_ITEMS: Final = 64


def _bounded(value: Value, number: int) -> Value:
    """An id compared with a constant, which may be a whole number of sub-groups."""
    if value.lanes is not None and not value.rest and number >= _MOST_ITEMS:
        return UNKNOWN
    if value.rest and number and number % _USUAL_ITEMS == 0:
        return Value(value.rest, value.why)
    return Value(SUB_GROUP, value.why)


def combined(operator: int, one: Value, other: Value, constant_of: Callable[[int], int | None]) -> Value:
    """The result of an operator on two values; `constant_of` computes the first or the second of them, if it is constant."""
    level = max(one.level, other.level)
    flags = one.flags | other.flags
    constant = one.flags & other.flags & CONSTANT
    if operator in (kinds.ADD, kinds.SUB):
        return total(one, other, 1 if operator == kinds.ADD else -1)
    made = higher(one, other)
    if operator in range(kinds.LT, kinds.NE + 1):
        if level >= SUB_GROUP and (one.flags | other.flags) & WHOLE:
            return UNKNOWN
        if level == ITEM and operator < kinds.EQ and flags & CONSTANT:
            return _bounded(one if one.level == ITEM else other, abs(constant_of(int(one.level == ITEM)) or 0))
        return Value(level, made.why)
    if operator in (kinds.DIV, kinds.SHR):
        if one.level and not other.level:
            return coarser(one)
        return Value(level, made.why, QUOTIENT | constant)
    if operator == kinds.REM:
        whole = one.flags & (WHOLE | REMAINDER)
        return Value(level, made.why, REMAINDER | constant | (whole if whole == WHOLE | REMAINDER else 0))
    if operator in (kinds.MUL, kinds.SHL):
        whole = WHOLE if flags & (QUOTIENT | WHOLE) else 0
        return Value(level, made.why, (whole if level < SUB_GROUP else 0) | constant)
    if operator == kinds.AND and flags & MASK:
        if level >= SUB_GROUP:
            return coarser(one if one.level == level else other)
        return Value(level, made.why, WHOLE | constant)
    return Value(level, made.why, constant)
