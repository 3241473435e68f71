"""A launch of a kernel: what is the same in all of one shape, the hidden words of each queue, and what its report says.

Launches take their hidden words from a program's state for their queue. Dry runs share states among programs.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

import pyopencl as cl

from portbar.errors import Error
from portbar.launching.build import TypedKernel
from portbar.launching.faults import error_of, spoils_state
from portbar.launching.memory import Copy
from portbar.launching.parameters import SCAN, Hidden
from portbar.launching.queues import UntilEnd
from portbar.launching.state import GridState, QueueState, Reported
from portbar.locks import Lock
from portbar.primitives.fault import Report
from portbar.primitives.layout import Layout
from portbar.records.dataclass import dataclass
from portbar.records.plain import amount

if TYPE_CHECKING:  # few launches have these
    from portbar.launching.early import EarlyRead
    from portbar.launching.trace import Trace


@dataclass(slots=True)
class LaunchPlan:
    """Everything about a launch that depends on queue, sizes and local memory only."""

    queue: cl.CommandQueue
    handle: TypedKernel
    #: The names of the kernel and the device, for messages.
    label: tuple[str, str]
    hidden: Hidden | None
    #: Makes the state that a launch takes its hidden words from, given a queue, a number of work-groups, and the state that is
    #: replaced; None without hidden words.
    make_state: Callable[..., QueueState] | None
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None
    #: Launched work-groups, 0 where they are not counted.
    groups: int = 0
    #: The hidden launch argument, an OpenCL uint4; None without a grid.
    words: memoryview | None = None
    flags: int = 0
    state: GridState | None = None
    #: Patience with the device to itself, and beside a launch in another queue; None where that makes no difference.
    patience: tuple[int, int] | None = None
    #: Whether another launch may go by it; not where the occupancy is to be measured again.
    lasting: bool = True
    global_offset: tuple[int, ...] | None = None
    #: Sets all arguments and enqueues, given the queue and the sizes, or with these bound.
    enqueue: Callable[..., cl.Event] = field(init=False)
    call: Callable[..., cl.Event] = field(init=False)

    def __post_init__(self) -> None:
        """Bind what each launch passes."""
        self.enqueue = self.handle.enqueue
        offset = {} if self.global_offset is None else {"global_offset": self.global_offset}
        self.call = partial(self.enqueue, self.handle, self.queue, self.global_size, self.local_size, **offset)


#: The attributes that users are shown; all others are internal.
_PUBLIC: Final = (
    "command_execution_status", "event", "get_info", "get_profiling_info", "groups", "num_groups", "profile", "set_callback",
    "trace", "wait",
)  # fmt: skip

_STATES: Final[dict[int, str]] = {
    cl.command_execution_status.QUEUED: "queued",
    cl.command_execution_status.SUBMITTED: "submitted",
    cl.command_execution_status.RUNNING: "running",
    cl.command_execution_status.COMPLETE: "complete",
}


def _state_of(event: cl.Event) -> str:
    """The state of an event in a word."""
    status = event.command_execution_status
    return _STATES.get(status, f"failed (execution status {status})")


class Launch(Reported):
    """One enqueued kernel.

    It has the attributes and methods of its event. Lists of events of PyOpenCL need the event itself, which no Python class
    can be: ``wait_for=[launch.event]``. Those of portbar take either.

    Attributes
    ----------
    event : pyopencl.Event
        The kernel's event, as PyOpenCL would have returned it.
    groups : int
        Launched work-groups, including surplus ones; 0 without a grid.
    """

    _state: GridState | None = None
    _epoch = 0
    #: The transfer that brings its report, and ends after it.
    _early: EarlyRead | None = None

    def __init__(
        self,
        event: cl.Event,
        label: tuple[str, str],
        state: GridState | None = None,
        epoch: int = 0,
        groups: int = 0,
    ) -> None:
        self.event = event
        self._label = label
        self._state = state
        self._epoch = epoch
        self.groups = groups

    def __repr__(self) -> str:
        kernel, device = self._label
        groups = f", {amount(self.groups, 'work-group')}" if self.groups else ""
        return f"<portbar.Launch of kernel {kernel!r} on {device}{groups}: {_state_of(self.event)}>"

    def __dir__(self) -> list[str]:
        return list(_PUBLIC)

    @property
    def profile(self) -> Any:
        """Times of the event, as `pyopencl.Event.profile`; the queue needs profiling enabled."""
        return self.event.profile

    @property
    def command_execution_status(self) -> int:
        """As `pyopencl.Event.command_execution_status`."""
        return self.event.command_execution_status

    def get_info(self, param: cl.event_info) -> Any:
        """As `pyopencl.Event.get_info`."""
        return self.event.get_info(param)

    def get_profiling_info(self, param: Any) -> Any:
        """As `pyopencl.Event.get_profiling_info`."""
        return self.event.get_profiling_info(param)

    def set_callback(self, command_exec_callback_type: int, callback: Callable[[int], Any]) -> None:
        """As `pyopencl.Event.set_callback`."""
        self.event.set_callback(command_exec_callback_type, callback)

    def trace(self) -> Trace:
        """Return when each work-group arrived at each device barrier and when it left; waits for the launch.

        Returns
        -------
        Trace

        Raises
        ------
        Error
            The program was not built with `trace`, or the kernel has no grid; or the launch still waited for events when the
            next one in the queue was enqueued, which overwrote the trace.
        """
        kernel, device = self._label
        if self._state is None or self._state.tracing is None:
            raise Error(
                f"kernel {kernel!r} on {device} has no trace: build its program with trace=True, and declare "
                "PORTBAR_GRID_PARAM in the kernel"
            )
        report = self._settle()
        found = self._state.tracing
        groups = min(report.groups, self.groups) if report is not None else 0
        if self.trace_copy is None and not self.trace_lost:
            words = self._state.read_trace(self.groups)
            # As of a report: another thread's launch may have begun meanwhile, and kept a copy before it did.
            if self.trace_copy is None and not self.trace_lost:
                self.trace_copy = words
        if self.trace_copy is None:
            raise Error(
                f"kernel {kernel!r} on {device}: the trace was overwritten: the next launch in the queue was enqueued while "
                "this one still waited for events. Call trace() before that launch"
            )
        words = self.trace_copy.read() if isinstance(self.trace_copy, Copy) else self.trace_copy
        from portbar.launching.trace import Trace  # noqa: PLC0415 (few launches have one)

        return Trace.from_words(words[: groups * found.words], found, self._epoch, self._label)

    def _settle(self) -> Report | None:
        """Wait for the launch; its report, None without a grid."""
        if self.report is not None:
            return self.report
        if self._state is None:
            self.event.wait()
            return None
        state, early = self._state, self._early
        if self._epoch == state.watch.epoch:
            state.waited = self._epoch
        if early is not None:
            early.wait()
        # After the transfer, too, some runtimes take a while to say that the launch is complete.
        if early is None or self.event.command_execution_status != cl.command_execution_status.COMPLETE:
            self.event.wait()
        if self.report_copy is None:
            report = state.read(self._epoch) if early is None else state.read_from(early, self._epoch)
        # Looked at again after the read: another thread's launch saves the report before it reuses the report's place.
        if self.report_copy is not None:
            report = Report.from_words(self.report_copy.read(), self._epoch)
        if spoils_state(report):
            state.give_up()
        self.report = report
        return report

    @property
    def num_groups(self) -> int:
        """Number of participating work-groups; waits for the launch. 0 for a kernel without a grid."""
        report = self._settle()
        return report.groups if report is not None else 0

    def wait(self) -> None:
        """Wait until the launch is complete, and check that its barriers held.

        Raises
        ------
        BarrierTimeoutError
            A barrier or a wait reached the spin limit; the kernel's results are incomplete. The queue remains usable.
        pyopencl.RuntimeError
            The kernel never ran, because an event in its wait list failed.
        Error
            The kernel never entered its grid, raised a signal beyond its largest value, pushed more onto a worklist than fits,
            was given a task graph that it could not run or teams that cannot be, or overwrote the hidden words of its barriers.
            Or an earlier launch of the program in the queue did so, or timed out, and was dropped without `wait`; once each.
        """
        report, state = self._settle(), self._state
        if report is None or state is None:
            return
        error = error_of(self._label, report)
        if error is not None:
            state.watch.tell(self._epoch)
            raise error
        state.raise_owed()


class CarriedState(QueueState):
    """A state whose launches take hidden words without a grid."""

    def launch(self, plan: LaunchPlan, args: Sequence[Any], wait_for: Sequence[cl.Event] | None) -> Launch:
        """Enqueue a plan with the hidden arguments filled in. The caller holds the program's lock."""
        raise NotImplementedError


#: Queues whose state is kept; the least recently used one is dropped beyond that, and made anew if it is used again.
_MAX_STATES: Final = 64

_S = TypeVar("_S", bound=QueueState)


class _Recent(Generic[_S]):
    """The states of one kind."""

    def __init__(self) -> None:
        self._states: OrderedDict[int, _S] = OrderedDict()
        self._until_end = UntilEnd(self, _Recent._forget)

    def of(self, queue: cl.CommandQueue, groups: int, make: Callable[..., QueueState]) -> _S:
        """Return the state of a queue, large enough for `groups` launched work-groups. The caller holds the lock.

        `make` takes a queue, a number of work-groups, and the state that is replaced.
        """
        key = queue.int_ptr
        state = self._states.get(key)
        if state is None or groups > state.capacity or state.exhausted:
            if state is not None:
                state.give_up()
            life = self._until_end.life_of(queue)
            state = self._states[key] = cast("_S", make(life.queue, groups, previous=state))
            while len(self._states) > _MAX_STATES:
                self._states.popitem(last=False)[1].give_up()
        self._states.move_to_end(key)
        return state

    def _forget(self, key: int) -> None:
        self._states.pop(key, None)


class States:
    """The states of one program's queues; `layout` has the words that the program's headers own."""

    def __init__(self, layout: Layout) -> None:
        #: Guards the kernels' arguments and the states: clSetKernelArg and the enqueue that follows belong together.
        self.lock = Lock()
        self.layout = layout
        self.grid: _Recent[GridState] = _Recent()
        self.gang: _Recent[CarriedState] = _Recent()
        self.scan: _Recent[CarriedState] = _Recent()

    def launch(self, plan: LaunchPlan, args: Sequence[Any], wait_for: Sequence[cl.Event] | None = None) -> Launch:
        """Enqueue a plan with its hidden arguments filled in."""
        words, make = plan.words, plan.make_state
        with self.lock:
            if make is None:
                return Launch(plan.call(*args, wait_for=wait_for), plan.label)
            if words is None:
                of_kind = self.scan if plan.hidden is SCAN else self.gang
                return of_kind.of(plan.queue, plan.groups, make).launch(plan, args, wait_for)
            state = plan.state
            if state is None or state.watch.epoch >= state.last_epoch:
                state = plan.state = self.grid.of(plan.queue, plan.groups, make)
            if not state.look(stacklevel=3):
                state = plan.state = self.grid.of(plan.queue, plan.groups, make)
            before = state.begin(plan.label, wait_for)
            epoch = state.watch.epoch
            words[0] = plan.flags | state.capacity_log2 << 24 | epoch
            if plan.patience is not None:
                words[2] = plan.patience[state.joins_others()]
            event = plan.call(state.buffer, words, *args, wait_for=before)
            launch = Launch(event, plan.label, state, epoch, plan.groups)
            state.note(epoch, launch, wait_for)
            if state.waited == epoch - 1:
                launch._early = state.read_early(epoch, wait_for)
        return launch


class DryRuns:
    """Where launches run that execute none of the author's code: a queue and states, which the programs of a context share."""

    def __init__(self, context: cl.Context, device: cl.Device) -> None:
        #: Held from the launch until it has ended, so that measurements do not disturb each other.
        self.lock = Lock()
        #: Not the caller's, which may wait for an event that the caller sets later.
        self.queue = cl.CommandQueue(context, device)
        self._states: dict[Layout, _Recent[GridState]] = {}

    def state(self, layout: Layout, groups: int) -> GridState:
        """Return a state with the words of a program for a number of work-groups. The caller holds the lock."""
        if layout not in self._states:
            self._states[layout] = _Recent()
        return self._states[layout].of(self.queue, groups, partial(GridState, own=layout))


#: Of each context; neither holds the context.
_dry_runs: Final[weakref.WeakKeyDictionary[cl.Context, dict[tuple[cl.Device, str], DryRuns]]] = (
    weakref.WeakKeyDictionary()
)
_dry_runs_lock: Final = Lock()


def dry_runs(context: cl.Context, device: cl.Device, discovery: str) -> DryRuns:
    """Return what the dry runs by one way of discovery share; another way leaves other words for the next launch."""
    with _dry_runs_lock:
        of_context = _dry_runs.setdefault(context, {})
        key = (device, discovery)
        if key not in of_context:
            of_context[key] = DryRuns(context, device)
        return of_context[key]
