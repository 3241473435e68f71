"""Names records and places them in a folder such as `vendor_matrix/`: one file a device and driver, newer data never lost.

Names stay inside their folder. Nothing is sent: a placed record is a file on this machine.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from portbar.errors import RecordError
from portbar.records import writing
from portbar.records.files import load, text

#: First part of the name of every record that was taken over from a publication.
PUBLISHED: Final = "published"

_PART: Final = 64


@dataclass(frozen=True)
class Placement:
    """The outcome for the record of one device.

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
        Replace files even if they hold newer or more complete data, or are not records.

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
                Placement(slug, path, "kept", "the record has this device and driver twice; the first is used")
            )
            continue
        placed.append(_place(slug, one, path, force))
    return placed


def _place(slug: str, record: Mapping[str, Any], path: Path, force: bool) -> Placement:
    if path.is_symlink() or (path.exists() and not path.is_file()):
        return Placement(slug, path, "kept", "a link or special file has its name: remove that first")
    content = text(record).encode()
    there = path.exists()
    if there and path.read_bytes() == content:
        return Placement(slug, path, "unchanged")
    why = _objection(record, path) if there and not force else ""
    if why:
        return Placement(slug, path, "kept", f"{why}; --force replaces it anyway")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        writing.replace(path, content, mode=0o644)
    except OSError as error:
        why = f"{path.name} cannot be written: {error.strerror or error}"
        return Placement(slug, path, "kept", f"{why}; {'the old file is' if there else 'nothing is'} there")
    return Placement(slug, path, "replaced" if there else "new")


def _objection(record: Mapping[str, Any], path: Path) -> str:
    """Return why the existing file should stay; empty if it should not."""
    try:
        old = load(path)
    except RecordError as error:
        return f"the existing file is not a record ({error})"
    if _created(old) > _created(record):
        return f"the existing file is newer, of {old['created']}"
    if record["partial"] and not old["partial"]:
        return "the existing file is complete, and this record is not"
    if record["invocation"]["quick"] and not old["invocation"]["quick"]:
        return "the existing file is of a full survey, and this record of a quick one"
    return ""


def _created(record: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(record["created"])


def slug(device: Mapping[str, Any]) -> str:
    """File name, without its ending, of the record of a device: platform, device and driver in lower case.

    That of a published one is `published`, vendor and device. Whatever the parts hold, the name has only `[a-z0-9._-]`, starts
    and ends with a letter or digit, and so leads nowhere.

    Parameters
    ----------
    device : mapping
        An entry of a record's `devices`.
    """
    facts = device["facts"]
    if device.get("status") == PUBLISHED:
        parts = [PUBLISHED, facts.get("vendor"), facts.get("name")]
    else:
        parts = [facts.get("platform_name"), facts.get("name"), facts.get("driver_version")]
    return "--".join(_part(str(part or "")) for part in parts)


def _part(text: str) -> str:
    """One part of a slug; a part that is cut short ends with a digest, so that two of them differ."""
    plain = re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")
    if len(plain) > _PART:
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        plain = f"{plain[: _PART - 9].rstrip('-.')}-{digest}"
    return plain or "unknown"


def split(record: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The record as one record for each device that says something of use to others, with the slug of each.

    Left out are devices that could not be used, that failed, and that were never reached. Steps that were not measured to
    their end are kept, marked as they are.

    Parameters
    ----------
    record : mapping
        Valid.
    """
    for device in record["devices"]:
        if device["status"] == PUBLISHED or (device.get("findings") and device["status"] in {"complete", "partial"}):
            partial = device["status"] == "partial"
            stopped = record["interrupted"] and partial
            yield slug(device), {**record, "partial": partial, "interrupted": stopped, "devices": [device]}
