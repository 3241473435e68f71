"""PageRank by pulling: vertices with very many edges make fixed shares uneven, and groups claim chunks of vertices."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pyopencl.array

from examples.applications.common import SCALES
from examples.applications.inputs import Graph, OnGraph, reversed_edges

STEPS, DAMPING = 20, 0.85


class PageRank(OnGraph):
    """Twenty steps of PageRank on an R-MAT graph of 2**`size` vertices."""

    name = "pagerank"
    summary = "PageRank of an R-MAT graph: uneven work in each step"
    family = "rmat"
    sizes = (8, 12, 16)
    allowed = SCALES
    steps = STEPS
    #: So that loads of several edges are under way together: NVIDIA's assembler takes fewer by itself in long kernels.
    registers = 64
    source = """
#include "portbar/device_barrier.h"

/* The rank that a vertex receives from those that point to it; `parts` are their ranks over the number of their edges. */
static void pull(global const uint *first, global const uint *from, global const float *out, global const float *parts,
                 global float *next, uint vertex, uint n)
{
    float sum = 0.0f;
    for (uint edge = first[vertex]; edge < first[vertex + 1]; ++edge)
        sum += parts[from[edge]];
    next[vertex] = (0.15f / n + 0.85f * sum) * out[vertex];
}

kernel void pagerank(PORTBAR_GRID_PARAM, global const uint *first, global const uint *from, global const float *out,
                     global float *parts, global float *next, uint n, uint steps)
{
    PORTBAR_ENTER(grid);
    for (uint step = 0; step < steps; ++step) {
        PORTBAR_FOR_DYNAMIC(vertex, &grid, n, 64)
            pull(first, from, out, parts, next, vertex, n);
        if (!portbar_device_barrier(&grid))
            return;
        global float *other = parts; parts = next; next = other;
    }
}

kernel void one_step(global const uint *first, global const uint *from, global const float *out, global const float *parts,
                 global float *next, uint n)
{
    if (get_global_id(0) < n)
        pull(first, from, out, parts, next, get_global_id(0), n);
}
"""

    def __init__(self, queue: cl.CommandQueue, size: int, graph: Graph | None = None) -> None:
        super().__init__(queue, size, None if graph is None else reversed_edges(*graph))
        #: Where the edges to a vertex come from.
        self.origins = self.to
        edges = np.bincount(self.origins, minlength=self.n)
        #: One over the number of edges that leave a vertex.
        self.out = (1 / np.maximum(edges, 1)).astype(np.float32)
        self.start = self.out / np.float32(self.n)
        self.links = *self.graph, self.put(self.out)
        self.parts, self.next = self.put(self.start), self.put(self.start)

    def in_one_kernel(self) -> cl.array.Array:
        """One launch; an even number of steps leaves the result in the first array."""
        self.parts.set(self.start)
        self.grid("pagerank", *self.links, self.parts, self.next, np.uint32(self.n), np.uint32(STEPS), items=self.n)
        return self.parts

    def by_relaunching(self) -> cl.array.Array:
        """A launch for each step."""
        self.parts.set(self.start)
        here, there = self.parts, self.next
        for _ in range(STEPS):
            last = self.launch("one_step", self.n, *self.links, here, there, np.uint32(self.n))
            here, there = there, here
        last.wait()
        return self.parts

    def expected(self) -> np.ndarray:
        """The same in NumPy, in double precision."""
        parts: np.ndarray = self.start.astype(np.float64)
        targets = np.repeat(np.arange(self.n), np.diff(self.first))
        for _ in range(STEPS):
            sums = np.bincount(targets, weights=parts[self.origins], minlength=self.n)
            parts = ((1 - DAMPING) / self.n + DAMPING * sums) * self.out
        return parts

    def check(self, found: cl.array.Array) -> None:
        """Within what single precision keeps."""
        np.testing.assert_allclose(found.get(), self.answer, rtol=1e-3)
