"""Shows a record in a terminal of 80 columns: the summary of each device first, the numbers after it."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import shorten
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from portbar.survey.device import Device
from portbar.survey.steps import STEPS
from portbar.survey.summary import SummaryView, step_titles, summary

#: Characters that the reason of a step may take.
_REASON: Final = 400


def progress_line(progress: dict[str, str]) -> str:
    """Forward progress between work-groups, sub-groups and lanes, those of a kind together."""
    levels: dict[str, list[str]] = {}
    for level, what in sorted(progress.items(), reverse=True):
        levels.setdefault(what, []).append(level.replace("_", "-"))
    said = [f"between {' and '.join(of)} {shorten(what, 160, placeholder='...')}" for what, of in levels.items()]
    return f"Forward progress: {'; '.join(said)}"


def _step_lines(entry: dict[str, Any]) -> Iterable[Text]:
    for step, name in step_titles().items():
        outcome = entry.get(step)
        if outcome is not None and outcome["status"] != "ok":
            reason = " ".join(outcome.get("reason", "why is not known").split())
            yield Text(f"{name}: {outcome['status']}: {shorten(reason, _REASON, placeholder='...')}", style="yellow")


def _findings_lines(entry: dict[str, Any]) -> Iterable[Text]:
    findings = entry.get("findings") or {}
    if findings.get("progress"):
        yield Text(progress_line(findings["progress"]))


def device_view(entry: dict[str, Any], *, verbose: bool = False) -> RenderableType:
    """Everything that a record says of one device; its known faults by id, or with `verbose` in words."""
    parts: list[RenderableType] = [SummaryView(summary(entry)), *_step_lines(entry), *_findings_lines(entry)]
    parts += [view for step in STEPS for view in step.views(entry)]
    for choice, reasoned in entry.get("strategy", {}).items():
        name = choice.replace("_", " ").capitalize()
        parts.append(Text(f"{name}: {reasoned['value']}, because: {reasoned['reason']}"))
    for quirk in entry.get("quirks", []) if verbose else ():
        parts.append(
            Text(f"Known fault {quirk['name']}: {quirk['fault']}. Workaround: {quirk['workaround']}", style="dim")
        )
    return Group(Text(Device(entry).title, style="bold"), Padding(Group(*parts), (0, 0, 0, 2)), "")


def record_view(record: dict[str, Any], *, verbose: bool = False) -> RenderableType:
    """A whole record; with `verbose`, known faults in words."""
    parts: list[RenderableType] = [device_view(entry, verbose=verbose) for entry in record["devices"]]
    source = record.get("source")
    if source is not None:
        authors = ", ".join(source["authors"])
        parts.insert(
            0, Text(f"Published by {authors}: {source['title']} ({source['venue']}, {source['year']})", style="dim")
        )
    legend = [step.legend for step in STEPS if step.legend and any(step.measured(entry) for entry in record["devices"])]
    if not verbose and any(entry.get("quirks") for entry in record["devices"]):
        legend.append("Faults: known ones, by id; -v describes them.")
    if legend:
        parts.append(Text(" ".join(legend), style="dim"))
    if record["interrupted"]:
        parts.append(Text("Interrupted: this record is partial.", style="red"))
    return Group(*parts)
