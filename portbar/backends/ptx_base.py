"""The base of the backends that are made of PTX."""

from __future__ import annotations

from portbar.backends.backend import Backend
from portbar.backends.nvidia import instructions
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings


class Nvidia(Backend):
    """A backend by PTX."""

    def takes_text(self, facts: DeviceFacts) -> bool:
        """Whether the device's compiler may be given PTX: others end the process over it."""
        return any("cl_nv_" in extension for extension in facts.extensions)

    def adds(self, kind: str, probe: str, facts: DeviceFacts, findings: Findings | None) -> bool:  # noqa: ARG002
        """Whether the device has an addition of its own for a float type."""
        return kind != "double" or "atom.add.f64" in instructions(facts)
