"""Checks of debug builds: whether those who must make a call together agree on the conditions before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from portbar.primitives.agreement.declared import DECLARED, GRID_DECLARED
from portbar.primitives.fault import Fault, Report
from portbar.primitives.layout import FAULTS as LONE_FAULTS
from portbar.primitives.pieces import Header, Piece
from portbar.primitives.strategy import Strategy
from portbar.reading.found import NUMBER_BITS, Condition

_TEMPLATE: Final = "agreement/agreement.mako"
#: The largest number of work-items that a report holds.
_MOST: Final = 255

#: The conditions of all programs of this process, by their numbers.
_conditions: Final[dict[int, Condition]] = {}


def register(conditions: Mapping[int, Condition]) -> None:
    """Let faults name these conditions."""
    _conditions.update(conditions)


def described(number: int, where: str, count: int = 0) -> str:
    """A fault in words, after the names of the kernel and the device: which condition differs `where`, and the remedy."""
    found = _conditions.get(number)
    if found is None:
        return f"a condition differs {where}, of a program that another process built."
    who = "all work-items of all work-groups" if found.is_grid else "all work-items of a work-group"
    how = ""
    if 0 < count < _MOST:
        how = f" ({count} work-item{'s differ' if count > 1 else ' differs'} from the others)"
    vote = "portbar_device_barrier_any" if found.is_grid else "work_group_any, or a value in local memory"
    return (
        f"{found.place.file}, line {found.place.line}: the condition `{found.source}` differs {where}{how}, but "
        f"{found.call} (line {found.line}) must be called by {who}. Decide by a vote ({vote}), so that all go the same way. "
        "If the call is right all the same: PORTBAR_UNIFORM(condition)."
    )


def _message(report: Report) -> str:
    number, count = report.arrived % (1 << NUMBER_BITS), report.arrived >> NUMBER_BITS
    found = _conditions.get(number)
    is_grid = found is not None and found.is_grid
    where = (
        f"between the work-items of the {report.groups} work-groups" if is_grid else f"within work-group {report.group}"
    )
    return described(number, where, count)


DISAGREED: Final = Fault(
    "DISAGREED",
    23,
    "a debug build found a condition that differs where it must not",
    _message,
    arrived="the number of the condition, and how many work-items",
    is_timeout=False,
)


def _context(strategy: Strategy) -> dict[str, Any]:
    return {
        "has_grid": False,
        "work_of_all": strategy.backend.work_before_leader,
        "number_bits": NUMBER_BITS,
        "fault": LONE_FAULTS["agreement"],
    }


_PIECES: Final[list[Piece]] = [(_TEMPLATE, "agreement"), (_TEMPLATE, "kernels")]

#: Of programs without a grid, and of those with one.
HEADER: Final = Header(
    "agreement",
    "Checks of a debug build within work-groups.",
    lambda _: list(_PIECES),
    _context,
    faults=(DISAGREED,),
    declared=DECLARED,
)
GRID_HEADER: Final = Header(
    "grid_agreement",
    "Checks of a debug build within work-groups and between them.",
    lambda _: [*_PIECES, (_TEMPLATE, "grid")],
    lambda strategy: {**_context(strategy), "has_grid": True},
    ("device_barrier",),
    (DISAGREED,),
    declared=DECLARED + GRID_DECLARED,
)
