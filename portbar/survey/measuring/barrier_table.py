"""Which barrier algorithm is fastest where, from the rows of a survey's barrier step, and what portbar keeps of them.

Two surveys minutes apart should say the same: a busy machine changes no choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from portbar.choices.profile import change_findings, stored_findings
from portbar.device.costs import Costs, store_costs
from portbar.device.facts import facts
from portbar.device.findings import BarrierTable, Findings
from portbar.primitives.grid import bounded
from portbar.records.reading import samples_of, value_of

if TYPE_CHECKING:
    import pyopencl as cl

Row = Mapping[str, Any]

#: How much faster than a simpler algorithm another one must be to replace it.
ADVANTAGE: Final = 0.03
#: An algorithm that an earlier survey kept stays unless another takes less than this part of its time: medians of two surveys
#: minutes apart differ by 5 to 15% on CPU runtimes, and what is chosen should not change with them.
KEPT: Final = 0.8

#: How far the median of a barrier's times may be from their fastest on a machine at rest (1.6 was the most that was seen on
#: quiet ones), and from relaunching.
SPREAD: Final = 2.0
STEADY: Final = 5.0
#: Samples below which times say nothing about that.
_LEAST_SAMPLES: Final = 3


def barrier_table(rows: Iterable[Row], known: BarrierTable = ()) -> BarrierTable:
    """Condense rows to a table: for each local size, from which group count on which algorithm is the one to take.

    An algorithm replaces a simpler one only where it is faster by more than `ADVANTAGE`, so that noise does not decide. That of
    the table `known` stays unless another one takes less than `KEPT` of its time. There are entries only where the algorithm
    changes, as in `Findings.barrier_table`, and none without times.
    """
    table: list[tuple[int, int, str]] = []
    for (local_size, groups), timed in sorted(_by_shape(rows).items()):
        us = {row["algorithm"]: _us(row) for row in timed if row["algorithm"] in bounded()}
        if not us:
            continue
        before = _serving(known, local_size, groups)
        if before in us and min(us.values()) >= KEPT * us[before]:
            best = before
        else:
            best, *others = (name for name in bounded() if name in us)
            for name in others:
                if us[name] < us[best] * (1 - ADVANTAGE):
                    best = name
        if not table or table[-1][0] != local_size or table[-1][2] != best:
            table.append((local_size, groups, best))
    return tuple(table)


def unsteady(rows: Iterable[Row]) -> bool:
    """Whether other work on the machine shows in barrier times so much that no choice should be made by them.

    That an algorithm's times vary counts where it might be the fastest of its shape.
    """
    return any(_is_unsteady(timed) for timed in _by_shape(rows).values())


def _is_unsteady(rows: Sequence[Row]) -> bool:
    fastest = min(rows, key=_us)
    for row in rows:
        samples = samples_of(row["barrier_time"])
        # Some may be fast by luck, as where two groups came to share a core: of many, the fastest fifth does not count.
        least = sorted(samples)[len(samples) // 5]
        if least <= _us(fastest) and (len(samples) < _LEAST_SAMPLES or _us(row) > SPREAD * least):
            return True
    # Threads that wait for each other on one core take a time slice a barrier.
    relaunch = value_of(fastest.get("relaunch_time"))
    return relaunch is not None and _us(fastest) > STEADY * relaunch


def _by_shape(rows: Iterable[Row]) -> dict[tuple[int, int], list[Row]]:
    """The rows with a time, by local size and group count."""
    shapes: dict[tuple[int, int], list[Row]] = {}
    for row in rows:
        if value_of(row["barrier_time"]) is not None:
            shapes.setdefault((row["local_size"], row["groups"]), []).append(row)
    return shapes


def _us(row: Row) -> float:
    return float(row["barrier_time"]["value"])


def _serving(table: BarrierTable, local_size: int, groups: int) -> str:
    """The algorithm that a table names for exactly this local size, and the largest group count up to `groups`."""
    entries = [entry for entry in table if entry[0] == local_size and entry[1] <= groups]
    return max(entries)[2] if entries else ""


def store_table(device: cl.Device, table: BarrierTable, rows: Sequence[Row]) -> Findings:
    """Add a barrier table to the cached findings of a device, by which `choose` goes, and keep the costs for `advise`.

    `Error` if the device was never probed on this machine, so that it has no findings to add the table to.
    """
    found = change_findings(
        device, "a barrier table", lambda found: replace(found, barrier_table=table, times_rejected=None)
    )
    keep_costs(device, rows)
    return found


def keep_costs(device: cl.Device, rows: Sequence[Row]) -> None:
    """Store what barriers and launches cost, for `portbar.advise`."""
    costs = Costs.of_entry({"barrier": {"rows": rows}}, f"measured {datetime.now(UTC).date()} on this machine")
    if costs is not None:
        store_costs(facts(device), costs)


def reject_times(device: cl.Device) -> None:
    """Note that the times measured just now vary too much, so that none are borrowed for the choice, unless a table is stored.

    `Error` if the device was never probed on this machine.
    """
    why = f"barrier times measured on {datetime.now(UTC).date()} were rejected as unsteady"
    change_findings(
        device, "a remark", lambda found: found if found.barrier_table else replace(found, times_rejected=why)
    )


def keep_table(device: cl.Device, rows: Sequence[Row], *, quick: bool) -> bool:
    """Store which algorithm was fastest at which group count, unless the times vary too much; whether that was done."""
    # A table that a record lends is no earlier survey of this machine.
    known = stored_findings(facts(device))
    if known is None or (quick and known.barrier_table):
        return False
    if unsteady(rows):
        reject_times(device)
        return False
    table = barrier_table(rows, known.barrier_table)
    if table:
        store_table(device, table, rows)
    return bool(table)
