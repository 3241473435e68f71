"""Finds the record that a user names: a file, or one that comes with portbar, by its slug or a part of it.

Not for folders of records: `portbar.records.read_folder` reads those.
"""

from __future__ import annotations

import importlib.resources
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from portbar.errors import RecordError
from portbar.records.folder import load

#: Most slugs that an error names.
_NAMED = 8


class NoSuchRecordError(RecordError):
    """Nothing, or more than one record, goes by a name."""


@dataclass(frozen=True)
class Named:
    """A record and what to call it: its slug, or the name of its file without the folder."""

    name: str
    record: dict[str, Any]


def shipped() -> dict[str, Traversable]:
    """Slug -> file of the records that come with portbar."""
    found: dict[str, Traversable] = {}
    folders = [importlib.resources.files("portbar.vendor_matrix")]
    while folders:
        for entry in folders.pop().iterdir():
            if entry.is_dir() and not entry.name.startswith((".", "__")):
                folders.append(entry)
            elif entry.name.endswith(".json"):
                found[entry.name.removesuffix(".json")] = entry
    return dict(sorted(found.items()))


def find(name: str) -> Named:
    """Read the record that goes by `name`.

    Parameters
    ----------
    name : str
        Path of a file, a slug, or a part of one in any case.

    Raises
    ------
    NoSuchRecordError
        There is no such file and not exactly one slug that fits.
    portbar.errors.RecordError
        The file is no record.
    """
    path = Path(name)
    if path.is_file():
        return Named(path.name, load(path))
    records = shipped()
    slug = name if name in records else _only(name, [slug for slug in records if name.lower() in slug], list(records))
    with importlib.resources.as_file(records[slug]) as file:
        return Named(slug, load(file))


def _only(name: str, matches: list[str], known: list[str]) -> str:
    if len(matches) == 1:
        return matches[0]
    shown = matches or known
    more = f", and {len(shown) - _NAMED} more" if len(shown) > _NAMED else ""
    slugs = f"{', '.join(shown[:_NAMED])}{more}"
    if matches:
        raise NoSuchRecordError(f"{len(matches)} records have {name!r} in their names: {slugs}; give more of the name")
    raise NoSuchRecordError(f"there is no file {name!r}, and no record with that in its name; there are {slugs}")
