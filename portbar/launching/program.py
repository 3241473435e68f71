"""`Program`: an author's source with portbar's headers, compiled for each device of a context.

Choices and results of reading come from an earlier process where nothing that they follow from changed. The modules that
choose, read and render are imported where something must be made: `portbar.launching.analysis`.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyopencl as cl

from portbar.backends.host_threads import HostThreads
from portbar.backends.profile import DeviceProfile
from portbar.backends.units import ComputeUnits
from portbar.choices.profile import describe
from portbar.choices.timing import is_time, shortened
from portbar.device import quirks
from portbar.device.facts import device_key
from portbar.device.tuning import ArrayTuning, FewTilesShape, ReduceShape, ScanShape, SortShape
from portbar.errors import DeviceError, Error, LoopLimitWarning, UnreadWarning
from portbar.launching.build import kernel_names
from portbar.launching.compiled import CompiledProgram, has_part
from portbar.launching.kernel import Kernel
from portbar.launching.request import ProgramAnalysis, ProgramRequest, given_source, listed, read_classes
from portbar.primitives.atomics_table import AtomicsTable
from portbar.primitives.layout import Layout
from portbar.primitives.pieces import Area, LocalWords
from portbar.primitives.reduction.selection import ReductionCapabilities
from portbar.primitives.strategy import Capabilities, Choice, Strategy, Tuning
from portbar.primitives.tracing import MOST_EVENTS, USUAL_EVENTS, Tracing
from portbar.records import remembered

if TYPE_CHECKING:  # take long to import
    from portbar.choices.requirements import Required
    from portbar.primitives.reduction.loops import ReductionLoop
    from portbar.primitives.scan import DeviceScan
    from portbar.reading.found import Facts, Unread


def warn_of_unread(unread: Iterable[Unread], stacklevel: int) -> None:
    """Say what the driver compiled and portbar could not read."""
    found = list(unread)
    if found:
        first = found[0]
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        warnings.warn(
            f"{first.place.file}, line {first.place.line}: portbar could not read this function ({first.reason}){more}. "
            "Misuse of barriers in it is not found before a launch",
            UnreadWarning,
            stacklevel=stacklevel + 1,
        )


def warn_of_unchecked(sources: Iterable[str | Unread], stacklevel: int) -> None:
    """Say why a debug build has no checks of conditions."""
    found = next((one for one in sources if not isinstance(one, str)), None)
    if found is not None:
        warnings.warn(
            f"{found.place.file}: debug=True checks no conditions of this program: {found.reason}",
            UnreadWarning,
            stacklevel=stacklevel + 1,
        )


#: Classes of what a program is made into.
_CLASSES: Final = (
    *(
        ProgramAnalysis,
        Strategy,
        Choice,
        Capabilities,
        Tuning,
        ArrayTuning,
        ReduceShape,
        FewTilesShape,
        ScanShape,
        SortShape,
        AtomicsTable,
    ),
    *(ReductionCapabilities, Tracing, ComputeUnits, HostThreads, Layout, Area, LocalWords),
)


def made_of(request: ProgramRequest) -> ProgramAnalysis:
    """The choices and the results of reading for a request; raises the errors of `Program`."""
    key = request.key
    kept = None if key is None else remembered.load(key, _classes(request), later=read_classes)
    if kept is not None:
        made: ProgramAnalysis = kept[0]
        if request.require:
            _check_required(request, made)
    else:
        from portbar.launching.analysis import make  # noqa: PLC0415 (takes long to import)

        made, may_be_kept = make(request)
        if key is not None and may_be_kept:
            remembered.store(key, made)
    return made if made.use is None else replace(made, use=replace(made.use, loops=request.loops))


def _check_required(request: ProgramRequest, made: ProgramAnalysis) -> None:
    """Ask the devices again: they may answer otherwise."""
    from portbar.launching.analysis import check_required  # noqa: PLC0415 (takes long to import)

    for device, strategy in zip(request.devices, made.strategies, strict=True):
        check_required(request, device, strategy, made.headers)


def _classes(request: ProgramRequest) -> tuple[type, ...]:
    if "reduction.h" not in request.given.text:
        return _CLASSES
    from portbar.primitives.reduction.use import Use  # noqa: PLC0415 (takes long to import)

    return (*_CLASSES, Use)


def chosen_for(request: ProgramRequest, made: ProgramAnalysis, device: cl.Device) -> tuple[DeviceProfile, Strategy]:
    """The profile and the strategy of a device that is used later than those of the request."""
    from portbar.launching.analysis import strategy_for  # noqa: PLC0415 (takes long to import)

    profile = describe(device)
    own = replace(request, devices=(device,), profiles={device: profile})
    chosen = strategy_for(own, device, made.headers)
    return profile, replace(chosen, split_counted=made.counted, turns_in_registers=made.in_registers)


def required(request: ProgramRequest, made: ProgramAnalysis) -> tuple[Required, ...]:
    """The features that a program requires."""
    if not request.require:
        return ()
    from portbar.launching import analysis  # noqa: PLC0415 (takes long to import)

    return analysis.required(request, made.headers)


def least_groups(request: ProgramRequest, made: ProgramAnalysis) -> int:
    """How many work-groups each launch of a grid needs; 1 where the program does not say."""
    if not request.require:
        return 1
    from portbar.launching import analysis  # noqa: PLC0415 (takes long to import)

    return analysis.least_groups(request, made.headers)


def all_facts(request: ProgramRequest, made: ProgramAnalysis) -> Facts | None:
    """The facts of a source, also of one without calls that many must make; None if it could not be read."""

    def make() -> Facts | None:
        from portbar.launching import analysis  # noqa: PLC0415 (takes long to import)

        return analysis.all_facts(request, made)

    return request.part(("facts",), make)


#: Seconds that a barrier waits before it gives up, unless the program says otherwise.
DEFAULT_SPIN_LIMIT: Final = 10.0

#: The attributes that users are shown, beside the program's kernels; all others are internal.
_PUBLIC: Final = (
    "all_kernels", "context", "debug", "devices", "kernel", "kernel_names", "name", "options", "profile", "rendered", "require",
    "source", "spin_limit", "strategy", "trace",
)  # fmt: skip

#: Devices, by their key, for which the loop limit was reported.
_warned: Final[set[str]] = set()


class Program(CompiledProgram):
    """OpenCL C with portbar's headers, compiled for each device of a context.

    Parameters
    ----------
    context : pyopencl.Context
    source : str or pathlib.Path
        OpenCL C that includes `portbar/....h` headers. Given a path, the file is read and its name used in messages; comments
        may be in any encoding. Files that it includes are read now, and not again.
    options : str or sequence of str and pathlib.Path, optional
        Build options for the driver, as for `pyopencl.Program.build`. A string is split like a shell's line.
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
        Check on the device, which costs time: whether all who must make a call together agree on the conditions before it, and
        the use of split barriers. `Launch.wait` raises an `Error` with the line. A whole `Strategy` has its own setting.
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
    DivergenceError
        A barrier, or another function that many work-items must call together, is called where they certainly differ.
    MisuseError
        The program is certainly wrong otherwise: a failed barrier leads back into a loop, a bound of `PORTBAR_FOR` has 64
        bits, or a kernel stores through a `const restrict` pointer.
    RenderError
        An include names an unknown header of portbar's.
    UnsupportedFeatureError
        A device lacks a feature that the program requires.

    Warns
    -----
    LoopLimitWarning
        A device ends loops silently, including the author's own; once per device.
    UnreadWarning
        The driver compiled a part of the program that portbar could not read, or libclang is missing, so that nothing is read.
    """

    def __init__(
        self,
        context: cl.Context,
        source: str | Path,
        options: str | Sequence[str | Path] | None = (),
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
        given = given_source(source, options)
        loops, declared = _declared(listed("reductions", reductions), scans)
        devices = _devices(context, devices)
        self.debug = debug
        self.trace = _events(trace)
        profiles = {device: describe(device) for device in devices}
        for profile in profiles.values():
            _warn_of_short_loops(profile)
        request = ProgramRequest(
            given=given,
            loops=loops,
            scans=declared,
            devices=devices,
            profiles=profiles,
            strategy=strategy,
            require=listed("require", require),
            debug=debug,
            trace=self.trace,
        )
        made = made_of(request)
        self.require = required(request, made)
        super().__init__(
            context=context,
            name=given.name,
            source=given.text,
            options=given.options,
            spin_limit=float(spin_limit),
            isolate_build=isolate_build,
            reductions=loops,
            reduction_use=made.use,
            scans=declared,
            profiles=profiles,
            strategies=dict(zip(devices, made.strategies, strict=True)),
            choose_for=lambda device: chosen_for(request, made, device),
            layout=made.layout,
            least_groups=least_groups(request, made),
            facts=made.facts,
            doubtful=made.doubtful,
            read=lambda: all_facts(request, made),
            part=request.part,
            registers=registers,
        )
        self._kernels: dict[str, Kernel] = {}
        warn_of_unread(made.unread, stacklevel=2)
        warn_of_unchecked(map(self.checked, made.strategies), stacklevel=2)

    def __repr__(self) -> str:
        devices = ", ".join(device.name.strip() for device in self.devices)
        return f"<portbar.Program {self.name}: kernels {', '.join(self.kernel_names()) or 'none'}; built for {devices}>"

    def __getattr__(self, name: str) -> Kernel:
        """Return the kernel of a name, as PyOpenCL's programs do; attributes and methods of a program come first."""
        if not name.startswith("__") and "_kernels" in self.__dict__ and name in self.kernel_names():
            return self.kernel(name)
        raise AttributeError(f"a program has no attribute {name!r}, and this one no such kernel", name=name, obj=self)

    def __dir__(self) -> list[str]:
        return sorted({*_PUBLIC, *self.kernel_names()})

    def all_kernels(self) -> list[Kernel]:
        """Return the program's kernels, sorted by name."""
        return [self.kernel(name) for name in self.kernel_names()]

    def kernel_names(self) -> tuple[str, ...]:
        """Names of the program's kernels, sorted."""
        return kernel_names(next(iter(self._built.values())).program)

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


def _declared(reductions: tuple[Any, ...], scans: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The loops and the scans that a caller declares, checked."""
    if not reductions and scans == ():
        return (), ()
    from portbar.launching.analysis import declared  # noqa: PLC0415 (who declares some has imported most of it)

    return declared(reductions, scans)


def _devices(context: cl.Context, devices: Any) -> tuple[cl.Device, ...]:
    given = listed("devices", context.devices if devices is None else devices)
    if not given:
        raise DeviceError("devices= is empty; omit it to build for all devices of the context")
    for device in given:
        if not isinstance(device, cl.Device):
            raise DeviceError(f"devices= must be a list of pyopencl.Device, but it contains {shortened(device)}")
        if device not in context.devices and not has_part(context, context.devices, device):
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
