"""Numbers that tune waits at barriers and launches over arrays to a device; a record of the vendor matrix holds them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final, TypeVar

T = TypeVar("T")

#: Largest number of work-groups that a tuning may hold; the ranges of `hold` and `first_poll` end with it.
MOST: Final = 0xFFFF_FFFF

#: Largest other number: no spin limit counts what a wait does between polls, nor the barriers that find the best place.
_MOST_AMOUNT: Final = 1 << 16

Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class WaitTuning:
    """How waiting work-groups leave the memory of a barrier alone."""

    #: Nanoseconds that any wait pauses after every round of polls; 0 for none.
    rest_ns: int = 0
    #: Up to how many work-groups, and how many sixteenths of a cycle a waiting group then leaves counters alone for each group
    #: that is missing when it arrives; empty where the device has no clock to wait by.
    hold: Ranges = ()
    #: Up to how many work-groups, and how many cycles a work-group then waits in `replicated` before its first poll.
    first_poll: Ranges = ()
    #: From how many work-groups on and up to how many the best place for counters is measured, and by how many barriers each;
    #: empty where memory is the same everywhere.
    placing: tuple[int, ...] = ()
    #: `counter_backoff` pauses only while more groups than this are missing, a nanosecond for each `sleep_divisor` of them, at
    #: most `sleep_ns`.
    sleep_above: int = 256
    sleep_divisor: int = 4
    sleep_ns: int = 1000

    @classmethod
    def from_json(cls, value: Any) -> WaitTuning:
        """Read what `dataclasses.asdict` made.

        `TypeError` or `ValueError` if a field is unknown, of the wrong type, or out of bounds.
        """
        known = [field.name for field in fields(cls)]
        if not isinstance(value, dict) or not set(value) <= set(known):
            raise ValueError(f"tuning must have the fields {', '.join(known)}")
        read: dict[str, Any] = {}
        for name, found in value.items():
            if name in ("hold", "first_poll"):
                read[name] = tuple(_pair(entry) for entry in found)
                _check_ascending(name, [up_to for up_to, _ in read[name]])
            elif name == "placing":
                read[name] = tuple(count(part, MOST if at < 2 else _MOST_AMOUNT) for at, part in enumerate(found))
                if len(read[name]) not in (0, 3):
                    raise ValueError("placing must be empty or three numbers")
            else:
                read[name] = count(found, MOST if name == "sleep_above" else _MOST_AMOUNT)
        if read.get("sleep_divisor", 1) == 0:
            raise ValueError("sleep_divisor is 0")
        return cls(**read)


@dataclass(frozen=True)
class ReduceShape:
    """The launch shape of `portbar.reduce` for arrays of up to `up_to` elements; the last of several serves longer ones, too.

    A work-group has `local` work-items, a power of two. Each has `loads` loads of `load_bytes` in flight. There are at most
    `per_unit` work-groups per compute unit, which take tiles in turns if `strided`, or else one run of tiles each.
    """

    up_to: int
    local: int
    load_bytes: int
    loads: int
    per_unit: int
    strided: bool


@dataclass(frozen=True)
class ScanShape:
    """Tiles of `portbar.scan` by warps.

    A work-group has `local` work-items with `rows` loads each. After `polls` of an earlier tile it computes that tile's total.
    """

    local: int
    rows: int
    polls: int


@dataclass(frozen=True)
class SortShape:
    """Tiles of `portbar.sort` by warps, for keys of `key_bytes`.

    A work-group has `local` work-items. Each takes `items` keys with values, or `items_alone` keys without. A tile looks at
    `back` earlier tiles together, and computes one after `polls` of it.
    """

    key_bytes: int
    local: int
    items: int
    items_alone: int
    polls: int
    back: int


#: Field of a shape -> least and largest value. A group that sorts has a work-item for each value of a digit.
_BOUNDS: Final = {
    "up_to": (1, MOST),
    "local": (32, 1024),
    "load_bytes": (1, 64),
    "loads": (1, 16),
    "per_unit": (1, 64),
    "rows": (1, 64),
    "key_bytes": (1, 8),
    "items": (1, 64),
    "items_alone": (1, 64),
    "back": (1, 32),
    "polls": (1, _MOST_AMOUNT),
}
_SORT_LOCALS: Final = (256, 512)

Shape = TypeVar("Shape", ReduceShape, ScanShape, SortShape)


@dataclass(frozen=True)
class ArrayTuning:
    """Measured launch shapes of operations on arrays; one that is None or empty was not measured."""

    #: In ascending order of their numbers of elements.
    reduce: tuple[ReduceShape, ...] = ()
    scan: ScanShape | None = None
    #: One for each size of keys.
    sort: tuple[SortShape, ...] = ()

    @classmethod
    def from_json(cls, value: Any) -> ArrayTuning:
        """Read what `dataclasses.asdict` made.

        `TypeError` or `ValueError` if a field is unknown or missing, of the wrong type, or out of bounds.
        """
        if not isinstance(value, dict) or not set(value) <= {field.name for field in fields(cls)}:
            raise ValueError(f"arrays must have the fields {', '.join(field.name for field in fields(cls))}")
        reduces = tuple(_shape(ReduceShape, entry) for entry in value.get("reduce", ()))
        sorts = tuple(_shape(SortShape, entry) for entry in value.get("sort", ()))
        scan = value.get("scan")
        if any(one.local & one.local - 1 for one in reduces):
            raise ValueError("local of a reduction is not a power of two")
        _check_ascending("reduce", [one.up_to for one in reduces])
        for one in sorts:
            count(one.local, _SORT_LOCALS[1], _SORT_LOCALS[0])
        return cls(reduces, None if scan is None else _shape(ScanShape, scan), sorts)


def _shape(kind: type[Shape], value: Any) -> Shape:
    names = [field.name for field in fields(kind)]
    if not isinstance(value, dict) or set(value) != set(names):
        raise ValueError(f"a shape must have the fields {', '.join(names)}")
    read: dict[str, Any] = {}
    for name in names:
        if name == "strided":
            read[name] = exactly(bool, value[name])
        else:
            least, most = _BOUNDS[name]
            read[name] = count(value[name], most, least)
    if read["local"] % 32:
        raise ValueError(f"{read['local']} work-items are not whole warps")
    return kind(**read)


def _check_ascending(name: str, bounds: list[int]) -> None:
    if bounds != sorted(set(bounds)):
        raise ValueError(f"the ranges of {name} are not in ascending order")


def _pair(entry: Any) -> tuple[int, int]:
    up_to, amount = entry
    return count(up_to, MOST), count(amount, _MOST_AMOUNT)


def exactly(kind: type[T], value: Any) -> T:
    """Return a value of this type and no other; raise TypeError otherwise."""
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not {kind.__name__}")
    return value


def count(value: Any, most: int, least: int = 0) -> int:
    """Return an int within these bounds; raise TypeError or ValueError otherwise."""
    if not least <= exactly(int, value) <= most:
        raise ValueError(f"{value!r} is not between {least} and {most}")
    return int(value)
