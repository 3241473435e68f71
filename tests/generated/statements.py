"""Statements of C: assignments, control flow, atomics, calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from tests.generated.interpreter import Machine
from tests.generated.tree import Block, Expression, Node, Statement
from tests.generated.writer import Writer

#: Operator of an atomic -> its built-in of OpenCL C 1.2.
ATOMICS = {"add": np.add, "max": np.maximum, "or": np.bitwise_or, "xor": np.bitwise_xor}


@dataclass
class Evaluate(Statement):
    """An expression for its effect; its value is not used."""

    expression: Expression
    void: bool = False

    is_single: ClassVar[bool] = True

    def write(self, writer: Writer) -> None:
        writer.add(f"{'(void)' if self.void else ''}{self.expression.text(writer)};")

    def run(self, machine: Machine) -> None:
        self.expression.value(machine)


@dataclass
class Declare(Statement):
    """A variable of the block that follows."""

    name: str
    initial: Expression

    def write(self, writer: Writer) -> None:
        writer.add(f"uint {self.name} = {self.initial.text(writer)};")

    def run(self, machine: Machine) -> None:
        machine.assign(self.name, self.initial.value(machine))


@dataclass
class Assign(Statement):
    """`name = value`, or with an operator `name += value` and similar."""

    name: str
    value: Expression
    operator: str = ""

    is_single: ClassVar[bool] = True

    def write(self, writer: Writer) -> None:
        writer.add(f"{self.name} {self.operator}= {self.value.text(writer)};")

    def run(self, machine: Machine) -> None:
        value = self.value.value(machine)
        if self.operator:
            change = {"+": np.add, "^": np.bitwise_xor, "*": np.multiply}[self.operator]
            value = change(machine.names[self.name], value).astype(np.uint32)
        machine.assign(self.name, value)


@dataclass
class Atomic(Statement):
    """An atomic on a cell that no other statement uses, by a built-in or by portbar's functions."""

    operator: str
    cell: int
    operand: Expression
    portable: bool

    is_single: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({"atomics"})

    def write(self, writer: Writer) -> None:
        place, operand = f"cells + {self.cell}", self.operand.text(writer)
        writer.add(
            f"(void)portbar_atomic_fetch_{self.operator}_explicit({place}, {operand}, "
            "memory_order_relaxed, memory_scope_device);"
            if self.portable
            else f"atomic_{self.operator}({place}, {operand});"
        )

    def run(self, machine: Machine) -> None:
        values = self.operand.value(machine)[machine.mask]
        cell = machine.memory["cells"][self.cell : self.cell + 1]
        for value in values:
            cell[0] = ATOMICS[self.operator](cell, value)[0]


@dataclass
class Sequence(Statement):
    """Several statements in the place of one."""

    body: Block

    def write(self, writer: Writer) -> None:
        writer.block(self.body)

    def run(self, machine: Machine) -> None:
        machine.block(self.body)


@dataclass
class If(Statement):
    condition: Expression
    then: Block
    otherwise: Block = field(default_factory=list)
    bare: bool = False
    alias: bool = False

    def write(self, writer: Writer) -> None:
        writer.body(f"{'WHEN' if self.alias else 'if'} ({self.condition.text(writer)})", self.then, bare=self.bare)
        if self.otherwise:
            writer.body("else", self.otherwise, bare=self.bare)

    def run(self, machine: Machine) -> None:
        holds = self.condition.value(machine) != 0
        rest = machine.mask & ~holds
        machine.mask = machine.mask & holds
        machine.block(self.then)
        done, machine.mask = machine.mask, rest
        machine.block(self.otherwise)
        machine.mask = machine.mask | done


@dataclass
class Case(Node):
    """A case of a switch; it goes on to the next one where it `falls`. `label` is None for the default."""

    label: int | None
    block: Block
    falls: bool = False


@dataclass
class Switch(Statement):
    """Cases in order, the default last."""

    subject: Expression
    cases: list[Case]

    def write(self, writer: Writer) -> None:
        with writer.braces(f"switch ({self.subject.text(writer)})"):
            for case in self.cases:
                with writer.braces("default:" if case.label is None else f"case {case.label}u:"):
                    writer.block(case.block)
                if not case.falls:
                    writer.add("    break;")

    def run(self, machine: Machine) -> None:
        subject, waiting = self.subject.value(machine), machine.mask
        done = machine.mask & False
        machine.mask = machine.mask & False
        for case in self.cases:
            enters = waiting & (True if case.label is None else subject == case.label)
            waiting = waiting & ~enters
            machine.mask = machine.mask | enters
            machine.block(case.block)
            if not case.falls:
                done, machine.mask = done | machine.mask, machine.mask & False
        machine.mask = machine.mask | done | waiting


@dataclass
class For(Statement):
    """Turns that are counted up, or down."""

    counter: str
    turns: Expression
    body: Block
    down: bool = False
    alias: bool = False

    def write(self, writer: Writer) -> None:
        k, turns = self.counter, self.turns.text(writer)
        if self.alias and not self.down:
            writer.body(f"TURNS({k}, {turns})", self.body)
            return
        steps = f"{k} = {turns}; {k} > 0u; --{k}" if self.down else f"{k} = 0u; {k} < {turns}; ++{k}"
        writer.body(f"for (uint {steps})", self.body, bare=True)

    def run(self, machine: Machine) -> None:
        machine.assign(self.counter, self.turns.value(machine) if self.down else machine.full(0))
        step = np.uint32(0xFFFFFFFF if self.down else 1)
        exited = machine.mask & False
        with machine.loop():
            while machine.mask.any():
                count = machine.names[self.counter]
                goes_on = count > 0 if self.down else count < self.turns.value(machine)
                exited = exited | (machine.mask & ~goes_on)
                machine.mask = machine.mask & goes_on
                machine.iteration(self.body)
                if machine.mask.any():
                    machine.assign(self.counter, machine.names[self.counter] + step)
            machine.mask = exited


@dataclass
class While(Statement):
    """A loop of the forms `for`, `while`, `do`, and `for (;;)` with a way out at its start.

    Its counter is raised at the end of a turn in the form `for`, in the others at its start.
    """

    form: str
    counter: str
    condition: Expression
    body: Block

    def write(self, writer: Writer) -> None:
        condition = self.condition.text(writer)
        if self.form == "for":
            writer.body(f"for (uint {self.counter} = 0u; {condition}; ++{self.counter})", self.body)
            return
        writer.add(f"uint {self.counter} = 0u;")
        head, tail = {
            "while": (f"while ({condition})", ""),
            "do": ("do", f" while ({condition});"),
            "ever": ("for (;;)", ""),
        }[self.form]
        with writer.braces(head, tail):
            if self.form == "ever":
                writer.body(f"if (!{condition})", [Break()], bare=True)
            writer.add(f"++{self.counter};")
            writer.block(self.body)

    def run(self, machine: Machine) -> None:
        machine.assign(self.counter, machine.full(0))
        exited = machine.mask & False
        is_first = self.form == "do"
        with machine.loop():
            while machine.mask.any():
                if not is_first:
                    goes_on = self.condition.value(machine) != 0
                    exited = exited | (machine.mask & ~goes_on)
                    machine.mask = machine.mask & goes_on
                    if not machine.mask.any():
                        break
                is_first = False
                if self.form != "for":
                    machine.assign(self.counter, machine.names[self.counter] + np.uint32(1))
                machine.iteration(self.body)
                if self.form == "for" and machine.mask.any():
                    machine.assign(self.counter, machine.names[self.counter] + np.uint32(1))
            machine.mask = exited


@dataclass
class Break(Statement):
    is_single: ClassVar[bool] = True

    def write(self, writer: Writer) -> None:
        writer.add("break;")

    def run(self, machine: Machine) -> None:
        machine.loops[-1].broken |= machine.mask
        machine.mask = machine.mask & False


@dataclass
class Continue(Statement):
    is_single: ClassVar[bool] = True

    def write(self, writer: Writer) -> None:
        writer.add("continue;")

    def run(self, machine: Machine) -> None:
        machine.loops[-1].continued |= machine.mask
        machine.mask = machine.mask & False


@dataclass
class Return(Statement):
    """Returns a value from a function, none from the kernel."""

    value: Expression | None = None

    is_single: ClassVar[bool] = True

    def write(self, writer: Writer) -> None:
        writer.add(f"return {self.value.text(writer)};" if self.value else "return;")

    def run(self, machine: Machine) -> None:
        if self.value:
            machine.result = np.where(machine.mask, self.value.value(machine), machine.result)
        machine.mask = machine.mask & False


@dataclass
class Fault(Statement):
    """`if (!call) return;` after a call that returns false after a fault: never, in these programs."""

    call: Expression

    def write(self, writer: Writer) -> None:
        writer.add(f"if (!{self.call.text(writer)})")
        writer.add(f"    {writer.returns}")

    def run(self, machine: Machine) -> None:
        self.call.value(machine)
