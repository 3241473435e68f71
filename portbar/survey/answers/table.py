"""The table of programs, one or more of each primitive, in the order in which they are run."""

from __future__ import annotations

from typing import Final

from portbar.survey.answers import arrays, meeting, reducing, sharing, tasks
from portbar.survey.answers.program import Answer

#: Name -> program; what other primitives are built of comes first.
ANSWERS: Final = {
    "atomics": Answer("atomics", sharing.shared),
    "ordered atomics": Answer("atomics", sharing.handed_over),
    "device barrier": Answer("device barrier", meeting.shifted),
    "votes": Answer("device barrier", meeting.voted),
    "split barrier": Answer("split barrier", meeting.passed),
    "reduction of lanes": Answer("reduction", reducing.of_lanes),
    "reduction of sub-groups": Answer("reduction", reducing.of_sub_groups),
    "reduction of a work-group": Answer("reduction", reducing.of_a_group),
    "reduction of work-groups": Answer("reduction", reducing.of_all_groups),
    "reduction of a grid": Answer("reduction", reducing.of_a_grid),
    "scan of work-groups": Answer("scan", reducing.scanned),
    "reduce": Answer("reduce", arrays.reduced),
    "scan": Answer("scan", arrays.scanned),
    "sort": Answer("sort", arrays.sorted_),
    "spin lock": Answer("lock", sharing.spin_locked),
    "ticket lock": Answer("lock", sharing.ticket_locked),
    "signal": Answer("signal", meeting.relayed, several="a signal goes from one to another"),
    "team": Answer("team", meeting.teamed, several="a team has several"),
    "frontier": Answer("worklist", tasks.searched),
    "task queue": Answer("worklist", tasks.walked),
    "task graph": Answer("task graph", tasks.swept),
    "recorded launches": Answer("recording", arrays.recorded),
    "kernels run by a kernel": Answer("recording", arrays.driven),
}
