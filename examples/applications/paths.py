"""Shortest paths: Bellman and Ford's steps over a frontier of the vertices whose distance has fallen."""

from __future__ import annotations

import heapq

import numpy as np
import pyopencl as cl
import pyopencl.array

import portbar
from examples.applications.inputs import Graph, OnGraph

FAR = np.uint32(0xFFFFFFFF)


class Paths(OnGraph):
    """Distances from one crossing of a grid of streets, of `size` on each side, whose lengths are drawn from 1 to 15."""

    name = "paths"
    summary = "shortest paths over a grid of streets: many steps, vertices come up again"
    family = "streets"
    sizes = (32, 256, 1024)
    source = """
#include "portbar/atomics.h"
#include "portbar/worklist.h"

#define LOAD(p) portbar_atomic_load_explicit(p, memory_order_relaxed, memory_scope_device)

/* Lowers the distance of a vertex; whether the caller is the first in this step who does. */
static bool closer(global uint *distances, global uint *marks, uint vertex, uint distance, uint step)
{
    return LOAD(&distances[vertex]) > distance
        && portbar_atomic_fetch_min_explicit(&distances[vertex], distance, memory_order_relaxed, memory_scope_device)
               > distance
        && portbar_atomic_exchange_explicit(&marks[vertex], step, memory_order_relaxed, memory_scope_device) != step;
}

kernel void paths(PORTBAR_GRID_PARAM, global portbar_worklist *list, global uint *items, global const uint *first,
                  global const uint *to, global const uint *lengths, global uint *distances, global uint *marks)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FRONTIER(frontier, &grid, list);
    uint step = 0;
    do {
        ++step;
        PORTBAR_FOR(i, &grid, portbar_frontier_size(&frontier)) {
            const uint vertex = items[portbar_frontier_at(&frontier, i)], distance = LOAD(&distances[vertex]);
            for (uint edge = first[vertex]; edge < first[vertex + 1]; ++edge)
                if (closer(distances, marks, to[edge], distance + lengths[edge], step))
                    portbar_frontier_push(&frontier, items, to[edge]);
        }
    } while (portbar_device_frontier_swap(&grid, &frontier));
}

kernel void one_step(global const uint *now, global uint *next, global uint *count, global const uint *first,
                     global const uint *to, global const uint *lengths, global uint *distances, global uint *marks,
                     uint n, uint step)
{
    const uint i = get_global_id(0);
    if (i >= n)
        return;
    const uint vertex = now[i], distance = LOAD(&distances[vertex]);
    for (uint edge = first[vertex]; edge < first[vertex + 1]; ++edge)
        if (closer(distances, marks, to[edge], distance + lengths[edge], step))
            next[portbar_atomic_fetch_add_explicit(count, 1u, memory_order_relaxed, memory_scope_device)] = to[edge];
}
"""

    def __init__(self, queue: cl.CommandQueue, size: int, graph: Graph | None = None) -> None:
        super().__init__(queue, size, graph)
        self.root = 0 if graph is None else int(np.diff(self.first).argmax())
        self.lengths = np.random.default_rng(5).integers(1, 16, len(self.to), np.uint32)
        self.roads = *self.graph, self.put(self.lengths)
        self.distances, self.marks = self.put(self._start()), self.put(np.zeros(self.n, np.uint32))
        self.frontier = portbar.Frontier(queue, self.n)
        self.now, self.next = (self.put(np.zeros(self.n, np.uint32)) for _ in range(2))
        self.count = self.put(np.zeros(1, np.uint32))

    def _start(self) -> np.ndarray:
        start = np.full(self.n, FAR)
        start[self.root] = 0
        return start

    def in_one_kernel(self) -> cl.array.Array:
        """One launch."""
        self.distances.set(self._start())
        self.marks.fill(0)
        self.frontier.set([self.root])
        self.grid("paths", *self.frontier.args, *self.roads, self.distances, self.marks, items=self.n)
        return self.distances

    def by_relaunching(self) -> cl.array.Array:
        """A launch for each step, and a size that the host reads after it."""
        self.distances.set(self._start())
        self.marks.fill(0)
        self.now[:1].fill(self.root)
        step, size = 0, 1
        while size:
            step += 1
            self.count.fill(0)
            args = self.now, self.next, self.count, *self.roads, self.distances, self.marks
            self.launch("one_step", size, *args, np.uint32(size), np.uint32(step))
            self.now, self.next, size = self.next, self.now, int(self.count.get()[0])
        self.steps = step
        return self.distances

    def expected(self) -> np.ndarray:
        """By Dijkstra's algorithm."""
        first, to, lengths = self.first.tolist(), self.to.tolist(), self.lengths.tolist()
        distances = self._start().tolist()
        waiting = [(0, self.root)]
        while waiting:
            distance, vertex = heapq.heappop(waiting)
            if distance > distances[vertex]:
                continue
            for edge in range(first[vertex], first[vertex + 1]):
                if distance + lengths[edge] < distances[to[edge]]:
                    distances[to[edge]] = distance + lengths[edge]
                    heapq.heappush(waiting, (distances[to[edge]], to[edge]))
        return np.array(distances, np.uint32)
