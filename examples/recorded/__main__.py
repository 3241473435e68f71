"""Runs the programs, recorded and as launches: `python -m examples.recorded [NAME ...] [--platform P] [--scale N]`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import pyopencl as cl

from examples.applications.__main__ import make_context
from examples.recorded.doing import Launches, Recorded
from examples.recorded.programs import PROGRAMS, HostProgram


def timed(program: HostProgram, queue: cl.CommandQueue, run: Callable[[], object], rounds: int = 5) -> float:
    """Seconds of the best of some runs, each from the same begin."""
    times = []
    for _ in range(rounds):
        program.reset(queue)
        queue.finish()
        begin = time.perf_counter()
        run()
        queue.finish()
        times.append(time.perf_counter() - begin)
    return min(times)


def main() -> None:
    """Run each program both ways, compare the bits of all buffers, and print times."""
    parser = argparse.ArgumentParser(prog="python -m examples.recorded", description=__doc__)
    names = {kind.__name__: kind for kind in PROGRAMS}
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)} (default: all)")
    parser.add_argument("--platform", help="part of an OpenCL platform's name and version")
    parser.add_argument("--scale", type=int, default=1, help="sides of the problems, 1 by default")
    given = parser.parse_args()
    unknown = set(given.names) - set(names)
    if unknown:
        parser.error(f"no such program: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    context = make_context(given.platform)
    queue = cl.CommandQueue(context)
    print(f"{'program':<16} {'launches':>12} {'recorded':>12} {'ratio':>6}")
    for name in given.names or names:
        kind = names[name]
        if lacks := kind.lacks(context.devices[0]):
            print(f"{name:<16} the device has no {lacks}")
            continue
        program = kind(context, given.scale)
        launches = timed(program, queue, lambda program=program: program.run(Launches(queue)))
        expected = program.results(queue)
        recorded = Recorded(queue, kind.options)
        program.run(recorded)
        # The first launches measure which way is faster.
        timed(program, queue, lambda recorded=recorded: recorded.steps.launch().wait(), 9)
        replayed = timed(program, queue, lambda recorded=recorded: recorded.steps.launch().wait())
        found = program.results(queue)
        assert all(found[one].tobytes() == values.tobytes() for one, values in expected.items()), name
        print(f"{name:<16} {launches * 1e3:>9.3f} ms {replayed * 1e3:>9.3f} ms {launches / replayed:>6.2f}", flush=True)


if __name__ == "__main__":
    main()
