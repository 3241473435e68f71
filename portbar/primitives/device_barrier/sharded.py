"""Two counters, of which a work-group arrives at one."""

from __future__ import annotations

from typing import Final

from portbar.primitives.grid import BarrierAlgorithm

TEMPLATE: Final = "device_barrier/sharded.mako"

VARIANT: Final = BarrierAlgorithm(
    "sharded",
    2,
    "two counters in different parts of the cache, each group arriving at one and waiting for both",
    loses="few groups: one more load per poll",
    pieces=lambda _: [("device_barrier/counters.mako", "device_barrier")],
    context=lambda _: {"counted_by": "two counters, each group arriving at one of them"},
    counters=TEMPLATE,
    slots=lambda _: 2,
)
