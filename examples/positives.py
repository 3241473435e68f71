"""Positive numbers kept in their order by one kernel: a scan over all work-groups gives each its positions.

No work-group waits for another. One that finds no total of a tile before counts that tile's numbers itself, by the same
function as for its own, so the kernel ends on devices that run one work-group at a time.
The result is checked against NumPy: `python examples/positives.py [--platform "PoCL 3.1"]`.
"""

from __future__ import annotations

import argparse

import numpy as np
import pyopencl as cl
import pyopencl.array

import portbar

SOURCE = """
#include "portbar/scan.h"

/* The element that the calling work-item has in a tile, and whether it stays. */
static uint place(uint tile)
{
    return tile * (uint)get_local_size(0) + (uint)get_local_id(0);
}
static uint stays(global const int *values, uint n, uint tile)
{
    return place(tile) < n && values[place(tile)] > 0 ? 1u : 0u;
}

kernel void positives(PORTBAR_SCAN_PARAM, global const int *values, global int *kept, const uint n)
{
    local rank_scan scan;
    const uint tile = rank_begin(&scan);                        /* not get_group_id: groups start in any order */
    const uint own = stays(values, n, tile);
    rank_publish(&scan, own);
    while (rank_missing(&scan))                                 /* an earlier tile without a known total */
        rank_supply(&scan, stays(values, n, rank_missing_tile(&scan)));
    if (own)
        kept[rank_exclusive(&scan)] = values[place(tile)];
}
"""

LOCAL_SIZE = 64


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
    """Compact an array, and compare with NumPy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--platform", help="part of the platform's name and version")
    context = make_context(parser.parse_args().platform)
    queue = cl.CommandQueue(context)
    rank = portbar.DeviceScan("rank", np.uint32, "+", local_size=LOCAL_SIZE)
    program = portbar.Program(context, SOURCE, scans=(rank,))

    values = np.random.default_rng(1).integers(-100, 100, 100_003, dtype=np.int32)
    x = cl.array.to_device(queue, values)
    kept = cl.array.zeros(queue, values.size, np.int32)
    size = -(-values.size // LOCAL_SIZE) * LOCAL_SIZE
    program.kernel("positives")(queue, (size,), (LOCAL_SIZE,), x, kept, np.uint32(values.size)).wait()

    right = values[values > 0]
    np.testing.assert_array_equal(kept.get()[: right.size], right)
    print(f"{queue.device.name.strip()}: {right.size} of {values.size} numbers are positive, and lie in their order")


if __name__ == "__main__":
    main()
