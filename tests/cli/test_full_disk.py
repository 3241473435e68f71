"""A disk that is full costs what is written now and nothing that was there before; the message says what is kept."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from portbar import records
from portbar.cli import survey as survey_module
from portbar.cli import survey_share
from portbar.errors import Error, RenderError
from portbar.launching import export
from portbar.records import cache, writing
from portbar.survey.fleet import hosts
from tests.cli.support import PAGE, SLUG
from tests.records_support import device, record
from tests.report_support import run

resource = pytest.importorskip("resource", reason="file sizes are limited by POSIX systems only")


def leave(room: int) -> None:
    """No file of this process grows beyond `room` bytes: a write is cut short there, and the next one is refused."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


@contextmanager
def full_disk(room: int = 16) -> Iterator[None]:
    """Limit files for a while; of a module that is imported meanwhile, Python would leave bytecode that is cut short."""
    before, kept = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    leave(room)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = kept


def run_on_full_disk(*arguments: object) -> Any:
    with full_disk():
        return run(*arguments)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*")}


@pytest.fixture
def matrix(matrix: Path) -> Path:
    (matrix / "a.json").write_text(records.text(record()), encoding="utf-8")
    return matrix


def test_the_limit_is_one_that_writing_in_place_does_not_survive(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old " * 10)
    with full_disk(), pytest.raises(OSError, match="File too large"):
        path.write_text("new " * 10)
    assert path.read_text() != "old " * 10


def test_a_module_that_is_imported_meanwhile_leaves_no_bytecode_that_is_cut_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tests share one folder of bytecode, as do all programs of a Python that is installed."""
    (tmp_path / "imported_on_full_disk.py").write_text("value = 7\n" * 9, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "bytecode"))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    with full_disk():
        importlib.import_module("imported_on_full_disk")
    assert names(tmp_path / "bytecode") == set()
    del sys.modules["imported_on_full_disk"]
    assert importlib.import_module("imported_on_full_disk").value == 7


def test_index_keeps_the_page(matrix: Path) -> None:
    result = run_on_full_disk("index", matrix)
    assert (matrix / "README.md").read_text(encoding="utf-8") == PAGE
    assert result.exit_code == 1
    assert "README.md cannot be written (File too large) and is unchanged" in str(result.exception)
    assert names(matrix) == {"README.md", "a.json"}


def test_submit_keeps_the_page_and_the_record_that_is_there(tmp_path: Path, matrix: Path) -> None:
    old, new = records.text(record()), record(created="2026-11-22T10:00:00Z")
    (matrix / f"{SLUG}.json").write_text(old, encoding="utf-8")
    (tmp_path / "new.json").write_text(records.text(new), encoding="utf-8")
    result = run_on_full_disk("submit", tmp_path / "new.json", "--matrix", matrix)
    assert result.exit_code == 1
    assert "not written" in result.stdout
    assert "File too large; the old file is there" in result.stdout
    assert (matrix / f"{SLUG}.json").read_text(encoding="utf-8") == old
    assert (matrix / "README.md").read_text(encoding="utf-8") == PAGE
    assert names(matrix) == {"README.md", "a.json", f"{SLUG}.json"}


def test_submit_says_when_only_the_page_could_not_be_written(
    tmp_path: Path, matrix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new.json").write_text(records.text(record()), encoding="utf-8")

    def write(_path: Path, _text: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing, "write", write)
    result = run("submit", tmp_path / "new.json", "--matrix", matrix)
    assert "The index was not written: README.md cannot be written (No space left on device)" in result.stdout
    assert records.load(matrix / f"{SLUG}.json") == record()


@pytest.mark.parametrize("form", ["--markdown", "--no-plots"])
def test_report_keeps_the_old_page(tmp_path: Path, matrix: Path, form: str) -> None:
    page = tmp_path / "report"
    page.write_text("the old page, which took an hour", encoding="utf-8")
    result = run_on_full_disk("report", matrix, form, "-o", page)
    assert result.exit_code == 2
    assert "is unchanged" in " ".join(result.stderr.split())
    assert page.read_text(encoding="utf-8") == "the old page, which took an hour"


def test_exported_headers_are_whole_or_the_old_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "_text_or_reason", lambda *_: "new " * 100)
    folder = tmp_path / "portbar"
    folder.mkdir()
    for name in export.header_names():
        (folder / f"{name}.h").write_text("old")
    with full_disk(), pytest.raises(RenderError, match="as they were"):
        export.export(None, tmp_path)  # type: ignore[arg-type]
    assert {path.read_text() for path in folder.iterdir()} == {"old"}


def test_a_cache_entry_is_whole_or_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTBAR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "_memory", {})
    monkeypatch.setattr(cache, "_warned", set())
    cache.store("findings", "gpu", {"n": 1})
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with full_disk(), pytest.warns(cache.CacheWarning, match="File too large"):
        cache.store("findings", "gpu", {"n": 2})
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert cache.load("findings", "gpu") == {"n": 2}


def test_a_folder_of_hosts_keeps_its_records_and_gets_no_salt_that_is_cut_short(tmp_path: Path) -> None:
    folder = hosts.HostFolder(tmp_path / "records")
    with full_disk(), pytest.raises(Error, match="File too large"):
        folder.label("a host")
    label = folder.label("a host")
    folder.write(label, "the old record")
    with full_disk(), pytest.raises(Error, match="is unchanged"):
        folder.write(label, "new " * 9)
    assert folder.file(label).read_text() == "the old record"


class Survey:
    """Stands for a survey of three steps; `rooms` is what the disk has for a file from each on, if that changes."""

    rooms: tuple[int, ...] = ()

    def __init__(self, _job: object, on_step: Any, **_: object) -> None:
        self.record = record(device(seconds=0.0))
        self._on_step = on_step

    def run(self, _devices: object) -> dict[str, Any]:
        for number in range(3):
            if self.rooms:
                leave(self.rooms[number])
            self.record["devices"][0]["seconds"] = float(number)
            self._on_step("GPU", f"step {number}", 9.0)
        self.record["devices"][0]["seconds"] = 99.0
        return self.record


@pytest.fixture
def survey(monkeypatch: pytest.MonkeyPatch) -> type[Survey]:
    monkeypatch.setattr(survey_module, "Survey", Survey)
    monkeypatch.setattr(survey_module, "chosen", lambda _: [])
    monkeypatch.setattr(survey_share, "found", lambda _: survey_share.Found([], []))
    return Survey


def test_survey_is_refused_at_once_where_nothing_can_be_written(tmp_path: Path, survey: type[Survey]) -> None:
    result = run_on_full_disk("survey", "-o", tmp_path / "r.json")
    assert result.exit_code == 2
    assert "File too large" in result.stderr
    assert names(tmp_path) == set()


@pytest.mark.parametrize("options", [(), ("--share",)])
def test_survey_goes_on_and_prints_what_the_disk_refused(
    tmp_path: Path, survey: type[Survey], monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    path = tmp_path / "r.json"
    monkeypatch.setattr(survey, "rooms", (1 << 30, 1 << 30, 16))
    with full_disk(1 << 30):
        result = run("survey", *options, "-o", path)
    assert result.exit_code == 1
    assert "is the file to send in" not in result.stderr
    kept = records.load(path)
    assert (kept["partial"], kept["devices"][0]["seconds"]) == (True, 1.0)
    assert json.loads(result.stdout)["devices"][0]["seconds"] == 99.0
    assert result.stderr.count("cannot be written") == 1
    assert "continues and tries again" in result.stderr
    assert "holds the record of an earlier step" in result.stderr


def test_survey_writes_again_once_there_is_room(
    tmp_path: Path, survey: type[Survey], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "rooms", (1 << 30, 16, 1 << 30))
    with full_disk(1 << 30):
        result = run("survey", "-o", tmp_path / "r.json")
    assert result.exit_code == 0, result.output
    assert records.load(tmp_path / "r.json")["devices"][0]["seconds"] == 99.0


def test_survey_keeps_what_is_in_the_matrix_and_prints_the_record(tmp_path: Path, survey: type[Survey]) -> None:
    old = tmp_path / f"{SLUG}.json"
    old.write_text("old")
    result = run_on_full_disk("survey", "--matrix", tmp_path)
    assert result.exit_code == 1
    assert "is unchanged" in result.stderr
    assert json.loads(result.stdout)["devices"][0]["seconds"] == 99.0
    assert old.read_text() == "old"


# --- what else writing beside and renaming must keep ---


def test_an_old_file_keeps_its_mode_and_a_new_one_gets_the_usual_one(tmp_path: Path) -> None:
    usual, old = tmp_path / "usual", tmp_path / "old"
    usual.touch()
    old.touch()
    old.chmod(0o640)
    writing.write(tmp_path / "new", "x")
    writing.write(old, "x")
    assert (tmp_path / "new").stat().st_mode == usual.stat().st_mode
    assert old.stat().st_mode & 0o777 == 0o640


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("old")
    (tmp_path / "link").symlink_to("folder/file")
    writing.write(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder" / "file").read_text() == "new"


def test_a_device_stays_a_device(tmp_path: Path) -> None:
    writing.write(Path("/dev/null"), "text")
    assert Path("/dev/null").is_char_device()
    with pytest.raises(OSError, match="No space left"):
        writing.write(Path("/dev/full"), "text")
