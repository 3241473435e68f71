"""`portbar export`."""

from __future__ import annotations

from pathlib import Path

import click

from portbar.cli.shared import chosen, device_option
from portbar.errors import DeviceError
from portbar.export import export
from portbar.strategy import parse_overrides


@click.command(name="export")
@device_option
@click.option("--output", "-o", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder to write to.")
@click.option("--strategy", default="", metavar="NAME=VALUE,...", help="Overrides, such as device_barrier=tree.")
def command(devices: tuple[str, ...], output: Path, strategy: str) -> None:
    """Write portbar's headers for one device as plain OpenCL C, for hosts in C or C++.

    The text is the same that the Python runtime compiles. Pass the folder to the driver with -I.

    \b
    Examples:
      portbar export --device pocl -o include
      portbar export --device 0:0 --strategy device_barrier=flag -o include
    """
    found = chosen(devices)
    if len(found) != 1:
        listing = "\n".join(f"  {address}" for address, _ in found)
        raise DeviceError(f"headers are for one device; {len(found)} match, choose one with --device:\n{listing}")
    for path in export(found[0][1], output, parse_overrides(strategy)):
        click.echo(path)
