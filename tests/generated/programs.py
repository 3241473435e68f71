"""A program: a kernel, the author's functions and macros, and their text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from tests.generated.collectives import Collective
from tests.generated.interpreter import Machine
from tests.generated.primitives import ROOM
from tests.generated.tree import Block, Expression, Node, Statement, UInts
from tests.generated.writer import Writer

#: The kernel's arguments, which no compiler knows.
ARGUMENTS = {"n": 3, "none": 0, "m": 5}
#: Variables of each function: u are the same in all work-items of the grid, g in those of a group, v in none.
VARIABLES = ("u0", "u1", "g0", "g1", "v0", "v1", "v2")
#: Variables of a function of a work-group. It may be called for a tile, of which no group knows which one it gets.
OWN = ("v0", "v1")

#: Need of a program -> header, parameters of the kernel, its first statements.
PARTS: dict[str, tuple[str, str, str]] = {
    "scratch": ("reduction", "", "PORTBAR_REDUCTION_SCRATCH(scratch);"),
    "atomics": ("atomics", "", ""),
    "team": ("team", "", ""),
    "sum": ("reduction", "", ""),
    "lock": (
        "lock",
        "volatile global portbar_spin_lock *spin, volatile global portbar_ticket_lock *ticket",
        "",
    ),
    "flag": ("", "global uint *flag", ""),
    "board": ("", "global uint *board", ""),
    "signal": ("signal", "global portbar_signal *signals, global uint *chain", ""),
    "frontier": (
        "worklist",
        "global portbar_worklist *list, global uint *list_items",
        "PORTBAR_FRONTIER(phases, &grid, list);\nprivate portbar_frontier *frontier = &phases;",
    ),
    "tasks": (
        "worklist",
        "global portbar_worklist *tasks, global uint *task_items",
        "local uint task[1];\nPORTBAR_TASK_QUEUE(pending, &grid, tasks);\nprivate portbar_task_queue *queue = &pending;",
    ),
    "tile": (
        "split_barrier",
        "",
        (
            "local uint tile[256];\nlocal portbar_split_barrier meeting[1];\n"
            "if (get_local_id(0) == 0)\n    portbar_split_barrier_initialize(meeting, (uint)get_local_size(0));\n"
            "barrier(CLK_LOCAL_MEM_FENCE);"
        ),
    ),
}
#: The same -> parameters of functions, and arguments.
PASSED: dict[str, tuple[str, str]] = {
    "scratch": ("PORTBAR_SCRATCH_PARAM scratch", "scratch"),
    "board": ("global uint *board", "board"),
    "lock": (
        "volatile global portbar_spin_lock *spin, volatile global portbar_ticket_lock *ticket",
        "spin, ticket",
    ),
    "flag": ("global uint *flag", "flag"),
    "signal": ("global portbar_signal *signals, global uint *chain", "signals, chain"),
    "tile": ("local uint *tile, local portbar_split_barrier *meeting", "tile, meeting"),
}
IDS = "const uint lid = (uint)get_local_id(0), items = (uint)get_local_size(0);"
GRID_IDS = (
    "const uint group = portbar_group_id({0}), groups = portbar_num_groups({0}), me = portbar_global_id({0}), "
    "all = portbar_global_size({0});"
)


@dataclass
class Function(Node):
    """A function of the author's, of a grid or of a work-group alone. It returns a value of the level of that name."""

    name: str
    of_grid: bool
    body: Block
    result: Expression
    head: str = "static uint"

    @property
    def parameters(self) -> tuple[str, ...]:
        return ("u0", "g0", "v0") if self.of_grid else ("v0",)

    def passed(self, what: int) -> list[str]:
        """Return the parameters that all functions have, or the arguments for them."""
        needed = needs(self)
        return [parts[what] for name, parts in PASSED.items() if name in needed]

    def write(self, writer: Writer) -> None:
        parameters = [
            *(["private portbar_grid *grid"] if self.of_grid else []),
            "global uint *cells, global const uint *x, const uint n, const uint none, const uint m",
            *self.passed(0),
            *(f"uint {name}" for name in self.parameters),
        ]
        inside = Writer(grid="grid", returns="return 0u;", depth=1)
        for line in [IDS, *([GRID_IDS.format("grid")] if self.of_grid else [])]:
            inside.add(line)
        own = [name for name in (VARIABLES if self.of_grid else OWN) if name not in self.parameters]
        inside.add(f"uint {', '.join(f'{name} = 0u' for name in own)};")
        inside.block(self.body)
        inside.add(f"return {self.result.text(inside)};")
        writer.add(f"{self.head} {self.name}({', '.join(parameters)})")
        writer.add("{")
        writer.lines += inside.lines
        writer.add("}")


@dataclass
class Call(Expression):
    """A call of a function, which all work-items of the grid or of a group make."""

    function: Function
    arguments: list[Expression]

    def text(self, writer: Writer) -> str:
        given = [
            *([writer.grid] if self.function.of_grid else []),
            "cells, x, n, none, m",
            *self.function.passed(1),
            *(argument.text(writer) for argument in self.arguments),
        ]
        return f"{self.function.name}({', '.join(given)})"

    def value(self, machine: Machine) -> UInts:
        values = [argument.value(machine) for argument in self.arguments]
        names = {name: machine.full(0) for name in VARIABLES} | machine.ids() | arguments(machine)
        names |= dict(zip(self.function.parameters, values, strict=True))
        with machine.called(names):
            machine.block(self.function.body)
            if machine.mask.any():
                last = self.function.result.value(machine)
                machine.result[machine.mask] = last[machine.mask]
        return machine.returned


@dataclass
class Macro(Node):
    """A macro of the author's with statements, for a grid and one variable."""

    name: str
    body: Block
    form: str

    def write(self, writer: Writer) -> None:
        inside = Writer(grid="(G)", returns="return;", depth=1)
        inside.block(self.body)
        head, tail = {"do": ("do {", "} while (0)"), "braces": ("{", "}")}[self.form]
        lines = [f"#define {self.name}(G) {head}", *inside.lines, tail]
        writer.lines += [f"{line} \\" for line in lines[:-1]] + lines[-1:]


@dataclass
class Use(Statement):
    """A use of a macro, in the kernel."""

    macro: Macro

    @property
    def is_single(self) -> bool:  # type: ignore[override]
        return self.macro.form == "do"

    def write(self, writer: Writer) -> None:
        writer.add(f"{self.macro.name}({writer.grid});")

    def run(self, machine: Machine) -> None:
        machine.block(self.macro.body)


@dataclass
class Program(Node):
    """A kernel and what it uses; after `body`, the statements of `tail`, which contain no collective."""

    functions: list[Function] = field(default_factory=list)
    macros: list[Macro] = field(default_factory=list)
    body: Block = field(default_factory=list)
    tail: Block = field(default_factory=list)

    first_header: ClassVar[str] = "device_barrier"
    first_parameter: ClassVar[str] = "PORTBAR_GRID_PARAM"

    @property
    def tops(self) -> list[Block]:
        """The blocks of the kernel."""
        return [self.body, self.tail]

    @property
    def parts(self) -> list[str]:
        """The needs that the kernel declares, in order."""
        needed = needs(self)
        return [name for name in PARTS if name in needed]

    def text(self) -> str:
        """Return the program in OpenCL C."""
        writer = Writer()
        for header in dict.fromkeys([self.first_header, *filter(None, (PARTS[name][0] for name in self.parts))]):
            writer.add(f'#include "portbar/{header}.h"')
        collectives = [node for node in self.walk() if isinstance(node, Collective) and node.alias]
        for macro in dict.fromkeys(node.macro() for node in collectives):
            writer.add(macro)
        for macro in ("WHEN(c) if (c)", "TURNS(k, n) for (uint k = 0u; k < (n); ++k)"):
            writer.add(f"#define {macro}")
        self.write_macros(writer)
        for part in (*self.functions, *self.macros):
            writer.add("")
            part.write(writer)
        writer.add("")
        parameters = [
            self.first_parameter,
            "global uint *cells, global uint *out, global const uint *x",
            *filter(None, (PARTS[name][1] for name in self.parts)),
            "const uint n, const uint none, const uint m",
        ]
        writer.add(f"kernel void k({', '.join(parameters)})")
        with writer.braces():
            self.write_entry(writer)
            writer.add(f"uint {', '.join(f'{name} = 0u' for name in VARIABLES)};")
            self.write_statements(writer)
            for place, name in enumerate(VARIABLES):
                writer.add(f"out[{place * ROOM}u + me] = {name};")
        return writer.text()

    def write_macros(self, writer: Writer) -> None:
        """Add macros of the program's own."""

    def write_entry(self, writer: Writer) -> None:
        """Add the first statements of the kernel."""
        writer.add("PORTBAR_ENTER(grid);")
        self.write_parts(writer)
        writer.add(IDS)
        writer.add(GRID_IDS.format("&grid"))

    def write_parts(self, writer: Writer) -> None:
        """Add what the parts that are needed declare."""
        for name in self.parts:
            writer.lines += [f"    {line}" for line in PARTS[name][2].splitlines()]

    def write_statements(self, writer: Writer) -> None:
        """Add the statements that were drawn."""
        writer.block(self.body)
        writer.block(self.tail)

    def execute(self, machine: Machine) -> None:
        """Execute the statements that were drawn."""
        machine.block(self.body)
        machine.block(self.tail)

    def run(self, machine: Machine) -> None:
        """Execute the kernel: its effects are in the machine's memory."""
        machine.names = {name: machine.full(0) for name in VARIABLES} | machine.ids() | arguments(machine)
        self.execute(machine)
        me = machine.names["me"]
        for place, name in enumerate(VARIABLES):
            machine.memory["out"][place * ROOM + me[machine.mask]] = machine.names[name][machine.mask]


def arguments(machine: Machine) -> dict[str, UInts]:
    """Return the kernel's arguments, which functions get."""
    return {name: machine.full(value) for name, value in ARGUMENTS.items()}


def needs(node: Node) -> set[str]:
    """Return what is needed by a node, and by the functions that it calls."""
    found: set[str] = set()
    for part in node.walk():
        found |= part.needs
    return found


def blocks(node: Node) -> Iterator[Block]:
    """Yield each list of statements below a node."""
    for part in node.walk():
        for value in vars(part).values():
            if isinstance(value, list) and all(isinstance(one, Statement) for one in value):
                yield value
