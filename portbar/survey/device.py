"""A device's entry in a record as readers take it: who it is, how it went, and what was chosen."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import shorten
from typing import Any

from portbar.backends.selection import units_of
from portbar.backends.units import ComputeUnits
from portbar.device.facts import DeviceFacts


@dataclass(frozen=True)
class Device:
    """An entry of the `devices` of a valid record."""

    entry: Mapping[str, Any]

    @property
    def facts(self) -> Mapping[str, Any]:
        """The properties that the driver reports."""
        return self.entry.get("facts") or {}

    @property
    def name(self) -> str:
        """Its name, or that it has none."""
        return str(self.facts.get("name") or "a device without a name")

    @property
    def version(self) -> str | None:
        """Of the platform, or where that is unknown of OpenCL."""
        return self.facts.get("platform_version") or self.facts.get("version")

    @property
    def driver(self) -> tuple[str | None, ...]:
        """The properties that two devices with the same driver share."""
        return tuple(self.facts.get(name) for name in ("platform_name", "name", "driver_version"))

    @property
    def units(self) -> ComputeUnits:
        """The units that run its work-groups, as far as its type says."""
        return units_of(DeviceFacts(type=tuple(self.facts.get("type") or ())))

    @property
    def suggested_local_size(self) -> int:
        """The local size that portbar suggests for most kernels on such a device, by which readers compare devices."""
        return 1 if self.units.small_groups else 256

    @property
    def identity(self) -> tuple[str, str]:
        """Platform and name, without the versions and the driver's words that some runtimes put into the name."""
        name = re.sub(r"\s*\([^()]*\d[^()]*\)", "", self.facts.get("name") or "")
        if self.units.named_by_driver:
            name = re.sub(r"^[a-z0-9]+(?:-[a-z0-9]+)*-(?=[A-Z])", "", name)
        return self.facts.get("platform_name") or "", name.lower()

    @property
    def label(self) -> str:
        """Its name beside others: its own, and the difference between its drivers."""
        known = ", ".join(filter(None, (self.facts.get("platform_name"), self.facts.get("driver_version"))))
        where = ", ".join(filter(None, (known or self.facts.get("vendor"), self._emulated)))
        return shorten(f"{self.name} ({where})" if where else self.name, 100, placeholder=" ...")

    @property
    def short_label(self) -> str:
        """Its name, and only the driver's version."""
        version = self.facts.get("driver_version")
        return f"{self.name} ({version})" if version else self.name

    @property
    def title(self) -> str:
        """Its number, name and platform, without the build options that some platforms list."""
        platform = self.facts.get("platform_name") or self.facts.get("vendor")
        where = ", ".join(filter(None, (platform, (self.version or "").partition(",")[0], self._emulated)))
        return f"{self.number} {self.name}".strip() + (f" ({where})" if where else "")

    @property
    def _emulated(self) -> str:
        return "emulated" if self.facts.get("emulator") else ""

    @property
    def number(self) -> str:
        """Its number on the machine that wrote the record, as `portbar devices` gives it; empty for published ones."""
        address = self.entry.get("address")
        return f"{address['platform_index']}:{address['device_index']}" if address else ""

    @property
    def status(self) -> str:
        """How the survey of it ended."""
        return str(self.entry["status"])

    @property
    def is_surveyed(self) -> bool:
        """Whether a survey left something to compare with."""
        return self.status in {"complete", "partial"}

    @property
    def is_usable(self) -> bool | None:
        """Whether it works; None if it was not checked."""
        usable = self.entry.get("usable")
        return None if usable is None else bool(usable["usable"])

    @property
    def verdict(self) -> str:
        """Whether it is usable, or how its survey ended without an answer: a word such as "refused" or "unknown"."""
        if self.status in {"published", "failed"}:
            return self.status
        if self.is_usable is False:
            return "unusable"
        if self.status == "refused":
            return "refused"
        if self.is_usable is None:
            return "not surveyed" if self.status == "waiting" else "unknown"
        return "usable"

    @property
    def why_not(self) -> str:
        """Why it is not usable, or was not surveyed to the end; empty where there is no reason."""
        usable = self.entry.get("usable") or {}
        return str(self.entry.get("reason") or ("" if usable.get("usable") else usable.get("reason")) or "")

    @property
    def strategy(self) -> dict[str, str]:
        """The choices by name."""
        return {choice: made["value"] for choice, made in (self.entry.get("strategy") or {}).items()}

    @property
    def one_group(self) -> str:
        """Why a grid may have one work-group only; empty where it may have more."""
        choice = (self.entry.get("strategy") or {}).get("max_groups")
        return "" if choice is None else str(choice["reason"])

    @property
    def quirks(self) -> list[str]:
        """The names of its known faults."""
        return [quirk["name"] for quirk in self.entry.get("quirks") or []]

    def part(self, step: str) -> Mapping[str, Any]:
        """Return the results of a step; empty if it did not run."""
        return self.entry.get(step) or {}
