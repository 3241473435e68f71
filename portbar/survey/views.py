"""A record as a terminal of 80 columns shows it: in full, the summary of each device first, or on one screen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from textwrap import shorten, wrap
from typing import TYPE_CHECKING, Any, Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from portbar.survey.device import Device
from portbar.survey.steps import STEPS
from portbar.survey.summary import Line, step_titles, summary

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

#: Characters that the reason of a step may take.
_REASON: Final = 400

#: Columns that the labels of a summary take, and the lines of each text in a summary of one screen.
_LABEL: Final = 10
_MOST_LINES: Final = {"Verdict": 2, "Barrier": 2, "Problem": 2, "Remedy": 2, "Faults": 1}

#: Lines that one device takes in a summary: three devices and the last line fit a terminal of 24.
MOST_LINES: Final = 7

_INTERRUPTED: Final = Text("Interrupted: this record is partial.", style="red")


def _step_lines(entry: dict[str, Any]) -> Iterable[Text]:
    for step, name in step_titles().items():
        outcome = entry.get(step)
        if outcome is not None and outcome["status"] != "ok":
            reason = " ".join(outcome.get("reason", "why is not known").split())
            yield Text(f"{name}: {outcome['status']}: {shorten(reason, _REASON, placeholder='...')}", style="yellow")


def _progress_lines(entry: dict[str, Any]) -> Iterable[Text]:
    """Forward progress between work-groups, sub-groups and lanes, those of a kind together."""
    levels: dict[str, list[str]] = {}
    for level, what in sorted(((entry.get("findings") or {}).get("progress") or {}).items(), reverse=True):
        levels.setdefault(what, []).append(level.replace("_", "-"))
    said = [f"between {' and '.join(of)} {shorten(what, 160, placeholder='...')}" for what, of in levels.items()]
    if said:
        yield Text(f"Forward progress: {'; '.join(said)}")


def device_view(entry: dict[str, Any], *, verbose: bool = False) -> RenderableType:
    """Everything that a record says of one device; its known faults by id, or with `verbose` in words."""
    parts: list[RenderableType] = [SummaryView(summary(entry)), *_step_lines(entry), *_progress_lines(entry)]
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
        parts.append(_INTERRUPTED)
    return Group(*parts)


class SummaryView:
    """Labelled lines as a terminal shows them; with `most`, each text is cut so that a device takes that many lines."""

    def __init__(self, lines: Sequence[Line], most: int | None = None) -> None:
        self._lines = lines
        self._most = most

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        width, left = max(20, options.max_width - _LABEL), self._most
        for number, line in enumerate(self._lines):
            after = len(self._lines) - number - 1
            allowed = None if left is None else max(1, min(_MOST_LINES[line.label], left - after))
            text = " ".join(line.text.split())
            more = {} if allowed is None else {"max_lines": allowed, "placeholder": " ..."}
            parts = wrap(text, width, break_on_hyphens=False, **more) or [""]  # type: ignore[arg-type]
            for part, beginning in zip(parts, [line.label, *[""] * len(parts)], strict=False):
                yield Text(f"{beginning:<{_LABEL}}{part}", style=line.style)
            left = None if left is None else left - len(parts)


class OneScreen:
    """The summary of a whole record: a title and at most seven lines per device, and where the details are."""

    def __init__(self, record: Mapping[str, Any], details: str) -> None:
        self._record = record
        self._details = details

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """A title per device, its lines, and a last line that counts the verdicts."""
        entries = self._record["devices"]
        for entry in entries:
            device = Device(entry)
            titles = (f"{device.number} {label}".strip() for label in (device.label, device.short_label))
            fits = next((title for title in titles if len(title) <= options.max_width), None)
            (title, *_) = wrap(
                fits or f"{device.number} {device.label}".strip(), options.max_width, max_lines=1, placeholder=" ..."
            )
            yield Text(title, style="bold")
            inner = options.update_width(max(22, options.max_width - 2))
            for line in console.render_lines(SummaryView(summary(entry), MOST_LINES - 1), inner, pad=False):
                yield Text.assemble("  ", *((part.text, part.style or "") for part in line))
        if self._record["interrupted"]:
            yield _INTERRUPTED
        works = sum(Device(entry).is_usable is True for entry in entries)
        yield Text(f"{works} of {len(entries)} devices usable. Details: {self._details}")
