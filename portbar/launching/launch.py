"""A launch of a kernel: its event, and what its report says once it is complete.

Not for enqueueing (`portbar.launching.kernel`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from portbar.errors import BarrierTimeoutError, Error
from portbar.launching.state import QueueState, Report
from portbar.launching.trace import Trace
from portbar.primitives import layout, task_graph

if TYPE_CHECKING:
    import pyopencl as cl

    from portbar.launching.memory import Words

_OVERWRITTEN = (
    "portbar's hidden state was overwritten, so results may be wrong. Likely cause: a kernel writes outside its buffers. "
    "Check its indices; Oclgrind reports such writes."
)

_CAUSES = (
    "Likely causes: a work-group skips the barrier or returns before it (a condition that differs between work-groups), the "
    "work between two barriers takes longer than the limit, or the device was busy or does not run the groups concurrently. "
    "Raise spin_limit= if the work takes that long; `portbar survey` shows what the device does."
)


_RESET = "Call the graph's reset() before the next launch."
_SET_AGAIN = "Call set() on the list before the next launch."

#: Ends of a launch that leave its hidden state as good as before.
_STATE_IS_FINE: Final = frozenset(
    {
        layout.STATUS_OPEN,
        layout.STATUS_TIMEOUT,
        layout.STATUS_WAIT,
        layout.STATUS_SIGNAL,
        layout.STATUS_SIGNAL_RANGE,
        layout.STATUS_CONDITION,
        layout.STATUS_WORKLIST_FULL,
        layout.STATUS_WORKLIST_IDLE,
        layout.STATUS_WORKLIST_SLOT,
        layout.STATUS_TASK_WAIT,
        layout.STATUS_TASK_GRAPH,
        layout.STATUS_TEAM,
        layout.STATUS_TEAM_SPLIT,
    }
)


def _task_wait(report: Report) -> str:
    """The wait of a work-group of a task graph."""
    group = f"work-group {report.group} of {report.groups}"
    if report.arrived == task_graph.NONE:
        waited = (
            f"{group} had no task left and waited until the spin limit for {report.asked} others to come to their end."
        )
    else:
        waited = (
            f"task {report.arrived} of a task graph waited in {group} until the spin limit; {report.asked} of the tasks that "
            "it waits for are missing in its counter."
        )
    return (
        f"{waited} Likely causes: a work-group left with a task that it had not finished (it asks for tasks until there are "
        f"none), or a task takes longer than the limit. {_RESET} Raise spin_limit= if the work is that long."
    )


def _graph_fault(report: Report) -> str:
    """Why a task graph could not be run."""
    return {
        task_graph.STALE: (
            "the task graph was left by a launch that did not end: one that failed, one of which a work-group left while there "
            f"were tasks, or one that still executes in another queue. {_RESET} One launch of a graph executes at a time."
        ),
        task_graph.FOREIGN: (
            "an argument is not a task graph. Pass the arguments of a portbar.TaskGraph (graph.args), and let the kernel take "
            "them as `global portbar_tasks *`."
        ),
        task_graph.MISUSED: (
            "a work-group took a task before it had waited for the one that it took before. Call "
            "portbar_work_group_task_graph_wait after each portbar_work_group_task_graph_take, or use "
            f"portbar_work_group_task_graph_next. {_RESET}"
        ),
    }.get(
        report.asked,
        f"the order of the task graph needs {report.asked} work-groups at the same time, and {report.arrived} took part: "
        "with fewer, all wait for tasks that none of them has taken. Give an order in which each task comes after those "
        f"that it waits for, or launch a program that requires groups>={report.asked}.",
    )


def _no_teams(report: Report) -> str:
    """Why a grid could not be cut into teams."""
    if report.arrived == 0:
        return (
            f"the colour or the size that portbar_team_by_colour or portbar_team_split got in work-group {report.group} "
            f"differs: {report.asked} work-items of the group, or work-groups of its team, gave another one. All work-items "
            "of a work-group must give one colour, and all work-items of the grid one size."
        )
    return (
        f"portbar_team_split requested teams of {report.asked} work-groups in a launch of {report.arrived}. A team has "
        "at least one and at most portbar_num_groups work-groups: choose the size from that, or let the program require "
        "them before the launch with require=('groups>=N',)."
    )


class Launch:
    """One enqueued kernel.

    Attributes
    ----------
    event : pyopencl.Event
        The kernel's event, as PyOpenCL would have returned it.
    groups : int
        Launched work-groups, including surplus ones; 0 without a grid.
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
            if report.status not in _STATE_IS_FINE or report.groups == 0:
                # Discovery did not come to its end, so its lock may be taken: later launches get fresh words.
                self._state.broken = True
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
                "value was never stored, or the work-item that stores it cannot run concurrently. Raise spin_limit= if the "
                "work takes that long."
            ),
            layout.STATUS_SIGNAL: (
                f"a wait for a signal reached its spin limit in work-group {report.group} of {report.groups}: it waited for "
                f"at least {report.asked}, and the signal was {report.arrived}. Likely causes: the work-group that should "
                "have signalled has returned or waits itself, or fewer work-groups took part than the kernel expects "
                "(portbar_num_groups returns their number). Raise spin_limit= if the work takes that long."
            ),
            layout.STATUS_CONDITION: (
                f"portbar_device_wait_until reached its spin limit in work-group {report.group} of {report.groups}. Likely "
                "causes: the work-group that should have made the condition true has returned or waits itself. Raise "
                "spin_limit= if the work takes that long."
            ),
            layout.STATUS_WORKLIST_IDLE: (
                f"work-group {report.group} of {report.groups} waited for a task until the spin limit, and no task was pushed "
                f"or finished meanwhile: {report.asked} were pushed, {report.arrived} are finished. Likely causes: a "
                f"work-group returned with an unfinished task (it must request tasks until none are left), a task takes "
                f"longer than the limit, or the queue holds leftovers of a failed launch. {_SET_AGAIN} Raise spin_limit= if a "
                "task takes that long."
            ),
            layout.STATUS_WORKLIST_SLOT: (
                f"work-group {report.group} of {report.groups} waited until the spin limit for slot {report.arrived} of a "
                f"task queue with {report.asked} slots, which another work-item reserved and never wrote, or took and never "
                f"freed. Likely causes: a kernel writes outside its buffers, or the argument is another list. {_SET_AGAIN}"
            ),
            layout.STATUS_TASK_WAIT: _task_wait(report),
            layout.STATUS_TEAM: (
                f"a barrier of a team reached its spin limit in work-group {report.group}; {report.arrived} of the team's "
                f"{report.asked} work-groups had arrived. Likely causes: a work-group of the team that skips the "
                "barrier, waits at one of another team, or left the kernel, or a team that is used after the third split "
                "that followed its own. Raise spin_limit= if the work is that long."
            ),
            layout.STATUS_LOST: (
                f"work-group {report.group} reached the spin limit while it waited for the end of occupancy discovery. "
                f"{_CAUSES}"
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
                f"kernel {kernel!r} on {device}: a signal exceeded its largest value, {2**31 - 1}. It was {report.arrived} "
                f"when work-group {report.group} of {report.groups} added, set or waited for {report.asked}. Clear signals "
                "with portbar_device_signals_clear at the beginning of a launch; memory that no launch clears must start at 0."
            )
        if report.status == layout.STATUS_WORKLIST_FULL:
            raise Error(
                f"kernel {kernel!r} on {device}: a worklist with room for {report.arrived} elements needed room for at least "
                f"{report.asked}. Give portbar.Frontier or portbar.TaskQueue a larger capacity; a list with room for 0 is of "
                f"the other kind, or was never set. {_SET_AGAIN}"
            )
        if report.status == layout.STATUS_TASK_GRAPH:
            raise Error(f"kernel {kernel!r} on {device}: {_graph_fault(report)}")
        if report.status == layout.STATUS_TEAM_SPLIT:
            raise Error(f"kernel {kernel!r} on {device}: {_no_teams(report)}")
        if report.status != 0:
            raise Error(f"kernel {kernel!r} on {device}: {_OVERWRITTEN}")
        if self.event.command_execution_status < 0:
            raise Error(
                f"kernel {kernel!r} on {device} never ran: its event has the status {self.event.command_execution_status}. "
                "Likely cause: an event in its wait list has failed"
            )
        raise Error(
            f"kernel {kernel!r} on {device} takes PORTBAR_GRID_PARAM but never executed PORTBAR_ENTER; make "
            "PORTBAR_ENTER(grid); the first statement of the kernel"
        )
