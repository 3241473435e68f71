"""Expected machine code: one entry per target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.machine_code.cases import Case
from tests.machine_code.listings import Figures


@dataclass(frozen=True)
class Expected:
    """The most that the code of one kernel may have."""

    #: Read-modify-writes in all: rolled loops have few.
    atomics: int
    #: Accesses in an innermost loop of polls.
    polls_in_loop: int = 3
    #: Loops whose polls are read-modify-writes; more than none only where nothing better is known to be right.
    writing_polls: int = 0
    #: Whether each poll may acquire: where such a load costs no more than another one.
    acquiring_polls: bool = False
    #: Case -> bytes in private memory.
    bytes_kept: Mapping[str, int] = field(default_factory=dict)

    def faults(self, name: str, case: Case, found: Figures) -> Iterator[str]:
        """Yield what is wrong with a kernel's figures."""
        most_in_loop = max(self.polls_in_loop, case.loads_together)
        yield from (
            fault
            for fault, is_there in (
                ("no loop of polls was found: the listing is not understood", case.waits and not found.poll_loops),
                ("polls are unrolled", found.polls_in_loop > most_in_loop or found.atomics > self.atomics),
                ("polls write", found.writing_loops > case.exchanges + self.writing_polls),
                ("each poll acquires", not self.acquiring_polls and found.acquiring_loops > case.exchanges),
                ("no acquire after a wait", case.waits and not found.acquires),
                ("no release before an arrival", case.waits and not found.releases),
                ("values are kept in memory", found.spills > self.bytes_kept.get(name, 0)),
            )
            if is_there
        )


#: Clang 15 keeps the grid that an atomic wait watches in memory, since its address is compared; clang 19 does not.
_WATCHED: Final = {"atomic wait": 40}
_AMD, _OLD_AMD = Expected(atomics=18), Expected(atomics=18, bytes_kept=_WATCHED)
_PROCESSOR = Expected(atomics=10, acquiring_polls=True)
_INTEL, _NVIDIA = Expected(atomics=26), Expected(atomics=19, polls_in_loop=4)

#: Target -> what it must be like; None where the code is made by a driver, so that only its validity is known.
EXPECTED: Final[Mapping[str, Expected | None]] = {
    "gfx906": _OLD_AMD,
    "gfx90a": _OLD_AMD,
    "gfx942": _AMD,
    "gfx1030": _OLD_AMD,
    "gfx1100": _OLD_AMD,
    "gfx1201": _AMD,
    "kbl": _INTEL,
    "tgllp": _INTEL,
    "dg2": _INTEL,
    "pvc": _INTEL,
    "pvc before a probe": Expected(atomics=31, writing_polls=7),
    "sm_60": _NVIDIA,
    "sm_70": _NVIDIA,
    "sm_75": _NVIDIA,
    "sm_80": _NVIDIA,
    "sm_86": _NVIDIA,
    "sm_89": _NVIDIA,
    "sm_90": _NVIDIA,
    "sm_100": _NVIDIA,
    "sm_120": _NVIDIA,
    "sm_121": _NVIDIA,
    "armv8-a": _PROCESSOR,
    "armv8.1-a": _PROCESSOR,
    "rv64gc": _PROCESSOR,
    "SPIR-V c11": None,
    "SPIR-V cl12": None,
}
