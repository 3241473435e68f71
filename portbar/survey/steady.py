"""Keeps what portbar chooses by from changing with how busy the machine is: two surveys minutes apart should say the same.

Not for measuring, and not for drivers that change: findings are kept by driver version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from portbar.findings.findings import BarrierTable, Findings
from portbar.measuring.benching import BarrierTime, barrier_table

#: How far the median of a barrier's times may be from their fastest on a machine at rest (1.6 was the most that was seen on
#: quiet ones), and from relaunching.
SPREAD: Final = 2.0
STEADY: Final = 5.0
#: Samples below which times say nothing about that.
_LEAST_SAMPLES: Final = 3

#: An algorithm that an earlier survey kept stays unless another takes less than this part of its time: medians of two surveys
#: minutes apart differ by 5 to 15% on CPU runtimes, and what is chosen should not change with them.
KEPT: Final = 0.8


def times_of(rows: Sequence[dict[str, Any]]) -> list[BarrierTime]:
    """The rows of a barrier step as `portbar.measuring.benching` takes them."""
    return [BarrierTime.from_row(row) for row in rows]


def unsteady(rows: Sequence[dict[str, Any]]) -> bool:
    """Whether other work on the machine shows in barrier times so much that no choice should be made by them.

    That an algorithm's times vary counts where it might be the fastest of its shape.
    """
    shapes: dict[tuple[int, int], list[BarrierTime]] = {}
    for time in times_of(rows):
        if time.us is not None:
            shapes.setdefault((time.local_size, time.groups), []).append(time)
    return any(_is_unsteady(times) for times in shapes.values())


def _is_unsteady(times: Sequence[BarrierTime]) -> bool:
    """The same of one shape."""
    fastest = min(times, key=lambda time: time.us or 0.0)
    assert fastest.us is not None
    for time in times:
        # Some may be fast by luck, as where two groups came to share a core: of many, the fastest fifth does not count.
        least, us = sorted(time.samples_us)[len(time.samples_us) // 5], time.us or 0.0
        if least <= fastest.us and (len(time.samples_us) < _LEAST_SAMPLES or us > SPREAD * least):
            return True
    # Threads that wait for each other on one core take a time slice a barrier.
    return fastest.relaunch_us is not None and fastest.us > STEADY * fastest.relaunch_us


def settled_table(known: BarrierTable, times: Sequence[BarrierTime]) -> BarrierTable:
    """The table of these times, in which an algorithm of the known table stays unless another is clearly faster.

    Parameters
    ----------
    known : tuple of (int, int, str)
        Local size, group count, algorithm: what the device's findings say now.
    times : sequence of BarrierTime
    """
    fastest: dict[tuple[int, int], float] = {}
    for time in times:
        if time.us is not None:
            shape = (time.local_size, time.groups)
            fastest[shape] = min(time.us, fastest.get(shape, time.us))
    kept = {
        (time.local_size, time.groups): time
        for time in times
        if time.us is not None
        and time.algorithm == _serving(known, time.local_size, time.groups)
        and fastest[time.local_size, time.groups] >= KEPT * time.us
    }
    return barrier_table([kept.get((time.local_size, time.groups), time) for time in times])


def _serving(table: BarrierTable, local_size: int, groups: int) -> str | None:
    """The algorithm that a table names for exactly this local size, and the largest group count up to `groups`."""
    entries = [entry for entry in table if entry[0] == local_size and entry[1] <= groups]
    return max(entries)[2] if entries else None


#: What an ordering finding says that is no matter of time.
_PROOF: Final = "stale"


def settled_findings(before: Findings | None, found: Findings) -> Findings:
    """What a probe found, without what only says that a wait gave up, where an earlier probe of the same driver saw more.

    Progress that was seen, work-groups that were seen at once and loops that were seen to run whole are facts, which a machine
    that is too busy to show them again does not refute. Stale data is one, too.

    Parameters
    ----------
    before : Findings or None
        Of an earlier probe with the same driver, if there was one.
    found : Findings
    """
    if before is None:
        return found
    changes: dict[str, Any] = {
        "ordering": {
            name: "pass" if _gave_up(said) and before.ordering.get(name) == "pass" else said
            for name, said in found.ordering.items()
        },
        "progress": {name: _seen(before.progress.get(name), said) for name, said in found.progress.items()},
        "groups_in_flight": max(filter(None, (before.groups_in_flight, found.groups_in_flight)), default=None),
    }
    if "loop_limit" in found.lost and "loop_limit" not in before.lost:
        changes["loop_limit"] = before.loop_limit
        changes["lost"] = {name: why for name, why in found.lost.items() if name != "loop_limit"}
    return replace(found, **changes)


def _gave_up(said: str) -> bool:
    return said != "pass" and _PROOF not in said


def _seen(before: str | None, said: str) -> str:
    """What was found about progress, or what was found before where that is more."""
    more = before is not None and (before == "independent" or (said.startswith("unknown") and before == "none"))
    return str(before) if more else said
