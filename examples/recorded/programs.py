"""Programs of kernels and a host loop in shapes that many have, each with its inputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Final

import numpy as np
import pyopencl as cl

from examples.recorded.doing import Do


def up(n: int, local: int) -> int:
    """The next multiple of a local size."""
    return -(-n // local) * local


class HostProgram(ABC):
    """Kernels, their buffers, and the loop that launches them. `run` gets a way to do that.

    Attributes
    ----------
    source : str
    options : tuple of str
    scale : int
        1 for a problem that is all launches; with each doubling its sides are twice as long.
    """

    source: ClassVar[str]
    options: ClassVar[tuple[str, ...]] = ()

    def __init__(self, context: cl.Context, scale: int = 1) -> None:
        self.context, self.scale = context, scale
        self.program = cl.Program(context, self.source).build(list(self.options))
        self.random = np.random.default_rng(5)
        #: Buffers by name, with what they begin with.
        self.arrays: dict[str, np.ndarray] = {}
        self.prepare()
        self.buffers = {
            name: cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=array)
            for name, array in self.arrays.items()
        }

    @classmethod
    def lacks(cls, device: cl.Device) -> str:
        """A feature that the program needs and a device lacks, "" if it lacks none."""
        if "double" in cls.source and not device.double_fp_config:
            return "double"
        return "images" if "image2d_t" in cls.source and not device.image_support else ""

    def kernel(self, name: str) -> cl.Kernel:
        """An object of a kernel."""
        return cl.Kernel(self.program, name)

    @abstractmethod
    def prepare(self) -> None:
        """Make the arrays."""

    @abstractmethod
    def run(self, do: Do) -> None:
        """Launch the kernels."""

    def reset(self, queue: cl.CommandQueue) -> None:
        """Fill the buffers with what they begin with."""
        for name, array in self.arrays.items():
            cl.enqueue_copy(queue, self.buffers[name], array)

    def results(self, queue: cl.CommandQueue) -> dict[str, np.ndarray]:
        """The buffers' contents."""
        found = {}
        for name, array in self.arrays.items():
            found[name] = np.empty_like(array)
            cl.enqueue_copy(queue, found[name], self.buffers[name])
        return found


def _graph(random: np.random.Generator, vertices: int, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """An undirected graph: where the edges of each vertex begin, and their ends."""
    pairs = random.integers(0, vertices, (vertices * degree // 2, 2))
    both = np.concatenate([pairs, pairs[:, ::-1]])
    both = both[np.lexsort((both[:, 1], both[:, 0]))]
    starts = np.searchsorted(both[:, 0], np.arange(vertices + 1)).astype(np.int32)
    return starts, both[:, 1].astype(np.int32)


class BreadthFirst(HostProgram):
    """Two kernels, and a flag that the host reads."""

    source = """
        kernel void expand(global const int *starts, global const int *ends, global uchar *front, global uchar *next,
                           global uchar *seen, global int *cost, int vertices)
        {
            const int v = get_global_id(0);
            if (v >= vertices || !front[v])
                return;
            front[v] = 0;
            for (int e = starts[v]; e < starts[v + 1]; e++) {
                int w = ends[e];
                if (!seen[w]) {
                    cost[w] = cost[v] + 1;
                    next[w] = 1;
                }
            }
        }

        kernel void settle(global uchar *front, global uchar *next, global uchar *seen, global int *more, int vertices)
        {
            const int v = get_global_id(0);
            if (v < vertices && next[v]) {
                front[v] = 1;
                seen[v] = 1;
                next[v] = 0;
                *more = 1;
            }
        }
    """

    def prepare(self) -> None:
        """Make the arrays."""
        n = self.n = 700 * self.scale**2
        starts, ends = _graph(self.random, n, 3)
        front = np.zeros(n, np.uint8)
        front[1] = 1
        cost = np.where(front, 0, -1).astype(np.int32)
        self.arrays = {"starts": starts, "ends": ends, "front": front, "next": 0 * front, "seen": 1 * front}
        self.arrays |= {"cost": cost, "more": np.ones(1, np.int32)}

    def run(self, do: Do) -> None:
        """Launch the kernels."""
        b, n = self.buffers, np.int32(self.n)
        expand, settle = self.kernel("expand"), self.kernel("settle")

        def level(_: Any) -> None:
            do.fill(b["more"], np.int32(0))
            do(expand, (up(self.n, 64),), (64,), b["starts"], b["ends"], b["front"], b["next"], b["seen"], b["cost"], n)
            do(settle, (up(self.n, 64),), (64,), b["front"], b["next"], b["seen"], b["more"], n)

        do.loop_while(b["more"], level)


class Elimination(HostProgram):
    """A 1-D and a 2-D kernel of other local sizes, and the number of the step as an argument."""

    source = """
        typedef struct { float x, y; } point;
        #define AT(m, row, column) (m)[(row) * size + (column)]

        __kernel void factors(__global float *m, __global float *a, int size, int t)
        {
            int row = get_global_id(0);
            if (row < size - 1 - t)
                AT(m, row + t + 1, t) = AT(a, row + t + 1, t) / AT(a, t, t);
        }

        __kernel void subtract(__global float *m, __global float *a, __global float *b, const int size, const int t)
        {
            int row = get_global_id(0), column = get_global_id(1);
            if (row >= size - 1 - t) return;
            if (column >= size - t) return;
            AT(a, row + 1 + t, column + t) -= AT(m, row + 1 + t, t) * AT(a, t, column + t);
            if (column == 0)
                b[row + 1 + t] -= m[size * (row + 1 + t) + (column + t)] * b[t];
        }
    """

    def prepare(self) -> None:
        """Make the arrays."""
        n = self.n = 45 * self.scale
        a = self.random.random((n, n), np.float32) + n * np.eye(n, dtype=np.float32)
        self.arrays = {"m": 0 * a, "a": a, "b": self.random.random(n, np.float32)}

    def run(self, do: Do) -> None:
        """Launch the kernels."""
        b, n = self.buffers, np.int32(self.n)
        factors, subtract = self.kernel("factors"), self.kernel("subtract")

        def step(t: Any) -> None:
            do(factors, (up(self.n, 64),), (64,), b["m"], b["a"], n, t)
            do(subtract, (up(self.n, 4), up(self.n, 4)), (4, 4), b["m"], b["a"], b["b"], n, t)

        do.loop(self.n - 1, step)


class Waves(HostProgram):
    """Three 2-D kernels, two of which do not depend on each other, and a value for each turn."""

    source = """
        kernel void advance_y(global const float *source, global float *ey, global const float *hz, float now)
        {
            const size_t x = get_global_id(0), y = get_global_id(1), nx = get_global_size(0);
            ey[y * nx + x] = y == 0 ? now + source[x] : ey[y * nx + x] - 0.5f * (hz[y * nx + x] - hz[(y - 1) * nx + x]);
        }
        kernel void advance_x(global float *ex, global const float *hz)
        {
            const size_t x = get_global_id(0), y = get_global_id(1), nx = get_global_size(0);
            if (x > 0)
                ex[y * nx + x] -= 0.5f * (hz[y * nx + x] - hz[y * nx + x - 1]);
        }
        kernel void advance_z(global const float *ex, global const float *ey, global float *hz)
        {
            const size_t x = get_global_id(0), y = get_global_id(1), nx = get_global_size(0), ny = get_global_size(1);
            if (x < nx - 1 && y < ny - 1)
                hz[y * nx + x] -= 0.7f * (ex[y * nx + x + 1] - ex[y * nx + x] + ey[(y + 1) * nx + x] - ey[y * nx + x]);
        }
    """

    def prepare(self) -> None:
        """Make the arrays."""
        self.size = (48 * self.scale, 20 * self.scale)
        shape = self.size[::-1]
        self.turns = self.random.random(30, np.float32)
        self.arrays = {name: self.random.random(shape, np.float32) for name in ("ex", "ey", "hz")}
        self.arrays["source"] = self.random.random(self.size[0], np.float32)

    def run(self, do: Do) -> None:
        """Launch the kernels."""
        b = self.buffers
        y, x, z = (self.kernel(f"advance_{name}") for name in "yxz")

        def step(turn: Any) -> None:
            do(y, self.size, (16, 4), b["source"], b["ey"], b["hz"], do.values(self.turns, turn))
            do(x, self.size, (16, 4), b["ex"], b["hz"])
            do(z, self.size, (8, 2), b["ex"], b["ey"], b["hz"])

        do.loop(len(self.turns), step)


class IndependentSets(HostProgram):
    """Three kernels with helper functions that ask for ids, a flag, and an enumeration."""

    source = """
        enum state { OPEN, IN, OUT };
        inline int vertex(void) { return get_global_id(0); }
        bool beyond(int n) { return vertex() >= n; }

        kernel void pick(global const int *starts, global const int *ends, global const uint *weight, global int *state,
                         global int *picked, int n)
        {
            if (beyond(n)) return;
            int v = vertex(), best = 1;
            for (int e = starts[v]; e < starts[v + 1]; ++e) {
                int w = ends[e];
                if (w != v && state[w] == OPEN && (weight[w] > weight[v] || (weight[w] == weight[v] && w > v))) best = 0;
            }
            picked[v] = state[v] == OPEN && best;
        }
        kernel void keep(global const int *picked, global int *state, int n)
        {
            if (!beyond(n) && picked[vertex()]) state[vertex()] = IN;
        }
        kernel void drop(global const int *starts, global const int *ends, global const int *picked, global int *state,
                         global int *left, int n)
        {
            if (beyond(n) || state[vertex()] != OPEN) return;
            int v = vertex();
            for (int e = starts[v]; e < starts[v + 1]; ++e)
                if (picked[ends[e]]) state[v] = OUT;
            if (state[v] == OPEN) *left = 1;
        }
    """

    def prepare(self) -> None:
        """Make the arrays."""
        n = self.n = 500 * self.scale**2
        starts, ends = _graph(self.random, n, 6)
        zeros = np.zeros(n, np.int32)
        self.arrays = {"starts": starts, "ends": ends, "weight": self.random.integers(0, 99, n).astype(np.uint32)}
        self.arrays |= {"state": zeros, "picked": 1 * zeros, "left": np.ones(1, np.int32)}

    def run(self, do: Do) -> None:
        """Launch the kernels."""
        b, n = self.buffers, np.int32(self.n)
        pick, keep, drop = (self.kernel(name) for name in ("pick", "keep", "drop"))

        def turn(_: Any) -> None:
            do(pick, (up(self.n, 128),), (128,), b["starts"], b["ends"], b["weight"], b["state"], b["picked"], n)
            do.fill(b["left"], np.int32(0))
            do(keep, (up(self.n, 128),), (128,), b["picked"], b["state"], n)
            do(drop, (up(self.n, 128),), (128,), b["starts"], b["ends"], b["picked"], b["state"], b["left"], n)

        do.loop_while(b["left"], turn)


class Tiles(HostProgram):
    """Tiles of 16x16 in local memory with several steps in each, as of a heat equation with a power map."""

    source = """
        #define SIDE 16
        #define INSIDE(x, low, high) ((x) >= (low) && (x) <= (high))
        __kernel __attribute__((reqd_work_group_size(SIDE, SIDE, 1)))
        void heat(int steps, global float *power, global float *from, global float *to, int side, float c, float step)
        {
            local float now[SIDE][SIDE], heat[SIDE][SIDE];
            __local float next[SIDE][SIDE];
            const int tx = get_local_id(0), ty = get_local_id(1), inner = SIDE - 2 * steps;
            const int x = inner * (int)get_group_id(0) - steps + tx, y = inner * (int)get_group_id(1) - steps + ty;
            const int in_grid = INSIDE(x, 0, side - 1) && INSIDE(y, 0, side - 1);
            if (in_grid) {
                now[ty][tx] = from[y * side + x];
                heat[ty][tx] = power[y * side + x];
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            const int w = x > 0 ? tx - 1 : tx, e = x < side - 1 ? tx + 1 : tx;
            const int n = y > 0 ? ty - 1 : ty, s = y < side - 1 ? ty + 1 : ty;
            bool computed = false;
            for (int i = 0; i < steps; i++) {
                computed = false;
                if (INSIDE(tx, i + 1, SIDE - i - 2) && INSIDE(ty, i + 1, SIDE - i - 2) && in_grid) {
                    computed = true;
                    next[ty][tx] = now[ty][tx] + step * (heat[ty][tx] +
                        c * (now[s][tx] + now[n][tx] + now[ty][e] + now[ty][w] - 4.0f * now[ty][tx]));
                }
                barrier(CLK_LOCAL_MEM_FENCE);
                if (i == steps - 1)
                    break;
                if (computed)
                    now[ty][tx] = next[ty][tx];
                barrier(CLK_LOCAL_MEM_FENCE);
            }
            if (computed)
                to[y * side + x] = next[ty][tx];
        }
    """

    def prepare(self) -> None:
        """Make the arrays."""
        self.side = 40 * self.scale
        shape = (self.side, self.side)
        self.arrays = {name: self.random.random(shape, np.float32) for name in ("power", "from", "to")}

    def run(self, do: Do) -> None:
        """Launch the kernels."""
        b, heat = self.buffers, self.kernel("heat")
        groups = -(-self.side // (16 - 4))
        more = (np.int32(self.side), np.float32(0.1), np.float32(0.3))
        one, other = b["from"], b["to"]
        for _ in range(6):
            do(heat, (groups * 16, groups * 16), (16, 16), np.int32(2), b["power"], one, other, *more)
            one, other = other, one


class Alignment(HostProgram):
    """A wavefront over blocks: sizes that change from launch to launch, and arguments in local memory."""

    source = """
        #define CELL(i, j) tile[(i) * (BLOCK + 1) + (j)]
        int largest(int a, int b, int c) { return max(a, max(b, c)); }

        kernel void block(global const int *reference, global int *score, local int *tile, local int *ref, int columns,
                          int penalty, int diagonal, int first)
        {
            const int bx = first + get_group_id(0), by = diagonal - bx, tx = get_local_id(0);
            const int at = columns * (by * BLOCK) + bx * BLOCK;
            for (int r = 0; r < BLOCK; r++)
                ref[r * BLOCK + tx] = reference[at + columns * (r + 1) + tx + 1];
            if (tx == 0)
                CELL(0, 0) = score[at];
            CELL(tx + 1, 0) = score[at + columns * (tx + 1)];
            CELL(0, tx + 1) = score[at + tx + 1];
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int m = 0; m < 2 * BLOCK - 1; m++) {
                const int x = tx + 1, y = m - tx + 1;
                if (y >= 1 && y <= BLOCK)
                    CELL(y, x) = largest(CELL(y - 1, x - 1) + ref[(y - 1) * BLOCK + x - 1], CELL(y, x - 1) - penalty,
                                         CELL(y - 1, x) - penalty);
                barrier(CLK_LOCAL_MEM_FENCE);
            }
            for (int r = 0; r < BLOCK; r++)
                score[at + columns * (r + 1) + tx + 1] = CELL(r + 1, tx + 1);
        }
    """
    options = ("-D", "BLOCK=16")

    def prepare(self) -> None:
        """Make the arrays."""
        self.blocks = 4 * self.scale
        n = self.columns = self.blocks * 16 + 1
        score = np.zeros((n, n), np.int32)
        score[0] = score[:, 0] = -3 * np.arange(n)
        self.arrays = {"reference": self.random.integers(-4, 10, (n, n)).astype(np.int32), "score": score}

    def run(self, do: Do) -> None:
        """Launch the kernels."""
        b, block = self.buffers, self.kernel("block")
        for diagonal in range(2 * self.blocks - 1):
            first = max(0, diagonal - self.blocks + 1)
            count = min(diagonal, self.blocks - 1) - first + 1
            memory = cl.LocalMemory(4 * 17 * 17), cl.LocalMemory(4 * 16 * 16)
            numbers = [np.int32(one) for one in (self.columns, 3, diagonal, first)]
            do(block, (count * 16,), (16,), b["reference"], b["score"], *memory, *numbers)


class Alternating(HostProgram):
    """Six kernels of rows and columns, one work-item a line, with sweeps in each."""

    source = """
        #define A(m, i, j) m[(i) * n + (j)]
        kernel void rows_down(global const double *a, global double *b, global double *x, int n)
        {
            int i = get_global_id(0);
            for (int j = 1; j < n; j++) {
                A(x, i, j) = A(x, i, j) - A(x, i, j - 1) * A(a, i, j) / A(b, i, j - 1);
                A(b, i, j) = A(b, i, j) - A(a, i, j) * A(a, i, j) / A(b, i, j - 1);
            }
        }
        kernel void rows_end(global const double *b, global double *x, int n)
        {
            int i = get_global_id(0);
            A(x, i, n - 1) = A(x, i, n - 1) / A(b, i, n - 1);
        }
        kernel void rows_up(global const double *a, global const double *b, global double *x, int n)
        {
            int i = get_global_id(0);
            for (int j = 0; j < n - 2; j++)
                A(x, i, n - j - 2) = (A(x, i, n - 2 - j) - A(x, i, n - 3 - j) * A(a, i, n - j - 3)) / A(b, i, n - 3 - j);
        }
        kernel void column(global const double *a, global double *b, global double *x, int n, int i)
        {
            int j = get_global_id(0);
            A(x, i, j) = A(x, i, j) - A(x, i - 1, j) * A(a, i, j) / A(b, i - 1, j);
            A(b, i, j) = A(b, i, j) - A(a, i, j) * A(a, i, j) / A(b, i - 1, j);
        }
        kernel void columns_end(global const double *b, global double *x, int n)
        {
            int j = get_global_id(0);
            A(x, n - 1, j) = A(x, n - 1, j) / A(b, n - 1, j);
        }
        kernel void column_up(global const double *a, global const double *b, global double *x, int n, int i)
        {
            int j = get_global_id(0);
            A(x, n - 2 - i, j) = (A(x, n - 2 - i, j) - A(x, n - i - 3, j) * A(a, n - 3 - i, j)) / A(b, n - 2 - i, j);
        }
    """

    def prepare(self) -> None:
        """Make the arrays."""
        n = self.n = 24 * self.scale
        self.arrays = {name: self.random.random((n, n)) for name in ("a", "x")}
        self.arrays["b"] = self.random.random((n, n)) + 3

    def run(self, do: Do) -> None:
        """Launch the kernels."""
        b, n = self.buffers, self.n
        given = [b["a"], b["b"], b["x"], np.int32(n)]
        kernel = {name: self.kernel(name) for name in ("rows_down", "rows_end", "rows_up")}
        kernel |= {name: self.kernel(name) for name in ("column", "columns_end", "column_up")}

        def step(_: Any) -> None:
            do(kernel["rows_down"], (n,), None, *given)
            do(kernel["rows_end"], (n,), None, *given[1:])
            do(kernel["rows_up"], (n,), None, *given)
            do.loop(n - 1, lambda i: do(kernel["column"], (n,), None, *given, i + 1))
            do(kernel["columns_end"], (n,), None, *given[1:])
            do.loop(n - 2, lambda i: do(kernel["column_up"], (n,), None, *given, i))

        do.loop(3, step)


class Speckles(HostProgram):
    """Sums of work-groups in local memory, and a scalar that another kernel computes of them for each step."""

    source = """
        kernel void prepare(global const float *image, global float *sums, global float *squares, int n)
        {
            int i = get_global_id(0);
            if (i < n) {
                sums[i] = image[i];
                squares[i] = image[i] * image[i];
            }
        }
        kernel void reduce(global const float *sums, global const float *squares, global float *partial, int n)
        {
            local float mine[64];
            local float other[64];
            const int i = get_global_id(0), lane = get_local_id(0);
            mine[lane] = i < n ? sums[i] : 0.0f;
            other[lane] = i < n ? squares[i] : 0.0f;
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int reach = get_local_size(0) / 2; reach > 0; reach /= 2) {
                if (lane < reach) {
                    mine[lane] += mine[lane + reach];
                    other[lane] += other[lane + reach];
                }
                barrier(CLK_LOCAL_MEM_FENCE);
            }
            if (lane == 0) {
                partial[get_group_id(0)] = mine[0];
                partial[get_num_groups(0) + get_group_id(0)] = other[0];
            }
        }
        kernel void finish(global const float *partial, global float *q, int groups, int n)
        {
            /* A vector: Intel's runtime adds scalars of a loop in another order in some launches. */
            float2 sums = 0;
            for (int g = 0; g < groups; ++g)
                sums += (float2)(partial[g], partial[groups + g]);
            float mean = sums.x / n;
            *q = (sums.y / n - mean * mean) / (mean * mean);
        }
        kernel void update(global const float *from, global float *to, global const float *q, int side, float lambda)
        {
            int x = get_global_id(0), y = get_global_id(1);
            if (x >= side || y >= side) return;
            const float here = from[y * side + x];
            const float l = from[y * side + (x > 0 ? x - 1 : 0)] - here, r = from[y * side + min(x + 1, side - 1)] - here;
            const float u = from[max(y - 1, 0) * side + x] - here, d = from[min(y + 1, side - 1) * side + x] - here;
            const float g = (l * l + r * r + u * u + d * d) / (here * here);
            to[y * side + x] = here + lambda * (l + r + u + d) / (1.0f + (g - *q) / (*q * (1 + *q)));
        }
    """

    def prepare(self) -> None:
        """Make the arrays."""
        self.side = 37 * self.scale
        image = self.random.random((self.side, self.side), np.float32) + 1
        zeros = np.zeros_like(image)
        self.arrays = {"one": image, "other": zeros, "sums": 1 * zeros, "squares": 1 * zeros}
        self.arrays |= {"partial": np.zeros(64 * self.scale**2, np.float32), "q": np.zeros(1, np.float32)}

    def run(self, do: Do) -> None:
        """Launch the kernels."""
        b, n = self.buffers, self.side**2
        groups = -(-n // 64)
        prepare, reduce, finish, update = (self.kernel(name) for name in ("prepare", "reduce", "finish", "update"))

        def half(one: cl.Buffer, other: cl.Buffer) -> None:
            do(prepare, (groups * 64,), (64,), one, b["sums"], b["squares"], np.int32(n))
            do(reduce, (groups * 64,), (64,), b["sums"], b["squares"], b["partial"], np.int32(n))
            do(finish, (1,), (1,), b["partial"], b["q"], np.int32(groups), np.int32(n))
            do(
                update,
                (up(self.side, 16), up(self.side, 16)),
                (16, 16),
                one,
                other,
                b["q"],
                np.int32(self.side),
                np.float32(0.05),
            )

        def step(_: Any) -> None:
            half(b["one"], b["other"])
            half(b["other"], b["one"])

        do.loop(4, step)


class Scans(HostProgram):
    """A sort by digits: counts, a scan of one work-group in local memory, and a scatter; a union of local memory."""

    source = """
        kernel void count(global const uint *keys, global uint *counts, int n, int shift)
        {
            local uint bins[16];
            const int lane = get_local_id(0);
            if (lane < 16)
                bins[lane] = 0;
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int i = get_global_id(0); i < n; i += get_global_size(0))
                atomic_inc(&bins[keys[i] >> shift & 15]);
            barrier(CLK_LOCAL_MEM_FENCE);
            if (lane < 16)
                counts[lane * get_num_groups(0) + get_group_id(0)] = bins[lane];
        }
        kernel void scan(global uint *counts, local uint *sums, int n)
        {
            const int lane = get_local_id(0), size = get_local_size(0);
            local uint carry;
            if (lane == 0)
                carry = 0;
            for (int base = 0; base < n; base += size) {
                const uint own = base + lane < n ? counts[base + lane] : 0;
                sums[lane] = own;
                barrier(CLK_LOCAL_MEM_FENCE);
                for (int step = 1; step < size; step *= 2) {
                    const uint left = lane >= step ? sums[lane - step] : 0;
                    barrier(CLK_LOCAL_MEM_FENCE);
                    sums[lane] += left;
                    barrier(CLK_LOCAL_MEM_FENCE);
                }
                if (base + lane < n)
                    counts[base + lane] = carry + sums[lane] - own;
                barrier(CLK_LOCAL_MEM_FENCE);
                if (lane == 0)
                    carry += sums[size - 1];
                barrier(CLK_LOCAL_MEM_FENCE);
            }
        }
        kernel void scatter(global const uint *keys, global uint *to, global const uint *counts, int n, int shift)
        {
            local uint place[16];
            const int lane = get_local_id(0);
            if (lane < 16)
                place[lane] = counts[lane * get_num_groups(0) + get_group_id(0)];
            barrier(CLK_LOCAL_MEM_FENCE);
            if (lane != 0)
                return;
            for (int base = get_group_id(0) * get_local_size(0); base < n; base += get_global_size(0))
                for (int i = base; i < min(n, base + (int)get_local_size(0)); ++i)
                    to[place[keys[i] >> shift & 15]++] = keys[i];
        }
    """

    def prepare(self) -> None:
        """Make the arrays."""
        self.n = 900 * self.scale**2
        keys = self.random.integers(0, 1 << 16, self.n).astype(np.uint32)
        self.arrays = {"keys": keys, "other": 0 * keys, "counts": np.zeros(16 * 4, np.uint32)}

    def run(self, do: Do) -> None:
        """Launch the kernels."""
        b, n = self.buffers, np.int32(self.n)
        count, scan, scatter = (self.kernel(name) for name in ("count", "scan", "scatter"))
        one, other = b["keys"], b["other"]
        for shift in range(0, 16, 4):
            do(count, (128,), (32,), one, b["counts"], n, np.int32(shift))
            do(scan, (32,), (32,), b["counts"], cl.LocalMemory(4 * 32), np.int32(64))
            do(scatter, (128,), (32,), one, other, b["counts"], n, np.int32(shift))
            one, other = other, one


class Flow(HostProgram):
    """A structure as an argument, constant memory, vectors, a 3-D range with an offset, and early returns."""

    source = """
        typedef struct { float dt; int skip; float weight[3]; } setting;
        constant float shares[4] = {0.25f, 0.5f, 0.125f, 0.0625f};

        size_t here(void)
        {
            return (get_global_id(2) * 10 + get_global_id(1)) * 12 + get_global_id(0);
        }
        kernel void flux(global const float4 *from, global float4 *to, constant float *table, setting with, float4 base)
        {
            const size_t i = here();
            if (get_global_id(0) == (size_t)with.skip)
                return;
            float most[3];
            for (int k = 0; k < 3; ++k)
                most[k] = with.weight[k] * table[k] + from[i][k];
            to[i] = from[i] * with.dt + base + (float4)(most[(i + 1) % 3], shares[i % 4], most[i % 3], get_global_offset(1));
        }
        kernel void places(global int *out)
        {
            const size_t i = here();
            out[i] = (int)(get_work_dim() + 10 * get_local_id(0) + 100 * get_group_id(1) + 1000 * get_num_groups(2)
                + 10000 * get_local_size(1) + 100000 * get_global_linear_id());
        }
    """
    options = ("-cl-std=CL2.0",)

    def prepare(self) -> None:
        """Make the arrays."""
        cells = 12 * 10 * 8
        self.arrays = {name: self.random.random((cells, 4), np.float32) for name in ("one", "other")}
        self.arrays |= {"table": self.random.random(3, np.float32), "out": np.zeros(cells, np.int32)}

    def run(self, do: Do) -> None:
        """Launch the kernels."""
        b = self.buffers
        with_ = np.zeros(1, [("dt", np.float32), ("skip", np.int32), ("weight", np.float32, 3)])
        with_[0] = (0.5, 7, (1, 2, 3))
        base = np.array([1, 2, 3, 4], np.float32)
        flux, places = self.kernel("flux"), self.kernel("places")

        def step(_: Any) -> None:
            do(flux, (8, 6, 4), (4, 3, 2), b["one"], b["other"], b["table"], with_, base, offset=(3, 2, 1))
            do(places, (8, 6, 4), (4, 3, 2), b["out"], offset=(0, 0, 0))
            do(flux, (8, 6, 4), (4, 3, 2), b["other"], b["one"], b["table"], with_, base, offset=(3, 2, 1))

        do.loop(3, step)


class AllPaths(HostProgram):
    """Shortest paths of all pairs by squares: a kernel whose argument is an affine function of the turn, and a copy."""

    source = """
        kernel void relax(global const int *from, global int *to, uint n, uint k)
        {
            const uint x = get_global_id(0), y = get_global_id(1);
            to[y * n + x] = min(from[y * n + x], from[y * n + k] + from[k * n + x]);
        }
    """

    def prepare(self) -> None:
        """Make the arrays."""
        n = self.n = 32 * self.scale
        self.arrays = {
            "one": self.random.integers(1, 1000, (n, n)).astype(np.int32),
            "other": np.zeros((n, n), np.int32),
        }

    def run(self, do: Do) -> None:
        """Launch the kernels."""
        b, relax, n = self.buffers, self.kernel("relax"), self.n

        def step(turn: Any) -> None:
            last = turn * -1 + (n - 1)
            last = np.uint32(last) if isinstance(last, np.generic) else last
            do(relax, (n, n), (8, 8), b["one"], b["other"], np.uint32(n), last)
            do.copy(b["one"], b["other"])

        do.loop(n, step)


class Halves(HostProgram):
    """A loop in a loop with a flag, and steps under a condition."""

    source = """
        kernel void halve(global uint *values, global uint *odd, global uint *more)
        {
            const size_t i = get_global_id(0);
            const uint v = values[i];
            if (v > 1 && v % 2 == 0) values[i] = v / 2;
            if (v > 1 && v % 2 == 0) *more = 1;
            if (v > 1 && v % 2) *odd = 1;
        }
        kernel void grow(global uint *values, global uint *more)
        {
            const size_t i = get_global_id(0);
            const uint v = values[i];
            if (v > 1 && v % 2) {
                values[i] = 3 * v + 1;
                *more = 1;
            }
        }
    """

    def prepare(self) -> None:
        """Make the arrays."""
        values = self.random.integers(2, 60, 50).astype(np.uint32)
        self.arrays = {"values": values, "odd": np.zeros(1, np.uint32), "more": np.ones(1, np.uint32)}

    def run(self, do: Do) -> None:
        """Launch the kernels."""
        b, halve, grow = self.buffers, self.kernel("halve"), self.kernel("grow")

        def turn(_: Any) -> None:
            do.fill(b["more"], np.uint32(0))
            do.fill(b["odd"], np.uint32(0))
            do.loop(2, lambda _: do(halve, (50,), None, b["values"], b["odd"], b["more"]))
            do.on(b["odd"], lambda: do(grow, (50,), (10,), b["values"], b["more"]))

        do.loop_while(b["more"], turn)


class Bitonic(HostProgram):
    """A sort with steps in local memory and steps over all memory; many launches of two kernels."""

    source = """
        void compare(global uint *one, global uint *other, bool up)
        {
            const uint a = *one, b = *other;
            if ((a > b) == up) {
                *one = b;
                *other = a;
            }
        }
        kernel void exchange(global uint *keys, uint span, uint reach)
        {
            const uint i = get_global_id(0), low = i / reach * 2 * reach + i % reach;
            compare(keys + low, keys + low + reach, (low & span) == 0);
        }
        kernel void steps_in_group(global uint *keys, uint span)
        {
            local uint mine[128];
            const uint base = get_group_id(0) * 128, lane = get_local_id(0);
            mine[lane] = keys[base + lane];
            mine[lane + 64] = keys[base + lane + 64];
            for (uint reach = min(span / 2, 64u); reach > 0; reach /= 2) {
                barrier(CLK_LOCAL_MEM_FENCE);
                const uint low = lane / reach * 2 * reach + lane % reach;
                const bool up = ((base + low) & span) == 0;
                const uint a = mine[low], b = mine[low + reach];
                if ((a > b) == up) {
                    mine[low] = b;
                    mine[low + reach] = a;
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            keys[base + lane] = mine[lane];
            keys[base + lane + 64] = mine[lane + 64];
        }
    """

    def prepare(self) -> None:
        """Make the arrays."""
        self.n = 1024 * self.scale**2
        self.arrays = {"keys": self.random.integers(0, 1 << 32, self.n, np.uint32)}

    def run(self, do: Do) -> None:
        """Launch the kernels."""
        b, step, group = self.buffers, self.kernel("exchange"), self.kernel("steps_in_group")
        span = 2
        while span <= self.n:
            half = span // 2
            while half > 64:
                do(step, (self.n // 2,), (64,), b["keys"], np.uint32(span), np.uint32(half))
                half //= 2
            do(group, (self.n // 2,), (64,), b["keys"], np.uint32(span))
            span *= 2


class Demons(HostProgram):
    """Registration of two images, which are only read: a force moves a field of vectors, which is smoothed (Thirion, 1998)."""

    source = """
        constant sampler_t nearest = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;

        float at(read_only image2d_t picture, int2 place)
        {
            return read_imagef(picture, nearest, place).x;
        }
        kernel void force(read_only image2d_t fixed, read_only image2d_t moving, global const float2 *from, global float2 *to)
        {
            const int2 place = (int2)(get_global_id(0), get_global_id(1)), x = (int2)(1, 0), y = (int2)(0, 1);
            const int i = place.y * get_image_width(fixed) + place.x;
            const float2 moved = from[i];
            const float2 slope = 0.5f * (float2)(at(fixed, place + x) - at(fixed, place - x),
                                                 at(fixed, place + y) - at(fixed, place - y));
            const float difference = at(moving, place + convert_int2_rte(moved)) - at(fixed, place);
            to[i] = moved - slope * (difference / (dot(slope, slope) + difference * difference + 1e-3f));
        }
        kernel void smooth(global const float2 *from, global float2 *to, int n)
        {
            const int x = get_global_id(0), y = get_global_id(1);
            float2 sum = 0.0f;
            for (int dy = -1; dy <= 1; ++dy)
                for (int dx = -1; dx <= 1; ++dx)
                    sum += from[clamp(y + dy, 0, n - 1) * n + clamp(x + dx, 0, n - 1)];
            to[y * n + x] = sum / 9.0f;
        }
    """

    def prepare(self) -> None:
        """Make the arrays, and the images: a bright spot, and the same elsewhere."""
        self.n = 32 * self.scale
        y, x = np.mgrid[: self.n, : self.n] / self.n
        format_ = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT)
        self.images = []
        for centre in (0.45, 0.55):
            picture = np.zeros((self.n, self.n, 4), np.float32)
            picture[..., 0] = np.exp(-20 * ((x - centre) ** 2 + (y - 0.5) ** 2))
            flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
            self.images.append(cl.create_image(self.context, flags, format_, (self.n, self.n), hostbuf=picture))
        self.arrays = {name: np.zeros((self.n, self.n, 2), np.float32) for name in ("field", "other")}

    def run(self, do: Do) -> None:
        """Launch the kernels."""
        b, size, local = self.buffers, (self.n, self.n), (8, 8)
        force, smooth = self.kernel("force"), self.kernel("smooth")

        def step(_: Any) -> None:
            do(force, size, local, *self.images, b["field"], b["other"])
            do(smooth, size, local, b["other"], b["field"], np.int32(self.n))

        do.loop(60, step)


PROGRAMS: Final[tuple[type[HostProgram], ...]] = (
    *(BreadthFirst, Elimination, Waves, IndependentSets, Tiles, Alignment, Alternating, Speckles, Scans, Flow),
    *(AllPaths, Halves, Bitonic, Demons),
)
