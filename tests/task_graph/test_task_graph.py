"""Task graphs: each task is executed once, after those that it waits for; graphs that cannot be executed are refused or
reported."""

from __future__ import annotations

import itertools

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.primitives.task_graph import WORDS
from tests import support
from tests.programs import LIMIT_S, local_sizes
from tests.task_graph.kernels import ONCE

pytestmark = pytest.mark.device

CELLS = 8
EITHER_WAY = pytest.mark.parametrize("by_tickets", [False, True], ids=["dealt", "tickets"])


def chain(n):
    return np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)


def stages(count, width):
    """Every task of a stage waits for all of the stage before."""
    tasks = np.arange(count * width).reshape(count, width)
    pairs = [np.stack(np.meshgrid(a, b), axis=-1).reshape(-1, 2) for a, b in itertools.pairwise(tasks)]
    return np.concatenate(pairs)


def wavefront(side):
    tasks = np.arange(side * side).reshape(side, side)
    across = np.stack([tasks[:, :-1].ravel(), tasks[:, 1:].ravel()], axis=1)
    return np.concatenate([across, np.stack([tasks[:-1].ravel(), tasks[1:].ravel()], axis=1)])


def scattered(n, edges, seed):
    """Some edges from lower to higher tasks, whose numbers are then shuffled."""
    draws = np.random.default_rng(seed)
    pairs = np.sort(draws.integers(0, n, (edges, 2)), axis=1)
    return draws.permutation(n)[pairs[pairs[:, 0] < pairs[:, 1]]]


def star(n):
    """One task before all others but the last, which waits for them: lists of counters that are long, and short."""
    inner = np.arange(1, n - 1)
    ends = [np.stack([np.zeros_like(inner), inner], axis=1), np.stack([inner, np.full_like(inner, n - 1)], axis=1)]
    own = np.stack([inner[:-1], np.full_like(inner[:-1], n - 2)], axis=1)
    return np.concatenate([*ends, own])


GRAPHS = {
    "lone": (1, np.empty((0, 2), np.int32)),
    "free": (9, []),
    "chain": (20, chain(20)),
    "stages": (24, stages(4, 6)),
    "wavefront": (36, wavefront(6)),
    "scattered": (50, scattered(50, 150, 7)),
    "star": (12, star(12)),
}


class Data:
    """The data that the kernels read and write for one graph."""

    def __init__(self, queue, n, edges):
        pairs = np.unique(np.asarray(edges, np.int64).reshape(-1, 2)[:, ::-1], axis=0)
        self.first = cl.array.to_device(queue, np.searchsorted(pairs[:, 0], np.arange(n + 1)).astype(np.uint32))
        self.waits = cl.array.to_device(queue, np.append(pairs[:, 1], 0).astype(np.uint32))
        self.cells, self.seen = (cl.array.zeros(queue, size, np.uint32) for size in (CELLS * n, n))
        self.wrong = cl.array.zeros(queue, 2, np.uint32)

    def args(self, run):
        return self.first, self.waits, self.cells, self.seen, self.wrong, np.uint32(run)

    def check(self, runs, *details):
        """Check that each task was executed in each run, after those that it waits for."""
        assert not self.wrong.get().any(), details
        assert (self.seen.get() == runs).all(), details


@EITHER_WAY
@pytest.mark.parametrize("name", ONCE)
def test_each_task_is_executed_once_after_those_that_it_waits_for(made, queue, name, by_tickets):
    kernel, few = made(name), support.scale(queue.device).is_simulator
    for title, (n, edges) in GRAPHS.items():
        if few and title in {"wavefront", "scattered"}:
            continue
        graph, data = portbar.TaskGraph(queue, n, edges, by_tickets=by_tickets), Data(queue, n, edges)
        run = 0
        for local in local_sizes(queue.device):
            for most in (1, 2, None):
                run += 1
                kernel(queue, None, (local,), *graph.args, *data.args(run), max_groups=most).wait()
                data.check(run, title, local, most)
        assert graph.words.get()[WORDS["RUN"]] == run


@EITHER_WAY
def test_a_larger_graph(made, queue, by_tickets):
    if support.scale(queue.device).is_simulator or support.scale(queue.device).is_cut_short:
        pytest.skip("takes the device too long")
    n, edges = 5000, scattered(5000, 12_000, 11)
    graph, data = portbar.TaskGraph(queue, n, edges, by_tickets=by_tickets), Data(queue, n, edges)
    for run in range(1, 4):
        made("at_once")(queue, None, (5,), *graph.args, *data.args(run)).wait()
        data.check(run)


@EITHER_WAY
def test_a_graph_runs_again_in_the_same_launch(made, queue, by_tickets):
    n, edges = GRAPHS["stages"]
    graph, data = portbar.TaskGraph(queue, n, edges, by_tickets=by_tickets), Data(queue, n, edges)
    for launch in range(2):
        # Each launch begins the graph once more than it runs it.
        made("again")(queue, None, (5,), *graph.args, *data.args(3 * launch)).wait()
        data.check(3 * (launch + 1))
        graph.reset()


def test_counts_of_runs_and_counters_wrap_around(made, queue):
    n, edges = GRAPHS["stages"]
    graph, data = portbar.TaskGraph(queue, n, edges), Data(queue, n, edges)
    words = graph.words.get()
    records = words[words[WORDS["RECORDS"]] :][: 8 * n].reshape(n, 8)
    last = np.uint32(2**32 - 2)
    words[WORDS["RUN"]] = words[WORDS["BEGUN"]] = last
    waiting = records[records[:, 2] != 0]
    words[waiting[:, 1]] = waiting[:, 2] * last
    graph.words.set(words)
    for run in range(1, 5):
        made("at_once")(queue, None, (5,), *graph.args, *data.args(run)).wait()
        data.check(run)
    assert graph.words.get()[WORDS["RUN"]] == 2


def test_an_order_of_the_authors_own(made, queue):
    n, edges = GRAPHS["stages"]
    backwards = np.arange(n).reshape(4, 6)[:, ::-1].ravel()
    kernel, data = made("at_once"), Data(queue, n, edges)
    graph = portbar.TaskGraph(queue, n, edges, order=backwards)
    assert (graph.groups, graph.by_tickets) == (1, False)
    graph.check(kernel, (5,), *graph.args, *data.args(1))
    kernel(queue, None, (5,), *graph.args, *data.args(1), max_groups=1).wait()
    data.check(1)


def test_an_order_that_needs_several_groups(made, launched, queue):
    n, edges = 6, chain(6)
    # Task 1 is drawn before task 0, and tasks 4 and 5 before task 3.
    graph = portbar.TaskGraph(queue, n, edges, order=[1, 0, 2, 5, 4, 3])
    assert (graph.groups, graph.by_tickets) == (3, True)
    kernel, data = made("at_once"), Data(queue, n, edges)
    with pytest.raises(
        portbar.Error, match=r"the order of the task graph needs 3 work-groups .* and 2 took part"
    ) as told:
        launched(kernel, 5, lambda: (*graph.args, *data.args(1)), 2, 2).wait()
    assert not isinstance(told.value, portbar.BarrierTimeoutError)
    assert not data.seen.get().any()
    # Nothing began, so nothing has to be reset.
    launched(kernel, 5, lambda: (*graph.args, *data.args(1)), 3, 3).wait()
    data.check(1)


def test_an_order_that_needs_more_groups_than_the_device_holds_is_refused_before_the_launch(made, queue):
    kernel = made("at_once")
    n = 64
    data = Data(queue, n, chain(n))
    graph = portbar.TaskGraph(queue, n, chain(n), order=np.arange(n)[::-1])
    assert graph.groups == n
    held = kernel.occupancy(queue, (5,), *graph.args, *data.args(1)).groups
    if held >= n:
        graph.check(kernel, (5,), *graph.args, *data.args(1))
        n = held + 1
        data, graph = Data(queue, n, chain(n)), portbar.TaskGraph(queue, n, chain(n), order=np.arange(n)[::-1])
    with pytest.raises(portbar.LaunchError, match=rf"needs {n} concurrent work-groups, but the device runs {held}"):
        graph.check(kernel, (5,), *graph.args, *data.args(1))
    # A launch all the same ends at once, and not at the spin limit.
    with pytest.raises(portbar.Error, match=rf"needs {n} work-groups at the same time, and \d+ took part"):
        kernel(queue, None, (5,), *graph.args, *data.args(1)).wait()
    assert not data.seen.get().any()


# Faults.


@EITHER_WAY
def test_a_task_that_never_finishes_is_an_error_within_the_limit_and_a_second(
    made, launched, queue, by_tickets, full_waits
):
    kernel = made("leaves", spin_limit=LIMIT_S)
    # Task 6 waits for 3, 4 and 5, and another group than that of task 3 has it.
    edges = [(0, 3), (1, 4), (2, 5), (3, 6), (4, 6), (5, 6)]
    graph = portbar.TaskGraph(queue, 7, edges, by_tickets=by_tickets)
    out = support.filled(queue, 32 * 5)

    def arguments(which=3):
        graph.reset()
        return (*graph.args, out, np.uint32(which))

    launch = launched(kernel, 5, arguments, 2, 2)
    told = (
        r"task 6 of a task graph waited in work-group \d of 2 until the spin limit; [12] of the tasks that it waits for"
    )
    in_time = support.within(LIMIT_S + 1, queue.device, launch.num_groups)
    with in_time, pytest.raises(portbar.BarrierTimeoutError, match=told) as caught:
        launch.wait()
    assert (caught.value.kernel, caught.value.expected) == ("leaves", launch.num_groups)
    found = support.uints(queue, out)[: launch.num_groups * 5].reshape(-1, 5)
    assert (found == found[:, :1]).all()
    # The rest of the graph is not run again, however often it is tried.
    for _ in range(2):
        with pytest.raises(portbar.Error, match="the task graph was left by a launch that did not end"):
            kernel(queue, None, (5,), *graph.args, out, np.uint32(9), num_groups=2).wait()
    graph.reset()
    for _ in range(2):
        kernel(queue, None, (5,), *graph.args, out, np.uint32(9), num_groups=2).wait()


@EITHER_WAY
def test_groups_without_tasks_wait_for_the_others(made, launched, queue, by_tickets, full_waits):
    kernel, out = made("leaves", spin_limit=LIMIT_S), support.filled(queue, 32 * 5)
    graph = portbar.TaskGraph(queue, 2, [], by_tickets=by_tickets)

    def arguments():
        graph.reset()
        return (*graph.args, out, np.uint32(1))

    launch = launched(kernel, 5, arguments, 2, 2)
    told = r"work-group \d of 2 had no task left and waited until the spin limit for 1 others to come to their end"
    in_time = support.within(LIMIT_S + 1, queue.device, 2)
    with in_time, pytest.raises(portbar.BarrierTimeoutError, match=told):
        launch.wait()


def test_a_group_that_leaves_alone_is_told_by_the_next_launch(made, queue):
    kernel, out = made("leaves"), support.filled(queue, 4096)
    graph = portbar.TaskGraph(queue, 3, [(0, 1)])
    kernel(queue, None, (5,), *graph.args, out, np.uint32(2), num_groups=1).wait()
    with pytest.raises(portbar.Error, match=r"of which a work-group left while there were tasks, .* reset\(\)"):
        kernel(queue, None, (5,), *graph.args, out, np.uint32(9), num_groups=1).wait()
    graph.reset()
    kernel(queue, None, (5,), *graph.args, out, np.uint32(9), num_groups=1).wait()
    assert support.uints(queue, out)[0] == 2 * 3 + 1


@EITHER_WAY
def test_tasks_that_are_taken_and_not_waited_for_are_an_error(made, queue, by_tickets):
    out = support.filled(queue, 4096)
    graph = portbar.TaskGraph(queue, 20, [], by_tickets=by_tickets)
    with pytest.raises(portbar.Error, match="took a task before it had waited for the one that it took before"):
        made("grabs")(queue, None, (5,), *graph.args, out, num_groups=1).wait()
    assert (support.uints(queue, out)[:5] == 1).all()


def test_words_that_are_no_task_graph_are_refused(made, queue):
    tasks, out = portbar.TaskQueue(queue, 4), support.filled(queue, 4096)
    with pytest.raises(portbar.Error, match="an argument is not a task graph"):
        made("leaves")(queue, None, (5,), tasks.words, out, np.uint32(0)).wait()
    assert support.uints(queue, out)[0] == 0


# Bad input.


def test_cycles_are_refused_and_named(queue):
    for n, edges, told in (
        (3, [(0, 1), (1, 2), (2, 0)], r"a cycle of 3: (0 -> 1 -> 2 -> 0|1 -> 2 -> 0 -> 1|2 -> 0 -> 1 -> 2)"),
        (5, [(0, 1), (1, 2), (2, 1), (2, 3), (3, 4)], r"a cycle of 2: (1 -> 2 -> 1|2 -> 1 -> 2)"),
        (40, [*chain(40), (39, 0)], r"a cycle of 40: \d+ -> .* -> \.\.\. \(each before the next one\)"),
    ):
        with pytest.raises(portbar.LaunchError, match=told):
            portbar.TaskGraph(queue, n, edges)
    with pytest.raises(portbar.LaunchError, match="edge 1 lets task 2 wait for itself"):
        portbar.TaskGraph(queue, 3, [(0, 1), (2, 2)])


def test_edges_and_orders_that_cannot_be(queue):
    for edges, told in (
        ([(0, 3)], "edge 0 leads from task 0 to task 3, but tasks are the numbers from 0 to 2"),
        ([(0, 1), (-1, 2)], "edge 1 leads from task -1 to task 2"),
        ([(0, 2**40)], f"to task {2**40}"),
        ([0, 1], r"pairs of integers, of shape \(m, 2\)"),
        ([(0, 1, 2)], r"pairs of integers, of shape \(m, 2\)"),
        ([(0.0, 1.0)], "pairs of integers"),
        ([(0, 1), (2,)], "edges cannot be made an array"),
    ):
        with pytest.raises(portbar.LaunchError, match=told):
            portbar.TaskGraph(queue, 3, edges)
    for order, told in (
        ([0, 1], "each of the 3 tasks once"),
        ([0, 1, 3], "a task that does not exist"),
        ([0, 1, -1], "a task that does not exist"),
        ([0, 1, 1], "has task 1 2 times, and lacks task 2"),
        ([0.0, 1.0, 2.0], "each of the 3 tasks once"),
        ([[0], [1, 2]], "order cannot be made an array"),
    ):
        with pytest.raises(portbar.LaunchError, match=told):
            portbar.TaskGraph(queue, 3, [(0, 1)], order=order)
    for n in (0, -1, 2**24 + 1, 2.5, None):
        with pytest.raises(portbar.LaunchError, match="n_tasks must be a number from 1"):
            portbar.TaskGraph(queue, n, [])
    with pytest.raises(portbar.LaunchError, match=r"first argument must be a pyopencl\.CommandQueue, not int"):
        portbar.TaskGraph(3, 4, [])


def test_counters_are_shared_and_edges_count_once(queue):
    n, edges = GRAPHS["stages"]
    graph = portbar.TaskGraph(queue, n, np.concatenate([edges, edges]))
    words = graph.words.get()
    records = words[words[WORDS["RECORDS"]] :][: 8 * n].reshape(n, 8)
    assert (graph.width, graph.levels.max()) == (6, 3)
    for stage in range(1, 4):
        mine = records[6 * stage : 6 * stage + 6]
        assert (mine[:, 1] == mine[0, 1]).all()
        assert (mine[:, 2] == 6).all()
        assert (records[6 * stage - 6 : 6 * stage, 3:5] == [1, mine[0, 1]]).all()
    assert (records[18:, 3] == 0).all()


@pytest.mark.parametrize("seed", range(5))
def test_needed_groups_are_those_with_which_a_simulation_ends(queue, seed):
    n, draws = 12, np.random.default_rng(seed)
    edges = scattered(n, 14, seed)
    order = draws.permutation(n)
    graph = portbar.TaskGraph(queue, n, edges, order=order)
    before = {task: {a for a, b in edges.tolist() if b == task} for task in range(n)}

    def ends(groups):
        left, held, done = order.tolist(), [], set()
        while left or held:
            while left and len(held) < groups:
                held.append(left.pop(0))
            ready = [task for task in held if before[task] <= done]
            if not ready:
                return False
            task = ready[draws.integers(len(ready))]
            held.remove(task)
            done.add(task)
        return True

    assert [ends(groups) for groups in range(1, n + 1)] == [groups >= graph.groups for groups in range(1, n + 1)]
