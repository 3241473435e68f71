"""Compiles rendered source for one device, and turns a driver's refusal into an error that one can act on."""

from __future__ import annotations

import importlib
import os
import re
import tempfile
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Final

import pyopencl as cl

from portbar.device import quirks
from portbar.device.facts import facts
from portbar.errors import BuildError
from portbar.primitives.headers import header_names
from portbar.primitives.strategy import Strategy
from portbar.rendering.source import without_comments

_ARGUMENT_INFO: Final = "-cl-kernel-arg-info"
_LINE: Final = re.compile(r'#line (?P<number>\d+) "(?P<name>[^"]*)"')

#: Pattern in a build log -> what the author most likely did, and the remedy.
_HINTS: Final = (
    (
        r"undeclared.*portbar_grid_param|portbar_grid_param.*undeclared",
        "a grid is used in a kernel without PORTBAR_GRID_PARAM: make it the kernel's first parameter",
    ),
    (
        r"redefinition of '?portbar_entered_once",
        "PORTBAR_ENTER is used twice in one kernel: use it once, as the first statement",
    ),
    (
        r"non-kernel function variable[^\n]*local address space",
        "PORTBAR_ENTER and local variables belong into kernels: pass functions the grid, as private portbar_grid *grid",
    ),
    (
        (
            r"portbar/\w+\.h:\d+:\d+ <Spelling=(?!portbar/|/)"
            r"|portbar/\w+\.h:\d+:\d+: error:(?:(?!: error:)[\s\S])*?\n(?!portbar/|/)[^\n]*: note: expanded from macro"
        ),
        "a macro that you define changes portbar's headers: include them before you define it, or rename it",
    ),
    (
        (
            r"undeclared (identifier|function)[^\n]*PORTBAR_ENTER|PORTBAR_ENTER[^\n]*(undeclared|invalid in)"
            r"|unknown type name '?PORTBAR_GRID_PARAM"
        ),
        'portbar\'s names are undefined here: add #include "portbar/device_barrier.h"',
    ),
    (
        r"_cl_atomic_\w+_explicit|(undeclared|implicit)[^\n]*'(atomic_\w+_(explicit|fence)|atomic_work_item_fence)'",
        (
            "on this device portbar uses C11 atomics, which require the -cl-std that it sets itself: remove -cl-std from the "
            "options, or pass strategy={'atomics': 'cl12'}"
        ),
    ),
    (
        r"portbar_(?:scratch|grid) \*[^\n]*address space",
        (
            "declare the parameters of helper functions as PORTBAR_SCRATCH_PARAM scratch and private portbar_grid *grid, which "
            "include the address space"
        ),
    ),
    (
        rf"'(?!portbar/)(?:po\w+[/\\]+)?(?:{'|'.join(header_names())})\.h'? file not found",
        'portbar\'s headers are included with their folder, as in #include "portbar/device_barrier.h"',
    ),
    (
        r"'?portbar/[\w/]+\.h'? file not found",
        (
            "portbar resolves its headers only in the program's own text; for an include inside another file, write the "
            "headers with `portbar export` and pass their folder with -I"
        ),
    ),
)


def _missing_grids(log: str, text: str) -> list[str]:
    """Hints about names that stand for a grid in the text and that the driver does not know."""
    unknown = dict.fromkeys(re.findall(r"undeclared identifier '?([A-Za-z_]\w*)", log))
    code = without_comments(text, keep_strings=False)
    return [
        f"that kernel has no grid {name!r}: make PORTBAR_GRID_PARAM its first parameter and PORTBAR_ENTER({name}); "
        "its first statement"
        for name in unknown
        if re.search(rf"\bportbar_\w+\s*\(\s*&\s*{name}\b", code)
    ]


def _missing_scratch(log: str, text: str) -> list[str]:
    """Hints about calls of reductions that do not suit their parameters: most often `scratch` is missing."""
    called = re.findall(r"no matching function for call to '?(\w+)|'(\w+)' declared here", log)
    taken = {}
    for name in (one or other for one, other in called):
        found = re.search(rf"\b{name}\((private portbar_grid \*grid, )?private portbar_scratch \*scratch\b", text)
        if found:
            taken[name] = "&grid, scratch" if found[1] else "scratch"
    # The note that names the function may be left out: the effect LOGS_REWRITTEN.
    if not called and "too few arguments to function call" in log and "PORTBAR_SCRATCH_PARAM" in text:
        taken["a function of a reduction"] = "scratch"
    return [
        f"{name} takes {first} before its values: declare PORTBAR_REDUCTION_SCRATCH(scratch); in the kernel, and pass it to "
        "helper functions as PORTBAR_SCRATCH_PARAM scratch"
        for name, first in taken.items()
    ]


def _known_faults(device: cl.Device, log: str) -> list[str]:
    """Return the workaround for a fault of the device's compiler that the log shows."""
    remedy = quirks.remedy(facts(device), log)
    if remedy in quirks.only_another_runtime():
        remedy += (
            ". Call portbar.load_platforms() before PyOpenCL looks for platforms, so that it finds Intel's CPU runtime where "
            "pip installed it, and make the context on another device"
        )
    return [f"{remedy}; `portbar doctor` lists the devices of this machine"] if remedy else []


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


def save_source(text: str) -> str:
    """Write rendered source to a file that stays, and return its path."""
    with tempfile.NamedTemporaryFile("w", prefix="portbar-", suffix=".cl", delete=False, encoding="utf-8") as out:
        out.write(text)
    return out.name


def author_lines(log: str, text: str) -> str:
    """A build log with the author's files and lines where the driver ignored `#line` and counted the rendered text's.

    Such compilers call the text `<kernel>` or `input.cl`.
    """
    places: list[tuple[str, int]] = []
    name, number = "<kernel>", 1
    for line in text.split("\n"):
        places.append((name, number))
        directive = _LINE.fullmatch(line)
        if directive is None:
            number += 1
        else:
            name, number = directive["name"], int(directive["number"])

    def place(match: re.Match[str]) -> str:
        physical = int(match["line"])
        if not 1 <= physical <= len(places):
            return match[0]
        return "{}:{}:".format(*places[physical - 1])

    given = {name for name, _ in places}
    names = [name for name in ("<kernel>", "input.cl") if name == "<kernel>" or name not in given]
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
        os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="portbar-")
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


def compile_program(context: cl.Context, device: cl.Device, text: str, options: Sequence[str]) -> cl.Program:
    """Compile `text` for `device`.

    `BuildError` with the device, the options, the driver's log, the path of the rendered source, and a hint where one is
    known. Warns as PyOpenCL does if the log has a warning: with the log itself where `PYOPENCL_COMPILER_OUTPUT=1`.
    """
    _import_invoker()
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
        path = save_source(text)
        hints = (
            [remedy for pattern, remedy in _HINTS if re.search(pattern, log)]
            + _missing_grids(log, text)
            + _missing_scratch(log, text)
            + _known_faults(device, log)
        )
        shown = log if len(log) < 4000 else log[:4000] + "\n[cut]"
        message = (
            f"{device.name.strip()} did not compile the program (options: {' '.join(options) or 'none'}).\n{shown}\n"
            f"Rendered source: {path}"
        )
        if hints:
            message += "\nHint: " + "; ".join(dict.fromkeys(hints))
        raise BuildError(
            message, device=device.name.strip(), options=tuple(options), log=log, source_path=path
        ) from error
    log = _log_of(program, device, text)
    if re.search(r"\bwarning\b", log):
        cl.compiler_output(f"{device.name.strip()} compiled the program with warnings.\n{log}")
    return program
