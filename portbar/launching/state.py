"""The hidden state of one queue: a small device buffer, the epoch of its last launch, and the reports in it."""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import pyopencl as cl

from portbar.launching.order import Order
from portbar.primitives import layout

Words = np.ndarray[Any, np.dtype[np.uint32]]

_LAST_EPOCH: Final = layout.EPOCH_MASK - 1


class Reported(Protocol):
    """A launch, as the state sees it that keeps its report."""

    event: cl.Event

    @property
    def has_report(self) -> bool:
        """Whether the report is on the host already, so that the device may reuse its place."""

    def keep_snapshot(self, words: Words, event: cl.Event) -> None:
        """Take over a copy of the report that arrives with `event`."""


@dataclass(frozen=True)
class Report:
    """What a launch told about itself.

    Attributes
    ----------
    status : int
        `portbar.primitives.layout.STATUS_OPEN` when nothing went wrong; 0 when the kernel never entered its grid.
    groups : int
        Work-groups that took part.
    arrived : int
        Work-groups that had arrived at the barrier that timed out.
    group : int
        Work-group that reached the limit first.
    """

    status: int
    groups: int
    arrived: int
    group: int

    @classmethod
    def from_words(cls, words: Words, epoch: int) -> Report:
        """Read the words of one report; those of another launch count as "never entered"."""
        if int(words[0]) != epoch:
            return cls(0, 0, 0, 0)
        return cls(int(words[1]), int(words[2]), int(words[3]), int(words[4]))


#: The states on each device, by its handle, so that a launch can tell whether the device has another one to run.
_on_device: Final[defaultdict[int, list[weakref.ref[QueueState]]]] = defaultdict(list)


class QueueState:
    """State buffer for the grid launches of one program on one queue.

    Launches on one state never overlap: `order` sees to it. The host writes the buffer once, when it is made.
    """

    def __init__(self, queue: cl.CommandQueue, groups: int, more_words: Callable[[int], int] | None = None) -> None:
        self.queue = queue
        self.capacity_log2 = max(6, (groups - 1).bit_length())
        capacity = 1 << self.capacity_log2
        # Reductions over the grid leave their values behind the words of its barriers.
        words = np.zeros(layout.state_words(capacity) + (more_words(capacity) if more_words else 0), np.uint32)
        # The poll of the first launch, whose epoch is 1, is open with nobody counted.
        words[layout.OFFSETS["POLL_ODD"]] = 1 << self.capacity_log2 + 1
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        self.buffer = cl.Buffer(queue.context, flags, hostbuf=words)
        self.epoch = 0
        self.order = Order(queue)
        self.broken = False
        self._reader: cl.CommandQueue | None = None
        self._launches: list[weakref.ref[Reported] | None] = [None] * layout.REPORTS
        self._peers = _on_device[queue.device.int_ptr]
        self._peers.append(weakref.ref(self, self._peers.remove))

    @property
    def shares_device(self) -> bool:
        """Whether a launch on another state of the same device, in this process, is not known to have ended."""
        states = [reference() for reference in tuple(self._peers)]
        return any(state.order.is_busy for state in states if state is not None and state.order is not self.order)

    @property
    def exhausted(self) -> bool:
        """Whether the epochs are used up, or a fault left the words unusable, so that a new state is due."""
        return self.broken or self.epoch >= _LAST_EPOCH

    def _region(self, epoch: int) -> int:
        return 4 * (layout.OFFSETS["REPORTS"] + epoch % layout.REPORTS * layout.REPORT_WORDS)

    def prepare(self, epoch: int, wait_for: Sequence[cl.Event] | None) -> Sequence[cl.Event] | None:
        """The wait list of the launch `epoch`; saves the report that it will overwrite, if anyone may still ask for it."""
        order = self.order
        before = wait_for if order.is_free else order.after(wait_for)
        reference = self._launches[epoch % layout.REPORTS]
        if reference is not None and (launch := reference()) is not None and not launch.has_report:
            saved = self._save(launch, epoch)
            if saved is not None and not order.in_order:
                return [*(before or ()), saved]
        return before

    def note(self, epoch: int, launch: Reported, wait_for: Sequence[cl.Event] | None) -> None:
        """Note that a launch was enqueued; a weak reference, so that its report is saved before a later one overwrites it."""
        self.epoch = epoch
        self._launches[epoch % layout.REPORTS] = weakref.ref(launch)
        self.order.add(launch.event, wait_for)

    def _save(self, launch: Reported, epoch: int) -> cl.Event | None:
        """Save a launch's report, without blocking."""
        if launch.event.command_execution_status < 0:
            # It never ran, and nothing may wait for its event: the effect FAILED_WAITS_NEVER_END.
            return None
        words = np.empty(layout.REPORT_WORDS, np.uint32)
        event = cl.enqueue_copy(
            self.queue,
            words,
            self.buffer,
            src_offset=self._region(epoch),
            is_blocking=False,
            wait_for=[launch.event],
        )
        launch.keep_snapshot(words, event)
        return event

    def read(self, epoch: int) -> Report:
        """Read the report of a launch that is complete; blocks for one small transfer on a queue of its own."""
        if self._reader is None:
            self._reader = cl.CommandQueue(self.queue.context, self.queue.device)
        words = np.empty(layout.REPORT_WORDS, np.uint32)
        cl.enqueue_copy(self._reader, words, self.buffer, src_offset=self._region(epoch), is_blocking=True)
        return Report.from_words(words, epoch)
