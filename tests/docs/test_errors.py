"""docs/errors.md: each fault of its table has tests in docs/verification.md, and they are there."""

from __future__ import annotations

import re

import pytest

from portbar.device import quirks
from portbar.launching.hints import _HINTS
from tests.checkout import ROOT

PAGE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
TESTED = (ROOT / "docs" / "verification.md").read_text(encoding="utf-8")


def table(page: str, head: str) -> list[str]:
    return page.partition(f"{head}\n")[2].partition("\n\n")[0].splitlines()[1:]


ROWS = table(TESTED, "| fault | tests |")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:50])
def test_a_fault_of_the_table_has_tests(row: str) -> None:
    named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", row.split("|")[2])
    assert named
    for file, function in named:
        text = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert re.search(rf"^def {function}\(", text, re.MULTILINE), f"{file} has no {function}"


def test_faults_of_the_page_are_those_with_tests() -> None:
    faults = [row.split("|")[1] for row in table(PAGE, "| fault | what you see | limit |")]
    assert len(faults) > 20
    assert faults == [row.split("|")[1] for row in ROWS]


def test_every_fault_that_is_injected_is_in_the_table() -> None:
    for file in ("launch/test_faults.py", "survey/test_survey_faults.py"):
        for function in re.findall(
            r"^def (test_\w+)", (ROOT / "tests" / file).read_text(encoding="utf-8"), re.MULTILINE
        ):
            assert f"{file}::{function}" in TESTED


def test_the_hints_of_the_page_begin_as_those_of_the_errors_do() -> None:
    rows = PAGE.partition("| hint | meaning |\n")[2].splitlines()[1:]
    given = (*(hint for _, hint in _HINTS), *(quirk.workaround for quirk in quirks.table()))
    assert rows
    for row in rows:
        hint = row.split("|")[1].strip()
        assert any(one.startswith(hint) for one in given), hint
