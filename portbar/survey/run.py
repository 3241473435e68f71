"""Runs the survey: one device after the other, each step in a child process with a time limit, into one record.

Not for measuring (`portbar.survey.cells`, `portbar.probing`) and not for showing (`portbar.survey.table`).
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import pyopencl as cl

from portbar import child
from portbar._version import __version__
from portbar.device import DeviceAddress, facts
from portbar.errors import Error, UnsupportedFeatureError
from portbar.probing import probe
from portbar.profile import describe, forget
from portbar.strategy import choose
from portbar.usable import check

SCHEMA: Final = "portbar-survey"
FORMAT: Final = 1

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
        "release": platform.release(),
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
        Fewer cells and runs; findings of earlier probes are believed.
    timeout : float
        Seconds that one device may take in all.
    on_step : callable, optional
        Called with a device's name and what is done with it now.
    """

    quick: bool = False
    timeout: float = 120.0
    on_step: Listener | None = None
    record: dict[str, Any] = field(default_factory=dict)

    def run(self, devices: Sequence[tuple[DeviceAddress, cl.Device]]) -> dict[str, Any]:
        """Survey these devices; on Ctrl-C the record so far is returned, marked partial."""
        self.record = {
            "schema": SCHEMA,
            "format": FORMAT,
            "portbar": __version__,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "invocation": {"quick": self.quick, "timeout_s": self.timeout, "arguments": sys.argv[1:]},
            "host": _host(),
            "partial": True,
            "devices": [],
        }
        try:
            for address, device in devices:
                self._survey(address, device)
        except KeyboardInterrupt:
            self.record["interrupted"] = True
            return self.record
        self.record["partial"] = any(entry.get("status") == "partial" for entry in self.record["devices"])
        return self.record

    def _tell(self, device: DeviceAddress, step: str) -> None:
        if self.on_step is not None:
            self.on_step(device.device_name, step)

    def _survey(self, address: DeviceAddress, device: cl.Device) -> None:
        started = time.monotonic()
        entry: dict[str, Any] = {"address": address.to_json(), "facts": facts(device).to_json(), "status": "partial"}
        self.record["devices"].append(entry)

        def left() -> float:
            return max(1.0, self.timeout - (time.monotonic() - started))

        self._tell(address, "checking that it works")
        verdict = check(address, min(20.0, left()), refresh=not self.quick)
        entry["usable"] = {"usable": verdict.usable, "reason": verdict.reason, "remedy": verdict.remedy}
        if not verdict.usable:
            entry["status"] = "unusable"
            entry["seconds"] = round(time.monotonic() - started, 2)
            return
        self._tell(address, "probing progress, ordering and loops")
        profile = probe(device, timeout=left(), refresh=not self.quick)
        entry["findings"] = profile.findings.to_json() if profile.findings is not None else None
        try:
            choose(profile)
        except UnsupportedFeatureError as error:
            entry["refused"] = str(error)
            entry["status"] = "refused"
            entry["seconds"] = round(time.monotonic() - started, 2)
            return
        complete = self._step(entry, "occupancy", address, left())
        complete &= self._step(entry, "barrier", address, left())
        # The child may have stored a barrier table that describe() has not seen yet.
        forget()
        entry["strategy"] = {
            name: {"value": value, "reason": reason}
            for name, (value, reason) in choose(describe(device)).reasons().items()
        }
        entry["status"] = "complete" if complete else "partial"
        entry["seconds"] = round(time.monotonic() - started, 2)

    def _step(self, entry: dict[str, Any], name: str, address: DeviceAddress, timeout: float) -> bool:
        """Run one task; its rows go into the entry as they come. False when it did not end well."""
        self._tell(address, f"measuring {name}")
        rows: list[dict[str, Any]] = []
        entry[name] = {"status": "partial", "rows": rows}
        result = child.run_task(
            f"portbar.survey.cells:{name}_task",
            {"address": address.to_json(), "quick": self.quick},
            timeout=timeout,
            on_progress=rows.append,
        )
        entry[name]["status"] = result.status
        entry[name]["seconds"] = round(result.seconds, 2)
        if result.status != "ok":
            entry[name]["reason"] = result.message
        return result.status == "ok"


def survey_devices(
    devices: Sequence[tuple[DeviceAddress, cl.Device]],
    *,
    quick: bool = False,
    timeout: float = 120.0,
    on_step: Listener | None = None,
) -> dict[str, Any]:
    """Survey devices and return the record, a dict of JSON values.

    Raises
    ------
    Error
        There is no device at all.
    """
    if not devices:
        raise Error('no OpenCL device was found; install one, for instance pip install "portbar[cpu]"')
    return Survey(quick, timeout, on_step).run(devices)
