"""Time to build small kernels beside the same kernels without portbar: `python -m benchmarks.build`.

Each side is built in turns, a kernel of another name each time, so that no cache of a driver's knows it. portbar's side is all
of `portbar.Program`, its rendering included. A ratio below 1 means that portbar is faster.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import pyopencl as cl

import portbar
from benchmarks.shared import Row, Session, clock, command_line, judged, number, plain, run, sampled, verdict
from portbar.launching.build import build_options, compile_program

#: Used feature -> the kernel with portbar and without; NAME is the kernel's.
KERNELS: Final[Mapping[str, tuple[str, str]]] = {
    "atomic": (
        """#include "portbar/atomics.h"
kernel void NAME(global uint *a)
{
    a[1] = portbar_atomic_fetch_add_explicit(a, 1u, memory_order_relaxed, memory_scope_device);
}
""",
        """kernel void NAME(volatile global uint *a)
{
    a[1] = atomic_add(a, 1u);
}
""",
    ),
    "device barrier": (
        """#include "portbar/device_barrier.h"
kernel void NAME(PORTBAR_GRID_PARAM, global uint *a)
{
    PORTBAR_ENTER(grid);
    portbar_device_barrier(&grid);
    a[portbar_global_id(&grid)] = 1u;
}
""",
        """kernel void NAME(global uint *a)
{
    barrier(CLK_GLOBAL_MEM_FENCE);
    a[get_global_id(0)] = 1u;
}
""",
    ),
    "work-group sum": (
        """#include "portbar/reduction.h"
kernel void NAME(global float *a)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    a[get_global_id(0)] = portbar_work_group_reduce_add(scratch, a[get_global_id(0)]);
}
""",
        """kernel void NAME(global float *a)
{
    local float sums[1024];
    const uint id = get_local_id(0);
    sums[id] = a[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_size = get_local_size(0) / 2; half_size > 0; half_size /= 2) {
        if (id < half_size)
            sums[id] += sums[id + half_size];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    a[get_global_id(0)] = sums[0];
}
""",
    ),
    "split barrier": (
        """#include "portbar/split_barrier.h"
kernel void NAME(global uint *a)
{
    local portbar_split_barrier b;
    if (get_local_id(0) == 0)
        portbar_split_barrier_initialize(&b, get_local_size(0));
    barrier(CLK_LOCAL_MEM_FENCE);
    const portbar_arrival_token token = portbar_split_barrier_arrive(&b);
    portbar_split_barrier_wait(&b, token);
    a[get_global_id(0)] = 1u;
}
""",
        """kernel void NAME(global uint *a)
{
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    a[get_global_id(0)] = 1u;
}
""",
    ),
    "lock": (
        """#include "portbar/lock.h"
kernel void NAME(global portbar_spin_lock *lock, global uint *a)
{
    if (portbar_spin_lock_acquire(lock)) {
        a[0] += 1u;
        portbar_spin_lock_release(lock);
    }
}
""",
        """kernel void NAME(volatile global uint *lock, global uint *a)
{
    for (uint i = 0; i < 1000000u; ++i)
        if (atomic_cmpxchg(lock, 0u, 1u) == 0u) {
            a[0] += 1u;
            mem_fence(CLK_GLOBAL_MEM_FENCE);
            atomic_xchg(lock, 0u);
            break;
        }
}
""",
    ),
}

#: How much longer a build may take.
TARGETS: Final[Mapping[str, float]] = {"atomic": 1.3, "work-group sum": 1.3, "device barrier": 1.6}

COLUMNS: Final[Mapping[str, Callable[[Row], str]]] = {
    "kernel": lambda row: row.benchmark,
    "header lines": lambda row: str(row.extra["lines"]),
    "portbar ms": lambda row: number(None if row.ours_us is None else row.ours_us / 1e3),
    "raw ms": lambda row: number(None if row.peer_us is None else row.peer_us / 1e3),
    "ratio": lambda row: number(row.ratio),
    "target met": verdict,
}

_numbers = itertools.count()


def _build_us(build: Callable[[str], object], source: str) -> float:
    """Microseconds that a build takes which no earlier one was like."""
    text = source.replace("NAME", f"built_{os.getpid()}_{next(_numbers)}")
    return clock(lambda: build(text))


def compare(session: Session, name: str) -> Iterator[Row]:
    """One kernel with portbar and without."""
    ours, raw = KERNELS[name]

    def build_ours(text: str) -> portbar.Program:
        return portbar.Program(session.context, text)

    made = build_ours(ours)
    options = build_options(made.strategy(session.device), ())

    def build_raw(text: str) -> cl.Program:
        return compile_program(session.context, session.device, text, options)

    build_raw(raw)
    taken = sampled(
        {"": partial(_build_us, build_ours, ours), "raw": partial(_build_us, build_raw, raw)}, session.repeats
    )
    lines = len(made.rendered(session.device).splitlines()) - len(ours.splitlines())
    yield judged(session.compare(name, "raw", taken[""], taken["raw"], lines=lines), TARGETS.get(name))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 3 when no usable device matches."""
    options = command_line("build", __doc__, "five builds of each kernel", KERNELS).parse_args(arguments)
    benchmarks = {title: lambda session, title=title: compare(session, title) for title in KERNELS}
    # Where PoCL keeps what it compiled, it would also look.
    with tempfile.TemporaryDirectory(prefix="portbar-builds-", ignore_cleanup_errors=True) as folder:
        os.environ["POCL_CACHE_DIR"] = folder
        return run(options, plain(options), benchmarks, COLUMNS, width=120)


if __name__ == "__main__":
    raise SystemExit(main())
