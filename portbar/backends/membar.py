"""Atomics of NVIDIA's GPUs before sm_70, whose PTX has no memory orders."""

from __future__ import annotations

from typing import Final

from portbar.backends.ptx_base import Nvidia
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings


class _Membar(Nvidia):
    def lack(self, facts: DeviceFacts, findings: Findings | None) -> str:  # noqa: ARG002
        return "" if facts.compute_capability else "no PTX"


VARIANT: Final = _Membar(
    "membar",
    rank=2,
    summary="a relaxed instruction with `membar` before a release and after an acquire",
    where="NVIDIA before sm_70",
    seq_cst="`membar` on both sides",
    template="backend/membar.mako",
    small_access=True,
    wraps=True,
    loops_fenced=True,
)
