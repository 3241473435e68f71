"""Litmus tests in child processes: a driver that aborts or hangs costs one test."""

from __future__ import annotations

import faulthandler
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any, Final

from portbar.choices import profile
from portbar.device import child
from portbar.device.addresses import DeviceAddress
from portbar.errors import Error
from portbar.records.reading import NO_TIME
from portbar.survey.litmus.results import blank

if TYPE_CHECKING:
    from portbar.survey.litmus.running import Runner

#: Seconds that a compiler may take, and a test beyond its share (at least, and as a part of the budget), before they count as
#: hanging.
_BUILD_S: Final = 15.0
_HANGING_S: Final = 5.0
_HANGING_PART: Final = 0.3
#: Part of the time that is set aside at least while another strategy is to be compiled.
_FOR_COMPILERS: Final = 0.4
#: Seconds that a test gets at least, if there is any time left when it begins.
_LEAST_SHARE_S: Final = 0.01
#: Seconds that an interpreter takes to start and to load every driver.
_START_S: Final = 1.2
#: How many times as long as usual a compiler may take at most where an interpreter starts slowly.
_MOST_PACE: Final = 10.0
#: From which each test is compiled alone, so that some are run in time.
_ALONE_PACE: Final = 4.0

Listener = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class LitmusJob:
    """One test with one strategy, and its part of the time."""

    atomics: str
    name: str
    weight: float


def run_tests(payload: dict[str, Any]) -> None:
    """Run tests and report each: what runs in the child."""
    import pyopencl as cl  # noqa: PLC0415 (the parent runs no kernels)

    from portbar.survey.litmus.running import TOGETHER, Runner, strategy_for  # noqa: PLC0415

    device = DeviceAddress.from_json(payload["address"]).resolve()
    # Kept by name: the effect CONTEXTS_LOST.
    context = cl.Context([device])
    queue = cl.CommandQueue(context, device)
    jobs = [LitmusJob(*job) for job in payload["jobs"]]
    runners: dict[str, Runner] = {}
    deadline = time.monotonic() + float(payload["seconds"])
    # A machine that starts processes slowly, a busy or an emulated one, compiles slowly.
    pace = min(_MOST_PACE, max(1.0, (time.time() - float(payload["began"])) / _START_S))
    build_s = pace * _build_s(float(payload["seconds"]))
    # The time that compilers took beyond the tests' shares: the same is reserved for each remaining test.
    beyond = 0.0
    for index, job in enumerate(jobs):
        began = time.monotonic()
        left = deadline - began
        if left <= 0:
            return
        aside = beyond / max(1, index) * (len(jobs) - index)
        if any(other.atomics not in runners for other in jobs[index + 1 :]):
            aside = max(aside, _FOR_COMPILERS * left)
        share = max(_LEAST_SHARE_S, (left - aside) * job.weight / sum(other.weight for other in jobs[index:]))
        child.progress({"begin": [job.atomics, job.name]})
        _limit("building", build_s)
        if job.atomics not in runners:
            runners[job.atomics] = Runner(
                queue,
                strategy_for(profile.describe(device), job.atomics),
                seed=int(payload["seed"]),
                names=[other.name for other in jobs if other.atomics == job.atomics],
                together=1 if payload["alone"] or pace >= _ALONE_PACE else TOGETHER,
            )
        runner = runners[job.atomics]
        # The run reports the driver's message.
        with suppress(Error):
            runner.build(job.name)
        _limit("running", share + max(_HANGING_S, min(build_s, _HANGING_PART * float(payload["seconds"]))))
        result = runner.run(job.name, share)
        faulthandler.cancel_dump_traceback_later()
        child.progress({"result": result})
        beyond += max(0.0, time.monotonic() - began - share)


def _build_s(seconds: float) -> float:
    """Seconds that a compiler may take where all tests have `seconds`."""
    return max(_BUILD_S, _HANGING_PART * seconds)


def _limit(phase: str, seconds: float) -> None:
    """Begin a phase of a test that must end in time."""
    child.progress({"phase": phase, "limit": seconds})
    # Ends the process even where a driver never returns to Python.
    faulthandler.dump_traceback_later(seconds, exit=True)


class _LitmusRun:
    """The tests that are left, and the results so far."""

    def __init__(
        self,
        address: DeviceAddress,
        jobs: Sequence[LitmusJob],
        seed: int,
        deadline: float,
        end: float,
        tell: Listener | None,
    ) -> None:
        self.jobs = list(jobs)
        self.results: list[dict[str, Any]] = []
        self._address, self._seed = address, seed
        self._deadline, self._end = deadline, end
        self._report = tell or (lambda _: None)
        #: Whether the next child should compile each test alone.
        self._alone = False
        self._begun = self._building = False
        self._phase = (0.0, 0.0)

    def begin(self) -> tuple[dict[str, Any], float] | None:
        seconds = self._deadline - time.monotonic() - _START_S
        if not self.jobs or seconds <= 0:
            return None
        self._begun = self._building = False
        self._phase = (0.0, 0.0)
        payload = {
            "address": self._address.to_json(),
            "jobs": [astuple(job) for job in self.jobs],
            "seed": self._seed,
            "seconds": seconds,
            "alone": self._alone,
            "began": time.time(),
        }
        return payload, min(seconds + _START_S + 2 * _build_s(seconds), self._end - time.monotonic())

    def take(self, message: dict[str, Any]) -> None:
        if "begin" in message:
            self._begun = True
        elif "phase" in message:
            self._building = message["phase"] == "building"
            self._phase = (time.monotonic(), float(message["limit"]))
        elif "result" in message:
            del self.jobs[0]
            self.results.append(message["result"])
            self._begun = False
        if "phase" not in message:
            self._report(message)

    def died(self, result: child.ChildResult) -> bool:
        """Blame the test that was under way."""
        if not self.jobs:
            return True
        if not self._begun:
            if result.status == "error":
                # It failed before the first test, and would do so again.
                self.give_up("error", result.message.splitlines()[0])
        elif self._building and not self._alone:
            # Several tests were compiled together, and each may be the one that the driver cannot take.
            self._alone = True
        else:
            since, limit = self._phase
            late = limit > 0 and time.monotonic() - since > 0.95 * limit
            if result.status == "timeout" and not late:
                # Less time was left than a test may take.
                self.give_up("skipped", NO_TIME)
                return True
            hung = result.status == "timeout" or (result.status == "crash" and late)
            message = result.message.splitlines()[0].partition("; last lines of")[0]
            status = "timeout" if hung else result.status if result.status == "error" else "crash"
            self._lose(status, "it did not end in time" if hung else message)
            self._report({"result": self.results[-1]})
        return True

    def give_up(self, status: str, why: str) -> None:
        """Let all tests that are left have this result."""
        while self.jobs:
            self._lose(status, why)

    def _lose(self, status: str, reason: str) -> None:
        """Let the first of the jobs that are left have this result."""
        job = self.jobs.pop(0)
        self.results.append(blank(job.name, job.atomics, self._seed) | {"status": status, "reason": reason})


def run_in_children(
    address: DeviceAddress,
    jobs: Sequence[LitmusJob],
    seed: int,
    deadline: float,
    on_progress: Listener | None,
    end: float = float("inf"),
) -> list[dict[str, Any]]:
    """Run all jobs and return their results, going on in a new child after one that died.

    Tests begin before `deadline`; at `end` even a child whose driver hangs is killed.
    """
    run = _LitmusRun(address, jobs, seed, deadline, end, on_progress)
    survived = child.run_steps("portbar.survey.litmus.children:run_tests", run)
    run.give_up(*(("skipped", NO_TIME) if survived else ("crash", "too many child processes died")))
    return run.results
