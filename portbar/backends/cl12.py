"""Atomics by those of OpenCL 1.2, which are relaxed, and fences."""

from __future__ import annotations

from typing import Final

from portbar.backends.backend import Backend
from portbar.device import quirks
from portbar.device.facts import DeviceFacts, host_architecture
from portbar.device.findings import Findings


class _Cl12(Backend):
    def lack(self, facts: DeviceFacts, findings: Findings | None) -> str:  # noqa: ARG002
        builds = findings is None or findings.builds.get("cl12", True)
        return "" if builds else "OpenCL 1.2 atomics do not compile"

    def doubt(self, facts: DeviceFacts) -> str:
        in_order = host_architecture() == "x86_64" and not facts.emulator
        if in_order or not quirks.has_effect(quirks.FENCES_ARE_BARRIERS, facts):
            return ""
        # Only a processor that keeps loads and stores in order is right without fences.
        return "the device supports no fences, so only litmus tests on this machine could justify it (portbar check)"


VARIANT: Final = _Cl12(
    "cl12",
    rank=3,
    summary="the built-in, with fences before a release and after an acquire; loads are read-modify-writes",
    where="OpenCL 1.2 atomics",
    seq_cst="fences on both sides",
    template="backend/cl12.mako",
    loops_fenced=True,
    loads_write=True,
    within_groups=True,
    before_words=("word_fence",),
)
