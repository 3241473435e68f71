"""Statements that synchronise: exchanges through memory, split barriers, grid loops, teams, signals, worklists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tests.generated.interpreter import Machine
from tests.generated.tree import Block, Expression, Statement
from tests.generated.writer import Writer

#: Work-items for which each exchange has room, and elements of a grid loop that stores.
ROOM = 4096
#: Elements that the frontier and the task queue have room for.
CAPACITY = 256


@dataclass
class Exchange(Statement):
    """Each work-item writes a place of `board`; after a collective of the grid it reads that of another one."""

    slot: int
    value: Expression
    first: Statement
    target: str
    shift: int
    second: Statement

    needs: ClassVar[frozenset[str]] = frozenset({"board"})

    def write(self, writer: Writer) -> None:
        place = f"board[{self.slot * ROOM}u + "
        writer.add(f"{place}me] = {self.value.text(writer)};")
        self.first.write(writer)
        writer.add(f"{self.target} += {place}(me + {self.shift}u) % all];")
        self.second.write(writer)

    def run(self, machine: Machine) -> None:
        machine.of_grid()
        values = self.value.value(machine)
        self.first.run(machine)
        found = np.roll(values.ravel(), -self.shift).reshape(values.shape)
        machine.assign(self.target, machine.names[self.target] + found)
        self.second.run(machine)


@dataclass
class SplitDevice(Statement):
    """The device barrier in halves, with statements between them that contain no other split barrier of the grid."""

    token: str
    between: Block
    tested: bool

    def write(self, writer: Writer) -> None:
        writer.add(f"const portbar_device_token {self.token} = portbar_device_barrier_arrive({writer.grid});")
        writer.block(self.between)
        if self.tested:
            writer.add(f"while (!portbar_device_barrier_test_wait({writer.grid}, {self.token}))")
            writer.add("    ;")
        writer.add(f"if (!portbar_device_barrier_wait({writer.grid}, {self.token}))")
        writer.add(f"    {writer.returns}")

    def run(self, machine: Machine) -> None:
        machine.of_grid()
        machine.block(self.between)
        machine.of_grid()


@dataclass
class LocalExchange(Statement):
    """The same as an exchange within each work-group, in local memory, by `barrier` or by a split barrier."""

    value: Expression
    target: str
    shift: int
    split: str = ""
    between: Expression | None = None

    needs: ClassVar[frozenset[str]] = frozenset({"tile"})

    def write(self, writer: Writer) -> None:
        writer.add(f"tile[lid] = {self.value.text(writer)};")
        if self.split:
            writer.add(f"const portbar_arrival_token {self.split} = portbar_split_barrier_arrive(meeting);")
            if self.between:
                writer.add(f"{self.target} ^= {self.between.text(writer)};")
            writer.add(f"(void)portbar_split_barrier_wait(meeting, {self.split});")
        else:
            writer.add("barrier(CLK_LOCAL_MEM_FENCE);")
        writer.add(f"{self.target} += tile[(lid + {self.shift}u) % items];")
        writer.add(
            "(void)portbar_split_barrier_arrive_and_wait(meeting);" if self.split else "barrier(CLK_LOCAL_MEM_FENCE);"
        )

    def run(self, machine: Machine) -> None:
        machine.of_groups()
        values = self.value.value(machine)
        found = np.roll(values, -self.shift, axis=1)
        if self.split and self.between:
            machine.assign(self.target, machine.names[self.target] ^ self.between.value(machine))
        machine.assign(self.target, machine.names[self.target] + found)


@dataclass
class GroupBarrier(Statement):
    is_single: ClassVar[bool] = True

    def write(self, writer: Writer) -> None:
        writer.add("barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);")

    def run(self, machine: Machine) -> None:
        machine.of_groups()


@dataclass
class Elements(Statement):
    """`PORTBAR_FOR` or `PORTBAR_FOR_DYNAMIC`: work-items take elements, none knows which."""

    counter: str
    count: Expression
    body: Block
    chunk: int = 0

    def write(self, writer: Writer) -> None:
        head = f"({self.counter}, {writer.grid}, {self.count.text(writer)}"
        writer.body(f"PORTBAR_FOR_DYNAMIC{head}, {self.chunk}u)" if self.chunk else f"PORTBAR_FOR{head})", self.body)

    def run(self, machine: Machine) -> None:
        machine.of_grid()
        count, all_items = int(self.count.value(machine).flat[0]), machine.mask.size
        places = np.arange(all_items, dtype=np.uint32).reshape(machine.mask.shape)
        taken(machine, self.counter, count, places, all_items, self.body)


@dataclass
class Tiles(Statement):
    """`PORTBAR_FOR_TILES` or its fixed shares: work-groups take tiles, none knows which."""

    counter: str
    count: Expression
    body: Block

    def write(self, writer: Writer) -> None:
        counter, count = self.counter, self.count.text(writer)
        # Without a draw, so that a seed keeps its program.
        heads = (
            f"PORTBAR_FOR_TILES({counter}, {writer.grid}, {count})",
            f"PORTBAR_FOR_TILES_STATIC({counter}, {writer.grid}, {count})",
            f"PORTBAR_FOR_TILES_STATIC_2D({counter}, y_{counter}, {writer.grid}, {count}, 1u)",
            f"PORTBAR_FOR_TILES_STATIC_3D(x_{counter}, y_{counter}, {counter}, {writer.grid}, 1u, 1u, {count})",
        )
        writer.body(heads[sum(map(int, filter(str.isdigit, counter))) % len(heads)], self.body)

    def run(self, machine: Machine) -> None:
        machine.of_grid()
        places = np.broadcast_to(np.arange(machine.groups, dtype=np.uint32)[:, None], machine.mask.shape)
        taken(machine, self.counter, int(self.count.value(machine).flat[0]), places, machine.groups, self.body)


def taken(machine: Machine, counter: str, count: int, places: np.ndarray, stride: int, body: Block) -> None:
    """Execute a body once for each of `count` elements, by the work-items that have its place."""
    saved = machine.mask
    with machine.loop():
        for first in range(0, count, stride):
            machine.mask = saved & (places + first < count)
            machine.assign(counter, (places + first).astype(np.uint32))
            machine.iteration(body)
        machine.mask = saved


@dataclass
class Sum(Statement):
    """A sum over elements that work-items take, then a reduction of the grid."""

    part: str
    counter: str
    count: Expression
    term: Expression
    target: str
    operator: str

    needs: ClassVar[frozenset[str]] = frozenset({"scratch"})

    def write(self, writer: Writer) -> None:
        writer.add(f"uint {self.part} = 0u;")
        writer.add(f"PORTBAR_FOR({self.counter}, {writer.grid}, {self.count.text(writer)})")
        sign = {"add": "+", "xor": "^"}[self.operator]
        writer.add(f"    {self.part} {sign}= {self.term.text(writer)};")
        writer.add(f"{self.target} = portbar_device_reduce_{self.operator}({writer.grid}, scratch, {self.part});")

    def run(self, machine: Machine) -> None:
        machine.of_grid()
        total = np.uint32(0)
        combine = {"add": np.add, "xor": np.bitwise_xor}[self.operator]
        saved = machine.names
        for i in range(int(self.count.value(machine).flat[0])):
            machine.names = {**saved, self.counter: machine.full(i)}
            total = combine(self.term.value(machine).flat[:1], total)[0]
        machine.names = saved
        machine.assign(self.target, machine.full(int(total)))


@dataclass
class Declared(Statement):
    """A declared loop's reduction, over a work-group or the grid."""

    name: str
    of_grid: bool
    value: Expression
    target: str

    needs: ClassVar[frozenset[str]] = frozenset({"scratch", "sum"})

    def write(self, writer: Writer) -> None:
        with writer.braces():
            writer.add(f"sum_local {self.name} = {{ {self.value.text(writer)} }};")
            first, level = (f"{writer.grid}, ", "gang_worker_vector") if self.of_grid else ("", "worker_vector")
            writer.add(f"{self.name} = sum_reduce_{level}({first}scratch, {self.name});")
            writer.add(f"{self.target} += {self.name}.total;")

    def run(self, machine: Machine) -> None:
        if self.of_grid:
            machine.of_grid()
        else:
            machine.of_groups()
        values = self.value.value(machine)
        axis = None if self.of_grid else 1
        total = values.sum(axis=axis, dtype=np.uint32, keepdims=True)
        machine.assign(self.target, machine.names[self.target] + np.broadcast_to(total, values.shape))


@dataclass
class Team(Statement):
    """Teams of `size` neighbouring work-groups, cut by size or by colour, and what they do."""

    name: str
    size: int
    body: Block
    by_colour: bool

    needs: ClassVar[frozenset[str]] = frozenset({"team"})

    def write(self, writer: Writer) -> None:
        with writer.braces():
            split = f"split({writer.grid}, min({self.size}u, groups))"
            colour = f"by_colour({writer.grid}, group / min({self.size}u, groups))"
            writer.add(f"portbar_team {self.name} = portbar_team_{colour if self.by_colour else split};")
            writer.block(self.body)

    def run(self, machine: Machine) -> None:
        machine.of_grid()
        machine.team_size = min(self.size, machine.groups)
        machine.block(self.body)


@dataclass
class Relay(Statement):
    """Each work-group waits for the signal of the one before, goes on from its value, and signals the next one."""

    value: Expression
    target: str
    second: Statement

    needs: ClassVar[frozenset[str]] = frozenset({"signal"})

    def write(self, writer: Writer) -> None:
        writer.add(f"if (!portbar_device_signals_clear({writer.grid}, signals, groups + 1u))")
        writer.add(f"    {writer.returns}")
        wait = f"portbar_work_group_signal_wait_until_at_least({writer.grid}, signals + group, group == 0u ? 0u : 1u)"
        writer.add(f"if (!{wait})")
        writer.add(f"    {writer.returns}")
        writer.add("if (lid == 0u)")
        writer.add(f"    chain[group] = (group == 0u ? 0u : chain[group - 1u] * 3u) + {self.value.text(writer)};")
        writer.add(f"portbar_work_group_signal_add({writer.grid}, signals + group + 1u, 1u);")
        self.second.write(writer)
        writer.add(f"{self.target} = chain[groups - 1u];")
        writer.add(f"(void)portbar_device_barrier({writer.grid});")

    def run(self, machine: Machine) -> None:
        machine.of_grid()
        last = 0
        for value in self.value.value(machine)[:, 0]:
            last = last * 3 + int(value)
        self.second.run(machine)
        machine.assign(self.target, machine.full(last))


@dataclass
class Frontier(Statement):
    """Phases of a frontier: each element pushes others; statements of the grid between the phases.

    Work-items visit elements, or where `tiled` work-groups do, a tile of them at a time.
    """

    value: str
    first: Expression
    pushes: Expression
    visit: Block
    phase: Block
    tiled: bool

    needs: ClassVar[frozenset[str]] = frozenset({"frontier"})

    def write(self, writer: Writer) -> None:
        writer.add(f"if (me == 0u) portbar_frontier_push(frontier, list_items, 1u + {self.first.text(writer)} % 8u);")
        with writer.braces(f"while (portbar_device_frontier_swap({writer.grid}, frontier))"):
            i = f"i_{self.value}"
            if self.tiled:
                self.write_tiles(writer, i)
            else:
                self.write_elements(writer, i)
            writer.block(self.phase)

    def write_tiles(self, writer: Writer, i: str) -> None:
        """Add the loop over tiles, whose work-items push together."""
        size = "portbar_frontier_size(frontier)"
        with writer.braces(f"PORTBAR_FOR_TILES({i}, {writer.grid}, ({size} + items - 1u) / items)"):
            writer.add(f"const uint at_{i} = {i} * items + lid;")
            writer.add(f"const bool is_{i} = at_{i} < {size};")
            writer.add(f"const uint {self.value} = is_{i} ? list_items[portbar_frontier_at(frontier, at_{i})] : 0u;")
            with writer.braces(f"if (is_{i})"):
                writer.block(self.visit)
            writer.add(f"const uint n_{i} = is_{i} && {self.value} >= 2u ? {self.pushes.text(writer)} % 3u : 0u;")
            with writer.braces("for (uint c = 0u; c < 2u; ++c)"):
                push = f"portbar_work_group_frontier_push({writer.grid}, frontier, list_items, {self.value} / 2u, c < n_{i})"
                writer.add(f"{push};")

    def write_elements(self, writer: Writer, i: str) -> None:
        """Add the loop over elements, each for one work-item."""
        with writer.braces(f"PORTBAR_FOR({i}, {writer.grid}, portbar_frontier_size(frontier))"):
            writer.add(f"const uint {self.value} = list_items[portbar_frontier_at(frontier, {i})];")
            writer.block(self.visit)
            with writer.braces(f"for (uint c = 0u; c < {self.pushes.text(writer)} % 3u; ++c)"):
                writer.add(f"if ({self.value} >= 2u)")
                writer.add(f"    portbar_frontier_push(frontier, list_items, {self.value} / 2u);")

    def run(self, machine: Machine) -> None:
        machine.of_grid()
        elements = [1 + int(self.first.value(machine)[0, 0]) % 8]
        with machine.loop():
            while elements and machine.mask.any():
                following: list[int] = []
                for element in elements:
                    following += visited(machine, self.value, element, self.visit, self.pushes)
                machine.iteration(self.phase)
                elements = following


def visited(machine: Machine, name: str, element: int, visit: Block, pushes: Expression) -> list[int]:
    """Execute a visit in one work-item, and return what it pushes."""
    saved = machine.mask
    machine.mask = saved & False
    machine.mask[0, 0] = True
    machine.assign(name, machine.full(element))
    machine.block(visit)
    found = int(pushes.value(machine)[0, 0]) % 3
    machine.mask = saved
    return [element // 2] * found if element >= 2 else []


@dataclass
class Tasks(Statement):
    """A task queue: work-groups take tasks, which push others."""

    value: str
    first: Expression
    pushes: Expression
    body: Block

    needs: ClassVar[frozenset[str]] = frozenset({"tasks"})

    def write(self, writer: Writer) -> None:
        writer.add(
            f"if (me == 0u) (void)portbar_task_queue_push({writer.grid}, queue, task_items, "
            f"1u + {self.first.text(writer)} % 8u);"
        )
        writer.add(f"if (!portbar_device_barrier({writer.grid}))")
        writer.add(f"    {writer.returns}")
        with writer.braces(f"while (portbar_work_group_task_queue_pop({writer.grid}, queue, task_items, task))"):
            writer.add(f"const uint {self.value} = *task;")
            writer.block(self.body)
            writer.add(f"for (uint c = lid; c < {self.pushes.text(writer)} % 3u; c += items)")
            writer.add(f"    if ({self.value} >= 2u)")
            writer.add(f"        (void)portbar_task_queue_push({writer.grid}, queue, task_items, {self.value} / 2u);")
        # A late group would take tasks of the next round with its variables of this one.
        writer.add(f"if (!portbar_device_barrier({writer.grid}))")
        writer.add(f"    {writer.returns}")

    def run(self, machine: Machine) -> None:
        machine.of_grid()
        waiting = [1 + int(self.first.value(machine)[0, 0]) % 8]
        saved = machine.mask
        with machine.loop():
            while waiting:
                element = waiting.pop()
                machine.mask = saved & False
                machine.mask[0] = True
                machine.assign(self.value, machine.full(element))
                machine.iteration(self.body)
                if element >= 2:
                    waiting += [element // 2] * (int(self.pushes.value(machine)[0, 0]) % 3)
            machine.mask = saved
