"""Names records and places them in a folder such as `vendor_matrix/`: one file a device and driver, newer data never lost.

Names stay inside their folder. Nothing is sent: a placed record is a file on this machine.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from portbar.errors import RecordError
from portbar.records import writing
from portbar.records.dataclass import dataclass
from portbar.records.files import load, text

#: First part of the name of every record that was taken over from a publication.
PUBLISHED: Final = "published"

_PART: Final = 64


@dataclass(frozen=True)
class Placement:
    """The outcome for the record of one device, whose file is `path`: "new", "replaced", "unchanged", or "kept".

    With `kept` the old file is as it was, or none could be written; the `reason` says why.
    """

    slug: str
    path: Path
    outcome: str
    reason: str = ""


def place(record: Mapping[str, Any], folder: Path, *, force: bool = False) -> list[Placement]:
    """Write the part of a valid record for each measured device into a folder, under its slug.

    Quick surveys and those of a busy machine are not written. With `force` they are, and files are replaced even if they hold
    newer or more complete data, or are not records.
    """
    placed: list[Placement] = []
    for slug, one in split(record):
        path = folder / f"{slug}.json"
        if path in {placement.path for placement in placed}:
            why = "the record has this device and driver twice; the first is used"
            placed.append(Placement(slug, path, "kept", why))
        else:
            placed.append(_place(slug, one, path, force))
    return placed


def _place(slug: str, record: Mapping[str, Any], path: Path, force: bool) -> Placement:
    if path.is_symlink() or (path.exists() and not path.is_file()):
        return Placement(slug, path, "kept", "a link or special file has its name: remove that first")
    content = text(record).encode()
    there = path.exists()
    if there and path.read_bytes() == content:
        return Placement(slug, path, "unchanged")
    why = "" if force else _unfit(record) or (_objection(record, path) if there else "")
    if why:
        return Placement(slug, path, "kept", f"{why}; --force {'replaces it' if there else 'files it'} anyway")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        writing.replace(path, content, mode=0o644)
    except OSError as error:
        why = f"{path.name} cannot be written: {error.strerror or error}"
        return Placement(slug, path, "kept", f"{why}; {'the old file is' if there else 'nothing is'} there")
    return Placement(slug, path, "replaced" if there else "new")


def _unfit(record: Mapping[str, Any]) -> str:
    """Return why a record says too little about its device for others; empty if it does not."""
    if (record.get("invocation") or {}).get("quick"):
        return "this is of a quick survey; run `portbar survey` without --quick"
    # An emulator's times are its own, and lent to no processor.
    real = [device for device in record["devices"] if not device["facts"].get("emulator")]
    if any((device.get("barrier") or {}).get("unsteady") for device in real):
        return "its barrier times vary, as on a busy machine; survey the device again on an idle one"
    return ""


def _objection(record: Mapping[str, Any], path: Path) -> str:
    """Return why the existing file should stay; empty if it should not."""
    try:
        old = load(path)
    except RecordError as error:
        return f"the existing file is not a record ({error})"
    if datetime.fromisoformat(old["created"]) > datetime.fromisoformat(record["created"]):
        return f"the existing file is newer, of {old['created']}"
    if record["partial"] and not old["partial"]:
        return "the existing file is complete, and this record is not"
    return ""


def slug(device: Mapping[str, Any]) -> str:
    """Return the file name, without its ending, for an entry of a record's `devices`: platform, device and driver.

    That of a published one is `published`, vendor and device. The name has only `[a-z0-9._-]`, and starts and ends with a
    letter or digit, so it never leads out of its folder.
    """
    facts = device["facts"]
    if device.get("status") == PUBLISHED:
        parts = [PUBLISHED, facts.get("vendor"), facts.get("name")]
    else:
        parts = [facts.get("platform_name"), facts.get("name"), facts.get("driver_version")]
        # A record of an emulated processor must not take the place of a real one's.
        parts += ["emulated"] if facts.get("emulator") else []
    return "--".join(_part(str(part or "")) for part in parts)


def _part(text: str) -> str:
    """One part of a slug; a part that is cut short ends with a digest, so that two of them differ."""
    plain = re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")
    if len(plain) > _PART:
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        plain = f"{plain[: _PART - 9].rstrip('-.')}-{digest}"
    return plain or "unknown"


def split(record: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the slug of each measured device of a valid record, and the record with that device only.

    Devices that could not be used, that failed, and that were never reached are left out, as are those that portbar refuses
    without litmus tests.
    """
    for device in record["devices"]:
        findings = device.get("findings") or {}
        refuted = device["status"] == "refused" and findings.get("litmus")
        if device["status"] == PUBLISHED or refuted or (findings and device["status"] in {"complete", "partial"}):
            partial = device["status"] == "partial"
            stopped = record["interrupted"] and partial
            yield slug(device), {**record, "partial": partial, "interrupted": stopped, "devices": [device]}
