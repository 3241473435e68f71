"""A program's state for each queue, which launches take their hidden words from; and those that dry runs share."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

import pyopencl as cl

from portbar.launching.gangs import GangState
from portbar.launching.launch import Launch
from portbar.launching.parameters import GANGS
from portbar.launching.plan import Plan
from portbar.launching.scans import ScanState
from portbar.launching.state import QueueState, State
from portbar.primitives.reduction.header import grid_extra_words
from portbar.primitives.reduction.loops import ReductionLoop
from portbar.primitives.reduction.use import Use
from portbar.primitives.scan import DeviceScan
from portbar.primitives.tracing import Tracing

#: Queues whose state is kept; the least recently used one is dropped beyond that, and made anew if it is used again.
_MAX_STATES: Final = 64

_S = TypeVar("_S", bound=State)


class _Recent(Generic[_S]):
    """The states of one kind. `make` takes a queue, a number of work-groups, and the state that is replaced."""

    def __init__(self, make: Callable[[cl.CommandQueue, int, _S | None], _S]) -> None:
        self._make = make
        self._states: OrderedDict[int, _S] = OrderedDict()

    def __call__(self, queue: cl.CommandQueue, groups: int) -> _S:
        """Return the state of a queue, large enough for `groups` launched work-groups. The caller holds the lock."""
        key = queue.int_ptr
        state = self._states.get(key)
        if state is None or groups > state.capacity or state.exhausted:
            if state is not None:
                state.give_up()
            state = self._states[key] = self._make(queue, groups, state)
            while len(self._states) > _MAX_STATES:
                self._states.popitem(last=False)[1].give_up()
        self._states.move_to_end(key)
        return state


class States:
    """The states of one program's queues.

    `wait_limit` gives the rounds of polls after which an atomic wait gives up in kernels without a grid, and `tracing` how
    launches on a device are traced.
    """

    def __init__(
        self,
        loops: tuple[ReductionLoop, ...],
        use: Use | None,
        scans: tuple[DeviceScan, ...],
        wait_limit: Callable[[cl.Device], int],
        tracing: Callable[[cl.Device], Tracing | None],
    ) -> None:
        #: Guards the kernels' arguments and the states: clSetKernelArg and the enqueue that follows belong together.
        self.lock = threading.RLock()
        more_words = None if use is None else lambda capacity: grid_extra_words(use, capacity)
        self.grid: _Recent[QueueState] = _Recent(
            lambda queue, groups, previous: QueueState(queue, groups, more_words, previous, tracing(queue.device))
        )
        self.gang: _Recent[GangState] = _Recent(
            lambda queue, groups, previous: GangState(queue, groups, previous, loops, wait_limit(queue.device))
        )
        self.scan: _Recent[ScanState] = _Recent(
            lambda queue, groups, previous: ScanState(queue, groups, previous, scans)
        )

    def launch(self, plan: Plan, args: Sequence[Any], wait_for: Sequence[cl.Event] | None = None) -> Launch:
        """Enqueue a plan with its hidden arguments filled in."""
        words, hidden = plan.words, plan.hidden
        with self.lock:
            if hidden is None:
                return Launch(plan.call(*args, wait_for=wait_for), plan.label)
            if words is None:
                of_kind = self.gang if hidden is GANGS else self.scan
                return of_kind(plan.queue, plan.groups).launch(plan, args, wait_for)
            state = plan.state
            if state is None or state.exhausted:
                state = plan.state = self.grid(plan.queue, plan.groups)
            epoch = state.epoch + 1
            before = state.prepare(epoch, wait_for)
            words[0] = plan.flags | state.capacity_log2 << 24 | epoch
            if plan.patience is not None:
                words[2] = plan.patience[state.joins_others()]
            event = plan.call(state.buffer, words, *args, wait_for=before)
            launch = Launch(event, plan.label, state, epoch, plan.groups)
            state.note(epoch, launch, wait_for)
        return launch


class DryRuns:
    """Where launches run that execute none of the author's code: a queue and a state, which the programs of a context share."""

    def __init__(self, context: cl.Context, device: cl.Device) -> None:
        #: Held from the launch until it has ended, so that measurements do not disturb each other.
        self.lock = threading.RLock()
        #: Not the caller's, which may wait for an event that the caller sets later.
        self.queue = cl.CommandQueue(context, device)
        #: Queue and number of work-groups -> the state. The caller holds the lock.
        self.state: _Recent[QueueState] = _Recent(
            lambda queue, groups, previous: QueueState(queue, groups, previous=previous)
        )


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
