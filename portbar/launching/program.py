"""`Program`: an author's source with portbar's headers, compiled for each device of a context."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyopencl as cl

from portbar.choices import requirements
from portbar.choices.profile import describe
from portbar.choices.strategy import DeviceProfile, choose
from portbar.choices.timing import is_time, shortened
from portbar.device import quirks
from portbar.device.facts import ask, device_key
from portbar.errors import DeviceError, Error, LoopLimitWarning, UnsupportedFeatureError
from portbar.launching.build import kernel_names
from portbar.launching.compiled import CompiledProgram
from portbar.launching.kernel import Kernel
from portbar.launching.source import listed, read_source
from portbar.primitives.headers import needed_ordering
from portbar.primitives.reduction.checks import HEADER
from portbar.primitives.reduction.loops import ReductionLoop, check_loops
from portbar.primitives.reduction.use import use_of
from portbar.primitives.scan import DeviceScan, check_scans
from portbar.primitives.split_barrier.selection import shows_counts
from portbar.primitives.strategy import Strategy
from portbar.primitives.tracing import MOST_EVENTS, USUAL_EVENTS, tracing_of
from portbar.rendering.source import mentions

#: Seconds that a barrier waits before it gives up, unless the program says otherwise.
DEFAULT_SPIN_LIMIT: Final = 10.0

#: Devices, by their key, for which the loop limit was reported.
_warned: Final[set[str]] = set()


class Program(CompiledProgram):
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
        Features that every device must have, such as ``("fp64", "groups>=2", "split_barrier.divergent")``: names of
        `docs/strategies.md`, or extensions.
    spin_limit : float, optional
        Seconds, roughly, after which a barrier gives up and the kernel drains.
    devices : sequence of pyopencl.Device, optional
        Devices of the context to build for; all of them by default.
    debug : bool, optional
        Check for misuse of split barriers on the device, which costs time; a whole `Strategy` has its own setting.
    isolate_build : bool, optional
        Compile in a child process first, so that a driver that aborts or hangs kills only that process and raises a
        `BuildError`. Costs the start of a Python process per device and algorithm.
    trace : bool or int, optional
        Record when work-groups arrive at device barriers and leave them, for `Launch.trace`; a number is the count of recorded
        barriers per work-group, 256 by default. Costs a work-group barrier and a few stores per device barrier; nothing if off.
    registers : int, optional
        Maximum registers per work-item, 16 to 255, on compilers with such an option (NVIDIA's). More registers allow more loads
        in flight in gather loops; fewer allow more concurrent work-groups. `docs/launching.md` has figures.
    reductions : sequence of ReductionLoop, optional
        Loops whose types and functions `portbar/reduction.h` defines for this program.
    scans : sequence of DeviceScan, optional
        Scans whose types and functions `portbar/scan.h` defines for this program.

    Raises
    ------
    Error
        An argument is of the wrong type, or the source is not text.
    BuildError
        The driver refused the program.
    RenderError
        An include names an unknown header of portbar's.
    UnsupportedFeatureError
        A device lacks a feature that the program requires.

    Warns
    -----
    LoopLimitWarning
        A device ends loops silently, including the author's own; once per device.
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
        trace: bool | int = False,
        registers: int | None = None,
        reductions: Sequence[ReductionLoop] = (),
        scans: Sequence[DeviceScan] = (),
    ) -> None:
        if not isinstance(context, cl.Context):
            raise Error(f"the first argument of a program must be a pyopencl.Context, not {type(context).__name__}")
        if not is_time(spin_limit) or not spin_limit > 0:
            raise Error(f"spin_limit must be a finite number of seconds above 0, not {shortened(spin_limit)}")
        if registers is not None and not (type(registers) is int and 16 <= registers <= 255):
            raise Error(f"registers must be an integer from 16 to 255, not {shortened(registers)}")
        loops, declared = check_loops(listed("reductions", reductions)), check_scans(scans)
        read = read_source(source, options, loops, declared)
        devices = _devices(context, devices)
        self.require = _required(listed("require", require), read.headers)
        self.debug = debug
        self.trace = _events(trace)
        profiles = {device: describe(device) for device in devices}
        for profile in profiles.values():
            _warn_of_short_loops(profile)
        ordering = "device" if mentions(read.text, "PORTBAR_REDUCTION_PARAM") else needed_ordering(read.headers)
        counted = shows_counts(read.text, read.options)
        strategies = {
            device: replace(
                self._strategy_for(device, profile, strategy, ordering),
                split_counted=counted,
                tracing=tracing_of(profile.facts, profile.findings, self.trace) if self.trace else None,
            )
            for device, profile in profiles.items()
        }
        super().__init__(
            context=context,
            name=read.name,
            source=read.text,
            options=read.options,
            spin_limit=float(spin_limit),
            isolate_build=isolate_build,
            reductions=loops,
            reduction_use=use_of(read.text, read.options, loops) if HEADER in read.headers else None,
            scans=declared,
            profiles=profiles,
            strategies=strategies,
            least_groups=requirements.least_groups(self.require),
            registers=registers,
        )
        self._kernels: dict[str, Kernel] = {}

    def _strategy_for(
        self, device: cl.Device, profile: DeviceProfile, asked: Strategy | Mapping[str, str] | None, ordering: str
    ) -> Strategy:
        """The strategy for a device, checked against what the program requires."""
        chosen = asked if isinstance(asked, Strategy) else choose(profile, asked, ordering=ordering, debug=self.debug)
        candidate = requirements.Candidate(profile, chosen, lambda question: ask(device, question))
        requirements.check(self.require, candidate)
        return chosen

    def kernel_names(self) -> tuple[str, ...]:
        """Names of the program's kernels, sorted."""
        return kernel_names(next(iter(self._built.values())))

    def kernel(self, name: str) -> Kernel:
        """Return the kernel `name`.

        Raises
        ------
        Error
            The program has no such kernel; the message lists its kernels.
        """
        with self.states.lock:
            if name not in self._kernels:
                if name not in self.kernel_names():
                    known = ", ".join(self.kernel_names()) or "none"
                    raise Error(f"the program has no kernel {name!r}; kernels: {known}")
                self._kernels[name] = Kernel(self, name)
            return self._kernels[name]


def _devices(context: cl.Context, devices: Any) -> tuple[cl.Device, ...]:
    given = listed("devices", context.devices if devices is None else devices)
    if not given:
        raise DeviceError("devices= is empty; omit it to build for all devices of the context")
    for device in given:
        if not isinstance(device, cl.Device):
            raise DeviceError(f"devices= must be a list of pyopencl.Device, but it contains {shortened(device)}")
        if device not in context.devices:
            raise DeviceError(f"{device.name.strip()} is not a device of the program's context")
    return given


def _events(trace: Any) -> int:
    """How many events of each work-group a caller wants to be kept, 0 for no trace."""
    if isinstance(trace, bool):
        return USUAL_EVENTS if trace else 0
    try:
        events = operator.index(trace)
    except TypeError:
        events = 0
    if not 1 <= events <= MOST_EVENTS:
        raise Error(
            "trace= must be True, or the number of device barriers to record per work-group, from 1 to "
            f"{MOST_EVENTS}, not {shortened(trace)}"
        )
    return events


def _warn_of_short_loops(profile: DeviceProfile) -> None:
    """Warn, once per device, that the author's own loops may end early; the caller is `Program`, called by the author."""
    key = device_key(profile.facts)
    if profile.loop_limit is not None and key not in _warned:
        _warned.add(key)
        notice = quirks.loop_notice(profile.facts, profile.loop_limit)
        warnings.warn(f"{profile.facts.name}: {notice}", LoopLimitWarning, stacklevel=3)


def _required(names: Sequence[Any], headers: Sequence[str]) -> tuple[requirements.Required, ...]:
    required = requirements.parse(names)
    for one in required:
        if str(one).startswith(requirements.SPLIT_BARRIER) and "portbar/split_barrier.h" not in headers:
            raise UnsupportedFeatureError(
                f'no header of this program defines the feature {str(one)!r}; add #include "portbar/split_barrier.h"'
            )
    return required
