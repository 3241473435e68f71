"""The hidden state of a queue: its size, its reports, and when a fresh one is due."""

from __future__ import annotations

import gc
import re
import weakref
from itertools import pairwise

import pyopencl as cl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import portbar
from portbar.device import quirks
from portbar.device.facts import facts
from portbar.launching import memory
from portbar.launching.state import GridState
from portbar.primitives import layout
from portbar.primitives.fault import OPEN
from portbar.primitives.headers import FAULTS, HEADERS, layout_of, render_header
from portbar.primitives.strategy import Choice, Strategy
from tests import support
from tests.support import grid_state

SOURCE = """
#include "portbar/device_barrier.h"
kernel void meet(PORTBAR_GRID_PARAM, global uint *passed)
{
    PORTBAR_ENTER(grid);
    bool held = portbar_device_barrier(&grid);
    held = portbar_device_barrier(&grid) && held;
    if (held && get_local_id(0) == 0u)
        atomic_inc(passed);
}
"""


@pytest.mark.device
@pytest.mark.parametrize(("groups", "capacity"), [(1, 64), (64, 64), (65, 128), (1_000, 1_024), (4_096, 4_096)])
def test_the_buffer_holds_at_least_the_groups_that_it_was_made_for(queue, groups, capacity):
    state = GridState(queue, groups, GRID)
    assert 1 << state.capacity_log2 == capacity
    assert state.buffer.size == 4 * GRID.words(capacity)


@pytest.mark.device
@pytest.mark.parametrize("discovery", support.DISCOVERIES)
def test_a_state_whose_epochs_are_used_up_is_replaced(context, queue, discovery):
    made = support.kernel(context, SOURCE, "meet", discovery=discovery)
    passed = support.filled(queue, 1)
    made(queue, None, (2,), passed).wait()
    before = grid_state(made.program, queue, 1)
    # As after 16 million launches of which the last ones never ran.
    before.epoch = layout.EPOCH_MASK - 4
    launches = [made(queue, None, (2,), passed) for _ in range(8)]
    for launch in launches:
        launch.wait()
    after = grid_state(made.program, queue, 1)
    assert after is not before
    assert 0 < after.epoch < 8
    assert before.epoch < layout.EPOCH_MASK
    assert support.uints(queue, passed)[0] >= len(launches) + 1


@pytest.mark.device
def test_a_report_that_another_thread_s_launch_overwrites_while_it_is_read_is_not_lost(context, queue, monkeypatch):
    made = support.kernel(context, SOURCE, "meet")
    passed = support.filled(queue, 1)
    first = made(queue, None, (2,), passed)
    state, read = grid_state(made.program, queue, 1), GridState.read

    def read_late(self, epoch):
        # As if another thread came between: its launches take every place for reports once.
        monkeypatch.setattr(GridState, "read", read)
        for _ in range(layout.REPORTS):
            made(queue, None, (2,), passed)
        queue.finish()
        return read(self, epoch)

    monkeypatch.setattr(GridState, "read", read_late)
    first.wait()
    assert first.num_groups >= 1
    assert not state.exhausted


@pytest.mark.device
def test_launches_of_one_queue_share_one_state_and_queues_do_not(context, queue):
    made = support.kernel(context, SOURCE, "meet")
    passed, other = support.filled(queue, 1), cl.CommandQueue(context)
    made(queue, None, (2,), passed).wait()
    first = grid_state(made.program, queue, 1)
    epoch = first.epoch
    made(queue, None, (2,), passed).wait()
    made(other, None, (2,), passed).wait()
    assert grid_state(made.program, queue, 1) is first
    assert first.epoch == epoch + 1
    assert grid_state(made.program, other, 1) is not first


def need_shared_memory(device):
    if (
        not device.type & cl.device_type.CPU
        or not device.svm_capabilities & cl.device_svm_capabilities.FINE_GRAIN_BUFFER
    ):
        pytest.skip("the host does not see this device's memory")


@pytest.mark.device
def test_a_report_in_memory_that_the_host_sees_costs_no_command(context, queue, monkeypatch):
    need_shared_memory(queue.device)
    made = support.kernel(context, SOURCE, "meet")
    passed = support.filled(queue, 1)
    made(queue, None, (2,), passed).wait()
    launch = made(queue, None, (2,), passed)

    def refuse(*_arguments, **_options):
        raise AssertionError("a command to read the report")

    monkeypatch.setattr(cl, "enqueue_copy", refuse)
    launch.wait()
    assert launch.num_groups >= 1


@pytest.mark.device
def test_memory_that_the_host_sees_outlives_its_state_while_a_launch_may_run(context, queue):
    need_shared_memory(queue.device)
    if quirks.has_effect(quirks.FLUSHES_WAIT, facts(queue.device)):
        pytest.skip("a queue that is flushed would wait here for the event that is set later")

    def launched(wait_for=None):
        made = portbar.Program(context, SOURCE).kernel("meet")
        launch = made(queue, None, (2,), passed, wait_for=wait_for)
        return launch.event, weakref.ref(grid_state(made.program, queue, 1)._memory)

    gate, passed = cl.UserEvent(context), support.filled(queue, 1)
    event, kept = launched([gate])
    queue.flush()
    gc.collect()
    outlives = kept() is not None
    if outlives:
        gate.set_status(cl.command_execution_status.COMPLETE)
        event.wait()
    else:
        gate.set_status(-5)
    assert outlives
    assert support.uints(queue, passed)[0] >= 1
    launched()[0].wait()
    gc.collect()
    assert kept() is None


def test_memory_that_is_retired_while_others_are_looked_at_is_kept(monkeypatch):
    """As from another thread, or by the garbage collector, while a driver is asked whether a launch has ended."""
    kept = []
    monkeypatch.setattr(memory, "_retired", kept)

    class Seen:
        seen = True

    def busy():
        if len(kept) == 1:
            memory.retire(Seen(), lambda: True)
        return True

    memory.retire(Seen(), busy)
    memory.retire(Seen(), lambda: True)
    assert len(kept) == 3
    memory.retire(Seen(), lambda: False)
    assert len(kept) == 3


@pytest.mark.device
def test_a_state_that_replaces_another_still_sees_launches_of_other_queues(context, queue):
    """Both have one order, which counts once."""
    gate, other = cl.UserEvent(context), cl.CommandQueue(context)
    mine, theirs = GridState(queue, 1, GRID), GridState(other, 1, GRID)
    theirs.order.add(gate, [gate])
    replaced = GridState(queue, 4, GRID, previous=mine)
    joined = replaced.joins_others()
    gate.set_status(cl.command_execution_status.COMPLETE)
    assert joined
    assert not replaced.joins_others()


# The words of the state: regions do not overlap, and those that are polled have a cache line each.

GRID = layout_of(["device_barrier"])
PLAIN = Strategy(Choice("c11", "test"), Choice("packed", "test"), Choice("tree", "test"))


def test_words_that_are_polled_while_others_are_written_have_a_line_each():
    polled = ("POLL_EVEN", "PUBLISHED", "COUNTER", "SPLIT", "FLAG", "LOCK_NEXT", "LOCK_SERVING", "LOCK_HELD")
    lines = [layout.OFFSETS[name] // layout.LINE_WORDS for name in polled]
    assert len(set(lines)) == len(lines)
    assert layout.OFFSETS["AREAS"] % layout.LINE_WORDS == 0
    assert layout.LINE_WORDS * 4 >= 128


def test_regions_do_not_overlap():
    starts = sorted(layout.OFFSETS.values())
    sizes = {layout.OFFSETS["REPORTS"]: layout.REPORTS * layout.REPORT_WORDS}
    for start, following in pairwise(starts):
        assert start + sizes.get(start, 1) <= following
    assert max(layout.OFFSETS, key=lambda name: layout.OFFSETS[name]) == "AREAS"


@given(st.sets(st.sampled_from([*HEADERS])), st.integers(6, 24))
def test_areas_of_headers_follow_each_other_from_line_to_line(names, log2):
    """The first words are those of the rendered text: one expression of the capacity."""
    capacity, own = 1 << log2, layout_of(names)
    firsts = {
        name: eval(first.replace("u", "").replace("/", "//"), {"capacity": capacity})  # noqa: S307 (portbar's own text)
        for owner, _, _ in own.owners
        for name, first in own.areas_of(owner)
    }
    end = layout.OFFSETS["AREAS"]
    for area in own.areas:
        assert firsts[area.name] == end
        assert end % layout.LINE_WORDS == 0
        end += layout.words_of(area, capacity)
    assert own.words(capacity) == end


@given(st.integers(0, 24))
def test_a_grid_without_more_has_flags_per_group_and_lines_per_tree_node(log2):
    capacity = 1 << log2
    nodes = -(-capacity // layout.TREE_FAN)
    last = layout.OFFSETS["AREAS"] + 2 * capacity + (nodes - 1) * layout.LINE_WORDS
    assert last < GRID.words(capacity) <= last + 2 * layout.LINE_WORDS
    # Half a line of counters, two numbers twice, and two values of 64 bits for each of four splits.
    assert layout_of(["team"]).words(capacity) >= GRID.words(capacity) + 36 * capacity


@pytest.mark.device
def test_a_program_s_state_has_room_for_its_own_headers_only(context, queue):
    sizes = {}
    for name in ("device_barrier", "team", "reduction"):
        text = SOURCE if name == "device_barrier" else f'{SOURCE}#include "portbar/{name}.h"\n'
        with support.skipped_where_refused():
            program = portbar.Program(context, text)
        state = grid_state(program, queue, 100)
        assert state.buffer.size == 4 * program.states.layout.words(128)
        sizes[name] = state.buffer.size
    assert sizes["team"] == sizes["device_barrier"] + 4 * 36 * 128
    assert sizes["reduction"] == sizes["device_barrier"] + 4 * (2048 + 8 * 128)


def test_words_of_local_memory_have_a_place_each():
    for names in (["device_barrier"], ["team"], HEADERS):
        own = layout_of(names)
        words = {words.name: words.words for _, _, local in own.owners for words in local}
        places = own.shared().local
        assert sorted(place for _, place in places) == [place for _, place in places]
        assert [name for name, _ in places] == [*words]
        taken = [word for name, place in places for word in range(place, place + words[name])]
        assert taken == [*range(own.shared().local_words)]


def test_every_field_of_the_hidden_words_holds_what_is_put_there():
    assert layout.EPOCH_MASK == (1 << 24) - 1
    assert layout.MAX_LAUNCHED_GROUPS <= layout.EPOCH_MASK
    assert layout.MAX_LAUNCHED_GROUPS.bit_length() < 1 << 5
    assert layout.DRY_RUN == 1 << 31
    assert not {0, OPEN} & set(FAULTS)
    assert (layout.EPOCH_MASK + 1) % layout.REPORTS == 0


@pytest.mark.parametrize("name", layout.OFFSETS)
def test_the_rendered_text_and_the_host_agree(name):
    text = render_header("device_barrier", PLAIN)
    assert re.findall(rf"^#define PORTBAR_STATE_{name} (\d+)u$", text, re.MULTILINE) == [str(layout.OFFSETS[name])]
