"""What reads records imports in one direction: each package below knows nothing of those above it."""

from __future__ import annotations

import ast

import pytest

from tests.checkout import ROOT

#: Package -> packages that it must not import.
ABOVE = {
    "records": {"litmus", "survey", "report", "cli"},
    "litmus": {"survey", "report", "cli"},
    "survey": {"report", "cli"},
    "report": {"litmus", "survey", "cli"},
}


@pytest.mark.parametrize("package", ABOVE)
def test_a_package_imports_none_that_stands_above_it(package: str) -> None:
    files = sorted((ROOT / "portbar" / package).rglob("*.py"))
    assert files
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            if names == ["portbar"]:
                names = [f"portbar.{alias.name}" for alias in node.names]
            rooms = {name.split(".")[1] for name in names if name.startswith("portbar.")}
            assert not rooms & ABOVE[package], f"{file.name}, line {node.lineno}"
