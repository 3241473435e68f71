"""How a launch ends: its report in the hidden state, and the faults that headers declare."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

#: Words of a state, copied or where the device writes them.
Words = np.ndarray[Any, np.dtype[np.uint32]] | memoryview

#: The status of a launch without a fault; 0 until it has entered its grid.
OPEN: Final = 1


class Report(NamedTuple):
    """The state that a launch reported about itself.

    Attributes
    ----------
    status : int
        `OPEN` when nothing went wrong; 0 when the kernel never entered its grid; else the status of a `Fault`.
    groups : int
        Work-groups that took part.
    arrived, asked : int
        What the fault says of them.
    group : int
        Work-group that reached the limit first.
    """

    status: int
    groups: int
    arrived: int
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
    """A way for a launch to fail, declared by the header whose functions report it.

    Attributes
    ----------
    name : str
        `PORTBAR_STATUS_name` in kernels, `PORTBAR_HOST_name` in C hosts, `status_name` in templates.
    status : int
        The number that a report holds.
    comment : str
        What happened, for the header of C hosts.
    message : callable
        Report -> what happened, likely causes and the remedy, after the names of the kernel and the device.
    arrived : str
        What `Report.arrived` holds, for the header of C hosts; empty where it holds nothing.
    is_timeout : bool
        Whether it ends in a `BarrierTimeoutError`.
    keeps_state : bool
        Whether the hidden state is as good as before.
    """

    name: str
    status: int
    comment: str
    message: Callable[[Report], str]
    arrived: str = ""
    is_timeout: bool = True
    keeps_state: bool = True


def context(faults: Iterable[Fault]) -> dict[str, int]:
    """The statuses as names for templates."""
    return {f"status_{fault.name.lower()}": fault.status for fault in faults}
