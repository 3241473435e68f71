"""The summary of a surveyed device: verdict, cost of a barrier beside relaunching, problems and remedies, in a few lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import log2
from typing import Any, Final

from portbar.device.facts import DeviceFacts
from portbar.device.quirks import loop_notice
from portbar.errors import Error
from portbar.records.reading import known_us_of, number_of, value_of
from portbar.survey.device import Device
from portbar.survey.steps import STEPS, in_turn
from portbar.survey.steps.barrier import Barrier
from portbar.survey.steps.occupancy import Occupancy, found, most_groups
from portbar.survey.tables import digits

Entry = Mapping[str, Any]

#: Local size that the summary is about, on CPUs and elsewhere; the measured one nearest to it is shown.
USUAL_LOCAL_SIZE: Final = {True: 64, False: 256}

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
    return {"probe": "probe", **{step.name: step.title for step in in_turn(quick=False)}}


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
    if "max_groups" not in device.strategy and (cost := _cost(entry)):
        lines.append(Line("Barrier", cost))
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
    if not most or not Occupancy().measured(device.entry):
        return "usable; the number of work-groups at a barrier was not measured"
    if most <= 1:
        return "usable with grids of one work-group: the device ran no two at the same time"
    local_size, groups = usual_grid(device.entry)
    units = device.facts.get("compute_units")
    per_unit = ", one per compute unit" if groups == units else ""
    return f"usable: {groups} work-groups of {local_size} meet{per_unit}" + (
        f"; at most {most}" if most > groups else ""
    )


def usual_grid(entry: Entry) -> tuple[int, int]:
    """The local size and the number of work-groups that a summary is about: one per compute unit, if as many meet."""
    barrier = Barrier().measured(entry)
    rows = Occupancy().measured(entry)
    usual = USUAL_LOCAL_SIZE["CPU" in ((entry.get("facts") or {}).get("type") or ())]
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


def _cost(entry: Entry) -> str:
    """The fastest barrier between the work-groups of the usual grid, beside relaunching."""
    local_size, groups = usual_grid(entry)
    rows = [row for row in Barrier().measured(entry) if row["local_size"] == local_size]
    rows = [row for row in rows if row["groups"] > 1] if groups > 1 else rows
    if not rows:
        return ""
    count = min({row["groups"] for row in rows}, key=lambda number: (_far(number, groups), number))
    best = min((row for row in rows if row["groups"] == count), key=lambda row: known_us_of(row["barrier_time"]))
    us, again = known_us_of(best["barrier_time"]), known_us_of(best["relaunch_time"])
    ratio = again / us
    beside = f"{digits(ratio)} times faster than" if ratio >= 1 else "slower than"
    shape = f" ({count} groups)" if count != groups else ""
    return f"{digits(us)} us by {best['algorithm']}{shape}, {beside} relaunching ({digits(again)} us)"


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
        remedies.append("survey this device again; update its driver if the failure returns")
    if device.part("barrier").get("unsteady"):
        problems.append("barrier times vary, as on a busy machine")
        remedies.append("measure again with `portbar bench barrier`")
    if notice := loop_warning(entry):
        problem, _, remedy = notice.partition(". Remedy: ")
        problems.insert(0, problem)
        if remedy:
            remedies.insert(0, remedy)
    return problems, remedies


def _faults(device: Device) -> Iterator[Line]:
    if device.quirks:
        yield Line("Faults", ", ".join(device.quirks), "dim")


def _published(entry: Entry) -> str:
    rows = Occupancy().measured(entry)
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
