"""Progress of long commands on standard error: a bar that moves on a terminal, a line per step otherwise."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, Self

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console

#: Seconds that a user waits without notice: a step that is expected to be shorter is announced only if it takes longer.
WORTH_SAYING_S: Final = 2.0


class Steps:
    """A context in which `step` shows the user what the command does, on a console for messages.

    A bar is drawn if the console is a terminal that can move its cursor, even where FORCE_COLOR asks for colours in a file.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._is_drawn = console.is_terminal and not console.is_dumb_terminal and console.file.isatty()
        self._started = self._began = time.monotonic()
        self._title = ""
        self._later: threading.Timer | None = None
        self._task: TaskID | None = None
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            console=console,
            disable=not self._is_drawn,
            transient=True,
            # It shares the processor with what is measured.
            refresh_per_second=2,
        )

    def step(self, name: str, text: str, seconds_expected: float | None = None) -> None:
        """Begin a step, which ends the last one; `name` is its subject, such as a device, and may be empty."""
        self._end_step()
        self._title = f"{name}: {text}" if name else text
        if seconds_expected is None or seconds_expected >= WORTH_SAYING_S:
            self._begin_step("" if seconds_expected is None else f" for {about(seconds_expected)}")
            return
        self._later = threading.Timer(WORTH_SAYING_S, self._begin_step, ("",))
        self._later.daemon = True
        self._later.start()

    def note(self, text: str) -> None:
        """Show the progress of the step, on a terminal only; it replaces the last note."""
        if self._task is not None:
            self._bar.update(self._task, note=text)

    def say(self, text: str) -> None:
        """Print a line that stays."""
        since = "" if self._is_drawn else f"[{time.monotonic() - self._started:5.1f} s] "
        self._console.print(f"{since}{text}")

    def _begin_step(self, estimate: str) -> None:
        self._began = time.monotonic()
        if not self._is_drawn:
            self.say(f"{self._title}{estimate}")
            return
        self._task = self._bar.add_task(f"{self._title}{estimate}", total=None, note="")
        self._bar.start()

    def _end_step(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self._task is None:
            return
        self._bar.remove_task(self._task)
        self._task = None
        taken = time.monotonic() - self._began
        if taken >= WORTH_SAYING_S:
            self._console.print(Text(f"{self._title}: {taken:.0f} s", style="dim"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._end_step()
        self._bar.stop()


def about(seconds: float) -> str:
    """Return a duration in words, as exact as an estimate is."""
    if seconds < 90:
        return f"about {max(1.0, seconds):.0f} s"
    minutes = seconds / 60
    return f"about {minutes:.0f} min" if minutes < 90 else f"about {minutes / 60:.1f} h"
