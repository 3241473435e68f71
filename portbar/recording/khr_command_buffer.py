"""The functions of `cl_khr_command_buffer`, which PyOpenCL does not have, by ctypes.

Of the extension's commands it has launches alone, whose function is the same in all versions of the extension.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import pyopencl as cl

from portbar.device import vendor
from portbar.errors import Error, UnsupportedFeatureError

EXTENSION: Final = "cl_khr_command_buffer"

_POINTER: Final = ctypes.c_void_p
_UINT: Final = ctypes.c_uint
#: Name -> what it returns, and the types of its arguments.
_FUNCTIONS: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "clCreateCommandBufferKHR": (_POINTER, (_UINT, *[_POINTER] * 3)),
    "clCommandNDRangeKernelKHR": (ctypes.c_int, (*[_POINTER] * 4, _UINT, *[_POINTER] * 3, _UINT, *[_POINTER] * 3)),
    "clFinalizeCommandBufferKHR": (ctypes.c_int, (_POINTER,)),
    "clEnqueueCommandBufferKHR": (ctypes.c_int, (_UINT, _POINTER, _POINTER, _UINT, *[_POINTER] * 2)),
    "clReleaseCommandBufferKHR": (ctypes.c_int, (_POINTER,)),
}
#: Of clGetDeviceInfo: bits of what command buffers can, and queue properties that they need.
_CAPABILITIES: Final = 0x12A9
_REQUIRED_PROPERTIES: Final = 0x12AA
_KERNEL_PRINTF: Final = 1 << 0
_SIMULTANEOUS_USE: Final = 1 << 2
#: Of clCreateCommandBufferKHR: the property of flags, and that of enqueueing one again before it is complete.
_FLAGS: Final = 0x1293
_MANY_AT_ONCE: Final = 1 << 0


class _Extension:
    """The extension's functions of one platform, and what its device allows."""

    def __init__(self, device: cl.Device) -> None:
        loader = vendor.loader()
        if loader is None:
            raise UnsupportedFeatureError("OpenCL's loader was not found")
        made: dict[str, Callable[..., Any]] = {}
        for name, (result, arguments) in _FUNCTIONS.items():
            address = vendor.address_of(device.platform.int_ptr, name.encode())
            if not address:
                raise UnsupportedFeatureError(f"{device.name.strip()} lists {EXTENSION}, but has no {name}")
            made[name] = ctypes.CFUNCTYPE(result, *arguments)(address)
        self._made = made
        self.capabilities = _info(loader, device, _CAPABILITIES)
        self.required_properties = _info(loader, device, _REQUIRED_PROPERTIES)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that returns a status; `Error` if it is not success."""
        status = self._made[name](*arguments)
        if status:
            raise Error(f"{name} returned {status}")

    def create(self, queue: cl.CommandQueue) -> tuple[int, bool]:
        """A new command buffer for a queue, and whether it may be enqueued again before it is complete."""
        status, can_repeat = ctypes.c_int(), bool(self.capabilities & _SIMULTANEOUS_USE)
        properties = (ctypes.c_uint64 * 3)(_FLAGS, _MANY_AT_ONCE, 0) if can_repeat else None
        made = self._made["clCreateCommandBufferKHR"](1, _one(queue.int_ptr), properties, ctypes.byref(status))
        if status.value or not made:
            raise Error(f"clCreateCommandBufferKHR returned {status.value}")
        return int(made), can_repeat


def _info(loader: Any, device: cl.Device, key: int) -> int:
    """A word of clGetDeviceInfo; 0 if the driver does not know the question."""
    ask = loader.clGetDeviceInfo
    ask.restype, ask.argtypes = ctypes.c_int, [_POINTER, _UINT, ctypes.c_size_t, _POINTER, _POINTER]
    value = ctypes.c_uint64()
    return value.value if not ask(device.int_ptr, key, 8, ctypes.byref(value), None) else 0


def _one(pointer: int) -> Any:
    return (ctypes.c_void_p * 1)(pointer)


@cache
def _functions(device: cl.Device) -> _Extension:
    return _Extension(device)


def lack_of(queue: cl.CommandQueue, *, prints: bool) -> str:
    """Why a queue cannot have command buffers of kernels, which may print; empty if it can."""
    device = queue.device
    name = device.name.strip()
    if EXTENSION not in device.extensions.split():
        return f"{name} has no {EXTENSION}"
    try:
        functions = _functions(device)
    except (UnsupportedFeatureError, AttributeError) as error:
        return str(error)
    if functions.required_properties & ~queue.properties:
        return f"command buffers of {name} need a queue with other properties"
    if prints and not functions.capabilities & _KERNEL_PRINTF:
        return f"command buffers of {name} have no printf"
    return ""


class CommandBuffer:
    """Launches that are enqueued as one, each after the one before.

    Parameters
    ----------
    queue : pyopencl.CommandQueue
    """

    def __init__(self, queue: cl.CommandQueue) -> None:
        self._queue = queue
        self._functions = _functions(queue.device)
        self._pointer, self._can_repeat = self._functions.create(queue)
        weakref.finalize(self, _release, self._functions, self._pointer)
        self._last: ctypes.c_uint | None = None
        # Not all drivers keep them.
        self._kernels: list[cl.Kernel] = []
        self._event: cl.Event | None = None

    def add(
        self, kernel: cl.Kernel, size: Sequence[int], local: Sequence[int] | None, offset: Sequence[int] | None
    ) -> None:
        """Add a launch of a kernel with its arguments, which must not be set again.

        PoCL 3.1 replays all launches of a kernel object with the arguments that it was given last.
        """

        def sizes(given: Sequence[int] | None) -> Any:
            return None if given is None else (ctypes.c_size_t * len(given))(*given)

        made = _UINT()
        waits = (0, None) if self._last is None else (1, ctypes.byref(self._last))
        self._functions.call(
            "clCommandNDRangeKernelKHR",
            *(self._pointer, None, None, kernel.int_ptr, len(size), sizes(offset), sizes(size), sizes(local)),
            *(*waits, ctypes.byref(made), None),
        )
        self._last = made
        self._kernels.append(kernel)

    def finish(self) -> None:
        """End the list of launches."""
        self._functions.call("clFinalizeCommandBufferKHR", self._pointer)

    def enqueue(self, wait_for: Sequence[cl.Event] | None) -> cl.Event:
        """Enqueue all launches; the event of their end. Waits for the last time where the device allows one at a time."""
        if self._event is not None and not self._can_repeat:
            self._event.wait()
        waits = [event.int_ptr for event in wait_for or ()]
        found = ctypes.c_void_p()
        self._functions.call(
            "clEnqueueCommandBufferKHR",
            *(1, _one(self._queue.int_ptr), self._pointer),
            *(len(waits), (ctypes.c_void_p * len(waits))(*waits) if waits else None, ctypes.byref(found)),
        )
        event: cl.Event = cl.Event.from_int_ptr(found.value or 0, retain=False)
        self._event = event
        return event


def _release(functions: _Extension, pointer: int) -> None:
    functions.call("clReleaseCommandBufferKHR", pointer)
