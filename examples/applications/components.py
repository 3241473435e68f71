"""Connected components: each vertex takes the smallest number among its neighbours' until none changes."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pyopencl.array

from examples.applications.common import SCALES
from examples.applications.inputs import Graph, OnGraph


class Components(OnGraph):
    """Components of an R-MAT graph of 2**`size` vertices, its edges taken both ways."""

    name = "components"
    summary = "connected components of an R-MAT graph: few steps, uneven work"
    family = "rmat"
    sizes = (8, 12, 16)
    allowed = SCALES
    source = """
#include "portbar/atomics.h"
#include "portbar/device_barrier.h"

#define LOAD(p) portbar_atomic_load_explicit(p, memory_order_relaxed, memory_scope_device)

/* Gives a vertex and its neighbours the smallest label among them, and that of its label; whether any changed. */
static bool spread(global const uint *first, global const uint *to, global uint *labels, uint vertex)
{
    uint least = LOAD(&labels[vertex]);
    least = min(least, LOAD(&labels[least]));
    bool changed = false;
    for (uint edge = first[vertex]; edge < first[vertex + 1]; ++edge)
        least = min(least, LOAD(&labels[to[edge]]));
    for (uint edge = first[vertex]; edge < first[vertex + 1]; ++edge)
        if (LOAD(&labels[to[edge]]) > least) {
            portbar_atomic_fetch_min_explicit(&labels[to[edge]], least, memory_order_relaxed, memory_scope_device);
            changed = true;
        }
    if (LOAD(&labels[vertex]) > least) {
        portbar_atomic_fetch_min_explicit(&labels[vertex], least, memory_order_relaxed, memory_scope_device);
        changed = true;
    }
    return changed;
}

kernel void components(PORTBAR_GRID_PARAM, global const uint *first, global const uint *to, global uint *labels, uint n)
{
    PORTBAR_ENTER(grid);
    bool changed;
    do {
        changed = false;
        PORTBAR_FOR_DYNAMIC(vertex, &grid, n, 32)
            changed |= spread(first, to, labels, vertex);
    } while (portbar_device_barrier_any(&grid, changed));
}

kernel void one_step(global const uint *first, global const uint *to, global uint *labels, uint n, global uint *changed)
{
    const uint vertex = get_global_id(0);
    if (vertex < n && spread(first, to, labels, vertex))
        changed[0] = 1;
}
"""

    def __init__(self, queue: cl.CommandQueue, size: int, graph: Graph | None = None) -> None:
        super().__init__(queue, size, graph)
        self.own = np.arange(self.n, dtype=np.uint32)
        self.labels, self.changed = self.put(self.own), self.put(np.zeros(1, np.uint32))

    def in_one_kernel(self) -> cl.array.Array:
        """One launch."""
        self.labels.set(self.own)
        self.grid("components", *self.graph, self.labels, np.uint32(self.n), items=self.n)
        return self.labels

    def by_relaunching(self) -> cl.array.Array:
        """A launch for each step, and a word that the host reads after it."""
        self.labels.set(self.own)
        self.steps = 0
        while self.steps == 0 or self.changed.get()[0]:
            self.changed.fill(0)
            self.launch("one_step", self.n, *self.graph, self.labels, np.uint32(self.n), self.changed)
            self.steps += 1
        return self.labels

    def expected(self) -> np.ndarray:
        """The same steps in NumPy."""
        labels, sources = self.own.copy(), np.repeat(self.own, np.diff(self.first))
        while True:
            least = labels.copy()
            np.minimum.at(least, sources, labels[self.to])
            np.minimum.at(least, self.to, labels[sources])
            if np.array_equal(least, labels):
                return labels
            labels = least[least]
