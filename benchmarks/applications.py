"""Whole programs in one kernel beside the same with launches for each step: `python -m benchmarks.applications --json`.

Programs whose steps meet by a task graph are also measured beside one kernel with a barrier for each step.
Everything is included, from handing over the start values to the result: discovery, launches, waits. A ratio below 1 means
that one kernel is faster; `examples/applications` has the programs. Each result is checked once. Beside it is the ratio that
`portbar.advise` predicts from the device's record and the device's own time of a launch; `portbar bench barrier` measures
the record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks import advice
from benchmarks.shared import (
    Row,
    Session,
    WrongResultError,
    attempted,
    clock,
    command_line,
    note,
    number,
    plain,
    run,
    sampled,
)
from examples.applications import ALL
from examples.applications.common import Application
from portbar.errors import UnsupportedFeatureError

#: The peer whose ratio is predicted.
LAUNCHES: Final = "a launch for each step"


def measured(name: str, session: Session) -> Iterator[Row]:
    """One application over its sizes."""
    sizes = ALL[name].sizes
    for size in sizes[:1] if session.quick else sizes:
        yield from attempted(session, name, compared(name, session, size), size=size)


def compared(name: str, session: Session, size: int) -> Iterator[Row]:
    """One application and size, beside launches, and beside one kernel with barriers where it has none."""
    problem = ALL[name](session.queue, size)
    ways: dict[str, Callable[[], Any]] = {"": problem.in_one_kernel, LAUNCHES: problem.by_relaunching}
    if type(problem).by_barriers is not Application.by_barriers:
        ways["a barrier for each step"] = problem.by_barriers
    for way in ways.values():
        try:
            problem.check(way())
        except AssertionError as error:
            raise WrongResultError(" ".join(str(error).split())[:200]) from None
    found = sampled({peer: partial(clock, way) for peer, way in ways.items()}, session.repeats)
    more = advice.predicted(ALL[name], session.queue, size)
    for peer in list(ways)[1:]:
        by_launches = peer == LAUNCHES
        about = {"size": size, "steps": problem.steps} | (more if by_launches else {})
        row = session.compare(name, peer, found[""], found[peer], **about)
        if by_launches:
            MEASURED.append(row)
        yield row


#: The rows beside launches, for the summary of a run and its plot.
MEASURED: Final[list[Row]] = []


BENCHMARKS: Final[dict[str, Callable[[Session], Iterator[Row]]]] = {name: partial(measured, name) for name in ALL}

COLUMNS: Final[dict[str, Callable[[Row], str]]] = {
    "application": lambda row: row.benchmark,
    "size": lambda row: str(row.extra.get("size", "")),
    "steps": lambda row: str(row.extra.get("steps", "")),
    "ratio": lambda row: number(row.ratio),
    "predicted": lambda row: number(row.extra.get("predicted_ratio")),
    "work, us": lambda row: number(row.extra.get("work_us")),
    "one kernel, us per step": lambda row: number(row.ours_us and row.ours_us / row.extra["steps"]),
    "beside": lambda row: row.peer,
    "peer, us per step": lambda row: number(row.peer_us and row.peer_us / row.extra["steps"]),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 when a result was wrong, 3 when no usable device matches.

    The last line of each device shows how accurate the predictions were.
    """
    parser = command_line("applications", __doc__, "the smallest size of each and five repeats", BENCHMARKS)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw speed-up over work per iteration into FILE")
    options = parser.parse_args(arguments)
    MEASURED.clear()
    status = run(options, plain(options), BENCHMARKS, COLUMNS)
    advice.tell(MEASURED, as_json=options.json)
    if options.plot is not None:
        try:
            advice.plot(MEASURED, options.plot)
        except (UnsupportedFeatureError, OSError) as error:
            note(str(error))
            return 1
    return status


if __name__ == "__main__":
    raise SystemExit(main())
