"""A 5-point stencil swept many times inside one kernel, with a device barrier between sweeps.

Without a barrier between work-groups, each sweep has to be a kernel launch of its own. This program does both, checks both
against NumPy, and prints what a sweep costs either way: `python examples/jacobi.py [--platform "PoCL 3.1"]`.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pyopencl as cl
import pyopencl.array

import portbar

SOURCE = """
#include "portbar/device_barrier.h"

static float swept(global const float *a, uint x, uint y, uint width, uint height)
{
    const uint i = y * width + x;
    if (x == 0 || y == 0 || x == width - 1 || y == height - 1)
        return a[i];                                /* the border stays as it is */
    return 0.25f * (a[i - 1] + a[i + 1] + a[i - width] + a[i + width]);
}

kernel void sweep_once(global const float *a, global float *b, uint width, uint height)
{
    const uint x = (uint)get_global_id(0), y = (uint)get_global_id(1);
    b[y * width + x] = swept(a, x, y, width, height);
}

kernel void sweep_many(PORTBAR_GRID_PARAM, global float *a, global float *b, uint width, uint height, uint sweeps)
{
    PORTBAR_ENTER(grid);                            /* surplus work-groups return here */
    for (uint s = 0; s < sweeps; ++s) {
        PORTBAR_FOR_2D(x, y, &grid, width, height)
            b[y * width + x] = swept(a, x, y, width, height);
        if (!portbar_device_barrier(&grid))         /* all have written b before any reads it */
            return;                                 /* the spin limit was reached: launch.wait() raises */
        global float *t = a; a = b; b = t;
    }
}
"""

WIDTH, HEIGHT, SWEEPS = 64, 48, 100  # an even number of sweeps leaves the result in the first array


def make_context(platform: str | None) -> cl.Context:
    """Return a context on the named platform, or the one that PyOpenCL picks (PYOPENCL_CTX chooses)."""
    platforms = portbar.load_platforms()
    if platform is None:
        return cl.create_some_context(interactive=False)
    for found in platforms:
        if platform.lower() in f"{found.name} {found.version}".lower():
            return cl.Context(found.get_devices()[:1])
    raise SystemExit(f"no OpenCL platform matches {platform!r}")


def expected(start: np.ndarray, sweeps: int) -> np.ndarray:
    """The same sweeps in NumPy."""
    a = start.copy()
    for _ in range(sweeps):
        b = a.copy()
        b[1:-1, 1:-1] = np.float32(0.25) * (a[1:-1, :-2] + a[1:-1, 2:] + a[:-2, 1:-1] + a[2:, 1:-1])
        a = b
    return a


def main() -> None:
    """Sweep both ways, compare, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--platform", help="part of an OpenCL platform's name and version")
    context = make_context(parser.parse_args().platform)
    device = context.devices[0]
    if portbar.describe(device).findings is None:
        portbar.probe(device)  # once per device and driver: the results are stored
    queue = cl.CommandQueue(context)
    program = portbar.Program(context, SOURCE)
    shape = np.uint32(WIDTH), np.uint32(HEIGHT)
    start = np.random.default_rng(1).random((HEIGHT, WIDTH), dtype=np.float32)

    many, once = program.kernel("sweep_many"), program.kernel("sweep_once")
    local = many.suggested_local_size(queue)  # small on CPUs, 256 or so on GPUs

    def in_one_kernel() -> np.ndarray:
        a, b = cl.array.to_device(queue, start), cl.array.to_device(queue, start)
        # No group without work: one for each `local` of the points, at most.
        launch = many(queue, None, local, a, b, *shape, np.uint32(SWEEPS), items=WIDTH * HEIGHT)
        launch.wait()
        return a.get()

    def by_relaunching() -> np.ndarray:
        a, b = cl.array.to_device(queue, start), cl.array.to_device(queue, start)
        for _ in range(SWEEPS):
            once(queue, (WIDTH, HEIGHT), (32, 1), a, b, *shape)
            a, b = b, a
        return a.get()

    wanted = expected(start, SWEEPS)
    print(f"{device.name.strip()}: {SWEEPS} sweeps over {WIDTH} x {HEIGHT} points, work-groups of {local[0]}")
    for title, sweep in (("one kernel with a barrier", in_one_kernel), ("a launch for each sweep", by_relaunching)):
        sweep()  # the first run pays for what the driver prepares once
        begin = time.perf_counter()
        result = sweep()
        taken = time.perf_counter() - begin
        np.testing.assert_allclose(result, wanted, rtol=1e-5)
        print(f"  {title}: {taken / SWEEPS * 1e6:.1f} us per sweep, as in NumPy")


if __name__ == "__main__":
    main()
