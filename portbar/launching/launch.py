"""A launch of a kernel: its event, and what its report says once it is complete."""

from __future__ import annotations

import pyopencl as cl

from portbar.errors import BarrierTimeoutError, Error
from portbar.launching.memory import Copy
from portbar.launching.state import QueueState, Reported
from portbar.launching.trace import Trace
from portbar.primitives.device_barrier import OVERWRITTEN, TIMEOUT
from portbar.primitives.fault import OPEN, Report
from portbar.primitives.headers import FAULTS


class Launch(Reported):
    """One enqueued kernel.

    Attributes
    ----------
    event : pyopencl.Event
        The kernel's event, as PyOpenCL would have returned it.
    groups : int
        Launched work-groups, including surplus ones; 0 without a grid.
    """

    _state: QueueState | None = None
    _epoch = 0

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
        return Trace.from_words(words[: groups * found.words], found, self._epoch, self._label)

    def _settle(self) -> Report | None:
        """Wait for the launch; its report, None without a grid."""
        if self.report is not None:
            return self.report
        self.event.wait()
        if self._state is None:
            return None
        if self.report_copy is None:
            report = self._state.read(self._epoch)
        # Looked at again after the read: another thread's launch saves the report before it reuses the report's place.
        if self.report_copy is not None:
            report = Report.from_words(self.report_copy.read(), self._epoch)
        self.report = report
        if report.groups == 0 or (report.status != OPEN and not FAULTS.get(report.status, OVERWRITTEN).keeps_state):
            # Discovery did not come to its end, so its lock may be taken: later launches get fresh words.
            self._state.give_up()
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
        raise Error(
            f"kernel {kernel!r} on {device} takes PORTBAR_GRID_PARAM but never executed PORTBAR_ENTER; make "
            "PORTBAR_ENTER(grid); the first statement of the kernel"
        )
