"""Surveys that are killed, and two at once: each file is whole, measured values are kept, and nothing is left running."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from portbar import records
from tests.checkout import environment, have_ended, interruptible
from tests.fake_icd import vendors

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="vendor folders exist on Linux only")


def start(folder: Path, output: Path, *devices: str, limit: float = 30.0) -> subprocess.Popen[str]:
    chosen = [part for name in devices for part in ("-d", name)]
    arguments = ["survey", "--quick", "--timeout", str(limit), "-o", str(output), *chosen]
    env = environment(OCL_ICD_VENDORS=str(folder), PORTBAR_CACHE_DIR=str(output.parent / "cache"))
    return interruptible([sys.executable, "-m", "portbar", *arguments], env=env)


def children_of(pid: int) -> list[int]:
    """The processes that run tasks for a process."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(entry.read_text(encoding="utf-8").rpartition(")")[2].split()[1])
            if parent == pid and b"portbar.device.child" in (entry.parent / "cmdline").read_bytes():
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


def test_a_survey_that_is_killed_keeps_what_it_wrote_and_leaves_no_child(tmp_path):
    # The first driver makes a survey short, the second one hangs in the probe.
    output = tmp_path / "record.json"
    process = start(vendors(tmp_path, "fail-probe", "hang-probe"), output, "fail probe", "hang probe")
    try:
        assert any("hang probe" in line and "probing" in line for line in process.stderr)
        deadline = time.monotonic() + 60
        while not (running := children_of(process.pid)):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        # By then it hangs in the driver.
        time.sleep(1.0)
    finally:
        process.kill()
        process.communicate()
    assert have_ended(running, within=10.0)
    kept = records.load(output)
    assert kept["partial"]
    assert [device["status"] for device in kept["devices"]] == ["refused", "partial"]
    assert not list(tmp_path.glob(".writing-*"))


def test_two_surveys_at_once_end_well_and_their_file_is_that_of_one_of_them(tmp_path):
    folder, output = vendors(tmp_path, "fail-probe"), tmp_path / "record.json"
    running = [start(folder, output, "fake") for _ in range(2)]
    for process in running:
        _, err = process.communicate(timeout=180)
        assert process.returncode == 0, err
        assert "Traceback" not in err
        assert "Warning" not in err
    (one,) = records.load(output)["devices"]
    assert one["status"] == "refused"
    assert one["facts"]["name"] == "Fake device fail probe"


@pytest.mark.slow
def test_drivers_that_misbehave_once_they_passed_the_check_cost_their_devices_and_the_time_limit(tmp_path):
    names, output, limit = ("abort-probe", "lie-probe", "hang-probe"), tmp_path / "record.json", 2.0
    process = start(vendors(tmp_path, *names), output, "fake", limit=limit)
    _, err = process.communicate(timeout=100)
    assert process.returncode == 1, err
    assert "Traceback" not in err
    found = {device["facts"]["name"]: device for device in records.load(output)["devices"]}
    assert {device["status"] for device in found.values()} == {"refused"}
    reasons = {name: json.dumps(found[f"Fake device {name.replace('-', ' ')}"]["probe"]) for name in names}
    assert "SIGABRT" in reasons["abort-probe"]
    assert "timed out" in reasons["hang-probe"]
