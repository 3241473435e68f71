"""Counters on two levels."""

from __future__ import annotations

from typing import Final

from portbar.primitives.device_barrier import sharded
from portbar.primitives.grid import BarrierAlgorithm
from portbar.primitives.pieces import Piece
from portbar.primitives.strategy import Strategy

_TEMPLATE: Final = "device_barrier/tree.mako"


def _is_flagged(strategy: Strategy) -> bool:
    """Whether fences are so cheap that the last work-group raises flags."""
    return strategy.backend.defines("word_arrive_chained")


def _pieces(strategy: Strategy) -> list[Piece]:
    chained = strategy.backend.pieces("word_arrive_chained") if _is_flagged(strategy) else []
    return [*chained, (_TEMPLATE, "wait_root"), (_TEMPLATE, "device_barrier")]


VARIANT: Final = BarrierAlgorithm(
    "tree",
    5,
    "one counter for each 64 groups and a root; on NVIDIA the last group of all raises 16 flags, and each group polls one",
    loses="up to 64 groups: the same as `counter` with one more atomic, and elsewhere with more fences",
    pieces=_pieces,
    context=lambda strategy: {"release_flagged": _is_flagged(strategy)},
    prepare=lambda _: (_TEMPLATE, "prepare"),
    counters=sharded.TEMPLATE,
    # Where a tree pays, the split form has as many arrivals to count.
    slots=lambda strategy: 2 if strategy.backend.defines("local_pointer") else 1,
)
