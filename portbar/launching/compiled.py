"""An author's source, compiled for each device of a context, and its kernels as PyOpenCL's objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyopencl as cl

from portbar.choices.strategy import DeviceProfile
from portbar.choices.timing import limit_rounds
from portbar.errors import DeviceError
from portbar.launching.build import build_options, compile_program
from portbar.launching.isolation import try_build
from portbar.launching.parameters import GRID, Hidden, exclusive_pairs, hidden_of, parameters_of, scalar_typedefs
from portbar.launching.plan import TypedKernel
from portbar.launching.resources import MOST_REGISTERS, VERBOSE
from portbar.launching.states import States
from portbar.primitives.backend import exchanged
from portbar.primitives.headers import resolve_includes
from portbar.primitives.reduction.header import scratch_bytes
from portbar.primitives.reduction.loops import ReductionLoop
from portbar.primitives.reduction.use import Use
from portbar.primitives.scan import DeviceScan
from portbar.primitives.strategy import Strategy


@dataclass(eq=False, repr=False)
class CompiledProgram:
    """A source with the choices that were made for each device; most attributes are as the parameters of `Program`."""

    context: cl.Context
    #: Of the source, in messages.
    name: str
    source: str
    options: tuple[str, ...]
    spin_limit: float
    isolate_build: bool
    reductions: tuple[ReductionLoop, ...]
    #: The program's use of portbar/reduction.h; None where the program does not include it.
    reduction_use: Use | None
    scans: tuple[DeviceScan, ...]
    profiles: Mapping[cl.Device, DeviceProfile]
    strategies: Mapping[cl.Device, Strategy]
    #: Work-groups that each launch of a grid needs at the same time.
    least_groups: int
    registers: int | None = None

    def __post_init__(self) -> None:
        """Compile for each device."""
        self.devices = tuple(self.profiles)
        self.states = States(
            self.reductions,
            self.reduction_use,
            self.scans,
            lambda device: limit_rounds(self.profile(device), self.spin_limit),
            lambda device: self.strategy(device).tracing,
        )
        self._built: dict[tuple[cl.Device, str, int], cl.Program] = {}
        for device in self.devices:
            self.built(device)

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

    def built(self, device: cl.Device, strategy: Strategy | None = None, other: int = 0) -> cl.Program:
        """The PyOpenCL program for one device and barrier algorithm, the device's own by default; compiled at first need.

        It is for launches with dimension `other` and the first one exchanged.
        """
        strategy = strategy or self.strategy(device)
        key = (device, strategy.device_barrier.value, other)
        with self.states.lock:
            program = self._built.get(key)
            if program is None:
                text = exchanged(other) + self._text(strategy)
                options = self._build_options(device, strategy)
                if self.isolate_build:
                    try_build(device, text, options)
                program = compile_program(self.context, device, text, options)
                self._built[key] = program
        return program

    def verbose_log(self, device: cl.Device) -> str:
        """Return the log of another build, with each kernel's resources; empty if the compiler reports none."""
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


class CompiledKernel:
    """One kernel of a program: its parameters, and PyOpenCL's objects for it."""

    def __init__(self, program: CompiledProgram, name: str) -> None:
        self.program, self.name = program, name
        self._handles: dict[tuple[cl.Device, str, int, tuple[int, ...]], TypedKernel] = {}
        self._typedefs = scalar_typedefs(program.source)
        handle = self.handle(program.devices[0])
        parameters = parameters_of(handle, self._typedefs)
        self.hidden = hidden_of(name, program.source, parameters)
        skipped = Hidden.COUNT if self.hidden else 0
        self.count = handle.num_args - skipped
        #: The author's; None if the driver does not report them.
        self.parameters = None if parameters is None else parameters[skipped:]
        # Places of parameters that must not get one buffer. Without a grid no work-group waits for what another one writes.
        self.exclusive = exclusive_pairs(self.parameters or ()) if self.hidden is GRID else ()

    def handle(
        self, device: cl.Device, strategy: Strategy | None = None, args: Sequence[object] = (), other: int = 0
    ) -> TypedKernel:
        """The kernel object for a device, algorithm and exchanged dimension, and where `args` point to shared virtual memory.

        Such pointers need one of their own, which may take no buffer in their place afterwards (the effect POINTERS_STAY).
        """
        strategy = strategy or self.program.strategy(device)
        pointers = tuple(i for i, argument in enumerate(args) if isinstance(argument, cl.SVMPointer))
        key = (device, strategy.device_barrier.value, other, pointers)
        handle = self._handles.get(key)
        if handle is None:
            handle = TypedKernel(self.program.built(device, strategy, other), self.name)
            parameters = parameters_of(handle, self._typedefs)
            if parameters is not None:
                # Makes a launch ten times cheaper than letting PyOpenCL find out what each argument is.
                handle.set_arg_types([parameter.passed_as for parameter in parameters])
            self._handles[key] = handle
        return handle

    def label(self, device: cl.Device) -> tuple[str, str]:
        """The names of the kernel and of a device, for messages."""
        return self.name, device.name.strip()
