"""Faults at gang level are reported by the launch that made them, and disturb no other; loops over a grid end after one."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import portbar
from portbar.primitives.reduction.header import LAUNCHES
from tests import support
from tests.reduction.support import head, kernel_text, program
from tests.support import host_array, to_device

pytestmark = pytest.mark.device

SUM = portbar.ReductionLoop("sum", {"v": portbar.Reduction(np.int32, "+")})
ONE = "const sum_results results = { total }; const sum_local one = { 1 };"
SOURCE = "".join(
    [
        head(8, more="#define PORTBAR_REDUCTION_POLLS 1000\n"),
        kernel_text(
            "some",
            "global int *total, uint without",
            f"    {ONE} if (PORTBAR_UNIFORM(get_group_id(0) != without)) sum_reduce_gang(scratch, results, one);",
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
        if (give_back == 1u)
            sum_unlock_gang(scratch);
        if (give_back == 2u)
            taken[0] += 100 * sum_lock_gang(scratch);  /* gives up, since it is held */
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
    made, total = program(context, SOURCE, loops=[SUM]), to_device(queue, np.zeros(1, np.int32))

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


def test_a_call_that_some_groups_skip_is_reported_by_its_own_launch(launch):
    launches = [launch("some", without) for without in (3, ALL, ALL, ALL)]
    launches[3].wait()
    with pytest.raises(portbar.Error, match=r"9 of the 10 work-groups reduced loop 'sum'"):
        launches[0].wait()
    assert faults(launches) == [0], "every wait of a wrong launch raises"
    assert launch.total() == 3 * GROUPS


def test_a_right_launch_is_right_after_a_wrong_one_without_a_wait(launch):
    launch("some", 3)
    for number in range(3):
        launch("some", ALL).wait()
        assert launch.total() == (number + 1) * GROUPS


def test_more_uses_than_declared_are_reported_by_their_own_launch(launch):
    launches = [launch("again", times) for times in (5, 1, 2)]
    assert faults(launches[::-1]) == [2]
    with pytest.raises(portbar.Error, match=r"loop 'sum' .* more often than its uses=4 .* uses="):
        launches[0].wait()
    assert launch.total() == (4 + 1 + 2) * GROUPS


def test_a_fault_names_its_loop(context, queue):
    loops = [SUM, portbar.ReductionLoop("more", {"v": portbar.Reduction(np.int32, "+")}, uses=1)]
    calls = """
    const more_results results = { total }; const more_local one = { 1 };
    for (uint i = 0; i < 2u; ++i)
        more_reduce_gang(scratch, results, one);"""
    made = program(context, head(8) + kernel_text("again", "global int *total", calls, "gangs"), loops=loops)
    total = to_device(queue, np.zeros(1, np.int32))
    with pytest.raises(portbar.Error, match="reduced loop 'more' at gang level more often"):
        made.kernel("again")(queue, (GROUPS * LOCAL,), (LOCAL,), total).wait()


def test_a_lock_that_one_launch_keeps_is_free_in_the_next(launch):
    launches = [launch("hold", give_back) for give_back in (0, 1, 2, 1)]
    assert launch.total() == 4
    with pytest.raises(portbar.Error, match=r"lock of reduction loop 'sum' .*not released.*sum_unlock_gang"):
        launches[0].wait()
    with pytest.raises(portbar.Error, match=r"lock of reduction loop 'sum' was not released within"):
        launches[2].wait()
    assert faults(launches) == [0, 2]


@pytest.mark.parametrize("kind", ["queue", "loose_queue"])
def test_faults_are_kept_for_as_long_as_the_launch_is(request, launch, kind):
    on = request.getfixturevalue(kind)
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


# Over a grid, where results end the loops around them.

#: A loop that only a fault ends, since group 0 leaves -> the type of its value, its condition and the call.
LOOPS = {
    "sum_above": ("float", "value > 0.5f", "portbar_device_reduce_add(&grid, scratch, 1.0f)"),
    "changed": ("int", "value", "portbar_device_reduce_logical_or(&grid, scratch, 1)"),
    "greatest_above": ("float", "value > -1000.0f", "portbar_device_reduce_max(&grid, scratch, 3.0f)"),
    "least_below": ("int", "value < 1000", "portbar_device_reduce_min(&grid, scratch, 3)"),
    "not_all": ("uint", "!value", "portbar_device_reduce_logical_and(&grid, scratch, 0u)"),
    "scanned": ("uint", "value != 0u", "portbar_device_scan_inclusive_add(&grid, scratch, 1u)"),
    "broadcast": ("uint", "value", "portbar_device_broadcast(&grid, scratch, 1u, 0u)"),
    "declared": ("uint", "value", "sum_reduce_gang_worker_vector(&grid, scratch, (sum_local){ 1u }).v"),
    "asks": (
        "uint",
        "value < 1000000u && portbar_device_ok(&grid)",
        "portbar_device_reduce_add(&grid, scratch, 1u)",
    ),
}

HEADERS = """
#define PORTBAR_REDUCTION_LOCAL_SIZE 8
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
"""

#: `most` turns end a loop that a fault does not end.
KERNEL = """
kernel void go_on(PORTBAR_GRID_PARAM, global uint *ends, const uint most)
{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    TYPE value = CALL;
    const bool began = (CONDITION) && portbar_device_ok(&grid);
    if (PORTBAR_UNIFORM(portbar_group_id(&grid) == 0u))
        return;
    uint turns = 0u;
    for (; (CONDITION) && turns < most; ++turns)
        value = CALL;
    ends[portbar_global_id(&grid)] = (began ? 1u : 0u) + (turns != 0u && turns < most ? 2u : 0u)
        + (portbar_device_ok(&grid) ? 4u : 0u) + (portbar_device_barrier(&grid) ? 8u : 0u);
}
"""


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_around_a_reduction_ends_after_a_fault(context, queue, name):
    kind, condition, call = LOOPS[name]
    source = HEADERS + KERNEL.replace("TYPE", kind).replace("CONDITION", condition).replace("CALL", call)
    loop = portbar.ReductionLoop("sum", {"v": portbar.Reduction(np.uint32, "+")})
    made = portbar.Program(context, source, reductions=[loop] if name == "declared" else [], spin_limit=0.02).kernel(
        "go_on"
    )
    bound = support.need_groups(made, queue, (8,), 2)
    most = 1_000 if support.scale(queue.device).is_simulator else 100_000
    ends = support.filled(queue, 8 * 4)
    launch = support.launched_with(lambda: made(queue, None, (8,), ends, np.uint32(most), num_groups=min(bound, 4)), 2)
    with pytest.raises(portbar.BarrierTimeoutError):
        launch.wait()
    assert (support.uints(queue, ends)[8 : 8 * launch.num_groups] == 3).all()


#: A group that is slow between a barrier and its loads, until the other one has gone through a fault and on.
SLOW = """
#include "portbar/device_barrier.h"
/* What only a compiler reads has no barriers. */
static inline void be_slow(private portbar_grid *grid, bool held)
{
    for (ulong i = portbar_group_id(grid) == 1u && held ? 0ul : ~0ul; i < 4000ul * grid->limit; ++i)
        if (portbar_word_load(grid->state + PORTBAR_STATE_ABORT) == 2u)
            break;
}
static inline void give_up(private portbar_grid *grid)
{
    if (portbar_global_id(grid) == 0u)
        portbar_word_store(grid->state + PORTBAR_STATE_ABORT, 2u);
}
static inline bool slow_barrier(private portbar_grid *grid)
{
    const bool held = portbar_device_barrier(grid);
    be_slow(grid, held);
    return held;
}
#define portbar_device_barrier slow_barrier
#define PORTBAR_REDUCTION_LOCAL_SIZE 8
#include "portbar/reduction.h"

kernel void go_on(PORTBAR_GRID_PARAM, global uint *ends)
{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    uint value = 1u, first = 0u;
    for (uint i = 0u; i < 3u; ++i) {
        const uint all = CALL;
        first = i == 0u ? all : first;
        value = 100u;
    }
    give_up(&grid);
    ends[portbar_global_id(&grid)] = first;
}
"""
SLOW_CALLS = {
    "reduce": ("portbar_device_reduce_add(&grid, scratch, value)", 16),
    "scan": ("portbar_device_scan_inclusive_add(&grid, scratch, value)", 16),
    "broadcast": ("portbar_device_broadcast(&grid, scratch, value, 0u)", 1),
}


@pytest.mark.parametrize("name", SLOW_CALLS)
def test_an_answer_of_a_barrier_that_held_is_right_whatever_gave_up_since(context, queue, name):
    call, right = SLOW_CALLS[name]
    made = portbar.Program(context, SLOW.replace("CALL", call), spin_limit=0.02).kernel("go_on")
    support.need_groups(made, queue, (8,), 2)
    ends = support.filled(queue, 16)
    launch = support.launched_with(lambda: made(queue, None, (8,), ends, num_groups=2), 2)
    with pytest.raises(portbar.BarrierTimeoutError):
        launch.wait()
    assert support.uints(queue, ends)[15] == right


def test_a_reduction_orders_plain_stores_as_a_barrier_does(context, queue):
    source = (
        HEADERS
        + """
    kernel void ring(PORTBAR_GRID_PARAM, global uint *values, global uint *wrong, const uint rounds)
    {
        PORTBAR_ENTER(grid);
        PORTBAR_REDUCTION_SCRATCH(scratch);
        const uint me = portbar_global_id(&grid), all = portbar_global_size(&grid);
        uint bad = 0u;
        for (uint r = 1u; r <= rounds; ++r) {
            values[me] = r * (me + 1u);
            bad += portbar_device_reduce_max(&grid, scratch, r) != r;
            const uint other = (me + 8u * r + 3u) % all;
            bad += values[other] != r * (other + 1u);
            bad += portbar_device_broadcast(&grid, scratch, r, 0u) != r;
        }
        wrong[me] = bad;
    }
    """
    )
    made = portbar.Program(context, source).kernel("ring")
    values, wrong = support.cells(made, queue, (8,)), support.cells(made, queue, (8,))
    rounds = support.scale(queue.device).rounds
    made(queue, None, (8,), values, wrong, np.uint32(rounds)).wait()
    assert not support.uints(queue, wrong).any()
