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


#: Columns of the bar, and those that the time and the spaces beside it take.
_BAR: Final = 10
_BESIDE_BAR: Final = 10


class ShownSteps:
    """A context in which `step` shows the user what the command does, on a console for messages.

    A bar is drawn if the console is a terminal that can move its cursor, even where FORCE_COLOR asks for colours in a file.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._is_drawn = console.is_terminal and not console.is_dumb_terminal and console.file.isatty()
        self._started = self._began = time.monotonic()
        self._name = self._text = ""
        self._later: threading.Timer | None = None
        self._task: TaskID | None = None
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=_BAR),
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
        self._name, self._text = name, text
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
            self.say(f"{titled(self._name, self._text)}{estimate}")
            return
        room = self._console.width - _BAR - _BESIDE_BAR
        self._task = self._bar.add_task(titled(self._name, f"{self._text}{estimate}", room), total=None, note="")
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
            line = titled(self._name, f"{self._text}: {taken:.0f} s", self._console.width)
            self._console.print(Text(line, style="dim"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._end_step()
        self._bar.stop()


def titled(name: str, text: str, room: int | None = None) -> str:
    """Return a step's subject and text; of a name that does not fit `room` characters the beginning, at least one word."""
    if not name:
        return text
    if room is None or len(name) + 2 + len(text) <= room:
        return f"{name}: {text}"
    first, *others = name.split()
    for word in others:
        if len(first) + 1 + len(word) + len(" ...: ") + len(text) > room:
            break
        first = f"{first} {word}"
    longer = f"{first} ...: {text}"
    return longer if len(longer) <= room else f"{first}: {text}"


def about(seconds: float) -> str:
    """Return a duration in words, as exact as an estimate is."""
    if seconds < 90:
        return f"about {max(1.0, seconds):.0f} s"
    minutes = seconds / 60
    return f"about {minutes:.0f} min" if minutes < 90 else f"about {minutes / 60:.1f} h"
