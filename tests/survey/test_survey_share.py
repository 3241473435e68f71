"""`portbar survey --share`: one file within ten minutes, whatever the driver does in a step."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from portbar import records
from portbar.cli import survey_share
from portbar.cli.survey import status_of
from portbar.device import child
from portbar.device.addresses import DeviceAddress
from portbar.device.facts import DeviceFacts
from portbar.records.reading import NO_TIME, measured, missing
from portbar.survey.answers.table import ANSWERS
from portbar.survey.run import GRACE_S, Job, Survey
from portbar.survey.steps import STEPS, answers, in_turn
from portbar.survey.steps.answers import AnswersStep, outcome_of, row_of
from portbar.survey.steps.step import Running
from tests.checkout import ROOT, interruptible, python_path
from tests.checkout import portbar as portbar_command
from tests.fake_icd import vendors
from tests.report_support import device as surveyed
from tests.report_support import record, run
from tests.survey.support import shown, verdict
from tests.survey.test_survey import Hanging

Json = dict[str, Any]

#: Stands for the task of a program, in a child that finds it by PYTHONPATH.
FAKES = """
import os, pathlib, time

def answer(payload):
    name = payload["program"]
    if name == "votes":
        os.abort()
    if name in {"signal", "team"} and "FAKE_PID" in os.environ:
        pathlib.Path(os.environ["FAKE_PID"]).write_text(str(os.getpid()))
        time.sleep(300)
    if name == "scan":
        raise RuntimeError("in /home/me/secret/scan.cl: error: no")
    if name == "sort":
        return {"wrong": ["keys: 1 of 2 values are wrong"], "groups": None}
    if name == "spin lock":
        return {"refused": "there is no order"}
    return {"wrong": [], "groups": 1 if name in {"signal", "team"} else 2}

def nothing(payload):
    return {"skipped": 0}
"""


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "fakes"
    folder.mkdir()
    (folder / "share_fakes.py").write_text(FAKES, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", python_path(folder))
    monkeypatch.setattr(AnswersStep, "task", "share_fakes:answer")


def running(budget: float = 240.0, report: Callable[[str], None] = lambda _: None) -> Running:
    entry: Json = {"address": {}, "findings": None, "answers": {"rows": []}}
    return Running(None, entry, 7, quick=False, budget_s=budget, limit_s=budget + 10.0, report=report)


def by_program(rows: list[Json]) -> dict[str, Json]:
    return {row["program"]: row["result"] for row in rows}


def test_a_step_that_only_such_a_survey_has_is_in_no_other_one() -> None:
    others = {step.name for step in in_turn(quick=False)}
    assert not others & {"answers", "arrays"}
    names = [step.name for step in in_turn(quick=False, share=True)]
    assert set(names) == {step.name for step in STEPS} == others | {"answers", "arrays"}
    assert names[:2] == ["litmus", "answers"]


def test_a_crash_a_hang_an_error_and_a_wrong_answer_cost_their_own_rows(
    fakes: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "MOST_S", 3.0)
    monkeypatch.setattr(answers, "LEAST_S", 2.0)
    monkeypatch.setenv("FAKE_PID", str(tmp_path / "pid"))
    told: list[str] = []
    this = running(report=told.append)
    outcome = AnswersStep().run(this)
    rows = this.entry["answers"]["rows"]
    assert told == [f"checking results: {name}" for name in ANSWERS]
    assert [row["program"] for row in rows] == list(ANSWERS)
    found = by_program(rows)
    assert "SIGABRT" in found["votes"]["reason"]
    assert {found[name]["status"] for name in ("signal", "team")} == {"timeout"}
    assert (found["scan"]["status"], found["sort"]["value"]) == ("error", False)
    assert "RuntimeError" in found["scan"]["reason"]
    assert found["spin lock"] == missing("refused", "there is no order")
    others = set(ANSWERS) - {"votes", "signal", "team", "scan", "sort", "spin lock"}
    assert all(found[name] == measured(True) for name in others)
    assert (outcome["status"], outcome["reason"].partition(":")[0]) == ("crash", "votes")
    entry = surveyed() | {"answers": outcome | {"seconds": 1.0, "rows": rows}}
    (made,) = record(entry)["devices"]
    assert "wrong results of sort" in verdict(made)
    text = " ".join(shown(made).split())
    assert f"Right results: {len(others)} of {len(ANSWERS)} programs" in text
    assert "spin lock: refused: there is no order" in text
    assert AnswersStep().summary(made)["device barrier"] == "crash"
    assert AnswersStep().summary(made)["worklist"] == "right"
    assert status_of(record(made)) == 1


def test_programs_share_the_time_of_the_step_and_the_rest_is_skipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, limits = [0.0], []

    def hang(_task: str, _payload: Json, *, timeout: float) -> child.ChildResult:
        limits.append(timeout)
        now[0] += timeout
        return child.ChildResult("timeout", None, "no answer", timeout)

    monkeypatch.setattr(answers.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(answers.child, "run_task", hang)
    this = running(100.0)
    outcome = AnswersStep().run(this)
    assert limits == [60.0, 30.0, 10.0]
    assert now[0] <= this.limit_s
    found = by_program(this.entry["answers"]["rows"])
    assert list(found) == list(ANSWERS)
    assert [one["status"] for one in found.values()] == ["timeout"] * 3 + ["skipped"] * (len(ANSWERS) - 3)
    assert outcome["status"] == "timeout"
    assert outcome_of([{"program": "a", "result": missing("skipped", NO_TIME)}])["status"] == "partial"


def test_what_says_nothing_with_one_work_group_is_skipped_and_what_is_wrong_is_wrong_all_the_same() -> None:
    def done(wrong: list[str], groups: int | None) -> Json:
        return row_of(child.ChildResult("ok", {"wrong": wrong, "groups": groups}, "", 0.1), "it has no partner")

    assert done([], 2) == {"result": measured(True), "groups": 2}
    assert done([], None) == {"result": measured(True)}
    assert done([], 1)["result"] == missing("skipped", "the device runs one work-group at a time: it has no partner")
    assert done(["a", "b"], 1)["result"] == measured(False, note="a; b")


def test_what_comes_down_with_the_machine_is_named_in_the_file(fakes: None) -> None:
    states: list[Json] = []

    def report(doing: str) -> None:
        if doing.endswith(": votes"):
            states.extend(dict(row) for row in this.entry["answers"]["rows"])
            raise KeyboardInterrupt

    this = running(report=report)
    with pytest.raises(KeyboardInterrupt):
        AnswersStep().run(this)
    assert states[-1]["program"] == "votes"
    assert states[-1]["result"]["status"] == "interrupted"
    assert records.validate(record(surveyed() | {"answers": {"status": "interrupted", "rows": states}})) == []


@pytest.mark.parametrize("devices", [1, 3])
@pytest.mark.parametrize("litmus", [True, False])
def test_drivers_that_hang_in_every_step_take_the_time_of_the_command_and_a_few_seconds(
    monkeypatch: pytest.MonkeyPatch, devices: int, litmus: bool
) -> None:
    device = Hanging(monkeypatch, litmus=litmus)

    def hang(_task: str, _payload: Json, *, timeout: float) -> child.ChildResult:
        return device.spend(timeout, child.ChildResult("timeout", None, "no answer", timeout))

    monkeypatch.setattr(answers.time, "monotonic", lambda: device.now)
    monkeypatch.setattr(answers.child, "run_task", hang)
    survey = Survey(Job(timeout=survey_share.LIMIT_S, share=True), started=-20.0)
    made = survey.run([(DeviceAddress(0, one, "P", "D"), None) for one in range(devices)])
    assert device.now + 20.0 <= survey_share.LIMIT_S + devices * GRACE_S + 1.0 < 600.0
    assert records.validate(made) == []
    assert made["invocation"]["command"] == "survey --share"
    for entry in made["devices"]:
        assert len(entry["answers"]["rows"]) == len(ANSWERS)
        assert entry["answers"]["status"] == "timeout"


def test_a_device_that_portbar_refuses_has_its_answers_checked_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Hanging(monkeypatch, litmus=False)
    done = child.ChildResult("ok", {"wrong": [], "groups": None}, "", 0.1)
    monkeypatch.setattr(answers.child, "run_task", lambda *_, **__: done)
    monkeypatch.setattr(
        "portbar.survey.run._Device._choose", lambda self: self.entry.update(status="refused", findings=None)
    )
    made = Survey(Job(timeout=100.0, share=True), started=0.0).run([(DeviceAddress(0, 0, "P", "D"), None)])
    (one,) = made["devices"]
    assert one["status"] == "refused"
    assert {"litmus", "answers"} <= set(one)
    assert not {"occupancy", "barrier", "arrays", "atomics", "reduction", "split_barrier"} & set(one)
    assert len(one["answers"]["rows"]) == len(ANSWERS)


def test_a_wrong_answer_makes_the_status(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"program": "votes", "primitive": "device barrier", "result": measured(True)}
    right, wrong = (
        surveyed() | {"answers": {"status": "ok", "rows": [row | {"result": measured(one)}]}} for one in (True, False)
    )
    assert status_of(record(right)) == 0
    assert status_of(record(wrong)) == 1


def test_devices_without_a_record_come_first_and_gpus_before_others() -> None:
    known = {("p", "old-gpu")}
    facts = {
        name: DeviceFacts(platform_name="P", name=name, type=(kind,), driver_version="9")
        for name, kind in (("Old GPU", "GPU"), ("New CPU", "CPU"), ("New GPU", "GPU"))
    }
    assert sorted(facts, key=lambda name: survey_share.order(facts[name], known)) == ["New GPU", "New CPU", "Old GPU"]


@pytest.mark.parametrize("more", [["--quick"], ["--check", "x"], ["--dask", "local"], ["-o", "folder/"]])
def test_it_goes_with_nothing_that_makes_it_less(
    more: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("survey", "--share", *more)
    assert result.exit_code == 2
    assert "--share" in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="vendor folders exist on Linux only")
def test_drivers_that_fail_are_in_the_file_within_its_time(tmp_path: Path) -> None:
    folder, file = vendors(tmp_path, "abort-list", "abort-probe"), tmp_path / "record.json"
    variables = {"OCL_ICD_VENDORS": str(folder), "PORTBAR_CACHE_DIR": str(tmp_path / "cache")}
    arguments = ("survey", "--share", "--timeout", 60, "-d", "abort probe", "-o", file)
    started = time.monotonic()
    done = portbar_command(*arguments, timeout=110, **variables)
    assert time.monotonic() - started < 60 + 3 * GRACE_S
    assert done.returncode in {1, 4}, done.stderr
    found = records.load(file)
    assert "SIGABRT" in found["unlisted"][0]
    (one,) = found["devices"]
    assert "SIGABRT" in json.dumps(one["answers"]) or one["answers"]["status"] == "partial"
    assert "SIGABRT" in one["probe"]["reason"]
    assert str(tmp_path) not in file.read_text(encoding="utf-8")
    assert f"{file} is the file to send in" in done.stderr


def test_a_driver_that_crashes_when_it_is_listed_is_all_that_there_is_to_send(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = SimpleNamespace(faulty=["it was ended by SIGABRT in /home/me/x/driver.so"], devices=[], problem="none works")
    monkeypatch.setattr(survey_share, "listed", lambda: seen)
    file = tmp_path / "record.json"
    assert run("survey", "--share", "-o", file).exit_code == 3
    found = records.load(file)
    assert (found["devices"], found["unlisted"]) == ([], ["it was ended by SIGABRT in driver.so"])
    seen.faulty = []
    result = run("survey", "--share", "-o", tmp_path / "none.json")
    assert result.exit_code != 0
    assert "none works" in str(result.exception)
    assert not (tmp_path / "none.json").exists()


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="process groups")
def test_a_child_that_no_signal_ends_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stuck(subprocess.Popen[bytes]):
        def wait(self, timeout: float | None = None) -> int:
            assert timeout is not None
            raise subprocess.TimeoutExpired("it", timeout)

    monkeypatch.setattr(child.subprocess, "Popen", Stuck)
    result = child.run_task("time:sleep", 30, timeout=0.5)  # type: ignore[arg-type]
    assert result.status == "timeout"
    assert result.seconds < 10.0


STARTED = """
import sys
from portbar.survey.steps import STEPS
for step in STEPS:
    type(step).task = "share_fakes:answer" if step.name == "answers" else "share_fakes:nothing"
from portbar.cli import main
main()
"""


@pytest.mark.once
@pytest.mark.device
@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_keeps_the_answers_so_far(
    selector: str, fakes: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid_file, file = tmp_path / "pid", tmp_path / "record.json"
    monkeypatch.setenv("FAKE_PID", str(pid_file))
    process = interruptible([sys.executable, "-c", STARTED, "survey", "--share", "-o", str(file), "-d", selector])
    deadline = time.monotonic() + 150
    while not (pid_file.exists() and pid_file.read_text(encoding="utf-8")) and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    found = records.load(file)
    assert found["interrupted"]
    (one,) = found["devices"]
    rows = by_program(one["answers"]["rows"])
    assert list(rows)[-1] == "signal"
    assert rows["signal"]["status"] == "interrupted"
    assert rows["votes"]["status"] == "crash"
    assert rows["atomics"] == {"value": True}
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text(encoding="utf-8")), 0)


@pytest.mark.few
@pytest.mark.device
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_device_makes_a_file_that_can_be_sent_in_and_filed(selector: str, tmp_path: Path) -> None:
    file, matrix = tmp_path / "record.json", tmp_path / "matrix"
    matrix.mkdir()
    done = portbar_command("survey", "--share", "--timeout", 90, "-o", file, "-d", selector, timeout=180)
    assert done.returncode in {0, 4}, done.stderr
    text = file.read_text(encoding="utf-8")
    found = records.load(file)
    assert found["seconds"] < 120
    (one,) = found["devices"]
    rows = by_program(one["answers"]["rows"])
    assert not [
        name for name, result in rows.items() if result.get("value") is False or result.get("status") == "crash"
    ]
    assert rows["reduce"] == {"value": True}
    assert found["environment"]["packages"]["mako"]
    private = {str(Path.home()), str(tmp_path), sys.prefix, str(ROOT)} - {"/"}
    assert not [path for path in private if path in text]
    measured_text = json.dumps(one["answers"]) + json.dumps(one["litmus"])
    assert not re.search(rf"\b{re.escape(socket.gethostname())}\b", measured_text)
    assert portbar_command("validate", file).returncode == 0
    assert "Right results" in portbar_command("show", file).stdout
    if one["status"] != "refused":
        assert portbar_command("submit", file, "--matrix", matrix, "--force").returncode == 0
        (filed,) = matrix.glob("*--*.json")
        assert by_program(records.load(filed)["devices"][0]["answers"]["rows"]) == rows
