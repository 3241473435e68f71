"""Worklists: each element is met once, after its pusher's stores; the end is found; overflows are reported."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pyopencl as cl
import pytest

import portbar
from tests import support
from tests.programs import LIMIT_S, amount, local_sizes, zeros
from tests.worklist.kernels import LEVELS, RESERVES, ROUNDS_ON, TASKS

pytestmark = pytest.mark.device


class Tree:
    """The data of kernels that visit a binary tree: how often each vertex was met, its cells, and what went wrong."""

    def __init__(self, queue, n):
        self.seen, self.cells, self.wrong = (zeros(queue, size) for size in (n, n, 4))
        self.args = self.seen, self.cells, self.wrong, np.uint32(n)

    def check(self):
        """Check that each vertex was met once, after its parent."""
        assert np.flatnonzero(self.seen.get() != 1)[:10].tolist() == []
        assert not self.wrong.get().any()


def vertices_for(device):
    return amount(device, 50_000, simulated=45, cut_short=500)


# Frontiers.


@pytest.mark.parametrize("name", LEVELS)
def test_each_element_is_met_once_after_its_level(made, queue, name):
    kernel, n = made(name), vertices_for(queue.device)
    frontier = portbar.Frontier(queue, n)
    for local in local_sizes(queue.device, LEVELS.index(name)):
        for _ in range(3):
            frontier.set([0])
            tree = Tree(queue, n)
            kernel(queue, None, (local,), *frontier.args, *tree.args, np.uint32(99)).wait()
            tree.check()
            assert len(frontier.get()) == 0


@pytest.mark.parametrize("name", ["lone_each", "group_both"])
def test_a_launch_goes_on_where_the_last_one_ended(made, queue, name):
    """Each launch processes the given levels; the host reads the list between them, and clears nothing."""
    kernel, n = made(name), 45
    frontier = portbar.Frontier(queue, n)
    for most in (1, 2, 3, 4, 7):
        frontier.set([0])
        tree, level = Tree(queue, n), 0
        while len(frontier.get()):
            first = 2 ** min(level, 9) - 1
            assert sorted(frontier.get()) == list(range(first, min(2 * first + 1, n)))
            kernel(queue, None, (5,), *frontier.args, *tree.args, np.uint32(most)).wait()
            level += most
        tree.check()
        assert level >= 6


def test_two_frontiers_in_one_kernel(made, queue):
    kernel, n = made("two"), vertices_for(queue.device)
    even, odd = portbar.Frontier(queue, n), portbar.Frontier(queue, n)
    for local in local_sizes(queue.device, 2):
        even.set([0])
        seen = zeros(queue, n)
        kernel(queue, None, (local,), *even.args, *odd.args, seen, np.uint32(n)).wait()
        assert (seen.get() == np.where(np.arange(n) % 2, 100, 1)).all()


def test_elements_pushed_before_the_first_swap_stay_for_the_next_launch(made, queue):
    kernel = made("produce")
    out = support.cells(kernel, queue, (5,))
    # As many as three launches push in all.
    frontier = portbar.Frontier(queue, 7 * len(support.uints(queue, out)))
    pushed = 0
    for each in (2, 3, 1):
        launch = kernel(queue, None, (5,), *frontier.args, out, np.uint32(each), np.uint32(0))
        launch.wait()
        pushed += each * launch.num_groups * 5
        assert len(frontier.get()) == 0
    launch = kernel(queue, None, (5,), *frontier.args, out, np.uint32(1), np.uint32(1))
    launch.wait()
    pushed += launch.num_groups * 5
    assert len(frontier.get()) == pushed
    assert (support.uints(queue, out)[: launch.num_groups * 5] == 1 + 2 * pushed).all()
    # A swap after which nothing was pushed leaves nothing.
    kernel(queue, None, (5,), *frontier.args, out, np.uint32(1), np.uint32(2)).wait()
    assert len(frontier.get()) == 0


def test_a_frontier_that_fits_exactly(made, queue):
    kernel = made("produce")
    groups = kernel.occupancy(queue, (5,)).groups
    frontier = portbar.Frontier(queue, groups * 15)
    out = support.cells(kernel, queue, (5,))
    launch = kernel(queue, None, (5,), *frontier.args, out, np.uint32(3), np.uint32(1), num_groups=groups)
    launch.wait()
    assert sorted(frontier.get()) == list(range(launch.num_groups * 15))


@pytest.mark.parametrize("swaps", [1, 3])
def test_a_frontier_that_is_too_small_reports_the_size_needed(made, queue, swaps):
    kernel = made("produce")
    frontier = portbar.Frontier(queue, 7)
    beyond = zeros(queue, 1024)
    out = support.cells(kernel, queue, (5,))
    launch = kernel(queue, None, (5,), *frontier.args, out, np.uint32(20), np.uint32(swaps))
    needed = launch.num_groups * 100
    with pytest.raises(portbar.Error, match=rf"room for 7 elements needed room for at least {needed}") as caught:
        launch.wait()
    assert not isinstance(caught.value, portbar.BarrierTimeoutError)
    assert "kernel 'produce' on" in str(caught.value)
    assert "A capacity that suffices is the number of elements that one phase can push" in str(caught.value)
    assert not beyond.get().any()
    # All leave: no list after that, and no barrier.
    assert (support.uints(queue, out)[: launch.num_groups * 5] == 1000).all()
    with pytest.raises(
        portbar.Error, match=rf"{needed} elements were pushed .* room for 7\. .*later phases may need more"
    ):
        frontier.get()
    # It stays unusable until it is set.
    with pytest.raises(portbar.Error, match="room for 7 elements"):
        kernel(queue, None, (5,), *frontier.args, out, np.uint32(0), np.uint32(1)).wait()
    frontier.set([3, 4])
    assert sorted(frontier.get()) == [3, 4]
    kernel(queue, None, (5,), *frontier.args, out, np.uint32(0), np.uint32(1)).wait()
    assert len(frontier.get()) == 0


def reserve(kernel, queue, frontier, wanted, steps, local, swaps=1):
    """Launch reservations of the given sizes; return the launch, what each got, and what the swap said."""
    count = len(wanted) // steps
    got = support.filled(queue, len(wanted) + count, 7)
    given = support.to_device(queue, wanted)
    launch = kernel(
        queue, None, (local,), *frontier.args, given, np.uint32(steps), got, np.uint32(swaps), num_groups=count // local
    )
    return launch, *np.split(support.uints(queue, got), [len(wanted)])


def sizes_for(rng, capacity, count):
    """Return numbers around those at which something ends, some of them so small that a few fit."""
    edges = np.array([0, 1, 2, capacity // 2, capacity, capacity + 1, 2**31 - 1, 2**31, 2**32 - capacity, 2**32 - 1])
    some_of_them = rng.choice(edges, count)
    small = rng.integers(0, max(2, 2 * capacity // count), count)
    return np.where(rng.random(count) < rng.choice([0.0, 0.3, 0.9]), some_of_them, small).astype(np.uint32)


@pytest.mark.parametrize("way", RESERVES)
def test_reservations_of_any_size_never_overlap(made, queue, way):
    """Whatever they add up to: each place belongs to one, and what did not fit is reported."""
    kernel, rng = made(f"reserves_{way}"), np.random.default_rng(list(RESERVES).index(way))
    steps, local = 4, 4
    groups = min(4, kernel.occupancy(queue, (local,)).groups)
    for capacity in (1, 100, 2**20 + 3, 2**30) * amount(queue.device, 6, simulated=1, cut_short=2):
        # Nothing is stored, so that the memory may be smaller than the frontier says.
        frontier = portbar.Frontier(queue, 8)
        words = frontier.words.get()
        words[0] = capacity
        frontier.words.set(words)
        wanted = sizes_for(rng, capacity, groups * local * steps)
        launch, got, said = reserve(kernel, queue, frontier, wanted, steps, local)
        total = int(wanted.sum(dtype=np.uint64))
        taken = sorted((int(first), int(n)) for first, n in zip(got, wanted, strict=True) if n and first != 2**32 - 1)
        for (first, n), (then, _) in itertools.pairwise([*taken, (2 * capacity, 0)]):
            assert capacity <= first
            assert first + n <= then, (capacity, wanted, got)
        if total <= capacity:
            launch.wait()
            assert len(taken) == np.count_nonzero(wanted)
            assert (said == (total or 2**32 - 1)).all()
            continue
        with pytest.raises(portbar.Error, match=f"room for {capacity} elements needed room for at least") as caught:
            launch.wait()
        asked = int(str(caught.value).partition("at least ")[2].partition(".")[0])
        assert asked == total if total < 2**31 else 2**31 <= asked <= total
        assert (said == 2**32 - 1).all()


@pytest.mark.parametrize("way", RESERVES)
def test_launches_that_reserve_and_never_swap_do_not_wrap(made, queue, way):
    kernel, local = made(f"reserves_{way}"), 2
    groups = min(2, kernel.occupancy(queue, (local,)).groups)
    frontier = portbar.Frontier(queue, 100)
    ones = np.ones(groups * local, np.uint32)
    for turn, size in enumerate((60, 2**30, 2**29, 2**31, 2**32 - 1, 2**30, 60)):
        launch, got, _ = reserve(kernel, queue, frontier, ones * np.uint32(size), 1, local, swaps=0)
        launch.wait()
        # The first of all fits.
        assert np.count_nonzero(got != 2**32 - 1) == (1 if turn == 0 else 0)
    launch, got, said = reserve(kernel, queue, frontier, ones, 1, local)
    with pytest.raises(portbar.Error, match="room for 100 elements needed room for at least 2147483648"):
        launch.wait()
    assert (got == 2**32 - 1).all()
    assert (said == 2**32 - 1).all()


def test_a_tail_near_its_end_stays_there(made, queue):
    """As after two thousand million pushes onto a frontier that was full long before."""
    frontier = portbar.Frontier(queue, 100)
    for way in RESERVES:
        kernel = made(f"reserves_{way}")
        groups = min(2, kernel.occupancy(queue, (2,)).groups)
        for before in (2**31 - 3, 2**31, 2**32 - 4):
            words = frontier.words.get()
            words[33] = before
            frontier.words.set(words)
            wanted = np.full(groups * 2 * 8, 3, np.uint32)
            for _ in range(2):
                launch, got, _ = reserve(kernel, queue, frontier, wanted, 8, 2, swaps=0)
                launch.wait()
                assert (got == 2**32 - 1).all()
            assert before <= frontier.words.get()[33] <= max(before, 2**31 + 2 * int(wanted.sum()))


def test_a_swap_that_a_group_never_comes_to_is_a_barrier_that_times_out(context, queue):
    source = """
#include "portbar/worklist.h"
kernel void stay(PORTBAR_GRID_PARAM, global portbar_worklist *list, global uint *items, global uint *out)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FRONTIER(frontier, &grid, list);
    portbar_frontier_push(&frontier, items, 1u);
    bool more = false;
    if (PORTBAR_UNIFORM(portbar_group_id(&grid) != 1u))
        more = portbar_device_frontier_swap(&grid, &frontier);
    out[portbar_global_id(&grid)] = more ? 1u : 2u + portbar_frontier_size(&frontier);
}
"""
    kernel = support.kernel(context, source, "stay", spin_limit=LIMIT_S)
    support.need_groups(kernel, queue, (1,), 2)
    frontier, out = portbar.Frontier(queue, 64), support.filled(queue, 64)

    def again():
        frontier.set([])
        return kernel(queue, None, (1,), *frontier.args, out, num_groups=2)

    launch = support.launched_with(again, 2)
    with pytest.raises(portbar.BarrierTimeoutError, match="a device barrier reached its spin limit"):
        launch.wait()
    assert support.uints(queue, out)[0] == 2


# Task queues.


def check_ended(tasks, base, count, items):
    """Check that nothing waits, that each slot is free for its next ticket, and that tickets beyond the tasks are few."""
    words = tasks.words.get()
    pushed = words[32]
    assert pushed == words[64] == words[96]
    # A ticket that was drawn for no task counts as a finished one.
    assert count <= (int(pushed) - int(base)) % 2**32 <= count + items
    tickets = pushed + np.arange(tasks.capacity, dtype=np.uint32)
    assert (words[128:][tickets % tasks.capacity] == tickets).all()
    assert len(tasks.get()) == 0


@pytest.mark.parametrize("name", TASKS)
def test_each_task_is_done_once_after_the_one_that_pushed_it(made, queue, name):
    kernel, n = made(name), min(vertices_for(queue.device), 20_000)
    tasks = portbar.TaskQueue(queue, n)
    for local in local_sizes(queue.device):
        if local == 1 and name == "task_groups_push":
            continue
        if local == 64 and name == "task_leaders" and support.scale(queue.device).is_cut_short:
            # The vectors beside the leader's take all iterations that the device allows a kernel.
            continue
        for _ in range(3):
            tasks.set([0])
            tree = Tree(queue, n)
            launch = kernel(queue, None, (local,), *tasks.args, *tree.args)
            launch.wait()
            tree.check()
            check_ended(tasks, 0, n, launch.num_groups * local)


@pytest.mark.parametrize("local", [1, 5])
def test_a_small_ring_of_slots_serves_many_tasks(made, queue, local):
    """Chains keep as many tasks alive as there are slots, and the counters of tickets wrap around."""
    kernel = made("chains")
    wide = np.dtype([("a", np.uint32, 3), ("b", np.float32)])
    length = amount(queue.device, 2_000, simulated=10, cut_short=100)
    for count, capacity in ((1, 1), (2, 2), (7, 8), (16, 9)):
        tasks = portbar.TaskQueue(queue, capacity, wide)
        assert tasks.capacity == max(2, 1 << (capacity - 1).bit_length())
        given = np.zeros(count, wide)
        given["a"][:, 0], given["a"][:, 1], given["a"][:, 2], given["b"] = np.arange(count), length, 9, 0.5
        tasks.set(given)
        assert (tasks.get() == given).all()
        # As if 2^32 - 20 tasks had been there before.
        base = np.uint32(2**32 - 16 * tasks.capacity)
        words = tasks.words.get()
        words[[32, 64, 96]] += base
        words[128:] += base
        tasks.words.set(words)
        sums = cl.array.zeros(queue, count, np.float32)
        launch = kernel(queue, None, (local,), *tasks.args, sums)
        launch.wait()
        assert (sums.get() == 0.5 + 9 + np.arange(1, length + 1, dtype=np.float64).sum()).all()
        check_ended(tasks, base, count * length, launch.num_groups * local)


@pytest.mark.parametrize("local", [1, 5])
def test_launches_in_a_row_need_no_clearing_by_the_host(made, queue, local):
    kernel, rounds = made("rounds"), amount(queue.device, 20, simulated=3)
    launches = amount(queue.device, 40, simulated=2)
    tasks = portbar.TaskQueue(queue, max(4096, 4 * kernel.occupancy(queue, (local,)).groups))
    for _ in range(launches):
        sums = zeros(queue, rounds)
        launch = kernel(queue, None, (local,), *tasks.args, sums, np.uint32(rounds))
        launch.wait()
        assert (sums.get() == launch.num_groups * np.arange(1, rounds + 1)).all()


@pytest.mark.parametrize("name", ROUNDS_ON)
def test_rounds_of_a_launch_need_no_barrier_after_the_last_task(made, queue, name):
    """A group may push the next round while others still hold a ticket of the last, or come for one."""
    kernel = made(name)
    rounds, each = amount(queue.device, 400, simulated=3, cut_short=20), 3
    for local, capacity in ((1, 64), (3, 4)):
        tasks = portbar.TaskQueue(queue, capacity)
        for _ in range(3):
            tasks.set([])
            seen = zeros(queue, rounds * each)
            launch = kernel(queue, None, (local,), *tasks.args, seen, np.uint32(rounds), np.uint32(each))
            launch.wait()
            assert (seen.get() == 1).all(), np.flatnonzero(seen.get() != 1)[:10]
            check_ended(tasks, 0, rounds * each, rounds * launch.num_groups * local)


def test_an_empty_queue_ends_at_once(made, queue):
    tasks, tree = portbar.TaskQueue(queue, 8), Tree(queue, 7)
    for name in TASKS:
        made(name)(queue, None, (5,), *tasks.args, *tree.args).wait()
        assert not tree.seen.get().any()


def test_a_full_task_queue_reports_it(made, queue):
    kernel = made("explodes")
    out = zeros(queue, 1)
    for capacity in (2, 64):
        tasks = portbar.TaskQueue(queue, capacity)
        tasks.set([1])
        launch = kernel(queue, None, (5,), *tasks.args, out)
        with pytest.raises(portbar.Error, match=rf"room for {capacity} elements needed room for at least \d+") as told:
            launch.wait()
        assert not isinstance(told.value, portbar.BarrierTimeoutError)
        assert capacity < int(str(told.value).partition("at least ")[2].split(".")[0]) <= capacity + 2 * 4096
        assert out.get()[0] == 1
        # The next launch of a list that is set again is right.
        tree = Tree(queue, 3)
        tasks.set([0])
        made("task_leaders")(queue, None, (5,), *tasks.args, *tree.args).wait()
        tree.check()


def test_a_task_that_never_finishes_is_an_error_within_the_limit_and_a_second(made, launched, queue):
    kernel = made("leaves", spin_limit=LIMIT_S)
    tasks, out = portbar.TaskQueue(queue, 8), support.filled(queue, 32 * 5)

    def arguments():
        tasks.set([1, 7, 3])
        return (*tasks.args, out)

    launch = launched(kernel, 5, arguments, 2, 4)
    told = r"waited for a task until the spin limit, .*; unfinished tasks: 1\."
    in_time = support.within(LIMIT_S + 1, queue.device, launch.num_groups)
    with in_time, pytest.raises(portbar.BarrierTimeoutError, match=told) as caught:
        launch.wait()
    assert (caught.value.kernel, caught.value.expected) == ("leaves", launch.num_groups)
    found = support.uints(queue, out)[: launch.num_groups * 5].reshape(-1, 5)
    assert sorted(found[:, 0]) == [1] * (launch.num_groups - 1) + [2]
    assert (found == found[:, :1]).all()
    # The list holds what is left of it: a launch ends with an error as well, and one that sets it is right.
    with pytest.raises(portbar.BarrierTimeoutError, match="waited for a task"):
        kernel(queue, None, (5,), *tasks.args, out, num_groups=2).wait()
    tasks.set([1, 3])
    kernel(queue, None, (5,), *tasks.args, out, num_groups=2).wait()
    assert support.uints(queue, out)[0] == 5


def test_who_has_no_task_waits_as_long_as_others_make_progress(made, launched, queue):
    if support.scale(queue.device).is_simulator or support.scale(queue.device).is_cut_short:
        pytest.skip("takes a second of work")
    kernel = made("slow", spin_limit=LIMIT_S)
    tasks, out = portbar.TaskQueue(queue, 8), zeros(queue, 1)
    count, began = 4, time.monotonic()

    def arguments():
        nonlocal began
        tasks.set([count - 1])
        out.fill(0)
        queue.finish()
        began = time.monotonic()
        return (*tasks.args, out, np.uint32(1 << 18))

    took = 0.0
    while took < 3 * LIMIT_S:
        # Each task is far below the limit, all of them are above.
        count *= 4
        launched(kernel, 1, arguments, 2, 2).wait()
        took = time.monotonic() - began
        assert out.get()[0] == count


def test_a_slot_that_is_reserved_and_never_written_is_an_error(made, queue, full_waits):
    kernel = made("reserves", spin_limit=LIMIT_S)
    tasks, out = portbar.TaskQueue(queue, 8), support.filled(queue, 4096)
    tasks.set([5, 6])
    groups = min(2, kernel.occupancy(queue, (5,)).groups)
    launch = kernel(queue, None, (5,), *tasks.args, out, num_groups=groups)
    # A group that waits for a later task may be the first to report.
    told = r"until the spin limit(?: for slot 2 of a task queue with 8|, .*; unfinished tasks: 1\.)"
    in_time = support.within(LIMIT_S + 1, queue.device, launch.num_groups)
    with in_time, pytest.raises(portbar.BarrierTimeoutError, match=told):
        launch.wait()
    assert support.uints(queue, out)[: launch.num_groups * 5].sum() == 10


def test_a_slot_that_is_taken_and_never_freed_is_an_error(made, queue, full_waits):
    kernel = made("keeps", spin_limit=LIMIT_S)
    tasks, out = portbar.TaskQueue(queue, 4), support.filled(queue, 2, 9)
    tasks.set([5])
    launch = kernel(queue, None, (5,), *tasks.args, out)
    with pytest.raises(
        portbar.BarrierTimeoutError, match=r"waited until the spin limit for slot 0 of a task queue with 4"
    ):
        launch.wait()
    assert support.uints(queue, out).tolist() == [0, 0]


# Bad input.


def test_the_words_of_the_other_kind_of_list_are_refused(made, queue):
    tasks, frontier = portbar.TaskQueue(queue, 8), portbar.Frontier(queue, 8)
    tree = Tree(queue, 8)
    with pytest.raises(portbar.Error, match="room for 0 elements"):
        made("lone_each")(queue, None, (5,), *tasks.args, *tree.args, np.uint32(9)).wait()
    with pytest.raises(portbar.Error, match="room for 0 elements"):
        made("task_leaders")(queue, None, (5,), *frontier.args, *tree.args).wait()
    assert not tree.seen.get().any()


@pytest.mark.parametrize("kind", [portbar.Frontier, portbar.TaskQueue])
def test_lists_that_cannot_be(queue, kind):
    for capacity in (0, -1, 2**30 + 1, 1.5, "many", None):
        with pytest.raises(
            portbar.LaunchError, match=rf"{kind.__name__}: capacity must be a number of elements from 1"
        ):
            kind(queue, capacity)
    for dtype in (object, (np.float32, 3)):
        with pytest.raises(portbar.LaunchError, match="no fixed size on a device, or are arrays"):
            kind(queue, 4, dtype)
    with pytest.raises(portbar.LaunchError, match=f"{kind.__name__}: 'nonsense' is not a type"):
        kind(queue, 4, "nonsense")
    with pytest.raises(portbar.LaunchError, match=r"first argument must be a pyopencl\.CommandQueue, not int"):
        kind(3, 4)
    made = kind(queue, 4, np.int64)
    for values in ([1, 2, 3, 4, 5], [[1, 2]], 7):
        with pytest.raises(portbar.LaunchError, match="does not fit a list of capacity 4"):
            made.set(values)
    for values in (["a"], [2**70], [[1], [2, 3]]):
        with pytest.raises(portbar.LaunchError, match=f"{kind.__name__}: values cannot be made an array of int64"):
            made.set(values)
    made.set([-3, 2**40])
    assert made.get().tolist() == [-3, 2**40]
    assert made.get().dtype == np.int64


# Elements from the host.


@pytest.mark.parametrize("kind", [portbar.Frontier, portbar.TaskQueue])
def test_values_that_the_list_s_type_does_not_have_are_refused(queue, kind):
    listed = kind(queue, 8)
    listed.set([3, 2**32 - 1])
    for values in ([2**32], [-1], [1.5], np.array([-1]), np.array([2**32 + 5]), np.array([1.5]), np.array([np.nan])):
        with pytest.raises(portbar.LaunchError, match=f"{kind.__name__}: values cannot be made an array of uint32: "):
            listed.set(values)
    assert listed.get().tolist() == [3, 2**32 - 1]
    listed.set(np.array([7.0, 8.0]))
    assert listed.get().tolist() == [7, 8]


@pytest.mark.parametrize("kind", [portbar.Frontier, portbar.TaskQueue])
def test_members_of_elements_are_looked_at_one_by_one(queue, kind):
    listed = kind(queue, 4, np.dtype([("vertex", np.uint16), ("length", np.float32)]))
    listed.set([(65535, 0.1)])
    assert listed.get()["length"] == np.float32(0.1)
    for values in ([(65536, 0)], [(1, 1e300)], [(0.5, 1)]):
        with pytest.raises(portbar.LaunchError, match="values cannot be made an array of"):
            listed.set(values)
