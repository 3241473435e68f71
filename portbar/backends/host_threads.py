"""Work-groups that are run by threads of the host: each thread goes through all work-items of a group."""

from __future__ import annotations

import os
import platform
import sys
from typing import Final

from portbar.backends.units import Clock, ComputeUnits
from portbar.device import quirks
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings
from portbar.records.dataclass import dataclass


@dataclass(frozen=True)
class Processor:
    """Instructions of one architecture that kernels may have as assembly."""

    #: As `platform.machine` calls it.
    machines: frozenset[str]
    #: The template that has them as OpenCL C, with the numbers of its system calls on Linux.
    template: str
    #: The compile probe of its pause, by whose name findings say of which architecture they are.
    pause_probe: str
    clock: Clock
    #: The same template with no assembly in a kernel; by default `template`.
    apart: str = ""

    def template_for(self, facts: DeviceFacts) -> str:
        """The template that a device's compiler takes."""
        is_apart = self.apart and quirks.has_effect(quirks.ASSEMBLY_APART, facts)
        return self.apart if is_apart else self.template


def _processor(template: str, pause_probe: str, clock: str, machines: tuple[str, ...], apart: str = "") -> Processor:
    read = Clock(clock, "ticks", (template, "trace_clock"), apart)
    return Processor(frozenset(machines), template, pause_probe, read, apart)


PROCESSORS: Final = (
    _processor(
        "backend/host_threads.mako", "x86_pause", "cycle_counter", ("x86_64", "AMD64"), apart="backend/x86_apart.mako"
    ),
    _processor(
        "backend/aarch64.mako",
        "arm_pause",
        "virtual_counter",
        ("aarch64", "arm64", "ARM64"),
        apart="backend/aarch64_apart.mako",
    ),
)

#: The compile probes of the other instructions, each written in the assembly of the machine that it ran on.
_YIELD_PROBE: Final = "yield_syscall"
_ANYWHERE_PROBE: Final = "asm_anywhere"


@dataclass(frozen=True)
class HostThreads(ComputeUnits):
    """Threads of the host.

    Acquire loads are plain ones on its processor. Each thread has a cache of its own, so that work-items take neighbouring
    elements. Compilers make vectors of the work-items of a group, and take long to make vectors of the branches in
    a leader's functions. A round of polls takes as long as the barriers of a test.
    """

    kind: str = "cpu"
    loads_are_plain: bool = True
    polls_volatile: bool = False
    tests_are_rounds: bool = True
    loops_in_pieces: bool = True
    once_apart: bool = True
    folds_serially: bool = True
    # The built-in is a loop too, without the pause of portbar's loop.
    adds_floats: bool = False
    # As in "pthread-skylake-avx512-AMD EPYC".
    named_by_driver: bool = True
    kernels_alike: bool = True
    shares_memory: bool = True
    sized_by_cache: bool = True
    small_groups: bool = True
    # Loads from its cache.
    polls_per_second: float = 5e8
    wait_polls_per_second: float = 2e8
    # A thread may be kept off its core by the very group that waits for it until the scheduler moves it: tens of milliseconds
    # where threads outnumber cores.
    patience_s: float = 0.25

    def rate(self, measured: float | None) -> float:
        """Polls a second, from those that a probe measured."""
        return self.polls_per_second if measured is None else measured

    def patience(self, facts: DeviceFacts) -> float:  # noqa: ARG002
        """Seconds without a new arrival after which discovery closes the poll."""
        return self.patience_s

    def share(self, groups: int) -> float:
        """The part of the time that each of that many work-groups runs: those beyond the host's cores take turns."""
        return min(1.0, _cores() / groups)

    def at_once(self, groups: int) -> int:
        """Of that many work-groups those that run at the same moment."""
        return min(groups, max(2, os.cpu_count() or 1))

    def may_assemble(self, facts: DeviceFacts) -> bool:
        """Whether a probe may try the instructions of the host's processor on a device."""
        return not quirks.has_effect(quirks.NO_ASSEMBLY, facts)


def processor() -> Processor | None:
    """The processor of this machine, if kernels can have its instructions."""
    return next((one for one in PROCESSORS if platform.machine() in one.machines), None)


def instructions(findings: Findings | None) -> frozenset[str]:
    """The instructions that were seen to work on a device, and that this machine has: findings may come from another one."""
    here = processor()
    if findings is None or here is None or not findings.builds.get(here.pause_probe):
        return frozenset()
    found = {"pause", here.clock.instruction}
    if calls_linux() and findings.builds.get(_YIELD_PROBE):
        found.add("yield")
    if findings.builds.get(_ANYWHERE_PROBE):
        found.add("anywhere")
    return frozenset(found)


def calls_linux() -> bool:
    """Whether the numbers of system calls are those of the processor's template."""
    return sys.platform == "linux" and processor() is not None


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
