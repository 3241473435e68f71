"""The summary of a surveyed device: verdict, cost of a barrier beside relaunching, problems and remedies, in a few lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import log2
from typing import Any, Final

from portbar.device import causes
from portbar.device.facts import DeviceFacts
from portbar.device.quirks import loop_notice
from portbar.errors import Error
from portbar.records.plain import amount
from portbar.records.reading import known_us_of, number_of, value_of
from portbar.survey.device import Device
from portbar.survey.steps import STEPS, in_turn
from portbar.survey.steps.barrier import BarrierStep
from portbar.survey.steps.occupancy import OccupancyStep, found, most_groups
from portbar.survey.tables import beside_text, digits

Entry = Mapping[str, Any]

#: The smallest speed-up that a device may have, and the inverse of the largest.
_POSSIBLE: Final = 1e-9

#: How a step ends that failed.
_LOST: Final = {"error", "crash", "timeout"}

_UNKNOWN: Final = "the reason is unknown"


@dataclass(frozen=True)
class Line:
    """One labelled text of a summary."""

    label: str
    text: str
    style: str = ""


def step_titles() -> dict[str, str]:
    """Steps whose failures are named, and what they are called in a sentence."""
    return {"probe": "probe", **{step.name: step.title for step in in_turn(quick=False, share=True)}}


def loop_warning(entry: Entry) -> str:
    """A warning where the device ends loops early; empty elsewhere."""
    limit = (entry.get("findings") or {}).get("loop_limit")
    if limit is None:
        return ""
    try:
        notice = loop_notice(DeviceFacts.from_json(entry["facts"]), limit)
    except Error:
        notice = f"the device ends loops silently after {limit} iterations in the whole kernel"
    return notice[0].upper() + notice[1:]


def summary(entry: dict[str, Any]) -> list[Line]:
    """The labelled lines of one device: `Verdict`, `Barrier`, `Problem`, `Remedy` and `Faults`, each where it applies."""
    device = Device(entry)
    if device.verdict == "failed":
        return [Line("Verdict", f"survey failed: {entry.get('reason', _UNKNOWN)}", "red")]
    if device.verdict == "published":
        return [Line("Verdict", _published(entry), "green")]
    if device.verdict == "not surveyed":
        return [Line("Verdict", "not surveyed: interrupted before it was checked", "yellow")]
    if device.verdict == "unknown":
        return [Line("Verdict", "unknown: the record does not say whether the device works", "yellow")]
    if device.verdict == "unusable":
        usable = entry["usable"]
        lines = [Line("Verdict", f"unusable: {usable['reason']}", "red")]
        return [*lines, Line("Remedy", usable["remedy"])] if usable["remedy"] else lines
    if device.verdict == "refused":
        refused = f"usable, but portbar refuses barriers between work-groups: {entry.get('reason', _UNKNOWN)}"
        return [Line("Verdict", refused, "yellow"), *_faults(device)]
    style = "green" if device.status == "complete" else "yellow"
    lines = [Line("Verdict", _meeting(device), style)]
    if "max_groups" not in device.strategy and (text := _cost_text(entry)):
        lines.append(Line("Barrier", text))
    problems, remedies = _problems(device)
    if problems:
        lines.append(Line("Problem", "; ".join(problems), "yellow"))
    if remedies:
        lines.append(Line("Remedy", "; ".join(remedies)))
    return [*lines, *_faults(device)]


def _meeting(device: Device) -> str:
    """Whether work-groups meet at a barrier, and how many."""
    strategy = device.strategy
    if not strategy:
        return "usable; the survey was interrupted before its strategy was known"
    if "max_groups" in strategy:
        reason = device.one_group.partition(": ")[0]
        return f"usable with grids of one work-group, so no barrier is between work-groups: {reason}"
    most = most_groups(device.entry)
    if not most or not OccupancyStep().measured(device.entry):
        return "usable; the number of work-groups at a barrier was not measured"
    if most <= 1:
        return "usable with grids of one work-group: the device ran no two at the same time"
    local_size, groups = usual_grid(device.entry)
    units = device.facts.get("compute_units")
    per_unit = ", one per compute unit" if groups == units else ""
    return f"usable: {groups} work-groups of {amount(local_size, 'work-item')} meet{per_unit}" + (
        f"; at most {most}" if most > groups else ""
    )


def usual_grid(entry: Entry) -> tuple[int, int]:
    """The local size and the number of work-groups that a summary is about: one per compute unit, if as many meet.

    The local size is the measured one nearest to that which portbar suggests.
    """
    barrier = BarrierStep().measured(entry)
    rows = OccupancyStep().measured(entry)
    usual = Device(entry).suggested_local_size
    sizes: set[int] = {row["local_size"] for row in barrier or rows if row.get("local_size")}
    local_size = min(sizes, key=lambda size: (_far(size, usual), size), default=usual)
    known: dict[int, int] = {}
    for row in rows:
        size: int = row.get("local_size") or local_size
        met = max(number_of(row.get("occupancy")) or 0, (row.get("best_known_groups") if found(row) else 0) or 0)
        known[size] = max(known.get(size, 0), int(met))
    nearest = min(known, key=lambda size: (_far(size, local_size), size), default=None)
    most = known[nearest] if nearest is not None else 1
    units = (entry.get("facts") or {}).get("compute_units") or 1
    return local_size, min(most, units) if units > 1 else most


def _far(number: float, wanted: float) -> float:
    return abs(log2(max(number, 1) / max(wanted, 1)))


@dataclass(frozen=True)
class Cost:
    """The fastest barrier between the work-groups of a grid, beside relaunching an empty kernel; times in microseconds."""

    local_size: int
    groups: int
    algorithm: str
    us: float
    relaunch_us: float

    @property
    def speedup(self) -> float:
        """How many times faster the barrier is than relaunching."""
        return self.relaunch_us / self.us


def cost(entry: Entry) -> Cost | None:
    """The cost of a barrier in the usual grid, or in the measured one nearest to it; None where none was measured."""
    local_size, groups = usual_grid(entry)
    rows = [row for row in BarrierStep().measured(entry) if row["local_size"] == local_size]
    rows = [row for row in rows if row["groups"] > 1 and known_us_of(row["barrier_time"]) > 0]
    if not rows:
        return None
    count = min({row["groups"] for row in rows}, key=lambda number: (_far(number, groups), number))
    best = min((row for row in rows if row["groups"] == count), key=lambda row: known_us_of(row["barrier_time"]))
    times = (known_us_of(best[name]) for name in ("barrier_time", "relaunch_time"))
    of = Cost(local_size, count, str(best["algorithm"]), *times)
    # Of times that no device takes, the ratio may be zero or infinite.
    return of if _POSSIBLE < of.speedup < 1 / _POSSIBLE else None


def _cost_text(entry: Entry) -> str:
    """The cost of a barrier in the usual grid, in words."""
    of = cost(entry)
    if of is None:
        return ""
    shape = f" ({of.groups} groups)" if of.groups != usual_grid(entry)[1] else ""
    beside = beside_text(of.speedup)
    return f"{digits(of.us)} us by {of.algorithm}{shape}, {beside} relaunching ({digits(of.relaunch_us)} us)"


def _problems(device: Device) -> tuple[list[str], list[str]]:
    entry = device.entry
    problems, remedies = [], []
    for step in STEPS:
        faults = list(step.faults(entry))
        problems += faults
        if faults and (remedy := step.remedy(entry)):
            remedies.append(remedy)
    lost = [name for step, name in step_titles().items() if device.part(step).get("status") in _LOST]
    if lost:
        problems.append(f"not measured to the end: {', '.join(lost)}")
        remedies.append(_remedy_of_lost(device))
    cut = [name for step, name in step_titles().items() if device.part(step).get("status") == "partial"]
    if cut:
        problems.append(f"measured in part, for want of time: {', '.join(cut)}")
        remedies.append("give it more time, without --quick")
    if device.part("barrier").get("unsteady"):
        problems.append("barrier times vary, as on a busy machine")
        remedies.append("measure again with `portbar bench barrier`")
    if notice := loop_warning(entry):
        problem, _, remedy = notice.partition(". Remedy: ")
        problems.insert(0, problem)
        if remedy:
            remedies.insert(0, remedy)
    return problems, remedies


def _remedy_of_lost(device: Device) -> str:
    """Return the remedy for steps that were not measured to the end: by their causes, or for more time."""
    parts = [part for step in step_titles() if (part := device.part(step)).get("status") in _LOST]
    known = dict.fromkeys(filter(None, (causes.remedy(str(part.get("reason", ""))) for part in parts)))
    if known:
        return "; ".join(known)
    if all(part["status"] == "timeout" for part in parts):
        return "survey this device again while it has no other work, or with a longer --timeout"
    return "survey this device again; update its driver if the failure returns"


def _faults(device: Device) -> Iterator[Line]:
    if device.quirks:
        yield Line("Faults", ", ".join(device.quirks), "dim")


def _published(entry: Entry) -> str:
    rows = OccupancyStep().measured(entry)
    if not rows:
        return "published, without a number of work-groups"
    bound = max(row.get("best_known_groups") or value_of(row.get("occupancy"), 0) for row in rows)
    shares = [
        f"{100 * value_of(row['recall']):.0f}% of them by the {row['lock']} lock"
        for row in rows
        if value_of(row.get("recall")) is not None
    ]
    return f"published: {bound} work-groups run concurrently" + (
        f"; discovery found {', '.join(shares)}" if shares else ""
    )
