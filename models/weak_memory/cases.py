"""The cases: each protocol for each backend, with its promise and the ways to weaken its text."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import z3

from portbar.primitives import layout

from . import programs
from .check import Verdict, check, local_race
from .events import Execution, Place, Weakening
from .execute import Executor, Setting
from .llvm import Module
from .programs import Kernel, Target

#: A launch with room for 64 groups, in its first epoch: tag 128 in a poll word.
_EPOCH: Final = 0x06000001
_TAG: Final = 128
_LIMIT: Final = 1000


@dataclass(frozen=True)
class Case:
    """One program for one backend; `scenario` says whether discovery has patience."""

    kernel: Kernel
    target: Target
    algorithm: str = "counter"
    scenario: str = ""
    groups: int = 3

    @property
    def name(self) -> str:
        """The program's name, without its backend."""
        parts = [self.kernel.name]
        whole = self.kernel in (programs.WHOLE, programs.SPLIT, programs.TESTED, programs.BETWEEN)
        parts += [self.algorithm] if whole else []
        parts += [self.scenario] if self.scenario else []
        return " ".join(parts)

    def setting(self, **changes: Any) -> Setting:
        """How the program is run, with changes."""
        patience = 0 if self.scenario == "impatient" else _LIMIT
        discovers = self.kernel.promise == "discovery"
        setting = Setting(
            groups=self.groups,
            items=1 if self.kernel.promise == "lock" or self.kernel == programs.LOOK_BACK else 2,
            arguments={
                "%portbar_grid_param": (("global", "state"), 0),
                "%portbar_grid_launch": [_EPOCH, self.groups, patience, _LIMIT],
                "%lock": (("global", "lock"), 0),
                "%epoch": 1,
                "%flags": (("global", "flags"), 0),
                "%tiles": (("global", "tiles"), 0),
                "%signals": (("global", "signals"), 0),
            },
            discovers=discovers,
            ptx=self.target.ptx,
            turns=self.groups if self.kernel in programs.TURNS else 2 if self.kernel == programs.PLACE else 1,
            initial=self._initial(),
            expected=_expected(self.groups) if discovers else {},
        )
        return replace(setting, **changes)

    def _initial(self) -> dict[Place, int]:
        """Initial values of words that do not begin at 0: those of discovery, and of signals as an earlier launch has left
        them.
        """
        if self.kernel.promise == "discovery":
            return {("state", 4 * layout.OFFSETS["POLL_ODD"]): _TAG}
        return {("signals", 0): 1} if self.kernel == programs.CLEARED else {}

    @functools.cached_property
    def text(self) -> str:
        """The rendered text."""
        return programs.rendered(self.kernel, self.target, self.algorithm)

    @functools.cached_property
    def module(self) -> Module:
        """The text as clang reads it."""
        return _compiled(self.text, self.target)

    def check(self, *weakened: Weakening) -> tuple[Verdict, Execution]:
        """Look for an execution that breaks the promise."""
        verdict, execution = check(self.module, "check", self.setting(), self.kernel.promise, weakened)
        if verdict.holds and any(weakening.what == "local" for weakening in weakened):
            race = self.race_of_fault(weakened)
            verdict = replace(verdict, trail=[race] if race else [])
        return verdict, execution

    def race_of_fault(self, weakened: tuple[Weakening, ...] = ()) -> str:
        """A race for local memory where waits may end at their limit, after one poll; empty if there is none."""
        if self.kernel.promise not in {"barrier", "local"}:
            return ""
        text = re.sub(r"for \(uint (i|polls) = [^;]*(POLLS|\d\du)[^;]*;", r"for (uint \1 = 1u;", self.text)
        setting = self.setting(gives_up=True)
        setting.arguments["%portbar_grid_launch"] = [_EPOCH, self.groups, 0, 1]
        return local_race(Executor(_compiled(text, self.target), "check", setting, weakened).run())


_compiled = functools.cache(programs.compiled)


def weakenings(execution: Execution) -> list[Weakening]:
    """Every order, fence and scope of an execution's text, to be taken away one at a time."""
    return [Weakening(site, name, what) for (site, name), offered in execution.offered.items() for what in offered]


def _expected(groups: int) -> dict[Place, Callable[[z3.BitVecRef], z3.BoolRef]]:
    """Initial values of discovery's words in a launch whose state was prepared: a tag and counts no larger than can be."""

    def least(most: int) -> Callable[[z3.BitVecRef], z3.BoolRef]:
        return lambda value: z3.ULE(value, most)

    def tagged(value: z3.BitVecRef) -> z3.BoolRef:
        return z3.And(value & 0x3FFF_FF80 == _TAG, z3.ULE(value & 0x7F, groups))

    words: dict[str, Callable[[z3.BitVecRef], z3.BoolRef]] = {
        "POLL_ODD": tagged,
        "PUBLISHED": lambda value: z3.Or(value == 0, tagged(value)),
        "POLL_EPOCH": least(1),
        "POLL_DONE": least(1),
        "POLL_COUNT": least(groups),
        "LOCK_HELD": least(1),
        "LOCK_NEXT": least(2 * groups),
        "LOCK_SERVING": least(2 * groups),
    }
    return {("state", 4 * layout.OFFSETS[name]): expected for name, expected in words.items()}


def cases() -> Iterator[Case]:
    """Yield everything that is checked."""
    for target in programs.TARGETS:
        for algorithm in ("counter", "flag", "tree", "sharded", "replicated", "xf"):
            yield Case(programs.WHOLE, target, algorithm)
        for kernel in (programs.SPLIT, programs.TESTED):
            # The split form has counters of its own: one word, or those of `sharded` or `replicated`.
            for algorithm in ("counter", "sharded", "replicated"):
                yield Case(kernel, target, algorithm)
        for discovery in ("packed", "ticket", "spin"):
            for scenario in ("", "impatient"):
                kernel = replace(programs.DISCOVERY, name=f"discovery {discovery}", discovery=discovery)
                # Two acquisitions of a lock in each group make many paths.
                yield Case(kernel, target, scenario=scenario, groups=3 if discovery == "packed" else 2)
        yield Case(programs.BETWEEN, target)
        yield Case(programs.TWO_SCANS, target, groups=1)
        yield Case(programs.LOOK_BACK, target)
        for kernel in programs.REDUCTIONS:
            yield Case(kernel, target, groups=2)
        if target.atomics == "ptx":
            # Where the counter lies in slots, and there is a clock.
            yield Case(programs.PLACE, target)
        for kernel in programs.LOCKS:
            yield Case(kernel, target)
        for kernel in (*programs.SIGNALS, programs.CLEARED):
            # In a sum of three each passes on what others did.
            yield Case(kernel, target, groups=3 if kernel.name == "signal add" else 2)
