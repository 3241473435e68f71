"""A barrier of a work-group whose arrive and wait are apart: the header, whatever the strategy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from portbar.device import quirks
from portbar.primitives.header import Header, Piece
from portbar.primitives.split_barrier import selection

if TYPE_CHECKING:
    from portbar.primitives.strategy import Strategy


def _pieces(strategy: Strategy) -> list[Piece]:
    own = f"split_barrier/{strategy.split_barrier.value}.mako"
    common, software = "split_barrier/common.mako", "split_barrier/software.mako"
    if strategy.split_barrier.value == "mbarrier":
        made = [(own, name) for name in ("object", "arrivals", "waits")]
    else:
        made = [
            (software, "object"),
            (software, "counting"),
            (software, "arrivals"),
            (own, "waits"),
        ]
    return [(common, "macros"), *made, (common, "derived"), (common, "copies")]


def _context(strategy: Strategy) -> dict[str, Any]:
    choice = strategy.split_barrier.value
    # Fences of a runtime that makes barriers of them must not stand where only one work-item comes.
    group_wide = choice == "uniform" and strategy.has(quirks.FENCES_ARE_BARRIERS)
    return {
        "features": strategy.capabilities.split_features,
        # Copies that run on their own can arrive on a barrier of the hardware only.
        "hardware_copies": choice == "mbarrier",
        "faults": {name: number for name, (number, _) in selection.FAULTS.items()},
        "fault_words": selection.FAULTS,
        # A poll by mbarrier.try_wait may sleep; before compute capability 9.0 there is none.
        "polls": min(strategy.capabilities.wait_polls, 1 << 18)
        if choice == "mbarrier" and strategy.capabilities.compute_capability >= 90
        else strategy.capabilities.wait_polls,
        "most": selection.MAX_COUNT,
        "counted": strategy.split_counted or strategy.debug or choice == "counter",
        "fenced": not group_wide,
        "debug": strategy.debug,
        "prints": strategy.debug and strategy.capabilities.prints,
        "sm": strategy.capabilities.compute_capability,
    }


HEADER: Final = Header(
    "split_barrier",
    "A barrier of a work-group whose arrive and wait are apart.",
    _pieces,
    _context,
    ("atomics",),
    is_local=True,
)
