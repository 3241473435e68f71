"""Worklists that the work-groups of a grid share: frontiers of phases, and a queue of tasks: `portbar/worklist.h`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from portbar.primitives import device_barrier, layout
from portbar.primitives.header import Header, Piece

if TYPE_CHECKING:
    from portbar.primitives.strategy import Strategy

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


def _context(strategy: Strategy) -> dict[str, Any]:
    return {
        **device_barrier.poll_context(strategy),
        "frontier_words": FRONTIER,
        "task_words": TASKS,
        "status_full": layout.STATUS_WORKLIST_FULL,
        "status_idle": layout.STATUS_WORKLIST_IDLE,
        "status_slot": layout.STATUS_WORKLIST_SLOT,
    }


HEADER: Final = Header(
    "worklist",
    "Frontiers and task queues that the work-groups of a grid share.",
    lambda _: list(_PIECES),
    _context,
    ("atomics", "device_barrier", "signal"),
)
