"""Uses of portbar/split_barrier.h that a program must require: they work where they are accepted and are refused elsewhere.

A work-item that waits in a branch or polls repeatedly relies on work-items that progress independently.
"""

from __future__ import annotations

import pytest

import portbar
from tests.split_barrier.support import PRELUDE, Promise, by_mode, kept, kernel, program
from tests.support import filled, uints

pytestmark = pytest.mark.device

FEATURES = tuple(f"split_barrier.{name}" for name in ("divergent", "subset", "sub_groups", "spin", "overlapping"))
DIVERGENT, SUBSET, SUB_GROUPS, SPIN, OVERLAPPING = FEATURES

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

MACROS = (
    '#include "portbar/split_barrier.h"\nkernel void macros(global uint *out)\n{\n'
    "out[0] = PORTBAR_SPLIT_BARRIER;\nout[1] = PORTBAR_COPY_ASYNC;\n"
    "out[2] = sizeof(portbar_split_barrier);\nout[3] = sizeof(portbar_arrival_token);\n"
    + "".join(
        f"#ifdef PORTBAR_{name}\nout[{at}] = PORTBAR_{name};\n#else\nout[{at}] = 0u;\n#endif\n"
        for at, name in enumerate((feature.replace(".", "_").upper() for feature in FEATURES), start=4)
    )
    + "}\n"
)


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
        # A requirement may change the choice, so more can be accepted than a program gets by default.
        assert all(accepted(context, mode, feature) for feature, has in zip(FEATURES, carried, strict=True) if has)
    else:
        assert carried == [int(accepted(context, mode, feature)) for feature in FEATURES]


@pytest.mark.parametrize("asked", ["uniform", "default"])
def test_unsupported_features_are_refused_by_feature_device_and_strategy(context, queue, findings, asked):
    facts = portbar.describe(queue.device).facts
    if asked == "default" and (findings is None or findings.progress.get("lanes") == "independent" or facts.nvidia):
        pytest.skip("this device can do divergent waits, or has not been probed")
    for feature in (DIVERGENT, SUBSET, *((SUB_GROUPS, SPIN) if asked == "uniform" else ())):
        with pytest.raises(portbar.UnsupportedFeatureError) as caught:
            program(context, PRELUDE + PLAIN, asked, feature)
        for word in (feature, queue.device.name.strip(), "uniform" if asked == "uniform" else ""):
            assert word in str(caught.value), word


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


PROMISES = [
    *(
        Promise(
            "producers and consumers wait for each other only",
            r"""
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
            local uint *slot = values + which * half_;
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
            """,
            locals=((128,),), turns=200, words=1, groups=4, require=(feature,), expected=None,
        )
        # Halves of 64 work-items are whole sub-groups on every device known.
        for feature in (DIVERGENT, SUB_GROUPS)
    ),
    Promise(
        "odd and even work-items meet from different loops",
        r"""
    local portbar_split_barrier ready, filled;
    INITIALIZE(ready, n);
    INITIALIZE(filled, n);
    if (i & 1u) {                            /* producers: odd work-items */
        for (uint turn = 0u; turn < turns; ++turn) {
            CHECK(0, portbar_split_barrier_wait(&ready, portbar_split_barrier_arrive(&ready)));
            values[i] = mixed(turn, i);
            const portbar_arrival_token token = portbar_split_barrier_arrive(&filled);
            CHECK(1, portbar_split_barrier_wait(&filled, token));
        }
    } else {
        for (uint turn = 0u; turn < turns; ++turn) {
            portbar_split_barrier_wait(&ready, portbar_split_barrier_arrive(&ready));
            CHECK(2, portbar_split_barrier_wait(&filled, portbar_split_barrier_arrive(&filled)));
            const uint other = ((i + 2u * turn) | 1u) % n;
            CHECK(3, values[other] == mixed(turn, other));
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    END(filled);
        """,
        turns=100, words=1, groups=4, require=(DIVERGENT,), expected=None,
    ),
    Promise(
        "half of a group meets without the other half",
        r"""
    const uint members = (n + 1u) / 2u;
    if ((i & 1u) == 0u)
        for (uint turn = 0u; turn < turns; ++turn) {
            const uint me = i / 2u, other = (me + turn + 1u) % members;
            values[(turn & 1u) * members + me] = mixed(turn, me);
            CHECK(0, portbar_split_barrier_arrive_and_wait(&b));
            CHECK(1, values[(turn & 1u) * members + other] == mixed(turn, other));
        }
    barrier(CLK_LOCAL_MEM_FENCE);
        """,
        locals=((2,), (64,)), turns=100, words=2, groups=4, require=(SUBSET,), expected="(n + 1u) / 2u",
    ),
    Promise(
        "loops that test or try until true end",
        r"""
    const uint limit = 1u << 20;             /* so that a broken barrier fails the test, and does not hang it */
    uint busy = i;
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
        """,
        locals=((1,), (64,)), turns=100, words=2, groups=4, require=(SPIN,),
    ),
    Promise(
        "work-items that dropped out leave and the others go on",
        r"""
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
        """,
        locals=((2,), (3,), (64,)), turns=30, words=2, groups=16, require=(DIVERGENT,), expected=None,
    ),
    # libcu++'s barrier without a completion function loses the reload here, and with it every later phase.
    Promise(
        "an arrival that overtakes the reload of a dropped count is not lost",
        r"""
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
    far[place()] = busy;
    END(b);
        """,
        turns=500, far=1, groups=32, require=(DIVERGENT,), expected=None,
    ),
]  # fmt: skip


test_promise = kept(PROMISES)
