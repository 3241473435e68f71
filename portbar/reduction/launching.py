"""Launches of kernels that reduce at gang level without a grid: where work-groups leave their values, and what went wrong.

Not for kernels with a grid, whose values lie in the grid's own state.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyopencl as cl

from portbar.errors import BarrierTimeoutError, Error, LaunchError
from portbar.launch import Launch
from portbar.reduction.loops import ReductionLoop
from portbar.reduction.rendering import FAULTS, places

if TYPE_CHECKING:
    from portbar.program import Program

#: The hidden launch argument, an OpenCL uint4 in the host's byte order: epoch, capacity in work-groups, and spin limit.
_WORDS: Final = struct.Struct("=4I")


def groups_of(kernel: str, size: tuple[int, ...], local: tuple[int, ...] | None) -> int:
    """Work-groups of a launch.

    Raises
    ------
    LaunchError
        The local size is left to the driver, so that nobody knows.
    """
    if local is None:
        raise LaunchError(
            f"kernel {kernel!r} takes PORTBAR_REDUCTION_PARAM or PORTBAR_WAIT_PARAM, so portbar must know its work-groups: "
            "give a local size"
        )
    if len(local) != len(size):
        raise LaunchError(f"kernel {kernel!r}: global size {size} and local size {local} differ in dimensions")
    return math.prod(-(-whole // part) for whole, part in zip(size, local, strict=True))


class GangState:
    """The buffer in which the work-groups of one queue's launches leave their values, for as many as `capacity` groups.

    Launches on one state never overlap: an in-order queue sees to it, and on an out-of-order queue each waits for the one
    before. The host writes the buffer once, when it is made: the last group of a launch sets its counters back.
    """

    def __init__(
        self,
        queue: cl.CommandQueue,
        groups: int,
        loops: tuple[ReductionLoop, ...],
        previous: GangState | None,
        limit: int = 0,
    ) -> None:
        self.loops = loops
        #: Rounds of polls after which an atomic wait gives up.
        self.limit = limit
        self.queue = queue
        self.capacity = 1 << max(6, (groups - 1).bit_length())
        found, header, values = places(loops)
        self.header_words = header
        self._counters = {name: place.counters for name, place in found.items()}
        #: Kept alive while launches that use it may still run.
        self.buffer = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 4 * (header + max(1, values) * self.capacity))
        cleared = cl.enqueue_copy(queue, self.buffer, np.zeros(header, np.uint32), is_blocking=True)
        self.epoch: int = previous.epoch if previous is not None else 0
        self.in_order = not queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
        self.last_event: cl.Event | None = previous.last_event if previous is not None else cleared
        self.broken = False
        self._reader: cl.CommandQueue | None = None

    def check(self, label: tuple[str, str], epoch: int) -> None:
        """Raise what a launch of the last 2**32 left word of; blocks for one small transfer."""
        words = np.empty(self.header_words, np.uint32)
        if self._reader is None:
            self._reader = cl.CommandQueue(self.queue.context, self.queue.device)
        cl.enqueue_copy(self._reader, words, self.buffer, is_blocking=True)
        kernel, device = label
        if int(words[0]) == epoch and int(words[1]) == FAULTS["wait"]:
            raise BarrierTimeoutError(
                f"kernel {kernel!r} on {device}: an atomic wait reached its spin limit and gave up. Likely causes: the value "
                "never changed, or the work-items it waits for could not run at the same time. Raise spin_limit= if the work "
                "is that long; `portbar survey` shows what the device does.",
                kernel=kernel,
                device=device,
            )
        if int(words[0]) == epoch:
            loop = self.loops[int(words[2])]
            if int(words[1]) == FAULTS["uses"]:
                raise Error(
                    f"kernel {kernel!r} on {device} reduced loop {loop.name!r} at gang level more often than its "
                    f"uses={loop.uses} in one launch, and the rest was left out: declare ReductionLoop({loop.name!r}, ..., "
                    "uses=...) with as many as there are"
                )
            self.broken = True
            raise Error(
                f"kernel {kernel!r} on {device}: the lock of reduction loop {loop.name!r} was not given back within some "
                "seconds; is there a lock without an unlock, or do several work-items of one sub-group take it?"
            )
        if epoch != self.epoch:
            return  # a later launch may be counting right now
        for loop in self.loops:
            first = self._counters[loop.name]
            left = [int(count) for count in words[first : first + loop.uses] if count]
            if left:
                self.broken = True
                raise Error(
                    f"kernel {kernel!r} on {device}: {left[0]} of the work-groups reduced loop {loop.name!r} at gang level, "
                    "the others did not, so there is no result: every work-group must make the call, in control flow that is "
                    "the same in all of them"
                )


class GangLaunch(Launch):
    """A launch of a kernel that reduces at gang level without a grid."""

    __slots__ = ("_gangs", "_number")

    def __init__(self, event: cl.Event, label: tuple[str, str], gangs: GangState, number: int) -> None:
        super().__init__(event, label)
        self._gangs: GangState | None = gangs
        self._number = number

    def wait(self) -> None:
        """Wait until the launch is complete and its reductions are known to be.

        Raises
        ------
        Error
            A loop was reduced more often than declared or not by all work-groups, or a lock was not had.
        """
        super().wait()
        gangs, self._gangs = self._gangs, None
        if gangs is not None:
            gangs.check(self._label, self._number)


def enqueue(program: Program, plan: Any, args: Sequence[Any], wait_for: Sequence[cl.Event] | None) -> Launch:
    """Enqueue a plan of `portbar.kernel` with the hidden arguments filled in. The caller holds the program's lock."""
    state = program.gang_state(plan.queue, plan.groups)
    state.epoch = (state.epoch + 1) % (1 << 32) or 1
    if not state.in_order and state.last_event is not None:
        wait_for = [*(wait_for or ()), state.last_event]
    plan.handle.set_args(state.buffer, bytearray(_WORDS.pack(state.epoch, state.capacity, state.limit, 0)), *args)
    event = cl.enqueue_nd_range_kernel(plan.queue, plan.handle, plan.global_size, plan.local_size, None, wait_for)
    if not state.in_order:
        state.last_event = event
    return GangLaunch(event, plan.label, state, state.epoch)
