"""The index page of a folder of records: one row a record, made from nothing but the records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final
from urllib.parse import quote

from portbar.errors import RecordError
from portbar.records.files import read_folder
from portbar.records.reading import rows_of, value_of
from portbar.system import files

#: The page, and the lines between which its table stands.
PAGE: Final = "README.md"
BEGIN: Final = "<!-- index: written by `portbar index` -->"
END: Final = "<!-- end of index -->"

_HEAD: Final = (
    "device",
    "platform",
    "driver",
    "compute units",
    "work-groups in flight",
    "atomics",
    "device barrier",
    "barrier against relaunch",
    "recall spin / ticket",
    "kind",
    "date",
)


def index(folder: Path) -> tuple[str, str]:
    """The text of a folder's page as it is, and as it should be.

    Raises
    ------
    RecordError
        The folder has no page with the two markers, or a file in it is no record.
    """
    page = folder / PAGE
    try:
        text = page.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        text = ""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise RecordError(
            f"{PAGE} of the folder does not hold the two lines between which the index goes: {BEGIN} {END}"
        )
    table = table_of([(path.name, record) for path, record in read_folder(folder)])
    return text, f"{before}{BEGIN}\n\n{table}\n{END}{after}"


def write(folder: Path, text: str) -> None:
    """Write a folder's page.

    Raises
    ------
    RecordError
        It cannot be written, and is as it was.
    """
    try:
        files.write(folder / PAGE, text)
    except OSError as error:
        raise RecordError(
            f"{PAGE} cannot be written ({error.strerror or error}) and is as it was; make room, then run `portbar index`"
        ) from None


def table_of(records: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    """The table as Markdown, measured records first, each part by file name.

    Parameters
    ----------
    records : iterable of (str, mapping)
        File name and record.
    """
    ordered = sorted(records, key=lambda named: (named[1]["kind"] == "published", named[0]))
    rows = [_row(name, record, device) for name, record in ordered for device in record["devices"]]
    lines = [_HEAD, ["---"] * len(_HEAD), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _row(name: str, record: Mapping[str, Any], device: Mapping[str, Any]) -> Sequence[str]:
    facts = device["facts"]
    strategy = device.get("strategy", {})
    published = record["kind"] == "published"
    units = facts.get("compute_units")
    return (
        f"[{_plain(_name(record, facts))}]({quote(name)})",
        _plain(facts.get("platform_name") or ""),
        _plain(facts.get("driver_version") or ""),
        "" if units is None else str(units),
        groups_in_flight(device),
        *(_plain(strategy.get(choice, {}).get("value", "")) for choice in ("atomics", "device_barrier")),
        against_relaunch(device),
        recalls(device),
        record["kind"] + (", partial" if record["partial"] else ""),
        str(record["source"]["year"]) if published else record["created"][:10],
    )


def _name(record: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """A device's name; with the vendor where no platform says whose it is."""
    return f"{facts.get('vendor', '')} {facts['name']}".strip() if record["kind"] == "published" else str(facts["name"])


def groups_in_flight(device: Mapping[str, Any]) -> str:
    """The most work-groups that were seen to meet, over all shapes; empty if none was measured."""
    known = [row.get("best_known_groups") for row in rows_of(device, "occupancy")]
    return str(max((count for count in known if count), default=""))


def against_relaunch(device: Mapping[str, Any]) -> str:
    """The fastest barrier beside a relaunch, for the most work-groups and of their local sizes the smallest.

    Empty where no two work-groups met.
    """
    step = device.get("barrier", {})
    times = [
        (row["groups"], -row["local_size"], relaunch / barrier)
        for row in rows_of(device, "barrier")
        if row["groups"] > 1
        and (barrier := value_of(row["barrier_time"]))
        and (relaunch := value_of(row["relaunch_time"]))
    ]
    if not times:
        return ""
    if step.get("unsteady"):
        return "unsteady"
    ratio = max(times)[2]
    return f"{ratio:.3g} times faster" if ratio >= 1 else f"{1 / ratio:.3g} times slower"


def recalls(device: Mapping[str, Any]) -> str:
    """Mean recall of the spin lock and of the ticket lock, as published: without patience, over all shapes."""
    shares = [_recall(device, lock) for lock in ("spin", "ticket")]
    if shares == [None, None]:
        return ""
    return " / ".join("not known" if share is None else f"{100 * share:.0f}%" for share in shares)


def _recall(device: Mapping[str, Any], lock: str) -> float | None:
    known = [
        share
        for row in rows_of(device, "occupancy")
        if row["lock"] == lock and not row["patience"] and (share := value_of(row.get("recall"))) is not None
    ]
    return fmean(known) if known else None


def _plain(text: str) -> str:
    """A stranger's text as a cell of a Markdown table: it shows as it is, and marks nothing up."""
    return re.sub(r"([\\`*_\[\]<>|~!&#])", r"\\\1", text)
