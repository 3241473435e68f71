"""An author's source, compiled for each device of a context, and its kernels as PyOpenCL's objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyopencl as cl

from portbar.backends.profile import DeviceProfile
from portbar.device.addresses import root_of
from portbar.device.facts import DeviceFacts
from portbar.errors import DeviceError, LaunchError, UnwrittenError
from portbar.launching.build import BuiltProgram, TypedKernel, build_options, compile_program, compiled
from portbar.launching.launch import States
from portbar.launching.parameters import GRID, Hidden, exclusive_pairs, hidden_of, parameters_of
from portbar.primitives.layout import Layout
from portbar.primitives.scalars import TYPES
from portbar.primitives.strategy import Strategy
from portbar.records.coding import Later
from portbar.records.dataclass import dataclass

if TYPE_CHECKING:  # take long to import
    from portbar.primitives.reduction.loops import ReductionLoop
    from portbar.primitives.reduction.use import Use
    from portbar.primitives.scan import DeviceScan
    from portbar.reading.found import Checked, Facts, Unread


def has_part(context: cl.Context, devices: Sequence[cl.Device], device: cl.Device) -> bool:
    """Whether a device is a part of one of these, and its queues can be in the context (the effect PARENTS_LISTED)."""
    root = root_of(device)
    if root == device or root not in devices:
        return False
    try:
        cl.CommandQueue(context, device)
    except cl.Error:
        return False
    return True


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
    #: The devices to compile for; those that are used later join them.
    profiles: dict[cl.Device, DeviceProfile]
    strategies: dict[cl.Device, Strategy]
    #: Chooses for a device that is used later.
    choose_for: Callable[[cl.Device], tuple[DeviceProfile, Strategy]]
    #: The words that the program's headers own.
    layout: Layout
    #: Work-groups that each launch of a grid needs at the same time.
    least_groups: int
    #: Those of the source; None where nothing in it needed them, or it could not be read.
    facts: Later[Facts | None]
    #: Identifiers of the source about which a driver's macros decide.
    doubtful: frozenset[str]
    #: Reads the source in any case.
    read: Callable[[], Facts | None]
    #: Names what is made of the source, and makes it unless an earlier process did.
    part: Callable[[tuple[Any, ...], Callable[[], Any]], Any]
    registers: int | None = None

    def __post_init__(self) -> None:
        """Compile for each device."""
        self.devices = tuple(self.profiles)
        self.states = States(self.layout)
        self._built: dict[tuple[cl.Device, str, int], BuiltProgram] = {}
        self._checked: dict[Strategy, str | Unread] = {}
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
        if self.reduction_use is None:
            return 0
        from portbar.primitives.reduction.header import scratch_bytes  # noqa: PLC0415 (most programs do without)

        return scratch_bytes(self.strategy(device), self.reduction_use)

    def scalar(self, name: str) -> str | None:
        """The scalar type that has a name of the author's; None if it is another, or a driver decides that."""
        return self._typedefs.get(name)

    @cached_property
    def _typedefs(self) -> dict[str, str]:
        facts = self.facts.value or self.read()
        if facts is None or not facts.is_whole:
            return {}
        named = facts.typedefs.items()
        return {name: kind for name, kind in named if kind in TYPES and name not in self.doubtful}

    def rendered(self, device: cl.Device) -> str:
        """The OpenCL C that was compiled for a device."""
        return self._text(device, self.strategy(device))

    def checked(self, strategy: Strategy) -> str | Unread:
        """The source as it is compiled: with checks in a debug build, or why it has none there."""
        if not strategy.debug:
            return self.source
        if strategy not in self._checked:
            self._checked[strategy] = self._with_checks(strategy)
        return self._checked[strategy]

    def _with_checks(self, strategy: Strategy) -> str | Unread:
        from portbar.primitives.agreement import register  # noqa: PLC0415 (only debug builds need it)

        made: Checked | Unread = self.part(("checks", strategy), lambda: self._made_with_checks(strategy))
        from portbar.reading.found import Unread  # noqa: PLC0415 (the same)

        if isinstance(made, Unread):
            return made
        # Faults of the checks can name these conditions from now on.
        register(made.conditions)
        return made.text

    def _made_with_checks(self, strategy: Strategy) -> Checked | Unread:
        from portbar.primitives.headers import with_checks  # noqa: PLC0415 (takes long to import)

        return with_checks(
            self.source, strategy, name=self.name, use=self.reduction_use, options=self.options, scans=self.scans
        )

    def _text(self, device: cl.Device, strategy: Strategy, *, as_it_is: bool = False) -> str:
        facts = self.profile(device).facts
        make = partial(self._rendered, facts, strategy, as_it_is=as_it_is)
        made: str = self.part(("text", facts, strategy, as_it_is), make)
        if strategy.debug:
            self.checked(strategy)
        return made

    def _rendered(self, facts: DeviceFacts, strategy: Strategy, *, as_it_is: bool) -> str:
        from portbar.primitives.headers import Target, resolve_includes  # noqa: PLC0415 (takes long to import)

        source = self.checked(strategy)
        return resolve_includes(
            source if isinstance(source, str) else self.source,
            strategy,
            name=self.name,
            use=self.reduction_use,
            options=self.options,
            scans=self.scans,
            target=Target(facts.name, tuple(facts.extensions)),
            as_it_is=as_it_is,
        )

    def built(self, device: cl.Device, strategy: Strategy | None = None, other: int = 0) -> cl.Program:
        """The PyOpenCL program for one device and barrier algorithm, the device's own by default; compiled at first need.

        It is for launches with dimension `other` and the first one exchanged.
        """
        return self.compiled(device, strategy, other).program

    def compiled(self, device: cl.Device, strategy: Strategy | None = None, other: int = 0) -> BuiltProgram:
        """The same, with its kernels' arguments."""
        strategy = strategy or self.strategy(device)
        key = (device, strategy.device_barrier.value, other)
        with self.states.lock:
            program = self._built.get(key)
            if program is None:
                options = self._build_options(device, strategy)
                try:
                    text = self._exchanged(other) + self._text(device, strategy)
                except UnwrittenError:
                    # The driver's own message comes first: what cannot be read is an error more often than another language.
                    self._compiled(device, self._text(device, strategy, as_it_is=True), options)
                    raise
                program = self._built[key] = self._compiled(device, text, options)
        return program

    @staticmethod
    def _exchanged(other: int) -> str:
        if not other:
            return ""
        from portbar.backends.backend import exchanged  # noqa: PLC0415 (few launches need it)

        return exchanged(other)

    def _compiled(self, device: cl.Device, text: str, options: tuple[str, ...]) -> BuiltProgram:
        """A text compiled for a device, in a process of its own before if that is asked for."""
        if self.isolate_build:
            from portbar.launching.isolation import try_build  # noqa: PLC0415 (few programs need it)

            try_build(device, text, options)
        return compiled(self.context, device, text, options)

    def verbose_log(self, device: cl.Device) -> str:
        """Return the log of another build, with each kernel's resources; empty if the compiler reports none."""
        if not self.profile(device).units.reports_resources:
            return ""
        from portbar.launching.resources import VERBOSE  # noqa: PLC0415 (few programs need it)

        options = (*self._build_options(device, self.strategy(device)), VERBOSE)
        program = compile_program(self.context, device, self.rendered(device), options)
        return str(program.get_build_info(device, cl.program_build_info.LOG))

    def _build_options(self, device: cl.Device, strategy: Strategy) -> tuple[str, ...]:
        options = self.options
        if self.registers is not None and self.profile(device).units.reports_resources:
            from portbar.launching.resources import MOST_REGISTERS  # noqa: PLC0415 (the same)

            options = (*options, f"{MOST_REGISTERS}={self.registers}")
        return build_options(strategy, options)

    def _own(self, device: cl.Device) -> cl.Device:
        if device not in self.strategies:
            if has_part(self.context, self.devices, device):
                profile, strategy = self.choose_for(device)
                with self.states.lock:
                    self.profiles.setdefault(device, profile)
                    self.strategies.setdefault(device, strategy)
                return device
            built = ", ".join(d.name.strip() for d in self.devices)
            raise DeviceError(
                f"the program was not built for {device.name.strip()}, only for {built}; make a Program on a context that "
                "contains the queue's device"
            )
        return device


def _words(source: str, options: tuple[str, ...]) -> frozenset[str]:
    from portbar.reading.words import words  # noqa: PLC0415 (few kernels need it)

    return words(source, options)


class KernelOnDevice(NamedTuple):
    """A kernel on one device, by the device's own algorithm."""

    device: cl.Device
    profile: DeviceProfile
    strategy: Strategy
    handle: TypedKernel
    #: The names of the kernel and the device, for messages.
    label: tuple[str, str]


class CompiledKernel:
    """One kernel of a program: its parameters, and PyOpenCL's objects for it."""

    def __init__(self, program: CompiledProgram, name: str) -> None:
        self.program, self.name = program, name
        self._handles: dict[tuple[cl.Device, str, int, tuple[int, ...]], TypedKernel] = {}
        handle = self.handle(program.devices[0])
        arguments = program.compiled(program.devices[0]).arguments_of(handle, name)
        parameters = parameters_of(arguments, self.program.scalar)
        checked = program.checked(program.strategy(program.devices[0]))
        source = checked if isinstance(checked, str) else program.source
        names = self._names_read(source) if parameters is None else [one.name for one in parameters]
        self.hidden = hidden_of(name, names, partial(_words, source, program.options))
        skipped = Hidden.COUNT if self.hidden else 0
        self.count = handle.num_args - skipped
        #: The author's; None if the driver does not report them.
        self.parameters = None if parameters is None else parameters[skipped:]
        #: Places of arrays, and types of elements that fit there.
        self.fitting: set[tuple[int, np.dtype[Any]]] = set()
        # Places of parameters that must not get one buffer. Without a grid no work-group waits for what another one writes.
        self.exclusive = exclusive_pairs(self.parameters or ()) if self.hidden is GRID else ()

    def _names_read(self, source: str) -> Sequence[str] | None:
        """The names of the parameters of a kernel that the driver does not report."""
        # Checks may add hidden parameters.
        facts = self.program.facts.value if source == self.program.source else None
        read = None if facts is None else facts.kernels.get(self.name)
        return None if read is None else read.parameters

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
            made = self.program.compiled(device, strategy, other)
            handle = TypedKernel(made.program, self.name)
            parameters = parameters_of(made.arguments_of(handle, self.name), self.program.scalar)
            if parameters is not None:
                # Makes a launch ten times cheaper than letting PyOpenCL find out what each argument is.
                handle.set_arg_types([parameter.passed_as for parameter in parameters])
            self._handles[key] = handle
        return handle

    def check_queue(self, queue: cl.CommandQueue) -> None:
        """Check that a queue belongs to the program's context, and its device to the program."""
        self.program.strategy(queue.device)  # refuses a device that the program was not built for
        if queue.context != self.program.context:
            raise LaunchError(f"kernel {self.name!r}: the queue belongs to another context than the program")

    def on(self, queue: cl.CommandQueue) -> KernelOnDevice:
        """The kernel on the device of a queue, which is checked."""
        self.check_queue(queue)
        program, device = self.program, queue.device
        strategy = program.strategy(device)
        return KernelOnDevice(device, program.profile(device), strategy, self.handle(device), self.label(device))

    def may_declare(self, type_name: str, by: str) -> bool:
        """Whether the kernel may declare a variable of a type of portbar's, `by` that name or a macro's."""
        program, facts = self.program, self.program.facts.value
        kernel = None if facts is None else facts.kernels.get(self.name)
        if kernel is not None and kernel.is_whole and by not in program.doubtful:
            return type_name in kernel.types
        from portbar.reading.words import may_use  # noqa: PLC0415 (few kernels need it)

        return may_use(by, program.source, program.options)

    def label(self, device: cl.Device) -> tuple[str, str]:
        """The names of the kernel and of a device, for messages."""
        return self.name, device.name.strip()
