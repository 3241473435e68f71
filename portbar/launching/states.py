"""A program's state for each queue: the words with which work-groups of a launch synchronise, allocated when needed."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

import pyopencl as cl

from portbar.launching.gangs import GangState
from portbar.launching.scans import ScanState
from portbar.launching.state import QueueState
from portbar.primitives import layout
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


class DryRuns:
    """Where launches run that execute none of the author's code: a queue and a state, which the programs of a context share.

    Parameters
    ----------
    context : pyopencl.Context
    device : pyopencl.Device

    Attributes
    ----------
    lock : threading.RLock
        Held from the launch until it has ended, so that measurements do not disturb each other.
    queue : pyopencl.CommandQueue
        Not the caller's, which may wait for an event that the caller sets later.
    """

    def __init__(self, context: cl.Context, device: cl.Device) -> None:
        self.lock = threading.RLock()
        self.queue = cl.CommandQueue(context, device)
        self._state: QueueState | None = None
        #: Where the state has its words, which a variant from outside of portbar moves.
        self._layout: Mapping[str, int] = {}

    def state(self, groups: int) -> QueueState:
        """The state for a launch of `groups` work-groups. The caller holds the lock."""
        state, table = self._state, layout.OFFSETS.table()
        if state is None or state.exhausted or groups > 1 << state.capacity_log2 or table is not self._layout:
            state = self._state = QueueState(self.queue, groups, order=state.order if state is not None else None)
            self._layout = table
        return state


#: Of each context; neither holds the context.
_dry_runs: Final[weakref.WeakKeyDictionary[cl.Context, dict[tuple[cl.Device, str], DryRuns]]] = (
    weakref.WeakKeyDictionary()
)
_dry_runs_lock: Final = threading.Lock()


def dry_runs(context: cl.Context, device: cl.Device, discovery: str) -> DryRuns:
    """Return what the dry runs by one way of discovery share; another way leaves other words for the next launch."""
    with _dry_runs_lock:
        of_context = _dry_runs.setdefault(context, {})
        key = (device, discovery)
        if key not in of_context:
            of_context[key] = DryRuns(context, device)
        return of_context[key]
