"""A static graph of tasks that the work-groups of a grid execute: `portbar/task_graph.h`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from portbar.primitives import device_barrier, layout
from portbar.primitives.header import Header, Piece

if TYPE_CHECKING:
    from portbar.primitives.strategy import Strategy

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


def _context(strategy: Strategy) -> dict[str, Any]:
    return {
        **device_barrier.poll_context(strategy),
        "words": WORDS,
        "kind": KIND,
        "none": NONE,
        "status_wait": layout.STATUS_TASK_WAIT,
        "status_graph": layout.STATUS_TASK_GRAPH,
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
)
