"""Shared by the tests of commands: the commands by name, devices that stand for a machine's, and records in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import click
import pytest

from portbar.cli import cli
from portbar.device.addresses import DeviceAddress
from portbar.device.usable import Usability
from portbar.records import slug
from portbar.survey.report.index import BEGIN, END
from tests.records_support import device

#: An index page that is out of date, and the name of the record of `records_support.device`.
PAGE = f"# Mine\n\n{BEGIN}\nold\n{END}\n\nafter\n"
SLUG = slug(device())

GOOD = DeviceAddress(0, 0, "A Platform", "A Device [x]", "OpenCL 3.0 A 1.2, with options")
WORKS = Usability(True, "the probe kernel compiled, ran and returned correct results", "", 0.5)
FAILS = Usability(False, "error: unknown target CPU", 'install "portbar[cpu]"', 0.5)


def walk(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from walk(found, (*path, name))


@cache
def commands() -> dict[tuple[str, ...], click.Command]:
    """Every command by its words, `portbar` itself and groups included."""
    pytest.importorskip("pyopencl")
    return dict(walk(cli, ()))


def parsed(words: list[str]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The words of the command that a line of words calls, and its parameters; unknown options, and too many, raise.

    Whether files and devices exist is not asked.
    """
    path = max((path for path in commands() if words[: len(path)] == [*path]), key=len)
    command = commands()[path]
    return path, command.make_parser(click.Context(command)).parse_args(words[len(path) :])[0]
