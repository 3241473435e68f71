"""How many work-groups of a kernel a device holds at once: measured with the kernel's own binary and none of its code run.

`portbar.launching.kernel` hands in the function that enqueues a dry run. For comparison only: a kernel's resources on an NVIDIA
device, as its compiler reports them, and the number of work-groups that they allow.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pyopencl as cl

from portbar.choices.strategy import DeviceProfile
from portbar.choices.timing import is_cpu
from portbar.device.facts import DeviceFacts
from portbar.primitives import layout

#: Work-groups a compute unit that are launched to find a GPU's bound; more are launched if all of them were resident.
_GROUPS_PER_UNIT: Final = 32
_RUNS: Final = 5
#: Runs with the same largest number after which no further one is made.
_AGREEING: Final = 2

#: Seconds that a measurement waits for what is in the caller's queue, which may be held back by the caller itself.
_DRAIN_S: Final = 1.0
#: Seconds for which it does so without sleeping, which takes longer than an idle queue needs; and of its sleeps.
_SPIN_S: Final = 1e-4
_POLL_S: Final = (1e-5, 5e-4)

#: How many times as long as a measurement took passes before it is made again; twice as many the next time.
_AGAIN: Final = 10.0


@dataclass(frozen=True)
class Occupancy:
    """Work-groups of one kernel and local size that a device runs concurrently.

    Attributes
    ----------
    groups : int
        The largest number that any run found: safe to launch, and the most that the device runs concurrently.
    runs : tuple of int
        The number found in each run.
    vendor_bound : int or None
        The result of the vendor's query, if the device has one. For comparison only.
    """

    groups: int
    runs: tuple[int, ...]
    vendor_bound: int | None = None


def drain(queue: cl.CommandQueue) -> bool:
    """Wait a while for what is in a queue; whether all of it has ended. A queue that waits for its own host never does."""
    marker = cl.enqueue_marker(queue)
    queue.flush()
    start, pause = time.monotonic(), _POLL_S[0]
    while marker.command_execution_status > cl.command_execution_status.COMPLETE:
        waited = time.monotonic() - start
        if waited > _DRAIN_S:
            return False
        if waited > _SPIN_S:
            time.sleep(pause)
            pause = min(2 * pause, _POLL_S[1])
    return True


class Retry:
    """When to repeat measurements that a busy device may have distorted: with exponential back-off while the result is the
    same.
    """

    def __init__(self) -> None:
        self._factor = _AGAIN
        self._due = 0.0

    @property
    def is_due(self) -> bool:
        """Whether it is time."""
        return time.monotonic() >= self._due

    def postpone(self, took: float) -> None:
        """Note that a measurement of `seconds` found no more than the last one."""
        self._due = time.monotonic() + self._factor * took
        self._factor *= 2


def is_complete(profile: DeviceProfile, found: Occupancy) -> bool:
    """Whether a measurement found what it should: on a CPU every kernel has as many groups as threads run."""
    known = profile.findings.groups_in_flight if profile.findings is not None else None
    return not is_cpu(profile) or known is None or found.groups >= known


def known_bound(profile: DeviceProfile) -> Occupancy | None:
    """Return an occupancy that a probe found for all kernels, so none needs a measurement: on a CPU, its threads."""
    known = profile.findings.groups_in_flight if profile.findings is not None else None
    return Occupancy(known, ()) if is_cpu(profile) and known is not None else None


def measure(profile: DeviceProfile, dry_run: Callable[[int], int], most_runs: int = _RUNS) -> Occupancy:
    """Find the occupancy by launches that return right after discovery.

    Parameters
    ----------
    profile : DeviceProfile
    dry_run : callable
        Launches the given number of work-groups and returns how many discovery found.
    most_runs : int
        Runs of which the largest counts, where none finds all that were launched and no two agree on the largest.
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
        while max(found) < launched and len(found) < most_runs and found.count(max(found)) < _AGREEING:
            found.append(dry_run(launched))
        runs += found
        saturated = max(found) < launched
        if saturated or is_cpu(profile) or launched * 2 > layout.MAX_LAUNCHED_GROUPS:
            return Occupancy(max(runs), tuple(runs))
        launched *= 2


#: The option with which NVIDIA's compiler reports a kernel's resources in the build log.
VERBOSE: Final = "-cl-nv-verbose"
#: The option of its assembler that limits the registers per work-item.
MOST_REGISTERS: Final = "-cl-nv-maxrregcount"

_WARP: Final = 32
_REGISTERS: Final = 65536
#: Registers are handed out to a warp in such pieces, and warps live in four parts of a multiprocessor.
_REGISTER_PIECE: Final = 256
_PARTS: Final = 4
_LOCAL_PIECE: Final = 128


@dataclass(frozen=True)
class _Multiprocessor:
    """Most warps and work-groups at once, bytes of local memory, and bytes that each work-group costs beside its own."""

    warps: int
    groups: int
    local_bytes: int
    reserved: int


#: By compute capability times ten; source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
_MULTIPROCESSORS: Final = {
    60: _Multiprocessor(64, 32, 65536, 0),
    61: _Multiprocessor(64, 32, 98304, 0),
    70: _Multiprocessor(64, 32, 98304, 0),
    75: _Multiprocessor(32, 16, 65536, 0),
    80: _Multiprocessor(64, 32, 167936, 1024),
    86: _Multiprocessor(48, 16, 102400, 1024),
    89: _Multiprocessor(48, 24, 102400, 1024),
    90: _Multiprocessor(64, 32, 233472, 1024),
    100: _Multiprocessor(64, 32, 233472, 1024),
}


@dataclass(frozen=True)
class Resources:
    """Return a kernel's resources, as its build log reports them.

    Attributes
    ----------
    registers : int
        Of 32 bits, for each work-item.
    stack_bytes, spill_store_bytes, spill_load_bytes : int
        For each work-item; spills are registers that went to memory.
    """

    registers: int
    stack_bytes: int = 0
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0


def resources_in(log: str, kernel: str) -> Resources | None:
    """Read what a build log with `VERBOSE` says of one kernel; None where it says nothing."""
    begin = re.search(rf"Compiling entry function '{re.escape(kernel)}'", log)
    if begin is None:
        return None
    rest = log[begin.end() :]
    ends = re.search(r"Compiling entry function '", rest)
    text = rest[: ends.start()] if ends else rest
    used = re.search(r"Used (\d+) registers", text)
    if used is None:
        return None
    frame = re.search(
        rf"Function properties for {re.escape(kernel)}\s.*?(\d+) bytes stack frame, (\d+) bytes spill stores, "
        r"(\d+) bytes spill loads",
        text,
        re.DOTALL,
    )
    return Resources(int(used[1]), *(map(int, frame.groups()) if frame else ()))


def computed_bound(facts: DeviceFacts, resources: Resources, local_size: int, local_bytes: int) -> int | None:
    """Work-groups that an NVIDIA device should hold at once, None where its limits are not known here.

    Parameters
    ----------
    facts : DeviceFacts
    resources : Resources
    local_size : int
        Work-items a work-group.
    local_bytes : int
        Local memory a work-group, the kernel's own and its arguments'.
    """
    limits = _MULTIPROCESSORS.get(facts.compute_capability)
    if limits is None or not facts.compute_units:
        return None
    warps = math.ceil(local_size / _WARP)
    of_warp = math.ceil(resources.registers * _WARP / _REGISTER_PIECE) * _REGISTER_PIECE
    by_registers = _REGISTERS // of_warp // _PARTS * _PARTS // warps if of_warp else limits.groups
    taken = math.ceil((local_bytes + limits.reserved) / _LOCAL_PIECE) * _LOCAL_PIECE
    by_local = limits.local_bytes // taken if taken else limits.groups
    return facts.compute_units * min(limits.groups, limits.warps // warps, by_registers, by_local)
