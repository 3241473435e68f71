"""Survey each host of a Dask cluster once and keep each record as it grows. Needs the extra `cluster`.

Dask finds a worker of the host, restarts the survey where the worker dies, and reports its events and its end.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
import uuid
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from portbar import records
from portbar._version import __version__
from portbar.errors import Error
from portbar.fleet.hosts import HostFolder
from portbar.records.scrubbing import anonymous

#: Functions that run on a worker: what it is, and its survey.
DESCRIBE: Final = "portbar.fleet.worker:describe"
SURVEY: Final = "portbar.fleet.worker:survey_host"

#: Seconds to connect, for the scheduler to name its workers, and for the first worker to show up.
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

_AWAY: Final = "the scheduler does not answer any more: finished hosts are kept; repeat the command when it is back"

#: Called with a label, what has happened there, and whether that is worth a line that stays.
Listener = Callable[[str, str, bool], None]


@dataclass(frozen=True)
class Job:
    """What is run on every host.

    Attributes
    ----------
    quick : bool
    timeout : float
        Seconds that one device may take.
    devices : tuple of str
        Selectors, as of `--device`.
    limit : float
        Seconds that a host may take in all; by default half an hour, or ten minutes when quick, or longer where thirty
        devices may take longer.
    """

    quick: bool = False
    timeout: float = 120.0
    devices: tuple[str, ...] = ()
    limit: float = 0.0

    @property
    def limit_s(self) -> float:
        """Seconds that a host may take."""
        return self.limit or (600.0 if self.quick else max(1800.0, 30 * self.timeout))

    @property
    def invocation(self) -> dict[str, Any]:
        """What a record of this survey says about how it was made."""
        return {"quick": self.quick, "timeout_s": self.timeout, "devices": list(self.devices)}


@dataclass
class Host:
    """A host of the cluster.

    Attributes
    ----------
    status : {"waiting", "surveying", "done", "failed", "lost", "interrupted"}
        `failed`: it answered, but has no record to show or only a part of one; `lost`: its workers went away.
    reason : str
        Why it is not done; empty where it is.
    attempts : int
        How many times the survey was started.
    seconds : float
        What the last attempt took.
    record : dict or None
        What is measured so far.
    began, deadline : float
        When the last attempt began, and when the host is given up.
    """

    status: str = "waiting"
    reason: str = ""
    attempts: int = 0
    seconds: float = 0.0
    record: dict[str, Any] | None = None
    began: float = 0.0
    deadline: float = 0.0


class _EndedError(Exception):
    """A host has ended without a whole record: its status, and why."""


class ClusterSurvey:
    """The survey of every host of a cluster: run it once, look at `hosts` at any time.

    Parameters
    ----------
    folder : HostFolder
        Where records are written as they come, and hosts that are finished are found.
    job : Job
    listener : callable
        Called with a label, a text, and whether that is more than a step of a survey.

    Attributes
    ----------
    hosts : dict of str to Host
        Label -> what became of the host.
    """

    def __init__(self, folder: HostFolder, job: Job, listener: Listener) -> None:
        self.hosts: dict[str, Host] = {}
        self._folder, self._job, self._tell = folder, job, listener
        self._topic = f"portbar-survey-{uuid.uuid4().hex}"
        #: When the scheduler last named its workers, and network address of a host -> when it last had one.
        self._asked = 0.0
        self._seen: dict[str, float] = {}
        self._error: Error | None = None

    async def run(self, address: str) -> None:
        """Survey all hosts, including those that join meanwhile; `hosts` says how that went.

        Parameters
        ----------
        address : str
            Of the scheduler, or a scheduler file, or ``local`` for one worker in this process.

        Raises
        ------
        Error
            There is no such cluster, it has no worker, it went away, or a file cannot be written.
        """
        async with _connected(address) as client:
            client.subscribe_topic(self._topic, self._take)
            tasks: dict[str, asyncio.Task[None]] = {}
            deadline = time.monotonic() + _FIRST_WORKER_S
            try:
                while not tasks or not all(task.done() for task in tasks.values()):
                    present = await _network_addresses(client)
                    self._asked = time.monotonic()
                    for where in present:
                        self._seen[where] = self._asked
                        if where not in tasks:
                            tasks[where] = asyncio.create_task(self._host(client, where))
                    if not tasks and time.monotonic() > deadline:
                        raise Error(
                            f"the cluster had no worker for {_FIRST_WORKER_S:g} s: start workers, `dask worker ADDRESS` on "
                            "each host"
                        )
                    await asyncio.sleep(_POLL_S)
                    for task in tasks.values():
                        if task.done():
                            task.result()
                    if self._error is not None:
                        raise self._error
            finally:
                for task in tasks.values():
                    task.cancel()
                await asyncio.gather(*tasks.values(), return_exceptions=True)

    async def _host(self, client: Any, where: str) -> None:
        """Survey one host."""
        name, problem = where, ""
        # Before its name is known, a host is no entry of the result.
        host = Host(deadline=time.monotonic() + _BEGIN_S)
        try:
            described = await self._on(client, where, host, DESCRIBE, {})
            name = described["host"]
            if described["portbar"] != __version__:
                problem = (
                    f"it has portbar {described['portbar']}, this is {__version__}: install the same version on both"
                )
        except _EndedError as error:
            _, problem = error.args
        label = self._folder.label(name)
        if label in self.hosts:
            # It has several network addresses.
            return
        self.hosts[label] = host
        # Messages are for the person who started this; records do not have the name.
        self._tell(label, f"is {name}", True)
        if problem:
            self._save(label, "failed", f"none of its workers can survey it: {problem}")
        elif self._folder.is_finished(label, self._job.invocation):
            host.status = "done"
            self._tell(label, "was surveyed before", True)
        else:
            await self._survey(client, where, label)

    async def _survey(self, client: Any, where: str, label: str) -> None:
        host = self.hosts[label]
        host.deadline = time.monotonic() + _BEGIN_S
        payload = {"topic": self._topic, "label": label, "limit_s": self._job.limit_s, **self._job.invocation}
        status, reason = "done", ""
        try:
            answer = await self._on(client, where, host, SURVEY, payload)
            if answer["record"] is None:
                said = {"timeout": "reached its time limit", "crash": "crashed", "error": "failed"}[answer["status"]]
                status, reason = "failed", f"the survey {said}: {answer['message']}"
            else:
                host.record = answer["record"]
                if answer["record"]["interrupted"]:
                    status, reason = "interrupted", "it was interrupted there"
        except _EndedError as error:
            status, reason = error.args
        except (asyncio.CancelledError, Error):
            self._save(label, "interrupted", "the survey was interrupted")
            raise
        self._save(label, status, reason)

    async def _on(self, client: Any, where: str, host: Host, function: str, payload: dict[str, Any]) -> dict[str, Any]:
        """What a function returns on a worker of a host.

        Raises
        ------
        _EndedError
            It returned nothing.
        Error
            The scheduler went away.
        """
        future = client.submit(
            _by_name(function),
            payload,
            key=f"portbar-{uuid.uuid4().hex}",
            workers=[where],
            allow_other_workers=False,
            pure=False,
        )
        result: asyncio.Task[dict[str, Any]] = asyncio.ensure_future(future.result())
        try:
            while not result.done():
                await asyncio.wait([result], timeout=_POLL_S)
                if self._asked > self._seen[where] + _COME_BACK_S:
                    raise _EndedError("lost", f"its workers went away, and none came back within {_COME_BACK_S:g} s")
                late = time.monotonic() > host.deadline
                if late and host.attempts:
                    raise _EndedError("failed", f"no answer within {self._job.limit_s:g} s")
                if late:
                    busy = f"its workers were busy with something else for {_BEGIN_S:g} s"
                    raise _EndedError("failed", f"{busy}: try again when the cluster is idle")
        finally:
            result.cancel()
            with suppress(Exception):
                await asyncio.wait_for(future.cancel(), 5.0)
        if result.cancelled() or isinstance(result.exception(), _dask().CancelledError):
            raise Error(_AWAY)
        error = result.exception()
        if isinstance(error, _dask().KilledWorker):
            raise _EndedError("lost", "its worker died during the survey, as often as the cluster tries again")
        if isinstance(error, ImportError):
            raise _EndedError("failed", f"it cannot import portbar ({error}): install portbar {__version__} there")
        if error is not None:
            raise _EndedError("failed", f"the survey's task failed: {type(error).__name__}: {error}")
        return result.result()

    def _take(self, event: tuple[float, dict[str, Any]]) -> None:
        """Take what a worker tells on its way."""
        _, message = event
        label = message["label"]
        host = self.hosts[label]
        if host.status not in {"waiting", "surveying"}:
            return
        if "started" in message:
            host.status, host.attempts, host.began = "surveying", host.attempts + 1, time.monotonic()
            host.deadline = host.began + self._job.limit_s + _LATE_S
            again = f": its worker died, attempt {host.attempts}" if host.attempts > 1 else ""
            self._tell(label, f"survey begins{again}", True)
        elif "record" in message:
            host.record = json.loads(zlib.decompress(message["record"]))
            # Until it ends well this is an interrupted survey, which the next one does again.
            self._write(label, interrupted=True)
        elif "step" in message:
            self._tell(label, f"{message['device']}: {message['step']}", False)

    def _save(self, label: str, status: str, reason: str) -> None:
        """Note how a host has ended, and keep what there is of its record."""
        host = self.hosts[label]
        host.status, host.reason = status, _nameless(reason)
        host.seconds = time.monotonic() - host.began if host.attempts else 0.0
        if host.record is not None:
            self._write(label, interrupted=status != "done")
        # The whole reason is in the list at the end.
        self._tell(label, "done" if status == "done" else f"{status}: {reason.partition(chr(10))[0]}", True)

    def _write(self, label: str, *, interrupted: bool) -> None:
        record = self.hosts[label].record
        assert record is not None
        if interrupted:
            record = {**record, "partial": True, "interrupted": True}
        try:
            self._folder.write(label, records.text(record))
        except Error as error:
            self._error = self._error or error


def _by_name(function: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A function that calls the named one: Dask sends it as code, so that the scheduler does without portbar."""
    module, _, name = function.partition(":")

    def call(payload: dict[str, Any]) -> dict[str, Any]:
        from importlib import import_module  # noqa: PLC0415 (the function travels alone)

        found: dict[str, Any] = getattr(import_module(module), name)(payload)
        return found

    return call


async def _network_addresses(client: Any) -> set[str]:
    """The hosts of all workers, as Dask tells them apart."""
    host_of = import_module("distributed.comm.addressing").get_address_host
    try:
        return {host_of(worker) for worker in await asyncio.wait_for(client.nthreads(), _ANSWER_S)}
    except (OSError, TimeoutError, ValueError) as error:
        raise Error(_AWAY) from error


def _nameless(text: str) -> str:
    """A text without addresses and host names."""
    text = re.sub(r"\b\w+://[^\s'\",)]+", "(address)", text)
    text = re.sub(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b", "(address)", text)
    return str(anonymous(text))


def _dask() -> Any:
    try:
        return import_module("distributed")
    except ImportError as error:
        raise Error(f'--dask needs Dask ({error}): pip install "portbar[cluster]"') from error


@asynccontextmanager
async def _connected(address: str) -> AsyncIterator[Any]:
    """A client of the cluster at an address."""
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
    except (OSError, TimeoutError, ValueError, KeyError, TypeError, RecursionError) as error:
        await _close(client)
        raise Error(
            f"no Dask scheduler answers at {address} ({type(error).__name__}: {error}): name the address that `dask scheduler` "
            "prints, the file that its option --scheduler-file writes, or `local`"
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
    """An address, or the one that a scheduler's file holds."""
    file = Path(address)
    if not file.is_file():
        return address
    where = json.loads(file.read_text(encoding="utf-8"))["address"]
    if not isinstance(where, str):
        # Without an address Dask would start a cluster.
        raise TypeError("its address is no text")
    return where
