"""The declaration of a split barrier variant, the choice for a device, and the features that a program may query."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from portbar.backends.variants import Variant, Variants, first_allowed
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings
from portbar.primitives.strategy import Strategy
from portbar.records.dataclass import dataclass

if TYPE_CHECKING:  # takes long to import
    from portbar.reading.found import Facts

#: Use beyond waits that all work-items of a group reach -> what it is. Programs declare it by
#: `require=("split_barrier.divergent",)`.
FEATURES: Final = {
    "divergent": "waits that not all work-items of the group reach",
    "subset": "barriers in which only some work-items of the group take part",
    "sub_groups": "waits that some sub-groups do not reach, the work-items of a sub-group together",
    "spin": "loops that repeat test_wait or try_wait until it is true",
    "overlapping": "more than one arrival of a work-item that it has not waited for",
}

#: Largest expected and pending count, PTX's and SYCL's.
MAX_COUNT: Final = (1 << 20) - 1

#: Faults that a debug build finds -> number, and how it is printed.
FAULTS: Final = {
    "OVER_EXPECTED": (1, "an arrival over the expected count"),
    "COMPLETED": (2, "an arrive_no_complete completed the phase"),
    "STALE_TOKEN": (3, "a wait with the token of an older phase"),
    "INVALID": (4, "use before initialize or after invalidate"),
    "NOT_COMPLETE": (5, "all work-items wait for a phase that lacks arrivals"),
}

_PREFIX: Final = "portbar_split_barrier_"
#: Calls that show counts; without any of them, a strategy whose waits are group-wide need not count.
_OBSERVERS: Final = tuple(f"{_PREFIX}{name}" for name in ("test_wait", "try_wait", "wait_parity", "pending_count"))
#: Waits, whose result reveals counts unless the program drops it.
_WAITS: Final = frozenset({f"{_PREFIX}wait", f"{_PREFIX}arrive_and_wait"})


@dataclass(frozen=True)
class SplitBarrier(Variant):
    """One way to do a split barrier."""

    #: The template whose defs are the bodies of the members in `cl_templates/split_barrier/common.mako`.
    template: str
    #: Facts, findings -> whether a device can have it, and the reason either way.
    judge: Callable[[DeviceFacts, Findings | None], tuple[bool, str]]
    #: Findings -> which of `FEATURES` it supports.
    features: Callable[[Findings | None], tuple[str, ...]]
    #: Whether it counts arrivals even where the program cannot see counts.
    is_counted: bool = True
    #: Whether debug builds may choose it.
    finds_faults: bool = True
    #: Whether copies run on their own and arrive on it.
    copies_alone: bool = False
    #: Strategy -> polls that a wait makes before it gives up.
    polls: Callable[[Strategy], int] = lambda strategy: strategy.capabilities.wait_polls


VARIANTS: Final[Variants[SplitBarrier]] = Variants("portbar.primitives.split_barrier")


def progresses(findings: Findings | None, who: str) -> bool:
    """Whether a probe saw `lanes` or `sub_groups` progress while others of their group wait."""
    return findings is not None and findings.progress.get(who) == "independent" and findings.loops_run_whole


def select(
    facts: DeviceFacts, findings: Findings | None, wanted: str | None = None, *, debug: bool = False
) -> tuple[str, str]:
    """The strategy for a device, and the reason; `UnsupportedFeatureError` if the device cannot have the wanted one."""
    variants = {name: one for name, one in VARIANTS.items() if wanted or one.finds_faults or not debug}
    return first_allowed(variants, lambda one: one.judge(facts, findings), wanted, f"{facts.name}: split barrier")


def shows_counts(source: str, options: tuple[str, ...] = (), facts: Facts | None = None) -> bool:
    """Whether a program may look at counts of arrivals: by a call that shows them, or by the result of a wait.

    In doubt it may, if it uses split barriers at all.
    """
    # Who chooses does not read.
    from portbar.reading.doubt import doubtful_words  # noqa: PLC0415
    from portbar.reading.words import hides_names, words  # noqa: PLC0415

    doubtful = doubtful_words(source, options)
    if facts is None or not facts.is_whole or any(word.startswith(_PREFIX) for word in doubtful):
        return hides_names(source, options) or any(word.startswith(_PREFIX) for word in words(source, options))
    names = words(source, options) | facts.calls.keys()
    return any(name.startswith(_OBSERVERS) for name in names) or not _WAITS.isdisjoint(facts.results)
