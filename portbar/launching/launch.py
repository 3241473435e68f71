"""A launch of a kernel: its event, and what its report says once it is complete.

Not for enqueueing (`portbar.launching.kernel`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from portbar.errors import BarrierTimeoutError, Error
from portbar.launching.state import QueueState, Report
from portbar.launching.trace import Trace
from portbar.primitives import layout

if TYPE_CHECKING:
    import pyopencl as cl

    from portbar.launching.memory import Words

_OVERWRITTEN = (
    "portbar's hidden state was overwritten, so the result is not to be trusted. Likely cause: a kernel writes outside "
    "its buffers. Check its indices; Oclgrind reports such writes."
)

_CAUSES = (
    "Likely causes: a work-group that skips the barrier or leaves the kernel before it (a barrier under a condition that "
    "differs between work-groups), work between two barriers that takes longer than the limit, or a device that was busy "
    "or that does not run the groups at the same time. Raise spin_limit= if the work is that long; "
    "`portbar survey` shows what the device does."
)


#: Ends of a launch that leave its hidden state as good as before.
_STATE_IS_FINE: Final = frozenset(
    {
        layout.STATUS_OPEN,
        layout.STATUS_TIMEOUT,
        layout.STATUS_WAIT,
        layout.STATUS_SIGNAL,
        layout.STATUS_SIGNAL_RANGE,
        layout.STATUS_CONDITION,
    }
)


class Launch:
    """One enqueued kernel.

    Attributes
    ----------
    event : pyopencl.Event
        The kernel's event, as PyOpenCL would have returned it.
    groups : int
        Work-groups that were launched, surplus ones too; 0 without a grid.
    """

    _report: Report | None = None
    _snapshot: tuple[Words, cl.Event] | None = None
    _trace: tuple[Words, cl.Event | None] | None = None
    _trace_lost = False

    def __init__(
        self,
        event: cl.Event,
        label: tuple[str, str],
        state: QueueState | None = None,
        epoch: int = 0,
        groups: int = 0,
    ) -> None:
        self.event = event
        self._label = label
        self._state = state
        self._epoch = epoch
        self.groups = groups

    @property
    def has_report(self) -> bool:
        """Whether the report is on the host already, so that the device may reuse its place."""
        return self._report is not None or self._snapshot is not None

    def keep_snapshot(self, words: Words, event: cl.Event) -> None:
        """Take over a copy of the report that arrives with `event`."""
        self._snapshot = (words, event)

    @property
    def has_trace(self) -> bool:
        """Whether the trace is on the host already, so that the device may reuse its place."""
        return self._trace is not None or self._trace_lost

    def lose_trace(self) -> None:
        """Note that the next launch overwrites the trace."""
        self._trace_lost = True

    def keep_trace(self, words: Words, event: cl.Event) -> None:
        """Take over a copy of the trace that arrives with `event`."""
        self._trace = (words, event)

    def trace(self) -> Trace:
        """When each work-group arrived at each device barrier and when it left; waits for the launch.

        Returns
        -------
        Trace

        Raises
        ------
        Error
            The program was not built with `trace`, or the kernel has no grid; or the launch waited for events when the next one
            in the queue was enqueued, which took the trace's place.
        """
        kernel, device = self._label
        if self._state is None or self._state.tracing is None:
            raise Error(
                f"kernel {kernel!r} on {device} left no trace: build its program with trace=True, and let the kernel take "
                "PORTBAR_GRID_PARAM"
            )
        report = self._settle()
        found = self._state.tracing
        groups = min(report.groups, self.groups) if report is not None else 0
        if not self.has_trace:
            words = self._state.read_trace(self.groups)
            # As of a report: another thread's launch may have begun meanwhile, and kept a copy before it did.
            if not self.has_trace:
                self._trace = (words, None)
        if self._trace is None:
            raise Error(
                f"kernel {kernel!r} on {device}: the trace is gone, since the next launch in the queue was enqueued while this "
                "one waited for events and could not be copied from; call trace() before that launch"
            )
        words, copied = self._trace
        if copied is not None:
            copied.wait()
        return Trace.from_words(words[: groups * found.words], found, self._epoch, self._label)

    def _settle(self) -> Report | None:
        if self._state is None:
            self.event.wait()
            return None
        if self._report is None:
            self.event.wait()
            if self._snapshot is None:
                report = self._state.read(self._epoch)
            # Looked at again after the read: another thread's launch saves the report before it reuses the report's place.
            if self._snapshot is not None:
                words, copied = self._snapshot
                copied.wait()
                report = Report.from_words(words, self._epoch)
            self._report = report
            if report.status not in _STATE_IS_FINE or report.groups == 0:
                # Discovery did not come to its end, so its lock may be taken: later launches get fresh words.
                self._state.broken = True
        return self._report

    @property
    def num_groups(self) -> int:
        """Work-groups that took part; waits for the launch. 0 for a kernel without a grid."""
        report = self._settle()
        return report.groups if report is not None else 0

    def wait(self) -> None:
        """Wait until the launch is complete and its barriers are known to have held.

        Raises
        ------
        BarrierTimeoutError
            A barrier or a wait reached the spin limit; what the kernel wrote is incomplete. The queue can be used again at
            once.
        Error
            The kernel never entered its grid, took a signal beyond its largest value, or wrote over the words in which its
            groups meet.
        """
        report = self._settle()
        if report is None or (report.status == layout.STATUS_OPEN and report.groups > 0):
            return
        kernel, device = self._label
        ended = {
            layout.STATUS_TIMEOUT: (
                f"a device barrier reached its spin limit in work-group {report.group}; {report.arrived} of {report.groups} "
                f"work-groups had arrived. {_CAUSES}"
            ),
            layout.STATUS_WAIT: (
                f"an atomic wait reached its spin limit in work-group {report.group} of {report.groups}. Likely causes: the "
                "value that it waits for was never stored, or by a work-item that cannot run at the same time. Raise "
                "spin_limit= if the work is that long."
            ),
            layout.STATUS_SIGNAL: (
                f"a wait for a signal reached its spin limit in work-group {report.group} of {report.groups}: the signal was "
                f"{report.arrived}, and at least {report.asked} was waited for. Likely causes: the work-group that should "
                "have signalled has left or waits itself, or fewer work-groups took part than the kernel counts on "
                "(portbar_num_groups tells how many). Raise spin_limit= if the work is that long."
            ),
            layout.STATUS_CONDITION: (
                f"portbar_device_wait_until reached its spin limit in work-group {report.group} of {report.groups}. Likely "
                "causes: the work-group that should have made the condition true has left or waits itself. Raise "
                "spin_limit= if the work is that long."
            ),
            layout.STATUS_LOST: (
                f"work-group {report.group} waited for the end of occupancy discovery until the spin limit and left. {_CAUSES}"
            ),
        }.get(report.status)
        if ended is not None:
            raise BarrierTimeoutError(
                f"kernel {kernel!r} on {device}: {ended}",
                kernel=kernel,
                device=device,
                arrived=report.arrived if report.status == layout.STATUS_TIMEOUT else 0,
                expected=report.groups,
            )
        if report.status == layout.STATUS_SIGNAL_RANGE:
            raise Error(
                f"kernel {kernel!r} on {device}: a signal was taken beyond {2**31 - 1}, the largest value. It was "
                f"{report.arrived} when work-group {report.group} of {report.groups} added, set or waited for {report.asked}. "
                "Clear signals with portbar_device_signals_clear at the beginning of a launch; memory that no launch clears "
                "must start at 0."
            )
        if report.status != 0:
            raise Error(f"kernel {kernel!r} on {device}: {_OVERWRITTEN}")
        if self.event.command_execution_status < 0:
            raise Error(
                f"kernel {kernel!r} on {device} never ran: its event has the status {self.event.command_execution_status}, as "
                "when an event that it waits for has failed"
            )
        raise Error(
            f"kernel {kernel!r} on {device} takes PORTBAR_GRID_PARAM but never executed "
            "PORTBAR_ENTER; make PORTBAR_ENTER(grid); the first statement of the kernel"
        )
