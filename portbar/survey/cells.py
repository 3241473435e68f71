"""The measurements of a survey that run the device hard, as tasks for a child process.

Each reports its rows as it goes, so that a driver's abort or hang costs what was not yet measured, and nothing else.
"""

from __future__ import annotations

from statistics import median
from typing import Any, Final

import numpy as np
import pyopencl as cl

from portbar import child
from portbar.benching import BarrierTime, barrier_table, store_table, time_barriers
from portbar.device import DeviceAddress
from portbar.errors import Error
from portbar.kernel import Kernel
from portbar.profile import describe
from portbar.program import Program
from portbar.strategy import choose
from portbar.timing import is_cpu

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

#: Local memory that is left to portbar and to the driver when a cell asks for "all" of it.
_RESERVED_BYTES: Final = 2048


def _context(payload: dict[str, Any]) -> tuple[cl.Device, cl.CommandQueue]:
    device = DeviceAddress.from_json(payload["address"]).resolve()
    context = cl.Context([device])
    try:
        queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    except cl.Error:
        queue = cl.CommandQueue(context)
    return device, queue


def _kernel(queue: cl.CommandQueue, lock: str) -> Kernel:
    program = Program(queue.context, _SOURCE, strategy={"discovery": lock, "device_barrier": "counter"})
    return program.kernel("survey")


def _microseconds(event: cl.Event) -> float | None:
    try:
        return float(event.profile.end - event.profile.start) / 1e3
    except cl.Error:
        return None


def occupancy_task(payload: dict[str, Any]) -> dict[str, Any]:
    """Occupancy by lock kind, with and without patience, over local sizes and local memory; one row reported a cell.

    Payload: `address`, `quick`. Rows: `local_size` (work-items), `local_bytes`, `lock`, `patience` (bool), `launched`, `found`
    (work-groups, one number a run), `time_us` (device time of the launch, median), `vendor_bound` or None.
    """
    device, queue = _context(payload)
    profile = describe(device)
    facts, quick = profile.facts, bool(payload["quick"])
    cpu = is_cpu(profile)
    largest = facts.max_work_group_size or 1
    wanted = ([1, 64] if quick else [1, 16, 64, 256]) if cpu else ([32, 256] if quick else [32, 64, 128, 256, 512, 1024])
    sizes = [size for size in wanted if size <= largest]
    all_bytes = max(16, (facts.local_mem_size or 16384) - _RESERVED_BYTES)
    runs = 3 if quick else 10
    kernels = {lock: _kernel(queue, lock) for lock in ("packed", "ticket", "spin")}
    for local in sizes:
        for lock, kernel in kernels.items():
            for local_bytes in (16, all_bytes):
                scratch, rounds = cl.LocalMemory(local_bytes), np.uint32(0)
                if quick and local_bytes != 16 and (cpu or local != sizes[-1]):
                    continue
                try:
                    bound = kernel.occupancy(queue, (local,), scratch, rounds)
                except (Error, cl.Error) as error:
                    child.progress({"local_size": local, "local_bytes": local_bytes, "lock": lock, "reason": str(error)})
                    continue
                launched = bound.groups if cpu else 2 * bound.groups
                for patience in (False, True):
                    launches = [
                        kernel.discover(queue, (local,), launched, scratch, rounds, patience=None if patience else 0.0)
                        for _ in range(runs)
                    ]
                    times = [t for t in (_microseconds(launch.event) for launch in launches) if t is not None]
                    child.progress(
                        {
                            "local_size": local,
                            "local_bytes": local_bytes,
                            "lock": lock,
                            "patience": patience,
                            "launched": launched,
                            "found": [launch.num_groups for launch in launches],
                            "occupancy": bound.groups,
                            "vendor_bound": bound.vendor_bound,
                            "time_us": median(times) if times else None,
                        }
                    )
    return {}


def barrier_task(payload: dict[str, Any]) -> dict[str, Any]:
    """Time of a device barrier for each algorithm and group count, beside relaunching an empty kernel.

    Payload: `address`, `quick`. Rows: `algorithm`, `groups`, `local_size`, `us` (microseconds a barrier, median), `samples`,
    `relaunch_us`, `note`.
    """
    device, queue = _context(payload)
    profile = describe(device)
    quick = bool(payload["quick"])
    strategy = choose(profile)
    times: list[BarrierTime] = []
    for local in (1, 64) if is_cpu(profile) else (256,):
        times = time_barriers(queue, local_size=local, budget_s=2.0 if quick else 8.0)
        for entry in times:
            child.progress(
                {
                    "algorithm": entry.algorithm,
                    "groups": entry.groups,
                    "local_size": local,
                    "us": entry.us,
                    "samples": entry.samples,
                    "relaunch_us": entry.relaunch_us,
                    "note": entry.note,
                }
            )
    if strategy.max_groups is None and times:
        store_table(device, barrier_table(times))
    return {}
