"""The code that runs on a Dask worker: the survey of its host, in a child process with a time limit.

The worker itself loads no driver, so that one that aborts ends no worker.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from portbar import __version__
from portbar.device import child
from portbar.survey.fleet.hosts import host_name

#: The task that surveys the host, in a child process.
_TASK: Final = "portbar.survey.fleet.worker:child_task"
#: Seconds between looks at whether the worker is still there, and whether the survey was cancelled.
_POLL_S: Final = 0.5
#: Seconds before the limit at which a survey's own children are ended, which would outlive it.
_EARLIER_S: Final = 2.0


def describe(_payload: dict[str, Any]) -> dict[str, str]:
    """Return which host this is, and which portbar it has."""
    return {"host": host_name(), "portbar": __version__}


def survey_host(payload: dict[str, Any]) -> dict[str, Any]:
    """Survey the host of the worker that runs this task.

    The payload has the `topic` and the `label` of progress events, `limit_s`, and the options of the survey. The answer has
    `status` and `message` of the child process, and its `record` (None unless it ended well).
    """
    psutil, worker = _psutil(), import_module("distributed").get_worker()
    key = worker.get_current_task()
    survey: list[Any] = []
    ended = threading.Event()

    def relay(message: dict[str, Any]) -> None:
        if "pid" in message:
            with suppress(psutil.NoSuchProcess):
                survey.append(psutil.Process(int(message["pid"])))
            return
        worker.log_event(payload["topic"], {"label": payload["label"], **message})

    def end_if_cancelled() -> None:
        while not ended.wait(_POLL_S):
            task = worker.state.tasks.get(key)
            if task is None or task.state in {"cancelled", "resumed"}:
                for process in survey:
                    _kill([*_descendants(process), process])

    relay({"started": True})
    threading.Thread(target=end_if_cancelled, daemon=True).start()
    try:
        result = child.run_task(_TASK, payload, timeout=float(payload["limit_s"]), on_progress=relay)
    finally:
        ended.set()
    return {
        "status": result.status,
        "message": result.message,
        "record": result.value if result.status == "ok" else None,
    }


def child_task(payload: dict[str, Any]) -> dict[str, Any]:
    """Survey this machine, in the child process of `survey_host`."""
    _end_with_parent(time.monotonic() + float(payload["limit_s"]) - _EARLIER_S)
    child.progress({"pid": os.getpid()})
    from portbar.device import listing  # noqa: PLC0415 (the child's work, not the worker's)
    from portbar.device.addresses import select_devices  # noqa: PLC0415 (loads every driver)
    from portbar.survey.run import Job, Survey  # noqa: PLC0415 (the same)

    def on_step(device: str, step: str, _seconds_expected: float | None = None) -> None:
        child.progress({"device": device, "step": step})

    # A driver that hangs here would take the time of the whole host.
    listing.look()
    job = Job(payload["quick"], payload["timeout_s"], payload["devices"])
    return Survey(job, on_step).run(select_devices(job.devices))


def _end_with_parent(deadline: float) -> None:
    """End this process and what it starts when its parent ends, and what it starts at the deadline, too.

    Measurements run in sessions of their own, where no signal for this process reaches them.
    """
    psutil = _psutil()
    parent, me = psutil.Process(os.getppid()), psutil.Process()

    def watch() -> None:
        while os.getppid() == parent.pid and parent.is_running():
            time.sleep(_POLL_S)
            if time.monotonic() > deadline:
                _kill(_descendants(me))
        _kill(_descendants(me))
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _psutil() -> Any:
    """Return the module, which comes with Dask's distributed; portbar itself does not need it."""
    return import_module("psutil")


def _descendants(process: Any) -> list[Any]:
    with suppress(_psutil().Error):
        return list(process.children(recursive=True))
    return []


def _kill(processes: list[Any]) -> None:
    for one in processes:
        with suppress(_psutil().Error):
            one.kill()
