"""Options that several commands have, and the examples in their help."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import click

#: A decorator that adds an option to a function.
Decorator: TypeAlias = "Callable[[Callable[..., Any]], Callable[..., Any]]"

#: Bound of every time limit, eleven days: timers of operating systems have one, too.
_MOST_SECONDS: Final = 1e6


class FiniteRange(click.FloatRange):
    """A range of numbers without `nan`, which no bound refuses, and without infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, or fail as a usage error."""
        number = click.FLOAT.convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{number} is not a finite number.", param, ctx)
        return super().convert(value, param, ctx)


#: The argument of a command that takes a folder.
FOLDER: Final = click.Path(exists=True, file_okay=False, path_type=Path)

device_option = click.option(
    "--device",
    "-d",
    "devices",
    multiple=True,
    metavar="SELECTOR",
    help=(
        "PLATFORM:DEVICE as `portbar devices` numbers them, or part of a platform's name or, if no platform has it, of a "
        "device's; may be repeated."
    ),
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def seconds_option(name: str, least: float, about: str, default: float) -> Decorator:
    """Return an option that takes a time limit."""
    limits = FiniteRange(min=least, max=_MOST_SECONDS)
    return click.option(name, type=limits, metavar="SECONDS", help=about, default=default, show_default=True)


def store_option(what: str) -> Decorator:
    """Return an option not to keep what was measured."""
    about = f"Store the {what}, so that portbar chooses by {'it' if what == 'table' else 'them'}."
    return click.option("--store/--no-store", default=True, show_default=True, help=about)


def examples(*commands: str) -> str:
    """Return the epilogue of a command's help."""
    return "\b\nExamples:\n" + "\n".join(f"  {command}" for command in commands)
