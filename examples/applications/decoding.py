"""A chain of small matrix-vector products, as language models have when they decode: each waits for all of the one before."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pyopencl.array

import portbar
from examples.applications.common import Application

STAGES = 100
#: Rows that a work-group sums up together.
ROWS = 4


class Decoding(Application):
    """A hundred products with matrices of their own, of `size` rows and columns, each followed by a bounded function."""

    name = "decoding"
    summary = (
        "a chain of small matrix-vector products: a barrier per product, split around the fetch of the next matrix"
    )
    sizes = (64, 256, 512)
    #: Powers of two, since work-items add in pairs.
    allowed = (8, 16, 32, 64, 128, 256, 512, 1024)
    steps = STAGES
    source = """
#include "portbar/device_barrier.h"

/* The sums of work-items meet on the shelf: ROWS elements of the product. */
static void finish(float4 sums, global float *y, local float *shelf)
{
    const uint item = get_local_id(0);
    vstore4(sums, item, shelf);
    for (uint part = LOCAL / 2; part > 0; part /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < part)
            vstore4(vload4(item, shelf) + vload4(item + part, shelf), item, shelf);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint k = item; k < ROWS; k += LOCAL)
        y[k] = shelf[k] / (1.0f + fabs(shelf[k]));
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* A column of ROWS rows. */
static float4 column(global const float *w)
{
    return (float4)(w[0], w[SIZE], w[2 * SIZE], w[3 * SIZE]);
}

/* The rows of a tile. */
static void multiply(global const float *w, global const float *x, global float *y, local float *shelf)
{
    for (uint row = 0; row < TILE; row += ROWS) {
        float4 sums = (float4)(0.0f);
        for (uint k = get_local_id(0); k < SIZE; k += LOCAL)
            sums += x[k] * column(w + row * SIZE + k);
        finish(sums, y + row, shelf);
    }
}

kernel void by_barriers(PORTBAR_GRID_PARAM, global const float *w, global float *x)
{
    local float shelf[ROWS * LOCAL];
    PORTBAR_ENTER(grid);
    for (uint stage = 0; stage < STAGES; ++stage) {
        for (uint tile = portbar_group_id(&grid); tile < TILES; tile += portbar_num_groups(&grid))
            multiply(w + (stage * TILES + tile) * TILE * SIZE, x + stage * SIZE, x + (stage + 1) * SIZE + tile * TILE, shelf);
        if (!portbar_device_barrier(&grid))
            return;
    }
}

#if KEEPS
/* A tile of ROWS rows for each work-group: its matrix waits for no product. */
kernel void by_halves(PORTBAR_GRID_PARAM, global const float *w, global float *x)
{
    local float shelf[ROWS * LOCAL];
    PORTBAR_ENTER(grid);
    const uint tile = portbar_group_id(&grid), item = get_local_id(0);
    float4 kept[SIZE / LOCAL];
    for (uint n = 0; n < SIZE / LOCAL; ++n)
        kept[n] = column(w + tile * TILE * SIZE + item + n * LOCAL);
    for (uint stage = 0; stage < STAGES; ++stage) {
        float4 sums = (float4)(0.0f);
        for (uint n = 0; n < SIZE / LOCAL; ++n)
            sums += x[stage * SIZE + item + n * LOCAL] * kept[n];
        finish(sums, x + (stage + 1) * SIZE + tile * TILE, shelf);
        const portbar_device_token token = portbar_device_barrier_arrive(&grid);
        const uint next = min(stage + 1u, STAGES - 1u) * TILES + tile;
        for (uint n = 0; n < SIZE / LOCAL; ++n)
            kept[n] = column(w + next * TILE * SIZE + item + n * LOCAL);
        if (!portbar_device_barrier_wait(&grid, token))
            return;
    }
}
#endif

kernel void one_product(global const float *w, global float *x, uint stage)
{
    local float shelf[ROWS * LOCAL];
    const uint tile = get_group_id(0);
    multiply(w + (stage * TILES + tile) * TILE * SIZE, x + stage * SIZE, x + (stage + 1) * SIZE + tile * TILE, shelf);
}
"""

    def __init__(self, queue: cl.CommandQueue, size: int) -> None:
        on_cpu = bool(queue.device.type & cl.device_type.CPU)
        self.width = 1 if on_cpu else size // 2
        shares = queue.device.max_compute_units if on_cpu else size
        self.tile = next(tile for tile in range(ROWS, size + 1, ROWS) if size % tile == 0 and tile * shares >= size)
        self.tiles = size // self.tile
        keeps = not on_cpu and self.tile == ROWS
        numbers = {"SIZE": size, "TILES": self.tiles, "TILE": self.tile, "LOCAL": self.width, "KEEPS": int(keeps)}
        numbers |= {"STAGES": STAGES, "ROWS": ROWS}
        defined = "".join(f"#define {name} {value}u\n" for name, value in numbers.items())
        self.queue, self.size = queue, size
        self.program = portbar.Program(queue.context, defined + self.source)
        # A work-item keeps its part of a matrix in registers where each work-group has a tile of its own.
        self.kernel = self.program.kernel("by_halves" if keeps else "by_barriers")
        if keeps and self.kernel.occupancy(queue, (self.width,)).groups < self.tiles:
            self.kernel = self.program.kernel("by_barriers")
        draws = np.random.default_rng(6)
        self.matrices = draws.normal(0, 2 / size**0.5, (STAGES, size, size)).astype(np.float32)
        self.start = draws.random(size, dtype=np.float32)
        self.w = self.put(self.matrices)
        self.x = self.put(np.zeros((STAGES + 1, size), np.float32))
        self.x[0].set(self.start)

    def in_one_kernel(self) -> cl.array.Array:
        """One launch; between the halves of each barrier work-groups fetch their part of the next matrix."""
        self.kernel(self.queue, None, (self.width,), self.w, self.x, max_groups=self.tiles).wait()
        return self.x

    def by_barriers(self) -> cl.array.Array:
        """One launch, with a whole barrier after each product."""
        kernel = self.program.kernel("by_barriers")
        kernel(self.queue, None, (self.width,), self.w, self.x, max_groups=self.tiles).wait()
        return self.x

    def by_relaunching(self) -> cl.array.Array:
        """A launch for each product."""
        kernel = self.program.kernel("one_product")
        for stage in range(STAGES):
            last = kernel(self.queue, (self.tiles * self.width,), (self.width,), self.w, self.x, np.uint32(stage))
        last.wait()
        return self.x

    def _after(self, x: np.ndarray) -> np.ndarray:
        """Return the product of each stage with the vector given for it, in double precision."""
        y = np.einsum("srk,sk->sr", self.matrices, x.astype(np.float64))
        after: np.ndarray = y / (1 + np.abs(y))
        return after

    def expected(self) -> np.ndarray:
        """All vectors, by NumPy in double precision."""
        x = [self.start.astype(np.float64)]
        for matrix in self.matrices:
            y = matrix.astype(np.float64) @ x[-1]
            x.append(y / (1 + np.abs(y)))
        return np.stack(x)

    def check(self, found: cl.array.Array) -> None:
        """Within single precision, each product given the one before: the chain makes small differences large.

        The products are forgotten.
        """
        x = found.get()
        np.testing.assert_array_equal(x[0], self.start)
        np.testing.assert_allclose(x[1:], self._after(x[:-1]), atol=1e-5)
        found[1:].fill(0)
