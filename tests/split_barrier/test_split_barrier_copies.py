"""Promises of the asynchronous copies in portbar/split_barrier.h: whole, in place, and visible to whom the header says."""

from __future__ import annotations

import numpy as np
import pytest

from tests.split_barrier.support import OVERLAPPING, by_mode, judge, kernel, local_uints, rounds
from tests.support import to_device, uints

pytestmark = pytest.mark.device

BYTES = [4, 8, 16]


def words(length, seed):
    return np.random.default_rng(seed).integers(0, 1 << 32, length, dtype=np.uint32)


OWN = r"""
kernel void own(global uint *bad, const global uint *source, local uint4 *room)
{
    BEGIN;
    local uint *copied = (local uint *)room;        /* an argument is aligned as its type is */
    const uint each = BYTES / 4u;
    for (uint k = 0u; k < each; ++k)
        copied[i * each + k] = 0u;
    portbar_copy_async(copied + i * each, source + place() * each, BYTES);
    portbar_copy_async_wait();
    for (uint k = 0u; k < each; ++k)
        CHECK(k, copied[i * each + k] == source[place() * each + k]);
    bad[place()] = wrong;
}
"""


@by_mode
@pytest.mark.parametrize("size", BYTES)
def test_a_work_item_sees_its_own_copy_after_copy_async_wait(context, queue, mode, size):
    made, seed = kernel(context, OWN.replace("BYTES", f"{size}u"), mode), 21
    source = to_device(queue, words(3 * 32 * size // 4, seed))
    judge(queue, made, (32,), source, local_uints(32 * size // 4), note=f"seed {seed}")


OTHERS = r"""
kernel void others(global uint *bad, const global uint *source, uint turns, local uint4 *room)
{
    BEGIN;
    local uint *copied = (local uint *)room;        /* an argument is aligned as its type is */
    local portbar_split_barrier b;
    const uint each = BYTES / 4u;
    INITIALIZE(b, EXPECTED);
    for (uint turn = 0u; turn < turns; ++turn) {
        local uint *now = copied + (turn & 1u) * n * each;
        const global uint *from = source + (get_group_id(0) + turn) * n * each;
        portbar_copy_async(now + i * each, from + i * each, BYTES);
        ARRIVE_COPIES(&b);
        const portbar_arrival_token token = portbar_split_barrier_arrive(&b);
        CHECK(0, portbar_split_barrier_wait(&b, token));
        for (uint j = 1u; j < n; j *= 2u)
            for (uint k = 0u; k < each; ++k)
                CHECK(1 + k, now[(i + j) % n * each + k] == from[(i + j) % n * each + k]);
    }
    END(b);
}
"""


@by_mode
@pytest.mark.parametrize("size", BYTES)
@pytest.mark.parametrize(("form", "expected"), [("arrive_copy_async", "n"), ("arrive_copy_async_no_inc", "2u * n")])
def test_all_see_the_copies_of_others_after_a_wait(context, queue, mode, size, form, expected):
    source = OTHERS.replace("BYTES", f"{size}u").replace("EXPECTED", expected)
    made = kernel(context, source.replace("ARRIVE_COPIES", f"portbar_split_barrier_{form}"), mode, OVERLAPPING)
    turns, seed, each = rounds(queue.device, 20), 22, size // 4
    tiles = to_device(queue, words((3 + turns) * 64 * each, seed))
    judge(queue, made, (64,), tiles, np.uint32(turns), local_uints(2 * 64 * each), note=f"seed {seed}")


NO_INC = r"""
#if defined(PORTBAR_COPY_ASYNC_HARDWARE) && PORTBAR_COPY_ASYNC_HARDWARE
#define ARRIVED(b, token) portbar_split_barrier_try_wait(b, token, 1u << 20)       /* the copies arrive when they are done */
#else
#define ARRIVED(b, token) portbar_split_barrier_test_wait(b, token)
#endif

kernel void no_inc(global uint *bad, const global uint *source, uint turns, local uint *copied)
{
    BEGIN;
    local portbar_split_barrier b;
    INITIALIZE(b, 64u * n);
    for (uint turn = 0u; turn < turns; ++turn) {
        portbar_copy_async(copied + i, source + place(), 4u);
        portbar_split_barrier_arrive_copy_async_no_inc(&b);
        portbar_split_barrier_arrive_no_complete(&b, 61u);
        const portbar_arrival_token token = portbar_split_barrier_arrive(&b);
        CHECK(0, !portbar_split_barrier_test_wait(&b, token));
        barrier(CLK_LOCAL_MEM_FENCE);
        CHECK(1, !portbar_split_barrier_test_wait(&b, token));
        barrier(CLK_LOCAL_MEM_FENCE);
        portbar_split_barrier_arrive(&b);
        portbar_copy_async_wait();
        barrier(CLK_LOCAL_MEM_FENCE);
        CHECK(2, ARRIVED(&b, token));
        CHECK(3, portbar_split_barrier_wait(&b, token));
        CHECK(4, copied[(i + 1u) % n] == source[place() - i + (i + 1u) % n]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    END(b);
}
"""


@by_mode
@pytest.mark.parametrize("local", [(1,), (64,)], ids=str)
def test_arrive_copy_async_no_inc_is_one_of_the_expected_arrivals(context, queue, mode, local):
    seed, turns = 23, rounds(queue.device, 5)
    arguments = (to_device(queue, words(3 * local[0], seed)), np.uint32(turns), local_uints(local[0]))
    judge(queue, kernel(context, NO_INC, mode, OVERLAPPING), local, *arguments, note=f"seed {seed}")


WITH_INC = r"""
kernel void with_inc(global uint *bad, const global uint *source, local uint *copied)
{
    BEGIN;
    local portbar_split_barrier b;
    INITIALIZE(b, n + 1u);
    portbar_copy_async(copied + i, source + place(), 4u);
    portbar_split_barrier_arrive_copy_async(&b);
    portbar_copy_async_wait();
    const portbar_arrival_token token = portbar_split_barrier_arrive(&b);
    barrier(CLK_LOCAL_MEM_FENCE);
    CHECK(0, !portbar_split_barrier_test_wait(&b, token));       /* the copies did not count as arrivals */
    barrier(CLK_LOCAL_MEM_FENCE);
    if (i == 0u)
        portbar_split_barrier_arrive(&b);
    CHECK(1, portbar_split_barrier_wait(&b, token));
    CHECK(2, copied[(i + 1u) % n] == source[place() - i + (i + 1u) % n]);
    END(b);
}
"""


@by_mode
def test_arrive_copy_async_leaves_the_count_as_it_was(context, queue, mode):
    seed = 24
    source = to_device(queue, words(3 * 64, seed))
    judge(queue, kernel(context, WITH_INC, mode, OVERLAPPING), (64,), source, local_uints(64), note=f"seed {seed}")


GROUP = r"""
kernel void by_group(global uint *bad, const global uint *source, uint from, uint to, uint length, uint room,
                     local uint *copied)
{
    BEGIN;
    local portbar_split_barrier b;
    const uint guard = 0xa5a5a5a5u;
    INITIALIZE(b, n);
    for (uint k = i; k < room; k += n)
        copied[k] = guard;
    barrier(CLK_LOCAL_MEM_FENCE);
    source += get_group_id(0) + from;
    portbar_copy_async_group(copied + to, source, 4u * length);
    portbar_split_barrier_arrive_copy_async(&b);
    CHECK(0, portbar_split_barrier_arrive_and_wait(&b));
    for (uint k = i; k < room; k += n) {
        const bool inside = k >= to && k - to < length;
        CHECK(1, inside || copied[k] == guard);
        CHECK(2, !inside || copied[k] == source[k - to]);
    }
    /* And once more by those who did not copy it: neighbours. */
    for (uint k = (i + 1u) % n; k < length; k += n)
        CHECK(3, copied[to + k] == source[k]);
    END(b);
}
"""


@by_mode
@pytest.mark.parametrize("local", [(1,), (24,), (8, 4), (64,)], ids=str)
def test_copy_async_group_copies_arrays_of_any_length_and_alignment_and_nothing_beside_them(
    context, queue, mode, local
):
    made = kernel(context, GROUP, mode)
    seed, n = 25, int(np.prod(local))
    source = to_device(queue, words(2048, seed))
    lengths = sorted({0, 1, 2, 3, 4, 5, 7, n - 1, n, n + 1, 4 * n - 1, 4 * n, 4 * n + 3, 997})
    for length in lengths:
        for shift in [(0, 0), (1, 0), (0, 1), (3, 3), (2, 6)]:
            room = length + 16
            arguments = (source, *map(np.uint32, (*shift, length, room)), local_uints(room))
            note = f"{length} words from word {shift[0]} to word {shift[1]}, seed {seed}"
            judge(queue, made, local, *arguments, groups=2, note=note)


PIPELINE = r"""
kernel void pipeline(global uint *bad, const global uint *tiles, uint count, uint length, global uint *sums, local uint *copied)
{
    BEGIN;
    local portbar_split_barrier ready[2];
    portbar_arrival_token tokens[2];
    uint sum = 0u;
    if (i < 1u) {
        portbar_split_barrier_initialize(&ready[0], 2u * n);
        portbar_split_barrier_initialize(&ready[1], 2u * n);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint tile = 0u; tile <= count; ++tile) {
        if (tile < count) {
            portbar_copy_async_group(copied + (tile & 1u) * length, tiles + tile * length, 4u * length);
            portbar_split_barrier_arrive_copy_async_no_inc(&ready[tile & 1u]);
            tokens[tile & 1u] = portbar_split_barrier_arrive(&ready[tile & 1u]);
        }
        if (tile > 0u) {
            const uint before = (tile - 1u) & 1u;
            CHECK(0, portbar_split_barrier_wait(&ready[before], tokens[before]));
            for (uint k = (i + tile) % n; k < length; k += n)
                sum += copied[before * length + k] * (k + tile);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
    sums[place()] = sum;
    END(ready[0]);
}
"""


@by_mode
def test_the_next_tile_is_copied_while_the_last_one_is_used(context, queue, mode):
    made, seed = kernel(context, PIPELINE, mode, OVERLAPPING), 26
    count, length, n, groups = rounds(queue.device, 20), 133, 32, 2
    tiles = words(count * length, seed)
    sums = to_device(queue, np.zeros(n * groups, np.uint32))
    arguments = (to_device(queue, tiles), np.uint32(count), np.uint32(length), sums, local_uints(2 * length))
    judge(queue, made, (n,), *arguments, groups=groups, note=f"seed {seed}")
    found = uints(queue, sums)
    expected = np.zeros(n, np.uint32)
    for tile in range(1, count + 1):
        k = np.arange(length)
        parts = tiles[(tile - 1) * length : tile * length] * (k + tile).astype(np.uint32)
        np.add.at(expected, (k - tile) % n, parts)
    assert (found.reshape(groups, n) == expected).all(), f"seed {seed}"
