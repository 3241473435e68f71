"""Programs in which not all work-items reach a call that they must make together, as people write them, and right twins.

The files of `pairs/` have a wrong program and a right one after each other. In a wrong one, `/* call */` marks the line of a
call that is refused, `/* by */` the line of the condition, if that is another one. Those of `sub_groups.cl` are wrong only
where functions of sub-groups meet at barriers of the work-group.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_HEAD = re.compile(r"^//// (?P<name>.+): (?P<which>wrong|right)\n", re.MULTILINE)


@dataclass(frozen=True)
class Pair:
    """A wrong program, and one that does what its author meant."""

    name: str
    wrong: str
    right: str


def _pairs(path: Path) -> list[Pair]:
    _, *parts = _HEAD.split(path.read_text())
    texts = {(name, which): text for name, which, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True)}
    assert 3 * len(texts) == len(parts)
    return [Pair(name, text, texts[name, "right"]) for (name, which), text in texts.items() if which == "wrong"]


_FILES = {path.stem: _pairs(path) for path in sorted((Path(__file__).parent / "pairs").glob("*.cl"))}
WIDE = _FILES.pop("sub_groups")
PAIRS = [pair for pairs in _FILES.values() for pair in pairs]


def kernel(body: str, *, parameters: str = "global uint *a, uint n", before: str = "") -> str:
    """A kernel of plain OpenCL C."""
    return f"{before}kernel void k({parameters})\n{{\n{body}\n}}\n"


def grid(body: str) -> str:
    """A kernel with a grid."""
    return kernel(
        f"    PORTBAR_ENTER(grid);\n{body}",
        parameters="PORTBAR_GRID_PARAM, global uint *a, uint n",
        before='#include "portbar/device_barrier.h"\n',
    )
