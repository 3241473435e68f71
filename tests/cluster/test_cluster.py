"""The survey of a Dask cluster: each host once, whatever dies meanwhile, and no host twice when it goes on later."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest

pytest.importorskip("distributed")

import cloudpickle
import distributed

from portbar import __version__, records
from portbar.errors import Error
from portbar.survey.fleet import cluster
from portbar.survey.fleet.cluster import ClusterSurvey
from portbar.survey.fleet.hosts import HostFolder, host_name
from portbar.survey.run import Job
from tests.checkout import have_ended, interruptible, portbar, python_path
from tests.report_support import device as made_up_device
from tests.report_support import record

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers get addresses of 127.0.0.0/8 and signals")

#: Fakes of the code on a worker and in its child process: a plan lists the action of each attempt on a host.
FAKES = """
import json, os, pathlib, signal, time
from distributed import Worker
from portbar.device import child
from portbar.survey.fleet import worker as cluster_worker

FOLDER = pathlib.Path(os.environ["FAKE_FOLDER"])
HOSTS = json.loads(os.environ["FAKE_HOSTS"])
cluster_worker._TASK = "cluster_fakes:survey"
survey_host = cluster_worker.survey_host

def describe(payload):
    (worker,) = Worker._instances
    address = worker.address.split("://")[1].split(":")[0]
    if HOSTS.get(address) == "old":
        return {"host": "old", "portbar": "0.0.1"}
    return {**cluster_worker.describe(payload), **({"host": HOSTS[address]} if address in HOSTS else {})}

def survey(payload):
    with open(FOLDER / "log", "a+") as log:
        log.seek(0)
        label, attempt = payload["label"], sum(line.startswith(payload["label"]) for line in log) + 1
        doing = json.loads((FOLDER / "plan.json").read_text()).get(label, {}).get(str(attempt), "work")
        log.write(f"{label} {attempt} {doing} {os.getpid()}\\n")
    record = json.loads((FOLDER / "record.json").read_text())
    record["invocation"] |= {name: payload[name] for name in ("quick", "timeout_s", "devices")}
    cluster_worker._end_with_parent(time.monotonic() + payload["limit_s"])
    child.progress({"pid": os.getpid()})
    child.progress({"device": "0:0 Test GPU", "step": "measuring"})
    if doing == "die":
        time.sleep(0.5)
        os.kill(os.getppid(), signal.SIGKILL)
    if doing in ("die", "hang"):
        time.sleep(60)
    if doing == "fail":
        raise RuntimeError("no driver at tcp://10.1.2.3:4567 in /home/somebody/drivers")
    return record
"""

#: Each stands for a host: Linux accepts all of 127.0.0.0/8.
HOSTS = {f"127.0.0.{number}": name for number, name in enumerate(("twice", "dies", "always", "fails", "old"), 2)}


@pytest.fixture
def fakes(tmp_path, monkeypatch):
    """A folder with a fake survey that workers find; `plan` says what it does."""
    folder = tmp_path / "fakes"
    folder.mkdir()
    (folder / "cluster_fakes.py").write_text(FAKES, encoding="utf-8")
    (folder / "record.json").write_text(json.dumps(record()), encoding="utf-8")
    (folder / "plan.json").write_text("{}", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", python_path(folder))
    # Workers inherit the path of this process, their children the variable.
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("FAKE_FOLDER", str(folder))
    monkeypatch.setenv("FAKE_HOSTS", json.dumps(HOSTS))
    monkeypatch.setattr(cluster, "DESCRIBE", "cluster_fakes:describe")
    monkeypatch.setattr(cluster, "SURVEY", "cluster_fakes:survey_host")
    # A nanny takes some seconds to start a worker on a busy machine.
    monkeypatch.setattr(cluster, "_COME_BACK_S", 20.0)
    return folder


def log_of(fakes):
    """The runs: (label, attempt, action), and the processes that ran them."""
    lines = [line.split() for line in (fakes / "log").read_text(encoding="utf-8").splitlines()]
    (fakes / "log").unlink()
    return sorted((label, int(attempt), doing) for label, attempt, doing, _ in lines), [int(line[3]) for line in lines]


def worker_on(host):
    (address,) = (address for address, name in HOSTS.items() if name == host)
    return {"cls": distributed.Nanny, "options": {"host": address, "nthreads": 1, "dashboard": False}}


def start(*hosts):
    """A cluster with a worker for each of these hosts, to which `scale` adds one of `fails`."""
    scheduler = {"cls": distributed.Scheduler, "options": {"host": "127.0.0.1", "dashboard": False}}
    workers = dict(enumerate(map(worker_on, hosts)))
    started = distributed.SpecCluster(workers, scheduler, worker_on("fails"), silence_logs=50)
    for number, nanny in started.workers.items():
        if hosts[number] in {"twice", "dies"}:
            nanny.instantiate = nothing
    return started


async def nothing():
    """In place of starting a worker again, as where a whole host is gone."""


def run(folder, address, job=None, heard=lambda *_event: None):
    survey = ClusterSurvey(folder, job or Job(quick=True), heard)
    asyncio.run(asyncio.wait_for(survey.run(address), 300))
    return survey


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_workers_that_die_cost_their_own_host_only_and_the_next_run_goes_on(fakes, tmp_path, monkeypatch):
    # A busy machine starts a worker again late.
    monkeypatch.setattr(cluster, "_COME_BACK_S", 45.0)
    folder = HostFolder(tmp_path / "records")
    twice, dies, always, fails, old = (folder.label(name) for name in HOSTS.values())
    deaths = {str(attempt): "die" for attempt in range(1, 10)}
    plan = {twice: {"1": "die"}, dies: {"1": "die"}, always: deaths, fails: {"1": "fail"}}
    (fakes / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    heard = []

    def hear(*event):
        heard.append(event)

    with start("twice", "twice", "dies", "always", "fails", "old") as workers:
        survey = run(folder, workers.scheduler_address, heard=hear)
    ran, processes = log_of(fakes)
    died = [(always, attempt, "die") for attempt in range(1, 5)]
    assert ran == sorted([(twice, 1, "die"), (twice, 2, "work"), (dies, 1, "die"), *died, (fails, 1, "fail")])
    # The child of a dead worker ends by itself.
    assert have_ended(processes)

    hosts = survey.hosts
    assert {label: host.status for label, host in hosts.items()} == {
        twice: "done",
        dies: "lost",
        always: "lost",
        fails: "failed",
        old: "failed",
    }
    assert hosts[twice].attempts == 2
    assert "none returned within 45 s" in hosts[dies].reason
    assert "died during the survey" in hosts[always].reason
    assert "no driver at (address) in drivers" in hosts[fails].reason
    assert f"it has portbar 0.0.1, this is {__version__}: install the same version" in hosts[old].reason
    assert (twice, "survey begins: its worker died, attempt 2", True) in heard
    assert any(text.endswith("measuring") and not stays for _, text, stays in heard)

    assert [path.stem for path, _ in records.read_folder(folder.path)] == [twice]
    written = "".join(path.read_text(encoding="utf-8") for path in folder.path.rglob("*") if path.is_file())
    assert not [name for name in ("twice", "dies", "fails", "somebody", "127.0.0.", "10.1.2.3") if name in written]

    (fakes / "plan.json").write_text("{}", encoding="utf-8")
    heard.clear()
    with start("twice", "dies", "fails") as workers:
        survey = run(HostFolder(folder.path), workers.scheduler_address, heard=hear)
    assert log_of(fakes)[0] == sorted([(dies, 1, "work"), (fails, 1, "work")])
    assert {label: host.status for label, host in survey.hosts.items()} == dict.fromkeys((twice, dies, fails), "done")
    assert (twice, "was surveyed before", True) in heard
    assert {path.stem for path, _ in records.read_folder(folder.path)} == {twice, dies, fails}


@pytest.mark.slow
def test_a_host_that_takes_too_long_is_ended_and_another_survey_is_not_overwritten(fakes, tmp_path, monkeypatch):
    monkeypatch.setattr(Job, "limit_s", 3.0)
    folder = HostFolder(tmp_path / "records")
    twice, dies = folder.label("twice"), folder.label("dies")
    (fakes / "plan.json").write_text(json.dumps({dies: {"1": "hang"}}), encoding="utf-8")
    with start("twice", "dies") as workers:
        survey = run(folder, workers.scheduler_address)
        _, processes = log_of(fakes)
        assert {label: host.status for label, host in survey.hosts.items()} == {twice: "done", dies: "failed"}
        assert "reached its time limit: no answer within 3 s" in survey.hosts[dies].reason
        assert have_ended(processes, within=0)
        before = folder.file(twice).read_bytes()
        with pytest.raises(Error, match="name another folder"):
            run(HostFolder(tmp_path / "records"), workers.scheduler_address, Job(quick=False))
        assert folder.file(twice).read_bytes() == before


@pytest.mark.slow
def test_another_survey_of_the_only_host_is_refused(fakes, tmp_path):
    folder = HostFolder(tmp_path / "records")
    with start("twice") as workers:
        run(folder, workers.scheduler_address)
        log_of(fakes)
        with pytest.raises(Error, match="name another folder"):
            run(folder, workers.scheduler_address, Job(quick=False))


@pytest.mark.slow
def test_a_host_that_joins_late_is_surveyed_and_one_that_is_busy_is_given_up(fakes, tmp_path, monkeypatch):
    folder = HostFolder(tmp_path / "records")
    fails, busy = folder.label("fails"), folder.label("twice")
    # Long enough for the other worker to start on a busy machine.
    monkeypatch.setattr(cluster, "_BEGIN_S", 16.0)
    with start("twice") as workers, distributed.Client(workers) as other:
        occupied = other.submit(time.sleep, 60, pure=False)
        threading.Timer(2, workers.scale, (2,)).start()
        survey = run(folder, workers.scheduler_address)
        assert not occupied.done()
    assert {label: host.status for label, host in survey.hosts.items()} == {busy: "failed", fails: "done"}
    assert "busy with other work for 16 s" in survey.hosts[busy].reason


PATCHED = """
from portbar.survey.fleet import cluster
cluster.DESCRIBE, cluster.SURVEY = "cluster_fakes:describe", "cluster_fakes:survey_host"
from portbar.cli import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("whose", ["local", "another's"])
def test_ctrl_c_ends_the_survey_on_the_workers_too(fakes, tmp_path, whose):
    """Also where the cluster goes on without this client, so that the workers' death ends nothing."""
    folder = HostFolder(tmp_path / "records")
    label = folder.label(host_name() if whose == "local" else "dies")
    (fakes / "plan.json").write_text(json.dumps({label: {"1": "hang"}}), encoding="utf-8")
    with contextlib.nullcontext() if whose == "local" else start("dies") as workers:
        address = "local" if workers is None else workers.scheduler_address
        arguments = ["survey", "--dask", address, "--quick", "--json", "-o", f"{folder.path}/"]
        process = interruptible([sys.executable, "-c", PATCHED, *arguments], start_new_session=True)
        deadline = time.monotonic() + 60
        while not (fakes / "log").exists() and time.monotonic() < deadline:
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.1)
        # The whole group, as a terminal does.
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 130, err
        assert "Traceback" not in err
        host = json.loads(out)["hosts"][label]
        assert (host["status"], host["devices"], host["attempts"]) == ("interrupted", None, 1)
        assert have_ended(log_of(fakes)[1])


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


@pytest.mark.parametrize("text", ['{"devices": []}', '{"address": null}', "[]", "nonsense", "\udcff"])
def test_a_file_that_no_scheduler_wrote_is_an_error_with_a_remedy(tmp_path, text):
    path = tmp_path / "rec.json"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(Error, match=r"no Dask scheduler responds at .*rec\.json .*--scheduler-file"):
        run(HostFolder(tmp_path / "records"), str(path))


WITHOUT = """
import pickle, sys
sys.modules["portbar"] = None
try:
    pickle.loads(bytes.fromhex(sys.argv[1]))({})
except ImportError as error:
    print(error)
"""


def test_a_worker_without_portbar_says_so():
    """Its function is sent as code: its name would lead nowhere, not even at the scheduler."""
    sent = cloudpickle.dumps(cluster._by_name(cluster.DESCRIBE)).hex()
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, sent], capture_output=True, text=True, timeout=180, check=True
    )
    assert "portbar" in done.stdout


@pytest.mark.slow
def test_a_host_without_portbar_has_failed(fakes, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "DESCRIBE", "no_such_module:describe")
    folder = HostFolder(tmp_path / "records")
    with start("dies") as workers:
        survey = run(folder, workers.scheduler_address)
    ((label, host),) = survey.hosts.items()
    # It could not say its name.
    assert label == folder.label("127.0.0.3")
    assert host.status == "failed"
    assert f"No module named 'no_such_module'): install portbar {__version__} there" in host.reason


def test_a_scheduler_that_does_not_answer_is_an_error_with_a_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "_CONNECT_S", 1.0)
    with pytest.raises(Error, match=r"no Dask scheduler responds at tcp://127\.0\.0\.1:9 "):
        run(HostFolder(tmp_path), "tcp://127.0.0.1:9")
    with pytest.raises(Error, match="nonsense"):
        run(HostFolder(tmp_path), "nonsense")


@pytest.mark.parametrize("said", [b"SSH-2.0-OpenSSH_9.2p1\r\n" * 9, b"HTTP/1.1 400 Bad Request\r\n\r\n" * 9, b""])
def test_another_server_than_a_scheduler_is_an_error_with_a_remedy(tmp_path, monkeypatch, said):
    monkeypatch.setattr(cluster, "_CONNECT_S", 3.0)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            with contextlib.suppress(OSError):
                while True:
                    with server.accept()[0] as one:
                        one.sendall(said)
                        one.recv(1)

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(Error, match=r"no Dask scheduler responds at tcp://127\.0\.0\.1:\d+ "):
            run(HostFolder(tmp_path), f"tcp://127.0.0.1:{server.getsockname()[1]}")
        server.shutdown(socket.SHUT_RDWR)


def test_a_cluster_without_workers_is_an_error_with_a_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "_FIRST_WORKER_S", 1.0)
    with start() as empty, pytest.raises(Error, match="dask worker ADDRESS"):
        run(HostFolder(tmp_path), empty.scheduler_address)


@pytest.mark.slow
def test_a_scheduler_that_goes_away_is_an_error_and_keeps_what_is_finished(fakes, tmp_path, monkeypatch):
    # So long the client tries to reach it again.
    monkeypatch.setattr(cluster, "_CONNECT_S", 5.0)
    folder = HostFolder(tmp_path / "records")
    label = folder.label(host_name())
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

        survey = ClusterSurvey(folder, Job(quick=True), kill)
        with pytest.raises(Error, match="scheduler"):
            asyncio.run(asyncio.wait_for(survey.run(address), 60))
        assert survey.hosts[label].status == "interrupted"
    finally:
        os.killpg(scheduler.pid, signal.SIGKILL)
        scheduler.wait()
        scheduler.stdout.close()


@pytest.mark.once
@pytest.mark.device
@pytest.mark.slow
def test_a_host_is_surveyed_through_a_worker_process(device, selector, tmp_path):
    options = ("--quick", "--timeout", 8, "-d", selector, "-o", f"{tmp_path}/out/")
    done = portbar("survey", "--dask", "local", *options, timeout=110)
    assert done.returncode == 0, done.stderr
    ((path, found),) = records.read_folder(tmp_path / "out")
    assert path.stem in done.stdout
    assert not found["interrupted"]
    assert found["invocation"]["devices"] == [selector]
    (entry,) = found["devices"]
    assert entry["facts"]["name"] == device.name.strip()
    assert entry["status"] in {"complete", "partial", "refused"}


def test_a_worker_that_does_not_answer_is_named_as_such():
    assert cluster._problem(TimeoutError()) == "it does not answer within 60 s"


def test_reasons_have_no_addresses_and_a_made_up_record_is_valid():
    text = "tcp://10.0.0.5:8786 and 192.168.1.2 and 192.168.1.2:99 failed with OpenCL 3.0 and 31.0.101.5333"
    assert cluster._nameless(text) == ("(address) and (address) and (address) failed with OpenCL 3.0 and 31.0.101.5333")
    assert records.validate(record(made_up_device())) == []
