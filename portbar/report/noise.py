"""Tells whether two measured numbers differ by more than the spread of their samples.

Not for deciding whether a difference is good or bad: `portbar.report.compare` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median, quantiles
from typing import Any, Final

#: Units of time; of two times the smaller one is better.
TIMES: Final = {"s": 1.0, "us": 1e-6, "ns": 1e-9}

#: How far a time without samples may be from another and still count as the same.
_UNKNOWN_SPREAD: Final = 0.10

#: Seconds below which a difference between two times is that of the clock.
_CLOCK_S: Final = 5e-9


def number(reading: Any) -> float | None:
    """The number of a reading, or None where it has none."""
    value = reading.get("value") if isinstance(reading, Mapping) else reading
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def unit(reading: Any) -> str | None:
    """The unit of a reading."""
    found = reading.get("unit") if isinstance(reading, Mapping) else None
    return found if isinstance(found, str) else None


def _samples(reading: Any) -> Sequence[float]:
    return reading.get("samples") or () if isinstance(reading, Mapping) else ()


def middle(reading: Any) -> tuple[float, float]:
    """The range in which a reading's middle half lies.

    Of fewer than four samples it is all of them; without samples a time is given a tenth to both sides and a count nothing.
    """
    samples = _samples(reading)
    if len(samples) >= 4:
        low, _, high = quantiles(samples, n=4, method="inclusive")
        return low, high
    if len(samples) >= 2:
        return min(samples), max(samples)
    value = samples[0] if samples else number(reading) or 0.0
    spread = _UNKNOWN_SPREAD * abs(value) if unit(reading) in TIMES or unit(reading) in {"1/s", "polls/s"} else 0.0
    return value - spread, value + spread


def ratio(old: Any, new: Any) -> float | None:
    """`new` over `old`, of the medians of their samples; None where one is zero or their units differ."""
    if unit(old) != unit(new) and None not in {unit(old), unit(new)}:
        return None
    values = [median(_samples(reading)) if _samples(reading) else number(reading) for reading in (old, new)]
    if not values[0] or not values[1]:
        return None
    return values[1] / values[0]


def within_noise(old: Any, new: Any) -> bool:
    """Whether two readings are the same number as far as their samples can tell: their middle halves overlap."""
    if unit(old) != unit(new) and None not in {unit(old), unit(new)}:
        return False
    (old_low, old_high), (new_low, new_high) = middle(old), middle(new)
    if old_low <= new_high and new_low <= old_high:
        return True
    gap = max(old_low - new_high, new_low - old_high)
    return gap * TIMES.get(unit(old) or "", float("inf")) < _CLOCK_S
