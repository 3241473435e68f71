"""Compiles rendered source for one device, and turns a driver's refusal into an error that one can act on.

Where the driver itself keeps no binaries, a program may be one that an earlier process compiled.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import importlib
import os
import re
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import pyopencl as cl

from portbar.device import quirks
from portbar.device.facts import facts
from portbar.errors import BuildError
from portbar.launching.parameters import Argument, arguments_of
from portbar.primitives.strategy import Strategy
from portbar.records import remembered, scratch
from portbar.records.dataclass import dataclass

_ARGUMENT_INFO: Final = "-cl-kernel-arg-info"
#: A back end's warning about some loop, which names no place and does not heed `#pragma clang diagnostic`.
_OF_NO_PLACE: Final = re.compile(r"^warning: <unknown>:0:0: loop not .*$", re.MULTILINE)


def build_options(strategy: Strategy, options: Sequence[str]) -> tuple[str, ...]:
    """The author's options with those that the strategy and the argument checks need; the author's `-cl-std` wins."""
    chosen = list(options)
    if strategy.capabilities.std is not None and not any(option.startswith("-cl-std") for option in chosen):
        chosen.append(f"-cl-std={strategy.capabilities.std}")
    if _ARGUMENT_INFO not in chosen:
        chosen.append(_ARGUMENT_INFO)
    return tuple(chosen)


def kernel_names(program: cl.Program) -> tuple[str, ...]:
    """Names of a program's kernels, sorted."""
    # Of programs without kernels, Intel's runtime refuses the names, and NVIDIA's driver ends the process.
    if program.get_info(cl.program_info.NUM_KERNELS) == 0:
        return ()
    names = str(program.get_info(cl.program_info.KERNEL_NAMES)).strip("\0")
    return tuple(sorted(filter(None, names.split(";"))))


def save_source(text: str) -> str | None:
    """Keep rendered source in a file, and return its path, or None where nothing can be written.

    The file stays until `scratch.MOST_KEPT` programs have been refused after it.
    """
    path = scratch.keep("refused", text, ".cl")
    return None if path is None else str(path)


def place_of_source(path: str | None) -> str:
    """Return the line of a message that says where rendered source is."""
    return f"Rendered source: {path or 'not kept, since no file could be written'}"


def author_lines(log: str, text: str) -> str:
    """A build log with the author's files and lines where the driver ignored `#line` and counted the rendered text's.

    Such compilers call the text `<kernel>` or `input.cl`.
    """
    from portbar.reading.places import Places  # noqa: PLC0415 (few compilers need it)

    places, lines = Places(text, "<kernel>"), text.count("\n") + 1

    def place(match: re.Match[str]) -> str:
        physical = int(match["line"])
        if not 1 <= physical <= lines:
            return match[0]
        return "{}:{}:".format(*places[physical])

    names = [name for name in ("<kernel>", "input.cl") if name == "<kernel>" or name not in places.names]
    return re.sub(rf"(?:{'|'.join(map(re.escape, names))}):(?P<line>\d+):", place, log)


def _log_of(program: cl.Program, device: cl.Device, text: str, error: str = "") -> str:
    """The log of a build, or the error where there is none, with the author's files and lines."""
    try:
        log = str(program.get_build_info(device, cl.program_build_info.LOG)).strip("\0 \n")
    except (cl.Error, AttributeError):
        log = ""
    log = log or error
    return author_lines(log, text) if quirks.has_effect(quirks.LINES_IGNORED, facts(device)) else log


@cache
def _import_invoker() -> None:
    """Import what PyOpenCL needs for its first kernel, which fails for good where its cache folder cannot be made."""
    try:
        importlib.import_module("pyopencl.invoker")
    except OSError:
        before = os.environ.get("XDG_CACHE_HOME")
        os.environ["XDG_CACHE_HOME"] = str(scratch.own_folder())
        try:
            importlib.import_module("pyopencl.invoker")
        finally:
            if before is None:
                del os.environ["XDG_CACHE_HOME"]
            else:
                os.environ["XDG_CACHE_HOME"] = before


def _uncached(context: cl.Context, text: str) -> cl.Program:
    program = cl.Program(context, text)
    with warnings.catch_warnings():
        # Looking at a program before its build keeps it out of PyOpenCL's binary cache. A binary loses the names and types of
        # the arguments (seen with Intel's runtime), by which launches are checked.
        warnings.simplefilter("ignore")
        _ = program.int_ptr
    return program


def _is_broken_by_argument_info(device: cl.Device, log: str) -> bool:
    known = [quirk for quirk in quirks.matching(facts(device)) if quirk.effect == quirks.ARGUMENT_INFO_BREAKS]
    return any(re.search(quirk.symptom, log) for quirk in known)


def _need_a_linker(device: cl.Device, options: Sequence[str]) -> None:
    """Refuse to compile where the driver would end this process at the first launch, for want of a linker."""
    of = facts(device)
    # The path is read anew each time: a linker may be installed while this process runs.
    if not quirks.has_effect(quirks.LINKER_NEEDED, of) or shutil.which("ld") is not None:
        return
    from portbar.device import usable  # noqa: PLC0415 (no program needs it where there is a linker)

    # A build of PoCL may bring a linker of its own, which a check has seen then.
    verdict = usable.recalled(of)
    if verdict is not None and verdict.usable:
        return
    name = device.name.strip()
    (fault,) = [known for known in quirks.matching(of) if known.effect == quirks.LINKER_NEEDED]
    message = f"{name} cannot compile the program: no folder of PATH has `ld`. {fault.fault}.\nHint: {fault.workaround}"
    raise BuildError(message, device=name, options=tuple(options))


def _driver_remembers(device: cl.Device) -> bool:
    """Whether the driver is known to keep programs that it compiled from source. PyOpenCL before 2024.2.3 knows of none."""
    from pyopencl import characterize  # noqa: PLC0415 (takes long to import; PyOpenCL imports it for a build, too)

    known = getattr(characterize, "has_src_build_cache", None)
    return bool(known and known(device))


def _remembered(context: cl.Context, device: cl.Device, text: str, options: Sequence[str]) -> cl.Program | None:
    """Take a program from PyOpenCL's cache of binaries, or put it there; None where the driver keeps its own, or on failure."""
    if _driver_remembers(device):
        return None
    program = cl.Program(context, text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program.build(list(options), devices=[device])
    except Exception as error:  # noqa: BLE001 (what a cache on disk may raise has no end, and all of it can be done without)
        if saved := re.search(r"\(source saved as (.*)\)", str(error)):
            Path(saved[1]).unlink(missing_ok=True)
        return None
    return program


def compile_program(
    context: cl.Context, device: cl.Device, text: str, options: Sequence[str], *, remember: bool = False
) -> cl.Program:
    """Compile `text` for `device`.

    With `remember`, the program may come from a binary of an earlier process. Binaries have lost the names and types of the
    arguments (seen with Intel's runtime).

    `BuildError` with the device, the options, the driver's log, the path of the rendered source, and a hint where one is
    known. Warns as PyOpenCL does if the log has a warning: with the log itself where `PYOPENCL_COMPILER_OUTPUT=1`.
    """
    _import_invoker()
    _need_a_linker(device, options)
    if remember and (kept := _remembered(context, device, text, options)) is not None:
        return kept
    program = _uncached(context, text)
    try:
        with warnings.catch_warnings():
            # PyOpenCL warns of every log, and Intel's compiler writes one each time.
            warnings.simplefilter("ignore", cl.CompilerWarning)
            program.build(list(options), devices=[device])
    except cl.Error as error:
        log = _log_of(program, device, text, str(error))
        if _ARGUMENT_INFO in options and _is_broken_by_argument_info(device, log):
            return compile_program(context, device, text, [option for option in options if option != _ARGUMENT_INFO])
        from portbar.launching.hints import hints_of  # noqa: PLC0415 (programs that compile need none)

        path, hints = save_source(text), hints_of(device, log, text, options)
        shown = log if len(log) < 4000 else log[:4000] + "\n[cut]"
        message = (
            f"{device.name.strip()} did not compile the program (options: {' '.join(options) or 'none'}).\n{shown}\n"
            f"{place_of_source(path)}"
        )
        if hints:
            message += "\nHint: " + "; ".join(dict.fromkeys(hints))
        raise BuildError(
            message, device=device.name.strip(), options=tuple(options), log=log, source_path=path
        ) from error
    warn_of_log(device, warnings_in(program, device, text))
    return program


def warnings_in(program: cl.Program, device: cl.Device, text: str) -> str:
    """The log of a build if it has a warning, else an empty text."""
    log = _log_of(program, device, text)
    return log if re.search(r"\bwarning\b", _OF_NO_PLACE.sub("", log)) else ""


def warn_of_log(device: cl.Device, log: str) -> None:
    """Warn of a build's log as PyOpenCL does, unless it is empty."""
    if log:
        cl.compiler_output(f"{device.name.strip()} compiled the program with warnings.\n{log}")


#: PyOpenCL's own variable, by which binaries are not kept.
_VARIABLE: Final = "PYOPENCL_NO_CACHE"
#: How the names of variables begin that change what is compiled: options for every program, and those of Intel's compiler.
_COMPILING: Final = ("PYOPENCL_BUILD_OPTIONS", "CL_CONFIG_")


@dataclass(frozen=True)
class Binary:
    """A compiled program, with what a driver forgets of it."""

    base64: str
    #: Of the binary: some drivers end the process at a damaged one (the effect FOREIGN_BINARIES_CRASH).
    sha256: str
    #: Of the build, if it had warnings.
    log: str
    #: Kernel -> its arguments; None where the driver did not report them.
    arguments: Mapping[str, tuple[Argument, ...] | None]


@dataclass(frozen=True)
class BuiltProgram:
    """A program, and its kernels' arguments, unless the driver can be asked for them."""

    program: cl.Program
    arguments: Mapping[str, tuple[Argument, ...] | None] | None = None

    def arguments_of(self, kernel: cl.Kernel, name: str) -> tuple[Argument, ...] | None:
        """The arguments of a kernel, None if the driver does not report them."""
        return arguments_of(kernel) if self.arguments is None else self.arguments[name]


def compiled(context: cl.Context, device: cl.Device, text: str, options: Sequence[str]) -> BuiltProgram:
    """Compile a text, or take what an earlier process compiled; raises and warns as `compile_program`."""
    key = _key(device, text, options)
    if key is None:
        return BuiltProgram(compile_program(context, device, text, options))
    kept = remembered.load(key, (Binary, Argument), remembered.BINARIES)
    if kept is not None:
        found: Binary = kept[0]
        program = _from_binary(context, device, found, options)
        if program is not None:
            warn_of_log(device, found.log)
            return BuiltProgram(program, found.arguments)
    program = compile_program(context, device, text, options)
    _store(key, program, device, text)
    return BuiltProgram(program)


def _key(device: cl.Device, text: str, options: Sequence[str]) -> str | None:
    """The key of a binary; None where none is kept."""
    # A file that the driver reads may change.
    if _driver_remembers(device) or _is_off() or _reads_files(text, tuple(options)):
        return None
    environment = {name: value for name, value in os.environ.items() if name.startswith(_COMPILING)}
    return remembered.key_of(("binary", text, tuple(options), facts(device), environment, _processor()))


#: The words of directives and options by which a driver reads files.
_FILE_WORDS: Final = ("include", "import", "embed")


def _reads_files(text: str, options: tuple[str, ...]) -> bool:
    """Whether a driver that compiles a text may read other files."""
    spliced = "\n".join([text, *options]).replace("\\\r\n", "").replace("\\\n", "")
    if not any(word in spliced for word in _FILE_WORDS):
        return False
    from portbar.reading.words import reads_files  # noqa: PLC0415 (few texts have one of the words)

    return reads_files(text, options)


def _is_off() -> bool:
    return os.environ.get(_VARIABLE, "").lower() not in {"", "0", "n", "no", "f", "false", "off"}


@cache
def _processor() -> str:
    """The machine's processor with its instruction sets, for which a driver compiles; empty where it is not known."""
    try:
        with Path("/proc/cpuinfo").open("rb") as lines:
            first = lines.read(1 << 13).partition(b"\n\n")[0]
    except OSError:
        return ""
    of_compilers = (b"model name", b"flags", b"Features", b"CPU part")
    found = [line for line in first.split(b"\n") if line.partition(b":")[0].strip() in of_compilers]
    return b"\n".join(found).decode(errors="replace")


def _from_binary(context: cl.Context, device: cl.Device, found: Binary, options: Sequence[str]) -> cl.Program | None:
    """The program of a binary; None where the driver does not take it."""
    try:
        binary = base64.b64decode(found.base64, validate=True)
        if hashlib.sha256(binary).hexdigest() != found.sha256:
            return None
        program = cl.Program(context, [device], [binary])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cl.CompilerWarning)
            program.build(list(options), devices=[device])
        return program if set(kernel_names(program)) == set(found.arguments) else None
    except (cl.Error, binascii.Error):
        return None


def _store(key: str, program: cl.Program, device: cl.Device, text: str) -> None:
    try:
        devices: Any = program.get_info(cl.program_info.DEVICES)
        binaries: Any = program.get_info(cl.program_info.BINARIES)
        binary: bytes = binaries[devices.index(device)]
        arguments = {name: arguments_of(cl.Kernel(program, name)) for name in kernel_names(program)}
    except (cl.Error, ValueError):
        return
    encoded, digest = base64.b64encode(binary).decode(), hashlib.sha256(binary).hexdigest()
    made = Binary(encoded, digest, warnings_in(program, device, text), arguments)
    remembered.store(key, made, remembered.BINARIES)


class TypedKernel(cl.Kernel):
    """A kernel object, and the function that PyOpenCL generates for the types of its arguments.

    A call of the object does nothing but call that function, which takes 20% of the time of a launch.
    """

    _generated: Callable[..., cl.Event] | None = None

    def _set_enqueue_and_set_args(self, enqueue: Callable[..., cl.Event], set_args: Callable[..., None]) -> None:
        """Take over what PyOpenCL generates; where some version of it has no such method, the call of the object serves."""
        self._generated = enqueue
        super()._set_enqueue_and_set_args(enqueue, set_args)  # type: ignore[misc]

    @property
    def enqueue(self) -> Callable[..., cl.Event]:
        """The function that sets all arguments and enqueues: of the kernel, a queue, the sizes and the arguments."""
        return self._generated or cl.Kernel.__call__
