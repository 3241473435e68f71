"""The instructions of NVIDIA's GPUs."""

from __future__ import annotations

from typing import Final

from portbar.backends.units import Clock
from portbar.device.facts import DeviceFacts

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


def reports_resources(facts: DeviceFacts) -> bool:
    """Whether the device's compiler reports the registers of kernels, and limits them."""
    return facts.compute_capability > 0
