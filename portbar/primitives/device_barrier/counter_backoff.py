"""One counter, with a pause between polls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from portbar.primitives.device_barrier import counter
from portbar.primitives.strategy import Strategy


def _context(strategy: Strategy) -> dict[str, Any]:
    return {**counter.context(strategy), "pauses": strategy.backend.pauses}


VARIANT: Final = replace(
    counter.VARIANT,
    name="counter_backoff",
    rank=1,
    summary="the same, with a pause between polls: on NVIDIA `nanosleep`, a nanosecond for every four missing groups while "
    "more than 256 are missing; `pause` on x86 and `isb` on AArch64 if a probe compiled it; nothing elsewhere",
    loses="few groups: a pause delays the last poll",
    context=_context,
    suits_shared_cores=True,
)
