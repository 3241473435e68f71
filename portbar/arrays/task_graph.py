"""Static task graphs on the host: checked, put into an order, and laid out for `portbar/task_graph.h`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyopencl as cl
import pyopencl.array

from portbar.arrays.request import collected, host_array
from portbar.choices.timing import shortened
from portbar.errors import LaunchError
from portbar.launching.arguments import check_queue
from portbar.launching.kernel import Kernel
from portbar.primitives.layout import LINE_WORDS
from portbar.primitives.task_graph import COUNTERS, INLINE, KIND, RECORD_WORDS, WORDS
from portbar.records.plain import amount

_Ints = np.ndarray[Any, np.dtype[np.int64]]

#: Most tasks: places in the order and tickets for them are 32-bit numbers, and so are offsets of records.
MOST_TASKS: Final = 1 << 24
#: Most edges, whose counters are listed in words.
MOST_EDGES: Final = 1 << 28
#: Counters have a line each as long as all of them take no more words than this.
_SPREAD_WORDS: Final = 1 << 20
#: Tasks of a cycle that a message names.
_NAMED: Final = 8


class TaskGraph:
    """A graph of tasks, each of which begins when those that it waits for are finished.

    The work-groups of a launch execute all tasks once. The kernel takes `graph.args` as `global portbar_tasks *` and uses
    `PORTBAR_TASKS` and `portbar_work_group_task_graph_next` of `portbar/task_graph.h`. Nothing is cleared between
    launches.

    The task at place i of the order goes to work-group i modulo the number of groups, or with `by_tickets` to the group
    that asks first. Either way no number of groups can deadlock while the order is topological: take the unfinished
    task that comes first in the order. The group that has it has finished all tasks that it was given before, and all
    tasks that it waits for come earlier, so they are finished; it can be executed.

    An order of your own need not be topological. Then groups may wait for tasks that no group has taken, and with too few
    groups all of them do. Such an order is always dealt by tickets, and `groups` is the number of groups that it needs;
    a launch with fewer ends at once with an error, and `check` finds this out before the launch.

    Tasks that wait for the same tasks share one counter. So a stage that waits for the whole stage before costs
    each task one addition, however many tasks a stage has.

    Parameters
    ----------
    queue : pyopencl.CommandQueue
        Where the memory is allocated, and whose order `reset` follows.
    n_tasks : int
        Tasks are the numbers below it.
    edges : array_like of int, shape (m, 2), or any iterable of pairs
        Pairs (before, after): the second task waits for the first. An edge that is given twice counts once.
    order : array_like of int, shape (n_tasks,), optional
        All tasks in the order in which groups take them. Without it: by levels, where the level of a task is the length
        of the longest path to it.
    by_tickets : bool
        Whether groups draw tasks as they become free, for tasks of very different length; it costs an atomic addition per task
        whose result the group awaits.

    Attributes
    ----------
    words : pyopencl.array.Array
        The words by which work-groups share the graph.
    n_tasks : int
    order, levels : numpy.ndarray of int64, shape (n_tasks,)
        The order, and the level of each task.
    width : int
        Most tasks of a level. More work-groups rarely help: launch with `max_groups=graph.width`.
    groups : int
        Work-groups that the order needs at the same time; 1 for a topological one.
    by_tickets : bool

    Raises
    ------
    LaunchError
        There is a cycle, which the message names; an edge to a task that does not exist, or from a task to itself; an
        order that is not a permutation of the tasks; or sizes that cannot be.
    """

    def __init__(
        self, queue: cl.CommandQueue, n_tasks: int, edges: Any, order: Any = None, *, by_tickets: bool = False
    ) -> None:
        check_queue(queue)
        if not isinstance(n_tasks, int | np.integer) or not 1 <= n_tasks <= MOST_TASKS:
            raise LaunchError(f"TaskGraph: n_tasks must be a number from 1 to {MOST_TASKS}, not {shortened(n_tasks)}")
        self.queue, self.n_tasks = queue, int(n_tasks)
        pairs = _checked_edges(edges, self.n_tasks)
        self.levels = _levels(pairs, self.n_tasks)
        self.width = int(np.bincount(self.levels).max())
        self.order = np.argsort(self.levels, kind="stable") if order is None else _checked_order(order, self.n_tasks)
        self.groups = _needed_groups(pairs, self.order)
        self.by_tickets = bool(by_tickets) or self.groups > 1
        words, self._records = _laid_out(pairs, self.order, self.by_tickets, self.groups)
        self.words = cl.array.to_device(queue, words)

    @property
    def args(self) -> tuple[cl.array.Array]:
        """The argument of a kernel: `global portbar_tasks *`."""
        return (self.words,)

    def __repr__(self) -> str:
        taken = ", by tickets" if self.by_tickets else ""
        return f"<portbar.TaskGraph of {amount(self.n_tasks, 'task')} on {amount(self.groups, 'work-group')}{taken}>"

    def reset(self) -> None:
        """Forget what earlier launches have left; ordered by the graph's queue. Needed after a launch that failed."""
        self.words[WORDS["RUN"] : self._records].fill(0)

    def check(self, kernel: Kernel, local_size: Sequence[int], *args: Any) -> None:
        """Raise where the device holds fewer work-groups of the kernel at the same time than the order needs.

        Parameters
        ----------
        kernel : Kernel
        local_size : sequence of int
        *args
            The kernel's arguments, as for a launch.

        Raises
        ------
        LaunchError
            It does; nothing was launched but what measures the occupancy.
        """
        if self.groups == 1:
            return
        held = kernel.occupancy(self.queue, local_size, *args).groups
        if held < self.groups:
            raise LaunchError(
                f"kernel {kernel.name!r} on {self.queue.device.name.strip()}: the order of the task graph needs {self.groups} "
                f"concurrent work-groups, but the device runs {held} of local size {tuple(local_size)}: all of them would "
                "wait for tasks that none has taken. Pass an order in which each task comes after those that it waits for "
                "(order=None), or use a smaller local size"
            )


def _checked_edges(edges: Any, n: int) -> _Ints:
    """The edges as pairs without repetition, ordered by the second and then the first task."""
    given = host_array("TaskGraph: edges", collected(edges))
    if given.size == 0:
        return np.empty((0, 2), np.int64)
    if given.ndim != 2 or given.shape[1] != 2 or given.dtype.kind not in "iu":
        raise LaunchError(
            f"TaskGraph: edges must be pairs of integers, of shape (m, 2), not {given.dtype} of {given.shape}"
        )
    if len(given) > MOST_EDGES:
        raise LaunchError(f"TaskGraph: {len(given)} edges exceed the limit of {MOST_EDGES}")
    outside = (given < 0) | (given >= n)
    if outside.any():
        at = int(np.flatnonzero(outside.any(axis=1))[0])
        before, after = (int(task) for task in given[at])
        raise LaunchError(
            f"TaskGraph: edge {at} leads from task {before} to task {after}, but tasks are the numbers from 0 to {n - 1}"
        )
    pairs = given.astype(np.int64)
    loops = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if loops.size:
        raise LaunchError(f"TaskGraph: edge {loops[0]} lets task {pairs[loops[0], 0]} wait for itself")
    keys = np.unique(pairs[:, 1] * n + pairs[:, 0])
    return np.stack([keys % n, keys // n], axis=1)


def _checked_order(order: Any, n: int) -> _Ints:
    given = host_array("TaskGraph: order", collected(order))
    if given.shape != (n,) or given.dtype.kind not in "iu":
        raise LaunchError(
            f"TaskGraph: order must hold each of the {n} tasks once, not {given.dtype} of shape {given.shape}"
        )
    inside = given[(given >= 0) & (given < n)]
    if inside.size != n:
        raise LaunchError(f"TaskGraph: order has a task that does not exist; tasks are the numbers from 0 to {n - 1}")
    counts = np.bincount(inside.astype(np.int64), minlength=n)
    if (counts != 1).any():
        twice = int(np.argmax(counts))
        raise LaunchError(
            f"TaskGraph: order has task {twice} {counts[twice]} times, and lacks task {np.argmin(counts)}"
        )
    return given.astype(np.int64)


def _successors(pairs: _Ints, n: int) -> tuple[_Ints, _Ints]:
    """First successor of each task, and the successors."""
    by_before = pairs[np.argsort(pairs[:, 0], kind="stable")]
    return np.searchsorted(by_before[:, 0], np.arange(n + 1)), by_before[:, 1]


def _rows(first: _Ints, of: _Ints, rows: _Ints) -> _Ints:
    """The elements of several rows of a compressed table, one after another."""
    lengths = first[rows + 1] - first[rows]
    starts = np.repeat(first[rows] - (np.cumsum(lengths) - lengths), lengths)
    found: _Ints = of[starts + np.arange(lengths.sum())]
    return found


def _levels(pairs: _Ints, n: int) -> _Ints:
    """The length of the longest path to each task (Kahn, 1962), a level at a time."""
    first, to = _successors(pairs, n)
    waits = np.bincount(pairs[:, 1], minlength=n)
    levels = np.full(n, -1, np.int64)
    free, level = np.flatnonzero(waits == 0), 0
    while free.size:
        levels[free] = level
        reached, counts = np.unique(_rows(first, to, free), return_counts=True)
        waits[reached] -= counts
        free, level = reached[waits[reached] == 0], level + 1
    if (levels < 0).any():
        cycle = _cycle(pairs, levels < 0)
        named = " -> ".join(map(str, cycle[:_NAMED])) + (" -> ..." if len(cycle) > _NAMED else f" -> {cycle[0]}")
        raise LaunchError(
            f"TaskGraph: tasks wait for each other in a cycle of {len(cycle)}: {named} (each before the next one)"
        )
    return levels


def _cycle(pairs: _Ints, left: np.ndarray[Any, np.dtype[np.bool_]]) -> list[int]:
    """A cycle among tasks each of which waits for another one of them, in the direction of the edges."""
    among = pairs[left[pairs[:, 0]] & left[pairs[:, 1]]]
    waits_for = dict(zip(among[:, 1].tolist(), among[:, 0].tolist(), strict=True))
    at, seen = int(among[0, 1]), dict[int, int]()
    while at not in seen:
        seen[at] = len(seen)
        at = waits_for[at]
    return list(seen)[: seen[at] - 1 if seen[at] else None : -1]


def _is_topological(pairs: _Ints, order: _Ints) -> bool:
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return bool((places[pairs[:, 0]] < places[pairs[:, 1]]).all())


def _needed_groups(pairs: _Ints, order: _Ints) -> int:
    """Fewest work-groups that come to the end when each draws the next task of the order once its own is finished.

    Tasks that were drawn and not finished are a group each. However groups take turns, the same tasks are finished when
    all wait: a task that can be executed stays so. So one simulation is enough, which gives groups away as they are
    needed: whenever all wait, one more is.
    """
    n = len(order)
    if _is_topological(pairs, order):
        return 1
    first, to = (made.tolist() for made in _successors(pairs, n))
    waits = np.bincount(pairs[:, 1], minlength=n).tolist()
    drawn = [False] * n
    held = needed = 0
    for task in order.tolist():
        held += 1
        needed = max(needed, held)
        drawn[task] = True
        ready = [task] if waits[task] == 0 else []
        while ready:
            done = ready.pop()
            held -= 1
            for after in to[first[done] : first[done + 1]]:
                waits[after] -= 1
                if waits[after] == 0 and drawn[after]:
                    ready.append(after)
    return needed


def _shared_counters(pairs: _Ints, n: int) -> tuple[_Ints, int]:
    """The counter of each task, one for all that wait for the same tasks, -1 for those that wait for none; their number."""
    numbers = np.full(n, -1, np.int64)
    counts = np.bincount(pairs[:, 1], minlength=n)
    waiting = np.flatnonzero(counts)
    if not waiting.size:
        return numbers, 0
    first = np.concatenate([[0], np.cumsum(counts)])
    marks = np.random.default_rng(1).integers(0, 2**63, (2, n), np.uint64)
    sums = np.add.reduceat(marks[:, pairs[:, 0]], first[waiting], axis=1)
    keys = np.stack([counts[waiting].astype(np.uint64), *sums], axis=1)
    _, chosen, found = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    found = found.reshape(-1)
    # Sums may agree by chance: tasks are compared with the one that their counter was made for.
    same = waiting[chosen[found]]
    if not np.array_equal(_rows(first, pairs[:, 0], same), pairs[:, 0]):
        found, chosen = np.arange(waiting.size), np.arange(waiting.size)
    # Neighbours in number are neighbours in the order of the tasks.
    ranks = np.empty(chosen.size, np.int64)
    ranks[np.argsort(chosen)] = np.arange(chosen.size)
    numbers[waiting] = ranks[found]
    return numbers, int(chosen.size)


def _laid_out(
    pairs: _Ints, order: _Ints, by_tickets: bool, groups: int
) -> tuple[np.ndarray[Any, np.dtype[np.uint32]], int]:
    """The words of a graph, and where its records begin."""
    n = len(order)
    numbers, count = _shared_counters(pairs, n)
    stride = LINE_WORDS if count * LINE_WORDS <= _SPREAD_WORDS else 1
    at_counter = COUNTERS + np.where(numbers < 0, 0, numbers) * stride
    records_at = -(-(COUNTERS + count * stride) // LINE_WORDS) * LINE_WORDS
    # The counters that each task adds to: those of its successors, each once.
    adds = np.unique(pairs[:, 0] * max(count, 1) + numbers[pairs[:, 1]]) if len(pairs) else np.empty(0, np.int64)
    adding, added = adds // max(count, 1), COUNTERS + adds % max(count, 1) * stride
    first = np.searchsorted(adding, np.arange(n + 1))
    many = np.diff(first)
    records = np.zeros((n, RECORD_WORDS), np.int64)
    records[:, 0], records[:, 1] = np.arange(n), at_counter
    records[:, 2], records[:, 3] = np.bincount(pairs[:, 1], minlength=n), many
    for k in range(INLINE):
        few = np.flatnonzero((many > k) & (many <= INLINE))
        records[few, 4 + k] = added[first[few] + k]
    lists_at = records_at + n * RECORD_WORDS
    long = np.flatnonzero(many > INLINE)
    records[long, 4] = lists_at + first[long]
    words = np.zeros(lists_at + (added.size if long.size else 0), np.uint32)
    for name, value in {
        "KIND": KIND, "TASKS": n, "BY_TICKETS": by_tickets, "GROUPS": groups, "RECORDS": records_at
    }.items():  # fmt: skip
        words[WORDS[name]] = value
    words[records_at:lists_at] = records[order].ravel()
    if long.size:
        words[lists_at:] = added
    return words, records_at
