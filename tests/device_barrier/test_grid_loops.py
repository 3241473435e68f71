"""Loops over a grid: each element is taken once, whatever the sizes, by fixed shares and by claims."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest

import portbar

pytestmark = pytest.mark.device

SOURCE = """
#include "portbar/device_barrier.h"

kernel void line(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR(i, &grid, n)
        atomic_add(&a[i], i + 1u);
}

kernel void plane(PORTBAR_GRID_PARAM, global uint *a, uint width, uint height)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR_2D(column, row, &grid, width, height) {
        if (column == 3u)
            continue;
        atomic_add(&a[row * width + column], row * width + column + 1u);
    }
}

kernel void space(PORTBAR_GRID_PARAM, global uint *a, uint width, uint height, uint depth)
{
    PORTBAR_ENTER(grid);
    /* Any names, also those of vector components in another order. */
    PORTBAR_FOR_3D(z, row, x, &grid, width, height, depth)
        atomic_add(&a[(x * height + row) * width + z], (x * height + row) * width + z + 1u);
}

/* Loops in one another, and a range that is told by an expression. */
kernel void nested(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    uint calls = 0u;
    PORTBAR_FOR(i, &grid, n + calls++)
        for (uint k = 0u; k < 3u; ++k)
            atomic_add(&a[i], k == 1u ? i + 1u : 0u);
    if (calls != 1u)
        a[0] = 0u;
}

/* Every other loop has as many tiles as the one before has chunks, so that tickets kept for the next loop show. */
kernel void dynamic(PORTBAR_GRID_PARAM, global uint *a, uint n, uint chunk, uint loops)
{
    PORTBAR_ENTER(grid);
    for (uint k = 0u; k < loops; ++k) {
        PORTBAR_FOR_DYNAMIC(i, &grid, n, chunk)
            atomic_add(&a[i], i + 1u);
        PORTBAR_FOR_TILES(t, &grid, n)
            if (get_local_id(0) + get_local_id(1) + get_local_id(2) == 0u)
                atomic_add(&a[t], t + 1u);
    }
}

/* Tiles with a barrier inside: each group adds what its work-items put into local memory. */
kernel void meeting(PORTBAR_GRID_PARAM, global uint *sums, local uint *shelf, uint count)
{
    PORTBAR_ENTER(grid);
    const uint me = (uint)get_local_id(0), all = (uint)get_local_size(0);
    PORTBAR_FOR_TILES(tile, &grid, count) {
        const uint t = tile;
        shelf[me] = t + me;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (me == 0u) {
            uint sum = 0u;
            for (uint k = 0u; k < all; ++k)
                sum += shelf[k];
            sums[t] += sum;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

/* Tiles of fixed shares, with barriers inside, in one to three dimensions: each work-item puts its tile into local memory
   that the tile before has read, and the leader adds them up. */
#define SHELF(at)                                                 \\
    shelf[me] = (at) + me;                                        \\
    barrier(CLK_LOCAL_MEM_FENCE);                                 \\
    if (me == 0u)                                                 \\
        for (uint k = 0u; k < all; ++k)                           \\
            sums[at] += shelf[k]

kernel void static_line(PORTBAR_GRID_PARAM, global uint *sums, local uint *shelf, uint count, uint rounds)
{
    PORTBAR_ENTER(grid);
    const uint me = portbar_local_linear_id(), all = portbar_local_linear_size();
    for (uint r = 0u; r < rounds; ++r) {
        PORTBAR_FOR_TILES_STATIC(tile, &grid, count) {
            SHELF(tile);
        }
        if (!portbar_device_barrier(&grid))
            return;
    }
}

/* Columns from `some` on are skipped by all. */
kernel void static_plane(PORTBAR_GRID_PARAM, global uint *sums, local uint *shelf, uint across, uint down, uint some)
{
    PORTBAR_ENTER(grid);
    const uint me = portbar_local_linear_id(), all = portbar_local_linear_size();
    uint calls = 0u;
    PORTBAR_FOR_TILES_STATIC_2D(x, y, &grid, across + calls++, down) {
        if (x >= some)
            continue;
        const uint at = y * across + x;
        SHELF(at);
    }
    if (calls != 1u)
        sums[0] = 0u;
}

kernel void static_space(PORTBAR_GRID_PARAM, global uint *sums, local uint *shelf, uint across, uint down, uint deep)
{
    PORTBAR_ENTER(grid);
    const uint me = portbar_local_linear_id(), all = portbar_local_linear_size();
    /* Names in another order. */
    PORTBAR_FOR_TILES_STATIC_3D(z, row, x, &grid, across, down, deep) {
        const uint at = (x * down + row) * across + z;
        if (me != 0u && row == 1u)
            shelf[me] = 0u;
        barrier(CLK_LOCAL_MEM_FENCE);
        SHELF(at);
    }
}

/* Each group leaves its share after `some` tiles. */
kernel void static_leaving(PORTBAR_GRID_PARAM, global uint *a, global uint *groups, uint count, uint some)
{
    PORTBAR_ENTER(grid);
    uint done = 0u;
    PORTBAR_FOR_TILES_STATIC(t, &grid, count) {
        if (get_local_id(0) == 0u)
            atomic_add(&a[t], t + 1u);
        if (++done == some)
            break;
    }
    if (get_local_id(0) == 0u)
        groups[portbar_group_id(&grid)] = done;
}

/* Loops in branches that all take, with a lane's code at their start, and with a return after one. */
kernel void branches(PORTBAR_GRID_PARAM, global uint *a, uint n, uint turns)
{
    PORTBAR_ENTER(grid);
    for (uint k = 0u; k < turns; ++k) {
        if (k % 2u == 0u) {
            PORTBAR_FOR_DYNAMIC(i, &grid, n, 5u)
                atomic_add(&a[i], i + 1u);
        } else if (k % 4u == 1u) {
            PORTBAR_FOR_TILES(t, &grid, n) {
                if (get_local_id(0) + get_local_id(1) + get_local_id(2) != 0u)
                    continue;
                atomic_add(&a[t], t + 1u);
            }
        } else {
            PORTBAR_FOR(i, &grid, n) {
                if (i % 2u == 0u) {
                    atomic_add(&a[i], i + 1u);
                } else
                    atomic_add(&a[i], i + 1u);
            }
        }
        if (!portbar_device_barrier(&grid))
            return;
    }
}

/* Each group takes `some` tiles and leaves; those of the next loop are all taken. */
kernel void leaving(PORTBAR_GRID_PARAM, global uint *a, uint count, uint some, uint rounds)
{
    PORTBAR_ENTER(grid);
    for (uint r = 0u; r < rounds; ++r) {
        uint done = 0u;
        PORTBAR_FOR_TILES(t, &grid, count) {
            if (get_local_id(0) == 0u)
                atomic_add(&a[t], 1u);
            if (++done == some)
                break;
        }
        if (!portbar_device_barrier(&grid))
            return;
        PORTBAR_FOR_TILES(t, &grid, count)
            if (get_local_id(0) == 0u)
                atomic_add(&a[count + t], 1u);
        if (!portbar_device_barrier(&grid))
            return;
    }
}

/* Strided loops over one element, so that the compiler knows the bound: by leaders, then by all work-items. */
kernel void only(PORTBAR_GRID_PARAM, volatile global uint *a)
{
    PORTBAR_ENTER(grid);
    if (get_local_id(0) == 0u)
        for (uint i = portbar_group_id(&grid); i < 1u; i += portbar_num_groups(&grid))
            a[i] = 1u;
    if (!portbar_device_barrier(&grid))
        return;
    for (uint i = portbar_global_id(&grid); i < 1u; i += portbar_global_size(&grid))
        a[i] += 1u;
    portbar_device_barrier(&grid);
}
"""

INDEPENDENT = """
#include "portbar/device_barrier.h"

/* Two steps: the second one reads elements that others wrote, on the far side. */
kernel void line(PORTBAR_GRID_PARAM, global const uint *a, global uint *b, global uint *c, uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR(i, &grid, n, independent) {
        if (a[i] % 3u == 0u)
            continue;
        b[i] = a[i] * a[i] + i;
    }
    if (!portbar_device_barrier(&grid))
        return;
    PORTBAR_FOR(i, &grid, n, independent)
        c[i] = b[n - 1u - i] + (i == 0u ? 0u : b[i - 1u]);
}

kernel void plane(PORTBAR_GRID_PARAM, global const uint *a, global uint *b, global uint *c, uint width, uint height)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR_2D(x, y, &grid, width, height, independent) {
        const size_t i = (size_t)y * width + x;
        b[i] = a[i] * 7u + x * 5u + y;
    }
    uint small = 0u;
    PORTBAR_FOR_2D(x, y, &grid, width, height, independent)
        small += a[(size_t)y * width + x] < 5u ? 1u : 0u;
    if (portbar_device_barrier_sum(&grid, small) == 0u && width * height > 99u)
        return;
    PORTBAR_FOR_2D(x, y, &grid, width, height, independent) {
        if (y == 1u)
            continue;
        c[(size_t)y * width + x] = b[(size_t)(height - 1u - y) * width + x] + (x == 0u ? 0u : b[(size_t)y * width + x - 1u]);
    }
}

kernel void space(
    PORTBAR_GRID_PARAM, global const uint *a, global uint *b, global uint *c, uint width, uint height, uint depth)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR_3D(x, y, z, &grid, width, height, depth, independent) {
        const size_t i = ((size_t)z * height + y) * width + x;
        b[i] = a[i] ^ (x + 3u * y + 9u * z);
    }
    if (!portbar_device_barrier(&grid))
        return;
    PORTBAR_FOR_3D(x, y, z, &grid, width, height, depth, independent) {
        const size_t i = ((size_t)z * height + y) * width + x;
        c[i] = b[((size_t)(depth - 1u - z) * height + y) * width + x] + 1u;
    }
}
"""
#: A turn with an array of its own, and one with the address of a variable. Each makes the turns' memory one to a compiler.
PRIVATE = """
#include "portbar/device_barrier.h"

void turn_into(private uint *v, uint by)
{
    for (uint k = 0u; k < by % 4u; ++k)
        *v = *v * 3u + k;
}

kernel void arrays(PORTBAR_GRID_PARAM, global const uint *a, global uint *b, uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR(i, &grid, n, independent) {
        uint t[8];
        for (uint k = 0u; k < 8u; ++k)
            t[k] = i * k;
        b[i] = t[a[i] & 7u] + t[(a[i] + 3u) & 7u];
    }
}

kernel void addresses(PORTBAR_GRID_PARAM, global const uint *a, global uint *b, uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR(i, &grid, n, independent) {
        uint v = i;
        turn_into(&v, a[i]);
        b[i] = v;
    }
}

kernel void counts(PORTBAR_GRID_PARAM, global const uint *a, global uint *b, uint n)
{
    PORTBAR_ENTER(grid);
    uint bins[8] = { 0u };
    PORTBAR_FOR(i, &grid, n, independent)
        bins[a[i] & 7u] += i;
    for (uint k = 0u; k < 8u; ++k)
        atomic_add(&b[k], bins[k]);
}
"""

LOCALS = [(1,), (7,), (64,), (4, 4), (2, 3, 2)]
FORMS = {"pieces": True, "strides": False}


@functools.cache
def built(context: cl.Context, form: str, source: str = SOURCE) -> portbar.Program:
    """Build a program once for each form."""
    strategy = portbar.choose(portbar.describe(context.devices[0])).with_units(loops_in_pieces=FORMS[form])
    return portbar.Program(context, source, strategy=strategy, spin_limit=20.0)


@pytest.fixture(params=FORMS)
def program(context, request) -> portbar.Program:
    """Both forms of fixed shares on every device."""
    return built(context, request.param)


@pytest.fixture
def taken(queue, program) -> Callable[..., np.ndarray]:
    """Run a kernel over zeros and return how often each element was taken; -1 where it got something else."""

    def run(kernel: str, n: int, local: tuple[int, ...], *args: int) -> np.ndarray:
        a = cl.array.zeros(queue, max(n, 1), np.uint32)
        program.kernel(kernel)(queue, None, local, a, *map(np.uint32, args)).wait()
        found, each = a.get()[:n].astype(np.int64), np.arange(1, n + 1)
        return np.where(found % each == 0, found // each, -1)

    return run


@pytest.mark.parametrize("local", LOCALS, ids=str)
def test_each_element_of_a_line_is_taken_once(taken, local):
    for n in (0, 1, 5, 63, 64, 65, 1_000):
        assert (taken("line", n, local, n) == 1).all()
        assert (taken("nested", n, local, n) == 1).all()


@pytest.mark.parametrize("local", LOCALS, ids=str)
def test_each_element_of_a_plane_is_taken_once_beside_those_that_continue_skips(taken, local):
    for width, height in ((0, 3), (3, 0), (1, 1), (5, 7), (64, 1), (1, 64), (33, 17), (100, 9)):
        found = taken("plane", width * height, local, width, height).reshape(height, width)
        assert (found[:, :3] == 1).all()
        assert (found[:, 3:4] == 0).all()
        assert (found[:, 4:] == 1).all()


@pytest.mark.parametrize("local", LOCALS, ids=str)
def test_each_element_of_a_space_is_taken_once(taken, local):
    for sides in ((1, 1, 1), (3, 4, 5), (17, 1, 3), (5, 9, 2), (0, 2, 2), (2, 2, 0)):
        assert (taken("space", int(np.prod(sides)), local, *sides) == 1).all()


def shelved(queue, program, kernel: str, n: int, local: tuple[int, ...], *args: int) -> tuple[np.ndarray, np.ndarray]:
    """The sums of `n` tiles that a kernel with a shelf leaves, and those of tiles that are each taken once."""
    all_items = int(np.prod(local))
    sums = cl.array.zeros(queue, max(n, 1), np.uint32)
    program.kernel(kernel)(queue, None, local, sums, cl.LocalMemory(4 * all_items), *map(np.uint32, args)).wait()
    return sums.get()[:n], np.arange(n) * all_items + all_items * (all_items - 1) // 2


@pytest.mark.parametrize("local", LOCALS, ids=str)
def test_each_static_tile_of_a_line_is_taken_once_in_each_round(queue, program, local):
    for n, rounds in ((0, 2), (1, 1), (2, 3), (5, 2), (63, 3), (200, 1)):
        found, once = shelved(queue, program, "static_line", n, local, n, rounds)
        np.testing.assert_array_equal(found, rounds * once)


@pytest.mark.parametrize("local", LOCALS, ids=str)
def test_each_static_tile_of_a_plane_is_taken_once_beside_those_that_continue_skips(queue, program, local):
    for across, down, some in ((0, 3, 9), (3, 0, 9), (1, 1, 9), (5, 7, 3), (16, 1, 9), (1, 16, 9), (9, 5, 9)):
        found, once = shelved(queue, program, "static_plane", across * down, local, across, down, some)
        x = np.arange(across * down) % max(across, 1)
        np.testing.assert_array_equal(found, np.where(x < some, once, 0))


@pytest.mark.parametrize("local", LOCALS, ids=str)
def test_each_static_tile_of_a_space_is_taken_once(queue, program, local):
    for sides in ((1, 1, 1), (3, 4, 5), (7, 1, 3), (2, 9, 2), (0, 2, 2), (2, 0, 2), (2, 2, 0)):
        found, once = shelved(queue, program, "static_space", int(np.prod(sides)), local, *sides)
        np.testing.assert_array_equal(found, once)


def test_groups_that_leave_static_tiles_leave_those_of_others(queue, program):
    kernel = program.kernel("static_leaving")
    for count, some in ((40, 3), (7, 100)):
        a, groups = cl.array.zeros(queue, count, np.uint32), cl.array.zeros(queue, 1 << 16, np.uint32)
        launch = kernel(queue, None, (5,), a, groups, np.uint32(count), np.uint32(some))
        launch.wait()
        each, more = divmod(count, launch.num_groups)
        shares = np.array([each + (g < more) for g in range(launch.num_groups)])
        np.testing.assert_array_equal(groups.get()[: launch.num_groups], np.minimum(shares, some))
        taken = a.get() / np.arange(1, count + 1)
        assert taken.sum() == np.minimum(shares, some).sum()
        assert set(taken) <= {0, 1}


@pytest.fixture(params=FORMS)
def stepped(context, queue, request) -> Callable[..., tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Run a kernel of the program with independent turns: its input, and what the two steps leave of 77."""

    def run(kernel: str, n: int, local: tuple[int, ...], *sides: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        given = np.random.default_rng(n).integers(0, 1_000, max(n, 1)).astype(np.uint32)
        a = cl.array.to_device(queue, given)
        b, c = (cl.array.to_device(queue, np.full(max(n, 1) + 64, 77, np.uint32)) for _ in range(2))
        built(context, request.param, INDEPENDENT).kernel(kernel)(
            queue, None, local, a, b, c, *map(np.uint32, sides)
        ).wait()
        found = b.get(), c.get()
        assert all((one[n:] == 77).all() for one in found), "elements beyond the end"
        return given[:n], found[0][:n], found[1][:n]

    return run


@pytest.mark.parametrize("local", LOCALS, ids=str)
def test_independent_turns_of_a_line_meet_at_a_barrier(stepped, local):
    for n in (0, 1, 2, 15, 16, 17, 63, 65, 1_000, 4_099):
        a, b, c = stepped("line", n, local, n)
        i = np.arange(n, dtype=np.uint32)
        np.testing.assert_array_equal(b, np.where(a % 3 == 0, 77, a * a + i))
        np.testing.assert_array_equal(c, b[::-1] + np.concatenate([[0], b])[:n])


@pytest.mark.parametrize("local", LOCALS, ids=str)
def test_independent_turns_of_a_plane_meet_at_barriers(stepped, local):
    for width, height in ((0, 3), (3, 0), (1, 1), (5, 7), (64, 1), (1, 64), (33, 17), (131, 9)):
        a, b, c = (one.reshape(height, width) for one in stepped("plane", width * height, local, width, height))
        y, x = np.mgrid[:height, :width].astype(np.uint32)
        np.testing.assert_array_equal(b, a * 7 + x * 5 + y)
        if width * height <= 99 or (a < 5).any():
            want = b[::-1] + np.pad(b, ((0, 0), (1, 0)))[:, :width]
            want[1:2] = 77
        else:
            want = np.full_like(c, 77)
        np.testing.assert_array_equal(c, want)


@pytest.mark.parametrize("local", LOCALS, ids=str)
def test_independent_turns_of_a_space_meet_at_a_barrier(stepped, local):
    for width, height, depth in ((1, 1, 1), (3, 4, 5), (37, 1, 3), (5, 9, 2), (0, 2, 2), (2, 2, 0), (67, 3, 4)):
        sides = width, height, depth
        a, b, c = (one.reshape(depth, height, width) for one in stepped("space", int(np.prod(sides)), local, *sides))
        z, y, x = np.mgrid[:depth, :height, :width].astype(np.uint32)
        np.testing.assert_array_equal(b, a ^ (x + 3 * y + 9 * z))
        np.testing.assert_array_equal(c, b[::-1] + 1)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("local", [(1,), (7,)], ids=str)
def test_turns_share_no_private_memory(context, queue, form, local):
    """A compiler that takes such turns for independent in all memory gives one array to several of them."""
    n = 1_001
    a = np.random.default_rng(3).integers(0, 1_000, n).astype(np.uint32)
    i = np.arange(n, dtype=np.uint32)
    turned = i.copy()
    for k in range(3):
        turned = np.where(k < a % 4, turned * 3 + k, turned)
    want = {
        "arrays": i * (a & 7) + i * ((a + 3) & 7),
        "addresses": turned,
        "counts": np.bincount(a & 7, weights=i, minlength=8).astype(np.uint32),
    }
    for kernel, expected in want.items():
        given, b = cl.array.to_device(queue, a), cl.array.zeros(queue, n, np.uint32)
        built(context, form, PRIVATE).kernel(kernel)(queue, None, local, given, b, np.uint32(n)).wait()
        np.testing.assert_array_equal(b.get()[: len(expected)], expected, err_msg=kernel)


@pytest.mark.parametrize("local", [*LOCALS, (1, 7)], ids=str)
def test_each_chunk_and_each_tile_is_claimed_once_without_barriers_between_loops(taken, local):
    for n in (0, 1, 5, 300):
        for chunk in (1, 7, 64, 0):
            assert (taken("dynamic", n, local, n, chunk, 5) == 10).all()


@pytest.mark.parametrize("local", [*LOCALS, (1, 7), (1, 1, 7)], ids=str)
def test_loops_may_stand_in_branches(taken, local):
    assert (taken("branches", 60, local, 60, 9) == 9).all()


def test_launches_begin_with_tickets_of_their_own(taken):
    for count in (3, 40, 1, 17):
        assert (taken("dynamic", count, (8,), count, 2, 1) == 2).all()


def test_a_tile_may_hold_barriers_of_its_group(context, queue, program):
    count, size = 50, 16
    sums = cl.array.zeros(queue, count, np.uint32)
    shelf = cl.LocalMemory(4 * size)
    program.kernel("meeting")(queue, None, (size,), sums, shelf, np.uint32(count)).wait()
    np.testing.assert_array_equal(sums.get(), size * np.arange(count) + size * (size - 1) // 2)


@pytest.mark.parametrize("local", [(1,), (5,), (64,)], ids=str)
def test_strided_loops_over_one_element_end(taken, local):
    """A compiler that thinks that a stride may be 0 sees a loop without end (the effect LOOPS_ENDLESS)."""
    assert taken("only", 1, local) == [2]


@pytest.mark.parametrize("some", [1, 3])
def test_groups_that_leave_a_loop_take_nothing_from_the_next_one(context, queue, program, some):
    count, rounds = 90, 4
    a = cl.array.zeros(queue, 2 * count, np.uint32)
    launch = program.kernel("leaving")(queue, None, (8,), a, *map(np.uint32, (count, some, rounds)))
    launch.wait()
    found = a.get()
    np.testing.assert_array_equal(found[count:], rounds)
    taken = min(count, launch.num_groups * some)
    np.testing.assert_array_equal(found[:count], [rounds] * taken + [0] * (count - taken))


def test_uneven_tiles_go_to_groups_that_are_free(context, queue):
    """One tile takes until all others are done, which only other groups can do."""
    program = portbar.Program(
        context,
        """
        #include "portbar/device_barrier.h"
        #include "portbar/atomics.h"

        kernel void uneven(PORTBAR_GRID_PARAM, global uint *by, global uint *done, uint count)
        {
            PORTBAR_ENTER(grid);
            PORTBAR_FOR_TILES(t, &grid, count) {
                by[t] = portbar_group_id(&grid);
                if (t != 0u)
                    atomic_inc(done);
                else
                    for (uint seen = 0u; seen < count - 1u; seen = portbar_atomic_load(done))
                        if (!portbar_atomic_wait(done, seen))
                            return;
            }
        }
        """,
        spin_limit=20.0,
    )
    count = 33
    kernel: Any = program.kernel("uneven")
    if kernel.occupancy(queue, (1,)).groups < 2:
        pytest.skip("one work-group at a time on this device: nobody else could take tiles")
    by, done = cl.array.zeros(queue, count, np.uint32), cl.array.zeros(queue, 1, np.uint32)
    kernel(queue, None, (1,), by, done, np.uint32(count)).wait()
    assert (by.get()[1:] != by.get()[0]).all()
