"""Numbers that tune waits at barriers and launches over arrays to a device; a record of the vendor matrix holds them."""

# Without `from __future__ import annotations`: `records.classes.readers` takes annotations as values.

from dataclasses import field
from typing import Annotated, Any, Final, Self, TypeAlias

from portbar.records.classes import LEFT_OUT, Rule, members, ruled, within
from portbar.records.dataclass import dataclass

#: Largest number of work-groups that a tuning may hold; the ranges of `hold` and `first_poll` end with it.
MOST: Final = 0xFFFF_FFFF

#: Largest other number: no spin limit counts what a wait does between polls, nor the barriers that find the best place.
_MOST_AMOUNT: Final = 1 << 16

_Groups: TypeAlias = Annotated[int, within(0, MOST)]
_Amount: TypeAlias = Annotated[int, within(0, _MOST_AMOUNT)]
_Local: TypeAlias = Annotated[int, within(32, 1024), Rule(description="Work-items of a work-group.")]
_Keys: TypeAlias = Annotated[int, within(1, 64)]
_Polls: TypeAlias = Annotated[int, within(1, _MOST_AMOUNT)]

Ranges = Annotated[tuple[tuple[_Groups, _Amount], ...], Rule("ranges", maxItems=100)]


@ruled("tuning", description="How waits at barriers between work-groups were tuned on the device.")
@dataclass(frozen=True)
class WaitTuning:
    """How waiting work-groups leave the memory of a barrier alone."""

    #: Nanoseconds that any wait pauses after every round of polls; 0 for none.
    rest_ns: Annotated[_Amount, Rule(description="Pause after each round of polls.")] = 0
    #: Up to how many work-groups, and how many sixteenths of a cycle a waiting group then leaves counters alone for each group
    #: that is missing when it arrives; empty where the device has no clock to wait by.
    hold: Annotated[
        Ranges,
        Rule(
            description="Up to how many work-groups, and sixteenths of a cycle per missing one before polls begin.",
        ),
    ] = ()
    #: Up to how many work-groups, and how many cycles a work-group then waits in `replicated` before its first poll.
    first_poll: Annotated[
        Ranges, Rule(description="Up to how many work-groups, and cycles before the first poll of `replicated`.")
    ] = ()
    #: From how many work-groups on and up to how many the best place for counters is measured, and by how many barriers each;
    #: empty where memory is the same everywhere.
    placing: Annotated[
        tuple[_Groups, ...],
        Rule(
            maxItems=3,
            description="From and up to how many work-groups counters are placed, and barriers per place.",
        ),
    ] = ()
    #: `counter_backoff` pauses only while more groups than this are missing, a nanosecond for each `sleep_divisor` of them, at
    #: most `sleep_ns`.
    sleep_above: Annotated[_Groups, Rule(description="Missing work-groups from which `counter_backoff` pauses.")] = 256
    sleep_divisor: Annotated[
        _Amount, Rule(minimum=1, description="Missing work-groups per nanosecond of that pause.")
    ] = 4
    sleep_ns: Annotated[_Amount, Rule(description="Longest such pause.")] = 1000

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Read what `records.classes.plain` made.

        `TypeError` or `ValueError` if a field is unknown, of the wrong type, or out of bounds.
        """
        made = cls(**members(cls, value, "tuning"))
        for name in ("hold", "first_poll"):
            _check_ascending(name, [up_to for up_to, _ in getattr(made, name)])
        if len(made.placing) not in {0, 3}:
            raise ValueError("placing must be empty or three numbers")
        within(0, _MOST_AMOUNT)(made.placing[2] if made.placing else 0)
        if made.sleep_divisor == 0:
            raise ValueError("sleep_divisor is 0")
        return made


class _Shape:
    local: int

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Read what `records.classes.plain` made; TypeError or ValueError for anything else."""
        made = cls(**members(cls, value, "a shape"))
        if made.local % 32:
            raise ValueError(f"{made.local} work-items are not whole warps")
        return made


@dataclass(frozen=True)
class ReduceShape(_Shape):
    """The launch shape of `portbar.reduce` for arrays of up to `up_to` elements; the last of several serves longer ones, too.

    A work-group has `local` work-items, a power of two. Each has `loads` loads of `load_bytes` in flight. There are at most
    `per_unit` work-groups per compute unit, which take tiles in turns if `strided`, or else one run of tiles each.
    """

    up_to: Annotated[
        int,
        within(1, MOST),
        Rule(description="Elements of the longest array; the last shape serves longer ones, too."),
    ]
    local: _Local
    load_bytes: Annotated[int, within(1, 64)]
    loads: Annotated[int, within(1, 16), Rule(description="Loads in flight per work-item.")]
    per_unit: Annotated[int, within(1, 64), Rule(description="Work-groups per compute unit.")]
    strided: Annotated[bool, Rule(description="Whether work-groups take tiles in turns.")]


_Rows: TypeAlias = Annotated[int, within(1, 64), Rule(description="Loads per work-item.")]
_ScanPolls: TypeAlias = Annotated[_Polls, Rule(description="Polls of an earlier tile before its total is computed.")]


@dataclass(frozen=True)
class FewTilesShape(_Shape):
    """Tiles of `portbar.scan` by warps for an array that `up_to` of them hold; otherwise as `ScanShape`."""

    up_to: Annotated[int, within(1, 1 << 16), Rule(description="Most tiles of an array.")]
    local: _Local
    rows: _Rows
    polls: _ScanPolls


@dataclass(frozen=True)
class ScanShape(_Shape):
    """Tiles of `portbar.scan` by warps.

    A work-group has `local` work-items with `rows` loads each. After `polls` of an earlier tile it computes that tile's total.
    Smaller tiles serve arrays that `few` holds a shape for: the first that suffices.
    """

    local: _Local
    rows: _Rows
    polls: _ScanPolls
    few: Annotated[tuple[FewTilesShape, ...], Rule(maxItems=100)] = ()


@dataclass(frozen=True)
class SortShape(_Shape):
    """Tiles of `portbar.sort` by warps, for keys of `key_bytes`.

    A work-group has `local` work-items. Each takes `items` keys with values, or `items_alone` keys without. A tile looks at
    `back` earlier tiles together, and computes one after `polls` of it.
    """

    key_bytes: Annotated[int, within(1, 8)]
    local: _Local
    items: Annotated[_Keys, Rule(description="Keys per work-item, with values.")]
    items_alone: Annotated[_Keys, Rule(description="Keys per work-item, without values.")]
    polls: Annotated[_Polls, Rule(description="Polls of an earlier tile before its keys are counted again.")]
    back: Annotated[int, within(1, 32), Rule(description="Earlier tiles that are polled together.")]


#: Work-items of a group that sorts: one for each value of a digit.
_check_sort_local: Final = within(256, 512)


@ruled("arrays", description="Launch shapes of operations on arrays that were measured on the device.")
@dataclass(frozen=True)
class ArrayTuning:
    """Measured launch shapes of operations on arrays; one that is None or empty was not measured."""

    #: In ascending order of their numbers of elements.
    reduce: Annotated[tuple[ReduceShape, ...], Rule(maxItems=100)] = ()
    scan: ScanShape | None = field(default=None, metadata=LEFT_OUT)
    #: One for each size of keys.
    sort: Annotated[tuple[SortShape, ...], Rule(maxItems=100)] = ()

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Read what `records.classes.plain` made.

        `TypeError` or `ValueError` if a field is unknown or missing, of the wrong type, or out of bounds.
        """
        made = cls(**members(cls, value, "arrays"))
        if any(one.local & one.local - 1 for one in made.reduce):
            raise ValueError("local of a reduction is not a power of two")
        _check_ascending("reduce", [one.up_to for one in made.reduce])
        if made.scan is not None:
            _check_ascending("few", [one.up_to * one.local * one.rows for one in made.scan.few])
        for one in made.sort:
            _check_sort_local(one.local)
        return made


def _check_ascending(name: str, bounds: list[int]) -> None:
    if bounds != sorted(set(bounds)):
        raise ValueError(f"the ranges of {name} are not in ascending order")
