"""Statements of single work-items that wait for others: locks and atomic waits; and directives around statements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tests.generated.interpreter import Machine
from tests.generated.tree import Block, Expression, Statement
from tests.generated.writer import Writer


@dataclass
class Locked(Statement):
    """One work-item of each group adds to a cell, which no atomic touches, while it has a lock."""

    kind: str
    cell: int
    value: Expression

    needs: ClassVar[frozenset[str]] = frozenset({"lock"})

    def write(self, writer: Writer) -> None:
        with writer.braces(f"if (lid == 0u && portbar_{self.kind}_lock_acquire({self.kind}))"):
            writer.add(f"cells[{self.cell}] += {self.value.text(writer)};")
            writer.add(f"portbar_{self.kind}_lock_release({self.kind});")

    def run(self, machine: Machine) -> None:
        machine.of_groups()
        values = self.value.value(machine)[machine.mask[:, 0], 0]
        cells = machine.memory["cells"]
        cells[self.cell] = cells[self.cell] + values.sum(dtype=np.uint32)


@dataclass
class Awaited(Statement):
    """One work-item of each group waits until the first group has changed a flag."""

    name: str
    first: Statement
    value: Expression
    second: Statement

    needs: ClassVar[frozenset[str]] = frozenset({"atomics", "flag"})

    def write(self, writer: Writer) -> None:
        load = "portbar_atomic_load_explicit(flag, memory_order_relaxed, memory_scope_device)"
        writer.add(f"const uint {self.name} = {load};")
        self.first.write(writer)
        with writer.braces("if (me == 0u)"):
            writer.add(f"flag[1] = {self.value.text(writer)};")
            writer.add("(void)portbar_atomic_fetch_add_explicit(flag, 1u, memory_order_release, memory_scope_device);")
        with writer.braces("else if (lid == 0u)"):
            wait = f"portbar_device_atomic_wait({writer.grid}, flag, {self.name})"
            writer.add(f"if ({wait})")
            writer.add("    atomic_add(flag + 2, flag[1]);")
        self.second.write(writer)

    def run(self, machine: Machine) -> None:
        machine.of_grid()
        self.first.run(machine)
        machine.memory["flag"][0] += 1
        value = self.value.value(machine)[0, 0]
        machine.memory["flag"][1] = value
        machine.memory["flag"][2] = np.uint32(
            (int(machine.memory["flag"][2]) + (machine.groups - 1) * int(value)) & 0xFFFFFFFF
        )
        self.second.run(machine)


@dataclass
class Directive(Statement):
    """Statements in one arm of an `#if`; the other arm, with a misuse in it, is not compiled.

    With a condition, the arms have two heads of one `if` instead, which the statements follow.
    """

    block: Block
    is_first: bool
    condition: Expression | None = None

    def write(self, writer: Writer) -> None:
        other = "    if (lid == 0u) { portbar_device_barrier(no_such_grid); }"
        if self.condition:
            writer.lines += ["#ifdef NOT_DEFINED", "    if (lid == 0u) {", "#else"]
            writer.add(f"if ({self.condition.text(writer)}) {{")
            writer.lines += ["#endif"]
            writer.depth += 1
            writer.block(self.block)
            writer.depth -= 1
            writer.add("}")
            return
        writer.lines += ["#ifndef NOT_DEFINED"] if self.is_first else ["#ifdef NOT_DEFINED", other, "#else"]
        writer.block(self.block)
        writer.lines += ["#else", other, "#endif"] if self.is_first else ["#endif"]

    def run(self, machine: Machine) -> None:
        with machine.under(machine.full(1) != 0 if self.condition is None else self.condition.value(machine) != 0):
            machine.block(self.block)
