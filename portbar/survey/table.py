"""Shows a record in a terminal of 100 columns: the verdict in words first, the numbers after it.

Takes measured, partial and published records. Not for measuring, and not for any other form of the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from textwrap import shorten
from typing import Any, Final, TypeVar

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from portbar.choices.strategy import ALTERNATIVES
from portbar.device.facts import DeviceFacts
from portbar.device.quirks import loop_notice
from portbar.errors import Error
from portbar.records.reading import mean_of, rows_of, samples_of, value_of
from portbar.survey.plan import LOCKS, UNSTEADY
from portbar.survey.verdict import STEPS, barrier_rows, occupancy_rows, verdict

__all__ = ["barrier_notes", "barrier_rows", "barrier_times_table", "occupancy_rows", "record_view", "title", "verdict"]

_COLUMNS: Final = [(lock, patience) for patience in (True, False) for lock in LOCKS]

#: Rows of a table, and operations in that of atomics; surveys write fewer.
_MOST_ROWS: Final = 200
_MOST_COLUMNS: Final = 40

T = TypeVar("T")

#: Characters that a reason may take.
_REASON: Final = 200


def _table() -> Table:
    return Table(box=None, padding=(0, 1))


def _titled(title: str, table: Table) -> RenderableType:
    """A table below its title, which a table of its own would wrap to its width."""
    return Group(Text(title, style="italic"), table)


def _fitting(rows: Sequence[T], table: Table) -> Sequence[T]:
    """As many rows as a table shows, which says how many others there are."""
    if len(rows) > _MOST_ROWS:
        table.caption = f"{len(rows) - _MOST_ROWS} more rows: --json has all"
    return rows[:_MOST_ROWS]


def _shape(row: dict[str, Any]) -> tuple[int, int]:
    """Local size and local memory of an occupancy row; published ones tell neither."""
    return row["local_size"] or 0, row["local_bytes"] or 0


def occupancy_table(entry: dict[str, Any]) -> RenderableType | None:
    """Work-groups found, by lock and patience, beside the best known bound; None without any row."""
    rows = occupancy_rows(entry)
    if not rows:
        return None
    table = _table()
    for name in ("local", "bytes", "bound"):
        table.add_column(name, justify="right")
    present = [column for column in _COLUMNS if any((row["lock"], row["patience"]) == column for row in rows)]
    for lock, patience in present:
        table.add_column(lock if patience else f"{lock}*", justify="right")
    asks = any(value_of(row.get("vendor_bound")) for row in rows)
    if asks:
        table.add_column("vendor says", justify="right")
    shapes: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in rows:
        shapes.setdefault(_shape(row), []).append(row)
    for (local, size), of_shape in _fitting(sorted(shapes.items()), table):
        cells = {(row["lock"], row["patience"]): _found(row) for row in of_shape}
        bound = of_shape[0].get("best_known_groups")
        table.add_row(
            str(local) if local else "",
            _bytes(size),
            "" if bound is None else str(bound),
            *(cells.get(column, "") for column in present),
            *([_vendor(of_shape)] if asks else []),
        )
    return _titled("Work-groups found, mean of the runs (recall)", table)


def _found(row: dict[str, Any]) -> str:
    recall = value_of(row.get("recall"))
    return f"{mean_of(row['found']):.4g}" + ("" if recall is None else f" ({100 * recall:.0f}%)")


def _vendor(rows: list[dict[str, Any]]) -> str:
    asked = [row for row in rows if value_of(row.get("vendor_bound"))]
    if not asked:
        return ""
    best = max(value_of(row.get("recall_of_vendor_bound"), 0.0) for row in asked)
    return f"{value_of(asked[0]['vendor_bound'])} ({100 * best:.0f}%)"


def _bytes(size: int) -> str:
    return f"{size // 1024}K" if size >= 1024 else str(size) if size else ""


def discovery_line(entry: dict[str, Any]) -> str | None:
    """Device time of a launch that only discovers, by lock and patience."""
    parts = []
    for lock, patience in _COLUMNS:
        times = [
            taken
            for row in occupancy_rows(entry)
            if (row["lock"], row["patience"]) == (lock, patience)
            for taken in samples_of(row.get("launch_time"))
        ]
        if times:
            parts.append(f"{lock}{'' if patience else '*'} {median(times):.1f}")
    return f"Discovery, median microseconds a launch: {', '.join(parts)}" if parts else None


def barrier_times_table(entry: dict[str, Any]) -> RenderableType | None:
    """Microseconds a barrier, by algorithm and group count, beside relaunching; None without any row."""
    rows = barrier_rows(entry)
    if not rows:
        return None
    present = [name for name in ALTERNATIVES["device_barrier"] if any(row["algorithm"] == name for row in rows)]
    table = _table()
    for name in ("local", "groups", *present, "relaunch", "ratio"):
        # Long names in two lines: all algorithms of a GPU's record fit 100 columns then.
        table.add_column(name.replace("_", "_\n"), justify="right")
    shapes: dict[tuple[int, int], dict[str, dict[str, Any]]] = {}
    for row in rows:
        shapes.setdefault((row["local_size"], row["groups"]), {})[row["algorithm"]] = row
    for (local, groups), cells in _fitting(sorted(shapes.items()), table):
        fastest = min(value_of(row["barrier_time"]) for row in cells.values())
        again = value_of(next(iter(cells.values()))["relaunch_time"])
        shown = []
        for name in present:
            us = value_of(cells[name]["barrier_time"]) if name in cells else None
            shown.append(Text("" if us is None else number(us), style="bold green" if us == fastest else ""))
        table.add_row(str(local), str(groups), *shown, number(again), number(fastest / again))
    return _titled("Microseconds a barrier, median", table)


def barrier_notes(entry: dict[str, Any]) -> list[str]:
    """Why algorithms have no times, each reason once."""
    rows = rows_of(entry, "barrier")
    noted = ((row["algorithm"], row["barrier_time"].get("reason")) for row in rows)
    return list(dict.fromkeys(f"{name}: {reason}" for name, reason in noted if reason))


def litmus_lines(entry: dict[str, Any]) -> list[Text]:
    """The verdict on each atomics strategy."""
    lines = []
    for row in rows_of(entry, "litmus"):
        found = row["verdict"]
        said = value_of(found)
        why = found.get("note") or found.get("reason", "")
        style = "red" if said == "fail" else ""
        lines.append(Text(f"Litmus tests of {row['strategy']}: {said or found['status']}: {why}", style=style))
    return lines


_MARKS: Final = {"instruction": "yes", "loop": "loop"}


def atomics_table(entry: dict[str, Any]) -> RenderableType | None:
    """Whether each operation works on each type, and how it is done; None without any row."""
    rows = rows_of(entry, "atomics")
    if not rows:
        return None
    operations = list(dict.fromkeys(row["operation"] for row in rows))[:_MOST_COLUMNS]
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        cells.setdefault((row["type"], row["operation"]), {})[row["space"]] = _atomic(row)
    table = _table()
    table.add_column("type")
    for operation in operations:
        table.add_column(_SHORT.get(operation, operation.removeprefix("fetch_")), justify="center")
    for kind in _fitting(list(dict.fromkeys(row["type"] for row in rows)), table):
        shown = []
        for operation in operations:
            found = cells.get((kind, operation), {})
            marks = list(dict.fromkeys(found[space] for space in ("global", "local") if space in found))
            text = "/".join(marks)
            shown.append(Text(text, style="bold red" if "WRONG" in text else ""))
        table.add_row(kind, *shown)
    return _titled("Atomics in global memory, and in local memory where that differs (after a stroke)", table)


_SHORT: Final = {"exchange": "swap", "compare_exchange": "cas"}


def _atomic(row: dict[str, Any]) -> str:
    if value_of(row["result"]) is True:
        return _MARKS.get(row["implementation"], str(row["implementation"]))
    return {"unsupported": "-", "refused": "-", "skipped": "?", "interrupted": "?"}.get(
        row["result"].get("status", ""), "WRONG"
    )


def split_barrier_table(entry: dict[str, Any]) -> RenderableType | None:
    """Nanoseconds of an arrive and a wait beside the work-group barrier; None without any time."""
    rows = rows_of(entry, "split_barrier", having="time")
    if not rows:
        return None
    table = _table()
    for name in ("local", "strategy", "split", "barrier()", "ratio"):
        table.add_column(name, justify="right")
    for row in _fitting(rows, table):
        whole = value_of(row.get("barrier_time"))
        split = value_of(row["time"])
        ratio = number(split / whole) if whole else ""
        table.add_row(
            str(row["local_size"]), _chosen(row), number(split), "" if whole is None else number(whole), ratio
        )
    return _titled("Nanoseconds of a split barrier's arrive and wait, median", table)


def reduction_table(entry: dict[str, Any]) -> RenderableType | None:
    """Time of a sum by level, type and strategy; None without any time."""
    rows = rows_of(entry, "reduction", having="time")
    if not rows:
        return None
    table = _table()
    for name in ("over a", "type", "local", "groups", "strategy", "portbar's", "OpenCL's own"):
        table.add_column(name, justify="left" if name == "over a" else "right")
    for row in _fitting(rows, table):
        table.add_row(
            row["level"].replace("_", "-"),
            row["type"],
            _count(row["local_size"]),
            _count(row.get("groups")),
            _chosen(row),
            _time(row["time"]),
            _time(row.get("built_in_time")),
        )
    return _titled("Time of a sum of one value a work-item, median", table)


def _chosen(row: dict[str, Any]) -> Text:
    return Text(row["strategy"], style="bold green" if row["chosen"] else "")


def _count(value: int | None) -> str:
    return "" if value is None else str(value)


def _time(reading: dict[str, Any] | None) -> str:
    value = value_of(reading)
    return "" if value is None or reading is None else f"{number(value)} {reading['unit']}"


def number(value: float) -> str:
    """A number with three decimals below 100, fewer above."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 100 else f"{value:.3f}"


def title(entry: dict[str, Any]) -> str:
    """A device by its number, its name and its platform, without the build options that some platforms list."""
    facts, address = entry["facts"], entry.get("address")
    start = f"{address['platform_index']}:{address['device_index']} " if address else ""
    platform = facts.get("platform_name") or facts.get("vendor") or ""
    version = (facts.get("platform_version") or facts.get("version") or "").partition(",")[0]
    where = ", ".join(filter(None, (platform, version)))
    return f"{start}{facts['name']}" + (f" ({where})" if where else "")


def progress_line(progress: dict[str, str]) -> str:
    """Forward progress between work-groups, sub-groups and lanes, those of a kind together."""
    levels: dict[str, list[str]] = {}
    for level, what in sorted(progress.items(), reverse=True):
        levels.setdefault(what, []).append(level.replace("_", "-"))
    said = [f"between {' and '.join(of)} {shorten(what, 160, placeholder='...')}" for what, of in levels.items()]
    return f"Forward progress: {'; '.join(said)}"


def _step_lines(entry: dict[str, Any]) -> Iterable[Text]:
    for step, name in STEPS.items():
        outcome = entry.get(step)
        if outcome is not None and outcome["status"] != "ok":
            reason = " ".join(outcome.get("reason", "why is not known").split())
            yield Text(
                f"{name}: {outcome['status']}: {shorten(reason, 2 * _REASON, placeholder='...')}", style="yellow"
            )


def _findings_lines(entry: dict[str, Any]) -> Iterable[Text]:
    findings = entry.get("findings") or {}
    if findings.get("progress"):
        yield Text(progress_line(findings["progress"]))
    if findings.get("loop_limit") is not None:
        try:
            notice = loop_notice(DeviceFacts.from_json(entry["facts"]), findings["loop_limit"])
        except Error:
            notice = f"the device ends loops silently after {findings['loop_limit']} iterations in the whole kernel"
        yield Text(notice[0].upper() + notice[1:], style="red")


def device_view(entry: dict[str, Any]) -> RenderableType:
    """Everything that a record says of one device."""
    style = {"complete": "green", "published": "green", "unusable": "red", "failed": "red"}.get(
        entry["status"], "yellow"
    )
    parts: list[RenderableType] = [Text(verdict(entry), style=style), *_step_lines(entry), *_findings_lines(entry)]
    measured = (occupancy_table(entry), discovery_line(entry), barrier_times_table(entry))
    parts += [Text(part) if isinstance(part, str) else part for part in measured if part is not None]
    parts += [
        Text(f"No time of {shorten(note, _REASON, placeholder='...')}", style="yellow") for note in barrier_notes(entry)
    ]
    if entry.get("barrier", {}).get("unsteady"):
        parts.append(Text(f"Barrier times: {UNSTEADY}", style="yellow"))
    tables = (split_barrier_table(entry), reduction_table(entry), atomics_table(entry))
    parts += [part for part in tables if part is not None]
    parts += litmus_lines(entry)
    for choice, reasoned in entry.get("strategy", {}).items():
        name = choice.replace("_", " ").capitalize()
        parts.append(Text(f"{name}: {reasoned['value']}, because: {reasoned['reason']}"))
    for quirk in entry.get("quirks", []):
        parts.append(
            Text(f"Known fault {quirk['name']}: {quirk['fault']}. Workaround: {quirk['workaround']}", style="dim")
        )
    return Group(Text(title(entry), style="bold"), Padding(Group(*parts), (0, 0, 0, 2)), "")


def record_view(record: dict[str, Any]) -> RenderableType:
    """A whole record."""
    parts: list[RenderableType] = [device_view(entry) for entry in record["devices"]]
    source = record.get("source")
    if source is not None:
        authors = ", ".join(source["authors"])
        parts.insert(
            0, Text(f"Published by {authors}: {source['title']} ({source['venue']}, {source['year']})", style="dim")
        )
    legend = []
    if any(occupancy_rows(entry) for entry in record["devices"]):
        legend.append("bound: the most that any run found. *: as published, without patience.")
        legend.append("vendor says: the driver's own answer, and how much of it was found.")
    if any(barrier_rows(entry) for entry in record["devices"]):
        legend.append("ratio: fastest barrier over relaunching an empty kernel.")
    if any(rows_of(entry, "atomics") for entry in record["devices"]):
        legend.append(
            "Atomics: yes, the device's own operation; loop, of compare-exchanges; -, not offered; ?, no time was left."
        )
    if legend:
        parts.append(Text(" ".join(legend), style="dim"))
    if record["interrupted"]:
        parts.append(Text("Interrupted: this record is partial.", style="red"))
    return Group(*parts)
