"""Runs the survey once on each host of a Dask cluster, keeps what comes back at once, and goes on when workers die.

Not for a machine's own survey (`portbar.survey`), and not for files (`portbar.hosts`). Needs the extra `cluster`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import logging
import re
import time
import uuid
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from portbar import records
from portbar._version import __version__
from portbar.cluster_worker import inspector, stop, survey_host
from portbar.errors import Error
from portbar.hosts import HostFolder, HostState
from portbar.records.private import anonymous

#: What surveys a host, in a child process of a worker.
TASK: Final = "portbar.cluster_worker:child_task"

#: Surveys that are started on one host before it is given up, when the worker dies each time.
_ATTEMPTS: Final = 3
#: Seconds to connect, for the first worker to show up, and for a worker to say what it is.
_CONNECT_S: Final = 20.0
_FIRST_WORKER_S: Final = 60.0
_INSPECT_S: Final = 30.0
#: Seconds that a worker may be busy with something else before it begins.
_BEGIN_S: Final = 600.0
#: Seconds to wait for a nanny to start a new worker where the last one of a host died.
_COME_BACK_S: Final = 20.0
#: Seconds beyond the limit of a survey until its worker is no longer believed.
_LATE_S: Final = 30.0
_POLL_S: Final = 0.5

#: Dask opens ports for pages in any case; without routes they answer 404 to everything.
_NO_PAGES: Final[dict[str, list[str]]] = {"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}

#: States of a host that is not through.
_OPEN: Final = {"waiting", "surveying"}

_AWAY: Final = (
    "the scheduler does not answer any more: what was finished is kept; start the same command again when it is back"
)

#: Attributes of `inspector`'s answer that tests replace this by.
HostOf = Callable[[dict[str, Any]], str]
#: Called with a label, or nothing, and what has happened there; and whether that is worth a line that stays.
Listener = Callable[[str, str, bool], None]


def host_of(worker: dict[str, Any]) -> str:
    """The host of a worker, by what `portbar.cluster_worker.inspector` found out: workers with the same one share it."""
    return str(worker["host"])


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
class _Host:
    """A host of the cluster while it is surveyed."""

    label: str
    #: Addresses of its workers that can survey it, and why others cannot.
    workers: set[str] = field(default_factory=set)
    unfit: set[str] = field(default_factory=set)
    task: asyncio.Task[None] | None = None
    began: float = 0.0
    attempt: int = 0
    record: dict[str, Any] | None = None


class ClusterSurvey:
    """The survey of every host of a cluster: run it once, look at `states` at any time.

    Parameters
    ----------
    folder : HostFolder
        Where records are written as they come, and hosts that are finished are found.
    job : Job
    listener : callable
        Called with a label (or nothing), a text, and whether that is more than a step of a survey.
    host_of : callable, optional
        Tells which host a worker is on.

    Attributes
    ----------
    states : dict of str to HostState
        Label -> what became of the host.
    """

    def __init__(self, folder: HostFolder, job: Job, listener: Listener, host_of: HostOf = host_of) -> None:
        self.states: dict[str, HostState] = folder.read_states()
        for state in self.states.values():
            if state.status in _OPEN:
                state.status, state.reason = "interrupted", "the run before this one was killed"
        self.came: set[str] = set()
        self._folder, self._job, self._tell, self._host_of = folder, job, listener, host_of
        self._topic = f"portbar-survey-{uuid.uuid4().hex}"
        self._hosts: dict[str, _Host] = {}
        self._inspecting: dict[str, asyncio.Task[None]] = {}
        #: Network address -> host, for workers that cannot say where they are.
        self._names: dict[str, str] = {}
        self._alive: set[str] = set()
        self._error: Error | None = None

    async def run(self, address: str) -> None:
        """Survey all hosts; `states` says how that went.

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
            watch = asyncio.create_task(self._watch(client))
            try:
                await self._finish(watch)
            finally:
                watch.cancel()
                await self._end(client)

    async def _finish(self, watch: asyncio.Task[None]) -> None:
        """Wait until every host that is known, also those that come meanwhile, has ended one way or another."""
        deadline = time.monotonic() + _FIRST_WORKER_S
        while True:
            if self._error is not None:
                raise self._error
            if watch.done():
                watch.result()
            tasks = [host.task for host in self._hosts.values() if host.task is not None]
            for task in tasks:
                if task.done():
                    task.result()
            if self._hosts and not self._inspecting and all(task.done() for task in tasks):
                return
            if not self._hosts and not self._inspecting and time.monotonic() > deadline:
                raise Error(
                    f"the cluster had no worker for {_FIRST_WORKER_S:g} s: start workers, `dask worker ADDRESS` on each host"
                )
            await asyncio.sleep(_POLL_S)

    async def _end(self, client: Any) -> None:
        """Stop what still runs, and keep what has come of it."""
        tasks = [*self._inspecting.values(), *(host.task for host in self._hosts.values() if host.task is not None)]
        for task in tasks:
            task.cancel()
        unfinished = [host for host in self._hosts.values() if self._is_open(host)]
        for host in unfinished:
            self._save(host, "interrupted", "the survey was interrupted")
        if unfinished:
            with suppress(Exception):
                stopped = client.run(stop, self._topic, workers=sorted(self._alive), on_error="ignore")
                await asyncio.wait_for(stopped, 5.0)
        self._folder.write_states(self.states)

    def _is_open(self, host: _Host) -> bool:
        return host.label in self.states and self.states[host.label].status in _OPEN

    async def _watch(self, client: Any) -> None:
        """Notice workers that come and go."""
        failures = 0
        while True:
            try:
                present = set(await asyncio.wait_for(client.nthreads(), _INSPECT_S))
                failures = 0
            except (OSError, TimeoutError, ValueError) as error:
                failures += 1
                if failures >= 5:
                    raise Error(_AWAY) from error
                await asyncio.sleep(2.0)
                continue
            for address in present - self._alive:
                self._inspecting[address] = asyncio.create_task(self._inspect(client, address))
            for host in self._hosts.values():
                host.workers &= present
            self._alive = present
            await asyncio.sleep(_POLL_S)

    async def _inspect(self, client: Any, address: str) -> None:
        """Find out which host a worker is on and whether it can survey it, and begin where it is the host's first."""
        why = "no answer"
        try:
            asked = client.run(inspector(), workers=[address], on_error="return")
            answer = (await asyncio.wait_for(asked, _INSPECT_S)).get(address)
            if isinstance(answer, dict):
                name = self._host_of(answer)
                self._names[_network_address(address)] = name
                self._enlist(client, name, address, _unfit(answer))
                return
            why = f"{type(answer).__name__}: {answer}" if answer is not None else why
        except TimeoutError:
            why = f"no answer within {_INSPECT_S:g} s"
        except OSError as error:
            why = str(error)
        except Error as error:
            self._error = self._error or error
            return
        finally:
            self._inspecting.pop(address, None)
        if address in self._alive:
            where = _network_address(address)
            self._enlist(client, self._names.get(where, where), address, f"a worker could not be asked ({why})")

    def _enlist(self, client: Any, name: str, address: str, problem: str) -> None:
        """Add a worker to its host, and begin with the host if it is the first."""
        label = self._folder.label(name)
        host = self._hosts.get(label)
        if host is None:
            host = self._hosts[label] = _Host(label)
            self.came.add(label)
            # Messages are for the person who started this; neither records nor the manifest have the name.
            self._tell(label, f"is {name}", True)
        if problem:
            host.unfit.add(problem)
        else:
            host.workers.add(address)
        if host.task is None:
            host.task = asyncio.create_task(self._host(client, host))

    async def _host(self, client: Any, host: _Host) -> None:
        """Survey one host, on another of its workers when one dies."""
        state = self.states.setdefault(host.label, HostState())
        if self._folder.is_finished(host.label, self._job.invocation):
            state.status, state.reason = "done", ""
            self._tell(host.label, "was surveyed before", True)
            return
        state.status, state.reason = "waiting", ""
        for host.attempt in range(1, _ATTEMPTS + 1):
            worker = await self._worker(host)
            if worker is None:
                reasons = "; ".join(sorted(host.unfit))
                if host.attempt == 1:
                    self._save(host, "failed", f"none of its workers can survey it: {reasons or 'they went away'}")
                else:
                    self._save(host, "lost", "its worker died during the survey, and no other of this host took over")
                return
            state.status, state.attempts = "surveying", state.attempts + 1
            self._folder.write_states(self.states)
            again = f", attempt {host.attempt}" if host.attempt > 1 else ""
            self._tell(host.label, f"survey begins{again}", True)
            started = time.monotonic()
            finished = await self._attempt(client, host, worker)
            state.seconds = time.monotonic() - started
            if finished:
                return
            host.workers.discard(worker)
            self._tell(host.label, "its worker died", True)
        self._save(host, "lost", f"its worker died during the survey, {_ATTEMPTS} times")

    async def _worker(self, host: _Host) -> str | None:
        """A worker of this host, perhaps one that is started just now; None where none comes."""
        start = time.monotonic()
        patience = _COME_BACK_S if not host.unfit or host.attempt > 1 else 0.0
        while True:
            limit = _INSPECT_S if self._inspecting else patience
            if host.workers or time.monotonic() > start + limit:
                return min(host.workers, default=None)
            await asyncio.sleep(_POLL_S)

    async def _attempt(self, client: Any, host: _Host, worker: str) -> bool:
        """Survey a host on one worker; False when that worker went away."""
        host.began = 0.0
        limit = self._job.limit_s
        future = client.submit(
            survey_host,
            {
                "task": TASK,
                "topic": self._topic,
                "label": host.label,
                "attempt": host.attempt,
                "limit_s": limit,
                **self._job.invocation,
            },
            key=f"portbar-survey-{host.label}-{uuid.uuid4().hex}",
            workers=[worker],
            allow_other_workers=False,
            pure=False,
            retries=0,
        )
        submitted = time.monotonic()
        result: asyncio.Task[dict[str, Any]] = asyncio.ensure_future(future.result())
        try:
            while not result.done():
                await asyncio.wait([result], timeout=_POLL_S)
                if result.done():
                    break
                if worker not in host.workers:
                    return False
                now = time.monotonic()
                if not host.began and now > submitted + _BEGIN_S:
                    busy = f"its worker was busy with something else for {_BEGIN_S:g} s"
                    self._save(host, "failed", f"{busy}: try again when the cluster is idle")
                    return True
                if host.began and now > host.began + limit + _LATE_S:
                    self._save(host, "failed", f"no answer within {limit:g} s")
                    return True
            return self._judge(client, host, result)
        finally:
            result.cancel()
            with suppress(Exception):
                await asyncio.wait_for(future.cancel(), 5.0)

    def _judge(self, client: Any, host: _Host, result: asyncio.Future[dict[str, Any]]) -> bool:
        """Keep what a task gave; False where it was lost with its worker."""
        try:
            answer = result.result()
        except (_dask().KilledWorker, asyncio.CancelledError, concurrent.futures.CancelledError) as error:
            if client.status != "running" or getattr(error, "reason", "") == "scheduler-connection-lost":
                raise Error(_AWAY) from error
            return False
        except Exception as error:  # noqa: BLE001 (whatever a worker's task raises is the host's outcome)
            self._save(host, "failed", f"the survey's task failed: {type(error).__name__}: {error}")
            return True
        if answer["record"] is not None:
            host.record = answer["record"]
            cut_short = bool(answer["record"]["interrupted"])
            self._save(host, "interrupted" if cut_short else "done", "it was interrupted there" if cut_short else "")
        else:
            said = {"timeout": "reached its time limit", "crash": "crashed", "error": "failed"}[answer["status"]]
            self._save(host, "failed", f"the survey {said}: {answer['message']}")
        return True

    def _take(self, event: tuple[float, dict[str, Any]]) -> None:
        """Take what a worker tells on its way."""
        _, message = event
        host = self._hosts.get(message["label"])
        if host is None or message["attempt"] != host.attempt or host.task is None or host.task.done():
            return
        if "started" in message:
            host.began = time.monotonic()
        elif "record" in message:
            host.record = json.loads(zlib.decompress(message["record"]))
            # Until it ends well this is an interrupted survey, which the next one does again.
            self._write(host, interrupted=True)
        elif "step" in message:
            self._tell(host.label, f"{message['device']}: {message['step']}", False)

    def _save(self, host: _Host, status: str, reason: str) -> None:
        """Note how a host has ended, and keep what there is of its record."""
        state = self.states[host.label]
        state.status, state.reason = status, _nameless(reason)
        if host.record is not None:
            self._write(host, interrupted=status != "done")
        self._folder.write_states(self.states)
        # The whole reason is in the list at the end.
        self._tell(host.label, "done" if status == "done" else f"{status}: {reason.partition(chr(10))[0]}", True)

    def _write(self, host: _Host, *, interrupted: bool) -> None:
        assert host.record is not None
        record = host.record if not interrupted else {**host.record, "partial": True, "interrupted": True}
        try:
            self._folder.write(host.label, records.text(record))
        except Error as error:
            self._error = self._error or error


def _unfit(worker: dict[str, Any]) -> str:
    """Why a worker cannot survey its host; empty where it can."""
    if not worker["portbar"]:
        python = f"its Python {worker['python']} cannot import portbar ({worker['why']})"
        return f"{python}: install portbar {__version__} there"
    if worker["portbar"] != __version__:
        return f"it has portbar {worker['portbar']}, this is {__version__}: install the same version on both"
    return ""


def _network_address(address: str) -> str:
    """The part of a worker's address that its host's other workers share."""
    found: str = import_module("distributed.comm.addressing").get_address_host(address)
    return found


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
        client = dask.Client(**_where(address), asynchronous=True, timeout=_CONNECT_S, set_as_default=False)
        await client
    except (OSError, TimeoutError, ValueError) as error:
        await _close(client)
        raise Error(
            f"no Dask scheduler answers at {address} ({error}): name the address that `dask scheduler` prints, its "
            "scheduler file, or `local`"
        ) from error
    try:
        yield client
    finally:
        await _close(client)


async def _close(client: Any) -> None:
    if client is not None:
        with suppress(Exception):
            await asyncio.wait_for(client.close(), 10.0)


def _where(address: str) -> dict[str, Any]:
    """What a client is told: an address, which may be the one that a scheduler's file holds.

    Raises
    ------
    Error
        The file is no scheduler file.
    """
    path = Path(address)
    if not path.is_file():
        return {"address": address}
    try:
        held = json.loads(path.read_text(encoding="utf-8"))["address"]
        if isinstance(held, str):
            return {"scheduler_file": address}
        why = "its address is no text"
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        why = f"{type(error).__name__}: {error}"
    raise Error(
        f"{address} is no scheduler file ({why}): name the file that `dask scheduler --scheduler-file` wrote, an address "
        "such as tcp://HOST:8786, or `local`"
    )
