"""The compute units that run a device's work-groups; the defaults are those of units of its own, as GPUs have them."""

from __future__ import annotations

from typing import Final

from portbar.device import quirks
from portbar.device.facts import DeviceFacts
from portbar.records.dataclass import dataclass
from portbar.rendering import Piece

#: Seconds without a new arrival after which discovery closes the poll where work-groups start nanoseconds apart.
_PATIENCE_TOGETHER: Final = 1e-5


@dataclass(frozen=True)
class Clock:
    """A clock that kernels can read."""

    #: As in `ComputeUnits.instructions`.
    instruction: str
    #: `ns`, or `ticks` where its rate is not known.
    unit: str
    #: The def that reads it.
    read: Piece
    #: The template that reads it where no assembly may be in a kernel, if any.
    apart: str = ""


@dataclass(frozen=True)
class ComputeUnits:
    """The units that run a device's work-groups, as far as texts, sizes and times depend on them.

    `OWN` are those of a device that is not the host's processor, and
    `portbar.backends.host_threads` has the threads of one that is.
    """

    #: Key of tables of numbers, such as `portbar.arrays.shape.SHAPES`.
    kind: str = "gpu"

    # Of its text.

    #: Instructions that kernels may have as assembly, since no function of OpenCL C does the same. For threads of the host:
    #: `pause` (between polls), `yield` (a waiting work-group's processor for another one), `anywhere` (both in any kernel, not
    #: only beside barriers), `cycle_counter` or `virtual_counter` (clocks). Else those of `portbar.backends.nvidia`.
    instructions: frozenset[str] = frozenset()
    #: Whether acquire loads are plain loads, so that waits poll by them; elsewhere they cost more.
    loads_are_plain: bool = False
    #: The template of pauses and yields that are instructions of the host: by default those of x86-64.
    template: str = "backend/host_threads.mako"
    #: Whether loops of polls must hide their length from the compiler, which would unroll them, and fill the units' caches of
    #: instructions with polls.
    unrolls_polls: bool = False
    #: Whether waits may poll with volatile loads, where atomic loads write.
    polls_volatile: bool = True
    #: Whether a test of a split device barrier polls for a whole round, since that takes as long as the test's own barriers.
    tests_are_rounds: bool = False
    #: Whether loops over a grid give each work-item neighbouring elements; elsewhere neighbouring work-items take them.
    loops_in_pieces: bool = False
    #: Whether functions that only a leader calls, once per launch, are neither inlined nor optimised.
    once_apart: bool = False
    #: Whether one work-item may combine the values of all for free.
    folds_serially: bool = False
    #: Whether OpenCL C's own floating-point atomics are instructions rather than loops.
    adds_floats: bool = True

    #: Whether names of devices begin with how a driver runs them, which changes between its versions.
    named_by_driver: bool = False

    #: Whether the compiler reports the registers of kernels, and limits them.
    reports_resources: bool = False

    # Of its sizes.

    #: Whether all kernels have as many work-groups in flight as there are units, whatever they take of registers and memory.
    kernels_alike: bool = False
    #: Whether the host sees what a kernel writes to shared memory without a transfer.
    shares_memory: bool = False
    #: Whether neighbours of the cache line, rather than the preferred multiple, decide the best local size.
    sized_by_cache: bool = False

    #: Whether a barrier costs less the fewer work-items a group has, since one thread serves them all.
    small_groups: bool = False

    # Of its times.

    #: Polls a second where no probe measured them.
    polls_per_second: float = 3e6
    #: The same of atomic waits and of locks.
    wait_polls_per_second: float = 3e6
    #: Seconds without a new arrival after which discovery closes the poll.
    patience_s: float = 0.002

    def rate(self, measured: float | None) -> float:
        """Polls a second, from those that a probe measured."""
        # A GPU that other processes share looks slower, sixty times beside eleven of them, and limits would end too soon.
        return self.polls_per_second if measured is None else max(measured, self.polls_per_second / 4)

    def patience(self, facts: DeviceFacts) -> float:
        """Seconds without a new arrival after which discovery closes the poll on a device."""
        return _PATIENCE_TOGETHER if quirks.has_effect(quirks.GROUPS_START_TOGETHER, facts) else self.patience_s

    def share(self, groups: int) -> float:  # noqa: ARG002
        """The part of the time that each of that many work-groups runs, at most 1."""
        return 1.0

    def at_once(self, groups: int) -> int:
        """Of that many work-groups those that run at the same moment."""
        return groups

    def bare(self) -> ComputeUnits:
        """Return units of which texts use nothing but the polls of waits: those of probes."""
        return ComputeUnits(loads_are_plain=self.loads_are_plain, unrolls_polls=self.unrolls_polls)

    def may_assemble(self, facts: DeviceFacts) -> bool:  # noqa: ARG002
        """Whether a probe may try the instructions of the host's processor on a device."""
        return False


#: Those of a device of which nothing is known.
UNKNOWN: Final = ComputeUnits()
#: Those of a device that is not the host's processor.
OWN: Final = ComputeUnits(unrolls_polls=True)
