"""`portbar compare`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from textwrap import shorten

import click
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from portbar.cli.options import FiniteRange, examples, json_option
from portbar.cli.output import print_json, show
from portbar.cli.show import named, slugs
from portbar.records.files import Named
from portbar.records.reading import is_missing
from portbar.survey.report.compare import BUSY, FACTOR, Comparison, Difference, compare
from portbar.survey.steps import STEPS

#: How a difference is marked, and in which colour.
_MARKS = {"regression": ("worse", "bold red"), "improvement": ("better", "green"), "": ("", "")}

#: Longest text of one difference; `--json` has all of it.
_LONGEST = 300


@click.command(
    name="compare",
    epilog=examples(
        "portbar compare before.json after.json",
        "portbar compare pthread-skylake record.json",
        "portbar compare --check --factor 1.5 before.json after.json",
    ),
)
@click.argument("records", metavar="A B ...", nargs=-1, required=True, callback=named, shell_complete=slugs)
@click.option(
    "--factor",
    type=FiniteRange(min=1),
    default=FACTOR,
    show_default=True,
    help="Factor by which a value must be slower, or smaller, to count as worse.",
)
@click.option("--check", is_flag=True, help="Exit with status 1 if a value is worse.")
@click.option("--all", "whole", is_flag=True, help="List differences too that are only counted otherwise.")
@json_option
def command(records: tuple[Named, ...], factor: float, check: bool, whole: bool, as_json: bool) -> None:
    """Compare the devices of records: each of the others with the first.

    A and B are files or slugs, as for `portbar show`. Numbers whose samples overlap count as equal. Lost features, and times
    that are slower by --factor, are marked "worse", but only if both records are of the same device, as before and after a
    driver update. Equal values are only counted, and so are, unless --all is given, values that one of two surveys of a device
    had no time for, times of a busy machine, and numbers that differ by less than --factor.

    Exit status 1: with --check, a value is worse; or a file is not a record. 2: a name that matches no record.
    """
    if len(records) < 2:
        raise click.UsageError("there is only one record; name at least two")
    first, *others = records
    comparisons = [(other, compare(first.record, other.record, factor)) for other in others]
    print_comparisons(first, comparisons, as_json=as_json, whole=whole)
    sys.exit(int(check and any(comparison.regressions for _, comparison in comparisons)))


def print_comparisons(
    first: Named, comparisons: Sequence[tuple[Named, Comparison]], *, as_json: bool, whole: bool = False
) -> None:
    """Print how each of the other records differs from the first; differences that `minor` names only with `whole`."""
    if as_json:
        print_json(
            [{"old": first.name, "new": other.name, **comparison.to_json()} for other, comparison in comparisons]
        )
    else:
        show(Group(*(comparison_view(first.name, other.name, of, whole=whole) for other, of in comparisons)))


def comparison_view(old: str, new: str, comparison: Comparison, *, whole: bool = False) -> RenderableType:
    """A comparison for a terminal: the count in words, then the differences by device and group."""
    parts: list[RenderableType] = [Text(f"old: {old}\nnew: {new}", style="bold"), Text(summary(comparison))]
    alike = not whole and all(pair.same for pair in comparison.pairs)
    why = {id(item): minor(item, comparison.factor) if alike else "" for item in comparison.differences}
    listed = [item for item in comparison.differences if not why[id(item)]]
    by_device, by_group = attrgetter("device"), attrgetter("group")
    for device, items in groupby(sorted(listed, key=by_device), by_device):
        inner: list[RenderableType] = []
        for group, of_group in groupby(items, by_group):
            inner += [
                Text(group.replace("_", " ").capitalize(), style="italic"),
                Padding(_rows(of_group), (0, 0, 0, 2)),
            ]
        parts += ["", Text(device, style="bold"), Padding(Group(*inner), (0, 0, 0, 2))]
    counted = Counter(filter(None, why.values()))
    if counted:
        others = ", ".join(f"{count} {reason}" for reason, count in counted.items())
        parts += ["", Text(f"Not listed: {others}. `portbar compare --all` lists them.")]
    return Group(*parts, "")


def minor(item: Difference, factor: float) -> str:
    """Why a difference between two surveys of one device says nothing about the device; empty where it may."""
    if item.mark or item.group not in {step.name for step in STEPS}:
        return ""
    if item.path.endswith((" / rows", " / status")) or is_missing(item.old) or is_missing(item.new):
        return "measured to the end in one record only"
    if BUSY in item.text:
        return "of a busy machine"
    if item.ratio is not None and 1 / factor <= item.ratio <= factor:
        return f"less than {factor:g} times apart"
    return ""


def summary(comparison: Comparison) -> str:
    """Return in sentences what was compared and how much of it differs."""
    parts = []
    if not comparison.pairs:
        parts.append("No device is in both records.")
    parts += [
        f"Different devices, so no value is judged as worse or better: {pair.old}, and {pair.new}."
        for pair in comparison.pairs
        if not pair.same
    ]
    worse, better = len(comparison.regressions), len(comparison.improvements)
    others = len(comparison.differences) - worse - better
    equal = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in comparison.equal.items())
    parts.append(f"{worse} worse, {better} better, {others} otherwise different.")
    parts.append(f"The same: {equal}." if equal else "No value is the same.")
    return " ".join(parts)


def _rows(items: Iterable[Difference]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 1), pad_edge=False)
    table.add_column(width=6)
    table.add_column(ratio=2)
    table.add_column(ratio=3)
    for item in items:
        mark, style = _MARKS[item.mark]
        where = item.path.removeprefix(f"{item.group} / ").replace(" / ", ": ").replace("_", " ")
        table.add_row(Text(mark, style=style), Text(where), Text(shorten(item.text, _LONGEST, placeholder=" ...")))
    return table
