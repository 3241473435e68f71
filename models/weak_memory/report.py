"""Takes each order of a text away, once, and says which are needed and why the others are kept."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from . import programs
from .cases import Case, cases, weakenings
from .check import Verdict
from .events import Weakening


@dataclass(frozen=True)
class Reason:
    """Why an order is kept that no promise of the case needs: cases, functions and the removed order, as patterns."""

    cases: str
    text: str
    why: str


#: Matched against "function > function: operation: what was taken away".
REASONS: Final = (
    Reason(
        "whole|split|tested|device|signal",
        r"portbar_enter: barrier.*: global",
        "discovery's promise: what group 0 prepared reaches the other work-items by this barrier",
    ),
    Reason(
        "split",
        r"portbar_device_barrier_wait: barrier\(local\): local",
        "a whole barrier between arrival and wait, whose result others may still read (`whole within split`)",
    ),
    Reason(
        "whole within split",
        r"portbar_device_barrier: barrier.*: local",
        "the arrival's barrier does its work here; `whole counter` needs it",
    ),
    Reason(
        "device",
        r"portbar_device_barrier: barrier\(local \| global\): local",
        "the barrier's own promise, of local memory, too: `whole counter` needs it",
    ),
    Reason(
        "device scan",
        r"portbar_work_group_scan_\w+: barrier\(local\): local",
        "the last barrier of a scan, where another barrier follows here: two scans one after the other need it",
    ),
    Reason(
        "place",
        r"portbar_place > portbar_(word_arrive|place_wait)",
        "the measurement is of a barrier, with its orders; a launch's first on a fresh state pays for it",
    ),
    Reason(
        "ticket lock",
        r"portbar_ticket_lock_release.*load relaxed: scope",
        "only the holder moves the word on, and finds what it acquired, in any scope; a load costs the same in each",
    ),
    Reason(
        "signal cleared",
        r"portbar_(enter|device_barrier): barrier",
        "groups of one work-item, which need no barrier of their own: `whole counter` needs it",
    ),
    Reason(
        "signal",
        r"portbar_work_group_signal_wait_until_at_least: barrier\(local\): barrier",
        "a race for local memory after a fault, which is looked at where a barrier's flags are taken away (c11)",
    ),
    Reason(
        "signal test",
        r"portbar_signal_test > .*: acquire$|portbar_atomic_work_item_fence",
        "the test acquires, and so does the wait for a condition, which may be of relaxed loads (`signal condition`)",
    ),
    Reason(
        "discovery (ticket|spin)",
        r"portbar_discovery_lock > portbar_word_(add|exchange): .*: (release|acquire)",
        "the published locks, for comparison: to draw a ticket orders nothing, and to take a lock releases nothing, "
        "but there is one form of these operations",
    ),
    Reason(
        "discovery packed",
        r"portbar_discover > portbar_word_or: or release: release",
        "one fence in one group of a launch: the count is published after it, with a release of its own; where a group gives "
        "up, which is not looked at here, it closes the poll by the same function",
    ),
)


@dataclass(frozen=True)
class Outcome:
    """The result of removing one order: `trail` is an execution that breaks the promise, empty if none exists."""

    weakening: Weakening
    trail: tuple[str, ...]
    seconds: float
    why: str = ""

    @property
    def caught(self) -> bool:
        """Whether an execution shows what the order is for."""
        return bool(self.trail)

    @property
    def explained(self) -> bool:
        """Whether the order is needed, or a reason to keep it is given."""
        return self.caught or bool(self.why)

    def __str__(self) -> str:
        return described(self.weakening)


def described(weakening: Weakening) -> str:
    """Return where in the text an order was taken away, without line numbers."""
    functions = " > ".join(name for name, _ in weakening.site)
    return f"{functions}: {weakening.name}: {weakening.what}"


def reason(case: Case, weakening: Weakening) -> str:
    """Return why an order is kept that a case does not need; empty if no reason is given."""
    found = (each for each in REASONS if re.match(each.cases, case.name) and re.search(each.text, described(weakening)))
    return next((each.why for each in found), "")


def weakened(case: Case, *, scopes: bool = False) -> tuple[Verdict, list[Outcome]]:
    """Check a case, and again for each order taken away; scopes too if asked for."""
    verdict, execution = case.check()
    outcomes = []
    for weakening in weakenings(execution):
        if weakening.what == "scope" and not scopes:
            continue
        if case.kernel.promise == "local" and weakening.what != "local":
            continue
        found, _ = case.check(weakening)
        why = reason(case, weakening) if found.holds else ""
        outcomes.append(Outcome(weakening, tuple(found.trail), found.seconds, why))
    return verdict, outcomes


def checked(chosen: tuple[Case, bool, bool]) -> tuple[Verdict, list[Outcome]]:
    """Check a case, and take its orders away if asked for, with or without scopes."""
    case, weakens, scopes = chosen
    return weakened(case, scopes=scopes) if weakens else (case.check()[0], [])


def selected(*, nightly: bool) -> list[tuple[Case, bool]]:
    """Return what is checked, and whether its orders are taken away: everything, or what CI has time for."""
    chosen = []
    for case in cases():
        whole, promise, name = case.kernel == programs.WHOLE, case.kernel.promise, case.target.name
        # Two groups are enough to see that it holds, three to see what for: some pass on what others did.
        two = replace(case, groups=2)
        if promise == "discovery":
            # With patience each order is needed as without, but the published protocol has ten times as many ways.
            if case.kernel.discovery == "packed":
                if nightly or (name == "c11" and not case.scenario):
                    chosen.append((two, True))
                if nightly and name == "c11":
                    chosen.append((case, False))
            elif (nightly or name == "c11") and case.scenario:
                # Which orders these two need takes half of all the time, and no device takes them unless asked to.
                chosen.append((two, nightly))
            elif nightly and name == "c11":
                chosen.append((two, False))
        elif promise == "place":
            chosen.append((two, nightly or case.target.one_way_fences))
        elif nightly or case.kernel == programs.LOOK_BACK:
            chosen.append((case, True))
        elif name == "c11" and promise == "local":
            chosen.append((two, True))
        elif name == "c11" and promise == "data":
            chosen.append((case, case.kernel.name != "device broadcast"))
        elif name == "c11":
            weakens = case.algorithm in {"counter", "xf"}
            chosen.append((case if weakens else two, weakens))
        elif case.target.atomics == "ptx" and whole:
            weakens = case.target.one_way_fences
            chosen.append((case if weakens else two, weakens))
    return chosen
