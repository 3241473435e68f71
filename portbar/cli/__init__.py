"""The `portbar` command. Data goes to standard output, progress and messages to standard error.

Exit status: 0 fine, 1 a fault was found, 2 wrong usage, 3 no usable device, 4 a time limit was hit, 130 Ctrl-C.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
import warnings
from typing import Any, Final, NoReturn, cast

import click
from click.shell_completion import CompletionItem

from portbar import __version__
from portbar.errors import DeviceError, Error

#: Command -> its summary. The module of the same name is imported at the call: `portbar --help` touches no driver.
_COMMANDS: Final = {
    "advise": "Predict whether a loop pays in one kernel with barriers, or by relaunching.",
    "bench": "Measure barrier algorithms on a device and store the times.",
    "check": "Run litmus tests of how atomics order memory.",
    "compare": "Compare the devices of two or more records.",
    "devices": "List OpenCL devices and check that each works.",
    "doctor": "Report problems of this machine's OpenCL, with remedies.",
    "export": "Write the headers for a device as plain OpenCL C.",
    "index": "Write the index page of a folder of records, or check it.",
    "report": "Make a page with plots from a folder of records.",
    "show": "Show a record: a file, or one included in portbar.",
    "submit": "Validate a record and file it in a folder; sends nothing.",
    "survey": "Measure what this machine's devices do between work-groups.",
    "validate": "Check that files are valid records, and list their problems.",
}

#: Exit status of a command that Ctrl-C ended.
INTERRUPTED: Final = 130

#: Errors of writing to standard output: the disk or quota is full, the terminal or the descriptor is gone.
_OUTPUT_LOST: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}


class _Lazy(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            # At exit it would be too late for a message.
            sys.stdout.flush()
        except KeyboardInterrupt:
            # Click would make status 1 of it.
            _leave(INTERRUPTED, "interrupted")
        return result

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"portbar.cli.{cmd_name}").command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        # Click would import every command to ask it for its help.
        named = [CompletionItem(name, help=text) for name, text in _COMMANDS.items() if name.startswith(incomplete)]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(
    cls=_Lazy,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="\b\nExamples:\n  portbar devices\n  portbar survey --quick\n  portbar COMMAND --help",
)
@click.version_option(__version__, prog_name="portbar")
def cli() -> None:
    """Synchronisation that OpenCL leaves out: find out what devices do, and get headers for them.

    Data goes to standard output, progress and messages to standard error.

    Exit status: 0 fine, 1 a fault was found, 2 wrong usage, 3 no usable device, 4 a time limit was hit, 130 Ctrl-C.
    """


def main() -> None:
    """Entry point of the `portbar` command; what a user can mend becomes a message and an exit status, not a traceback."""
    warnings.showwarning = cast("Any", _show_warning)
    _open_missing_streams()
    _keep_data_apart()
    try:
        cli(prog_name="portbar")
    except DeviceError as error:
        _leave(3, str(error))
    except Error as error:
        _leave(1, str(error))
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "pyopencl":
            raise
        _leave(3, f"PyOpenCL cannot be imported ({error}): reinstall it with `pip install --force-reinstall pyopencl`")
    except OSError as error:
        if error.filename is not None or error.errno not in _OUTPUT_LOST:
            raise
        # Buffered output would fail once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _leave(1, f"standard output cannot be written ({error.strerror})")
    except Exception as error:
        if not type(error).__module__.startswith("pyopencl"):
            raise
        text = f"an OpenCL driver failed: {error}. `portbar doctor` lists the devices that work, --device chooses one"
        _leave(1, text)


def _open_missing_streams() -> None:
    """Refuse to start without standard output; let what was closed beside it lead nowhere.

    The next file that is opened would take the number of a closed stream, and get what drivers print.
    """
    if sys.stdin is None:
        os.open(os.devnull, os.O_RDONLY)
    if sys.stdout is None:
        _leave(1, "standard output is closed; redirect it to a file, or to /dev/null")
    if sys.stderr is None:
        # Click expects one, too, when the reader of standard output is gone.
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")


def _keep_data_apart() -> None:
    """Let what drivers print in this process go to standard error, so that standard output holds data only."""
    given = sys.__stdout__
    if given is None or sys.stdout is not given:
        # A Python caller has replaced it.
        return
    data = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = io.TextIOWrapper(
        os.fdopen(data, "wb"), encoding=given.encoding, errors=given.errors, line_buffering=given.isatty()
    )


def _leave(status: int, message: str) -> NoReturn:
    click.echo(f"portbar: {message}", err=True)
    sys.exit(status)


def _show_warning(message: Warning | str, category: type[Warning], *_where: object, **_more: object) -> None:
    # PyOpenCL's "non-empty compiler output" says nothing that a user of this command could act on.
    if category.__name__ != "CompilerWarning":
        click.echo(f"portbar: {message}", err=True)
