"""A loopy program with global barriers: recorded, in one kernel and as chosen, beside loopy's own launches.

Each turn is two steps of a stencil. Bits of both arrays are compared first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import loopy as lp
import numpy as np
import pyopencl as cl
import pyopencl.array

import portbar
from benchmarks.recorded import WAYS, speed_ups
from benchmarks.shared import Row, Session, attempted, clock, command_line, plain, run, sampled, wrong
from portbar.recording.loopy import RecordingTarget

_POINTS: Final = (1_000, 10_000, 100_000, 1_000_000)
_TURNS: Final = 100
#: Work-items of a work-group.
_ITEMS: Final = 128
_BODY: Final = """
for t
    for i
        b[i + 1] = a[i + 1] + 0.25 * (a[i] - 2 * a[i + 1] + a[i + 2])
    end
    ... gbarrier
    for j
        a[j + 1] = b[j + 1] + 0.25 * (b[j] - 2 * b[j + 1] + b[j + 2])
    end
    ... gbarrier
end
"""


def stencil(target: Any) -> Any:
    """The program."""
    program = lp.make_kernel(
        "{[t, i, j]: 0 <= t < turns and 0 <= i, j < n}",
        _BODY,
        [lp.GlobalArg("a, b", np.float32, shape="n + 2"), lp.ValueArg("n, turns", np.int32)],
        name="stencil",
        target=target,
        seq_dependencies=True,
        lang_version=(2018, 2),
    )
    for index in "ij":
        program = lp.split_iname(program, index, _ITEMS, outer_tag="g.0", inner_tag="l.0")
    return program


def compared(session: Session) -> Iterator[Row]:
    """The program at each size."""
    for points in _POINTS[:2] if session.quick else _POINTS:
        yield from attempted(session, "stencil", _at_size(session, points), points=points)


def _at_size(session: Session, points: int) -> Iterator[Row]:
    queue = session.queue
    begun = np.random.default_rng(points).random(points + 2).astype(np.float32)
    a, b = cl.array.to_device(queue, begun), cl.array.to_device(queue, begun)
    is_short = portbar.describe(session.device).loop_limit is not None
    made = {"launches": stencil(lp.PyOpenCLTarget()).executor(queue)}
    for name, fused in (("one kernel", True), ("chosen", None))[is_short:]:
        made[name] = stencil(RecordingTarget()).executor(queue, fused=fused)

    def reset() -> None:
        a.set(begun, queue=queue)
        b.set(begun, queue=queue)
        queue.finish()

    def launch(executor: Any) -> None:
        event, _ = executor(queue, a=a, b=b, n=points, turns=_TURNS)
        event.wait()
        queue.finish()

    expected = b""
    for name, executor in made.items():
        # The choice is made in the first launches.
        for _ in range(9):
            reset()
            launch(executor)
            found = a.get(queue=queue).tobytes() + b.get(queue=queue).tobytes()
            expected = expected or found
            if found != expected:
                yield wrong(session, "stencil", name, f"{name} gives other bits than launches", points=points)
                return

    def take(executor: Any) -> float:
        reset()
        return clock(partial(launch, executor))

    found_us = sampled({name: partial(take, executor) for name, executor in made.items()}, session.repeats)
    yield from speed_ups(session, "stencil", found_us, points=points)


BENCHMARKS: Final[dict[str, Callable[[Session], Iterator[Row]]]] = {"stencil": compared}

COLUMNS: Final[dict[str, Callable[[Row], str]]] = {
    "points": lambda row: str(row.extra["points"]),
    **WAYS,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    options = command_line("loopy", __doc__, "two sizes and five repeats", BENCHMARKS).parse_args(arguments)
    return run(options, plain(options), BENCHMARKS, COLUMNS)


if __name__ == "__main__":
    raise SystemExit(main())
