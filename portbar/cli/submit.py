"""`portbar submit`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from portbar.cli.options import FOLDER, examples, json_option
from portbar.cli.output import print_json
from portbar.errors import RecordError
from portbar.records import load
from portbar.records.placing import Placement, place
from portbar.survey.report.index import PAGE, index, write

_SAID = {
    "new": "written",
    "replaced": "written, replacing an older one",
    "unchanged": "already there",
    "kept": "not written",
}


@click.command(
    name="submit",
    epilog=examples(
        "portbar survey -o record.json && portbar submit record.json",
        "portbar submit record.json --matrix path/to/portbar/vendor_matrix",
    ),
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--matrix",
    type=FOLDER,
    default="vendor_matrix",
    show_default=True,
    help="Folder of records to file it in.",
)
@click.option(
    "--force",
    is_flag=True,
    help="File quick and unsteady records too, and replace files even if they hold newer or more complete data.",
)
@json_option
def command(file: Path, matrix: Path, force: bool, as_json: bool) -> None:
    """Validate a record and file it in a folder of records, one file per device; nothing is sent.

    FILE is what `portbar survey -o` wrote. Unusable devices are skipped, and records of quick surveys and of busy machines
    are not filed. Files are named after platform, device and driver; the
    command updates the folder's index and prints the next steps.

    Exit status 1: the file is not a valid record, holds no measured device, or a device was not filed.
    """
    placed = place(load(file), matrix, force=force)
    filed = [one for one in placed if one.outcome != "kept"]
    note = _index(matrix) if filed else ""
    if as_json:
        print_json(
            [
                {"slug": one.slug, "file": str(one.path), "outcome": one.outcome, "reason": one.reason or None}
                for one in placed
            ]
        )
    else:
        for one in placed:
            reason = f": {one.reason}" if one.reason else ""
            click.echo(f"{click.format_filename(one.path)}: {_SAID[one.outcome]}{reason}")
    if not placed:
        click.echo("portbar: no device of this record was measured; nothing was filed", err=True)
    elif filed and not as_json:
        click.echo(_next(filed, matrix, note))
    sys.exit(int(not placed or filed != placed))


def _index(matrix: Path) -> str:
    """Bring the folder's page up to date; empty, or why that could not be done."""
    try:
        write(matrix, index(matrix)[1])
    except RecordError as error:
        return str(error)
    return ""


def _next(filed: list[Placement], matrix: Path, note: str) -> str:
    files = [str(one.path) for one in filed] + ([] if note else [str(matrix / PAGE)])
    what = filed[0].slug if len(filed) == 1 else f"{len(filed)} devices"
    index_note = f"\nThe index was not written: {note}\n" if note else ""
    return f"""{index_note}
Nothing was sent. To share the record, run in your copy of portbar's repository:
  git add {shlex.join(files)}
  git commit -m {shlex.quote(f"Record of {what}")}
  git push, and open a pull request with that commit"""
