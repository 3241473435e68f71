"""The device's own sub-groups."""

from __future__ import annotations

from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings
from portbar.primitives.reduction.selection import Lanes


def _judge(_facts: DeviceFacts, findings: Findings | None, std: str | None) -> tuple[bool, str]:
    if findings is None or not findings.builds.get("sub_groups"):
        return False, "no probe has compiled sub_group_reduce_add here"
    if std is None:
        return False, "sub-groups need -cl-std=CL2.0 or later, which the atomics of this device do not use"
    return True, "the device has sub-groups with reductions"


VARIANT = Lanes(
    "sub_group",
    20,
    "devices with `sub_group_reduce_add`, in OpenCL C 2.0 or later: their own sub-groups and functions; one work-item "
    "combines the sub-groups' values; `work_group_reduce_add` and similar functions if available",
    "reduction/lanes/sub_group.mako",
    _judge,
    takes=lambda _: False,
    is_virtual=False,
    joins_sub_groups=True,
    has_built_ins=True,
)
