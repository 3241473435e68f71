"""A sparse triangular solve: blocks of rows are tasks that wait for their neighbours, instead of a barrier per level of rows.

By levels: Anderson and Saad (1989). By flags, without barriers: Liu et al., "A Synchronization-Free Algorithm for Parallel
Sparse Triangular Solves" (Euro-Par 2016).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyopencl as cl
import pyopencl.array

import portbar
from examples.applications.common import Application


class Triangular(Application):
    """The lower triangle of a 5-point stencil with coefficients of its own in each row, over `size` points on each side.

    Rows are numbered twice: by blocks of the square for the task graph, and by levels for barriers and launches, so that
    either way reads its rows one after another.
    """

    name = "triangular"
    summary = "a sparse triangular solve: a task per block of rows, or a barrier per level"
    sizes = (64, 256, 1024)
    source = """
#include "portbar/device_barrier.h"
#include "portbar/task_graph.h"

/* A row: two coefficients, the right side, and the inverse of the diagonal. One with fewer neighbours has zeros. */
#define SOLVED(a, c, from) (((a).z - (a).x * (from)[(c).x] - (a).y * (from)[(c).y]) * (a).w)

/* A step is a piece of a block whose rows need none of each other. A block is solved in local memory. */
kernel void by_tasks(PORTBAR_GRID_PARAM, global portbar_tasks *tasks, global const uint *blocks, global const uint *steps,
                     global const float4 *rows, global const uint2 *columns, global float *x)
{
    local float4 kept[BLOCK];
    local uint2 near[BLOCK];
    local uint ends[BLOCK + 1];
    local float solved[BLOCK];
    PORTBAR_ENTER(grid);
    PORTBAR_TASKS(graph, &grid, tasks);
    const uint item = get_local_id(0), size = get_local_size(0);
    uint block;
    bool held = true;
    while (held && portbar_work_group_task_graph_take(&grid, &graph, &block)) {
        const uint begin = blocks[block], count = blocks[block + 1] - begin, first = steps[begin];
        const uint length = steps[begin + count] - first;
        /* The rows themselves wait for no other block. */
        for (uint i = item; i < length; i += size) {
            kept[i] = rows[first + i];
            near[i] = columns[first + i] - first;
        }
        for (uint step = item; step < count; step += size)
            ends[step] = steps[begin + step + 1] - first;
        held = portbar_work_group_task_graph_wait(&grid, &graph);
        if (held) {
            /* Unknowns of other blocks are known now, and move to the right side. */
            for (uint i = item; i < length; i += size) {
                if (near[i].x >= length) {
                    kept[i].z -= kept[i].x * x[near[i].x + first];
                    kept[i].x = 0.0f;
                    near[i].x = i;
                }
                if (near[i].y >= length) {
                    kept[i].z -= kept[i].y * x[near[i].y + first];
                    kept[i].y = 0.0f;
                    near[i].y = i;
                }
                solved[i] = 0.0f;
            }
        }
        uint row = item;
        for (uint step = 0; step < count; ++step) {
            barrier(CLK_LOCAL_MEM_FENCE);
            if (row < ends[step])
                solved[row] = SOLVED(kept[row], near[row], solved);
            row = ends[step] + item;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (held)
            for (uint i = item; i < length; i += size)
                x[first + i] = solved[i];
    }
}

kernel void by_barriers(PORTBAR_GRID_PARAM, global const uint *levels, global const float4 *rows, global const uint2 *columns,
                        global float *x, uint count)
{
    PORTBAR_ENTER(grid);
    for (uint level = 0; level < count; ++level) {
        const uint first = levels[level];
        PORTBAR_FOR(i, &grid, levels[level + 1] - first)
            x[first + i] = SOLVED(rows[first + i], columns[first + i], x);
        if (!portbar_device_barrier(&grid))
            return;
    }
}

kernel void one_level(global const float4 *rows, global const uint2 *columns, global float *x, uint first, uint n)
{
    const uint i = get_global_id(0);
    if (i < n)
        x[first + i] = SOLVED(rows[first + i], columns[first + i], x);
}
"""

    def __init__(self, queue: cl.CommandQueue, size: int) -> None:
        self.tile = 16 if size <= 256 else 32
        self.queue, self.size = queue, size
        self.program = portbar.Program(queue.context, f"#define BLOCK {self.tile**2}u\n{self.source}")
        self.steps = 2 * size - 1
        self.n = size * size
        draws = np.random.default_rng(5)
        #: Of each point: the coefficients of the points on the left and above, the right side, the inverse diagonal.
        self.points = draws.uniform(-1, 1, (self.n, 4)).astype(np.float32)
        self.points[:, 3] = 1 / draws.uniform(3, 5, self.n)
        y, x = np.divmod(np.arange(self.n), size)
        self.points[x == 0, 0] = self.points[y == 0, 1] = 0
        #: Rows do not wait for themselves: a neighbour that there is not counts nothing.
        self.neighbours = np.stack(
            [np.where(x > 0, np.arange(self.n) - 1, 0), np.where(y > 0, np.arange(self.n) - size, 0)], 1
        )
        self.levels = x + y
        self.block = y // self.tile * -(-size // self.tile) + x // self.tile
        # Sub-groups of GPUs solve a level of a block at once, threads of CPUs a row.
        on_cpu = bool(queue.device.type & cl.device_type.CPU)
        self.width = 1 if on_cpu else 32
        self._by_tasks()
        self._by_levels()

    def _numbered(self, order: np.ndarray) -> tuple[cl.array.Array, ...]:
        """Rows, columns and the unknowns where rows have the numbers of an order."""
        place = np.empty(self.n, np.int64)
        place[order] = np.arange(self.n)
        rows, columns = np.zeros((self.n + self.width, 4), np.float32), np.zeros((self.n + self.width, 2), np.uint32)
        rows[: self.n], columns[: self.n] = self.points[order], place[self.neighbours[order]]
        return self.put(rows), self.put(columns), self.put(np.zeros(self.n, np.float32))

    def _by_tasks(self) -> None:
        self.task_order = np.lexsort((np.arange(self.n), self.levels, self.block))
        block, level = self.block[self.task_order], self.levels[self.task_order]
        # A step ends with its level, or when all work-items have a row.
        begins = np.flatnonzero(np.diff(block * (2 * self.size) + level, prepend=-1))
        steps = np.concatenate(
            [np.arange(a, b, self.width) for a, b in zip(begins, [*begins[1:], self.n], strict=True)]
        )
        blocks = np.searchsorted(block[steps], np.arange(block[-1] + 2))
        self.on_device = self._numbered(self.task_order)
        tables = (blocks, np.append(steps, [self.n, self.n]))
        self.tables = tuple(self.put(table.astype(np.uint32)) for table in tables)
        after = np.repeat(self.block[:, None], 2, 1)
        edges = np.stack([self.block[self.neighbours].ravel(), after.ravel()], 1)
        edges = edges[(self.points[:, :2].ravel() != 0) & (edges[:, 0] != edges[:, 1])]
        self.graph = portbar.TaskGraph(self.queue, int(block[-1]) + 1, edges)

    def _by_levels(self) -> None:
        self.level_order = np.argsort(self.levels, kind="stable")
        self.begins = np.searchsorted(self.levels[self.level_order], np.arange(self.steps + 1)).astype(np.uint32)
        self.level_first = self.put(self.begins)
        self.by_level = self._numbered(self.level_order)

    def in_one_kernel(self) -> cl.array.Array:
        """One launch, in which blocks wait for blocks."""
        rows, columns, x = self.on_device
        kernel, width = self.program.kernel("by_tasks"), self.graph.width
        args = (*self.graph.args, *self.tables, rows, columns, x)
        kernel(self.queue, None, (self.width,), *args, max_groups=width).wait()
        return x

    def by_barriers(self) -> cl.array.Array:
        """One launch, with a barrier after each level."""
        rows, columns, x = self.by_level
        self.grid("by_barriers", self.level_first, rows, columns, x, np.uint32(self.steps), items=self.size)
        return x

    def by_relaunching(self) -> cl.array.Array:
        """A launch for each level."""
        rows, columns, x = self.by_level
        for first, end in zip(self.begins[:-1], self.begins[1:], strict=True):
            last = self.launch("one_level", int(end - first), rows, columns, x, first, np.uint32(end - first))
        last.wait()
        return x

    @cached_property
    def _solution(self) -> np.ndarray:
        x = np.zeros(self.n)
        for first, end in zip(self.begins[:-1], self.begins[1:], strict=True):
            rows = self.level_order[first:end]
            a, near = self.points[rows].astype(np.float64), x[self.neighbours[rows]]
            x[rows] = (a[:, 2] - a[:, 0] * near[:, 0] - a[:, 1] * near[:, 1]) * a[:, 3]
        return x

    def expected(self) -> np.ndarray:
        """The same in NumPy, in double precision, a level at a time."""
        return self._solution

    def check(self, found: cl.array.Array) -> None:
        """Within single precision, whichever way rows are numbered; and the solution is forgotten."""
        order = self.task_order if found is self.on_device[2] else self.level_order
        np.testing.assert_allclose(found.get(), self.expected()[order], atol=1e-5)
        found.fill(0)
