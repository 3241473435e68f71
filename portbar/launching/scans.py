"""Launches of kernels that scan over their work-groups: where these leave what tiles amount to."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyopencl as cl

from portbar.errors import LaunchError
from portbar.launching.launch import Launch
from portbar.launching.plan import Plan
from portbar.launching.state import State
from portbar.primitives.scan import TICKET_WORDS, DeviceScan

#: The hidden launch argument, an OpenCL uint4 in the host's byte order: epoch, work-groups, and first word of the values.
_WORDS: Final = struct.Struct("=4I")

#: Launches after which words of tiles are cleared; each holds an epoch and one more bit.
MOST_EPOCHS: Final = (1 << 31) - 1


def check_sizes(
    kernel: str, scans: tuple[DeviceScan, ...], size: tuple[int, ...], local: tuple[int, ...], used: Sequence[str]
) -> None:
    """Check that all work-groups are whole, and no larger than the local memory of the scans that are `used`."""
    if any(whole % part for whole, part in zip(size, local, strict=True)):
        raise LaunchError(
            f"kernel {kernel!r} scans, which requires work-groups of equal size: global size {size}, local size {local}. Pass "
            "a global size that is a multiple of the local size"
        )
    for scan in scans:
        if scan.name in used and math.prod(local) > scan.local_size:
            raise LaunchError(
                f"kernel {kernel!r}: local size {local} is {math.prod(local)} work-items, but scan {scan.name!r} has local "
                f"memory for {scan.local_size}: declare DeviceScan({scan.name!r}, ..., local_size={math.prod(local)})"
            )


class ScanState(State):
    """The ticket, words and values of the tiles of one queue's launches.

    Nothing is cleared between launches: words hold the launch's epoch, and the last group sets the ticket back.
    """

    def __init__(
        self, queue: cl.CommandQueue, groups: int, previous: ScanState | None, scans: tuple[DeviceScan, ...]
    ) -> None:
        super().__init__(queue, groups, previous)
        self.first_value = TICKET_WORDS + self.capacity
        sizes = [-(-scan.kind.size // 16) * 16 for scan in scans]
        words = np.zeros(self.first_value + 2 * self.capacity * max(sizes) // 4, np.uint32)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        self.buffer = cl.Buffer(queue.context, flags, hostbuf=words)
        self._epoch = 0

    def launch(self, plan: Plan, args: Sequence[Any], wait_for: Sequence[cl.Event] | None) -> Launch:
        """Enqueue a plan with the hidden arguments filled in. The caller holds the program's lock."""
        epoch = self._next_epoch()
        before = self.order.after(wait_for)
        words = _WORDS.pack(epoch, plan.groups, self.first_value, 0)
        event = plan.call(self.buffer, bytearray(words), *args, wait_for=before)
        self.order.add(event, wait_for)
        return Launch(event, plan.label)

    def _next_epoch(self) -> int:
        """A number from 1 on that no word holds: they are cleared when numbers begin again."""
        if self._epoch == MOST_EPOCHS:
            self.order.clear(self.queue, self.buffer, 4 * self.first_value)
            self._epoch = 0
        self._epoch += 1
        return self._epoch
