"""Runs recorded steps as one launch each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from portbar.launching.kernel import Kernel
from portbar.recording.origin import program_of
from portbar.recording.steps import Argument, Buffer, Call, Conditional, Flag, Local, Repetition, Step, StepValue

Turns = dict[Repetition, int]


def enqueuer(
    kernel: cl.Kernel | Kernel,
    global_size: tuple[int, ...],
    local_size: tuple[int, ...] | None,
    offset: tuple[int, ...] | None,
    arguments: Sequence[Argument],
) -> Callable[[cl.CommandQueue, Sequence[cl.Event] | None, Turns], cl.Event]:
    """A function that enqueues a recorded launch alone, with a kernel object of its own."""
    made: list[cl.Kernel] = []
    setters: list[Callable[[int, Any], None]] = []
    changing = [(index, one) for index, one in enumerate(arguments) if isinstance(one, StepValue) and one.turn]

    def enqueue(queue: cl.CommandQueue, wait_for: Sequence[cl.Event] | None, turns: Turns) -> cl.Event:
        if not made:
            if isinstance(kernel, Kernel):
                made.append(cl.Kernel(kernel.program.built(queue.device), kernel.name))
            else:
                made.append(_other(kernel))
            for index, argument in enumerate(arguments):
                if not (isinstance(argument, StepValue) and argument.turn):
                    made[0].set_arg(index, _given(argument))
            # The public way tries a memory object first, which takes 11 us in place of 0.3.
            setters.append(getattr(made[0], "_set_arg_buf", made[0].set_arg))
        for index, value in changing:
            setters[0](index, _at(value, turns))
        return cl.enqueue_nd_range_kernel(queue, made[0], global_size, local_size, offset, wait_for=wait_for)

    return enqueue


def _given(argument: Argument) -> Any:
    """An argument as it was recorded, for a kernel object."""
    if isinstance(argument, Buffer):
        return argument.memory
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

    def __init__(self, queue: cl.CommandQueue, steps: Sequence[Step]) -> None:
        self._queue, self._steps = queue, steps
        self._in_order = not queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
        self._word = np.zeros(1, np.uint32)
        self.last: cl.Event | None = None
        #: The loop whose flag did not fall.
        self.endless: Repetition | None = None

    def run(self) -> cl.Event:
        """Enqueue all steps; the event of the last of them."""
        self.last, self.endless = None, None
        self._run(self._steps, {})
        return self.last if self.last is not None else cl.enqueue_marker(self._queue)

    def _run(self, steps: Sequence[Step], turns: Turns) -> None:
        for step in steps:
            if self.endless is not None:
                return
            if isinstance(step, Call):
                wait_for = None if self._in_order or self.last is None else [self.last]
                self.last = step.enqueue(self._queue, wait_for, turns)
            elif isinstance(step, Conditional):
                if self._is_set(step.flag):
                    self._run(step.body, turns)
            else:
                self._loop(step, turns)

    def _loop(self, loop: Repetition, turns: Turns) -> None:
        turn = 0
        while self.endless is None and (turn < loop.turns if loop.flag is None else self._is_set(loop.flag)):
            if turn == loop.turns:
                self.endless = loop
                return
            turns[loop] = turn
            self._run(loop.body, turns)
            turn += 1

    def _is_set(self, flag: Flag) -> bool:
        word = self._word[:1].view(np.uint8)[: flag.size]
        wait_for = None if self._in_order or self.last is None else [self.last]
        cl.enqueue_copy(self._queue, word, flag.buffer.memory, src_offset=flag.offset, wait_for=wait_for)
        return bool(word.any())
