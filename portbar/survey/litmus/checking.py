"""`check`: the litmus tests of a device in child processes, within a time limit, and the verdict for each atomics strategy.

A driver that aborts or hangs costs one test.
"""

from __future__ import annotations

import faulthandler
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from portbar.choices import profile
from portbar.choices.strategy import ALTERNATIVES, DeviceProfile, choose
from portbar.device import child
from portbar.device.facts import DeviceAddress, address_of, facts
from portbar.device.findings import Findings
from portbar.errors import Error, UnsupportedFeatureError
from portbar.records.scrubbing import anonymous
from portbar.survey.litmus.results import NAMES, NO_TIME, blank, is_lost, verdict_of
from portbar.survey.litmus.tests import TESTS, matching
from portbar.survey.measuring.probe import probe

if TYPE_CHECKING:
    import pyopencl as cl

SCHEMA: Final = "portbar-check"
FORMAT: Final = 1

#: Time of a test with a strategy that was not chosen, as a part of that with the chosen one.
_OTHERS: Final = 0.4
#: The same of a test within a work-group whose work-items run one after the other, so that there is little to find.
_TURNS: Final = 0.3

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

Listener = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class CheckResult:
    """The results of the litmus tests of a device.

    Attributes
    ----------
    device, platform : str
    seed : int
    budget_s, seconds : float
        Time asked for, and time taken.
    chosen : str
        The atomics strategy that portbar chose before, empty for none.
    results : tuple of dict
        One for each strategy and test: `test`, `description`, `scope`, `space`, `form`, `strategy`, `seed`, `status` (`pass`,
        `fail`, `skipped`, `unfinished`, `error`, `crash`, `timeout`), `reason`, `instances`, `launches`, `outcomes` and
        `forbidden` (outcome -> count), `interleaved`, `weak`, `seconds`.
    verdicts : mapping of str to str
        Strategy -> `pass: ...`, `fail: ...` or `untested: ...`.
    complete : bool
        Whether every test was run, so that a pass means all of them.
    """

    device: str
    platform: str
    seed: int
    budget_s: float
    seconds: float
    chosen: str
    results: tuple[dict[str, Any], ...]
    verdicts: Mapping[str, str] = field(default_factory=dict)
    complete: bool = True

    @property
    def failed(self) -> bool:
        """Whether any outcome was forbidden."""
        return any(result["status"] == "fail" for result in self.results)

    def to_json(self) -> dict[str, Any]:
        """The result as JSON values, without host names or paths."""
        value: dict[str, Any] = anonymous(
            {
                "schema": SCHEMA,
                "format": FORMAT,
                "name": self.device,
                "platform": self.platform,
                "seed": self.seed,
                "budget_s": self.budget_s,
                "seconds": round(self.seconds, 2),
                "chosen": self.chosen,
                "complete": self.complete,
                "verdicts": dict(self.verdicts),
                "results": [dict(result) for result in self.results],
            }
        )
        return value


def strategies_of(known: DeviceProfile) -> tuple[str, ...]:
    """Atomics strategies that build on a device, the one that portbar chooses first."""
    builds = known.findings.builds if known.findings is not None else {}
    names = [
        name
        for name in ALTERNATIVES["atomics"]
        if any(works and (step == name or step.startswith(f"{name}@")) for step, works in builds.items())
    ]
    try:
        first = choose(known).atomics.value
    except UnsupportedFeatureError:
        return tuple(names)
    return (first, *(name for name in names if name != first))


def check(
    device: cl.Device,
    *,
    seconds: float,
    seed: int | None = None,
    strategies: Sequence[str] | None = None,
    tests: Sequence[str] | None = None,
    on_progress: Listener | None = None,
    limit: float | None = None,
) -> CheckResult:
    """Run litmus tests on a device, in child processes only.

    Parameters
    ----------
    device : pyopencl.Device
        A device that a platform lists. If it was never probed it is probed first, which counts.
    seconds : float
        Time for everything, compilation included. Tests without time left are skipped and reported as such.
    seed : int, optional
        Seed of locations, permutations and stress; random by default.
    strategies : sequence of str, optional
        Atomics strategies; by default all that build on the device, the chosen one with more time than the others.
    tests : sequence of str, optional
        Names or patterns of tests, as for `portbar.survey.litmus.tests.matching`; all by default.
    on_progress : callable, optional
        Called with each `{"begin": [strategy, test]}` and each `{"result": {...}}`.
    limit : float, optional
        Seconds after which the tests are ended even where a driver hangs; by default half a minute more than `seconds`.

    Returns
    -------
    CheckResult
        `store_verdicts` keeps its verdicts, so that portbar chooses by them.

    Raises
    ------
    DeviceError
        No platform lists the device.
    Error
        A pattern matches no test, or a strategy does not exist or does not build on the device.
    """
    start = time.monotonic()
    names = matching(NAMES, tests)
    seed = random.SystemRandom().randrange(1 << 31) if seed is None else seed
    reported = facts(device)
    address = address_of(device)
    known = probe(device, timeout=max(10.0, seconds))
    there = strategies_of(known)
    for name in strategies or ():
        if name not in ALTERNATIVES["atomics"]:
            raise Error(f"unknown atomics strategy {name!r}; strategies: {', '.join(ALTERNATIVES['atomics'])}")
        if name not in there:
            raise Error(f"atomics strategy {name} does not build on {reported.name}; {', '.join(there) or 'none'} does")
    wanted = tuple(strategies) if strategies is not None else there
    takes_turns = known.findings is not None and known.findings.progress.get("sub_groups") == "none"
    jobs = [
        Job(
            atomics,
            name,
            (1.0 if atomics == wanted[0] else _OTHERS)
            * (_TURNS if takes_turns and name in TESTS and not TESTS[name].across_groups else 1.0),
        )
        for atomics in wanted
        for name in names
    ]
    end = float("inf") if limit is None else start + max(limit, seconds)
    results = run_in_children(address, jobs, seed, start + seconds, on_progress, end)
    by_strategy = {name: [result for job, result in results if job.atomics == name] for name in wanted}
    complete = tests is None and all(not is_lost(result) for _, result in results)
    return CheckResult(
        device=reported.name,
        platform=f"{reported.platform_name} {reported.platform_version.partition(',')[0]}".strip(),
        seed=seed,
        budget_s=seconds,
        seconds=time.monotonic() - start,
        chosen=there[0] if there else "",
        results=tuple(result for _, result in results),
        verdicts={label: verdict_of(found, all_tests=tests is None) for label, found in by_strategy.items()},
        complete=complete,
    )


def store_verdicts(device: cl.Device, verdicts: Mapping[str, str]) -> Findings:
    """Put verdicts into the cached findings of a device, so that portbar chooses by them from then on.

    A strategy that failed once stays rejected: a later pass does not replace a failure. Verdicts that are
    neither are left out.

    Raises
    ------
    Error
        The device was never probed on this machine, so it has no findings to add the verdicts to.
    """

    def added(found: Findings) -> Findings:
        litmus = dict(found.litmus)
        for name, verdict in verdicts.items():
            if name not in ALTERNATIVES["atomics"]:
                continue
            kind = verdict.partition(":")[0]
            if kind == "fail" or (kind == "pass" and not litmus.get(name, "").startswith("fail")):
                litmus[name] = verdict
        return replace(found, litmus=litmus)

    return profile.change_findings(device, "verdicts", added)


@dataclass(frozen=True)
class Job:
    """One test with one strategy, and its part of the time."""

    atomics: str
    name: str
    weight: float


def check_task(payload: dict[str, Any]) -> None:
    """Run tests and report each: the child's side of `check`."""
    import pyopencl as cl  # noqa: PLC0415 (the parent runs no kernels)

    from portbar.survey.litmus.running import TOGETHER, Runner, strategy_for  # noqa: PLC0415

    device = DeviceAddress.from_json(payload["address"]).resolve()
    # Kept by name: the effect CONTEXTS_LOST.
    context = cl.Context([device])
    queue = cl.CommandQueue(context, device)
    jobs = [Job(*job) for job in payload["jobs"]]
    runners: dict[str, Runner] = {}
    deadline = time.monotonic() + float(payload["seconds"])
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
        _limit("building", _BUILD_S)
        if job.atomics not in runners:
            runners[job.atomics] = Runner(
                queue,
                strategy_for(profile.describe(device), job.atomics),
                seed=int(payload["seed"]),
                names=[other.name for other in jobs if other.atomics == job.atomics],
                together=1 if payload["alone"] else TOGETHER,
            )
        runner = runners[job.atomics]
        if not runner.is_built(job.name):
            # The run reports the driver's message.
            with suppress(Error):
                runner.build(job.name)
        _limit("running", share + max(_HANGING_S, min(_BUILD_S, _HANGING_PART * float(payload["seconds"]))))
        result = runner.run(job.name, share)
        faulthandler.cancel_dump_traceback_later()
        child.progress({"result": result})
        beyond += max(0.0, time.monotonic() - began - share)


def _limit(phase: str, seconds: float) -> None:
    """Begin a phase of a test that must end in time."""
    child.progress({"phase": phase, "limit": seconds})
    # Ends the process even where a driver never returns to Python.
    faulthandler.dump_traceback_later(seconds, exit=True)


class _Run:
    """The tests that are left, and the results so far."""

    def __init__(
        self, address: DeviceAddress, jobs: Sequence[Job], seed: int, deadline: float, end: float, tell: Listener | None
    ) -> None:
        self.jobs = list(jobs)
        self.results: list[tuple[Job, dict[str, Any]]] = []
        self._address, self._seed = address, seed
        self._deadline, self._end = deadline, end
        self._report = tell or (lambda _: None)
        #: Whether the next child should compile each test alone.
        self._alone = False
        self._begun = self._building = False
        self._phase = (0.0, 0.0)

    def begin(self) -> tuple[dict[str, Any], float] | None:
        """Go on where the last child stopped."""
        seconds = self._deadline - time.monotonic() - _START_S
        if not self.jobs or seconds <= 0:
            return None
        self._begun = self._building = False
        self._phase = (0.0, 0.0)
        payload = {
            "address": self._address.to_json(),
            "jobs": [[job.atomics, job.name, job.weight] for job in self.jobs],
            "seed": self._seed,
            "seconds": seconds,
            "alone": self._alone,
        }
        return payload, min(seconds + _START_S + 2 * _BUILD_S, self._end - time.monotonic())

    def take(self, message: dict[str, Any]) -> None:
        """Take in one report."""
        if "begin" in message:
            self._begun = True
        elif "phase" in message:
            self._building = message["phase"] == "building"
            self._phase = (time.monotonic(), float(message["limit"]))
        elif "result" in message:
            self._add(message["result"])
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
            hung = result.status == "timeout" or (result.status == "crash" and self._hung)
            message = result.message.splitlines()[0].partition("; last lines of")[0]
            status = "timeout" if hung else result.status if result.status == "error" else "crash"
            self._add(self._lost(status, "it did not end in time" if hung else message))
            self._report({"result": self.results[-1][1]})
        return True

    def give_up(self, status: str, why: str) -> None:
        """Let all tests that are left have this result."""
        while self.jobs:
            self._add(self._lost(status, why))

    @property
    def _hung(self) -> bool:
        """Whether the test under way has reached its limit."""
        since, limit = self._phase
        return limit > 0 and time.monotonic() - since > 0.95 * limit

    def _add(self, result: dict[str, Any]) -> None:
        """The result of the first of the jobs that are left."""
        self.results.append((self.jobs.pop(0), result))

    def _lost(self, status: str, reason: str) -> dict[str, Any]:
        job = self.jobs[0]
        return {**blank(job.name, job.atomics, self._seed), "status": status, "reason": reason}


def run_in_children(
    address: DeviceAddress,
    jobs: Sequence[Job],
    seed: int,
    deadline: float,
    on_progress: Listener | None,
    end: float = float("inf"),
) -> list[tuple[Job, dict[str, Any]]]:
    """Run all jobs, going on in a new child after one that died; at `end` even one whose driver hangs is killed."""
    run = _Run(address, jobs, seed, deadline, end, on_progress)
    survived = child.run_steps("portbar.survey.litmus.checking:check_task", run)
    run.give_up(*(("skipped", NO_TIME) if survived else ("crash", "too many child processes died")))
    return run.results
