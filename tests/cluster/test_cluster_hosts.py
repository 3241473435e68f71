"""One folder for the records of many hosts, and processes that `srun` and `mpirun` start on them at the same time."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from portbar.errors import Error
from portbar.survey.fleet import hosts
from portbar.survey.fleet.hosts import HostFolder, host_name, is_one_of_many, only_here
from tests.checkout import environment

INVOCATION = {"quick": True, "timeout_s": 120.0, "devices": ["pocl"]}


@pytest.mark.parametrize(
    ("output", "always", "folder", "pattern"),
    [
        ("records/", False, "records", "{host}.json"),
        ("records/{host}.json", False, "records", "{host}.json"),
        ("a{host}b", False, ".", "a{host}b"),
        ("record.json", False, None, None),
        ("here/record.json", True, "here", "record-{host}.json"),
        ("here/records", True, "here/records", "{host}.json"),
        (".", False, ".", "{host}.json"),
    ],
)
def test_a_name_asks_for_a_folder_or_for_one_file(output, always, folder, pattern):
    found = HostFolder.of(output, always=always)
    assert (None if found is None else (str(found.path), found.pattern)) == (folder and (folder, pattern))


def test_the_placeholder_belongs_into_the_last_part():
    with pytest.raises(Error, match="last part"):
        HostFolder.of("a/{host}/record.json")


def test_labels_are_stable_in_a_folder_and_tell_nothing(tmp_path):
    first, second = HostFolder(tmp_path / "one"), HostFolder(tmp_path / "two")
    label = first.label("node017")
    assert label == HostFolder(tmp_path / "one").label("node017")
    assert label != first.label("node018")
    assert label != second.label("node017")
    assert "node" not in label
    assert first.file(label) == tmp_path / "one" / f"{label}.json"
    written = [path for path in (tmp_path / "one").rglob("*") if path.is_file()]
    assert [path.name for path in written] == ["salt"]
    assert all("node017" not in path.read_text(encoding="utf-8") for path in written)


def test_processes_that_start_together_agree_on_labels(tmp_path):
    program = (
        "import sys; from portbar.survey.fleet.hosts import HostFolder; "
        "print(HostFolder.of(sys.argv[1] + '/').label('node'))"
    )
    run = [sys.executable, "-c", program, str(tmp_path / "out")]

    def label(_number):
        return subprocess.run(run, env=environment(), capture_output=True, text=True, check=True, timeout=180).stdout

    with ThreadPoolExecutor(8) as pool:
        labels = set(pool.map(label, range(8)))
    assert len(labels) == 1


def test_a_salt_that_another_process_is_writing_is_waited_for(tmp_path, monkeypatch):
    path = tmp_path / hosts.PRIVATE / "salt"
    path.parent.mkdir()
    path.touch()
    monkeypatch.setattr(hosts, "_SALT_WAIT_S", 0.2)
    with pytest.raises(Error, match=r"cut short.*remove it"):
        HostFolder(tmp_path).label("node")
    path.write_bytes(b"g" * 32)
    with pytest.raises(Error, match="cannot be read as a salt"):
        HostFolder(tmp_path).label("node")


def record(**more):
    return json.dumps({"interrupted": False, "invocation": INVOCATION, **more})


def test_a_host_is_finished_when_its_record_was_not_cut_short(tmp_path):
    folder = HostFolder(tmp_path)
    assert not folder.is_finished("host-1", INVOCATION)
    folder.write("host-1", record(interrupted=True))
    assert not folder.is_finished("host-1", INVOCATION)
    folder.write("host-1", record())
    assert folder.is_finished("host-1", INVOCATION)


@pytest.mark.parametrize("other", [{"quick": False}, {"timeout_s": 60.0}, {"devices": []}])
def test_a_record_of_another_survey_is_not_overwritten(tmp_path, other):
    folder = HostFolder(tmp_path)
    folder.write("host-1", record())
    with pytest.raises(Error, match="name another folder"):
        folder.is_finished("host-1", INVOCATION | other)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"interrupted": false}', '"text"', "[" * 100_000])
def test_a_file_that_is_not_a_record_is_not_overwritten(tmp_path, text):
    folder = HostFolder(tmp_path)
    folder.file("host-1").write_text(text, encoding="utf-8")
    with pytest.raises(Error, match="is not a survey record"):
        folder.is_finished("host-1", INVOCATION)


def test_a_folder_that_cannot_be_written_is_an_error_with_a_remedy(tmp_path):
    (tmp_path / "file").touch()
    folder = HostFolder(tmp_path / "file")
    for write in (lambda: folder.write("host-1", "{}"), lambda: folder.label("node")):
        with pytest.raises(Error, match="--output"):
            write()


def test_a_host_without_a_name_is_known_by_something_else(monkeypatch):
    monkeypatch.setattr(hosts.socket, "gethostname", lambda: "Node-A")
    assert host_name() == "node-a"
    monkeypatch.setattr(hosts.socket, "gethostname", lambda: "localhost")
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)
    assert host_name().startswith("card ")
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    assert host_name() == "n1"


def test_one_process_of_a_host_has_the_lock_and_its_death_frees_it(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(hosts.tempfile, "tempdir", None)
    program = (
        "import sys, time; from pathlib import Path; from portbar.survey.fleet.hosts import only_here\n"
        "with only_here(Path(sys.argv[1]), 'host-1') as mine: print(mine, flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], env=environment(), stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "True\n"
        with only_here(tmp_path, "host-1") as mine:
            assert not mine
        with only_here(tmp_path, "host-2") as mine:
            assert mine
        with only_here(tmp_path / "other", "host-1") as mine:
            assert mine
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with only_here(tmp_path, "host-1") as mine:
            if mine:
                return
    raise AssertionError("the lock outlived its process")


OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}
SRUN = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "1", "SLURM_NTASKS": "16"}


@pytest.mark.parametrize(
    ("environ", "many"),
    [
        ({}, False),
        (SRUN, True),
        (SRUN | {"SLURM_STEP_NUM_TASKS": "1"}, False),
        # A batch script is one process, however many tasks its job has.
        ({"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "16"}, False),
        (OPEN_MPI, True),
        # mpirun in a Slurm job: every process inherits the variables of Slurm's that mpirun itself had.
        ({**SRUN, **OPEN_MPI, "OMPI_COMM_WORLD_SIZE": "1"}, False),
        ({**SRUN, "SLURM_STEP_NUM_TASKS": "1", **OPEN_MPI}, True),
        ({"PMI_RANK": "2", "PMI_SIZE": "4"}, True),
        ({"PMIX_RANK": "1"}, True),
        ({"PMIX_RANK": "0", "FLUX_TASK_RANK": "0", "FLUX_JOB_SIZE": "1"}, False),
    ],
)
def test_launchers_are_recognised_by_their_variables(environ, many):
    assert is_one_of_many(environ) is many
