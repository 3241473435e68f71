"""`portbar index`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from portbar.cli.options import FOLDER, examples, json_option
from portbar.cli.output import print_json
from portbar.survey.report.index import PAGE, write
from portbar.survey.report.index import index as index_of


@click.command(name="index", epilog=examples("portbar index", "portbar index --check vendor_matrix"))
@click.argument("folder", metavar="[DIR]", default="vendor_matrix", type=FOLDER)
@click.option("--check", is_flag=True, help="Write nothing; exit with status 1 if the page is not up to date.")
@json_option
def command(folder: Path, check: bool, as_json: bool) -> None:
    """Write the index page of a folder of records: README.md, between its two markers; a new one where there is none.

    DIR defaults to vendor_matrix.

    Exit status 1: a file is not a valid record; or, with --check, the page is out of date.
    """
    page = folder / PAGE
    old, new = index_of(folder)
    stale = old != new
    if stale and not check:
        write(folder, new)
    outcome = ("stale" if check else "written") if stale else "up to date"
    if as_json:
        print_json({"page": str(page), "outcome": outcome})
    elif outcome == "stale":
        click.echo(f"{page}: out of date with the records; run `portbar index {folder}`", err=True)
    else:
        click.echo(f"{page}: {outcome}")
    sys.exit(int(stale and check))
