"""A program as its author asks for it, and what portbar makes of it: data that name and hold entries of the cache."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyopencl as cl

from portbar.backends.profile import DeviceProfile
from portbar.backends.variants import Variants
from portbar.choices.timing import shortened
from portbar.device import quirks
from portbar.errors import Error
from portbar.primitives.layout import Layout
from portbar.primitives.strategy import Strategy
from portbar.records import remembered
from portbar.records.coding import Later
from portbar.records.dataclass import dataclass

if TYPE_CHECKING:  # take long to import
    from portbar.primitives.reduction.use import Use
    from portbar.reading.found import Facts, Unread

#: Where a driver stops reading, and what has no UTF-8.
_UNREADABLE: Final = "[\0\ud800-\udfff]"

#: In each text that runs kernels of its own.
RUNS: Final = "portbar/run_kernels.h"

#: Text that can only be meant as the path of a source.
_PATH: Final = r"[^\s(){};]+\.(?:cl|clh|c|h|ocl|opencl)"


@dataclass(frozen=True)
class Given:
    """A source that can be read."""

    #: In messages: of its file, or "program.cl".
    name: str
    #: With the files that it includes.
    text: str
    #: Its build options, which find the same files in any working directory.
    options: tuple[str, ...]


def given_source(source: Any, options: Any = (), beside: Iterable[Any] = ()) -> Given:
    """Read a source and the files that it includes; `Error` if it is not text, or an option is not.

    It may run the kernels of the sources `beside` it.
    """
    given = unexpanded(source, options)
    if RUNS in given.text:
        others = tuple((one.name, one.text) for one in (unexpanded(other, options) for other in beside))
        return replace(given, text=_with_runs(given, others))
    return given


def unexpanded(source: Any, options: Any = ()) -> Given:
    """As `given_source`, without functions for kernels that it runs."""
    options = _options(options)
    name, text = _name_and_text(source)
    if _may_include_more(text):
        from portbar.reading.includes import whole_text  # noqa: PLC0415 (most sources include headers of portbar's alone)

        text = whole_text(text, name, source.parent if isinstance(source, Path) else None, options)
    if any("-I" in option for option in options):
        from portbar.reading.options import lasting_options  # noqa: PLC0415 (the same)

        options = lasting_options(options)
    return Given(name, text, options)


def _with_runs(given: Given, others: tuple[tuple[str, str], ...]) -> str:
    """A text with a function for each kernel that it runs, which is remembered."""

    def make() -> str:
        from portbar.primitives.headers import declarations  # noqa: PLC0415 (the same)
        from portbar.primitives.run_kernels.runs import KernelFile, expanded  # noqa: PLC0415 (takes long to import)

        files = [KernelFile(*other) for other in others]
        return expanded(KernelFile(given.name, given.text), given.options, declarations(), files)

    return remembered.text_of(("runs", given, others), make)


def _may_include_more(text: str) -> bool:
    """Whether a text may include other files than portbar's headers."""
    plain = sum(text.count(f"include {bracket}portbar/") for bracket in '"<')
    if text.count("include") == plain:
        return False
    from portbar.reading.own_headers import may_include_more  # noqa: PLC0415 (most texts are plain)

    return may_include_more(text)


def _options(given: Any) -> tuple[str, ...]:
    """Build options as PyOpenCL takes them: a list of strings and paths, one string with quotes of a shell, or None."""
    if given is None or (isinstance(given, tuple) and not given):
        return ()
    # Most programs have no options.
    import shlex  # noqa: PLC0415

    from portbar.reading.options import quoted  # noqa: PLC0415

    if isinstance(given, str):
        try:
            # As PyOpenCL does, but for spaces in quotes, which it loses.
            return tuple(map(quoted, shlex.split(given)))
        except ValueError as error:
            raise Error(f"options={given!r} cannot be split into build options: {error}") from None
    if isinstance(given, Mapping):
        raise Error(f"options= must be a list of build options, such as ['-DSIZE=64'], not {type(given).__name__}")
    options = [quoted(str(one)) if isinstance(one, PurePath) else one for one in listed("options", given)]
    for option in options:
        if not isinstance(option, str) or re.search(_UNREADABLE, option):
            raise Error(f"options= must hold build options as strings, but it contains {shortened(option)}")
    return tuple(options)


def listed(what: str, given: Any) -> tuple[Any, ...]:
    """Return as a tuple what a caller passed as a list or as one string."""
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, Iterable) or isinstance(given, bytes):
        raise Error(f"{what}= must be a list, not {type(given).__name__}")
    return tuple(given)


def _name_and_text(source: Any) -> tuple[str, str]:
    """Return the name of a source in messages, and its text."""
    if not isinstance(source, str | Path):
        raise Error(f"the source of a program must be text or a pathlib.Path, not {type(source).__name__}")
    if isinstance(source, str) and "\n" not in source and re.fullmatch(_PATH, source):
        raise Error(
            f"the source of a program is its text, and {source!r} looks like a path: pass pathlib.Path({source!r})"
        )
    name = source.name if isinstance(source, Path) else "program.cl"
    text, line = _printable(source)
    if line is not None:
        raise Error(f"{name}, line {line}: the text outside comments is not UTF-8: save the file as UTF-8")
    before, null, _ = text.partition("\0")
    if null:
        line = before.count("\n") + 1
        raise Error(f"{name}, line {line}: a null character, where drivers stop reading; remove it")
    # Editors mark UTF-8 by it, and compilers of OpenCL C refuse it.
    return name, text.removeprefix("\ufeff")


def _printable(source: str | Path) -> tuple[str, int | None]:
    """The text of a source with question marks for undecoded bytes of comments, and the line of the first one elsewhere."""
    if isinstance(source, str) and source.isascii():
        return source, None
    from portbar.reading.encoding import decoded, printable  # noqa: PLC0415 (most sources are plain)

    return printable(source if isinstance(source, str) else decoded(source.read_bytes()))


T = TypeVar("T")

#: The environment variable with a user's overrides of choices.
_OVERRIDES: Final = "PORTBAR_STRATEGY"


def read_classes() -> tuple[type, ...]:
    """Classes of the results of reading."""
    from portbar.reading import found  # noqa: PLC0415 (takes long to import)

    return (found.Checked, found.Condition, found.Entering, found.Facts, found.ReadKernel, found.Place, found.Unread)


@dataclass(frozen=True, eq=False)
class ProgramRequest:
    """All that a program's text follows from, beside portbar itself."""

    given: Given
    #: Those of the caller that are in `portbar.ReductionLoop` and `portbar.DeviceScan`.
    loops: tuple[Any, ...]
    scans: tuple[Any, ...]
    devices: tuple[cl.Device, ...]
    profiles: dict[cl.Device, DeviceProfile]
    #: The caller's.
    strategy: Strategy | Mapping[str, str] | None
    require: tuple[Any, ...]
    debug: bool
    trace: int

    @cached_property
    def key(self) -> str | None:
        """The key of what is made of the request; None where nothing is kept."""
        # Variants that a program registers are known to this process alone.
        if Variants.added:
            return None
        profiles = tuple(self.profiles[device] for device in self.devices)
        # Effects may depend on the environment, and programs may register some.
        effects = tuple((quirks.effects_of(profile.facts), profile.loop_limit) for profile in profiles)
        machine = (platform.machine(), sys.platform, os.environ.get(_OVERRIDES))
        wanted = (self.strategy, self.require, self.debug, self.trace)
        return remembered.key_of(("program", self.given, self.loops, self.scans, profiles, effects, machine, wanted))

    def part(self, what: tuple[Any, ...], make: Callable[[], T]) -> T:
        """A part of what is made of the request, from an earlier process or by `make`."""
        return make() if self.key is None else remembered.value_of((self.key, *what), make, later=read_classes)


@dataclass(frozen=True)
class ProgramAnalysis:
    """The choices and the results of reading for a request; the text for each device is a part of its own."""

    #: Headers of portbar's that it includes, as ``"portbar/atomics.h"``.
    headers: tuple[str, ...]
    #: For each device.
    strategies: tuple[Strategy, ...]
    #: Whether counts of split barriers can be seen.
    counted: bool
    #: Whether loops with independent turns keep their variables in registers.
    in_registers: bool
    facts: Later[Facts | None]
    #: Identifiers in text about which a driver's macros decide.
    doubtful: frozenset[str]
    unread: tuple[Unread, ...]
    #: The words that the headers own.
    layout: Layout
    #: Of reductions; without the caller's loops.
    use: Use | None
