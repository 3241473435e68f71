"""What a survey measures on a device, the most telling first, so that a step that runs out of time has measured that.

Not for measuring (`portbar.survey.cells`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from portbar.choices.strategy import DeviceProfile
from portbar.choices.timing import is_cpu

#: Seconds a device that a quick survey may take; what one device leaves is shared out among the next.
QUICK_S: Final = 10.0
#: Seconds of a step that are not measuring: starting an interpreter and loading every driver.
START_S: Final = 0.8
#: Least seconds that a step is given to measure in.
LEAST_S: Final = 0.5
#: Seconds beyond twice its budget after which a step counts as hanging, in a full survey and in a quick one: compilers take
#: their time.
LIMIT_S: Final = (20.0, 8.0)

#: Seconds beyond the time of a device after which even a step whose driver hangs is ended.
GRACE_S: Final = 5.0

#: Steps in their order, with each one's part of the time that is left, and the most seconds that it takes. In a full survey the
#: litmus tests come first, since the strategy that the others measure goes by them; in a quick one last, with a few tests.
_FULL: Final = (
    ("litmus", 4.0, 20.0),
    ("occupancy", 4.0, 40.0),
    ("barrier", 8.0, 90.0),
    ("split_barrier", 2.0, 15.0),
    ("reduction", 3.0, 25.0),
    ("atomics", 3.0, 30.0),
)
_QUICK: Final = (
    ("occupancy", 3.0, 4.0),
    ("barrier", 4.0, 6.0),
    ("reduction", 1.5, 3.0),
    ("split_barrier", 0.7, 2.0),
    ("atomics", 1.5, 4.0),
    ("litmus", 1.0, 3.0),
)

#: Steps that are run even where the time is spent, since the verdict on a device rests on them.
TELLING: Final = ("occupancy", "barrier")

#: Seconds that steps take by experience on CPU runtimes, if they are given as much; for whoever waits.
TYPICAL_S: Final = {
    "litmus": 20.0,
    "occupancy": 5.0,
    "barrier": 12.0,
    "split_barrier": 3.0,
    "reduction": 4.0,
    "atomics": 6.0,
}

LOCKS: Final = ("packed", "ticket", "spin")

#: What is said of barrier times that other work on the machine has spoilt.
UNSTEADY: Final = "they vary too much to choose by, as on a busy machine; measure again with `portbar bench barrier`"

#: Bytes of local memory that ask for next to none of it.
SMALL_BYTES: Final = 16

#: Local memory that is left to portbar and to the driver when a cell asks for all of it.
_RESERVED_BYTES: Final = 2048

_CPU_SIZES: Final = (1, 16, 64, 256)
_GPU_SIZES: Final = (32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class Cell:
    """One occupancy measurement.

    Attributes
    ----------
    local_size : int
        Work-items a work-group.
    local_bytes : int
        Local memory a work-group.
    lock : str
        A discovery strategy.
    patience : bool
        Whether the poll waits for groups that have not arrived; without, it closes as the published protocol does.
    runs : int
        Launches.
    """

    local_size: int
    local_bytes: int
    lock: str
    patience: bool
    runs: int


def holds_one_group(profile: DeviceProfile, max_groups: int | None) -> bool:
    """Whether a grid has a single work-group here, so that there is nothing for locks to differ in."""
    found = profile.findings
    return max_groups == 1 or (found is not None and found.groups_in_flight == 1)


def steps_of(*, quick: bool) -> tuple[tuple[str, float, float], ...]:
    """Steps after the probe: name, part of the time that is left, most seconds."""
    return _QUICK if quick else _FULL


def occupancy_cells(
    profile: DeviceProfile, *, quick: bool, largest: int | None = None, max_groups: int | None = None
) -> list[Cell]:
    """The cells of the occupancy step, in the order in which to measure them.

    Parameters
    ----------
    profile : DeviceProfile
    quick : bool
    largest : int, optional
        Most work-items a work-group; by default what the device says, which may be more than a kernel can have.
    max_groups : int, optional
        From the strategy: the most groups that a grid may have.
    """
    cpu = is_cpu(profile)
    everything = max(SMALL_BYTES, (profile.facts.local_mem_size or 16384) - _RESERVED_BYTES)
    known = _CPU_SIZES if cpu else _GPU_SIZES
    wanted = (1, 64) if quick and cpu else (32, 256) if quick else known
    sizes = _possible(wanted, profile, largest)
    if holds_one_group(profile, max_groups):
        return [Cell(size, SMALL_BYTES, lock, True, 1) for lock in LOCKS for size in sizes]
    runs = 3 if quick else 10
    small = [Cell(size, SMALL_BYTES, lock, True, runs) for lock in LOCKS for size in sizes]
    impatient = [Cell(size, SMALL_BYTES, lock, False, runs) for lock in LOCKS for size in sizes]
    if quick:
        return [*small, Cell(sizes[-1], everything, "packed", True, runs), *impatient]
    # What a work-group takes of local memory bounds how many a GPU holds; a CPU does not care, so one size shows that.
    memory = [everything] if cpu else [everything // 4, everything // 2, everything]
    large = [
        Cell(size, local_bytes, lock, patience, runs)
        for patience in (True, False)
        for lock in LOCKS
        for local_bytes in memory
        for size in sizes
    ]
    return [*small, *impatient, *large]


def barrier_sizes(profile: DeviceProfile, largest: int | None = None) -> list[int]:
    """Local sizes of the barrier step: on a CPU a barrier costs more the more work-items one thread serves."""
    return _possible((1, 64) if is_cpu(profile) else (32, 64, 256, 1024), profile, largest)


def _possible(wanted: Sequence[int], profile: DeviceProfile, largest: int | None) -> list[int]:
    """The wanted local sizes, each cut to what is possible."""
    limit = largest or profile.facts.max_work_group_size or 1
    return sorted({min(size, limit) for size in wanted})


def split_barrier_sizes(profile: DeviceProfile, largest: int | None = None, *, quick: bool = False) -> list[int]:
    """Local sizes of the split-barrier step."""
    if is_cpu(profile):
        return _possible((64,) if quick else (1, 64, 256), profile, largest)
    return _possible((256,) if quick else (32, 256, 1024), profile, largest)


def reduction_sizes(profile: DeviceProfile, largest: int | None = None, *, quick: bool = False) -> list[int]:
    """Local sizes of the reduction step, whose functions are compiled for one each."""
    if is_cpu(profile):
        return _possible((64,), profile, largest)
    return _possible((256,) if quick else (64, 256), profile, largest)
