"""Statements with `goto`: loops that it makes, and ways out of several loops at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tests.generated.interpreter import Machine
from tests.generated.tree import Block, Expression, Statement
from tests.generated.writer import Writer


def _write_body(writer: Writer, body: Block, *, flat: bool) -> None:
    """Write statements between a label and a jump, in braces unless they are `flat`."""
    if flat:
        writer.block(body)
    else:
        with writer.braces():
            writer.block(body)


@dataclass
class Goto(Statement):
    """A jump to a label of a statement around it."""

    label: str

    is_single: ClassVar[bool] = True

    def write(self, writer: Writer) -> None:
        writer.add(f"goto {self.label};")

    def run(self, machine: Machine) -> None:
        machine.go(self.label)


@dataclass
class GoBack(Statement):
    """A jump to the start of a loop made of `goto`, under a condition that bounds its turns."""

    label: str
    condition: Expression

    def write(self, writer: Writer) -> None:
        writer.add(f"if ({self.condition.text(writer)})")
        writer.add(f"    goto {self.label};")

    def run(self, machine: Machine) -> None:
        with machine.under(self.condition.value(machine) != 0):
            machine.go(self.label)


@dataclass
class Labelled(Statement):
    """Statements, with a label after them where a `goto` in them leads."""

    label: str
    body: Block
    flat: bool = False

    def write(self, writer: Writer) -> None:
        _write_body(writer, self.body, flat=self.flat)
        writer.add(f"{self.label}: ;")

    def run(self, machine: Machine) -> None:
        machine.block(self.body)
        machine.arrive(self.label)


@dataclass
class Again(Statement):
    """A loop made of `goto`: its condition is at its end in the form `do`, in the form `while` at its start.

    Its counter is raised at the start of a turn.
    """

    form: str
    label: str
    counter: str
    condition: Expression
    body: Block
    flat: bool = False

    def write(self, writer: Writer) -> None:
        condition, end = self.condition.text(writer), f"{self.label}_end"
        writer.add(f"uint {self.counter} = 0u;")
        if self.form == "do":
            writer.add(f"{self.label}: ++{self.counter};")
        else:
            writer.add(f"{self.label}: if (!{condition}) goto {end};")
            writer.add(f"++{self.counter};")
        _write_body(writer, self.body, flat=self.flat)
        if self.form == "do":
            writer.add(f"if ({condition}) goto {self.label};")
        else:
            writer.add(f"goto {self.label};")
            writer.add(f"{end}: ;")

    def run(self, machine: Machine) -> None:
        machine.assign(self.counter, machine.full(0))
        exited = machine.mask & False

        def test() -> None:
            nonlocal exited
            goes_on = self.condition.value(machine) != 0
            exited = exited | (machine.mask & ~goes_on)
            machine.mask = machine.mask & goes_on

        while machine.mask.any():
            if self.form != "do":
                test()
                if not machine.mask.any():
                    break
            machine.count()
            machine.assign(self.counter, machine.names[self.counter] + np.uint32(1))
            machine.block(self.body)
            if self.form == "do" and machine.mask.any():
                test()
            machine.arrive(self.label)
        machine.mask = exited
