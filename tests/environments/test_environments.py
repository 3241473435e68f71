"""The page of environments is made of the data file, outcomes are what was seen, and CI runs each environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import yaml

from tests.checkout import ROOT, environment, have_ended, ran
from tests.environments import running
from tests.environments.few import spread
from tests.environments.page import (
    CI_PAGE,
    FILE,
    PAGE,
    keep,
    load,
    load_wheels,
    markdown,
    processors,
    summary,
    with_processors,
)
from tests.environments.running import STEPS, Done, Place, bounded, entry_of_tests, lowest, of_tests, outcome, run_tests
from tests.environments.table import ENVIRONMENTS, PRIMITIVES, Environment

pytestmark = pytest.mark.skipif(os.name == "nt", reason="trees are of Debian")

OUTPUT = """tests/a/test_a.py::test_one PASSED [ 10%]
tests/a/test_a.py::test_two[x y] SKIPPED (no groups) [ 20%]
tests/b/test_b.py::test_three FAILED [ 30%]
"""
END = "=== 1 failed, 1 passed, 1 skipped in 3.21s ===\n"


def test_the_page_is_that_of_the_data_file() -> None:
    assert PAGE.read_text(encoding="utf-8") == markdown(load(), load_wheels())


def test_the_table_of_processors_is_that_of_the_data_file() -> None:
    text = CI_PAGE.read_text(encoding="utf-8")
    assert text == with_processors(text, load()), "run `python -m tests.environments --page`"


def test_the_table_of_processors_names_the_runtime_and_the_emulator() -> None:
    versions = {
        "machine": "riscv64",
        "emulator": "qemu-riscv64",
        "platform": "rusticl OpenCL 3.0",
        "device": "llvmpipe",
    }
    entry = {"date": "2000-01-02", "versions": versions, "steps": {"scan": {"outcome": "right"}}}
    text = with_processors(CI_PAGE.read_text(encoding="utf-8"), {"riscv64": entry, "arm64": {**entry, "versions": {}}})
    title = ENVIRONMENTS["riscv64"].title
    assert f"| RISC-V, emulated | rusticl on llvmpipe | {title} | right | 2000-01-02 |\n" in text
    assert ENVIRONMENTS["arm64"].title not in text
    named = {
        **entry,
        "versions": {**versions, "machine": "x86_64", "emulator": "", "platform": "Portable PoCL 7.1+debian"},
    }
    assert "| x86-64 | PoCL 7.1 |" in processors({"debian-sid": named})


def test_the_data_file_has_steps_and_environments_of_the_tables() -> None:
    entries = load()
    assert set(entries) <= set(ENVIRONMENTS)
    for entry in entries.values():
        assert set(entry["steps"]) <= {*STEPS, *PRIMITIVES}
    assert str(ROOT) not in FILE.read_text(encoding="utf-8")


def test_the_page_says_of_environments_that_they_were_not_run() -> None:
    rows = [line for line in markdown({}).splitlines() if line.endswith("` |")]
    assert len(rows) == len(ENVIRONMENTS)
    assert all("| not run |" in row for row in rows)


def test_each_primitive_s_tests_are_there() -> None:
    assert all((ROOT / file).is_file() for file in PRIMITIVES.values())


def test_ci_runs_each_environment() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    job = workflow["jobs"]["environments"]
    assert job["strategy"]["matrix"]["environment"] == list(ENVIRONMENTS)
    # YAML reads the key `on` as true.
    events = workflow[True]
    assert events["schedule"]
    assert events["push"]["tags"] == ["v*"]
    assert "schedule" in job["if"]
    assert "refs/tags/" in job["if"]


def test_every_run_of_ci_tries_the_oldest_dependencies() -> None:
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "-m tests.environments oldest --quick" in text
    assert '"the oldest dependencies" oldest ||' in text


def test_what_is_kept_is_on_the_page(tmp_path: Path) -> None:
    entry = {
        "date": "2000-01-02",
        "versions": {},
        "seconds": 3,
        "steps": {
            "quickstart": {"outcome": "right", "seconds": 1, "note": ""},
            "scan": {"outcome": "failed", "seconds": 1, "note": "2 failed, 1 passed"},
        },
    }
    name = next(iter(ENVIRONMENTS))
    shutil.copy(CI_PAGE, tmp_path / "ci.md")
    keep(name, entry, tmp_path / "data.json", tmp_path / "page.md", tmp_path / "ci.md")
    assert json.loads((tmp_path / "data.json").read_text())["environments"] == {name: entry}
    keep(
        name,
        {**entry, "steps": {"sort": {"outcome": "right", "seconds": 1, "note": ""}}},
        tmp_path / "data.json",
        tmp_path / "page.md",
        tmp_path / "ci.md",
        whole=False,
    )
    assert list(load(tmp_path / "data.json")[name]["steps"]) == ["quickstart", "scan", "sort"]
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "| not right: scan | 2000-01-02 |" in page
    assert f"- {name}, scan: failed. 2 failed, 1 passed\n" in page
    assert "| survey | not reached |" in page


def test_tests_are_counted_by_file() -> None:
    counts = of_tests(OUTPUT)
    assert counts == {
        "tests/a/test_a.py": {"passed": 1, "skipped": 1},
        "tests/b/test_b.py": {"failed": 1},
    }
    entries = {file: entry_of_tests(count) for file, count in counts.items()}
    assert [entry["outcome"] for entry in entries.values()] == ["right", "failed"]
    assert entry_of_tests(counts["tests/a/test_a.py"], reason="took too long")["outcome"] == "failed"
    assert entry_of_tests(Counter())["outcome"] == "failed"
    assert entry_of_tests(of_tests("tests/c/test_c.py::t SKIPPED\n")["tests/c/test_c.py"])["outcome"] == "skipped"


class Acted(Place):
    """An environment whose commands print what a list says."""

    def __init__(self, *done: Done) -> None:
        self.environment, self.left, self.commands = Environment("", ""), list(done), []

    def run(self, command: str, *_: object) -> Done:
        self.commands.append(command)
        return self.left.pop(0)


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "PRIMITIVES", {name: f"tests/{name}/test_{name}.py" for name in "abc"})


@pytest.mark.usefixtures("three")
def test_a_file_that_ends_the_process_costs_itself_only() -> None:
    crashed = OUTPUT + "tests/b/test_b.py::test_four Fatal Python error: Aborted\n"
    place = Acted(Done(-6, crashed, 1.0), Done(0, "tests/c/test_c.py::test PASSED\n" + END, 1.0))
    entries = run_tests(place, "abc")
    assert {name: entry["outcome"] for name, entry in entries.items()} == {"a": "right", "b": "failed", "c": "right"}
    assert "Aborted" in entries["b"]["note"]
    assert "tests/a/" not in place.commands[1]
    assert "tests/b/" not in place.commands[1]


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("quick", [False, True])
def test_the_survey_comes_before_the_quickstart_where_portbar_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, first: bool, quick: bool
) -> None:
    commands: list[str] = []
    monkeypatch.setattr(Place, "make", lambda _: Done(0, "", 1.0))
    monkeypatch.setattr(Place, "run", lambda _, command, *__: commands.append(command) or Done(0, "", 1.0))
    monkeypatch.setattr(running, "PRIMITIVES", {})
    entry = running.tried(Environment("", "some platform", survey_first=first), tmp_path, quick=quick)
    surveyed = ["survey"] if first or not quick else []
    assert list(entry["steps"])[2:] == (["survey", "quickstart"] if first else ["quickstart", *surveyed])
    assert sum(" survey " in command for command in commands) == len(surveyed)
    assert any("--quick" in command for command in commands) == (first and quick)
    commands.clear()
    entry = running.tried(Environment("", "some platform", survey_first=first), tmp_path, only=["survey"])
    assert list(entry["steps"]) == ["system", "install", "survey"]


@pytest.mark.usefixtures("three")
def test_a_run_that_never_begins_ends_too() -> None:
    entries = run_tests(Acted(*(Done(None, "", 1.0) for _ in "abc")), "abc")
    assert [(entry["outcome"], entry["note"]) for entry in entries.values()] == [("failed", "took too long")] * 3


def test_a_step_s_note_names_no_path_and_breaks_no_table() -> None:
    entry = outcome(Done(1, "fine\nerror | in /home/somebody/x.py: no\n", 1.2))
    assert entry == {"outcome": "failed", "seconds": 1, "note": "error / in ...: no"}
    assert outcome(Done(None, "x", 9.0))["outcome"] == "took too long"
    assert summary({"steps": {"scan": entry, "sort": {"outcome": "skipped"}}}) == "not right: scan; skipped: sort"


def test_a_survey_is_right_where_the_device_synchronises_and_no_step_failed() -> None:
    done, probe = Done(0, "", 1.0), {"status": "ok", "rows": []}
    device = {"status": "complete", "probe": probe, "barrier": {"status": "partial", "rows": []}, "facts": {}}
    assert running.of_survey({"devices": [device]}, done) == {"outcome": "right", "seconds": 1, "note": "2 steps"}
    failed = running.of_survey({"devices": [{**device, "litmus": {"status": "crash", "rows": []}}]}, done)
    assert (failed["outcome"], failed["note"]) == ("failed", "litmus crash")
    crashed = {"devices": [{**device, "probe": {**probe, "status": "crash"}}]}
    found = running.of_survey(crashed, Done(1, "", 1.0))
    assert (found["outcome"], found["note"]) == ("right", "probe crash")
    assert running.of_survey(crashed, Done(4, "", 1.0))["outcome"] == "failed"
    refused = running.of_survey({"devices": [{**device, "status": "refused", "reason": "no order"}]}, done)
    assert (refused["outcome"], refused["note"]) == ("failed", "refused: no order")


def test_a_command_that_takes_too_long_is_ended_with_its_children() -> None:
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    began = time.monotonic()
    assert bounded([sys.executable, "-c", child], 2).status is None
    assert time.monotonic() - began < 20


def test_what_an_environment_runs_ends_with_the_command(tmp_path: Path) -> None:
    child = f"import os, pathlib, time; pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid())); time.sleep(60)"
    text = f"""
import signal, sys
from tests.environments.running import bounded
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
bounded([sys.executable, "-c", {child!r}], 60)
"""
    process = subprocess.Popen([sys.executable, "-c", text], env=environment())
    while not (tmp_path / "pid").is_file() or not (tmp_path / "pid").read_text():
        assert process.poll() is None
        time.sleep(0.05)
    process.terminate()
    assert process.wait(30) == 143
    assert have_ended([int((tmp_path / "pid").read_text())])


def test_the_lowest_versions_are_those_of_the_setup(tmp_path: Path) -> None:
    file = tmp_path / "setup.cfg"
    file.write_text(
        "[options]\ninstall_requires =\n    one>=1.2; python_version > '3'\n    two>=3,<5\n"
        "[options.extras_require]\ntest =\n    three-x>=4.5\n    two>=4\n"
    )
    # The first is of portbar itself, the last of its tests: the higher one satisfies both.
    assert lowest(file) == ["one==1.2.*; python_version > '3'", "two==4.*", "three-x==4.5.*"]
    assert len(lowest()) >= 12


def test_few_tests_are_spread_over_a_file() -> None:
    assert spread(range(10), 3) == [0, 3, 6]
    assert spread([1, 2], 3) == [1, 2]


def test_pytest_takes_few_tests_of_each_file(tmp_path: Path) -> None:
    for name in "ab":
        text = "".join(f"def test_{number}(): pass\n" for number in range(9))
        (tmp_path / f"test_{name}.py").write_text(text, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.environments.few",
        "--most-per-file",
        "2",
        "-p",
        "no:cacheprovider",
    ]
    done = ran(*command, "--rootdir", tmp_path, tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert "4 passed, 14 deselected" in done.stdout, done.stdout


def test_an_environment_of_this_machine_has_a_home_and_a_checkout(tmp_path: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    place = Place(Environment("", "some platform", variables={"MORE": "1"}), tmp_path)
    made = place.make()
    assert made.status == 0, made.output
    done = place.run('echo "$HOME $MORE $PORTBAR_TEST_PLATFORM ${PYTHONPATH-none}" && ls setup.cfg && false', 60)
    assert done.status == 1
    assert done.output.splitlines() == [f"{place.home} 1 some platform none", "setup.cfg"]
