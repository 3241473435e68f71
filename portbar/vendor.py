"""A vendor's own answer to "how many work-groups run at once?", where a driver has such a query.

Not relied on for any launch: the survey shows it beside what discovery found.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import pyopencl as cl

_QUERY: Final = b"clGetKernelMaxConcurrentWorkGroupCountINTEL"


@cache
def _loader() -> ctypes.CDLL | None:
    """The OpenCL loader that PyOpenCL has loaded into this process: asking another one would load every driver twice."""
    maps = Path("/proc/self/maps")
    if maps.exists():
        for path in re.findall(r"\S*/libOpenCL[^/\s]*\.so\S*", maps.read_text(encoding="utf-8", errors="replace")):
            return ctypes.CDLL(path)
    name = ctypes.util.find_library("OpenCL")
    return ctypes.CDLL(name) if name else None


@cache
def _query(platform: int) -> Callable[..., int] | None:
    loader = _loader()
    if loader is None:
        return None
    lookup = loader.clGetExtensionFunctionAddressForPlatform
    lookup.restype, lookup.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]
    address = lookup(platform, _QUERY)
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

    Parameters
    ----------
    queue : pyopencl.CommandQueue
    kernel : pyopencl.Kernel
        With its arguments set, as some drivers need them.
    local_size : tuple of int
    """
    if "cl_intel_concurrent_dispatch" not in queue.device.extensions.split():
        return None
    function = _query(queue.device.platform.int_ptr)
    if function is None:
        return None
    dims = len(local_size)
    offset, local = (ctypes.c_size_t * dims)(), (ctypes.c_size_t * dims)(*local_size)
    answer = ctypes.c_size_t()
    status = function(queue.int_ptr, kernel.int_ptr, dims, offset, local, ctypes.byref(answer))
    return int(answer.value) if status == 0 else None
