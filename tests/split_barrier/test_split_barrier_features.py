"""Uses of portbar/split_barrier.h that a program must require: they work where they are accepted and are refused elsewhere.

Whoever waits in a branch or asks again and again relies on work-items that progress independently.
"""

from __future__ import annotations

import numpy as np
import pytest

import portbar
from tests.split_barrier.support import OVERLAPPING, PRELUDE, by_mode, judge, kernel, local_uints, program, rounds
from tests.support import filled, to_device, uints

pytestmark = pytest.mark.device

DIVERGENT, SUBSET, SUB_GROUPS, SPIN = (
    f"split_barrier.{name}" for name in ("divergent", "subset", "sub_groups", "spin")
)
FEATURES = (DIVERGENT, SUBSET, SUB_GROUPS, SPIN, OVERLAPPING)

PLAIN = r"""
kernel void plain(global uint *bad)
{
    BEGIN;
    local portbar_split_barrier b;
    INITIALIZE(b, n);
    CHECK(0, portbar_split_barrier_arrive_and_wait(&b));
    END(b);
}
"""

MACROS = r"""
#include "portbar/split_barrier.h"

#ifndef PORTBAR_SPLIT_BARRIER_DIVERGENT
#define PORTBAR_SPLIT_BARRIER_DIVERGENT 0
#endif
#ifndef PORTBAR_SPLIT_BARRIER_SUBSET
#define PORTBAR_SPLIT_BARRIER_SUBSET 0
#endif
#ifndef PORTBAR_SPLIT_BARRIER_SUB_GROUPS
#define PORTBAR_SPLIT_BARRIER_SUB_GROUPS 0
#endif
#ifndef PORTBAR_SPLIT_BARRIER_SPIN
#define PORTBAR_SPLIT_BARRIER_SPIN 0
#endif
#ifndef PORTBAR_SPLIT_BARRIER_OVERLAPPING
#define PORTBAR_SPLIT_BARRIER_OVERLAPPING 0
#endif

kernel void macros(global uint *out)
{
    out[0] = PORTBAR_SPLIT_BARRIER;
    out[1] = PORTBAR_COPY_ASYNC;
    out[2] = sizeof(portbar_split_barrier);
    out[3] = sizeof(portbar_arrival_token);
    out[4] = PORTBAR_SPLIT_BARRIER_DIVERGENT;
    out[5] = PORTBAR_SPLIT_BARRIER_SUBSET;
    out[6] = PORTBAR_SPLIT_BARRIER_SUB_GROUPS;
    out[7] = PORTBAR_SPLIT_BARRIER_SPIN;
    out[8] = PORTBAR_SPLIT_BARRIER_OVERLAPPING;
}
"""


def accepted(context, mode, feature):
    try:
        program(context, PRELUDE + PLAIN, mode, feature)
    except portbar.UnsupportedFeatureError:
        return False
    return True


@by_mode
def test_the_header_s_macros_name_the_features_that_a_program_may_require(context, queue, mode):
    kernel(context, PLAIN, mode)
    made = program(context, MACROS, mode)
    out = filled(queue, 9, 99)
    made.kernel("macros")(queue, (1,), (1,), out).wait()
    present, copies, size, token, *carried = uints(queue, out).tolist()
    assert (present, copies, token) == (1, 1, 8)
    assert size % 8 == 0
    if mode == "default" and made.strategy(queue.device).split_barrier.value != "mbarrier":
        # What is required may itself change what is chosen, so that more can be accepted than a program gets unasked.
        assert all(accepted(context, mode, feature) for feature, has in zip(FEATURES, carried, strict=True) if has)
    else:
        assert carried == [int(accepted(context, mode, feature)) for feature in FEATURES]


def test_uniform_refuses_what_it_cannot_do_and_names_feature_device_and_strategy(context, queue):
    for feature in (DIVERGENT, SUBSET, SUB_GROUPS, SPIN):
        with pytest.raises(portbar.UnsupportedFeatureError) as caught:
            portbar.Program(context, PRELUDE + PLAIN, strategy={"split_barrier": "uniform"}, require=(feature,))
        message = str(caught.value)
        for word in (feature, queue.device.name.strip(), "uniform"):
            assert word in message, f"{word!r} is missing in: {message}"


def test_where_lanes_do_not_progress_alone_the_default_refuses_divergent_waits(context, queue, findings):
    facts = portbar.describe(queue.device).facts
    if findings is None or findings.progress.get("lanes") == "independent" or facts.nvidia:
        pytest.skip("this device can do divergent waits, or has not been probed")
    for feature in (DIVERGENT, SUBSET):
        with pytest.raises(portbar.UnsupportedFeatureError) as caught:
            portbar.Program(context, PRELUDE + PLAIN, require=(feature,))
        assert feature in str(caught.value)
        assert queue.device.name.strip() in str(caught.value)


@by_mode
def test_overlapping_arrivals_are_accepted_by_every_strategy(context, mode):
    assert kernel(context, PLAIN, mode, OVERLAPPING)


@pytest.mark.parametrize("unknown", ["split_barrier.diverging", "split_barrier", "split_barrier.", "divergent", ""])
def test_an_unknown_feature_is_refused_and_the_known_ones_are_listed(context, unknown):
    with pytest.raises(portbar.UnsupportedFeatureError) as caught:
        portbar.Program(context, PRELUDE + PLAIN, require=(unknown,))
    assert repr(unknown) in str(caught.value)
    for feature in FEATURES:
        assert feature in str(caught.value)


def test_a_feature_of_a_header_that_is_not_included_is_refused(context):
    with pytest.raises(portbar.UnsupportedFeatureError) as caught:
        portbar.Program(context, "kernel void nothing(global uint *a) { a[0] = 1u; }", require=(OVERLAPPING,))
    assert OVERLAPPING in str(caught.value)


PRODUCERS = r"""
kernel void producers(global uint *bad, uint turns, local uint *slots)
{
    BEGIN;
    local portbar_split_barrier full[2], empty[2];
    const uint half_ = n / 2u;
    if (i < 2u) {
        portbar_split_barrier_initialize(&full[i], half_);
        portbar_split_barrier_initialize(&empty[i], half_);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    /* The lower half writes, the upper half reads; each waits only for the other. */
    for (uint turn = 0u; turn < turns; ++turn) {
        const uint which = turn & 1u, parity = (turn >> 1) & 1u;
        local uint *slot = slots + which * half_;
        if (i < half_) {
            CHECK(0, portbar_split_barrier_wait_parity(&empty[which], parity ^ 1u));
            slot[i] = mixed(turn, i);
            portbar_split_barrier_arrive(&full[which]);
        } else {
            CHECK(1, portbar_split_barrier_wait_parity(&full[which], parity));
            const uint other = (i + turn) % half_;
            CHECK(2, slot[other] == mixed(turn, other));
            portbar_split_barrier_arrive(&empty[which]);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    END(full[0]);
}
"""


@by_mode
@pytest.mark.parametrize("feature", [DIVERGENT, SUB_GROUPS])
def test_producers_and_consumers_wait_for_each_other_only(context, queue, mode, feature):
    # Halves of 64 work-items are whole sub-groups on every device known.
    made = kernel(context, PRODUCERS, mode, feature)
    judge(queue, made, (128,), np.uint32(rounds(queue.device, 200)), local_uints(128), groups=4)


WITH_TOKENS = r"""
kernel void with_tokens(global uint *bad, uint turns, local uint *slots)
{
    BEGIN;
    local portbar_split_barrier ready, filled;
    INITIALIZE(ready, n);
    INITIALIZE(filled, n);
    if (i & 1u) {                            /* producers: odd work-items */
        for (uint turn = 0u; turn < turns; ++turn) {
            CHECK(0, portbar_split_barrier_wait(&ready, portbar_split_barrier_arrive(&ready)));
            slots[i] = mixed(turn, i);
            const portbar_arrival_token token = portbar_split_barrier_arrive(&filled);
            CHECK(1, portbar_split_barrier_wait(&filled, token));
        }
    } else {
        for (uint turn = 0u; turn < turns; ++turn) {
            portbar_split_barrier_wait(&ready, portbar_split_barrier_arrive(&ready));
            CHECK(2, portbar_split_barrier_wait(&filled, portbar_split_barrier_arrive(&filled)));
            const uint other = ((i + 2u * turn) | 1u) % n;
            CHECK(3, slots[other] == mixed(turn, other));
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    END(filled);
}
"""


@by_mode
def test_odd_and_even_work_items_meet_from_different_loops(context, queue, mode):
    made = kernel(context, WITH_TOKENS, mode, DIVERGENT)
    judge(queue, made, (64,), np.uint32(rounds(queue.device, 100)), local_uints(64), groups=4)


HALF = r"""
kernel void half_of_them(global uint *bad, uint turns, local uint *values)
{
    BEGIN;
    local portbar_split_barrier b;
    const uint members = (n + 1u) / 2u;
    INITIALIZE(b, members);
    if ((i & 1u) == 0u)
        for (uint turn = 0u; turn < turns; ++turn) {
            const uint me = i / 2u, other = (me + turn + 1u) % members;
            values[(turn & 1u) * members + me] = mixed(turn, me);
            CHECK(0, portbar_split_barrier_arrive_and_wait(&b));
            CHECK(1, values[(turn & 1u) * members + other] == mixed(turn, other));
        }
    barrier(CLK_LOCAL_MEM_FENCE);
    END(b);
}
"""


@by_mode
@pytest.mark.parametrize("local", [(2,), (64,)], ids=str)
def test_half_of_a_group_meets_without_the_other_half(context, queue, mode, local):
    made = kernel(context, HALF, mode, SUBSET)
    judge(queue, made, local, np.uint32(rounds(queue.device, 100)), local_uints(2 * local[0]), groups=4)


SPINNING = r"""
kernel void spinning(global uint *bad, uint turns, local uint *values)
{
    BEGIN;
    local portbar_split_barrier b;
    const uint limit = 1u << 20;             /* so that a broken barrier fails the test, and does not hang it */
    uint busy = i;
    INITIALIZE(b, n);
    for (uint turn = 0u; turn < turns; ++turn) {
        local uint *now = values + (turn & 1u) * n;
        now[i] = mixed(turn, i);
        const portbar_arrival_token token = portbar_split_barrier_arrive(&b);
        uint polls = 0u;
        if (turn & 1u)
            while (!portbar_split_barrier_test_wait(&b, token) && ++polls < limit)
                busy = mixed(busy, polls);
        else
            while (!portbar_split_barrier_try_wait(&b, token, 8u) && ++polls < limit)
                busy = mixed(busy, polls);
        CHECK(0, polls < limit);
        CHECK(1, now[(i + turn) % n] == mixed(turn, (i + turn) % n));
        CHECK(2, busy != 0x12345678u || polls < limit);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    END(b);
}
"""


@by_mode
@pytest.mark.parametrize("local", [(1,), (64,)], ids=str)
def test_loops_that_test_or_try_until_true_end(context, queue, mode, local):
    made = kernel(context, SPINNING, mode, SPIN)
    judge(queue, made, local, np.uint32(rounds(queue.device, 100)), local_uints(2 * local[0]), groups=4)


LEAVING = r"""
kernel void leaving(global uint *bad, uint turns, local uint *values)
{
    BEGIN;
    local portbar_split_barrier b;
    for (uint turn = 0u; turn < turns; ++turn) {
        INITIALIZE(b, n);
        /* SYCL's third example: in phase k work-item k drops out and is gone, those behind it go on. */
        for (uint k = 0u; k < n; ++k) {
            values[(k & 1u) * n + i] = mixed(turn * n + k, i);
            if (i > k) {
                CHECK(0, portbar_split_barrier_wait(&b, portbar_split_barrier_arrive(&b)));
                const uint other = k + (i + turn) % (n - k);
                CHECK(1, values[(k & 1u) * n + other] == mixed(turn * n + k, other));
            } else if (i == k) {
                portbar_split_barrier_arrive_and_drop(&b);
                break;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        CHECK(2, portbar_split_barrier_fault(&b) == 0u);
        if (i == 0u)
            portbar_split_barrier_invalidate(&b);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    bad[place()] = wrong;
}
"""


@by_mode
@pytest.mark.parametrize("local", [(2,), (3,), (64,)], ids=str)
def test_work_items_that_dropped_out_leave_and_the_others_go_on(context, queue, mode, local):
    made = kernel(context, LEAVING, mode, DIVERGENT)
    judge(queue, made, local, np.uint32(rounds(queue.device, 30)), local_uints(2 * local[0]), groups=16)


LOST_RELOAD = r"""
kernel void lost_reload(global uint *bad, uint turns, const global uint *salt, global uint *sink)
{
    BEGIN;
    local portbar_split_barrier b;
    uint busy = i;
    for (uint turn = 0u; turn < turns; ++turn) {
        INITIALIZE(b, 2u);
        const uint delay = mixed(salt[turn], place()) & 31u;
        for (uint k = 0u; k < delay; ++k)
            busy = mixed(busy, k);
        /* The last work-item drops out, perhaps completing the phase. The first may be two phases on before the count of
           the second phase is loaded: an arrival that overtakes that must not be lost. */
        if (i == n - 1u)
            portbar_split_barrier_arrive_and_drop(&b);
        if (i == 0u)
            for (uint phase = 0u; phase < 5u; ++phase)
                CHECK(phase, portbar_split_barrier_arrive_and_wait(&b));
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    sink[place()] = busy;
    END(b);
}
"""


@by_mode
def test_an_arrival_that_overtakes_the_reload_of_a_dropped_count_is_not_lost(context, queue, mode):
    # libcu++'s barrier without a completion function loses the reload here, and with it every later phase.
    made = kernel(context, LOST_RELOAD, mode, DIVERGENT)
    turns, seed, groups = rounds(queue.device, 500), 31, 32
    salt = to_device(queue, np.random.default_rng(seed).integers(0, 1 << 32, turns, dtype=np.uint32))
    arguments = (np.uint32(turns), salt, filled(queue, 64 * groups))
    judge(queue, made, (64,), *arguments, groups=groups, note=f"seed {seed}")
