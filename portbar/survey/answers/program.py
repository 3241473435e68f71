"""A program with known results, the device that it runs on, and the comparison of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import pyopencl as cl
import pyopencl.array

from portbar.launching.kernel import Kernel
from portbar.launching.launch import Launch
from portbar.launching.program import Program

#: Work-items of a work-group, where the device allows as many.
LOCAL: Final = 64
#: Drawn numbers are below this one: sums of a few of them, as floats, have no rounding.
BELOW: Final = 1000


@dataclass(frozen=True)
class Compared:
    """One result beside NumPy's; floats may differ by `tolerance` times NumPy's."""

    what: str
    got: Any
    expected: Any
    tolerance: float = 0.0

    @property
    def fault(self) -> str:
        """The difference in words; empty if there is none."""
        got, expected = np.asarray(self.got), np.asarray(self.expected)
        if got.shape != expected.shape:
            return f"{self.what}: {got.shape} values in place of {expected.shape}"
        same = np.isclose(got, expected, rtol=self.tolerance, atol=0) if self.tolerance else got == expected
        if same.all():
            return ""
        at = int(np.flatnonzero(~np.ravel(same))[0])
        wrong, first = int((~same).sum()), f"{np.ravel(got)[at]} in place of {np.ravel(expected)[at]}"
        return f"{self.what}: {wrong} of {got.size} values are wrong, the first at {at}: {first}"


Results: TypeAlias = Iterator[Compared]


@dataclass
class Desk:
    """A device to run programs on, and a source of random numbers."""

    queue: cl.CommandQueue
    random: np.random.Generator
    #: Work-groups of the last grid.
    groups: int | None = field(default=None, init=False)

    @property
    def local(self) -> int:
        """Work-items of a work-group."""
        return min(LOCAL, int(self.queue.device.max_work_group_size))

    def kernel(self, source: str, name: str, **declared: Any) -> Kernel:
        """Compile one of portbar's programs."""
        return Program(self.queue.context, source, **declared).kernel(name)

    def room(self, kernel: Kernel) -> int:
        """Return the work-items for which arrays of a grid kernel have room: more than any launch of it has."""
        # More groups may meet with one barrier algorithm than with another, and the count decides which one it is.
        return (2 * kernel.occupancy(self.queue, (self.local,)).groups + 32) * self.local

    def launch(self, kernel: Kernel, *args: Any, **more: Any) -> int:
        """Launch a grid kernel, wait for it, and return the number of its work-items."""
        launch: Launch = kernel(self.queue, None, (self.local,), *args, **more)
        launch.wait()
        self.groups = int(launch.num_groups or 0)
        return self.groups * self.local

    def drawn(self, size: int | tuple[int, ...], dtype: Any = np.uint32) -> tuple[Any, Any]:
        """Draw numbers below `BELOW`, and return them as NumPy's array and the device's."""
        values = self.random.integers(0, BELOW, size).astype(dtype)
        return values, self.given(values)

    def given(self, values: Any) -> Any:
        """Return an array as the device's."""
        return cl.array.to_device(self.queue, values)

    def zeros(self, size: int, dtype: Any = np.uint32) -> Any:
        """Return zeros on the device."""
        return cl.array.zeros(self.queue, size, dtype)


@dataclass(frozen=True)
class Answer:
    """A program of one primitive. It yields its results beside those of NumPy."""

    primitive: str
    run: Callable[[Desk], Results]
    #: Why it says nothing where the device runs one work-group at a time; empty if it does.
    several: str = ""


def faults(results: Sequence[Compared]) -> list[str]:
    """Return the differences of some results in words."""
    return [fault for one in results if (fault := one.fault)]
