"""`Program`: an author's source with portbar's headers, compiled for each device of a context.

Not for launching: `portbar.launching.kernel` does.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyopencl as cl

from portbar.choices.profile import describe
from portbar.choices.strategy import DeviceProfile, choose
from portbar.choices.timing import is_time, shortened
from portbar.device import quirks
from portbar.device.facts import device_key
from portbar.errors import BuildError, DeviceError, Error, LoopLimitWarning, UnsupportedFeatureError
from portbar.launching.compiled import CompiledProgram
from portbar.launching.kernel import Kernel
from portbar.primitives.reduction.loops import ReductionLoop, check_loops
from portbar.primitives.reduction.use import HEADER, check_source, use_of
from portbar.primitives.split_barrier.selection import FEATURES, shows_counts
from portbar.primitives.strategy import Strategy
from portbar.rendering.headers import needed_ordering
from portbar.text.source import early_statement, includes, mentions

#: Seconds that a barrier waits before it gives up, unless the program says otherwise.
DEFAULT_SPIN_LIMIT: Final = 10.0

#: Devices, by their key, whose loop limit has been told.
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
        name = source.name if isinstance(source, Path) else "program.cl"
        text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
        # Editors mark UTF-8 by it, and compilers of OpenCL C refuse it.
        text = text.removeprefix("\ufeff")
        devices = tuple(context.devices if devices is None else devices)
        if not devices:
            raise DeviceError(
                "devices= names no device to build the program for; leave it out for all of the context's"
            )
        for device in devices:
            if device not in context.devices:
                raise DeviceError(f"{device.name.strip()} is not a device of the program's context")
        self.require = _known_features(require, text)
        self.debug = debug
        loops = check_loops(reductions)
        check_source(name, text, loops)
        headers = [include.name for include in includes(text)]
        use = use_of(text, tuple(options), loops) if HEADER in headers else None
        if mentions(text, "PORTBAR_GRID_PARAM") and not mentions(text, "PORTBAR_ENTER"):
            raise BuildError(
                f"{name}: a kernel takes PORTBAR_GRID_PARAM, but PORTBAR_ENTER stands nowhere in the source; make "
                "PORTBAR_ENTER(grid); the first statement of that kernel"
            )
        early = early_statement(text)
        if early is not None:
            raise BuildError(
                f"{name}, line {early[1]}: kernel {early[0]!r} does something before PORTBAR_ENTER, which surplus "
                "work-groups and the measurement of its occupancy would do too; move it behind PORTBAR_ENTER. Only "
                "declarations may stand before it, with values that call nothing but get_local_id and its like"
            )
        profiles = {device: describe(device) for device in devices}
        for profile in profiles.values():
            _warn_of_short_loops(profile)
        ordering = "device" if mentions(text, "PORTBAR_REDUCTION_PARAM") else needed_ordering(headers)
        counted = shows_counts(text, tuple(options))
        strategies = {
            device: replace(self._strategy_for(device, profile, strategy, ordering), split_counted=counted)
            for device, profile in profiles.items()
        }
        super().__init__(
            context,
            name,
            text,
            tuple(options),
            float(spin_limit),
            isolate_build,
            loops,
            use,
            profiles,
            strategies,
        )
        self._kernels: dict[str, Kernel] = {}

    def _strategy_for(
        self, device: cl.Device, profile: DeviceProfile, asked: Strategy | Mapping[str, str] | None, ordering: str
    ) -> Strategy:
        """The strategy for a device, checked against what the program requires."""
        chosen = asked if isinstance(asked, Strategy) else choose(profile, asked, ordering=ordering, debug=self.debug)
        for feature in self.require:
            if feature not in chosen.capabilities.split_features:
                raise UnsupportedFeatureError(
                    f"{device.name.strip()} does not carry split_barrier.{feature} ({FEATURES[feature]}): its strategy is "
                    f"{chosen.split_barrier}, because {chosen.split_barrier.reason}. Use waits that all work-items of "
                    "the group reach, or another device"
                )
        return chosen

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
        with self.states.lock:
            if name not in self._kernels:
                if name not in self.kernel_names():
                    known = ", ".join(self.kernel_names()) or "none"
                    raise Error(f"the program has no kernel {name!r}; kernels: {known}")
                self._kernels[name] = Kernel(self, name)
            return self._kernels[name]


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
