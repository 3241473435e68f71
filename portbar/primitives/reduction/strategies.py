"""How lanes of a sub-group combine their values on a device, and what the device gives reductions.

Not for the functions themselves (the templates in `cl_templates/reduction`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from portbar.device import quirks
from portbar.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    from portbar.device.facts import DeviceFacts
    from portbar.findings.findings import Findings

STRATEGIES: Final = ("sub_group", "shuffle", "tree")

#: Most work-items of a group for which scratch memory is laid out unless the author says otherwise.
USUAL_LOCAL_SIZE: Final = 1024


@dataclass(frozen=True)
class Means:
    """What reductions have on a device.

    Attributes
    ----------
    folds : bool
        Whether a work-group is a loop of one thread, so that one work-item that combines all values costs no more than many do.
    collectives : bool
        Whether the device has `work_group_reduce_add`.
    local_memory : int
        Bytes of local memory.
    local_size : int
        Most work-items of a work-group.
    inlines : bool
        Whether functions that return structures may be inlined; from the quirk table.
    """

    folds: bool = False
    collectives: bool = False
    local_memory: int = 32768
    local_size: int = 1024
    inlines: bool = True


def means_of(facts: DeviceFacts, findings: Findings | None, std: str | None, loop_limit: int | None) -> Means:
    """What reductions have on a device, whose programs are built with `-cl-std` `std` (None: the driver's default)."""
    builds = findings.builds if findings is not None else {}
    # Folding takes one iteration a value, of which some devices have few.
    return Means(
        folds="CPU" in facts.type and loop_limit is None,
        collectives=std is not None and bool(builds.get("work_group_collectives")),
        local_memory=facts.local_mem_size or 32768,
        local_size=facts.max_work_group_size or USUAL_LOCAL_SIZE,
        inlines=not quirks.has_effect(quirks.INLINED_STRUCTURES_UNKNOWN, facts),
    )


def judge(name: str, facts: DeviceFacts, findings: Findings | None, std: str | None) -> tuple[bool, str]:
    """Whether a device can have a strategy, and the reason either way."""
    if name == "shuffle":
        if facts.compute_capability == 0:
            return False, "no PTX"
        return True, "NVIDIA's warps exchange values by shfl.sync"
    if name == "sub_group":
        if findings is None or not findings.builds.get("sub_groups"):
            return False, "no probe has compiled sub_group_reduce_add here"
        if std is None:
            return False, "sub-groups need -cl-std=CL2.0 or later, which the atomics of this device go without"
        return True, "the device has sub-groups with reductions"
    return True, "local memory and barriers, which every device has"


def select(
    facts: DeviceFacts, findings: Findings | None, std: str | None, wanted: str | None = None
) -> tuple[str, str]:
    """The strategy for a device, and the reason.

    Raises
    ------
    UnsupportedFeatureError
        The one that is wanted cannot be had.
    """
    if wanted is not None:
        allowed, reason = judge(wanted, facts, findings, std)
        if not allowed:
            raise UnsupportedFeatureError(f"{facts.name}: reduction strategy {wanted} was asked for, but {reason}")
        return wanted, f"asked for; {reason}"
    for name in ("shuffle", "sub_group", "tree"):
        allowed, reason = judge(name, facts, findings, std)
        if allowed:
            return name, reason
    raise AssertionError("a tree in local memory is right on every device")
