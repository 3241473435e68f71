"""A launch with a fault that is dropped without a wait: the next launch warns of it, and the next wait raises its error."""

from __future__ import annotations

import gc
import time
import warnings

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.launching import faults
from tests import support

pytestmark = pytest.mark.device

SOURCE = """
#include "portbar/device_barrier.h"
#include "portbar/signal.h"
kernel void bad(PORTBAR_GRID_PARAM, global portbar_signal *signal, const uint n)
{
    PORTBAR_ENTER(grid);
    if (portbar_global_id(&grid) == 0u)
        portbar_signal_add(&grid, signal, n);
}
kernel void good(PORTBAR_GRID_PARAM, global uint *to)
{
    PORTBAR_ENTER(grid);
    portbar_device_barrier(&grid);
    if (portbar_global_id(&grid) == 0u)
        to[0] += 1u;
}
kernel void lonely(PORTBAR_GRID_PARAM, const uint skips)
{
    PORTBAR_ENTER(grid);
    if (PORTBAR_UNIFORM(portbar_group_id(&grid) != skips))
        portbar_device_barrier(&grid);
}
"""
TOLD = r"kernel 'bad' on .* exceeded its largest value, 2147483647.* dropped without wait\(\)"


class Bench:
    """Launches of one program in one queue."""

    def __init__(self, context, properties=0):
        self.program = portbar.Program(context, SOURCE, spin_limit=0.3)
        self.queue = cl.CommandQueue(context, properties=properties)
        self.signal, self.to = support.filled(self.queue, 1), support.filled(self.queue, 1)
        for _ in range(3):
            self.good().wait()
            self.bad(n=0).wait()
        self.pause()

    def good(self, **more):
        return self.program.kernel("good")(self.queue, None, (4,), self.to, max_groups=2, **more)

    def bad(self, n=2**31):
        return self.program.kernel("bad")(self.queue, None, (4,), self.signal, np.uint32(n), max_groups=2)

    def pause(self):
        """After this, a launch looks at what those before have left, wherever the words are."""
        self.queue.finish()
        time.sleep(faults.LOOK_S + 0.01)


@pytest.fixture
def bench(context):
    return Bench(context)


@pytest.fixture(autouse=True)
def no_other_warning():
    """Neither a second one for the same fault, nor one for a fault that was an exception, here or when a state ends."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", portbar.UnreportedFaultWarning)
        yield
        gc.collect()


@pytest.mark.parametrize("way", ["short", "long"])
def test_the_next_launch_warns_and_the_next_wait_raises_once(bench, way):
    more = {"wait_for": [cl.enqueue_marker(bench.queue)]} if way == "long" else {}
    bench.bad()
    bench.pause()
    with pytest.warns(portbar.UnreportedFaultWarning, match=TOLD) as caught:
        launch = bench.good(**more)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    bench.good()
    with pytest.raises(portbar.Error, match=TOLD) as raised:
        launch.wait()
    assert not isinstance(raised.value, portbar.BarrierTimeoutError)
    launch.wait()
    bench.pause()
    bench.good(**more).wait()


def test_a_wait_without_a_launch_between_raises_and_no_launch_warns(bench):
    gate = cl.UserEvent(bench.program.context)
    bench.good(wait_for=[gate])
    bench.bad()
    launch = bench.good()
    gate.set_status(cl.command_execution_status.COMPLETE)
    with pytest.raises(portbar.Error, match=TOLD):
        launch.wait()
    bench.pause()
    bench.good().wait()


def test_a_barrier_that_gave_up_names_its_kernel(bench):
    kernel = bench.program.kernel("lonely")
    support.need_groups(kernel, bench.queue, (4,), 2, np.uint32(0))
    launch = kernel(bench.queue, None, (4,), np.uint32(0), max_groups=2)
    if launch.num_groups < 2:
        pytest.skip("the device was busy")
    del launch
    bench.pause()
    with pytest.warns(portbar.UnreportedFaultWarning, match="'lonely' .* a device barrier reached its spin limit"):
        launch = bench.good()
    with pytest.raises(portbar.BarrierTimeoutError, match="'lonely'") as caught:
        launch.wait()
    assert (caught.value.kernel, caught.value.arrived, caught.value.expected) == ("lonely", 1, 2)


def test_a_fault_that_was_an_exception_is_not_told_again(bench):
    launch = bench.bad()
    with pytest.raises(portbar.Error, match="exceeded"):
        launch.wait()
    del launch
    bench.pause()
    bench.good().wait()


def test_a_launch_that_is_still_referred_to_keeps_its_fault(bench):
    """Whichever others are waited for, and however many there are; once it is dropped, the next launch warns."""
    launch = bench.bad()
    bench.pause()
    for _ in range(70):
        bench.good().wait()
    with pytest.raises(portbar.Error, match="exceeded"):
        launch.wait()
    held = bench.bad()
    bench.pause()
    for _ in range(70):
        bench.good().wait()
    del held
    with pytest.warns(portbar.UnreportedFaultWarning, match=TOLD):
        launch = bench.good()
    with pytest.raises(portbar.Error, match=TOLD):
        launch.wait()


def test_a_fault_is_found_after_many_later_launches(bench):
    """Its report was overwritten long ago, and other kernels were launched since."""
    gate = cl.UserEvent(bench.program.context)
    bench.good(wait_for=[gate])
    bench.bad()
    for _ in range(80):
        bench.good()
        bench.bad(n=0)
    gate.set_status(cl.command_execution_status.COMPLETE)
    bench.pause()
    with pytest.warns(portbar.UnreportedFaultWarning, match=TOLD):
        launch = bench.good()
    with pytest.raises(portbar.Error, match=TOLD):
        launch.wait()


def test_a_warning_that_is_an_exception_is_not_raised_by_a_wait_as_well(bench):
    bench.bad()
    bench.pause()
    with pytest.raises(portbar.UnreportedFaultWarning, match=TOLD):
        bench.good()
    bench.good().wait()


def test_a_queue_that_ends_with_a_fault_says_so_where_the_host_sees_it(bench):
    [state] = bench.program.states.grid._states.values()
    seen = state.watch.seen is not None
    bench.bad()
    bench.pause()
    del state
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        bench.queue = bench.to = bench.signal = None
        gc.collect()
    assert [one.category for one in caught] == [portbar.UnreportedFaultWarning] * seen
    assert all("kernel 'bad'" in str(one.message) for one in caught)


def test_words_that_were_overwritten_are_no_fault(bench):
    [state] = bench.program.states.grid._states.values()
    words = np.array([state.epoch + 5, 2, 1, 0, 0, 0], np.uint32)
    for word in (state.epoch + 5, 0xFFFFFFFF):
        words[0] = word
        cl.enqueue_copy(bench.queue, state.buffer, words, dst_offset=4 * state.watch.place)
        bench.pause()
        bench.good().wait()


def test_launches_that_are_right_take_the_short_way(bench, monkeypatch):
    at_length = []
    launch = type(bench.program.states).launch
    monkeypatch.setattr(
        type(bench.program.states), "launch", lambda *args, **more: at_length.append(args) or launch(*args, **more)
    )
    monkeypatch.setattr(faults, "LOOK_S", 60.0)
    bench.good().wait()
    before = len(at_length)
    for _ in range(100):
        bench.good()
    assert len(at_length) - before <= 1
