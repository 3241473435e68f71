"""NVIDIA's warps, whose lanes exchange values by shuffles."""

from __future__ import annotations

from portbar.backends.selection import units_of
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings
from portbar.primitives.reduction.selection import Lanes


def _judge(facts: DeviceFacts, _findings: Findings | None, _std: str | None) -> tuple[bool, str]:
    if "shfl.sync" not in units_of(facts).instructions:
        return False, "no PTX"
    return True, "NVIDIA's warps exchange values by shfl.sync"


VARIANT = Lanes(
    "shuffle",
    10,
    "NVIDIA: sub-groups of 32 lanes, or a smaller power of two; `shfl.sync`, one value per sub-group in local memory, and "
    "the same again",
    "reduction/lanes/shuffle.mako",
    _judge,
    takes=lambda size: size <= 32 and size & (size - 1) == 0,
    # Smaller ones are parts of a warp, whose lanes exchange values together.
    meets=lambda size: 1 < size < 32,
    joins_sub_groups=True,
    may_fold=False,
    slots=lambda local_size, sub_group_size: 2 * (-(-local_size // sub_group_size) + 1),
)
