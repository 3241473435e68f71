"""Progress of long commands on standard error: a bar that moves on a terminal, a line a step otherwise.

Not for results, which go to standard output, and not for measuring: the bar is drawn twice a second, since it shares the
processor with what is measured.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, Protocol, Self

from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.text import Text

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console
    from rich.progress_bar import ProgressBar

#: Seconds that a user waits without wondering: a step that is expected to take less is told of only if it takes longer.
WORTH_SAYING_S: Final = 2.0


class Steps(Protocol):
    """What `progress` gives: somewhere to say what is done now."""

    def step(self, name: str, text: str, seconds_expected: float | None = None) -> None:
        """Begin a step, which ends the one before.

        Parameters
        ----------
        name : str
            What the step is done to, such as a device; may be empty.
        text : str
            What is done.
        seconds_expected : float, optional
            About how long it will take; None where nobody knows.
        """

    def note(self, text: str) -> None:
        """Show how far the step is; on a terminal only, where it replaces the note before."""

    def say(self, text: str) -> None:
        """Print a line that stays."""

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the last step and take the bar away."""


def progress(console: Console) -> Steps:
    """Progress on a console: a context, in which `step` says what is done now.

    Parameters
    ----------
    console : rich.console.Console
        The console for messages (`portbar.cli.shared.err`). A bar is drawn if its stream is a terminal that can move its
        cursor, even where a variable such as FORCE_COLOR asks for colours in a file.
    """
    drawn = console.is_terminal and not console.is_dumb_terminal and console.file.isatty()
    return _Bar(console) if drawn else _Lines(console)


def about(seconds: float) -> str:
    """A duration in words, as far as an estimate is worth saying."""
    if seconds < 90:
        return f"about {max(1.0, seconds):.0f} s"
    minutes = seconds / 60
    return f"about {minutes:.0f} min" if minutes < 90 else f"about {minutes / 60:.1f} h"


class _Steps:
    """Holds back a step that should be over soon until it has taken longer than that."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started = time.monotonic()
        self._later: threading.Timer | None = None

    def step(self, name: str, text: str, seconds_expected: float | None = None) -> None:
        self._end_step()
        title = f"{name}: {text}" if name else text
        if seconds_expected is None or seconds_expected >= WORTH_SAYING_S:
            self._begin_step(title, seconds_expected)
            return
        self._later = threading.Timer(WORTH_SAYING_S, self._begin_step, (title, None))
        self._later.daemon = True
        self._later.start()

    def _begin_step(self, title: str, seconds_expected: float | None) -> None:
        raise NotImplementedError

    def _end_step(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_step()


class _Lines(_Steps):
    """Steps as lines of plain text, each with the time since the beginning."""

    def _begin_step(self, title: str, seconds_expected: float | None) -> None:
        self.say(title if seconds_expected is None else f"{title} for {about(seconds_expected)}")

    def note(self, text: str) -> None:
        pass

    def say(self, text: str) -> None:
        self._console.print(f"[{time.monotonic() - self._started:5.1f} s] {text}")


class _Remaining(ProgressColumn):
    """Time that a step has taken, and about how much is left of it."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        elapsed = task.elapsed or 0.0
        if task.total is None:
            return Text(f"{elapsed:.0f} s")
        left = task.total - elapsed
        return Text(f"{elapsed:.0f} s, {f'{about(left)} left' if left > 0 else 'longer than expected'}")


class _Filling(BarColumn):
    """A bar that fills with time: up to the estimate, never to the end before the step has ended."""

    max_refresh = 0.5

    def render(self, task: Task) -> ProgressBar:
        if task.total:
            task.completed = min(task.elapsed or 0.0, 0.97 * task.total)
        return super().render(task)


class _Bar(_Steps):
    """The step under way as a bar, and those that have ended as lines above it."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._task: TaskID | None = None
        self._title = ""
        self._began = 0.0
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            _Filling(bar_width=20),
            _Remaining(),
            TextColumn("{task.fields[note]}", markup=False),
            console=console,
            transient=True,
            refresh_per_second=2,
        )

    def _begin_step(self, title: str, seconds_expected: float | None) -> None:
        self._title, self._began = title, time.monotonic()
        self._task = self._bar.add_task(title, total=seconds_expected, note="")
        self._bar.start()

    def note(self, text: str) -> None:
        if self._task is not None:
            self._bar.update(self._task, note=text)

    def say(self, text: str) -> None:
        self._console.print(text)

    def _end_step(self) -> None:
        super()._end_step()
        if self._task is None:
            return
        self._bar.remove_task(self._task)
        self._task = None
        taken = time.monotonic() - self._began
        if taken >= WORTH_SAYING_S:
            self._console.print(Text(f"{self._title}: {taken:.0f} s", style="dim"))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_step()
        self._bar.stop()
