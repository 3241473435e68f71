"""Barriers, votes, reductions, scans and broadcasts as expressions: of a grid, a team, a work-group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from tests.generated.interpreter import Machine
from tests.generated.tree import GRID, GROUP, TEAM, Expression, UInts
from tests.generated.writer import Writer

#: Operator -> how it combines values along an axis, and its neutral element.
OPERATORS: dict[str, tuple[np.ufunc, int]] = {
    "add": (np.add, 0),
    "max": (np.maximum, 0),
    "min": (np.minimum, 0xFFFFFFFF),
    "xor": (np.bitwise_xor, 0),
    "or": (np.bitwise_or, 0),
    "and": (np.bitwise_and, 0xFFFFFFFF),
}
#: Kind of a vote -> its result.
VOTES: dict[str, Callable[[UInts], object]] = {
    "any": lambda votes: int((votes != 0).any()),
    "all": lambda votes: int((votes != 0).all()),
    "count": lambda votes: int((votes != 0).sum()),
    "sum": lambda votes: votes.sum(dtype=np.uint32),
}
BARRIER = "portbar_device_barrier"


def reduced(operator: str, values: UInts) -> np.uint32:
    """Return all values combined."""
    return np.uint32(OPERATORS[operator][0].reduce(values.ravel(), dtype=np.uint32))


def scanned(operator: str, values: UInts, *, exclusive: bool) -> UInts:
    """Return the values up to each one combined, with it or without."""
    combine, neutral = OPERATORS[operator]
    flat = combine.accumulate(values.ravel(), dtype=np.uint32)
    if exclusive:
        flat = np.concatenate([np.array([neutral], np.uint32), flat[:-1]])
    return flat.reshape(values.shape)


@dataclass
class Collective(Expression):
    """A call by many. With `alias` it goes through a macro of the author's."""

    alias: bool = field(default=False, kw_only=True)

    def call(self, writer: Writer) -> tuple[str, list[str]]:
        """Return the name of the function and its arguments."""
        raise NotImplementedError

    @property
    def level(self) -> int:
        """Who make the call together: the grid, which orders global memory, a team or a work-group."""
        name = self.call(Writer())[0]
        return GRID if name.startswith("portbar_device_") else TEAM if name.startswith("portbar_team_") else GROUP

    def text(self, writer: Writer) -> str:
        name, arguments = self.call(writer)
        return f"{name.upper().replace('PORTBAR', 'MY') if self.alias else name}({', '.join(arguments)})"

    def macro(self) -> str:
        """Return the macro that an alias needs."""
        name, arguments = self.call(Writer())
        given = ", ".join("abcd"[: len(arguments)])
        return f"#define {name.upper().replace('PORTBAR', 'MY')}({given}) {name}({given})"


@dataclass
class Barrier(Collective):
    """The device barrier; true."""

    def call(self, writer: Writer) -> tuple[str, list[str]]:
        return BARRIER, [writer.grid]

    def value(self, machine: Machine) -> UInts:
        machine.of_grid()
        return machine.full(1)


@dataclass
class Vote(Collective):
    """A vote of the grid, or of a team, if any."""

    kind: str
    vote: Expression
    team: str = ""

    def call(self, writer: Writer) -> tuple[str, list[str]]:
        if self.team:
            return f"portbar_team_barrier_{self.kind}", [writer.grid, f"&{self.team}", self.vote.text(writer)]
        return f"{BARRIER}_{self.kind}", [writer.grid, self.vote.text(writer)]

    def value(self, machine: Machine) -> UInts:
        votes, found = self.vote.value(machine), machine.full(0)
        for members in machine.of_teams() if self.team else [whole(machine)]:
            found[members] = VOTES[self.kind](votes[members])
        return found


@dataclass
class Reduce(Collective):
    """A reduction of the grid, of each work-group, or of a team, where the first work-item of each group counts."""

    scope: str
    operator: str
    operand: Expression
    team: str = ""

    needs: ClassVar[frozenset[str]] = frozenset({"scratch"})

    def call(self, writer: Writer) -> tuple[str, list[str]]:
        first = {
            "device": [writer.grid, "scratch"],
            "work_group": ["scratch"],
            "team": [writer.grid, f"&{self.team}"],
        }[self.scope]
        return f"portbar_{self.scope}_reduce_{self.operator}", [*first, self.operand.text(writer)]

    def value(self, machine: Machine) -> UInts:
        values, found = self.operand.value(machine), machine.full(0)
        if self.scope == "team":
            for team in machine.of_teams():
                found[team] = reduced(self.operator, values[team, 0])
            return found
        for members in [whole(machine)] if self.scope == "device" else groups(machine):
            found[members] = reduced(self.operator, values[members])
        return found


@dataclass
class Scan(Collective):
    """A scan of the grid or of each work-group."""

    scope: str
    operator: str
    exclusive: bool
    operand: Expression

    needs: ClassVar[frozenset[str]] = frozenset({"scratch"})

    def call(self, writer: Writer) -> tuple[str, list[str]]:
        kind = "exclusive" if self.exclusive else "inclusive"
        first = [writer.grid] if self.scope == "device" else []
        return f"portbar_{self.scope}_scan_{kind}_{self.operator}", [*first, "scratch", self.operand.text(writer)]

    def value(self, machine: Machine) -> UInts:
        values, found = self.operand.value(machine), machine.full(0)
        for members in [whole(machine)] if self.scope == "device" else groups(machine):
            found[members] = scanned(self.operator, values[members], exclusive=self.exclusive)
        return found


@dataclass
class Broadcast(Collective):
    """The value of one work-item of the grid or of each work-group; of one group's first work-item in a team."""

    scope: str
    operand: Expression
    origin: int
    team: str = ""

    needs: ClassVar[frozenset[str]] = frozenset({"scratch"})

    def call(self, writer: Writer) -> tuple[str, list[str]]:
        operand = self.operand.text(writer)
        if self.scope == "device":
            return "portbar_device_broadcast", [writer.grid, "scratch", operand, f"{self.origin}u % all"]
        if self.scope == "work_group":
            return "portbar_work_group_broadcast", ["scratch", operand, f"{self.origin}u % items"]
        return "portbar_team_broadcast", [writer.grid, f"&{self.team}", operand, f"{self.origin}u"]

    def value(self, machine: Machine) -> UInts:
        values, found = self.operand.value(machine), machine.full(0)
        if self.scope == "device":
            machine.of_grid()
            found[:] = values.ravel()[self.origin % values.size]
        elif self.scope == "work_group":
            for group in groups(machine):
                found[group] = values[group, self.origin % machine.local]
        else:
            for team in machine.of_teams():
                found[team] = values[team, 0][min(self.origin, team.stop - team.start - 1)]
        return found


def whole(machine: Machine) -> slice:
    """Check that the grid makes the call, and return all of its groups."""
    machine.of_grid()
    return slice(0, machine.groups)


def groups(machine: Machine) -> list[slice]:
    """Check that whole groups make the call, and return each of those that do."""
    return [slice(group, group + 1) for group in np.flatnonzero(machine.of_groups())]
