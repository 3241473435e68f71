"""Loops over a grid beside strides and beside launches: `python -m benchmarks.loops --json`.

Whole programs, from their launch to the end of the wait; a ratio below 1 means that portbar's loop is faster. `fixed`
sweeps arrays, beside one launch per sweep; `independent` does so with turns that are declared independent, beside the same
loop without that; `tiles` does so with tiles in local memory; `uneven` deals out elements of very different cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pyopencl as cl
import pyopencl.array

import portbar
from benchmarks.shared import Row, Session, clock, command_line, number, plain, run, sampled, wrong

#: The statement for each element of a sweep; `x` and `y` are its place, `i` its index.
BODIES: Final = {
    "axpy": "b[i] = 0.5f * a[i] + 0.25f;",
    "jacobi": """
        b[i] = x == 0u || y == 0u || x == width - 1u || y == height - 1u
            ? a[i] : 0.25f * (a[i - 1] + a[i + 1] + a[i - width] + a[i + width]);""",
    "life": """
        if (x == 0u || y == 0u || x == width - 1u || y == height - 1u) {
            b[i] = 0.0f;
        } else {
            float n = 0.0f;
            for (uint k = 0u; k < 3u; ++k)
                n += a[i - width + k - 1u] + a[i + k - 1u] + a[i + width + k - 1u];
            b[i] = n == 3.0f || (n == 4.0f && a[i] != 0.0f) ? 1.0f : 0.0f;
        }""",
}
SIZES: Final = {"gpu": (64, 1024, 4096, 8192), "cpu": (64, 512, 2048)}
#: The parts of a tile's work, `at` the index of its first element: a stencil in several steps, and one with much arithmetic.
TILES: Final = {
    "heat": """
        const uint x = (uint)get_local_id(0), y = (uint)get_local_id(1), i = at + y * width + x;
        part[y][x] = a[i];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint k = 0u; k < 2u; ++k) {
            float v = part[y][x];
            if (x > 0u && x < SIDE - 1u && y > 0u && y < SIDE - 1u)
                v += 0.1f * (part[y - 1u][x] + part[y + 1u][x] + part[y][x - 1u] + part[y][x + 1u] - 4.0f * v);
            barrier(CLK_LOCAL_MEM_FENCE);
            part[y][x] = v;
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        b[i] = part[y][x];""",
    "powers": """
        const uint x = (uint)get_local_id(0), y = (uint)get_local_id(1), i = at + y * width + x;
        float v = a[i];
        for (uint k = 0u; k < 50u; ++k)
            v = v * v * 0.25f + 0.125f;
        part[y][x] = v;
        barrier(CLK_LOCAL_MEM_FENCE);
        b[i] = part[SIDE - 1u - y][x];""",
}
TILE_SIDE = 16
TILE_SIZES: Final = {"gpu": (64, 1024, 4096), "cpu": (64, 512, 2048)}
#: Chunks of the uneven program, and elements of each.
CHUNKS, CHUNK = 4096, 256
#: How often they are done.
ROUNDS = 10

#: Sweeps with the arrays in turns; `index` declares what the statements of an element or a tile need.
_LOOP: Final = """
#include "portbar/device_barrier.h"

#define LOOP(loop, index)                                              \\
    PORTBAR_ENTER(grid);                                               \\
    for (uint s = 0u; s < sweeps; ++s) {                               \\
        loop {                                                         \\
            index;                                                     \\
            BODY                                                       \\
        }                                                              \\
        if (!portbar_device_barrier(&grid))                            \\
            return;                                                    \\
        global float *t = a; a = b; b = t;                             \\
    }
"""

SWEEPS: Final = (
    _LOOP
    + """
#define HERE const INDEX i = (INDEX)y * width + x

kernel void loops(PORTBAR_GRID_PARAM, global float *a, global float *b, uint width, uint height, uint sweeps)
{
    LOOP(PORTBAR_FOR_2D(x, y, &grid, width, height), HERE)
}

kernel void turns(PORTBAR_GRID_PARAM, global float *a, global float *b, uint width, uint height, uint sweeps)
{
    LOOP(PORTBAR_FOR_2D(x, y, &grid, width, height, independent), HERE)
}

kernel void strides(PORTBAR_GRID_PARAM, global float *a, global float *b, uint width, uint height, uint sweeps)
{
    LOOP(for (uint k = portbar_global_id(&grid), x = k % width, y = k / width; k < width * height;
              k += portbar_global_size(&grid), x = k % width, y = k / width), HERE)
}

kernel void once(global float *a, global float *b, uint width, uint height)
{
    const uint x = get_global_id(0), y = get_global_id(1);
    HERE;
    BODY
}
"""
)

TILED: Final = (
    _LOOP
    + """
kernel void fixed(PORTBAR_GRID_PARAM, global float *a, global float *b, uint width, uint height, uint sweeps)
{
    local float part[SIDE][SIDE];
    LOOP(PORTBAR_FOR_TILES_STATIC_2D(tx, ty, &grid, width / SIDE, height / SIDE), const uint at = (ty * width + tx) * SIDE)
}

kernel void claimed(PORTBAR_GRID_PARAM, global float *a, global float *b, uint width, uint height, uint sweeps)
{
    local float part[SIDE][SIDE];
    const uint across = width / SIDE;
    LOOP(PORTBAR_FOR_TILES(tile, &grid, across * (height / SIDE)),
         const uint at = (tile / across * width + tile % across) * SIDE)
}

kernel void once(global float *a, global float *b, uint width, uint height)
{
    local float part[SIDE][SIDE];
    const uint at = ((uint)get_group_id(1) * width + (uint)get_group_id(0)) * SIDE;
    BODY
}
"""
)

UNEVEN: Final = """
#include "portbar/device_barrier.h"

/* Twice the steps for half of the elements, by a hash: as the degrees of a graph's vertices. */
inline float work(uint i)
{
    const uint steps = 8u << min(clz(i * 2654435761u), 11u);
    float x = (float)i;
    /* Said here, since some compilers unroll such a loop in short kernels only. */
    __attribute__((opencl_unroll_hint(8)))
    for (uint k = 0u; k < steps; ++k)
        x = x * 0.999f + 1.0f;
    return x;
}

#define LOOP(loop)                                                     \\
    PORTBAR_ENTER(grid);                                               \\
    for (uint r = 0u; r < rounds; ++r) {                               \\
        loop                                                           \\
            a[i] = work(i + r);                                        \\
        if (!portbar_device_barrier(&grid))                            \\
            return;                                                    \\
    }

kernel void dynamic(PORTBAR_GRID_PARAM, global float *a, uint n, uint rounds)
{
    LOOP(PORTBAR_FOR_DYNAMIC(i, &grid, n, CHUNK))
}

kernel void fixed(PORTBAR_GRID_PARAM, global float *a, uint n, uint rounds)
{
    LOOP(PORTBAR_FOR(i, &grid, n))
}

kernel void dealt(global float *a, uint r)
{
    a[get_global_id(0)] = work((uint)get_global_id(0) + r);
}
"""


def fixed(session: Session) -> Iterator[Row]:
    """Sweeps by `PORTBAR_FOR_2D` beside a loop with a stride in the same kernel, and beside a launch for each sweep."""
    local, strided = ((1,), (64,)) if session.is_cpu else ((32, 8), (256,))
    kernels = {"": ("loops", local), "a stride": ("strides", strided), "a launch for each sweep": ("once", None)}
    yield from swept(session, "", "uint", kernels)


def independent(session: Session) -> Iterator[Row]:
    """Sweeps by a loop with independent turns, and an index of 64 bits, beside the same loop without, and beside launches."""
    local = (1,) if session.is_cpu else (32, 8)
    kernels = {"": ("turns", local), "without it": ("loops", local), "a launch for each sweep": ("once", None)}
    yield from swept(session, "independent ", "size_t", kernels)


def swept(session: Session, prefix: str, index: str, kernels: dict[str, tuple[str, Any]]) -> Iterator[Row]:
    """Sweeps by kernels with an index of a type: peers with the kernel of each, and its local size, None for launches."""
    for name, body in BODIES.items():
        source = SWEEPS.replace("BODY", " ".join(body.split()))
        program = portbar.Program(session.context, source, options=[f"-DINDEX={index}"])
        yield from over_sizes(session, prefix + name, program, kernels, SIZES, None)


def tiles(session: Session) -> Iterator[Row]:
    """Sweeps by fixed shares of tiles beside tiles that groups claim, and beside a launch for each sweep."""
    local = (TILE_SIDE, TILE_SIDE)
    kernels = {"": ("fixed", local), "claimed tiles": ("claimed", local), "a launch for each sweep": ("once", None)}
    for name, body in TILES.items():
        source = TILED.replace("BODY", " ".join(body.split()))
        program = portbar.Program(session.context, source, options=[f"-DSIDE={TILE_SIDE}u"])
        yield from over_sizes(session, f"tiles {name}", program, kernels, TILE_SIZES, local)


def over_sizes(
    session: Session,
    benchmark: str,
    program: portbar.Program,
    kernels: Mapping[str, tuple[str, Any]],
    all_sizes: Mapping[str, tuple[int, ...]],
    launched: tuple[int, int] | None,
) -> Iterator[Row]:
    """Sweeps by the kernels of a program over the sizes of a device; launches have the local size `launched`."""
    queue = session.queue
    sizes = all_sizes["cpu" if session.is_cpu else "gpu"]
    for size in sizes[:2] if session.quick else sizes:
        sweeps = max(4, min(40 if session.quick else 200, (1 << 26) // size**2)) // 2 * 2
        start = np.random.default_rng(1).integers(0, 2, (size, size)).astype(np.float32)
        a, b = cl.array.to_device(queue, start), cl.array.to_device(queue, start)
        shape = np.uint32(size), np.uint32(size)

        def grid(kernel: Any, local: Any) -> None:
            kernel(queue, None, local, a, b, *shape, np.uint32(sweeps)).wait()  # noqa: B023 (called in this turn)

        def launches(kernel: Any) -> None:
            here, there = a, b  # noqa: B023 (called in this turn)
            for _ in range(sweeps):  # noqa: B023
                launch = kernel(queue, (size, size), launched or (min(64, size), 1), here, there, *shape)  # noqa: B023
                here, there = there, here
            launch.wait()

        runs: dict[str, Callable[[], None]] = {
            peer: partial(launches, program.kernel(kernel))
            if local is None
            else partial(grid, program.kernel(kernel), local)
            for peer, (kernel, local) in kernels.items()
        }
        yield from compared(session, benchmark, runs, (a, b), start, size=size, sweeps=sweeps)


def uneven(session: Session) -> Iterator[Row]:
    """Rounds of chunks that groups claim beside fixed shares, and beside launches of as many groups as there are chunks."""
    program = portbar.Program(session.context, UNEVEN, options=[f"-DCHUNK={CHUNK}u"])
    queue, n = session.queue, CHUNKS * CHUNK // (8 if session.quick else 1)
    local = 1 if session.is_cpu else 256
    a, given = cl.array.zeros(queue, n, np.float32), (np.uint32(n), np.uint32(ROUNDS))

    def launches() -> None:
        for r in range(ROUNDS):
            launch = program.kernel("dealt")(queue, (n,), (CHUNK,), a, np.uint32(r))
        launch.wait()

    runs: dict[str, Callable[[], None]] = {
        "": lambda: program.kernel("dynamic")(queue, None, (local,), a, *given).wait(),
        "fixed shares": lambda: program.kernel("fixed")(queue, None, (local,), a, *given).wait(),
        "a group for each chunk": launches,
    }
    yield from compared(session, "uneven", runs, (a,), np.zeros(n, np.float32), size=n, rounds=ROUNDS)


def compared(
    session: Session,
    benchmark: str,
    runs: dict[str, Callable[[], None]],
    arrays: tuple[cl.array.Array, ...],
    start: np.ndarray,
    **extra: Any,
) -> Iterator[Row]:
    """A row for each peer of the first run, once all have left the same in the first array from the same start."""
    results = []
    for action in runs.values():
        for array in arrays:
            array.set(start)
        action()
        results.append(arrays[0].get())
    if not all(np.array_equal(result, results[0]) for result in results):
        yield wrong(session, benchmark, "", "the results differ", **extra)
        return
    found = sampled({peer: partial(clock, action) for peer, action in runs.items()}, session.repeats)
    ours = found.pop("")
    for peer, times in found.items():
        yield session.compare(benchmark, peer, ours, times, **extra)


BENCHMARKS: Final[dict[str, Callable[[Session], Iterator[Row]]]] = {
    "fixed": fixed,
    "independent": independent,
    "tiles": tiles,
    "uneven": uneven,
}

COLUMNS: Final[dict[str, Callable[[Row], str]]] = {
    "benchmark": lambda row: row.benchmark,
    "size": lambda row: str(row.extra.get("size", "")),
    "sweeps": lambda row: str(row.extra.get("sweeps", "")),
    "peer": lambda row: row.peer,
    "ratio": lambda row: number(row.ratio),
    "ours, us": lambda row: number(row.ours_us),
    "peer, us": lambda row: number(row.peer_us),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 when a result was wrong, 3 when no usable device matches."""
    options = command_line("loops", __doc__, "small sizes and five repeats", BENCHMARKS).parse_args(arguments)
    return run(options, plain(options), BENCHMARKS, COLUMNS)


if __name__ == "__main__":
    raise SystemExit(main())
