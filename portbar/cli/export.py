"""`portbar export`."""

from __future__ import annotations

from pathlib import Path

import click

from portbar.choices.strategy import parse_overrides
from portbar.cli.options import device_option, examples, json_option
from portbar.cli.output import print_json
from portbar.cli.selected import chosen, number
from portbar.errors import UnsupportedFeatureError
from portbar.launching.export import export


def _overrides(_ctx: click.Context, _param: click.Parameter, value: str) -> dict[str, str]:
    try:
        return parse_overrides(value)
    except UnsupportedFeatureError as error:
        raise click.BadParameter(str(error)) from error


@click.command(
    name="export",
    epilog=examples(
        "portbar export --device 0:0 -o include",
        "portbar export --device 'pocl 3.1' --strategy device_barrier=flag -o include",
        "portbar export --device 0:0 --source ring.cl -o include",
        "portbar export -d 0:0 --source a.cl --source b.cl --fused all.cl -o out",
    ),
)
@device_option
@json_option
@click.option(
    "--output", "-o", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder to write to."
)
@click.option(
    "--strategy",
    "overrides",
    default="",
    metavar="NAME=VALUE,...",
    callback=_overrides,
    help="Overrides, such as device_barrier=tree.",
)
@click.option(
    "--source",
    "sources",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File of kernels: write only what they use; may be repeated.",
)
@click.option(
    "--fused",
    metavar="NAME.cl",
    default="",
    help="Write one file with the kernels that one of the sources runs by PORTBAR_RUN, and portbar/host.h.",
)
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="OPTION",
    help="Build option whose macros name types or functions, such as --option=-DREAL=float; may be repeated.",
)
def command(
    devices: tuple[str, ...],
    as_json: bool,
    output: Path,
    overrides: dict[str, str],
    sources: tuple[Path, ...],
    fused: str,
    options: tuple[str, ...],
) -> None:
    """Write portbar's headers for one device as plain OpenCL C, for hosts in C or C++.

    The text is the one that the Python runtime compiles. Pass the folder to the driver with -I, and
    `#include "portbar/device_barrier.h"`. Hosts include portbar/host.h, which is plain C.
    """
    found = chosen(devices)
    if len(found) != 1:
        listing = "\n".join(f"  {address}" for address, _ in found)
        raise click.UsageError(
            f"headers are rendered for one device, but {len(found)} match; choose one by its number, such as --device "
            f"{number(found[0][0])}:\n{listing}"
        )
    written = export(found[0][1], output, overrides, sources=sources, options=options, fused=fused)
    if as_json:
        print_json({"device": found[0][0].to_json(), "files": [str(path) for path in written]})
        return
    for path in written:
        click.echo(path)
