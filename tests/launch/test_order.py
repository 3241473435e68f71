"""Launches that share a state never overlap, and one whose wait list fails costs no other launch and hangs nothing."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest

import portbar
from portbar.arrays.sort import TRIAL
from portbar.arrays.sort_source import TileShape
from portbar.device import child, quirks
from portbar.device.addresses import DeviceAddress, address_of
from portbar.device.facts import facts
from portbar.launching import queues
from portbar.primitives.layout import REPORTS
from portbar.primitives.reduction.header import LAUNCHES
from tests import support

LOOSE = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
DONE = cl.command_execution_status.COMPLETE


@dataclass(eq=False)
class Event:
    """An event whose status a test sets."""

    command_execution_status: int = 3
    failed: bool = False

    def wait(self):
        if self.failed:
            raise cl.RuntimeError("clWaitForEvents failed: EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST")


@dataclass
class Queue:
    properties: int = 0
    device: object = None


@pytest.fixture(params=[0, LOOSE], ids=["in order", "out of order"])
def made(request, monkeypatch):
    monkeypatch.setattr(queues, "hides_failures", lambda _: False)
    return queues.Order(Queue(request.param))


def launched(made, wait_for=None):
    event = Event()
    after = made.after(wait_for)
    made.add(event, wait_for)
    return event, after


def test_a_launch_follows_the_one_before(made):
    first, after = launched(made)
    assert not after
    second, after = launched(made)
    assert (after or []) == ([] if made.in_order else [first])
    mine = [Event()]
    assert launched(made, mine)[1] == (mine if made.in_order else [*mine, second])


def test_after_a_launch_that_failed_the_next_ones_wait_for_what_runs(made):
    running, mine = launched(made)[0], [Event()]
    failed, behind = launched(made, mine)[0], launched(made)[0]
    failed.command_execution_status = behind.command_execution_status = -14
    assert launched(made)[1] == [running]
    again = launched(made, mine)[0]
    again.command_execution_status = -14
    found = launched(made)[1]
    assert running in found
    assert not {failed, behind, again} & set(found)


def test_a_launch_that_failed_is_kept_while_one_before_it_runs(made):
    running = launched(made)[0]
    failed = launched(made, [Event()])[0]
    failed.command_execution_status = -14
    behind = [launched(made)[0] for _ in range(3 * queues._MANY)]
    assert failed in [*made._before, *made._failed]
    for event in (running, *behind):
        event.command_execution_status = DONE
    for _ in range(3 * queues._MANY):
        launched(made, [Event()])[0].command_execution_status = -14
    assert len(made._failed) <= queues._MANY
    assert len(made._before) <= made._many


def test_launches_that_have_ended_are_not_kept(made):
    waiting = [launched(made, [Event()])[0] for _ in range(3)]
    for event in waiting:
        event.command_execution_status = DONE
    _, after = launched(made)
    assert (after or []) in ([], waiting[-1:])
    for _ in range(1_000):
        launched(made, [Event()])[0].command_execution_status = DONE
    assert len(made._before or ()) <= queues._MANY


def test_a_failure_that_a_driver_hides_is_found_by_waiting():
    hidden = Event(DONE, failed=True)
    assert queues.failed(hidden, hidden=True)
    assert not queues.failed(hidden, hidden=False)
    assert not queues.failed(Event(DONE), hidden=True)
    assert not queues.failed(Event(3, failed=True), hidden=True)


def test_an_event_of_several_arrays_is_waited_for_once():
    @dataclass
    class Array:
        events: list[Event]

    shared, own = Event(), Event()
    assert queues.awaited("k", [own], {0: Array([shared]), 1: Array([shared, own])}, hidden=False) == [own, shared]
    with pytest.raises(portbar.LaunchError, match=r"argument 1, an array, failed .*-5.*events.clear"):
        queues.awaited("k", None, {0: Array([own]), 1: Array([Event(-5)])}, hidden=False)
    with pytest.raises(portbar.LaunchError, match=r"in wait_for failed .*-5"):
        queues.awaited("k", [Event(-5)], {}, hidden=False)


SOURCE = """
#include "portbar/device_barrier.h"

/* Adds `rounds` to each of the first group's cells, one between two barriers. */
kernel void grid(PORTBAR_GRID_PARAM, global uint *cells, const uint rounds)
{
    PORTBAR_ENTER(grid);
    for (uint r = 0u; r < rounds; ++r) {
        if (portbar_group_id(&grid) == 0u)
            cells[get_local_id(0)] += 1u;
        if (!portbar_device_barrier(&grid))
            return;
    }
}
"""
GANGS = """
#include "portbar/reduction.h"

/* The first work-item adds `rounds` to the receiver by way of a reduction. */
kernel void gangs(PORTBAR_REDUCTION_PARAM, global uint *cells, const uint rounds)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const total_results results = { cells };
    const total_local mine = { get_global_id(0) == 0u ? rounds : 0u };
    total_reduce_gang_worker_vector(scratch, results, mine);
}
"""
SLOW = "kernel void slow(global uint *out, const uint n) { for (volatile uint i = 0; i < n; ++i) out[get_global_id(0)] += 1u; }"
PLAIN = "kernel void plain(global uint *cells) { cells[get_global_id(0)] += 0u; }"
ROUNDS = 3
#: Intel's runtime does so in about every other run on a busy machine.
ENDS = "this driver ends the process when a command fails for which others wait in an out-of-order queue"
#: Rounds of a launch that still runs when the next one fails: PoCL 3.1 crashes one time in 500 if it ends just then.
LONG = 1_000


def launcher(kind, context, queue):
    """A function that launches with a wait list and adds `rounds` to the first cell."""
    if kind == "gangs":
        total = portbar.ReductionLoop("total", {"v": portbar.Reduction(np.uint32, "+")})
        kernel, sizes = portbar.Program(context, GANGS, reductions=[total]).kernel("gangs"), ((16,), (4,))
    else:
        kernel, sizes = portbar.Program(context, SOURCE).kernel("grid"), (None, (4,))
        kernel.occupancy(queue, (4,))
    return lambda cells, wait_for, rounds: kernel(queue, *sizes, cells, np.uint32(rounds), wait_for=wait_for)


def in_child(task, device, **payload):
    """Run a task in a child, since some drivers hang or crash; return its value, and whether its launch failed."""
    if payload.get("loose") and not device.queue_properties & LOOSE:
        pytest.skip("the device has no out-of-order queues")
    payload["address"] = address_of(device).to_json()
    result = child.run_task(f"tests.launch.test_order:{task}", payload, timeout=180)
    if result.status == "crash" and payload.get("loose") and quirks.has_effect(quirks.FAILURES_HIDDEN, facts(device)):
        pytest.skip(ENDS)
    assert result.status == "ok", result
    if isinstance(result.value, dict) and result.value.get("queue"):
        pytest.skip(f"this driver's queue refuses PyOpenCL's own launches after a failure: {result.value['queue']}")
    return result.value, bool(result.progress)


def prepared(payload, cells_of):
    """In the child: a context, which Intel's queues do not keep, a queue, a launcher that has launched once, and its cells."""
    context = cl.Context([DeviceAddress.from_json(payload["address"]).resolve()])
    queue = cl.CommandQueue(context, properties=LOOSE if payload.get("loose") else 0)
    launch, cells = launcher(payload.get("kind", "grid"), context, queue), cells_of(queue)
    launch(cells, None, ROUNDS).wait()
    return context, queue, launch, cells


def fail(launch, cells, cause):
    """Let a launch fail, and report whether it did."""
    failing = launch(cells, [cause], ROUNDS)
    cause.set_status(-5)
    try:
        failing.wait()
    except (cl.Error, portbar.Error):
        child.progress({"failed": True})
    return failing


def fail_one(payload):
    """Launch, let a launch fail, launch again; what came of it."""
    context, queue, launch, cells = prepared(payload, lambda queue: support.filled(queue, 4))
    running = launch(cells, None, payload["rounds"])
    fail(launch, cells, cl.UserEvent(context))
    try:
        for one in (running, *[launch(cells, None, ROUNDS) for _ in range(70)]):
            one.wait()
    except portbar.LaunchError as error:
        return {"refused": str(error)}
    except cl.Error as error:
        return {"error": str(error), "queue": plain(context, queue, cells)}
    return {"sum": int(support.uints(cl.CommandQueue(context), cells)[0])}


def plain(context, queue, cells):
    """Return the fault of a PyOpenCL launch in the same queue; empty if none."""
    try:
        cl.Program(context, PLAIN).build().plain(queue, (4,), None, cells).wait()
    except cl.Error as error:
        return str(error)
    return ""


@pytest.mark.device
@pytest.mark.parametrize("kind", ["grid", "gangs"])
@pytest.mark.parametrize("loose", [False, True], ids=["in order", "out of order"])
def test_launches_after_one_that_failed_are_right(device, findings, kind, loose):
    value, failed = in_child("fail_one", device, kind=kind, loose=loose, rounds=LONG)
    if loose and quirks.has_effect(quirks.FAILURES_HIDDEN, facts(device)):
        assert "new queue" in value["refused"]
        return
    if not failed:
        pytest.skip("this driver runs a command whose wait list has failed")
    assert value == {"sum": ROUNDS + LONG + 70 * ROUNDS}


def drop_one(payload):
    """Drop a launch that waits for an event, whose report another took the place of; the event comes from another thread."""
    context, queue, launch, cells = prepared(payload, lambda queue: support.filled(queue, 4))
    gate = cl.UserEvent(context)
    first = launch(cells, [gate], ROUNDS)
    last = [launch(cells, None, ROUNDS) for _ in range(payload["launches"])][-1]
    child.progress({"saved": True})
    threading.Timer(1.0, gate.set_status, [DONE]).start()
    del first
    last.wait()
    return int(support.uints(queue, cells)[0])


@pytest.mark.device
@pytest.mark.parametrize(("kind", "launches"), [("grid", REPORTS), ("gangs", LAUNCHES)])
def test_a_launch_that_is_dropped_while_its_words_are_saved_stops_no_thread(device, findings, kind, launches):
    """The event of a transfer to the host waits when it is dropped, and keeps the thread from running that would set it."""
    if quirks.has_effect(quirks.FLUSHES_WAIT, facts(device)):
        pytest.skip("a queue that is flushed would wait here for the event that is set later")
    value, _ = in_child("drop_one", device, kind=kind, launches=launches)
    assert value == (launches + 2) * ROUNDS


def fail_the_first(payload):
    """Let the first launch of a program fail while a command of the caller's runs, drop it, and launch again."""
    context = cl.Context([DeviceAddress.from_json(payload["address"]).resolve()])
    queue = cl.CommandQueue(context)
    launch, cells, counts = launcher("grid", context, queue), support.filled(queue, 4), support.filled(queue, 2)
    slow = cl.Program(context, SLOW).build().slow
    slow.set_args(counts, np.uint32(payload["polls"]))
    running = cl.enqueue_nd_range_kernel(queue, slow, (2,), (1,))
    fail(launch, cells, cl.UserEvent(context))
    try:
        launch(cells, None, ROUNDS).wait()
    except cl.Error as error:
        return {"error": str(error), "queue": plain(context, queue, cells)}
    running.wait()
    return {"sum": int(support.uints(cl.CommandQueue(context), cells)[0])}


@pytest.mark.device
def test_a_first_launch_that_failed_is_kept_as_long_as_what_runs_before_it(device, findings):
    """PoCL 3.1 ends the process where its event is released before: the effect FAILED_EVENTS_LINGER."""
    polls = 1000 if support.scale(device).is_simulator or support.scale(device).is_cut_short else 100_000_000
    value, failed = in_child("fail_the_first", device, polls=polls)
    assert value == {"sum": ROUNDS if failed else 2 * ROUNDS}


def fail_a_sort(payload):
    """Let a sort of several launches fail; return which of the next ones are wrong."""
    context, queue, _, _ = prepared(payload, lambda queue: support.filled(queue, 4))
    TRIAL.set(TileShape("items", local=1, items=100, polls=2))
    numbers = np.random.default_rng(1).integers(0, 2**32, (4, 1000), np.uint32)
    arrays = [cl_array.to_device(queue, row) for row in numbers]
    portbar.sort(queue, arrays[0]).get()
    fail(
        lambda keys, wait_for, _: portbar.sort(queue, keys, wait_for=wait_for, return_event=True)[1],
        arrays[1],
        cl.UserEvent(context),
    )
    try:
        found = {place: portbar.sort(queue, arrays[place]).get() for place in (0, 2, 3)}
    except cl.Error as error:
        return {"error": str(error), "queue": plain(context, queue, support.filled(queue, 4))}
    return {"wrong": [place for place, keys in found.items() if not np.array_equal(keys, np.sort(numbers[place]))]}


@pytest.mark.device
@pytest.mark.parametrize("loose", [False, True], ids=["in order", "out of order"])
def test_sorts_after_one_that_failed_are_right(device, findings, loose):
    """Its count, which clears the memory that the next one counts in, never ran."""
    if loose and quirks.has_effect(quirks.FAILURES_HIDDEN, facts(device)):
        pytest.skip(ENDS)
    value, _ = in_child("fail_a_sort", device, loose=loose)
    assert value == {"wrong": []}


def fail_an_array(payload):
    """Let the last launch of an array fail, then use it; return the messages of the ways to do so."""
    context, queue, launch, array = prepared(payload, lambda queue: cl_array.zeros(queue, 4, np.uint32))
    failing = fail(launch, array, cl.UserEvent(context))
    said = []
    for use in (
        lambda: launch(array, None, ROUNDS),
        lambda: portbar.reduce(queue, array),
        lambda: launch(array.base_data, [failing], ROUNDS),
    ):
        start = time.monotonic()
        try:
            use()
            said.append("")
        except portbar.LaunchError as error:
            said.append(str(error))
        assert time.monotonic() - start < 50
    array.events.clear()
    array.fill(0)
    launch(array, None, ROUNDS).wait()
    return {"said": said, "cells": array.get().tolist()}


@pytest.mark.device
def test_an_array_whose_last_launch_failed_is_refused_until_it_is_filled_again(device, findings):
    value, failed = in_child("fail_an_array", device)
    if not failed:
        pytest.skip("this driver runs a command whose wait list has failed")
    words = ["argument 0, an array, failed", "array 'x' failed", "in wait_for failed"]
    assert [word for word, said in zip(words, value["said"], strict=True) if word not in said] == []
    assert value["cells"] == [ROUNDS] * 4


def fail_between(payload):
    """Let a launch fail while a long one runs, and launch again; return whether the long one ended before the last one."""
    context, queue, launch, cells = prepared(payload, lambda queue: support.filled(queue, 4))
    cause = cl.UserEvent(context)
    long = launch(cells, None, payload["rounds"])
    failing = launch(cells, [cause], 1)
    queue.flush()
    cause.set_status(-5)
    # A launch that is enqueued before the driver has noticed the failure fails with it.
    until = time.monotonic() + 0.2
    while failing.event.command_execution_status >= 0 and time.monotonic() < until:
        pass
    last = launch(cells, None, 1)
    queue.flush()
    last.event.wait()
    had_ended = bool(long.event.command_execution_status == DONE)
    if failing.event.command_execution_status < 0:
        child.progress({"failed": True})
    long.wait()
    last.wait()
    return {"had_ended": had_ended}


@pytest.mark.device
def test_a_launch_after_one_that_failed_does_not_overlap_the_one_before(device, findings):
    """PoCL's in-order queues would run it at once."""
    if quirks.has_effect(quirks.FAILURES_HIDDEN, facts(device)) or "Oclgrind" in device.name:
        pytest.skip("failures are hidden, or queues run when they are flushed")
    rounds = 100_000 if portbar.describe(device).loop_limit is None else 1_000
    value, failed = in_child("fail_between", device, rounds=rounds)
    if not failed:
        pytest.skip("this driver runs a command whose wait list has failed")
    assert value["had_ended"]
