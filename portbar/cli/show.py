"""`portbar show`."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from portbar.cli.options import examples, json_option
from portbar.cli.output import print_json, show
from portbar.records.files import Named, NoSuchRecordError, find, shipped
from portbar.survey.views import record_view


def named(_ctx: click.Context, _parameter: click.Parameter, value: str | tuple[str, ...]) -> Named | tuple[Named, ...]:
    """Read the records that arguments name; a name that fits none is wrong usage."""
    try:
        return find(value) if isinstance(value, str) else tuple(find(name) for name in value)
    except NoSuchRecordError as error:
        raise click.BadParameter(str(error)) from error


def slugs(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Offer the records that come with portbar to a shell, and files where none of them fits."""
    fitting = [CompletionItem(name) for name in shipped() if name.startswith(incomplete)]
    return fitting or [CompletionItem(incomplete, type="file")]


@click.command(
    name="show",
    epilog=examples("portbar show record.json", "portbar show h200", "portbar show --json h200"),
)
@click.argument("record", metavar="FILE|SLUG", callback=named, shell_complete=slugs)
@click.option("--verbose", "-v", is_flag=True, help="Describe the known faults; by default only their ids are listed.")
@json_option
def command(record: Named, verbose: bool, as_json: bool) -> None:
    """Show a record: the summary of each device, then everything that was measured.

    FILE is what `portbar survey -o` or `--matrix` wrote. SLUG is the name of a record that comes with portbar, or a part of
    it that no other has.

    Exit status 1: the file is not a record; 2: no record, or more than one, has that name.
    """
    if as_json:
        print_json(record.record)
    else:
        show(record_view(record.record, verbose=verbose))
