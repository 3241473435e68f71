"""Makes a report of a folder of records: reads them, and puts tables and plots together."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from portbar.errors import RecordError
from portbar.records import load
from portbar.records.plain import amount, printable
from portbar.records.writing import is_folder
from portbar.survey.report.collect import Json, collect, distinct, in_order
from portbar.survey.report.markdown import markdown
from portbar.survey.report.page import page
from portbar.survey.report.plots import barrier_plots, cost_plots, recall_plots
from portbar.survey.report.tables import VERDICTS, compiled_table, tables
from portbar.survey.tables import Table

TITLE: Final = "How OpenCL devices synchronise work-groups"


@dataclass(frozen=True)
class FolderReport:
    """The content of a folder of records.

    A summary of each device, the number of records, the files that are not records with the reason, and the table of
    machine code that was only compiled.
    """

    devices: list[Json]
    records: int
    unread: list[tuple[str, str]] = field(default_factory=list)
    compiled: Table | None = None

    def tables(self) -> list[Table]:
        """Return all tables: those of devices, and that of code which was only compiled."""
        return [*tables(self.devices), *([self.compiled] if self.compiled else [])]

    def to_json(self) -> dict[str, Any]:
        """Return the collected data as JSON values."""
        unread = [{"file": name, "problem": why} for name, why in self.unread]
        return {"records": self.records, "devices": self.devices, "unread": unread}

    def intro(self) -> list[str]:
        """Return the sources of the report, in sentences."""
        counts = Counter(one["verdict"] for one in self.devices)
        said = ", ".join(f"{counts[word]} {word}" for word in VERDICTS if counts[word])
        newest = max((one["created"] for one in self.devices if one["kind"] != "published"), default=None)
        of = f"{amount(self.records, 'record')} of {amount(len(self.devices), 'device')}"
        when = f"; the newest measurement is of {newest[:10]}" if newest else ""
        return [f"{of}{when}. Verdicts: {said or 'none'}."]

    def to_markdown(self) -> str:
        """Return the tables as Markdown."""
        return markdown(TITLE, self.intro(), self.tables(), self.unread)

    def to_html(self, *, plots: bool = True) -> str:
        """Return the whole page; `UnsupportedFeatureError` if plots are wanted and there is no matplotlib."""
        made = {"verdicts": cost_plots, "recall": recall_plots, "barriers": barrier_plots} if plots else {}
        drawn = {name: draw(self.devices) for name, draw in made.items()}
        return page(TITLE, self.intro(), self.tables(), drawn, self.unread)


def build(folder: Path) -> FolderReport:
    """Read every record in a folder; files that are not records are listed by name.

    `RecordError` if there is no such folder, or no record in it.
    """
    if not is_folder(folder):
        raise RecordError(
            f"{folder.name!r} is not a folder: name one that holds records, as `portbar survey --matrix` writes"
        )
    files = sorted(folder.glob("*.json"))
    devices: list[Json] = []
    unread: list[tuple[str, str]] = []
    for file in files:
        try:
            # Not all records first: a thousand of them would take gigabytes.
            devices += collect([(file.stem, load(file))])
        except RecordError as error:
            name = printable(file.name)
            unread.append((name, str(error).removeprefix(f"{name}: ")))
    count = len(files) - len(unread)
    if not count:
        what = (
            f"none of its {len(unread)} files is valid; the first: {unread[0][1]}"
            if unread
            else "it has no .json files"
        )
        raise RecordError(f"no record is in {folder.name!r}: {what}")
    return FolderReport(in_order(distinct(devices)), count, unread, compiled_table(folder))
