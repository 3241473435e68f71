"""`CompiledProgram`: an author's source, compiled for each device of a context; what its kernels need for a launch.

Not for what a source may ask for: `portbar.launching.program` checks that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyopencl as cl

from portbar.choices.strategy import DeviceProfile
from portbar.choices.timing import limit_rounds
from portbar.errors import DeviceError
from portbar.launching.build import build_options, compile_program
from portbar.launching.isolation import try_build
from portbar.launching.occupancy import MOST_REGISTERS, VERBOSE
from portbar.launching.states import States
from portbar.primitives.headers import resolve_includes
from portbar.primitives.reduction.header import scratch_bytes
from portbar.primitives.reduction.loops import ReductionLoop
from portbar.primitives.reduction.use import Use
from portbar.primitives.scan import DeviceScan
from portbar.primitives.strategy import Strategy


@dataclass(eq=False, repr=False)
class CompiledProgram:
    """A source with the choices that were made for each device.

    Attributes
    ----------
    context : pyopencl.Context
    name : str
        Of the source, in messages.
    source : str
    options : tuple of str
        The author's build options.
    spin_limit : float
        Seconds, roughly, after which a barrier gives up.
    isolate_build : bool
        Whether a child process compiles first.
    reductions : tuple of ReductionLoop
    reduction_use : Use or None
        What is used of portbar/reduction.h; None where the program does not include it.
    scans : tuple of DeviceScan
    profiles, strategies : mapping of pyopencl.Device to DeviceProfile, to Strategy
    least_groups : int
        Work-groups that each launch of a grid needs at the same time.
    registers : int or None
        Maximum registers per work-item, if the compiler has such an option.
    devices : tuple of pyopencl.Device
    states : States
        The state of launches in each queue.
    """

    context: cl.Context
    name: str
    source: str
    options: tuple[str, ...]
    spin_limit: float
    isolate_build: bool
    reductions: tuple[ReductionLoop, ...]
    reduction_use: Use | None
    scans: tuple[DeviceScan, ...]
    profiles: Mapping[cl.Device, DeviceProfile]
    strategies: Mapping[cl.Device, Strategy]
    least_groups: int
    registers: int | None = None

    def __post_init__(self) -> None:
        """Compile for each device."""
        self.devices = tuple(self.profiles)
        self.states = States(
            self.context,
            self.reductions,
            self.reduction_use,
            self.scans,
            lambda device: limit_rounds(self.profile(device), self.spin_limit),
            lambda device: self.strategy(device).tracing,
        )
        self._built: dict[tuple[cl.Device, str], cl.Program] = {}
        for device in self.devices:
            self.built(device, self.strategies[device])

    def strategy(self, device: cl.Device) -> Strategy:
        """The strategy chosen for a device of this program."""
        return self.strategies[self._own(device)]

    def profile(self, device: cl.Device) -> DeviceProfile:
        """Return the profile of a device when the program was built."""
        return self.profiles[self._own(device)]

    def reduction_bytes(self, device: cl.Device) -> int:
        """Bytes of local memory that PORTBAR_REDUCTION_SCRATCH takes in a kernel of the program; 0 without reductions."""
        return scratch_bytes(self.strategy(device), self.reduction_use) if self.reduction_use is not None else 0

    def rendered(self, device: cl.Device) -> str:
        """The OpenCL C that was compiled for a device."""
        return self._text(self.strategy(device))

    def _text(self, strategy: Strategy) -> str:
        return resolve_includes(
            self.source, strategy, name=self.name, use=self.reduction_use, options=self.options, scans=self.scans
        )

    def built(self, device: cl.Device, strategy: Strategy) -> cl.Program:
        """The PyOpenCL program for one device and barrier algorithm, compiled at first need."""
        key = (device, strategy.device_barrier.value)
        with self.states.lock:
            program = self._built.get(key)
            if program is None:
                text = self._text(strategy)
                options = self._build_options(device, strategy)
                if self.isolate_build:
                    try_build(device, text, options)
                program = compile_program(self.context, device, text, options)
                self._built[key] = program
        return program

    def verbose_log(self, device: cl.Device) -> str:
        """Return the build log with each kernel's resources, from a separate compilation; empty if the compiler reports
        none.
        """
        if not self.profile(device).facts.compute_capability:
            return ""
        options = (*self._build_options(device, self.strategy(device)), VERBOSE)
        program = compile_program(self.context, device, self.rendered(device), options)
        return str(program.get_build_info(device, cl.program_build_info.LOG))

    def _build_options(self, device: cl.Device, strategy: Strategy) -> tuple[str, ...]:
        options = self.options
        if self.registers is not None and self.profile(device).facts.compute_capability:
            options = (*options, f"{MOST_REGISTERS}={self.registers}")
        return build_options(strategy, options)

    def _own(self, device: cl.Device) -> cl.Device:
        if device not in self.strategies:
            built = ", ".join(d.name.strip() for d in self.devices)
            raise DeviceError(
                f"the program was not built for {device.name.strip()}, only for {built}; make a Program on a context that "
                "contains the queue's device"
            )
        return device
