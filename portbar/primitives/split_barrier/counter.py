"""Counts in local memory, and waits that poll."""

from __future__ import annotations

from portbar.device import quirks
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings
from portbar.primitives.split_barrier.selection import FEATURES, SplitBarrier, progresses


def _judge(facts: DeviceFacts, findings: Findings | None) -> tuple[bool, str]:
    if quirks.has_effect(quirks.FENCES_ARE_BARRIERS, facts):
        return False, "the runtime implements the fences before arrivals as barriers"
    for who, what in (("lanes", "work-items"), ("sub_groups", "sub-groups")):
        if progresses(findings, who):
            return True, f"the progress probe saw {what} progress while others of their group wait"
    return False, "the progress probe has not seen work-items progress while others of their group wait"


def _features(findings: Findings | None) -> tuple[str, ...]:
    return tuple(FEATURES) if progresses(findings, "lanes") else ("sub_groups", "overlapping")


VARIANT = SplitBarrier(
    "counter",
    20,
    "if a probe saw work-items, or sub-groups, progress while others wait: an atomic subtraction in local memory; a "
    "load per poll",
    "split_barrier/counter.mako",
    _judge,
    _features,
)
