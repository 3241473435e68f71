"""Atomics by the PTX memory model, on NVIDIA's GPUs from sm_70 on."""

from __future__ import annotations

from typing import Final

from portbar.backends.ptx_base import Nvidia
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings


class _Ptx(Nvidia):
    def lack(self, facts: DeviceFacts, findings: Findings | None) -> str:
        builds = findings.builds if findings is not None else {}
        return (
            ""
            if builds.get("ptx", facts.compute_capability >= 70)
            else "it requires PTX of compute capability 7.0 or later"
        )

    def promise(self, facts: DeviceFacts) -> str:  # noqa: ARG002
        return "the PTX memory model gives acquire and release at gpu scope"


VARIANT: Final = _Ptx(
    "ptx",
    rank=0,
    summary="one instruction: `ld`, `st` or `atom` with `.relaxed`, `.acquire`, `.release` or `.acq_rel` and `.cta`, `.gpu` or "
    "`.sys`",
    where="NVIDIA from sm_70",
    seq_cst="`fence.sc` before it, as libcu++ does",
    template="backend/ptx.mako",
    small_access=True,
    wraps=True,
    orders_fences=True,
    sleeps=True,
    waits_by_clock=True,
)
