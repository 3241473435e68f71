"""Plans of launches, which a kernel keeps so that the next launch of the same shape is cheap.

Not for making a plan (`portbar.launching.kernel`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyopencl as cl

    from portbar.launching.handle import TypedKernel
    from portbar.launching.sizes import Size
    from portbar.launching.state import QueueState


@dataclass(frozen=True)
class Signature:
    """The work that an argument list needs at each launch: the positions of arrays and of local memory."""

    arrays: tuple[int, ...]
    locals: tuple[int, ...]
    memories: tuple[int, ...]
    #: Places that may hold a pointer to shared virtual memory, which an array may lie in, too.
    pointers: tuple[int, ...]

    @property
    def is_simple(self) -> bool:
        """Whether all arguments are buffers and scalars, so that their types and the sizes determine the plan."""
        return not (self.arrays or self.locals or self.pointers)


@dataclass(slots=True)
class Plan:
    """Everything about a launch that depends on queue, sizes and local memory only."""

    queue: cl.CommandQueue
    handle: TypedKernel
    label: tuple[str, str]
    global_size: Size
    local_size: Size | None
    groups: int
    flags: int
    #: The hidden launch argument, an OpenCL uint4; None without a grid.
    words: memoryview | None
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
