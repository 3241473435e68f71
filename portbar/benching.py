"""Times barriers inside kernels, beside relaunching, and condenses the times into a table for `choose`.

Not for printing (`portbar.cli`), and not for what a device can or cannot do (`portbar.probing`).
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyopencl as cl

from portbar import profile
from portbar.errors import Error
from portbar.findings import Findings
from portbar.program import Program

#: Barrier algorithms that a table may name, the simplest first; not `intel_device_barrier`, which has no spin limit.
ALGORITHMS: Final = ("counter", "counter_backoff", "sharded", "flag", "tree", "xf")

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

_LAUNCH_S: Final = (0.005, 0.020)
_LEAST_REPEATS: Final = 3
_MOST_REPEATS: Final = 15
_MOST_ROUNDS: Final = 1 << 20

#: Seconds a barrier may take: two orders of magnitude above a time slice, so that a busy machine is no fault.
_SPIN_LIMIT_S: Final = 2.0


@dataclass(frozen=True)
class BarrierTime:
    """Time of one device barrier inside a kernel.

    Attributes
    ----------
    algorithm : str
    groups : int
        Work-groups that met.
    local_size : int
        Work-items in each.
    us : float or None
        Microseconds a barrier, the median of the samples; None where it could not be measured.
    samples : int
        Launches that the median is taken over.
    relaunch_us : float or None
        Microseconds to relaunch an empty kernel of that size, measured in turns with the barrier.
    rounds : int
        Barriers in each launch.
    note : str
        Why there is no time; empty where there is one.
    """

    algorithm: str
    groups: int
    local_size: int
    us: float | None
    samples: int = 0
    relaunch_us: float | None = None
    rounds: int = 0
    note: str = ""


class BarrierTimer:
    """Launches that do nothing but meet at a barrier, for one strategy, group count and local size.

    Parameters
    ----------
    queue : pyopencl.CommandQueue
        With profiling enabled, the device's own time is taken.
    local_size : int
    strategy : mapping of str to str, optional
        Overrides, such as ``{"device_barrier": "tree"}``.
    """

    def __init__(self, queue: cl.CommandQueue, local_size: int, strategy: Mapping[str, str] | None = None) -> None:
        self.queue = queue
        self.local_size = local_size
        self.program = Program(
            queue.context, BARRIER_SOURCE, strategy=strategy, spin_limit=_SPIN_LIMIT_S, devices=[queue.device]
        )
        self.kernel = self.program.kernel("portbar_bench")
        found = self.program.profile(queue.device).findings
        limit = found.loop_limit if found is not None else None
        self.most_rounds = min(_MOST_ROUNDS, limit // 8) if limit is not None else _MOST_ROUNDS
        self._passed = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 4)
        self._answer = np.zeros(1, np.uint32)

    @property
    def bound(self) -> int:
        """Work-groups that the device holds at once."""
        return self.kernel.occupancy(self.queue, (self.local_size,)).groups

    def algorithm(self, groups: int) -> str:
        """The barrier algorithm that serves `groups` work-groups."""
        return self.program.strategy(self.queue.device).for_groups(groups).device_barrier.value

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
            raise Error(f"{self._answer[0]} of {rounds} rounds were run: the device ends loops early")
        return device_s(launch.event, wall)

    def rounds_for(self, groups: int, seconds: float) -> int:
        """Rounds that make one launch take about `seconds`."""
        rounds, taken = min(8, self.most_rounds), math.inf
        for _ in range(16):
            # One launch may have been kept off a core for far longer than it ran.
            taken = min(self.launch_s(groups, rounds) or math.inf for _ in range(3))
            if seconds / 8 <= taken < math.inf or rounds >= self.most_rounds:
                break
            rounds = min(rounds * 4, self.most_rounds)
        return max(1, min(self.most_rounds, int(rounds * seconds / max(taken, 1e-7)))) if taken < math.inf else rounds

    def sample_us(self, groups: int, rounds: int) -> float | None:
        """Microseconds a barrier in one launch; None when discovery did not find all of the groups."""
        seconds = self.launch_s(groups, rounds)
        return None if seconds is None else seconds * 1e6 / rounds


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
        self._kernel = cl.Kernel(
            cl.Program(queue.context, _EMPTY_SOURCE).build(devices=[queue.device]), "portbar_empty"
        )
        self._sizes = ((groups * local_size,), (local_size,))
        self.sample_us(8)

    def sample_us(self, launches: int = 200) -> float:
        """Microseconds a launch: that many enqueues in a row and one finish, divided by their number."""
        queue, kernel, (total, local) = self._queue, self._kernel, self._sizes
        start = time.perf_counter()
        for _ in range(launches):
            cl.enqueue_nd_range_kernel(queue, kernel, total, local)
        queue.finish()
        return (time.perf_counter() - start) * 1e6 / launches


def relaunch_us(
    queue: cl.CommandQueue, groups: int = 1, local_size: int = 1, *, launches: int = 200, repeats: int = 5
) -> float:
    """Microseconds to relaunch an empty kernel through plain PyOpenCL: the median of `repeats` loops of enqueues."""
    relaunch = Relaunch(queue, groups, local_size)
    return statistics.median(relaunch.sample_us(launches) for _ in range(repeats))


def profiled_queue(queue: cl.CommandQueue) -> cl.CommandQueue:
    """A queue on the same device whose events carry time stamps, or a plain one where the device refuses."""
    try:
        return cl.CommandQueue(queue.context, queue.device, properties=cl.command_queue_properties.PROFILING_ENABLE)
    except cl.Error:
        return cl.CommandQueue(queue.context, queue.device)


def device_s(event: cl.Event, wall: float) -> float:
    """Seconds that a finished command ran by its event, or the wall-clock time where its stamps make no sense."""
    try:
        seconds = float(event.profile.end - event.profile.start) * 1e-9
    except cl.Error:
        return wall
    # Rusticl's stamps are a few nanoseconds apart, whatever ran between them.
    return seconds if 1e-7 <= seconds <= wall else wall


def default_counts(bound: int) -> tuple[int, ...]:
    """Group counts worth measuring on a device that holds `bound`: powers of two, and the bound itself."""
    return tuple(sorted({1 << i for i in range(bound.bit_length())} | {bound}))


def time_barriers(
    queue: cl.CommandQueue,
    algorithms: Sequence[str] = ALGORITHMS,
    group_counts: Sequence[int] | None = None,
    local_size: int = 1,
    *,
    budget_s: float,
    strategy_overrides: Mapping[str, str] | None = None,
) -> list[BarrierTime]:
    """Time one device barrier for each algorithm and group count, in turns, so that a busy machine is unfair to none.

    Parameters
    ----------
    queue : pyopencl.CommandQueue
        Names context and device; the launches go to queues of their own.
    algorithms : sequence of str
        `intel_device_barrier` has no spin limit, so it is measured only when asked for.
    group_counts : sequence of int, optional
        By default the powers of two up to the device's bound, and the bound. Those above it are noted, not launched.
    local_size : int
    budget_s : float
        Seconds that the measurement may take, compiling included. The first samples are taken even if it is spent.
    strategy_overrides : mapping of str to str, optional
        Choices for the other primitives, such as ``{"atomics": "cl12"}``.

    Returns
    -------
    list of BarrierTime
        One for each group count and algorithm, in that order.

    Raises
    ------
    UnsupportedFeatureError
        The device cannot hold any barrier.
    """
    deadline = time.perf_counter() + budget_s
    queue = profiled_queue(queue)
    timers: dict[str, BarrierTimer] = {}
    refused: dict[str, str] = {}
    for name in algorithms:
        try:
            timers[name] = BarrierTimer(queue, local_size, {**(strategy_overrides or {}), "device_barrier": name})
        except Error as error:
            if len(refused) + 1 == len(algorithms):
                raise
            refused[name] = str(error)
    bounds = {name: timer.bound for name, timer in timers.items()}
    counts = default_counts(max(bounds.values())) if group_counts is None else tuple(sorted(set(group_counts)))
    times: list[BarrierTime] = []
    for index, groups in enumerate(counts):
        notes = dict(refused)
        for name, bound in bounds.items():
            if groups > bound:
                notes[name] = f"the device holds {bound} work-groups of {local_size} at once"
        able = {name: timer for name, timer in timers.items() if name not in notes}
        now = time.perf_counter()
        if now > deadline and index:
            notes |= dict.fromkeys(able, "no time was left")
            able = {}
        until = now + max(0.0, deadline - now) / (len(counts) - index)
        measured = _measure(queue, able, groups, local_size, until, notes)
        times += [
            measured.get(name) or BarrierTime(name, groups, local_size, None, note=notes[name]) for name in algorithms
        ]
    return times


def _measure(
    queue: cl.CommandQueue,
    timers: Mapping[str, BarrierTimer],
    groups: int,
    local_size: int,
    until: float,
    notes: dict[str, str],
) -> dict[str, BarrierTime]:
    """Times of all algorithms at one group count; what fails is left out and gets a note."""
    if not timers:
        return {}
    relaunch, relaunches = Relaunch(queue, groups, local_size), []
    least, most = _LAUNCH_S
    seconds = (until - time.perf_counter()) / (len(timers) * (_MOST_REPEATS + 2))
    seconds = max(least, min(most, seconds))
    rounds: dict[str, int] = {}
    samples: dict[str, list[float]] = {}
    for name, timer in timers.items():
        try:
            rounds[name] = timer.rounds_for(groups, seconds)
            samples[name] = []
        except Error as error:
            notes[name] = str(error)
    for repeat in range(_MOST_REPEATS):
        if repeat >= _LEAST_REPEATS and time.perf_counter() > until:
            break
        relaunches.append(relaunch.sample_us())
        order = list(samples)
        for name in order[repeat % len(order) :] + order[: repeat % len(order)] if order else []:
            try:
                us = timers[name].sample_us(groups, rounds[name])
            except Error as error:
                notes[name] = str(error)
                del samples[name]
                continue
            if us is not None:
                samples[name].append(us)
    found = {}
    for name, values in samples.items():
        if values:
            found[name] = BarrierTime(
                name,
                groups,
                local_size,
                statistics.median(values),
                len(values),
                statistics.median(relaunches),
                rounds[name],
            )
        else:
            notes[name] = f"discovery never found all {groups} work-groups"
    return found


def barrier_table(times: Iterable[BarrierTime], advantage: float = ADVANTAGE) -> tuple[tuple[int, str], ...]:
    """Condense times to a table: from which group count on which algorithm is the one to take.

    Times of several local sizes count equally. An algorithm replaces a simpler one only where it is faster by more than
    `advantage`, so that noise does not decide.

    Returns
    -------
    tuple of (int, str)
        Only entries where the algorithm changes; as in `Findings.barrier_table`. Empty without times.
    """
    logs: dict[int, dict[str, dict[int, float]]] = {}
    for entry in times:
        if entry.us is not None and entry.algorithm in ALGORITHMS:
            logs.setdefault(entry.groups, {}).setdefault(entry.algorithm, {})[entry.local_size] = math.log(entry.us)
    table: list[tuple[int, str]] = []
    for groups in sorted(logs):
        sizes = {size for values in logs[groups].values() for size in values}
        means = {
            name: statistics.fmean(values.values()) for name, values in logs[groups].items() if set(values) == sizes
        }
        names = [name for name in ALGORITHMS if name in means]
        if not names:
            continue
        best = names[0]
        for name in names[1:]:
            if means[name] < means[best] + math.log1p(-advantage):
                best = name
        if not table or table[-1][1] != best:
            table.append((groups, best))
    return tuple(table)


def store_table(device: cl.Device, table: Iterable[tuple[int, str]]) -> Findings:
    """Put a barrier table into the cached findings of a device, so that the next `describe` tells it.

    Raises
    ------
    Error
        The device was never probed on this machine, so there is nothing to add the table to.
    """
    return profile.change_findings(device, "a barrier table", lambda found: replace(found, barrier_table=tuple(table)))
