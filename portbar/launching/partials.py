"""Launches without a grid whose work-groups leave partial results: reductions at gang level, and scans."""

from __future__ import annotations

import math
import struct
import weakref
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyopencl as cl

from portbar.errors import BarrierTimeoutError, Error, LaunchError
from portbar.launching.launch import CarriedState, Launch, LaunchPlan
from portbar.launching.memory import Copy, StateMemory, Words, retire
from portbar.primitives import agreement
from portbar.primitives.layout import FAULTS
from portbar.primitives.reduction.header import LAUNCHES, places
from portbar.primitives.reduction.loops import ReductionLoop
from portbar.primitives.scan import TICKET_WORDS, DeviceScan

#: The hidden launch argument, an OpenCL uint4 in the host's byte order. Of reductions: first of the launch's words, capacity in
#: work-groups, and spin limit in rounds of polls. Of scans: epoch, work-groups, and first word of the values.
_WORDS: Final = struct.Struct("=4I")


class GangState(CarriedState):
    """The buffer in which the work-groups of one queue's launches leave their values.

    Locks, counters and faults lie in one of `LAUNCHES` sets of words, which launches take in turn and the host clears once per
    turn. So a wrong launch leaves its traces to itself, and its `Launch` finds them there.
    """

    def __init__(
        self,
        queue: cl.CommandQueue,
        groups: int,
        previous: GangState | None,
        loops: tuple[ReductionLoop, ...],
        limit: int,
    ) -> None:
        super().__init__(queue, groups, previous)
        self.loops = loops
        #: Rounds of polls after which an atomic wait gives up.
        self.limit = limit
        self._places, self.words, values = places(loops)
        words = np.zeros(LAUNCHES * self.words + max(1, values) * self.capacity, np.uint32)
        self._memory = StateMemory(queue, words)
        self.buffer = self._memory.buffer
        weakref.finalize(self, retire, self._memory, self.order.may_run)
        self._started = 0
        #: A weak reference for each set of words, so that a launch's words are saved before they are cleared.
        self._launches: list[weakref.ref[GangLaunch] | None] = [None] * LAUNCHES

    def launch(self, plan: LaunchPlan, args: Sequence[Any], wait_for: Sequence[cl.Event] | None) -> GangLaunch:
        """Enqueue a plan with the hidden arguments filled in. The caller holds the program's lock."""
        place = self._started % LAUNCHES
        if place == 0 and self._started:
            self._clear()
        self._started += 1
        before = self.order.begin(wait_for)
        words = _WORDS.pack(place * self.words, self.capacity, self.limit, 0)
        event = plan.call(self.buffer, bytearray(words), *args, wait_for=before)
        self.order.add(event, wait_for)
        made = GangLaunch(event, plan.label, self, place, plan.groups)
        self._launches[place] = weakref.ref(made)
        return made

    def _clear(self) -> None:
        """Clear the words of all launches, and save those that may still be asked for; without blocking."""
        saved: list[cl.Event] = []
        found = [reference() for reference in self._launches if reference is not None]
        if waiting := [one for one in found if one is not None and one.words is None and one.copy is None]:
            copy = Copy(self.queue, self._memory, 0, LAUNCHES * self.words, self.order.after(None))
            for launch in waiting:
                launch.copy = copy
            saved = [copy.event]
        self.order.clear(self.queue, self.buffer, 4 * LAUNCHES * self.words, saved)

    def read(self, place: int) -> Words:
        """The words of a launch that is complete."""
        return self._memory.read(place * self.words, self.words)

    def check(self, label: tuple[str, str], groups: int, words: Words) -> None:
        """Raise the error that the words show after a complete launch of `groups` work-groups."""
        kernel, device = label
        where = f"kernel {kernel!r} on {device}"
        code, which = int(words[0]) & 0xFF, int(words[0]) >> 8
        if code == FAULTS["wait"]:
            raise BarrierTimeoutError(
                f"{where}: an atomic wait reached its spin limit. Likely causes: the value never changed, or the work-items "
                "that change it could not run concurrently. Raise spin_limit= if the work takes that long; `portbar survey` "
                "shows what the device does.",
                kernel=kernel,
                device=device,
            )
        if code == FAULTS["agreement"]:
            raise Error(f"{where}: {agreement.described(which, 'within a work-group')}")
        if code == FAULTS["uses"]:
            loop = self.loops[which]
            raise Error(
                f"{where} reduced loop {loop.name!r} at gang level more often than its uses={loop.uses} in one launch, and the "
                f"excess was skipped: declare ReductionLoop({loop.name!r}, ..., uses=...) with the actual number"
            )
        if code == FAULTS["lock"]:
            raise Error(
                f"{where}: the lock of reduction loop {self.loops[which].name!r} was not released within some seconds. Likely "
                "causes: a lock without an unlock, or several work-items of one sub-group that take it."
            )
        for loop in self.loops:
            place = self._places[loop.name]
            left = [int(count) for count in words[place.counters : place.counters + loop.uses] if count]
            if left:
                raise Error(
                    f"{where}: {left[0]} of the {groups} work-groups reduced loop {loop.name!r} at gang level and the others "
                    "did not, so there is no result. Every work-group must make the call, in uniform control flow"
                )
            if words[place.lock]:
                raise Error(
                    f"{where}: the lock of reduction loop {loop.name!r} was not released by the end of the launch: call "
                    f"{loop.name}_unlock_gang wherever {loop.name}_lock_gang returned true"
                )


class GangLaunch(Launch):
    """A launch of a kernel that reduces at gang level without a grid."""

    #: Its words on the host, and the copy of all launches' words from before they were cleared.
    words: Words | None = None
    copy: Copy | None = None

    def __init__(self, event: cl.Event, label: tuple[str, str], gangs: GangState, place: int, groups: int) -> None:
        super().__init__(event, label)
        self._gangs = gangs
        self._place = place
        self._groups = groups

    def wait(self) -> None:
        """Wait until the launch is complete and its reductions are known to be.

        `BarrierTimeoutError` if an atomic wait reached its spin limit. `Error` if a loop was reduced more often than declared
        or not by all work-groups, or a lock was not given back.
        """
        super().wait()
        if self.words is None:
            words = self._gangs.read(self._place)
            # Another thread's launch may have cleared them meanwhile, and kept a copy before it did.
            if self.copy is not None:
                words = self.copy.read().reshape(LAUNCHES, -1)[self._place]
            self.words = words
        self._gangs.check(self._label, self._groups, self.words)


#: Launches after which words of tiles are cleared; each holds an epoch and one more bit.
MOST_EPOCHS: Final = (1 << 31) - 1


def check_sizes(
    kernel: str, scans: tuple[DeviceScan, ...], size: tuple[int, ...], local: tuple[int, ...], used: Sequence[str]
) -> None:
    """Check that all work-groups are whole, and no larger than the local memory of the scans that are `used`."""
    if any(whole % part for whole, part in zip(size, local, strict=True)):
        raise LaunchError(
            f"kernel {kernel!r} scans, which requires work-groups of equal size: global size {size}, local size {local}. Pass "
            "a global size that is a multiple of the local size"
        )
    for scan in scans:
        if scan.name in used and math.prod(local) > scan.local_size:
            raise LaunchError(
                f"kernel {kernel!r}: local size {local} is {math.prod(local)} work-items, but scan {scan.name!r} has local "
                f"memory for {scan.local_size}: declare DeviceScan({scan.name!r}, ..., local_size={math.prod(local)})"
            )


class ScanState(CarriedState):
    """The ticket, words and values of the tiles of one queue's launches.

    Nothing is cleared between launches: words hold the launch's epoch, and the last group sets the ticket back.
    """

    def __init__(
        self, queue: cl.CommandQueue, groups: int, previous: ScanState | None, scans: tuple[DeviceScan, ...]
    ) -> None:
        super().__init__(queue, groups, previous)
        self.first_value = TICKET_WORDS + self.capacity
        sizes = [-(-scan.kind.size // 16) * 16 for scan in scans]
        words = np.zeros(self.first_value + 2 * self.capacity * max(sizes) // 4, np.uint32)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        self.buffer = cl.Buffer(queue.context, flags, hostbuf=words)
        self._epoch = 0

    def launch(self, plan: LaunchPlan, args: Sequence[Any], wait_for: Sequence[cl.Event] | None) -> Launch:
        """Enqueue a plan with the hidden arguments filled in. The caller holds the program's lock."""
        epoch = self._next_epoch()
        before = self.order.begin(wait_for)
        words = _WORDS.pack(epoch, plan.groups, self.first_value, 0)
        event = plan.call(self.buffer, bytearray(words), *args, wait_for=before)
        self.order.add(event, wait_for)
        return Launch(event, plan.label)

    def _next_epoch(self) -> int:
        """A number from 1 on that no word holds: they are cleared when numbers begin again."""
        if self._epoch == MOST_EPOCHS:
            self.order.clear(self.queue, self.buffer, 4 * self.first_value)
            self._epoch = 0
        self._epoch += 1
        return self._epoch
