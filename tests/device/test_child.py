"""Tasks in child processes: whatever they do to themselves, the parent gets an answer in time."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import pytest

from portbar.device import child
from tests.checkout import environment, have_ended, interruptible, python_path

TASKS = """
import os, subprocess, sys, tempfile, time
from portbar.device.child import progress

def double(payload):
    return {"twice": payload["n"] * 2, "cwd": os.getcwd(), "path0": sys.path[0]}

def fail(payload):
    raise LookupError("no such thing")

def abort(payload):
    progress({"step": 1})
    os.write(1, b"a driver's last words\\n")
    os.write(2, b"WorkitemLoops.cc: Assertion failed!\\n")
    os.abort()

def leave(payload):
    os._exit(3)

def sleep(payload):
    progress({"step": 1})
    progress({"step": 2})
    if payload.get("spawn"):
        grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        progress({"pid": grandchild.pid})
    time.sleep(60)

def stay(payload):
    progress({"pid": os.getpid()})
    time.sleep(60)

def nap(payload):
    time.sleep(payload["seconds"])

def stay_without_the_system(payload):
    import ctypes
    ctypes.CDLL(None).prctl(1, 0)
    stay(payload)

def fork_and_die(payload):
    if os.fork() == 0:
        time.sleep(60)
    os.kill(os.getpid(), 11)

def noise(payload):
    print("printed by Python" * 1000)
    os.write(1, b"\\n{\\"status\\": \\"ok\\"}\\nwritten by a driver")
    os.system("echo a compiler speaks")
    os.write(2, b"x" * 300_000)
    return "quiet"

def unserialisable(payload):
    return object()

def leave_a_file(payload):
    descriptor, path = tempfile.mkstemp()
    progress({"file": path})

def leave_a_file_and_abort(payload):
    leave_a_file(payload)
    os.abort()

def environment(payload):
    return {name: os.environ.get(name) for name in payload["names"]}
"""


@pytest.fixture
def run(tmp_path, own_cache):
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    (tasks / "portbar_test_tasks.py").write_text(TASKS)

    def run(function, payload=None, timeout=120.0, env=None, **options):
        env = {"PYTHONPATH": str(tasks), **(env or {})}
        task = f"portbar_test_tasks:{function}"
        return child.run_task(task, payload or {}, timeout=timeout, env=env, **options)

    return run


def test_a_task_gets_its_payload_and_returns_its_value(run):
    result = run("double", {"n": 21})
    assert (result.status, result.value["twice"], result.message, result.progress) == ("ok", 42, "", [])
    assert 0 < result.seconds < 30


def test_files_in_the_working_directory_do_not_shadow_modules(run, tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("raise SystemExit('shadowed')")
    monkeypatch.chdir(tmp_path)
    result = run("double", {"n": 1})
    assert result.status == "ok", result.message
    assert result.value["cwd"] == str(tmp_path)


@pytest.mark.parametrize(
    ("function", "status", "message"),
    [
        ("fail", "error", r"^LookupError: no such thing$"),
        ("no_such_function", "error", "AttributeError"),
        ("unserialisable", "error", "TypeError"),
        ("leave", "crash", "exit status 3"),
    ],
)
def test_a_task_that_returns_nothing_says_why(run, function, status, message):
    result = run(function)
    assert result.status == status
    assert re.search(message, result.message), result.message


def test_a_module_that_does_not_exist_is_an_error_that_says_nothing_of_a_device():
    result = child.run_task("portbar.no_such_module:f", {}, timeout=30)
    assert (result.status, result.unimportable) == ("error", True)


def test_an_abort_names_the_signal_and_the_assertion_and_keeps_progress(run):
    result = run("abort")
    assert result.status == "crash"
    assert "SIGABRT" in result.message
    assert "WorkitemLoops.cc: Assertion failed!" in result.message
    assert "a driver's last words" in result.message
    assert result.progress == [{"step": 1}]


def test_a_task_that_sleeps_past_the_limit_is_killed_and_keeps_progress(run):
    seen = []
    result = run("sleep", timeout=4.0, on_progress=seen.append)
    assert result.status == "timeout"
    assert result.progress == seen == [{"step": 1}, {"step": 2}]
    assert 4.0 <= result.seconds < 30.0


def test_a_task_that_is_told_to_stop_is_killed_at_once(run):
    """As those of threads are, which Ctrl-C does not reach."""
    stop, began = threading.Event(), []

    def stop_later(report):
        began.append(time.monotonic())
        stop.set()

    with pytest.raises(KeyboardInterrupt):
        run("sleep", timeout=60.0, on_progress=stop_later, stop=stop)
    assert time.monotonic() - began[0] < 40.0


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks processes up in /proc")
def test_processes_of_a_task_are_killed_with_it(run):
    result = run("sleep", {"spawn": True}, timeout=4.0)
    (pid,) = [report["pid"] for report in result.progress if "pid" in report]
    assert have_ended([pid])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_crash_is_seen_although_a_forked_process_holds_the_pipe_open(run):
    result = run("fork_and_die", timeout=120.0)
    assert result.status == "crash"
    assert "SIGSEGV" in result.message
    assert result.seconds < 60


def test_noise_on_standard_output_and_error_does_not_disturb_the_answer(run):
    result = run("noise")
    assert (result.status, result.value) == ("ok", "quiet")


def test_progress_is_delivered_while_the_task_still_runs(run):
    class StopError(Exception):
        pass

    def stop(report):
        raise StopError

    start = time.monotonic()
    with pytest.raises(StopError):
        run("sleep", timeout=30.0, on_progress=stop)
    assert time.monotonic() - start < 25


def test_progress_outside_of_a_child_does_nothing(capfd):
    child.progress({"step": 1})
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["PORTBAR_TEST_X", "OCL_ICD_VENDORS"])
def test_variables_reach_the_child_and_leave_the_parent_alone(run, tmp_path, name):
    before = dict(os.environ)
    assert run("environment", {"names": [name]}, env={name: str(tmp_path)}).value == {name: str(tmp_path)}
    assert dict(os.environ) == before


PARENT = textwrap.dedent(
    """
    import sys
    from portbar.device import child
    def told(report):
        if "pid" in report:
            print(report["pid"], flush=True)
    child.run_task(f"portbar_test_tasks:{sys.argv[1]}", {"spawn": True}, timeout=60, on_progress=told)
    """
)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a child ends at its limit")
@pytest.mark.parametrize(("function", "status"), [("leave_a_file", "ok"), ("leave_a_file_and_abort", "crash")])
def test_temporary_files_of_a_task_end_with_it(run, tmp_path, monkeypatch, function, status):
    """Drivers write some, and remove none of them if they are killed."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    done = run(function)
    assert done.status == status
    (left,) = done.progress
    assert Path(left["file"]).is_relative_to(tmp_path / "temporary")
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize("task", ["stay", "stay_without_the_system"])
@pytest.mark.skipif(sys.platform != "linux", reason="takes back a request to Linux")
def test_a_parent_that_is_killed_takes_its_child_along(run, tmp_path, task):
    env = environment(PYTHONPATH=python_path(tmp_path / "tasks"))
    with subprocess.Popen([sys.executable, "-c", PARENT, task], env=env, stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        parent.kill()
        assert have_ended([pid], within=10.0)


ORPHAN = """
import os, signal, sys
signal.__dict__.pop("setitimer", None)
from portbar.device import child
child._ORPHAN_GRACE_S = 0.0
child._limit_damage(0.2, os.getppid())
sys.setswitchinterval(1000)
while True:
    pass
"""


def test_a_child_that_never_lets_go_of_python_ends_without_posix_timers(tmp_path):
    """As on Windows, in a driver that hangs: no other thread of Python runs there."""
    ended = subprocess.run(
        [sys.executable, "-c", ORPHAN], env=environment(), capture_output=True, timeout=120, check=False
    )
    assert ended.returncode == 1


@pytest.mark.parametrize(
    ("slow", "at_most", "status"), [(False, 60, "timeout"), (True, 60, "ok"), (True, None, "timeout")]
)
def test_a_limit_follows_the_start_of_the_interpreter_up_to_another_one(run, monkeypatch, slow, at_most, status):
    # Any interpreter starts more slowly than the one, and none than the other.
    monkeypatch.setattr(child, "_USUAL_START_S", 1e-9 if slow else 1e9)
    result = run("nap", {"seconds": 3.0}, timeout=1.5, at_most=at_most)
    assert result.status == status
    if status == "timeout":
        assert result.message.startswith("no answer within 1.5 s")


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_an_interrupt_of_the_parent_kills_the_child(run, tmp_path):
    env = environment(PYTHONPATH=python_path(tmp_path / "tasks"))
    with interruptible([sys.executable, "-c", PARENT, "sleep"], env=env) as parent:
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGINT)
        _, errors = parent.communicate(timeout=120)
    assert "KeyboardInterrupt" in errors
    assert have_ended([pid])


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (0xC0000005, "ended by Windows for an access violation (0xC0000005)"),
        (0xC0000409 - (1 << 32), "ended by Windows for a fail-fast exit, as `abort` causes (0xC0000409)"),
        (-6, "killed by SIGABRT"),
        (-200, "killed by signal 200"),
        (3, "ended without an answer (exit status 3)"),
        (None, "ended without an answer (exit status None)"),
    ],
)
def test_a_death_is_told_in_words(status, said):
    assert child._death(status) == f"the process {'was ' if 'without' not in said else ''}{said}"
