"""The measurements of a survey that run the device hard, as tasks for a child process.

Each reports what it is about to do and its rows as it goes, so that a driver's abort or hang costs what was not yet
measured, and nothing else. Each keeps to a time budget by itself: what it had no time for is marked so.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

import numpy as np
import pyopencl as cl

from portbar import child, quirks
from portbar.benching import ALGORITHMS, BarrierTimer, Relaunch, default_counts, device_s, profiled_queue
from portbar.device import DeviceAddress
from portbar.errors import Error
from portbar.kernel import Kernel
from portbar.profile import describe
from portbar.program import Program
from portbar.strategy import choose
from portbar.survey.plan import Cell, barrier_sizes, occupancy_cells
from portbar.timing import is_cpu

#: A kernel whose local memory is the caller's to choose. It is only ever run dry.
_SOURCE: Final = """
#include "portbar/device_barrier.h"
kernel void survey(PORTBAR_GRID_PARAM, local uint *scratch, uint rounds)
{
    PORTBAR_ENTER(grid);
    for (uint r = 0; r < rounds; ++r) {
        scratch[0] = r;
        portbar_device_barrier(&grid);
    }
}
"""

_NO_TIME: Final = "no time was left"

#: Seconds that one timed launch should take, and launches of each algorithm and group count.
_LAUNCH_S: Final = (0.002, 0.02)
_LEAST_REPEATS: Final = 3
_MOST_REPEATS: Final = 15


class _Clock:
    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        return self._end - time.monotonic()

    def part(self, share: float) -> _Clock:
        """A clock for this share of what is left."""
        return _Clock(max(0.0, self.left() * share))


def _context(payload: Mapping[str, Any]) -> cl.Context:
    """A context for the device; to be kept, since a queue does not keep its context alive on every runtime."""
    return cl.Context([DeviceAddress.from_json(payload["address"]).resolve()])


def _largest(program: Program, queue: cl.CommandQueue, name: str) -> int:
    """Most work-items that a work-group of a kernel can have."""
    device = queue.device
    if quirks.has_effect(quirks.UNDERSTATED_WORK_GROUP_SIZE, program.profile(device).facts):
        return int(device.max_work_group_size)
    kernel = cl.Kernel(program.built(device, program.strategy(device)), name)
    return int(kernel.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, device))


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:400]


def occupancy_task(payload: dict[str, Any]) -> dict[str, Any]:
    """Occupancy by lock kind, with and without patience, over local sizes and local memory; one row a cell.

    Payload: `address`, `quick`, `budget_s`. Rows: `local_size` (work-items), `local_bytes`, `lock`, `patience` (bool),
    `launched` (work-groups), `found` (work-groups, one number a run), `times_us` (device time of each
    launch, wall-clock time where the device tells none),
    `vendor_bound` (work-groups, or None); `reason` where something was refused, `partial` where time ran out.

    Returns
    -------
    dict
        `skipped`: cells that there was no time for.
    """
    clock = _Clock(float(payload["budget_s"]))
    context = _context(payload)
    queue = profiled_queue(cl.CommandQueue(context))
    profile = describe(queue.device)
    measure = _OccupancyCells(queue, is_cpu(profile))
    cells = occupancy_cells(
        profile, quick=bool(payload["quick"]), largest=measure.largest(), max_groups=choose(profile).max_groups
    )
    skipped = 0
    for index, cell in enumerate(cells):
        row: dict[str, Any] = {
            "local_size": cell.local_size,
            "local_bytes": cell.local_bytes,
            "lock": cell.lock,
            "patience": cell.patience,
        }
        if index and clock.left() <= 0:
            skipped += 1
            child.progress({"row": {**row, "found": [], "reason": _NO_TIME, "partial": True}})
            continue
        how = "with" if cell.patience else "without"
        child.progress({"doing": f"the {cell.lock} lock {how} patience, work-groups of {cell.local_size}"})
        try:
            row |= measure(cell, clock)
        except (Error, cl.Error) as error:
            row |= {"found": [], "reason": _in_one_line(error)}
        child.progress({"row": row})
    return {"skipped": skipped}


class _OccupancyCells:
    """Measures cells on one queue; kernels and bounds are kept from one to the next."""

    def __init__(self, queue: cl.CommandQueue, cpu: bool) -> None:
        self._queue = queue
        self._cpu = cpu
        self._kernels: dict[str, Kernel] = {}

    def _kernel(self, lock: str) -> Kernel:
        if lock not in self._kernels:
            program = Program(self._queue.context, _SOURCE, strategy={"discovery": lock, "device_barrier": "counter"})
            self._kernels[lock] = program.kernel("survey")
        return self._kernels[lock]

    def largest(self) -> int:
        """Most work-items that a work-group of the kernel can have."""
        kernel = self._kernel("packed")
        return _largest(kernel.program, self._queue, kernel.name)

    def __call__(self, cell: Cell, clock: _Clock) -> dict[str, Any]:
        local, scratch, rounds = (cell.local_size,), cl.LocalMemory(cell.local_bytes), np.uint32(0)
        # How many to launch comes from the lock that scales; each lock is then asked to find them.
        bound = self._kernel("packed").occupancy(self._queue, local, scratch, rounds)
        launched = bound.groups if self._cpu else 2 * bound.groups
        kernel = self._kernel(cell.lock)
        found: list[int] = []
        times: list[float] = []
        row: dict[str, Any] = {
            "launched": launched,
            "occupancy": bound.groups,
            "vendor_bound": bound.vendor_bound,
            "found": found,
            "times_us": times,
        }
        for run in range(cell.runs):
            if run and clock.left() <= 0:
                row["partial"] = True
                break
            start = time.perf_counter()
            launch = kernel.discover(
                self._queue, local, launched, scratch, rounds, patience=None if cell.patience else 0.0
            )
            found.append(launch.num_groups)
            times.append(round(device_s(launch.event, time.perf_counter() - start) * 1e6, 3))
        return row


def barrier_task(payload: dict[str, Any]) -> dict[str, Any]:
    """Time of a device barrier for each algorithm and group count, beside relaunching an empty kernel.

    Payload: `address`, `budget_s`, and `local_sizes` unless the usual ones are meant. Rows: `algorithm`, `groups`,
    `local_size`, `rounds` (barriers a launch), `samples_us` (microseconds a barrier, one number a launch), `us` (their median,
    or None), `relaunch_samples_us`, `relaunch_us`; `note` where there is no time, `partial` where time ran out.

    Returns
    -------
    dict
        `skipped`: rows that there was no time for.
    """
    clock = _Clock(float(payload["budget_s"]))
    context = _context(payload)
    queue = profiled_queue(cl.CommandQueue(context))
    sizes: Sequence[int] | None = payload.get("local_sizes")
    if not sizes:
        timer = BarrierTimer(queue, 1, {"device_barrier": ALGORITHMS[0]})
        sizes = barrier_sizes(describe(queue.device), _largest(timer.program, queue, timer.kernel.name))
    skipped = 0
    for index, local_size in enumerate(sizes):
        skipped += _Barriers(queue, int(local_size)).run(clock.part(1 / (len(sizes) - index)))
    return {"skipped": skipped}


class _Barriers:
    """Times the algorithms at one local size, in turns, so that a busy machine is unfair to none."""

    def __init__(self, queue: cl.CommandQueue, local_size: int) -> None:
        self._queue = queue
        self._local = local_size
        self._notes: dict[str, str] = {}
        self._late: set[str] = set()
        self._failed: dict[str, str] = {}

    def run(self, clock: _Clock) -> int:
        """Report rows for every group count, the largest first; the number of rows that there was no time for."""
        timers: dict[str, BarrierTimer] = {}
        bounds: dict[str, int] = {}
        compiling = clock.part(0.6)
        for name in ALGORITHMS:
            if timers and compiling.left() <= 0:
                self._late.add(name)
                continue
            child.progress({"doing": f"compiling {name} for work-groups of {self._local}"})
            try:
                timer = BarrierTimer(self._queue, self._local, {"device_barrier": name})
                bounds[name] = timer.bound
            except (Error, cl.Error) as error:
                self._notes[name] = _in_one_line(error)
                continue
            timers[name] = timer
        counts = default_counts(max(bounds.values(), default=1))
        skipped = 0
        for done, groups in enumerate(reversed(counts)):
            share = clock.part(1 / (len(counts) - done))
            late = bool(done) and clock.left() <= 0
            able = {} if late else {name: timers[name] for name, bound in bounds.items() if bound >= groups}
            skipped += self._report(groups, self._measure(able, groups, share), late, bounds)
        return skipped

    def _measure(self, timers: Mapping[str, BarrierTimer], groups: int, clock: _Clock) -> dict[str, Any]:
        """Samples of all algorithms at one group count, by name, and those of relaunching under an empty name."""
        if not timers:
            return {}
        child.progress({"doing": f"barriers between {groups} work-groups of {self._local}"})
        self._failed = {}
        relaunch = Relaunch(self._queue, groups, self._local)
        samples: dict[str, list[float]] = {"": []}
        rounds: dict[str, int] = {}
        seconds = max(_LAUNCH_S[0], min(_LAUNCH_S[1], clock.left() / (len(timers) * (_MOST_REPEATS + 8))))
        for name, timer in timers.items():
            try:
                rounds[name] = timer.rounds_for(groups, seconds)
                samples[name] = []
            except (Error, cl.Error) as error:
                self._failed[name] = _in_one_line(error)
        # A simulator takes milliseconds to launch a kernel.
        launches = max(8, min(200, int(2e6 * seconds / relaunch.sample_us(8))))
        for repeat in range(_MOST_REPEATS):
            if repeat >= _LEAST_REPEATS and clock.left() <= 0:
                break
            samples[""].append(round(relaunch.sample_us(launches), 4))
            order = list(rounds)
            start = repeat % len(order) if order else 0
            for name in order[start:] + order[:start]:
                try:
                    us = self._sample(timers[name], groups, rounds, samples, seconds)
                except (Error, cl.Error) as error:
                    self._failed[name] = _in_one_line(error)
                    del rounds[name], samples[name]
                    continue
                if us is not None:
                    samples[name].append(round(us, 5))
        return {"samples": samples, "rounds": rounds}

    def _sample(
        self,
        timer: BarrierTimer,
        groups: int,
        rounds: dict[str, int],
        samples: dict[str, list[float]],
        seconds: float,
    ) -> float | None:
        """One sample; on the way, rounds are raised where a busy machine made the first estimate far too low."""
        name = timer.algorithm(groups)
        while True:
            us = timer.sample_us(groups, rounds[name])
            if us is None or rounds[name] >= timer.most_rounds or us * rounds[name] >= seconds * 1e6 / 4:
                return us
            # In so short a launch starting the groups takes most of the time: earlier samples say nothing of barriers.
            rounds[name] = min(timer.most_rounds, max(2 * rounds[name], int(seconds * 1e6 / max(us, 1e-3))))
            samples[name].clear()

    def _report(self, groups: int, measured: dict[str, Any], late: bool, bounds: Mapping[str, int]) -> int:
        samples: dict[str, list[float]] = measured.get("samples", {})
        again = samples.get("", [])
        skipped = 0
        for name in ALGORITHMS:
            taken = samples.get(name, [])
            row: dict[str, Any] = {
                "algorithm": name,
                "groups": groups,
                "local_size": self._local,
                "rounds": measured.get("rounds", {}).get(name),
                "samples_us": taken,
                "us": median(taken) if taken else None,
                "relaunch_samples_us": again,
                "relaunch_us": median(again) if again else None,
            }
            if not taken:
                row["note"] = self._why_not(name, groups, late, bounds)
            if row.get("note") == _NO_TIME:
                row["partial"] = True
                skipped += 1
            child.progress({"row": row})
        return skipped

    def _why_not(self, name: str, groups: int, late: bool, bounds: Mapping[str, int]) -> str:
        if late or name in self._late:
            return _NO_TIME
        if name in self._notes:
            return self._notes[name]
        if groups > bounds[name]:
            return f"the device holds {bounds[name]} work-groups of {self._local} at once"
        return self._failed.get(name) or f"discovery never found all {groups} work-groups"
