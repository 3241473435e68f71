"""The survey: nothing of one device's failure reaches another's rows, and what was measured is kept."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from portbar import records
from portbar.choices.strategy import DeviceProfile
from portbar.cli.survey import status_of
from portbar.device import child
from portbar.device.addresses import DeviceAddress, address_of
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings
from portbar.device.usable import Usability
from portbar.errors import DeviceError
from portbar.records.scrubbing import anonymous
from portbar.survey import run
from portbar.survey.litmus.results import blank
from portbar.survey.measuring import barrier, barrier_table
from portbar.survey.measuring.barrier import barrier_sizes
from portbar.survey.measuring.occupancy import LOCKS, occupancy_cells
from portbar.survey.measuring.session import Session
from portbar.survey.run import GRACE_S, Job, Survey
from portbar.survey.steps import STEPS, in_turn
from portbar.survey.steps import litmus as litmus_step
from portbar.survey.steps import step as step_module
from portbar.survey.steps.step import Step, run_step
from tests.checkout import ROOT, interruptible, portbar, python_path
from tests.report_support import step as stored
from tests.survey.support import UNUSABLE, barrier_row, entry, record, shown

CPU = DeviceFacts(name="a CPU", type=("CPU",), max_work_group_size=4096, local_mem_size=65536, compute_units=2)
GPU = DeviceFacts(name="a GPU", type=("GPU",), max_work_group_size=1024, local_mem_size=49152, compute_units=132)

#: Stands for tasks of the steps in a child that finds it by PYTHONPATH.
FAKES = """
import os, pathlib, time
from portbar.device import child

WG, NO_TIME = "work-groups", {"status": "skipped", "reason": "no time was left"}
ROW = {"local_size": 1, "local_bytes": 16, "lock": "packed", "patience": True, "launched": 2,
       "found": {"value": 2, "unit": WG, "samples": [2, 1, 2], "min": 1, "max": 2},
       "occupancy": {"value": 2, "unit": WG}, "vendor_bound": {"value": 8, "unit": WG}, "computed_bound": NO_TIME,
       "launch_time": {"value": 3.5, "unit": "us", "samples": [3.5, 2.5, 4.5]}}

def rows(payload):
    child.progress({"doing": "the packed lock"})
    child.progress({"row": ROW})
    return {"skipped": 0}

def short_of_time(payload):
    child.progress({"row": ROW})
    child.progress({"row": {**ROW, "lock": "spin", "found": NO_TIME}})
    return {"skipped": 1}

def abort(payload):
    rows(payload)
    child.progress({"doing": "the spin lock"})
    os.abort()

def abort_once(payload):
    flag = pathlib.Path(os.environ["FAKE_FLAG"])
    if flag.exists():
        return rows(payload)
    flag.touch()
    abort(payload)

def hang(payload):
    rows(payload)
    hang_at_once(payload)

def hang_at_once(payload):
    pathlib.Path(os.environ.get("FAKE_PID", os.devnull)).write_text(str(os.getpid()))
    time.sleep(300)

def fail(payload):
    raise RuntimeError("cannot")

def barriers(payload):
    for groups in (1, 2):
        child.progress({"row": {"algorithm": "counter", "groups": groups, "local_size": 64, "rounds": 10,
                                "barrier_time": {"value": 0.5, "unit": "us", "samples": [0.5, 0.25, 0.75]},
                                "relaunch_time": {"value": 4.0, "unit": "us", "samples": [4.0]}}})
    return {"skipped": 0}

def nothing(payload):
    return {"skipped": 0}
"""


@pytest.fixture
def fakes(tmp_path, monkeypatch):
    folder = tmp_path / "fakes"
    folder.mkdir()
    (folder / "survey_fakes.py").write_text(FAKES, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", python_path(folder))
    monkeypatch.setenv("FAKE_FLAG", str(tmp_path / "flag"))
    return folder


def step(function: str, limit: float = 20.0) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    fake = type("Fake", (Step,), {"task": f"survey_fakes:{function}"})
    return run_step(fake(), {}, limit, rows), rows


@pytest.mark.parametrize(
    ("function", "limit", "status", "reason", "count"),
    [
        ("rows", 20.0, "ok", (), 1),
        ("abort", 20.0, "crash", ("the spin lock", "SIGABRT"), 1),
        ("hang", 3.0, "timeout", ("the packed lock",), 1),
        ("fail", 20.0, "error", ("cannot",), 0),
        ("short_of_time", 20.0, "partial", ("1 of 2 rows",), 2),
    ],
)
def test_whatever_ends_a_step_its_rows_are_kept_and_the_reason_says_what_was_measured(
    fakes, function, limit, status, reason, count
):
    outcome, rows = step(function, limit)
    assert (outcome["status"], "reason" in outcome) == (status, bool(reason))
    assert all(words in outcome["reason"] for words in reason)
    assert [row["found"].get("samples") for row in rows] == [[2, 1, 2], None][:count]


@pytest.mark.parametrize("facts", [CPU, GPU])
def test_cells_cover_every_lock_the_informative_ones_first_and_a_quick_survey_has_fewer_runs(facts):
    profile = DeviceProfile(facts, Findings(groups_in_flight=2))
    quick, full = (occupancy_cells(profile, quick=quick) for quick in (True, False))
    for cells in (quick, full):
        assert {(cell.lock, cell.patience) for cell in cells} == {(lock, p) for lock in LOCKS for p in (True, False)}
        assert min(len({cell.local_size for cell in cells}), len({cell.local_bytes for cell in cells})) >= 2
        assert len(set(cells)) == len(cells)
        assert (cells[0].lock, cells[0].patience) == ("packed", True)
    assert sum(cell.runs for cell in quick) < sum(cell.runs for cell in full) / 5


@pytest.mark.parametrize(("findings", "most"), [(Findings(groups_in_flight=1), None), (None, 1)])
def test_where_grids_have_one_group_locks_are_run_once(findings, most):
    cells = occupancy_cells(DeviceProfile(CPU, findings), quick=False, max_groups=most)
    assert {(cell.runs, cell.patience) for cell in cells} == {(1, True)}


def test_no_local_size_is_above_what_a_kernel_can_have():
    cells = occupancy_cells(DeviceProfile(CPU), quick=True, largest=32)
    assert max(cell.local_size for cell in cells) == 32
    assert barrier_sizes(DeviceProfile(CPU), 32) == [1, 32]
    assert barrier_sizes(DeviceProfile(GPU), 100) == [32, 64, 100]


def test_paths_and_the_host_name_go_and_all_else_stays():
    rng = random.Random(20)  # noqa: S311 (test data)
    for _ in range(200):
        parts = ["".join(rng.choices("abcXYZ019_-.", k=rng.randint(1, 9))) + "q" for _ in range(rng.randint(2, 6))]
        path = f"/{'/'.join(parts)}"
        said = anonymous({"a": [f'error in "{path}", line 3', 4, None]}, "box-7")
        assert said == {"a": [f'error in "{parts[-1]}", line 3', 4, None]}, path
    assert anonymous("the box-7 said", "box-7") == "the host said"
    assert anonymous({"host": {"system": "Linux"}, "reason": "linux died"}, "linux") == {
        "host": {"system": "Linux"},
        "reason": "host died",
    }
    assert anonymous("boxes and box-77", "box-7") == "boxes and box-77"
    assert anonymous(r"in C:\Users\me\a.cl: bad", "") == "in a.cl: bad"
    assert anonymous("~/x/y.cl ./a/b.h", "") == "y.cl b.h"
    words = {"unit": "us", "status": "ok", "strategy": "us", "reason": "us failed"}
    assert anonymous(words, "us") == {**words, "reason": "host failed"}
    assert anonymous({"strategy": {"atomics": {"reason": "on box-7"}}}, "box-7") == {
        "strategy": {"atomics": {"reason": "on host"}}
    }
    for kept in ("0.5 us/barrier", "and/or", "name a file in /etc/OpenCL/vendors", "16/32 groups", "https", "a\\b"):
        assert anonymous(kept, "") == kept


def test_no_device_is_an_error_that_names_the_remedy():
    with pytest.raises(DeviceError, match=r"pip install"):
        Survey().run([])


#: A device whose check took too long.
LATE = {
    name: value
    for name, value in entry(status="failed", reason="x", probe=stored([], "timeout")).items()
    if name != "usable"
}


@pytest.mark.parametrize(
    ("entries", "status"),
    [
        ([entry(), UNUSABLE], 0),
        ([UNUSABLE], 3),
        ([entry(), entry(occupancy=stored([], "crash"))], 1),
        ([entry(), entry(atomics=stored([], "error"))], 1),
        ([entry(status="failed", reason="x")], 1),
        ([entry(occupancy=stored([], "crash"), reduction=stored([], "timeout"))], 4),
        ([entry(status="partial", barrier=stored([], "partial"))], 0),
        ([LATE], 4),
        ([LATE, UNUSABLE], 4),
        ([LATE, entry()], 4),
    ],
)
def test_exit_status(entries, status):
    assert status_of(record(*entries)) == status
    assert status_of(record(*entries, interrupted=True)) == 130


@pytest.mark.parametrize(("timeout", "limit"), [(5.0, 5.0), (120.0, 20.0), (600.0, 100.0)])
def test_a_check_that_takes_too_long_leaves_its_device_unknown_and_its_limit_is_the_survey_s(
    monkeypatch, timeout, limit
):
    given = []

    def check(_, seconds, *, at_most, refresh):
        given.append((seconds, at_most, refresh))
        return Usability(False, "it is unknown whether it works", "give it more time", seconds, measured=False)

    monkeypatch.setattr(run, "facts", lambda _: DeviceFacts(name="D"))
    monkeypatch.setattr(run, "check", check)
    made = Survey(Job(timeout=timeout)).run([(DeviceAddress(0, 0, "P", "D"), None)])
    assert given == [(limit, timeout, True)]
    (one,) = made["devices"]
    assert "usable" not in one
    assert one["status"] == "failed"
    assert "unknown" in one["reason"]
    assert "more time" in one["reason"]
    assert status_of(made) == 4
    assert records.validate(made) == []


def test_many_lost_measurements_are_counted_and_few_are_named():
    few, many = {"a": "x", "b": "x", "c": "y"}, {f"m{i}": "timed out" for i in range(30)}
    assert run.lost_text(few) == "a: x; b: x; c: y"
    assert run.lost_text(many | few) == "30 measurements, such as m0: timed out; a: x; b: x; c: y"


class Hanging:
    """A device on which the check takes 12 s and everything after hangs until it is ended, and the time on its clock."""

    def __init__(self, monkeypatch, *, faults=None, litmus=True):
        self.now = 0.0
        facts = DeviceFacts(name="D", type=("CPU",), opencl_c_versions=("1.2", "3.0"), version="OpenCL 2.0")
        profile = DeviceProfile(facts, Findings(builds={"c11@CL3.0": True}))
        for name, value in {
            "time": SimpleNamespace(monotonic=lambda: self.now),
            "facts": lambda _: facts,
            "check": lambda _, limit, **__: self.spend(min(12.0, limit), Usability(True, "", "", 12.0)),
            "probe_with_faults": lambda _, timeout, **__: self.spend(timeout, (profile, faults or {})),
            "stored_findings": lambda _: None,
            "describe": lambda _: profile,
        }.items():
            monkeypatch.setattr(run, name, value)
        hangs = {"status": "timeout", "reason": "x"}
        monkeypatch.setattr(step_module, "run_step", lambda _step, _payload, limit, _rows: self.spend(limit, hangs))
        nothing = SimpleNamespace(results=(), verdicts={})
        monkeypatch.setattr(litmus_step, "keep_verdicts", lambda *_: None)
        monkeypatch.setattr(
            litmus_step, "check", lambda _, limit, **__: self.spend(limit, nothing) if litmus else nothing
        )

    def spend(self, seconds, value):
        assert seconds > 0
        self.now += seconds
        return value


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("timeout", [1.0, 20.0, 60.0])
@pytest.mark.parametrize("litmus", [True, False])
def test_a_driver_that_hangs_takes_the_time_of_its_device_and_a_few_seconds(monkeypatch, timeout, quick, litmus):
    device = Hanging(monkeypatch, litmus=litmus)
    made = Survey(Job(quick, timeout))
    made.run([(DeviceAddress(0, 0, "P", "D"), None)])
    assert device.now <= timeout + GRACE_S + 1.0
    assert [entry["seconds"] for entry in made.record["devices"]] == [pytest.approx(device.now, abs=0.1)]


@pytest.mark.parametrize(
    ("timeout", "quick", "times"), [(60.0, False, 1), (120.0, False, 1), (600.0, False, 5), (600.0, True, 1)]
)
def test_a_longer_limit_lengthens_each_step(monkeypatch, timeout, quick, times):
    Hanging(monkeypatch, litmus=False)
    budgets = {}

    def run_step(step, payload, *_):
        budgets[step.name] = payload["budget_s"]
        return {"status": "ok"}

    monkeypatch.setattr(step_module, "run_step", run_step)
    monkeypatch.setattr(run, "probe_with_faults", lambda *_, **__: (run.describe(None), {}))
    Survey(Job(quick, timeout)).run([(DeviceAddress(0, 0, "P", "D"), None)])
    most = {step.name: step.turn(quick=quick).most_s * times for step in STEPS if step.name in budgets}
    assert set(budgets) >= {"occupancy", "barrier"}
    assert all(0 < budgets[name] <= most[name] for name in budgets)
    # Longer than usual only where the limit is.
    assert (budgets["barrier"] > 90) == (times > 1)


def test_a_step_is_skipped_where_less_time_is_left_than_the_check_took(monkeypatch):
    device = Hanging(monkeypatch, litmus=False)
    monkeypatch.setattr(run, "probe_with_faults", lambda *_, **__: device.spend(40.0, (run.describe(None), {})))
    made = Survey(Job(timeout=60.0)).run([(DeviceAddress(0, 0, "P", "D"), None)])
    (one,) = made["devices"]
    assert {one[step.name]["status"] for step in STEPS if step.name in one and not step.informative} == {"skipped"}


@pytest.mark.parametrize(
    ("more", "step_status", "status"),
    [({}, "timeout", 4), ({"feature printf": "child aborted: the process was killed by SIGABRT"}, "crash", 1)],
)
def test_a_driver_that_dies_or_hangs_in_the_probe_makes_the_status(monkeypatch, more, step_status, status):
    Hanging(monkeypatch, faults={"feature fp64": "timed out", **more})
    monkeypatch.setattr(run, "in_turn", lambda **_: ())
    made = Survey(Job(timeout=20.0)).run([(DeviceAddress(0, 0, "P", "D"), None)])
    (one,) = made["devices"]
    assert one["probe"]["status"] == step_status
    assert one["probe"]["reason"] == "; ".join(["feature fp64: timed out", *map(": ".join, more.items())])
    assert status_of(made) == status
    assert not [problem for problem in records.validate(made) if "probe" in problem]


@pytest.fixture
def address(device, findings):
    return address_of(device)


def fake_tasks(monkeypatch, **others):
    for step in STEPS:
        monkeypatch.setattr(type(step), "task", f"survey_fakes:{others.get(step.name, 'nothing')}")


@pytest.mark.once
@pytest.mark.device
def test_a_driver_that_aborts_costs_its_own_rows_only(device, address, fakes, monkeypatch):
    fake_tasks(monkeypatch, occupancy="abort_once", barrier="barriers")
    monkeypatch.setattr(barrier_table, "store_table", lambda *_: None)
    told = []
    survey = Survey(Job(quick=True, devices=["pocl"]), on_step=lambda *step: told.append(step), seed=7)
    found = survey.run([(address, device), (address, device)])
    assert records.validate(found) == []
    assert (found["seed"], found["invocation"]["devices"]) == (7, ["pocl"])
    assert {step for _, step, _ in told} >= {"measuring occupancy", "measuring reductions"}
    assert all(seconds is None or 0 < seconds < 60 for _, _, seconds in told)
    first, second = found["devices"]
    assert first["occupancy"]["status"] == "crash"
    assert first["occupancy"]["rows"][0]["recall"]["value"] == pytest.approx(5 / 6, abs=1e-4)
    assert first["barrier"]["status"] == "ok"
    assert first["status"] == "partial"
    assert {second[step.name]["status"] for step in in_turn(quick=True) if step.name != "litmus"} == {"ok"}
    assert found["partial"]
    assert not found["interrupted"]
    text = shown(*found["devices"])
    assert "SIGABRT" in text
    assert "0.125" in text  # the ratio of barrier to relaunch
    assert "8 (21%)" in text  # the vendor's answer and how much of it was found


@pytest.mark.device
@pytest.mark.parametrize("extensions", [("cl_intel_concurrent_dispatch",), ()])
def test_a_barrier_without_a_spin_limit_has_a_row_with_the_reason(address, context, monkeypatch, extensions):
    reports = []
    measured = [barrier_row([0.5], groups=groups, local_size=3) for groups in (2, 1)]

    def time_barriers(_queue, *, local_sizes, **_):
        assert local_sizes == [3]
        yield from measured

    monkeypatch.setattr(barrier, "time_barriers", time_barriers)
    monkeypatch.setattr(child, "progress", reports.append)
    session = Session({"address": address.to_json(), "budget_s": 1.0, "local_sizes": [3]})
    session.profile = replace(session.profile, facts=replace(session.profile.facts, extensions=extensions))
    barrier.measure(session)
    assert session.skipped == 0
    rows = [report["row"] for report in reports if "row" in report]
    assert rows[:2] == measured
    assert [(row["algorithm"], row["groups"], row["barrier_time"]["status"]) for row in rows[2:]] == (
        [("intel_device_barrier", 2, "skipped")] if extensions else []
    )
    assert all("no spin limit" in row["barrier_time"]["reason"] for row in rows[2:])


@pytest.mark.few
@pytest.mark.device
@pytest.mark.slow
def test_a_quick_survey_of_a_device_makes_a_complete_record(selector, tmp_path):
    output = tmp_path / "out" / "record.json"
    done = portbar("survey", "--quick", "--json", "-o", output, "-d", selector, timeout=110)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == json.loads(output.read_text(encoding="utf-8"))
    assert records.validate(found) == []
    (one,) = found["devices"]
    assert one["usable"]["usable"]
    if one["status"] == "refused":
        pytest.skip(f"portbar refuses this device: {one['reason']}")
    assert one["strategy"]["atomics"]["reason"]
    assert {row["probe"] for row in one["probe"]["rows"]} >= {"loop_limit", "progress lanes", "groups_in_flight"}
    measured = [row for row in one["occupancy"]["rows"] if "value" in row["found"]]
    assert measured
    for row in measured:
        assert len(row["launch_time"]["samples"]) == len(row["found"]["samples"])
        assert row["found"]["max"] <= row["best_known_groups"]
    for row in one["barrier"]["rows"]:
        samples = row["barrier_time"].get("samples")
        assert samples is None or min(samples) <= row["barrier_time"]["value"] <= max(samples)
    for step in ("split_barrier", "reduction", "atomics", "litmus"):
        assert one[step]["status"] in {"ok", "partial", "skipped"}, (step, one[step].get("reason"))
    private = {str(Path.home()), str(tmp_path), sys.prefix, str(ROOT)} - {"/"}
    assert not [path for path in private if path in done.stdout]
    measured_text = json.dumps(
        [{k: v for k, v in e.items() if k not in {"facts", "address"}} for e in found["devices"]]
    )
    assert not re.search(rf"\b{re.escape(socket.gethostname())}\b", measured_text)
    assert str(output) not in done.stdout


@pytest.mark.device
def test_ctrl_c_in_the_litmus_tests_keeps_their_results(device, address, fakes, monkeypatch):
    def stopped(*_, on_progress, **__):
        failed = {"status": "fail", "reason": "2 of 9", "instances": 9, "forbidden": {"r0=0": 2}}
        on_progress({"result": blank("SB-device-global-ops", "c11", 1) | failed})
        raise KeyboardInterrupt

    fake_tasks(monkeypatch)
    monkeypatch.setattr(run, "check", lambda *_, **__: Usability(usable=True, reason="", remedy="", seconds=0.0))
    monkeypatch.setattr(litmus_step, "check", stopped)
    found = Survey(Job(quick=True)).run([(address, device)])
    (one,) = found["devices"]
    assert found["interrupted"]
    assert found["partial"]
    assert (one["status"], one["litmus"]["status"]) == ("partial", "interrupted")
    assert one["litmus"]["rows"][0]["verdict"]["value"] == "fail"
    assert records.validate(found) == []


INTERRUPTED = """
import sys
from portbar.survey.steps import BarrierStep, OccupancyStep
OccupancyStep.task, BarrierStep.task = "survey_fakes:rows", "survey_fakes:hang_at_once"
from portbar.cli import main
main()
"""


@pytest.mark.once
@pytest.mark.device
@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_keeps_the_record_so_far_and_leaves_no_children(selector, fakes, tmp_path, monkeypatch):
    pid_file, output = tmp_path / "pid", tmp_path / "record.json"
    monkeypatch.setenv("FAKE_PID", str(pid_file))
    arguments = ["survey", "--quick", "--json", "-o", str(output), "-d", selector]
    process = interruptible([sys.executable, "-c", INTERRUPTED, *arguments])
    deadline = time.monotonic() + 90
    while not (pid_file.exists() and pid_file.read_text(encoding="utf-8")) and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    found = json.loads(out)
    assert found == json.loads(output.read_text(encoding="utf-8"))
    assert found["partial"]
    assert found["interrupted"]
    (one,) = found["devices"]
    assert (one["status"], one["occupancy"]["status"]) == ("partial", "ok")
    assert one["occupancy"]["rows"][0]["recall"]["value"] > 0.5
    assert (one["barrier"]["status"], one["barrier"]["reason"]) == ("interrupted", "stopped by Ctrl-C")
    assert "atomics" not in one
    assert records.validate(found) == []
    assert "interrupted" in err
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text(encoding="utf-8")), 0)
