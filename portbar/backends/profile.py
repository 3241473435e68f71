"""A device as portbar knows it: what it reports, and what was measured on it."""

from __future__ import annotations

from functools import cached_property

from portbar.backends.selection import units_of
from portbar.backends.units import ComputeUnits
from portbar.device import quirks
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings
from portbar.records.dataclass import dataclass


@dataclass(frozen=True)
class DeviceProfile:
    """The facts that a device reports, and the findings measured on it (None: never probed)."""

    facts: DeviceFacts
    findings: Findings | None = None

    @property
    def loop_limit(self) -> int | None:
        """Iterations in one kernel after which the device ends loops silently; None if no such limit is known."""
        return quirks.loop_limit(self.facts, self.findings.loop_limit if self.findings is not None else None)

    @cached_property
    def units(self) -> ComputeUnits:
        """The units that run the device's work-groups."""
        return units_of(self.facts, self.findings, self.loop_limit)
