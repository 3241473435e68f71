"""The tables of a report, the same for the page and for Markdown: of measured devices, and of machine code not run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any, Final

from portbar.errors import RecordError
from portbar.records.bounds import examined
from portbar.records.files import parse, read_bytes
from portbar.records.validation import validator
from portbar.survey.steps import STEPS
from portbar.survey.tables import Cell, Table, cells, name_cell, ratio_text

Json = dict[str, Any]

#: Where a folder of records has the figures that a checkout's tests keep, and their schema.
_COMPILED: Final = Path("compiled") / "machine_code.json"
_COMPILED_SCHEMA: Final = "compiled/1.schema.json"

#: Steps on the way from a device that does everything to one that does nothing, for sorting.
VERDICTS: Final = (
    "usable",
    "one work-group",
    "usable, not measured",
    "published",
    "refused",
    "unknown",
    "not surveyed",
    "unusable",
    "failed",
)


def tables(devices: Sequence[Json]) -> list[Table]:
    """Return the tables of devices that have rows."""
    made = [_verdicts(devices), *(step.table(devices) for step in STEPS)]
    return [table for table in made if table is not None and table.rows]


def _verdicts(devices: Sequence[Json]) -> Table:
    numbers = ("Work-groups that synchronise", "Barrier beside relaunching", "Compute units")
    words = ("Type", "Atomics", "Discovery", "Barrier", "Known faults", "Measured")
    rows = []
    for one in sorted(devices, key=lambda one: one["kind"] == "published"):
        strategy, cost = one["strategy"], one["cost"]
        word = one["verdict"]
        verdict = word if not one["reason"] else f"{word}: {shorten(one['reason'], 140, placeholder=' ...')}"
        rows.append(
            cells(
                name_cell(one),
                Cell(verdict, VERDICTS.index(word), {"usable": "yes", "unusable": "no", "failed": "no"}.get(word, "")),
                one["groups"],
                cost and ("unsteady" if cost["unsteady"] else Cell(ratio_text(cost["speedup"]), cost["speedup"])),
                one["compute_units"],
                one["type"],
                *(strategy.get(choice) for choice in ("atomics", "discovery", "device_barrier")),
                ", ".join(one["quirks"]),
                str(one["year"] or _when(one) + (" (partial)" if one["partial"] else "")),
            )
        )
    about = (
        "Whether work-groups can synchronise inside a kernel, how many at most, and portbar's choices. The fastest barrier is "
        "compared with relaunching an empty kernel: one work-group per compute unit, of the local size that portbar suggests."
    )
    columns = ("Device", "Verdict", *numbers, *words)
    return Table("verdicts", "Features of each device", about, columns, rows, ("Device", "Verdict", *words))


def _when(one: Json) -> str:
    """The day of a record; with the time of day where the device has several."""
    return str(one["created"])[: 16 if one["repeated"] else 10].replace("T", " ")


def compiled_table(folder: Path) -> Table | None:
    """Return the table of machine code that was compiled for GPUs and not run; None if the folder has no valid file of it."""
    try:
        kept = parse(read_bytes(folder / _COMPILED))
        # It may come from a stranger.
        if examined(kept).faults or not validator(_COMPILED_SCHEMA).is_valid(kept):
            return None
        rows = [_compiled_row(entry) for entry in kept["targets"]]
    except (RecordError, KeyError):
        return None
    words = ("GPU", "Products", "Compilers")
    most = ("Accesses in a loop of polls", "Loops with a read-modify-write", "Read-modify-writes", "Loops that acquire")
    columns = (*words, "Kernels", *most, "Bytes in private memory")
    about = (
        "Machine code of every algorithm for GPUs that portbar was not run on: how it waits is known, whether it works is not. "
        "Numbers are the most that one kernel has. Groups compete for a word by read-modify-writes in at most two loops; more "
        "mean that polls write, as on Intel's GPUs until a probe has seen volatile loads suffice."
    )
    return Table("compiled", "Compiled, not run", about, columns, rows, words)


def _compiled_row(entry: Json) -> list[Cell]:
    figures = [of for of in entry["cases"].values() if of]
    names = ("polls_in_loop", "writing_loops", "atomics", "acquiring_loops", "spills")
    most = [max(of[name] for of in figures) if figures else None for name in names]
    return cells(entry["name"], entry["gpus"], entry["compiler"], len(entry["cases"]), *most)
