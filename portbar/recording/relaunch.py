"""Runs recorded steps as one launch each, or as batches of launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from portbar.launching.kernel import Kernel
from portbar.recording.batches import Batch
from portbar.recording.origin import program_of
from portbar.recording.steps import (
    Argument,
    Buffer,
    Call,
    Conditional,
    Flag,
    Local,
    Opaque,
    Repetition,
    Step,
    StepValue,
    Turns,
)


class KernelAlone:
    """A recorded launch of a kernel by itself.

    Parameters
    ----------
    kernel : pyopencl.Kernel or portbar.Kernel
    global_size, local_size, offset : tuple of int
        As they were given; local size and offset may be None.
    arguments : sequence of Argument
    """

    def __init__(
        self,
        kernel: cl.Kernel | Kernel,
        global_size: tuple[int, ...],
        local_size: tuple[int, ...] | None,
        offset: tuple[int, ...] | None,
        arguments: Sequence[Argument],
    ) -> None:
        self._kernel, self._sizes, self._arguments = kernel, (global_size, local_size, offset), arguments
        self._changing = [
            (index, one) for index, one in enumerate(arguments) if isinstance(one, StepValue) and one.turn is not None
        ]
        self._made: cl.Kernel | None = None
        self._set: Callable[[int, Any], None]

    def enqueue(self, queue: cl.CommandQueue, wait_for: Sequence[cl.Event] | None, turns: Turns) -> cl.Event:
        """Enqueue it after these events, always with the same kernel object."""
        made = self._made
        if made is None:
            made = self._made = self._other(queue)
            # The public way tries a memory object first, which takes 11 us in place of 0.3.
            self._set = getattr(made, "_set_arg_buf", made.set_arg)
        for index, value in self._changing:
            self._set(index, _at(value, turns))
        global_size, local_size, offset = self._sizes
        return cl.enqueue_nd_range_kernel(queue, made, global_size, local_size, offset, wait_for=wait_for)

    def kernel(self, queue: cl.CommandQueue, turns: Turns) -> cl.Kernel:
        """A kernel object of its own with the arguments."""
        made = self._other(queue)
        for index, value in self._changing:
            made.set_arg(index, _at(value, turns))
        return made

    def _other(self, queue: cl.CommandQueue) -> cl.Kernel:
        """A new kernel object with the arguments that are the same in all turns."""
        if isinstance(self._kernel, Kernel):
            made = cl.Kernel(self._kernel.program.built(queue.device), self._kernel.name)
        else:
            made = _other(self._kernel)
        for index, argument in enumerate(self._arguments):
            if not (isinstance(argument, StepValue) and argument.turn is not None):
                made.set_arg(index, given(argument))
        return made


def given(argument: Argument) -> Any:
    """An argument as it was recorded, for a kernel object."""
    if isinstance(argument, Buffer):
        return argument.memory
    if isinstance(argument, Opaque):
        return argument.handle
    return cl.LocalMemory(argument.size) if isinstance(argument, Local) else argument.data


def _at(value: StepValue, turns: Turns) -> bytes:
    """The bytes of a value that changes from turn to turn."""
    assert value.turn is not None
    return np.array(value.turn.at(turns[value.turn.loop])).astype(value.dtype).tobytes()


def _other(kernel: cl.Kernel) -> cl.Kernel:
    """Another object of a kernel, whose arguments are its own."""
    program = program_of(kernel)
    return kernel.clone() if program is None else cl.Kernel(program, kernel.function_name)


class Relauncher:
    """Runs steps on a queue."""

    def __init__(self, queue: cl.CommandQueue, steps: Sequence[Step | Batch]) -> None:
        self._queue, self._steps = queue, steps
        self._in_order = not queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
        self._word = np.zeros(1, np.uint32)
        self.last: cl.Event | None = None
        #: The loop whose flag did not fall.
        self.endless: Repetition | None = None

    def run(self) -> cl.Event:
        """Enqueue all steps; the event of the last of them."""
        self.last, self.endless = None, None
        self._turns: dict[Repetition, int] = {}
        self._run(self._steps)
        return self.last if self.last is not None else cl.enqueue_marker(self._queue)

    def _run(self, steps: Sequence[Step | Batch]) -> None:
        for step in steps:
            if self.endless is not None:
                return
            if isinstance(step, Call | Batch):
                wait_for = None if self._in_order or self.last is None else [self.last]
                alone = step.alone if isinstance(step, Call) else step
                self.last = alone.enqueue(self._queue, wait_for, self._turns)
            elif isinstance(step, Conditional):
                if self._is_set(step.flag):
                    self._run(step.body)
            else:
                self._loop(step)

    def _loop(self, loop: Repetition) -> None:
        turn = 0
        while self.endless is None and (turn < loop.turns if loop.flag is None else self._is_set(loop.flag)):
            if turn == loop.turns:
                self.endless = loop
                return
            self._turns[loop] = turn
            self._run(loop.body)
            turn += 1

    def _is_set(self, flag: Flag) -> bool:
        word = self._word[:1].view(np.uint8)[: flag.size]
        wait_for = None if self._in_order or self.last is None else [self.last]
        cl.enqueue_copy(self._queue, word, flag.buffer.memory, src_offset=flag.offset, wait_for=wait_for)
        return bool(word.any())
