"""The recorded steps: calls of kernels, loops and conditions, and the values that change from turn to turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import pyopencl as cl

from portbar.errors import LaunchError
from portbar.primitives.run_kernels.phases import Phase
from portbar.recording.origin import Origin
from portbar.records.dataclass import dataclass

Size = tuple[int, int, int]
_NUMBERS: Final = (int, float, np.integer, np.floating)


def _plain(number: Any) -> Any:
    """A number whose integers do not overflow."""
    return int(number) if isinstance(number, np.integer) else number


class Turn:
    """The number of a loop's turn, from 0, as the value of a step.

    ``turn * a + b`` is a value, too; ``turn.of(values)`` is the element of that turn.
    """

    def __init__(self, loop: Repetition, factor: float = 1, offset: float = 0, values: Any = None) -> None:
        self.loop, self.factor, self.offset, self.values = loop, factor, offset, values

    def __add__(self, other: float) -> Turn:
        if not isinstance(other, _NUMBERS):
            return NotImplemented
        self._check()
        return Turn(self.loop, self.factor, self.offset + _plain(other))

    def __sub__(self, other: float) -> Turn:
        return self + -other

    def __rsub__(self, other: float) -> Turn:
        return self * -1 + other

    def __mul__(self, other: float) -> Turn:
        if not isinstance(other, _NUMBERS):
            return NotImplemented
        self._check()
        return Turn(self.loop, self.factor * _plain(other), self.offset * _plain(other))

    def __neg__(self) -> Turn:
        return self * -1

    __radd__ = __add__
    __rmul__ = __mul__

    def _check(self) -> None:
        if self.values is not None:
            raise LaunchError("a value that an array gives for each turn cannot be computed with: change the array")

    def of(self, values: Any) -> Turn:
        """Take the element of an array in each turn.

        Parameters
        ----------
        values : array
            One number for each turn.

        Raises
        ------
        LaunchError
            There are fewer, or the array has other dimensions.
        """
        made = np.array(values)
        if made.ndim != 1 or made.dtype.kind not in "biuf":
            raise LaunchError(
                f"of() takes one number for each turn, not an array of shape {made.shape} of {made.dtype}"
            )
        if len(made) < self.loop.turns:
            raise LaunchError(f"an array gives {len(made)} values for {self.loop.turns} turns: give one for each turn")
        return Turn(self.loop, values=made)

    def at(self, turn: int) -> Any:
        """The value of one turn."""
        if self.values is not None:
            return self.values[turn]
        return self.factor * turn + self.offset

    def outside(self, dtype: np.dtype[Any]) -> Any:
        """The value of a turn that an integer type does not hold; None if it holds all."""
        if dtype.kind not in "iu" or not self.loop.turns:
            return None
        info, values = np.iinfo(dtype), self.values[: self.loop.turns] if self.values is not None else None
        ends = (self.at(0), self.at(self.loop.turns - 1)) if values is None else (values.min(), values.max())
        return next((one for one in map(_plain, ends) if not info.min <= one <= info.max), None)

    def all(self, dtype: np.dtype[Any]) -> np.ndarray:
        """The values of all turns as the parameter takes them."""
        if self.values is not None:
            return np.ascontiguousarray(self.values, dtype)
        values = [self.at(turn) for turn in range(self.loop.turns)]
        if isinstance(self.factor, int) and isinstance(self.offset, int):
            # Of integers on both sides of 2**63, NumPy makes doubles.
            return np.array(values, dtype)
        return np.array(values).astype(dtype)


@dataclass(eq=False)
class Buffer:
    """An argument in global or constant memory; None is a null pointer."""

    memory: Any
    #: The memory object that it is a part of, for what overlaps.
    root: int


@dataclass(eq=False)
class Local:
    """An argument in local memory, of this many bytes."""

    size: int


@dataclass(eq=False)
class StepValue:
    """A value: its bytes, or those of each turn of a loop."""

    data: bytes
    turn: Turn | None = None
    dtype: np.dtype[Any] | None = None


@dataclass(eq=False)
class Opaque:
    """An image that is only read, or a sampler, which can only be arguments of a kernel."""

    #: The object of PyOpenCL.
    handle: Any
    #: As the kernel declares it.
    type_name: str
    #: The memory object that an image lies in, which may be a buffer; 0 for a sampler.
    root: int = 0

    @property
    def key(self) -> tuple[str, int]:
        """Equal for the same object."""
        return self.type_name, int(self.handle.int_ptr)


Argument = Buffer | Local | StepValue | Opaque


Turns: TypeAlias = "Mapping[Repetition, int]"


class Alone(Protocol):
    """A launch by itself, in given turns of the loops around it."""

    def enqueue(self, queue: cl.CommandQueue, wait_for: Sequence[cl.Event] | None, turns: Turns) -> cl.Event:
        """Enqueue it after these events."""

    def kernel(self, queue: cl.CommandQueue, turns: Turns) -> cl.Kernel:
        """A kernel object of its own with the arguments."""


@dataclass(eq=False)
class Call:
    """One launch."""

    #: From 1, in the order of recording.
    number: int
    name: str
    #: None for one that is recorded without its program's source.
    phase: Phase | None
    origin: Origin | None
    dimensions: int
    size: Size
    local: Size | None
    offset: Size
    arguments: tuple[Argument, ...]
    alone: Alone
    #: Why it cannot be a part of one kernel.
    problem: str = ""

    def __str__(self) -> str:
        return f"step {self.number} (kernel {self.name!r})"


@dataclass(eq=False)
class Flag:
    """A word in a buffer: its place and its size in bytes."""

    buffer: Buffer
    offset: int
    size: int


@dataclass(eq=False)
class Repetition:
    """Steps that are repeated: `turns` times, or while a flag is set, at most so often."""

    turns: int
    flag: Flag | None = None
    number: int = 0
    body: list[Step] = field(default_factory=list)


@dataclass(eq=False)
class Conditional:
    """Steps that run if a flag is set."""

    flag: Flag
    body: list[Step] = field(default_factory=list)


Step = Call | Repetition | Conditional


def steps_in(steps: Sequence[Step], turns: int = 1) -> Iterator[tuple[Step, int]]:
    """All steps, in order, each with how often it is run in one pass; a loop with a flag counts as one turn."""
    for step in steps:
        yield step, turns
        if not isinstance(step, Call):
            inner = step.turns if isinstance(step, Repetition) and step.flag is None else 1
            yield from steps_in(step.body, turns * inner)


def calls_in(steps: Sequence[Step]) -> list[Call]:
    """All calls, in order."""
    return [step for step, _ in steps_in(steps) if isinstance(step, Call)]
