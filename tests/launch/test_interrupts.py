"""Exceptions between enqueueing a launch and noting it: Ctrl-C, or a driver's. The next launch is right all the same."""

from __future__ import annotations

import threading
from functools import partial

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.launching.build import TypedKernel
from tests import support
from tests.interrupts import every_place

pytestmark = pytest.mark.device

LOOSE = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
ITEMS = 12

#: Kernels that store `times` once for each work-item, or once for all.
SOURCES = {
    "grid": """
#include "portbar/device_barrier.h"
kernel void add(PORTBAR_GRID_PARAM, global uint *to, const uint times)
{
    PORTBAR_ENTER(grid);
    portbar_device_barrier(&grid);
    if (portbar_global_id(&grid) == 0u)
        to[0] += times;
}
""",
    "plain": "kernel void add(global uint *to, const uint times) { if (get_global_id(0) == 0u) to[0] += times; }",
    "gang": """
#include "portbar/reduction.h"
kernel void add(PORTBAR_REDUCTION_PARAM, global uint *to, const uint times)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const sum_results results = { to };
    sum_local mine = sum_init_gang_worker_vector(scratch, results, sum_identity());
    mine.v += times;
    sum_fini_gang_worker_vector(scratch, results, mine);
}
""",
    "scan": """
#include "portbar/scan.h"
kernel void add(PORTBAR_SCAN_PARAM, global uint *to, const uint times)
{
    local sum_scan scan;
    const uint tile = sum_begin(&scan);
    sum_publish(&scan, times);
    while (sum_missing(&scan))
        sum_supply(&scan, times);
    const uint all = sum_inclusive(&scan);
    if (tile + 1u == get_num_groups(0) && get_local_id(0) + 1u == get_local_size(0))
        to[0] += all;
}
""",
}


class Case:
    """A kernel of one kind on one queue, and the cell that it adds to."""

    def __init__(self, kind, context, queue):
        loop = portbar.ReductionLoop("sum", {"v": portbar.Reduction(np.uint32, "+")})
        declared = {
            "gang": {"reductions": [loop]},
            "scan": {"scans": [portbar.DeviceScan("sum", np.uint32, local_size=4)]},
        }
        self.program = portbar.Program(context, SOURCES[kind], **declared.get(kind, {}))
        self.kernel, self.queue = self.program.kernel("add"), queue
        self.to = support.filled(queue, 1)
        self.each = ITEMS if kind in ("gang", "scan") else 1
        self.size = None if kind == "grid" else (ITEMS,)

    def launch(self, **more):
        return self.kernel(self.queue, self.size, (4,), self.to, np.uint32(3), **more)

    def check(self, where):
        """The next launch executes, once, and no lock is left held."""
        self.queue.finish()
        cl.enqueue_copy(self.queue, self.to, np.zeros(1, np.uint32))
        self.launch().wait()
        assert support.uints(self.queue, self.to)[0] == 3 * self.each, where
        lock, free = self.program.states.lock, []
        thread = threading.Thread(target=lambda: free.append(lock.acquire(timeout=5) and lock.release() is None))
        thread.start()
        thread.join()
        assert free == [True], where


@pytest.mark.parametrize("way", ["short", "long"])
@pytest.mark.parametrize("order", ["in order", "out of order"])
@pytest.mark.parametrize("kind", SOURCES)
def test_a_launch_after_one_that_was_interrupted_is_right(kind, order, way, context):
    case = Case(kind, context, cl.CommandQueue(context, properties=LOOSE if order == "out of order" else 0))
    before = [cl.enqueue_marker(case.queue)]
    more = {"wait_for": before} if way == "long" else {}
    for _ in range(3):
        case.launch(**more).wait()
    for where in every_place(lambda: case.launch(**more)):
        case.check(where)


@pytest.mark.parametrize("enqueued", [False, True], ids=["refused", "enqueued"])
@pytest.mark.parametrize("kind", SOURCES)
def test_a_launch_after_one_that_failed_in_the_driver_is_right(kind, enqueued, context, queue, monkeypatch):
    right, fails = TypedKernel.enqueue.fget, False

    def enqueue(made, *args, **more):
        event = None if fails and not enqueued else right(made)(made, *args[1:], **more)
        if fails:
            raise cl.RuntimeError("clEnqueueNDRangeKernel failed: OUT_OF_RESOURCES")
        return event

    monkeypatch.setattr(TypedKernel, "enqueue", property(lambda made: partial(enqueue, made)))
    case = Case(kind, context, queue)
    for turn in range(6):
        for _ in range(turn):
            case.launch().wait()
        fails = True
        with pytest.raises(cl.RuntimeError, match="OUT_OF_RESOURCES"):
            case.launch()
        fails = False
        case.check(turn)
