"""Times what launches cost the host and the device beside their work: what one kernel with barriers saves, and what it adds."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from time import perf_counter
from typing import Any, Final

import numpy as np
import pyopencl as cl

from portbar.launching.kernel import Kernel
from portbar.launching.program import Program
from portbar.survey.measuring.rounds import Budget, in_turns, profiled_queue, time_reading

_WORK_SOURCE: Final = """
kernel void portbar_work(global uint *out, uint rounds, uint never)
{
    uint x = get_global_id(0);
    for (uint round = 0; round < rounds; ++round)
        x = x * 1664525u + 1013904223u;
    if (x == never)
        out[0] = x;
}
"""

#: Launches in a row for one sample, and empty ones beside them; samples of each time, the fewest where the budget is spent.
_LAUNCHES: Final = 24
_EMPTY: Final = 5
_REPEATS: Final = 11
_LEAST_REPEATS: Final = 3

#: How many times as long as an enqueue a launch works where the gap between launches is measured, so that none comes late.
_LONGER: Final = 6


class LaunchTimer:
    """Times of launches of one local size, by any number of work-groups.

    The queue names context and device; the launches go to a plain queue of their own. `grid` is a grid kernel with a buffer
    and a `uint` as arguments, which meets at no barrier where that is 0. A launch may have `most_rounds` iterations.
    """

    def __init__(self, queue: cl.CommandQueue, grid: Kernel, local_size: int, most_rounds: int) -> None:
        self._queue, self._profiled = cl.CommandQueue(queue.context, queue.device), profiled_queue(queue)
        self._grid, self._local, self._most = grid, (local_size,), most_rounds
        self._kernel = Program(queue.context, _WORK_SOURCE, devices=[queue.device]).kernel("portbar_work")
        self._out = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 4)
        self._word = np.zeros(1, np.uint32)

    def __call__(self, groups: int, budget: Budget) -> dict[str, Any]:
        """Measure; takes about 0.1 s on devices that launch within some microseconds.

        Returned are readings for a row of a record, microseconds with a sample per repeat:

        - `enqueue_time`: the host, for each plain launch with three arguments that does not wait.
        - `gap_time`: the device, from the end of one launch's work to the start of the next one's, both enqueued before: by
          their events, with the duration of an empty launch. If those have no times, by launches of some work and of twice as
          much.
        - `launch_time`: a plain launch that does nothing, from its call to the end of a wait for it.
        - `grid_time`: the same for a launch with a grid that enters it and meets at no barrier.
        - `check_time`: a word set by the host, a launch that does nothing, and the word read by the host.
        """
        total = (groups * self._local[0],)
        rounds = self._long_enough(total)
        sides: dict[str, Callable[[], float]] = {
            "enqueue": lambda: self._in_a_row(total, 0)[0],
            "gap": partial(self._gap, total, rounds),
            "launch": partial(self._timed, lambda: self._work(total, 0).wait()),
            "grid": partial(self._timed, lambda: self._enter(groups).wait()),
            "check": partial(self._timed, partial(self._checked, total)),
        }
        for side in sides.values():
            side()
        taken = in_turns(sides, _REPEATS, least=_LEAST_REPEATS, budget=budget)
        return {f"{name}_time": time_reading(times, "us") for name, times in taken.items()}

    def _work(self, total: tuple[int], rounds: int, queue: cl.CommandQueue | None = None) -> Any:
        return self._kernel(queue or self._queue, total, self._local, self._out, np.uint32(rounds), np.uint32(0))

    def _enter(self, groups: int) -> Any:
        return self._grid(self._queue, None, self._local, self._out, np.uint32(0), num_groups=groups)

    def _checked(self, total: tuple[int]) -> None:
        cl.enqueue_copy(self._queue, self._out, self._word, is_blocking=False)
        self._work(total, 0)
        cl.enqueue_copy(self._queue, self._word, self._out)

    @staticmethod
    def _timed(call: Callable[[], Any]) -> float:
        start = perf_counter()
        call()
        return (perf_counter() - start) * 1e6

    def _gap(self, total: tuple[int], rounds: int) -> float:
        events = [self._work(total, rounds, self._profiled).event for _ in range(_LAUNCHES)]
        self._profiled.finish()
        empty = [self._work(total, 0, self._profiled).event for _ in range(_EMPTY)]
        self._profiled.finish()
        try:
            pauses = [after.profile.start - before.profile.end for before, after in pairwise(events)]
            durations = [event.profile.end - event.profile.start for event in empty]
        except cl.Error:
            pauses = durations = [-1]
        if min(pauses) >= 0 and min(durations) >= 0 and max(durations) > 0:
            return float(statistics.median(pauses) + statistics.median(durations)) * 1e-3
        # Each launch takes its work and the gap, so that twice the shorter ones hold one gap more than the longer ones.
        return max(0.0, 2 * self._in_a_row(total, rounds)[1] - self._in_a_row(total, 2 * rounds)[1])

    def _in_a_row(self, total: tuple[int], rounds: int) -> tuple[float, float]:
        """Microseconds per launch of so much work, of several that were enqueued at once: of the host, and to their end."""
        start = perf_counter()
        for _ in range(_LAUNCHES):
            self._work(total, rounds)
        enqueued = perf_counter()
        self._queue.finish()
        return (enqueued - start) * 1e6 / _LAUNCHES, (perf_counter() - start) * 1e6 / _LAUNCHES

    def _long_enough(self, total: tuple[int]) -> int:
        """Rounds that keep the device busy for longer than the host takes to enqueue the next launch."""
        self._in_a_row(total, 0)
        wanted = _LONGER * min(self._in_a_row(total, 0)[0] for _ in range(3))
        rounds, most = min(64, max(1, self._most // 2)), max(1, self._most // 2)
        while self._in_a_row(total, rounds)[1] < wanted and rounds < most:
            rounds = min(2 * rounds, most)
        return rounds
