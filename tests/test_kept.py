"""Results kept between test runs: a proof counts for the same parts only, and old or large entries are removed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests import kept


@pytest.fixture(autouse=True)
def folder(kept_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(kept.VARIABLE, raising=False)
    kept_folder.mkdir()
    return kept_folder


def is_known(*parts: str) -> bool:
    try:
        with kept.proof(*parts):
            return False
    except pytest.skip.Exception:
        return True


def test_a_proof_counts_for_the_same_parts_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [is_known(*parts) for parts in (("a", "b"), ("a", "b"), ("ab",), ("a", "c"), ("b", "a"), ("a", "b"))] == [
        False,
        True,
        False,
        False,
        False,
        True,
    ]
    monkeypatch.setenv(kept.VARIABLE, "1")
    assert not is_known("a", "b")


def test_without_a_folder_nothing_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "file").touch()
    monkeypatch.setattr(kept, "FOLDER", folder / "file" / "below")
    assert [is_known("a") for _ in range(2)] == [False, False]
    kept.prune()


def test_a_row_takes_as_long_as_it_did(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept.duration("Intel(R) OpenCL sample") is None
    kept.note_duration("Intel(R) OpenCL sample", 61.7)
    assert [kept.duration(name) for name in ("Intel(R) OpenCL sample", "Intel(R) OpenCL quick")] == [62, None]
    next((folder / "durations").iterdir()).write_text("no number")
    assert kept.duration("Intel(R) OpenCL sample") is None
    monkeypatch.setenv(kept.VARIABLE, "1")
    kept.note_duration("host host", 5)
    assert len(list((folder / "durations").iterdir())) == 1


def test_a_failure_is_no_proof() -> None:
    for _ in range(2):
        with pytest.raises(AssertionError), kept.proof("wrong"):
            raise AssertionError


def test_what_is_old_or_too_much_goes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST_BYTES", 250)
    now = time.time()
    for name, days in {"new": 0, "older": 1, "oldest": 2, "stale": 20}.items():
        program = folder / "pocl" / "libpocl" / "AB" / name
        program.mkdir(parents=True)
        (program / "kernel.so").write_bytes(bytes(100))
        (program / "last_accessed").touch()
        os.utime(program / "last_accessed", (now - days * 86400,) * 2)
    (folder / "proofs").mkdir()
    for name, days in {"new": 0, "stale": 20}.items():
        (folder / "proofs" / name).touch()
        os.utime(folder / "proofs" / name, (now - days * 86400,) * 2)
    kept.prune()
    assert {path.name for path in folder.glob("pocl/*/*/*")} == {"new", "older"}
    assert [path.name for path in folder.glob("proofs/*")] == ["new"]
