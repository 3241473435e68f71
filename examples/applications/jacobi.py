"""Jacobi's method for Poisson's equation on a plane: equal steps in floating point, with a barrier between them."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pyopencl.array

from examples.applications.common import Application

STEPS = 100


class Jacobi(Application):
    """A hundred sweeps over a plane of `size` points on each side, whose edge keeps its values."""

    name = "jacobi"
    summary = "Jacobi's method on a plane: many equal steps"
    sizes = (64, 256, 1024)
    steps = STEPS
    source = """
#include "portbar/device_barrier.h"

/* The new value of a point, from its neighbours and the source. */
static float relaxed(global const float *values, global const float *sources, uint x, uint y, uint n)
{
    global const float *here = values + y * n + x;
    if (x == 0 || y == 0 || x == n - 1 || y == n - 1)
        return here[0];
    return 0.25f * (here[-1] + here[1] + here[-(int)n] + here[n] + sources[y * n + x]);
}

kernel void jacobi(PORTBAR_GRID_PARAM, global float *a, global float *b, global const float *sources, uint n, uint steps)
{
    PORTBAR_ENTER(grid);
    for (uint step = 0; step < steps; ++step) {
        PORTBAR_FOR_2D(x, y, &grid, n, n)
            b[y * n + x] = relaxed(a, sources, x, y, n);
        if (!portbar_device_barrier(&grid))
            return;
        global float *t = a; a = b; b = t;
    }
}

kernel void sweep(global const float *a, global float *b, global const float *sources, uint n)
{
    const uint x = get_global_id(0), y = get_global_id(1);
    b[y * n + x] = relaxed(a, sources, x, y, n);
}
"""

    def __init__(self, queue: cl.CommandQueue, size: int) -> None:
        super().__init__(queue, size)
        draws = np.random.default_rng(6)
        self.start, self.asked = (draws.random((size, size), np.float32) for _ in range(2))
        self.a, self.b, self.wanted = self.put(self.start), self.put(self.start), self.put(self.asked)

    def in_one_kernel(self) -> cl.array.Array:
        """One launch; an even number of steps leaves the result in the first array."""
        self.a.set(self.start)
        args = self.a, self.b, self.wanted, np.uint32(self.size), np.uint32(STEPS)
        self.grid("jacobi", *args, items=self.size**2)
        return self.a

    def by_relaunching(self) -> cl.array.Array:
        """A launch for each step."""
        self.a.set(self.start)
        here, there, sweep = self.a, self.b, self.program.kernel("sweep")
        for _ in range(STEPS):
            shape = (self.size, self.size), (min(self.size, 256), 1)
            last = sweep(self.queue, *shape, here, there, self.wanted, np.uint32(self.size))
            here, there = there, here
        last.wait()
        return self.a

    def expected(self) -> np.ndarray:
        """The same in NumPy, in double precision."""
        values: np.ndarray = self.start.astype(np.float64)
        for _ in range(STEPS):
            across, down = values[1:-1, :-2] + values[1:-1, 2:], values[:-2, 1:-1] + values[2:, 1:-1]
            values = values.copy()
            values[1:-1, 1:-1] = (across + down + self.asked[1:-1, 1:-1]) / 4
        return values

    def check(self, found: cl.array.Array) -> None:
        """Within what single precision keeps."""
        np.testing.assert_allclose(found.get(), self.answer, rtol=1e-5)
