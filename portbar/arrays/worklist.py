"""Worklists on the host: memory for those of `portbar/worklist.h`, their first content, and what a launch has left in them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyopencl as cl
import pyopencl.array

from portbar.arrays.request import collected, host_array
from portbar.choices.timing import shortened
from portbar.errors import Error, LaunchError
from portbar.launching.arguments import check_queue
from portbar.primitives.worklist import FRONTIER, FRONTIER_WORDS, TASKS

#: Places are 32-bit numbers, in which a frontier has two halves.
MOST_ITEMS: Final = 1 << 30


class _Worklist:
    """The common base of both kinds.

    Attributes
    ----------
    words, items : pyopencl.array.Array
        The words by which work-groups share the list, and its elements.
    capacity : int
    """

    def __init__(self, queue: cl.CommandQueue, capacity: int, dtype: Any, words: int, items: int) -> None:
        try:
            kind = np.dtype(dtype)
        except TypeError as error:
            raise LaunchError(f"{type(self).__name__}: {dtype!r} is not a type of elements: {error}") from None
        if kind.hasobject or not kind.itemsize or kind.subdtype is not None:
            raise LaunchError(
                f"{type(self).__name__}: elements of type {kind} have no fixed size on a device, or are arrays"
            )
        self.queue, self.capacity = queue, capacity
        self.words = cl.array.empty(queue, words, np.uint32)
        self.items = cl.array.empty(queue, items, kind)
        self.set(np.empty(0, kind))

    @classmethod
    def _checked(cls, queue: cl.CommandQueue, capacity: int) -> int:
        check_queue(queue)
        if not isinstance(capacity, int | np.integer) or not 1 <= capacity <= MOST_ITEMS:
            raise LaunchError(
                f"{cls.__name__}: capacity must be a number of elements from 1 to {MOST_ITEMS}, not {shortened(capacity)}"
            )
        return int(capacity)

    def __repr__(self) -> str:
        return f"<portbar.{type(self).__name__} with room for {self.capacity} of {self.items.dtype}>"

    @property
    def args(self) -> tuple[cl.array.Array, cl.array.Array]:
        """The two arguments of a kernel: `global portbar_worklist *` and a pointer to the elements."""
        return self.words, self.items

    def set(self, values: Any) -> None:
        """Give the list its content, and forget all that it held; ordered by the list's queue.

        Needed before the first launch that finds elements in it, and after a launch that failed.

        Parameters
        ----------
        values : array_like of shape (n,), or any iterable
            At most `capacity` elements. Floating-point numbers are rounded to the list's type; others must be of it.

        Raises
        ------
        LaunchError
            There are more, they are of another shape, or the list's type does not have one of them.
        """
        given = host_array(f"{type(self).__name__}: values", collected(values), self.items.dtype)
        if given.ndim != 1 or given.size > self.capacity:
            raise LaunchError(
                f"{type(self).__name__}: an array of shape {given.shape} does not fit a list of capacity {self.capacity}"
            )
        self.words.set(self._words(given.size))
        if given.size:
            self.items[: given.size].set(given)

    def _words(self, count: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
        raise NotImplementedError


class Frontier(_Worklist):
    """A list of elements of the current phase, to which a kernel pushes those of the next one.

    The kernel takes it as `portbar_worklist` and uses `PORTBAR_FRONTIER`, `portbar_frontier_push`
    and `portbar_device_frontier_swap` of `portbar/worklist.h`.

    Parameters
    ----------
    queue : pyopencl.CommandQueue
        Where the memory is allocated, and whose order `set` and `get` follow.
    capacity : int
        Maximum number of elements of a phase; the memory has room for two phases.
    dtype : data-type
        Of an element; any type of fixed size.

    Raises
    ------
    LaunchError
        A capacity below 1 or above 2**30, or an invalid type, an array's type, or one without a fixed size.
    """

    def __init__(self, queue: cl.CommandQueue, capacity: int, dtype: Any = np.uint32) -> None:
        capacity = self._checked(queue, capacity)
        super().__init__(queue, capacity, dtype, FRONTIER_WORDS, 2 * capacity)

    def _words(self, count: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
        words = np.zeros(FRONTIER_WORDS, np.uint32)
        words[FRONTIER["CAPACITY"]], words[FRONTIER["TAILS"]] = self.capacity, count
        return words

    def get(self) -> np.ndarray[Any, Any]:
        """Return the elements of the current phase, in any order, after all that was enqueued before.

        Raises
        ------
        Error
            The last launch pushed more elements than fit.
        """
        words = self.words.get()
        phase = int(words[FRONTIER["PHASE"]])
        size = int(words[FRONTIER["TAILS"] + phase % 3])
        if size > self.capacity:
            raise Error(
                f"{size} elements were pushed to a frontier with room for {self.capacity}. Give it at least that capacity; "
                "later phases may need more, but none needs more than there are different elements if each is pushed once"
            )
        first = phase % 2 * self.capacity
        return self.items[first : first + size].get() if size else np.empty(0, self.items.dtype)


class TaskQueue(_Worklist):
    """A queue of tasks, from which the work-groups of one launch take tasks while they push new ones.

    The kernel takes it as `portbar_worklist` and uses `PORTBAR_TASK_QUEUE`, `portbar_task_queue_pop` and
    `portbar_task_queue_push` of `portbar/worklist.h`.

    Parameters
    ----------
    queue : pyopencl.CommandQueue
        Where the memory is allocated, and whose order `set` and `get` follow.
    capacity : int
        Maximum number of waiting tasks, rounded up to a power of two. The total number of tasks is unlimited.
    dtype : data-type
        Of a task; any type of fixed size.

    Raises
    ------
    LaunchError
        A capacity below 1 or above 2**30, or an invalid type, an array's type, or one without a fixed size.
    """

    def __init__(self, queue: cl.CommandQueue, capacity: int, dtype: Any = np.uint32) -> None:
        # A slot's word tells a full slot from the next ticket's free one: there are two at least.
        capacity = max(2, 1 << (self._checked(queue, capacity) - 1).bit_length())
        super().__init__(queue, capacity, dtype, TASKS["SLOTS"] + capacity, capacity)

    def _words(self, count: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
        words = np.zeros(self.words.size, np.uint32)
        words[TASKS["CAPACITY"]], words[TASKS["PUSHED"]] = self.capacity, count
        words[TASKS["SLOTS"] :] = np.arange(self.capacity)
        words[TASKS["SLOTS"] : TASKS["SLOTS"] + count] += 1
        return words

    def get(self) -> np.ndarray[Any, Any]:
        """Return the waiting tasks, oldest first; none after a successful launch."""
        words = self.words.get()
        drawn, pushed = int(words[TASKS["DRAWN"]]), int(words[TASKS["PUSHED"]])
        tickets = (drawn + np.arange(min((pushed - drawn) % 2**32, self.capacity), dtype=np.uint64)).astype(np.uint32)
        slots = tickets & np.uint32(self.capacity - 1)
        full = words[TASKS["SLOTS"] :][slots] == tickets + np.uint32(1)
        waiting: np.ndarray[Any, Any] = self.items.get()[slots[full]]
        return waiting
