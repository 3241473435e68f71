"""Promises of the asynchronous copies in portbar/split_barrier.h: whole, in place, and visible to whom the header says."""

from __future__ import annotations

import numpy as np
import pytest

from tests.split_barrier.support import OVERLAPPING, Promise, by_mode, judge, kept, kernel, local_uints
from tests.support import to_device

pytestmark = pytest.mark.device

BYTES = [4, 8, 16]


ARRIVED = r"""
#if defined(PORTBAR_COPY_ASYNC_HARDWARE) && PORTBAR_COPY_ASYNC_HARDWARE
#define ARRIVED(b, token) portbar_split_barrier_try_wait(b, token, 1u << 20)       /* the copies arrive when they are done */
#else
#define ARRIVED(b, token) portbar_split_barrier_test_wait(b, token)
#endif
"""

PROMISES = [
    *(
        Promise(
            f"a work-item sees its own copy of {size} bytes after copy_async_wait",
            r"""
        const uint each = BYTES / 4u;
        for (uint k = 0u; k < each; ++k)
            values[i * each + k] = 0u;
        portbar_copy_async(values + i * each, salt + place() * each, BYTES);
        portbar_copy_async_wait();
        for (uint k = 0u; k < each; ++k)
            CHECK(k, values[i * each + k] == salt[place() * each + k]);
        bad[place()] = wrong;
            """.replace("BYTES", f"{size}u"),
            locals=((32,),), words=4, salt=3 * 32 * 4, expected=None,
        )
        for size in BYTES
    ),
    *(
        Promise(
            f"all see copies of {size} bytes by others, that {form}, after a wait",
            r"""
        const uint each = BYTES / 4u;
        for (uint turn = 0u; turn < turns; ++turn) {
            local uint *now = values + (turn & 1u) * n * each;
            const global uint *from = salt + (get_group_id(0) + turn) * n * each;
            portbar_copy_async(now + i * each, from + i * each, BYTES);
            ARRIVE_COPIES(&b);
            const portbar_arrival_token token = portbar_split_barrier_arrive(&b);
            CHECK(0, portbar_split_barrier_wait(&b, token));
            for (uint j = 1u; j < n; j *= 2u)
                for (uint k = 0u; k < each; ++k)
                    CHECK(1 + k, now[(i + j) % n * each + k] == from[(i + j) % n * each + k]);
        }
            """.replace("BYTES", f"{size}u").replace("ARRIVE_COPIES", f"portbar_split_barrier_{form}"),
            turns=20, words=8, salt=23 * 64 * 4, require=(OVERLAPPING,), expected=expected,
        )
        for size in BYTES
        for form, expected in (("arrive_copy_async", "n"), ("arrive_copy_async_no_inc", "2u * n"))
    ),
    Promise(
        "arrive_copy_async_no_inc is one of the expected arrivals",
        ARRIVED
        + r"""
    for (uint turn = 0u; turn < turns; ++turn) {
        portbar_copy_async(values + i, salt + place(), 4u);
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
        CHECK(4, values[(i + 1u) % n] == salt[place() - i + (i + 1u) % n]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
        """,
        locals=((1,), (64,)), turns=5, words=1, salt=3 * 64, require=(OVERLAPPING,), expected="64u * n",
    ),
    Promise(
        "arrive_copy_async leaves the count as it was",
        r"""
    portbar_copy_async(values + i, salt + place(), 4u);
    portbar_split_barrier_arrive_copy_async(&b);
    portbar_copy_async_wait();
    const portbar_arrival_token token = portbar_split_barrier_arrive(&b);
    barrier(CLK_LOCAL_MEM_FENCE);
    CHECK(0, !portbar_split_barrier_test_wait(&b, token));       /* the copies did not count as arrivals */
    barrier(CLK_LOCAL_MEM_FENCE);
    if (i == 0u)
        portbar_split_barrier_arrive(&b);
    CHECK(1, portbar_split_barrier_wait(&b, token));
    CHECK(2, values[(i + 1u) % n] == salt[place() - i + (i + 1u) % n]);
        """,
        words=1, salt=3 * 64, require=(OVERLAPPING,), expected="n + 1u",
    ),
    Promise(
        "the next tile is copied while the last one is used",
        r"""
    local portbar_split_barrier ready[2];
    portbar_arrival_token tokens[2];
    const uint length = 133u;
    for (uint which = i; which < 2u; which += n)
        portbar_split_barrier_initialize(&ready[which], 2u * n);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint tile = 0u; tile <= turns; ++tile) {
        const uint now = tile & 1u, last = 1u - now;
        if (tile < turns) {
            portbar_copy_async_group(values + now * length, salt + tile * length, 4u * length);
            portbar_split_barrier_arrive_copy_async_no_inc(&ready[now]);
            tokens[now] = portbar_split_barrier_arrive(&ready[now]);
        }
        if (tile > 0u) {
            CHECK(0, portbar_split_barrier_wait(&ready[last], tokens[last]));
            for (uint k = (i + tile) % n; k < length; k += n)
                CHECK(1, values[last * length + k] == salt[(tile - 1u) * length + k]);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
    END(ready[0]);
        """,
        locals=((32,),), turns=20, words=8, salt=20 * 133, groups=2, require=(OVERLAPPING,), expected=None,
    ),
]  # fmt: skip


test_promise = kept(PROMISES)


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
    source = to_device(queue, np.random.default_rng(seed).integers(0, 1 << 32, 2048, dtype=np.uint32))
    lengths = sorted({0, 1, 2, 3, 4, 5, 7, n - 1, n, n + 1, 4 * n - 1, 4 * n, 4 * n + 3, 997})
    for length in lengths:
        for shift in [(0, 0), (1, 0), (0, 1), (3, 3), (2, 6)]:
            room = length + 16
            arguments = (source, *map(np.uint32, (*shift, length, room)), local_uints(room))
            note = f"{length} words from word {shift[0]} to word {shift[1]}, seed {seed}"
            judge(queue, made, local, *arguments, groups=2, note=note)
