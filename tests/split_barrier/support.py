"""Shared by the tests of the split barrier: a prelude in OpenCL C, programs built once, and launches that judge themselves.

Not fixtures and not tests. A kernel's first parameter is `global uint *bad`: one word a work-item, bit k set where its
`CHECK(k, ...)` failed, the barrier's fault (debug builds) in the upper bits, and `UNREACHED` where it did not come to its end.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.primitives.split_barrier.selection import VARIANTS
from tests.support import filled, scale, skipped_where_refused, to_device, uints

#: How a test is built: by portbar's choice, by a strategy on request, and by portbar's choice with its checks on the device.
MODES = ("default", *VARIANTS, "debug")

by_mode = pytest.mark.parametrize("mode", MODES)

#: The feature to require for kernels in which a work-item arrives more than once before it waits.
OVERLAPPING = "split_barrier.overlapping"

UNREACHED = 0xFFFF_FFFF

#: A local size: the largest one-dimensional group that a kernel may have.
LARGEST = ()

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


@dataclass(frozen=True)
class Promise:
    """A promise of a header, as a kernel that checks it.

    Attributes
    ----------
    title : str
    body : str
        Statements between BEGIN and END, with `turns`, `salt` (that many random words, or more), `far` (global memory) and
        `values` (local memory, 16-byte aligned as `room`).
    expected : str or None
        Arrivals that complete a phase of the barrier `b`; None where the body has barriers of its own, and its own END.
    locals : tuple of tuple of int
        Local sizes to try.
    turns, words, far, groups : int
        Rounds; uints of `values` and of `far` for each work-item; work-groups.
    require : tuple of str
    functions : str
        The text before the kernel.
    one_by_one : bool
        Whether each arrival must find another count, which mbarrier does not promise.
    """

    title: str
    body: str
    expected: str | None = "n"
    locals: tuple[tuple[int, ...], ...] = ((64,),)
    turns: int = 1
    words: int = 0
    far: int = 0
    salt: int = 1
    groups: int = 3
    require: tuple[str, ...] = ()
    functions: str = ""
    one_by_one: bool = False

    @property
    def source(self) -> str:
        """OpenCL C after the prelude."""
        own = "local portbar_split_barrier b; INITIALIZE(b, EXPECTED);"
        body = self.body if self.expected is None else f"{own}\n{self.body}\nEND(b);"
        return (
            f"#define EXPECTED ({self.expected})\n{self.functions}"
            "kernel void promise(global uint *bad, uint turns, const global uint *salt, global uint *far, local uint4 *room)\n"
            f"{{\nBEGIN; local uint *values = (local uint *)room;\n{body}\n}}\n"
        )


def with_and_without_counts(promise: Promise) -> tuple[Promise, Promise]:
    """Return a promise, and one whose program sees no counts, so that arrivals need not be counted."""
    unseen = "\n".join(line for line in promise.body.splitlines() if "/* counted */" not in line)
    return promise, replace(promise, title=f"{promise.title}, counts unseen", body=unseen, one_by_one=False)


def each(promises: Sequence[Promise]) -> pytest.MarkDecorator:
    """Return a mark that runs a test with each promise and each of its local sizes."""
    cases = [(promise, local) for promise in promises for local in promise.locals]
    ids = [f"{promise.title}-{'x'.join(map(str, local)) or 'largest'}" for promise, local in cases]
    return pytest.mark.parametrize(("promise", "local"), cases, ids=ids)


def keep(context: cl.Context, queue: cl.CommandQueue, mode: str, promise: Promise, local: tuple[int, ...]) -> None:
    """Check a promise on the device."""
    chosen = portbar.choose(portbar.describe(queue.device)).split_barrier.value
    if promise.one_by_one and (mode if mode != "default" else chosen) == "mbarrier":
        pytest.skip("mbarrier takes arrivals that a sub-group makes together as one, and their tokens tell the same")
    made = kernel(context, promise.source, mode, *promise.require)
    local = local or (largest(made, queue.device),)
    n, turns, seed = math.prod(local), rounds(queue.device, promise.turns), 12
    salt = np.random.default_rng(seed).integers(0, 1 << 32, max(turns, promise.salt), dtype=np.uint32)
    far = filled(queue, max(promise.far * n * promise.groups, 1))
    room = local_uints(promise.words * n + 64)
    arguments = (np.uint32(turns), to_device(queue, salt), far, room)
    judge(queue, made, local, *arguments, groups=promise.groups, note=f"seed {seed}")


def kept(promises: Sequence[Promise]) -> Callable[..., None]:
    """Return a test of each promise in each mode."""

    @by_mode
    @each(promises)
    def test(context: cl.Context, queue: cl.CommandQueue, mode: str, promise: Promise, local: tuple[int, ...]) -> None:
        keep(context, queue, mode, promise, local)

    return test


@functools.lru_cache(maxsize=512)
def _built(context: cl.Context, source: str, mode: str, require: tuple[str, ...]) -> portbar.Program:
    return program(context, PRELUDE + source, mode, *require)


def kernel(context: cl.Context, source: str, mode: str, *require: str) -> portbar.Kernel:
    """Return the only kernel of a source after the prelude; skip if portbar refuses the device, with its reason."""
    with skipped_where_refused():
        made = _built(context, source, mode, require)
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
