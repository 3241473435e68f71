"""Breadth-first search: the vertices of a level are a frontier, whose swap is one barrier that also returns its size."""

from __future__ import annotations

from collections import deque

import numpy as np
import pyopencl as cl
import pyopencl.array

import portbar
from examples.applications.inputs import Graph, OnGraph

UNSEEN = np.uint32(0xFFFFFFFF)


class Search(OnGraph):
    """Depths of all crossings of a square grid of streets, of `size` on each side, from the first one."""

    name = "search"
    summary = "breadth-first search over a grid of streets: many levels with little work"
    family = "streets"
    sizes = (32, 256, 1024)
    source = """
#include "portbar/atomics.h"
#include "portbar/worklist.h"

/* Gives a vertex a depth, unless it has one; whether it had none. */
static bool reach(global uint *depths, uint vertex, uint depth)
{
    uint unseen = 0xffffffff;
    return portbar_atomic_load_explicit(depths + vertex, memory_order_relaxed, memory_scope_device) == unseen
        && portbar_atomic_compare_exchange_strong_explicit(depths + vertex, &unseen, depth, memory_order_relaxed,
                                                           memory_order_relaxed, memory_scope_device);
}

kernel void search(PORTBAR_GRID_PARAM, global portbar_worklist *list, global uint *items, global const uint *first,
                   global const uint *to, global uint *depths)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FRONTIER(frontier, &grid, list);
    uint depth = 0;
    do {
        ++depth;
        PORTBAR_FOR(i, &grid, portbar_frontier_size(&frontier)) {
            const uint vertex = items[portbar_frontier_at(&frontier, i)];
            for (uint edge = first[vertex]; edge < first[vertex + 1]; ++edge)
                if (reach(depths, to[edge], depth))
                    portbar_frontier_push(&frontier, items, to[edge]);
        }
    } while (portbar_device_frontier_swap(&grid, &frontier));
}

kernel void level(global const uint *now, global uint *next, global uint *count, global const uint *first,
                  global const uint *to, global uint *depths, uint n, uint depth)
{
    const uint i = get_global_id(0);
    if (i >= n)
        return;
    for (uint edge = first[now[i]]; edge < first[now[i] + 1]; ++edge)
        if (reach(depths, to[edge], depth))
            next[portbar_atomic_fetch_add_explicit(count, 1u, memory_order_relaxed, memory_scope_device)] = to[edge];
}
"""

    def __init__(self, queue: cl.CommandQueue, size: int, graph: Graph | None = None) -> None:
        super().__init__(queue, size, graph)
        self.root = 0 if graph is None else int(np.diff(self.first).argmax())
        self.depths, self.count = self.put(self._start()), self.put(np.zeros(1, np.uint32))
        self.frontier = portbar.Frontier(queue, self.n)
        self.now, self.next = (self.put(np.zeros(self.n, np.uint32)) for _ in range(2))

    def _start(self) -> np.ndarray:
        start = np.full(self.n, UNSEEN)
        start[self.root] = 0
        return start

    def in_one_kernel(self) -> cl.array.Array:
        """One launch."""
        self.depths.set(self._start())
        self.frontier.set([self.root])
        self.grid("search", *self.frontier.args, *self.graph, self.depths, items=self.n)
        return self.depths

    def by_relaunching(self) -> cl.array.Array:
        """A launch for each level, and a size that the host reads after it."""
        self.depths.set(self._start())
        self.now[:1].fill(self.root)
        depth, size = 0, 1
        while size:
            depth += 1
            self.count.fill(0)
            lists = self.now, self.next, self.count
            self.launch("level", size, *lists, *self.graph, self.depths, np.uint32(size), np.uint32(depth))
            self.now, self.next, size = self.next, self.now, int(self.count.get()[0])
        self.steps = depth
        return self.depths

    def expected(self) -> np.ndarray:
        """By a queue."""
        depths = self._start()
        waiting = deque([self.root])
        while waiting:
            vertex = waiting.popleft()
            for other in self.to[self.first[vertex] : self.first[vertex + 1]]:
                if depths[other] == UNSEEN:
                    depths[other] = depths[vertex] + 1
                    waiting.append(int(other))
        return depths
