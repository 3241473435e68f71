"""Reads and checks an author's source, refuses it where it is certainly wrong, and chooses for each device."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pyopencl as cl

from portbar.backends.profile import DeviceProfile
from portbar.choices import requirements
from portbar.choices.strategy import choose
from portbar.device.facts import ask
from portbar.errors import BuildError, DivergenceError, MisuseError, UnreadWarning, UnsupportedFeatureError
from portbar.launching import turns
from portbar.launching.build import build_options
from portbar.launching.request import Given, ProgramAnalysis, ProgramRequest, given_source
from portbar.primitives.headers import declarations, feature_macros, known_includes, layout_of, needed_ordering
from portbar.primitives.reduction.checks import check_included as check_reductions
from portbar.primitives.reduction.checks import check_loops_used
from portbar.primitives.reduction.loops import ReductionLoop, check_loops
from portbar.primitives.reduction.use import HEADER, use_of
from portbar.primitives.scan import DeviceScan, check_declared, check_scans, check_scans_used
from portbar.primitives.scan import check_included as check_scans_included
from portbar.primitives.split_barrier.selection import shows_counts
from portbar.primitives.strategy import Strategy
from portbar.primitives.tracing import tracing_of
from portbar.reading.atomic_types import may_be_given
from portbar.reading.doubt import doubtful_words
from portbar.reading.entering import open_enter
from portbar.reading.found import Facts, ReadKernel, Unread, joined
from portbar.reading.places import Places
from portbar.reading.reader import Reading, atomic_type_given, concerns, is_available, read
from portbar.reading.report import DIVERGENCE, Misuse
from portbar.reading.words import may_use, words
from portbar.records.coding import Later
from portbar.records.dataclass import dataclass

PARAMETER: Final = "PORTBAR_GRID_PARAM"
ENTER: Final = "PORTBAR_ENTER"


@dataclass(frozen=True)
class CheckedSource(Given):
    """A source that was checked."""

    #: Headers of portbar's that it includes, as ``"portbar/atomics.h"``.
    headers: tuple[str, ...]


def read_source(
    source: Any,
    options: Any = (),
    loops: tuple[ReductionLoop, ...] = (),
    scans: tuple[DeviceScan, ...] = (),
    beside: Sequence[Any] = (),
) -> CheckedSource:
    """Read a source, and check that it can be what its author means; it may run the kernels of those `beside` it.

    `Error` if the source is not text, or an option is not. `BuildError` if the source cannot work as it is. `RenderError` if an
    include names an unknown header of portbar's.
    """
    given = given_source(source, options, beside)
    return checked_source(given, loops, scans)


def checked_source(given: Given, loops: tuple[ReductionLoop, ...], scans: tuple[DeviceScan, ...]) -> CheckedSource:
    """Check that a source can be what its author means, with the errors of `read_source`."""
    name, text = given.name, given.text
    headers = tuple(include.name for include in known_includes(text, name))
    check_reductions(name, headers, loops)
    check_scans_included(name, headers, scans)
    return CheckedSource(name, text, given.options, headers)


def check_use(
    source: CheckedSource, facts: Facts | None, loops: tuple[ReductionLoop, ...], scans: tuple[DeviceScan, ...]
) -> None:
    """Check that a source can be what its author means, as far as it was read; a `BuildError` if it cannot."""
    name, text, options = source.name, source.text, source.options
    check_declared(name, text, options, scans)
    if PARAMETER in words(text, options) and not may_use(ENTER, text, options):
        raise BuildError(
            f"{name}: a kernel takes {PARAMETER}, but the source never uses {ENTER}; make {ENTER}(grid); the first statement "
            "of that kernel"
        )
    line = open_enter(text)
    if line is not None:
        raise BuildError(f"{Places(text, name).shown(line)}: {ENTER} is a statement and needs a semicolon after it")
    if facts is not None:
        check_loops_used(name, facts, loops)
        check_scans_used(name, facts, scans)
        for kernel in facts.kernels.values():
            _check_entering(kernel)


def _check_entering(kernel: ReadKernel) -> None:
    """Refuse a kernel that does not enter its grid by its first statement."""
    found = kernel.entering
    if found is None:
        return
    if found.block is not None:
        raise BuildError(
            f"{found.block}: {ENTER} of kernel {kernel.name!r} is inside a block, and it declares local memory, "
            "which belongs into a kernel's outermost block: move it before the block"
        )
    if found.early is not None:
        raise BuildError(
            f"{found.early}: kernel {kernel.name!r} executes code before {ENTER}, which surplus work-groups "
            f"and occupancy measurements would execute too; move it after {ENTER}. Only declarations may precede it, "
            "with initialisers that call only get_local_id and similar functions"
        )


@dataclass(frozen=True)
class SourceFindings:
    """The findings in a program without misuse."""

    #: None of a program that could not be read, or has nothing that many must call.
    facts: Facts | None = None
    #: Parts that could not be read.
    unread: tuple[Unread, ...] = ()
    #: Whether sub-groups that portbar makes must be single work-items, since some of them call without the others.
    single: bool = False
    #: Whether nothing was left out for want of a reader.
    could_read: bool = True


#: Reports of one error.
_SHOWN: Final = 3

#: Says that there is no libclang, once.
_told: Final[set[str]] = set()


def check_misuse(
    source: CheckedSource,
    devices: Sequence[tuple[DeviceProfile, Strategy]],
    loops: tuple[ReductionLoop, ...],
    scans: tuple[DeviceScan, ...],
) -> SourceFindings:
    """Read a program. `MisuseError` if it is certainly misused; `BuildError` if it cannot be what its author means otherwise.

    A device counts by the macros that its compiler and portbar's headers define there.
    """
    headers = declarations(loops, scans)
    for profile, strategy in devices:
        _check_atomics(source, profile, strategy, headers)
    if not concerns(source.text, headers, source.options):
        # Nothing to find, so that libclang need not be loaded.
        check_use(source, None, loops, scans)
        return SourceFindings(could_read=is_available() if may_be_given(source.text, source.options) else True)
    if not is_available():
        _tell_of_no_reader()
        check_use(source, None, loops, scans)
        return SourceFindings(could_read=False)
    unread: dict[Unread, None] = {}
    are_single = False
    readings = [_reading(source, profile, strategy, headers, single=False) for profile, strategy in devices]
    facts = joined([reading.facts for reading in readings])
    check_use(source, facts, loops, scans)
    for (profile, strategy), found in zip(devices, readings, strict=True):
        reading = found
        if found.misuses:
            reading = _reading(source, profile, strategy, headers, single=True)
            if reading.misuses:
                raise error_of(reading.misuses)
            are_single = True
        unread |= dict.fromkeys(reading.unread)
    return SourceFindings(facts, tuple(unread), are_single)


def _check_atomics(
    source: CheckedSource, profile: DeviceProfile, strategy: Strategy, headers: Mapping[str, str]
) -> None:
    """Refuse an object of OpenCL's atomic types that one of portbar's functions is given.

    Compilers call this ambiguous, or take the function for `int` with a warning: then a maximum of `uint` is wrong.
    """
    given = atomic_type_given(
        source.name,
        source.text,
        headers,
        build_options(strategy, source.options),
        extensions=profile.facts.extensions,
        defined=feature_macros(strategy, source.headers),
    )
    if given is not None:
        raise BuildError(
            f"{given.place}: portbar's atomic functions take pointers to plain types, as std::atomic_ref does, and "
            f"{given.name} is of OpenCL's own functions: declare {given.plain} instead"
        )


def _reading(
    source: CheckedSource,
    profile: DeviceProfile,
    strategy: Strategy,
    headers: Mapping[str, str],
    *,
    single: bool,
    asked: bool = False,
) -> Reading:
    return read(
        source.name,
        source.text,
        headers,
        build_options(strategy, source.options),
        extensions=profile.facts.extensions,
        defined=feature_macros(strategy, source.headers, single=single),
        address_bits=profile.facts.address_bits,
        asked=asked,
    )


def facts_of(
    source: CheckedSource,
    devices: Sequence[tuple[DeviceProfile, Strategy]],
    loops: tuple[ReductionLoop, ...],
    scans: tuple[DeviceScan, ...],
) -> Facts | None:
    """The facts of a source that hold on some devices, also of one without barriers; None if it could not be read."""
    headers = declarations(loops, scans)
    return joined([_reading(source, *device, headers, single=False, asked=True).facts for device in devices])


def checked_facts(source: CheckedSource, profile: DeviceProfile, strategy: Strategy) -> Facts | None:
    """The facts of a source without declared loops and scans; `BuildError` if it cannot be what its author means.

    Misuse is left for the program that is built of it.
    """
    headers = declarations()
    _check_atomics(source, profile, strategy, headers)
    facts = _reading(source, profile, strategy, headers, single=False).facts
    check_use(source, facts, (), ())
    return facts


def needs_single(source: CheckedSource, profile: DeviceProfile, strategy: Strategy) -> bool:
    """Whether some sub-groups call without the others, where the device has none of its own and the program is right else."""
    headers = declarations()
    wide, single = (_reading(source, profile, strategy, headers, single=is_single) for is_single in (False, True))
    return bool(wide.misuses) and not single.misuses


def error_of(misuses: Sequence[Misuse]) -> MisuseError:
    """The error for some misuse."""
    shown = [str(one) for one in misuses[:_SHOWN]]
    if len(misuses) > _SHOWN:
        lines = ", ".join(str(one.place.line) for one in misuses[_SHOWN:])
        shown.append(f"More in lines {lines}.")
    is_divergence = any(one.kind == DIVERGENCE for one in misuses)
    made = DivergenceError if is_divergence else MisuseError
    return made("\n".join(shown), misuses=tuple(misuses))


def _tell_of_no_reader() -> None:
    """Warn, once, that nothing is read."""
    if not _told:
        _told.add("told")
        warnings.warn(
            "libclang was not found, so misuse of barriers is not found before a launch: pip install libclang, or where "
            "there is no wheel of it the system's package, such as libclang1-19 (17 or later)",
            UnreadWarning,
            # `check_misuse`, `make`, `made_of` and `Program` are between here and the author.
            stacklevel=6,
        )


def declared(reductions: tuple[Any, ...], scans: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The loops and the scans that a caller declares, checked."""
    return check_loops(reductions), check_scans(scans)


def make(request: ProgramRequest) -> tuple[ProgramAnalysis, bool]:
    """The choices and the results of reading for a request, and whether they may be kept: all of the source could be read.

    Raises the errors of `Program`.
    """
    given = request.given
    read = checked_source(given, request.loops, request.scans)
    required(request, read.headers)
    strategies = [strategy_for(request, device, read.headers) for device in request.devices]
    pairs = [(request.profiles[device], one) for device, one in zip(request.devices, strategies, strict=True)]
    checked = check_misuse(read, pairs, request.loops, request.scans)
    counted = shows_counts(read.text, read.options, checked.facts)
    in_registers = _in_registers(read, pairs, declarations(request.loops, request.scans))
    use = use_of(read.text, read.options, request.loops, checked.facts) if HEADER in read.headers else None
    use = use and replace(use, single=checked.single)
    made = ProgramAnalysis(
        read.headers,
        tuple(replace(one, split_counted=counted, turns_in_registers=in_registers) for one in strategies),
        counted,
        in_registers,
        Later(lambda: checked.facts),
        doubtful_words(read.text, read.options),
        checked.unread,
        # Functions that prepare the words are in the text.
        replace(layout_of(read.headers, use), preparations=()),
        # The loops are the caller's.
        use and replace(use, loops=()),
    )
    return made, checked.could_read


def _in_registers(
    source: CheckedSource, devices: Sequence[tuple[DeviceProfile, Strategy]], headers: Mapping[str, str]
) -> bool:
    """Whether loops with independent turns keep their variables in registers on all devices."""
    return all(
        turns.in_registers(
            source.name,
            source.text,
            headers,
            (
                *build_options(strategy, source.options),
                *(f"-D{one}" for one in feature_macros(strategy, source.headers)),
            ),
            profile.facts.extensions,
        )
        for profile, strategy in devices
    )


def required(request: ProgramRequest, headers: Sequence[str]) -> tuple[requirements.Required, ...]:
    """The features that a program requires, checked for spelling and headers."""
    found = requirements.parse(request.require)
    for one in found:
        if str(one).startswith(requirements.SPLIT_BARRIER) and "portbar/split_barrier.h" not in headers:
            raise UnsupportedFeatureError(
                f'no header of this program defines the feature {str(one)!r}; add #include "portbar/split_barrier.h"'
            )
    return found


def strategy_for(request: ProgramRequest, device: cl.Device, headers: Sequence[str]) -> Strategy:
    """The strategy for a device, checked against what the program requires."""
    given, asked, profile = request.given, request.strategy, request.profiles[device]
    carries = "PORTBAR_REDUCTION_PARAM" in words(given.text, given.options)
    ordering = "device" if carries else needed_ordering(headers)
    chosen = asked if isinstance(asked, Strategy) else choose(profile, asked, ordering=ordering, debug=request.debug)
    check_required(request, device, chosen, headers)
    tracing = tracing_of(profile.facts, profile.findings, request.trace) if request.trace else None
    return replace(chosen, tracing=tracing)


def check_required(request: ProgramRequest, device: cl.Device, strategy: Strategy, headers: Sequence[str]) -> None:
    """Refuse a device that does not meet what the program requires."""
    candidate = requirements.Candidate(request.profiles[device], strategy, lambda question: ask(device, question))
    requirements.check(required(request, headers), candidate)


def least_groups(request: ProgramRequest, headers: Sequence[str]) -> int:
    """How many work-groups each launch of a grid needs."""
    return requirements.least_groups(required(request, headers))


def all_facts(request: ProgramRequest, made: ProgramAnalysis) -> Facts | None:
    """The facts of a source, also of one without calls that many must make; None if it could not be read."""
    pairs: list[tuple[DeviceProfile, Strategy]] = [
        (request.profiles[device], one) for device, one in zip(request.devices, made.strategies, strict=True)
    ]
    read = checked_source(request.given, request.loops, request.scans)
    return facts_of(read, pairs, request.loops, request.scans)
