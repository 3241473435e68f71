"""`portbar validate`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from portbar.cli.options import examples, json_option
from portbar.cli.output import print_json
from portbar.errors import RecordError
from portbar.records import validate
from portbar.records.files import parse, read_bytes
from portbar.records.plain import amount, printable


@click.command(
    name="validate", epilog=examples("portbar validate record.json", "portbar validate --json vendor_matrix/*.json")
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@json_option
def command(files: tuple[Path, ...], as_json: bool) -> None:
    """Check that files are valid portbar records, and list their problems.

    A record may come from an unknown source: portbar reads it with bounds on its size, depth, numbers and texts, checks it
    against the schema, and searches it for personal data.

    Exit status 1: a file is not a valid record.
    """
    results = [_result(path) for path in files]
    if as_json:
        print_json(results)
    else:
        for result in results:
            _show(result)
    sys.exit(int(any(result["problems"] for result in results)))


def _result(path: Path) -> dict[str, Any]:
    try:
        value = parse(read_bytes(path))
        problems = validate(value)
    except RecordError as error:
        problems = [str(error)]
    about = {}
    if not problems:
        about = {"format": value["format"], "devices": len(value["devices"]), "partial": value["partial"]}
    return {"file": str(path), "valid": not problems, **about, "problems": problems}


def _show(result: dict[str, Any]) -> None:
    name = printable(result["file"])
    if not result["valid"]:
        click.echo(f"{name}: not valid")
        for problem in result["problems"]:
            click.echo(f"  {problem}")
        return
    partial = ", partial" if result["partial"] else ""
    click.echo(f"{name}: valid, format {result['format']}, {amount(result['devices'], 'device')}{partial}")
