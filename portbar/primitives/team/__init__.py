"""Teams of work-groups, which meet among themselves: `portbar/team.h`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from portbar.primitives import backend, device_barrier, layout
from portbar.primitives.atomics import word_context
from portbar.primitives.header import Header, Piece
from portbar.primitives.reduction.header import scalars_of
from portbar.primitives.reduction.operators import short_form_operators

if TYPE_CHECKING:
    from portbar.primitives.strategy import Strategy

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
    arrival = backend.pieces(strategy, _ARRIVAL) if backend.defines(strategy, _ARRIVAL) else []
    return [*arrival, *(("team/team.mako", name) for name in _PARTS)]


@dataclass(frozen=True)
class _Form:
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


def _context(strategy: Strategy) -> dict[str, Any]:
    scalars = [scalar for scalar in scalars_of(strategy) if scalar.c in _KINDS]
    return {
        **device_barrier.poll_context(strategy),
        "splits": layout.TEAM_SPLITS,
        "status_team": layout.STATUS_TEAM,
        "status_split": layout.STATUS_TEAM_SPLIT,
        **word_context(strategy),
        "arrives_unanswered": backend.defines(strategy, _ARRIVAL),
        "counts_votes": backend.defines(strategy, "barrier_count"),
        "kinds": [scalar.c for scalar in scalars],
        "forms": [
            _Form(scalar.c, op.name, op.combine(scalar, "a", "b"), op.neutral(scalar))
            for op in short_form_operators()
            for scalar in scalars
            if op.name in OPERATORS and op.takes(scalar)
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
)
