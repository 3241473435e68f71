"""docs/stability.md marks every public name: headers, Python names and commands, each in its table."""

from __future__ import annotations

import re

import click
import pytest

import portbar
from portbar.primitives.headers import HOST_HEADER, header_names
from tests.checkout import ROOT
from tests.cli.support import commands

PAGE = ROOT / "docs" / "stability.md"
MARKS = {"stable", "provisional"}


def rows(section: str) -> dict[str, tuple[str, str]]:
    """Name -> mark and reason, from the table of a section."""
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    found = re.findall(r"^\| `([^`]+)` \| (\w+) \|(.*)\|$", text, re.MULTILINE)
    assert len(found) == len({name for name, *_ in found}) == text.count("\n| `"), (
        f"{PAGE}, {section}: a row is malformed"
    )
    return {name: (mark, reason.strip()) for name, mark, reason in found}


def public(section: str) -> set[str]:
    if section == "Headers":
        return {f"portbar/{name}.h" for name in (*header_names(), HOST_HEADER)}
    if section == "Python":
        return set(portbar.__all__)
    return {" ".join(("portbar", *path)) for path, one in commands().items() if not isinstance(one, click.Group)}


@pytest.mark.parametrize("section", ["Headers", "Python", "Commands"])
def test_every_public_name_has_a_mark(section: str) -> None:
    expected, marked = public(section), rows(section)
    missing, gone = sorted(expected - set(marked)), sorted(set(marked) - expected)
    where = f"docs/stability.md, section '{section}'"
    assert not missing, f"add to {where}, in the order of the alphabet: " + " ".join(
        f"| `{name}` | provisional | new |" for name in missing
    )
    assert not gone, f"remove from {where}, after a deprecation: {gone}"
    assert list(marked) == sorted(marked), f"{where} is not in the order of the alphabet"


@pytest.mark.parametrize("section", ["Headers", "Python", "Commands"])
def test_every_provisional_name_has_a_reason(section: str) -> None:
    for name, (mark, reason) in rows(section).items():
        assert mark in MARKS, f"{name}: the mark is one of {MARKS}"
        assert bool(reason) == (mark == "provisional"), (
            f"{name}: a provisional name has a reason, a stable one has none"
        )
