"""Sorts along an axis, and of keys with several arrays of values: an order of places, by which elements then move.

The places of all keys are sorted by their keys, and then by the lines in which they are, which keeps the order within a line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyopencl as cl
import pyopencl.array

from portbar.arrays.call import enqueue, known_of
from portbar.arrays.plan import Plan, choices_for, plan_of
from portbar.arrays.request import input_arguments
from portbar.arrays.sort_source import element_of
from portbar.arrays.source import Source
from portbar.primitives.pieces import Piece
from portbar.records.dataclass import dataclass


@dataclass(frozen=True)
class LinesJob(Source):
    """The text of one of the kernels, for elements of a C type."""

    element_type: str
    what: str

    @property
    def kernel(self) -> str:  # type: ignore[override]
        """The kernel's name."""
        return f"portbar_lines_{self.what}"

    @property
    def pieces(self) -> list[Piece]:
        """Where elements lie, and one kernel."""
        return [("sort/lines.mako", "places"), ("sort/lines.mako", self.what)]


@dataclass(frozen=True)
class Lines:
    """How the lines of an axis lie: elements of a line, which are `inner` apart in memory."""

    columns: int
    inner: int = 1

    @classmethod
    def of(cls, shape: tuple[int, ...], axis: int, order: str) -> Lines:
        """Those of an axis of an array."""
        if order == "F":
            shape, axis = shape[::-1], len(shape) - 1 - axis
        return cls(int(shape[axis]), math.prod(map(int, shape[axis + 1 :])))


#: Sorts places by keys, as `portbar.argsort`; and places by the numbers of their lines, of that many bits.
ByKeys = Callable[[cl.array.Array], cl.array.Array]
ByLines = Callable[[cl.array.Array, cl.array.Array, int], cl.array.Array]


def order_of(
    queue: cl.CommandQueue, keys: cl.array.Array, lines: Lines, by_keys: ByKeys, by_lines: ByLines
) -> cl.array.Array:
    """The places of all keys, line after line, in the order of the keys within each."""
    flat = (keys.size,)
    in_lines = keys
    if lines.inner > 1:
        in_lines = cl.array.Array(queue, flat, keys.dtype, allocator=keys.allocator)
        _run(queue, "gather", element_of(keys.dtype.itemsize), lines, (keys, in_lines))
    elif keys.ndim > 1 or keys.flags.f_contiguous:
        in_lines = cl.array.Array(
            queue,
            flat,
            keys.dtype,
            allocator=keys.allocator,
            data=keys.base_data,
            offset=keys.offset,
            events=keys.events,
        )
    order = by_keys(in_lines)
    count = keys.size // lines.columns
    if count == 1:
        return order
    numbers = cl.array.Array(queue, flat, np.uint32, allocator=keys.allocator)
    _run(queue, "number", "uint", lines, (order, numbers))
    return by_lines(numbers, order, max(1, (count - 1).bit_length()))


def move(
    queue: cl.CommandQueue, order: cl.array.Array, lines: Lines, source: cl.array.Array, target: cl.array.Array
) -> cl.Event:
    """Move elements to where the order has them."""
    return _run(queue, "move", element_of(source.dtype.itemsize), lines, (source, order, target))


def indices(queue: cl.CommandQueue, order: cl.array.Array, lines: Lines, target: cl.array.Array) -> cl.Event:
    """Store the order's indices within their lines."""
    return _run(queue, "along", element_of(target.dtype.itemsize), lines, (order, target))


def _run(queue: cl.CommandQueue, what: str, element: str, lines: Lines, arrays: Sequence[cl.array.Array]) -> cl.Event:
    """Launch one of the kernels with its arrays, of which the last one is written."""
    *inputs, result = arrays
    n = result.size

    def make() -> Plan:
        kept = [np.uint32(n), np.uint32(lines.columns), np.uint32(lines.inner)]
        return plan_of(queue, choices_for(queue)[1], LinesJob(element, what), (-(-n // 64) * 64,), None, kept)

    plan = known_of(queue, "sort lines", lambda: (what, element, n, lines), make)
    args = input_arguments(tuple(arrays), queue.context)
    named = dict(zip(("keys or values", "order"), inputs, strict=False)) | {"out": result}
    waited: Iterable[cl.Event] | None = None
    return enqueue("portbar.sort", queue, plan, args, named, inputs, (result,), waited)
