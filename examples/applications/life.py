"""Conway's Game of Life: the same little work at each point of a plane, in every step."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pyopencl.array

from examples.applications.common import Application

STEPS = 100


class Life(Application):
    """A hundred generations on a plane of `size` cells on each side, dead outside."""

    name = "life"
    summary = "Game of Life: many equal steps"
    sizes = (64, 256, 1024)
    #: Whole work-groups a row, for the launches.
    allowed = range(64, 8193, 64)
    steps = STEPS
    source = """
#include "portbar/device_barrier.h"

static uchar next(global const uchar *cells, uint x, uint y, uint n)
{
    if (x == 0 || y == 0 || x == n - 1 || y == n - 1)
        return 0;
    global const uchar *above = cells + (y - 1) * n + x, *here = above + n, *below = here + n;
    const uint alive = above[-1] + above[0] + above[1] + here[-1] + here[1] + below[-1] + below[0] + below[1];
    return alive == 3 || (alive == 2 && here[0] != 0);
}

kernel void life(PORTBAR_GRID_PARAM, global uchar *a, global uchar *b, uint n, uint steps)
{
    PORTBAR_ENTER(grid);
    for (uint step = 0; step < steps; ++step) {
        PORTBAR_FOR_2D(x, y, &grid, n, n)
            b[y * n + x] = next(a, x, y, n);
        if (!portbar_device_barrier(&grid))
            return;
        global uchar *t = a; a = b; b = t;
    }
}

kernel void generation(global const uchar *a, global uchar *b, uint n)
{
    const uint x = get_global_id(0), y = get_global_id(1);
    b[y * n + x] = next(a, x, y, n);
}
"""

    def __init__(self, queue: cl.CommandQueue, size: int) -> None:
        super().__init__(queue, size)
        self.start = np.zeros((size, size), np.uint8)
        self.start[1:-1, 1:-1] = np.random.default_rng(4).integers(0, 2, (size - 2, size - 2))
        self.a, self.b = self.put(self.start), self.put(self.start)

    def in_one_kernel(self) -> cl.array.Array:
        """One launch; an even number of steps leaves the result in the first array."""
        self.a.set(self.start)
        self.grid("life", self.a, self.b, np.uint32(self.size), np.uint32(STEPS), items=self.size**2)
        return self.a

    def by_relaunching(self) -> cl.array.Array:
        """A launch for each step."""
        self.a.set(self.start)
        here, there, step = self.a, self.b, self.program.kernel("generation")
        for _ in range(STEPS):
            last = step(self.queue, (self.size, self.size), (self.local, 1), here, there, np.uint32(self.size))
            here, there = there, here
        last.wait()
        return self.a

    def expected(self) -> np.ndarray:
        """The same in NumPy."""
        cells = self.start
        for _ in range(STEPS):
            around = sum(
                np.roll(cells, (dy, dx), (0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if (dx, dy) != (0, 0)
            )
            following = ((around == 3) | ((around == 2) & (cells == 1))).astype(np.uint8)
            cells = np.zeros_like(cells)
            cells[1:-1, 1:-1] = following[1:-1, 1:-1]
        return cells
