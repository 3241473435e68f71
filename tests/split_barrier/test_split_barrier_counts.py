"""Promises of portbar/split_barrier.h about counts: what is pending, arrivals that must not complete, drops in many phases."""

from __future__ import annotations

import numpy as np
import pytest

import portbar
from tests.split_barrier.support import OVERLAPPING, by_mode, judge, kernel, local_uints, rounds
from tests.support import to_device

pytestmark = pytest.mark.device

PENDING = r"""
kernel void pending(global uint *bad)
{
    BEGIN;
    local portbar_split_barrier b;
    local portbar_arrival_token token;
    INITIALIZE(b, 10u);
    if (i == 0u) {
        CHECK(0, portbar_split_barrier_pending_count(portbar_split_barrier_arrive(&b)) == 10u);
        CHECK(1, portbar_split_barrier_pending_count(portbar_split_barrier_arrive_count(&b, 3u)) == 9u);
        CHECK(2, portbar_split_barrier_pending_count(portbar_split_barrier_arrive_no_complete(&b, 2u)) == 6u);
        CHECK(3, portbar_split_barrier_pending_count(portbar_split_barrier_arrive_and_drop_no_complete(&b, 2u)) == 4u);
        CHECK(4, portbar_split_barrier_pending_count(portbar_split_barrier_arrive_and_drop(&b)) == 2u);
        token = portbar_split_barrier_arrive(&b);
        CHECK(5, portbar_split_barrier_pending_count(token) == 1u);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    CHECK(6, portbar_split_barrier_test_wait(&b, token));
    CHECK(7, portbar_split_barrier_wait(&b, token));
    barrier(CLK_LOCAL_MEM_FENCE);
    if (i == 0u) {          /* three were dropped */
        CHECK(8, portbar_split_barrier_pending_count(portbar_split_barrier_arrive_no_complete(&b, 4u)) == 7u);
        token = portbar_split_barrier_arrive_count(&b, 3u);
        CHECK(9, portbar_split_barrier_pending_count(token) == 3u);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    CHECK(10, portbar_split_barrier_wait(&b, token));
    END(b);
}
"""


@by_mode
@pytest.mark.parametrize("local", [(1,), (8,)], ids=str)
def test_pending_count_tells_what_was_pending_before_each_kind_of_arrival(context, queue, mode, local):
    judge(queue, kernel(context, PENDING, mode, OVERLAPPING), local)


def skip_where_arrivals_are_taken_together(context, mode):
    chosen = portbar.choose(portbar.describe(context.devices[0])).split_barrier.value
    if mode == "mbarrier" or (mode == "default" and chosen == "mbarrier"):
        pytest.skip("mbarrier takes arrivals that a sub-group makes together as one, and their tokens tell the same")


PERMUTATION = r"""
kernel void permutation(global uint *bad, uint turns, local uint *seen)
{
    BEGIN;
    local portbar_split_barrier b;
    INITIALIZE(b, n);
    for (uint turn = 0u; turn < turns; ++turn) {
        seen[i] = 0u;
        barrier(CLK_LOCAL_MEM_FENCE);
        const portbar_arrival_token token = portbar_split_barrier_arrive(&b);
        const uint pending = portbar_split_barrier_pending_count(token);
        CHECK(0, pending >= 1u && pending <= n);
        if (pending >= 1u && pending <= n)
            atomic_inc(seen + pending - 1u);
        CHECK(1, portbar_split_barrier_wait(&b, token));
        barrier(CLK_LOCAL_MEM_FENCE);          /* what follows an arrival is not ordered by it */
        CHECK(2, seen[i] == 1u);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    END(b);
}
"""


@by_mode
@pytest.mark.parametrize("local", [(1,), (8,), (64,)], ids=str)
def test_each_arrival_of_a_phase_finds_another_pending_count(context, queue, mode, local):
    skip_where_arrivals_are_taken_together(context, mode)
    judge(queue, kernel(context, PERMUTATION, mode), local, np.uint32(rounds(queue.device, 20)), local_uints(local[0]))


NO_COMPLETE = r"""
kernel void no_complete(global uint *bad, uint turns)
{
    BEGIN;
    local portbar_split_barrier b;
    INITIALIZE(b, 5u * n);
    for (uint turn = 0u; turn < turns; ++turn) {
        portbar_split_barrier_arrive_no_complete(&b, 1u);
        const portbar_arrival_token token = portbar_split_barrier_arrive_no_complete(&b, 3u);
        CHECK(0, !portbar_split_barrier_test_wait(&b, token));
        barrier(CLK_LOCAL_MEM_FENCE);
        CHECK(1, !portbar_split_barrier_test_wait(&b, token));
        barrier(CLK_LOCAL_MEM_FENCE);
        portbar_split_barrier_arrive(&b);
        CHECK(2, portbar_split_barrier_wait(&b, token));          /* any token of the phase will do */
        CHECK(3, portbar_split_barrier_test_wait(&b, token));
    }
    END(b);
}
"""


@by_mode
@pytest.mark.parametrize("local", [(1,), (64,)], ids=str)
def test_arrive_no_complete_counts_without_completing(context, queue, mode, local):
    judge(queue, kernel(context, NO_COMPLETE, mode, OVERLAPPING), local, np.uint32(rounds(queue.device, 10)))


SIX_LEAVE = r"""
kernel void six_leave(global uint *bad)
{
    BEGIN;
    local portbar_split_barrier b;
    INITIALIZE(b, 64u * n);
    portbar_split_barrier_arrive_no_complete(&b, 58u);
    portbar_split_barrier_arrive_and_drop_no_complete(&b, 5u);
    portbar_arrival_token token = portbar_split_barrier_arrive_and_drop(&b);
    CHECK(0, portbar_split_barrier_wait(&b, token));
    for (uint phase = 0u; phase < 4u; ++phase) {
        for (uint k = 0u; k < 57u; ++k)
            token = portbar_split_barrier_arrive(&b);
        barrier(CLK_LOCAL_MEM_FENCE);
        CHECK(1, !portbar_split_barrier_test_wait(&b, token));
        barrier(CLK_LOCAL_MEM_FENCE);
        token = portbar_split_barrier_arrive(&b);
        CHECK(2, portbar_split_barrier_wait(&b, token));
        CHECK(3, portbar_split_barrier_test_wait(&b, token));
    }
    END(b);
}
"""


@by_mode
@pytest.mark.parametrize("local", [(1,), (64,)], ids=str)
def test_six_arrivals_that_each_work_item_drops_are_expected_no_more(context, queue, mode, local):
    judge(queue, kernel(context, SIX_LEAVE, mode, OVERLAPPING), local)


DROPS_IN_TURN = r"""
kernel void drops_in_turn(global uint *bad, uint weight, uint turns, const global uint *salt, local uint *values)
{
    BEGIN;
    local portbar_split_barrier b;
    local uint completed[2];
    if (i == 0u)
        completed[0] = completed[1] = 0u;
    INITIALIZE(b, weight * n);
    uint mine = weight;                      /* arrivals that are this work-item's, one of which may be dropped in a phase */
    for (uint phase = 0u; phase < turns; ++phase) {
        local uint *now = values + (phase & 1u) * n;
        now[i] = mixed(phase, i);
        const bool drops = mine > 1u && (mixed(i, salt[phase]) & 3u) == 0u;
        if (mine > 1u)
            portbar_split_barrier_arrive_no_complete(&b, mine - 1u);
        const portbar_arrival_token token =
            drops ? portbar_split_barrier_arrive_and_drop(&b) : portbar_split_barrier_arrive(&b);
        /* COUNT */
        CHECK(0, portbar_split_barrier_wait(&b, token));
        CHECK(1, now[(i + 1u) % n] == mixed(phase, (i + 1u) % n));
        /* COUNTED */
        mine -= drops ? 1u : 0u;
    }
    END(b);
}
"""


@by_mode
@pytest.mark.parametrize("counted", [False, True], ids=["waits", "waits and counts"])
def test_arrivals_are_dropped_in_many_phases_by_many_work_items(context, queue, mode, counted):
    if counted:
        skip_where_arrivals_are_taken_together(context, mode)
    source = DROPS_IN_TURN
    if counted:
        count = "if (portbar_split_barrier_pending_count(token) == 1u) atomic_inc(&completed[phase & 1u]);"
        check = """
            /* One arrival of each phase completed it; what it counted is visible a phase later. */
            CHECK(2, phase == 0u || completed[(phase - 1u) & 1u] == (phase + 1u) / 2u);
            CHECK(3, portbar_split_barrier_test_wait(&b, token));
            CHECK(4, portbar_split_barrier_test_wait_parity(&b, phase & 1u));
        """
        source = source.replace("/* COUNT */", count).replace("/* COUNTED */", check)
    turns, seed = rounds(queue.device, 60), 13
    salt = to_device(queue, np.random.default_rng(seed).integers(0, 1 << 32, turns, dtype=np.uint32))
    arguments = (np.uint32(9), np.uint32(turns), salt, local_uints(128))
    judge(queue, kernel(context, source, mode, OVERLAPPING), (64,), *arguments, groups=8, note=f"seed {seed}")


SHRINKING = r"""
kernel void shrinking(global uint *bad, uint more, local uint *values)
{
    BEGIN;
    local portbar_split_barrier b;
    INITIALIZE(b, n);
    /* In phase p work-item p drops out; the last one arrives alone from then on. All wait to the end. */
    for (uint phase = 0u; phase < n - 1u + more; ++phase) {
        if (i == phase && i != n - 1u) {
            values[i] = mixed(phase, i);
            portbar_split_barrier_arrive_and_drop(&b);
        } else if (i > phase || i == n - 1u) {
            values[i] = mixed(phase, i);
            portbar_split_barrier_arrive(&b);
        }
        CHECK(0, portbar_split_barrier_wait_parity(&b, phase & 1u));
        const uint first = min(phase, n - 1u), other = first + (i + phase) % (n - first);
        CHECK(1, values[other] == mixed(phase, other));
        CHECK(2, portbar_split_barrier_test_wait_parity(&b, phase & 1u));
        CHECK(3, !portbar_split_barrier_test_wait_parity(&b, (phase & 1u) ^ 1u));
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    END(b);
}
"""


@by_mode
@pytest.mark.parametrize("local", [(1,), (2,), (8,), (64,)], ids=str)
def test_work_items_drop_out_one_a_phase_until_one_is_left(context, queue, mode, local):
    judge(queue, kernel(context, SHRINKING, mode), local, np.uint32(5), local_uints(local[0]))


TWO_SIDES = r"""
kernel void two_sides(global uint *bad, uint weight, uint turns, const global uint *salt, global uint *sink)
{
    BEGIN;
    local portbar_split_barrier b;
    INITIALIZE(b, 1u + weight);
    uint busy = i;
    /* The last work-item drops one in every phase while it has any, the first one arrives in every phase; either may
       be the one that completes a phase. A barrier() keeps waiters from finding the phase after next, of the same parity. */
    for (uint phase = 0u; phase < turns; ++phase) {
        const uint delay = mixed(salt[phase], i + get_group_id(0)) & 7u;
        for (uint k = 0u; k < delay; ++k)
            busy = mixed(busy, k);
        if (i == 0u)
            portbar_split_barrier_arrive(&b);
        if (i == n - 1u && phase < weight) {
            if (phase + 1u < weight)
                portbar_split_barrier_arrive_no_complete(&b, weight - phase - 1u);
            portbar_split_barrier_arrive_and_drop(&b);
        }
        CHECK(0, portbar_split_barrier_wait_parity(&b, phase & 1u));
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    sink[place()] = busy;
    END(b);
}
"""


@by_mode
def test_one_work_item_drops_in_every_phase_whoever_completes_it(context, queue, mode):
    made = kernel(context, TWO_SIDES, mode, OVERLAPPING)
    turns, seed, groups = rounds(queue.device, 80), 14, 16
    salt = to_device(queue, np.random.default_rng(seed).integers(0, 1 << 32, turns, dtype=np.uint32))
    sink = to_device(queue, np.zeros(64 * groups, np.uint32))
    arguments = (np.uint32(60), np.uint32(turns), salt, sink)
    judge(queue, made, (64,), *arguments, groups=groups, note=f"seed {seed}")


MISSING = r"""
kernel void missing(global uint *bad)
{
    BEGIN;
    local portbar_split_barrier b;
    INITIALIZE(b, n + 1u);
    const portbar_arrival_token token = portbar_split_barrier_arrive(&b);
    ASKED
    END(b);
}
"""


@pytest.mark.parametrize(
    "asked",
    [
        "const bool held = portbar_split_barrier_wait(&b, token); CHECK(0, !held);",
        "if (portbar_split_barrier_wait(&b, token)) wrong = 1u;",
        "CHECK(0, !portbar_split_barrier_wait(&b, token));",
    ],
)
def test_a_wait_of_the_whole_group_is_false_while_arrivals_are_missing(context, queue, asked):
    judge(queue, kernel(context, MISSING.replace("ASKED", asked), "uniform"), (8,))
