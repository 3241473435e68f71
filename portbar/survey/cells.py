"""The measurements of a survey that run the device hard, as tasks for a child process.

Each reports what it is about to do and its rows as it goes, so that a driver's abort or hang costs what was not yet
measured, and nothing else. Each keeps to a time budget by itself: what it had no time for is marked so.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyopencl as cl

from portbar import cache, child, quirks
from portbar.benching import (
    ALGORITHMS,
    NO_TIME,
    BarrierTime,
    BarrierTimer,
    Budget,
    device_s,
    in_one_line,
    profiled_queue,
    time_barriers,
)
from portbar.device import DeviceAddress, device_key, facts
from portbar.errors import Error
from portbar.findings import CACHE_KIND
from portbar.kernel import Kernel
from portbar.profile import describe, stored_findings
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


def _context(payload: Mapping[str, Any]) -> cl.Context:
    """A context for the device; to be kept, since a queue does not keep its context alive on every runtime."""
    device = DeviceAddress.from_json(payload["address"]).resolve()
    reported = facts(device)
    if payload.get("findings") and stored_findings(reported) is None:
        # Where the cache cannot be written, what the parent's probe found has not come here.
        cache.store(CACHE_KIND, device_key(reported), payload["findings"])
    return cl.Context([device])


def _largest(program: Program, queue: cl.CommandQueue, name: str) -> int:
    """Most work-items that a work-group of a kernel can have."""
    device = queue.device
    if quirks.has_effect(quirks.UNDERSTATED_WORK_GROUP_SIZE, program.profile(device).facts):
        return int(device.max_work_group_size)
    kernel = cl.Kernel(program.built(device, program.strategy(device)), name)
    return int(kernel.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, device))


def occupancy_task(payload: dict[str, Any]) -> dict[str, Any]:
    """Occupancy by lock kind, with and without patience, over local sizes and local memory; one row a cell.

    Payload: `address`, `findings`, `quick`, `budget_s`. Rows: `local_size` (work-items), `local_bytes`, `lock`, `patience`
    (bool), `launched` (work-groups), `found` (work-groups, one number a run), `times_us` (device time of each
    launch, wall-clock time where the device tells none),
    `vendor_bound` and `computed_bound` (work-groups, or None), `computed_note` where the computed one is not what was found;
    `reason` where something was refused, `partial` where time ran out.

    Returns
    -------
    dict
        `skipped`: cells that there was no time for.
    """
    clock = Budget(float(payload["budget_s"]))
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
            child.progress({"row": {**row, "found": [], "reason": NO_TIME, "partial": True}})
            continue
        how = "with" if cell.patience else "without"
        child.progress({"doing": f"the {cell.lock} lock {how} patience, work-groups of {cell.local_size}"})
        try:
            row |= measure(cell, clock)
        except (Error, cl.Error) as error:
            row |= {"found": [], "reason": in_one_line(error)}
        child.progress({"row": row})
    return {"skipped": skipped}


#: Why the survey times no barrier without a spin limit: one launch that hangs would cost all that is measured after it.
_UNBOUNDED: Final = (
    "it has no spin limit, so it is timed only when portbar.benching.time_barriers is asked for it by name"
)


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

    def __call__(self, cell: Cell, clock: Budget) -> dict[str, Any]:
        local, scratch, rounds = (cell.local_size,), cl.LocalMemory(cell.local_bytes), np.uint32(0)
        # How many to launch comes from the lock that scales; each lock is then asked to find them.
        bound = self._kernel("packed").occupancy(self._queue, local, scratch, rounds)
        launched = bound.groups if self._cpu else 2 * bound.groups
        most = self._kernel("packed").program.strategy(self._queue.device).max_groups
        launched = launched if most is None else min(launched, most)
        kernel = self._kernel(cell.lock)
        found: list[int] = []
        times: list[float] = []
        row: dict[str, Any] = {
            "launched": launched,
            "occupancy": bound.groups,
            "vendor_bound": bound.vendor_bound,
            "computed_bound": self._kernel("packed").computed_bound(self._queue.device, local, cell.local_bytes),
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
        computed, best = row["computed_bound"], max(bound.groups, *found)
        if computed is not None and computed != best:
            row["computed_note"] = (
                f"found {best}: other work on the device takes its share, or the driver divides its local memory otherwise"
                if best < computed
                else f"found {best}: the limits of this device that portbar computes with are too small"
            )
        return row


def barrier_task(payload: dict[str, Any]) -> dict[str, Any]:
    """Time of a device barrier for each algorithm and group count, beside relaunching an empty kernel.

    Payload: `address`, `findings`, `budget_s`, and `local_sizes` unless the usual ones are meant. Rows: `algorithm`, `groups`,
    `local_size`, `rounds` (barriers a launch), `samples_us` (microseconds a barrier, one number a launch), `us` (their median,
    or None), `relaunch_samples_us`, `relaunch_us`; `note` where there is no time, `partial` where time ran out.

    Returns
    -------
    dict
        `skipped`: rows that there was no time for.
    """
    budget = Budget(float(payload["budget_s"]))
    context = _context(payload)
    queue = profiled_queue(cl.CommandQueue(context))
    sizes: Sequence[int] | None = payload.get("local_sizes")
    if not sizes:
        timer = BarrierTimer(queue, 1, {"device_barrier": ALGORITHMS[0]})
        sizes = barrier_sizes(describe(queue.device), _largest(timer.program, queue, timer.kernel.name))

    def step(doing: str) -> None:
        child.progress({"doing": doing})

    def row(time: BarrierTime) -> None:
        child.progress({"row": time.to_row()})

    times = time_barriers(queue, local_sizes=sizes, budget_s=budget.left(), on_step=step, on_row=row)
    if "cl_intel_concurrent_dispatch" in facts(queue.device).extensions:
        for local_size in sizes:
            most = max(time.groups for time in times if time.local_size == local_size)
            row(BarrierTime("intel_device_barrier", most, local_size, None, note=_UNBOUNDED))
    return {"skipped": sum(time.partial for time in times)}
