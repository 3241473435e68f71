"""Times barriers inside kernels, beside relaunching, and condenses the times into a table for `choose`.

Not for printing (`portbar.cli`), and not for what a device can or cannot do (`portbar.survey.measuring.probe`).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import pyopencl as cl

from portbar.choices import profile
from portbar.device.findings import BarrierTable, Findings
from portbar.errors import Error, UnsupportedFeatureError
from portbar.launching.build import compile_program
from portbar.launching.program import Program
from portbar.primitives.grid import bounded
from portbar.records.reading import measured, missing, samples_of, value_of
from portbar.survey.measuring.launches import LaunchTimer, LaunchTimes
from portbar.survey.measuring.rounds import (
    NO_TIME,
    Budget,
    device_s,
    in_one_line,
    in_turns,
    most_rounds,
    profiled_queue,
    rounds_for,
)

#: How much faster than a simpler algorithm another one must be to replace it.
ADVANTAGE: Final = 0.03

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

#: Seconds that one timed launch should take, and launches of each algorithm and group count.
_LAUNCH_S: Final = (0.002, 0.020)
_LEAST_REPEATS: Final = 3
_MOST_REPEATS: Final = 15
#: Iterations that one round may take in a kernel with a limit of them.
_ITERATIONS: Final = 8

#: How relaunching is called among the barrier algorithms that it is measured beside.
_RELAUNCH: Final = ""

#: Seconds that a barrier may take: two orders of magnitude above a time slice, so that a busy machine is not a fault.
_SPIN_LIMIT_S: Final = 2.0


@dataclass(frozen=True)
class BarrierTime:
    """Time of one device barrier inside a kernel; as a dict, a row of a survey's `barrier` step.

    Attributes
    ----------
    algorithm : str
    groups : int
        Work-groups that met.
    local_size : int
        Work-items in each.
    us : float or None
        Microseconds per barrier, the median of the samples; None if it could not be measured.
    samples_us : tuple of float
        Microseconds per barrier, one number per launch.
    relaunch_us : float or None
        Microseconds to relaunch an empty kernel of that size, measured alternately with the barrier; the median.
    relaunch_samples_us : tuple of float
    rounds : int or None
        Barriers in each launch.
    launches : LaunchTimes or None
        What launches of that shape cost beside their work, by which `portbar.advise` predicts.
    note : str
        Why no time was measured; empty if one was.
    status : str
        The status in a record: `unsupported`, `error` or `skipped`; empty if a time was measured.
    """

    algorithm: str
    groups: int
    local_size: int
    us: float | None
    samples_us: tuple[float, ...] = ()
    relaunch_us: float | None = None
    relaunch_samples_us: tuple[float, ...] = ()
    rounds: int | None = None
    note: str = ""
    status: str = ""
    launches: LaunchTimes | None = None

    @property
    def partial(self) -> bool:
        """Whether there is no time because the budget was spent."""
        return self.note == NO_TIME

    def to_row(self) -> dict[str, Any]:
        """The times as readings, in a row of JSON values."""
        why = (self.status or "error", self.note or "it was not measured")
        again = measured(self.relaunch_us, "us", self.relaunch_samples_us) if self.relaunch_us is not None else None
        return {
            "algorithm": self.algorithm,
            "groups": self.groups,
            "local_size": self.local_size,
            "rounds": self.rounds,
            "barrier_time": measured(self.us, "us", self.samples_us) if self.us is not None else missing(*why),
            "relaunch_time": again or missing(*why),
            **(self.launches.to_readings() if self.launches is not None else {}),
        }

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> BarrierTime:
        """Read what `to_row` made; members that a record has beside are left out."""
        barrier, again = row["barrier_time"], row.get("relaunch_time")
        return cls(
            row["algorithm"],
            row["groups"],
            row["local_size"],
            value_of(barrier),
            tuple(samples_of(barrier)),
            value_of(again),
            tuple(samples_of(again)),
            row.get("rounds"),
            barrier.get("reason", ""),
            barrier.get("status", ""),
            LaunchTimes.from_row(row),
        )


class BarrierTimer:
    """Launches that do nothing but meet at a barrier, for one strategy, group count and local size.

    Parameters
    ----------
    queue : pyopencl.CommandQueue
        With profiling enabled, the device's own time is taken.
    local_size : int
    strategy : mapping of str to str, optional
        Overrides, such as ``{"device_barrier": "tree"}``.
    source : str, optional
        Another program with a kernel of the same name and parameters that leaves the same number.
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

        Raises
        ------
        BarrierTimeoutError
            A barrier gave up.
        Error
            The device ended the loop early.
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
        """Microseconds a barrier in one launch; None when discovery did not find all of the groups."""
        seconds = self.launch_s(groups, rounds)
        return None if seconds is None else seconds * 1e6 / rounds


class BarrierSamples:
    """Times of one barrier at one group count, from launches so long that starting the groups does not count.

    Parameters
    ----------
    timer : BarrierTimer
    groups : int
    seconds : float
        How long one launch should take.
    most_rounds : int, optional
        Most barriers in one launch, below the timer's own limit.

    Attributes
    ----------
    us : list of float
        Microseconds per barrier, one number per launch, all of launches with `rounds` barriers.
    rounds : int
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

    Parameters
    ----------
    queue : pyopencl.CommandQueue
        A queue on the same context and device is used, without profiling, since events with time stamps cost extra.
    groups, local_size : int
    """

    def __init__(self, queue: cl.CommandQueue, groups: int, local_size: int) -> None:
        self._queue = cl.CommandQueue(queue.context, queue.device)
        self._kernel = cl.Kernel(compile_program(queue.context, queue.device, _EMPTY_SOURCE, ()), "portbar_empty")
        self._sizes = ((groups * local_size,), (local_size,))
        self.sample_us(8)

    def sample_us(self, launches: int = 200) -> float:
        """Return microseconds per launch: that many enqueues in a row and one finish, divided by their number."""
        queue, kernel, (total, local) = self._queue, self._kernel, self._sizes
        start = time.perf_counter()
        for _ in range(launches):
            cl.enqueue_nd_range_kernel(queue, kernel, total, local)
        queue.finish()
        return (time.perf_counter() - start) * 1e6 / launches


def default_counts(bound: int) -> tuple[int, ...]:
    """Group counts worth measuring on a device that holds `bound`: powers of two, and the bound itself."""
    return tuple(sorted({1 << i for i in range(bound.bit_length())} | {bound}))


def time_barriers(
    queue: cl.CommandQueue,
    algorithms: Sequence[str] | None = None,
    group_counts: Sequence[int] | None = None,
    local_sizes: Sequence[int] = (1,),
    *,
    budget_s: float,
    on_step: Callable[[str], None] = lambda _: None,
    on_row: Callable[[BarrierTime], None] = lambda _: None,
) -> list[BarrierTime]:
    """Time one device barrier for each algorithm and group count, in turns, so that a busy machine is unfair to none.

    Parameters
    ----------
    queue : pyopencl.CommandQueue
        Names context and device; the launches go to queues of their own.
    algorithms : sequence of str, optional
        By default those with a spin limit. `intel_device_barrier` has none, and was seen to hang.
    group_counts : sequence of int, optional
        By default the powers of two up to the device's bound, and the bound. Those above it are noted, not launched.
    local_sizes : sequence of int
        Measured one after the other; the budget is shared out among them.
    budget_s : float
        Seconds that the measurement may take, compiling included. The first samples are taken even if it is spent.
    on_step : callable, optional
        Called with what is done next, in words.
    on_row : callable, optional
        Called with each time as soon as it is known, the largest group count of a local size first.

    Returns
    -------
    list of BarrierTime
        One for each local size, group count and algorithm, in that order.

    Raises
    ------
    UnsupportedFeatureError
        The device cannot hold any barrier.
    """
    budget, times = Budget(budget_s), []
    for index, local_size in enumerate(local_sizes):
        turns = _Turns(profiled_queue(queue), algorithms or bounded(), local_size, on_step)
        times += turns.run(group_counts, budget.part(1 / (len(local_sizes) - index)), on_row)
    return times


class _Turns:
    """Times the algorithms at one local size, in turns."""

    def __init__(
        self, queue: cl.CommandQueue, algorithms: Sequence[str], local_size: int, on_step: Callable[[str], None]
    ) -> None:
        self._queue, self._algorithms, self._local, self._on_step = queue, algorithms, local_size, on_step
        self._timers: dict[str, BarrierTimer] = {}
        self._bounds: dict[str, int] = {}
        #: Algorithms that have no times at this local size -> why not.
        self._refused: dict[str, str] = {}
        #: Those of them that portbar refuses the device.
        self._unsupported: set[str] = set()
        self._tried = False
        self._launch_timer: LaunchTimer | None = None
        self._launches: dict[int, LaunchTimes] = {}

    def run(
        self, group_counts: Sequence[int] | None, budget: Budget, on_row: Callable[[BarrierTime], None]
    ) -> list[BarrierTime]:
        """Measure every group count, the largest first, and return the times with the smallest first."""
        self._compile(budget.part(0.6))
        counts = default_counts(max(self._bounds.values(), default=1)) if group_counts is None else group_counts
        times: list[BarrierTime] = []
        descending = sorted(set(counts), reverse=True)
        for done, groups in enumerate(descending):
            late = self._tried and budget.left() <= 0
            found = self._count(groups, late, budget.part(1 / (len(descending) - done)))
            for row in found:
                on_row(row)
            times = found + times
        return times

    def _compile(self, budget: Budget) -> None:
        errors: list[Error] = []
        for name in self._algorithms:
            if self._timers and budget.left() <= 0:
                self._refused[name] = NO_TIME
                continue
            self._on_step(f"compiling {name} for work-groups of {self._local}")
            try:
                timer = BarrierTimer(self._queue, self._local, {"device_barrier": name})
            except Error as error:
                errors.append(error)
                self._refused[name] = in_one_line(error)
                if isinstance(error, UnsupportedFeatureError):
                    self._unsupported.add(name)
                continue
            try:
                self._bounds[name] = timer.bound
                self._timers[name] = timer
            except (Error, cl.Error) as error:
                self._refused[name] = in_one_line(error)
        if errors and len(errors) == len(self._algorithms):
            raise errors[-1]

    def _count(self, groups: int, late: bool, budget: Budget) -> list[BarrierTime]:
        """Times of all algorithms at one group count."""
        notes = dict(self._refused)
        above = {name for name, bound in self._bounds.items() if groups > bound}
        unsupported = above | self._unsupported
        for name, bound in self._bounds.items():
            if name in above:
                notes[name] = f"the device runs {bound} work-groups of {self._local} concurrently"
            elif late:
                notes[name] = NO_TIME
        able = [name for name in self._timers if name not in notes]
        relaunches: list[float] = []
        samples = self._sample(able, groups, budget, relaunches, notes) if able else {}
        times = []
        for name in self._algorithms:
            known = samples.get(name)
            us = tuple(round(one, 5) for one in known.us) if known is not None else ()
            note = "" if us else notes.get(name) or f"discovery never found all {groups} work-groups"
            status = "" if us else "skipped" if note == NO_TIME else "unsupported" if name in unsupported else "error"
            times.append(
                BarrierTime(
                    name,
                    groups,
                    self._local,
                    statistics.median(us) if us else None,
                    us,
                    statistics.median(relaunches) if relaunches else None,
                    tuple(relaunches),
                    known.rounds if known is not None else None,
                    note,
                    status,
                    self._launches.get(groups) if us else None,
                )
            )
        return times

    def _sample(
        self, names: Sequence[str], groups: int, budget: Budget, relaunches: list[float], notes: dict[str, str]
    ) -> dict[str, BarrierSamples]:
        """Samples by algorithm; what fails is left out and gets a note. Those of relaunching are added to `relaunches`."""
        self._tried = True
        self._on_step(f"barriers between {groups} work-groups of {self._local}")
        relaunch = Relaunch(self._queue, groups, self._local)
        least, most = _LAUNCH_S
        seconds = max(least, min(most, budget.left() / (len(names) * (_MOST_REPEATS + 8))))
        samples: dict[str, BarrierSamples] = {}
        for name in names:
            try:
                samples[name] = BarrierSamples(self._timers[name], groups, seconds)
            except (Error, cl.Error) as error:
                notes[name] = in_one_line(error)
        # A simulator takes milliseconds to launch a kernel.
        launches = max(8, min(200, int(2e6 * seconds / relaunch.sample_us(8))))
        sides: dict[str, Callable[[], float | None]] = {_RELAUNCH: partial(relaunch.sample_us, launches)}
        sides |= {name: one.take for name, one in samples.items()}

        def failed(side: str, error: Exception) -> None:
            if side == _RELAUNCH:
                raise error
            notes[side] = in_one_line(error)
            del samples[side]

        taken = in_turns(sides, _MOST_REPEATS, least=_LEAST_REPEATS, budget=budget, failed=failed)
        relaunches += [round(us, 4) for us in taken[_RELAUNCH] if us is not None]
        if samples:
            self._time_launches(self._timers[next(iter(samples))], groups, budget)
        return samples

    def _time_launches(self, timer: BarrierTimer, groups: int, budget: Budget) -> None:
        """Keep what launches of this shape cost; a device that fails at it has its barrier times all the same."""
        try:
            if self._launch_timer is None:
                self._launch_timer = LaunchTimer(self._queue, timer.kernel, self._local, timer.most_rounds)
            self._launches[groups] = self._launch_timer(groups, budget)
        except (Error, cl.Error):
            self._launches.pop(groups, None)


def barrier_table(times: Iterable[BarrierTime]) -> BarrierTable:
    """Condense times to a table: for each local size, from which group count on which algorithm is the one to take.

    An algorithm replaces a simpler one only where it is faster by more than `ADVANTAGE`, so that noise does not decide.

    Returns
    -------
    tuple of (int, int, str)
        Local size, group count, algorithm; only entries where the algorithm changes, as in `Findings.barrier_table`. Empty
        without times.
    """
    measured: dict[tuple[int, int], dict[str, float]] = {}
    for entry in times:
        if entry.us is not None and entry.algorithm in bounded():
            measured.setdefault((entry.local_size, entry.groups), {})[entry.algorithm] = entry.us
    table: list[tuple[int, int, str]] = []
    for (local_size, groups), found in sorted(measured.items()):
        names = [name for name in bounded() if name in found]
        best = names[0]
        for name in names[1:]:
            if found[name] < found[best] * (1 - ADVANTAGE):
                best = name
        if not table or table[-1][0] != local_size or table[-1][2] != best:
            table.append((local_size, groups, best))
    return tuple(table)


def store_table(device: cl.Device, table: BarrierTable) -> Findings:
    """Put a barrier table into the cached findings of a device, so that the next `describe` returns it.

    Raises
    ------
    Error
        The device was never probed on this machine, so it has no findings to add the table to.
    """
    return profile.change_findings(device, "a barrier table", lambda found: replace(found, barrier_table=table))
