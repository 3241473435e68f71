"""Fills and copies as steps: kernels of portbar's own in one kernel, and the queue's commands otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import pyopencl as cl
import pyopencl.array

from portbar.choices.timing import shortened
from portbar.errors import LaunchError
from portbar.launching.program import Program
from portbar.recording.binding import bound, buffer_of
from portbar.recording.origin import Origin
from portbar.recording.relaunch import given
from portbar.recording.steps import Argument, Call, Turns
from portbar.rendering.templates import render_def

#: Bytes of an element -> its type.
_TYPES: Final = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong", 16: "uint4"}
_MOST: Final = 1 << 31


@cache
def own_origin() -> Origin:
    """The origin of fills and copies."""
    types = [(f"{size}", name) for size, name in _TYPES.items()]
    return Origin("portbar_memory.cl", render_def("recording/memory.mako", "kernels", {"types": types}), (), ())


class _CommandAlone:
    """A fill or a copy by itself: a command of the queue, or a kernel of portbar's own where a kernel is asked for."""

    def __init__(
        self,
        enqueue: Callable[[cl.CommandQueue, Sequence[cl.Event] | None], cl.Event],
        name: str,
        arguments: Sequence[Argument],
    ) -> None:
        self._enqueue, self._name, self._arguments = enqueue, name, arguments

    def enqueue(self, queue: cl.CommandQueue, wait_for: Sequence[cl.Event] | None, _: Turns) -> cl.Event:
        """Enqueue the command after these events."""
        return self._enqueue(queue, wait_for)

    def kernel(self, queue: cl.CommandQueue, _: Turns) -> cl.Kernel:
        """A kernel object with the arguments."""
        program = Program(queue.context, own_origin().text, devices=[queue.device])
        made = cl.Kernel(program.built(queue.device), self._name)
        for index, argument in enumerate(self._arguments):
            made.set_arg(index, given(argument))
        return made


def fill(number: int, device: cl.Device, to: Any, value: Any, offset: int, size: int | None) -> Call:
    """The step that fills a part of a buffer."""
    label = f"step {number} (a fill)"
    if not isinstance(value, np.generic) or value.itemsize not in _TYPES:
        raise LaunchError(
            f"{label} takes a NumPy value of 1, 2, 4, 8 or 16 bytes, such as np.float32(0), not {shortened(value)}"
        )
    memory = buffer_of(label, to).memory
    width = value.itemsize
    size = _checked(label, memory, offset, _size_of(to, offset) if size is None else size, width)
    pattern = np.frombuffer(value.tobytes(), np.uint8)
    name = f"fill_{width}"
    phase = own_origin().phases(device).phases[name]
    args = (memory, np.uint64(offset // width), _element(pattern, width))

    def enqueue(queue: cl.CommandQueue, wait_for: Sequence[cl.Event] | None) -> cl.Event:
        return cl.enqueue_fill_buffer(queue, memory, pattern, offset, size, wait_for=wait_for)

    count = (size // width, 1, 1)
    arguments = bound(label, phase, args)
    alone = _CommandAlone(enqueue, name, arguments)
    return Call(number, name, phase, own_origin(), 1, count, None, (0, 0, 0), arguments, alone)


def copy(number: int, device: cl.Device, to: Any, source: Any, offsets: tuple[int, int], size: int | None) -> Call:
    """The step that copies a part of a buffer to another; `offsets` are those of the target and of the source."""
    label = f"step {number} (a copy)"
    target, origin = buffer_of(label, to), buffer_of(label, source)
    if target.memory is None or origin.memory is None or target.root == origin.root:
        raise LaunchError(f"{label} must be between two buffers that do not overlap")
    size = _checked(label, origin.memory, offsets[1], _size_of(source, offsets[1]) if size is None else size, 1)
    _checked(label, target.memory, offsets[0], size, 1)
    width = next(one for one in (4, 2, 1) if not any(at % one for at in (*offsets, size)))
    name = f"copy_{width}"
    phase = own_origin().phases(device).phases[name]
    args = (origin.memory, np.uint64(offsets[1] // width), target.memory, np.uint64(offsets[0] // width))

    def enqueue(queue: cl.CommandQueue, wait_for: Sequence[cl.Event] | None) -> cl.Event:
        return cl.enqueue_copy(
            *(queue, target.memory, origin.memory),
            byte_count=size,
            dst_offset=offsets[0],
            src_offset=offsets[1],
            wait_for=wait_for,
        )

    count = (size // width, 1, 1)
    arguments = bound(label, phase, args)
    alone = _CommandAlone(enqueue, name, arguments)
    return Call(number, name, phase, own_origin(), 1, count, None, (0, 0, 0), arguments, alone)


def _size_of(given: Any, offset: int) -> int:
    """The bytes after an offset; an array's buffer may be larger than the array."""
    return int(given.nbytes if isinstance(given, pyopencl.array.Array) else getattr(given, "size", 0)) - offset


def _checked(label: str, memory: Any, offset: int, size: int, width: int) -> int:
    """Bytes of a part of a buffer."""
    if memory is None:
        raise LaunchError(f"{label} needs a buffer")
    fits = offset >= 0 and 0 < size <= memory.size - offset and size // width < _MOST
    if not fits or offset % width or size % width:
        raise LaunchError(
            f"{label}: a buffer of {memory.size} bytes does not hold {size} bytes from {offset} on in elements of {width}"
        )
    return size


def _element(pattern: np.ndarray, width: int) -> Any:
    dtype = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}.get(width)
    return pattern if dtype is None else pattern.view(dtype)[0]
