"""Tables of a report as rows of text, the same for the page and for Markdown; texts are as the records have them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import Any, Final

from portbar.records.reading import value_of

Json = dict[str, Any]

#: Most columns that come from names in the records; the names that most devices have go first.
MOST_COLUMNS: Final = 40

#: Longest text of a cell.
LONGEST: Final = 70

#: Microseconds in a unit of time.
_US: Final = {"us": 1.0, "ns": 1e-3, "s": 1e6}


@dataclass(frozen=True)
class Cell:
    """One cell: its text, what it is sorted by where that is not the text, and a class of `yes`, `no`, `best` or none.

    `record` is the file of the device that the cell names.
    """

    text: str
    sort: float | None = None
    kind: str = ""
    record: str = ""


EMPTY: Final = Cell("")


@dataclass(frozen=True)
class Table:
    """A table with a name for links, a title, what it shows, and its columns; numbers stand to the right.

    `columns` holds pairs of a title and whether it holds numbers; the first column names the row. `notes` stand below it. A
    `matrix` has many columns of short words, whose titles a page may turn.
    """

    name: str
    title: str
    about: str
    columns: Sequence[tuple[str, bool]]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()
    matrix: bool = False


def number_of(reading: Mapping[str, Any] | None) -> float | None:
    """The number of a reading, if it has one."""
    value = value_of(reading)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def us_of(reading: Mapping[str, Any] | None) -> float | None:
    """The microseconds of a reading, if it has a number."""
    value = number_of(reading)
    return None if value is None or reading is None else value * _US.get(reading.get("unit", "us"), 1.0)


def name_cell(device: Json, remark: str = "") -> Cell:
    """The cell that names a device."""
    return Cell(f"{device['label']}{remark}", record=device["record"])


def text_cell(value: Any) -> Cell:
    """A cell of a text."""
    return Cell(shorten(str(value), LONGEST, placeholder=" ...")) if value not in {None, ""} else EMPTY


def count_cell(value: float | None) -> Cell:
    """A cell of a count."""
    return EMPTY if value is None else Cell(f"{value:g}", value)


def time_cell(value: float | None) -> Cell:
    """A cell of a time."""
    return EMPTY if value is None else Cell(digits(value), value)


def digits(value: float) -> str:
    """A number with three digits that count."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def common(
    names: Iterable[Iterable[str]], what: str, first: Sequence[str] = (), most: int = MOST_COLUMNS
) -> tuple[list[str], tuple[str, ...]]:
    """The names that most devices have, in the order of how `first` says they begin; and a note on what was left out."""
    counted = Counter(name for of_device in names for name in of_device)
    kept = sorted(name for name, _ in sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:most])
    kept.sort(
        key=lambda name: next((at for at, beginning in enumerate(first) if name.startswith(beginning)), len(first))
    )
    more = len(counted) - len(kept)
    return kept, (f"{more} more {what} that fewer devices have are in the output of --json.",) if more else ()


def timed_cells(times: Mapping[str, float], chosen: str | None, names: Sequence[str]) -> Iterator[Cell]:
    """A cell for the time of each of these strategies, the chosen one marked."""
    for name in names:
        value, best = times.get(name), name == chosen
        yield EMPTY if value is None else Cell(f"{digits(value)}{' *' if best else ''}", value, "best" if best else "")
