"""The same programs by hand: a kernel in place of the host's loop, which runs the unmodified kernels by PORTBAR_RUN."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyopencl as cl

import portbar
from examples.recorded import programs
from examples.recorded.programs import HostProgram


@dataclass(frozen=True)
class Driver:
    """A kernel named `driver`, in place of the loop of a program's host."""

    source: str
    local_size: int
    #: A program -> the kernel's arguments: names of its buffers, and numbers.
    arguments: Callable[[Any], Sequence[Any]]
    #: The program's work, in words.
    shows: str


DRIVERS: Final[dict[type[HostProgram], Driver]] = {
    programs.BreadthFirst: Driver(
        """
        kernel void driver(PORTBAR_GRID_PARAM, global const int *starts, global const int *ends, global uchar *front,
                           global uchar *next, global uchar *seen, global int *cost, global int *more, int n)
        {
            PORTBAR_ENTER(grid);
            const int size = (n + 63) / 64 * 64;
            do {
                if (portbar_global_id(&grid) == 0)
                    *more = 0;
                PORTBAR_RUN(&grid, expand, (size), (64), starts, ends, front, next, seen, cost, n);
                PORTBAR_RUN(&grid, settle, (size), (64), front, next, seen, more, n);
            } while (portbar_device_barrier_any(&grid, *more != 0));
        }
        """,
        64,
        lambda program: ["starts", "ends", "front", "next", "seen", "cost", "more", np.int32(program.n)],
        "early returns, and a flag that all work-groups read after a barrier",
    ),
    programs.Elimination: Driver(
        """
        #define UP(n, local_size) ((n) + (local_size) - 1 - ((n) + (local_size) - 1) % (local_size))
        kernel void driver(PORTBAR_GRID_PARAM, global float *m, global float *a, global float *b, int n)
        {
            PORTBAR_ENTER(grid);
            for (int t = 0; t < n - 1; ++t) {
                PORTBAR_RUN(&grid, factors, (UP(n, 64)), (64), m, a, n, t);
                if (!PORTBAR_RUN(&grid, subtract, (UP(n, 4), UP(n, 4)), (4, 4), m, a, b, n, t))
                    return;
            }
        }
        """,
        32,
        lambda program: ["m", "a", "b", np.int32(program.n)],
        "kernels of one and two dimensions, and the step's number",
    ),
    programs.Waves: Driver(
        """
        kernel void driver(PORTBAR_GRID_PARAM, global const float *source, global float *ex, global float *ey,
                           global float *hz, constant float *turns, int count, int width, int height)
        {
            PORTBAR_ENTER(grid);
            for (int t = 0; t < count; ++t) {
                PORTBAR_RUN_NOWAIT(&grid, advance_y, (width, height), (), source, ey, hz, turns[t]);
                PORTBAR_RUN(&grid, advance_x, (width, height), (), ex, hz);
                PORTBAR_RUN(&grid, advance_z, (width, height), (8, 2), ex, ey, hz);
            }
        }
        """,
        32,
        lambda program: [
            "source",
            "ex",
            "ey",
            "hz",
            program.turns,
            *map(np.int32, (len(program.turns), *program.size)),
        ],
        "two kernels that need no barrier between them",
    ),
    programs.IndependentSets: Driver(
        """
        kernel void driver(PORTBAR_GRID_PARAM, global const int *starts, global const int *ends, global const uint *weight,
                           global int *state, global int *picked, global int *left, int n)
        {
            PORTBAR_ENTER(grid);
            const int size = (n + 127) / 128 * 128;
            bool goes_on = true;
            while (goes_on) {
                PORTBAR_RUN(&grid, pick, (size), (128), starts, ends, weight, state, picked, n);
                if (portbar_global_id(&grid) == 0)
                    *left = 0;
                PORTBAR_RUN(&grid, keep, (size), (128), picked, state, n);
                PORTBAR_RUN(&grid, drop, (size), (128), starts, ends, picked, state, left, n);
                goes_on = portbar_device_barrier_any(&grid, *left != 0);
            }
        }
        """,
        128,
        lambda program: ["starts", "ends", "weight", "state", "picked", "left", np.int32(program.n)],
        "helper functions that ask for ids",
    ),
    programs.Tiles: Driver(
        """
        kernel void driver(PORTBAR_GRID_PARAM, global float *power, global float *one, global float *other, int side,
                           int groups, int pairs)
        {
            PORTBAR_ENTER(grid);
            const int size = groups * SIDE;
            for (int i = 0; i < pairs; ++i) {
                PORTBAR_RUN(&grid, heat, (size, size), (SIDE, SIDE), 2, power, one, other, side, 0.1f, 0.3f);
                PORTBAR_RUN(&grid, heat, (size, size), (SIDE, SIDE), 2, power, other, one, side, 0.1f, 0.3f);
            }
        }
        """,
        256,
        lambda program: ["power", "from", "to", *map(np.int32, (program.side, -(-program.side // 12), 3))],
        "tiles of two dimensions in local memory, with barriers in the body",
    ),
    programs.Alignment: Driver(
        """
        kernel void driver(PORTBAR_GRID_PARAM, global const int *reference, global int *score, int columns, int blocks)
        {
            PORTBAR_ENTER(grid);
            local int tile[(BLOCK + 1) * (BLOCK + 1)], ref[BLOCK * BLOCK];
            for (int diagonal = 0; diagonal < 2 * blocks - 1; ++diagonal) {
                const int first = max(0, diagonal - blocks + 1), count = min(diagonal, blocks - 1) - first + 1;
                PORTBAR_RUN(&grid, block, (count * BLOCK), (BLOCK), reference, score, tile, ref, columns, 3, diagonal, first);
            }
        }
        """,
        16,
        lambda program: ["reference", "score", *map(np.int32, (program.columns, program.blocks))],
        "arguments in local memory, and sizes that change",
    ),
    programs.Speckles: Driver(
        """
        void half_step(portbar_grid *grid, global float *from, global float *to, global float *sums,
                       global float *squares, global float *partial, global float *q, int side)
        {
            const int n = side * side, groups = (n + 63) / 64, padded = (side + 15) / 16 * 16;
            PORTBAR_RUN(grid, prepare, (groups * 64), (64), from, sums, squares, n);
            PORTBAR_RUN(grid, reduce, (groups * 64), (64), sums, squares, partial, n);
            PORTBAR_RUN(grid, finish, (1), (1), partial, q, groups, n);
            PORTBAR_RUN(grid, update, (padded, padded), (16, 16), from, to, q, side, 0.05f);
        }
        kernel void driver(PORTBAR_GRID_PARAM, global float *one, global float *other, global float *sums,
                           global float *squares, global float *partial, global float *q, int side, int pairs)
        {
            PORTBAR_ENTER(grid);
            for (int i = 0; i < pairs; ++i) {
                half_step(&grid, one, other, sums, squares, partial, q, side);
                half_step(&grid, other, one, sums, squares, partial, q, side);
            }
        }
        """,
        64,
        lambda program: ["one", "other", "sums", "squares", "partial", "q", *map(np.int32, (program.side, 4))],
        "kernels that are run by a helper function, and a kernel of one work-item",
    ),
    programs.Scans: Driver(
        """
        kernel void driver(PORTBAR_GRID_PARAM, global uint *keys, global uint *other, global uint *counts, int n)
        {
            PORTBAR_ENTER(grid);
            local uint sums[32];
            for (int shift = 0; shift < 16; shift += 4) {
                global uint *from = shift % 8 ? other : keys, *to = shift % 8 ? keys : other;
                PORTBAR_RUN(&grid, count, (128), (32), from, counts, n, shift);
                PORTBAR_RUN(&grid, scan, (32), (), counts, sums, 64);
                PORTBAR_RUN(&grid, scatter, (128), (32), from, to, counts, n, shift);
            }
        }
        """,
        32,
        lambda program: ["keys", "other", "counts", np.int32(program.n)],
        "three kernels that share local memory",
    ),
    programs.Bitonic: Driver(
        """
        #define RUN(kernel, ...) PORTBAR_RUN(&grid, kernel, (n / 2), (64), keys, __VA_ARGS__)
        kernel void driver(PORTBAR_GRID_PARAM, global uint *keys, uint n)
        {
            PORTBAR_ENTER(grid);
            for (uint span = 2; span <= n; span *= 2) {
                for (uint reach = span / 2; reach > 64; reach /= 2)
                    RUN(exchange, span, reach);
                RUN(steps_in_group, span);
            }
        }
        """,
        64,
        lambda program: ["keys", np.uint32(program.n)],
        "runs by a macro of the author's",
    ),
}


class ByHand:
    """The driver of a program, compiled with the program's kernels."""

    def __init__(self, queue: cl.CommandQueue, program: HostProgram) -> None:
        driver = DRIVERS[type(program)]
        source = f'#include "portbar/run_kernels.h"\n{program.source}{driver.source}'
        self.queue, self.local_size = queue, driver.local_size
        self.program = portbar.Program(queue.context, source, program.options)
        self.kernel = self.program.kernel("driver")
        self.arguments = [self._argument(program, one) for one in driver.arguments(program)]

    def _argument(self, program: HostProgram, given: Any) -> Any:
        if isinstance(given, str):
            return program.buffers[given]
        if isinstance(given, np.ndarray):
            flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
            return cl.Buffer(program.context, flags, hostbuf=given)
        return given

    def launch(self) -> portbar.Launch:
        """Run the program."""
        return self.kernel(self.queue, None, (self.local_size,), *self.arguments)
