"""The program of docs/reduce.md prints what the page shows."""

from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING, Any

import pytest

import portbar
from tests.checkout import ROOT
from tests.docs.test_docs import blocks

if TYPE_CHECKING:
    import pyopencl as cl

PAGE = ROOT / "docs" / "reduce.md"


@pytest.mark.device
def test_the_page_prints_what_it_shows(context: cl.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyopencl as cl  # noqa: PLC0415

    (code,) = (block.text for block in blocks(PAGE) if block.language == "python")
    (shown,) = (block.text for block in blocks(PAGE) if block.language == "text")
    monkeypatch.setattr(cl, "create_some_context", lambda **_: context)
    said = io.StringIO()
    names: dict[str, Any] = {}
    try:
        with contextlib.redirect_stdout(said):
            exec(compile(code, PAGE.name, "exec"), names)  # noqa: S102 (our own page)
    except portbar.UnsupportedFeatureError as error:
        pytest.skip(f"refused, as it should be where it cannot work: {error}")
    assert said.getvalue() == shown


def test_the_page_tells_the_numbers_of_the_code() -> None:
    from portbar.arrays.shape import FIXED_ITEMS, FIXED_LEAST_ROWS, FIXED_PARTS, fixed_part  # noqa: PLC0415

    page = PAGE.read_text(encoding="utf-8")
    assert f"*L* = {FIXED_ITEMS} · 16" in page
    assert f"{FIXED_PARTS:,} parts at most, of {FIXED_LEAST_ROWS} rows at least" in page
    assert fixed_part(1, 4) == 1024
    assert fixed_part(1, 8) == 512
