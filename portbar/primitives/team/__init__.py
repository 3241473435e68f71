"""Teams of work-groups, which meet among themselves: `portbar/team.h`."""

from __future__ import annotations

from typing import Any, Final

from portbar.device import quirks
from portbar.primitives import device_barrier
from portbar.primitives.atomics import word_context
from portbar.primitives.fault import Fault, Report
from portbar.primitives.layout import LINE_WORDS
from portbar.primitives.pieces import Area, Header, LocalWords, Piece
from portbar.primitives.reduction.header import scalars_of
from portbar.primitives.reduction.operators import short_form_operators
from portbar.primitives.strategy import Strategy
from portbar.primitives.team.declared import DECLARED
from portbar.records.dataclass import dataclass

#: Teams of one launch that are usable at once: each split reuses the words of the one this many splits before.
SPLITS: Final = 4

#: Operators of `portbar_team_reduce_...`, and the types of their values.
OPERATORS: Final = ("add", "min", "max", "and", "or", "xor")
_KINDS: Final = ("int", "uint", "long", "ulong", "float", "double")

_PARTS: Final = (
    "types",
    "words",
    "begin",
    "split",
    "by_colour",
    "ids",
    "meet",
    "barrier",
    "exchange",
    "votes",
    "reductions",
    "broadcasts",
)
#: An arrival of the backend if a poll shows as soon whether it was the last one.
_ARRIVAL: Final = "word_arrive_unanswered"


def _pieces(strategy: Strategy) -> list[Piece]:
    backend = strategy.backend
    arrival = backend.pieces(_ARRIVAL) if backend.defines(_ARRIVAL) else []
    return [*arrival, *(("team/team.mako", name) for name in _PARTS)]


@dataclass(frozen=True)
class _Operator:
    """An operator on a type: `a` and `b` combined, and the neutral element, in OpenCL C."""

    kind: str
    op: str
    combined: str
    neutral: str


def _into(kind: str, value: str) -> str:
    """The 64 bits that stand for a value."""
    as_bits = {"int": f"(uint){value}", "float": f"as_uint({value})", "double": f"as_ulong({value})"}
    return as_bits.get(kind, value if kind in {"uint", "ulong"} else f"(ulong){value}")


def _back(kind: str, bits: str) -> str:
    """The value that 64 bits stand for."""
    values = {"int": f"(int)(uint){bits}", "float": f"as_float((uint){bits})", "double": f"as_double({bits})"}
    return values.get(kind, bits if kind == "ulong" else f"({kind}){bits}")


def _no_teams(report: Report) -> str:
    if report.arrived == 0:
        return (
            f"the colour or the size that portbar_team_by_colour or portbar_team_split got in work-group {report.group} "
            f"differs: {report.asked} work-items of the group, or work-groups of its team or the group before, gave another "
            "one. All work-items of a work-group must give one colour, and all work-items of the grid one size."
        )
    return (
        f"portbar_team_split requested teams of {report.asked} work-groups in a launch of {report.arrived}. A team has "
        "at least one and at most portbar_num_groups work-groups: choose the size from that, or let the program require "
        "them before the launch with require=('groups>=N',)."
    )


FAULTS: Final = (
    Fault(
        "TEAM",
        21,
        "a barrier of a team reached the spin limit; results are incomplete",
        lambda report: (
            f"a barrier of a team reached its spin limit in work-group {report.group}; {report.arrived} of the team's "
            f"{report.asked} work-groups had arrived. Likely causes: a work-group of the team that skips the "
            "barrier, waits at one of another team, or left the kernel, or a team that is used after the third split "
            "that followed its own. Raise spin_limit= if the work is that long."
        ),
        arrived="groups of the team that had arrived",
    ),
    Fault(
        "TEAM_SPLIT",
        22,
        "no such teams: more groups than there are, or numbers that differ",
        _no_teams,
        arrived="work-groups that took part, 0 where colours or sizes differ",
        is_timeout=False,
    ),
)


def _context(strategy: Strategy) -> dict[str, Any]:
    scalars = [scalar for scalar in scalars_of(strategy) if scalar.c in _KINDS]
    backend = strategy.backend
    return {
        **device_barrier.poll_context(strategy),
        "splits": SPLITS,
        "inline": "static __attribute__((noinline))"
        if strategy.has(quirks.INLINED_STRUCTURES_UNKNOWN)
        else "static inline",
        **word_context(strategy),
        "stride": backend.stride,
        "arrives_unanswered": backend.defines(_ARRIVAL),
        "kinds": [scalar.c for scalar in scalars],
        "forms": [
            (
                op.name,
                [
                    _Operator(scalar.c, op.name, op.combine(scalar, "a", "b"), op.neutral(scalar))
                    for scalar in scalars
                    if op.takes(scalar)
                ],
            )
            for op in short_form_operators()
            if op.name in OPERATORS
        ],
        "into": _into,
        "back": _back,
    }


HEADER: Final = Header(
    "team",
    "Teams of work-groups of a grid, with barriers of their own.",
    _pieces,
    _context,
    ("atomics", "device_barrier", "signal"),
    FAULTS,
    # Half a line of counters for each work-group, since a team that counts has two groups at least; for each of two splits in
    # turn its number and whether it leads; and for each split values of 64 bits, in two areas that take turns.
    areas=(Area("TEAMS", LINE_WORDS // 2 + 2 * 2 + SPLITS * 2 * 2, each=1),),
    local=(
        LocalWords("TEAM_SPLITS", zero_for="portbar_team_begin"),
        LocalWords("TEAM_VOTES", zero_for="portbar_team_begin"),
        LocalWords("TEAM_NUMBER"),
        LocalWords("TEAM_OTHERS"),
        LocalWords("TEAM", 5),
        LocalWords("TEAM_RESULT", 2),
    ),
    page="team.md",
    declared=DECLARED,
)
