"""How many work-groups run at once, and how many of them each kind of discovery finds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING, Final

from rich.text import Text

from portbar.choices.strategy import ALTERNATIVES
from portbar.records.reading import mean_of, measured, missing, number_of, rows_of, samples_of, us_samples_of, value_of
from portbar.survey.steps.step import Entry, Json, Row, Schedule, Step
from portbar.survey.tables import EMPTY, Cell, Table, cells, name_cell, terminal_table

if TYPE_CHECKING:
    from rich.console import RenderableType

_COLUMNS: Final = [(lock, patience) for patience in (True, False) for lock in ALTERNATIVES["discovery"]]


class OccupancyStep(Step):
    """Work-groups found by lock, with and without patience, over local sizes and local memory."""

    name = "occupancy"
    title = "occupancy"
    doing = "measuring occupancy"
    full = Schedule(2, 4.0, 40.0)
    quick = Schedule(1, 3.0, 4.0)
    typical_s = 5.0
    informative = True
    legend = (
        "bound: the most that any run found. *: as published, without patience. "
        "vendor says: the driver's own answer, and the share of it that was found."
    )
    summary_name = "recall"

    def complete(self, part: Json) -> None:
        """Add to each row the most work-groups that any run found in its shape, and the mean share of it found."""
        rows = rows_of({self.name: part}, self.name, having="found")
        best: dict[tuple[int, int], int] = {}
        for row in rows:
            shape = (row["local_size"], row["local_bytes"])
            best[shape] = max([best.get(shape, 0), value_of(row["occupancy"], 0), *samples_of(row["found"])])
        for row in rows:
            mean = mean_of(row["found"])
            bound, vendor = best[row["local_size"], row["local_bytes"]], row["vendor_bound"]
            row["best_known_groups"] = bound
            row["recall"] = (
                measured(round(mean / bound, 4), "1") if bound else missing("error", "no run found any work-group")
            )
            asked = value_of(vendor)
            row["recall_of_vendor_bound"] = (
                measured(round(mean / asked, 4), "1") if asked else missing(vendor["status"], vendor["reason"])
            )

    def measured(self, entry: Entry) -> list[Json]:
        """The rows that hold what discovery found."""
        return rows_of(entry, self.name, having="found")

    def values(self, row: Row) -> Iterable[tuple[str, str]]:
        """Work-groups and launch time by lock; bounds by shape."""
        shape = f"local size {row.get('local_size')}, {row.get('local_bytes')} bytes"
        title = f"{row.get('lock')}{'' if row.get('patience') else ' without patience'}, {shape}"
        yield from (("found", title), ("launch_time", title))
        yield from ((name, shape) for name in ("vendor_bound", "computed_bound", "occupancy"))

    def used(self, entry: Entry) -> Iterator[Row]:
        """The rows of the lock that launches use; the results of others do not matter to kernels."""
        discovery = (entry.get("strategy") or {}).get("discovery", {}).get("value", "packed")
        for row in rows_of(entry, self.name):
            if row.get("lock") == discovery and row.get("patience"):
                yield {name: value for name, value in row.items() if name != "found"}

    def views(self, entry: Entry) -> Iterator[RenderableType]:
        """Work-groups found beside the best known bound, and the time of a launch that only discovers."""
        rows = self.measured(entry)
        if not rows:
            return
        present = [column for column in _COLUMNS if any((row["lock"], row["patience"]) == column for row in rows)]
        asks = any(value_of(row.get("vendor_bound")) for row in rows)
        columns = ["local", "bytes", "bound", *(lock if patience else f"{lock}*" for lock, patience in present)]
        shown = []
        for (local, size), of_shape in sorted(_by_shape(rows).items()):
            found = {(row["lock"], row["patience"]): _found_text(row) for row in of_shape}
            shown.append(
                [
                    local or None,
                    f"{size // 1024}K" if size >= 1024 else size or None,
                    of_shape[0].get("best_known_groups"),
                    *(found.get(column) for column in present),
                    *([_vendor_text(of_shape)] if asks else []),
                ]
            )
        title = "Work-groups that discovery found, mean of the runs in percent of the bound"
        yield terminal_table(title, [*columns, "vendor says"] if asks else columns, shown)
        parts = []
        for lock, patience in _COLUMNS:
            of_lock = [row for row in rows if (row["lock"], row["patience"]) == (lock, patience)]
            times = [taken for row in of_lock for taken in us_samples_of(row.get("launch_time"))]
            if times:
                parts.append(f"{lock}{'' if patience else '*'} {median(times):.1f}")
        if parts:
            yield Text(f"Discovery, median microseconds per launch: {', '.join(parts)}")

    def summary(self, entry: Entry) -> Json | None:
        """Recall by lock, for the largest local size and the least local memory, which is what the published study asked.

        Of the shapes measured with as many locks as any, that is. `range` holds the least and the most over all shapes.
        """
        rows = [row for row in rows_of(entry, self.name) if found(row) is not None and _share(row) is not None]
        if not rows:
            return None
        shapes: dict[tuple[int, int], dict[str, Row]] = {}
        spread: dict[str, list[float]] = {}
        for row in rows:
            name = f"{row['lock']}{' patient' if row['patience'] else ''}"
            shapes.setdefault(_shape(row), {}).setdefault(name, row)
            spread.setdefault(name, []).append(_share(row) or 0.0)
        chosen = max(shapes, key=lambda shape: (len(shapes[shape]), -shape[1], shape[0]))
        cells = shapes[chosen]
        first = next(iter(cells.values()))
        vendor = [number_of(row.get("recall_of_vendor_bound")) for row in cells.values()]
        return {
            "local_size": chosen[0] or None,
            "local_bytes": chosen[1] or None,
            "bound": first.get("best_known_groups"),
            "cells": {name: {"groups": found(row), "recall": _share(row)} for name, row in cells.items()},
            "range": {name: [min(shares), max(shares), len(shares)] for name, shares in spread.items()},
            "vendor_bound": number_of(first.get("vendor_bound")),
            "vendor_recall": max((value for value in vendor if value is not None), default=None),
        }

    def table(self, devices: Sequence[Json]) -> Table:
        """Recall by lock."""
        # The published locks first, as in the study.
        locks = tuple(ALTERNATIVES["discovery"])[::-1]
        columns = [
            "Device",
            "Compute units",
            "Local size",
            "Occupancy bound",
            *(f"{lock.capitalize()} lock" if lock != "packed" else "Packed" for lock in locks),
            *(f"{lock.capitalize()}, patient" for lock in locks),
            "Spin, all sizes",
            "Ticket, all sizes",
            "Vendor's bound",
        ]
        rows = []
        for one in devices:
            recall = one["recall"]
            if recall is None:
                continue
            vendor = recall["vendor_bound"]
            rows.append(
                cells(
                    name_cell(one, ", published" if one["kind"] == "published" else ""),
                    one["compute_units"],
                    recall["local_size"],
                    recall["bound"],
                    *(
                        _recall_cell(recall["cells"].get(name))
                        for name in (*locks, *(f"{lock} patient" for lock in locks))
                    ),
                    _range_cell(recall["range"].get("spin")),
                    _range_cell(recall["range"].get("ticket")),
                    None if vendor is None else Cell(f"{vendor:g} ({_percent(recall['vendor_recall'])})", vendor),
                )
            )
        about = (
            "Work-groups that discovery found, mean of the runs, and in brackets how much that is of the most that any run "
            "found (the occupancy bound). Spin, ticket and packed close the poll as the published study does; patient ones "
            "wait for work-groups that have not arrived. Measured devices are shown at their largest local size with little "
            "local memory, as the published chips; the least and the most over all sizes are further to the right. The "
            "vendor's bound is the driver's own answer, in brackets how much of it was found."
        )
        sources = sorted({one["source"] for one in devices if one["source"]})
        notes = [f"Published: {one}" for one in sources]
        return Table("recall", "Recall of discovery, by lock", about, columns, rows, ["Device"], notes)


def most_groups(entry: Entry) -> int | None:
    """Most work-groups that were found to meet."""
    known = [
        value
        for row in rows_of(entry, "occupancy")
        for value in (number_of(row.get("occupancy")), row.get("best_known_groups") if found(row) else None)
        if value
    ]
    return int(max(known)) if known else None


def found(row: Row) -> float | None:
    """Work-groups that a lock found, mean of its runs."""
    reading = row["found"]
    return reading.get("mean", mean_of(reading)) if number_of(reading) is not None else None


def _share(row: Row) -> float | None:
    recall, groups, bound = number_of(row.get("recall")), found(row), row.get("best_known_groups")
    return groups / bound if recall is None and groups is not None and bound else recall


def _shape(row: Row) -> tuple[int, int]:
    """Local size and local memory; published rows state neither."""
    return row.get("local_size") or 0, row.get("local_bytes") or 0


def _by_shape(rows: Sequence[Json]) -> dict[tuple[int, int], list[Json]]:
    shapes: dict[tuple[int, int], list[Json]] = {}
    for row in rows:
        shapes.setdefault(_shape(row), []).append(row)
    return shapes


def _found_text(row: Row) -> str:
    recall = value_of(row.get("recall"))
    return f"{mean_of(row['found']):.4g} found" if recall is None else f"{100 * recall:.3g}"


def _vendor_text(rows: Sequence[Row]) -> str:
    asked = [row for row in rows if value_of(row.get("vendor_bound"))]
    if not asked:
        return ""
    best = max(value_of(row.get("recall_of_vendor_bound"), 0.0) for row in asked)
    return f"{value_of(asked[0]['vendor_bound'])} ({100 * best:.0f}%)"


def _recall_cell(cell: Json | None) -> Cell:
    if cell is None or cell["recall"] is None:
        return EMPTY
    kind = "yes" if cell["recall"] >= 0.97 else "no" if cell["recall"] < 0.5 else ""
    return Cell(f"{cell['groups']:.4g} ({_percent(cell['recall'])})", cell["recall"], kind)


def _range_cell(spread: Sequence[float] | None) -> Cell:
    if spread is None or spread[2] < 2:
        return EMPTY
    low, high = (f"{100 * value:.0f}" for value in spread[:2])
    return Cell(f"{high} %" if low == high else f"{low} to {high} %", spread[0])


def _percent(share: float | None) -> str:
    return "not measured" if share is None else f"{100 * share:.0f} %"
