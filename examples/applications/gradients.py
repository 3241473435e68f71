"""Conjugate gradients: two sums over all work-items in each step, each at the price of about one barrier."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pyopencl.array

from examples.applications.common import Application

STEPS = 50
#: Work-groups whose partial sums the launches keep.
PARTS = 64


class ConjugateGradients(Application):
    """Fifty steps on Poisson's equation over a square of `size` points on each side, by the 5-point stencil."""

    name = "gradients"
    summary = "conjugate gradients on a 5-point stencil: two reductions in each step"
    sizes = (16, 64, 256)
    #: The fewer unknowns, the sooner is nothing left to improve, and a step divides by it.
    allowed = range(8, 8193)
    steps = STEPS
    source = """
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"

/* The stencil at a point of `p`, zero outside of the square. */
static float applied(global const float *p, uint x, uint y, uint n)
{
    const uint i = y * n + x;
    return 4.0f * p[i] - (x > 0 ? p[i - 1] : 0.0f) - (x < n - 1 ? p[i + 1] : 0.0f) - (y > 0 ? p[i - n] : 0.0f)
         - (y < n - 1 ? p[i + n] : 0.0f);
}

kernel void solve(PORTBAR_GRID_PARAM, global float *x, global float *r, global float *p, global float *q, uint n, uint steps)
{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    float mine = 0.0f;
    PORTBAR_FOR(i, &grid, n * n)
        mine += r[i] * r[i];
    float rr = portbar_device_reduce_add(&grid, scratch, mine);
    for (uint step = 0; step < steps; ++step) {
        mine = 0.0f;
        PORTBAR_FOR_2D(column, row, &grid, n, n) {
            const uint i = row * n + column;
            q[i] = applied(p, column, row, n);
            mine += p[i] * q[i];
        }
        const float alpha = rr / portbar_device_reduce_add(&grid, scratch, mine);
        mine = 0.0f;
        PORTBAR_FOR(i, &grid, n * n) {
            x[i] += alpha * p[i];
            r[i] -= alpha * q[i];
            mine += r[i] * r[i];
        }
        const float before = rr;
        rr = portbar_device_reduce_add(&grid, scratch, mine);
        PORTBAR_FOR(i, &grid, n * n)
            p[i] = r[i] + rr / before * p[i];
        if (!portbar_device_barrier(&grid))
            return;
    }
}

/* The sum of the values of all work-items of a group goes to its part. */
static void keep(local float *shelf, global float *parts, float mine)
{
    const uint item = get_local_id(0);
    shelf[item] = mine;
    for (uint part = get_local_size(0) / 2; part > 0; part /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < part)
            shelf[item] += shelf[item + part];
    }
    if (item == 0)
        parts[get_group_id(0)] = shelf[0];
}

static float sum_of(global const float *parts)
{
    float sum = 0.0f;
    for (uint k = 0; k < PARTS; ++k)
        sum += parts[k];
    return sum;
}

#define ALL(i) for (uint i = get_global_id(0); i < n * n; i += get_global_size(0))

kernel void first(global const float *r, global float *parts, uint n, local float *shelf)
{
    float mine = 0.0f;
    ALL(i)
        mine += r[i] * r[i];
    keep(shelf, parts, mine);
}

kernel void multiply(global const float *p, global float *q, global float *parts, uint n, local float *shelf)
{
    float mine = 0.0f;
    ALL(i) {
        q[i] = applied(p, i % n, i / n, n);
        mine += p[i] * q[i];
    }
    keep(shelf, parts, mine);
}

kernel void descend(global float *x, global float *r, global const float *p, global const float *q, global const float *rr,
                    global const float *pq, global float *parts, uint n, local float *shelf)
{
    const float alpha = sum_of(rr) / sum_of(pq);
    float mine = 0.0f;
    ALL(i) {
        x[i] += alpha * p[i];
        r[i] -= alpha * q[i];
        mine += r[i] * r[i];
    }
    keep(shelf, parts, mine);
}

kernel void turn(global const float *r, global float *p, global const float *before, global const float *rr, uint n)
{
    const float beta = sum_of(rr) / sum_of(before);
    ALL(i)
        p[i] = r[i] + beta * p[i];
}
""".replace("PARTS", str(PARTS))

    def __init__(self, queue: cl.CommandQueue, size: int) -> None:
        super().__init__(queue, size)
        self.right = np.random.default_rng(3).random((size, size), dtype=np.float32)
        self.x, self.r, self.p, self.q = (self.put(self.right) for _ in range(4))
        self.before, self.rr, self.pq = (self.put(np.zeros(PARTS, np.float32)) for _ in range(3))

    def _begin(self) -> None:
        self.x.fill(0)
        for array in (self.r, self.p):
            array.set(self.right)

    def in_one_kernel(self) -> cl.array.Array:
        """One launch."""
        self._begin()
        arrays = self.x, self.r, self.p, self.q
        self.grid("solve", *arrays, np.uint32(self.size), np.uint32(STEPS), items=self.size**2)
        return self.x

    def by_relaunching(self) -> cl.array.Array:
        """Three launches for each step, in which each work-item adds up what the groups before it left."""
        self._begin()
        x, r, p, q, n = self.x, self.r, self.p, self.q, np.uint32(self.size)
        before, rr, pq, shelf = self.before, self.rr, self.pq, cl.LocalMemory(4 * self.local)
        threads = PARTS * self.local
        self.launch("first", threads, r, rr, n, shelf)
        for _ in range(STEPS):
            self.launch("multiply", threads, p, q, pq, n, shelf)
            self.launch("descend", threads, x, r, p, q, rr, pq, before, n, shelf)
            before, rr = rr, before
            last = self.launch("turn", threads, r, p, before, rr, n)
        last.wait()
        return self.x

    def expected(self) -> np.ndarray:
        """The same in NumPy, in double precision."""
        right = self.right.astype(np.float64)
        x, r, p = np.zeros_like(right), right.copy(), right.copy()
        rr = np.vdot(r, r)
        for _ in range(STEPS):
            around = np.pad(p, 1)
            q = 4 * p - around[1:-1, :-2] - around[1:-1, 2:] - around[:-2, 1:-1] - around[2:, 1:-1]
            alpha = rr / np.vdot(p, q)
            x, r = x + alpha * p, r - alpha * q
            before, rr = rr, np.vdot(r, r)
            p = r + rr / before * p
        return x

    def check(self, found: cl.array.Array) -> None:
        """Within what single precision keeps over the steps."""
        wanted = self.expected()
        np.testing.assert_allclose(found.get(), wanted, atol=1e-3 * np.abs(wanted).max())
