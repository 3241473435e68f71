"""Tutorials and how-to pages: their programs print what the pages show, and their commands exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.checkout import ROOT
from tests.docs.pages import DOCS, blocks, ran
from tests.support import kernel, need_groups, skipped_where_refused

if TYPE_CHECKING:
    import pyopencl as cl

#: Pages whose programs run from the first to the last: a C block is `source` of the Python after it, and text its output.
PROGRAMS = [DOCS / f"{name}.md" for name in ("tutorial_solver", "howto_port", "howto_timeout")]
EMPTY = """
#include "portbar/device_barrier.h"
kernel void empty(PORTBAR_GRID_PARAM) { PORTBAR_ENTER(grid); }
"""
PAGES = [*sorted(DOCS.glob("tutorial_*.md")), *sorted(DOCS.glob("howto_*.md")), ROOT / "README.md"]
COMMANDS = sorted(
    {
        line.removeprefix("$ ").partition("  #")[0].strip()
        for page in PAGES
        for block in blocks(page)
        if block.language in {"sh", "console"}
        for line in block.text.splitlines()
        if re.match(r"(?:\$ )?portbar ", line)
    }
)


def matches(shown: str, printed: str) -> bool:
    """Return whether a page's output is what was printed, up to white space; `...` stands for any text."""
    pattern = re.escape(" ".join(shown.split())).replace(re.escape("..."), ".*")
    return re.fullmatch(pattern, " ".join(printed.split())) is not None


def test_dots_match_any_text_and_nothing_else_does() -> None:
    assert matches("a ... c\n", "a b b\nc")
    assert not matches("a b", "a c")


@pytest.mark.device
@pytest.mark.parametrize("page", [page for page in PROGRAMS if page.exists()], ids=lambda page: page.stem)
def test_the_programs_of_a_page_print_what_it_shows(
    page: Path, context: cl.Context, queue: cl.CommandQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyopencl as cl  # noqa: PLC0415

    import portbar  # noqa: PLC0415

    profile = portbar.describe(context.devices[0])
    if profile.loop_limit is not None or portbar.choose(profile).max_groups == 1:
        pytest.skip("the device ends loops early or has one work-group, with which these programs end otherwise")
    need_groups(kernel(context, EMPTY, "empty"), queue, (16,), 2)
    monkeypatch.setattr(cl, "create_some_context", lambda **_: context)
    names: dict[str, Any] = {"__name__": page.stem}
    said, compared = "", 0
    with skipped_where_refused():
        for block in blocks(page):
            if block.language == "c" and "kernel void" in block.text:
                names["source"] = block.text
            elif block.language == "python":
                said = ran(block.text, names, page.name)
            elif block.language == "text":
                assert matches(block.text, said), f"{page.name} shows: {block.text}\nprinted: {said}"
                compared += 1
    assert compared


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_of_these_pages_exists(line: str) -> None:
    pytest.importorskip("pyopencl")
    import click  # noqa: PLC0415

    from portbar.cli import cli  # noqa: PLC0415
    from portbar.cli.options import FOLDER  # noqa: PLC0415

    _, *words = shlex.split(line)
    command: Any = cli
    while isinstance(command, click.Group) and words:
        command = command.get_command(click.Context(command), words[0])
        words = words[1:]
    assert command is not None, line
    known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    assert {one for one in words if one.startswith("-")} <= known, line
    if any(isinstance(one, click.Argument) and one.type is FOLDER for one in command.params):
        assert words[0] == "." or words[0].endswith("/"), f"{line}: takes a folder"
