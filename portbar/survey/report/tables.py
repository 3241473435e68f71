"""The tables of a report, as rows of text: the same for the page and for Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import shorten
from typing import Any, Final

from portbar.survey.steps import STEPS
from portbar.survey.steps.barrier import fastest
from portbar.survey.tables import Cell, Table, cells, name_cell

Json = dict[str, Any]

#: Steps on the way from a device that does everything to one that does nothing, for sorting.
VERDICTS: Final = (
    "usable",
    "one work-group",
    "usable, not measured",
    "published",
    "refused",
    "not surveyed",
    "unusable",
    "failed",
)


def tables(devices: Sequence[Json]) -> list[Table]:
    """All tables; those without a row are left out."""
    made = [_verdicts(devices), *(step.table(devices) for step in STEPS)]
    return [table for table in made if table is not None and table.rows]


def _verdicts(devices: Sequence[Json]) -> Table:
    columns = [
        ("Device", False),
        ("Verdict", False),
        ("Work-groups that synchronise", True),
        ("Times faster than relaunching", True),
        ("Compute units", True),
        ("Type", False),
        ("Atomics", False),
        ("Discovery", False),
        ("Barrier", False),
        ("Known faults", False),
        ("Measured", False),
    ]
    rows = []
    for one in sorted(devices, key=lambda one: one["kind"] == "published"):
        strategy, most = one["strategy"], fastest(one["barrier"], max)
        gain = most[2] / most[1] if most and most[2] and most[1] else None
        word = one["verdict"]
        verdict = word if not one["reason"] else f"{word}: {shorten(one['reason'], 140, placeholder=' ...')}"
        rows.append(
            cells(
                name_cell(one),
                Cell(verdict, VERDICTS.index(word), {"usable": "yes", "unusable": "no", "failed": "no"}.get(word, "")),
                one["groups"],
                "unsteady" if most and one["barrier"]["unsteady"] else gain,
                one["compute_units"],
                one["type"],
                *(strategy.get(choice) for choice in ("atomics", "discovery", "device_barrier")),
                ", ".join(one["quirks"]),
                str(one["year"] or one["created"] + (" (partial)" if one["partial"] else "")),
            )
        )
    about = (
        "Whether work-groups can synchronise inside a kernel, how many, and portbar's choices. The times are those of "
        "the fastest barrier between the most work-groups, and of relaunching an empty kernel."
    )
    return Table("verdicts", "Features of each device", about, columns, rows)
