"""The backend and the compute units of a device."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from portbar.backends import host_threads, nvidia
from portbar.backends.units import OWN, ComputeUnits
from portbar.device import quirks
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings

if TYPE_CHECKING:  # takes long to import
    from portbar.backends.backend import Backend

#: The clocks that kernels can read, by the instructions that do it.
CLOCKS: Final = {clock.instruction: clock for clock in (nvidia.CLOCK, *(one.clock for one in host_threads.PROCESSORS))}


def units_of(facts: DeviceFacts, findings: Findings | None = None, loop_limit: int | None = None) -> ComputeUnits:
    """The units that run a device's work-groups, with the instructions that a probe has seen work.

    `loop_limit` is the number of iterations after which it ends loops silently; None if no such limit is known. No test may
    poll for long there, and no work-item may combine many values.
    """
    if facts.is_host:
        whole = loop_limit is None
        found = host_threads.instructions(findings)
        units = host_threads.HostThreads(
            instructions=found, tests_are_rounds=whole, folds_serially=whole, sized_by_cache=whole
        )
        here = host_threads.processor()
        return replace(units, template=here.template_for(facts)) if here else units
    found = nvidia.instructions(facts)
    return replace(OWN, instructions=found, reports_resources=nvidia.reports_resources(facts)) if found else OWN


def backend_of(atomics: str, facts: DeviceFacts, findings: Findings | None = None) -> Backend:
    """The backend of a device whose atomics are done in one way."""
    from portbar.backends.backend import BACKENDS  # noqa: PLC0415 (as above)

    return BACKENDS[atomics].on(units_of(facts, findings), quirks.effects_of(facts))
