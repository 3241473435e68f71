"""The instructions of NVIDIA's GPUs, and the base of the backends that are made of PTX."""

from __future__ import annotations

from typing import Final

from portbar.backends.backend import Backend
from portbar.backends.units import Clock
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings

#: Instruction -> the least compute capability, times ten, that has it; source: PTX ISA. Other vendors' devices have 0.
_SINCE: Final = {
    "globaltimer": 1,
    "shfl.sync": 1,
    "atom.add.f64": 60,
    "bar.warp.sync": 70,
    "redux.sync": 80,
    "mbarrier": 80,
    "mbarrier.arrive of many": 90,
    "mbarrier.try_wait": 90,
}


def instructions(facts: DeviceFacts) -> frozenset[str]:
    """The instructions that a device has, of those that portbar uses."""
    return frozenset(name for name, least in _SINCE.items() if facts.compute_capability >= least)


CLOCK: Final = Clock("globaltimer", "ns", ("backend/nvidia.mako", "trace_clock"))


class Nvidia(Backend):
    """A backend by PTX."""

    def takes_text(self, facts: DeviceFacts) -> bool:
        """Whether the device's compiler may be given PTX: others end the process over it."""
        return any("cl_nv_" in extension for extension in facts.extensions)

    def adds(self, kind: str, probe: str, facts: DeviceFacts, findings: Findings | None) -> bool:  # noqa: ARG002
        """Whether the device has an addition of its own for a float type."""
        return kind != "double" or "atom.add.f64" in instructions(facts)


def reports_resources(facts: DeviceFacts) -> bool:
    """Whether the device's compiler reports the registers of kernels, and limits them."""
    return facts.compute_capability > 0
