"""The decisions for a device: the choices with their reasons, and the other inputs of the rendered text."""

from __future__ import annotations

import math
from dataclasses import field, replace
from functools import lru_cache
from typing import Any

from portbar.backends.backend import BACKENDS, Backend
from portbar.backends.units import UNKNOWN, ComputeUnits
from portbar.device.findings import BarrierTable
from portbar.device.tuning import ArrayTuning, WaitTuning
from portbar.primitives.atomics_table import AtomicsTable
from portbar.primitives.reduction.selection import ReductionCapabilities
from portbar.primitives.tracing import Tracing
from portbar.records.dataclass import dataclass


@dataclass(frozen=True)
class Choice:
    """One choice and its reason."""

    value: str
    reason: str

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Capabilities:
    """The features of a device, as it reports them or as a probe found them."""

    #: The `-cl-std` value that the atomics need, such as `CL3.0`.
    std: str | None = None
    #: Whether waits poll with volatile loads, since atomic loads write on this device and a probe saw volatile ones suffice.
    volatile_polls: bool = False
    #: Whether one-way fences (acquire or release alone) are available.
    one_way_fences: bool = False
    #: Whether kernels may call printf; it branches, which some compilers abort over.
    prints: bool = True
    #: Polls after which an atomic wait or a lock gives up.
    wait_polls: int = 1 << 26
    #: Of `portbar.primitives.split_barrier.FEATURES`: what the chosen split barrier supports on this device.
    split_features: tuple[str, ...] = ("overlapping",)
    #: What `portbar/atomics.h` offers.
    atomics_table: AtomicsTable = field(default_factory=AtomicsTable)
    #: Capabilities that reductions can use.
    reduction: ReductionCapabilities = field(default_factory=ReductionCapabilities)


@dataclass(frozen=True)
class Tuning(WaitTuning):
    """The measurements of a device, or of a similar one: of its barriers between work-groups, and of operations on arrays."""

    #: Fastest barrier algorithms by local size and group count; empty when the choice holds for all.
    table: BarrierTable = ()
    #: Where the table was measured, as in "measured fastest on this device".
    origin: str = "on this device"
    #: Where the numbers of `WaitTuning` were measured; empty where they were not.
    waits_origin: str = ""
    arrays: ArrayTuning = field(default_factory=ArrayTuning)
    #: Where `arrays` was measured; empty where it was not.
    arrays_origin: str = ""


@dataclass(frozen=True)
class Strategy:
    """How portbar implements its primitives on one device: one choice per primitive, each with its reason.

    Attributes
    ----------
    atomics, discovery, device_barrier, split_barrier, reduction : Choice
    max_groups : int or None
        Maximum number of work-groups of a grid; None if discovery decides.
    max_groups_reason : str
    units : ComputeUnits
        They run the device's work-groups.
    capabilities : Capabilities
    tuning : Tuning
    workarounds : frozenset of str
        Effects of the device's quirks (`portbar.device.quirks`) that the rendered text must respect.
    debug : bool
        Whether device code checks for misuse.
    split_counted : bool
        Whether group-wide split barriers count arrivals, which only some calls can observe.
    turns_in_registers : bool
        Whether loops with independent turns keep no variable in private memory, which compilers would share among turns.
    tracing : Tracing or None
        How launches are traced; None if they are not.
    """

    atomics: Choice
    discovery: Choice
    device_barrier: Choice
    max_groups: int | None = None
    max_groups_reason: str = ""
    split_barrier: Choice = Choice("uniform", "a group-wide barrier() at each wait is right on every device")
    reduction: Choice = Choice("tree", "local memory and barriers, which every device has")
    units: ComputeUnits = UNKNOWN
    capabilities: Capabilities = field(default_factory=Capabilities)
    tuning: Tuning = field(default_factory=Tuning)
    workarounds: frozenset[str] = frozenset()
    debug: bool = False
    split_counted: bool = True
    turns_in_registers: bool = True
    tracing: Tracing | None = None

    @property
    def backend(self) -> Backend:
        """How the device is talked to."""
        return BACKENDS[self.atomics.value].on(self.units, self.workarounds)

    def has(self, effect: str) -> bool:
        """Whether the device has a quirk with this effect."""
        return effect in self.workarounds

    def with_units(self, **changes: Any) -> Strategy:
        """Return the strategy for a device whose compute units differ in these."""
        return replace(self, units=replace(self.units, **changes))

    def with_capabilities(self, **changes: Any) -> Strategy:
        """Return the strategy for a device whose capabilities differ in these."""
        return replace(self, capabilities=replace(self.capabilities, **changes))

    def summary(self) -> str:
        """Return the choices in one line."""
        return (
            f"atomics {self.atomics}, discovery {self.discovery}, device barrier {self.device_barrier}, "
            f"split barrier {self.split_barrier}"
        )

    def reasons(self) -> dict[str, tuple[str, str]]:
        """Name of each choice -> (value, reason)."""
        names = ("atomics", "discovery", "device_barrier", "split_barrier", "reduction")
        chosen = {name: (getattr(self, name).value, getattr(self, name).reason) for name in names}
        if self.max_groups is not None:
            chosen["max_groups"] = (str(self.max_groups), self.max_groups_reason)
        for name, origin in (("waits", self.tuning.waits_origin), ("arrays", self.tuning.arrays_origin)):
            if origin:
                chosen[name] = ("tuned", f"as measured {origin}")
        return chosen

    def for_groups(self, groups: int, local_size: int | None = None) -> Strategy:
        """Return the strategy with the barrier algorithm that the measured table names for this number of work-groups.

        Parameters
        ----------
        groups : int
        local_size : int, optional
            Work-items in each; the measured local size nearest to it (by ratio) is used, the smallest one without it.
        """
        best = _serving(self.tuning.table, groups, local_size)
        if best is None or best[2] == self.device_barrier.value:
            return self
        reason = f"measured fastest {self.tuning.origin} from {best[1]} work-groups of {best[0]} on"
        return replace(self, device_barrier=Choice(best[2], reason))


@lru_cache(maxsize=256)
def _serving(table: BarrierTable, groups: int, local_size: int | None) -> tuple[int, int, str] | None:
    """Return the entry of a measured table for a shape; every first launch asks for one."""
    sizes = {entry[0] for entry in table}
    if not sizes:
        return None
    nearest = min(sizes, key=lambda size: (abs(math.log(max(size, 1) / max(local_size or 1, 1))), size))
    return max((entry for entry in table if entry[0] == nearest and entry[1] <= groups), default=None)
