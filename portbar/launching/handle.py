"""Kernel objects of PyOpenCL that know the types of their arguments.

Not for choosing which kernel object a launch takes (`portbar.launching.kernel`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyopencl as cl

if TYPE_CHECKING:
    import numpy as np


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

    def declare(self, types: Sequence[np.dtype[Any] | None]) -> None:
        """Declare the types of all arguments: a scalar's, raw bytes, or None for what PyOpenCL must look at itself.

        That makes a launch ten times cheaper than letting PyOpenCL find out what each argument is.
        """
        self.set_arg_types(types)
