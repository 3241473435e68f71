"""The declaration of a lanes variant, the choice for a device, and the device's features for reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from portbar.backends.variants import Variant, Variants, first_allowed
from portbar.device import quirks
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings
from portbar.records.dataclass import dataclass

#: Most work-items of a group for which scratch memory is laid out unless the author says otherwise.
USUAL_LOCAL_SIZE: Final = 1024


@dataclass(frozen=True)
class ReductionCapabilities:
    """The features that a device provides for reductions."""

    #: Whether the device has `work_group_reduce_add`.
    collectives: bool = False
    #: Bytes of local memory.
    local_memory: int = 32768
    #: Maximum work-group size.
    local_size: int = 1024
    #: Whether functions that return structures may be inlined; from the quirk table.
    inlines: bool = True


def capabilities_of(facts: DeviceFacts, findings: Findings | None, std: str | None) -> ReductionCapabilities:
    """Return what a device provides, where programs are built with `-cl-std` `std` (None: the driver's default)."""
    builds = findings.builds if findings is not None else {}
    return ReductionCapabilities(
        collectives=std is not None and bool(builds.get("work_group_collectives")),
        local_memory=facts.local_mem_size or 32768,
        local_size=facts.max_work_group_size or USUAL_LOCAL_SIZE,
        inlines=not quirks.has_effect(quirks.INLINED_STRUCTURES_UNKNOWN, facts),
    )


@dataclass(frozen=True)
class Lanes(Variant):
    """One way to combine the values of a sub-group's lanes, and of a work-group."""

    #: The template whose defs are the bodies of the functions in `cl_templates/reduction/lanes.mako`.
    template: str
    #: Facts, findings and `-cl-std` -> whether a device can have it, and the reason either way.
    judge: Callable[[DeviceFacts, Findings | None, str | None], tuple[bool, str]]
    #: Whether an author may choose this size of sub-groups; `tree` serves other sizes.
    takes: Callable[[int], bool] = lambda _: True
    #: Whether sub-groups of a size must call their functions together, since these have barriers or share what they use.
    meets: Callable[[int], bool] = lambda _: False
    #: Whether sub-groups are consecutive work-items rather than the device's own.
    is_virtual: bool = True
    #: Whether work-groups combine one value of each sub-group, and may leave a function early.
    joins_sub_groups: bool = False
    #: Whether one work-item combines all values, and the device's own functions serve, where the device's say so.
    may_fold: bool = True
    #: Whether the device's functions serve sub-groups, which then need no local memory.
    has_built_ins: bool = False
    #: Local size, size of sub-groups -> values in local memory; None for those of `tree`.
    slots: Callable[[int, int], int] | None = None


VARIANTS: Final[Variants[Lanes]] = Variants("portbar.primitives.reduction.lanes")


def select(
    facts: DeviceFacts, findings: Findings | None, std: str | None, wanted: str | None = None
) -> tuple[str, str]:
    """The strategy for a device, and the reason; `UnsupportedFeatureError` if the device cannot have the wanted one."""
    return first_allowed(VARIANTS, lambda one: one.judge(facts, findings, std), wanted, f"{facts.name}: reduction")
