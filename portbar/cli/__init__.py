"""The `portbar` command. Data goes to standard output, progress and messages to standard error.

Exit status: 0 fine, 1 a fault was found, 2 wrong usage, 3 no usable device, 4 a time limit was hit.
"""

from __future__ import annotations

import importlib
import sys
from typing import Final

import click

from portbar._version import __version__

#: Command -> module that holds it: each is imported when it is called, so that `portbar --help` touches no driver.
_COMMANDS: Final = {
    "bench": ("portbar.cli.bench", "Measure barrier algorithms on a device and keep the table."),
    "devices": ("portbar.cli.devices", "List every OpenCL device, and whether it works."),
    "doctor": ("portbar.cli.doctor", "Say what is wrong with this machine's OpenCL, and what would help."),
    "export": ("portbar.cli.export", "Write the headers for a device as plain OpenCL C."),
    "survey": ("portbar.cli.survey", "Measure what the devices of this machine do between work-groups."),
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(_COMMANDS[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name][1]) for name in sorted(_COMMANDS)])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="portbar")
def cli() -> None:
    """Synchronisation that OpenCL leaves out: find out what devices do, and get headers for them."""


def main() -> None:
    """Entry point of the `portbar` command; portbar's own errors become one line and exit status 1 or 3."""
    from portbar.errors import DeviceError, Error  # noqa: PLC0415

    try:
        cli()
    except DeviceError as error:
        click.echo(f"portbar: {error}", err=True)
        sys.exit(3)
    except Error as error:
        click.echo(f"portbar: {error}", err=True)
        sys.exit(1)
