"""`portbar report`."""

from __future__ import annotations

import importlib
import sys
from contextlib import chdir, suppress
from pathlib import Path

import click

from portbar.cli.options import FOLDER, examples, json_option
from portbar.cli.output import print_json, say
from portbar.records import writing
from portbar.survey.report.build import build


@click.command(
    name="report",
    epilog=examples(
        "portbar report vendor_matrix -o report.html",
        "portbar report records --markdown -o report.md",
        "portbar report records --json",
    ),
)
@click.argument("folder", metavar="DIR", type=FOLDER)
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write; standard output if omitted.",
)
@click.option("--markdown", "as_markdown", is_flag=True, help="Write Markdown: the tables without the plots.")
@click.option("--no-plots", is_flag=True, help="Omit the plots; matplotlib is then not needed.")
@json_option
def command(folder: Path, output: Path | None, as_markdown: bool, no_plots: bool, as_json: bool) -> None:
    """Make one page of all records in DIR: verdicts, recall by lock, barrier times, capabilities, strategies.

    The page is a single HTML file without external resources; its tables can be sorted. Records are checked before they are
    read, and the report names files that are not records.

    Exit status 1: a file in DIR is not a record (the report covers the others), or DIR holds no record.
    """
    if as_markdown and as_json:
        raise click.UsageError("--markdown and --json exclude each other; choose one")
    if as_json and output is not None:
        raise click.UsageError("--json writes to standard output; omit --output")
    if not (as_json or as_markdown or no_plots):
        _import_matplotlib()
    made = build(folder)
    if as_json:
        print_json(made.to_json())
    else:
        _write(made.to_markdown() if as_markdown else made.to_html(plots=not no_plots), output)
    for name, why in made.unread:
        say(f"{name} is not a record: {why}")
    sys.exit(int(bool(made.unread)))


def _import_matplotlib() -> None:
    """Import matplotlib in a folder of portbar's own: in a stranger's it would read the matplotlibrc there."""
    with suppress(ImportError, OSError), chdir(Path(__file__).parent):
        importlib.import_module("matplotlib")


def _write(text: str, output: Path | None) -> None:
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        writing.write(output, text)
    except OSError as error:
        raise click.UsageError(
            f"the report cannot be written to {output} ({error.strerror or error}), so the file is unchanged; name another "
            "with --output"
        ) from error
