"""What the tests named after GCC's OpenACC tests share: launches with arrays in and out, and one loop at any level.

Not tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import portbar
from tests.reduction.support import device_array, host_array, program

if TYPE_CHECKING:
    import pyopencl as cl

#: Gangs, and work-items of each: 8 gangs of 4 workers of 32 lanes where the device's sub-groups are such.
GANGS, LOCAL = 8, 128


def too_long_for_a_simulator(device: cl.Device) -> None:
    """Skip on Oclgrind."""
    if "Oclgrind" in device.platform.name:
        pytest.skip("Oclgrind interprets every instruction: all of these would take it longer than its row may")


def one(name: str, dtype: Any, op: str, **more: Any) -> portbar.ReductionLoop:
    """Return a loop with the one reduction `v`."""
    return portbar.ReductionLoop(name, {"v": portbar.Reduction(dtype, op)}, **more)


def results_of(
    context: cl.Context,
    queue: cl.CommandQueue,
    source: str,
    loops: list[portbar.ReductionLoop],
    kernel: str,
    size: int,
    local: int,
    *args: Any,
) -> list[np.ndarray[Any, Any]]:
    """Launch a kernel once and return what its buffers hold, in the order in which it takes them."""
    made = program(context, source, loops=loops)
    held = [device_array(queue, value) if isinstance(value, np.ndarray) else value for value in args]
    made.kernel(kernel)(queue, (size,), (local,), *held).wait()
    pairs = zip(held, args, strict=True)
    return [host_array(queue, buffer, value.dtype) for buffer, value in pairs if isinstance(value, np.ndarray)]


def sizes_for(level: str, local: int = LOCAL) -> tuple[int, int]:
    """Return global and local size for a level: one group where there are no gangs, one sub-group of lanes alone."""
    local = 8 if level == "vector" else local
    return (GANGS if level.startswith("gang") else 1) * local, local


def loop_at(level: str, fields: Mapping[str, str], n: int, body: str, *, before: str = "", local: int = LOCAL) -> str:
    """Return kernel `k`, which reduces loop `all` over `i` below `n` at one level into one receiver a field.

    Parameters
    ----------
    level : str
    fields : mapping of str to str
        Name of each field -> type of its receiver.
    n : int
    body : str
        Statements that put what `i` contributes into `mine`.
    before : str
        What stands before the kernel.
    local : int
        Most work-items of a group.
    """
    param = "PORTBAR_REDUCTION_PARAM, " if level.startswith("gang") else ""
    receivers = ", ".join(f"global {kind} *{name}" for name, kind in fields.items())
    return f"""
#define PORTBAR_REDUCTION_LOCAL_SIZE {local}
#include "portbar/reduction.h"
{before}
kernel void k({param}{receivers})
{{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const all_results results = {{ {", ".join(fields)} }};
    all_local mine = all_identity();
    mine = all_init_{level}(scratch, results, all_setup_{level}(scratch, results, mine));
    /* No constant, which the quirk pocl-uneven-loops is about: one work-group or more is always there. */
    const uint end = get_num_groups(0) != 0 ? {n}u : 0u;
    for (uint i = portbar_loop_id_{level}(); i < end; i += portbar_loop_count_{level}()) {{
        {body}
    }}
    mine = all_fini_{level}(scratch, results, mine);
    all_teardown_{level}(scratch, results, mine);
}}
"""


def reduced_at(
    context: cl.Context,
    queue: cl.CommandQueue,
    level: str,
    reductions: Mapping[str, portbar.Reduction],
    fields: Mapping[str, str],
    n: int,
    body: str,
    start: list[np.ndarray[Any, Any]],
    *,
    before: str = "",
    local: int = LOCAL,
) -> list[np.ndarray[Any, Any]]:
    """Reduce loop `all` at one level by `loop_at`, and return what the receivers hold."""
    source = loop_at(level, fields, n, body, before=before, local=local)
    loops = [portbar.ReductionLoop("all", dict(reductions))]
    return results_of(context, queue, source, loops, "k", *sizes_for(level, local), *start)
