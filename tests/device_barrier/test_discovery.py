"""Occupancy discovery: groups that take part, groups that leave before any user code, and the state for the next launch."""

from __future__ import annotations

import gc
import threading
from dataclasses import replace

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.launching import occupancy
from portbar.launching.launch import States
from tests import support
from tests.support import grid_state

pytestmark = pytest.mark.device

SOURCE = """
#include "portbar/device_barrier.h"

/* Notes which group ids ran user code and what they saw; meets twice in between. */
kernel void note(PORTBAR_GRID_PARAM, global uint *ran, global uint *items, global uint *cell, global uint *wrong,
                 const uint salt)
{
    PORTBAR_ENTER(grid);
    const uint me = portbar_global_id(&grid), n = portbar_global_size(&grid);
    if ((get_local_id(0) | get_local_id(1) | get_local_id(2)) == 0u)
        atomic_inc(ran);
    atomic_inc(items);
    cell[me] = me * 3u + salt;
    bool held = portbar_device_barrier(&grid);
    if (cell[n - 1u - me] != (n - 1u - me) * 3u + salt)
        atomic_inc(wrong);
    held = portbar_device_barrier(&grid) && held;
    if (!held)
        atomic_inc(wrong);
}

/* Group `skipper` leaves before the barrier. */
kernel void skip(PORTBAR_GRID_PARAM, global uint *out, const uint skipper)
{
    PORTBAR_ENTER(grid);
    if (PORTBAR_UNIFORM(portbar_group_id(&grid) == skipper))
        return;
    const bool held = portbar_device_barrier(&grid);
    if (get_local_id(0) == 0u)
        out[portbar_group_id(&grid)] = held ? 1u : 2u;
}
"""


class Notes:
    """Buffers of `note` for `items` work-items, and their expected content."""

    def __init__(self, queue, room):
        self.queue = queue
        self.ran, self.items = support.filled(queue, 1), support.filled(queue, 1)
        self.cell, self.wrong = support.filled(queue, room), support.filled(queue, 1)

    @classmethod
    def for_launches(cls, queue, made, local):
        """Buffers for launches of as many groups as the device holds."""
        return cls(queue, support.room(made, queue, local) * int(np.prod(local)))

    @property
    def args(self):
        return self.ran, self.items, self.cell, self.wrong

    def found(self):
        return [int(support.uints(self.queue, buffer)[0]) for buffer in (self.ran, self.items, self.wrong)]

    def check(self, launches, items):
        """Wait for launches of groups of `items`: their groups, and no others, must have run and met; return how many did."""
        for launch in launches:
            launch.wait()
        groups = sum(launch.num_groups for launch in launches)
        assert self.found() == [groups, groups * items, 0]
        return groups


@pytest.fixture(params=support.DISCOVERIES)
def note(request, context):
    return support.kernel(context, SOURCE, "note", discovery=request.param)


@pytest.mark.parametrize(("local", "rows"), [((1,), 1), ((4, 2), 1), ((4, 2), 6)], ids=str)
def test_surplus_groups_return_before_user_code(note, queue, local, rows):
    """Also where the surplus is in two dimensions of groups."""
    items, columns = int(np.prod(local)), note.occupancy(queue, local).groups * support.scale(queue.device).surplus
    columns = columns if rows == 1 else 4
    for salt in range(3):
        notes = Notes(queue, columns * rows * items)
        size = (columns * local[0], *(rows * n for n in local[1:]))
        found = notes.check([note(queue, size, local, *notes.args, np.uint32(salt))], items)
        assert 1 <= found <= columns * rows


def test_occupancy_runs_none_of_the_kernel_s_code(note, queue):
    notes = Notes(queue, 8)  # nothing is to be written, so one group's room is enough
    held = note.occupancy(queue, (8,), *notes.args, np.uint32(1))
    assert held.groups >= 1
    assert notes.found() == [0, 0, 0]
    assert not support.uints(queue, notes.cell).any()
    notes = Notes(queue, 4 * 8)
    groups = 4 if note.program.strategy(queue.device).max_groups is None else 1
    assert note.discover(queue, (8,), groups, *notes.args, np.uint32(1)).num_groups >= 1
    assert notes.found() == [0, 0, 0]


def test_occupancy_is_measured_once_for_each_local_size(context, queue, monkeypatch):
    # Without a table: another algorithm for a launch's shape is another binary, which is measured, too.
    strategy = support.program(context, SOURCE).strategy(queue.device)
    strategy = replace(strategy, tuning=replace(strategy.tuning, table=()))
    made = portbar.Program(context, SOURCE, strategy=strategy).kernel("note")
    sizes = []
    launch = States.launch

    def counting(self, plan, *rest):
        sizes.append(plan.local_size)
        return launch(self, plan, *rest)

    monkeypatch.setattr(States, "launch", counting)
    one_at_a_time = strategy.max_groups == 1
    first = made.occupancy(queue, (8,))
    assert bool(sizes) != one_at_a_time
    asked = len(sizes)
    assert made.occupancy(queue, (8,)) == first
    room = 8 * (2 * first.groups + 32)
    made(queue, None, (8,), *Notes(queue, room).args, np.uint32(0)).wait()
    assert len(sizes) == asked + 1
    made.occupancy(queue, (4,))
    assert ((4,) in sizes) != one_at_a_time


class BusyMeasure:
    """Stands for `measure` on a device that has threads for one group only while it is busy."""

    def __init__(self):
        self.busy = True
        self.calls = 0
        self.measure = occupancy.measure

    def __call__(self, profile, dry_run, *most_runs):
        self.calls += 1
        found = self.measure(profile, dry_run, *most_runs)
        return replace(found, groups=1, runs=(1,)) if self.busy else found


@pytest.fixture
def busy(context, monkeypatch):
    """A kernel whose occupancy is measured on a busy CPU until `busy.busy` is False, and what counts the measurements."""
    device = context.devices[0]
    known = portbar.describe(device)
    if (
        not known.units.kernels_alike
        or (known.findings.groups_in_flight or 1) < 2
        or portbar.choose(known).max_groups == 1
    ):
        pytest.skip("the device is no CPU that runs two work-groups at once")
    measure = BusyMeasure()
    monkeypatch.setattr(occupancy, "measure", measure)
    return portbar.Program(context, SOURCE).kernel("note"), measure, known.findings.groups_in_flight


def test_an_occupancy_that_a_busy_cpu_made_too_small_is_measured_again_when_it_is_asked_for(busy, queue):
    made, measure, in_flight = busy
    assert made.occupancy(queue, (8,)).groups == 1
    measure.busy = False
    assert made.occupancy(queue, (8,)).groups == in_flight
    calls = measure.calls
    assert made.occupancy(queue, (8,)).groups == in_flight
    assert measure.calls == calls


def test_launches_on_a_probed_cpu_take_its_groups_and_measure_nothing(busy, queue):
    made, measure, in_flight = busy
    notes = Notes(queue, 8 * 64)
    assert made.occupancy(queue, (8,)).groups == 1
    calls = measure.calls
    made(queue, None, (8,), *notes.args, np.uint32(0)).wait()
    assert measure.calls == calls
    (plan,) = made._plans.values()
    assert plan.words[1] == in_flight


def test_measuring_again_becomes_rarer_where_it_finds_no_more(monkeypatch):
    now = 100.0
    monkeypatch.setattr(occupancy.time, "monotonic", lambda: now)
    retry = occupancy.Retry()
    waits = []
    for _ in range(3):
        retry.postpone(0.25)
        start = now
        while not retry.is_due:
            now += 0.125
        waits.append(now - start)
    assert waits == [2.5, 5.0, 10.0]


def test_the_first_launch_does_not_wait_for_an_event_that_the_same_thread_sets_later(context):
    if "Oclgrind" in context.devices[0].name:
        pytest.skip("Oclgrind runs commands in clFlush, which then waits for the user event by itself")
    queue, gate = cl.CommandQueue(context), cl.UserEvent(context)
    made = portbar.Program(context, SOURCE).kernel("note")
    notes = Notes(queue, 8 * 2048)
    cl.enqueue_barrier(queue, wait_for=[gate])
    launches = []
    thread = threading.Thread(
        target=lambda: launches.append(made(queue, (64,), (8,), *notes.args, np.uint32(0))), daemon=True
    )
    thread.start()
    thread.join(30)
    waited = thread.is_alive()
    gate.set_status(cl.command_execution_status.COMPLETE)
    thread.join(30)
    assert not waited
    launches[0].wait()
    assert notes.found()[2] == 0


def test_launches_in_a_row_need_no_clearing_and_are_distinguished(note, queue):
    """More than there are reports, none waited for; sizes differ, so that another launch's report would show."""
    notes = Notes.for_launches(queue, note, (8,))
    sizes = (None, 1, min(2, note.occupancy(queue, (8,)).groups))
    launches = [
        note(queue, None, (8,), *notes.args, np.uint32(salt), num_groups=sizes[salt % 3])
        for salt in range(support.scale(queue.device).launches)
    ]
    notes.check(launches, 8)
    assert {launch.num_groups for launch in launches[1::3]} == {1}
    assert {launch.num_groups for launch in launches[2::3]} <= {1, 2}


def test_launches_go_on_when_the_tags_wrap(context, queue):
    """The tag in the poll word is the launch's number, less the bits that the capacity takes; here it starts again from 0."""
    note = support.kernel(context, SOURCE, "note", discovery="packed")
    notes = Notes.for_launches(queue, note, (8,))
    launches = [note(queue, None, (8,), *notes.args, np.uint32(0))]
    launches[0].wait()
    state = grid_state(note.program, queue, 1)
    state.epoch = (1 << (29 - state.capacity_log2)) - 4
    launches += [note(queue, None, (8,), *notes.args, np.uint32(salt)) for salt in range(8)]
    assert grid_state(note.program, queue, 1) is state
    notes.check(launches, 8)


def leave_out_launches(monkeypatch, queue):
    """Enqueue markers in place of kernels on this queue; the dry runs that measure occupancy have another one."""
    launch = States.launch

    def without(self, plan, *rest):
        call = plan.call
        if plan.queue == queue:
            plan.call = lambda *_, **__: cl.enqueue_marker(queue)
        try:
            return launch(self, plan, *rest)
        finally:
            plan.call = call

    monkeypatch.setattr(States, "launch", without)


@pytest.mark.parametrize("dropped", [1, 63, 64, 65, 129])
def test_launches_that_never_ran_do_not_break_the_next_and_say_so_when_waited_for(note, queue, monkeypatch, dropped):
    """A driver drops a launch whose wait list failed; here the enqueue itself is left out, which every device survives."""
    notes = Notes.for_launches(queue, note, (8,))
    note(queue, None, (8,), *notes.args, np.uint32(0)).wait()
    with monkeypatch.context() as patched:
        leave_out_launches(patched, queue)
        for _ in range(dropped):
            left_out = note(queue, None, (8,), *Notes(queue, 1).args, np.uint32(0))
    gc.collect()
    for _ in range(2):
        notes = Notes.for_launches(queue, note, (8,))
        notes.check([note(queue, None, (8,), *notes.args, np.uint32(salt)) for salt in range(3)], 8)
        with pytest.raises(portbar.Error, match=r"'note'.*never"):
            left_out.wait()


def test_a_timeout_among_many_launches_is_reported_for_the_right_one(context, queue):
    made = support.kernel(context, SOURCE, "skip", spin_limit=0.02)
    support.need_groups(made, queue, (1,), 2)
    out = support.filled(queue, 2)
    guilty = 7
    # A group that does not exist cannot skip.
    skippers = [np.uint32(0 if i == guilty else 1_000) for i in range(100)]
    launches = [made(queue, None, (1,), out, skipper, num_groups=2) for skipper in skippers]
    if launches[guilty].num_groups < 2:
        pytest.skip("the busy machine ran one work-group of the launch that should time out")
    for i, launch in enumerate(launches):
        if i == guilty:
            with pytest.raises(portbar.BarrierTimeoutError, match="'skip'"):
                launch.wait()
        else:
            launch.wait()


def test_the_state_grows_when_a_later_launch_needs_more_groups(context, queue):
    local = (1,)
    for algorithm in ("tree", "xf"):
        made = support.kernel(context, SOURCE, "note", device_barrier=algorithm)
        least = 3_000 if not support.scale(queue.device).is_simulator else 200
        launched = max(least, support.room(made, queue, local))
        notes = Notes(queue, launched)
        launches = []
        for size in (None, (70,), None, (launched,), (65,), None):
            launches.append(made(queue, size, local, *notes.args, np.uint32(len(launches))))
        notes.check(launches, 1)


def test_a_limit_of_one_group_holds_for_an_explicit_global_size(context, queue):
    """A device that ends loops early must not let two groups wait for each other, however many are launched."""
    chosen = support.program(context, SOURCE).strategy(queue.device)
    limited = replace(chosen, max_groups=1, max_groups_reason="this test says so")
    made = portbar.Program(context, SOURCE, strategy=limited).kernel("note")
    for salt in range(40 if not support.scale(queue.device).is_simulator else 3):
        notes = Notes(queue, 256)
        assert notes.check([made(queue, (256,), (1,), *notes.args, np.uint32(salt))], 1) == 1
    assert made(queue, None, (1,), *Notes(queue, 256).args, np.uint32(0)).num_groups == 1


def test_discovery_without_patience_is_still_right(note, queue):
    for groups in (1, 2, 5) if note.program.strategy(queue.device).max_groups is None else (1,):
        assert 1 <= note.discover(queue, (1,), groups, patience=0).num_groups <= groups
