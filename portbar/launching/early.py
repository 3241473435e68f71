"""Reports that come to the host with their launches, for a program that waits for each launch before the next.

The transfer is enqueued right after the launch, so one wait is for both. A program that does not wait pays for none.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import Final

import numpy as np
import pyopencl as cl

from portbar.launching.memory import Words

#: Transfers that may be under way; while as many are, launches go without.
_SLOTS: Final = 8


class EarlyRead:
    """The words that a transfer brings."""

    def __init__(self, event: cl.Event, place: memoryview) -> None:
        self._event, self._place = event, place
        #: The words, from before a later transfer overwrote them.
        self._kept: memoryview | None = None

    def keep(self) -> None:
        """Copy the words of a transfer that has ended."""
        self._kept = memoryview(self._place.tobytes()).cast("I")

    def wait(self) -> None:
        """Wait for the transfer, and thereby for the launch before it."""
        self._event.wait()

    def read(self) -> memoryview:
        """The words, after a wait."""
        words = memoryview(self._place.tobytes()).cast("I")
        # Looked at again: another thread's launch keeps the words before it reuses their place.
        return words if self._kept is None else self._kept


class EarlyReads:
    """Transfers of some words of a buffer after the commands of an in-order queue, to pinned memory of the host."""

    def __init__(self, queue: cl.CommandQueue, buffer: cl.Buffer, first: int, count: int) -> None:
        self._queue, self._buffer, self._offset = queue, buffer, 4 * first
        # Mapped in a queue of its own: commands of the caller's may wait for what the caller does next.
        own = cl.CommandQueue(queue.context, queue.device)
        flags, access = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR, cl.map_flags.READ | cl.map_flags.WRITE
        pinned = cl.Buffer(queue.context, flags, 4 * _SLOTS * count)
        self._words, _ = cl.enqueue_map_buffer(own, pinned, access, 0, (_SLOTS, count), np.dtype(np.uint32))  # type: ignore[arg-type]
        self._places: list[Words] = [self._words[slot] for slot in range(_SLOTS)]
        self._free = deque(range(_SLOTS))
        self._readers: list[weakref.ref[EarlyRead] | None] = [None] * _SLOTS
        #: PyOpenCL waits for a transfer to the host when the last object of its event goes: not before it has ended.
        self._running: deque[tuple[int, cl.Event]] = deque()

    def after_all(self) -> EarlyRead | None:
        """Enqueue a transfer after all that is in the queue; None where too many are under way."""
        made = None
        if self._free:
            slot = self._free.popleft()
            known, place = self._readers[slot], self._places[slot]
            if known is not None and (reader := known()) is not None:
                reader.keep()
            event = cl.enqueue_copy(self._queue, place, self._buffer, src_offset=self._offset, is_blocking=False)
            self._running.append((slot, event))
            made = EarlyRead(event, place.data)
            self._readers[slot] = weakref.ref(made)
        # While the device works.
        while self._running and self._running[0][1].command_execution_status <= cl.command_execution_status.COMPLETE:
            self._free.append(self._running.popleft()[0])
        return made
