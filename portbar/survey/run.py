"""Runs the survey: one device after the other, each step in a child process with a time limit, into one record.

Not for measuring (`portbar.survey.cells`, `portbar.probing`) and not for showing (`portbar.survey.table`).
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final

from portbar import child
from portbar._version import __version__
from portbar.benching import BarrierTime, barrier_table, store_table
from portbar.device import DeviceAddress, DeviceFacts, facts
from portbar.errors import DeviceError, Error, UnsupportedFeatureError
from portbar.probing import probe
from portbar.profile import describe, forget
from portbar.strategy import DeviceProfile, Strategy, choose
from portbar.survey.privacy import anonymous
from portbar.usable import Usability, check, with_alternative

if TYPE_CHECKING:
    import pyopencl as cl

SCHEMA: Final = "portbar-survey"
FORMAT: Final = 1

#: What measures each step in a child process.
TASKS: Final = {
    "occupancy": "portbar.survey.cells:occupancy_task",
    "barrier": "portbar.survey.cells:barrier_task",
}

#: Seconds a device that a quick survey may take; what one device leaves is shared out among the next.
_QUICK_S: Final = 10.0
#: Seconds of a step that are not measuring: starting an interpreter and loading every driver.
_START_S: Final = 1.2
_LEAST_STEP_S: Final = 1.0

#: How far the median of a barrier's times may be from their fastest, and that from relaunching, on a machine at rest.
_STEADY: Final = 5.0

Listener = Callable[[str, str], None]


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _host() -> dict[str, Any]:
    """The machine, not its owner: no host name, no user name, no path."""
    return {
        "system": platform.system(),
        # Without the name that a distribution or a site gave to its kernel.
        "release": platform.release().partition("-")[0],
        "machine": platform.machine(),
        "python": platform.python_version(),
        "pyopencl": _installed("pyopencl"),
        "numpy": _installed("numpy"),
    }


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
        Called with a device's name and what is done with it now.
    """

    quick: bool = False
    timeout: float = 120.0
    on_step: Listener | None = None
    _record: dict[str, Any] = field(default_factory=dict)

    @property
    def record(self) -> dict[str, Any]:
        """The record so far: JSON values only, without host names or paths."""
        record: dict[str, Any] = anonymous(self._record)
        return record

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
            "portbar": __version__,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "invocation": {"quick": self.quick, "timeout_s": self.timeout},
            "host": _host(),
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
                pool = _QUICK_S * max(5, len(devices)) - (time.monotonic() - started)
                one.survey(min(self.timeout, pool / (len(waiting) - index)) if self.quick else self.timeout)
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
        }

    def _tell(self, step: str) -> None:
        if self._survey.on_step is not None:
            where, of = self.address, self.entry["facts"]
            platform_version = where.platform_version.partition(",")[0]
            name = (
                f"{where.platform_index}:{where.device_index} {of['name']} ({where.platform_name}, {platform_version})"
            )
            self._survey.on_step(name, step)

    def check(self) -> None:
        """See whether the device works, so that the time of those that do not goes to those that do."""
        started = time.monotonic()
        self._tell("checking that it works")
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
        try:
            self._measure(started + seconds)
        except Error as error:
            self.entry |= {"status": "failed", "reason": str(error)}
        finally:
            self.entry["seconds"] = round(before + time.monotonic() - started, 2)
            _complete(self.entry)

    def _measure(self, deadline: float) -> None:
        quick = self._survey.quick
        self._tell("probing progress, ordering and loops")
        start = time.monotonic()
        # A probe that is cut short leaves the strategy unknown: in a quick survey it may use up the device's time.
        profile = probe(self._device, timeout=max(10.0, deadline - start), refresh=not quick)
        self.entry["probe"] = {"seconds": round(time.monotonic() - start, 2)}
        self._keep_findings(profile)
        try:
            strategy = choose(profile)
        except UnsupportedFeatureError as error:
            self.entry |= {"refused": str(error), "status": "refused"}
            return
        self._keep_strategy(strategy)
        budget = max(_LEAST_STEP_S, 0.4 * (deadline - time.monotonic()) - _START_S)
        complete = self._step("occupancy", budget, deadline, {"quick": quick})
        budget = max(2 * _LEAST_STEP_S, deadline - time.monotonic() - _START_S)
        complete &= self._step("barrier", budget, deadline, {})
        if self._keep_table(strategy):
            # The strategy may be another one now.
            profile = describe(self._device)
            self._keep_findings(profile)
            self._keep_strategy(choose(profile))
        self.entry["status"] = "complete" if complete else "partial"

    def _keep_findings(self, profile: DeviceProfile) -> None:
        self.entry["findings"] = profile.findings.to_json() if profile.findings is not None else None

    def _keep_strategy(self, strategy: Strategy) -> None:
        self.entry["strategy"] = {
            name: {"value": value, "reason": reason} for name, (value, reason) in strategy.reasons().items()
        }

    def _keep_table(self, strategy: Strategy) -> bool:
        """Store which algorithm was fastest at which group count, if that was measured well enough to go by."""
        if self.entry["barrier"]["status"] != "ok" or strategy.max_groups is not None:
            return False
        if unsteady(self.entry["barrier"]["rows"]):
            return False
        if self._survey.quick and self.entry["findings"]["barrier_table"]:
            return False
        table = barrier_table(times_of(self.entry["barrier"]["rows"]))
        if not table:
            return False
        store_table(self._device, table)
        forget()
        return True

    def _step(self, name: str, budget: float, deadline: float, payload: dict[str, Any]) -> bool:
        """Run one task; its rows go into the entry as they come. False when it did not end well."""
        self._tell(f"measuring {name}")
        self.entry[name] = {"status": "interrupted", "rows": []}
        # A task ends by itself when its budget is spent; the limit is for drivers that hang.
        limit = 2 * budget + 8.0 if self._survey.quick else max(10.0, deadline - time.monotonic())
        budget = min(budget, limit - 5.0)
        self.entry[name] |= run_step(
            TASKS[name],
            {
                "address": self.address.to_json(),
                "findings": self.entry["findings"],
                "budget_s": budget,
                **payload,
            },
            limit,
            self.entry[name]["rows"],
        )
        return bool(self.entry[name]["status"] == "ok")


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


def unsteady(rows: Sequence[dict[str, Any]]) -> bool:
    """Whether other work on the machine shows in barrier times so much that no choice should be made by them."""
    timed = [row for row in rows if row["us"]]
    if any(row["us"] > _STEADY * min(row["samples_us"]) for row in timed):
        return True
    fastest: dict[tuple[int, int], float] = {}
    for row in timed:
        shape = (row["local_size"], row["groups"])
        fastest[shape] = min(row["us"] / row["relaunch_us"], fastest.get(shape, row["us"] / row["relaunch_us"]))
    # Threads that wait for each other on one core take a time slice a barrier.
    return any(ratio > _STEADY for ratio in fastest.values())


def times_of(rows: Sequence[dict[str, Any]]) -> list[BarrierTime]:
    """The rows of a barrier step as `portbar.benching` takes them."""
    return [BarrierTime.from_row(row) for row in rows]


def _complete(entry: dict[str, Any]) -> None:
    """Add what follows from all rows together.

    To occupancy rows: the most work-groups that any run found in that shape, and the mean share of it found. To the barrier
    step: whether its times vary too much to go by.
    """
    if "barrier" in entry:
        entry["barrier"]["unsteady"] = unsteady(entry["barrier"]["rows"])
    rows = [row for row in entry.get("occupancy", {}).get("rows", []) if row["found"]]
    best: dict[tuple[int, int], int] = {}
    for row in rows:
        shape = (row["local_size"], row["local_bytes"])
        best[shape] = max([best.get(shape, 0), row["occupancy"], *row["found"]])
    for row in rows:
        mean = sum(row["found"]) / len(row["found"])
        bound, vendor = best[row["local_size"], row["local_bytes"]], row["vendor_bound"]
        row["best_known_groups"] = bound
        row["recall"] = round(mean / bound, 4) if bound else None
        row["recall_of_vendor_bound"] = round(mean / vendor, 4) if vendor else None
