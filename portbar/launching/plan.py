"""Plans of launches, which a kernel keeps so that the next launch of the same shape is cheap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pyopencl as cl

from portbar.launching.parameters import Hidden
from portbar.launching.state import QueueState


class TypedKernel(cl.Kernel):
    """A kernel object, and the function that PyOpenCL generates for the types of its arguments.

    A call of the object does nothing but call that function, which takes 20% of the time of a launch.
    """

    _generated: Callable[..., cl.Event] | None = None

    def _set_enqueue_and_set_args(self, enqueue: Callable[..., cl.Event], set_args: Callable[..., None]) -> None:
        """Take over what PyOpenCL generates; where some version of it has no such method, the call of the object serves."""
        self._generated = enqueue
        super()._set_enqueue_and_set_args(enqueue, set_args)  # type: ignore[misc]

    @property
    def enqueue(self) -> Callable[..., cl.Event]:
        """The function that sets all arguments and enqueues: of the kernel, a queue, the sizes and the arguments."""
        return self._generated or cl.Kernel.__call__


@dataclass(slots=True)
class Plan:
    """Everything about a launch that depends on queue, sizes and local memory only."""

    queue: cl.CommandQueue
    handle: TypedKernel
    #: The names of the kernel and the device, for messages.
    label: tuple[str, str]
    hidden: Hidden | None
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None
    #: Launched work-groups, 0 where they are not counted.
    groups: int = 0
    #: The hidden launch argument, an OpenCL uint4; None without a grid.
    words: memoryview | None = None
    flags: int = 0
    state: QueueState | None = None
    #: Patience with the device to itself, and beside a launch in another queue; None where that makes no difference.
    patience: tuple[int, int] | None = None
    #: Whether another launch may go by it; not where the occupancy is to be measured again.
    lasting: bool = True
    #: Sets all arguments and enqueues, given the queue and the sizes, or with these bound.
    enqueue: Callable[..., cl.Event] = field(init=False)
    call: Callable[..., cl.Event] = field(init=False)

    def __post_init__(self) -> None:
        """Bind what each launch passes."""
        self.enqueue = self.handle.enqueue
        self.call = partial(self.enqueue, self.handle, self.queue, self.global_size, self.local_size)
