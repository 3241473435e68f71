"""The costs of barriers and launches on a device, by shape: measured on this machine, or from a record."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any, Final

from portbar.device import matrix
from portbar.device.facts import DeviceFacts, device_key
from portbar.device.findings import ANOTHER_PROCESSOR
from portbar.device.tuning import MOST
from portbar.errors import RecordError
from portbar.records import cache
from portbar.records.classes import exactly, within
from portbar.records.dataclass import dataclass
from portbar.records.files import find
from portbar.records.reading import known_us_of, rows_of, us_of

#: Kind of the cache's entries with costs. The number goes up when something else is measured than before.
CACHE_KIND: Final = "costs-1"

#: Microseconds that no barrier and no launch takes.
_MOST_US: Final = 1e9


@dataclass(frozen=True)
class ShapeCosts:
    """Microseconds on a device at one local size and number of work-groups; None where a survey did not measure it."""

    local_size: int
    groups: int
    #: The fastest barrier between the work-groups.
    barrier: float
    #: A launch of an empty kernel, of many enqueued in a row.
    relaunch: float
    #: As in `portbar.survey.measuring.launches.LaunchTimer`.
    enqueue: float | None = None
    gap: float | None = None
    launch: float | None = None
    grid: float | None = None
    check: float | None = None


_TIMES: Final = tuple(one.name for one in fields(ShapeCosts) if one.name not in {"local_size", "groups"})


@dataclass(frozen=True)
class Costs:
    """The costs of a device by shape, and where they come from in words."""

    shapes: tuple[ShapeCosts, ...]
    source: str
    #: Whether they may differ much from those of this machine: another processor's, or an idle one's where this one was busy.
    doubtful: bool = False

    @property
    def local_sizes(self) -> tuple[int, ...]:
        """The local sizes that were measured, ascending."""
        return tuple(sorted({one.local_size for one in self.shapes}))

    def nearest_size(self, local_size: int) -> int:
        """The measured local size that is nearest by ratio."""
        return min(self.local_sizes, key=lambda size: abs(math.log(size / local_size)))

    def most_groups(self, local_size: int) -> int:
        """The most work-groups that met at the measured local size nearest to this."""
        size = self.nearest_size(local_size)
        return max(one.groups for one in self.shapes if one.local_size == size)

    def at(self, local_size: int, groups: int) -> ShapeCosts:
        """The costs at the nearest measured local size, between two group counts in proportion to their logarithms."""
        size = self.nearest_size(local_size)
        line = sorted((one for one in self.shapes if one.local_size == size), key=lambda one: one.groups)
        below = max((one for one in line if one.groups <= groups), key=lambda one: one.groups, default=line[0])
        above = min((one for one in line if one.groups >= groups), key=lambda one: one.groups, default=line[-1])
        if below.groups == above.groups:
            return below
        part = math.log(groups / below.groups) / math.log(above.groups / below.groups)
        times = {name: _between(getattr(below, name), getattr(above, name), part) for name in _TIMES}
        return ShapeCosts(size, groups, **times)

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON values; `from_json` gives an equal object back."""
        return {"source": self.source, "shapes": [asdict(one) for one in self.shapes]}

    @classmethod
    def from_json(cls, value: Any) -> Costs:
        """Read what `to_json` wrote. `RecordError` if it is something else, or holds a time that cannot be."""
        try:
            costs = cls(tuple(_shape(one) for one in value["shapes"]), exactly(str, value["source"]))
            costs.at(costs.local_sizes[0], 1)
        except (TypeError, ValueError, LookupError) as error:
            raise RecordError(f"costs have a field of the wrong type or with an impossible value: {error}") from None
        return costs

    @classmethod
    def of_entry(cls, entry: Mapping[str, Any], source: str) -> Costs | None:
        """The costs in a device's entry of a record; None where it has no barrier times."""
        rows = [
            row
            for row in rows_of(entry, "barrier", having="barrier_time")
            if (us_of(row["barrier_time"]) or 0) > 0 and (us_of(row["relaunch_time"]) or 0) > 0
        ]
        shapes: dict[tuple[int, int], list[Any]] = {}
        for row in rows:
            shapes.setdefault((row["local_size"], row["groups"]), []).append(row)
        entering = _entering(rows_of(entry, "occupancy", having="launch_time"))
        made = tuple(_of_rows(size, groups, of, entering) for (size, groups), of in sorted(shapes.items()))
        return cls(made, source) if made else None


def _of_rows(local_size: int, groups: int, rows: Sequence[Any], entering: Mapping[int, float]) -> ShapeCosts:
    """The costs of one shape: the fastest algorithm, and what launches cost if that was measured."""
    again = known_us_of(rows[0]["relaunch_time"])
    more: dict[str, float | None] = {
        name: us_of(next((row[f"{name}_time"] for row in rows if f"{name}_time" in row), None))
        for name in ("enqueue", "gap", "launch", "grid", "check")
    }
    if more["grid"] is None and entering:
        # Older records have the device's time of a launch that only enters its grid.
        nearest = min(entering, key=lambda size: abs(math.log(size / local_size)))
        more["grid"] = again + entering[nearest]
    return ShapeCosts(local_size, groups, min(known_us_of(row["barrier_time"]) for row in rows), again, **more)


def _entering(rows: Iterable[Any]) -> dict[int, float]:
    """Microseconds of a launch that enters its grid by local size, as portbar enters by itself."""
    times: dict[int, list[float]] = {}
    for row in rows:
        if row["patience"] and row["lock"] == "packed" and row["local_size"]:
            times.setdefault(row["local_size"], []).append(known_us_of(row["launch_time"]))
    return {size: statistics.median(of) for size, of in times.items()}


def _between(below: float | None, above: float | None, part: float) -> Any:
    return None if below is None or above is None else below + part * (above - below)


def _shape(value: Any) -> ShapeCosts:
    one = ShapeCosts(**value)
    for size in (one.local_size, one.groups):
        within(1, MOST)(exactly(int, size))
    for name in _TIMES:
        us = getattr(one, name)
        if us is None and name not in {"barrier", "relaunch"}:
            continue
        if type(us) not in {int, float} or not 0 <= us < _MOST_US or (us == 0 and name != "gap"):
            raise ValueError(f"{us!r} is not a time of a {name}")
    return one


def store_costs(of: DeviceFacts, costs: Costs) -> None:
    """Keep the costs of a device of this machine for `known_costs`."""
    cache.store(CACHE_KIND, device_key(of), costs.to_json())


def known_costs(of: DeviceFacts) -> Costs | None:
    """The costs of a device: those measured on this machine, else of the most similar device in the vendor matrix.

    The latter only where it has as many compute units, since barriers cost more the more work-groups meet. The source names
    the device if it is another processor. None where there are none. A cache entry that cannot be read gives a `CacheWarning`
    and counts as absent.
    """
    key = device_key(of)
    stored = cache.load(CACHE_KIND, key)
    if stored is not None:
        try:
            return Costs.from_json(stored)
        except RecordError as error:
            cache.reject(CACHE_KIND, key, str(error))
    lender = matrix.nearest(of)
    slug = "" if lender is None else matrix.record_named(lender.source).removeprefix(matrix.SOURCE)
    if not slug:
        return None
    for entry in find(slug).record["devices"]:
        facts = DeviceFacts.from_json(entry["facts"])
        if facts.platform_name == of.platform_name and facts.compute_units == of.compute_units:
            whose = "" if matrix.is_same_kind(of, facts) else f"times of {facts.name}'s record, {ANOTHER_PROCESSOR}: "
            costs = Costs.of_entry(entry, f"{whose}{matrix.SOURCE}{slug}")
            return None if costs is None else replace(costs, doubtful=bool(whose))
    return None
