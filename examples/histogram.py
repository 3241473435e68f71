"""A histogram and its most frequent value in one launch: the last work-group to finish reads what all others counted.

Without an acquire and a release between work-groups, the second step has to be a kernel launch of its own, since nothing says
that the last group sees the other groups' counts. Both results are checked against NumPy:
`python examples/histogram.py [--platform "PoCL 3.1"]`.
"""

from __future__ import annotations

import argparse

import numpy as np
import pyopencl as cl
import pyopencl.array

import portbar

SOURCE = """
#include "portbar/atomics.h"

kernel void histogram(global const uchar *values, uint n, global uint *counts, global uint *done, global uint *mode)
{
    local uint mine[256], last;
    for (uint v = get_local_id(0); v < 256; v += get_local_size(0))
        mine[v] = 0u;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = get_global_id(0); i < n; i += get_global_size(0))
        portbar_atomic_add_explicit(mine + values[i], 1u, memory_order_relaxed, memory_scope_work_group);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint v = get_local_id(0); v < 256; v += get_local_size(0))
        counts[get_group_id(0) * 256 + v] = mine[v];            /* plain stores */
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);        /* the group's stores happen before the addition below */
    if (get_local_id(0) == 0)
        last = portbar_atomic_fetch_add_explicit(done, 1u, memory_order_acq_rel, memory_scope_device)
               == get_num_groups(0) - 1;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    for (uint v = get_local_id(0); last && v < 256; v += get_local_size(0)) {
        uint sum = 0u;
        for (uint g = 0; g < get_num_groups(0); ++g)
            sum += counts[g * 256 + v];
        mode[1 + v] = sum;
        /* The count above, the value below: the largest word is the most frequent value. */
        portbar_atomic_max_explicit(mode, sum << 8 | v, memory_order_relaxed, memory_scope_device);
    }
}
"""

GROUPS, LOCAL_SIZE, LENGTH = 16, 32, 100_000


def make_context(platform: str | None) -> cl.Context:
    """A context on the platform that is named, or the one that PyOpenCL picks (PYOPENCL_CTX chooses)."""
    platforms = portbar.load_platforms()
    if platform is None:
        return cl.create_some_context(interactive=False)
    for found in platforms:
        if platform.lower() in f"{found.name} {found.version}".lower():
            return cl.Context(found.get_devices()[:1])
    raise SystemExit(f"no OpenCL platform matches {platform!r}")


def main() -> None:
    """Count, find the most frequent value, and check both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--platform", help='a part of "NAME VERSION" of an OpenCL platform')
    context = make_context(parser.parse_args().platform)
    queue = cl.CommandQueue(context)
    device = context.devices[0]

    values = np.random.default_rng(1).binomial(255, 0.4, LENGTH).astype(np.uint8)
    data = cl.array.to_device(queue, values)
    counts = cl.array.zeros(queue, GROUPS * 256, np.uint32)
    done, mode = cl.array.zeros(queue, 1, np.uint32), cl.array.zeros(queue, 257, np.uint32)

    program = portbar.Program(context, SOURCE)
    kernel = program.kernel("histogram")
    kernel(queue, (GROUPS * LOCAL_SIZE,), (LOCAL_SIZE,), data, np.uint32(LENGTH), counts, done, mode).wait()

    best, *total = mode.get().tolist()
    expected = np.bincount(values, minlength=256)
    assert total == expected.tolist(), "the histogram is wrong"
    assert (best & 255, best >> 8) == (255 - int(expected[::-1].argmax()), int(expected.max()))
    print(f"{device.name.strip()}: {LENGTH:,} values, the most frequent is {best & 255}, {best >> 8:,} times")
    print(f"atomics: {program.strategy(device).atomics}, {GROUPS} work-groups, one launch")


if __name__ == "__main__":
    main()
