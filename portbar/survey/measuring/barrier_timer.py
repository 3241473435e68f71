"""Timers of a barrier between work-groups, and of relaunching an empty kernel, which it replaces."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Final

import numpy as np
import pyopencl as cl

from portbar.errors import Error
from portbar.launching.build import compile_program
from portbar.launching.program import Program
from portbar.survey.measuring.rounds import device_s, most_rounds, rounds_for

BARRIER_SOURCE: Final = """
#include "portbar/device_barrier.h"

kernel void portbar_bench(PORTBAR_GRID_PARAM, global uint *passed, const uint rounds)
{
    PORTBAR_ENTER(grid);
    uint done = 0u;
    for (uint round = 0u; round < rounds && portbar_device_barrier(&grid); ++round)
        ++done;
    if (portbar_global_id(&grid) == 0u)
        passed[0] = done;
}
"""

_EMPTY_SOURCE: Final = "kernel void portbar_empty(void) { }\n"

#: Iterations that one round may take in a kernel with a limit of them.
_ITERATIONS: Final = 8

#: Seconds that a barrier may take: two orders of magnitude above a time slice, so that a busy machine is not a fault.
_SPIN_LIMIT_S: Final = 2.0


class BarrierTimer:
    """Launches that do nothing but meet at a barrier, for one strategy and local size.

    If the queue has profiling enabled, the device's own time is taken. `strategy` has overrides, such as ``{"device_barrier":
    "tree"}``; `source` may be another program, with a kernel of the same name and parameters that leaves the same number.
    """

    def __init__(
        self,
        queue: cl.CommandQueue,
        local_size: int,
        strategy: Mapping[str, str] | None = None,
        source: str = BARRIER_SOURCE,
    ) -> None:
        self.queue = queue
        self.local_size = local_size
        self.program = Program(
            queue.context, source, strategy=strategy, spin_limit=_SPIN_LIMIT_S, devices=[queue.device]
        )
        self.kernel = self.program.kernel("portbar_bench")
        self.most_rounds = most_rounds(self.program.profile(queue.device), _ITERATIONS)
        self._passed = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 4)
        self._answer = np.zeros(1, np.uint32)

    @property
    def bound(self) -> int:
        """Work-groups that the device holds at once."""
        return self.kernel.occupancy(self.queue, (self.local_size,)).groups

    def algorithm(self, groups: int) -> str:
        """The barrier algorithm that serves `groups` work-groups."""
        return self.program.strategy(self.queue.device).for_groups(groups, self.local_size).device_barrier.value

    def launch_s(self, groups: int, rounds: int) -> float | None:
        """Seconds that one launch took; None when discovery did not find all of the groups.

        `BarrierTimeoutError` if a barrier gave up, `Error` if the device ended the loop early.
        """
        start = time.perf_counter()
        launch = self.kernel(self.queue, None, (self.local_size,), self._passed, np.uint32(rounds), num_groups=groups)
        launch.event.wait()
        wall = time.perf_counter() - start
        launch.wait()
        if launch.num_groups != groups:
            return None
        cl.enqueue_copy(self.queue, self._answer, self._passed)
        if int(self._answer[0]) != rounds:
            raise Error(f"{self._answer[0]} of {rounds} rounds ran: the device ends loops early")
        return device_s(launch.event, wall)

    def sample_us(self, groups: int, rounds: int) -> float | None:
        """Microseconds per barrier in one launch; None when discovery did not find all of the groups."""
        seconds = self.launch_s(groups, rounds)
        return None if seconds is None else seconds * 1e6 / rounds


class BarrierSamples:
    """Times of one barrier at one group count, from launches so long that starting the groups does not count.

    A launch should take `seconds`, and has at most `most_rounds` barriers, or the timer's own limit. `us` holds microseconds
    per barrier, one number per launch, all of launches with `rounds` barriers.
    """

    def __init__(self, timer: BarrierTimer, groups: int, seconds: float, most_rounds: int | None = None) -> None:
        self._timer, self._groups, self._seconds = timer, groups, seconds
        self._most = min(timer.most_rounds, most_rounds or timer.most_rounds)
        self.rounds = rounds_for(partial(timer.launch_s, groups), seconds, self._most)
        self.us: list[float] = []

    def take(self) -> float | None:
        """Take one more sample; None when discovery did not find all of the groups.

        Rounds are raised, and the samples so far dropped, where a launch is still far too short: a busy machine wakes threads
        so late that the estimate took their waking for the barriers.
        """
        while True:
            us = self._timer.sample_us(self._groups, self.rounds)
            if us is None:
                return None
            if self.rounds >= self._most or us * self.rounds >= self._seconds * 1e6 / 4:
                self.us.append(us)
                return us
            self.rounds = min(self._most, max(2 * self.rounds, int(self._seconds * 1e6 / max(us, 1e-3))))
            self.us.clear()


class Relaunch:
    """Relaunching an empty kernel through plain PyOpenCL: what a barrier inside a kernel replaces.

    It goes to a queue of its own on the same context and device, without profiling, since events with time stamps cost extra.
    """

    def __init__(self, queue: cl.CommandQueue, groups: int, local_size: int) -> None:
        self._queue = cl.CommandQueue(queue.context, queue.device)
        self._kernel = cl.Kernel(compile_program(queue.context, queue.device, _EMPTY_SOURCE, ()), "portbar_empty")
        self._sizes = ((groups * local_size,), (local_size,))
        self.sample_us(8)

    def sample_us(self, launches: int = 200) -> float:
        """Microseconds per launch: that many enqueues in a row and one finish, divided by their number."""
        queue, kernel, (total, local) = self._queue, self._kernel, self._sizes
        start = time.perf_counter()
        for _ in range(launches):
            cl.enqueue_nd_range_kernel(queue, kernel, total, local)
        queue.finish()
        return (time.perf_counter() - start) * 1e6 / launches
