"""Barrier times, and what portbar chooses by from now on: two surveys minutes apart should say the same."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from portbar.choices.profile import describe, forget
from portbar.choices.strategy import DeviceProfile
from portbar.choices.timing import is_cpu
from portbar.device.costs import Costs, store_costs
from portbar.device.facts import facts
from portbar.device.findings import BarrierTable
from portbar.primitives.grid import bounded
from portbar.survey.measuring.benching import BarrierTime, BarrierTimer, barrier_table, store_table, time_barriers
from portbar.survey.tasks.session import Session, largest_group, possible_sizes

if TYPE_CHECKING:
    import pyopencl as cl

#: How far the median of a barrier's times may be from their fastest on a machine at rest (1.6 was the most that was seen on
#: quiet ones), and from relaunching.
SPREAD: Final = 2.0
STEADY: Final = 5.0
#: Samples below which times say nothing about that.
_LEAST_SAMPLES: Final = 3

#: An algorithm that an earlier survey kept stays unless another takes less than this part of its time: medians of two surveys
#: minutes apart differ by 5 to 15% on CPU runtimes, and what is chosen should not change with them.
KEPT: Final = 0.8

#: Why the survey times no barrier without a spin limit: one launch that hangs would cost all that is measured after it.
_UNBOUNDED: Final = "it has no spin limit: call measuring.benching.time_barriers with its name to time it"


def barrier_sizes(profile: DeviceProfile, largest: int | None = None) -> list[int]:
    """Local sizes of the barrier step: on a CPU a barrier costs more the more work-items one thread serves."""
    return possible_sizes((1, 64) if is_cpu(profile) else (32, 64, 256, 1024), profile, largest)


def measure(session: Session) -> None:
    """Time of a device barrier for each algorithm and group count, beside relaunching an empty kernel.

    Rows: those of `portbar.survey.measuring.benching.BarrierTime.to_row`.
    """
    queue, sizes = session.queue, session.sizes
    if not sizes:
        timer = BarrierTimer(queue, 1, {"device_barrier": bounded()[0]})
        sizes = barrier_sizes(session.profile, largest_group(timer.program, queue, timer.kernel.name))

    def row(time: BarrierTime) -> None:
        session.row(time.to_row())

    times = time_barriers(queue, local_sizes=sizes, budget_s=session.budget.left(), on_step=session.doing, on_row=row)
    if "cl_intel_concurrent_dispatch" in session.profile.facts.extensions:
        for local_size in sizes:
            most = max(time.groups for time in times if time.local_size == local_size)
            row(BarrierTime("intel_device_barrier", most, local_size, None, note=_UNBOUNDED, status="skipped"))


def times_of(rows: Sequence[dict[str, Any]]) -> list[BarrierTime]:
    """The rows of a barrier step as `portbar.survey.measuring.benching` takes them."""
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
    """The table of these times, in which an algorithm of the known table stays unless another is clearly faster."""
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


def keep_costs(device: cl.Device, rows: Sequence[dict[str, Any]]) -> None:
    """Store what barriers and launches cost, for `portbar.advise`."""
    when = datetime.now(UTC).date().isoformat()
    costs = Costs.of_entry({"barrier": {"rows": rows}}, f"measured {when} on this machine")
    if costs is not None:
        store_costs(facts(device), costs)


def keep_table(device: cl.Device, rows: Sequence[dict[str, Any]], *, quick: bool) -> bool:
    """Store which algorithm was fastest at which group count, unless the times vary too much; whether that was done."""
    known = describe(device).findings
    if unsteady(rows) or known is None or (quick and known.barrier_table):
        return False
    table = settled_table(known.barrier_table, times_of(rows))
    if not table:
        return False
    store_table(device, table)
    keep_costs(device, rows)
    forget()
    return True
