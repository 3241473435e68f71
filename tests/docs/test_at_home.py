"""The page "For users of PyOpenCL and NumPy": both sides of each line of its tables give the same."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest

from tests.docs.pages import DOCS, blocks
from tests.support import skipped_where_refused

PAGE = DOCS / "at_home.md"
#: The arrays that a line may have changed.
CHANGED = ("x", "y", "keys", "table")


def tables(page: Path) -> dict[str, list[tuple[str, str]]]:
    """The code of both columns of each table, by its section."""
    found: dict[str, list[tuple[str, str]]] = {}
    section = ""
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = line[3:]
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 2 and all(re.fullmatch("`[^`]+`", cell) for cell in cells):
            found.setdefault(section, []).append((cells[0].strip("`"), cells[1].strip("`")))
    return found


def value_of(code: str, names: dict[str, Any]) -> Any:
    """Run the statements of a cell, and return the value of the last one if that is an expression."""
    *before, last = ast.parse(code).body
    value = None
    if isinstance(last, ast.Expr):
        exec(compile(ast.Module(before, []), PAGE.name, "exec"), names)  # noqa: S102 (our own page)
        value = eval(compile(ast.Expression(last.value), PAGE.name, "eval"), names)  # noqa: S307
    else:
        exec(compile(code, PAGE.name, "exec"), names)  # noqa: S102
    return value


def plain(value: Any) -> Any:
    """A value as lists and numbers; None for events and kernels."""
    if isinstance(value, cl.array.Array):
        value = value.get()
    if isinstance(value, np.ndarray | np.generic):
        return value.round(4).tolist() if value.dtype.kind in "fc" else value.tolist()
    if isinstance(value, dict):
        return [plain(one) for one in value.values()]
    if isinstance(value, list | tuple):
        parts = [plain(one) for one in value]
        return parts[0] if len(parts) == 1 else parts
    return value if isinstance(value, bool | int | float | str) else None


@pytest.mark.device
@pytest.mark.parametrize("section", tables(PAGE))
def test_both_sides_of_each_line_give_the_same(
    section: str, context: cl.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cl, "create_some_context", lambda **_: context)
    setup = "".join(block.text for block in blocks(PAGE) if block.language == "python")
    sides: list[dict[str, Any]] = []
    for side in range(2):
        names: dict[str, Any] = {"__name__": PAGE.stem}
        exec(compile(setup, PAGE.name, "exec"), names)  # noqa: S102 (our own page)
        if "NumPy" in section and side == 0:
            names |= {name: one.get() for name, one in names.items() if isinstance(one, cl.array.Array)}
        sides.append(names)
    with skipped_where_refused():
        for codes in tables(PAGE)[section]:
            found = [plain(value_of(code, names)) for code, names in zip(codes, sides, strict=True)]
            left = [[plain(names.get(name)) for name in CHANGED] for names in sides]
            assert found[0] == found[1], codes
            assert left[0] == left[1], codes


def test_both_columns_of_the_tables_are_found() -> None:
    found = tables(PAGE)
    assert set(found) == {"Launches", "Arrays, as in NumPy", "Arrays, as in PyOpenCL"}
    assert all(len(lines) > 5 for lines in found.values()), found
