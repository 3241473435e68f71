"""A reading: one measured value with its unit and samples, or the status and the reason of a value that is missing.

These functions trust their arguments; `portbar.records.validation` checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, overload

if TYPE_CHECKING:  # types alone: making the classes takes time
    from portbar.records.format import (
        AtomicsRow,
        BarrierRow,
        LitmusRow,
        OccupancyRow,
        ProbeRow,
        ReductionRow,
        SplitBarrierRow,
    )

#: Seconds in a unit of time.
TIMES: Final = {"s": 1.0, "us": 1e-6, "ns": 1e-9}

#: The reason of a reading that a spent budget left out.
NO_TIME: Final = "no time was left"


def measured(value: Any, unit: str | None = None, samples: Iterable[Any] = (), **more: Any) -> dict[str, Any]:
    """Return a reading that holds a value.

    Parameters
    ----------
    value : number, str or bool
        Of several samples, their median unless `more` says otherwise.
    unit : str, optional
        One of the schema's; left out for words and truth values.
    samples : iterable, optional
        What was measured, in the same unit and in the order it was measured.
    **more
        `min`, `max`, `mean` (same unit) or `note` (str); those of None are left out.
    """
    reading: dict[str, Any] = {"value": value}
    if unit is not None:
        reading["unit"] = unit
    reading |= {name: item for name, item in more.items() if item is not None}
    raw = list(samples)
    if raw:
        reading["samples"] = raw
    return reading


def missing(status: str, reason: str) -> dict[str, Any]:
    """Return a reading without a value: one of the schema's statuses, and why in words."""
    return {"status": status, "reason": reason}


def value_of(reading: Mapping[str, Any] | None, default: Any = None) -> Any:
    """Return the value of a reading; `default` where it has none, or is None."""
    return default if reading is None else reading.get("value", default)


def is_missing(value: Any) -> bool:
    """Whether this is a reading that has a reason in place of a value."""
    return isinstance(value, Mapping) and "value" not in value and "status" in value


def unit_of(reading: Any) -> str | None:
    """Return the unit of a reading; None where it has none, and for plain values."""
    found = reading.get("unit") if isinstance(reading, Mapping) else None
    return found if isinstance(found, str) else None


def number_of(reading: Any) -> float | None:
    """Return the number that a reading holds, or that a plain value is; None for other values."""
    value = reading.get("value") if isinstance(reading, Mapping) else reading
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def us_of(reading: Any) -> float | None:
    """Return the microseconds of a reading, if it has a number."""
    return None if number_of(reading) is None else known_us_of(reading)


def known_us_of(reading: Any) -> float:
    """Return the microseconds of a reading that is known to have a number."""
    return (number_of(reading) or 0.0) * _us_per_unit(reading)


def us_samples_of(reading: Mapping[str, Any] | None) -> list[float]:
    """Return the samples of a reading, as by `samples_of`, in microseconds."""
    return [one * _us_per_unit(reading) for one in samples_of(reading)]


def _us_per_unit(reading: Any) -> float:
    return TIMES.get(unit_of(reading) or "", TIMES["us"]) / TIMES["us"]


def samples_of(reading: Mapping[str, Any] | None) -> list[Any]:
    """Return the samples of a reading; only its value where it has none, and nothing without a value."""
    if reading is None or "value" not in reading:
        return []
    return list(reading.get("samples") or [reading["value"]])


def mean_of(reading: Mapping[str, Any]) -> float:
    """Return the mean of the samples of a reading that has a value."""
    samples = samples_of(reading)
    return float(sum(samples) / len(samples))


@overload
def rows_of(entry: Mapping[str, Any], step: Literal["probe"], having: str = "") -> list[ProbeRow]: ...
@overload
def rows_of(entry: Mapping[str, Any], step: Literal["occupancy"], having: str = "") -> list[OccupancyRow]: ...
@overload
def rows_of(entry: Mapping[str, Any], step: Literal["barrier"], having: str = "") -> list[BarrierRow]: ...
@overload
def rows_of(entry: Mapping[str, Any], step: Literal["litmus"], having: str = "") -> list[LitmusRow]: ...
@overload
def rows_of(entry: Mapping[str, Any], step: Literal["atomics"], having: str = "") -> list[AtomicsRow]: ...
@overload
def rows_of(entry: Mapping[str, Any], step: Literal["split_barrier"], having: str = "") -> list[SplitBarrierRow]: ...
@overload
def rows_of(entry: Mapping[str, Any], step: Literal["reduction"], having: str = "") -> list[ReductionRow]: ...
@overload
def rows_of(entry: Mapping[str, Any], step: str, having: str = "") -> list[Any]: ...
def rows_of(entry: Mapping[str, Any], step: str, having: str = "") -> list[Any]:
    """Return the rows of a step in a device's entry, or those whose reading `having` has a value; none without the step."""
    rows: list[Any] = (entry.get(step) or {}).get("rows") or []
    return [row for row in rows if value_of(row.get(having)) is not None] if having else rows
