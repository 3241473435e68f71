"""Occupancy by lock, local size and local memory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

import numpy as np
import pyopencl as cl

from portbar.choices.strategy import ALTERNATIVES, DeviceProfile, choose
from portbar.errors import Error
from portbar.launching.kernel import Kernel
from portbar.launching.program import Program
from portbar.records.reading import NO_TIME, measured, missing
from portbar.survey.measuring.rounds import Budget, device_s
from portbar.survey.measuring.session import Session, failure, largest_group, possible_sizes

LOCKS: Final = ALTERNATIVES["discovery"]

#: Bytes of local memory that ask for next to none of it.
SMALL_BYTES: Final = 16

#: Local memory that is left to portbar and to the driver when a cell asks for all of it.
_RESERVED_BYTES: Final = 2048

#: Kind of compute units -> local sizes, and those of a quick survey.
_SIZES: Final = {"cpu": (1, 16, 64, 256), "gpu": (32, 64, 128, 256, 512, 1024)}
_QUICK_SIZES: Final = {"cpu": (1, 64), "gpu": (32, 256)}

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


@dataclass(frozen=True)
class OccupancyCell:
    """One occupancy measurement: several runs of a discovery strategy.

    With patience the poll waits for groups that have not arrived; without, it closes as the published protocol does.
    """

    local_size: int
    local_bytes: int
    lock: str
    patience: bool
    runs: int


def occupancy_cells(
    profile: DeviceProfile, *, quick: bool, largest: int | None = None, max_groups: int | None = None
) -> list[OccupancyCell]:
    """The cells of the occupancy step, in the order in which to measure them.

    `largest` is the most work-items that a work-group of the kernel can have, which may be fewer than the device says.
    """
    units = profile.units
    everything = max(SMALL_BYTES, (profile.facts.local_mem_size or 16384) - _RESERVED_BYTES)
    sizes = possible_sizes((_QUICK_SIZES if quick else _SIZES)[units.kind], profile, largest)
    found = profile.findings
    # With a single work-group locks cannot differ.
    one_group = max_groups == 1 or (found is not None and found.groups_in_flight == 1)
    runs = 1 if one_group else 3 if quick else 10

    def settings(patience: bool, memory: Sequence[int] = (SMALL_BYTES,)) -> list[OccupancyCell]:
        return [OccupancyCell(size, room, lock, patience, runs) for lock in LOCKS for room in memory for size in sizes]

    if one_group:
        return settings(True)
    if quick:
        return [*settings(True), OccupancyCell(sizes[-1], everything, "packed", True, runs), *settings(False)]
    # A work-group's local memory limits how many run at once; where it has no effect, one size is enough.
    memory = [everything] if units.kernels_alike else [everything // 4, everything // 2, everything]
    return [*settings(True), *settings(False), *settings(True, memory), *settings(False, memory)]


def measure(session: Session) -> None:
    """Occupancy by lock kind, with and without patience, over local sizes and local memory; one row per cell.

    Rows: `local_size` (work-items), `local_bytes`, `lock`, `patience` (bool), `launched` (work-groups), and readings:
    `occupancy`, `found` (work-groups, one sample per run), `launch_time` (device time of each launch in us, wall-clock time
    if the device reports none), `vendor_bound`, `computed_bound` (with a note if it differs from the number found); `partial`
    if time ran out between runs.
    """
    profile = session.profile
    occupancy = _OccupancyCells(session.queue, alike=profile.units.kernels_alike)
    most = choose(profile).max_groups
    cells = occupancy_cells(profile, quick=session.quick, largest=occupancy.largest(), max_groups=most)
    for index, cell in enumerate(cells):
        row: dict[str, Any] = {name: value for name, value in vars(cell).items() if name != "runs"}
        if index and session.late:
            session.row(row | _without(missing("skipped", NO_TIME)))
            continue
        how = "with" if cell.patience else "without"
        session.doing(f"the {cell.lock} lock {how} patience, work-groups of {cell.local_size}")
        try:
            row |= occupancy(cell, session.budget)
        except (Error, cl.Error) as error:
            row |= _without(failure(error))
        session.row(row)


class _OccupancyCells:
    """Measures cells on one queue; kernels and bounds are kept from one to the next."""

    def __init__(self, queue: cl.CommandQueue, *, alike: bool) -> None:
        self._queue = queue
        self._alike = alike
        self._kernels: dict[str, Kernel] = {}

    def _kernel(self, lock: str) -> Kernel:
        if lock not in self._kernels:
            program = Program(self._queue.context, _SOURCE, strategy={"discovery": lock, "device_barrier": "counter"})
            self._kernels[lock] = program.kernel("survey")
        return self._kernels[lock]

    def largest(self) -> int:
        """Most work-items that a work-group of the kernel can have."""
        kernel = self._kernel("packed")
        return largest_group(kernel.program, self._queue, kernel.name)

    def __call__(self, cell: OccupancyCell, clock: Budget) -> dict[str, Any]:
        local, scratch, rounds = (cell.local_size,), cl.LocalMemory(cell.local_bytes), np.uint32(0)
        # How many to launch comes from the lock that scales; each lock is then asked to find them.
        bound = self._kernel("packed").occupancy(self._queue, local, scratch, rounds)
        launched = bound.groups if self._alike else 2 * bound.groups
        most = self._kernel("packed").program.strategy(self._queue.device).max_groups
        launched = launched if most is None else min(launched, most)
        kernel = self._kernel(cell.lock)
        found: list[int] = []
        times: list[float] = []
        short = False
        for run in range(cell.runs):
            if run and clock.left() <= 0:
                short = True
                break
            start = time.perf_counter()
            launch = kernel.discover(
                self._queue, local, launched, scratch, rounds, patience=None if cell.patience else 0.0
            )
            found.append(launch.num_groups)
            times.append(round(device_s(launch.event, time.perf_counter() - start) * 1e6, 3))
        vendor = bound.vendor_bound
        return {
            "launched": launched,
            "occupancy": measured(bound.groups, "work-groups"),
            "found": measured(median(found), "work-groups", found, min=min(found), max=max(found)),
            "launch_time": measured(round(median(times), 3), "us", times),
            "vendor_bound": measured(vendor, "work-groups")
            if vendor is not None
            else missing("unsupported", "the driver has no such query, or no answer to it"),
            "computed_bound": _computed(
                self._kernel("packed").computed_bound(self._queue.device, local, cell.local_bytes),
                max(bound.groups, *found),
            ),
            **({"partial": True} if short else {}),
        }


def _computed(computed: int | None, best: int) -> dict[str, Any]:
    """The bound that portbar computes, with a note where another one was found."""
    if computed is None:
        return missing("unsupported", "portbar computes no bound for this device")
    note = None
    if computed != best:
        note = (
            f"found {best}: other work occupies the device, or the driver partitions its local memory differently"
            if best < computed
            else f"found {best}: the limits that portbar assumes for this device are too small"
        )
    return measured(computed, "work-groups", note=note)


def _without(reading: dict[str, Any]) -> dict[str, Any]:
    """The readings of a cell that could not be measured."""
    return {"launched": None} | dict.fromkeys(("occupancy", "found", "launch_time"), reading)
