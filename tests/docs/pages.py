"""Pages of the documentation: their code blocks, what their programs print, and strategies for their kernels."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyopencl as cl

import portbar
from portbar.choices.strategy import ALTERNATIVES
from portbar.primitives.strategy import Choice, Strategy
from tests.checkout import ROOT
from tests.rows import cover

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
#: Each pair of choices; that all of them render together is what test_rendering.py is for.
COMBINED = list(itertools.product(*(ALTERNATIVES[part] for part in ("atomics", "discovery", "device_barrier"))))
STRATEGIES = [
    Strategy(*(Choice(value, "") for value in values[:3]), split_barrier=Choice(values[3], ""))
    for values in (
        *((*COMBINED[place], "uniform") for place in cover(COMBINED, 2, "docs")),
        *(("c11", "packed", "counter", split) for split in ALTERNATIVES["split_barrier"]),
    )
]


@dataclass(frozen=True)
class Block:
    """A code block of a page: its language, its text, its section."""

    language: str
    text: str
    section: str


def blocks(page: Path) -> Iterator[Block]:
    section, language = "", ""
    lines: list[str] = []
    for line in page.read_text(encoding="utf-8").splitlines():
        if not language and line.startswith("## "):
            section = line[3:]
        elif not language and line.startswith("```"):
            language, lines = line[3:] or "text", []
        elif language and line == "```":
            yield Block(language, "\n".join(lines) + "\n", section)
            language = ""
        elif language:
            lines.append(line)


def sections(*pages: Path) -> list[tuple[Path, str]]:
    """Return each section with code, after its page."""
    return list(dict.fromkeys((page, block.section) for page in pages for block in blocks(page) if block.section))


def ran(code: str, names: dict[str, Any], page: str) -> str:
    """Run a block of Python and return what it printed, or the error as Python shows it."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            exec(compile(code, page, "exec"), names)  # noqa: S102 (our own page)
    except portbar.UnsupportedFeatureError:
        raise
    except portbar.Error as error:
        said.write(f"{type(error).__module__}.{type(error).__qualname__}: {error}")
    return said.getvalue()


def outputs(
    page: Path, section: str, names: dict[str, Any], queue: cl.CommandQueue
) -> Iterator[tuple[str, str, Callable[[], str]]]:
    """Run the programs of a section; yield each text block, what its program said, and what says it again.

    A C block is the source from there on. Text after a C block is what the last Python says with the new source. The page
    begins with Python that all sections use.
    """
    first, *rest = (block for block in blocks(page) if block.language == "python" or block.section)
    ran(first.text, names, page.name)
    names["queue"] = queue
    code, said = "", ""

    def again() -> str:
        return " ".join(ran(code, names, page.name).split())

    mine = [block for block in rest if block.section == section]
    for before, block in itertools.pairwise([first, *mine]):
        if block.language == "c":
            names["source"] = block.text
        elif block.language == "python":
            code = block.text
        if block.language == "python" or (block.language == "text" and before.language == "c"):
            said = again()
        if block.language == "text":
            yield block.text, said, again


def pattern_of(page_text: str) -> str:
    """A pattern of what a page shows: in errors any number and any device will do, and `...` stands for anything."""
    words = re.escape(" ".join(page_text.split()))
    words = words.replace(re.escape("..."), ".*")
    if words.startswith("portbar"):
        words = words.replace(re.escape("pthread-skylake-avx512-AMD EPYC"), ".+")
        words = re.sub(r"(?<![\w(])\d+(?![\w)])", r"\\d+", words)
    return words
