"""Programs that launch unmodified kernels in loops: recorded, in one kernel and as chosen, beside their launches.

Also beside command buffers and CUDA graphs, where the device has them. Bits of all buffers are compared first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pyopencl as cl

import portbar
from benchmarks.cuda import capability_of
from benchmarks.cuda_graphs import cuda_graph
from benchmarks.shared import (
    Row,
    Session,
    attempted,
    clock,
    command_line,
    note,
    number,
    paired,
    plain,
    run,
    sampled,
    wrong,
)
from examples.recorded.doing import Launches, Recorded
from examples.recorded.programs import PROGRAMS, HostProgram
from portbar.errors import UnsupportedFeatureError

#: Sides of the problems: small, and as long again twice.
_SCALES: Final = (1, 4)
#: A way to run recorded steps -> the arguments of their launch.
_ASKED: Final[dict[str, dict[str, bool]]] = {
    "one kernel": {"fused": True},
    "command buffers": {"command_buffers": True},
    "chosen": {},
}


def compared(kind: type[HostProgram], session: Session) -> Iterator[Row]:
    """One program at each size."""
    if lacks := kind.lacks(session.device):
        note(f"{session.name}: {kind.__name__} left out, the device has no {lacks}")
        return
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
    for name, asked in list(_ASKED.items())[is_short:]:
        recorded = Recorded(queue, kind.options)
        program.run(recorded)
        # The choice is made in the first launches.
        for _ in range(13):
            program.reset(queue)
            try:
                recorded.steps.launch(**asked).wait()
            except UnsupportedFeatureError as error:
                note(f"{kind.__name__}: {name} left out, {error}")
                break
            if not _are_same(program.results(queue), expected):
                yield wrong(session, kind.__name__, name, f"{name} gives other bits than launches", scale=scale)
                return
        else:
            ways[name] = partial(_launch, recorded.steps, asked)

    def sample(way: Callable[[], object]) -> Callable[[], float]:
        def take() -> float:
            program.reset(queue)
            queue.finish()
            return clock(lambda: _ended(way, queue))

        return take

    with cuda_graph(program, capability_of(session.device)) as graph:
        sides = {name: sample(way) for name, way in ways.items()}
        if graph is not None and _are_close(graph.results(program), expected):
            sides["CUDA graph"] = graph.us
        elif graph is not None:
            note(f"{kind.__name__}: a CUDA graph gives other results than launches")
        found_us = sampled(sides, session.repeats)
    yield from speed_ups(session, kind.__name__, found_us, scale=scale)


def _are_same(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> bool:
    return all(found[one].tobytes() == values.tobytes() for one, values in expected.items())


def _are_close(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> bool:
    """Whether another compiler's results are the same but for its rounding of products in sums."""
    return all(np.allclose(found[one], values, rtol=1e-3, atol=1e-4) for one, values in expected.items())


def speed_ups(session: Session, benchmark: str, found_us: Mapping[str, list[float]], **extra: Any) -> Iterator[Row]:
    """Microseconds of each way beside those of the way "launches"."""
    launches = found_us["launches"]
    for name, times in found_us.items():
        if name != "launches":
            found = {**extra, "way": name, "speed_up": 1 / paired(times, launches)}
            yield session.compare(benchmark, "launches", times, launches, **found)


def _launch(steps: portbar.Steps, asked: Mapping[str, bool]) -> None:
    steps.launch(**asked).wait()


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
    "this way, us": lambda row: number(row.ours_us),
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
