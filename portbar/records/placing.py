"""Places records in a folder such as `vendor_matrix/`: one file a device and driver, newer data never lost unasked.

Not for sending anything: what is placed is a file on this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from portbar.errors import RecordError
from portbar.records.folder import load
from portbar.records.slugs import split
from portbar.records.writing import text
from portbar.system import files


@dataclass(frozen=True)
class Placement:
    """What became of the record of one device.

    Attributes
    ----------
    slug : str
    path : Path
        The file that holds it, or would.
    outcome : {"new", "replaced", "unchanged", "kept"}
        `kept`: the file that is there was left as it is, or none could be written.
    reason : str
        Why it was kept; empty otherwise.
    """

    slug: str
    path: Path
    outcome: str
    reason: str = ""


def place(record: Mapping[str, Any], folder: Path, *, force: bool = False) -> list[Placement]:
    """Write the record of each device into a folder, under its slug.

    Parameters
    ----------
    record : mapping
        Valid, as `portbar.records.load` returns it.
    folder : Path
    force : bool
        Replace files also where they hold newer or more complete data, or what is no record.

    Returns
    -------
    list of Placement
        One for each device that says something of use to others; empty if none does.
    """
    placed: list[Placement] = []
    for slug, one in split(record):
        path = folder / f"{slug}.json"
        if path in {placement.path for placement in placed}:
            placed.append(
                Placement(slug, path, "kept", "the record has this device and driver twice; the first is taken")
            )
            continue
        placed.append(_place(slug, one, path, force))
    return placed


def _place(slug: str, record: Mapping[str, Any], path: Path, force: bool) -> Placement:
    if path.is_symlink() or (path.exists() and not path.is_file()):
        return Placement(slug, path, "kept", "a link or no regular file has its name: remove that first")
    content = text(record).encode()
    there = path.exists()
    if there and path.read_bytes() == content:
        return Placement(slug, path, "unchanged")
    why = _objection(record, path) if there and not force else ""
    if why:
        return Placement(slug, path, "kept", f"{why}; --force replaces it all the same")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.replace(path, content, mode=0o644)
    except OSError as error:
        why = f"{path.name} cannot be written: {error.strerror or error}"
        return Placement(slug, path, "kept", f"{why}; {'the old file is' if there else 'nothing is'} there")
    return Placement(slug, path, "replaced" if there else "new")


def _objection(record: Mapping[str, Any], path: Path) -> str:
    """Why the file that is there should rather stay; empty if nothing speaks for it."""
    try:
        old = load(path)
    except RecordError as error:
        return f"the file that is there is no record ({error})"
    if _created(old) > _created(record):
        return f"the file that is there is newer, of {old['created']}"
    if record["partial"] and not old["partial"]:
        return "the file that is there is complete, and this record is not"
    if record["invocation"]["quick"] and not old["invocation"]["quick"]:
        return "the file that is there is of a full survey, and this record of a quick one"
    return ""


def _created(record: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(record["created"])
