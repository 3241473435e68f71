"""Chooses how each primitive is done on a device, from facts and findings, with the reason in words."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from portbar.backends.backend import BACKENDS, Backend
from portbar.backends.profile import DeviceProfile as DeviceProfile  # noqa: PLC0414 (who chooses needs both)
from portbar.backends.units import ComputeUnits
from portbar.device import matrix, quirks
from portbar.device.facts import DeviceFacts
from portbar.device.findings import NOT_BEGUN, BarrierTable, Findings
from portbar.device.tuning import ArrayTuning
from portbar.errors import DeviceError, UnsupportedFeatureError
from portbar.primitives.atomics import selection
from portbar.primitives.grid import BARRIERS, DISCOVERIES
from portbar.primitives.reduction import selection as reductions
from portbar.primitives.split_barrier import selection as split_barrier
from portbar.primitives.strategy import Capabilities, Choice, Strategy, Tuning

#: Values that each choice may take, in order of preference; also what overrides may ask for.
ALTERNATIVES: Final[Mapping[str, Collection[str]]] = {
    "atomics": BACKENDS,
    "discovery": DISCOVERIES,
    "device_barrier": BARRIERS,
    "split_barrier": split_barrier.VARIANTS,
    "reduction": reductions.VARIANTS,
}

#: Seconds after which an atomic wait or a lock gives up, roughly.
_WAIT_S: Final = 5.0

#: Environment variable with overrides: `atomics=c11,device_barrier=tree`.
VARIABLE: Final = "PORTBAR_STRATEGY"

#: Work-items of the work-groups that most launches have, as far as the choice of a barrier algorithm goes.
USUAL_LOCAL_SIZE: Final = 64


def parse_overrides(text: str) -> dict[str, str]:
    """Read `name=value,name=value`.

    `UnsupportedFeatureError` if a name or a value is unknown; the message lists the alternatives.
    """
    overrides: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, value = part.partition("=")
        overrides[name.strip()] = value.strip()
    return _checked(overrides)


def _checked(overrides: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(overrides, Mapping):
        raise UnsupportedFeatureError(
            f"overrides must be a mapping of choices, such as {{'device_barrier': 'tree'}}, not {overrides!r}; choices: "
            f"{', '.join(ALTERNATIVES)}"
        )
    for name, value in overrides.items():
        if name not in ALTERNATIVES:
            raise UnsupportedFeatureError(f"unknown choice {name!r}; choices: {', '.join(ALTERNATIVES)}")
        if not isinstance(value, str) or value not in ALTERNATIVES[name]:
            raise UnsupportedFeatureError(
                f"{value!r} is not a strategy for {name}; strategies: {', '.join(ALTERNATIVES[name])}"
            )
    return dict(overrides)


def _tuning(facts: DeviceFacts, findings: Findings, atomics: Backend) -> Tuning:
    """Measured choices and numbers: this device's own where it was measured, else those of the most alike one."""
    record = matrix.record_named(findings.source)

    def origin_of(part: str) -> str:
        borrowed = record and (findings.source.startswith(record) or f"{matrix.LENT[part]}{record}" in findings.source)
        return f"on such a device ({record})" if borrowed else "on this device"

    found = {part: getattr(findings, part) for part in matrix.LENT}
    origins = {part: origin_of(part) for part in matrix.LENT}
    lender = None if all(found.values()) else matrix.neighbour(facts)
    if lender is not None:
        name, other, lent = lender
        who = f"on {'such a' if other.name == facts.name else 'a similar'} device ({other.name}, {matrix.SOURCE}{name})"
        # Which algorithm is fastest depends on how many work-groups fill the device.
        sizes = [(one.compute_capability, one.compute_units) for one in (facts, other)]
        parts = matrix.LENT if sizes[0] == sizes[1] and atomics.waits_by_clock else ("tuning", "arrays")
        for part in parts:
            if not found[part]:
                found[part], origins[part] = getattr(lent, part), who
    waits = vars(found["tuning"]) if found["tuning"] is not None and atomics.waits_by_clock else {}
    return Tuning(
        **waits,
        table=found["barrier_table"],
        origin=origins["barrier_table"],
        waits_origin=origins["tuning"] if waits else "",
        arrays=found["arrays"] or ArrayTuning(),
        arrays_origin=origins["arrays"] if found["arrays"] else "",
    )


def _wait_polls(units: ComputeUnits, findings: Findings) -> int:
    """Polls that take some seconds."""
    rate = findings.polls_per_second or units.wait_polls_per_second
    return max(1 << 16, min(0x7FFF_FFFF, int(_WAIT_S * rate)))


def _most_groups(profile: DeviceProfile) -> tuple[int | None, str]:
    """Most work-groups of a grid with the reason; None without a limit."""
    findings = profile.findings
    if profile.loop_limit is not None:
        return 1, (
            f"the device ends loops silently after {profile.loop_limit} iterations, so a wait could end early: "
            "grids have one work-group"
        )
    # Where the probe never came to it, as little is known as before a probe.
    if findings is not None and not findings.loops_run_whole and findings.lost["loop_limit"] != NOT_BEGUN:
        return 1, (
            "it is unknown whether the device runs loops to completion, so a wait could end early: grids have one work-group "
            f"until a probe finds out (the last one: {findings.lost['loop_limit']}); portbar.probe(device) measures again"
        )
    return None, ""


def _choose_barrier(profile: DeviceProfile, tuning: Tuning, wanted: str | None) -> tuple[Choice, BarrierTable]:
    """The barrier algorithm, and the measured table of those that may be chosen by it, empty where the choice holds for all."""
    facts = profile.facts
    if wanted is not None:
        if lacks := BARRIERS[wanted].lacks(facts):
            raise UnsupportedFeatureError(f"{facts.name}: {wanted} was requested, but {lacks}")
        return Choice(wanted, "requested"), ()
    # A record may come from another version, with algorithms that this one does not have.
    usable = [name for name, one in BARRIERS.items() if one.bounded and one.lacks(facts) is None]
    table = tuple(row for row in tuning.table if row[2] in usable)
    if table:
        # Which group counts the table is about is only known when it has been looked into, by `for_groups`.
        why = f"the barrier times measured {tuning.origin} favour no other"
        return Choice(usable[0], f"it takes the fewest steps; {why}"), table
    rejected = profile.findings.times_rejected if profile.findings is not None else None
    why = rejected or "no barrier times are stored for this device"
    # Threads of the host wait on cores that other processes use. With no instruction to pause, the first algorithm is the same.
    if "pause" in profile.units.instructions:
        for name in usable:
            if BARRIERS[name].suits_shared_cores:
                return Choice(name, f"it degrades least while other processes use the cores; {why}"), ()
    return Choice(usable[0], f"it takes the fewest steps; {why}"), ()


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
        Choices made by the caller, such as ``{"device_barrier": "tree"}``. They take precedence over the environment variable
        `PORTBAR_STRATEGY`, and that over portbar's own choice.
    ordering : {"device", "work_group"}
        The scope in which memory order must hold. Programs that include only `portbar/atomics.h` may use a work-group; uses of
        wider orders then fail to compile.
    debug : bool
        Check for misuse on the device, which costs time.

    Raises
    ------
    DeviceError
        The first argument is not a profile.
    UnsupportedFeatureError
        No atomics strategy is known to order memory between work-groups, or the device does not support an override.
    """
    if not isinstance(profile, DeviceProfile):
        raise DeviceError(
            f"choose requires a DeviceProfile, not {type(profile).__name__}: portbar.choose(portbar.describe(device))"
        )
    facts, findings = profile.facts, profile.findings
    if (unused := quirks.with_effect(quirks.NOT_USED, facts)) is not None:
        raise UnsupportedFeatureError(f"portbar does not use {facts.name}: {unused.fault}; {unused.workaround}")
    try:
        asked = parse_overrides(os.environ.get(VARIABLE, ""))
    except UnsupportedFeatureError as error:
        raise UnsupportedFeatureError(f"the environment variable {VARIABLE}={os.environ[VARIABLE]}: {error}") from None
    asked.update(_checked(overrides or {}))

    known = findings or Findings()
    atomics, within = selection.select(facts, findings, asked.get("atomics"), ordering)
    units = profile.units
    backend = BACKENDS[atomics.value].on(units)
    borrowed = matrix.record_named(known.source)
    if borrowed and known.source.startswith(borrowed):
        atomics = replace(atomics, reason=f"{atomics.reason}; by {known.source}")
    first = next(iter(DISCOVERIES.values()))
    tuning = _tuning(facts, known, backend)
    barrier, table = _choose_barrier(profile, tuning, asked.get("device_barrier"))
    split, split_reason = split_barrier.select(facts, findings, asked.get("split_barrier"), debug=debug)
    max_groups, why = _most_groups(profile)
    std = backend.std(facts, findings)
    capabilities = Capabilities(
        std=std,
        volatile_polls=backend.polls_volatile(facts, known.builds),
        one_way_fences=backend.has_one_way_fences(matrix.builds_alike(facts) if findings is None else known.builds),
        prints=known.builds.get("printf", True) and not quirks.has_effect(quirks.BRANCHES_ABORT, facts),
        wait_polls=_wait_polls(units, known),
        split_features=split_barrier.VARIANTS[split].features(findings),
        atomics_table=selection.atomics_table(facts, findings, atomics.value, ordering=within),
        reduction=reductions.capabilities_of(facts, findings, std),
    )
    strategy = Strategy(
        atomics=atomics,
        discovery=Choice(asked["discovery"], "requested")
        if "discovery" in asked
        else Choice(first.name, first.summary),
        device_barrier=barrier,
        max_groups=max_groups,
        max_groups_reason=why,
        split_barrier=Choice(split, split_reason),
        reduction=Choice(*reductions.select(facts, findings, std, asked.get("reduction"))),
        units=units,
        capabilities=capabilities,
        tuning=replace(tuning, table=table),
        workarounds=quirks.effects_of(facts),
        debug=debug,
    )
    # A launch may have other sizes; these are built first, since most launches fill the device. Another algorithm is
    # another build.
    usual = known.groups_in_flight or facts.compute_units or 1
    return strategy if "device_barrier" in asked else strategy.for_groups(usual, USUAL_LOCAL_SIZE)
