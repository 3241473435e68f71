"""Counters by which work-groups of one grid hand something to each other: `portbar/signal.h`."""

from __future__ import annotations

from typing import Any, Final

from portbar.primitives import device_barrier
from portbar.primitives.fault import Fault
from portbar.primitives.pieces import Header, Piece
from portbar.primitives.signal.declared import DECLARED
from portbar.primitives.strategy import Strategy

_PIECES: Final[tuple[Piece, ...]] = tuple(
    ("signal/signal.mako", name)
    for name in ("types", "report", "add", "set", "reached", "test", "wait", "condition", "clear")
)


FAULTS: Final = (
    Fault(
        "SIGNAL",
        6,
        "a wait for a signal reached the spin limit; results are incomplete",
        lambda report: (
            f"a wait for a signal reached its spin limit in work-group {report.group} of {report.groups}: it waited for "
            f"at least {report.asked}, and the signal was {report.arrived}. Likely causes: the work-group that should "
            "have signalled has returned or waits itself, or fewer work-groups took part than the kernel expects "
            "(portbar_num_groups returns their number). Raise spin_limit= if the work takes that long."
        ),
        arrived="the signal's value",
    ),
    Fault(
        "SIGNAL_RANGE",
        7,
        "a signal went beyond its largest value",
        lambda report: (
            f"a signal exceeded its largest value, {2**31 - 1}. It was {report.arrived} "
            f"when work-group {report.group} of {report.groups} added, set or waited for {report.asked}. Clear signals "
            "with portbar_device_signals_clear at the beginning of a launch; memory that no launch clears must start at 0."
        ),
        arrived="the signal's value",
        is_timeout=False,
    ),
    Fault(
        "CONDITION",
        8,
        "portbar_device_wait_until reached the spin limit",
        lambda report: (
            f"portbar_device_wait_until reached its spin limit in work-group {report.group} of {report.groups}. Likely "
            "causes: the work-group that should have made the condition true has returned or waits itself. Raise "
            "spin_limit= if the work takes that long."
        ),
    ),
)


def _context(strategy: Strategy) -> dict[str, Any]:
    return {**device_barrier.poll_context(strategy)}


HEADER: Final = Header(
    "signal",
    "Counters that only grow, between the work-groups of a grid.",
    lambda _: list(_PIECES),
    _context,
    ("atomics", "device_barrier"),
    FAULTS,
    page="signal.md",
    declared=DECLARED,
)
