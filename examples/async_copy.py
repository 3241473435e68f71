"""A tile is copied to local memory while its work-group has other work, and used once the copies and all work-items are there.

The second example of SYCL's sycl_ext_oneapi_cuda_async_barrier. The copies are arrivals themselves, so that the barrier expects
two of each work-item. The result, a sum of neighbours along each row, is checked against NumPy:
`python examples/async_copy.py [--platform "PoCL 3.1"]`.
"""

from __future__ import annotations

import argparse

import numpy as np
import pyopencl as cl
import pyopencl.array

import portbar

SOURCE = """
#include "portbar/split_barrier.h"

kernel void neighbours(global const uint *rows, global uint *sums, uint width, local uint *tile)
{
    const uint i = get_local_id(0), n = get_local_size(0);
    local portbar_split_barrier ready;
    if (i == 0)
        portbar_split_barrier_initialize(&ready, 2 * n);
    barrier(CLK_LOCAL_MEM_FENCE);

    portbar_copy_async_group(tile, rows + get_group_id(0) * width, width * sizeof(uint));
    portbar_split_barrier_arrive_copy_async_no_inc(&ready);     /* one arrival, when this work-item's copies are done */

    uint hash = get_group_id(0);                                /* other work, which needs no tile */
    for (uint step = 0; step < 16; ++step)
        hash = hash * 1664525u + 1013904223u;

    portbar_split_barrier_arrive_and_wait(&ready);              /* the other arrival */
    for (uint x = i; x < width; x += n)
        sums[get_group_id(0) * width + x] = tile[(x + width - 1) % width] + tile[x] * 2 + tile[(x + 1) % width] + hash;
}
"""

ROWS, WIDTH, LOCAL_SIZE = 64, 1001, 64


def make_context(platform: str | None) -> cl.Context:
    """A context on the platform that is named, or the one that PyOpenCL picks (PYOPENCL_CTX chooses)."""
    platforms = portbar.load_platforms()
    if platform is None:
        return cl.create_some_context(interactive=False)
    for found in platforms:
        if platform.lower() in f"{found.name} {found.version}".lower():
            return cl.Context(found.get_devices()[:1])
    raise SystemExit(f"no OpenCL platform matches {platform!r}")


def expected(rows: np.ndarray) -> np.ndarray:
    """The same sums in NumPy."""
    hashed = np.arange(ROWS, dtype=np.uint32)[:, np.newaxis]
    for _ in range(16):
        hashed = hashed * np.uint32(1664525) + np.uint32(1013904223)
    return np.roll(rows, 1, axis=1) + rows * np.uint32(2) + np.roll(rows, -1, axis=1) + hashed


def main() -> None:
    """Copy, do other work, wait, use, and check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--platform", help='a part of "NAME VERSION" of an OpenCL platform')
    context = make_context(parser.parse_args().platform)
    queue = cl.CommandQueue(context)
    device = context.devices[0]

    rows = np.random.default_rng(1).integers(0, 1 << 32, (ROWS, WIDTH), dtype=np.uint32)
    data, sums = cl.array.to_device(queue, rows), cl.array.zeros(queue, rows.shape, np.uint32)
    program = portbar.Program(context, SOURCE)
    kernel = program.kernel("neighbours")
    tile = cl.LocalMemory(4 * WIDTH)
    kernel(queue, (ROWS * LOCAL_SIZE,), (LOCAL_SIZE,), data.data, sums.data, np.uint32(WIDTH), tile).wait()

    assert (sums.get() == expected(rows)).all(), "a work-item used its tile before it was there"
    by_hardware = "PORTBAR_COPY_ASYNC_HARDWARE 1" in program.rendered(device)
    print(f"{device.name.strip()}: {ROWS} tiles of {WIDTH} values copied by {LOCAL_SIZE} work-items each")
    print(
        f"the copies {'ran on their own' if by_hardware else 'were loads and stores, since this device has no others'}"
    )
    print(f"split barrier: {program.strategy(device).split_barrier}")


if __name__ == "__main__":
    main()
