"""Promises of portbar/split_barrier.h: phases, counts, tokens, drops, and what is visible after a wait; one small kernel each.

After SYCL's end-to-end test of its asynchronous barrier, libcu++'s and libc++'s tests of `barrier`. Not copies, not uses that a
program must require, and not faults: those have files of their own.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.split_barrier.support import OVERLAPPING, by_mode, judge, kernel, largest, local_uints, rounds
from tests.support import filled, to_device, uints

pytestmark = pytest.mark.device

LOCAL_SIZES = [(1,), (8,), (64,), (8, 4), (3, 5), (4, 3, 2), "largest"]

RING = r"""
static bool pass(local portbar_split_barrier *b)      /* a barrier is handed on by its address */
{
    return portbar_split_barrier_wait(b, portbar_split_barrier_arrive(b));
}

kernel void ring(global uint *bad, global uint *data, uint turns, local uint *values)
{
    BEGIN;
    local portbar_split_barrier b[2];
    for (uint which = i; which < 2u; which += n)
        portbar_split_barrier_initialize(&b[which], n);
    values[i] = data[place()];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint turn = 0u; turn < turns; ++turn) {
        uint value = values[i];
        const portbar_arrival_token token = portbar_split_barrier_arrive(&b[0]);
        value += 1u;
        CHECK(0, portbar_split_barrier_wait(&b[0], token));
        values[(i + 1u) % n] = value;
        CHECK(1, pass(&b[1]));
    }
    data[place()] = values[i];
    END(b[0]);
}
"""


@by_mode
@pytest.mark.parametrize("local", LOCAL_SIZES, ids=str)
def test_values_go_round_a_ring_of_work_items_in_groups_of_one_to_three_dimensions(context, queue, mode, local):
    made = kernel(context, RING, mode)
    local = (largest(made, queue.device),) if local == "largest" else local
    n, groups, seed = math.prod(local), 3, 11
    turns = rounds(queue.device, n + 3 if n <= 64 else 21)
    start = np.random.default_rng(seed).integers(0, 1 << 31, (groups, n), dtype=np.uint32)
    data = to_device(queue, start)
    judge(queue, made, local, data, np.uint32(turns), local_uints(n), groups=groups, note=f"seed {seed}")
    expected = np.roll(start, turns, axis=1) + np.uint32(turns)
    assert (uints(queue, data).reshape(groups, n) == expected).all(), f"seed {seed}, {turns} turns"


ORDER = r"""
kernel void order(global uint *bad, global uint *far, const global uint *salt, uint turns, global uint *sink, local uint *near)
{
    BEGIN;
    local portbar_split_barrier b;
    global uint *mine = far + get_group_id(0) * 2u * n;
    INITIALIZE(b, n);
    uint busy = i;
    for (uint turn = 0u; turn < turns; ++turn) {
        const uint at = (turn & 1u) * n, key = salt[turn];
        near[at + i] = mixed(key, i);
        mine[at + i] = mixed(key, i + n);
        const portbar_arrival_token token = portbar_split_barrier_arrive(&b);
        for (uint k = 0u; k < (i + turn) % 5u; ++k)
            busy = mixed(busy, k);
        CHECK(0, portbar_split_barrier_wait(&b, token));
        for (uint k = 1u; k < n; k = 3u * k + 1u) {
            const uint other = (i + k) % n;
            CHECK(1, near[at + other] == mixed(key, other));
            CHECK(2, mine[at + other] == mixed(key, other + n));
        }
    }
    sink[place()] = busy;
    END(b);
}
"""


@by_mode
@pytest.mark.parametrize("local", [(8,), (64,), (16, 4)], ids=str)
def test_local_and_global_memory_written_before_arrive_is_seen_by_all_after_wait(context, queue, mode, local):
    made = kernel(context, ORDER, mode)
    n, groups, seed, turns = math.prod(local), 4, 12, rounds(queue.device, 500)
    salt = to_device(queue, np.random.default_rng(seed).integers(0, 1 << 32, turns, dtype=np.uint32))
    far, sink = filled(queue, 2 * n * groups), filled(queue, n * groups)
    arguments = (far, salt, np.uint32(turns), sink, local_uints(2 * n))
    judge(queue, made, local, *arguments, groups=groups, note=f"seed {seed}")


TEN_PHASES = r"""
kernel void ten_phases(global uint *bad, local uint *values)
{
    BEGIN;
    local portbar_split_barrier b;
    INITIALIZE(b, n);
    values[i] = 0u;
    CHECK(0, portbar_split_barrier_arrive_and_wait(&b));
    for (uint phase = 1u; phase <= 10u; ++phase) {
        const uint left = values[(i + n - 1u) % n];
        CHECK(1, portbar_split_barrier_arrive_and_wait(&b));
        values[i] = left + 1u;
        CHECK(2, portbar_split_barrier_arrive_and_wait(&b));
    }
    CHECK(3, values[i] == 10u);
    END(b);
}
"""


@by_mode
@pytest.mark.parametrize("local", [(1,), (2,), (64,)], ids=str)
def test_arrive_and_wait_ten_times_keeps_all_in_step(context, queue, mode, local):
    judge(queue, kernel(context, TEN_PHASES, mode), local, local_uints(local[0]))


TWO_PLACES = r"""
kernel void two_places(global uint *bad, uint turns, local uint *values)
{
    BEGIN;
    local portbar_split_barrier b;
    INITIALIZE(b, n);
    for (uint turn = 0u; turn < turns; ++turn) {
        local uint *now = values + (turn & 1u) * n;
        portbar_arrival_token token;
        if ((i + turn) & 1u) {
            now[i] = turn + i;
            token = portbar_split_barrier_arrive(&b);
        } else {
            now[i] = turn * 2u + i;
            token = portbar_split_barrier_arrive_count(&b, 1u);
        }
        CHECK(0, portbar_split_barrier_wait(&b, token));
        const uint j = (i + 1u) % n;
        CHECK(1, now[j] == (((j + turn) & 1u) ? turn + j : turn * 2u + j));
    }
    END(b);
}
"""


@by_mode
def test_work_items_may_arrive_at_different_places_of_a_kernel(context, queue, mode):
    judge(queue, kernel(context, TWO_PLACES, mode), (64,), np.uint32(rounds(queue.device, 30)), local_uints(128))


REUSE = r"""
kernel void reuse(global uint *bad, uint turns, local ulong *memory, local uint *values)
{
    BEGIN;
    local portbar_split_barrier *b = (local portbar_split_barrier *)memory;
    local int *words = (local int *)memory;
    const uint count = sizeof(portbar_split_barrier) / sizeof(int);
    for (uint turn = 0u; turn < turns; ++turn) {
        INITIALIZE(*b, n);
        values[i] = mixed(turn, i);
        CHECK(0, portbar_split_barrier_arrive_and_wait(b));
        CHECK(1, values[(i + 1u) % n] == mixed(turn, (i + 1u) % n));
        CHECK(2, portbar_split_barrier_arrive_and_wait(b));
        CHECK(3, portbar_split_barrier_fault(b) == 0u);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (i == 0u)
            portbar_split_barrier_invalidate(b);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint k = i; k < count; k += n)
            words[k] = (int)mixed(turn, k);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint k = 0u; k < count; ++k)
            CHECK(4, words[k] == (int)mixed(turn, k));
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    bad[place()] = wrong;
}
"""


@by_mode
@pytest.mark.parametrize("local", [(1,), (64,)], ids=str)
def test_an_invalidated_barrier_s_memory_holds_ints_and_then_a_barrier_again(context, queue, mode, local):
    made = kernel(context, REUSE, mode)
    judge(queue, made, local, np.uint32(rounds(queue.device, 12)), local_uints(64), local_uints(local[0]))


AGAIN = r"""
kernel void again(global uint *bad)
{
    BEGIN;
    local portbar_split_barrier b;
    for (uint count = 1u; count <= 4u; ++count) {
        INITIALIZE(b, n * count);
        for (uint phase = 0u; phase < count; ++phase)
            CHECK(0, portbar_split_barrier_wait(&b, portbar_split_barrier_arrive_count(&b, count)));
        barrier(CLK_LOCAL_MEM_FENCE);
        CHECK(1, portbar_split_barrier_test_wait_parity(&b, (count - 1u) & 1u));
        CHECK(2, !portbar_split_barrier_test_wait_parity(&b, count & 1u));
        barrier(CLK_LOCAL_MEM_FENCE);
        if (i == 0u)
            portbar_split_barrier_invalidate(&b);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    INITIALIZE(b, n);
    CHECK(3, portbar_split_barrier_test_wait_parity(&b, 1u));
    CHECK(4, !portbar_split_barrier_test_wait_parity(&b, 0u));
    END(b);
}
"""


@by_mode
def test_initialize_sets_the_count_and_the_phase_anew(context, queue, mode):
    judge(queue, kernel(context, AGAIN, mode), (8,))


MAXIMUM = r"""
kernel void maximum(global uint *bad)
{
    BEGIN;
    local portbar_split_barrier b;
    const uint most = portbar_split_barrier_max();
    CHECK(0, most == 1048575u);
    INITIALIZE(b, most);
    for (uint phase = 0u; phase < 3u; ++phase) {
        if (i == 0u)
            portbar_split_barrier_arrive_no_complete(&b, most - n);
        barrier(CLK_LOCAL_MEM_FENCE);
        CHECK(1, !portbar_split_barrier_test_wait_parity(&b, phase & 1u));
        const portbar_arrival_token token = portbar_split_barrier_arrive(&b);
        CHECK(2, portbar_split_barrier_wait(&b, token));
        CHECK(3, portbar_split_barrier_test_wait(&b, token));
    }
    /* And all of it at once, but for the arrivals of the others. */
    const portbar_arrival_token token = portbar_split_barrier_arrive_count(&b, i == 0u ? most - (n - 1u) : 1u);
    CHECK(4, portbar_split_barrier_wait(&b, token));
    CHECK(5, portbar_split_barrier_test_wait(&b, token));
    END(b);
}
"""


@by_mode
@pytest.mark.parametrize("local", [(2,), (64,)], ids=str)
def test_the_largest_expected_count_is_counted(context, queue, mode, local):
    judge(queue, kernel(context, MAXIMUM, mode, OVERLAPPING), local)


SIXTY_FOUR = r"""
kernel void sixty_four(global uint *bad, uint turns, local uint *values)
{
    BEGIN;
    local portbar_split_barrier b;
    INITIALIZE(b, 64u * n);
    for (uint turn = 0u; turn < turns; ++turn) {
        local uint *now = values + (turn & 1u) * n;
        now[i] = mixed(turn, i);
        portbar_split_barrier_arrive_copy_async(&b);          /* leaves the count as it was */
        portbar_split_barrier_arrive_no_complete(&b, 63u);
        CHECK(0, portbar_split_barrier_arrive_and_wait(&b));
        CHECK(1, now[(i + 3u) % n] == mixed(turn, (i + 3u) % n));
        /* COUNTED */
    }
    END(b);
}
"""


@by_mode
@pytest.mark.parametrize("counted", [False, True], ids=["waits", "waits and parity"])
def test_sixty_four_arrivals_of_each_work_item_make_a_phase(context, queue, mode, counted):
    more = "CHECK(2, portbar_split_barrier_test_wait_parity(&b, turn & 1u));" if counted else ""
    made = kernel(context, SIXTY_FOUR.replace("/* COUNTED */", more), mode, OVERLAPPING)
    judge(queue, made, (64,), np.uint32(rounds(queue.device, 20)), local_uints(128))


OTHER_COUNTS = r"""
kernel void other_counts(global uint *bad, uint turns, local uint *values)
{
    BEGIN;
    local portbar_split_barrier same, growing;
    INITIALIZE(same, 3u * n);
    INITIALIZE(growing, n * (n + 1u) / 2u);
    for (uint turn = 0u; turn < turns; ++turn) {
        values[i] = mixed(turn, i);
        CHECK(0, portbar_split_barrier_wait(&same, portbar_split_barrier_arrive_count(&same, 3u)));
        CHECK(1, values[(i + 1u) % n] == mixed(turn, (i + 1u) % n));
        CHECK(2, portbar_split_barrier_wait(&growing, portbar_split_barrier_arrive_count(&growing, i + 1u)));
        /* COUNTED */
    }
    END(same);
}
"""


@by_mode
@pytest.mark.parametrize("counted", [False, True], ids=["waits", "waits and parity"])
def test_more_arrivals_than_work_items_may_be_expected(context, queue, mode, counted):
    more = """
        CHECK(3, portbar_split_barrier_test_wait_parity(&same, turn & 1u));
        CHECK(4, portbar_split_barrier_test_wait_parity(&growing, turn & 1u));
    """
    made = kernel(context, OTHER_COUNTS.replace("/* COUNTED */", more if counted else ""), mode)
    judge(queue, made, (32,), np.uint32(rounds(queue.device, 20)), local_uints(32))


FEWER = r"""
kernel void fewer(global uint *bad, uint turns, uint expected, local uint *values)
{
    BEGIN;
    local portbar_split_barrier b;
    INITIALIZE(b, expected);
    for (uint turn = 0u; turn < turns; ++turn) {
        const uint first = turn % n;             /* those who arrive change from phase to phase */
        const bool arrives = (i + n - first) % n < expected;
        if (arrives) {
            values[i] = mixed(turn, i);
            portbar_split_barrier_arrive(&b);
        }
        CHECK(0, portbar_split_barrier_wait_parity(&b, turn & 1u));
        for (uint k = 0u; k < expected; ++k)
            CHECK(1, values[(first + k) % n] == mixed(turn, (first + k) % n));
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    END(b);
}
"""


@by_mode
@pytest.mark.parametrize("expected", [1, 2, 17])
def test_fewer_arrivals_than_work_items_may_be_expected_while_all_wait(context, queue, mode, expected):
    turns = np.uint32(rounds(queue.device, 40))
    judge(queue, kernel(context, FEWER, mode), (32,), turns, np.uint32(expected), local_uints(32))


MANY = r"""
kernel void many(global uint *bad, uint turns, local uint *values)
{
    BEGIN;
    local portbar_split_barrier b[8];
    if (i == 0u)
        for (uint k = 0u; k < 8u; ++k)
            portbar_split_barrier_initialize(&b[k], n);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint turn = 0u; turn < turns; ++turn) {
        local portbar_split_barrier *now = &b[turn * 3u % 8u];
        values[(turn & 1u) * n + i] = mixed(turn, i);
        const portbar_arrival_token token = portbar_split_barrier_arrive(now);
        CHECK(0, portbar_split_barrier_wait(now, token));
        CHECK(1, values[(turn & 1u) * n + (i + 5u) % n] == mixed(turn, (i + 5u) % n));
    }
    for (uint k = 0u; k < 8u; ++k)
        CHECK(2 + k, portbar_split_barrier_fault(&b[k]) == 0u);
    bad[place()] = wrong;
}
"""


@by_mode
def test_eight_barriers_of_a_group_are_used_in_turn(context, queue, mode):
    judge(queue, kernel(context, MANY, mode), (32,), np.uint32(rounds(queue.device, 48)), local_uints(64))


NESTED = r"""
kernel void nested(global uint *bad, uint turns, local uint *values)
{
    BEGIN;
    local portbar_split_barrier b[8];
    for (uint k = i; k < 8u; k += n)
        portbar_split_barrier_initialize(&b[k], n);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint turn = 0u; turn < turns; ++turn) {
        portbar_arrival_token tokens[8];
        for (uint k = 0u; k < 8u; ++k) {
            values[k * n + i] = mixed(turn * 8u + k, i);
            tokens[k] = portbar_split_barrier_arrive(&b[k]);
        }
        for (uint k = 8u; k-- > 0u;) {
            CHECK(0, portbar_split_barrier_wait(&b[k], tokens[k]));
            for (uint before = 0u; before <= k; ++before)
                CHECK(1, values[before * n + (i + 1u) % n] == mixed(turn * 8u + before, (i + 1u) % n));
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    END(b[7]);
}
"""


@by_mode
def test_eight_barriers_may_be_arrived_at_before_any_is_waited_for(context, queue, mode):
    made = kernel(context, NESTED, mode, OVERLAPPING)
    judge(queue, made, (16,), np.uint32(rounds(queue.device, 12)), local_uints(128))


KEPT = r"""
kernel void kept(global uint *bad)
{
    BEGIN;
    local portbar_split_barrier b;
    local portbar_arrival_token token;
    INITIALIZE(b, 2u);
    if (i == 0u)
        token = portbar_split_barrier_arrive(&b);
    barrier(CLK_LOCAL_MEM_FENCE);
    CHECK(0, !portbar_split_barrier_test_wait(&b, token));
    barrier(CLK_LOCAL_MEM_FENCE);
    if (i == n - 1u)
        portbar_split_barrier_arrive(&b);
    CHECK(1, portbar_split_barrier_wait(&b, token));
    barrier(CLK_LOCAL_MEM_FENCE);
    if (i == n - 1u)
        token = portbar_split_barrier_arrive_count(&b, 2u);
    barrier(CLK_LOCAL_MEM_FENCE);
    CHECK(2, portbar_split_barrier_test_wait(&b, token));
    CHECK(3, portbar_split_barrier_wait(&b, token));
    END(b);
}
"""


@by_mode
@pytest.mark.parametrize("local", [(1,), (8,), (64,)], ids=str)
def test_a_token_kept_by_one_serves_all_and_arrive_count_completes_a_phase_alone(context, queue, mode, local):
    judge(queue, kernel(context, KEPT, mode, OVERLAPPING), local)


PREVIOUS = r"""
kernel void previous(global uint *bad, uint turns)
{
    BEGIN;
    local portbar_split_barrier b;
    INITIALIZE(b, n);
    portbar_arrival_token before = portbar_split_barrier_arrive(&b);
    CHECK(0, portbar_split_barrier_wait(&b, before));
    for (uint turn = 0u; turn < turns; ++turn) {
        barrier(CLK_LOCAL_MEM_FENCE);
        portbar_arrival_token token = before;
        if (i != turn % n)
            token = portbar_split_barrier_arrive(&b);
        barrier(CLK_LOCAL_MEM_FENCE);
        CHECK(1, portbar_split_barrier_test_wait(&b, before));        /* of the previous phase: complete for good */
        CHECK(2, portbar_split_barrier_wait(&b, before));
        if (i != turn % n)
            CHECK(3, !portbar_split_barrier_test_wait(&b, token));
        barrier(CLK_LOCAL_MEM_FENCE);
        if (i == turn % n)
            token = portbar_split_barrier_arrive(&b);
        CHECK(4, portbar_split_barrier_wait(&b, token));
        before = token;
    }
    END(b);
}
"""


@by_mode
def test_a_token_of_the_previous_phase_stays_complete_while_the_next_one_is_not(context, queue, mode):
    judge(queue, kernel(context, PREVIOUS, mode, OVERLAPPING), (16,), np.uint32(rounds(queue.device, 10)))


EXACT = r"""
kernel void exact(global uint *bad, uint turns)
{
    BEGIN;
    local portbar_split_barrier b;
    local portbar_arrival_token kept;
    INITIALIZE(b, n);
    for (uint turn = 0u; turn < turns; ++turn) {
        const uint last = (turn * 5u + n - 1u) % n;
        if (i != last) {
            const portbar_arrival_token token = portbar_split_barrier_arrive(&b);
            CHECK(0, !portbar_split_barrier_test_wait(&b, token));
            if (i == (last + 1u) % n)
                kept = token;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        CHECK(1, !portbar_split_barrier_test_wait(&b, kept));
        CHECK(2, !portbar_split_barrier_test_wait(&b, kept));         /* asking changes nothing */
        barrier(CLK_LOCAL_MEM_FENCE);
        if (i == last)
            CHECK(3, portbar_split_barrier_test_wait(&b, portbar_split_barrier_arrive(&b)));
        barrier(CLK_LOCAL_MEM_FENCE);
        CHECK(4, portbar_split_barrier_test_wait(&b, kept));
        CHECK(5, portbar_split_barrier_wait(&b, kept));
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    END(b);
}
"""


@by_mode
@pytest.mark.parametrize("local", [(2,), (8,), (64,)], ids=str)
def test_test_wait_is_false_until_the_last_has_arrived_and_true_for_all_afterwards(context, queue, mode, local):
    judge(queue, kernel(context, EXACT, mode), local, np.uint32(rounds(queue.device, 20)))


SEEN_BY_TEST = r"""
kernel void seen_by_test(global uint *bad, global uint *far, uint turns, local uint *near)
{
    BEGIN;
    local portbar_split_barrier b;
    global uint *mine = far + get_group_id(0) * n;
    INITIALIZE(b, n);
    for (uint turn = 0u; turn < turns; ++turn) {
        near[i] = mixed(turn, i);
        mine[i] = mixed(i, turn);
        const portbar_arrival_token token = portbar_split_barrier_arrive(&b);
        const uint j = (i + turn + 1u) % n;
        if (portbar_split_barrier_test_wait(&b, token)) {
            CHECK(0, near[j] == mixed(turn, j));
            CHECK(1, mine[j] == mixed(j, turn));
        }
        CHECK(2, portbar_split_barrier_wait(&b, token));
        CHECK(3, near[j] == mixed(turn, j));
        CHECK(4, mine[j] == mixed(j, turn));
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    }
    END(b);
}
"""


@by_mode
def test_whoever_test_wait_answers_true_sees_what_was_written_before_arrive(context, queue, mode):
    turns = rounds(queue.device, 200)
    judge(queue, kernel(context, SEEN_BY_TEST, mode), (64,), filled(queue, 3 * 64), np.uint32(turns), local_uints(64))


TRIES = r"""
kernel void tries(global uint *bad, uint turns)
{
    BEGIN;
    local portbar_split_barrier b;
    INITIALIZE(b, n + 1u);
    for (uint turn = 0u; turn < turns; ++turn) {
        const portbar_arrival_token token = portbar_split_barrier_arrive(&b);
        CHECK(0, !portbar_split_barrier_try_wait(&b, token, 50u));
        CHECK(1, !portbar_split_barrier_try_wait_parity(&b, turn & 1u, 50u));
        CHECK(2, !portbar_split_barrier_try_wait(&b, token, 1u));
        barrier(CLK_LOCAL_MEM_FENCE);
        if (i == turn % n)
            portbar_split_barrier_arrive(&b);
        barrier(CLK_LOCAL_MEM_FENCE);
        CHECK(3, portbar_split_barrier_try_wait(&b, token, 50u));
        CHECK(4, portbar_split_barrier_try_wait_parity(&b, turn & 1u, 50u));
        CHECK(5, portbar_split_barrier_try_wait(&b, token, 1u));
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    END(b);
}
"""


@by_mode
@pytest.mark.parametrize("local", [(1,), (32,)], ids=str)
def test_try_wait_gives_up_at_its_limit_and_succeeds_once_the_phase_completed(context, queue, mode, local):
    judge(queue, kernel(context, TRIES, mode, OVERLAPPING), local, np.uint32(rounds(queue.device, 6)))


PARITY = r"""
kernel void parity(global uint *bad, uint turns, local uint *values)
{
    BEGIN;
    local portbar_split_barrier b;
    INITIALIZE(b, n);
    CHECK(0, portbar_split_barrier_test_wait_parity(&b, 1u));
    CHECK(1, !portbar_split_barrier_test_wait_parity(&b, 0u));
    CHECK(2, portbar_split_barrier_wait_parity(&b, 1u));
    CHECK(3, portbar_split_barrier_try_wait_parity(&b, 1u, 10u));
    CHECK(4, !portbar_split_barrier_try_wait_parity(&b, 0u, 10u));
    for (uint phase = 0u; phase < turns; ++phase) {
        local uint *now = values + (phase & 1u) * n;
        now[i] = mixed(phase, i);
        /* The phase cannot complete before this work-item has arrived. */
        CHECK(5, !portbar_split_barrier_test_wait_parity(&b, phase & 1u));
        CHECK(6, portbar_split_barrier_test_wait_parity(&b, (phase & 1u) ^ 1u));
        portbar_split_barrier_arrive(&b);
        CHECK(7, portbar_split_barrier_wait_parity(&b, phase & 1u));
        CHECK(8, now[(i + 1u) % n] == mixed(phase, (i + 1u) % n));
        CHECK(9, portbar_split_barrier_test_wait_parity(&b, phase & 1u));
        CHECK(10, portbar_split_barrier_try_wait_parity(&b, phase & 1u, 10u));
        CHECK(11, !portbar_split_barrier_test_wait_parity(&b, (phase & 1u) ^ 1u));
    }
    END(b);
}
"""


@by_mode
@pytest.mark.parametrize("local", [(1,), (8,), (64,)], ids=str)
def test_parities_alternate_from_a_fresh_barrier_on(context, queue, mode, local):
    turns = np.uint32(rounds(queue.device, 101))
    judge(queue, kernel(context, PARITY, mode), local, turns, local_uints(2 * local[0]))
