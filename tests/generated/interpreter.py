"""Executes a program as one work-item after another would, all at once.

Each variable is an array with a value per work-item, and a mask says which work-items execute a statement. So control flow
may differ between work-items, groups and teams. A collective that only some of its work-items reach is a defect of the
generator and raises `NotUniformError`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from tests.generated.tree import Block, UInts

#: Iterations of all loops after which a program is given up.
MOST_STEPS = 3000


class NotUniformError(Exception):
    """A collective that not all its work-items reach, or a variable that differs where it should not."""


class TooLongError(Exception):
    """The program has more iterations than a test should take."""


@dataclass
class Loop:
    """Work-items that have left an iteration."""

    broken: UInts
    continued: UInts


@dataclass
class Machine:
    """The state of a launch: who is active, variables of the function, memory."""

    groups: int
    local: int
    memory: dict[str, UInts]
    names: dict[str, UInts] = field(default_factory=dict)
    loops: list[Loop] = field(default_factory=list)
    #: Work-items on their way to a label.
    gone: dict[str, UInts] = field(default_factory=dict)
    steps: int = 0
    #: Statements and collectives that were executed, for the statistics of a run.
    met: int = 0

    def __post_init__(self) -> None:
        self.mask = self.full(1) != 0
        self.result = self.full(0)
        self.team_size = self.groups

    def full(self, value: int) -> UInts:
        """Return a value for each work-item."""
        return np.full((self.groups, self.local), value & 0xFFFFFFFF, np.uint32)

    def ids(self) -> dict[str, UInts]:
        """Return what each kernel and function computes at its beginning."""
        lid = np.broadcast_to(np.arange(self.local, dtype=np.uint32), (self.groups, self.local)).copy()
        group = np.broadcast_to(np.arange(self.groups, dtype=np.uint32)[:, None], (self.groups, self.local)).copy()
        return {
            "lid": lid,
            "group": group,
            "me": group * np.uint32(self.local) + lid,
            "items": self.full(self.local),
            "groups": self.full(self.groups),
            "all": self.full(self.groups * self.local),
        }

    def assign(self, name: str, value: UInts) -> None:
        """Assign to a variable in active work-items: one that begins with u is the same in all, with g in each group."""
        before = self.names.get(name)
        self.names[name] = np.where(self.mask, value, self.full(0) if before is None else before)
        if name[0] in "ug" and self.mask.any():
            rows = self.names[name][self.mask.any(axis=1)]
            if name[0] == "u":
                rows = rows.reshape(1, -1)
            if (rows != rows[:, :1]).any():
                raise NotUniformError(name)

    def block(self, block: Block) -> None:
        """Execute statements while any work-item is active."""
        for statement in block:
            if not self.mask.any():
                return
            statement.run(self)

    @contextmanager
    def under(self, mask: UInts) -> Iterator[None]:
        """Execute the `with` block in some of the active work-items; those that jump do not come back."""
        outside = self.mask & ~mask
        self.mask = self.mask & mask
        yield
        self.mask = self.mask | outside

    @contextmanager
    def called(self, names: dict[str, UInts]) -> Iterator[None]:
        """Execute the `with` block in a function of its own, with these names."""
        saved = self.mask, self.names, self.loops, self.result
        self.names, self.loops, self.result = names, [], self.full(0)
        yield
        self.mask, self.names, self.loops, _ = saved
        self.returned, self.result = self.result, saved[3]

    @contextmanager
    def loop(self) -> Iterator[Loop]:
        """Execute the `with` block as a loop: after it, all are active but those that returned."""
        made = Loop(self.mask & False, self.mask & False)
        self.loops.append(made)
        yield made
        self.loops.pop()
        self.mask = self.mask | made.broken

    def count(self) -> None:
        """Count an iteration of a loop."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise TooLongError

    def go(self, label: str) -> None:
        """Send the active work-items to a label."""
        self.gone[label] = self.gone.get(label, False) | self.mask
        self.mask = self.mask & False

    def arrive(self, label: str) -> None:
        """Make those active that a `goto` sent to this label."""
        self.mask = self.mask | self.gone.pop(label, False)

    def iteration(self, block: Block) -> None:
        """Execute the body of the innermost loop once."""
        self.count()
        self.block(block)
        self.mask = self.mask | self.loops[-1].continued
        self.loops[-1].continued &= False

    def of_grid(self) -> None:
        """Check that all work-items make this call."""
        self.met += 1
        if not self.mask.all():
            raise NotUniformError("a call of the grid")

    def of_groups(self) -> UInts:
        """Check that all work-items of a group make this call, or none; return the groups that do."""
        self.met += 1
        active = self.mask.any(axis=1)
        if (active != self.mask.all(axis=1)).any():
            raise NotUniformError("a call of a work-group")
        return active

    def of_teams(self) -> list[slice]:
        """Check that all work-items of a team make this call, or none; return the groups of those that do."""
        active, found = self.of_groups(), []
        for first in range(0, self.groups, self.team_size):
            team = slice(first, min(first + self.team_size, self.groups))
            if active[team].any() != active[team].all():
                raise NotUniformError("a call of a team")
            if active[first]:
                found.append(team)
        return found
