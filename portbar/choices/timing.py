"""Converts seconds of patience into polls, since a kernel can count polls but has no clock that every device offers."""

from __future__ import annotations

import math
import os
import reprlib
from numbers import Real
from typing import Any, Final

from portbar.choices.strategy import DeviceProfile
from portbar.device import quirks
from portbar.primitives import layout

#: Polls a second assumed where no probe measured them: loads from a CPU's cache, and round trips to a GPU's L2.
_ASSUMED_CPU: Final = 5e8
_ASSUMED_OTHER: Final = 3e6

#: Most rounds of polls that one wait can be given.
MOST_ROUNDS: Final = 0xFFFF_FFF0

#: Seconds without a new arrival after which discovery closes the poll. On a CPU a thread may be kept off its core by the very
#: group that waits for it until the scheduler moves it: tens of milliseconds where threads outnumber cores.
_PATIENCE_CPU: Final = 0.25
_PATIENCE_OTHER: Final = 0.002
#: The same beside a launch in another queue that takes some of the threads: they come back when it ends, not when they wake.
PATIENCE_SHARED: Final = 0.001
#: The same where work-groups start nanoseconds apart.
_PATIENCE_TOGETHER: Final = 1e-5


def is_time(value: Any) -> bool:
    """Whether a caller's value is a number that may count seconds: real, finite, and within what a float holds."""
    try:
        return isinstance(value, Real) and math.isfinite(value)
    except OverflowError:
        return False


def shortened(value: Any) -> str:
    """A caller's value for a message; a number may have any number of digits."""
    return reprlib.repr(value)


def is_cpu(profile: DeviceProfile) -> bool:
    """Whether work-groups are run by threads of the host."""
    return "CPU" in profile.facts.type


def polls_per_second(profile: DeviceProfile) -> float:
    """Polls per second that a probe measured on a device; an assumption without one."""
    rate = profile.findings.polls_per_second if profile.findings is not None else None
    if is_cpu(profile):
        return float(_ASSUMED_CPU if rate is None else rate)
    # A GPU that other processes share looks slower, sixty times beside eleven of them, and limits would end too soon.
    return float(_ASSUMED_OTHER if rate is None else max(rate, _ASSUMED_OTHER / 4))


def rounds(profile: DeviceProfile, seconds: float) -> int:
    """Rounds of polls that take about `seconds` on a device; at least 1, at most what 32 bits hold."""
    return max(1, int(min(MOST_ROUNDS, seconds * polls_per_second(profile) / layout.POLLS_PER_ROUND)))


def patience_rounds(profile: DeviceProfile) -> int:
    """Rounds of polls without a new arrival after which discovery closes the poll."""
    if is_cpu(profile):
        return rounds(profile, _PATIENCE_CPU)
    together = quirks.has_effect(quirks.GROUPS_START_TOGETHER, profile.facts)
    return rounds(profile, _PATIENCE_TOGETHER if together else _PATIENCE_OTHER)


def limit_rounds(profile: DeviceProfile, seconds: float, groups: int = 1) -> int:
    """Rounds of polls after which a barrier gives up: the asked time where `groups` work-groups wait or work at once.

    Groups beyond the host's cores take turns, so that each gets its share of the time. At least as long as discovery is
    patient, since the scheduler may keep a thread off its core for that long.
    """
    share = min(1.0, _cores() / groups) if is_cpu(profile) else 1.0
    return max(rounds(profile, seconds * share), patience_rounds(profile))


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
