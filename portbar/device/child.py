"""Runs one task in a child process with a time limit, so that a driver's abort or hang stays there.

Each task starts an interpreter, which takes a second or so; the limit includes it.
"""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import json
import os
import queue
import signal
import site
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field
from pathlib import Path
from typing import IO, Any, Final, Literal, Protocol

from portbar.records.dataclass import dataclass

Status = Literal["ok", "error", "crash", "timeout"]

#: Variables of a child that compiles anew: a binary from PyOpenCL's cache would let a compiler pass that works no longer.
NO_CACHE: Final = {"PYOPENCL_NO_CACHE": "1"}

#: How the message begins for a child that was killed at its limit.
NO_ANSWER: Final = "no answer within"

#: Children that may die over one task before what is left of it is given up.
_MOST_DEATHS = 6
_TAIL_LINES = 8
_TAIL_BYTES = 16_384
_ORPHAN_GRACE_S = 5.0
#: Seconds that a killed process may take to end.
_REAP_S = 5.0
#: Seconds that an interpreter takes to start at most where the machine is neither slow nor busy.
_USUAL_START_S = 1.0
#: Linux's number of the call by which a process is ended when the thread that started it ends.
_PR_SET_PDEATHSIG = 1
#: How Windows ends processes: the status of each fault, where other systems have a signal.
_WINDOWS_FAULTS: Final = {
    0xC0000005: "an access violation",
    0xC000001D: "an illegal instruction",
    0xC0000094: "an integer division by zero",
    0xC00000FD: "a stack overflow",
    0xC0000135: "a library that was not found",
    0xC0000374: "a damaged heap",
    0xC0000409: "a fail-fast exit, as `abort` causes",
}
# Marks a message among whatever else may be written before the child has moved its standard output away.
_MARK = "\x1eportbar "

_answers: IO[str] | None = None


@dataclass(frozen=True)
class ChildResult:
    """The result of a task."""

    #: It returned; it raised; the process died; it was killed at the limit.
    status: Status
    #: The task's return value, if it returned.
    value: Any
    #: The fault in words, with the last lines of the child's standard error where they may help.
    message: str
    #: Wall-clock time, the start of the interpreter included.
    seconds: float
    #: Reports of the task on its way, whatever happened later.
    progress: list[dict[str, Any]] = field(default_factory=list)
    #: It raised an ImportError: a package is missing or damaged, which says nothing of a device.
    unimportable: bool = False


def progress(message: dict[str, Any]) -> None:
    """Report a partial result from within a task; outside of a child process this does nothing."""
    _send({"progress": message})


def run_task(
    task: str,
    payload: dict[str, Any],
    *,
    timeout: float,
    at_most: float | None = None,
    env: Mapping[str, str] | None = None,
    on_progress: Callable[[dict[str, Any]], None] | None = None,
    stop: threading.Event | None = None,
) -> ChildResult:
    """Run a function in a new interpreter and return what became of it; its failures raise nothing here.

    `task` is ``"module:function"``; the function takes the payload, a JSON object, and returns a JSON value. After `timeout`
    seconds the child and all that it started are killed. If its interpreter alone takes more than `_USUAL_START_S` to start,
    the machine is slow or busy, and the child gets as many times as long, up to `at_most` seconds if that is given. `env` is
    set in the child beyond the variables of this process. `on_progress` is called in this thread with each report as it comes;
    if it raises, the child is killed. Once `stop` is set, the child is killed within a quarter of a second and this raises
    KeyboardInterrupt: Ctrl-C reaches the main thread only. Temporary files of the child and of its drivers end with it.
    """
    with _temporary_folder() as variables:
        return _run_task(task, payload, timeout, at_most, {**variables, **(env or {})}, on_progress, stop)


def _run_task(
    task: str,
    payload: dict[str, Any],
    timeout: float,
    at_most: float | None,
    env: Mapping[str, str],
    on_progress: Callable[[dict[str, Any]], None] | None,
    stop: threading.Event | None,
) -> ChildResult:
    # Before the child starts: a payload that is not JSON is the caller's mistake, not the task's.
    limit, most = timeout, max(timeout, at_most or timeout)
    request = json.dumps({"task": task, "payload": payload, "limit": most, "parent": os.getpid()})
    start = time.monotonic()
    process = subprocess.Popen(
        # -P: `-m` would otherwise put the working directory before the standard library.
        # -W: the package may import this module before it runs as the main one, which is meant.
        [sys.executable, "-P", "-W", "ignore::RuntimeWarning:runpy", "-m", "portbar.device.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environment(env),
        start_new_session=True,
    )
    messages: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    tail: deque[bytes] = deque(maxlen=_TAIL_BYTES // 256)
    threads = [
        threading.Thread(target=_feed, args=(process.stdin, f"{request}\n".encode()), daemon=True),
        threading.Thread(target=_read_answers, args=(process.stdout, messages), daemon=True),
        threading.Thread(target=_keep_tail, args=(process.stderr, tail), daemon=True),
    ]
    for thread in threads:
        thread.start()
    reports: list[dict[str, Any]] = []
    answer: dict[str, Any] | None = None
    late = False

    def take(message: dict[str, Any]) -> None:
        nonlocal answer, limit
        if "started" in message:
            limit = min(most, timeout * max(1.0, (time.monotonic() - start) / _USUAL_START_S))
        elif "progress" in message:
            reports.append(message["progress"])
            if on_progress is not None:
                on_progress(message["progress"])
        elif "status" in message:
            answer = message

    try:
        while answer is None:
            if stop is not None and stop.is_set():
                raise KeyboardInterrupt
            try:
                message = messages.get(timeout=max(0.0, min(0.25, start + limit - time.monotonic())))
            except queue.Empty:
                # Something that the child forked may hold the pipe open after it.
                message = None if _has_ended(process) else {}
            if message is None:
                break
            take(message)
            if answer is None and time.monotonic() >= start + limit:
                late = True
                break
        # The pipe closes a moment before the process is gone; killing it in between would hide how it ended.
        while answer is None and not late and not _has_ended(process):
            late = time.monotonic() >= start + limit
            time.sleep(0.005)
    finally:
        _kill_group(process)
    for thread in threads:
        thread.join(timeout=1.0)
    while answer is None and not messages.empty():
        take(messages.get() or {})
    seconds = time.monotonic() - start
    if answer is None:
        said = f"{NO_ANSWER} {limit:.3g} s" if late else _death(process.returncode)
        answer = {"status": "timeout" if late else "crash", "message": f"{said}{_describe_tail(tail)}"}
    unimportable = bool(answer.get("unimportable"))
    return ChildResult(answer["status"], answer.get("value"), answer.get("message", ""), seconds, reports, unimportable)


class TaskSteps(Protocol):
    """The steps of a task that a driver may abort or hang in, and what children have made of them."""

    def begin(self) -> tuple[dict[str, Any], float] | None:
        """The payload and the seconds of a child for the steps that are left; None where there are none, or no time."""

    def take(self, message: dict[str, Any]) -> None:
        """Take in one report of the child."""

    def died(self, result: ChildResult) -> bool:
        """Take in the end of a child that did not return; whether another one may do better."""


def run_steps(task: str, steps: TaskSteps) -> bool:
    """Run a task in a child, and what is left of it in a new child after one that died; whether not too many did."""
    for _ in range(_MOST_DEATHS):
        begun = steps.begin()
        if begun is None:
            return True
        payload, timeout = begun
        result = run_task(task, payload, timeout=timeout, env=NO_CACHE, on_progress=steps.take)
        if result.status == "ok":
            return True
        if not steps.died(result):
            return False
    return False


@contextmanager
def _temporary_folder() -> Iterator[dict[str, str]]:
    """Make a folder for temporary files, and yield the variables that name it: a driver that is killed removes none."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="portbar-", ignore_cleanup_errors=True)
    except OSError:
        yield {}
        return
    with folder as path:
        yield dict.fromkeys(("TMPDIR", "TEMP", "TMP"), path)


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    from portbar.device import icd  # noqa: PLC0415 (a child that runs no OpenCL need not look for it)

    environ = {**os.environ, **extra}
    environ.update(icd.environment(environ))
    root = str(Path(__file__).resolve().parents[2])
    installed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), site.getusersitepackages()}
    if root not in {os.path.realpath(path) for path in installed}:
        # A checkout: the child must run this very portbar. An installed one is found anyway, and naming its
        # folder here would put every other package before the standard library.
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, environ.get("PYTHONPATH", "")]))
    return environ


def _feed(stream: IO[bytes] | None, request: bytes) -> None:
    assert stream is not None
    # It stays open: the child ends when it is closed, as by the end of this process.
    with suppress(OSError, ValueError):
        stream.write(request)
        stream.flush()


def _read_answers(stream: IO[bytes] | None, messages: queue.SimpleQueue[dict[str, Any] | None]) -> None:
    assert stream is not None
    mark = _MARK.encode()
    with suppress(OSError, ValueError), stream:
        for line in stream:
            if line.startswith(mark):
                # A line cut short by the child's death is not a message.
                with suppress(ValueError):
                    messages.put(json.loads(line[len(mark) :]))
    messages.put(None)


def _keep_tail(stream: IO[bytes] | None, tail: deque[bytes]) -> None:
    assert stream is not None
    with suppress(OSError, ValueError), stream:
        while chunk := stream.readline(4096):
            tail.append(chunk)


def _describe_tail(tail: deque[bytes]) -> str:
    text = b"".join(tail).decode(errors="replace")
    lines = [line.rstrip() for line in text.splitlines() if line.strip()][-_TAIL_LINES:]
    return "; last lines of its standard error:\n" + "\n".join(lines) if lines else ""


def _death(returncode: int | None) -> str:
    # The 32 bits of a Windows status come as a positive number, or as a negative one from some programs.
    if returncode is not None and (fault := _WINDOWS_FAULTS.get(returncode & 0xFFFFFFFF)) is not None:
        return f"the process was ended by Windows for {fault} (0x{returncode & 0xFFFFFFFF:08X})"
    if returncode is not None and returncode < 0:
        try:
            return f"the process was killed by {signal.Signals(-returncode).name}"
        except ValueError:
            return f"the process was killed by signal {-returncode}"
    return f"the process ended without an answer (exit status {returncode})"


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    if hasattr(os, "waitid"):
        # Not reaped, so that its number stays taken until its group has been killed.
        with suppress(ChildProcessError):
            return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return process.poll() is not None


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the child and all that it started, and reap it; one that has ended keeps its exit status."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    # One whose driver holds it in the system's kernel cannot be killed, and stays.
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=_REAP_S)
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()


def _send(message: dict[str, Any]) -> None:
    if _answers is not None:
        _answers.write(f"\n{_MARK}{json.dumps(message)}\n")
        _answers.flush()


def _serve() -> None:
    """Be the child: read one request, run it, answer, and leave without the drivers' exit handlers."""
    global _answers  # noqa: PLW0603 (there is one parent)
    _answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # From here on the answer has a pipe of its own: what drivers print ends up in standard error.
    os.dup2(2, 1)
    request = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _limit_damage(float(request["limit"]), int(request["parent"]))
    _send({"started": True})
    try:
        module, _, function = request["task"].partition(":")
        value = getattr(importlib.import_module(module), function)(request["payload"])
        _send({"status": "ok", "value": value})
    except Exception as error:  # noqa: BLE001 (whatever the task raises is the answer)
        traceback.print_exc()
        unimportable = isinstance(error, ImportError)
        _send({"status": "error", "message": f"{type(error).__name__}: {error}", "unimportable": unimportable})
    sys.stderr.flush()
    # Some drivers crash while they are torn down, after all work was done well.
    os._exit(0)


def _limit_damage(limit: float, parent: int) -> None:
    with suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415 (not on Windows)

        # An expected abort should leave no core file in the user's folder.
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if sys.platform == "linux":
        # If the parent is killed, the operating system kills the child at once; no other process would.
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
    # The same where neither the system nor `_end_with_parent` can, later.
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, limit + _ORPHAN_GRACE_S)
    else:
        # Windows. A task that has such a limit of its own replaces this one.
        faulthandler.dump_traceback_later(limit + _ORPHAN_GRACE_S, exit=True)


def _end_with_parent() -> None:
    """End the process when the parent has closed the pipe of the request, or has died.

    A driver that never returns may keep Python from running this.
    """
    with suppress(OSError):
        os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    # The task imports this module by its name; the pipe must belong to that copy.
    importlib.import_module("portbar.device.child")._serve()
