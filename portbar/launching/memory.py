"""Memory for the words in which work-groups meet, which the host reads without a command where it can.

On a CPU the words lie in fine-grained shared virtual memory: the host sees a kernel's stores once the kernel's event is
complete. Elsewhere a small transfer fetches them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyopencl as cl

from portbar.backends.selection import units_of
from portbar.device.facts import facts
from portbar.primitives import layout

Words = np.ndarray[Any, np.dtype[np.uint32]]

#: Memory that was given up while a launch that uses it may still run, with the means to check whether one does.
_retired: Final[list[tuple[Callable[[], bool], StateMemory]]] = []


class StateMemory:
    """A buffer of 32-bit words for the device of a queue, and the host's way to read them; `words` are in it at first."""

    def __init__(self, queue: cl.CommandQueue, words: Words) -> None:
        self._queue, self.device = queue, queue.device
        self._reader: cl.CommandQueue | None = None
        self._shared = _shared(queue, words)
        #: The words as the host sees them whenever no launch writes them; None where only a command can read them.
        self.seen: memoryview | None = None
        if self._shared is None:
            flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
            self.buffer = cl.Buffer(queue.context, flags, hostbuf=words)
        else:
            flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
            self.buffer = cl.Buffer(queue.context, flags, hostbuf=self._shared)
            self.seen = self._shared.data

    def read(self, first: int, count: int) -> Words:
        """Copy `count` words from word `first` on; blocks for one small transfer where they are not seen."""
        if self._shared is not None:
            return self._shared[first : first + count].copy()
        return self.fetch(self.buffer, first, count)

    def fetch(self, buffer: cl.Buffer, first: int, count: int) -> Words:
        """Transfer `count` words of a buffer from word `first` on; blocks."""
        if self._reader is None:
            # A queue of its own: the launch's may hold commands that wait for what the caller does next.
            self._reader = cl.CommandQueue(self._queue.context, self._queue.device)
        words = np.empty(count, np.uint32)
        cl.enqueue_copy(self._reader, words, buffer, src_offset=4 * first, is_blocking=True)
        return words


class Copy:
    """Words that a command copies on the device, and that the host fetches on demand.

    The event of a transfer to the host would make the thread that drops it wait for it, with the interpreter locked.
    """

    def __init__(
        self, queue: cl.CommandQueue, memory: StateMemory, first: int, count: int, wait_for: Sequence[cl.Event] | None
    ) -> None:
        self._memory, self._count = memory, count
        self._buffer = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 4 * count)
        self.event = cl.enqueue_copy(
            queue, self._buffer, memory.buffer, byte_count=4 * count, src_offset=4 * first, wait_for=wait_for
        )

    def read(self) -> Words:
        """Wait for the copy, and fetch it."""
        self.event.wait()
        return self._memory.fetch(self._buffer, 0, self._count)


def retire(memory: StateMemory, is_busy: Callable[[], bool]) -> None:
    """Keep memory that is no longer needed for as long as a launch that uses it may run.

    A runtime keeps a buffer until the commands that use it are complete, but not the shared memory it lies in.
    """
    if memory.seen is not None:
        _retired.append((is_busy, memory))
    # One by one: other threads, and the garbage collector, retire memory meanwhile.
    for entry in tuple(_retired):
        if not entry[0]():
            with suppress(ValueError):
                _retired.remove(entry)


@lru_cache(maxsize=64)
def _can_share(device: cl.Device) -> bool:
    """Whether the host sees what a device writes, and the device's work-groups lose nothing by it."""
    found = facts(device)
    return units_of(found).shares_memory and "fine_grain_buffer" in (found.svm_capabilities or ())


def _shared(queue: cl.CommandQueue, words: Words) -> Words | None:
    """Copy words to memory that the host and a CPU device share, or return None where there is none."""
    if not _can_share(queue.device):
        return None
    try:
        shared = cl.fsvm_empty(queue.context, words.size, words.dtype, alignment=4 * layout.LINE_WORDS)
    except (cl.Error, MemoryError):
        return None
    shared[:] = words
    return shared
