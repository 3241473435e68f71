"""Tutorials and how-to pages: their programs print what the pages show; and the commands of all pages exist."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path
from typing import Any

import click
import pyopencl as cl
import pytest

import portbar
from portbar.cli import _COMMANDS
from portbar.cli.options import FOLDER
from tests.checkout import ROOT
from tests.cli.support import commands, parsed
from tests.docs.pages import DOCS, PAGES, blocks, pattern_of, ran
from tests.support import kernel, need_groups, skipped_where_refused

#: Pages whose programs run from the first to the last: a C block is `source` of the Python after it, and text its output.
PROGRAMS = [DOCS / f"{name}.md" for name in ("tutorial_solver", "howto_port", "howto_timeout", "debugging")]
#: Pages on a feature, which begin with a program that runs.
FEATURES = [
    DOCS / f"{name}.md"
    for name in (
        *(
            "device_barrier",
            "grid_loops",
            "signal",
            "worklist",
            "task_graph",
            "team",
            "split_barrier",
            "atomics",
            "locks",
        ),
        *("recording", "run_kernels", "launching", "reductions", "reduce", "scan", "sort"),
    )
]
HAS_LOOPY = importlib.util.find_spec("loopy") is not None
FEATURES_OF_EXTRAS = [
    pytest.param(
        DOCS / "loopy.md",
        marks=pytest.mark.skipif(not HAS_LOOPY, reason='no loopy: `pip install "portbar[loopy]"` brings it'),
    )
]
#: Of those, pages whose later programs run as well, after the first one.
WHOLE = {"grid_loops", "worklist"}
EMPTY = """
#include "portbar/device_barrier.h"
kernel void empty(PORTBAR_GRID_PARAM) { PORTBAR_ENTER(grid); }
"""
#: A command in a line of a shell, of a workflow or of what a terminal shows.
COMMAND = re.compile(rf"(?:^|[ $])portbar ((?:{'|'.join(_COMMANDS)})\b[^#\n;&|>`)]*)", re.MULTILINE)
LINES = sorted(
    {
        found.strip()
        for page in [*PAGES, ROOT / "README.md", ROOT / "vendor_matrix" / "README.md"]
        for block in blocks(page)
        if block.language in {"sh", "console", "text", "yaml"}
        for found in COMMAND.findall(block.text)
    }
)


@pytest.mark.device
@pytest.mark.parametrize("page", [page for page in PROGRAMS if page.exists()], ids=lambda page: page.stem)
def test_the_programs_of_a_page_print_what_it_shows(
    page: Path, context: cl.Context, queue: cl.CommandQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
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
                right = re.fullmatch(pattern_of(block.text), " ".join(said.split()))
                assert right, f"{page.name} shows: {block.text}\nprinted: {said}"
                compared += 1
    assert compared


@pytest.mark.device
@pytest.mark.parametrize("page", [*FEATURES, *FEATURES_OF_EXTRAS], ids=lambda page: page.stem)
def test_a_page_on_a_feature_begins_with_a_program_that_prints_what_it_shows(
    page: Path, context: cl.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cl, "create_some_context", lambda **_: context)
    names: dict[str, Any] = {"__name__": page.stem}
    said, compared = "", 0
    with skipped_where_refused():
        for block in blocks(page):
            if block.section and page.stem not in WHOLE:
                break
            if block.language == "c" and "kernel void" in block.text:
                names["source"] = block.text
            elif block.language == "python":
                said = ran(block.text, names, page.name)
            elif block.language == "text":
                assert " ".join(said.split()) == " ".join(block.text.split())
                compared += 1
    assert compared


@pytest.mark.parametrize("line", LINES)
def test_every_command_of_the_documentation_exists(line: str) -> None:
    path, given = parsed(shlex.split(line))
    assert path, line
    for one in commands()[path].params:
        if isinstance(one, click.Argument) and one.type is FOLDER:
            place = given[one.name]
            assert place in {".", "vendor_matrix"} or place.endswith("/"), f"{line}: takes a folder"
