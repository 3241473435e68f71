"""Values and conditions without collectives, which any work-item may evaluate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tests.generated.interpreter import Machine
from tests.generated.tree import Expression, UInts
from tests.generated.writer import Writer

#: Elements of the kernel's input `x`.
INPUTS = 16

ARITHMETIC: dict[str, Callable[[UInts, UInts], UInts]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "^": np.bitwise_xor,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
}
COMPARISONS: dict[str, Callable[[UInts, UInts], UInts]] = {
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    ">": np.greater,
    "<=": np.less_equal,
    ">=": np.greater_equal,
}


@dataclass
class Number(Expression):
    number: int

    def text(self, writer: Writer) -> str:  # noqa: ARG002 (the same everywhere)
        return f"{self.number}u"

    def value(self, machine: Machine) -> UInts:
        return machine.full(self.number)


@dataclass
class Name(Expression):
    name: str

    def text(self, writer: Writer) -> str:  # noqa: ARG002 (the same everywhere)
        return self.name

    def value(self, machine: Machine) -> UInts:
        return machine.names[self.name]


@dataclass
class Binary(Expression):
    """An operator of a table between two expressions."""

    operator: str
    left: Expression
    right: Expression

    table: ClassVar[dict[str, Callable[[UInts, UInts], UInts]]]

    def text(self, writer: Writer) -> str:
        return f"({self.left.text(writer)} {self.operator} {self.right.text(writer)})"

    def value(self, machine: Machine) -> UInts:
        return self.table[self.operator](self.left.value(machine), self.right.value(machine)).astype(np.uint32)


class Arithmetic(Binary):
    table = ARITHMETIC


@dataclass
class Remainder(Expression):
    """The remainder by a number that is not 0."""

    left: Expression
    number: int

    def text(self, writer: Writer) -> str:
        return f"({self.left.text(writer)} % {self.number}u)"

    def value(self, machine: Machine) -> UInts:
        return self.left.value(machine) % np.uint32(self.number)


@dataclass
class Input(Expression):
    """An element of the input `x`, which no work-item writes."""

    index: Expression

    def text(self, writer: Writer) -> str:
        return f"x[{self.index.text(writer)} % {INPUTS}u]"

    def value(self, machine: Machine) -> UInts:
        return machine.memory["x"][self.index.value(machine) % INPUTS]


@dataclass
class Choice(Expression):
    condition: Expression
    yes: Expression
    no: Expression

    def text(self, writer: Writer) -> str:
        return f"({self.condition.text(writer)} ? {self.yes.text(writer)} : {self.no.text(writer)})"

    def value(self, machine: Machine) -> UInts:
        holds = self.condition.value(machine) != 0
        return np.where(holds, guarded(machine, holds, self.yes), guarded(machine, ~holds, self.no))


class Comparison(Binary):
    table = COMPARISONS


@dataclass
class Not(Expression):
    condition: Expression

    def text(self, writer: Writer) -> str:
        return f"!{self.condition.text(writer)}"

    def value(self, machine: Machine) -> UInts:
        return (self.condition.value(machine) == 0).astype(np.uint32)


@dataclass
class Both(Expression):
    """`&&`, or `||` where `either`: the right one is evaluated where the left one does not decide."""

    left: Expression
    right: Expression
    either: bool = False

    def text(self, writer: Writer) -> str:
        return f"({self.left.text(writer)} {'||' if self.either else '&&'} {self.right.text(writer)})"

    def value(self, machine: Machine) -> UInts:
        left = self.left.value(machine) != 0
        right = guarded(machine, ~left if self.either else left, self.right) != 0
        return ((left | right) if self.either else (left & right)).astype(np.uint32)


@dataclass
class AsValue(Expression):
    """A condition as 1 or 0."""

    condition: Expression

    def text(self, writer: Writer) -> str:
        return f"({self.condition.text(writer)} ? 1u : 0u)"

    def value(self, machine: Machine) -> UInts:
        return (self.condition.value(machine) != 0).astype(np.uint32)


def guarded(machine: Machine, condition: UInts, expression: Expression) -> UInts:
    """Return a value that only some of the active work-items evaluate."""
    saved, machine.mask = machine.mask, machine.mask & condition
    found = expression.value(machine) if machine.mask.any() else machine.full(0)
    machine.mask = saved
    return found
