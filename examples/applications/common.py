"""Shared by the applications: their form, and the graphs that they work on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
import pyopencl as cl
import pyopencl.array

import portbar

#: The sizes that are powers of two: 2**size vertices or values.
SCALES: Final = range(1, 25)


class Application(ABC):
    """A problem of one size on one queue, solved in one kernel, with a launch for each step, and on the host.

    Attributes
    ----------
    name, summary : str
    source : str
        OpenCL C of both ways, so that they differ in nothing but how their steps meet.
    sizes : tuple of int
        From one that is all waiting to one that is bound by memory.
    allowed : sequence of int
        The sizes that it takes.
    local : int
        Local size of the launches for each step; the grid's is the one that portbar suggests.
    steps : int
        How many steps a solution takes; known when it was found once.
    registers : int or None
        Most registers for each work-item, where that matters.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    source: ClassVar[str]
    sizes: ClassVar[tuple[int, ...]]
    allowed: ClassVar[Sequence[int]] = range(1, 8193)
    local: ClassVar[int] = 64
    steps: int = 1
    registers: ClassVar[int | None] = None

    def __init__(self, queue: cl.CommandQueue, size: int) -> None:
        self.queue, self.size = queue, size
        self.program = portbar.Program(queue.context, self.source, registers=self.registers)

    def put(self, values: np.ndarray) -> cl.array.Array:
        """An array on the device."""
        return cl.array.to_device(self.queue, values)

    def grid(self, kernel: str, *args: Any, items: int) -> None:
        """Run a grid kernel to its end, with no more work-groups than `items` need."""
        made = self.program.kernel(kernel)
        made(self.queue, None, made.suggested_local_size(self.queue), *args, items=items).wait()

    def launch(self, kernel: str, n: int, *args: Any) -> Any:
        """Enqueue a plain kernel over `n` work-items, rounded up to whole work-groups."""
        local = self.local
        return self.program.kernel(kernel)(self.queue, (-(-n // local) * local,), (local,), *args)

    @abstractmethod
    def in_one_kernel(self) -> cl.array.Array:
        """Solve it in one launch; the result is complete."""

    @abstractmethod
    def by_relaunching(self) -> cl.array.Array:
        """Solve it with a launch for each step or part of a step; the result is complete."""

    def by_barriers(self) -> cl.array.Array | None:
        """Solve it in one launch with a barrier for each step, where `in_one_kernel` does otherwise; None elsewhere."""
        return None

    @abstractmethod
    def expected(self) -> np.ndarray:
        """Solve it on the host."""

    @cached_property
    def answer(self) -> np.ndarray:
        """The host's result, computed once."""
        return self.expected()

    def check(self, found: cl.array.Array) -> None:
        """Raise `AssertionError` where a result is not the host's."""
        np.testing.assert_array_equal(found.get(), self.answer)


def streets(width: int) -> tuple[np.ndarray, np.ndarray]:
    """A square grid of crossings with 10% of its streets closed: first edge of each vertex, and where edges lead."""
    vertices = np.arange(width * width, dtype=np.uint32).reshape(width, width)
    across = np.stack([vertices[:, :-1].ravel(), vertices[:, 1:].ravel()])
    down = np.stack([vertices[:-1].ravel(), vertices[1:].ravel()])
    pairs = np.concatenate([across, down], axis=1)
    pairs = pairs[:, np.random.default_rng(1).random(pairs.shape[1]) < 0.9]
    return compressed(np.concatenate([pairs, pairs[::-1]], axis=1), width * width)


def rmat(scale: int, degree: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """A graph of 2**scale vertices with few that have very many edges: R-MAT, Chakrabarti et al. (SDM 2004)."""
    draws = np.random.default_rng(2)
    edges = np.zeros((2, degree << scale), np.uint32)
    for _ in range(scale):
        corner = draws.choice(4, edges.shape[1], p=(0.57, 0.19, 0.19, 0.05))
        edges = 2 * edges + np.stack([corner >> 1, corner & 1]).astype(np.uint32)
    return compressed(edges, 1 << scale)


def compressed(edges: np.ndarray, vertices: int) -> tuple[np.ndarray, np.ndarray]:
    """Edges from row 0 to row 1 as first edge of each vertex, and where edges lead."""
    order = np.argsort(edges[0], kind="stable")
    first = np.searchsorted(edges[0][order], np.arange(vertices + 1)).astype(np.uint32)
    return first, np.ascontiguousarray(edges[1][order])
