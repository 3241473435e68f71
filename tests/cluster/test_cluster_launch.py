"""`portbar survey` started many times at once, as by `srun` and `mpirun`: one survey and one file for each host."""

from __future__ import annotations

import json
import signal
import sys
import time

import pytest

from portbar import records
from portbar.survey.fleet.hosts import SIZES
from tests.checkout import environment, interruptible
from tests.report_support import record

pytestmark = pytest.mark.slow

#: The command with a survey that measures nothing, on a host whose name is in a variable.
FAKED = """
import json, os, time
from portbar.cli import survey

class Survey:
    def __init__(self, job, on_step, **_):
        self.record = json.loads(open(os.environ["FAKE_RECORD"]).read())
        self.record["invocation"] |= job.invocation
        self.on_step = on_step

    def run(self, devices):
        self.on_step("0:0 Test GPU", "measuring", None)
        with open(os.environ["FAKE_LOG"], "a") as log:
            log.write(os.environ["FAKE_HOST"] + "\\n")
        try:
            time.sleep(float(os.environ["FAKE_SECONDS"]))
        except KeyboardInterrupt:
            self.record |= {"interrupted": True, "partial": True}
        return self.record

survey.Survey = Survey
survey.chosen = lambda patterns: []
survey.host_name = lambda: os.environ["FAKE_HOST"]
from portbar.cli import main
main()
"""


@pytest.fixture
def launch(tmp_path, monkeypatch):
    """Start processes at the same time, each with variables of its own, and wait for all."""
    (tmp_path / "record.json").write_text(json.dumps(record()), encoding="utf-8")
    (tmp_path / "log").touch()
    monkeypatch.chdir(tmp_path)
    for name in (*SIZES, "PMIX_RANK"):
        monkeypatch.delenv(name, raising=False)

    def start(host="alone", *arguments, seconds=1.0, **variables):
        fakes = {
            "FAKE_RECORD": str(tmp_path / "record.json"),
            "FAKE_LOG": str(tmp_path / "log"),
            "FAKE_HOST": host,
            "FAKE_SECONDS": str(seconds),
        }
        command = [sys.executable, "-c", FAKED, "survey", *arguments]
        return interruptible(command, env=environment(**fakes, **variables))

    def run(*jobs, expected=0):
        """Run jobs of (host, variables, arguments) at once; their standard errors, and the hosts that were surveyed."""
        (tmp_path / "log").write_text("", encoding="utf-8")
        started = [start(host, *arguments, **variables) for host, variables, arguments in jobs]
        ended = [process.communicate(timeout=180) for process in started]
        assert [process.returncode for process in started] == [expected] * len(started), ended
        return [err for _, err in ended], sorted((tmp_path / "log").read_text(encoding="utf-8").split())

    run.start = start
    return run


def slurm(host, arguments, size=6):
    return host, {"SLURM_STEP_NUM_TASKS": str(size)}, arguments


def hosts(folder, pattern="host-*.json"):
    found = sorted(folder.glob(pattern))
    for path in found:
        assert not records.load(path)["interrupted"]
        assert "node" not in path.read_text(encoding="utf-8")
    return [path.name for path in found]


def test_srun_gives_one_file_a_host_and_a_second_start_surveys_nothing(launch, tmp_path):
    jobs = [slurm(f"node{rank // 3}", ("-o", "out/{host}.rec", "--json")) for rank in range(6)]
    errors, surveyed = launch(*jobs)
    assert surveyed == ["node0", "node1"]
    assert len(hosts(tmp_path / "out", "host-*.rec")) == 2
    others = [err for err in errors if "nothing to do" in err or "was surveyed before" in err]
    assert len(others) == 4
    errors, surveyed = launch(*jobs)
    assert surveyed == []
    assert sum("nothing to do" in err or "was surveyed before" in err for err in errors) == 6
    assert len(hosts(tmp_path / "out", "host-*.rec")) == 2


def test_one_file_name_becomes_one_for_each_host(launch, tmp_path):
    _, surveyed = launch(*(slurm(f"node{rank}", ("-o", "record.json")) for rank in range(2)))
    assert surveyed == ["node0", "node1"]
    assert len(hosts(tmp_path, "record-host-*.json")) == 2


def test_a_launch_of_one_process_writes_the_file_that_was_named(launch, tmp_path):
    launch(slurm("node0", ("-o", "only.json"), 1))
    assert not records.load(tmp_path / "only.json")["interrupted"]
    assert not (tmp_path / ".portbar").exists()


def test_another_survey_in_the_same_folder_is_refused(launch, tmp_path):
    launch(slurm("node0", ("-o", "records/")))
    (error,), surveyed = launch(slurm("node0", ("-o", "records/", "--quick")), expected=1)
    assert "name another folder" in error
    assert surveyed == []


def wait_for_survey(folder):
    deadline = time.monotonic() + 120
    while not (folder / "log").read_text(encoding="utf-8") and time.monotonic() < deadline:
        time.sleep(0.05)


def test_without_a_file_one_process_of_a_host_prints(launch, tmp_path):
    _, variables, _ = slurm("node0", ())
    first = launch.start("node0", "--json", seconds=120, **variables)
    wait_for_survey(tmp_path)
    for host, printed in (("node0", False), ("node1", True)):
        other = launch.start(host, "--json", seconds=0.1, **variables)
        out, err = other.communicate(timeout=180)
        assert (bool(out), "nothing to do" in err) == (printed, not printed)
    first.send_signal(signal.SIGINT)
    out, _ = first.communicate(timeout=120)
    assert json.loads(out)["interrupted"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_end_of_a_job_keeps_what_is_done_and_the_next_goes_on(launch, tmp_path, number):
    process = launch.start("node0", "-o", "records/", seconds=30)
    wait_for_survey(tmp_path)
    (path,) = (tmp_path / "records").glob("*.json")
    assert records.load(path)["interrupted"], "a record that grows is marked, since its process may be killed"
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert records.load(path)["interrupted"]
    _, surveyed = launch(("node0", {}, ("-o", "records/")))
    assert surveyed == ["node0"]
    assert len(hosts(tmp_path / "records")) == 1
