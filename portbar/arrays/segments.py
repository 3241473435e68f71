"""Segments of `portbar.scan`: given by flags, by the indices at which they start, or by an axis whose lines they are."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array

from portbar.arrays.call import enqueue, known_of
from portbar.arrays.plan import Plan, choices_for, plan_of
from portbar.arrays.request import array_types, check_array, check_contiguous, checked_axis, input_arguments
from portbar.arrays.source import Source
from portbar.errors import Error, LaunchError
from portbar.records.dataclass import dataclass


@dataclass(frozen=True)
class Segments:
    """How segments lie: as for `ScanJob.segments`, and the extents of an axis and of all axes after it."""

    given: str = ""
    columns: int = 1
    inner: int = 1


def lines_of(shape: tuple[int, ...], segments: Any, axis: Any, order: str = "C") -> Segments:
    """How segments lie, checked."""
    if segments is not None:
        if axis is not None:
            raise Error("pass axis= or segments, not both")
        check_array("segments=", segments)
        if segments.dtype.kind not in "biu":
            raise LaunchError(f"segments= has type {segments.dtype}: flags must be bool or integers")
        if segments.shape != shape:
            raise LaunchError(
                f"segments= has shape {segments.shape}, the array {shape}: they must be the same; pass indices of segments as "
                "offsets="
            )
        check_contiguous("segments=", segments)
        ((_, kind),) = array_types({"segments": segments})
        return Segments(kind.c)
    if axis is None:
        return Segments()
    axis = checked_axis(axis, len(shape))
    if order == "F":
        shape, axis = shape[::-1], len(shape) - 1 - axis
    columns, inner = shape[axis], math.prod(shape[axis + 1 :])
    return Segments() if columns == math.prod(shape) else Segments("lines", columns, inner)


@dataclass(frozen=True)
class FlagsJob(Source):
    """The text of the kernel that makes flags of offsets, whose C type is `offset`."""

    offset: str

    kernel = "portbar_flags"
    pieces = (("scan/host.mako", "flags"),)


def flags_of(
    queue: cl.CommandQueue, first: cl.array.Array, offsets: Any, wait_for: Iterable[cl.Event] | None
) -> cl.array.Array:
    """Flags where segments start, of the indices at which they do."""
    check_array("offsets=", offsets)
    if offsets.dtype.kind not in "iu" or offsets.ndim != 1 or (offsets.size and not offsets.flags.c_contiguous):
        raise LaunchError(
            f"offsets= has shape {offsets.shape}, type {offsets.dtype} and strides {offsets.strides}: indices must be "
            "contiguous integers in one dimension"
        )
    flags = cl.array.zeros(queue, first.shape, np.uint8, allocator=first.allocator)
    if first.size and offsets.size:
        ((_, kind),) = array_types({"offsets": offsets})
        sizes = np.uint64(offsets.size), np.uint64(first.size)

        def make() -> Plan:
            strategy, size = choices_for(queue)[1], -(-offsets.size // 64) * 64
            return plan_of(queue, strategy, FlagsJob(kind.c), (size,), None, sizes)

        plan = known_of(queue, "segments", lambda: (kind.c, *sizes), make)
        args = input_arguments((offsets, flags), queue.context)
        arrays = {"offsets": offsets, "flags": flags}
        enqueue("portbar.scan", queue, plan, args, arrays, (offsets,), (flags,), wait_for)
    return flags
