"""Tables as rows of text, the same for a terminal, a page and Markdown; texts are as the records have them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Final

from rich import table as rich_table
from rich.text import Text

from portbar.records.reading import value_of

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

Json = dict[str, Any]

#: Most columns that come from names in the records; the names that most devices have go first.
MOST_COLUMNS: Final = 40

#: Most rows in a terminal; surveys write fewer.
_MOST_ROWS: Final = 200

#: Columns of a terminal that takes every table.
_WIDE: Final = 4_000

#: Longest text of a cell.
LONGEST: Final = 70

#: How a terminal shows a cell of a class.
_STYLES: Final = {"best": "bold green", "no": "bold red"}


@dataclass(frozen=True)
class Cell:
    """One cell: its text, its sort key if that is not the text, and a class of `yes`, `no`, `best` or none.

    `record` is the file of the device that the cell names.
    """

    text: str
    sort: float | None = None
    kind: str = ""
    record: str = ""


EMPTY: Final = Cell("")


@dataclass(frozen=True)
class Table:
    """A table with a name for links, a title, a description, and the titles of its columns.

    The first column names the row. All columns but those in `words` hold numbers, which are right-aligned. `notes` are shown
    below the table. A `matrix` has many columns of short words, whose titles a page may turn.
    """

    name: str
    title: str
    about: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    words: Collection[str]
    notes: Sequence[str] = ()
    matrix: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table as a terminal shows it: below its title, which a table of rich's own would wrap to its width."""
        if self.title:
            yield Text(self.title, style="italic")
        shown = self._shown((0, 1))
        if console.measure(shown, options=options.update(max_width=_WIDE)).maximum > options.max_width:
            shown = self._shown((0, 1, 0, 0))
        yield shown

    def _shown(self, padding: tuple[int, int] | tuple[int, int, int, int]) -> rich_table.Table:
        shown = rich_table.Table(box=None, padding=padding)
        for title in self.columns:
            shown.add_column(title, justify="left" if title in self.words else "right", overflow="fold")
        for row in self.rows[:_MOST_ROWS]:
            shown.add_row(*(Text(cell.text, style=_STYLES.get(cell.kind, "")) for cell in row))
        if len(self.rows) > _MOST_ROWS:
            shown.caption = f"{len(self.rows) - _MOST_ROWS} more rows: --json has all"
        return shown


def terminal_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], words: Collection[str] = ()
) -> Table:
    """A table for a terminal only, of what `cell` takes."""
    return Table("", title, "", columns, [cells(*row) for row in rows], words)


def name_cell(device: Json, remark: str = "") -> Cell:
    """The cell that names a device."""
    return Cell(f"{device['label']}{remark}", record=device["record"])


def cell(value: Any) -> Cell:
    """A cell of a text, a count or a time; empty where there is none."""
    if isinstance(value, Cell):
        return value
    if value in {None, ""}:
        return EMPTY
    if isinstance(value, str):
        return Cell(shorten(value, LONGEST, placeholder=" ..."))
    return Cell(digits(value) if isinstance(value, float) else str(value), value)


def cells(*values: Any) -> list[Cell]:
    """The cells of a row."""
    return [cell(value) for value in values]


def digits(value: float) -> str:
    """A number with three digits that count, fewer below 0.01: six characters at most."""
    if 0 < value < 0.01:
        return f"{value:.4f}" if value >= 0.0001 else f"{value:.0e}"
    return f"{value:.0f}" if value >= 99.95 else f"{value:#.3g}"


def ratio_text(ratio: float) -> str:
    """How many times faster or slower something is, in words, from how many times faster it is."""
    text, word = (digits(ratio), "faster") if ratio >= 1 else (digits(1 / ratio), "slower")
    return "as fast" if text == "1.00" else f"{text} times {word}"


def beside_text(ratio: float) -> str:
    """How many times faster or slower something is, in words that end before its counterpart."""
    text = ratio_text(ratio)
    return f"{text} {'as' if text == 'as fast' else 'than'}"


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


def strategy_cell(row: Mapping[str, Any]) -> Cell:
    """A strategy, marked where it is the chosen one."""
    return Cell(row["strategy"], kind="best" if row["chosen"] else "")


def time_text(reading: Mapping[str, Any] | None) -> str:
    """A time with its unit, or nothing."""
    value = value_of(reading)
    return "" if value is None or reading is None else f"{digits(value)} {reading['unit']}"


def timed_cells(times: Mapping[str, float], chosen: str | None, names: Sequence[str]) -> Iterator[Cell]:
    """A cell for the time of each of these strategies, the chosen one marked."""
    for name in names:
        value, best = times.get(name), name == chosen
        yield EMPTY if value is None else Cell(f"{digits(value)}{' *' if best else ''}", value, "best" if best else "")
