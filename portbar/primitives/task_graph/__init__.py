"""A static graph of tasks that the work-groups of a grid execute: `portbar/task_graph.h`."""

from __future__ import annotations

from typing import Any, Final

from portbar.primitives import device_barrier, layout
from portbar.primitives.fault import Fault, Report
from portbar.primitives.pieces import Header, Piece
from portbar.primitives.strategy import Strategy
from portbar.primitives.task_graph.declared import DECLARED

_LINE: Final = layout.LINE_WORDS

#: The content of the word KIND, so that other buffers are not mistaken for a graph.
KIND: Final = 0x7A5C_0001
#: Words that the host gives a graph, and those that launches change; counters begin at COUNTERS.
WORDS: Final = {
    "KIND": 0,
    "TASKS": 1,
    "BY_TICKETS": 2,
    "GROUPS": 3,
    "RECORDS": 4,
    "RUN": _LINE,
    "BEGUN": _LINE + 1,
    "BROKEN": _LINE + 2,
    "TICKETS": 2 * _LINE,
    "THROUGH": 3 * _LINE,
}
COUNTERS: Final = 4 * _LINE
#: Words of a task's record, and how many counters of others it has room for.
RECORD_WORDS: Final = 8
INLINE: Final = 4

#: The place of no task, and the task of a group that waits for the others.
NONE: Final = 0xFFFF_FFFF

#: The reported request to a graph: other numbers are work-groups that its order needs, two at least.
STALE: Final = 1
FOREIGN: Final = 0xFFFF_FFFE
MISUSED: Final = 0xFFFF_FFFF

_PIECES: Final[tuple[Piece, ...]] = tuple(
    ("task_graph/task_graph.mako", name) for name in ("types", "begin", "finish", "reached", "take", "wait", "again")
)


_RESET: Final = "Call the graph's reset() before the next launch."


def _waited(report: Report) -> str:
    """The wait of a work-group of a task graph."""
    group = f"work-group {report.group} of {report.groups}"
    if report.arrived == NONE:
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


def _refused(report: Report) -> str:
    """Why a task graph could not be run."""
    return {
        STALE: (
            "the task graph was left by a launch that did not end: one that failed, one of which a work-group left while there "
            f"were tasks, or one that still executes in another queue. {_RESET} One launch of a graph executes at a time."
        ),
        FOREIGN: (
            "an argument is not a task graph. Pass the arguments of a portbar.TaskGraph (graph.args), and let the kernel take "
            "them as `global portbar_tasks *`."
        ),
        MISUSED: (
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


FAULTS: Final = (
    Fault(
        "TASK_WAIT", 19, "a task of a task graph waited for others until the spin limit", _waited, arrived="the task"
    ),
    Fault(
        "TASK_GRAPH",
        20,
        "a task graph could not be run",
        _refused,
        arrived="work-groups that took part",
        is_timeout=False,
    ),
)


def _context(strategy: Strategy) -> dict[str, Any]:
    return {
        **device_barrier.poll_context(strategy),
        "words": WORDS,
        "kind": KIND,
        "none": NONE,
        "asked_foreign": FOREIGN,
        "asked_stale": STALE,
        "asked_misused": MISUSED,
    }


HEADER: Final = Header(
    "task_graph",
    "A static graph of tasks, executed by the work-groups of a grid.",
    lambda _: list(_PIECES),
    _context,
    ("atomics", "device_barrier", "signal"),
    FAULTS,
    page="task_graph.md",
    declared=DECLARED,
)
