"""`check`: the litmus tests of a device within a time limit, and the verdict for each atomics strategy."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from portbar.choices import profile
from portbar.choices.strategy import ALTERNATIVES, DeviceProfile, choose
from portbar.device.addresses import address_of
from portbar.device.facts import facts, platform_title
from portbar.device.findings import Findings
from portbar.errors import Error, UnsupportedFeatureError
from portbar.records.scrubbing import anonymous
from portbar.survey.litmus.children import Listener, LitmusJob, run_in_children
from portbar.survey.litmus.patterns import PATTERNS
from portbar.survey.litmus.results import NAMES, is_lost, proves, verdict_of
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


@dataclass(frozen=True)
class CheckResult:
    """The results of the litmus tests of a device."""

    device: str
    platform: str
    seed: int
    #: Time asked for, and time taken.
    budget_s: float
    seconds: float
    #: The atomics strategy that portbar chose before, empty for none.
    chosen: str
    #: Whether every test was run, so that a pass means all of them.
    complete: bool
    #: Strategy -> `pass: ...`, `fail: ...` or `untested: ...`.
    verdicts: Mapping[str, str]
    #: One for each strategy and test: `test`, `description`, `scope`, `space`, `form`, `strategy`, `seed`, `status` (`pass`,
    #: `fail`, `skipped`, `unfinished`, `error`, `crash`, `timeout`), `reason`, `instances`, `launches`, `outcomes` and
    #: `forbidden` (outcome -> count), `interleaved`, `weak`, `seconds`.
    results: tuple[dict[str, Any], ...]

    @property
    def failed(self) -> bool:
        """Whether any outcome was forbidden."""
        return any(result["status"] == "fail" for result in self.results)

    def to_json(self) -> dict[str, Any]:
        """The result as JSON values, without host names or paths."""
        fields = {**vars(self), "seconds": round(self.seconds, 2)}
        name = fields.pop("device")
        value: dict[str, Any] = anonymous({"schema": SCHEMA, "format": FORMAT, "name": name} | fields)
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

    def job(atomics: str, name: str) -> LitmusJob:
        in_turns = takes_turns and not (TESTS.get(name) or PATTERNS[name]).across_groups
        return LitmusJob(atomics, name, (1.0 if atomics == wanted[0] else _OTHERS) * (_TURNS if in_turns else 1.0))

    jobs = [job(atomics, name) for atomics in wanted for name in names]
    end = float("inf") if limit is None else start + max(limit, seconds)
    results = run_in_children(address, jobs, seed, start + seconds, on_progress, end)
    return result_of(
        device,
        results,
        seed=seed,
        budget_s=seconds,
        seconds=time.monotonic() - start,
        chosen=there[0] if there else "",
        partial="" if tests is None else "only some tests were requested",
    )


def result_of(device: cl.Device, results: Sequence[dict[str, Any]], *, partial: str, **about: Any) -> CheckResult:
    """Return what these results add up to; `partial` says why they are not all, if so, as for `verdict_of`."""
    reported = facts(device)
    by_strategy: dict[str, list[dict[str, Any]]] = {}
    for result in results:
        by_strategy.setdefault(result["strategy"], []).append(result)
    return CheckResult(
        device=reported.name,
        platform=platform_title(reported),
        results=tuple(results),
        verdicts={name: verdict_of(found, partial) for name, found in by_strategy.items()},
        complete=not partial and not any(map(is_lost, results)),
        **about,
    )


def store_verdicts(device: cl.Device, verdicts: Mapping[str, str]) -> Findings:
    """Put verdicts into the cached findings of a device, so that portbar chooses by them from then on.

    A strategy that failed once stays rejected: a later pass does not replace a failure. Verdicts that are neither are left out.
    `Error` if the device was never probed on this machine, so it has no findings to add the verdicts to.
    """

    def added(found: Findings) -> Findings:
        litmus = dict(found.litmus)
        for name, verdict in verdicts.items():
            if name not in ALTERNATIVES["atomics"] or not proves(verdict):
                continue
            if verdict.startswith("fail") or not litmus.get(name, "").startswith("fail"):
                litmus[name] = verdict
        return replace(found, litmus=litmus)

    return profile.change_findings(device, "verdicts", added)
