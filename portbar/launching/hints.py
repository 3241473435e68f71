"""Hints for the author of a source that a driver refused, by the driver's log and the rendered text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import pyopencl as cl

from portbar.device import causes, quirks
from portbar.device.facts import facts
from portbar.primitives.headers import header_names
from portbar.reading.reader import mistakes
from portbar.reading.words import words

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
        "a macro that you define changes portbar's headers: rename it",
    ),
    (
        (
            r"undeclared (identifier|function)[^\n]*PORTBAR_ENTER|PORTBAR_ENTER[^\n]*(undeclared|invalid in)"
            r"|unknown type name '?PORTBAR_GRID_PARAM"
        ),
        'portbar\'s names are undefined here: add #include "portbar/device_barrier.h"',
    ),
    (
        r"PORTBAR_TURNS_\w+",
        "the last argument of a loop over the grid can be `independent`, as in PORTBAR_FOR(i, &grid, n, independent)",
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
            "portbar resolves its headers in files that it can read: save the file that includes this one as UTF-8, and end "
            "its comments and conditionals in it"
        ),
    ),
    (
        rf"'(?!portbar/|(?:po\w+[/\\]+)?(?:{'|'.join(header_names())})\.h)[^'\n]*' file not found",
        (
            "included files are looked for beside the file that includes them, in the working directory and in the folders of "
            "the options -I: pass options=['-I', folder]"
        ),
    ),
)

#: Functions that a log says are called with other arguments than they take.
_CALLED: Final = r"no matching function for call to '?(\w+)|'(\w+)' declared here"


def _of_names(log: str, text: str, options: Sequence[str]) -> list[str]:
    """Hints about mistakes with portbar's names in a text, as far as libclang reads it."""
    unknown = re.findall(r"undeclared identifier '?([A-Za-z_]\w*)", log)
    called = [one or other for one, other in re.findall(_CALLED, log)]
    found = mistakes(text, options, unknown, called)
    hidden = dict(found.hidden)
    # The note that names the function may be left out: the effect LOGS_REWRITTEN.
    if not called and "too few arguments to function call" in log and "PORTBAR_SCRATCH_PARAM" in words(text):
        hidden["a function of a reduction"] = "scratch"
    return [
        *(f"a macro that you define is called {name!r}: rename it" for name in found.macros),
        *(f"{name} is a parameter of its own: write a comma after it" for name in found.parameters),
        *(
            f"that kernel has no grid {name!r}: make PORTBAR_GRID_PARAM its first parameter and PORTBAR_ENTER({name}); "
            "its first statement"
            for name in found.grids
        ),
        *(
            f"{name} takes {first} before its values: declare PORTBAR_REDUCTION_SCRATCH(scratch); in the kernel, and pass it "
            "to helper functions as PORTBAR_SCRATCH_PARAM scratch"
            for name, first in hidden.items()
        ),
    ]


def _known_faults(device: cl.Device, log: str) -> list[str]:
    """Return the workaround for a fault of the device's compiler that the log shows."""
    remedy = quirks.remedy(facts(device), log)
    if remedy in quirks.only_another_runtime():
        remedy += (
            ". Call portbar.load_platforms() before PyOpenCL looks for platforms, so that it finds Intel's CPU runtime where "
            "pip installed it, and make the context on another device"
        )
    if not remedy:
        return list(filter(None, [causes.remedy(log)]))
    return [f"{remedy}; `portbar doctor` lists the devices of this machine"]


def hints_of(device: cl.Device, log: str, text: str, options: Sequence[str]) -> list[str]:
    """Return hints for the author of a text that a device's compiler refused with a log."""
    return (
        [remedy for pattern, remedy in _HINTS if re.search(pattern, log)]
        + _of_names(log, text, options)
        + _known_faults(device, log)
    )
