"""Loads records from files, whoever wrote them.

Not for the records that come with portbar, which its tests have checked (`portbar.matrix`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from portbar.errors import RecordError
from portbar.records.migration import migrate
from portbar.records.untrusted import parse, read_bytes
from portbar.records.validation import validate


def load(path: Path | str) -> dict[str, Any]:
    """The record in a file, valid and in the newest format.

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
    """A JSON value as a valid record in the newest format.

    Raises
    ------
    RecordError
        It is none.
    """
    problems = validate(value)
    if problems:
        raise RecordError(_all(problems))
    record = migrate(value)
    if record is not value:
        problems = validate(record)
        if problems:
            raise RecordError(f"it cannot be brought to the newest format: {_all(problems)}")
    return record


def _all(problems: list[str]) -> str:
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{problems[0]}{more}; `portbar validate FILE` tells all"


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
