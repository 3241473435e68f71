"""The tests that rows run: each device test somewhere, samples that hold what they promise, and rows side by side."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatch
from itertools import combinations, product
from pathlib import Path

import pytest

from tests import kept, machine, rows, runtimes
from tests.checkout import interruptible

TESTS = Path(__file__).parent


pytestmark = pytest.mark.usefixtures("kept_folder")


POCL = [f"PoCL 3.1 {method} x{count}" for method in ("loopvec", "cbs") for count in machine.THREADS]
OTHERS = ["PoCL 3.0 (wheel)", "rusticl", "Oclgrind x1", "Oclgrind x2", "Intel(R) OpenCL"]


def configurations(names: Sequence[str]) -> list[runtimes.Configuration]:
    return [runtimes.Configuration("host"), *(runtimes.Configuration(name, name) for name in names)]


def shares(names: Sequence[str], broken: Sequence[str] = (), *, quick: bool = False) -> dict[str, str]:
    """Return the shares of rows where these are the runtimes and some do not work."""
    found = configurations(names)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtimes, "check", lambda _, one: ("", "broken" if one.name in broken else ""))
        first = runtimes.first_of(runtimes.Workshop(TESTS), found)
    return {one.name: runtimes.share_of(one, first, quick=quick) for one in found}


def test_the_readme_shows_the_rows() -> None:
    assert "\n".join(rows.table()) in (TESTS / "README.md").read_text()


def test_marks_name_files_that_exist() -> None:
    files = [path.name for path in TESTS.rglob("test_*.py")]
    for patterns in rows.FILES.values():
        for pattern in patterns:
            assert any(fnmatch(file, pattern) for file in files), pattern


def test_rows_that_differ_in_threads_run_what_depends_on_threads() -> None:
    found = shares([*POCL, *OTHERS, "NVIDIA CUDA"])
    assert {name for name, share in found.items() if share == "threads"} == {
        *(name for name in POCL if not name.endswith("x2")),
        "Oclgrind x2",
    }
    assert found["host"] == "host"
    assert {name for name, share in found.items() if share == "whole"} == {"NVIDIA CUDA"}
    assert {name for name, share in found.items() if share == "second"} == {"rusticl"}
    assert set(shares([*POCL, *OTHERS], quick=True).values()) == {"quick host", "quick"}


def test_of_several_pocls_the_short_way_takes_one_that_works() -> None:
    one, other, third = (runtimes.Configuration(name, name) for name in ("PoCL 3.1 x2", "PoCL 3.0 (wheel)", "rusticl"))
    assert [runtimes.is_relative(each, "PoCL 3.0 (wheel)") for each in (one, other, third)] == [True, False, False]
    assert not any(runtimes.is_relative(each, "rusticl") for each in (one, other, third))


@pytest.mark.parametrize(
    ("names", "broken", "first"),
    [
        ([*OTHERS, *POCL], [], "PoCL 3.1 loopvec x2"),
        ([*POCL, *OTHERS], ["PoCL 3.1 loopvec x2"], "PoCL 3.1 cbs x2"),
        (OTHERS, [], "PoCL 3.0 (wheel)"),
        (OTHERS, ["PoCL 3.0 (wheel)", "rusticl"], "Intel(R) OpenCL"),
        (["Oclgrind x1", "Oclgrind x2"], [], "Oclgrind x1"),
    ],
)
def test_one_row_that_works_runs_every_device_test(names: list[str], broken: list[str], first: str) -> None:
    assert [name for name, share in shares(names, broken).items() if share == "first"] == [first]
    assert (rows.SHARES["first"].marks, rows.SHARES["first"].sample) == ("device", "pairs")


def test_the_first_row_has_each_pair_and_two_others_each_value_between_them() -> None:
    for cases in ([*product("abcd", "efg", "hij", "kl")], [*product("abcd", "efg")], [("a",), ("b",), ("c",)]):
        samples = {sample: rows.places(cases, sample, "seed") for sample in rows.SAMPLES if sample}
        values = {value for case in cases for value in enumerate(case)}
        strength = min(2, max(1, len(cases[0]) - 1))
        pairs = {part for case in cases for part in combinations(enumerate(case), strength)}
        assert samples["values"] <= samples["pairs"] < set(range(len(cases)))
        assert samples["some values"] <= samples["one half"] | samples["other half"]
        assert not samples["one half"] & samples["other half"]
        held = {place for name in ("one half", "other half") for place in samples[name]}
        assert {value for place in held for value in enumerate(cases[place])} == values
        if len(cases[0]) > 1:
            assert {value for place in samples["values"] for value in enumerate(cases[place])} == values
            assert {p for place in samples["pairs"] for p in combinations(enumerate(cases[place]), strength)} == pairs
    assert rows.half([4], "one half") == rows.half([4], "other half") == {4}


def test_without_the_other_rows_the_first_runs_every_case() -> None:
    named = {"x2": "first", "Intel": "sample", "rusticl": "second", "host": "host"}
    found = [runtimes.Configuration(name, name, share=share) for name, share in named.items()]
    assert runtimes.alone_or_not(found) == found
    assert [one.share for one in runtimes.alone_or_not(found[:2])] == ["alone", "sample"]
    found[2] = replace(found[2], unusable="it aborts")
    assert runtimes.alone_or_not(found)[0].share == "alone"
    assert (rows.SHARES["alone"].marks, rows.SHARES["alone"].sample) == ("device", "")


def test_a_sample_holds_every_pair_and_is_the_same_each_time() -> None:
    cases = list(product("abcd", "efg", "hij", "kl"))
    chosen = [cases[place] for place in rows.cover(cases, 2, "seed")]
    held = {pair for case in chosen for pair in combinations(enumerate(case), 2)}
    assert held == {pair for case in cases for pair in combinations(enumerate(case), 2)}
    assert len(chosen) < len(cases) / 3
    assert chosen == [cases[place] for place in rows.cover(cases, 2, "seed")]
    assert len(rows.cover(cases, 1, "seed")) == 4
    assert len(rows.cover([["a"], ["b"], ["c"]], 1, "seed")) == 2


@pytest.mark.timeout(600)
def test_a_row_s_sample_leaves_cases_out_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tests").mkdir()
    for name in ("conftest.py", "rows.py"):
        (tmp_path / "tests" / name).write_text((TESTS / name).read_text())
    (tmp_path / "setup.cfg").write_text((TESTS.parent / "setup.cfg").read_text())
    values = "@pytest.mark.parametrize('a', range(4))"
    cases = f"{values}\n@pytest.mark.parametrize('b', ['half', 'int', 'long', 'char'])"
    for name in ("test_reduction_x.py", "test_other.py", "test_tutorials.py"):
        (tmp_path / "tests" / name).write_text(
            f"import pytest\n@pytest.mark.device\n{cases}\ndef test_it(a, b): pass\n"
            f"@pytest.mark.device\n{values}\ndef test_one(a): pass\n"
        )
    monkeypatch.setattr(runtimes, "ROOT", tmp_path)
    workshop = runtimes.Workshop(tmp_path / "scratch")
    one = runtimes.Configuration("any", "any", share="sample")
    row = runtimes.run(workshop, one, runtimes.parse([]))
    # Every second case of four that have each value, and the others of a type that few devices have; of one parameter every
    # second value.
    assert (row.failed, row.notes) == (0, [f"sample: {40 - row.passed} of 40 cases left out"])
    assert 2 * (4 + 1 + 2) <= row.passed <= 2 * (4 + 2 + 2)
    two = runtimes.run(workshop, replace(one, share="second"), runtimes.parse([]))
    # All cases of what no more than two rows run.
    assert 20 + 2 * (4 + 1 + 2) <= two.passed <= 20 + 2 * (4 + 2 + 2)
    chosen = runtimes.run(workshop, one, runtimes.parse(["--", "-k", "reduction"]))
    assert (chosen.passed, chosen.notes) == (20, [])


def test_rows_run_side_by_side_longest_first_and_never_two_of_one_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    order: list[str] = []
    running: list[str] = []
    together: set[tuple[str, ...]] = set()
    lock = threading.Lock()

    def run(_: object, one: runtimes.Configuration, *__: object) -> runtimes.Row:
        if one.unusable:
            return runtimes.Row(one.name, notes=[one.unusable])
        with lock:
            order.append(one.name)
            running.append(one.name)
            together.add(tuple(sorted(running)))
        time.sleep(0.2 if one.name == "x2" else 0.5)
        running.remove(one.name)
        return runtimes.Row(one.name, passed=1)

    monkeypatch.setattr(runtimes, "run", run)
    monkeypatch.setattr(runtimes, "PROGRESS", 0.0)
    monkeypatch.delenv(kept.VARIABLE, raising=False)
    kept.note_duration("host host", 50.0)
    chosen = [
        runtimes.Configuration("host"),
        runtimes.Configuration("x1", "PoCL", "libpocl.so", share="threads"),
        runtimes.Configuration("x2", "PoCL", "libpocl.so", share="first"),
        runtimes.Configuration("Intel", "Intel", "libintelocl.so", share="sample"),
        runtimes.Configuration("Clover", "Clover", "libclover.so", share="sample", unusable="no device"),
    ]
    found = runtimes.run_all(runtimes.Workshop(tmp_path), chosen, runtimes.parse(["--jobs", "2"]))
    assert [row.name for row in found] == ["host", "x1", "x2", "Intel", "Clover"]
    assert found[-1].notes == ["no device"]
    assert order[:3] == ["x2", "host", "Intel"]
    assert ("host", "x2") in together
    assert not any({"x1", "x2"} <= set(names) for names in together)
    assert max(map(len, together)) == 2
    said = capsys.readouterr().err
    assert "collecting tests" in said
    assert re.search(r"host +collecting tests +\d+ of about 50 s", said)
    assert re.search(rf"x1 +collecting tests +\d+ of about {rows.SHARES['threads'].seconds} s", said)
    assert "Intel: 1 passed" in said


def test_a_loop_over_cases_takes_a_third_of_them_in_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(rows.SAMPLE_VARIABLE, raising=False)
    assert rows.some("abcdefg", 1) == "abcdefg"
    monkeypatch.setenv(rows.SAMPLE_VARIABLE, "pairs")
    assert [rows.some("abcdefg", turn) for turn in range(4)] == ["adg", "be", "cf", "adg"]
    assert rows.some("a", 2) == "a"
    found = []
    for sample in rows.THIRDS:
        monkeypatch.setenv(rows.SAMPLE_VARIABLE, sample)
        found.append(rows.some("abcdefg", 1))
    assert found == ["be", "cf", "adg"]


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT cannot be sent to one child on Windows")
def test_a_runner_that_is_interrupted_ends_its_rows() -> None:
    child = interruptible([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    started = time.monotonic()
    assert not runtimes.finish(child, 50, stop)
    assert child.poll() is not None
    assert time.monotonic() - started < 30
