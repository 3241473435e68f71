"""Texts are taken from an earlier process only where all that they follow from is the same."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from portbar.records import cache, remembered
from tests.checkout import ROOT


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.ENVIRONMENT_VARIABLE, str(tmp_path))
    monkeypatch.delenv(remembered.VARIABLE, raising=False)


@dataclass(frozen=True)
class Point:
    x: Any
    y: Any = None


@dataclass(frozen=True)
class Pair:
    x: Any
    y: Any = None


def made(*parts: Any) -> tuple[str, int]:
    """The text of some parts, and how often it was made."""
    calls: list[int] = []

    def make() -> str:
        calls.append(1)
        return f"text of {parts!r}\n"

    return remembered.text_of(parts, make), len(calls)


def test_a_text_is_made_once() -> None:
    text, calls = made(Point(1), ("a",))
    assert calls == 1
    assert made(Point(1), ("a",)) == (text, 0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0.0, -0.0),
        (1, True),
        (1, 1.0),
        ("1", 1),
        (("a", "b"), ("ab",)),
        ((("a",), "b"), ("a", ("b",))),
        (Point(1), Pair(1)),
        (Point(1, None), Point(None, 1)),
        ({"a": "b"}, {"a": "c"}),
        (frozenset("ab"), frozenset("abc")),
        (("x,y",), ("x", "y")),
        (Point("1,y=2"), Point(1, 2)),
    ],
)
def test_parts_that_differ_have_texts_of_their_own(one: Any, other: Any) -> None:
    assert remembered.stable(one) != remembered.stable(other)
    assert made(one)[1] == 1
    assert made(other)[1] == 1


def test_sets_and_mappings_have_no_order() -> None:
    assert remembered.stable({"a": 1, "b": 2}) == remembered.stable({"b": 2, "a": 1})
    code = (
        "from portbar.records.remembered import stable\n"
        "print(stable((frozenset('portbar'), {'b': {3, 1, 2}, 'a': frozenset({'x', 'y'})})))\n"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3", "4")
    }
    assert len(found) == 1


def test_a_changed_file_of_portbar_s_makes_texts_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert made("part")[1] == 1
    code = tmp_path / "package"
    code.mkdir()
    (code / "one.py").write_text("a = 1\n")
    before = list(remembered._files_below(str(code)))
    (code / "one.py").write_text("a = 12\n")
    assert list(remembered._files_below(str(code))) != before
    (code / "one.py").write_text("a = 1\n")
    (code / "below").mkdir()
    (code / "below" / "two.mako").write_text("")
    assert any("two.mako" in line for line in remembered._files_below(str(code)))
    monkeypatch.setattr(remembered, "_own_files", lambda: "another state")
    assert made("part")[1] == 1
    # Code that lies in no files, as in a zip file, is made each time.
    monkeypatch.setattr(remembered, "_own_files", lambda: None)
    assert made("part")[1] == 1
    assert made("part")[1] == 1


def test_files_of_code_are_found() -> None:
    assert len(remembered._own_files() or "") == 64
    names = " ".join(remembered._files_below(str(ROOT / "cl_templates")))
    assert "host.mako" in names


def test_only_the_newest_texts_stay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(remembered, "MOST_KEPT", 3)
    for number in range(6):
        made(number)
    assert len(list((tmp_path / remembered.KIND).iterdir())) == 3


def test_nothing_is_kept_where_there_is_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.ENVIRONMENT_VARIABLE, "off")
    assert made("part")[1] == 1
    assert made("part")[1] == 1


@pytest.mark.parametrize("change", [{"json": 5}, {"json": '"another text"'}, {"sha256": ""}, {"json": '["Unknown"]'}])
def test_a_damaged_entry_is_made_anew(change: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_warned", set())
    made("part")
    (entry,) = (tmp_path / remembered.KIND).iterdir()
    before = cache.load(remembered.KIND, entry.stem)
    assert before is not None
    cache.store(remembered.KIND, entry.stem, {**before, **change})
    with pytest.warns(cache.CacheWarning, match="damaged"):
        assert made("part")[1] == 1
    assert made("part")[1] == 0


def test_a_value_of_unknown_classes_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_warned", set())
    assert remembered.value_of(("part",), lambda: Point(1), (Point,)) == Point(1)
    assert remembered.value_of(("part",), lambda: Point(2), (Point,)) == Point(1)
    with pytest.warns(cache.CacheWarning, match="Point"):
        assert remembered.value_of(("part",), lambda: Pair(3), (Pair,)) == Pair(3)


def test_what_has_no_form_on_disk_is_made_each_time(tmp_path: Path) -> None:
    made_of = [remembered.value_of(("part",), object) for _ in range(2)]
    assert made_of[0] is not made_of[1]
    assert not (tmp_path / remembered.KIND).exists()


def test_a_large_value_stays_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "MOST_CHARACTERS", 4)
    assert made("part")[1] == 1
    assert made("part")[1] == 1


def test_the_user_may_want_everything_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert made("part")[1] == 1
    monkeypatch.setenv(remembered.VARIABLE, "0")
    assert made("part")[1] == 0
    monkeypatch.setenv(remembered.VARIABLE, "1")
    assert made("part")[1] == 1
    assert made("other")[1] == 1
    assert len(list((tmp_path / remembered.KIND).iterdir())) == 1


def test_a_full_disk_costs_the_memory_of_no_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache, "_warned", set())
    monkeypatch.setattr(cache, "_memory", {})
    monkeypatch.setattr(cache.writing, "replace", full)
    with pytest.warns(cache.CacheWarning, match="No space left"):
        assert made("part")[1] == 1
    assert made("part")[1] == 1
    assert not cache._memory


def test_an_error_is_not_remembered() -> None:
    def fail() -> str:
        raise RuntimeError("no text")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="no text"):
            remembered.text_of(("part",), fail)
    assert made("part")[1] == 1
