"""Counters by which work-groups of one grid hand something to each other: `portbar/signal.h`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from portbar.primitives import device_barrier, layout
from portbar.primitives.header import Header, Piece

if TYPE_CHECKING:
    from portbar.primitives.strategy import Strategy

_PIECES: Final[tuple[Piece, ...]] = tuple(
    ("signal/signal.mako", name)
    for name in ("types", "report", "add", "set", "reached", "test", "wait", "condition", "clear")
)


def _context(strategy: Strategy) -> dict[str, Any]:
    return {
        **device_barrier.poll_context(strategy),
        "status_signal": layout.STATUS_SIGNAL,
        "status_signal_range": layout.STATUS_SIGNAL_RANGE,
        "status_condition": layout.STATUS_CONDITION,
    }


HEADER: Final = Header(
    "signal",
    "Counters that only grow, between the work-groups of a grid.",
    lambda _: list(_PIECES),
    _context,
    ("atomics", "device_barrier"),
)
