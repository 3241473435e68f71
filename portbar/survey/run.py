"""Runs the survey: one device after the other, each step in a child process with a time limit, into one record."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from portbar import __version__
from portbar.choices.profile import change_findings, describe, stored_findings
from portbar.choices.strategy import choose
from portbar.device import quirks
from portbar.device.addresses import DeviceAddress
from portbar.device.facts import DeviceFacts, facts
from portbar.device.findings import TIMED_OUT
from portbar.device.usable import Usability, check, with_alternative
from portbar.errors import DeviceError, Error, UnsupportedFeatureError
from portbar.records.mending import mended
from portbar.records.reading import NO_TIME
from portbar.records.scrubbing import anonymous
from portbar.records.validation import FORMAT, SCHEMA
from portbar.survey.device import Device
from portbar.survey.environment import environment
from portbar.survey.measuring.probe import probe_with_faults
from portbar.survey.probe_rows import probe_rows, settled_findings
from portbar.survey.steps import STEPS, in_turn
from portbar.survey.steps.step import LIMIT_S, START_S, Running, Step

if TYPE_CHECKING:
    import pyopencl as cl

#: Seconds per device that a quick survey may take; unused time of one device is shared among the next.
QUICK_S: Final = 10.0
#: Seconds that one device may take in all, unless the user says otherwise. More lengthens each step in proportion.
USUAL_S: Final = 120.0
#: Seconds that the check that a device works may take, and the part of a longer time limit.
_CHECK_S: Final = 20.0
_CHECK_PART: Final = 1 / 6
#: The part of a device's time that a driver which hangs in the probe may take, where results are worth more.
_PROBE_PART: Final = 1 / 3
#: How many times the usual time a step may take in a survey to be sent in, whose reader cannot ask for another one.
SHARED: Final = 2.0
#: Least seconds that a step is given to measure in.
LEAST_S: Final = 0.5
#: Seconds beyond the time of a device after which even a step whose driver hangs is ended.
GRACE_S: Final = 5.0

#: Names that a reason is followed by at most.
_MOST_NAMES: Final = 4

INTERRUPTED: Final = "stopped by Ctrl-C"

#: Called with a device's name, its current step, and the seconds that the step may take, or None.
Listener = Callable[[str, str, float | None], None]


@dataclass(frozen=True)
class Job:
    """The options of a survey.

    A quick one has fewer cells and runs, believes earlier probes, and shares out a time budget. One to `share` has all steps,
    and its limit is that of all devices together.
    """

    quick: bool = False
    #: Seconds that one device may take in all.
    timeout: float = USUAL_S
    #: The user's patterns to choose devices by.
    devices: Sequence[str] = ()
    share: bool = False

    @property
    def pace(self) -> float:
        """Return how many times as long as usual a step may take: a longer limit says that the device is slow."""
        return 1.0 if self.quick else max(1.0, self.timeout / USUAL_S)

    @property
    def limit_s(self) -> float:
        """Return the seconds that a host may take in all; at least half an hour for a full survey."""
        return 600.0 if self.quick else max(1800.0, 30 * self.timeout)

    @property
    def invocation(self) -> dict[str, Any]:
        """Return a record's description of how this survey was made."""
        return {"quick": self.quick, "timeout_s": self.timeout, "devices": list(self.devices)}


@dataclass
class Survey:
    """A survey under way: the record grows as steps finish, so that an interrupted one is a partial record."""

    job: Job = field(default_factory=Job)
    on_step: Listener | None = None
    #: Seed of the litmus tests.
    seed: int = field(default_factory=lambda: random.SystemRandom().randrange(1 << 31))
    #: Drivers whose devices could not be listed, and why; a record of them alone is one, too.
    unlisted: Sequence[str] = ()
    #: When the time limit of all devices began, by `time.monotonic`.
    started: float = field(default_factory=time.monotonic)
    _record: dict[str, Any] = field(default_factory=dict)

    @property
    def record(self) -> dict[str, Any]:
        """The record so far, valid: without host names and paths, and with drivers' words as the format allows them."""
        return mended(anonymous(self._record))

    def run(self, devices: Sequence[tuple[DeviceAddress, cl.Device]]) -> dict[str, Any]:
        """Survey these devices; on Ctrl-C the record so far is returned, marked partial.

        `DeviceError` if there is no device at all.
        """
        if not (devices or self.unlisted):
            raise DeviceError(
                'no OpenCL device was found: install a CPU runtime with `pip install "portbar[cpu]"`, or the OpenCL '
                "driver of your device; `portbar doctor` lists the devices of this machine"
            )
        job, surveyed = self.job, [_Device(self, address, device, len(devices)) for address, device in devices]
        self._record = {
            "schema": SCHEMA,
            "format": FORMAT,
            "kind": "measured",
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": 0.0,
            "seed": self.seed,
            "portbar": {"version": __version__},
            "invocation": {"command": "survey --share" if self.job.share else "survey", **self.job.invocation},
            "environment": environment(),
            "partial": True,
            "interrupted": False,
            "devices": [one.entry for one in surveyed],
        }
        if self.unlisted:
            self._record["unlisted"] = list(self.unlisted)
        started = self.started if self.job.share else time.monotonic()
        try:
            for one in surveyed:
                one.check()
            checked = [(one.address, one.facts, one.verdict) for one in surveyed if one.verdict is not None]
            for one in surveyed:
                one.name_alternative(checked)
            waiting = [one for one in surveyed if one.entry["status"] == "waiting"]
            for index, one in enumerate(waiting):
                whole = job.timeout if job.share else QUICK_S * max(5, len(devices))
                part = (whole - (time.monotonic() - started)) / (len(waiting) - index)
                one.survey(part if job.share else min(job.timeout, part) if job.quick else job.timeout)
                self._record["seconds"] = round(time.monotonic() - started, 2)
        except KeyboardInterrupt:
            self._record["interrupted"] = True
        unfinished = any(
            entry["status"] not in {"complete", "unusable", "refused"} for entry in self._record["devices"]
        )
        self._record["partial"] = self._record["interrupted"] or unfinished
        self._record["seconds"] = round(time.monotonic() - started, 2)
        return self.record


def lost_text(lost: Mapping[str, str]) -> str:
    """The measurements that a probe did not make and why, the names of some where one reason holds for many."""
    by_reason: dict[str, list[str]] = {}
    for name, why in lost.items():
        by_reason.setdefault(why, []).append(name)
    return "; ".join(
        f"{name}: {why}" if len(names) <= _MOST_NAMES else f"{len(names)} measurements, such as {names[0]}: {why}"
        for why, names in by_reason.items()
        for name in (names if len(names) <= _MOST_NAMES else names[:1])
    )


class _Device:
    """One device of a survey, and its entry in the record."""

    def __init__(self, survey: Survey, address: DeviceAddress, device: cl.Device, count: int) -> None:
        self._survey, self._job = survey, survey.job
        self.address = address
        self.facts = facts(device)
        self.verdict: Usability | None = None
        self._device = device
        #: Seconds that it may take, unless those of other devices are left.
        self._limit_s = survey.job.timeout / count if survey.job.share else survey.job.timeout
        self.entry: dict[str, Any] = {
            "address": address.to_json(),
            "facts": self.facts.to_json(),
            "status": "waiting",
            "seconds": 0.0,
            "quirks": [
                {"name": quirk.name, "fault": quirk.fault, "workaround": quirk.workaround}
                for quirk in quirks.matching(self.facts)
            ],
        }

    def _report(self, step: str, seconds: float | None = None) -> None:
        if self._survey.on_step is not None:
            self._survey.on_step(Device(self.entry).title, step, seconds)

    def check(self) -> None:
        """See whether the device works, so that the time of those that do not goes to those that do."""
        started = time.monotonic()
        self._report("checking that it works", 1.0)
        try:
            limit = min(max(_CHECK_S, _CHECK_PART * self._limit_s), self._limit_s)
            verdict = check(self.address, limit, at_most=self._limit_s, refresh=not self._job.quick)
        except Error as error:
            self.entry |= {"status": "failed", "reason": str(error)}
            return
        if not verdict.measured:
            seconds, words = round(time.monotonic() - started, 2), f"{verdict.reason}; {verdict.remedy}"
            self.entry["probe"] = {"status": "timeout", "reason": verdict.reason, "seconds": seconds, "rows": []}
            self.entry |= {"status": "failed", "reason": words, "seconds": seconds}
            return
        self.verdict = verdict
        self.entry["usable"] = {"usable": verdict.usable, "reason": verdict.reason, "remedy": verdict.remedy}
        self.entry["seconds"] = round(time.monotonic() - started, 2)
        if not verdict.usable:
            self.entry["status"] = "unusable"

    def name_alternative(self, checked: Sequence[tuple[DeviceAddress, DeviceFacts, Usability]]) -> None:
        """Let the remedy of a runtime that cannot work name a device of the same processor that does."""
        if self.verdict is not None and "usable" in self.entry:
            self.entry["usable"]["remedy"] = with_alternative(self.verdict, checked).remedy

    def survey(self, seconds: float) -> None:
        """Measure everything in about `seconds`; whatever goes wrong stays in this device's entry."""
        started = time.monotonic()
        before = self.entry["seconds"]
        self.entry["status"] = "partial"
        # The user's limit, if a quick survey allows less; the check that the device works counts.
        end = started + (seconds if self._job.share else self._job.timeout - before) + GRACE_S
        try:
            self._measure(min(started + seconds, end - GRACE_S), end)
        except Error as error:
            self.entry |= {"status": "failed", "reason": str(error)}
        finally:
            self.entry["seconds"] = round(before + time.monotonic() - started, 2)
            for step in STEPS:
                if step.name in self.entry:
                    step.complete(self.entry[step.name])

    def _measure(self, deadline: float, end: float) -> None:
        self._probe(deadline, end)
        # Litmus tests may show what the device does not claim, so a refusal is final only after them.
        if not self._choose() and self._job.quick:
            return
        well, quick, refused = True, self._job.quick, False
        steps = in_turn(quick=quick, share=self._job.share)
        for index, step in enumerate(steps):
            if refused and not step.of_refused:
                continue
            starts = 1 + sum(other.informative for other in steps[index + 1 :])
            left = deadline - time.monotonic() - START_S * starts
            turn = step.turn(quick=quick)
            share = turn.weight / sum(other.turn(quick=quick).weight for other in steps[index:])
            # On a slow machine even the check that the device works, which does next to nothing, takes longer.
            least = max(START_S + LEAST_S, self.verdict.seconds if self.verdict is not None else 0.0)
            spent = (end if step.informative else deadline) - time.monotonic() < least
            most = turn.most_s * (SHARED if self._job.share else self._job.pace)
            well &= self._step(step, min(most, max(LEAST_S, left * share)), end, spent=spent)
            if step.keep(self._device, self.entry, quick=quick):
                refused = not self._choose()
        if not refused:
            self.entry["status"] = "complete" if well else "partial"

    def _probe(self, deadline: float, end: float) -> None:
        start = time.monotonic()
        self.entry["probe"] = {"status": "interrupted", "reason": INTERRUPTED, "seconds": 0.0, "rows": []}
        # A probe that is cut short leaves the strategy unknown: in a quick survey it may use up the device's time.
        part = _PROBE_PART if self._job.share else 1.0
        limit = min(max(10.0, part * (deadline - start)), max(1.0, end - start))
        self._report("probing progress, ordering and loops", min(limit, 6.0))
        before = stored_findings(self.facts)
        profile, faults = probe_with_faults(self._device, timeout=limit, refresh=not self._job.quick)
        found = profile.findings
        if found is not None and before is not None and settled_findings(before, found) != found:
            found = change_findings(self._device, "earlier ones", partial(settled_findings, before))
        self.entry["probe"] = {
            "status": "ok" if found is not None and not found.lost else "partial",
            "seconds": round(time.monotonic() - start, 2),
            "rows": probe_rows(found) if found is not None else [],
        }
        if found is not None and found.lost:
            self.entry["probe"]["reason"] = lost_text(found.lost)
        if faults:
            status = "timeout" if set(faults.values()) == {TIMED_OUT} else "crash"
            self.entry["probe"] |= {"status": status, "reason": "; ".join(map(": ".join, faults.items()))}

    def _choose(self) -> bool:
        """Put the strategy into the entry, from the findings as they are now. False where portbar refuses the device."""
        profile = describe(self._device)
        self.entry["findings"] = profile.findings.to_json() if profile.findings is not None else None
        try:
            strategy = choose(profile)
        except UnsupportedFeatureError as error:
            self.entry |= {"reason": str(error), "status": "refused"}
            self.entry.pop("strategy", None)
            return False
        if self.entry["status"] == "refused":
            self.entry["status"] = "partial"
            del self.entry["reason"]
        self.entry["strategy"] = {
            name: {"value": value, "reason": reason} for name, (value, reason) in strategy.reasons().items()
        }
        return True

    def _step(self, step: Step, budget: float, end: float, *, spent: bool) -> bool:
        """Run one step in about `budget` seconds, unless its time is spent; at `end` it is killed.

        Its rows go into the entry as they come. False when it did not end well.
        """
        part: dict[str, Any] = {"status": "interrupted", "reason": INTERRUPTED, "seconds": 0.0, "rows": []}
        self.entry[step.name] = part
        if spent:
            part |= {"status": "skipped", "reason": NO_TIME}
            return False
        self._report(step.doing, START_S + min(budget, step.typical_s))
        start = time.monotonic()
        try:
            # One that hangs leaves time for the others, where each is worth something by itself.
            limit = min(end - start, 2 * budget + LIMIT_S[False]) if self._job.share else end - start
            running = Running(self._device, self.entry, self._survey.seed, self._job.quick, budget, limit, self._report)
            outcome = step.run(running)
        except Error as error:
            outcome = {"status": "error", "reason": str(error)}
        finally:
            part["seconds"] = round(time.monotonic() - start, 2)
        part |= outcome
        if outcome["status"] == "ok":
            del part["reason"]
        return bool(outcome["status"] == "ok")
