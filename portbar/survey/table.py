"""Shows a survey record in a terminal: the verdict in words first, the numbers after it.

Not for measuring, and not for any other form of the record.
"""

from __future__ import annotations

from statistics import median
from textwrap import shorten
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from portbar.device import DeviceFacts
from portbar.quirks import loop_notice
from portbar.strategy import ALTERNATIVES
from portbar.survey.plan import LOCKS, UNSTEADY

_COLUMNS = [(lock, patience) for patience in (True, False) for lock in LOCKS]

#: What a step is called in a sentence.
_STEPS = {"occupancy": "occupancy", "barrier": "barrier times"}


def verdict(entry: dict[str, Any]) -> str:
    """What a user may do on this device, in one sentence."""
    if entry["status"] == "failed":
        return f"survey failed: {entry['reason']}"
    usable = entry.get("usable")
    if usable is None:
        return "not surveyed: interrupted before it was checked"
    if not usable["usable"]:
        remedy = f". What would help: {usable['remedy']}" if usable["remedy"] else ""
        return f"unusable: {usable['reason']}{remedy}"
    if "refused" in entry:
        return f"usable, but portbar refuses to synchronise work-groups on it: {entry['refused']}"
    strategy = entry.get("strategy")
    if strategy is None:
        return "usable; the survey was interrupted before its strategy was known"
    if "max_groups" in strategy:
        return f"usable with grids of one work-group: {strategy['max_groups']['reason'].partition(': ')[0]}"
    groups = [row["occupancy"] for row in occupancy_rows(entry)]
    if not groups:
        return "usable; how many work-groups can meet at a barrier was not measured"
    if max(groups) == 1:
        return "usable with grids of one work-group: it ran no two at the same time"
    return f"usable: up to {max(groups)} work-groups meet at a barrier{_gain(entry)}"


def _gain(entry: dict[str, Any]) -> str:
    """How a barrier compares with relaunching where most work-groups met, for the sentence of the verdict."""
    rows = barrier_rows(entry)
    if not rows or entry["barrier"].get("unsteady"):
        return ""
    most = max(row["groups"] for row in rows)
    ratios = {
        size: max(row["relaunch_us"] / row["us"] for row in rows if (row["groups"], row["local_size"]) == (most, size))
        for size in sorted({row["local_size"] for row in rows if row["groups"] == most})
    }
    said = [
        f"{ratio:.3g} times faster than relaunching at local size {size}"
        if ratio >= 1
        else f"slower than relaunching at local size {size}"
        for size, ratio in ratios.items()
    ]
    return f", {' and '.join(said)}"


def occupancy_rows(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """The occupancy rows that hold a measurement."""
    return [row for row in entry.get("occupancy", {}).get("rows", []) if row["found"]]


def barrier_rows(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """The barrier rows that hold a time."""
    return [row for row in entry.get("barrier", {}).get("rows", []) if row["us"] and row["relaunch_us"]]


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="italic", box=None, padding=(0, 1))


def occupancy_table(entry: dict[str, Any]) -> Table | None:
    """Work-groups found, by lock and patience, beside the best known bound; None without any row."""
    rows = occupancy_rows(entry)
    if not rows:
        return None
    table = _table("Work-groups found, mean of the runs (recall)")
    for name in ("local", "bytes", "bound"):
        table.add_column(name, justify="right")
    for lock, patience in _COLUMNS:
        table.add_column(lock if patience else f"{lock}*", justify="right")
    table.add_column("vendor says", justify="right")
    for local, size in sorted({(row["local_size"], row["local_bytes"]) for row in rows}):
        of_shape = [row for row in rows if (row["local_size"], row["local_bytes"]) == (local, size)]
        cells = {(row["lock"], row["patience"]): _found(row) for row in of_shape}
        table.add_row(
            str(local),
            _bytes(size),
            str(of_shape[0]["best_known_groups"]),
            *(cells.get(column, "") for column in _COLUMNS),
            _vendor(of_shape),
        )
    return table


def _found(row: dict[str, Any]) -> str:
    mean = sum(row["found"]) / len(row["found"])
    return f"{mean:.4g} ({100 * row['recall']:.0f}%)"


def _vendor(rows: list[dict[str, Any]]) -> str:
    asked = [row for row in rows if row["vendor_bound"]]
    if not asked:
        return ""
    best = max(row["recall_of_vendor_bound"] for row in asked)
    return f"{asked[0]['vendor_bound']} ({100 * best:.0f}%)"


def _bytes(size: int) -> str:
    return f"{size // 1024}K" if size >= 1024 else str(size)


def discovery_line(entry: dict[str, Any]) -> str | None:
    """Device time of a launch that only discovers, by lock and patience."""
    parts = []
    for lock, patience in _COLUMNS:
        times = [
            taken
            for row in occupancy_rows(entry)
            if (row["lock"], row["patience"]) == (lock, patience)
            for taken in row["times_us"]
        ]
        if times:
            parts.append(f"{lock}{'' if patience else '*'} {median(times):.1f}")
    return f"Discovery, median microseconds a launch: {', '.join(parts)}" if parts else None


def barrier_times_table(entry: dict[str, Any]) -> Table | None:
    """Microseconds a barrier, by algorithm and group count, beside relaunching; None without any row."""
    rows = barrier_rows(entry)
    if not rows:
        return None
    present = [name for name in ALTERNATIVES["device_barrier"] if any(row["algorithm"] == name for row in rows)]
    table = _table("Microseconds a barrier, median")
    for name in ("local", "groups", *present, "relaunch", "ratio"):
        table.add_column(name, justify="right")
    for local, groups in sorted({(row["local_size"], row["groups"]) for row in rows}):
        cells = {row["algorithm"]: row for row in rows if (row["local_size"], row["groups"]) == (local, groups)}
        fastest = min(row["us"] for row in cells.values())
        again = next(iter(cells.values()))["relaunch_us"]
        shown = []
        for name in present:
            us = cells[name]["us"] if name in cells else None
            shown.append(Text("" if us is None else _us(us), style="bold green" if us == fastest else ""))
        table.add_row(str(local), str(groups), *shown, _us(again), _us(fastest / again))
    return table


def barrier_notes(entry: dict[str, Any]) -> list[str]:
    """Why algorithms have no times, each reason once."""
    rows = entry.get("barrier", {}).get("rows", [])
    return list(dict.fromkeys(f"{row['algorithm']}: {row['note']}" for row in rows if row.get("note")))


def _us(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 100 else f"{value:.3f}"


def title(entry: dict[str, Any]) -> str:
    """A device by its number, its name and its platform, without the build options that some platforms list."""
    facts, address = entry["facts"], entry["address"]
    number = f"{address['platform_index']}:{address['device_index']}"
    return f"{number} {facts['name']} ({facts['platform_name']}, {facts['platform_version'].partition(',')[0]})"


def progress_line(progress: dict[str, str]) -> str:
    """Forward progress between work-groups, sub-groups and lanes, those of a kind together."""
    levels: dict[str, list[str]] = {}
    for level, what in sorted(progress.items(), reverse=True):
        levels.setdefault(what, []).append(level.replace("_", "-"))
    said = [f"between {' and '.join(of)} {shorten(what, 160, placeholder='...')}" for what, of in levels.items()]
    return f"Forward progress: {'; '.join(said)}"


def device_view(entry: dict[str, Any]) -> RenderableType:
    """Everything that a record says of one device."""
    style = {"complete": "green", "unusable": "red", "failed": "red"}.get(entry["status"], "yellow")
    parts: list[RenderableType] = [Text(verdict(entry), style=style)]
    for step, name in _STEPS.items():
        outcome = entry.get(step)
        if outcome is not None and outcome["status"] != "ok":
            reason = outcome.get("reason", "stopped by Ctrl-C")
            parts.append(Text(f"{name}: {outcome['status']}: {reason}", style="yellow"))
    findings = entry.get("findings")
    if findings and findings["progress"]:
        parts.append(Text(progress_line(findings["progress"])))
    if findings and findings["loop_limit"] is not None:
        notice = loop_notice(DeviceFacts.from_json(entry["facts"]), findings["loop_limit"])
        parts.append(Text(notice[0].upper() + notice[1:], style="red"))
    measured = (occupancy_table(entry), discovery_line(entry), barrier_times_table(entry))
    parts += [Text(part) if isinstance(part, str) else part for part in measured if part is not None]
    parts += [
        Text(f"No time of {shorten(note, 200, placeholder='...')}", style="yellow") for note in barrier_notes(entry)
    ]
    if entry.get("barrier", {}).get("unsteady"):
        parts.append(Text(f"Barrier times: {UNSTEADY}", style="yellow"))
    for choice, reasoned in entry.get("strategy", {}).items():
        name = choice.replace("_", " ").capitalize()
        parts.append(Text(f"{name}: {reasoned['value']}, because: {reasoned['reason']}"))
    return Group(Text(title(entry), style="bold"), Padding(Group(*parts), (0, 0, 0, 2)), "")


def record_view(record: dict[str, Any]) -> RenderableType:
    """A whole record."""
    parts: list[RenderableType] = [device_view(entry) for entry in record["devices"]]
    if any(occupancy_rows(entry) for entry in record["devices"]):
        legend = (
            "bound: the most that any run found. *: as published, without patience. vendor says: the driver's own answer, and "
            "how much of it was found. ratio: fastest barrier over relaunching an empty kernel."
        )
        parts.append(Text(legend, style="dim"))
    if record["interrupted"]:
        parts.append(Text("Interrupted: this record is partial.", style="red"))
    return Group(*parts)
