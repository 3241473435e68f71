"""Files that no user named: few stay, and those without a cache end with the process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from portbar.records import scratch
from tests.checkout import environment, ran


def test_the_newest_few_stay_each_once(own_cache: Path) -> None:
    for number in range(scratch.MOST_KEPT + 5):
        path = scratch.keep("refused", f"text {number}", ".cl")
        assert path is not None
        os.utime(path, (1e9 + number, 1e9 + number))
        assert scratch.keep("refused", f"text {number}", ".cl") == path
        os.utime(path, (1e9 + number, 1e9 + number))
    kept = {path.read_text(encoding="utf-8") for path in (own_cache / "refused").iterdir()}
    assert kept == {f"text {number}" for number in range(5, scratch.MOST_KEPT + 5)}


def test_an_old_text_that_is_kept_again_is_among_the_newest(own_cache: Path) -> None:
    first = scratch.keep("refused", "first", ".cl")
    for number in range(2 * scratch.MOST_KEPT):
        assert scratch.keep("refused", "first", ".cl") == first
        scratch.keep("refused", f"text {number}", ".cl")
    assert scratch.keep("refused", "first", ".cl") == first
    assert first is not None
    assert first.is_file()


PROGRAM = """
import sys
from portbar.records import scratch
path = scratch.keep("refused", "a text", ".cl")
print(path, path.read_text(), scratch.keep("refused", "a text", ".cl") == path)
"""


@pytest.mark.parametrize("cache", ["off", "a file"])
def test_without_a_cache_a_file_ends_with_its_process(tmp_path: Path, cache: str) -> None:
    (tmp_path / "temporary").mkdir()
    (tmp_path / "a file").touch()
    folder = cache if cache == "off" else str(tmp_path / cache / "below")
    variables = environment(PORTBAR_CACHE_DIR=folder, TMPDIR=str(tmp_path / "temporary"))
    done = ran(sys.executable, "-c", PROGRAM, env=variables)
    path, *words = done.stdout.split()
    assert words == ["a", "text", "True"], done.stderr
    assert Path(path).is_relative_to(tmp_path / "temporary")
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_text_that_can_be_written_nowhere_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PORTBAR_CACHE_DIR", str(tmp_path / "file" / "below"))
    monkeypatch.setattr(scratch, "own_folder", lambda: tmp_path / "file")
    assert scratch.keep("refused", "a text", ".cl") is None
