"""A step of a survey: how it is measured, where it is in the record, and how every reader presents it.

Importing steps loads no OpenCL, since records are read where there is none.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from portbar.device import child
from portbar.records.plain import amount
from portbar.records.reading import known_us_of, measured, rows_of, value_of

if TYPE_CHECKING:
    import pyopencl as cl
    from rich.console import RenderableType

    from portbar.survey.measuring.session import Session
    from portbar.survey.tables import Table

Json = dict[str, Any]
Entry = Mapping[str, Any]
Row = Mapping[str, Any]

#: Seconds of a step that are not measuring: starting an interpreter and loading every driver.
START_S: Final = 0.8
#: Seconds beyond twice its budget after which a step counts as hanging, in a full survey and in a quick one, for compilers.
LIMIT_S: Final = (20.0, 8.0)


@dataclass(frozen=True)
class Schedule:
    """When a step is run among the others, its part of the time that is left, and the most seconds that it takes."""

    at: float
    weight: float
    most_s: float


@dataclass
class Running:
    """A step under way on one device.

    The step's own part of the entry takes its rows as they come. It should take `budget_s`, beside the start of a process, and
    is killed after `limit_s`.
    """

    device: cl.Device
    entry: Json
    seed: int
    quick: bool
    budget_s: float
    limit_s: float
    #: Called with each action that may bring the whole machine down.
    report: Callable[[str], None] = field(default=lambda _doing: None)


class Step:
    """One step of a survey: a subclass in the list of `portbar.survey.steps`."""

    #: Its part of a device's entry in a record. The names of steps from outside of portbar begin with `x_`.
    name: ClassVar[str]
    #: Its name in a sentence, and the words while it runs.
    title: ClassVar[str]
    doing: ClassVar[str]
    full: ClassVar[Schedule]
    quick: ClassVar[Schedule]
    #: Typical seconds on CPU runtimes, if the step gets that much; shown to the user.
    typical_s: ClassVar[float] = 1.0
    #: Whether it runs even if the time is spent, because the verdict on a device depends on it.
    informative: ClassVar[bool] = False
    #: Whether only a survey to be sent in runs it, and whether it says something of a device that portbar refuses.
    share_only: ClassVar[bool] = False
    of_refused: ClassVar[bool] = False
    #: The text that `portbar show` prints once below all devices.
    legend: ClassVar[str] = ""
    #: Its part of a report's summaries, if that is not its name.
    summary_name: ClassVar[str] = ""
    #: The task of the child process.
    task: ClassVar[str] = "portbar.survey.steps.step:measure"

    def turn(self, *, quick: bool) -> Schedule:
        """When it is run, and for how long."""
        return self.quick if quick else self.full

    # Measuring.

    def measure(self, session: Session) -> None:
        """Measure in a child process. Rows are reported as they are measured, and each measurement is announced before it may
        hang.

        By default by the function `measure` of the module in `portbar.survey.measuring` that has the step's name.
        """
        # Not at the top: records are read without OpenCL.
        importlib.import_module(f"portbar.survey.measuring.{self.name}").measure(session)

    def run(self, running: Running) -> Json:
        """Run the step and return its outcome, that of `run_step`."""
        payload = {
            "address": running.entry["address"],
            "findings": running.entry["findings"],
            "budget_s": running.budget_s,
            "quick": running.quick,
        }
        # A task ends by itself when its budget is spent; the limit is for drivers that hang.
        limit = min(2 * running.budget_s + LIMIT_S[running.quick], running.limit_s)
        return run_step(self, payload, limit, running.entry[self.name]["rows"])

    def keep(self, _device: cl.Device, _entry: Entry, *, quick: bool) -> bool:  # noqa: ARG002 (for subclasses)
        """Store what portbar should choose by from now on; whether the choices may have changed."""
        return False

    def complete(self, part: Json) -> None:
        """Add values derived from all rows to the step's part of the record."""

    # Reading.

    def measured(self, entry: Entry) -> list[Any]:
        """The rows that hold a measurement."""
        return rows_of(entry, self.name)

    def views(self, _entry: Entry) -> Iterable[RenderableType]:
        """Return the output of `portbar show` for it."""
        return ()

    def faults(self, _entry: Entry) -> Iterable[str]:
        """Return the problems of the device, for the sentence of the verdict."""
        return ()

    def remedy(self, _entry: Entry) -> str:
        """Return the remedies for its faults, for the summary; empty if none is known."""
        return ""

    def values(self, _row: Row) -> Iterable[tuple[str, str]]:
        """The members of a row that are compared with another record, each with the title of the row it is shown under.

        A common baseline of several rows has a title of its own, which they share.
        """
        return ()

    def used(self, entry: Entry) -> Iterable[Row]:
        """The rows with what a user would notice, for `portbar survey --check`: what works, and the time of what is used."""
        return rows_of(entry, self.name)

    def summary(self, _entry: Entry) -> Any:
        """Return a report's data on one device, as JSON values; None if it has none."""
        return None

    def table(self, _devices: Sequence[Json]) -> Table | None:
        """The report's table, from the summaries of devices."""
        return None


def measure(payload: Json) -> Json:
    """Measure one step: what runs in its child process."""
    from portbar.survey.measuring.session import Session  # noqa: PLC0415 (records are read without OpenCL)

    module, name = payload["step"]
    step: Step = getattr(importlib.import_module(module), name)()
    session = Session(payload)
    step.measure(session)
    return {"skipped": session.skipped}


def run_step(step: Step, payload: Json, limit: float, rows: list[Json]) -> Json:
    """Measure in a child process, which is killed after `limit` seconds, and return the outcome.

    Rows are appended as they come, so that those before a crash are kept. The outcome has a `status`: `ok`, `partial` (the time
    budget was spent), `error`, `crash` or `timeout`; `seconds`; and the `reason` unless it is ok.
    """
    doing = ""

    def take(message: Json) -> None:
        nonlocal doing
        doing = str(message.get("doing", doing))
        if "row" in message:
            rows.append(message["row"])

    payload = payload | {"step": [type(step).__module__, type(step).__name__]}
    result = child.run_task(step.task, payload, timeout=limit, on_progress=take)
    outcome: Json = {"status": result.status, "seconds": round(result.seconds, 2)}
    if result.status != "ok":
        outcome["reason"] = f"{f'while measuring {doing}: ' if doing else ''}{result.message}"
        return outcome
    skipped = int((result.value or {}).get("skipped", 0))
    if skipped or any(row.get("partial") for row in rows):
        outcome["status"] = "partial"
        done = f"after {len(rows) - skipped} of {len(rows)} rows" if skipped else "before every run was made"
        outcome["reason"] = f"the time for this device was over {done}"
    return outcome


def as_used(rows: Sequence[Row], time: str, way: str, shape: tuple[str, ...]) -> Iterator[Row]:
    """For each shape the time of the way that portbar chose, or else of the fastest; of all others whether they work.

    `time` and `way` name the members that hold the time and its subject; `shape` those that determine which rows are
    comparable.
    """
    best: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        if value_of(row.get(time)) is None:
            yield row
            continue
        # Whether it is the chosen one is a matter of speed, too.
        yield {name: item for name, item in row.items() if name != "chosen"} | {time: measured("works")}
        key = tuple(row.get(name) for name in shape)
        if key not in best or _rank(row, time) < _rank(best[key], time):
            best[key] = row
    for row in best.values():
        yield {name: item for name, item in row.items() if name != "chosen"} | {way: "as used"}


def _rank(row: Row, time: str) -> tuple[bool, float]:
    return not row.get("chosen", False), known_us_of(row[time])


def grid_of(row: Row) -> str:
    """The work-groups of a row and their size, in words."""
    return f"{amount(row.get('groups'), 'group')} of {row.get('local_size')}"
