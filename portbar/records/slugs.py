"""How records are named and split: one file a device and driver, under names that stay inside their folder.

Not for writing the files (`portbar.records.placing`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

#: What a record's file may be called, without `.json`.
SLUG: Final = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?")
MAX_SLUG: Final = 200

#: First part of the name of every record that was taken over from a publication.
PUBLISHED: Final = "published"

_PART: Final = 64


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
