"""The cost of a barrier between work-groups, by algorithm and group count, beside relaunching an empty kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from portbar.choices.strategy import ALTERNATIVES
from portbar.records.reading import known_us_of, rows_of, us_of
from portbar.survey.measuring.barrier_table import keep_table, unsteady
from portbar.survey.steps.step import Entry, Json, Row, Step, Turn, as_used, grid_of
from portbar.survey.tables import EMPTY, Cell, Table, cells, digits, name_cell, terminal_table

if TYPE_CHECKING:
    import pyopencl as cl
    from rich.console import RenderableType

#: The note on barrier times that other work on the machine distorted.
UNSTEADY: Final = "they vary too much to be used, as on a busy machine; measure again with `portbar bench barrier`"

#: Local size whose times stand for a device where several were measured.
_USUAL_LOCAL_SIZE: Final = 256

#: Characters that a reason may take.
_REASON: Final = 200


class Barrier(Step):
    """Time of a device barrier."""

    name = "barrier"
    title = "barrier times"
    doing = "measuring barriers between work-groups"
    full = Turn(3, 8.0, 90.0)
    quick = Turn(2, 4.0, 6.0)
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
        """Times over group counts at one local size: of those with the most counts, the one nearest to the usual."""
        rows = [row for row in rows_of(entry, self.name) if row["groups"] and us_of(row["barrier_time"]) is not None]
        if not rows:
            return None
        counts: dict[int, set[int]] = {}
        for row in rows:
            counts.setdefault(row["local_size"], set()).add(row["groups"])
        size = max(counts, key=lambda size: (len(counts[size]), -abs(size - _USUAL_LOCAL_SIZE)))
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
        """The fastest barrier between the fewest and the most work-groups."""
        columns = ["Device", "Local size"]
        for which in ("Fewest", "Most"):
            columns += [f"{which} groups", "Fastest", "Barrier, us", "Relaunch, us"]
        rows = []
        for one in devices:
            ends = [fastest(one["barrier"], pick) for pick in (min, max)]
            if None in ends:
                continue
            row = [name_cell(one, " *" if one["barrier"]["unsteady"] else ""), one["barrier"]["local_size"]]
            for groups, us, again, algorithm in filter(None, ends):
                row += [groups, algorithm, us, again]
            rows.append(cells(*row))
        about = (
            "Microseconds of the fastest barrier between the fewest and the most work-groups that were measured, beside "
            "ending the kernel and launching an empty one."
        )
        busy = any(row[0].text.endswith(" *") for row in rows)
        remarks = ["* Measured on a busy machine: unreliable."] if busy else []
        return Table("barriers", "Time of a barrier", about, columns, rows, ("Device", "Fastest"), remarks)


def times_table(entry: Entry) -> Table | None:
    """Microseconds per barrier, by algorithm and group count, beside relaunching; None without any row."""
    rows = Barrier().measured(entry)
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
        noted.setdefault(row["barrier_time"].get("reason"), {})[row["algorithm"]] = None
    return [f"{', '.join(names)}: {reason}" for reason, names in noted.items() if reason]


def fastest(curve: Json | None, pick: Callable[[Iterable[int]], int]) -> tuple[int, float, float | None, str] | None:
    """The fewest or the most work-groups, microseconds of the fastest barrier and of a relaunch there, and its algorithm."""
    counts = {groups for times in (curve or {}).get("algorithms", {}).values() for groups, _ in times if groups > 1}
    if curve is None or not counts:
        return None
    groups = pick(counts)
    times: dict[str, Any] = {name: dict(of).get(groups) for name, of in curve["algorithms"].items()}
    us, algorithm = min(((us, name) for name, us in times.items() if us is not None), key=lambda found: found[0])
    return groups, us, dict(curve["relaunch"]).get(groups), algorithm
