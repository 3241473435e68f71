"""Values go round a ring of work-items: each takes its neighbour's, with a barrier whose arrive and wait are apart.

The first example of SYCL's sycl_ext_oneapi_cuda_async_barrier. Between arriving and waiting a work-item has something else to
do: it adds its number to what it has read. The result is checked against NumPy:
`python examples/ring.py [--platform "PoCL 3.1"]`.
"""

from __future__ import annotations

import argparse

import numpy as np
import pyopencl as cl
import pyopencl.array

import portbar

SOURCE = """
#include "portbar/split_barrier.h"

kernel void ring(global uint *data, local uint *values)
{
    const uint i = get_local_id(0), n = get_local_size(0);
    local portbar_split_barrier has_read, has_written;
    values[i] = data[get_global_id(0)];
    if (i == 0) {
        portbar_split_barrier_initialize(&has_read, n);
        portbar_split_barrier_initialize(&has_written, n);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint step = 0; step < n; ++step) {
        uint value = values[i];
        const portbar_arrival_token token = portbar_split_barrier_arrive(&has_read);
        value += i;                                             /* meanwhile */
        portbar_split_barrier_wait(&has_read, token);           /* all have read: now all may write */
        values[(i + 1) % n] = value;
        portbar_split_barrier_arrive_and_wait(&has_written);
    }
    data[get_global_id(0)] = values[i];
}
"""

GROUPS, LOCAL_SIZE = 16, 64


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
    """Send each value once round its ring and check that it met all others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--platform", help='a part of "NAME VERSION" of an OpenCL platform')
    context = make_context(parser.parse_args().platform)
    queue = cl.CommandQueue(context)
    device = context.devices[0]

    start = np.random.default_rng(1).integers(0, 1000, GROUPS * LOCAL_SIZE, dtype=np.uint32)
    data = cl.array.to_device(queue, start)
    program = portbar.Program(context, SOURCE)
    kernel = program.kernel("ring")
    kernel(queue, (GROUPS * LOCAL_SIZE,), (LOCAL_SIZE,), data.data, cl.LocalMemory(4 * LOCAL_SIZE)).wait()

    # After a whole round each value is back where it was, and every work-item of its group has added its number.
    expected = start + np.uint32(LOCAL_SIZE * (LOCAL_SIZE - 1) // 2)
    assert (data.get() == expected).all(), "a value was lost on its way"
    chosen = program.strategy(device).split_barrier
    print(f"{device.name.strip()}: {start.size:,} values went round {GROUPS} rings of {LOCAL_SIZE} work-items")
    print(f"split barrier: {chosen}; {chosen.reason}")


if __name__ == "__main__":
    main()
