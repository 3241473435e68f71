"""Who waits for whom at a barrier: row i of a triangle has i + 1 elements, so work-groups with equal numbers of rows wait.

Each round replaces every row's scale by the mean of the row, scaled; all work-groups meet after each round. Rows are given
to work-groups in contiguous pieces, then in turns, and a trace of either launch shows what each work-group waited:
`python examples/waiting.py [--platform "PoCL 3.1"]`. Both results are checked against NumPy.
"""

from __future__ import annotations

import argparse

import numpy as np
import pyopencl as cl
import pyopencl.array

import portbar

SOURCE = """
#include "portbar/device_barrier.h"

kernel void means(PORTBAR_GRID_PARAM, global const float *triangle, global float *scale, uint rows, uint rounds, uint in_turns)
{
    PORTBAR_ENTER(grid);
    const uint me = portbar_global_id(&grid), all = portbar_global_size(&grid);
    const uint first = in_turns ? me : (uint)((ulong)me * rows / all);
    const uint end = in_turns ? rows : (uint)((ulong)(me + 1u) * rows / all), step = in_turns ? all : 1u;
    for (uint round = 0u; round < rounds; ++round) {
        for (uint row = first; row < end; row += step) {
            float sum = 0.0f;
            for (uint i = 0u; i <= row; ++i)
                sum += triangle[row * (row + 1u) / 2u + i];
            scale[row] *= sum / (float)(row + 1u);
        }
        if (!portbar_device_barrier(&grid))
            return;
    }
}
"""

ROWS, ROUNDS = 300, 6


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
    """Run both ways where the device has a clock, check, and print the traces."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--platform", help="part of an OpenCL platform's name and version")
    context = make_context(parser.parse_args().platform)
    device = context.devices[0]
    if portbar.describe(device).findings is None:
        portbar.probe(device)  # once per device and driver: the results are stored
    queue = cl.CommandQueue(context)
    try:
        kernel = portbar.Program(context, SOURCE, trace=True).kernel("means")
    except portbar.UnsupportedFeatureError as error:
        print(f"{device.name.strip()} cannot do this: {error}")
        return

    triangle = np.random.default_rng(1).random(ROWS * (ROWS + 1) // 2, dtype=np.float32) + np.float32(0.5)
    means = np.array([row.mean() for row in np.split(triangle, np.cumsum(np.arange(1, ROWS)))])
    values = cl.array.to_device(queue, triangle)
    for in_turns, title in ((0, "contiguous pieces"), (1, "rows in turns")):
        scale = cl.array.to_device(queue, np.ones(ROWS, np.float32))
        launch = kernel(
            queue, None, (1,), values, scale, np.uint32(ROWS), np.uint32(ROUNDS), np.uint32(in_turns), max_groups=4
        )
        launch.wait()
        np.testing.assert_allclose(scale.get(), means**ROUNDS, rtol=1e-4)
        trace = launch.trace()
        assert (trace.leave.min(axis=0) >= trace.arrive.max(axis=0)).all(), "a group left before all had arrived"
        print(f"{title}: {trace}\n")


if __name__ == "__main__":
    main()
