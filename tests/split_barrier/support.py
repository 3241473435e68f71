"""What the tests of the split barrier share: a prelude in OpenCL C, programs built once, and launches that judge themselves.

Not fixtures and not tests. A kernel's first parameter is `global uint *bad`: one word a work-item, bit k set where its
`CHECK(k, ...)` failed, the barrier's fault (debug builds) in the upper bits, and `UNREACHED` where it did not come to its end.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.primitives.split_barrier.selection import VARIANTS
from tests.support import filled, scale, uints

#: How a test is built: by portbar's choice, by a strategy on request, and by portbar's choice with its checks on the device.
MODES = ("default", *VARIANTS, "debug")

by_mode = pytest.mark.parametrize("mode", MODES)

#: What must be required for kernels in which a work-item arrives more than once before it waits.
OVERLAPPING = "split_barrier.overlapping"

UNREACHED = 0xFFFF_FFFF

PRELUDE = r"""
#include "portbar/split_barrier.h"

static inline uint item(void)
{
    return (uint)(get_local_id(0) + get_local_size(0) * (get_local_id(1) + get_local_size(1) * get_local_id(2)));
}

static inline uint items(void)
{
    return (uint)(get_local_size(0) * get_local_size(1) * get_local_size(2));
}

static inline uint place(void)      /* of this work-item among those of all groups, which lie along dimension 0 */
{
    return (uint)get_group_id(0) * items() + item();
}

static inline uint mixed(uint a, uint b)
{
    const uint x = (a * 0x9e3779b9u) ^ (b * 0x85ebca6bu);
    return (x ^ (x >> 13)) * 0xc2b2ae35u;
}

#define BEGIN                 const uint i = item(), n = items(); uint wrong = 0u
#define CHECK(bit, holds)     wrong |= (holds) ? 0u : 1u << (bit)
#define INITIALIZE(b, count) \
    do { \
        if (item() == 0u) \
            portbar_split_barrier_initialize(&(b), (count)); \
        barrier(CLK_LOCAL_MEM_FENCE); \
    } while (0)
#define END(b)                bad[place()] = wrong | portbar_split_barrier_fault(&(b)) << 24
"""


def program(context: cl.Context, source: str, mode: str, *require: str) -> portbar.Program:
    """Return a program in one of the modes, or with any variant by its name."""
    strategy = {"split_barrier": mode} if mode in VARIANTS else {}
    return portbar.Program(context, source, strategy=strategy, require=require, debug=mode == "debug")


@functools.lru_cache(maxsize=512)
def _built(context: cl.Context, source: str, mode: str, require: tuple[str, ...]) -> portbar.Program:
    return program(context, PRELUDE + source, mode, *require)


def kernel(context: cl.Context, source: str, mode: str, *require: str) -> portbar.Kernel:
    """Return the only kernel of a source behind the prelude; skip where portbar refuses the device, with its reason."""
    try:
        made = _built(context, source, mode, require)
    except portbar.UnsupportedFeatureError as error:
        pytest.skip(f"refused: {error}")
    (name,) = made.kernel_names()
    return made.kernel(name)


def largest(made: portbar.Kernel, device: cl.Device) -> int:
    """Return the largest one-dimensional work-group of this kernel, at most 256 on processors and 64 on a simulator."""
    handle = cl.Kernel(made.program.built(device, made.program.strategy(device)), made.name)
    size = handle.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, device)
    size = min(size, device.max_work_group_size, device.max_work_item_sizes[0])
    if device.type & cl.device_type.CPU or "llvmpipe" in device.name:
        size = min(size, 256)
    return min(size, 64) if scale(device).is_simulator else size


def rounds(device: cl.Device, wanted: int) -> int:
    """Return fewer rounds for a simulator, and no more than a device that ends loops early can do."""
    return min(wanted, 8) if scale(device).is_simulator else wanted


def local_uints(count: int) -> cl.LocalMemory:
    """Return a local argument with room for `count` uints."""
    return cl.LocalMemory(4 * max(count, 1))


def describe(words: np.ndarray[Any, Any]) -> str:
    """Say in words what the kernel found wrong, work-item by work-item."""
    lines = []
    for at in np.flatnonzero(words)[:6].tolist():
        word = int(words[at])
        if word == UNREACHED:
            lines.append(f"work-item {at} did not come to its end")
        else:
            checks = [k for k in range(24) if word >> k & 1]
            lines.append(f"work-item {at}: checks {checks} failed, fault {word >> 24}")
    return f"{np.count_nonzero(words)} of {len(words)} work-items: " + "; ".join(lines)


def judge(
    queue: cl.CommandQueue,
    made: portbar.Kernel,
    local: tuple[int, ...],
    *arguments: Any,
    groups: int = 3,
    note: str = "",
) -> None:
    """Launch a kernel on some groups along dimension 0, and fail with what its work-items found wrong."""
    bad = filled(queue, groups * math.prod(local), UNREACHED)
    made(queue, (groups * local[0], *local[1:]), local, bad, *arguments).wait()
    words = uints(queue, bad)
    chosen = made.program.strategy(queue.device).split_barrier
    assert not words.any(), f"{chosen} on groups of {local}{', ' + note if note else ''}: {describe(words)}"
