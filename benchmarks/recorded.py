"""Programs that launch unmodified kernels in loops: recorded, in one kernel and as chosen, beside their launches.

Bits of all buffers are compared first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyopencl as cl

import portbar
from benchmarks.shared import Row, Session, attempted, clock, command_line, number, paired, plain, run, sampled, wrong
from examples.recorded.doing import Launches, Recorded
from examples.recorded.programs import PROGRAMS, HostProgram

#: Sides of the problems: small, and as long again twice.
_SCALES: Final = (1, 4)


def compared(kind: type[HostProgram], session: Session) -> Iterator[Row]:
    """One program at each size."""
    for scale in _SCALES[:1] if session.quick else _SCALES:
        yield from attempted(session, kind.__name__, _at_size(kind, session, scale), scale=scale)


def _at_size(kind: type[HostProgram], session: Session, scale: int) -> Iterator[Row]:
    queue = session.queue
    program = kind(session.context, scale)
    ways: dict[str, Callable[[], object]] = {"launches": lambda: program.run(Launches(queue))}
    ways["launches"]()
    expected = program.results(queue)
    # One kernel would be wrong, or the end of the process, where the device ends loops early.
    is_short = portbar.describe(session.device).loop_limit is not None
    for name, fused in (("one kernel", True), ("chosen", None))[is_short:]:
        recorded = Recorded(queue, kind.options)
        program.run(recorded)
        # The choice is made in the first launches.
        for _ in range(9):
            program.reset(queue)
            recorded.steps.launch(fused=fused).wait()
            found = program.results(queue)
            if any(found[one].tobytes() != values.tobytes() for one, values in expected.items()):
                yield wrong(session, kind.__name__, name, f"{name} gives other bits than launches", scale=scale)
                return
        ways[name] = partial(_launch, recorded.steps, fused)

    def sample(way: Callable[[], object]) -> Callable[[], float]:
        def take() -> float:
            program.reset(queue)
            queue.finish()
            return clock(lambda: _ended(way, queue))

        return take

    found_us = sampled({name: sample(way) for name, way in ways.items()}, session.repeats)
    yield from speed_ups(session, kind.__name__, found_us, scale=scale)


def speed_ups(session: Session, benchmark: str, found_us: Mapping[str, list[float]], **extra: Any) -> Iterator[Row]:
    """Microseconds of each way beside those of the way "launches"."""
    launches = found_us["launches"]
    for name, times in found_us.items():
        if name != "launches":
            found = {**extra, "way": name, "speed_up": 1 / paired(times, launches)}
            yield session.compare(benchmark, "launches", times, launches, **found)


def _launch(steps: portbar.Steps, fused: bool | None) -> None:
    steps.launch(fused=fused).wait()


def _ended(way: Callable[[], object], queue: cl.CommandQueue) -> None:
    way()
    queue.finish()


BENCHMARKS: Final[dict[str, Callable[[Session], Iterator[Row]]]] = {
    kind.__name__: partial(compared, kind) for kind in PROGRAMS
}

#: The columns of `speed_ups`.
WAYS: Final[dict[str, Callable[[Row], str]]] = {
    "way": lambda row: row.extra.get("way", row.extra.get("error", "")),
    "speed-up": lambda row: number(row.extra.get("speed_up")),
    "recorded, us": lambda row: number(row.ours_us),
    "launches, us": lambda row: number(row.peer_us),
}
COLUMNS: Final[dict[str, Callable[[Row], str]]] = {
    "program": lambda row: row.benchmark,
    "scale": lambda row: str(row.extra["scale"]),
    **WAYS,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    options = command_line("recorded", __doc__, "small problems and five repeats", BENCHMARKS).parse_args(arguments)
    return run(options, plain(options), BENCHMARKS, COLUMNS)


if __name__ == "__main__":
    raise SystemExit(main())
