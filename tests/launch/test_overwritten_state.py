"""Words of the hidden state that something else writes over: an error or a right answer, never silence and never a hang."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.choices import timing
from portbar.primitives import layout
from tests import support
from tests.support import grid_state

pytestmark = pytest.mark.device

ROUNDS = 4
LOCAL = (2,)

SOURCE = """
#include "portbar/device_barrier.h"

/* Whole and split barriers in turn. In round `when` the last group overwrites a word of the state. Each work-item counts the
   barriers that held, and in the high half those after which it read what another group had not written yet. */
kernel void trample(PORTBAR_GRID_PARAM, global uint *data, global uint *held, const uint rounds, const uint when,
                    const uint word, const uint value, const uint adds)
{
    PORTBAR_ENTER(grid);
    const uint me = portbar_global_id(&grid), n = portbar_global_size(&grid), items = (uint)get_local_size(0);
    const uint last = portbar_group_id(&grid) + 1u == portbar_num_groups(&grid) && get_local_id(0) == 0u ? 1u : 0u;
    uint passed = 0u;
    for (uint r = 0u; r < rounds; ++r) {
        data[me] = 2u * r + 1u;
        for (uint i = 0u; i < (r == when ? last : 0u); ++i) {
            if (adds)
                atomic_add(portbar_grid_param + word, value);
            else
                atomic_xchg(portbar_grid_param + word, value);
        }
        passed += portbar_device_barrier(&grid) ? 1u : 0u;
        passed += data[(me + items) % n] < 2u * r + 1u ? 0x10000u : 0u;
        passed += portbar_device_barrier(&grid) ? 1u : 0u;
        data[me] = 2u * r + 2u;
        const portbar_device_token token = portbar_device_barrier_arrive(&grid);
        passed += portbar_device_barrier_wait(&grid, token) ? 1u : 0u;
        passed += data[(me + items) % n] < 2u * r + 2u ? 0x10000u : 0u;
        passed += portbar_device_barrier(&grid) ? 1u : 0u;
    }
    held[me] = passed;
}
"""

FILL = """
#include "portbar/device_barrier.h"

/* No barrier: a group that does not take part leaves its share out. */
kernel void fill(PORTBAR_GRID_PARAM, global uint *out, const uint n)
{
    PORTBAR_ENTER(grid);
    for (uint i = portbar_global_id(&grid); i < n; i += portbar_global_size(&grid))
        out[i] = i + 1u;
    if (portbar_global_id(&grid) == 0u)
        out[n] = portbar_grid_param[PORTBAR_STATE_ABORT];
}
"""

#: Where group 0 is held up in its discovery. In 64 bits, since PoCL on a fast core polls two thousand million times a second.
STALL = (
    "for (ulong turn = (launch.x & PORTBAR_DRY_RUN) ? ~0ul : 0ul;"
    " turn < 400ul * launch.w * PORTBAR_POLLS && !({until}); ++turn);"
)
#: The other group has given up and closed the poll.
CLOSED = (
    "(portbar_word_load(state + ((launch.x & 1u) ? PORTBAR_STATE_POLL_ODD : PORTBAR_STATE_POLL_EVEN))"
    " & PORTBAR_POLL_CLOSED) != 0u"
)
STALLS = {
    "before it prepares": ("portbar_state_prepare(state, launch);", "{stall} {line}"),
    "before its report": ("portbar_word_store(report + 1, PORTBAR_STATUS_OPEN);", "{stall} {line}"),
    "before it is ready": ("portbar_state_prepare(state, launch);", "{line} {stall}"),
}

#: Words that every launch uses, by name; those of the report and of the algorithms are added below.
NAMES = ("POLL_EVEN", "POLL_ODD", "PUBLISHED", "ABORT", "PLACE", "COUNTER", "SPLIT", "FLAG")
LOCKED = ("LOCK_NEXT", "LOCK_SERVING", "LOCK_HELD", "POLL_EPOCH", "POLL_COUNT", "POLL_DONE")


def words_of(state, discovery):
    """Return name -> word of all that a launch of two groups looks at; `state.epoch` is the last launch's."""
    report = layout.OFFSETS["REPORTS"] + (state.epoch + 1) % layout.REPORTS * layout.REPORT_WORDS
    found = {name: layout.OFFSETS[name] for name in (NAMES if discovery == "packed" else (*NAMES, *LOCKED))}
    found |= {f"report {i}": report + i for i in range(layout.REPORT_WORDS)}
    for slot in (0, 1):
        first = layout.OFFSETS["SLOTS"] + slot * layout.SLOT_WORDS
        found |= {f"slot {slot} word {i}": first + i for i in range(4)}
    capacity = 1 << state.capacity_log2
    groups = layout.OFFSETS["AREAS"]
    found |= {
        "arrived 0": groups,
        "arrived 1": groups + 1,
        "released 0": groups + capacity,
        "released 1": groups + capacity + 1,
    }
    return found | {"node 0": groups + 2 * capacity, "release flag": layout.OFFSETS["RELEASED"]}


def short_waits(monkeypatch):
    """Let programs that are built from now on wait for milliseconds only; on GPUs, as long as 4,000 groups pass a lock."""

    def rounds(seconds):
        return lambda profile, *_: timing.rounds(profile, seconds if profile.units.kernels_alike else 10.0 * seconds)

    monkeypatch.setattr(timing, "limit_rounds", rounds(0.03))
    monkeypatch.setattr(timing, "patience_rounds", rounds(0.05))


class Trampled:
    """A kernel whose state is written over, with short waits."""

    def __init__(self, context, queue, monkeypatch, **strategy):
        # A limit of its own makes a program of its own, so that no other test gets the short waits.
        short_waits(monkeypatch)
        self.queue = queue
        self.kernel = support.kernel(context, SOURCE, "trample", spin_limit=0.031, **strategy)
        self.groups = min(2, support.need_groups(self.kernel, queue, LOCAL, 2))
        self.data, self.held = support.filled(queue, 64), support.filled(queue, 64)

    @property
    def state(self):
        return grid_state(self.kernel.program, self.queue, self.groups)

    def run(self, *, when=ROUNDS, word=0, value=0, adds=False):
        """Launch; return whether it ended without an error. Its results must then be correct."""
        for buffer in (self.data, self.held):
            cl.enqueue_fill_buffer(self.queue, buffer, np.uint32(0), 0, buffer.size)
        numbers = map(np.uint32, (ROUNDS, when, word, value, adds))
        launch = self.kernel(self.queue, None, LOCAL, self.data, self.held, *numbers, num_groups=self.groups)
        try:
            launch.wait()
        except portbar.Error:
            return False
        held = support.uints(self.queue, self.held)
        assert 1 <= launch.num_groups <= self.groups
        assert (held[: 2 * launch.num_groups] == 4 * ROUNDS).all(), f"silence: {held[:4]}"
        return True

    def meet(self):
        """Launch until two groups took part with correct results: overwritten words do no permanent harm."""
        assert any(self.run() for _ in range(20)), "no launch is right any more"


def values(seed):
    """Return values that an overrun may leave, with a random one."""
    return (0, 1, 0x8000_0000, 0xFFFF_FFFF, int(np.random.default_rng(seed).integers(1 << 32)))


def held_up(context, queue, monkeypatch, stall, until, **strategy):
    """Return the kernel `fill` of which group 0 is held up at a place of `STALLS` while `until` is false."""
    short_waits(monkeypatch)
    sound = support.kernel(context, FILL, "fill", spin_limit=0.031, **strategy)
    support.need_groups(sound, queue, LOCAL, 2)
    line, with_stall = STALLS[stall]
    text = sound.program.rendered(queue.device)
    assert text.count(line) == 1
    text = text.replace(line, with_stall.format(line=line, stall=STALL.format(until=until)))
    return portbar.Program(context, text, spin_limit=0.031).kernel("fill")


@pytest.mark.parametrize("aborted", [False, True], ids=["", "after a fault"])
@pytest.mark.parametrize("stall", STALLS)
def test_a_group_that_gives_up_in_discovery_is_never_left_out(context, queue, monkeypatch, stall, aborted):
    fill, n = held_up(context, queue, monkeypatch, stall, CLOSED), 1_000
    for _ in range(30):
        out = support.filled(queue, n + 1)
        state = grid_state(fill.program, queue, 2)
        cl.enqueue_copy(queue, state.buffer, np.full(1, aborted, np.uint32), dst_offset=4 * layout.OFFSETS["ABORT"])
        launch = fill(queue, None, LOCAL, out, np.uint32(n), num_groups=2)
        try:
            launch.wait()
        except portbar.BarrierTimeoutError:
            return
        np.testing.assert_array_equal(support.uints(queue, out)[:n], np.arange(1, n + 1))
    pytest.fail("no group was held up long enough")


def test_a_group_that_finds_no_way_in_leaves_no_flag_to_a_launch_without_a_fault(context, queue, monkeypatch):
    # The group that has the lock waits until the other one has given up and reported it.
    lost = "portbar_word_load(report + 1) == PORTBAR_STATUS_LOST"
    fill, n = held_up(context, queue, monkeypatch, "before its report", lost, discovery="spin"), 1_000
    for _ in range(30):
        out = support.filled(queue, n + 1)
        launch = fill(queue, None, LOCAL, out, np.uint32(n), num_groups=2)
        try:
            launch.wait()
        except portbar.BarrierTimeoutError:
            continue
        np.testing.assert_array_equal(support.uints(queue, out), [*range(1, n + 1), 0])
        if launch.num_groups == 1:
            return
    pytest.fail("no group was held up long enough")


PAIRS = [*((algorithm, "packed") for algorithm in support.ALGORITHMS), ("counter", "ticket"), ("counter", "spin")]


@pytest.mark.slow
@pytest.mark.parametrize("running", [False, True], ids=["between launches", "in a launch"])
@pytest.mark.parametrize(("algorithm", "discovery"), PAIRS)
def test_an_overwritten_word(context, queue, monkeypatch, algorithm, discovery, running):
    tried = Trampled(context, queue, monkeypatch, device_barrier=algorithm, discovery=discovery)
    tried.meet()
    for seed, name in enumerate(words_of(tried.state, discovery)):
        state, value = tried.state, values(seed)[seed % 5]
        word = words_of(state, discovery)[name]
        if running:
            tried.run(when=1, word=word, value=value)
        else:
            cl.enqueue_copy(queue, state.buffer, np.full(1, value, np.uint32), dst_offset=4 * word)
            tried.run()
    tried.meet()


@pytest.mark.parametrize("more", [1, 3, 40], ids=str)
@pytest.mark.parametrize("algorithm", ["counter", "counter_backoff", "sharded", "replicated", "tree"])
def test_a_counter_that_ran_ahead_is_an_error(context, queue, monkeypatch, algorithm, more):
    if context.devices[0].vendor.startswith("NVIDIA"):
        pytest.skip("barriers there look at counts only as closely as costs nothing")
    tried = Trampled(context, queue, monkeypatch, device_barrier=algorithm)
    tried.meet()
    state = tried.state
    places = words_of(state, "packed")
    name = {"tree": "node 0", "sharded": "slot 0 word 0", "replicated": "slot 0 word 0"}.get(algorithm, "COUNTER")
    if state.epoch and name == "COUNTER" and tried.kernel.program.strategy(queue.device).atomics.value == "ptx":
        name = "slot 0 word 0"
    # The word may be overwritten where no group looks at it any more.
    for _ in range(40):
        ended_well = tried.run(when=1, word=places[name], value=more, adds=True)
        if not ended_well:
            break
    assert not ended_well
    tried.meet()
