"""A kernel's registers and spills on an NVIDIA device, as its compiler reports them, and the work-groups that they allow.

For comparison with `portbar.launching.occupancy`, which measures.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from portbar.device.facts import DeviceFacts

#: The option with which NVIDIA's compiler reports a kernel's resources in the build log.
VERBOSE: Final = "-cl-nv-verbose"
#: The option of its assembler that limits the registers per work-item.
MOST_REGISTERS: Final = "-cl-nv-maxrregcount"

_WARP: Final = 32
_REGISTERS: Final = 65536
#: Registers are handed out to a warp in such pieces, and warps live in four parts of a multiprocessor.
_REGISTER_PIECE: Final = 256
_PARTS: Final = 4
_LOCAL_PIECE: Final = 128


@dataclass(frozen=True)
class _Multiprocessor:
    """Most warps and work-groups at once, bytes of local memory, and bytes that each work-group costs beside its own."""

    warps: int
    groups: int
    local_bytes: int
    reserved: int


#: By compute capability times ten; source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
_MULTIPROCESSORS: Final = {
    60: _Multiprocessor(64, 32, 65536, 0),
    61: _Multiprocessor(64, 32, 98304, 0),
    70: _Multiprocessor(64, 32, 98304, 0),
    75: _Multiprocessor(32, 16, 65536, 0),
    80: _Multiprocessor(64, 32, 167936, 1024),
    86: _Multiprocessor(48, 16, 102400, 1024),
    89: _Multiprocessor(48, 24, 102400, 1024),
    90: _Multiprocessor(64, 32, 233472, 1024),
    100: _Multiprocessor(64, 32, 233472, 1024),
}


@dataclass(frozen=True)
class Resources:
    """A kernel's resources, as its build log reports them.

    Attributes
    ----------
    registers : int
        Of 32 bits, for each work-item.
    stack_bytes, spill_store_bytes, spill_load_bytes : int
        For each work-item; spills are registers that went to memory.
    """

    registers: int
    stack_bytes: int = 0
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0


def resources_in(log: str, kernel: str) -> Resources | None:
    """Read what a build log with `VERBOSE` says of one kernel; None where it says nothing."""
    entry = "Compiling entry function '"
    text = log.partition(f"{entry}{kernel}'")[2].partition(entry)[0]
    used = re.search(r"Used (\d+) registers", text)
    if used is None:
        return None
    frame = re.search(
        rf"Function properties for {re.escape(kernel)}\s.*?(\d+) bytes stack frame, (\d+) bytes spill stores, "
        r"(\d+) bytes spill loads",
        text,
        re.DOTALL,
    )
    return Resources(int(used[1]), *(map(int, frame.groups()) if frame else ()))


def computed_bound(facts: DeviceFacts, resources: Resources, local_size: int, local_bytes: int) -> int | None:
    """Work-groups that an NVIDIA device should hold at once, None where its limits are not known here.

    `local_size` is in work-items, and `local_bytes` the local memory of a work-group, the kernel's own and its arguments'.
    """
    limits = _MULTIPROCESSORS.get(facts.compute_capability)
    if limits is None or not facts.compute_units:
        return None
    warps = math.ceil(local_size / _WARP)
    of_warp = math.ceil(resources.registers * _WARP / _REGISTER_PIECE) * _REGISTER_PIECE
    by_registers = _REGISTERS // of_warp // _PARTS * _PARTS // warps if of_warp else limits.groups
    taken = math.ceil((local_bytes + limits.reserved) / _LOCAL_PIECE) * _LOCAL_PIECE
    by_local = limits.local_bytes // taken if taken else limits.groups
    return facts.compute_units * min(limits.groups, limits.warps // warps, by_registers, by_local)
