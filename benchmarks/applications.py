"""Whole programs in one kernel beside the same with launches for each step: `python -m benchmarks.applications --json`.

Everything is included, from handing over the start values to the result: discovery, launches, waits. A ratio below 1 means
that one kernel is faster; `examples/applications` has the programs. Each result is checked once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Final

import pyopencl as cl

from benchmarks.shared import Row, Session, WrongResultError, clock, command_line, failed, number, run, sampled
from examples.applications import ALL
from portbar.errors import Error


def measured(name: str, session: Session) -> Iterator[Row]:
    """One application over its sizes."""
    sizes = ALL[name].sizes
    for size in sizes[:1] if session.quick else sizes:
        try:
            yield compared(name, session, size)
        except (Error, cl.Error) as error:
            yield from failed(session, name, error, size=size)


def compared(name: str, session: Session, size: int) -> Row:
    """One application and size."""
    problem = ALL[name](session.queue, size)
    ways = {"": problem.in_one_kernel, "a launch for each step": problem.by_relaunching}
    for way in ways.values():
        try:
            problem.check(way())
        except AssertionError as error:
            raise WrongResultError(" ".join(str(error).split())[:200]) from None
    found = sampled({peer: partial(clock, way) for peer, way in ways.items()}, session.repeats)
    pairs = [(ours * 1e6, theirs * 1e6) for ours, theirs in zip(*found.values(), strict=True)]
    return session.compare(name, "a launch for each step", pairs, size=size, steps=problem.steps)


BENCHMARKS: Final[dict[str, Callable[[Session], Iterator[Row]]]] = {name: partial(measured, name) for name in ALL}

COLUMNS: Final[dict[str, Callable[[Row], str]]] = {
    "application": lambda row: row.benchmark,
    "size": lambda row: str(row.extra.get("size", "")),
    "steps": lambda row: str(row.extra.get("steps", "")),
    "ratio": lambda row: number(row.ratio),
    "one kernel, us a step": lambda row: number(row.ours_us and row.ours_us / row.extra["steps"]),
    "launches, us a step": lambda row: number(row.peer_us and row.peer_us / row.extra["steps"]),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 when a result was wrong, 3 when no usable device matches."""
    about = "one JSON object a line, as they come, instead of tables"
    quick = "the smallest size of each and five repeats"
    parser = command_line("python -m benchmarks.applications", __doc__, about, quick, BENCHMARKS)
    options = parser.parse_args(arguments)
    return run(
        options,
        lambda device, name: nullcontext(Session(device, name, cl.Context([device]), options.quick)),
        BENCHMARKS,
        COLUMNS,
    )


if __name__ == "__main__":
    raise SystemExit(main())
