"""Where a kernel comes from: its program's source and build options."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyopencl as cl

from portbar.device.facts import facts
from portbar.errors import Error, LaunchError
from portbar.launching.analysis import read_source
from portbar.launching.kernel import Kernel
from portbar.primitives.run_kernels.phases import Phases, phases_of
from portbar.reading.options import words_of
from portbar.records.dataclass import dataclass

_PYOPENCL: Final = str(Path(cl.__file__).parent / "cl")
#: Options that a program's text takes in, and those that say how kernels are called.
_OF_TEXT: Final = ("-D", "-U", "-I")
_HARMLESS: Final = ("-cl-kernel-arg-info", "-cl-std=CL1.0", "-cl-std=CL1.1", "-cl-std=CL1.2", "-w", "-g", "-Werror")


@dataclass(frozen=True)
class Origin:
    """A program's source as the author wrote it, with the files that it includes, and how it is built."""

    #: In messages.
    name: str
    text: str
    #: Macros, as `-D` and `-U`.
    macros: tuple[str, ...]
    #: Options that a program of several sources is built with.
    options: tuple[str, ...]

    def phases(self, device: cl.Device) -> Phases:
        """Its kernels as phases."""
        return phases_of(self.name, self.text, self.macros + self.options, tuple(facts(device).extensions))


def name_of(kernel: Any) -> str:
    """The name of a kernel of either kind."""
    return kernel.name if isinstance(kernel, Kernel) else str(kernel.function_name)


@dataclass(frozen=True)
class Hints:
    """Facts about programs that the caller gives, in case that a driver does not."""

    programs: tuple[cl.Program, ...] = ()
    #: Build options; None where the caller says nothing.
    options: tuple[str, ...] | None = None


def origin_of(kernel: Any, device: cl.Device, hints: Hints) -> Origin | str:
    """The origin of a kernel, or why it is unknown.

    Raises
    ------
    LaunchError
        It is not a kernel, or has a grid.
    """
    if isinstance(kernel, Kernel):
        hidden = kernel._compiled.hidden
        if hidden is not None:
            raise LaunchError(
                f"kernel {kernel.name!r} takes {hidden.macros[0]}: it synchronises work-groups itself, so it cannot "
                "be recorded; launch it on its own"
            )
        program = kernel.program
        return _origin(program.name, program.source, program.options)
    if not isinstance(kernel, cl.Kernel):
        raise LaunchError(
            f"the first argument of a step must be a pyopencl.Kernel or a portbar.Kernel, not {type(kernel).__name__}"
        )
    text, options = _built(kernel, device, hints)
    if text and options is None:
        return (
            "the driver does not give the build options of its program, which was built from a cache, or whose object is gone: "
            "keep the pyopencl.Program, or pass them, as in portbar.record(queue, options=['-DSIZE=16']), [] if there are none"
        )
    if not text:
        return (
            "the driver does not give the source of its program, which was built from a cache or a binary, or whose object is "
            "gone: keep the pyopencl.Program, and pass it as in portbar.record(queue, programs=[program])"
        )
    try:
        return _origin("program.cl", text, options or ())
    except Error as error:
        return str(error)


def _origin(name: str, text: str, options: Sequence[str]) -> Origin | str:
    read = read_source(text, options)
    if read.headers:
        return f'its source includes "{read.headers[0]}", and kernels that use portbar are not recorded'
    macros, kept = [], []
    words = iter(words_of(read.options))
    for word in words:
        if word in _OF_TEXT:
            word += next(words, "")  # noqa: PLW2901 (an option of two words)
        if word.startswith("-I"):
            continue
        if word.startswith(_OF_TEXT):
            macros.append(word)
        elif word not in _HARMLESS:
            kept.append(word)
    return Origin(name, read.text, tuple(macros), tuple(kept))


def _kept_source(owner: Any) -> str:
    """The source that an object of PyOpenCL keeps, empty if it keeps none."""
    try:
        return str(getattr(owner, "_source", None) or "")
    except TypeError:  # a kernel of a program that keeps none
        return ""


def program_of(kernel: cl.Kernel) -> cl.Program | None:
    """The program of a kernel; None where the driver has forgotten it, since its object is gone, though the kernel works."""
    try:
        found: Any = kernel.get_info(cl.kernel_info.PROGRAM)
    except cl.Error:
        return None
    return found  # type: ignore[no-any-return]


def _built(kernel: cl.Kernel, device: cl.Device, hints: Hints) -> tuple[str, Sequence[str] | None]:
    """The source of a kernel's program, empty where nothing knows it, and its build options, None where nothing does."""
    built = program_of(kernel)
    if built is None:
        return _kept_source(kernel), hints.options
    text = str(built.get_info(cl.program_info.SOURCE) or "")
    try:
        options = str(built.get_build_info(device, cl.program_build_info.OPTIONS) or "")
    except cl.Error:
        options = ""
    # PyOpenCL keeps the source of what it builds from its cache.
    known = [kernel, *(program for program in hints.programs if program.int_ptr == built.int_ptr)]
    kept = next(filter(None, map(_kept_source, known)), "")
    if not text and not options.strip("\0 "):
        # It adds an option to each build, so that none are those of a binary.
        return kept, hints.options
    given = options.replace(f"-I {_PYOPENCL}", "").replace(f'-I "{_PYOPENCL}"', "").strip("\0")
    return (text or kept).strip("\0"), words_of([given]) or hints.options or ()
