"""Causes outside of a driver for which any driver may fail, as its log shows them, and the remedies."""

from __future__ import annotations

import re
from typing import Final

#: If nothing else is known of a fault.
UPDATE: Final = "update the driver, or choose another device"

#: Pattern in a log -> the remedy. The first one that fits counts, so a cause comes before its consequences.
_REMEDIES: Final = (
    (
        r"Too many open files|\bEMFILE\b",
        "raise this user's limit of open files, as by `ulimit -n 4096`",
    ),
    (
        r"No space left on device|Disk quota exceeded|File too large|SIGXFSZ",
        "free disk space, or raise the quota: drivers write compiled kernels to ~/.cache, and other files to the folder TMPDIR",
    ),
    (
        r"Read-only file system|Permission denied",
        "let this user write to the file or folder that the message names, or use the device that it names",
    ),
    (
        (
            r"OUT_OF_HOST_MEMORY|OUT_OF_RESOURCES|MEM_OBJECT_ALLOCATION_FAILURE|bad_alloc|MemoryError|Cannot allocate memory"
            r"|Not enough memory|\bSIGKILL\b"
        ),
        "end other programs that use this device, or raise the limits on memory; if that does not help, update the driver",
    ),
    (
        r"DEVICE_NOT_AVAILABLE",
        "end the program that has this device to itself, or wait for it",
    ),
    (
        r"cannot open shared object file",
        "install the library that the message names",
    ),
)


def remedy(log: str) -> str:
    """Return what helps against the cause that a log shows, or an empty text if it shows none of these."""
    return next((what for pattern, what in _REMEDIES if re.search(pattern, log)), "")
