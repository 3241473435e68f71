"""Litmus tests: threads of operations on few locations, possible outcomes, and forbidden outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import Final, Literal

Kind = Literal["load", "store", "exchange", "add", "fence"]

#: The value of a register whose load was not executed. Stored values are below it.
UNREAD: Final = 3


@dataclass(frozen=True)
class Operation:
    """One step of a thread."""

    kind: Kind
    #: `x`, `y` or `z`; empty for a fence.
    location: str = ""
    #: The operand: stored or added.
    value: int = 0
    #: Memory order without its prefix; `plain` for a non-atomic access.
    order: str = "relaxed"
    #: Where the result goes, -1 for nowhere. Each register is written by one operation.
    register: int = -1
    #: The operation is made only where this register has this value, so that a plain access never races.
    guard: tuple[int, int] | None = None


Thread = tuple[Operation, ...]
#: Values of registers (`r0`) and final values of locations (`x`); and the same in the order of `Litmus.columns`.
Outcome = Mapping[str, int]
Values = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Litmus:
    """One litmus test. All locations are 0 before it."""

    #: Family, scope, space and form, such as `MP-device-global-ops`.
    name: str
    description: str
    threads: tuple[Thread, ...]
    #: Partial outcomes; one that agrees with any of them in all its members is forbidden.
    forbidden: tuple[Outcome, ...]
    #: Why the memory model forbids it.
    why: str
    #: `work_group` or `device`.
    scope: str = "device"
    #: `global` or `local`.
    space: str = "global"
    #: How it is ordered: `ops`, `fences`, ...
    form: str = "ops"
    #: Size of the objects in `together`; all others have 32 bits.
    bits: int = 32
    #: Locations that lie side by side in one 32-bit word, in this order. Their final values belong to the outcome, since an
    #: access to one must not undo a store to another.
    together: tuple[str, ...] = ()

    @property
    def locations(self) -> tuple[str, ...]:
        """The locations that are used, in order."""
        return tuple(sorted({op.location for op in self.operations if op.location}))

    @property
    def operations(self) -> tuple[Operation, ...]:
        """All operations of all threads."""
        return tuple(op for thread in self.threads for op in thread)

    @property
    def registers(self) -> int:
        """How many registers there are."""
        return 1 + max((op.register for op in self.operations), default=-1)

    @property
    def finals(self) -> tuple[str, ...]:
        """The locations whose final value belongs to the outcome."""
        named = {name for outcome in self.forbidden for name in outcome} | set(self.together)
        return tuple(location for location in self.locations if location in named)

    @property
    def columns(self) -> tuple[str, ...]:
        """The parts of an outcome: registers, then final values."""
        return (*(f"r{k}" for k in range(self.registers)), *self.finals)

    @property
    def across_groups(self) -> bool:
        """Whether the threads are in different work-groups, as they can be for device scope and global memory only."""
        return self.scope == "device" and self.space == "global"

    def is_forbidden(self, outcome: Outcome) -> bool:
        """Whether an outcome is forbidden: by the memory model, or because it holds a value that no thread wrote."""
        if any(all(outcome[name] == value for name, value in part.items()) for part in self.forbidden):
            return True
        return any(value not in self._possible(name, outcome) for name, value in outcome.items())

    def _possible(self, name: str, outcome: Outcome) -> set[int]:
        if not name.startswith("r"):
            return self._written(name)
        op = next(op for op in self.operations if f"r{op.register}" == name)
        if op.guard is not None and outcome[f"r{op.guard[0]}"] != op.guard[1]:
            return {UNREAD}
        return self._written(op.location) | {0}

    def _written(self, location: str) -> set[int]:
        """The values that a location may get; every location of the tests is written by a thread."""
        values = {op.value for op in self.operations if op.location == location and op.kind in {"store", "exchange"}}
        for op in self.operations:
            if op.location == location and op.kind == "add":
                values |= {value + op.value for value in values | {0}} - {0}
        return values


def outcome_text(test: Litmus, values: Iterable[int]) -> str:
    """An outcome as `r0=1 r1=- x=2`."""
    return " ".join(
        f"{name}={'-' if name.startswith('r') and value == UNREAD else value}"
        for name, value in zip(test.columns, values, strict=True)
    )


def as_mapping(test: Litmus, values: Values) -> Outcome:
    """An outcome with its names."""
    return dict(zip(test.columns, values, strict=True))


@cache
def serial(test: Litmus) -> frozenset[Values]:
    """Outcomes where each thread runs from its beginning to its end while the others wait."""
    return frozenset(_run(test, [op for thread in order for op in thread]) for order in permutations(test.threads))


@cache
def sequential(test: Litmus) -> frozenset[Values]:
    """Outcomes of sequential consistency: every interleaving of the threads."""
    return frozenset(_run(test, order) for order in _interleavings(test.threads))


def _interleavings(threads: tuple[Thread, ...]) -> Iterator[list[Operation]]:
    if not any(threads):
        yield []
    for index, thread in enumerate(threads):
        if thread:
            rest = (*threads[:index], thread[1:], *threads[index + 1 :])
            for order in _interleavings(rest):
                yield [thread[0], *order]


def _run(test: Litmus, order: Iterable[Operation]) -> Values:
    memory = dict.fromkeys(test.locations, 0)
    registers = [UNREAD] * test.registers
    guarded: list[Operation] = []
    for op in order:
        if op.kind == "fence":
            continue
        before = memory[op.location]
        if op.kind in {"store", "exchange"}:
            memory[op.location] = op.value
        elif op.kind == "add":
            memory[op.location] = before + op.value
        if op.register >= 0:
            registers[op.register] = before
        if op.guard is not None:
            guarded.append(op)
    # A guarded load may have been moved before its guard, so what it saw counts only where the guard holds in the end.
    for op in guarded:
        assert op.guard is not None
        if registers[op.guard[0]] != op.guard[1]:
            registers[op.register] = UNREAD
    return (*registers, *(memory[name] for name in test.finals))
