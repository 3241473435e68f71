"""A barrier of a work-group whose arrive and wait are apart: the header, whatever the strategy."""

from __future__ import annotations

from typing import Any, Final

from portbar.primitives.pieces import Header, Piece
from portbar.primitives.split_barrier import selection
from portbar.primitives.split_barrier.declared import DECLARED
from portbar.primitives.strategy import Strategy


def _pieces(_: Strategy) -> list[Piece]:
    members = ("macros", "object", "arrivals", "waits", "copies")
    return [("backend/effects.mako", "group_fence"), *(("split_barrier/common.mako", name) for name in members)]


def _context(strategy: Strategy) -> dict[str, Any]:
    variant = selection.VARIANTS[strategy.split_barrier.value]
    return {
        "template": variant.template,
        "features": strategy.capabilities.split_features,
        "hardware_copies": variant.copies_alone,
        "faults": selection.FAULTS,
        "polls": variant.polls(strategy),
        "most": selection.MAX_COUNT,
        "counted": strategy.split_counted or strategy.debug or variant.is_counted,
        "debug": strategy.debug,
        "prints": strategy.debug and strategy.capabilities.prints,
        "instructions": strategy.units.instructions,
        "workarounds": strategy.workarounds,
    }


HEADER: Final = Header(
    "split_barrier",
    "A barrier of a work-group whose arrive and wait are apart.",
    _pieces,
    _context,
    ("atomics",),
    is_local=True,
    page="split_barrier.md",
    declared=DECLARED,
)
