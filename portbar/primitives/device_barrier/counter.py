"""One counter that only grows."""

from __future__ import annotations

from typing import Any, Final

from portbar.primitives.grid import BarrierAlgorithm
from portbar.primitives.pieces import Piece
from portbar.primitives.strategy import Strategy

TEMPLATE: Final = "device_barrier/counter.mako"


def pieces(strategy: Strategy) -> list[Piece]:
    """In a slot where the backend keeps a leader's count in registers."""
    template = "device_barrier/counters.mako" if strategy.backend.defines("local_pointer") else TEMPLATE
    return [(template, "device_barrier")]


def prepare(strategy: Strategy) -> Piece | None:
    """Slots are prepared for all algorithms."""
    return None if strategy.backend.defines("local_pointer") else (TEMPLATE, "prepare")


def context(_: Strategy) -> dict[str, Any]:
    """The text of its comment."""
    return {"counted_by": "one central counter"}


VARIANT: Final = BarrierAlgorithm(
    "counter",
    0,
    "one counter that only grows; a group arrives by fetch-and-add, whose result is its first poll, then polls the counter",
    loses="many groups: arrivals and polls share one cache line",
    pieces=pieces,
    context=context,
    prepare=prepare,
)
