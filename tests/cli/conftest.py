"""A folder of records with an index page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import PAGE


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    folder = tmp_path / "matrix"
    folder.mkdir()
    (folder / "README.md").write_text(PAGE, encoding="utf-8")
    return folder
