"""Breadth-first search of a whole graph in one kernel: levels meet at a barrier that also tells whether any vertex is new.

Beside it, the usual way: a launch for each level, and a flag that the host reads after each. The graph is a grid of streets
with some of them closed, which has many small levels. Both are checked against a search in Python:
`python examples/bfs.py [--platform "PoCL 3.1"] [--width 128]`.
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from collections.abc import Callable

import numpy as np
import pyopencl as cl
import pyopencl.array

import portbar

SOURCE = """
#include "portbar/atomics.h"
#include "portbar/device_barrier.h"

#define UNSEEN 0xffffffffu

/* Gives the neighbours of a vertex of the level `depth` the next depth; whether any of them was unseen. */
static bool expand(global const uint *first, global const uint *to, global uint *depths, uint vertex, uint depth)
{
    bool found = false;
    if (portbar_atomic_load_explicit(&depths[vertex], memory_order_relaxed, memory_scope_device) != depth)
        return false;
    for (uint edge = first[vertex]; edge < first[vertex + 1]; ++edge) {
        global uint *other = &depths[to[edge]];
        if (portbar_atomic_load_explicit(other, memory_order_relaxed, memory_scope_device) == UNSEEN) {
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

kernel void level(global const uint *first, global const uint *to, global uint *depths, uint depth, global uint *found)
{
    if (expand(first, to, depths, (uint)get_global_id(0), depth))
        found[0] = 1;
}
"""
UNSEEN = np.uint32(0xFFFFFFFF)


def make_context(platform: str | None) -> cl.Context:
    """A context on the platform that is named, or the one that PyOpenCL picks (PYOPENCL_CTX chooses)."""
    platforms = portbar.load_platforms()
    if platform is None:
        return cl.create_some_context(interactive=False)
    for found in platforms:
        if platform.lower() in f"{found.name} {found.version}".lower():
            return cl.Context(found.get_devices()[:1])
    raise SystemExit(f"no OpenCL platform is like {platform!r}")


def streets(width: int) -> tuple[np.ndarray, np.ndarray]:
    """A square grid of crossings with a tenth of its streets closed: first edge of each vertex, and where edges lead."""
    vertices = np.arange(width * width, dtype=np.uint32).reshape(width, width)
    pairs = np.concatenate(
        [
            np.stack([vertices[:, :-1].ravel(), vertices[:, 1:].ravel()]),
            np.stack([vertices[:-1].ravel(), vertices[1:].ravel()]),
        ],
        axis=1,
    )
    pairs = pairs[:, np.random.default_rng(1).random(pairs.shape[1]) < 0.9]
    both = np.concatenate([pairs, pairs[::-1]], axis=1)
    order = np.argsort(both[0], kind="stable")
    first = np.searchsorted(both[0][order], np.arange(width * width + 1)).astype(np.uint32)
    return first, both[1][order]


def expected(first: np.ndarray, to: np.ndarray) -> np.ndarray:
    """Depths from vertex 0, by a queue."""
    depths = np.full(len(first) - 1, UNSEEN)
    depths[0] = 0
    waiting = deque([0])
    while waiting:
        vertex = waiting.popleft()
        for other in to[first[vertex] : first[vertex + 1]]:
            if depths[other] == UNSEEN:
                depths[other] = depths[vertex] + 1
                waiting.append(int(other))
    return depths


def main() -> None:
    """Search both ways, compare, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--platform", help="part of an OpenCL platform's name and version")
    parser.add_argument("--width", type=int, default=64, help="crossings along each side of the grid (64)")
    options = parser.parse_args()
    context = make_context(options.platform)
    device = context.devices[0]
    if portbar.describe(device).findings is None:
        portbar.probe(device)  # once for each device and driver: what was found is kept
    queue = cl.CommandQueue(context)
    program = portbar.Program(context, SOURCE)
    search, level = program.kernel("search"), program.kernel("level")
    local = search.suggested_local_size(queue)

    first, to = streets(options.width)
    n = len(first) - 1
    start = np.full(n, UNSEEN)
    start[0] = 0
    graph = cl.array.to_device(queue, first), cl.array.to_device(queue, to)

    def in_one_kernel() -> np.ndarray:
        depths = cl.array.to_device(queue, start)
        search(queue, None, local, *graph, depths, np.uint32(n), items=n).wait()
        return depths.get()

    def by_relaunching() -> np.ndarray:
        depths, found = cl.array.to_device(queue, start), cl.array.zeros(queue, 1, np.uint32)
        depth = 0
        while depth == 0 or found.get()[0]:
            found.fill(0)
            level(queue, (n,), None, *graph, depths, np.uint32(depth), found)
            depth += 1
        return depths.get()

    wanted = expected(first, to)
    levels = int(wanted[wanted != UNSEEN].max()) + 1
    print(f"{device.name.strip()}: {n} vertices, {len(to)} edges, {levels} levels")
    ways: dict[str, Callable[[], np.ndarray]] = {
        "one kernel with a barrier": in_one_kernel,
        "a launch for each level": by_relaunching,
    }
    for title, way in ways.items():
        way()  # the first run pays for what the driver prepares once
        begin = time.perf_counter()
        depths = way()
        taken = time.perf_counter() - begin
        np.testing.assert_array_equal(depths, wanted)
        print(f"  {title}: {taken / levels * 1e6:.1f} us a level, as in Python")


if __name__ == "__main__":
    main()
