"""Bitonic sort, by Batcher (AFIPS 1968): each step compares pairs at one distance, and needs all of the step before."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pyopencl.array

from examples.applications.common import SCALES, Application


class Bitonic(Application):
    """2**`size` keys in ascending order."""

    name = "bitonic"
    summary = "bitonic sort: many equal steps that move data far"
    sizes = (10, 15, 20)
    allowed = SCALES
    source = """
#include "portbar/device_barrier.h"

/* Puts pair i of those at a distance in order, ascending or descending by the run that it lies in. */
static void exchange(global uint *keys, uint i, uint run, uint distance)
{
    const uint low = 2 * i - (i & (distance - 1)), high = low + distance;
    const uint a = keys[low], b = keys[high];
    const bool ascending = (low & run) == 0;
    keys[low] = ascending ? min(a, b) : max(a, b);
    keys[high] = ascending ? max(a, b) : min(a, b);
}

kernel void bitonic(PORTBAR_GRID_PARAM, global uint *keys, uint n)
{
    PORTBAR_ENTER(grid);
    for (uint run = 2; run <= n; run *= 2)
        for (uint distance = run / 2; distance != 0; distance /= 2) {
            PORTBAR_FOR(i, &grid, n / 2)
                exchange(keys, i, run, distance);
            if (!portbar_device_barrier(&grid))
                return;
        }
}

kernel void one_step(global uint *keys, uint n, uint run, uint distance)
{
    if (get_global_id(0) < n / 2)
        exchange(keys, get_global_id(0), run, distance);
}
"""

    def __init__(self, queue: cl.CommandQueue, size: int) -> None:
        super().__init__(queue, size)
        self.n, self.steps = 1 << size, size * (size + 1) // 2
        self.start = np.random.default_rng(7).integers(0, 1 << 32, self.n, np.uint32)
        self.keys = self.put(self.start)

    def in_one_kernel(self) -> cl.array.Array:
        """One launch."""
        self.keys.set(self.start)
        self.grid("bitonic", self.keys, np.uint32(self.n), items=self.n // 2)
        return self.keys

    def by_relaunching(self) -> cl.array.Array:
        """A launch for each step."""
        self.keys.set(self.start)
        for run, distance in ((1 << i, 1 << j) for i in range(1, self.size + 1) for j in reversed(range(i))):
            args = np.uint32(self.n), np.uint32(run), np.uint32(distance)
            last = self.launch("one_step", self.n // 2, self.keys, *args)
        last.wait()
        return self.keys

    def expected(self) -> np.ndarray:
        """By NumPy."""
        return np.sort(self.start)
