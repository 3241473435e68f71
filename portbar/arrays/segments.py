"""Segments of `portbar.scan`: given by flags, by the indices at which they start, or by an axis whose lines they are."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array

from portbar.arrays.call import Known, enqueue, remember
from portbar.arrays.plan import plan_of
from portbar.arrays.request import Returned, array_types, input_arguments
from portbar.arrays.shape import Layout, Shape
from portbar.arrays.source import Job
from portbar.choices.profile import describe
from portbar.choices.strategy import choose
from portbar.errors import Error, LaunchError
from portbar.primitives.pieces import Piece

_plans: OrderedDict[Any, Known] = OrderedDict()


@dataclass(frozen=True)
class Lines:
    """How segments lie: as for `ScanJob.segments`, and the extents of an axis and of all axes after it."""

    given: str = ""
    columns: int = 1
    inner: int = 1


def lines_of(shape: tuple[int, ...], segments: Any, axis: Any) -> Lines:
    """How segments lie, checked."""
    if segments is not None:
        if axis is not None:
            raise Error("pass axis= or segments, not both")
        if not isinstance(segments, cl.array.Array):
            raise LaunchError(f"segments= must be a pyopencl.array.Array of flags, not {type(segments).__name__}")
        if segments.dtype.kind not in "biu":
            raise LaunchError(f"segments= has type {segments.dtype}: flags must be bool or integers")
        if segments.shape != shape:
            raise LaunchError(
                f"segments= has shape {segments.shape}, the array {shape}: they must be the same; pass indices of segments as "
                "offsets="
            )
        if segments.size and not segments.flags.c_contiguous:
            raise LaunchError(f"segments= has strides {segments.strides}: pass segments.copy()")
        ((_, kind),) = array_types({"segments": segments})
        return Lines(kind.c)
    if axis is None:
        return Lines()
    count = len(shape)
    if isinstance(axis, bool) or not isinstance(axis, int) or not -count <= axis < count:
        raise LaunchError(
            f"axis= must be an axis of an array of {count} dimension(s), or None for all of them, not {axis!r}"
        )
    columns, inner = shape[axis], math.prod(shape[axis % count + 1 :])
    return Lines() if columns == math.prod(shape) else Lines("lines", columns, inner)


@dataclass(frozen=True)
class FlagsJob(Job):
    """The text of the kernel that makes flags of offsets."""

    kernel = "portbar_flags"
    words = ()

    @property
    def pieces(self) -> list[Piece]:
        """Return the names that the text uses."""
        return [("scan/host.mako", "flags")]


def flags_of(
    queue: cl.CommandQueue, first: cl.array.Array, offsets: Any, wait_for: Iterable[cl.Event] | None
) -> cl.array.Array:
    """Flags where segments start, of the indices at which they do."""
    if not isinstance(offsets, cl.array.Array):
        raise LaunchError(f"offsets= must be a pyopencl.array.Array of indices, not {type(offsets).__name__}")
    if offsets.dtype.kind not in "iu" or offsets.ndim != 1 or (offsets.size and not offsets.flags.c_contiguous):
        raise LaunchError(
            f"offsets= has shape {offsets.shape}, type {offsets.dtype} and strides {offsets.strides}: indices must be "
            "contiguous integers in one dimension"
        )
    flags = cl.array.zeros(queue, first.shape, np.uint8, allocator=first.allocator)
    if first.size and offsets.size:
        key = queue.int_ptr, offsets.dtype, offsets.shape, offsets.offset % offsets.dtype.itemsize, first.size
        known = _plans.get(key)
        if known is None:
            shape = Shape(local=1, load_bytes=1, loads=1, sets=1, per_unit=1)
            job = FlagsJob(array_types({"offsets": offsets}), (), Layout(shape, 1))
            strategy = choose(describe(queue.device))
            kept = (np.uint64(offsets.size), np.uint64(first.size))
            global_size = (-(-offsets.size // 64) * 64,)
            known = Known(plan_of(queue, strategy, job, global_size, None, kept), Returned((), ()))
            remember(_plans, key, known)
        args = input_arguments((offsets, flags), queue.context)
        arrays = {"offsets": offsets, "flags": flags}
        enqueue("portbar.scan", queue, known.plan, args, arrays, (offsets,), (flags,), wait_for)
    return flags
