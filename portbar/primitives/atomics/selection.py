"""Chooses how atomics are done on a device, and says what they offer there."""

from __future__ import annotations

from typing import Final

from portbar.backends.backend import BACKENDS, REFUTED
from portbar.backends.selection import backend_of
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings
from portbar.errors import UnsupportedFeatureError
from portbar.primitives.atomics_table import ALWAYS, TYPES, AtomicsTable, lacks_svm
from portbar.primitives.strategy import Choice

#: Float type -> address space -> the compile probe of a native addition.
NATIVE_ADD_PROBES: Final = {
    "float": {"global": "float_atomics", "local": "float_atomics_local"},
    "double": {"global": "double_atomics", "local": "double_atomics_local"},
}


def select(facts: DeviceFacts, findings: Findings | None, wanted: str | None, ordering: str) -> tuple[Choice, str]:
    """The atomics strategy, and why it orders memory within a work-group only; empty where it does throughout the device."""
    if wanted is not None:
        allowed, reason = BACKENDS[wanted].judge(facts, findings)
        if not allowed:
            raise UnsupportedFeatureError(f"{facts.name}: atomics strategy {wanted} was requested, but {reason}")
        return Choice(wanted, f"requested; {reason}"), ""
    refused: list[str] = []
    for name, variant in BACKENDS.items():
        allowed, reason = variant.judge(facts, findings)
        if allowed:
            refuted = [why for why in refused if REFUTED in why]
            return Choice(name, "; ".join([reason, *refuted])), ""
        refused.append(f"{name}: {reason}")
    for name, variant in BACKENDS.items():
        broken = findings is not None and findings.litmus.get(name, "").startswith("fail")
        if ordering == "work_group" and variant.within_groups and not broken and not variant.lack(facts, findings):
            # Relaxed atomics hold at every scope, and its fences within a work-group.
            within = f"on {facts.name}, memory order between work-groups is not known to hold"
            return Choice(name, f"{within}, only within a work-group, by OpenCL 1.2 fences"), within
    raise UnsupportedFeatureError(
        f"{facts.name}: no atomics strategy is known to order memory between work-groups on this device ("
        + "; ".join(refused)
        + ")."
        + (" Run `portbar survey` once, so that the ordering probe can decide" if findings is None else "")
    )


def atomics_table(facts: DeviceFacts, findings: Findings | None, atomics: str, *, ordering: str = "") -> AtomicsTable:
    """The features of one atomics strategy on a device; compile probes win over what the device reports.

    `ordering` says why memory is ordered within a work-group only; empty where it is ordered throughout the device.
    """
    variant = backend_of(atomics, facts, findings)
    builds = findings.builds if findings is not None else {}

    def has(probe: str, *, reported: bool | None) -> bool:
        return bool(builds.get(probe, reported))

    int64, fp64 = has("int64_atomics", reported=facts.int64_atomics), has("fp64", reported=facts.fp64)
    # NVIDIA computes with half but lacks the extension, and with it what turns one into bits.
    fp16 = bool(facts.fp16) and has("fp16", reported=True)
    types = set(ALWAYS)
    refused: dict[str, str] = {}
    lacks_int64 = (
        f"64-bit atomics need cl_khr_int64_base_atomics and cl_khr_int64_extended_atomics, which {facts.name or 'the device'} "
        "lacks; use a 32-bit type"
    )
    if int64:
        types |= {"long", "ulong"}
    else:
        refused |= {"long": lacks_int64, "ulong": lacks_int64}
    if int64 and fp64:
        types.add("double")
    elif fp64:
        refused["double"] = lacks_int64
    if fp16:
        types.add("half")
    else:
        refused["half"] = f"half needs cl_khr_fp16, which {facts.name or 'the device'} lacks; use float"

    scopes = ["sub_group", "work_group", "device"]
    if _shares_with_host(facts):
        scopes.append("all_svm_devices")
    else:
        refused["all_svm_devices"] = lacks_svm(facts.name or "the device")
    if ordering:
        refused["ordering"] = ordering
    if lacks_seq_cst := variant.lacks_seq_cst(facts, findings):
        refused["seq_cst"] = lacks_seq_cst
    spaces = ["global", "local"]
    if variant.generic_pointers and builds.get("generic_address_space"):
        spaces.append("generic")
    return AtomicsTable(
        types=tuple(kind.name for kind in TYPES if kind.name in types),
        spaces=tuple(spaces),
        scopes=tuple(scopes),
        native_add=frozenset(
            (kind, space)
            for kind, probes in NATIVE_ADD_PROBES.items()
            for space, probe in probes.items()
            if kind in types and variant.adds(kind, probe, facts, findings)
        ),
        refused=refused,
    )


def _shares_with_host(facts: DeviceFacts) -> bool:
    """Whether atomics reach the host and other devices."""
    shared = "atomics" in (facts.svm_capabilities or ())
    claimed = facts.atomic_memory_capabilities
    return shared and (claimed is None or "scope_all_devices" in claimed)
