"""The soak test: it counts what it did, and what was wrong; its status says whether anything was."""

import subprocess
import sys

import pytest

from tests import soak
from tests.checkout import ROOT, environment, have_ended
from tests.machine import Configuration

POCL = Configuration("PoCL 3.1 loopvec x2", "PoCL 3.1")
MISSING = Configuration("PoCL 3.1 cbs x2", "PoCL 3.1")
RIGHT = {"kind": "barriers", **soak.asdict(soak.Counts(barriers=7)), "grown_kib": 0, "grown_over": 1, "memory_kib": 9}


@pytest.mark.parametrize(
    ("found", "rows", "status", "words"),
    [
        ([POCL, MISSING], [RIGHT], 0, ["cbs x2: skipped, it has no method 'cbs'"]),
        ([MISSING], [], 0, ["cbs x2: skipped"]),
        ([POCL], [RIGHT, {**RIGHT, "wrong": 3, "gave_up": 1}], 1, ["loopvec x2, barriers: 3 values wrong, 1 launches"]),
        ([POCL], [{"kind": "all", "error": "exit -6: abort"}], 1, ["FAILED: PoCL 3.1 loopvec x2, all: exit -6: abort"]),
        ([], [], 2, ["no runtime"]),
    ],
    ids=["one is missing", "all are missing", "wrong", "ended early", "unknown"],
)
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["table", "json"])
def test_the_status_is_that_of_what_ran_and_the_last_lines_say_why(
    monkeypatch, capsys, found, rows, status, words, form
):
    monkeypatch.setattr(soak, "configurations", lambda *_, **__: found)
    monkeypatch.setattr(soak, "check", lambda _, one: ("", "it has no method 'cbs'" if one is MISSING else ""))
    monkeypatch.setattr(soak, "soak_runtime", lambda *_: iter(rows))
    assert soak.main(form) == status
    told = capsys.readouterr().err
    assert all(part in told for part in words)
    assert ("FAILED" in told) == (status == 1)


KILLED = """
import os, signal, subprocess
from tests import soak
made = []
class Popen(subprocess.Popen):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        made.append(self.pid)
soak.subprocess.Popen = Popen
with soak.busy_processor():
    print(*made, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_busy_processes_end_with_the_one_that_started_them():
    done = subprocess.run(
        [sys.executable, "-c", KILLED],
        capture_output=True,
        text=True,
        timeout=180,
        cwd=ROOT,
        env=environment(),
        check=False,
    )
    pids = [int(word) for word in done.stdout.split()]
    assert pids, done.stderr
    assert have_ended(pids)


@pytest.mark.device
def test_each_kind_of_work_is_done_and_nothing_is_wrong(context, device):
    rows = {row["kind"]: row for row in soak.soak(device, 0.01, [*soak.KINDS])}
    assert set(soak.KINDS) - set(rows) <= ({"threads"} if "Oclgrind" in device.name else set())
    for row in rows.values():
        assert row["launches"] > 0
        assert sum(row[name] for name in ("barriers", "signals", "team_barriers", "alone")) > 0
        assert row["wrong"] == row["gave_up"] == 0
    assert rows["programs"]["programs"] == rows["programs"]["launches"]
    # Growth counts only once caches are full.
    assert rows["programs"]["grown_over"] == 0
    assert rows["barriers"]["grown_over"] > 0


@pytest.mark.device
@pytest.mark.parametrize(
    ("kind", "text", "wait"),
    [
        ("barriers", "SOURCE", "!portbar_device_barrier(&grid)"),
        ("signals", "PARTS", "!MET(left) || !MET(right)"),
        ("teams", "PARTS", "!portbar_team_barrier(&grid, &team)"),
    ],
)
def test_groups_that_do_not_wait_are_counted_as_wrong(context, device, monkeypatch, kind, text, wait):
    assert wait in getattr(soak, text)
    monkeypatch.setattr(soak, text, getattr(soak, text).replace(wait, "round > rounds"))
    work = soak.Soak(device)
    done = soak.KINDS[kind](work, 1.0)
    if done.alone:
        pytest.skip("grids have one work-group on this device: nothing is passed between groups")
    assert done.wrong > 0


@pytest.mark.device
def test_a_launch_that_gave_up_is_counted(context, device, monkeypatch):
    left = "if (PORTBAR_UNIFORM(groups > 1u && group == 0u && round == 1u)) return; if"
    monkeypatch.setattr(soak, "SOURCE", soak.SOURCE.replace("if (!portbar", f"{left} (!portbar"))
    monkeypatch.setattr(soak.portbar, "Program", limited(soak.portbar.Program))
    done = soak.Soak(device).crowd(0.1)
    if done.alone:
        pytest.skip("grids have one work-group on this device: no group waits for another")
    assert done.gave_up == done.launches > 0


def limited(program):
    """Return what builds programs with a short spin limit."""

    def build(context, source, **options):
        return program(context, source, spin_limit=0.02, **options)

    return build
