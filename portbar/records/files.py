"""Files of records from any source: reads them within bounds, finds them by name, and writes a record as text."""

from __future__ import annotations

import importlib.resources
import json
import os
import stat
from collections import Counter
from collections.abc import Mapping
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final

from portbar.errors import RecordError
from portbar.records.bounds import MAX_DEPTH, shown
from portbar.records.dataclass import dataclass
from portbar.records.plain import printable
from portbar.records.validation import validate
from portbar.records.writing import is_file, is_folder

#: Bytes of a file.
MAX_BYTES: Final = 16 * 1024 * 1024
#: Digits of a whole number: no record needs as many, and Python takes quadratic time for them.
MAX_DIGITS: Final = 50
#: Most slugs that an error names.
_NAMED = 8
#: Columns into which a value must fit to be written on one line.
_WIDTH: Final = 120


class NoSuchRecordError(RecordError):
    """No record, or more than one, has a name."""


@dataclass(frozen=True)
class Named:
    """A record and what to call it: its slug, or the name of its file without the folder."""

    name: str
    record: dict[str, Any]


def load(path: Path | str) -> dict[str, Any]:
    """Load the valid record in a file.

    Parameters
    ----------
    path : path
        A regular file, not a link. It may come from a stranger.

    Raises
    ------
    RecordError
        It is not a valid record; the message names the file and the first problem.
    """
    path = Path(path)
    try:
        return checked(parse(read_bytes(path)))
    except RecordError as error:
        raise RecordError(f"{printable(path.name)}: {error}") from None


def checked(value: Any) -> dict[str, Any]:
    """Return a JSON value that is a valid record. `RecordError` if it is not."""
    problems = validate(value)
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise RecordError(f"{problems[0]}{more}; `portbar validate FILE` lists all")
    record: dict[str, Any] = value
    return record


def read_folder(path: Path | str) -> list[tuple[Path, dict[str, Any]]]:
    """Return every record in a folder, by file name; other files than `*.json` are ignored.

    `RecordError` if the folder does not exist, or a file in it is not a valid record.
    """
    folder = Path(path)
    if not is_folder(folder):
        raise RecordError(f"{folder.name!r} is not a folder: name one that holds records")
    return [(file, load(file)) for file in sorted(folder.glob("*.json"))]


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a regular file that is not a link and not too large; `RecordError` for all else."""
    name = path.name or str(path)
    try:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            raise RecordError(f"{name!r} is a link: name its target")
        if not stat.S_ISREG(mode):
            raise RecordError(f"{name!r} is not a regular file: records are files of JSON")
        with open(path, "rb", opener=_opened) as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise RecordError(f"{name!r} cannot be read: {why}") from None
    if len(data) > MAX_BYTES:
        raise RecordError(
            f"{name!r} is larger than {MAX_BYTES} bytes: split it into one record per device with `portbar submit`"
        )
    return data


def _opened(name: str, flags: int) -> int:
    # It may have become a link or a pipe meanwhile.
    return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


def parse(data: bytes) -> Any:
    """Return the JSON value in some bytes.

    `RecordError` if they are not JSON in UTF-8, nest deeper than Python can read, name a member twice, or hold a whole number
    of more than 50 digits. `validate` finds the rest.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecordError(f"a record is JSON in UTF-8, and byte {error.start} is not: save it as UTF-8") from None
    try:
        return json.loads(text, object_pairs_hook=_object, parse_int=_integer, parse_constant=_constant)
    except json.JSONDecodeError as error:
        raise RecordError(f"this is not JSON: {error.msg} in line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise RecordError(f"objects and arrays nest deeper than {MAX_DEPTH}, the limit for records") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise RecordError(f"an object names its member {shown(twice)} twice, so that one of the two would be lost")
    return value


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise RecordError(f"a number has more than {MAX_DIGITS} digits, the limit for records")
    return int(digits)


def _constant(name: str) -> Any:
    raise RecordError(f"{name} is not a JSON number: omit the value and state the status and reason instead")


def shipped() -> dict[str, Traversable]:
    """Return slug -> file of the records included in portbar."""
    files = sorted(importlib.resources.files("portbar.vendor_matrix").iterdir(), key=lambda file: file.name)
    return {file.name.removesuffix(".json"): file for file in files if file.name.endswith(".json")}


def find(name: str) -> Named:
    """Read the record of this name: the path of a file, a slug, or a part of one in any case.

    `NoSuchRecordError` if there is no such file and not exactly one slug that fits, `RecordError` if the file is not a record.
    """
    path, records = Path(name), shipped()
    matches = [slug for slug in records if name.lower() in slug]
    # Of something else than a file with this name, such as a folder or a pipe, the error says what it is.
    if is_file(path) or (not matches and os.path.lexists(name)):
        return Named(path.name, load(path))
    slug = name if name in records else _only(name, matches, list(records))
    with importlib.resources.as_file(records[slug]) as file:
        return Named(slug, load(file))


def _only(name: str, matches: list[str], known: list[str]) -> str:
    if len(matches) == 1:
        return matches[0]
    named = matches or known
    more = f", and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    slugs = f"{', '.join(named[:_NAMED])}{more}"
    if matches:
        raise NoSuchRecordError(
            f"{len(matches)} records have {name!r} in their names: {slugs}; pass a longer part of the name"
        )
    raise NoSuchRecordError(f"there is no file {name!r}, and no record with that in its name; records: {slugs}")


def text(record: Mapping[str, Any]) -> str:
    """Return a record as JSON text that ends with a newline; lists of numbers and other short values are on one line."""
    return f"{_text(record, 0)}\n"


def _text(value: Any, indent: int, named: int = 0) -> str:
    """Return the text of a value that is `indent` columns in, after a name of `named` characters."""
    if not isinstance(value, (dict, list, tuple)) or not value or _is_numbers(value):
        return _flat(value)
    # A value of many parts cannot fit, and need not be tried.
    if len(value) < _WIDTH // 3:
        flat = _flat(value)
        if indent + named + len(flat) < _WIDTH:
            return flat
    inner = " " * (indent + 1)
    if isinstance(value, dict):
        lines = []
        for key, item in value.items():
            name = f"{_flat(key)}: "
            lines.append(f"{inner}{name}{_text(item, indent + 1, len(name))}")
        return "{\n" + ",\n".join(lines) + f"\n{' ' * indent}}}"
    lines = [f"{inner}{_text(item, indent + 1)}" for item in value]
    return "[\n" + ",\n".join(lines) + f"\n{' ' * indent}]"


def _is_numbers(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(type(item) in {int, float} for item in value)


def _flat(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
