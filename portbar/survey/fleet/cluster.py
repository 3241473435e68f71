"""Survey each host of a Dask cluster once and keep its record. Needs the extra `cluster`.

Dask finds a worker of the host, restarts the survey where the worker dies, and reports its events and its end.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from portbar import __version__, records
from portbar.errors import Error
from portbar.records.scrubbing import anonymous
from portbar.records.writing import is_file
from portbar.survey.fleet.hosts import HostFolder
from portbar.survey.run import Job

#: Functions that run on a worker: its identity, and its survey.
DESCRIBE: Final = "portbar.survey.fleet.worker:describe"
SURVEY: Final = "portbar.survey.fleet.worker:survey_host"

#: Seconds to connect, for the scheduler and workers to answer, and for the first worker to show up.
_CONNECT_S: Final = 20.0
_ANSWER_S: Final = 60.0
_FIRST_WORKER_S: Final = 60.0
#: Seconds that the workers of a host may be busy with something else before one begins.
_BEGIN_S: Final = 600.0
#: Seconds that a host may be without workers, while a nanny starts a new one.
_COME_BACK_S: Final = 20.0
#: Seconds beyond the limit of a survey until its worker is no longer believed.
_LATE_S: Final = 30.0
_POLL_S: Final = 0.5

#: Dask opens ports for pages in any case; without routes they answer 404 to everything.
_NO_PAGES: Final[dict[str, list[str]]] = {"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}

_AWAY: Final = (
    "the scheduler no longer responds. The records of finished hosts are kept; run the command again when it is back"
)

#: Called with a label, an event there, and whether the event deserves a permanent line.
Listener = Callable[[str, str, bool], None]


@dataclass
class Host:
    """A host of the cluster.

    Its `status` is "waiting", "surveying", "done", "failed" (it responded, but has no complete record), "lost" (its workers
    disconnected) or "interrupted"; `reason` is empty if it is done.
    """

    #: Its network address.
    where: str
    #: When it last had a worker, when it is given up, and when the last attempt began.
    seen: float
    deadline: float
    began: float = 0.0
    #: How many times the survey was started, and the seconds of the last attempt.
    attempts: int = 0
    seconds: float = 0.0
    status: str = "waiting"
    reason: str = ""
    #: The future of its survey, until it ends.
    survey: Any = None


class ClusterSurvey:
    """The survey of every host of a cluster: run it once, look at `hosts` at any time.

    Records are written into the folder as they come; it also shows which hosts are finished.
    """

    def __init__(self, folder: HostFolder, job: Job, listener: Listener) -> None:
        #: Label -> host.
        self.hosts: dict[str, Host] = {}
        self._folder, self._job, self._report = folder, job, listener
        self._topic = f"portbar-survey-{uuid.uuid4().hex}"

    async def run(self, address: str) -> None:
        """Survey all hosts, including those that join meanwhile.

        The address is that of the scheduler, or a scheduler file, or ``local`` for one worker in this process. `Error` if there
        is no such cluster, it has no worker, it went away, or a file cannot be written.
        """
        async with _connected(address) as client:
            client.subscribe_topic(self._topic, self._take)
            deadline = time.monotonic() + _FIRST_WORKER_S
            met: dict[str, asyncio.Task[None]] = {}
            try:
                while not self.hosts or self._running() or not all(task.done() for task in met.values()):
                    workers = await _workers(client)
                    for worker in workers:
                        if worker not in met:
                            met[worker] = asyncio.create_task(self._meet(client, worker))
                    for label, host in self._running():
                        await self._look(label, host, set(map(_network_address, workers)))
                    if not self.hosts and time.monotonic() > deadline:
                        raise Error(
                            f"the cluster had no worker for {_FIRST_WORKER_S:g} s: start workers, `dask worker ADDRESS` on "
                            "each host"
                        )
                    await asyncio.sleep(_POLL_S)
                    # Right before the loop's condition, so that no error comes between the two.
                    for task in met.values():
                        if task.done():
                            task.result()
            finally:
                for task in met.values():
                    task.cancel()
                await asyncio.gather(*met.values(), return_exceptions=True)
                for label, _ in self._running():
                    await self._end(label, "interrupted", "the survey was interrupted")

    def _running(self) -> list[tuple[str, Host]]:
        return [(label, host) for label, host in self.hosts.items() if host.survey is not None]

    async def _meet(self, client: Any, worker: str) -> None:
        """Ask a worker which host it is on, and begin the survey of a host that is new."""
        try:
            # Concurrent with its tasks, so that a busy worker responds, too.
            asked = client.run(_by_name(DESCRIBE), {}, workers=[worker], on_error="return")
            said = (await asyncio.wait_for(asked, _ANSWER_S))[worker]
        except TimeoutError as error:
            said = error
        if isinstance(said, OSError) and not isinstance(said, TimeoutError):
            # It went away; where another takes its place, that one is asked.
            return
        where = _network_address(worker)
        name = where if isinstance(said, Exception) else said["host"]
        label = self._folder.label(name)
        if label in self.hosts:
            # A host has several workers, which may have several network addresses.
            return
        now = time.monotonic()
        host = self.hosts[label] = Host(where, now, now + _BEGIN_S)
        # Messages are for the person who started this; records do not have the name.
        self._report(label, f"is {name}", True)
        if problem := _problem(said):
            await self._end(label, "failed", f"none of its workers can survey it: {problem}")
        elif self._folder.is_finished(label, self._job.invocation):
            host.status = "done"
            self._report(label, "was surveyed before", True)
        else:
            payload = {"topic": self._topic, "label": label, "limit_s": self._job.limit_s, **self._job.invocation}
            host.survey = client.submit(_by_name(SURVEY), payload, workers=[where], pure=False)

    async def _look(self, label: str, host: Host, present: set[str]) -> None:
        """See whether the survey of a host has ended, or must be."""
        now = time.monotonic()
        if host.where in present:
            host.seen = now
        if host.survey.cancelled():
            raise Error(_AWAY)
        if host.survey.done():
            await self._end(label, *await self._result(label, host))
        elif now > host.seen + _COME_BACK_S:
            why = f"its workers disconnected, and none returned within {_COME_BACK_S:g} s"
            await self._end(label, "lost", why)
        elif now > host.deadline and host.attempts:
            await self._end(label, "failed", f"no answer within {self._job.limit_s:g} s")
        elif now > host.deadline:
            busy = f"its workers were busy with other work for {_BEGIN_S:g} s"
            await self._end(label, "failed", f"{busy}: try again when the cluster is idle")

    async def _result(self, label: str, host: Host) -> tuple[str, str]:
        """Keep the record of a survey that has ended; the host's status, and why it is not "done"."""
        error = await host.survey.exception()
        if isinstance(error, _dask().KilledWorker):
            return "lost", "its worker died during the survey, in every attempt that the cluster allows"
        if error is not None:
            return "failed", f"the survey's task failed: {type(error).__name__}: {error}"
        answer = await host.survey.result()
        record = answer["record"]
        if record is None:
            said = {"timeout": "reached its time limit", "crash": "crashed", "error": "failed"}[answer["status"]]
            return "failed", f"the survey {said}: {answer['message']}"
        self._folder.write(label, records.text(record))
        return ("interrupted", "it was interrupted there") if record["interrupted"] else ("done", "")

    def _take(self, event: tuple[float, dict[str, Any]]) -> None:
        _, message = event
        label = message["label"]
        host = self.hosts[label]
        if host.survey is None:
            return
        if "started" in message:
            host.status, host.attempts, host.began = "surveying", host.attempts + 1, time.monotonic()
            host.deadline = host.began + self._job.limit_s + _LATE_S
            again = f": its worker died, attempt {host.attempts}" if host.attempts > 1 else ""
            self._report(label, f"survey begins{again}", True)
        elif "step" in message:
            self._report(label, f"{message['device']}: {message['step']}", False)

    async def _end(self, label: str, status: str, reason: str) -> None:
        """Note the outcome for a host, and end its survey."""
        host = self.hosts[label]
        host.status, host.reason = status, _nameless(reason)
        host.seconds = time.monotonic() - host.began if host.attempts else 0.0
        survey, host.survey = host.survey, None
        # The whole reason is in the list at the end.
        self._report(label, "done" if status == "done" else f"{status}: {reason.partition(chr(10))[0]}", True)
        if survey is not None:
            with suppress(Exception):
                await asyncio.wait_for(survey.cancel(), 5.0)


def _problem(said: Any) -> str:
    """Return why a worker that gave this answer cannot survey its host; empty if it can."""
    if isinstance(said, ImportError):
        return f"it cannot import portbar ({said}): install portbar {__version__} there"
    if isinstance(said, TimeoutError):
        return f"it does not answer within {_ANSWER_S:g} s"
    if isinstance(said, Exception):
        return f"{type(said).__name__}: {said}"
    if said["portbar"] != __version__:
        return f"it has portbar {said['portbar']}, this is {__version__}: install the same version on both"
    return ""


def _network_address(worker: str) -> str:
    """Return the host of a worker, as Dask tells hosts apart."""
    return str(import_module("distributed.comm.addressing").get_address_host(worker))


def _by_name(function: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a function that calls the named one: Dask sends it as code, so that the scheduler needs no portbar."""
    module, _, name = function.partition(":")

    def call(payload: dict[str, Any]) -> dict[str, Any]:
        from importlib import import_module  # noqa: PLC0415 (the function travels alone)

        found: dict[str, Any] = getattr(import_module(module), name)(payload)
        return found

    return call


async def _workers(client: Any) -> list[str]:
    try:
        return list(await asyncio.wait_for(client.nthreads(), _ANSWER_S))
    except (OSError, TimeoutError, ValueError) as error:
        raise Error(_AWAY) from error


def _nameless(text: str) -> str:
    """Return a text without addresses and host names."""
    address = r"\b\w+://[^\s'\",)]+|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"
    return str(anonymous(re.sub(address, "(address)", text)))


def _dask() -> Any:
    try:
        return import_module("distributed")
    except ImportError as error:
        raise Error(f'--dask needs Dask ({error}): pip install "portbar[cluster]"') from error


@asynccontextmanager
async def _connected(address: str) -> AsyncIterator[Any]:
    dask = _dask()
    if address == "local":
        # All in this process: a port would run what any user of this machine sends, and a worker process, which
        # multiprocessing would start, imports from the current folder.
        with import_module("dask").config.set(_NO_PAGES):
            local = await dask.LocalCluster(
                n_workers=1,
                threads_per_worker=1,
                processes=False,
                protocol="inproc://",
                dashboard_address="127.0.0.1:0",
                worker_dashboard_address="127.0.0.1:0",
                scheduler_kwargs={"dashboard": False},
                silence_logs=logging.CRITICAL,
                asynchronous=True,
            )
        async with local, dask.Client(local, asynchronous=True, set_as_default=False) as client:
            yield client
        return
    client = None
    try:
        client = dask.Client(_where(address), asynchronous=True, timeout=_CONNECT_S, set_as_default=False)
        await client
    except Exception as error:
        # Something else that listens at the address may send anything.
        await _close(client)
        raise Error(
            f"no Dask scheduler responds at {address} ({type(error).__name__}: {error}): name the address that "
            "`dask scheduler` prints, the file that its option --scheduler-file writes, or `local`"
        ) from error
    try:
        yield client
    finally:
        await _close(client)


async def _close(client: Any) -> None:
    if client is not None:
        with suppress(Exception):
            await asyncio.wait_for(client.close(), 10.0)


def _where(address: str) -> str:
    """Return an address, or the one in a scheduler's file."""
    file = Path(address)
    if not is_file(file):
        return address
    where = json.loads(file.read_text(encoding="utf-8"))["address"]
    if not isinstance(where, str):
        # Without an address Dask would start a cluster.
        raise TypeError("its address is not text")
    return where
