"""Promises of portbar/split_barrier.h: phases, counts, tokens, drops, and what is visible after a wait.

After SYCL's end-to-end test of its asynchronous barrier, libcu++'s and libc++'s tests of `barrier`.
"""

from __future__ import annotations

import pytest

from tests.split_barrier.support import LARGEST, OVERLAPPING, Promise, judge, kept, kernel, with_and_without_counts

pytestmark = pytest.mark.device

PROMISES = [
    Promise(
        "memory written before arrive is seen by all after wait, and by those whose test_wait is true",
        r"""
    global uint *mine = far + get_group_id(0) * 2u * n;
    uint busy = i;
    for (uint turn = 0u; turn < turns; ++turn) {
        const uint at = (turn & 1u) * n, key = salt[turn], next = (i + turn + 1u) % n;
        values[at + i] = mixed(key, i);
        mine[at + i] = mixed(key, i + n);
        const portbar_arrival_token token = portbar_split_barrier_arrive(&b);
        for (uint k = 0u; k < (i + turn) % 5u; ++k)
            busy = mixed(busy, k);
        if (portbar_split_barrier_test_wait(&b, token)) {
            CHECK(0, values[at + next] == mixed(key, next));
            CHECK(1, mine[at + next] == mixed(key, next + n));
        }
        CHECK(2, portbar_split_barrier_wait(&b, token));
        for (uint k = 1u; k < n; k = 3u * k + 1u) {
            const uint other = (i + k) % n;
            CHECK(3, values[at + other] == mixed(key, other));
            CHECK(4, mine[at + other] == mixed(key, other + n));
        }
    }
    far[(uint)get_num_groups(0) * 2u * n + place()] = busy;
        """,
        locals=((8,), (64,), (16, 4)), turns=500, words=2, far=3, groups=4,
    ),
    Promise(
        "values go round a ring of work-items in groups of one to three dimensions, barriers handed on by address",
        r"""
    local portbar_split_barrier b[2];
    for (uint which = i; which < 2u; which += n)
        portbar_split_barrier_initialize(&b[which], n);
    values[i] = mixed(salt[0], i);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint turn = 0u; turn < turns; ++turn) {
        uint value = values[i];
        const portbar_arrival_token token = portbar_split_barrier_arrive(&b[0]);
        value += 1u;
        CHECK(0, portbar_split_barrier_wait(&b[0], token));
        values[(i + 1u) % n] = value;
        CHECK(1, meet(&b[1]));
    }
    CHECK(2, values[i] == mixed(salt[0], (i + n - turns % n) % n) + turns);
    END(b[0]);
        """,
        locals=((1,), (8,), (64,), (8, 4), (3, 5), (4, 3, 2), LARGEST), turns=67, words=1, expected=None,
        functions="""static bool meet(local portbar_split_barrier *b)
{
    return portbar_split_barrier_wait(b, portbar_split_barrier_arrive(b));
}
""",
    ),
    Promise(
        "an invalidated barrier's memory holds ints and then a barrier of another count and a fresh phase",
        r"""
    local portbar_split_barrier *b = (local portbar_split_barrier *)room;
    local int *words = (local int *)room;
    values += 64;
    const uint size = sizeof(portbar_split_barrier) / sizeof(int);
    for (uint turn = 0u; turn < turns; ++turn) {
        const uint count = turn % 4u + 1u;
        INITIALIZE(*b, n * count);
        CHECK(0, portbar_split_barrier_test_wait_parity(b, 1u));
        CHECK(1, !portbar_split_barrier_test_wait_parity(b, 0u));
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint phase = 0u; phase < count; ++phase) {
            values[i] = mixed(turn + phase, i);
            CHECK(2, portbar_split_barrier_wait(b, portbar_split_barrier_arrive_count(b, count)));
            CHECK(3, values[(i + 1u) % n] == mixed(turn + phase, (i + 1u) % n));
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        CHECK(4, portbar_split_barrier_test_wait_parity(b, (count - 1u) & 1u));
        CHECK(5, !portbar_split_barrier_test_wait_parity(b, count & 1u));
        CHECK(6, portbar_split_barrier_fault(b) == 0u);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (i == 0u)
            portbar_split_barrier_invalidate(b);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint k = i; k < size; k += n)
            words[k] = (int)mixed(turn, k);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint k = 0u; k < size; ++k)
            CHECK(7, words[k] == (int)mixed(turn, k));
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    bad[place()] = wrong;
        """,
        locals=((1,), (8,), (64,)), turns=12, words=1, expected=None,
    ),
    Promise(
        "the largest expected count is counted",
        r"""
    const uint most = portbar_split_barrier_max();
    CHECK(0, most == 1048575u);
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
        """,
        locals=((2,), (64,)), require=(OVERLAPPING,), expected="portbar_split_barrier_max()",
    ),
    *with_and_without_counts(
        Promise(
            "more arrivals than work-items may be expected",
            r"""
        local portbar_split_barrier same, growing;
        INITIALIZE(same, 3u * n);
        INITIALIZE(growing, n * (n + 1u) / 2u);
        for (uint turn = 0u; turn < turns; ++turn) {
            values[i] = mixed(turn, i);
            CHECK(0, portbar_split_barrier_wait(&same, portbar_split_barrier_arrive_count(&same, 3u)));
            CHECK(1, values[(i + 1u) % n] == mixed(turn, (i + 1u) % n));
            CHECK(2, portbar_split_barrier_wait(&growing, portbar_split_barrier_arrive_count(&growing, i + 1u)));
            CHECK(3, portbar_split_barrier_test_wait_parity(&same, turn & 1u));  /* counted */
            CHECK(4, portbar_split_barrier_test_wait_parity(&growing, turn & 1u));  /* counted */
        }
        END(same);
            """,
            locals=((32,),), turns=20, words=1, expected=None,
        ),
    ),
    *(
        Promise(
            "fewer arrivals than work-items may be expected while all wait",
            r"""
        for (uint turn = 0u; turn < turns; ++turn) {
            const uint first = turn % n;             /* those who arrive change from phase to phase */
            const bool arrives = (i + n - first) % n < EXPECTED;
            if (arrives) {
                values[i] = mixed(turn, i);
                portbar_split_barrier_arrive(&b);
            }
            CHECK(0, portbar_split_barrier_wait_parity(&b, turn & 1u));
            for (uint k = 0u; k < EXPECTED; ++k)
                CHECK(1, values[(first + k) % n] == mixed(turn, (first + k) % n));
            barrier(CLK_LOCAL_MEM_FENCE);
        }
            """,
            locals=((32,),), turns=40, words=1, expected=f"{few}u",
        )
        for few in (1, 2, 17)
    ),
    Promise(
        "eight barriers may be arrived at before any is waited for",
        r"""
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
        """,
        locals=((16,),), turns=12, words=8, require=(OVERLAPPING,), expected=None,
    ),
    Promise(
        "a token of the previous phase stays complete while the next one is not",
        r"""
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
        """,
        locals=((16,),), turns=10, require=(OVERLAPPING,),
    ),
    Promise(
        "test_wait is false until the last has arrived and true for all afterwards",
        r"""
    local portbar_arrival_token kept;
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
        """,
        locals=((2,), (8,), (64,)), turns=20,
    ),
    Promise(
        "try_wait gives up at its limit and succeeds once the phase completed",
        r"""
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
        """,
        locals=((1,), (32,)), turns=6, require=(OVERLAPPING,), expected="n + 1u",
    ),
    Promise(
        "parities alternate from a fresh barrier on",
        r"""
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
        """,
        locals=((1,), (8,), (64,)), turns=101, words=2,
    ),
    Promise(
        "pending_count tells what was pending before each kind of arrival",
        r"""
    local portbar_arrival_token token;
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
        """,
        locals=((1,), (8,)), require=(OVERLAPPING,), expected="10u",
    ),
    Promise(
        "each arrival of a phase finds another pending count",
        r"""
    for (uint turn = 0u; turn < turns; ++turn) {
        values[i] = 0u;
        barrier(CLK_LOCAL_MEM_FENCE);
        const portbar_arrival_token token = portbar_split_barrier_arrive(&b);
        const uint pending = portbar_split_barrier_pending_count(token);
        CHECK(0, pending >= 1u && pending <= n);
        if (pending >= 1u && pending <= n)
            atomic_inc(values + pending - 1u);
        CHECK(1, portbar_split_barrier_wait(&b, token));
        barrier(CLK_LOCAL_MEM_FENCE);          /* what follows an arrival is not ordered by it */
        CHECK(2, values[i] == 1u);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
        """,
        locals=((1,), (8,), (64,)), turns=20, words=1, one_by_one=True,
    ),
    *with_and_without_counts(
        Promise(
            "arrivals are dropped in many phases by many work-items",
            r"""
        local uint completed[2];
        if (i == 0u)
            completed[0] = completed[1] = 0u;
        barrier(CLK_LOCAL_MEM_FENCE);
        uint mine = 9u;                      /* arrivals that are this work-item's, one of which may be dropped in a phase */
        for (uint phase = 0u; phase < turns; ++phase) {
            local uint *now = values + (phase & 1u) * n;
            now[i] = mixed(phase, i);
            const bool drops = mine > 1u && (mixed(i, salt[phase]) & 3u) == 0u;
            if (mine > 1u)
                portbar_split_barrier_arrive_no_complete(&b, mine - 1u);
            const portbar_arrival_token token =
                drops ? portbar_split_barrier_arrive_and_drop(&b) : portbar_split_barrier_arrive(&b);
            if (portbar_split_barrier_pending_count(token) == 1u) atomic_inc(&completed[phase & 1u]);  /* counted */
            CHECK(0, portbar_split_barrier_wait(&b, token));
            CHECK(1, now[(i + 1u) % n] == mixed(phase, (i + 1u) % n));
            /* One arrival of each phase completed it; what it counted is visible a phase later. */
            CHECK(2, phase == 0u || completed[(phase - 1u) & 1u] == (phase + 1u) / 2u);  /* counted */
            CHECK(3, portbar_split_barrier_test_wait(&b, token));  /* counted */
            CHECK(4, portbar_split_barrier_test_wait_parity(&b, phase & 1u));  /* counted */
            mine -= drops ? 1u : 0u;
        }
            """,
            turns=60, words=2, groups=8, require=(OVERLAPPING,), one_by_one=True, expected="9u * n",
        ),
    ),
    Promise(
        "work-items drop out one a phase until one is left",
        r"""
    /* In phase p work-item p drops out; the last one arrives alone from then on. All wait to the end. */
    for (uint phase = 0u; phase < n - 1u + turns; ++phase) {
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
        """,
        locals=((1,), (2,), (8,), (64,)), turns=5, words=1,
    ),
    Promise(
        "one work-item drops in every phase whoever completes it",
        r"""
    uint busy = i;
    /* The last work-item drops one in every phase while it has any, the first one arrives in every phase; either may
       be the one that completes a phase. A barrier() keeps waiters from finding the phase after next, of the same parity. */
    for (uint phase = 0u; phase < turns; ++phase) {
        const uint delay = mixed(salt[phase], i + get_group_id(0)) & 7u;
        for (uint k = 0u; k < delay; ++k)
            busy = mixed(busy, k);
        if (i == 0u)
            portbar_split_barrier_arrive(&b);
        if (i == n - 1u && phase < 60u) {
            if (phase + 1u < 60u)
                portbar_split_barrier_arrive_no_complete(&b, 60u - phase - 1u);
            portbar_split_barrier_arrive_and_drop(&b);
        }
        CHECK(0, portbar_split_barrier_wait_parity(&b, phase & 1u));
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    far[place()] = busy;
        """,
        turns=80, groups=16, far=1, require=(OVERLAPPING,), expected="61u",
    ),
]  # fmt: skip


test_promise = kept(PROMISES)


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
