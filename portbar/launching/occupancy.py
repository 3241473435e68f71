"""How many work-groups of a kernel a device holds at once: measured with the kernel's own binary and none of its code run."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pyopencl as cl

from portbar.backends.profile import DeviceProfile
from portbar.choices import timing
from portbar.device import quirks
from portbar.device.vendor import vendor_bound
from portbar.launching.compiled import CompiledKernel
from portbar.launching.launch import Launch, LaunchPlan, dry_runs
from portbar.launching.state import GridState
from portbar.primitives import layout
from portbar.primitives.strategy import Strategy
from portbar.records.dataclass import dataclass

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


class Retry:
    """When to repeat a measurement that a busy device may have distorted: with exponential back-off."""

    def __init__(self) -> None:
        self._factor = _AGAIN
        self._due = 0.0

    @property
    def is_due(self) -> bool:
        """Whether it is time."""
        return time.monotonic() >= self._due

    def postpone(self, took: float) -> None:
        """Note that a measurement of `took` seconds found no more than the last one."""
        self._due = time.monotonic() + self._factor * took
        self._factor *= 2


def _drain(queue: cl.CommandQueue) -> bool:
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


def _probed(profile: DeviceProfile) -> int | None:
    """Work-groups that a probe found, which may be those of every kernel."""
    return profile.findings.groups_in_flight if profile.findings is not None else None


def known_bound(profile: DeviceProfile) -> Occupancy | None:
    """Return an occupancy that a probe found for all kernels, so that none needs a measurement."""
    probed = _probed(profile)
    return Occupancy(probed, ()) if profile.units.kernels_alike and probed is not None else None


def measure(profile: DeviceProfile, dry_run: Callable[[int], int], most_runs: int = _RUNS) -> Occupancy:
    """Find the occupancy by launches that return right after discovery.

    `dry_run` launches the given number of work-groups and returns how many discovery found. The largest of `most_runs`
    counts, where none finds all that were launched and no two agree on the largest.
    """
    alike, units = profile.units.kernels_alike, profile.facts.compute_units or 1
    launched = (_probed(profile) or units) if alike else units * _GROUPS_PER_UNIT
    runs: list[int] = []
    while True:
        found = [dry_run(launched)]
        while max(found) < launched and len(found) < most_runs and found.count(max(found)) < _AGREEING:
            found.append(dry_run(launched))
        runs += found
        saturated = max(found) < launched
        if saturated or alike or launched * 2 > layout.MAX_LAUNCHED_GROUPS:
            return Occupancy(max(runs), tuple(runs))
        launched *= 2


class Occupancies:
    """The occupancies of one kernel, each measured when it is needed."""

    def __init__(self, kernel: CompiledKernel) -> None:
        self._kernel = kernel
        #: By device, algorithm, local size and sizes of arguments in local memory.
        self._known: dict[tuple[Any, ...], Occupancy] = {}
        #: Measurements that a busy device may have made too small.
        self._retries: dict[tuple[Any, ...], Retry] = {}

    def occupancy(
        self,
        queue: cl.CommandQueue,
        strategy: Strategy,
        local: tuple[int, ...],
        local_memory: tuple[int, ...],
        args: Sequence[Any],
        *,
        again: bool = False,
    ) -> Occupancy:
        """The occupancy, measured if it is not known, or if it is `again` to be measured where it may be too small."""
        kernel, device = self._kernel, queue.device
        if strategy.max_groups == 1:
            return Occupancy(1, ())
        profile = kernel.program.profiles[device]
        if not again and (bound := known_bound(profile)) is not None:
            return bound
        key = (device, strategy.device_barrier.value, local, local_memory)
        known, retry = self._known.get(key), self._retries.get(key)
        if known is not None and (retry is None or not (again or retry.is_due)):
            return known
        patience = timing.patience_rounds(profile)
        apart = dry_runs(kernel.program.context, device, strategy.discovery.value)

        def dry_run(groups: int) -> int:
            with apart.lock:
                state = apart.state(kernel.program.states.layout, groups)
                return self.dry_run(apart.queue, strategy, local, groups, patience, args, state).num_groups

        start = time.monotonic()
        # A flush of the caller's queue may not return there (FLUSHES_WAIT), and queues run nothing at the same time.
        drained = quirks.has_effect(quirks.FLUSHES_WAIT, profile.facts) or _drain(queue)
        found = measure(profile, dry_run) if known is None else measure(profile, dry_run, 1)
        measured = replace(
            found,
            groups=max(found.groups, known.groups if known else 0),
            vendor_bound=vendor_bound(queue, kernel.handle(device, strategy), local),
        )
        # Where every kernel has as many groups as threads run.
        if drained and (not profile.units.kernels_alike or measured.groups >= (_probed(profile) or 0)):
            self._retries.pop(key, None)
        else:
            retry = self._retries.setdefault(key, Retry())
            retry.postpone((time.monotonic() - start) / max(1, len(measured.runs)))
        # Last: without the retry, a result that is too small would stay.
        self._known[key] = measured
        return measured

    def is_settled(
        self, device: cl.Device, strategy: Strategy, local: tuple[int, ...], local_memory: tuple[int, ...]
    ) -> bool:
        """Whether no later launch has to measure again."""
        if known_bound(self._kernel.program.profiles[device]) is not None:
            return True
        return (device, strategy.device_barrier.value, local, local_memory) not in self._retries

    def dry_run(
        self,
        queue: cl.CommandQueue,
        strategy: Strategy,
        local: tuple[int, ...],
        groups: int,
        patience: int,
        args: Sequence[Any],
        state: GridState | None = None,
    ) -> Launch:
        """A launch of exactly `groups` work-groups that returns right after discovery; waits for it."""
        kernel, device = self._kernel, queue.device
        program = kernel.program
        limit = timing.limit_rounds(program.profile(device), program.spin_limit)
        plan = LaunchPlan(
            queue,
            kernel.handle(device, strategy, args),
            kernel.label(device),
            kernel.hidden,
            partial(GridState, own=program.states.layout, tracing=strategy.tracing),
            (groups * local[0], *local[1:]),
            local,
            groups,
            memoryview(array("I", (0, groups, patience, limit))),
            layout.DRY_RUN,
            state,
        )
        launch = program.states.launch(plan, args)
        launch.wait()
        return launch
