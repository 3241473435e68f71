"""All that portbar makes for a queue ends with the queue or the program, and is bounded meanwhile."""

from __future__ import annotations

import gc
import time
import weakref

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest

import portbar
from portbar.arrays import plan as plans
from portbar.launching import launch
from portbar.launching.queues import life_of
from portbar.launching.state import QueueState
from tests.launch.test_interrupts import SOURCES, Case
from tests.reduce.support import put, random_of
from tests.support import skipped_where_refused

pytestmark = pytest.mark.device


def launched(context, queue, kind="grid"):
    case = Case(kind, context, queue)
    for _ in range(3):
        case.launch().wait()
    return case


def called(queue):
    """Every call on arrays that keeps memory."""
    keys = put(queue, random_of(np.uint32, 30_000, 1))
    with skipped_where_refused():
        portbar.sort(queue, keys, keys)
    portbar.argsort(queue, keys)
    portbar.reduce(queue, keys)
    portbar.scan(queue, keys, offsets=put(queue, np.arange(5)))
    portbar.compact(queue, keys, "x > 9")
    queue.finish()


def states_of(made):
    """Weak references to the states of a program."""
    return [
        weakref.ref(one)
        for kept in (made.states.grid, made.states.gang, made.states.scan)
        for one in kept._states.values()
    ]


def assert_released(handle):
    """Nothing but this test refers to a queue; a runtime's threads may do so for some time."""
    deadline = time.monotonic() + 60
    while handle.reference_count > 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert handle.reference_count == 1


@pytest.fixture
def alone(context):
    """A queue of the test's own, to which PyOpenCL's caches refer no more than to others."""
    return lambda: cl.CommandQueue(context)


@pytest.mark.parametrize("kind", SOURCES)
def test_a_kernel_keeps_nothing_of_a_queue_that_is_gone(kind, context, alone):
    queue = alone()
    case = launched(context, queue, kind)
    kept = states_of(case.program)
    assert bool(kept) == (kind != "plain")
    life = weakref.ref(life_of(queue))
    handle = life().queue
    # PoCL's buffers refer to the last command that used them, and so to its queue.
    case.queue = case.to = None
    del queue
    assert life() is None
    gc.collect()
    assert [one() for one in kept if one() is not None] == []
    assert not case.kernel._plans
    assert not case.kernel._remembered
    assert case.kernel._latest.pointer == 0
    assert_released(handle)


def test_calls_on_arrays_keep_nothing_of_a_queue_that_is_gone(alone):
    queue = alone()
    called(queue)
    state = weakref.ref(plans.state_of(queue))
    handle = life_of(queue).queue
    del queue
    gc.collect()
    assert state() is None
    assert_released(handle)


def test_a_queue_keeps_nothing_of_a_program_that_is_gone(context, queue):
    for kind in SOURCES:
        case = launched(context, queue, kind)
        kept, program = states_of(case.program), weakref.ref(case.program)
        del case
        gc.collect()
        assert program() is None
        assert [one() for one in kept if one() is not None] == []


def test_what_is_kept_lasts_as_long_as_any_object_of_the_queue(context, alone):
    queue = alone()
    case = launched(context, queue)
    called(queue)
    [state] = case.program.states.grid._states.values()
    arrays = plans.state_of(queue)
    other = cl.CommandQueue.from_int_ptr(queue.int_ptr, retain=True)
    case.kernel(other, None, (4,), case.to, np.uint32(1)).wait()
    assert plans.state_of(other) is arrays
    case.queue = None
    del queue
    gc.collect()
    assert [*case.program.states.grid._states.values()] == [state]
    assert plans.state_of(other) is arrays
    before = state.epoch
    case.kernel(other, None, (4,), case.to, np.uint32(1)).wait()
    assert state.epoch == before + 1


def test_a_queue_that_takes_the_place_of_another_has_its_own_launches(context, alone):
    """Objects and handles of queues that are gone are used again."""
    case = launched(context, alone())
    for turn in range(50):
        case.queue = None
        case.queue = alone()
        case.check(turn)
    assert len(case.kernel._plans) <= 1


def test_a_launch_outlives_its_queue_and_its_program(context, alone):
    case = launched(context, alone())
    launch = case.launch()
    del case
    gc.collect()
    launch.wait()
    assert launch.num_groups >= 1


def test_programs_of_contexts_that_are_gone_are_few(device):
    made = []
    for _ in range(plans._MOST_CONTEXTS + 3):
        context = cl.Context([device])
        queue = cl.CommandQueue(context)
        with skipped_where_refused():
            portbar.reduce(queue, put(queue, [1, 2])).get()
        made.append(weakref.ref(plans.state_of(queue).programs))
    del queue, context
    gc.collect()
    assert sum(one() is not None for one in made) <= plans._MOST_CONTEXTS


class Counted(cl.Buffer):
    """A buffer that can be counted."""


def test_memory_that_was_outgrown_is_given_up(context, monkeypatch):
    """Sorts and scans of more and more elements leave what the last ones need."""
    alive = weakref.WeakSet()

    def counted(*args, **more):
        made = Counted(*args, **more)
        alive.add(made)
        return made

    queue = cl.CommandQueue(context)
    for turn in range(4):
        size = 20_000 << turn
        keys = put(queue, random_of(np.uint32, size, size))
        with monkeypatch.context() as patched, skipped_where_refused():
            patched.setattr(cl, "Buffer", counted)
            found = portbar.sort(queue, keys, keys), portbar.scan(queue, keys, "max")
        del keys
        np.testing.assert_array_equal(found[0][0].get(), found[0][1].get())
        np.testing.assert_array_equal(found[1].get()[-1], found[0][0].get()[-1])
        del found
        gc.collect()
        kept = plans.state_of(queue)._buffers
        assert sorted(one.size for one in alive) == sorted(one.size for one in kept.values())


def test_a_queue_keeps_a_part_of_its_device_s_memory(context):
    queue = cl.CommandQueue(context)
    keys = random_of(np.uint32, 40_000, 4)
    with skipped_where_refused():
        portbar.sort(queue, put(queue, keys), put(queue, keys))
    state = plans.state_of(queue)
    assert state._most_bytes == queue.device.global_mem_size // plans._KEPT_PART
    assert state._rooms & state._buffers.keys()
    state._most_bytes = 300_000
    for size in (60_000, 60_000, 40_000):
        given = random_of(np.uint32, size, size)
        found = portbar.sort(queue, put(queue, given), put(queue, given))
        assert sum(one.size for one in state._buffers.values()) <= 300_000
        for one in found:
            np.testing.assert_array_equal(one.get(), np.sort(given))


def test_states_of_many_queues_are_bounded(context, monkeypatch):
    monkeypatch.setattr(launch, "_MAX_STATES", 3)
    case = launched(context, cl.CommandQueue(context))
    queues = [cl.CommandQueue(context) for _ in range(6)]
    for _ in range(2):
        for case.queue in queues:
            case.check("many queues")
    assert len(case.program.states.grid._states) <= 3
    assert all(isinstance(one, QueueState) for one in case.program.states.grid._states.values())


def test_queues_may_be_dropped_while_their_commands_run(context, queue):
    """Intel's runtime never ends without help: the effect QUEUES_LEFT_HANG."""
    case = Case("plain", context, queue)
    for _ in range(200):
        loose = cl.CommandQueue(context, properties=cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
        case.kernel(loose, case.size, (4,), case.to, np.uint32(3), wait_for=[cl.enqueue_marker(loose)])
        del loose
        case.launch().wait()
