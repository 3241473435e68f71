"""The time of calls on arrays, beside PyOpenCL's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from portbar.records.reading import rows_of, us_of
from portbar.survey.steps.step import Entry, Row, Schedule, Step
from portbar.survey.tables import Table, digits, terminal_table, time_text


class ArraysStep(Step):
    """A reduction, a scan and a sort, each at some sizes."""

    name = "arrays"
    title = "calls on arrays"
    doing = "measuring calls on arrays"
    full = quick = Schedule(3.5, 5.0, 20.0)
    typical_s = 20.0
    share_only = True

    def values(self, row: Row) -> Iterable[tuple[str, str]]:
        """The time of portbar's call, and of its peer's."""
        what = f"{row.get('operation')} of {row.get('elements')} {row.get('type')}"
        return ("time", what), ("peer_time", what)

    def used(self, _entry: Entry) -> Iterable[Row]:
        """Nothing: the survey that `--check` makes has no such times."""
        return ()

    def views(self, entry: Entry) -> Iterator[Table]:
        """Both times, and how many times faster portbar is."""
        rows = rows_of(entry, self.name, having="time")
        if rows:
            columns = ("call", "elements", "type", "portbar", "PyOpenCL", "by its", "ratio")
            shown = [[*_cells(row), _ratio(row)] for row in rows]
            yield terminal_table("Time of a call, median", columns, shown, words=["call", "by its"])


def _cells(row: Any) -> list[Any]:
    times = time_text(row["time"]), time_text(row.get("peer_time"))
    return [row["operation"], row["elements"], row["type"], *times, row["peer"]]


def _ratio(row: Any) -> str:
    ours, theirs = us_of(row["time"]), us_of(row.get("peer_time"))
    return "" if not ours or not theirs else digits(ours / theirs)
