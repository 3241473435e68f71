"""Shows a record in a terminal of 100 columns: the verdict in words first, the numbers after it."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import shorten
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from portbar.device.facts import DeviceFacts
from portbar.device.quirks import loop_notice
from portbar.errors import Error
from portbar.records.reading import value_of
from portbar.survey.device import Device
from portbar.survey.steps import STEPS, in_turn
from portbar.survey.steps.barrier import gain
from portbar.survey.steps.occupancy import Occupancy

#: Characters that the reason of a step may take.
_REASON: Final = 400

#: How a step ends that failed.
_LOST: Final = {"error", "crash", "timeout"}


def _titles() -> dict[str, str]:
    """Steps whose failures are named, and what they are called in a sentence."""
    return {"probe": "probe", **{step.name: step.title for step in in_turn(quick=False)}}


def verdict(entry: dict[str, Any]) -> str:
    """Whether a barrier between work-groups works on a device, for how many, at what cost, by what, and what is wrong."""
    if entry["status"] == "failed":
        return f"survey failed: {entry.get('reason', 'why is not known')}"
    if entry["status"] == "published":
        return _published(entry)
    device = Device(entry)
    if device.is_usable is None:
        return "not surveyed: interrupted before it was checked"
    if not device.is_usable:
        usable = entry["usable"]
        remedy = f". What would help: {usable['remedy']}" if usable["remedy"] else ""
        return f"unusable: {usable['reason']}{remedy}"
    if entry["status"] == "refused":
        return (
            f"usable, but portbar refuses to synchronise work-groups on it: {entry.get('reason', 'why is not known')}"
        )
    return _meeting(device) + _faults(entry)


def _meeting(device: Device) -> str:
    strategy = device.strategy
    if not strategy:
        return "usable; the survey was interrupted before its strategy was known"
    if "max_groups" in strategy:
        reason = device.one_group.partition(": ")[0]
        return f"usable with grids of one work-group, so that no barrier is between work-groups: {reason}"
    groups = [value_of(row.get("occupancy"), 0) for row in Occupancy().measured(device.entry)]
    if not groups:
        return "usable; how many work-groups can meet at a barrier was not measured"
    if max(groups) <= 1:
        return "usable with grids of one work-group: it ran no two at the same time"
    known = {"device_barrier", "atomics"} <= set(strategy)
    means = f", by the {strategy['device_barrier']} barrier on {strategy['atomics']} atomics" if known else ""
    return f"usable: up to {max(groups):g} work-groups meet at a barrier{gain(device.entry)}{means}"


def _faults(entry: dict[str, Any]) -> str:
    """What is wrong, for the sentence."""
    parts = [fault for step in STEPS for fault in step.faults(entry)]
    lost = [name for step, name in _titles().items() if entry.get(step, {}).get("status") in _LOST]
    if lost:
        parts.append(f"not measured to the end: {', '.join(lost)}")
    if entry.get("quirks"):
        parts.append(f"known faults: {', '.join(Device(entry).quirks)}")
    return f". What is wrong: {'; '.join(parts)}" if parts else ""


def _published(entry: dict[str, Any]) -> str:
    rows = Occupancy().measured(entry)
    if not rows:
        return "published, without a number of work-groups"
    bound = max(row.get("best_known_groups") or value_of(row.get("occupancy"), 0) for row in rows)
    shares = [
        f"{100 * value_of(row['recall']):.0f}% of them by the {row['lock']} lock"
        for row in rows
        if value_of(row.get("recall")) is not None
    ]
    return f"published: {bound} work-groups run at once" + (f"; discovery found {', '.join(shares)}" if shares else "")


def progress_line(progress: dict[str, str]) -> str:
    """Forward progress between work-groups, sub-groups and lanes, those of a kind together."""
    levels: dict[str, list[str]] = {}
    for level, what in sorted(progress.items(), reverse=True):
        levels.setdefault(what, []).append(level.replace("_", "-"))
    said = [f"between {' and '.join(of)} {shorten(what, 160, placeholder='...')}" for what, of in levels.items()]
    return f"Forward progress: {'; '.join(said)}"


def _step_lines(entry: dict[str, Any]) -> Iterable[Text]:
    for step, name in _titles().items():
        outcome = entry.get(step)
        if outcome is not None and outcome["status"] != "ok":
            reason = " ".join(outcome.get("reason", "why is not known").split())
            yield Text(f"{name}: {outcome['status']}: {shorten(reason, _REASON, placeholder='...')}", style="yellow")


def _findings_lines(entry: dict[str, Any]) -> Iterable[Text]:
    findings = entry.get("findings") or {}
    if findings.get("progress"):
        yield Text(progress_line(findings["progress"]))
    if findings.get("loop_limit") is not None:
        try:
            notice = loop_notice(DeviceFacts.from_json(entry["facts"]), findings["loop_limit"])
        except Error:
            notice = f"the device ends loops silently after {findings['loop_limit']} iterations in the whole kernel"
        yield Text(notice[0].upper() + notice[1:], style="red")


def device_view(entry: dict[str, Any]) -> RenderableType:
    """Everything that a record says of one device."""
    style = {"complete": "green", "published": "green", "unusable": "red", "failed": "red"}.get(
        entry["status"], "yellow"
    )
    parts: list[RenderableType] = [Text(verdict(entry), style=style), *_step_lines(entry), *_findings_lines(entry)]
    parts += [view for step in STEPS for view in step.views(entry)]
    for choice, reasoned in entry.get("strategy", {}).items():
        name = choice.replace("_", " ").capitalize()
        parts.append(Text(f"{name}: {reasoned['value']}, because: {reasoned['reason']}"))
    for quirk in entry.get("quirks", []):
        parts.append(
            Text(f"Known fault {quirk['name']}: {quirk['fault']}. Workaround: {quirk['workaround']}", style="dim")
        )
    return Group(Text(Device(entry).title, style="bold"), Padding(Group(*parts), (0, 0, 0, 2)), "")


def record_view(record: dict[str, Any]) -> RenderableType:
    """A whole record."""
    parts: list[RenderableType] = [device_view(entry) for entry in record["devices"]]
    source = record.get("source")
    if source is not None:
        authors = ", ".join(source["authors"])
        parts.insert(
            0, Text(f"Published by {authors}: {source['title']} ({source['venue']}, {source['year']})", style="dim")
        )
    legend = [step.legend for step in STEPS if step.legend and any(step.measured(entry) for entry in record["devices"])]
    if legend:
        parts.append(Text(" ".join(legend), style="dim"))
    if record["interrupted"]:
        parts.append(Text("Interrupted: this record is partial.", style="red"))
    return Group(*parts)
