"""Ways to run a program that launches kernels in loops: by launches of PyOpenCL alone, and recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl

import portbar


class Launches:
    """Launches each kernel when it is called, as a host program would."""

    def __init__(self, queue: cl.CommandQueue) -> None:
        self.queue = queue

    def __call__(self, kernel: cl.Kernel, size: Any, local: Any, *args: Any, offset: Any = None) -> None:
        """Launch a kernel."""
        kernel.set_args(*args)
        cl.enqueue_nd_range_kernel(self.queue, kernel, size, local, offset)

    def loop(self, turns: int, body: Callable[[Any], None]) -> None:
        """Repeat steps."""
        for turn in range(turns):
            body(np.int32(turn))

    def values(self, values: np.ndarray, turn: Any) -> Any:
        """The value of a turn."""
        return values[turn]

    def loop_while(self, flag: cl.Buffer, body: Callable[[Any], None]) -> None:
        """Repeat steps while a flag is set."""
        turn = 0
        while self._is_set(flag):
            body(np.int32(turn))
            turn += 1

    def on(self, flag: cl.Buffer, body: Callable[[], None]) -> None:
        """Run steps if a flag is set."""
        if self._is_set(flag):
            body()

    def fill(self, to: cl.Buffer, value: np.generic) -> None:
        """Fill a buffer."""
        cl.enqueue_fill_buffer(self.queue, to, np.array([value]), 0, to.size)

    def copy(self, to: cl.Buffer, source: cl.Buffer) -> None:
        """Copy a buffer."""
        cl.enqueue_copy(self.queue, to, source)

    def _is_set(self, flag: cl.Buffer) -> bool:
        word = np.zeros(1, np.uint32)
        cl.enqueue_copy(self.queue, word, flag)
        return bool(word[0])


class Recorded:
    """Records each call."""

    def __init__(self, queue: cl.CommandQueue, options: tuple[str, ...]) -> None:
        self.steps = portbar.record(queue, options=options)

    def __call__(self, kernel: cl.Kernel, size: Any, local: Any, *args: Any, offset: Any = None) -> None:
        """Record a launch of a kernel."""
        self.steps(kernel, size, local, *args, global_offset=offset)

    def loop(self, turns: int, body: Callable[[Any], None]) -> None:
        """Repeat steps."""
        with self.steps.repeat(turns) as turn:
            body(turn)

    def values(self, values: np.ndarray, turn: Any) -> Any:
        """The value of a turn."""
        return turn.of(values)

    def loop_while(self, flag: cl.Buffer, body: Callable[[Any], None]) -> None:
        """Repeat steps while a flag is set."""
        with self.steps.while_(flag) as turn:
            body(turn)

    def on(self, flag: cl.Buffer, body: Callable[[], None]) -> None:
        """Run steps if a flag is set."""
        with self.steps.if_(flag):
            body()

    def fill(self, to: cl.Buffer, value: np.generic) -> None:
        """Fill a buffer."""
        self.steps.fill(to, value)

    def copy(self, to: cl.Buffer, source: cl.Buffer) -> None:
        """Copy a buffer."""
        self.steps.copy(to, source)


Do = Launches | Recorded
