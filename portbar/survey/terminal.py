"""Parts of what `portbar show` prints, which fits a terminal of 100 columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from portbar.records.reading import value_of

T = TypeVar("T")

#: Rows of a table; surveys write fewer.
_MOST_ROWS: Final = 200


def new_table(*columns: str) -> Table:
    """A table with columns of numbers."""
    table = Table(box=None, padding=(0, 1))
    for name in columns:
        table.add_column(name, justify="right")
    return table


def titled(title: str, table: Table) -> RenderableType:
    """A table below its title, which a table of its own would wrap to its width."""
    return Group(Text(title, style="italic"), table)


def fitting(rows: Sequence[T], table: Table) -> Sequence[T]:
    """As many rows as a table shows, which says how many others there are."""
    if len(rows) > _MOST_ROWS:
        table.caption = f"{len(rows) - _MOST_ROWS} more rows: --json has all"
    return rows[:_MOST_ROWS]


def strategy_text(row: dict[str, Any]) -> Text:
    """A strategy, marked where it is the chosen one."""
    return Text(row["strategy"], style="bold green" if row["chosen"] else "")


def optional(value: float | None) -> str:
    """A count, or nothing."""
    return "" if value is None else str(value)


def time_text(reading: dict[str, Any] | None) -> str:
    """A time with its unit, or nothing."""
    value = value_of(reading)
    return "" if value is None or reading is None else f"{number(value)} {reading['unit']}"


def number(value: float) -> str:
    """A number with three decimals below 100, fewer above."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 100 else f"{value:.3f}"
