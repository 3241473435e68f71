"""How many work-groups of a kernel a device holds at once, measured with the kernel's own binary and none of its code run.

Not for launching user code; `portbar.launching.kernel` hands in the function that enqueues a dry run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pyopencl as cl

from portbar.choices.strategy import DeviceProfile
from portbar.choices.timing import is_cpu
from portbar.primitives import layout

#: Work-groups a compute unit that are launched to find a GPU's bound; more are launched if all of them were resident.
_GROUPS_PER_UNIT: Final = 32
_RUNS: Final = 5

#: Seconds that a measurement waits for what is in the caller's queue, which may be held back by the caller itself.
_DRAIN_S: Final = 1.0
_POLL_S: Final = 0.0005

#: How many times as long as a measurement took passes before it is made again; twice as many the next time.
_AGAIN: Final = 10.0


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


def drain(queue: cl.CommandQueue) -> bool:
    """Wait a while for what is in a queue; whether all of it has ended. A queue that waits for its own host never does."""
    marker = cl.enqueue_marker(queue)
    queue.flush()
    deadline = time.monotonic() + _DRAIN_S
    while marker.command_execution_status > cl.command_execution_status.COMPLETE:
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


class Retry:
    """When to measure again what a busy device may have spoilt: ever more seldom, where it is the same each time."""

    def __init__(self) -> None:
        self._factor = _AGAIN
        self._due = 0.0

    @property
    def is_due(self) -> bool:
        """Whether it is time."""
        return time.monotonic() >= self._due

    def postpone(self, took: float) -> None:
        """Note that a measurement of so many seconds told no more than the last one."""
        self._due = time.monotonic() + self._factor * took
        self._factor *= 2


def is_complete(profile: DeviceProfile, found: Occupancy) -> bool:
    """Whether a measurement found what it should: on a CPU every kernel has as many groups as threads run."""
    known = profile.findings.groups_in_flight if profile.findings is not None else None
    return not is_cpu(profile) or known is None or found.groups >= known


def measure(profile: DeviceProfile, dry_run: Callable[[int], int], most_runs: int = _RUNS) -> Occupancy:
    """Find the occupancy by launches that return right after discovery.

    Parameters
    ----------
    profile : DeviceProfile
    dry_run : callable
        Launches the given number of work-groups and returns how many discovery found.
    most_runs : int
        Runs of which the largest counts, where none finds all that were launched.
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
        while max(found) < launched and len(found) < most_runs:
            found.append(dry_run(launched))
        runs += found
        saturated = max(found) < launched
        if saturated or is_cpu(profile) or launched * 2 > layout.MAX_LAUNCHED_GROUPS:
            return Occupancy(max(runs), tuple(runs))
        launched *= 2
