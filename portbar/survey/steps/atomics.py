"""Which atomic operations a device has, and whether each does what it should."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from textwrap import shorten
from typing import Final

from portbar.records.reading import rows_of, value_of
from portbar.survey.steps.step import Entry, Json, Row, Schedule, Step
from portbar.survey.tables import EMPTY, LONGEST, MOST_COLUMNS, Cell, Table, common, name_cell, terminal_table

_MARKS: Final = {"instruction": "yes", "loop": "loop"}
_SPACES: Final = ("global", "local")
_SHORT: Final = {"exchange": "swap", "compare_exchange": "cas"}


class AtomicsStep(Step):
    """Each operation on each type and address space, compiled and run once."""

    name = "atomics"
    title = "atomics"
    doing = "trying atomic operations"
    full = Schedule(6, 3.0, 30.0)
    quick = Schedule(5, 1.5, 4.0)
    typical_s = 6.0
    legend = (
        "Atomics: yes, the device's own operation; loop, of compare-exchanges; -, not offered; ?, no time was left."
    )

    def views(self, entry: Entry) -> Iterator[Table]:
        """Whether each operation works on each type, and how it is done."""
        rows = rows_of(entry, self.name)
        if not rows:
            return
        operations = list(dict.fromkeys(row["operation"] for row in rows))[:MOST_COLUMNS]
        cells: dict[tuple[str, str], dict[str, str]] = {}
        for row in rows:
            cells.setdefault((row["type"], row["operation"]), {})[row["space"]] = _mark(row)
        shown = []
        for kind in dict.fromkeys(row["type"] for row in rows):
            found = [cells.get((kind, operation), {}) for operation in operations]
            texts = ["/".join(dict.fromkeys(of[space] for space in _SPACES if space in of)) for of in found]
            shown.append([kind, *(Cell(text, kind="no" if "WRONG" in text else "") for text in texts)])
        columns = ["type", *(_SHORT.get(name, name.removeprefix("fetch_")) for name in operations)]
        title = "Atomics: global memory, or global/local where they differ"
        yield terminal_table(title, columns, shown, words=columns)

    def faults(self, entry: Entry) -> Iterator[str]:
        """How many operations do not work."""
        lost = {"error", "crash", "timeout"}
        broken = sum(row["result"].get("status") in lost for row in rows_of(entry, self.name))
        if broken:
            yield f"{broken} atomic operations do not work"

    def remedy(self, _entry: Entry) -> str:
        """Which they are is in the table."""
        return "avoid the operations that the table marks WRONG"

    def values(self, row: Row) -> Iterable[tuple[str, str]]:
        """Whether it works, and how."""
        title = f"{row.get('operation')}, {row.get('type')}, {row.get('space')}"
        return [(name, title) for name in ("result", "implementation", "time")]

    def summary(self, entry: Entry) -> dict[str, dict[str, int]]:
        """Type -> how many operations are done in which way; those that do not work count as `none`."""
        counted: dict[str, dict[str, int]] = {}
        for row in rows_of(entry, self.name):
            if row["result"].get("status") in {"skipped", "interrupted"}:
                continue
            how = row["implementation"] if value_of(row["result"]) else "none"
            of_type = counted.setdefault(row["type"], {})
            of_type[how] = of_type.get(how, 0) + 1
        return counted

    def table(self, devices: Sequence[Json]) -> Table:
        """Operations by type."""
        shown = [one for one in devices if one["atomics"]]
        names, notes = common((one["atomics"] for one in shown), "types")
        rows = [[name_cell(one), *(_ways(one["atomics"].get(name)) for name in names)] for one in shown]
        about = (
            "Atomic operations by type, in global and local memory: how many the device does by an instruction of its own, "
            "how many by a loop or otherwise, and how many do not work."
        )
        columns = ("Device", *names)
        return Table("atomics", "Atomic operations", about, columns, rows, columns, notes)


def _mark(row: Row) -> str:
    if value_of(row["result"]) is True:
        return _MARKS.get(row["implementation"], str(row["implementation"]))
    status = row["result"].get("status", "")
    return {"unsupported": "-", "refused": "-", "skipped": "?", "interrupted": "?"}.get(status, "WRONG")


def _ways(counted: dict[str, int] | None) -> Cell:
    if not counted:
        return EMPTY
    ordered = sorted(counted.items(), key=lambda item: (item[0] == "none", -item[1], item[0]))
    text = ", ".join(f"{count} {how}" for how, count in ordered)
    return Cell(shorten(text, LONGEST, placeholder=" ..."), counted.get("none", 0), "no" if "none" in counted else "")
