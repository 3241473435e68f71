"""Faults at gang level are reported by the launch that made them, and disturb no other."""

from __future__ import annotations

import threading

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.primitives.reduction.header import LAUNCHES
from tests.reduction.support import device_array, head, host_array, kernel_text, program

pytestmark = pytest.mark.device

SUM = portbar.ReductionLoop("sum", {"v": portbar.Reduction(np.int32, "+")})
ONE = "const sum_results results = { total }; const sum_local one = { 1 };"
SOURCE = "".join(
    [
        head(8, more="#define PORTBAR_REDUCTION_POLLS 1000\n"),
        kernel_text(
            "some",
            "global int *total, uint without",
            f"    {ONE} if (get_group_id(0) != without) sum_reduce_gang(scratch, results, one);",
            "gangs",
        ),
        kernel_text(
            "again",
            "global int *total, uint times",
            f"    {ONE} for (uint i = 0; i < times; ++i) sum_reduce_gang(scratch, results, one);",
            "gangs",
        ),
        kernel_text(
            "hold",
            "global int *taken, uint give_back",
            """
    if (get_global_id(0) == 0) {
        taken[0] += sum_lock_gang(scratch);
        if (give_back)
            sum_unlock_gang(scratch);
    }""",
            "gangs",
        ),
    ]
)
GROUPS, LOCAL = 10, 2
ALL = GROUPS  # no group has this id, so that all make the call


@pytest.fixture
def launch(context, queue):
    """Return a function that launches a kernel with one number, and what it adds to."""
    made, total = program(context, SOURCE, loops=[SUM]), device_array(queue, np.zeros(1, np.int32))

    def run(name, number, on=queue):
        return made.kernel(name)(on, (GROUPS * LOCAL,), (LOCAL,), total, np.uint32(number))

    run.total = lambda: int(host_array(queue, total, np.int32)[0])
    return run


def faults(launches):
    """Return which launches raise, by their places."""
    found = []
    for place, one in enumerate(launches):
        try:
            one.wait()
        except portbar.Error:
            found.append(place)
    return found


def test_a_call_that_some_groups_leave_out_is_told_by_its_own_launch(launch):
    launches = [launch("some", without) for without in (3, ALL, ALL, ALL)]
    launches[3].wait()
    with pytest.raises(portbar.Error, match=r"9 of the 10 work-groups reduced loop 'sum'"):
        launches[0].wait()
    assert faults(launches) == [0], "every wait of a wrong launch raises"
    assert launch.total() == 3 * GROUPS


def test_a_right_launch_is_right_after_a_wrong_one_that_nobody_waits_for(launch):
    launch("some", 3)
    for number in range(3):
        launch("some", ALL).wait()
        assert launch.total() == (number + 1) * GROUPS


def test_more_uses_than_declared_are_told_by_their_own_launch(launch):
    launches = [launch("again", times) for times in (5, 1, 2)]
    assert faults(launches[::-1]) == [2]
    with pytest.raises(portbar.Error, match=r"loop 'sum' .* more often than its uses=4 .* uses="):
        launches[0].wait()
    assert launch.total() == (4 + 1 + 2) * GROUPS


def test_a_lock_that_one_launch_keeps_is_free_in_the_next(launch):
    launches = [launch("hold", give_back) for give_back in (0, 1, 1)]
    assert launch.total() == 3
    with pytest.raises(portbar.Error, match=r"lock of reduction loop 'sum' .*not given back.*sum_unlock_gang"):
        launches[0].wait()
    assert faults(launches) == [0]


@pytest.mark.parametrize("out_of_order", [False, True])
def test_faults_are_kept_for_as_long_as_the_launch_is(context, queue, launch, out_of_order):
    on = queue
    if out_of_order:
        try:
            on = cl.CommandQueue(context, properties=cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
        except cl.Error:
            pytest.skip("the device has no out-of-order queues")
    wrong = (0, 7, LAUNCHES - 1, LAUNCHES, 2 * LAUNCHES + 1)
    launches = [launch("some", 3 if number in wrong else ALL, on) for number in range(2 * LAUNCHES + 6)]
    on.finish()
    assert launch.total() == (len(launches) - len(wrong)) * GROUPS
    assert faults(launches) == list(wrong)


def test_waiting_beside_a_thread_that_launches_reports_every_fault(launch):
    launches, told, done = [], [], threading.Event()

    def wait_for_all():
        place = 0
        while not (done.is_set() and place == len(launches)):
            if place < len(launches):
                told.extend(place for _ in faults([launches[place]]))
                place += 1

    waiting = threading.Thread(target=wait_for_all, daemon=True)
    waiting.start()
    launches.extend(launch("some", 3 if number % 5 == 0 else ALL) for number in range(4 * LAUNCHES))
    done.set()
    waiting.join(60)
    assert not waiting.is_alive()
    assert told == list(range(0, 4 * LAUNCHES, 5))
