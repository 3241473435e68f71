"""The cost of an arrive and a wait of each split barrier, beside OpenCL's work-group barrier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from portbar.records.reading import known_us_of, rows_of, us_of
from portbar.survey.steps.step import Entry, Json, Row, Schedule, Step, as_used
from portbar.survey.tables import Table, cells, common, name_cell, strategy_cell, terminal_table, timed_cells


class SplitBarrierStep(Step):
    """Time of a split barrier by strategy and local size."""

    name = "split_barrier"
    title = "split barriers"
    doing = "measuring split barriers"
    full = Schedule(4, 2.0, 15.0)
    quick = Schedule(4, 0.7, 2.0)
    typical_s = 3.0

    def values(self, row: Row) -> Iterable[tuple[str, str]]:
        """The time by strategy; OpenCL's barrier by local size."""
        size = f"local size {row.get('local_size')}"
        title = f"{row.get('strategy')}, {size}"
        return ("time", title), ("chosen", title), ("barrier_time", size)

    def used(self, entry: Entry) -> Iterable[Row]:
        """The chosen strategy, or the fastest."""
        return as_used(rows_of(entry, self.name), "time", "strategy", ("local_size",))

    def views(self, entry: Entry) -> Iterator[Table]:
        """Nanoseconds of an arrive and a wait."""
        rows = rows_of(entry, self.name, having="time")
        if not rows:
            return
        shown = []
        for row in rows:
            whole, split = us_of(row.get("barrier_time")), known_us_of(row["time"])
            ratio = split / whole if whole else None
            nanoseconds = None if whole is None else 1e3 * whole
            shown.append([row["local_size"], strategy_cell(row), 1e3 * split, nanoseconds, ratio])
        title = "Nanoseconds of a split barrier's arrive and wait, median"
        yield terminal_table(title, ["local", "strategy", "split", "barrier()", "ratio"], shown)

    def summary(self, entry: Entry) -> Json | None:
        """Nanoseconds by strategy, at the local size measured with the most strategies."""
        rows = [row for row in rows_of(entry, self.name) if us_of(row["time"]) is not None]
        if not rows:
            return None
        sizes = Counter(row["local_size"] for row in rows)
        size = max(sizes, key=lambda size: (sizes[size], size))
        here = [row for row in rows if row["local_size"] == size]
        plain = [value for row in here if (value := us_of(row.get("barrier_time"))) is not None]
        return {
            "local_size": size,
            "times_ns": {row["strategy"]: 1e3 * known_us_of(row["time"]) for row in here},
            "chosen": next((row["strategy"] for row in here if row["chosen"]), None),
            "barrier_ns": 1e3 * plain[0] if plain else None,
        }

    def table(self, devices: Sequence[Json]) -> Table:
        """The time of each strategy."""
        summaries = [(one, one["split_barrier"]) for one in devices if one["split_barrier"]]
        names, notes = common((of["times_ns"] for _, of in summaries), "strategies", most=8)
        rows = [
            cells(name_cell(one), of["local_size"], *timed_cells(of["times_ns"], of["chosen"], names), of["barrier_ns"])
            for one, of in summaries
        ]
        about = (
            "Nanoseconds of an arrive and a wait within a work-group, by strategy, beside the work-group barrier of OpenCL. "
            "The one that portbar chooses is marked with *."
        )
        columns = ("Device", "Local size", *names, "OpenCL's barrier")
        return Table("split-barriers", "Split barriers", about, columns, rows, ["Device"], notes)
