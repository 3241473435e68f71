"""The survey of a Dask cluster: each host once, whatever dies meanwhile, and no host twice when it goes on later."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

pytest.importorskip("distributed")
pytest.importorskip("pyopencl")

import cloudpickle
import distributed

from portbar import __version__, cluster, cluster_worker, records
from portbar.cluster import ClusterSurvey, Job
from portbar.device import address_of
from portbar.errors import Error
from portbar.hosts import HostFolder, HostState, host_name
from tests.checkout import environment, python_path
from tests.report_support import device as made_up_device
from tests.report_support import record

pytestmark = pytest.mark.skipif(os.name != "posix", reason="workers are killed by signals")

#: Stands for `portbar.cluster_worker.child_task`: what an attempt on a host does stands in a plan.
FAKES = """
import json, os, pathlib, signal, time
from portbar import child
from portbar.cluster_worker import _end_with_parent

FOLDER = pathlib.Path(os.environ["FAKE_FOLDER"])

def survey(payload):
    plan = json.loads((FOLDER / "plan.json").read_text())
    label, attempt = payload["label"], payload["attempt"]
    doing = plan.get(label, {}).get(str(attempt), "work")
    with open(FOLDER / "log", "a") as log:
        log.write(f"{label} {attempt} {doing} {os.getpid()}\\n")
    record = json.loads((FOLDER / "record.json").read_text())
    record["invocation"] |= {name: payload[name] for name in ("quick", "timeout_s", "devices")}
    _end_with_parent(time.monotonic() + payload["limit_s"])
    child.progress({"pid": os.getpid()})
    child.progress({"device": "0:0 Test GPU", "step": "measuring"})
    child.progress({"record": record})
    if doing == "die":
        time.sleep(0.5)
        os.kill(os.getppid(), signal.SIGKILL)
    if doing in ("die", "hang"):
        time.sleep(60)
    if doing == "fail":
        raise RuntimeError("no driver at tcp://10.1.2.3:4567 in /home/somebody/drivers")
    return record
"""


@pytest.fixture
def fakes(tmp_path, monkeypatch):
    """A folder with a fake survey that workers find; `plan` says what it does."""
    folder = tmp_path / "fakes"
    folder.mkdir()
    (folder / "cluster_fakes.py").write_text(FAKES, encoding="utf-8")
    (folder / "record.json").write_text(json.dumps(record()), encoding="utf-8")
    (folder / "plan.json").write_text("{}", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", python_path(folder))
    monkeypatch.setenv("FAKE_FOLDER", str(folder))
    monkeypatch.setattr(cluster, "TASK", "cluster_fakes:survey")
    monkeypatch.setattr(cluster, "_COME_BACK_S", 8.0)
    return folder


def log_of(fakes):
    """What was run: (label, attempt, what it did), and the processes that ran it."""
    lines = [line.split() for line in (fakes / "log").read_text(encoding="utf-8").splitlines()]
    (fakes / "log").unlink()
    return sorted((label, int(attempt), doing) for label, attempt, doing, _ in lines), [int(line[3]) for line in lines]


def start(workers):
    started = distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        dashboard_address="127.0.0.1:0",
        host="127.0.0.1",
        silence_logs=50,
    )
    for name, nanny in started.workers.items():
        if HOSTS[name] != "returns":
            nanny.instantiate = nothing
    return started


async def nothing():
    """In place of starting a worker again, as where a whole host is gone."""


#: Which host each of the workers 0 to 5 is said to be on.
HOSTS = ("twice", "twice", "dies", "fails", "returns", "old")


def host_of(worker):
    name = HOSTS[int(worker["name"])]
    if name == "old":
        worker["portbar"] = "0.0.1"
    return name


def run(folder, address, job=None, heard=None):
    survey = ClusterSurvey(
        folder, job or Job(quick=True), lambda *event: None if heard is None else heard.append(event), host_of
    )
    asyncio.run(asyncio.wait_for(survey.run(address), 60))
    return survey


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_workers_that_die_cost_their_own_host_only_and_the_next_run_goes_on(fakes, tmp_path):
    folder = HostFolder(tmp_path / "records")
    twice, dies, fails, returns, old = (folder.label(name) for name in dict.fromkeys(HOSTS))
    plan = {twice: {"1": "die"}, dies: {"1": "die"}, returns: {"1": "die"}, fails: {"1": "fail"}}
    (fakes / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    heard = []
    with start(6) as workers:
        survey = run(folder, workers.scheduler_address, heard=heard)
    ran, processes = log_of(fakes)
    again = [(label, attempt, doing) for label in (twice, returns) for attempt, doing in ((1, "die"), (2, "work"))]
    assert ran == sorted([*again, (dies, 1, "die"), (fails, 1, "fail")])
    # What a dead worker leaves behind ends by itself.
    deadline = time.monotonic() + 10
    while any(map(is_running, processes)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not [pid for pid in processes if is_running(pid)]

    states = survey.states
    assert {label: state.status for label, state in states.items()} == {
        twice: "done",
        dies: "lost",
        fails: "failed",
        returns: "done",
        old: "failed",
    }
    assert states[twice].attempts == 2
    assert "died during the survey" in states[dies].reason
    assert "no driver at (address) in drivers" in states[fails].reason
    assert f"it has portbar 0.0.1, this is {__version__}: install the same version" in states[old].reason
    assert (twice, "its worker died", True) in heard
    assert any(text.endswith("measuring") and not stays for _, text, stays in heard)

    found = dict(records.read_folder(folder.path))
    cut_short = {path.stem for path, one in found.items() if one["interrupted"]}
    assert (cut_short, {path.stem for path in found} - cut_short) == ({dies, fails}, {twice, returns})
    assert found[folder.file(dies)]["partial"]
    written = "".join(path.read_text(encoding="utf-8") for path in folder.path.rglob("*") if path.is_file())
    assert not [name for name in ("twice", "dies", "fails", "somebody", "127.0.0.1", "10.1.2.3") if name in written]
    assert '"returns"' not in written

    (fakes / "plan.json").write_text("{}", encoding="utf-8")
    heard.clear()
    with start(4) as workers:
        survey = run(HostFolder(tmp_path / "records"), workers.scheduler_address, heard=heard)
    assert log_of(fakes)[0] == sorted([(dies, 1, "work"), (fails, 1, "work")])
    assert {survey.states[label].status for label in (twice, dies, fails)} == {"done"}
    assert survey.states[dies].attempts == 2
    assert survey.states[old].status == "failed"
    assert old not in survey.came
    assert (twice, "was surveyed before", True) in heard
    assert not any(one["interrupted"] for _, one in records.read_folder(folder.path))


@pytest.mark.slow
def test_a_host_that_takes_too_long_is_ended_and_another_survey_is_not_overwritten(fakes, tmp_path):
    folder = HostFolder(tmp_path / "records")
    twice, dies = folder.label("twice"), folder.label("dies")
    (fakes / "plan.json").write_text(json.dumps({dies: {"1": "hang"}}), encoding="utf-8")
    with start(3) as workers:
        survey = run(folder, workers.scheduler_address, Job(quick=True, limit=3.0))
        _, processes = log_of(fakes)
        assert {label: state.status for label, state in survey.states.items()} == {twice: "done", dies: "failed"}
        assert "reached its time limit: no answer within 3 s" in survey.states[dies].reason
        assert not [pid for pid in processes if is_running(pid)]
        before = folder.file(twice).read_bytes()
        with pytest.raises(Error, match="name another folder"):
            run(HostFolder(tmp_path / "records"), workers.scheduler_address, Job(quick=False))
        assert folder.file(twice).read_bytes() == before


PATCHED = """
from portbar import cluster
cluster.TASK = "cluster_fakes:survey"
from portbar.cli import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("whose", ["local", "another's"])
def test_ctrl_c_keeps_what_there_is_and_ends_the_survey_on_the_workers(fakes, tmp_path, whose):
    """Also where the cluster goes on without this client, so that the workers' death ends nothing."""
    with contextlib.ExitStack() as stack:
        address = whose if whose == "local" else stack.enter_context(start(2)).scheduler_address
        interrupt(fakes, tmp_path, address)


def interrupt(fakes, tmp_path, address):
    folder = HostFolder(tmp_path / "records")
    label = folder.label(host_name())
    (fakes / "plan.json").write_text(json.dumps({label: {"1": "hang"}}), encoding="utf-8")
    arguments = ["survey", "--dask", address, "--quick", "--json", "-o", f"{folder.path}/"]
    process = subprocess.Popen(
        [sys.executable, "-c", PATCHED, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell that starts tests in the background has them ignore the signal.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )
    deadline = time.monotonic() + 60
    while not folder.file(label).exists() and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.1)
    # The whole group, as a terminal does.
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=40)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    host = json.loads(out)["hosts"][label]
    assert (host["status"], host["devices"]) == ("interrupted", {"0:0 Test GPU": "complete"})
    assert records.load(folder.file(label))["interrupted"]
    deadline = time.monotonic() + 10
    _, (pid,) = log_of(fakes)
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not is_running(pid)


def test_a_local_survey_lets_no_other_user_in():
    """No port takes Dask's messages, which are pickles; those for pages have none. No process is started."""
    psutil = pytest.importorskip("psutil")
    me = psutil.Process()
    before = set(me.children(recursive=True))

    def ports():
        return {(one.laddr.ip, one.laddr.port) for one in me.net_connections("tcp") if one.status == "LISTEN"}

    others = ports()

    async def look():
        async with cluster._connected("local") as client:
            assert client.scheduler.address.startswith("inproc://")
            assert all(address.startswith("inproc://") for address in await client.nthreads())
            opened = ports() - others
            assert {ip for ip, _ in opened} <= {"127.0.0.1"}
            assert set(me.children(recursive=True)) <= before
            for _, port in opened:
                for page in ("", "status", "health", "metrics", "json/counts.json", "info/main/workers.html"):
                    with pytest.raises(urllib.error.HTTPError, match="404"):
                        await asyncio.to_thread(urllib.request.urlopen, f"http://127.0.0.1:{port}/{page}", timeout=10)
                with pytest.raises((OSError, TimeoutError)):
                    await asyncio.wait_for(distributed.comm.connect(f"tcp://127.0.0.1:{port}", timeout=1), 2)

    asyncio.run(asyncio.wait_for(look(), 60))


@pytest.mark.parametrize("text", ['{"devices": []}', '{"address": 5}', "[]", "nonsense", "\udcff"])
def test_a_file_that_no_scheduler_wrote_is_an_error_with_a_remedy(tmp_path, text):
    path = tmp_path / "rec.json"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(Error, match=r"rec\.json is no scheduler file .*--scheduler-file"):
        run(HostFolder(tmp_path / "records"), str(path))


ASKED = """
import pickle, sys
sys.modules["portbar"] = None
worker = type("Worker", (), {"name": 3})
print(pickle.loads(bytes.fromhex(sys.argv[1]))(dask_worker=worker))
"""


def test_a_worker_without_portbar_can_say_so():
    """What asks it is sent as code, since its name would lead nowhere there."""
    sent = cloudpickle.dumps(cluster_worker.inspector()).hex()
    done = subprocess.run([sys.executable, "-c", ASKED, sent], capture_output=True, text=True, timeout=60, check=True)
    answer = ast.literal_eval(done.stdout)
    assert (answer["name"], answer["portbar"]) == ("3", "")
    assert answer["host"]
    assert cluster._unfit(answer).endswith(f"install portbar {__version__} there")
    assert "ModuleNotFoundError" in cluster._unfit(answer)
    assert cluster._unfit({**answer, "portbar": __version__}) == ""


def test_a_run_that_was_killed_leaves_hosts_that_are_done_again(tmp_path):
    folder = HostFolder(tmp_path)
    folder.write_states({"host-1": HostState("surveying"), "host-2": HostState("done")})
    survey = ClusterSurvey(folder, Job(), print)
    assert [state.status for state in survey.states.values()] == ["interrupted", "done"]


def test_a_scheduler_that_does_not_answer_is_an_error_with_a_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "_CONNECT_S", 1.0)
    with pytest.raises(Error, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9 "):
        run(HostFolder(tmp_path), "tcp://127.0.0.1:9")
    with pytest.raises(Error, match="nonsense"):
        run(HostFolder(tmp_path), "nonsense")


def test_a_cluster_without_workers_is_an_error_with_a_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "_FIRST_WORKER_S", 1.0)
    with start(0) as empty, pytest.raises(Error, match="dask worker ADDRESS"):
        run(HostFolder(tmp_path), empty.scheduler_address)


@pytest.mark.slow
def test_a_scheduler_that_goes_away_is_an_error_and_keeps_what_is_finished(fakes, tmp_path):
    folder = HostFolder(tmp_path / "records")
    label = folder.label("twice")
    (fakes / "plan.json").write_text(json.dumps({label: {"1": "hang"}}), encoding="utf-8")
    program = (
        "import time\nfrom distributed import LocalCluster\n"
        "if __name__ == '__main__':\n"
        "    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address='127.0.0.1:0', host='127.0.0.1',"
        " silence_logs=50) as c: print(c.scheduler_address, flush=True); time.sleep(90)"
    )
    (tmp_path / "scheduler.py").write_text(program, encoding="utf-8")
    scheduler = subprocess.Popen(
        [sys.executable, str(tmp_path / "scheduler.py")], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        address = scheduler.stdout.readline().strip()

        def kill(_label, text, _stays):
            if "measuring" in text:
                scheduler.kill()

        survey = ClusterSurvey(folder, Job(quick=True), kill, host_of)
        with pytest.raises(Error, match="scheduler"):
            asyncio.run(asyncio.wait_for(survey.run(address), 60))
        assert survey.states[label].status == "interrupted"
    finally:
        os.killpg(scheduler.pid, signal.SIGKILL)
        scheduler.wait()
        scheduler.stdout.close()


@pytest.mark.device
@pytest.mark.slow
def test_a_host_is_surveyed_through_a_worker_process(device, tmp_path):
    address = address_of(device)
    selector = f"{address.platform_index}:{address.device_index}"
    arguments = ["survey", "--dask", "local", "--quick", "--timeout", "8", "-d", selector, "-o", f"{tmp_path}/out/"]
    done = subprocess.run(
        [sys.executable, "-m", "portbar", *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ((path, found),) = records.read_folder(tmp_path / "out")
    assert path.stem in done.stdout
    assert not found["interrupted"]
    assert found["invocation"]["devices"] == [selector]
    (entry,) = found["devices"]
    assert entry["facts"]["name"] == device.name.strip()
    assert entry["status"] in {"complete", "partial", "refused"}


def test_reasons_have_no_addresses_and_a_made_up_record_is_valid():
    text = "tcp://10.0.0.5:8786 and 192.168.1.2 and 192.168.1.2:99 failed with OpenCL 3.0 and 31.0.101.5333"
    assert cluster._nameless(text) == ("(address) and (address) and (address) failed with OpenCL 3.0 and 31.0.101.5333")
    assert records.validate(record(made_up_device())) == []
