"""The pages on reductions are true: their programs print what they show, and their names are those of the header."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.primitives.headers import render_header
from portbar.primitives.reduction.loops import LEVELS
from portbar.primitives.reduction.operators import OPERATORS, short_form_operators
from portbar.primitives.reduction.selection import VARIANTS
from portbar.primitives.strategy import Choice, Strategy
from tests.checkout import ROOT
from tests.docs.pages import blocks, ran
from tests.reading.trees import use_of

PAGE = ROOT / "docs" / "reductions.md"
#: Pages whose programs follow the first program of PAGE, which imports what they use.
CONTINUED = [ROOT / "docs" / f"reduction_{name}.md" for name in ("loops", "types", "results")]
PROGRAMS = [
    pytest.param(page, section, id=f"{page.stem} {section}")
    for page in (PAGE, *CONTINUED, ROOT / "docs" / "reduce.md", ROOT / "docs" / "scan.md")
    for section in dict.fromkeys(block.section for block in blocks(page) if block.language == "python")
]


@pytest.mark.device
@pytest.mark.parametrize(("page", "section"), PROGRAMS)
def test_every_program_prints_what_the_page_shows(
    page: Path, section: str, context: cl.Context, queue: cl.CommandQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A C block is `source` for the Python block after it, whose output is the text block after that."""
    monkeypatch.setattr(cl, "create_some_context", lambda **_: context)
    names: dict[str, Any] = {}
    said, shown = "", 0
    opening = [block for block in blocks(PAGE) if not block.section and block.language in {"c", "python"}]
    try:
        for block in [*opening * (page in CONTINUED), *blocks(page)]:
            # The first program imports what the others use.
            if block.language == "c":
                names["source"] = block.text
            elif block.language == "python" and block.section in ("", section):
                said = ran(block.text, names, page.name)
            elif block.language == "text" and block.section in ("", section):
                assert said.split() == block.text.split()
                shown += block.section == section
    except portbar.UnsupportedFeatureError as error:
        pytest.skip(f"refused, as it should be where it cannot work: {error}")
    assert shown == sum(block.language == "text" and block.section == section for block in blocks(page)) >= 1


def text_of_all() -> str:
    return "\n".join(page.read_text(encoding="utf-8") for page in (PAGE, *CONTINUED))


@pytest.mark.parametrize("page", [PAGE, *CONTINUED], ids=lambda page: page.stem)
def test_every_c_block_is_run(page: Path) -> None:
    kinds = [block.language for block in blocks(page) if not block.language.startswith("{")]
    assert kinds == ["c", "python", "text"] * (len(kinds) // 3)


def header(*, loops: tuple[portbar.ReductionLoop, ...] = ()) -> str:
    """Return the header with everything in it, by local memory."""
    strategy = Strategy(Choice("c11", ""), Choice("packed", ""), Choice("counter", ""))
    source = '#include "portbar/reduction.h"\nPORTBAR_REDUCTION_PARAM energy_lock_worker a##b energy_fini_vector'
    return render_header("reduction", strategy, use=use_of(source, (), loops))


def test_every_function_of_the_page_is_in_the_header() -> None:
    page = text_of_all()
    text = header(loops=(portbar.ReductionLoop("energy", {"total": portbar.Reduction(np.float32, "argmin")}),))
    there = set(re.findall(r"\b\w+", text))
    named = set(re.findall(r"\b(?:portbar|PORTBAR)_\w*[a-zA-Z]\b", page))
    named -= {"portbar_global_id", "PORTBAR_FOR", "PORTBAR_GRID_PARAM", "PORTBAR_ENTER", "portbar_device_ok"}
    for name in named:
        places = {"_OP": "_add", "_LEVEL": "_gang_worker", "_T": "_float"}
        end = next((end for end in places if name.endswith(end)), None)
        made = name if end is None else name.removesuffix(end) + places[end]
        if "indexed_" in made:
            made = "portbar_indexed_float"
        assert made in there, name
    for step in re.findall(r"\bNAME_(\w+)", page):
        assert f"energy_{step.replace('LEVEL', 'gang')}" in there, step


def test_the_tables_name_every_operator_level_and_strategy() -> None:
    page = text_of_all().replace("&#124;", "|")
    for op in OPERATORS.values():
        assert f"`{op.symbol}`" in page or f"<code>{op.symbol}</code>" in page, op.symbol
    for op in short_form_operators():
        assert f"`{op.name}`" in page, op.name
    for level in LEVELS:
        assert f"| `{level}` |" in page, level
    for lanes in VARIANTS.values():
        assert f"| `{lanes.name}` | {lanes.summary} |" in page, lanes.name
