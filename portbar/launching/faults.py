"""Faults of launches: the error that a report amounts to, and those of launches that were dropped."""

from __future__ import annotations

import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import numpy as np

from portbar.errors import BarrierTimeoutError, Error, UnreportedFaultWarning
from portbar.launching.memory import StateMemory
from portbar.launching.queues import Order
from portbar.locks import Lock
from portbar.primitives import layout
from portbar.primitives.fault import OPEN, Fault, Report, Words

#: Changes from one kernel to another that are known, to name the kernel of a launch.
LABELS: Final = 1024

#: Seconds between two looks, where a look is a transfer: 30 us on NVIDIA's devices.
LOOK_S: Final = 0.02

#: The names of a kernel and its device.
Label = tuple[str, str]


@cache
def _faults() -> Mapping[int, Fault]:
    """Status -> every fault that a launch can report, also those of debug builds."""
    # Right launches need none of them, and headers take long to import.
    from portbar.primitives.headers import ALL_FAULTS  # noqa: PLC0415

    return ALL_FAULTS


def _fault_of(report: Report) -> Fault:
    """The fault that a report states; that of overwritten words where there is none."""
    from portbar.primitives.device_barrier import OVERWRITTEN  # noqa: PLC0415 (as above)

    return _faults().get(report.status, OVERWRITTEN)


def error_of(label: Label, report: Report, note: str = "") -> Error | None:
    """The error that a report amounts to, None where the launch was right; `note` ends the message."""
    if report.status == OPEN and report.groups > 0:
        return None
    kernel, device = label
    if report.status in (0, OPEN):
        return Error(
            f"kernel {kernel!r} on {device} takes PORTBAR_GRID_PARAM but never executed PORTBAR_ENTER; make "
            "PORTBAR_ENTER(grid); the first statement of the kernel"
        )
    fault = _fault_of(report)
    message = f"kernel {kernel!r} on {device}: {fault.message(report)}{note}"
    if not fault.is_timeout:
        return Error(message)
    arrived = report.arrived if fault.counts_arrivals else 0
    return BarrierTimeoutError(message, kernel=kernel, device=device, arrived=arrived, expected=report.groups)


def spoils_state(report: Report) -> bool:
    """Whether later launches need fresh words: discovery did not come to its end, so its lock may be taken."""
    return report.groups == 0 or (report.status != OPEN and not _fault_of(report).keeps_state)


class Watch:
    """Finds the faults of one state's launches, by words that the device writes where it reports one.

    Where the host sees the words, it looks at each launch and each wait, for the time of one comparison. Elsewhere it looks at
    each wait, which reads a report anyway, and at launches, at most every `LOOK_S` and only where the last one has ended.
    """

    def __init__(self, memory: StateMemory, order: Order, previous: Watch | None) -> None:
        #: The epoch of the last launch, and the names of its kernel and device.
        self.epoch = 0
        self.label: Label | None = None
        #: The epochs from which on kernels were others, and their names.
        self.labels: deque[tuple[int, Label]] = deque(maxlen=LABELS)
        self._memory, self._order = memory, order
        self.place = layout.OFFSETS["FAULT"]
        self._reports = layout.OFFSETS["REPORTS"]
        self._size = self.place - self._reports + layout.REPORT_WORDS
        #: The words as the host sees them, or None; then, when the next launch looks.
        self.seen = memory.seen
        self.due = 0.0
        #: The first word as the host has seen it.
        self.known = 0
        self._lock = Lock()
        #: The epoch of the last fault that was found.
        self._last = 0
        #: Epochs of faults that the caller knows of.
        self._told: set[int] = set()
        #: By epoch, faults of launches that the caller may still wait for.
        self._held: dict[int, tuple[Report, weakref.ref[Any]]] = {}
        #: Errors that the next waits raise, and those that no warning has named. Successive states of a queue share them.
        self._owed: list[Error] = previous._owed if previous is not None else []
        self._unnamed: list[Error] = previous._unnamed if previous is not None else []

    @property
    def is_due(self) -> bool:
        """Whether a launch should look."""
        return self.seen[self.place] != self.known if self.seen is not None else time.monotonic() > self.due

    def name(self, label: Label) -> None:
        """Note the names of the launch that comes next."""
        if self.label is not label:
            self.labels.append((self.epoch + 1, label))
            self.label = label

    def tell(self, epoch: int) -> None:
        """Note that a wait raises the error of a launch."""
        self._told.add(epoch)
        self._held.pop(epoch, None)

    def look(self, launch_of: Callable[[int], Any], words: Words | None = None) -> bool:
        """Find faulty launches that were dropped since: the next launch warns of them, and the next waits raise their errors.

        Returns whether later launches need a fresh state. `launch_of` finds launches that the caller refers to; `words` are as
        of `read`, if they were read.
        """
        if words is None:
            words = self._visible()
        spoiled = False
        with self._lock:
            found = [(epoch, report) for epoch, (report, launch) in self._held.items() if launch() is None]
            for epoch, _ in found:
                self._held.pop(epoch, None)
            report = self._new_fault(words)
            if words is not None and report is not None:
                epoch = int(words[self.place - self._reports])
                launch, self.known = launch_of(epoch), epoch
                spoiled = spoils_state(report)
                if launch is not None:
                    self._held[epoch] = report, weakref.ref(launch, self._woken)
                else:
                    found.append((epoch, report))
                self._last = epoch
            errors = [self._error(epoch, report) for epoch, report in found if epoch not in self._told]
            self._told.update(epoch for epoch, _ in found)
            self._owed.extend(errors)
            self._unnamed.extend(errors)
            if self._unnamed:
                self._woken()
        return spoiled

    def _new_fault(self, words: Words | None) -> Report | None:
        """The report of the last launch with a fault, unless it was found before."""
        if words is None:
            return None
        fault = words[self.place - self._reports :]
        epoch = int(fault[0])
        report = Report.from_words(fault, epoch)
        # Whatever else may be there was overwritten.
        if epoch == self._last or not 0 < epoch <= self.epoch or report.status not in _faults():
            self.known = epoch
            return None
        # A group that was lost takes no part; others may open the report after it, and be right.
        if spoils_state(report):
            if self._order.is_busy:
                return None
            own = words[epoch % layout.REPORTS * layout.REPORT_WORDS :]
            if error_of(("", ""), Report.from_words(own, epoch)) is None:
                self.known = self._last = epoch
                return None
        return report

    def end(self) -> None:
        """Look for the last time, after the state is gone; without a command."""
        if not self._order.may_run():
            words = np.zeros(self._size, np.uint32) if self.seen is None else None
            self.look(lambda _: None, words)
            self.warn(4, "")

    def warn(self, stacklevel: int, more: str = " The next wait in the queue raises this.") -> None:
        """Warn of errors that were not named; where the warning is an exception, no wait raises them as well."""
        while self._unnamed:
            error = self._unnamed.pop(0)
            try:
                warnings.warn(f"{error}{more}", UnreportedFaultWarning, stacklevel + 1)
            except UnreportedFaultWarning:
                self._owed.remove(error)
                raise

    def raise_owed(self) -> None:
        """Raise the oldest error that is owed to a wait."""
        if self._owed:
            error = self._owed.pop(0)
            if error in self._unnamed:
                self._unnamed.remove(error)
            raise error

    @property
    def extent(self) -> tuple[int, int]:
        """The first of the words of all reports and of the last one with a fault, which comes after them; their number."""
        return self._reports, self._size

    def read(self) -> np.ndarray[Any, np.dtype[np.uint32]]:
        """Transfer these words. Launches need not look for a while."""
        self.due = time.monotonic() + LOOK_S
        return self._memory.read(self._reports, self._size)

    def has_changed(self, words: memoryview) -> bool:
        """Whether `look` has not seen these words, which were transferred. Launches need not look for a while."""
        self.due = time.monotonic() + LOOK_S
        return words[self.place - self._reports] != self.known

    def _visible(self) -> Words | None:
        """The words of `read`; None where they take a transfer, and another time is better."""
        if self.seen is not None:
            return self.seen[self._reports : self._reports + self._size]
        self.due = time.monotonic() + LOOK_S
        return None if self._order.is_busy else self.read()

    def _woken(self, _: Any = None) -> None:
        """Let the next launch look."""
        self.known, self.due = -1, 0.0

    def _error(self, epoch: int, report: Report) -> Error:
        names = [label for first, label in self.labels if first <= epoch]
        label = names[-1] if names else ("one of many", self._memory.device.name.strip())
        note = f" This was launch {epoch} of its program in the queue, and was dropped without wait()."
        return error_of(label, report, note) or Error(note)
