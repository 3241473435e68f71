"""Atomics by those of OpenCL C 2.0, which devices support in part."""

from __future__ import annotations

from typing import Any, Final

from portbar.backends.backend import Backend
from portbar.device import quirks
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings
from portbar.rendering import Piece


class _C11(Backend):
    def std(self, facts: DeviceFacts, findings: Findings | None) -> str | None:
        builds = findings.builds if findings is not None else {}
        seen = next((std for probe, std in self.probes.items() if builds.get(probe)), None)
        if seen is not None or (findings is not None and not findings.unmeasured):
            return seen
        # The claims of the driver, where no probe has tried them.
        return next(
            (
                std
                for probe, std in self.probes.items()
                if probe not in builds and std and std[2:] in facts.opencl_c_versions
            ),
            None,
        )

    def lack(self, facts: DeviceFacts, findings: Findings | None) -> str:
        return "no -cl-std with C11 atomics compiles" if self.std(facts, findings) is None else ""

    def claimed(self, facts: DeviceFacts) -> bool:
        capabilities = facts.atomic_memory_capabilities
        if capabilities is None:
            # OpenCL 2.x has no such query, since all of it is mandatory there.
            return facts.version.startswith("OpenCL 2.")
        return "acq_rel" in capabilities and "scope_device" in capabilities

    def doubt(self, facts: DeviceFacts) -> str:
        if self.claimed(facts):
            return ""
        # Seen on llvmpipe and with NVIDIA's compiler: messages arrive in order, seq_cst is not kept.
        return "the device does not claim acquire and release at device scope, and no litmus test has shown it (portbar check)"

    def promise(self, facts: DeviceFacts) -> str:
        return "the device claims acquire and release at device scope" if self.claimed(facts) else ""

    def lacks_seq_cst(self, facts: DeviceFacts, findings: Findings | None) -> str:
        claimed = facts.atomic_memory_capabilities
        shown = findings is not None and findings.litmus.get(self.name, "").startswith("pass")
        if shown or claimed is None or "seq_cst" in claimed:
            return ""
        return (
            f"{facts.name or 'the device'} does not claim memory_order_seq_cst, and no litmus tests have shown it; use "
            "memory_order_acq_rel, or run portbar check"
        )

    def adds(self, kind: str, probe: str, facts: DeviceFacts, findings: Findings | None) -> bool:  # noqa: ARG002
        return self.units.adds_floats and findings is not None and findings.builds.get(probe, False)

    @property
    def more_pieces(self) -> list[Piece]:
        return [(self.template, "small_words")] if quirks.LOCAL_ATOMICS_LOSE_STORES in self.effects else []

    @property
    def context(self) -> dict[str, Any]:
        return {"small_word": "portbar_small_word"} if quirks.LOCAL_ATOMICS_LOSE_STORES in self.effects else {}


VARIANT: Final = _C11(
    "c11",
    rank=1,
    summary="the built-in, with a literal order and scope",
    where="`-cl-std=CL3.0` or `CL2.0` with C11 atomics",
    seq_cst="the same",
    template="backend/c11.mako",
    standards=("CL3.0", "CL2.0"),
    polls_acquire=True,
    generic_pointers=True,
)
