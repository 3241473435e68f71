"""How a launch ends: its report in the hidden state, and the faults that headers declare."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import numpy as np

from portbar.records.dataclass import dataclass

#: Words of a state, copied or where the device writes them.
Words = np.ndarray[Any, np.dtype[np.uint32]] | memoryview

#: The status of a launch without a fault; 0 until it has entered its grid.
OPEN: Final = 1


class Report(NamedTuple):
    """The state that a launch reported about itself."""

    #: `OPEN` when nothing went wrong; 0 when the kernel never entered its grid; else the status of a `Fault`.
    status: int
    #: Work-groups that took part.
    groups: int
    #: The number that `Fault.arrived` explains, and the one that was asked for.
    arrived: int
    #: Work-group that reached the limit first.
    group: int
    asked: int = 0

    @classmethod
    def from_words(cls, words: Words, epoch: int) -> Report:
        """Read the words of one report; those of another launch count as "never entered"."""
        if int(words[0]) != epoch:
            return cls(0, 0, 0, 0)
        return cls(int(words[1]), int(words[2]), int(words[3]), int(words[4]), int(words[5]))


@dataclass(frozen=True)
class Fault:
    """A way for a launch to fail, declared by the header whose functions report it."""

    #: `PORTBAR_STATUS_name` in kernels, `PORTBAR_HOST_name` in C hosts, `status_name` in templates.
    name: str
    #: The number that a report holds. Programs are compiled with it: it stays as it is. With 0 the fault gets the next one when
    #: its header is registered.
    status: int
    #: The fault in words, for the header of C hosts.
    comment: str
    #: Report -> what happened, likely causes and the remedy, after the names of the kernel and the device.
    message: Callable[[Report], str]
    #: The meaning of `Report.arrived`, for the header of C hosts; empty where it has none.
    arrived: str = ""
    #: Whether it ends in a `BarrierTimeoutError`.
    is_timeout: bool = True
    #: Whether the hidden state is as good as before.
    keeps_state: bool = True
    #: Whether `Report.arrived` counts work-groups that arrived at a barrier.
    counts_arrivals: bool = False


def context(faults: Iterable[Fault]) -> dict[str, int]:
    """The statuses as names for templates."""
    return {f"status_{fault.name.lower()}": fault.status for fault in faults}
