"""Two counters, at both of which a work-group arrives."""

from __future__ import annotations

from typing import Final

from portbar.primitives.grid import BarrierAlgorithm

VARIANT: Final = BarrierAlgorithm(
    "replicated",
    3,
    "two counters in different parts of the cache, each group arriving at both and waiting for one; no result is awaited, and "
    "on NVIDIA the first poll is issued when all arrivals should have completed",
    loses="more than a few hundred groups: twice the arrivals",
    pieces=lambda _: [("device_barrier/counters.mako", "device_barrier")],
    context=lambda strategy: {
        "counted_by": "two counters, each group arriving at both and waiting for one",
        "hold_by": "hold_all" if strategy.tuning.first_poll else "hold",
    },
    counters="device_barrier/replicated.mako",
    slots=lambda _: 2,
)
