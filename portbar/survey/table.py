"""Shows a survey record in a terminal: the verdict in words first, the numbers after it.

Not for measuring, and not for any other form of the record.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from portbar.strategy import ALTERNATIVES


def verdict(entry: dict[str, Any]) -> str:
    """What a user may do on this device, in one sentence."""
    usable = entry.get("usable")
    if usable is None:
        return "not surveyed: interrupted before it was checked"
    if not usable["usable"]:
        remedy = f" What would help: {usable['remedy']}" if usable["remedy"] else ""
        return f"unusable: {usable['reason']}{remedy}"
    if "refused" in entry:
        return f"usable, but portbar refuses to synchronise work-groups on it: {entry['refused']}"
    strategy = entry.get("strategy")
    if strategy is None:
        return "usable; the survey was interrupted before its strategy was known"
    chosen = ", ".join(f"{name.replace('_', ' ')} {choice['value']}" for name, choice in strategy.items())
    groups = [row["occupancy"] for row in _rows(entry, "occupancy") if "occupancy" in row]
    if "max_groups" in strategy:
        return f"usable with one work-group a grid ({strategy['max_groups']['reason']}); {chosen}"
    many = f"up to {max(groups)} work-groups meet at a barrier" if groups else "occupancy was not measured"
    return f"usable: {many}; {chosen}"


def _rows(entry: dict[str, Any], step: str) -> list[dict[str, Any]]:
    rows = entry.get(step, {}).get("rows", [])
    return list(rows)


def _best_bound(rows: Iterable[dict[str, Any]]) -> dict[tuple[int, int], int]:
    """The largest number of groups that any run found, for each local size and local memory."""
    best: dict[tuple[int, int], int] = {}
    for row in rows:
        if "found" in row:
            cell = (row["local_size"], row["local_bytes"])
            best[cell] = max([best.get(cell, 0), row["occupancy"], *row["found"]])
    return best


def _recall(row: dict[str, Any], bound: int) -> str:
    found = row["found"]
    return f"{sum(found) / len(found):.1f} ({100 * sum(found) / len(found) / bound:.0f}%)"


def occupancy_table(entry: dict[str, Any]) -> Table | None:
    """Work-groups found, by lock and patience, beside the best known bound; None without any row."""
    rows = [row for row in _rows(entry, "occupancy") if "found" in row]
    if not rows:
        return None
    best = _best_bound(rows)
    table = Table(title="work-groups found: mean (recall)", title_justify="left", box=None, padding=(0, 1))
    for name in ("local", "bytes", "bound"):
        table.add_column(name, justify="right")
    columns = [(lock, patience) for patience in (True, False) for lock in ("packed", "ticket", "spin")]
    for lock, patience in columns:
        table.add_column(lock if patience else f"{lock} -p", justify="right")
    table.add_column("vendor", justify="right")
    for (local, size), bound in sorted(best.items()):
        cells = {
            (row["lock"], row["patience"]): _recall(row, bound)
            for row in rows
            if (row["local_size"], row["local_bytes"]) == (local, size)
        }
        vendor = next((row["vendor_bound"] for row in rows if row["local_size"] == local and row["vendor_bound"]), None)
        table.add_row(
            str(local),
            _bytes(size),
            str(bound),
            *(cells.get(column, "") for column in columns),
            "" if vendor is None else str(vendor),
        )
    return table


def _bytes(size: int) -> str:
    return f"{size // 1024}K" if size >= 1024 else str(size)


def discovery_line(entry: dict[str, Any]) -> str | None:
    """Device time of a launch that only discovers, by lock."""
    parts = []
    for lock in ("packed", "ticket", "spin"):
        times = [
            row["time_us"]
            for row in _rows(entry, "occupancy")
            if row.get("lock") == lock and row.get("patience") and row.get("time_us") is not None
        ]
        if times:
            parts.append(f"{lock} {median(times):.1f}")
    return f"discovery, microseconds a launch with patience (median): {', '.join(parts)}" if parts else None


def barrier_table_view(entry: dict[str, Any]) -> Table | None:
    """Microseconds a barrier, by algorithm and group count, beside relaunching; None without any row."""
    rows = [row for row in _rows(entry, "barrier") if row["us"] is not None]
    if not rows:
        return None
    present = [name for name in ALTERNATIVES["device_barrier"] if any(row["algorithm"] == name for row in rows)]
    table = Table(title="microseconds a barrier", title_justify="left", box=None, padding=(0, 1))
    for name in ("local", "groups", *present, "relaunch"):
        table.add_column(name, justify="right")
    cells = {(row["local_size"], row["groups"], row["algorithm"]): row["us"] for row in rows}
    again = {(row["local_size"], row["groups"]): row["relaunch_us"] for row in rows}
    for local, groups in sorted(again):
        values = [cells.get((local, groups, name)) for name in present]
        fastest = min(value for value in values if value is not None)
        shown = [
            Text("" if value is None else f"{value:.3f}", style="bold green" if value == fastest else "") for value in values
        ]
        relaunch = again[local, groups]
        table.add_row(str(local), str(groups), *shown, "" if relaunch is None else f"{relaunch:.2f}")
    return table


def device_view(entry: dict[str, Any]) -> RenderableType:
    """Everything that a record says of one device."""
    facts = entry["facts"]
    name = f"{facts['name']} ({facts['platform_name']} {facts['platform_version']})"
    parts: list[RenderableType] = [Text(" ".join(name.split()), style="bold"), Text(verdict(entry))]
    for step in ("occupancy", "barrier"):
        outcome = entry.get(step)
        if outcome is not None and outcome["status"] != "ok":
            parts.append(Text(f"{step}: {outcome['status']}: {outcome.get('reason', 'interrupted')}", style="red"))
    findings = entry.get("findings")
    if findings:
        progress = ", ".join(f"{level.replace('_', '-')} {what}" for level, what in findings["progress"].items())
        limit = findings["loop_limit"]
        parts.append(Text(f"forward progress: {progress or 'not measured'}"))
        if limit is not None:
            parts.append(Text(f"loops end silently after {limit} iterations", style="red"))
    for part in (occupancy_table(entry), discovery_line(entry), barrier_table_view(entry)):
        if part is not None:
            parts.append(part)
    for choice, reasoned in entry.get("strategy", {}).items():
        parts.append(Text(f"{choice.replace('_', ' ')}: {reasoned['value']} because: {reasoned['reason']}"))
    return Group(*parts, "")


def record_view(record: dict[str, Any]) -> RenderableType:
    """A whole record."""
    note = []
    if record.get("interrupted"):
        note.append(Text("interrupted: this record is partial", style="red"))
    legend = Text("-p: as published, without patience. bound: the most that any run found.", style="dim")
    return Group(*(device_view(entry) for entry in record["devices"]), legend, *note)
