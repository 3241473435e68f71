"""The output of commands: JSON, text for people, and consoles for both streams."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderableType

from portbar.records.plain import harmless

if TYPE_CHECKING:
    from rich.segment import Segment


def print_json(value: Any) -> None:
    """Print one JSON document."""
    json.dump(value, sys.stdout, indent=2)
    sys.stdout.write("\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """Print a message on standard error."""
    err().print(f"portbar: {text}")


class _Console(Console):
    """A console on which only rich itself moves the cursor: a driver's text may hold escape sequences."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=harmless(segment.text))


def _out() -> Console:
    """Return a console for data: as wide as the terminal or COLUMNS say, otherwise 80 columns."""
    is_known = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return _Console(width=None if is_known else 80, highlight=False, markup=False, emoji=False)


def width() -> int:
    """Return the columns that data may take."""
    return _out().width


def show(*parts: RenderableType, style: str | None = None) -> None:
    """Print data; without trailing spaces if it goes to a file or into a message."""
    console = _out()
    if console.is_terminal:
        console.print(*parts, style=style)
        return
    with console.capture() as captured:
        console.print(*parts, style=style)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))
    sys.stdout.flush()


def err() -> Console:
    """Return a console for progress and messages: a line stays a line, so that it can be searched for."""
    return _Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)


def show_title(entry: dict[str, Any]) -> None:
    """Print what identifies a device."""
    show(f"{entry['device']} {entry['name']} ({entry['platform']})", style="bold")


def explained(reason: str, remedy: str) -> str:
    """Return a reason and its remedy as sentences."""
    return f"{reason}. Remedy: {remedy}." if remedy else f"{reason}."
