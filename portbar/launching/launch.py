"""A launch of a kernel: its event, and what its report says once it is complete.

Not for enqueueing (`portbar.launching.kernel`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from portbar.errors import BarrierTimeoutError, Error
from portbar.launching.state import QueueState
from portbar.launching.trace import Trace
from portbar.primitives.device_barrier import OVERWRITTEN, TIMEOUT
from portbar.primitives.fault import OPEN, Report
from portbar.primitives.headers import FAULTS

if TYPE_CHECKING:
    import pyopencl as cl

    from portbar.launching.memory import Words


class Launch:
    """One enqueued kernel.

    Attributes
    ----------
    event : pyopencl.Event
        The kernel's event, as PyOpenCL would have returned it.
    groups : int
        Launched work-groups, including surplus ones; 0 without a grid.
    """

    groups = 0
    _state: QueueState | None = None
    _epoch = 0
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
        """Whether the report is on the host, so that the device may reuse its place."""
        return self._report is not None or self._snapshot is not None

    def keep_snapshot(self, words: Words, event: cl.Event) -> None:
        """Take over a copy of the report that arrives with `event`."""
        self._snapshot = (words, event)

    @property
    def has_trace(self) -> bool:
        """Whether the trace is on the host, so that the device may reuse its place."""
        return self._trace is not None or self._trace_lost

    def lose_trace(self) -> None:
        """Note that the next launch overwrites the trace."""
        self._trace_lost = True

    def keep_trace(self, words: Words, event: cl.Event) -> None:
        """Take over a copy of the trace that arrives with `event`."""
        self._trace = (words, event)

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
        if not self.has_trace:
            words = self._state.read_trace(self.groups)
            # As of a report: another thread's launch may have begun meanwhile, and kept a copy before it did.
            if not self.has_trace:
                self._trace = (words, None)
        if self._trace is None:
            raise Error(
                f"kernel {kernel!r} on {device}: the trace was overwritten: the next launch in the queue was enqueued while "
                "this one still waited for events. Call trace() before that launch"
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
            if report.groups == 0 or (report.status != OPEN and not FAULTS.get(report.status, OVERWRITTEN).keeps_state):
                # Discovery did not come to its end, so its lock may be taken: later launches get fresh words.
                self._state.give_up()
        return self._report

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
        Error
            The kernel never entered its grid, raised a signal beyond its largest value, pushed more onto a worklist than fits,
            was given a task graph that it could not run or teams that cannot be, or overwrote the hidden words of its barriers.
        """
        report = self._settle()
        if report is None or (report.status == OPEN and report.groups > 0):
            return
        kernel, device = self._label
        if report.status != 0:
            fault = FAULTS.get(report.status, OVERWRITTEN)
            message = f"kernel {kernel!r} on {device}: {fault.message(report)}"
            if not fault.is_timeout:
                raise Error(message)
            arrived = report.arrived if fault is TIMEOUT else 0
            raise BarrierTimeoutError(message, kernel=kernel, device=device, arrived=arrived, expected=report.groups)
        if self.event.command_execution_status < 0:
            raise Error(
                f"kernel {kernel!r} on {device} never ran: its event has the status {self.event.command_execution_status}. "
                "Likely cause: an event in its wait list has failed"
            )
        raise Error(
            f"kernel {kernel!r} on {device} takes PORTBAR_GRID_PARAM but never executed PORTBAR_ENTER; make "
            "PORTBAR_ENTER(grid); the first statement of the kernel"
        )
