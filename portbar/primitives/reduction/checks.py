"""Checks that a program's source can mean what it says about reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from portbar.errors import BuildError
from portbar.primitives.reduction.loops import LEVELS, ReductionLoop
from portbar.primitives.reduction.use import HEADER
from portbar.reading.found import Facts

_STEPS: Final = ("setup", "init", "fini", "teardown", "reduce", "lock", "unlock")
#: Names of the parameters that carry memory for the values of work-groups.
_CARRIED: Final = frozenset({"portbar_reduction_param", "portbar_grid_param"})


def check_included(name: str, headers: Sequence[str], loops: tuple[ReductionLoop, ...]) -> None:
    """Check the headers that a program with declared loops includes.

    `BuildError` if that of reductions is missing, or headers are in an order in which functions would be missing.
    """
    if loops and HEADER not in headers:
        raise BuildError(
            f"{name}: reductions= declares {loops[0].name!r}, but the source does not include the header; add #include "
            f'"{HEADER}"'
        )
    barrier = "portbar/device_barrier.h"
    if HEADER in headers and barrier in headers and headers.index(barrier) > headers.index(HEADER):
        raise BuildError(f'{name}: #include "{barrier}" must come before #include "{HEADER}", which uses it')


def check_loops_used(name: str, facts: Facts, loops: tuple[ReductionLoop, ...]) -> None:
    """Check that a program with declared loops can be what its author means.

    `BuildError` if the source defines a name of a loop outside of functions, or the gang level is used without its parameter.
    """
    carried = not facts.is_whole or any(_CARRIED.intersection(kernel.parameters) for kernel in facts.kernels.values())
    for loop in loops:
        facts.check_undefined(loop.generated_names, f"reduction loop {loop.name!r}")
        gangs = (f"{loop.name}_{step}_{level}" for step in _STEPS for level in LEVELS if level.startswith("gang"))
        call = next((call for call in gangs if call in facts.calls), None)
        if call and not carried:
            raise BuildError(
                f"{name}: {call} needs memory for the values of work-groups: make PORTBAR_REDUCTION_PARAM the kernel's "
                "first parameter, or PORTBAR_GRID_PARAM in a kernel with a grid"
            )
