"""`Program`: an author's source with portbar's headers, compiled for each device of a context."""

from __future__ import annotations

import operator
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
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
from portbar.errors import BuildError, DeviceError, Error, LoopLimitWarning, UnsupportedFeatureError
from portbar.launching.build import kernel_names
from portbar.launching.compiled import CompiledProgram
from portbar.launching.kernel import Kernel
from portbar.primitives import scan
from portbar.primitives.headers import needed_ordering
from portbar.primitives.reduction.checks import HEADER, check_source
from portbar.primitives.reduction.loops import ReductionLoop, check_loops
from portbar.primitives.reduction.use import use_of
from portbar.primitives.scan import DeviceScan
from portbar.primitives.split_barrier.selection import shows_counts
from portbar.primitives.strategy import Strategy
from portbar.primitives.tracing import MOST_EVENTS, USUAL_EVENTS, tracing_of
from portbar.rendering.source import early_statement, includes, mentions, open_enter

#: Seconds that a barrier waits before it gives up, unless the program says otherwise.
DEFAULT_SPIN_LIMIT: Final = 10.0

#: Where a driver stops reading, and what has no UTF-8.
_UNREADABLE: Final = re.compile("[\0\ud800-\udfff]")

#: Text that can only be meant as the path of a source.
_PATH: Final = re.compile(r"[^\s(){};]+\.(?:cl|clh|c|h|ocl|opencl)")

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
        options = _listed("options", options.split() if isinstance(options, str) else options)
        for option in options:
            if not isinstance(option, str) or _UNREADABLE.search(option):
                raise Error(f"options= must hold build options as strings, but it contains {shortened(option)}")
        require, reductions = _listed("require", require), _listed("reductions", reductions)
        if not is_time(spin_limit) or not spin_limit > 0:
            raise Error(f"spin_limit must be a finite number of seconds above 0, not {shortened(spin_limit)}")
        if registers is not None and not (type(registers) is int and 16 <= registers <= 255):
            raise Error(f"registers must be an integer from 16 to 255, not {shortened(registers)}")
        name, text = _name_and_text(source)
        devices = _devices(context, devices)
        self.require = _required(require, text)
        self.debug = debug
        self.trace = _events(trace)
        loops = check_loops(reductions)
        check_source(name, text, loops)
        declared = scan.check_scans(scans)
        scan.check_source(name, text, declared)
        _check_entering(name, text)
        headers = [include.name for include in includes(text)]
        profiles = {device: describe(device) for device in devices}
        for profile in profiles.values():
            _warn_of_short_loops(profile)
        ordering = "device" if mentions(text, "PORTBAR_REDUCTION_PARAM") else needed_ordering(headers)
        counted = shows_counts(text, options)
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
            name=name,
            source=text,
            options=options,
            spin_limit=float(spin_limit),
            isolate_build=isolate_build,
            reductions=loops,
            reduction_use=use_of(text, options, loops) if HEADER in headers else None,
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


def _listed(what: str, given: Any) -> tuple[Any, ...]:
    """Return as a tuple what a caller passed as a list or as one string."""
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, Iterable) or isinstance(given, bytes):
        raise Error(f"{what}= must be a list, not {type(given).__name__}")
    return tuple(given)


def _devices(context: cl.Context, devices: Any) -> tuple[cl.Device, ...]:
    """Return the devices to build for."""
    given = _listed("devices", context.devices if devices is None else devices)
    if not given:
        raise DeviceError("devices= is empty; omit it to build for all devices of the context")
    for device in given:
        if not isinstance(device, cl.Device):
            raise DeviceError(f"devices= must be a list of pyopencl.Device, but it contains {shortened(device)}")
        if device not in context.devices:
            raise DeviceError(f"{device.name.strip()} is not a device of the program's context")
    return given


def _check_entering(name: str, text: str) -> None:
    """Refuse a source whose kernels do not enter their grid by their first statement."""
    if mentions(text, "PORTBAR_GRID_PARAM") and not mentions(text, "PORTBAR_ENTER"):
        raise BuildError(
            f"{name}: a kernel takes PORTBAR_GRID_PARAM, but the source never uses PORTBAR_ENTER; make "
            "PORTBAR_ENTER(grid); the first statement of that kernel"
        )
    line = open_enter(text)
    if line is not None:
        raise BuildError(f"{name}, line {line}: PORTBAR_ENTER is a statement and needs a semicolon after it")
    early = early_statement(text)
    if early is not None:
        raise BuildError(
            f"{name}, line {early[1]}: kernel {early[0]!r} executes code before PORTBAR_ENTER, which surplus work-groups "
            "and occupancy measurements would execute too; move it after PORTBAR_ENTER. Only declarations may precede it, "
            "with initialisers that call only get_local_id and similar functions"
        )


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


def _name_and_text(source: Any) -> tuple[str, str]:
    """Return the name of a source in messages, and its text."""
    if not isinstance(source, str | Path):
        raise Error(f"the source of a program must be text or a pathlib.Path, not {type(source).__name__}")
    if isinstance(source, str) and _PATH.fullmatch(source):
        raise Error(
            f"the source of a program is its text, and {source!r} looks like a path: pass pathlib.Path({source!r})"
        )
    name = source.name if isinstance(source, Path) else "program.cl"
    try:
        text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
        text.encode()
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        raise Error(f"{name} is not UTF-8 ({error.reason}, at {error.start}): save it as UTF-8") from None
    before, null, _ = text.partition("\0")
    if null:
        line = before.count("\n") + 1
        raise Error(f"{name}, line {line}: a null character, where drivers stop reading; remove it")
    # Editors mark UTF-8 by it, and compilers of OpenCL C refuse it.
    return name, text.removeprefix("\ufeff")


def _warn_of_short_loops(profile: DeviceProfile) -> None:
    """Warn, once per device, that the author's own loops may end early; the caller is `Program`, called by the author."""
    key = device_key(profile.facts)
    if profile.loop_limit is not None and key not in _warned:
        _warned.add(key)
        notice = quirks.loop_notice(profile.facts, profile.loop_limit)
        warnings.warn(f"{profile.facts.name}: {notice}", LoopLimitWarning, stacklevel=3)


def _required(names: Sequence[Any], source: str) -> tuple[requirements.Required, ...]:
    """Return the requirements of a program."""
    required = requirements.parse(names)
    for one in required:
        if str(one).startswith(requirements.SPLIT_BARRIER) and not any(
            include.name == "portbar/split_barrier.h" for include in includes(source)
        ):
            raise UnsupportedFeatureError(
                f'no header of this program defines the feature {str(one)!r}; add #include "portbar/split_barrier.h"'
            )
    return required
