"""The cost of a barrier between work-groups, by algorithm and group count, beside relaunching an empty kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import log2
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from portbar.choices.strategy import ALTERNATIVES
from portbar.records.reading import known_us_of, rows_of, us_of
from portbar.survey.device import Device
from portbar.survey.measuring.barrier_table import keep_table, unsteady
from portbar.survey.steps.step import Entry, Json, Row, Schedule, Step, as_used, grid_of
from portbar.survey.tables import EMPTY, Cell, Table, cells, digits, name_cell, terminal_table

if TYPE_CHECKING:
    import pyopencl as cl
    from rich.console import RenderableType

#: The note on barrier times that other work on the machine distorted.
UNSTEADY: Final = "they vary too much to be used, as on a busy machine; measure again with `portbar bench barrier`"

#: Work-groups, microseconds of their fastest barrier and of a relaunch, and its algorithm.
End = tuple[int, float, float | None, str]

#: Characters that a reason may take.
_REASON: Final = 200


class BarrierStep(Step):
    """Time of a device barrier."""

    name = "barrier"
    title = "barrier times"
    doing = "measuring barriers between work-groups"
    full = Schedule(3, 8.0, 90.0)
    quick = Schedule(2, 4.0, 6.0)
    typical_s = 12.0
    informative = True
    legend = "ratio: fastest barrier over relaunching an empty kernel."

    def complete(self, part: Json) -> None:
        """Add whether the times vary too much to go by."""
        part["unsteady"] = unsteady(part["rows"])

    def keep(self, device: cl.Device, entry: Entry, *, quick: bool) -> bool:
        """Store which algorithm was fastest at which group count, if that was measured well enough to go by."""
        part = entry[self.name]
        one_group = "max_groups" in entry["strategy"]
        return part["status"] == "ok" and not one_group and keep_table(device, part["rows"], quick=quick)

    def measured(self, entry: Entry) -> list[Json]:
        """The rows that hold a time."""
        both = ("barrier_time", "relaunch_time")
        return [row for row in rows_of(entry, self.name) if all(us_of(row[name]) for name in both)]

    def values(self, row: Row) -> Iterable[tuple[str, str]]:
        """The barrier by algorithm; relaunching by grid."""
        return ("barrier_time", f"{row.get('algorithm')}, {grid_of(row)}"), ("relaunch_time", grid_of(row))

    def used(self, entry: Entry) -> Iterable[Row]:
        """The fastest algorithm of each grid."""
        return as_used(rows_of(entry, self.name), "barrier_time", "algorithm", ("groups", "local_size"))

    def views(self, entry: Entry) -> Iterator[RenderableType]:
        """The times, and why algorithms have none."""
        times = times_table(entry)
        if times is not None:
            yield times
        for note in notes(entry):
            yield Text(f"No time of {shorten(note, _REASON, placeholder='...')}", style="yellow")
        if entry.get(self.name, {}).get("unsteady"):
            yield Text(f"Barrier times: {UNSTEADY}", style="yellow")

    def summary(self, entry: Entry) -> Json | None:
        """Times over group counts at one local size: of those with several work-groups the nearest to the suggested."""
        rows = [row for row in rows_of(entry, self.name) if row["groups"] and us_of(row["barrier_time"]) is not None]
        if not rows:
            return None
        counts: dict[int, set[int]] = {}
        for row in rows:
            counts.setdefault(row["local_size"], set()).add(row["groups"])
        wanted = Device(entry).suggested_local_size
        size = min(counts, key=lambda size: (max(counts[size]) == 1, abs(log2(size / wanted)), size))
        algorithms: dict[str, dict[int, float]] = {}
        relaunch: dict[int, float] = {}
        for row in (row for row in rows if row["local_size"] == size):
            algorithms.setdefault(row["algorithm"], {})[row["groups"]] = known_us_of(row["barrier_time"])
            again = us_of(row["relaunch_time"])
            if again is not None:
                relaunch.setdefault(row["groups"], again)
        return {
            "local_size": size,
            "algorithms": {name: sorted(times.items()) for name, times in algorithms.items()},
            "relaunch": sorted(relaunch.items()),
            "unsteady": bool(entry[self.name].get("unsteady")),
        }

    def table(self, devices: Sequence[Json]) -> Table:
        """The fastest barrier between the fewest and the most work-groups; once where all were measured with one number."""
        ends = [(one, fastest(one["barrier"], min), fastest(one["barrier"], max)) for one in devices]
        known = [(one, fewest, most) for one, fewest, most in ends if fewest is not None and most is not None]
        both = any(fewest[0] != most[0] for _, fewest, most in known)
        names = ("Fastest", "Barrier, us", "Relaunch, us")
        counts = ("Fewest groups", "Most groups") if both else ("Work-groups",)
        columns = ["Device", "Local size", *(title for count in counts for title in (count, *names))]
        rows = []
        for one, fewest, most in known:
            row = [name_cell(one, " *" if one["barrier"]["unsteady"] else ""), one["barrier"]["local_size"]]
            if both:
                row += _end_cells(fewest) if fewest[0] != most[0] else [EMPTY] * (1 + len(names))
            rows.append(cells(*row, *_end_cells(most)))
        which = "the fewest and the most work-groups that were measured" if both else "work-groups"
        about = (
            f"Microseconds of the fastest barrier between {which}, beside ending the kernel and launching an empty one, at the "
            "measured local size nearest to that which portbar suggests."
        )
        busy = any(row[0].text.endswith(" *") for row in rows)
        remarks = ["* Measured on a busy machine: unreliable."] if busy else []
        return Table("barriers", "Time of a barrier", about, columns, rows, ("Device", "Fastest"), remarks)


def _end_cells(end: End) -> list[Any]:
    groups, us, again, algorithm = end
    return [groups, algorithm, us, again]


def times_table(entry: Entry) -> Table | None:
    """Microseconds per barrier, by algorithm and group count, beside relaunching; None without any row."""
    rows = BarrierStep().measured(entry)
    if not rows:
        return None
    present = [name for name in ALTERNATIVES["device_barrier"] if any(row["algorithm"] == name for row in rows)]
    columns = [_heading(name) for name in ("local", "groups", *present, "relaunch", "ratio")]
    shapes: dict[tuple[int, int], dict[str, Json]] = {}
    for row in rows:
        shapes.setdefault((row["local_size"], row["groups"]), {})[row["algorithm"]] = row
    shown = []
    for (local, groups), of_shape in sorted(shapes.items()):
        times = {name: known_us_of(row["barrier_time"]) for name, row in of_shape.items()}
        least, again = min(times.values()), known_us_of(next(iter(of_shape.values()))["relaunch_time"])
        timed = [
            Cell(digits(times[name]), kind="best" if times[name] == least else "") if name in times else EMPTY
            for name in present
        ]
        shown.append([local, groups, *timed, again, least / again])
    return terminal_table("Microseconds per barrier, median", columns, shown)


def _heading(name: str) -> str:
    """A name in lines of at most seven characters: all algorithms of a GPU's record fit 80 columns then."""
    return {"relaunch": "re-\nlaunch", "replicated": "repli-\ncated"}.get(name, name.replace("_", "\n"))


def notes(entry: Entry) -> list[str]:
    """Why algorithms have no times, each reason once."""
    noted: dict[str, dict[str, None]] = {}
    for row in rows_of(entry, "barrier"):
        noted.setdefault(str(row["barrier_time"].get("reason", "")), {})[row["algorithm"]] = None
    return [f"{', '.join(names)}: {reason}" for reason, names in noted.items() if reason]


def fastest(curve: Json | None, pick: Callable[[Iterable[int]], int]) -> End | None:
    """The fewest or the most work-groups, microseconds of the fastest barrier and of a relaunch there, and its algorithm."""
    counts = {groups for times in (curve or {}).get("algorithms", {}).values() for groups, _ in times if groups > 1}
    if curve is None or not counts:
        return None
    groups = pick(counts)
    times: dict[str, Any] = {name: dict(of).get(groups) for name, of in curve["algorithms"].items()}
    us, algorithm = min(((us, name) for name, us in times.items() if us is not None), key=lambda found: found[0])
    return groups, us, dict(curve["relaunch"]).get(groups), algorithm
