"""NVIDIA's mbarrier objects."""

from __future__ import annotations

from portbar.backends.selection import units_of
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings
from portbar.primitives.split_barrier.selection import FEATURES, SplitBarrier
from portbar.primitives.strategy import Strategy


def _judge(facts: DeviceFacts, findings: Findings | None) -> tuple[bool, str]:
    builds = findings.builds if findings is not None else {}
    if "mbarrier" in builds:
        return builds["mbarrier"], "the PTX compile probe " + ("passed" if builds["mbarrier"] else "failed")
    if "mbarrier" in units_of(facts).instructions:
        return True, "compute capability 8.0 or later has mbarrier; not yet probed here"
    return False, "it requires PTX of compute capability 8.0 or later"


def _polls(strategy: Strategy) -> int:
    # A poll by mbarrier.try_wait may sleep.
    most = 1 << 18 if "mbarrier.try_wait" in strategy.units.instructions else strategy.capabilities.wait_polls
    return min(strategy.capabilities.wait_polls, most)


VARIANT = SplitBarrier(
    "mbarrier",
    10,
    "NVIDIA, compute capability 8.0 and later: one `mbarrier.arrive`; `mbarrier.try_wait` (9.0), which may sleep, or "
    "`test_wait`",
    "backend/ptx/mbarrier.mako",
    _judge,
    lambda _: tuple(FEATURES),
    finds_faults=False,
    copies_alone=True,
    polls=_polls,
)
