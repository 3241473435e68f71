"""Flags in and out for each work-group."""

from __future__ import annotations

from typing import Final

from portbar.device import quirks
from portbar.device.facts import DeviceFacts
from portbar.primitives.grid import BarrierAlgorithm

_TEMPLATE: Final = "device_barrier/xf.mako"


def _lacks(facts: DeviceFacts) -> str | None:
    if quirks.has_effect(quirks.BRANCHES_ABORT, facts):
        return "this runtime does not compile it correctly; use another device_barrier"
    return None


VARIANT: Final = BarrierAlgorithm(
    "xf",
    6,
    "one flag in and one out for each group, no read-modify-write; the work-items of group 0 gather and release. Xiao and "
    'Feng, "Inter-block GPU communication via fast barrier synchronization" (IPDPS 2010), with the memory orders of Sorensen '
    "et al. (OOPSLA 2016)",
    loses="small local sizes: few work-items poll many flags; three `barrier()` calls instead of two",
    lacks=_lacks,
    pieces=lambda _: [(_TEMPLATE, "wait_stamp"), (_TEMPLATE, "device_barrier")],
)
