"""A program's state for each queue: the words with which work-groups of a launch synchronise, allocated when needed."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import pyopencl as cl

from portbar.launching.gangs import GangState
from portbar.launching.scans import ScanState
from portbar.launching.state import QueueState
from portbar.primitives.reduction.header import grid_extra_words
from portbar.primitives.reduction.loops import ReductionLoop
from portbar.primitives.reduction.use import Use
from portbar.primitives.scan import DeviceScan
from portbar.primitives.tracing import Tracing

#: Queues whose state is kept; the least recently used one is dropped beyond that, and made anew if it is used again.
_MAX_STATES: Final = 64


class States:
    """The states of one program's queues.

    Parameters
    ----------
    context : pyopencl.Context
    loops : tuple of ReductionLoop
    use : Use or None
        What the program uses of `portbar/reduction.h`.
    scans : tuple of DeviceScan
    wait_limit : callable
        Device -> rounds of polls after which an atomic wait gives up in kernels without a grid.
    tracing : callable
        Device -> how launches on it are traced, None where they are not.

    Attributes
    ----------
    lock : threading.RLock
        Guards the kernels' arguments and the states: clSetKernelArg and the enqueue that follows belong together.
    """

    def __init__(
        self,
        context: cl.Context,
        loops: tuple[ReductionLoop, ...],
        use: Use | None,
        scans: tuple[DeviceScan, ...],
        wait_limit: Callable[[cl.Device], int],
        tracing: Callable[[cl.Device], Tracing | None],
    ) -> None:
        self.lock = threading.RLock()
        self._context, self._loops, self._use, self._wait_limit = context, loops, use, wait_limit
        self._grids: OrderedDict[int, QueueState] = OrderedDict()
        self._gangs: OrderedDict[int, GangState] = OrderedDict()
        self._scans, self._tracing = scans, tracing
        self._scan_states: OrderedDict[int, ScanState] = OrderedDict()
        self._dry_queues: dict[cl.Device, cl.CommandQueue] = {}

    def grid(self, queue: cl.CommandQueue, groups: int) -> QueueState:
        """The state of a queue, large enough for `groups` launched work-groups. The caller holds the lock."""
        key = queue.int_ptr
        state = self._grids.get(key)
        if state is None or state.exhausted or groups > 1 << state.capacity_log2:
            use = self._use
            more_words = None if use is None else lambda capacity: grid_extra_words(use, capacity)
            order = None
            if state is not None:
                order = state.order
                state.give_up()
            state = QueueState(queue, groups, more_words, order, self._tracing(queue.device))
            self._grids[key] = state
            while len(self._grids) > _MAX_STATES:
                self._grids.popitem(last=False)[1].give_up()
        self._grids.move_to_end(key)
        return state

    def gang(self, queue: cl.CommandQueue, groups: int) -> GangState:
        """Return the memory for the values of work-groups without a grid, enough for `groups` of them. The caller holds the
        lock.
        """
        key = queue.int_ptr
        state = self._gangs.get(key)
        if state is None or groups > state.capacity:
            state = self._gangs[key] = GangState(queue, groups, self._loops, state, self._wait_limit(queue.device))
            while len(self._gangs) > _MAX_STATES:
                self._gangs.popitem(last=False)
        self._gangs.move_to_end(key)
        return state

    def scan(self, queue: cl.CommandQueue, groups: int) -> ScanState:
        """Return the memory for the values of work-groups that scan, enough for `groups` of them. The caller holds the lock."""
        key = queue.int_ptr
        state = self._scan_states.get(key)
        if state is None or groups > state.capacity:
            state = self._scan_states[key] = ScanState(queue, groups, self._scans, state)
            while len(self._scan_states) > _MAX_STATES:
                self._scan_states.popitem(last=False)
        self._scan_states.move_to_end(key)
        return state

    def dry_queue(self, device: cl.Device) -> cl.CommandQueue:
        """A queue of the program's own for launches that run none of the author's code."""
        with self.lock:
            if device not in self._dry_queues:
                self._dry_queues[device] = cl.CommandQueue(self._context, device)
            return self._dry_queues[device]
