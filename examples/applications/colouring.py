"""Graph colouring, by Jones and Plassmann (SIAM J. Sci. Comput. 14, 1993): a vertex waits for neighbours that drew more."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pyopencl.array

import portbar
from examples.applications.common import SCALES
from examples.applications.inputs import DRAW, Graph, OnGraph, drawn, sources, undirected

NONE = np.uint32(0xFFFFFFFF)


class Colouring(OnGraph):
    """Colours of an R-MAT graph of 2**`size` vertices, so that neighbours differ."""

    name = "colouring"
    summary = "colouring of an R-MAT graph: many rounds, less work in each"
    family = "rmat"
    prepared = staticmethod(undirected)
    sizes = (8, 12, 16)
    allowed = SCALES
    source = f"""
#include "portbar/atomics.h"
#include "portbar/worklist.h"

#define NONE {NONE:#x}u
#define LOAD(p) portbar_atomic_load_explicit(p, memory_order_relaxed, memory_scope_device)
{DRAW}
/* Gives a vertex the first colour that no neighbour has; whether it still waits for one that drew more. */
static bool waits(global const uint *first, global const uint *to, global uint *colours, uint vertex)
{{
    const uint own = draw(vertex, 0);
    for (uint edge = first[vertex]; edge < first[vertex + 1]; ++edge)
        if (draw(to[edge], 0) > own && LOAD(&colours[to[edge]]) == NONE)
            return true;
    for (uint least = 0;; least += 32) {{
        uint taken = 0;
        for (uint edge = first[vertex]; edge < first[vertex + 1]; ++edge) {{
            const uint colour = LOAD(&colours[to[edge]]) - least;
            taken |= colour < 32 ? 1u << colour : 0;
        }}
        if (taken != 0xffffffff) {{
            const uint colour = least + 31 - clz(~taken & (taken + 1));
            portbar_atomic_store_explicit(&colours[vertex], colour, memory_order_relaxed, memory_scope_device);
            return false;
        }}
    }}
}}

kernel void colouring(PORTBAR_GRID_PARAM, global portbar_worklist *list, global uint *items, global const uint *first,
                      global const uint *to, global uint *colours)
{{
    PORTBAR_ENTER(grid);
    PORTBAR_FRONTIER(frontier, &grid, list);
    do {{
        PORTBAR_FOR_DYNAMIC(i, &grid, portbar_frontier_size(&frontier), 32) {{
            const uint vertex = items[portbar_frontier_at(&frontier, i)];
            if (waits(first, to, colours, vertex))
                portbar_frontier_push(&frontier, items, vertex);
        }}
    }} while (portbar_device_frontier_swap(&grid, &frontier));
}}

kernel void one_round(global const uint *now, global uint *next, global uint *count, global const uint *first,
                      global const uint *to, global uint *colours, uint n)
{{
    const uint i = get_global_id(0);
    if (i < n && waits(first, to, colours, now[i]))
        next[portbar_atomic_fetch_add_explicit(count, 1u, memory_order_relaxed, memory_scope_device)] = now[i];
}}
"""

    def __init__(self, queue: cl.CommandQueue, size: int, graph: Graph | None = None) -> None:
        super().__init__(queue, size, graph)
        self.all = np.arange(self.n, dtype=np.uint32)
        self.colours, self.count = self.put(self.all), self.put(np.zeros(1, np.uint32))
        self.frontier = portbar.Frontier(queue, self.n)
        self.now, self.next = (self.put(self.all) for _ in range(2))

    def in_one_kernel(self) -> cl.array.Array:
        """One launch."""
        self.colours.fill(NONE)
        self.frontier.set(self.all)
        self.grid("colouring", *self.frontier.args, *self.graph, self.colours, items=self.n)
        return self.colours

    def by_relaunching(self) -> cl.array.Array:
        """A launch for each round, and a size that the host reads after it."""
        self.colours.fill(NONE)
        self.now.set(self.all)
        size, self.steps = self.n, 0
        while size:
            self.count.fill(0)
            args = self.now, self.next, self.count, *self.graph, self.colours
            self.launch("one_round", size, *args, np.uint32(size))
            self.now, self.next, size = self.next, self.now, int(self.count.get()[0])
            self.steps += 1
        return self.colours

    def expected(self) -> np.ndarray:
        """One vertex after another, from the one that drew most, which comes to the same."""
        colours = np.full(self.n, NONE)
        for vertex in np.argsort(drawn(self.n, 0))[::-1]:
            taken = set(colours[self.to[self.first[vertex] : self.first[vertex + 1]]].tolist())
            colours[vertex] = next(colour for colour in range(len(taken) + 1) if colour not in taken)
        return colours

    def check(self, found: cl.array.Array) -> None:
        """The host gives the same colours, and no neighbours share one."""
        super().check(found)
        colours = found.get()
        assert (colours != NONE).all(), "a vertex has no colour"
        assert (colours[sources(self.first)] != colours[self.to]).all(), "neighbours have the same colour"
