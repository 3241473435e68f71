"""The environment of a survey: operating system, interpreter, packages and the OpenCL loader; the machine, not its owner."""

from __future__ import annotations

import ctypes
import platform
from importlib import import_module, metadata
from typing import Any, Final

import numpy as np

from portbar.device import vendor
from portbar.device.facts import scheduling_variables
from portbar.records.plain import plain_text

#: The query of the OpenCL loaders themselves, and what it is asked for: their version, name and vendor.
_QUERY: Final = b"clGetICDLoaderInfoOCLICD"
_VERSION, _NAME, _VENDOR = 2, 3, 4
_LONGEST: Final = 256

#: Packages that texts for devices depend on.
_PACKAGES: Final = ("libclang", "mako")


def environment() -> dict[str, Any]:
    """The machine as JSON values: no host name, no user name, no path."""
    return {
        "system": platform.system(),
        # Without the name that a distribution or a site gave to its kernel.
        "release": platform.release().partition("-")[0],
        "machine": platform.machine(),
        "python": platform.python_version(),
        "pyopencl": import_module("pyopencl").VERSION_TEXT,
        "numpy": np.__version__,
        "loader": loader(),
        "packages": {name: version(name) for name in _PACKAGES if version(name) is not None},
        "variables": {name: plain_text(value, 100) for name, value in scheduling_variables().items()},
    }


def version(package: str) -> str | None:
    """Return the version of an installed package; None where it is not installed, as libclang on some processors."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def loader() -> dict[str, str] | None:
    """Name and version of the OpenCL loader that PyOpenCL has loaded, or None where it has no such query."""
    library = vendor.loader()
    if library is None:
        return None
    lookup = getattr(library, "clGetExtensionFunctionAddress", None)
    if lookup is None:
        return None
    lookup.restype, lookup.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
    address = lookup(_QUERY)
    if not address:
        return None
    prototype: Any = ctypes.CFUNCTYPE(
        ctypes.c_int32, ctypes.c_uint32, ctypes.c_size_t, ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)
    )
    query = prototype(address)

    def asked(what: int) -> str:
        text = ctypes.create_string_buffer(_LONGEST)
        failed = query(what, _LONGEST, text, None)
        return "" if failed else text.value.decode(errors="replace").strip()

    name, maker, release = asked(_NAME), asked(_VENDOR), asked(_VERSION)
    if not (name and release):
        return None
    return {"name": name if not maker or maker in name else f"{name} ({maker})", "version": release}
