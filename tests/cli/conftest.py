"""The command in this process, and a folder of records with an index page."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from portbar import cli
from tests.cli.support import PAGE


@pytest.fixture
def portbar_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Run the command in this process; its exit status, standard output and standard error."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["portbar", *map(str, arguments)])
        with warnings.catch_warnings(), pytest.raises(SystemExit) as left:
            cli.main()
        out, err = capsys.readouterr()
        return int(left.value.code or 0), out, err

    return call


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    folder = tmp_path / "matrix"
    folder.mkdir()
    (folder / "README.md").write_text(PAGE, encoding="utf-8")
    return folder
