"""The hidden state of one queue: a small device buffer, the epoch of its last launch, and the reports in it."""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
import pyopencl as cl

from portbar.launching.faults import Label, Watch
from portbar.launching.memory import Copy, StateMemory, Words, retire
from portbar.launching.queues import Order
from portbar.primitives import layout
from portbar.primitives.fault import Report
from portbar.primitives.layout import Layout
from portbar.primitives.tracing import PLACE_WORD, Tracing

if TYPE_CHECKING:  # no CPU needs them
    from portbar.launching.early import EarlyRead, EarlyReads

_LAST_EPOCH: Final = layout.EPOCH_MASK - 1

#: Launches in a row that were waited for before the next one, after which reports come with their launches.
_HABIT: Final = 2

#: The orders of launches that each device may be busy with, by its handle, so that a launch can find out whether it is alone.
_on_device: Final[defaultdict[int, set[weakref.ref[Order]]]] = defaultdict(set)


class Reported:
    """A launch as its state sees it: its event, and copies of its words from before a later launch overwrote them."""

    event: cl.Event
    groups = 0
    _epoch = 0
    report: Report | None = None
    report_copy: Copy | None = None
    trace_copy: Copy | Words | None = None
    trace_lost = False


class QueueState:
    """Words in which the work-groups of one queue's launches meet, for up to `capacity` work-groups.

    Launches on one state never overlap: `order` sees to it. It is that of the `previous` state, so that launches keep
    following one another.
    """

    def __init__(self, queue: cl.CommandQueue, groups: int, previous: QueueState | None) -> None:
        self.queue = queue
        self.capacity_log2 = (max(layout.LEAST_CAPACITY, groups) - 1).bit_length()
        self.capacity = 1 << self.capacity_log2
        self.order: Order = previous.order if previous is not None else Order(queue)

    @property
    def exhausted(self) -> bool:
        """Whether no further launch may use the state, so that a new one is due."""
        return False

    def give_up(self) -> None:
        """Leave the state to the launches that use it already."""


def _ended(memory: StateMemory, order: Order, watch: Watch) -> None:
    """Do what is due when a state is gone."""
    watch.end()
    retire(memory, order.may_run)


@lru_cache(maxsize=4)
def _initial_words(size: int, nonzero: tuple[tuple[int, int], ...]) -> Words:
    """Words of a new state, which most states of a process share: fresh pages of memory take as long as a launch."""
    words = np.zeros(size, np.uint32)
    for word, value in nonzero:
        words[word] = value
    words.flags.writeable = False
    return words


class GridState(QueueState):
    """State buffer for the grid launches of one program on one queue; the host writes it once, when it is made.

    It holds the words that the program's headers own.
    """

    def __init__(
        self,
        queue: cl.CommandQueue,
        groups: int,
        own: Layout,
        previous: GridState | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        super().__init__(queue, groups, previous)
        size = own.words(self.capacity)
        offsets = layout.OFFSETS
        # The poll of the first launch, whose epoch is 1, is open and has counted no work-group.
        nonzero = [(offsets["POLL_ODD"], 1 << self.capacity_log2 + 1)]
        if tracing is not None:
            nonzero.append((offsets["REPORTS"] + PLACE_WORD, size))
        words = _initial_words(size + (self.capacity * tracing.words if tracing is not None else 0), tuple(nonzero))
        #: How launches are traced, and the first word of their traces.
        self.tracing, self._first_trace = tracing, size
        #: Whether the last launch may never run, by an event that it waits for.
        self._gated = False
        self._memory = StateMemory(queue, words)
        self.buffer = self._memory.buffer
        #: The last epoch that a launch may have; 0 where no further one may use the state.
        self.last_epoch = _LAST_EPOCH
        self.watch: Watch = Watch(self._memory, self.order, previous.watch if previous is not None else None)
        weakref.finalize(self, _ended, self._memory, self.order, self.watch)
        self._first_report = offsets["REPORTS"]
        #: The last launch that was waited for before the next one.
        self.waited = -1
        #: How many in a row were, up to the last launch that `read_early` was asked for.
        self._in_a_row, self._asked = 0, -1
        self.may_read_early = self._memory.seen is None
        self._early: EarlyReads | None = None
        #: For each place of a report, the launch that it belongs to, if anyone still refers to that.
        self.reports: list[Callable[[], Reported | None]] = [lambda: None] * layout.REPORTS
        #: Launches whose reports were saved, by epoch.
        self._saved: weakref.WeakValueDictionary[int, Reported] = weakref.WeakValueDictionary()
        self._peers = _on_device[queue.device.int_ptr]
        self._own = weakref.ref(self.order, self._peers.discard)
        self._peers.add(self._own)

    @property
    def epoch(self) -> int:
        """The epoch of the last launch."""
        return self.watch.epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self.watch.epoch = epoch

    def joins_others(self) -> bool:
        """Note that a launch is due; whether one in another order on the same device is not known to have ended."""
        peers = self._peers
        peers.add(self._own)
        if len(peers) > 1:
            for peer in tuple(peers):
                order = peer()
                if order is not self.order and (order is None or not order.is_busy):
                    peers.discard(peer)
        return len(peers) > 1

    def is_alone(self) -> bool:
        """Whether no other order has launched on the device since its launches were seen to have ended."""
        return len(self._peers) == 1 and self._own in self._peers

    @property
    def exhausted(self) -> bool:
        """Whether the epochs are used up or the state was given up, so that a new one is due."""
        return self.epoch >= self.last_epoch

    def give_up(self) -> None:
        """Leave the state to the launches that use it already: another one replaces it, or a fault left its words unusable."""
        self.last_epoch = 0

    def begin(self, label: Label, wait_for: Sequence[cl.Event] | None) -> Sequence[cl.Event] | None:
        """The wait list of the next launch, whose kernel and device have these names, and which has the next epoch."""
        epoch = self.epoch + 1
        before = self.prepare(epoch, wait_for)
        # Before the launch, in case of an exception: one that never runs does no harm, and no two may have one epoch.
        self.watch.name(label)
        self.epoch = epoch
        return before

    def prepare(self, epoch: int, wait_for: Sequence[cl.Event] | None) -> Sequence[cl.Event] | None:
        """The wait list of the launch `epoch`; saves what it will overwrite, if anyone may still ask for it."""
        before = self.order.begin(wait_for)
        for saved in (self._save_report(epoch), self._save_trace()):
            if saved is not None and not self.order.in_order:
                before = [*(before or ()), saved]
        return before

    def _save_report(self, epoch: int) -> cl.Event | None:
        """Copy the report in the place of the launch `epoch`, without blocking."""
        launch = self.reports[epoch % layout.REPORTS]()
        if launch is None or launch.report is not None or launch.report_copy is not None:
            return None
        if launch.event.command_execution_status < 0:
            # It never ran, and nothing may wait for its event: the effect FAILED_WAITS_NEVER_END.
            return None
        first = self._report_at(epoch)
        launch.report_copy = Copy(self.queue, self._memory, first, layout.REPORT_WORDS, [launch.event])
        self._saved[launch._epoch] = launch
        return launch.report_copy.event

    def _save_trace(self) -> cl.Event | None:
        """Copy the last launch's trace, without blocking."""
        if self.tracing is None:
            return None
        launch = self.reports[self.epoch % layout.REPORTS]()
        if launch is None or launch.trace_copy is not None or launch.trace_lost:
            return None
        status = launch.event.command_execution_status
        done = status == cl.command_execution_status.COMPLETE
        if status < 0 or (self._gated and not done):
            # It may never run, and nothing may wait for the event of such a launch: the effect FAILED_WAITS_NEVER_END.
            launch.trace_lost = True
            return None
        count, wait_for = launch.groups * self.tracing.words, None if done else [launch.event]
        copy = launch.trace_copy = Copy(self.queue, self._memory, self._first_trace, count, wait_for)
        return copy.event

    def note(self, epoch: int, launch: Reported, wait_for: Sequence[cl.Event] | None) -> None:
        """Note that a launch was enqueued; a weak reference, so that its report is saved before a later one overwrites it."""
        self._gated = bool(wait_for) or (self._gated and not self.order.in_order)
        self.reports[epoch % layout.REPORTS] = weakref.ref(launch)
        self.order.add(launch.event, wait_for)

    def _report_at(self, epoch: int) -> int:
        return self._first_report + epoch % layout.REPORTS * layout.REPORT_WORDS

    def read_early(self, epoch: int, wait_for: Sequence[cl.Event] | None = None) -> EarlyRead | None:
        """Let the report of a launch come with it, if those before it were waited for; right after `note`.

        The caller has seen that the last one was. None of a launch that may never run: it waits for an event that is not
        complete.
        """
        self._in_a_row = self._in_a_row + 1 if self._asked == epoch - 1 else 1
        self._asked = epoch
        if self._in_a_row < _HABIT or not self.may_read_early or not self.order.in_order:
            return None
        if any(one.command_execution_status != cl.command_execution_status.COMPLETE for one in wait_for or ()):
            return None
        try:
            if self._early is None:
                from portbar.launching.early import EarlyReads  # noqa: PLC0415 (as above)

                self._early = EarlyReads(self.queue, self.buffer, *self.watch.extent)
            return self._early.after_all()
        except cl.Error:
            # The launch was enqueued, and is right without.
            self.may_read_early = False
            return None

    def read(self, epoch: int) -> Report:
        """Read the report of a launch that is complete."""
        first, seen = self._report_at(epoch), self._memory.seen
        if seen is not None:
            return Report.from_words(seen[first : first + 6], epoch)
        # In one transfer with the last fault, which comes after all reports.
        words = self.watch.read()
        self._look(words)
        return self._report_in(words, epoch)

    def read_from(self, early: EarlyRead, epoch: int) -> Report:
        """Read the report of a launch from the transfer that came with it, which has ended."""
        words = early.read()
        if self.watch.has_changed(words):
            self._look(np.frombuffer(words, np.uint32))
        return self._report_in(words, epoch)

    def _report_in(self, words: Words | memoryview, epoch: int) -> Report:
        """The report of a launch among the words of all reports."""
        first = self._report_at(epoch) - self._first_report
        return Report.from_words(words[first : first + layout.REPORT_WORDS], epoch)

    def look(self, stacklevel: int) -> bool:
        """Warn of launches with faults that were dropped, which is due before each launch; whether the state may take one."""
        if self.watch.is_due:
            self._look()
            self.watch.warn(stacklevel + 1)
        return not self.exhausted

    def raise_owed(self) -> None:
        """Raise the error of an earlier launch that was dropped with a fault; due in each wait for a launch that was right."""
        if self.watch.seen is not None and self.watch.is_due:
            self._look()
        self.watch.raise_owed()

    def _look(self, words: Words | None = None) -> None:
        if self.watch.look(self._launch_of, words):
            self.give_up()

    def _launch_of(self, epoch: int) -> Reported | None:
        """The launch that the caller still refers to."""
        for launch in (self.reports[epoch % layout.REPORTS](), self._saved.get(epoch)):
            if launch is not None and launch._epoch == epoch:
                return launch
        return None

    def read_trace(self, groups: int) -> Words:
        """Return the trace of `groups` work-groups of the last launch, which is complete."""
        return self._memory.read(self._first_trace, groups * self.tracing.words if self.tracing is not None else 0)
