"""Breadth-first search: levels meet at a barrier that also tells whether any vertex is new."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from examples.applications.common import Application, streets

if TYPE_CHECKING:
    import pyopencl as cl
    import pyopencl.array

UNSEEN = np.uint32(0xFFFFFFFF)


class Search(Application):
    """Depths of all crossings of a square grid of streets, of `size` on each side, from the first one."""

    name = "search"
    summary = "breadth-first search over a grid of streets: many levels with little work"
    sizes = (32, 256, 1024)
    source = """
#include "portbar/atomics.h"
#include "portbar/device_barrier.h"

/* Gives the unseen neighbours of a vertex of the level `depth` the next depth; whether there were any. */
static bool expand(global const uint *first, global const uint *to, global uint *depths, uint vertex, uint depth)
{
    bool found = false;
    if (portbar_atomic_load_explicit(&depths[vertex], memory_order_relaxed, memory_scope_device) != depth)
        return false;
    for (uint edge = first[vertex]; edge < first[vertex + 1]; ++edge) {
        global uint *other = &depths[to[edge]];
        if (portbar_atomic_load_explicit(other, memory_order_relaxed, memory_scope_device) == 0xffffffffu) {
            portbar_atomic_store_explicit(other, depth + 1, memory_order_relaxed, memory_scope_device);
            found = true;
        }
    }
    return found;
}

kernel void search(PORTBAR_GRID_PARAM, global const uint *first, global const uint *to, global uint *depths, uint n)
{
    PORTBAR_ENTER(grid);
    uint depth = 0;
    bool found;
    do {
        found = false;
        PORTBAR_FOR(vertex, &grid, n)
            found |= expand(first, to, depths, vertex, depth);
        ++depth;
    } while (portbar_device_barrier_any(&grid, found));     /* false when the spin limit was reached, too */
}

kernel void level(global const uint *first, global const uint *to, global uint *depths, uint n, uint depth, global uint *found)
{
    const uint vertex = get_global_id(0);
    if (vertex < n && expand(first, to, depths, vertex, depth))
        found[0] = 1;
}
"""

    def __init__(self, queue: cl.CommandQueue, size: int) -> None:
        super().__init__(queue, size)
        self.first, self.to = streets(size)
        self.n = len(self.first) - 1
        self.graph = self.put(self.first), self.put(self.to)
        self.depths, self.found = self.put(self._start()), self.put(np.zeros(1, np.uint32))

    def _start(self) -> np.ndarray:
        start = np.full(self.n, UNSEEN)
        start[0] = 0
        return start

    def in_one_kernel(self) -> cl.array.Array:
        """One launch."""
        self.depths.set(self._start())
        self.grid("search", *self.graph, self.depths, np.uint32(self.n), items=self.n)
        return self.depths

    def by_relaunching(self) -> cl.array.Array:
        """A launch for each level, and a word that the host reads after it."""
        self.depths.set(self._start())
        depth = 0
        while depth == 0 or self.found.get()[0]:
            self.found.fill(0)
            self.launch("level", self.n, *self.graph, self.depths, np.uint32(self.n), np.uint32(depth), self.found)
            depth += 1
        self.steps = depth
        return self.depths

    def expected(self) -> np.ndarray:
        """By a queue."""
        depths = self._start()
        waiting = deque([0])
        while waiting:
            vertex = waiting.popleft()
            for other in self.to[self.first[vertex] : self.first[vertex + 1]]:
                if depths[other] == UNSEEN:
                    depths[other] = depths[vertex] + 1
                    waiting.append(int(other))
        return depths
