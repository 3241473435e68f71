"""Chooses how each primitive is done on a device, from facts and findings, with the reason in words.

Not for measuring anything, and never from a vendor's name alone.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from portbar.device import quirks
from portbar.device.facts import host_architecture
from portbar.errors import UnsupportedFeatureError
from portbar.findings import barriers as device_barrier
from portbar.findings import matrix
from portbar.findings.findings import Findings
from portbar.primitives.atomics.table import atomics_table
from portbar.primitives.reduction import strategies as reduction_strategies
from portbar.primitives.split_barrier import selection as split_barrier
from portbar.primitives.strategy import Capabilities, Choice, Strategy, Tuning

if TYPE_CHECKING:
    from portbar.device.facts import DeviceFacts

#: Values that each choice may take; also what overrides may ask for.
ALTERNATIVES: Final[dict[str, Collection[str]]] = {
    "atomics": ("c11", "ptx", "membar", "cl12"),
    "discovery": ("packed", "ticket", "spin"),
    "device_barrier": device_barrier.STRATEGIES,
    "split_barrier": split_barrier.VARIANTS,
    "reduction": reduction_strategies.STRATEGIES,
}

#: How the reason of a strategy begins that a measurement has refuted.
_REFUTED: Final = "found:"

#: Seconds after which an atomic wait or a lock gives up, roughly.
_WAIT_S: Final = 5.0

#: Environment variable with overrides: `atomics=c11,device_barrier=tree`.
VARIABLE: Final = "PORTBAR_STRATEGY"


@dataclass(frozen=True)
class DeviceProfile:
    """What is known of a device: facts that it reports, and findings that were measured (None: never probed)."""

    facts: DeviceFacts
    findings: Findings | None = None

    @property
    def loop_limit(self) -> int | None:
        """Iterations in one kernel after which the device ends loops silently; None where no such limit is known."""
        return quirks.loop_limit(self.facts, self.findings.loop_limit if self.findings is not None else None)


def parse_overrides(text: str) -> dict[str, str]:
    """Read `name=value,name=value`.

    Raises
    ------
    UnsupportedFeatureError
        An unknown name or value; the message lists the alternatives.
    """
    overrides: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, value = part.partition("=")
        overrides[name.strip()] = value.strip()
    return _checked(overrides)


def _checked(overrides: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(overrides, Mapping):
        raise UnsupportedFeatureError(
            f"overrides are a mapping of choices, such as {{'device_barrier': 'tree'}}, not {overrides!r}; choices: "
            f"{', '.join(ALTERNATIVES)}"
        )
    for name, value in overrides.items():
        if name not in ALTERNATIVES:
            raise UnsupportedFeatureError(f"no choice is called {name!r}; choices: {', '.join(ALTERNATIVES)}")
        if value not in ALTERNATIVES[name]:
            raise UnsupportedFeatureError(
                f"{value!r} is no strategy for {name}; strategies: {', '.join(ALTERNATIVES[name])}"
            )
    return dict(overrides)


def _claims_device_ordering(facts: DeviceFacts) -> bool:
    capabilities = facts.atomic_memory_capabilities
    if capabilities is None:
        # OpenCL 2.x has no such query, since all of it is mandatory there.
        return facts.version.startswith("OpenCL 2.")
    return "acq_rel" in capabilities and "scope_device" in capabilities


def _lacks_fences(facts: DeviceFacts) -> bool:
    """Whether atomics go without fences on a host's processor that is not known to keep the order of x86."""
    return quirks.has_effect(quirks.FENCES_ARE_BARRIERS, facts) and host_architecture() != "x86_64"


def _std_for_c11(facts: DeviceFacts, findings: Findings | None) -> str | None:
    if findings is not None:
        return next((std for std in ("CL3.0", "CL2.0") if findings.builds.get(f"c11@{std}")), None)
    versions = set(facts.opencl_c_versions)
    return next((f"CL{v}" for v in ("3.0", "2.0") if v in versions), None)


def _is_ptx_capable(facts: DeviceFacts, findings: Findings | None) -> bool:
    if findings is not None and "ptx" in findings.builds:
        return findings.builds["ptx"]
    return facts.compute_capability >= 70


def _judge_atomics(name: str, facts: DeviceFacts, findings: Findings | None) -> tuple[bool, str]:
    """Whether an atomics strategy may be used, and the reason either way."""
    if name == "c11" and _std_for_c11(facts, findings) is None:
        return False, "no -cl-std with C11 atomics compiles"
    if name == "ptx" and not _is_ptx_capable(facts, findings):
        return False, "no PTX of compute capability 7.0 or later"
    if name == "membar" and facts.compute_capability == 0:
        return False, "no PTX"
    if name == "cl12" and findings is not None and not findings.builds.get("cl12", True):
        return False, "OpenCL 1.2 atomics do not compile"
    litmus = findings.litmus.get(name, "") if findings is not None else ""
    if litmus.startswith("fail"):
        return False, f"the litmus tests {_REFUTED} {litmus.partition(': ')[2] or litmus}"
    measured = findings.ordering.get(name) if findings is not None else None
    if name == "c11" and not _claims_device_ordering(facts) and not litmus.startswith("pass"):
        # Seen on llvmpipe and with NVIDIA's compiler: messages arrive in order, seq_cst is not kept.
        return (
            False,
            "acquire and release at device scope are not claimed by the device, nor shown by litmus tests (portbar check)",
        )
    if name == "cl12" and _lacks_fences(facts) and not litmus.startswith("pass"):
        # Only a processor that keeps loads and stores in order is right without fences.
        return (
            False,
            "no fences can be issued on it, which only litmus tests on this machine could justify (portbar check)",
        )
    if measured == "pass":
        claim = "claimed by the device and " if name == "c11" and _claims_device_ordering(facts) else ""
        tested = " and by the litmus tests" if litmus.startswith("pass") else ""
        return True, f"device-scope ordering {claim}confirmed by the ordering probe{tested}"
    if measured is not None and not measured.startswith("untested"):
        return False, f"the ordering probe {_REFUTED} {measured}"
    if name == "ptx":
        return True, "the PTX memory model gives acquire and release at gpu scope; not yet probed here"
    if name == "c11" and _claims_device_ordering(facts):
        return True, "the device claims acquire and release at device scope; not yet probed here"
    return False, "not confirmed by the ordering probe (run portbar survey, or portbar.probe(device))"


def _choose_atomics(
    facts: DeviceFacts, findings: Findings | None, wanted: str | None, ordering: str
) -> tuple[Choice, str]:
    """The atomics strategy, and why it orders memory within a work-group only; empty where it does throughout the device."""
    if wanted is not None:
        allowed, reason = _judge_atomics(wanted, facts, findings)
        if not allowed:
            raise UnsupportedFeatureError(f"{facts.name}: atomics strategy {wanted} was asked for, but {reason}")
        return Choice(wanted, f"asked for; {reason}"), ""
    refused: list[str] = []
    for name in ("ptx", "c11", "membar", "cl12"):
        allowed, reason = _judge_atomics(name, facts, findings)
        if allowed:
            refuted = [why for why in refused if _REFUTED in why]
            return Choice(name, "; ".join([reason, *refuted])), ""
        refused.append(f"{name}: {reason}")
    builds = findings is None or findings.builds.get("cl12", True)
    broken = findings is not None and findings.litmus.get("cl12", "").startswith("fail")
    if ordering == "work_group" and builds and not broken:
        # Relaxed atomics hold at every scope, and OpenCL 1.2's fences within a work-group.
        within = f"on {facts.name} memory order is not known to hold between work-groups"
        return Choice("cl12", f"{within}, only within one, by OpenCL 1.2's fences"), within
    raise UnsupportedFeatureError(
        f"{facts.name}: no way to order memory between work-groups is known to hold on this device ("
        + "; ".join(refused)
        + ")."
        + (" Run `portbar survey` once, so that the ordering probe can decide" if findings is None else "")
    )


def _pause(atomics: Choice, findings: Findings | None) -> str:
    if atomics.value == "ptx":
        return "nanosleep"
    # Findings may come from another machine, by the vendor matrix; inline assembly must suit this one.
    if findings is not None and findings.builds.get("x86_pause") and platform.machine() in {"x86_64", "AMD64"}:
        return "x86_pause"
    return "none"


def _tuning(facts: DeviceFacts, findings: Findings | None, atomics: str) -> Tuning:
    """Measured choices and numbers for barriers: this device's own where it was measured, else those of the most alike one."""
    findings = findings or Findings()
    borrowed = matrix.record_named(findings.source)
    origin = f"on such a device ({borrowed})" if borrowed else "on this device"
    table, waits, waits_origin = findings.barrier_table, findings.tuning, origin if findings.tuning else ""
    lender = matrix.neighbour(facts) if atomics == "ptx" and (waits is None or not table) else None
    if lender is not None:
        name, other, lent = lender
        same = other.name == facts.name
        who = f"on {'such a' if same else 'a similar'} device ({other.name}, {matrix.SOURCE}{name})"
        if waits is None:
            waits, waits_origin = lent.tuning, who
        # Which algorithm is fastest depends on how many work-groups fill the device.
        sizes = [(one.compute_capability, one.compute_units) for one in (facts, other)]
        if not table and sizes[0] == sizes[1]:
            table, origin = lent.barrier_table, who
    numbers = vars(waits) if waits is not None and atomics == "ptx" else {}
    return Tuning(**numbers, table=table, origin=origin, waits_origin=waits_origin if numbers else "")


def has_one_way_fences(atomics: str, builds: Mapping[str, bool]) -> bool:
    """Whether fences that only acquire or only release are available to this atomics strategy."""
    return atomics == "ptx" and builds.get("one_way_fences", False)


def polls_acquire(facts: DeviceFacts, atomics: str) -> bool:
    """Whether waits poll by acquire loads, which are plain loads where work-groups are threads of the host."""
    return "CPU" in facts.type and atomics == "c11"


def _wait_polls(facts: DeviceFacts, findings: Findings | None) -> int:
    """Polls that take some seconds."""
    assumed = 2e8 if "CPU" in facts.type else 3e6
    rate = (findings.polls_per_second if findings is not None else None) or assumed
    return max(1 << 16, min(0x7FFF_FFFF, int(_WAIT_S * rate)))


def _yield_by(findings: Findings | None) -> str:
    """A call that was seen to work on this device, never one that only should."""
    builds = findings.builds if findings is not None else {}
    # As above, and the number of a system call is Linux's.
    linux = sys.platform == "linux" and platform.machine() == "x86_64"
    return "syscall" if linux and builds.get("yield_syscall") else "none"


def _asm_anywhere(findings: Findings | None) -> bool:
    return findings is not None and bool(findings.builds.get("asm_anywhere"))


def choose(
    profile: DeviceProfile,
    overrides: Mapping[str, str] | None = None,
    *,
    ordering: str = "device",
    debug: bool = False,
) -> Strategy:
    """Choose a strategy for a device.

    Parameters
    ----------
    profile : DeviceProfile
        From `portbar.describe`.
    overrides : mapping of str to str, optional
        Choices made by the caller, such as ``{"device_barrier": "tree"}``. They win over the environment variable
        `PORTBAR_STRATEGY`, which wins over what portbar would choose.
    ordering : {"device", "work_group"}
        How far memory order must hold. Programs that include nothing but `portbar/atomics.h` are content with a work-group;
        wider orders are then refused when they are compiled.
    debug : bool
        Look for misuse on the device, which costs time.

    Raises
    ------
    UnsupportedFeatureError
        No atomics strategy is known to order memory between work-groups, or an override names what the device cannot do.
    """
    facts, findings = profile.facts, profile.findings
    try:
        asked = parse_overrides(os.environ.get(VARIABLE, ""))
    except UnsupportedFeatureError as error:
        raise UnsupportedFeatureError(f"the environment variable {VARIABLE}={os.environ[VARIABLE]}: {error}") from None
    asked.update(_checked(overrides or {}))

    atomics, within = _choose_atomics(facts, findings, asked.get("atomics"), ordering)
    borrowed = matrix.record_named(findings.source) if findings is not None else ""
    if borrowed and findings is not None and findings.source.startswith(borrowed):
        atomics = replace(atomics, reason=f"{atomics.reason}; by {findings.source}")
    if "discovery" in asked:
        discovery = Choice(asked["discovery"], "asked for")
    else:
        discovery = Choice("packed", "lock-free, one atomic a group; needs nothing but 32-bit atomics")

    branches_abort = quirks.has_effect(quirks.BRANCHES_ABORT, facts)
    tuning = _tuning(facts, findings, atomics.value)
    if "device_barrier" in asked:
        barrier, tuning = Choice(asked["device_barrier"], "asked for"), replace(tuning, table=())
        if barrier.value == "intel_device_barrier" and "cl_intel_concurrent_dispatch" not in facts.extensions:
            raise UnsupportedFeatureError(
                f"{facts.name}: intel_device_barrier was asked for, but the device has no cl_intel_concurrent_dispatch"
            )
        if barrier.value == "xf" and branches_abort:
            raise UnsupportedFeatureError(
                f"{facts.name}: xf was asked for, but this runtime cannot compile it rightly; use another device_barrier"
            )
    else:
        # Which group counts the table is about is only known when it has been looked into, by `for_groups`.
        why = (
            "the measured table of the device names no other"
            if tuning.table
            else "no barrier table was kept for this device"
        )
        barrier = Choice("counter", f"the fewest steps; {why}")

    split, split_reason = split_barrier.select(facts, findings, asked.get("split_barrier"), debug=debug)
    max_groups, why = None, ""
    if profile.loop_limit is not None:
        max_groups = 1
        why = (
            f"the device ends loops silently after {profile.loop_limit} iterations, so a wait could end early: "
            "grids have one work-group"
        )
    elif findings is not None and not findings.loops_run_whole:
        max_groups = 1
        why = (
            "whether the device runs loops to their end is not known, so a wait could end early: grids have one work-group "
            f"until a probe can tell (the last one: {findings.lost['loop_limit']}); portbar.probe(device) measures again"
        )
    std = _std_for_c11(facts, findings) if atomics.value == "c11" else None
    capabilities = Capabilities(
        std=std,
        pause=_pause(atomics, findings),
        yield_by=_yield_by(findings),
        acquire_polls=polls_acquire(facts, atomics.value),
        tests_are_rounds="CPU" in facts.type and profile.loop_limit is None,
        one_way_fences=has_one_way_fences(
            atomics.value, findings.builds if findings is not None else matrix.builds_alike(facts)
        ),
        compute_capability=facts.compute_capability,
        prints=(findings is None or findings.builds.get("printf", True)) and not branches_abort,
        asm_anywhere=_asm_anywhere(findings),
        wait_polls=_wait_polls(facts, findings),
        split_features=split_barrier.VARIANTS[split].features(findings),
        atomics_table=atomics_table(facts, findings, atomics.value, ordering=within),
        reduction_means=reduction_strategies.means_of(facts, findings, std, profile.loop_limit),
    )
    strategy = Strategy(
        atomics=atomics,
        discovery=discovery,
        device_barrier=barrier,
        max_groups=max_groups,
        max_groups_reason=why,
        split_barrier=Choice(split, split_reason),
        reduction=Choice(*reduction_strategies.select(facts, findings, std, asked.get("reduction"))),
        capabilities=capabilities,
        tuning=tuning,
        workarounds=frozenset(quirk.effect for quirk in quirks.matching(facts) if quirk.effect),
        debug=debug,
    )
    # A launch may have other counts; this one is built first, since most launches fill the device.
    usual = (findings.groups_in_flight if findings is not None else None) or facts.compute_units or 1
    return strategy if "device_barrier" in asked else strategy.for_groups(usual)
