"""`Program`: an author's source with portbar's headers, compiled for each device of a context.

Not for launching: `portbar.kernel` does.
"""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyopencl as cl

from portbar import quirks
from portbar.build import build_options, compile_program
from portbar.device import device_key
from portbar.errors import BuildError, DeviceError, Error, LoopLimitWarning, UnsupportedFeatureError
from portbar.isolation import try_build
from portbar.kernel import Kernel
from portbar.profile import describe
from portbar.reduction.launching import GangState
from portbar.reduction.loops import ReductionLoop, check_loops
from portbar.reduction.rendering import grid_extra_words, scratch_bytes
from portbar.reduction.use import HEADER, check_source, use_of
from portbar.rendering import needed_ordering, resolve_includes
from portbar.residency import VERBOSE
from portbar.source import early_statement, includes, mentions
from portbar.split_barrier import FEATURES, shows_counts
from portbar.state import QueueState
from portbar.strategy import DeviceProfile, Strategy, choose
from portbar.timing import is_time, limit_rounds, shortened

#: Seconds that a barrier waits before it gives up, unless the program says otherwise.
DEFAULT_SPIN_LIMIT: Final = 10.0

#: Queues whose state is kept; the least recently used one is dropped beyond that, and made anew if it is used again.
_MAX_STATES: Final = 64


#: Devices, by their key, whose loop limit has been told.
_warned: Final[set[str]] = set()


class Program:
    """OpenCL C with portbar's headers, compiled for each device of a context.

    Parameters
    ----------
    context : pyopencl.Context
    source : str or pathlib.Path
        OpenCL C that includes `portbar/....h` headers. Given a path, the file is read and its name used in messages.
    options : sequence of str, optional
        Build options for the driver, as for `pyopencl.Program.build`.
    strategy : Strategy or mapping of str to str, optional
        Overrides of portbar's choices, such as ``{"device_barrier": "tree"}``, or a whole strategy for every device.
    require : sequence of str, optional
        Features that every device must have, such as ``("split_barrier.divergent",)``.
    spin_limit : float, optional
        Seconds, roughly, after which a barrier gives up and the kernel drains.
    devices : sequence of pyopencl.Device, optional
        Devices of the context to build for; all of them by default.
    debug : bool, optional
        Look for misuse of split barriers on the device, which costs time; a whole `Strategy` says so itself.
    isolate_build : bool, optional
        Compile in a child process first, so that a driver that aborts or hangs over the program costs that process and becomes
        a `BuildError`. Costs the start of a Python process for each device and algorithm.
    reductions : sequence of ReductionLoop, optional
        Loops whose types and functions `portbar/reduction.h` defines for this program.

    Raises
    ------
    BuildError
        The driver refused the program.
    RenderError
        An include names no header of portbar's.
    UnsupportedFeatureError
        A device cannot do what the program needs.

    Warns
    -----
    LoopLimitWarning
        A device ends loops silently, the author's own ones too; once a device.
    """

    def __init__(
        self,
        context: cl.Context,
        source: str | Path,
        options: Sequence[str] = (),
        strategy: Strategy | Mapping[str, str] | None = None,
        *,
        require: Sequence[str] = (),
        spin_limit: float = DEFAULT_SPIN_LIMIT,
        devices: Sequence[cl.Device] | None = None,
        debug: bool = False,
        isolate_build: bool = False,
        reductions: Sequence[ReductionLoop] = (),
    ) -> None:
        if isinstance(options, str):
            options = options.split()
        if not isinstance(source, str | Path):
            raise Error(f"the source of a program is text or a pathlib.Path, not {type(source).__name__}")
        if not is_time(spin_limit) or not spin_limit > 0:
            raise Error(f"spin_limit is a finite number of seconds above 0, not {shortened(spin_limit)}")
        self.context = context
        self.name = source.name if isinstance(source, Path) else "program.cl"
        text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
        # Editors mark UTF-8 by it, and compilers of OpenCL C refuse it.
        self.source = text.removeprefix("\ufeff")
        self.options = tuple(options)
        self.spin_limit = float(spin_limit)
        self.devices = tuple(context.devices if devices is None else devices)
        if not self.devices:
            raise DeviceError(
                "devices= names no device to build the program for; leave it out for all of the context's"
            )
        for device in self.devices:
            if device not in context.devices:
                raise DeviceError(f"{device.name.strip()} is not a device of the program's context")
        self.require = _known_features(require, self.source)
        self.debug = debug
        self.isolate_build = isolate_build
        self.reductions = check_loops(reductions)
        check_source(self.name, self.source, self.reductions)
        #: What is used of portbar/reduction.h; None where the program does not include it.
        self.reduction_use = (
            use_of(self.source, self.options, self.reductions)
            if any(include.name == HEADER for include in includes(self.source))
            else None
        )
        if mentions(self.source, "PORTBAR_GRID_PARAM") and not mentions(self.source, "PORTBAR_ENTER"):
            raise BuildError(
                f"{self.name}: a kernel takes PORTBAR_GRID_PARAM, but PORTBAR_ENTER stands nowhere in the source; make "
                "PORTBAR_ENTER(grid); the first statement of that kernel"
            )
        early = early_statement(self.source)
        if early is not None:
            raise BuildError(
                f"{self.name}, line {early[1]}: kernel {early[0]!r} does something before PORTBAR_ENTER, which surplus "
                "work-groups and the measurement of its occupancy would do too; move it behind PORTBAR_ENTER. Only "
                "declarations may stand before it, with values that call nothing but get_local_id and its like"
            )
        #: Guards the kernels' arguments and the states: clSetKernelArg and the enqueue that follows belong together.
        self.lock = threading.RLock()
        self._profiles: dict[cl.Device, DeviceProfile] = {}
        self._strategies: dict[cl.Device, Strategy] = {}
        self._built: dict[tuple[cl.Device, str], cl.Program] = {}
        self._states: OrderedDict[int, QueueState] = OrderedDict()
        self._dry_queues: dict[cl.Device, cl.CommandQueue] = {}
        self._gang_states: OrderedDict[int, GangState] = OrderedDict()
        #: Counts changes of the states, so that a kernel knows when the one it remembers may be stale.
        self.generation = 0
        self._kernels: dict[str, Kernel] = {}
        for device in self.devices:
            self._profiles[device] = describe(device)
            _warn_of_short_loops(self._profiles[device])
            self._strategies[device] = self._strategy_for(device, strategy)
            self.built(device, self._strategies[device])

    def _strategy_for(self, device: cl.Device, asked: Strategy | Mapping[str, str] | None) -> Strategy:
        """The strategy for a device, checked against what the program requires."""
        ordering = needed_ordering(include.name for include in includes(self.source))
        if mentions(self.source, "PORTBAR_REDUCTION_PARAM"):
            ordering = "device"
        chosen = (
            asked
            if isinstance(asked, Strategy)
            else choose(self._profiles[device], asked, ordering=ordering, debug=self.debug)
        )
        for feature in self.require:
            if feature not in chosen.split_features:
                raise UnsupportedFeatureError(
                    f"{device.name.strip()} does not carry split_barrier.{feature} ({FEATURES[feature]}): its strategy is "
                    f"{chosen.split_barrier}, because {chosen.split_barrier.reason}. Use waits that all work-items of "
                    "the group reach, or another device"
                )
        return replace(chosen, split_counted=shows_counts(self.source, self.options))

    def strategy(self, device: cl.Device) -> Strategy:
        """The strategy chosen for a device of this program."""
        return self._strategies[self._own(device)]

    def profile(self, device: cl.Device) -> DeviceProfile:
        """What was known of a device when the program was built."""
        return self._profiles[self._own(device)]

    def reduction_bytes(self, device: cl.Device) -> int:
        """Bytes of local memory that PORTBAR_REDUCTION_SCRATCH takes in a kernel of the program; 0 without reductions."""
        return scratch_bytes(self.strategy(device), self.reduction_use) if self.reduction_use is not None else 0

    def rendered(self, device: cl.Device) -> str:
        """The OpenCL C that was compiled for a device."""
        return self._text(self.strategy(device))

    def _text(self, strategy: Strategy) -> str:
        return resolve_includes(self.source, strategy, name=self.name, use=self.reduction_use)

    def built(self, device: cl.Device, strategy: Strategy) -> cl.Program:
        """The PyOpenCL program for one device and barrier algorithm, compiled at first need."""
        key = (device, strategy.device_barrier.value)
        with self.lock:
            program = self._built.get(key)
            if program is None:
                text = self._text(strategy)
                options = build_options(strategy, self.options)
                if self.isolate_build:
                    try_build(device, text, options)
                program = compile_program(self.context, device, text, options)
                self._built[key] = program
        return program

    def verbose_log(self, device: cl.Device) -> str:
        """The build log with what each kernel takes, of a compilation for that alone; empty where no compiler tells."""
        if not self.profile(device).facts.compute_capability:
            return ""
        options = (*build_options(self.strategy(device), self.options), VERBOSE)
        program = compile_program(self.context, device, self.rendered(device), options)
        return str(program.get_build_info(device, cl.program_build_info.LOG))

    def kernel_names(self) -> tuple[str, ...]:
        """Names of the program's kernels, sorted."""
        program = next(iter(self._built.values()))
        names = str(program.get_info(cl.program_info.KERNEL_NAMES))
        return tuple(sorted(filter(None, names.strip("\0").split(";"))))

    def kernel(self, name: str) -> Kernel:
        """The kernel called `name`.

        Raises
        ------
        Error
            There is no such kernel; the message names those that there are.
        """
        with self.lock:
            if name not in self._kernels:
                if name not in self.kernel_names():
                    known = ", ".join(self.kernel_names()) or "none"
                    raise Error(f"the program has no kernel {name!r}; kernels: {known}")
                self._kernels[name] = Kernel(self, name)
            return self._kernels[name]

    def state(self, queue: cl.CommandQueue, groups: int) -> QueueState:
        """The state of a queue, large enough for `groups` launched work-groups. The caller holds the lock."""
        key = queue.int_ptr
        state = self._states.get(key)
        if state is None or state.exhausted or groups > 1 << state.capacity_log2:
            previous = state
            use = self.reduction_use
            state = QueueState(queue, groups, None if use is None else lambda capacity: grid_extra_words(use, capacity))
            if previous is not None:
                # Launches on an out-of-order queue keep following one another across the change of buffers.
                state.order = previous.order
            self._states[key] = state
            self.generation += 1
            while len(self._states) > _MAX_STATES:
                self._states.popitem(last=False)
        self._states.move_to_end(key)
        return state

    def dry_queue(self, device: cl.Device) -> cl.CommandQueue:
        """A queue of the program's own for launches that run none of the author's code."""
        with self.lock:
            if device not in self._dry_queues:
                self._dry_queues[device] = cl.CommandQueue(self.context, device)
            return self._dry_queues[device]

    def gang_state(self, queue: cl.CommandQueue, groups: int) -> GangState:
        """What work-groups without a grid leave their values in, enough for `groups` of them. The caller holds the lock."""
        key = queue.int_ptr
        state = self._gang_states.get(key)
        if state is None or groups > state.capacity:
            limit = limit_rounds(self.profile(queue.device), self.spin_limit)
            state = self._gang_states[key] = GangState(queue, groups, self.reductions, state, limit)
            while len(self._gang_states) > _MAX_STATES:
                self._gang_states.popitem(last=False)
        self._gang_states.move_to_end(key)
        return state

    def _own(self, device: cl.Device) -> cl.Device:
        if device not in self._strategies:
            built = ", ".join(d.name.strip() for d in self.devices)
            raise DeviceError(
                f"the program was not built for {device.name.strip()}, only for {built}; make a Program on a context that "
                "holds the queue's device"
            )
        return device


def _warn_of_short_loops(profile: DeviceProfile) -> None:
    """Tell, once a device, that the author's own loops may end early; the caller is `Program`, called by the author."""
    key = device_key(profile.facts)
    if profile.loop_limit is not None and key not in _warned:
        _warned.add(key)
        notice = quirks.loop_notice(profile.facts, profile.loop_limit)
        warnings.warn(f"{profile.facts.name}: {notice}", LoopLimitWarning, stacklevel=3)


def _known_features(require: Sequence[str], source: str) -> tuple[str, ...]:
    """The names of required features without their header.

    Raises
    ------
    UnsupportedFeatureError
        There is no such feature, the message lists those that there are; or the program does not include its header.
    """
    if isinstance(require, str):
        require = (require,)
    known = {f"split_barrier.{feature}": feature for feature in FEATURES}
    for name in require:
        if name not in known:
            raise UnsupportedFeatureError(f"no feature is called {name!r}; features: {', '.join(known)}")
        if not any(include.name == "portbar/split_barrier.h" for include in includes(source)):
            raise UnsupportedFeatureError(
                f'no header of this program defines the feature {name!r}; add #include "portbar/split_barrier.h"'
            )
    return tuple(known[name] for name in require)
