"""Loads records from files, whoever wrote them.

Not for the records that come with portbar, which its tests have checked (`portbar.findings.matrix`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from portbar.errors import RecordError
from portbar.records.untrusted import parse, read_bytes
from portbar.records.validation import validate


def load(path: Path | str) -> dict[str, Any]:
    """Load the valid record in a file.

    Parameters
    ----------
    path : path
        A regular file, not a link. It may come from a stranger.

    Raises
    ------
    RecordError
        It is no valid record; the message names the file and what is wrong first.
    """
    path = Path(path)
    try:
        return checked(parse(read_bytes(path)))
    except RecordError as error:
        name = path.name if path.name.isprintable() else ascii(path.name)
        raise RecordError(f"{name}: {error}") from None


def checked(value: Any) -> dict[str, Any]:
    """Return a JSON value that is a valid record.

    Raises
    ------
    RecordError
        It is not.
    """
    problems = validate(value)
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise RecordError(f"{problems[0]}{more}; `portbar validate FILE` tells all")
    record: dict[str, Any] = value
    return record


def read_folder(path: Path | str) -> list[tuple[Path, dict[str, Any]]]:
    """Every record in a folder, by file name; files that do not end with `.json` are left alone.

    Raises
    ------
    RecordError
        There is no such folder, or a file in it is no valid record.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise RecordError(f"{folder.name!r} is no folder: name one that holds records")
    return [(file, load(file)) for file in sorted(folder.glob("*.json"))]
