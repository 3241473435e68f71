"""Maximal independent set, by Luby (STOC 1985): in each round the vertices that draw the highest number around join."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pyopencl.array

import portbar
from examples.applications.common import SCALES
from examples.applications.inputs import DRAW, Graph, OnGraph, drawn, sources, undirected

UNDECIDED, MEMBER, OUT = np.uint32(0), np.uint32(1), np.uint32(2)


class Independent(OnGraph):
    """Vertices of an R-MAT graph of 2**`size`, no two of them neighbours, so that no further one could be taken."""

    name = "independent"
    summary = "maximal independent set of an R-MAT graph: few rounds of two steps, less work in each"
    family = "rmat"
    prepared = staticmethod(undirected)
    sizes = (8, 12, 16)
    allowed = SCALES
    source = f"""
#include "portbar/atomics.h"
#include "portbar/worklist.h"

#define UNDECIDED {UNDECIDED}u
#define MEMBER {MEMBER}u
#define OUT {OUT}u
#define LOAD(p) portbar_atomic_load_explicit(p, memory_order_relaxed, memory_scope_device)
#define STORE(p, value) portbar_atomic_store_explicit(p, value, memory_order_relaxed, memory_scope_device)
{DRAW}
/* Makes an undecided vertex a member if none of its neighbours that were undecided before has drawn more. */
static void join(global const uint *first, global const uint *to, global uint *states, uint vertex, uint round)
{{
    const uint own = draw(vertex, round);
    for (uint edge = first[vertex]; edge < first[vertex + 1]; ++edge)
        if (draw(to[edge], round) > own && LOAD(&states[to[edge]]) != OUT)
            return;
    STORE(&states[vertex], MEMBER);
}}

/* Whether a vertex is still undecided; one with a member beside it is out. */
static bool stays(global const uint *first, global const uint *to, global uint *states, uint vertex)
{{
    if (LOAD(&states[vertex]) == MEMBER)
        return false;
    for (uint edge = first[vertex]; edge < first[vertex + 1]; ++edge)
        if (LOAD(&states[to[edge]]) == MEMBER) {{
            STORE(&states[vertex], OUT);
            return false;
        }}
    return true;
}}

kernel void independent(PORTBAR_GRID_PARAM, global portbar_worklist *list, global uint *items, global const uint *first,
                        global const uint *to, global uint *states)
{{
    PORTBAR_ENTER(grid);
    PORTBAR_FRONTIER(frontier, &grid, list);
    uint round = 0;
    do {{
        const uint size = portbar_frontier_size(&frontier);
        PORTBAR_FOR_DYNAMIC(i, &grid, size, 32)
            join(first, to, states, items[portbar_frontier_at(&frontier, i)], round);
        if (!portbar_device_barrier(&grid))
            return;
        PORTBAR_FOR_DYNAMIC(i, &grid, size, 32) {{
            const uint vertex = items[portbar_frontier_at(&frontier, i)];
            if (stays(first, to, states, vertex))
                portbar_frontier_push(&frontier, items, vertex);
        }}
        ++round;
    }} while (portbar_device_frontier_swap(&grid, &frontier));
}}

kernel void join_step(global const uint *now, global const uint *first, global const uint *to, global uint *states,
                      uint n, uint round)
{{
    if (get_global_id(0) < n)
        join(first, to, states, now[get_global_id(0)], round);
}}

kernel void leave_step(global const uint *now, global uint *next, global uint *count, global const uint *first,
                       global const uint *to, global uint *states, uint n)
{{
    const uint i = get_global_id(0);
    if (i < n && stays(first, to, states, now[i]))
        next[portbar_atomic_fetch_add_explicit(count, 1u, memory_order_relaxed, memory_scope_device)] = now[i];
}}
"""

    def __init__(self, queue: cl.CommandQueue, size: int, graph: Graph | None = None) -> None:
        super().__init__(queue, size, graph)
        self.all = np.arange(self.n, dtype=np.uint32)
        self.states, self.count = self.put(self.all), self.put(np.zeros(1, np.uint32))
        self.frontier = portbar.Frontier(queue, self.n)
        self.now, self.next = (self.put(self.all) for _ in range(2))

    def in_one_kernel(self) -> cl.array.Array:
        """One launch."""
        self.states.fill(UNDECIDED)
        self.frontier.set(self.all)
        self.grid("independent", *self.frontier.args, *self.graph, self.states, items=self.n)
        return self.states

    def by_relaunching(self) -> cl.array.Array:
        """Two launches for each round, and a size that the host reads after them."""
        self.states.fill(UNDECIDED)
        self.now.set(self.all)
        size, done = self.n, 0
        while size:
            self.count.fill(0)
            self.launch("join_step", size, self.now, *self.graph, self.states, np.uint32(size), np.uint32(done))
            lists = self.now, self.next, self.count
            self.launch("leave_step", size, *lists, *self.graph, self.states, np.uint32(size))
            self.now, self.next, size = self.next, self.now, int(self.count.get()[0])
            done += 1
        self.steps = 2 * done
        return self.states

    def expected(self) -> np.ndarray:
        """The same rounds in NumPy."""
        states, here, done = np.full(self.n, UNDECIDED), sources(self.first), 0
        while (undecided := states == UNDECIDED).any():
            numbers = drawn(self.n, done)
            beaten = np.zeros(self.n, bool)
            beaten[here[(numbers[self.to] > numbers[here]) & undecided[self.to]]] = True
            states[undecided & ~beaten] = MEMBER
            beside = np.zeros(self.n, bool)
            beside[here[states[self.to] == MEMBER]] = True
            states[beside & (states == UNDECIDED)] = OUT
            done += 1
        return states

    def check(self, found: cl.array.Array) -> None:
        """The rounds in NumPy give the same set, and it is independent and maximal."""
        super().check(found)
        members, here = found.get() == MEMBER, sources(self.first)
        assert not (members[here] & members[self.to]).any(), "two members are neighbours"
        covered = members.copy()
        covered[here[members[self.to]]] = True
        assert covered.all(), "a vertex without a neighbouring member is not a member"
