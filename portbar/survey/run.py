"""Runs the survey: one device after the other, each step in a child process with a time limit, into one record.

Not for measuring (the tasks below, `portbar.measuring.probe`) and not for showing (`portbar.survey.table`).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from portbar._version import __version__
from portbar.choices.profile import change_findings, describe, forget, stored_findings
from portbar.choices.strategy import choose
from portbar.device import child, quirks
from portbar.device.facts import DeviceAddress, DeviceFacts, facts
from portbar.device.usable import Usability, check, with_alternative
from portbar.errors import DeviceError, Error, UnsupportedFeatureError
from portbar.measuring.benching import store_table
from portbar.measuring.probe import probe_telling
from portbar.measuring.rounds import NO_TIME
from portbar.records.scrubbing import anonymous, mended
from portbar.survey.digest import complete, probe_rows
from portbar.survey.environment import environment
from portbar.survey.litmus import LitmusRun
from portbar.survey.plan import GRACE_S, LEAST_S, LIMIT_S, QUICK_S, START_S, TELLING, TYPICAL_S, steps_of
from portbar.survey.steady import settled_findings, settled_table, times_of, unsteady

if TYPE_CHECKING:
    import pyopencl as cl

__all__ = ["FORMAT", "SCHEMA", "TASKS", "Listener", "Survey", "run_step", "times_of", "unsteady"]

SCHEMA: Final = "portbar-record"
FORMAT: Final = 2

#: What measures each step in a child process; the litmus tests have children of their own.
TASKS: Final = {
    "occupancy": "portbar.survey.cells:occupancy_task",
    "barrier": "portbar.survey.cells:barrier_task",
    "split_barrier": "portbar.survey.split_barrier:split_barrier_task",
    "reduction": "portbar.survey.reduction:reduction_task",
    "atomics": "portbar.survey.atomics:atomics_task",
}

#: What is said of steps while they run.
_DOING: Final = {
    "litmus": "running litmus tests",
    "occupancy": "measuring occupancy",
    "barrier": "measuring barriers between work-groups",
    "split_barrier": "measuring split barriers",
    "reduction": "measuring reductions",
    "atomics": "trying atomic operations",
}

INTERRUPTED: Final = "stopped by Ctrl-C"

#: Device, what is done with it now, and the seconds that this may take, or None.
Listener = Callable[[str, str, float | None], None]


@dataclass
class Survey:
    """A survey under way: the record grows as steps finish, so that an interrupted one is a partial record.

    Parameters
    ----------
    quick : bool
        Fewer cells and runs, and a time budget for all devices together; findings of earlier probes are believed.
    timeout : float
        Seconds that one device may take in all.
    on_step : callable, optional
        Called with a device's name, what is done with it now, and the seconds that this may take, or None.
    seed : int, optional
        What the litmus tests draw from; drawn itself by default.
    selectors : sequence of str
        What the user chose devices by, for the record.
    """

    quick: bool = False
    timeout: float = 120.0
    on_step: Listener | None = None
    seed: int = field(default_factory=lambda: random.SystemRandom().randrange(1 << 31))
    selectors: Sequence[str] = ()
    _record: dict[str, Any] = field(default_factory=dict)

    @property
    def record(self) -> dict[str, Any]:
        """The record so far, valid: without host names and paths, and with drivers' words as the format allows them."""
        return mended(anonymous(self._record))

    def run(self, devices: Sequence[tuple[DeviceAddress, cl.Device]]) -> dict[str, Any]:
        """Survey these devices; on Ctrl-C the record so far is returned, marked partial.

        Raises
        ------
        DeviceError
            There is no device at all.
        """
        if not devices:
            raise DeviceError(
                'no OpenCL device was found: install a CPU runtime with `pip install "portbar[cpu]"`, or the OpenCL '
                "driver of your device; `portbar doctor` says what there is"
            )
        surveyed = [_Device(self, address, device) for address, device in devices]
        self._record = {
            "schema": SCHEMA,
            "format": FORMAT,
            "kind": "measured",
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": 0.0,
            "seed": self.seed,
            "portbar": {"version": __version__},
            "invocation": {
                "command": "survey",
                "quick": self.quick,
                "timeout_s": self.timeout,
                "devices": list(self.selectors),
            },
            "environment": environment(),
            "partial": True,
            "interrupted": False,
            "devices": [one.entry for one in surveyed],
        }
        started = time.monotonic()
        try:
            for one in surveyed:
                one.check()
            checked = [(one.address, one.facts, one.verdict) for one in surveyed if one.verdict is not None]
            for one in surveyed:
                one.name_alternative(checked)
            waiting = [one for one in surveyed if one.entry["status"] == "waiting"]
            for index, one in enumerate(waiting):
                pool = QUICK_S * max(5, len(devices)) - (time.monotonic() - started)
                one.survey(min(self.timeout, pool / (len(waiting) - index)) if self.quick else self.timeout)
                self._record["seconds"] = round(time.monotonic() - started, 2)
        except KeyboardInterrupt:
            self._record["interrupted"] = True
        unfinished = any(
            entry["status"] not in {"complete", "unusable", "refused"} for entry in self._record["devices"]
        )
        self._record["partial"] = self._record["interrupted"] or unfinished
        self._record["seconds"] = round(time.monotonic() - started, 2)
        return self.record


class _Device:
    """One device of a survey, and its entry in the record."""

    def __init__(self, survey: Survey, address: DeviceAddress, device: cl.Device) -> None:
        self._survey = survey
        self.address = address
        self.facts = facts(device)
        self.verdict: Usability | None = None
        self._device = device
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

    def _tell(self, step: str, seconds: float | None = None) -> None:
        if self._survey.on_step is not None:
            where, of = self.address, self.entry["facts"]
            platform_version = where.platform_version.partition(",")[0]
            name = (
                f"{where.platform_index}:{where.device_index} {of['name']} ({where.platform_name}, {platform_version})"
            )
            self._survey.on_step(name, step, seconds)

    def check(self) -> None:
        """See whether the device works, so that the time of those that do not goes to those that do."""
        started = time.monotonic()
        self._tell("checking that it works", 1.0)
        try:
            verdict = check(self.address, min(20.0, self._survey.timeout), refresh=not self._survey.quick)
        except Error as error:
            self.entry |= {"status": "failed", "reason": str(error)}
            return
        self.verdict = verdict
        self.entry["usable"] = {"usable": verdict.usable, "reason": verdict.reason, "remedy": verdict.remedy}
        self.entry["seconds"] = round(time.monotonic() - started, 2)
        if not verdict.usable:
            self.entry["status"] = "unusable"

    def name_alternative(self, checked: Sequence[tuple[DeviceAddress, DeviceFacts, Usability]]) -> None:
        """Let the remedy of a runtime that cannot work name a device of the same processor that does."""
        if self.verdict is not None:
            self.entry["usable"]["remedy"] = with_alternative(self.verdict, checked).remedy

    def survey(self, seconds: float) -> None:
        """Measure everything in about `seconds`; whatever goes wrong stays in this device's entry."""
        started = time.monotonic()
        before = self.entry["seconds"]
        self.entry["status"] = "partial"
        # What the user allows, where a quick survey allows less; the check that the device works counts.
        end = started - before + self._survey.timeout + GRACE_S
        try:
            self._measure(min(started + seconds, end - GRACE_S), end)
        except Error as error:
            self.entry |= {"status": "failed", "reason": str(error)}
        finally:
            self.entry["seconds"] = round(before + time.monotonic() - started, 2)
            complete(self.entry)

    def _measure(self, deadline: float, end: float) -> None:
        self._probe(deadline, end)
        # Litmus tests may show what the device does not claim, so a refusal is final only after them.
        if not self._choose() and self._survey.quick:
            return
        well = True
        steps = steps_of(quick=self._survey.quick)
        for index, (name, weight, most) in enumerate(steps):
            starts = 1 + sum(other in TELLING for other, _, _ in steps[index + 1 :])
            left = deadline - time.monotonic() - START_S * starts
            share = weight / sum(other for _, other, _ in steps[index:])
            spent = (end if name in TELLING else deadline) - time.monotonic() < START_S + LEAST_S
            well &= self._step(name, min(most, max(LEAST_S, left * share)), end, spent=spent)
            changed = name == "litmus" or (name == "barrier" and self._keep_table())
            if changed and not self._choose():
                return
        self.entry["status"] = "complete" if well else "partial"

    def _probe(self, deadline: float, end: float) -> None:
        start = time.monotonic()
        self.entry["probe"] = {"status": "interrupted", "reason": INTERRUPTED, "seconds": 0.0, "rows": []}
        # A probe that is cut short leaves the strategy unknown: in a quick survey it may use up the device's time.
        limit = min(max(10.0, deadline - start), max(1.0, end - start))
        self._tell("probing progress, ordering and loops", min(limit, 6.0))
        before = stored_findings(self.facts)
        profile, crashes = probe_telling(self._device, timeout=limit, refresh=not self._survey.quick)
        found = profile.findings
        if found is not None and before is not None and settled_findings(before, found) != found:
            found = change_findings(self._device, "earlier ones", partial(settled_findings, before))
        self.entry["probe"] = {
            "status": "ok" if found is not None and not found.lost else "partial",
            "seconds": round(time.monotonic() - start, 2),
            "rows": probe_rows(found) if found is not None else [],
        }
        if found is not None and found.lost:
            self.entry["probe"]["reason"] = "; ".join(f"{name}: {why}" for name, why in found.lost.items())
        if crashes:
            self.entry["probe"] |= {"status": "crash", "reason": "; ".join(crashes)}

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

    def _litmus(self, run: LitmusRun, seconds: float, limit: float) -> dict[str, Any]:
        """Run the litmus tests and keep their verdicts, so that the strategy goes by them; how that went."""
        step = self.entry["litmus"]
        chosen = self.entry.get("strategy", {}).get("atomics", {}).get("value")
        try:
            run.run(self._device, seconds, chosen, limit)
        finally:
            step["seed"], step["rows"] = run.seed, run.rows()
        if self.entry["findings"] is not None:
            run.keep(self._device)
        return run.outcome()

    def _keep_table(self) -> bool:
        """Store which algorithm was fastest at which group count, if that was measured well enough to go by."""
        step = self.entry["barrier"]
        if step["status"] != "ok" or "max_groups" in self.entry["strategy"] or unsteady(step["rows"]):
            return False
        known = describe(self._device).findings
        if known is None or (self._survey.quick and known.barrier_table):
            return False
        table = settled_table(known.barrier_table, times_of(step["rows"]))
        if not table:
            return False
        store_table(self._device, table)
        forget()
        return True

    def _step(self, name: str, budget: float, end: float, *, spent: bool) -> bool:
        """Run one step; its rows go into the entry as they come. False when it did not end well.

        Parameters
        ----------
        name : str
        budget : float
            Seconds that it should take, beside the start of a process.
        end : float
            When it is killed at the latest.
        spent : bool
            Whether no time is left for it.
        """
        rows: list[dict[str, Any]] = []
        if spent:
            self.entry[name] = {"status": "skipped", "reason": NO_TIME, "seconds": 0.0, "rows": rows}
            return False
        quick = self._survey.quick
        self.entry[name] = step = {"status": "interrupted", "reason": INTERRUPTED, "seconds": 0.0, "rows": rows}
        self._tell(_DOING[name], START_S + min(budget, TYPICAL_S[name]))
        start = time.monotonic()
        try:
            if name == "litmus":
                outcome = self._litmus(LitmusRun(self._survey.seed, quick), budget + START_S, end - start)
            else:
                payload = {
                    "address": self.address.to_json(),
                    "findings": self.entry["findings"],
                    "budget_s": budget,
                    "quick": quick,
                }
                # A task ends by itself when its budget is spent; the limit is for drivers that hang.
                limit = min(2 * budget + LIMIT_S[quick], end - start)
                outcome = run_step(TASKS[name], payload, limit, rows)
        except Error as error:
            outcome = {"status": "error", "reason": str(error)}
        finally:
            step["seconds"] = round(time.monotonic() - start, 2)
        step |= outcome
        if outcome["status"] == "ok":
            del step["reason"]
        return bool(outcome["status"] == "ok")


def run_step(task: str, payload: dict[str, Any], limit: float, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Run a measuring task in a child process and tell how that went.

    Parameters
    ----------
    task : str
    payload : dict
    limit : float
        Seconds until the child is killed.
    rows : list
        Each row is appended as it comes, so that what was measured before a crash is kept.

    Returns
    -------
    dict
        `status`: `ok`, `partial` (the time budget was spent), `error`, `crash` or `timeout`; `seconds`; and the `reason`
        unless it is ok.
    """
    doing = ""

    def take(message: dict[str, Any]) -> None:
        nonlocal doing
        doing = str(message.get("doing", doing))
        if "row" in message:
            rows.append(message["row"])

    result = child.run_task(task, payload, timeout=limit, on_progress=take)
    outcome: dict[str, Any] = {"status": result.status, "seconds": round(result.seconds, 2)}
    if result.status != "ok":
        outcome["reason"] = f"{f'while measuring {doing}: ' if doing else ''}{result.message}"
    else:
        skipped = int((result.value or {}).get("skipped", 0))
        if skipped or any(row.get("partial") for row in rows):
            outcome["status"] = "partial"
            outcome["reason"] = (
                f"the time for this device was spent before {skipped} of {len(rows)} rows were measured"
                if skipped
                else "the time for this device was spent before every run was made"
            )
    return outcome
