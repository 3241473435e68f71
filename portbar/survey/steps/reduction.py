"""The cost of a sum over sub-groups, work-groups and the device, beside OpenCL's own function for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from portbar.records.reading import rows_of, us_of
from portbar.survey.steps.step import Entry, Json, Row, Schedule, Step, as_used, grid_of
from portbar.survey.tables import (
    Table,
    cells,
    common,
    name_cell,
    strategy_cell,
    terminal_table,
    time_text,
    timed_cells,
)


class ReductionStep(Step):
    """Time of a sum by level, type and strategy."""

    name = "reduction"
    title = "reductions"
    doing = "measuring reductions"
    full = Schedule(5, 3.0, 25.0)
    quick = Schedule(3, 1.5, 3.0)
    typical_s = 4.0

    def values(self, row: Row) -> Iterable[tuple[str, str]]:
        """The time by strategy; OpenCL's own function by level, type and grid."""
        what = f"{row.get('level')} {row.get('operation')} {row.get('type')}, {grid_of(row)}"
        title = f"{row.get('strategy')}, {what}"
        return ("time", title), ("chosen", title), ("built_in_time", what)

    def used(self, entry: Entry) -> Iterable[Row]:
        """The chosen strategy, or the fastest."""
        shape = ("level", "operation", "type", "local_size", "groups")
        return as_used(rows_of(entry, self.name), "time", "strategy", shape)

    def views(self, entry: Entry) -> Iterator[Table]:
        """Time of a sum of one value per work-item."""
        rows = rows_of(entry, self.name, having="time")
        if not rows:
            return
        columns = ("over a", "type", "local", "groups", "strategy", "portbar's", "OpenCL's own")
        shown = (
            [
                row["level"].replace("_", "-"),
                row["type"],
                row["local_size"],
                row.get("groups"),
                strategy_cell(row),
                time_text(row["time"]),
                time_text(row.get("built_in_time")),
            ]
            for row in rows
        )
        yield terminal_table("Time of a sum of one value per work-item, median", columns, shown, words=["over a"])

    def summary(self, entry: Entry) -> dict[str, Json]:
        """Level -> microseconds by strategy, at the largest grid that has the most strategies."""
        shown: dict[str, Json] = {}
        rows = [row for row in rows_of(entry, self.name) if us_of(row["time"]) is not None]
        for level in ("sub_group", "work_group", "device"):
            grids: dict[tuple[Any, ...], list[Row]] = {}
            for row in rows:
                if row["level"] == level:
                    grid = (row["operation"], row["type"], row.get("local_size") or 0, row.get("groups") or 0)
                    grids.setdefault(grid, []).append(row)
            if not grids:
                continue
            grid = max(grids, key=lambda grid: (len(grids[grid]), grid[1] == "float", grid[3], grid[2]))
            here = grids[grid]
            built_in = [value for row in here if (value := us_of(row.get("built_in_time"))) is not None]
            shown[level] = {
                **dict(zip(("operation", "type", "local_size", "groups"), grid, strict=True)),
                "times_us": {row["strategy"]: us_of(row["time"]) for row in here},
                "chosen": next((row["strategy"] for row in here if row["chosen"]), None),
                "built_in_us": built_in[0] if built_in else None,
            }
        return shown

    def table(self, devices: Sequence[Json]) -> Table:
        """The time of each strategy at each level."""
        summaries = [(one, level, of) for one in devices for level, of in one["reduction"].items()]
        names, notes = common((of["times_us"] for _, _, of in summaries), "strategies", most=8)
        rows = [
            cells(
                name_cell(one),
                level.replace("_", "-"),
                f"{of['operation']} {of['type']}",
                f"{of['groups'] or '?'} x {of['local_size'] or '?'}",
                *timed_cells(of["times_us"], of["chosen"], names),
                of["built_in_us"],
            )
            for one, level, of in summaries
        ]
        about = (
            "Microseconds of a reduction by level and strategy, beside the function that OpenCL has for it. The grid is "
            "work-groups times work-items. The strategy that portbar chooses is marked with *."
        )
        words = ("Device", "Level", "Operation")
        return Table("reductions", "Reductions", about, (*words, "Grid", *names, "Built in"), rows, words, notes)
