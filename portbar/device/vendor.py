"""A vendor's own answer to "how many work-groups run at once?", where a driver has such a query.

No launch relies on it: the survey shows it beside what discovery found.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyopencl as cl

_EXTENSION: Final = "cl_intel_concurrent_dispatch"
_QUERY: Final = b"clGetKernelMaxConcurrentWorkGroupCountINTEL"


@cache
def loader() -> Any:
    """The OpenCL loader that PyOpenCL has loaded into this process: another one would load every driver again."""
    # Looked up in a library, names are found in those that it was linked with, too; not so on Windows.
    name = "OpenCL" if sys.platform == "win32" else importlib.import_module("pyopencl._cl").__file__
    try:
        library = ctypes.CDLL(name)
        library.clGetExtensionFunctionAddressForPlatform  # noqa: B018 (looked up, or AttributeError)
    except (OSError, AttributeError):
        return None
    return library


def address_of(platform: int, function: bytes) -> int | None:
    """The address of an extension's function of a platform, which is a handle; None where there is none."""
    library = loader()
    if library is None:
        return None
    lookup = library.clGetExtensionFunctionAddressForPlatform
    lookup.restype, lookup.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]
    address: int | None = lookup(platform, function)
    return address


@cache
def _query(platform: int) -> Callable[..., int] | None:
    address = address_of(platform, _QUERY)
    if not address:
        return None
    size_p = ctypes.POINTER(ctypes.c_size_t)
    prototype: Any = ctypes.CFUNCTYPE(
        ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32, size_p, size_p, size_p
    )
    function: Callable[..., int] = prototype(address)
    return function


def vendor_bound(queue: cl.CommandQueue, kernel: cl.Kernel, local_size: Sequence[int]) -> int | None:
    """Work-groups that the driver says it runs at once, by cl_intel_concurrent_dispatch; None without that extension.

    Some drivers need the kernel's arguments set.
    """
    device = queue.device
    if _EXTENSION not in device.extensions.split():
        return None
    function = _query(device.platform.int_ptr)
    if function is None:
        return None
    dims = len(local_size)
    offset, local = (ctypes.c_size_t * dims)(), (ctypes.c_size_t * dims)(*local_size)
    answer = ctypes.c_size_t()
    status = function(queue.int_ptr, kernel.int_ptr, dims, offset, local, ctypes.byref(answer))
    return int(answer.value) if status == 0 and answer.value > 0 else None
