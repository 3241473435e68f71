"""Converts seconds of patience into polls, since a kernel can count polls but has no clock that every device offers."""

from __future__ import annotations

import math
import reprlib
from numbers import Real
from typing import Any, Final

from portbar.backends.profile import DeviceProfile
from portbar.primitives import layout

#: Most rounds of polls that one wait can be given.
MOST_ROUNDS: Final = 0xFFFF_FFF0

#: Seconds without a new arrival after which discovery closes the poll beside a launch in another queue that takes some of the
#: threads: they come back when it ends, not when they wake.
PATIENCE_SHARED: Final = 0.001


def is_time(value: Any) -> bool:
    """Whether a caller's value is a number that may count seconds: real, finite, and within what a float holds."""
    try:
        return isinstance(value, Real) and math.isfinite(value)
    except OverflowError:
        return False


def shortened(value: Any) -> str:
    """A caller's value for a message; a number may have any number of digits."""
    return reprlib.repr(value)


def polls_per_second(profile: DeviceProfile) -> float:
    """Polls per second that a probe measured on a device; an assumption without one."""
    return profile.units.rate(profile.findings.polls_per_second if profile.findings is not None else None)


def rounds(profile: DeviceProfile, seconds: float) -> int:
    """Rounds of polls that take about `seconds` on a device; at least 1, at most what 32 bits hold."""
    return max(1, int(min(MOST_ROUNDS, seconds * polls_per_second(profile) / layout.POLLS_PER_ROUND)))


def patience_rounds(profile: DeviceProfile) -> int:
    """Rounds of polls without a new arrival after which discovery closes the poll."""
    return rounds(profile, profile.units.patience(profile.facts))


def limit_rounds(profile: DeviceProfile, seconds: float, groups: int = 1) -> int:
    """Rounds of polls after which a barrier gives up: the asked time where `groups` work-groups wait or work at once.

    Each group gets its share of the time where they take turns. At least as long as discovery is patient, since the scheduler
    may keep a thread off its core for that long.
    """
    return max(rounds(profile, seconds * profile.units.share(groups)), patience_rounds(profile))
