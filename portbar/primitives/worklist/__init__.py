"""Worklists that the work-groups of a grid share: frontiers of phases, and a queue of tasks: `portbar/worklist.h`."""

from __future__ import annotations

from typing import Any, Final

from portbar.primitives import device_barrier, layout
from portbar.primitives.fault import Fault
from portbar.primitives.pieces import Header, LocalWords, Piece
from portbar.primitives.strategy import Strategy
from portbar.primitives.worklist.declared import DECLARED

_LINE: Final = layout.LINE_WORDS

#: Words of a frontier, and how many there are: as many as a task queue has at least, for which it may be taken by mistake.
FRONTIER: Final = {"CAPACITY": 0, "PHASE": 2, "TAILS": _LINE}
FRONTIER_WORDS: Final = 5 * _LINE
#: Words of a task queue; a word for each slot follows. Neither list has a capacity where the other one's is.
TASKS: Final = {"CAPACITY": 1, "PUSHED": _LINE, "DRAWN": 2 * _LINE, "FINISHED": 3 * _LINE, "SLOTS": 4 * _LINE}

_PIECES: Final[tuple[Piece, ...]] = tuple(
    ("worklist/worklist.mako", name)
    for name in (
        "types",
        "places",
        "frontier",
        "frontier_push",
        "frontier_swap",
        "task_queue",
        "task_queue_push",
        "task_queue_pop",
    )
)


_SET_AGAIN: Final = "Call set() on the list before the next launch."


FAULTS: Final = (
    Fault(
        "WORKLIST_FULL",
        16,
        "more was pushed onto a worklist than it has room for",
        lambda report: (
            f"a worklist with room for {report.arrived} elements needed room for at least "
            f"{report.asked}. Later pushes may need more. A capacity that suffices is the number of elements that one phase "
            "can push to a portbar.Frontier, or that can wait in a portbar.TaskQueue: that of different elements if each is "
            "pushed once, such as by the work-item whose atomic operation claims it, otherwise that of all pushes. A list with "
            f"room for 0 is of the other kind, or was never set. {_SET_AGAIN}"
        ),
        arrived="the list's room",
        is_timeout=False,
    ),
    Fault(
        "WORKLIST_IDLE",
        17,
        "a wait for a task reached the spin limit",
        lambda report: (
            f"work-group {report.group} of {report.groups} waited for a task until the spin limit, and no task was pushed "
            f"or finished meanwhile; unfinished tasks: {(report.asked - report.arrived) % 2**32}. Likely causes: a "
            f"work-group returned with an unfinished task (it must request tasks until none are left), a task takes "
            f"longer than the limit, or the queue holds leftovers of a failed launch. {_SET_AGAIN} Raise spin_limit= if a "
            "task takes that long."
        ),
        arrived="finished tasks",
    ),
    Fault(
        "WORKLIST_SLOT",
        18,
        "a wait for a slot of a task queue reached the spin limit",
        lambda report: (
            f"work-group {report.group} of {report.groups} waited until the spin limit for slot {report.arrived} of a "
            f"task queue with {report.asked} slots, which another work-item reserved and never wrote, or took and never "
            f"freed. Likely causes: a kernel writes outside its buffers, or the argument is another list. {_SET_AGAIN}"
        ),
        arrived="the slot",
    ),
)


def _context(strategy: Strategy) -> dict[str, Any]:
    return {
        **device_barrier.poll_context(strategy),
        "frontier_words": FRONTIER,
        "task_words": TASKS,
    }


HEADER: Final = Header(
    "worklist",
    "Frontiers and task queues that the work-groups of a grid share.",
    lambda _: list(_PIECES),
    _context,
    ("atomics", "device_barrier", "signal"),
    FAULTS,
    local=(
        LocalWords("WANTED", zero_for="portbar_work_group_wanted"),
        LocalWords("WRAPPED", zero_for="portbar_work_group_wanted"),
        LocalWords("FIRST"),
    ),
    page="worklist.md",
    declared=DECLARED,
)
