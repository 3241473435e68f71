"""How many work-groups of a kernel a device holds at once, measured with the kernel's own binary and none of its code run.

Not for launching user code; `portbar.kernel` hands in the function that enqueues a dry run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from portbar import layout
from portbar.strategy import DeviceProfile
from portbar.timing import is_cpu

#: Work-groups a compute unit that are launched to find a GPU's bound; more are launched if all of them were resident.
_GROUPS_PER_UNIT: Final = 32
_RUNS: Final = 5


@dataclass(frozen=True)
class Occupancy:
    """Work-groups of one kernel and local size that a device runs at the same time.

    Attributes
    ----------
    groups : int
        The largest number that any run found: safe to launch, and as many as the device holds.
    runs : tuple of int
        What each run found.
    vendor_bound : int or None
        The vendor's own answer, where the device has such a query. Not relied on.
    """

    groups: int
    runs: tuple[int, ...]
    vendor_bound: int | None = None


def measure(profile: DeviceProfile, dry_run: Callable[[int], int]) -> Occupancy:
    """Find the occupancy by launches that return right after discovery.

    Parameters
    ----------
    profile : DeviceProfile
    dry_run : callable
        Launches the given number of work-groups and returns how many discovery found.
    """
    findings = profile.findings
    known = findings.groups_in_flight if findings is not None else None
    if is_cpu(profile):
        launched = known or profile.facts.compute_units or 1
    else:
        launched = (profile.facts.compute_units or 1) * _GROUPS_PER_UNIT
    runs: list[int] = []
    while True:
        found = [dry_run(launched)]
        while max(found) < launched and len(found) < _RUNS:
            found.append(dry_run(launched))
        runs += found
        saturated = max(found) < launched
        if saturated or is_cpu(profile) or launched * 2 > layout.MAX_LAUNCHED_GROUPS:
            return Occupancy(max(runs), tuple(runs))
        launched *= 2
