"""`probe`: measures what a device does, in child processes, and stores it where `describe` looks."""

from __future__ import annotations

import faulthandler
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from portbar.backends.backend import BACKENDS
from portbar.backends.host_threads import PROCESSORS
from portbar.choices.profile import describe, forget, stored_findings
from portbar.choices.strategy import DeviceProfile
from portbar.device import child, matrix
from portbar.device.addresses import DeviceAddress, address_of, device_of
from portbar.device.facts import device_key, facts
from portbar.device.findings import (
    CACHE_KIND,
    GIVEN_UP,
    HOST_FAILED,
    MAPPINGS,
    NOT_BEGUN,
    TIMED_OUT,
    Findings,
    UnmeasuredError,
)
from portbar.errors import Error
from portbar.records import cache

if TYPE_CHECKING:
    import pyopencl as cl

    from portbar.survey.measuring.probe_behaviour import Probes

#: Those that the barriers of the ordering probe are written with.
_FIRST_FEATURES: Final = ("one_way_fences", "volatile_polls")

#: Features that kernels of `cl_templates/probe/features.mako` use.
FEATURES: Final = (
    *("fp64", "fp16", "int64_atomics", "sub_groups", "work_group_collectives", "generic_address_space"),
    *("program_scope_variables", "float_atomics", "float_atomics_local", "double_atomics", "double_atomics_local"),
    *("printf", "mbarrier", *_FIRST_FEATURES),
)

#: Instructions that a waiting host thread can use between polls; in this order, because the last needs the one before.
HOST_CALLS: Final = (*(one.pause_probe for one in PROCESSORS), "yield_syscall", "asm_anywhere")

#: The measurements, in the order in which later ones need earlier ones: a method of `Probes` and its argument.
#: Inline assembly comes last, since it may take a driver down.
STEPS: Final = (
    *(f"level {std}" for std in ("CL1.2", "CL2.0", "CL3.0")),
    *(f"atomics {name}" for variant in BACKENDS.values() for name in variant.probes),
    "loop_limit",
    "polls_per_second",
    "groups_in_flight",
    *(f"progress {what}" for what in ("work_groups", "sub_groups", "lanes")),
    *(f"feature {name}" for name in _FIRST_FEATURES),
    *(f"ordering {atomics}" for atomics in BACKENDS),
    *(f"feature {name}" for name in FEATURES if name not in _FIRST_FEATURES),
    *(f"host_call {name}" for name in HOST_CALLS),
)

#: Seconds that one step may take in a child, compilation included, before it counts as hanging. That is for a probe of
#: `_USUAL_S` seconds on a device whose first step takes `_USUAL_FIRST_S`; more where one of them is longer.
_STEP_S: Final = 10.0
_USUAL_S: Final = 60.0
_USUAL_FIRST_S: Final = 0.5
#: How many times as slow as usual a device may be for limits to follow it.
_MOST_PACE: Final = 30.0
_CUT_SHORT: Final = ", cut short"
_UNTESTED: Final = "untested: "

_TELLING: Final = re.compile(r"assert|panic|fatal|error:", re.IGNORECASE)
_FOLDERS: Final = re.compile(r"(?<![\w/])\.{0,2}(?:/[^\s/:'\"]+)+/")


def probe(device: cl.Device | cl.CommandQueue, *, timeout: float = 60.0, refresh: bool = False) -> DeviceProfile:
    """Measure a device's behaviour, unless it is known already, and return its profile as `describe` does from then on.

    Runs kernels on the device, in child processes only. An abort or a hang costs only the finding that was being measured; the
    finding then says so. Takes a few seconds on a CPU runtime.

    Parameters
    ----------
    device : pyopencl.Device or pyopencl.CommandQueue
        A device that a platform lists; other processes cannot find sub-devices.
    timeout : float
        Total time limit in seconds; a larger one also gives each measurement more. Those without time left leave their findings
        unknown, or as they were before, and the next call makes them.
    refresh : bool
        Measure everything again even if findings are stored.

    Returns
    -------
    DeviceProfile
        Facts, and the findings as stored in portbar's cache.

    Raises
    ------
    DeviceError
        The argument is neither a device nor a queue, or no platform lists the device.
    """
    return probe_with_faults(device_of("probe", device), timeout=timeout, refresh=refresh)[0]


def probe_with_faults(
    device: cl.Device, *, timeout: float = 60.0, refresh: bool = False
) -> tuple[DeviceProfile, dict[str, str]]:
    """Measure as `probe` does, and say in which steps the driver took a child process down or hung just now, and how."""
    faults: dict[str, str] = {}
    reported = facts(device)
    key = device_key(reported)
    stored = stored_findings(reported)
    steps: Sequence[str] = STEPS
    known = Findings()
    # Without a known end of loops grids have one work-group, which a probe of a machine that was busy must not decide for good.
    if stored is not None and not refresh and "loop_limit" not in stored.lost:
        steps = [step for step in STEPS if step in stored.unmeasured]
        known = replace(stored, lost={name: why for name, why in stored.lost.items() if name not in steps})
    if steps:
        found = _probe_in_children(address_of(device), timeout, faults, known, steps, reported.emulator)
        with cache.changing():
            # Another process may have added to them meanwhile.
            stored = stored_findings(reported) or stored
            if stored is not None:
                # Probes measure none of these, so that one of the same driver outdates none.
                kept = {part: getattr(stored, part) for part in (*matrix.LENT, "litmus", "times_rejected")}
                found = replace(found.filled(stored), **kept)
            cache.store(CACHE_KIND, key, found.to_json())
    forget()
    return describe(device), faults


def probe_task(payload: dict[str, Any]) -> None:
    """Make some measurements and report each: the child's side of `probe`."""
    from portbar.survey.measuring.probe_behaviour import Probes  # noqa: PLC0415 (the parent runs no kernels)

    probes = Probes(DeviceAddress.from_json(payload["address"]).resolve(), Findings.from_json(payload["known"]))
    probes.pace = pace = float(payload.get("pace", 1.0))
    limit = float(payload["step_limit"])
    for step in payload["steps"]:
        child.progress({"step": step})
        began = time.monotonic()
        # Ends the process even where a driver never returns to Python.
        faulthandler.dump_traceback_later(limit, exit=True)
        found = _measured(probes, step)
        faulthandler.cancel_dump_traceback_later()
        if step == STEPS[0] and (slower := _pace(time.monotonic() - began)) > pace:
            limit *= slower / pace
            probes.pace = slower
            child.progress({"pace": slower})
        probes.known = _merged(probes.known, found)
        child.progress({"found": found})


def _merged(known: Findings, found: dict[str, Any]) -> Findings:
    """`known` with new findings: an entry of a mapping is added to it, anything else replaced."""
    changes: dict[str, Any] = {
        name: {**getattr(known, name), **value} if isinstance(value, dict) else value for name, value in found.items()
    }
    return replace(known, **changes)


def _measured(probes: Probes, step: str) -> dict[str, Any]:
    """Make one measurement; what portbar or OpenCL raises becomes the finding. The findings that it adds, as JSON values."""
    import pyopencl as cl  # noqa: PLC0415 (the parent runs no kernels)

    kind, _, what = step.partition(" ")
    try:
        measure = getattr(probes, kind)
        if kind == "ordering" and not probes.builds(what):
            return {}
        return _finding(step, measure(what) if what else measure())
    except UnmeasuredError as error:
        return _lost(step, f"{TIMED_OUT}, since {error} did", unknown=True)
    except Error as error:
        return _lost(step, _gist(str(error)), unknown=False)
    except cl.Error as error:
        return _lost(step, _gist(f"{type(error).__name__}: {error}"), unknown=False)
    except Exception as error:  # noqa: BLE001 (one measurement must not cost the others)
        return _lost(step, _gist(f"{HOST_FAILED}: {type(error).__name__}: {error}"), unknown=True)


def _finding(step: str, value: Any) -> dict[str, Any]:
    """Return the result of a step, as a part of findings."""
    kind, _, what = step.partition(" ")
    if not what:
        return {kind: value}
    found = {MAPPINGS[kind]: {what: value}}
    if isinstance(value, str) and value.startswith(_UNTESTED):
        # On a busy machine, work-groups may have come too late to meet.
        found["lost"] = {step: f"{TIMED_OUT}: {value.removeprefix(_UNTESTED)}"}
    return found


def _pace(first_s: float) -> float:
    """How many times as slow as usual a device is, by the time of a first, trivial program; at least 1."""
    return min(_MOST_PACE, max(1.0, first_s / _USUAL_FIRST_S))


def _lost(step: str, why: str, *, unknown: bool) -> dict[str, Any]:
    """The finding that stands for a measurement that did not end well; none where it says nothing of the device."""
    kind, _, what = step.partition(" ")
    if not what:
        return {kind: None, "lost": {kind: why}}
    without_result = {"progress": f"unknown: {why}", "ordering": f"{'untested' if unknown else 'fail'}: {why}"}
    if unknown and kind not in without_result:
        return {"lost": {step: why}}
    found = _finding(step, without_result.get(kind, False))
    return {**found, "lost": {step: why}} if unknown else found


def _probe_in_children(
    address: DeviceAddress,
    timeout: float,
    faults: dict[str, str],
    known: Findings,
    steps: Sequence[str],
    emulator: str = "",
) -> Findings:
    """Add measurements to what is known; those that killed a child or hung are added to `faults`."""
    run = _ProbeRun(address, timeout, faults, known, steps)
    source = f"probed {datetime.now(UTC).date()}"
    if emulator:
        source += f" under the emulator {emulator}"
    survived = child.run_steps("portbar.survey.measuring.probe:probe_task", run)
    if not run.steps:
        return replace(run.known, source=source)
    why = NOT_BEGUN if survived else GIVEN_UP
    return replace(_given_up(run.known, run.steps, why), source=source + _CUT_SHORT)


class _ProbeRun:
    """The measurements that are left, and what was found so far."""

    def __init__(
        self,
        address: DeviceAddress,
        timeout: float,
        faults: dict[str, str],
        known: Findings | None = None,
        steps: Sequence[str] = STEPS,
    ) -> None:
        self.known = known or Findings()
        self.steps = list(steps)
        self._address = address
        self._deadline = time.monotonic() + timeout
        self._faults = faults
        #: How many times as slow as usual the device is, the limit of a step by that, and with the time that is left.
        self._pace = 1.0
        self._usual_limit = _STEP_S * max(1.0, timeout / _USUAL_S)
        self._step_limit = self._usual_limit
        #: The measurement under way, and when it began.
        self._current: str | None = None
        self._since = 0.0

    def begin(self) -> tuple[dict[str, Any], float] | None:
        left = self._deadline - time.monotonic()
        if not self.steps or left <= 0:
            return None
        self._current, self._step_limit = None, min(self._usual_limit * self._pace, left)
        payload = {
            "address": self._address.to_json(),
            "known": self.known.to_json(),
            "steps": self.steps,
            "step_limit": self._step_limit,
            "pace": self._pace,
        }
        return payload, left

    def take(self, message: dict[str, Any]) -> None:
        if "step" in message:
            self._current, self._since = str(message["step"]), time.monotonic()
        elif "pace" in message:
            self._step_limit *= float(message["pace"]) / self._pace
            self._pace = float(message["pace"])
        elif "found" in message:
            self._found(message["found"])

    def died(self, result: child.ChildResult) -> bool:
        """Blame the measurement that was under way, if there was one, and go on with the next."""
        if result.status == "timeout" or not self.steps:
            return True
        if self._current is not None:
            if result.status == "error":
                self._found(_lost(self._current, _gist(f"{HOST_FAILED}: {result.message}"), unknown=True))
                return True
            hung = time.monotonic() - self._since > 0.9 * self._step_limit
            why = TIMED_OUT if hung else f"child aborted: {_gist(result.message)}"
            # Where less time was left than a measurement may take, the limit is the user's and the driver may be slow.
            if not hung or self._step_limit > 0.99 * self._usual_limit * self._pace:
                self._faults[self._current] = why
            self._found(_lost(self._current, why, unknown=hung))
            return True
        # One that failed before the first measurement would do so again.
        return result.status != "error"

    def _found(self, found: dict[str, Any]) -> None:
        self.known = _merged(self.known, found)
        self._current = None
        self.steps = self.steps[1:]


def _given_up(known: Findings, steps: Sequence[str], why: str) -> Findings:
    """`known` with a reason for what was not measured."""
    for step in steps:
        known = _merged(known, _lost(step, why, unknown=True))
    return known


def _gist(message: str) -> str:
    """Return the first line of a message, and the line below it that reports a fault; folders may be private and are left
    out.
    """
    first, *others = message.splitlines() or [""]
    informative = [line for line in others if _TELLING.search(line)]
    text = ": ".join([first.partition("; last lines of")[0], *informative[:1]])
    return " ".join(_FOLDERS.sub("", text).split())[:300]
