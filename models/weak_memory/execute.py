"""Runs a kernel's work-groups over symbolic values: from LLVM's text to events.

The work-items of a group run one after another from barrier to barrier. Where a condition depends on what a read
finds, both ways are taken; at the next barrier ways that end in the same place become one again. A second decision at
the same branch, on the same way of calls, is another turn of a poll: that way is cut, so each wait ends with its first
successful read.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

import z3

from portbar.primitives.headers import FAULTS

from .events import Access, Event, Execution, Place, Site, Weakening, variables
from .instructions import Assembly, Operation, assembly, builtin, demangled
from .llvm import Function, Instruction, Module, Operand, Type, UnreadableError

_SIGNED: Final = {"slt": operator.lt, "sle": operator.le, "sgt": operator.gt, "sge": operator.ge}
_RELATIONS: Final[dict[str, tuple[Callable[..., Any], Callable[..., Any]]]] = {
    "eq": (operator.eq, operator.eq),
    "ne": (operator.ne, operator.ne),
    "ult": (operator.lt, z3.ULT),
    "ule": (operator.le, z3.ULE),
    "ugt": (operator.gt, z3.UGT),
    "uge": (operator.ge, z3.UGE),
}
_ARITHMETIC: Final[dict[str, tuple[Callable[..., Any], Callable[..., Any]]]] = {
    "add": (operator.add, operator.add),
    "sub": (operator.sub, operator.sub),
    "mul": (operator.mul, operator.mul),
    "udiv": (operator.floordiv, z3.UDiv),
    "urem": (operator.mod, z3.URem),
    "shl": (operator.lshift, operator.lshift),
    "lshr": (operator.rshift, z3.LShR),
    "and": (operator.and_, operator.and_),
    "or": (operator.or_, operator.or_),
    "xor": (operator.xor, operator.xor),
}


def _all(conditions: Iterable[z3.BoolRef]) -> z3.BoolRef:
    conditions = tuple(conditions)
    if len(conditions) == 1:
        return conditions[0]
    return z3.And(*conditions) if conditions else z3.BoolVal(True)


@dataclass
class Frame:
    """A function in the middle of its execution."""

    function: Function
    label: str
    index: int = 0
    registers: dict[str, Any] = field(default_factory=dict)
    previous: str = ""

    def copy(self) -> Frame:
        """Return a frame of its own."""
        return replace(self, registers=dict(self.registers))

    @property
    def instruction(self) -> Instruction:
        """The next statement."""
        return self.function.blocks[self.label][self.index]

    def jump(self, label: str) -> None:
        """Go on at a block."""
        self.previous, self.label, self.index = self.label, label, 0


@dataclass
class Item:
    """A work-item: calls, private memory, the last events before the next one, and where it has come to."""

    frames: list[Frame]
    memory: dict[tuple[Any, int], Any] = field(default_factory=dict)
    frontier: tuple[int, ...] = ()
    local_phase: int = 0
    status: str = "running"  # "running", "barrier", "done"
    clock: int = 0
    looks: int = 0
    turn: int = 0
    decisions: dict[tuple[Any, ...], int] = field(default_factory=dict)

    def copy(self) -> Item:
        """Return an item of its own."""
        frames = [frame.copy() for frame in self.frames]
        return replace(self, frames=frames, memory=dict(self.memory), decisions=dict(self.decisions))

    def position(self) -> tuple[Any, ...]:
        """Where it has come to."""
        return (self.status, *((frame.function.name, frame.label, frame.index) for frame in self.frames))


@dataclass
class State:
    """A work-group on one way: its items, its local memory, and the conditions of the way."""

    items: list[Item]
    local: dict[tuple[Any, int], Any] = field(default_factory=dict)
    path: tuple[z3.BoolRef, ...] = ()
    events: tuple[int, ...] = ()
    accesses: tuple[Access, ...] = ()

    def copy(self) -> State:
        """Return a state of its own."""
        return replace(self, items=[item.copy() for item in self.items], local=dict(self.local))

    def position(self) -> tuple[Any, ...]:
        """Where it has come to."""
        return tuple(item.position() for item in self.items)


class _CutError(Exception):
    """A way is not looked at: a poll that did not succeed, or a limit that was reached."""


class _FaultError(Exception):
    """A way ends in the report of overwritten state."""


def _number(value: Any) -> Any:
    """A constant expression becomes a number, a constant condition 0 or 1."""
    if isinstance(value, (int, tuple, list)) or value is None:
        return int(value) if isinstance(value, bool) else value
    value = z3.simplify(value)
    if z3.is_bv_value(value):
        return value.as_long()
    if z3.is_true(value) or z3.is_false(value):
        return int(z3.is_true(value))
    return value


def _vector(value: Any, bits: int) -> z3.BitVecRef:
    if isinstance(value, int):
        return z3.BitVecVal(value, bits)
    return z3.If(value, z3.BitVecVal(1, bits), z3.BitVecVal(0, bits)) if z3.is_bool(value) else value


def _condition(value: Any) -> z3.BoolRef:
    if isinstance(value, int):
        return z3.BoolVal(value != 0)
    return value if z3.is_bool(value) else value != 0


@dataclass
class Setting:
    """How a kernel is run: sizes, arguments, what functions are replaced by.

    At most `turns` decisions at one branch are looked at. `expected` says which values a word may have: paths on which a read
    finds another are skipped. The search makes sure that no write has another.
    """

    groups: int = 3
    items: int = 2
    arguments: dict[str, Any] = field(default_factory=dict)
    discovers: bool = False
    ptx: bool = False
    initial: dict[Place, int] = field(default_factory=dict)
    gives_up: bool = False
    turns: int = 1
    expected: dict[Place, Callable[[z3.BitVecRef], z3.BoolRef]] = field(default_factory=dict)


#: Results of the solver, with the expressions that were asked: texts that differ in one order decide the same.
_POSSIBLE: dict[tuple[int, ...], tuple[bool, tuple[z3.BoolRef, ...]]] = {}


class Executor:
    """Collects the events of all work-groups of a kernel."""

    def __init__(self, module: Module, kernel: str, setting: Setting, weakened: Iterable[Weakening] = ()) -> None:
        self.module, self.setting = module, setting
        self.kernel = module.functions[f"@{kernel}"]
        self.weakened = frozenset(weakened)
        self.found = Execution(initial=dict(setting.initial))
        self.group = 0
        self.reads = 0
        self.kept: set[int] = set()
        self.expected: dict[str, z3.BoolRef] = {}

    def run(self) -> Execution:
        """Run every work-group to its end."""
        kept = self.kept
        for group in range(self.setting.groups):
            self.group = group
            items = [Item([Frame(self.kernel, self.kernel.entry)]) for _ in range(self.setting.items)]
            for item in items:
                item.frames[0].registers.update(self.setting.arguments)
            states = [State(items)]
            while states:
                following = []
                for state in states:
                    ended = self._phase(state)
                    following += [other for other in ended if any(item.status != "done" for item in other.items)]
                    for other in ended:
                        self.found.accesses += other.accesses
                        if all(item.status == "done" for item in other.items):
                            kept.update(other.events)
                states = following
        self.found.accesses = list(dict.fromkeys(self.found.accesses))
        self._drop_all_but(kept)
        self.found.expected = [(event, sure) for event, sure in self.found.expected if event in self.found.events]
        return self.found

    def _drop_all_but(self, kept: set[int]) -> None:
        """Leave out the events of ways that were cut."""
        numbers = {old: new for new, old in enumerate(sorted(kept))}
        events = []
        for old in sorted(kept):
            event = self.found.events[old]
            event.number = numbers[old]
            event.before = tuple(numbers[other] for other in event.before)
            events.append(event)
        self.found.events = events

    # From barrier to barrier

    def _phase(self, begin: State) -> list[State]:
        """Run all items to their next barrier, on all ways, and join the ways that meet there."""
        self._leave_barrier(begin)
        base = begin.path
        ended: list[State] = []
        faults: list[State] = []
        waiting = [begin]
        while waiting:
            state = waiting.pop()
            # The leader comes last, so that others are not doubled by the ways it takes.
            running = [index for index, item in enumerate(state.items) if item.status == "running"]
            if not running:
                ended.append(state)
                continue
            try:
                other = self._step(state, running[-1])
            except _CutError:
                continue
            except _FaultError:
                faults.append(state)
                continue
            waiting.append(state)
            if other is not None:
                waiting.append(other)
        ways = [_all(state.path[len(base) :]) for state in (*ended, *faults)]
        self.found.known.append(z3.Implies(_all(base), z3.Or(ways)))
        for state in faults:
            self.found.faults.append((_all(state.path), self._site(state.items[0])))
            self.kept.update(state.events)
        joined: dict[tuple[Any, ...], list[State]] = {}
        for state in ended:
            joined.setdefault(state.position(), []).append(state)
        out = []
        for alike in joined.values():
            # Where all ways meet again, nothing is left to tell them apart: cut ways are known not to be taken, and
            # one that reports a fault is at its end.
            out += self._joined(alike, base, len(alike) == len(ended))
        return out

    def _joined(self, states: list[State], base: tuple[z3.BoolRef, ...], whole: bool) -> list[State]:
        """Return one state for several that differ in values only; as they were where a pointer differs."""
        if len(states) == 1:
            if whole:
                states[0].path = base
            return states
        conditions = [_all(state.path[len(base) :]) for state in states]
        first = states[0].copy()
        try:
            for other, condition in zip(states[1:], conditions[1:], strict=True):
                first.local = self._joined_memory(first.local, other.local, condition)
                first.events = tuple(dict.fromkeys((*first.events, *other.events)))
                first.accesses = tuple(dict.fromkeys((*first.accesses, *other.accesses)))
                for mine, theirs in zip(first.items, other.items, strict=True):
                    depth = len(mine.frames)
                    for memory in (mine.memory, theirs.memory):
                        for key in [key for key in memory if key[0][1] >= depth]:
                            del memory[key]
                    mine.memory = self._joined_memory(mine.memory, theirs.memory, condition)
                    mine.frontier = tuple(dict.fromkeys((*mine.frontier, *theirs.frontier)))
                    for here, there in zip(mine.frames, theirs.frames, strict=True):
                        here.registers = self._joined_memory(here.registers, there.registers, condition)
        except UnreadableError:
            return states
        first.path = base if whole else (*base, z3.Or(conditions))
        return [first]

    @staticmethod
    def _joined_memory(mine: dict[Any, Any], theirs: dict[Any, Any], condition: z3.BoolRef) -> dict[Any, Any]:
        joined = {}
        for key in mine.keys() & theirs.keys():
            one, other = mine[key], theirs[key]
            plain = [not isinstance(value, z3.ExprRef) for value in (one, other)]
            if one is other or (all(plain) and one == other) or (not any(plain) and one.eq(other)):
                joined[key] = one
            elif any(isinstance(value, (tuple, list)) or value is None for value in (one, other)):
                # A value that differs between two paths, and is not a number, may not be used from here on.
                continue
            elif z3.is_bool(one) or z3.is_bool(other):
                joined[key] = _number(z3.If(condition, _condition(other), _condition(one)))
            else:
                bits = (one if z3.is_bv(one) else other).size() if z3.is_bv(one) or z3.is_bv(other) else 32
                joined[key] = _number(z3.If(condition, _vector(other, bits), _vector(one, bits)))
        return joined

    def _leave_barrier(self, state: State) -> None:
        """Let all items out of the barrier that they have come to; those that are done take no part."""
        inside = [item for item in state.items if item.status == "barrier"]
        if not inside:
            return
        flags = inside[0].frames[-1].registers["barrier"]
        site = self._site(inside[0])
        name = f"barrier({' | '.join(name for bit, name in ((1, 'local'), (2, 'global')) if flags & bit)})"
        offered = (
            ("barrier",)
            if self.setting.ptx
            else tuple(what for bit, what in ((1, "local"), (2, "global")) if flags & bit)
        )
        self.found.offered[site, name] = offered
        if self.setting.ptx:
            flags = 0 if Weakening(site, name, "barrier") in self.weakened else 3
        else:
            flags &= ~(1 if Weakening(site, name, "local") in self.weakened else 0)
            flags &= ~(2 if Weakening(site, name, "global") in self.weakened else 0)
        if flags & 2:
            before = tuple(dict.fromkeys(number for item in inside for number in item.frontier))
            event = self._event(state, -1, "barrier", site, name, before)
            for item in inside:
                item.frontier = (event.number,)
        for item in inside:
            item.local_phase += flags & 1
            item.status = "running"
            item.frames[-1].index += 1

    def _event(self, state: State, item: int, kind: str, site: Site, name: str, before: Any, **more: Any) -> Event:
        event = Event(len(self.found.events), self.group, item, kind, before, _all(state.path), site, name, **more)
        self.found.events.append(event)
        state.events = (*state.events, event.number)
        return event

    @staticmethod
    def _site(item: Item) -> Site:
        return tuple((demangled(frame.function.name), frame.instruction.line) for frame in item.frames[1:])

    # Values

    def _value(self, item: Item, operand: Operand) -> Any:
        if operand.kind == "register":
            return item.frames[-1].registers[str(operand.value)]
        if operand.kind == "number":
            value = int(operand.value)  # type: ignore[call-overload]
            if operand.type[0] == "i":
                return value % (1 << operand.type[1])
            return [0] * operand.type[1] if operand.type[0] == "vector" else value
        if operand.kind == "global":
            return (("local", str(operand.value)), 0)
        if operand.kind == "undefined":
            return [0] * operand.type[1] if operand.type[0] == "vector" else 0
        if operand.kind == "vector":
            return [self._value(item, part) for part in operand.value]  # type: ignore[attr-defined]
        if operand.kind == "cast":
            return self._value(item, operand.value)  # type: ignore[arg-type]
        source, parts = cast("tuple[Type, tuple[Operand, ...]]", operand.value)
        return self._element(item, source, parts)

    def _element(self, item: Item, source: Type, parts: tuple[Operand, ...]) -> Any:
        place, offset = self._value(item, parts[0])
        kind = source
        for number, part in enumerate(parts[1:]):
            index = self._value(item, part)
            if not isinstance(index, int):
                raise UnreadableError(f"a place that depends on a read, in {item.frames[-1].function.name}")
            if part.type[1] > 1 and index >> (part.type[1] - 1):
                index -= 1 << part.type[1]
            kind = self.module.resolve(kind)
            if number == 0:
                offset += index * self.module.size(kind)
            elif kind[0] == "struct":
                offset += self.module.offset(kind, index)
                kind = kind[1][index]
            else:
                kind = kind[2]
                offset += index * self.module.size(kind)
        return (place, offset)

    def _binary(self, name: str, bits: int, one: Any, other: Any) -> Any:
        plain, symbolic = _ARITHMETIC[name]
        if isinstance(one, int) and isinstance(other, int):
            return plain(one, other) % (1 << bits)
        if bits == 1:
            logic = {"and": z3.And, "or": z3.Or, "xor": z3.Xor}[name]
            return _number(logic(_condition(one), _condition(other)))
        return _number(symbolic(_vector(one, bits), _vector(other, bits)))

    def _compared(self, relation: str, kind: Type, one: Any, other: Any) -> Any:
        if kind[0] == "ptr" or (isinstance(one, int) and isinstance(other, int)):
            if relation in _SIGNED:
                half = 1 << (kind[1] - 1)
                return int(_SIGNED[relation](one ^ half, other ^ half))
            return int(_RELATIONS[relation][0](one, other))
        if relation in _SIGNED:
            return _number(_SIGNED[relation](_vector(one, kind[1]), _vector(other, kind[1])))
        if kind[1] == 1:
            same = _condition(one) == _condition(other)
            return _number(same if relation == "eq" else z3.Not(same))
        return _number(_RELATIONS[relation][1](_vector(one, kind[1]), _vector(other, kind[1])))

    def _converted(self, name: str, operand: Operand, value: Any, kind: Type) -> Any:
        if isinstance(value, (tuple, list)) or kind[0] == "ptr" or name in ("bitcast", "addrspacecast"):
            return value
        before, after = operand.type[1], kind[1]
        if isinstance(value, int):
            if name == "sext" and value >> (before - 1):
                value -= 1 << before
            return value % (1 << after)
        if name == "trunc":
            value = _vector(value, before)
            return _number(z3.Extract(0, 0, value) == 1 if after == 1 else z3.Extract(after - 1, 0, value))
        if z3.is_bool(value):
            return _number(_vector(value, after))
        return _number((z3.ZeroExt if name == "zext" else z3.SignExt)(after - before, value))

    # Steps

    def _step(self, state: State, index: int) -> State | None:
        """Run one item to its next decision, barrier or end; the other way of a decision, if both can be."""
        item = state.items[index]
        while item.status == "running":
            frame = item.frames[-1]
            instruction = frame.instruction
            name, parts = instruction.name, instruction.parts
            if name == "br" and len(parts) == 3:
                condition = self._value(item, parts[0])
                if not isinstance(condition, int):
                    return self._decide(state, index, condition, parts[1], parts[2])
                frame.jump(parts[1] if condition else parts[2])
            elif name == "br":
                frame.jump(parts[0])
            elif name == "switch":
                chosen = self._value(item, parts[0])
                if not isinstance(chosen, int):
                    value, label = parts[2][0]
                    others = parts[2][1][1] if len(parts[2]) > 1 else parts[1]
                    return self._decide(state, index, _number(chosen == self._value(item, value)), label, others)
                ways = {self._value(item, value): label for value, label in parts[2]}
                frame.jump(ways.get(chosen, parts[1]))
            elif name == "ret":
                value = self._value(item, parts[0]) if parts else None
                item.frames.pop()
                if not item.frames:
                    item.status = "done"
                    # The end of a function needs no return location.
                    item.frames = []
                else:
                    self._return(item, value)
            elif name == "call":
                self._call(state, index, instruction)
            elif name == "unreachable":
                raise _CutError
            else:
                self._plain(state, index, instruction)
                frame.index += 1
        return None

    def _decide(self, state: State, index: int, condition: Any, yes: str, no: str) -> State | None:
        frame = state.items[index].frames[-1]
        truth = _condition(condition)
        ways = [(label, taken) for label, taken in ((yes, truth), (no, z3.Not(truth))) if self._possible(state, taken)]
        if not ways:
            raise _CutError
        if len(ways) == 1:
            frame.jump(ways[0][0])
            return None
        decisions, place = state.items[index].decisions, state.items[index].position()
        decisions[place] = decisions.get(place, 0) + 1
        if decisions[place] > self.setting.turns:
            raise _CutError
        other = state.copy()
        frame.jump(ways[0][0])
        state.path = (*state.path, ways[0][1])
        other.items[index].frames[-1].jump(ways[1][0])
        other.path = (*other.path, ways[1][1])
        return other

    def _possible(self, state: State, condition: z3.BoolRef) -> bool:
        names = variables(*state.path, condition)
        wanted = (*(self.expected[name] for name in sorted(names) if name in self.expected), *state.path, condition)
        # Equal expressions are one object of the solver as long as one of them lives, so their ids tell them apart.
        key = tuple(part.get_id() for part in wanted)
        if key not in _POSSIBLE:
            solver = z3.Solver()
            solver.add(*wanted)
            _POSSIBLE[key] = (bool(solver.check() != z3.unsat), wanted)
        return _POSSIBLE[key][0]

    def _return(self, item: Item, value: Any) -> None:
        frame = item.frames[-1]
        if frame.instruction.result:
            frame.registers[frame.instruction.result] = value
        frame.index += 1

    def _plain(self, state: State, index: int, instruction: Instruction) -> None:
        item = state.items[index]
        frame = item.frames[-1]
        name, parts = instruction.name, instruction.parts
        value: Any
        if name == "alloca":
            value = (("private", len(item.frames) - 1, index, frame.function.name, instruction.result), 0)
        elif name == "load":
            value = self._load(state, index, self._value(item, parts[1]))
        elif name == "store":
            self._store(state, index, self._value(item, parts[1]), self._value(item, parts[0]))
            return
        elif name == "getelementptr":
            value = self._element(item, parts[0], parts[1])
        elif name == "icmp":
            value = self._compared(parts[0], parts[1].type, self._value(item, parts[1]), self._value(item, parts[2]))
        elif name in _ARITHMETIC:
            value = self._binary(name, parts[0].type[1], self._value(item, parts[0]), self._value(item, parts[1]))
        elif name == "phi":
            value = next(self._value(item, way) for way, label in parts[0] if label == frame.previous)
        elif name == "select":
            condition, one, other = (self._value(item, part) for part in parts)
            if isinstance(condition, int):
                value = one if condition else other
            else:
                bits = parts[1].type[1]
                as_bits = _condition if bits == 1 else lambda chosen: _vector(chosen, bits)
                value = _number(z3.If(_condition(condition), as_bits(one), as_bits(other)))
        elif name == "extractelement":
            value = self._value(item, parts[0])[self._value(item, parts[1])]
        elif name == "insertelement":
            value = list(self._value(item, parts[0]))
            value[self._value(item, parts[2])] = self._value(item, parts[1])
        elif name == "freeze":
            value = self._value(item, parts[0])
        else:
            value = self._converted(name, parts[0], self._value(item, parts[0]), parts[1])
        frame.registers[instruction.result] = value

    def _load(self, state: State, index: int, pointer: Any) -> Any:
        (place, offset), item = pointer, state.items[index]
        if place[0] == "private":
            memory = item.memory if place[2] == index else state.items[place[2]].memory
            return memory.get((place, offset), 0)
        if place[0] == "local":
            self._access(state, index, place, offset, writes=False)
            return state.local.get((place, offset), 0)
        return self._datum(state, index, place, offset, stores=False)

    def _store(self, state: State, index: int, pointer: Any, value: Any) -> None:
        (place, offset), item = pointer, state.items[index]
        if place[0] == "private":
            item.memory[place, offset] = value
        elif place[0] == "local":
            self._access(state, index, place, offset, writes=True, value=value if isinstance(value, int) else None)
            state.local[place, offset] = value
        else:
            self._datum(state, index, place, offset, stores=True)

    def _datum(self, state: State, index: int, place: Any, offset: int, *, stores: bool) -> z3.BitVecRef:
        """Make the event of a plain access of global memory; a read may find any value."""
        item = state.items[index]
        name = "write" if stores else "read"
        datum, site = (place[1], offset), self._site(item)
        event = self._event(state, index, "data", site, name, item.frontier, turn=item.turn, datum=datum, stores=stores)
        item.frontier = (event.number,)
        return z3.BitVec(f"datum_{event.number}", 32)

    def _access(
        self, state: State, index: int, place: Any, offset: int, *, writes: bool, value: int | None = None
    ) -> None:
        item = state.items[index]
        access = Access(self.group, index, item.local_phase, (place[1], offset), writes, self._site(item), value)
        if access not in state.accesses:
            state.accesses = (*state.accesses, access)

    # Calls

    def _call(self, state: State, index: int, instruction: Instruction) -> None:
        item = state.items[index]
        callee, operands = instruction.parts
        given = [self._value(item, operand) for operand in operands]
        if isinstance(callee, tuple):
            self._return(item, self._assembly(state, index, callee[0], given))
            return
        function = self.module.functions.get(str(callee.value))
        name = demangled(str(callee.value))
        replaced = getattr(self, f"_do_{name}", None)
        if name == "portbar_discover" and self.setting.discovers:
            replaced = None
        if replaced is not None:
            value = replaced(state, index, *given)
            if item.status == "running":
                self._return(item, value)
        elif function is not None:
            frame = Frame(function, function.entry, registers=dict(zip(function.parameters, given, strict=True)))
            item.frames.append(frame)
        elif name.startswith("llvm.memcpy"):
            self._copy(state, index, *given[:3])
            self._return(item, None)
        elif name.startswith("llvm."):
            self._return(item, None)
        else:
            operation = builtin(name, given)
            if operation is None:
                raise UnreadableError(f"no function: {name}")
            if operation.name == "compare_exchange" and len(given) > 3:
                expected = self._load(state, index, given[1])
                old, same = self._operation(state, index, operation, [given[0], expected, given[2]])
                self._store(state, index, given[1], old)
                self._return(item, _number(same))
            else:
                self._return(item, self._operation(state, index, operation, given)[0])

    def _copy(self, state: State, index: int, to: Any, source: Any, size: int) -> None:
        memory = state.items[index].memory
        if "global" in (to[0][0], source[0][0]):
            for offset in range(0, size, 4):
                value = self._load(state, index, (source[0], source[1] + offset))
                self._store(state, index, (to[0], to[1] + offset), value)
            return
        for (place, offset), value in list(memory.items()):
            if place == source[0] and source[1] <= offset < source[1] + size:
                memory[to[0], to[1] + offset - source[1]] = value

    def _assembly(self, state: State, index: int, code: str, given: list[Any]) -> Any:
        if not code:
            return given[0] if given else None
        registers: dict[str, Any] = {}
        statements = assembly(code)
        outputs = {statement.target for statement in statements if statement.target.startswith("$")}
        returns = len(outputs)
        for number, value in enumerate(given):
            registers[f"${number + returns}"] = value
        for statement in statements:
            self._statement(state, index, statement, registers, given)
        return registers.get("$0") if returns else None

    def _statement(
        self, state: State, index: int, statement: Assembly, registers: dict[str, Any], given: list[Any]
    ) -> None:
        if statement.operation is None:
            item = state.items[index]
            if statement.moved == "%clock":
                # Each look comes sooner, so that what is measured later seems faster.
                item.looks += 1
                item.clock += 1 << 24 - item.looks
            known = {"%clock": item.clock, "%lanemask_ge": 0xFFFF_FFFF}
            # A move from a register to itself only hides where its value comes from.
            value = given[0] if statement.moved == statement.target else known.get(statement.moved)
            if value is None:
                raise UnreadableError(f"no register: {statement.moved}")
            registers[statement.target] = value
            return
        values = [registers[name] if name in registers else int(name) for name in statement.operands]
        old, _ = self._operation(state, index, statement.operation, values)
        if statement.target:
            registers[statement.target] = old

    def _do_barrier(self, state: State, index: int, flags: int) -> None:
        item = state.items[index]
        item.status = "barrier"
        item.frames[-1].registers["barrier"] = flags

    def _do_get_local_id(self, _state: State, index: int, dimension: int) -> int:
        return index if dimension == 0 else 0

    def _do_get_local_size(self, _state: State, _index: int, dimension: int) -> int:
        return self.setting.items if dimension == 0 else 1

    def _do_get_num_groups(self, _state: State, _index: int, dimension: int) -> int:
        return self.setting.groups if dimension == 0 else 1

    def _do_get_global_size(self, _state: State, _index: int, dimension: int) -> int:
        return self.setting.groups * self.setting.items if dimension == 0 else 1

    def _do_get_group_id(self, _state: State, _index: int, dimension: int) -> int:
        return self.group if dimension == 0 else 0

    def _do_min(self, _state: State, _index: int, one: Any, other: Any) -> Any:
        if isinstance(one, int) and isinstance(other, int):
            return min(one, other)
        one, other = _vector(one, 32), _vector(other, 32)
        return _number(z3.If(z3.ULT(one, other), one, other))

    def _do_max(self, _state: State, _index: int, one: Any, other: Any) -> Any:
        if isinstance(one, int) and isinstance(other, int):
            return max(one, other)
        one, other = _vector(one, 32), _vector(other, 32)
        return _number(z3.If(z3.UGT(one, other), one, other))

    def _do_portbar_discover(self, state: State, index: int, _words: Any, _launch: Any, count: Any) -> int:
        self._store(state, index, count, self.setting.groups)
        return self.group

    def _do_portbar_report_fault(self, _state: State, _index: int, *given: Any) -> None:
        if self.setting.gives_up:
            return
        raise _CutError if FAULTS[given[2]].is_timeout else _FaultError

    def _do_portbar_yield(self, *_: Any) -> None:
        return None

    def _do_model_mark(self, state: State, index: int, turn: int) -> None:
        item = state.items[index]
        # A loop that begins again decides anew.
        item.decisions.clear()
        item.turn = turn
        event = self._event(
            state, index, "mark", (), f"mark {turn}", item.frontier, turn=turn, local_phase=item.local_phase
        )
        item.frontier = (event.number,)

    def _do_model_tile(self, _state: State, _index: int, tile: int) -> int:
        return 1 << 4 * tile

    def _do_model_identity(self, state: State, _index: int, number: Any, count: Any) -> None:
        self.found.identities.append((_all(state.path), number, count))

    # Operations on global memory

    def _operation(self, state: State, index: int, operation: Operation, given: list[Any]) -> tuple[Any, Any]:
        """Make the event of an operation; what it found, and whether a compare-exchange found what it expected."""
        item = state.items[index]
        site = self._site(item)
        if operation.name == "fence":
            if operation.order:
                self._fence(state, index, operation, site)
            return None, None
        place, offset = given[0]
        if place == ("global", "state"):
            where = ("state", offset)
        elif place[0] == "global":
            where = (place[1], offset)
        else:
            raise UnreadableError(f"an atomic operation on {place}")
        possible = {"load": ("acquire",), "store": ("release",)}.get(operation.name, ("acquire", "release"))
        both = operation.order in {"acq_rel", "seq_cst"}
        orders = tuple(order for order in possible if both or order == operation.order)
        name = f"{operation.name} {operation.order}"
        self.found.offered.setdefault((site, name), (*orders, "scope"))
        kept = {order for order in orders if Weakening(site, name, order) not in self.weakened}
        scope = "group" if Weakening(site, name, "scope") in self.weakened else operation.scope
        found = value = same = None
        if operation.name != "store":
            self.reads += 1
            found = z3.BitVec(f"read_{self.reads}", 32)
            if where in self.setting.expected:
                self.expected[str(found)] = self.setting.expected[where](found)
        if operation.name != "load":
            value, same = self._written(operation.name, found, given[1:])
        kind = "read" if value is None else "write" if found is None else "update"
        guard = _all(state.path)
        event = self._event(
            state,
            index,
            kind,
            site,
            name,
            item.frontier,
            place=where,
            acquires="acquire" in kept,
            releases="release" in kept,
            sc=operation.order == "seq_cst" and bool(kept),
            scope=scope,
            found=found,
            value=value,
            wrote=guard if same is None else z3.And(guard, same),
        )
        item.frontier = (event.number,)
        if value is not None and where in self.setting.expected:
            self.found.expected.append((event, self.setting.expected[where](value)))
        return found, same

    def _fence(self, state: State, index: int, operation: Operation, site: Site) -> None:
        item = state.items[index]
        name = f"fence {operation.order}"
        self.found.offered.setdefault((site, name), ("fence", "scope"))
        if Weakening(site, name, "fence") in self.weakened:
            return
        both = operation.order in ("acq_rel", "seq_cst")
        event = self._event(
            state,
            index,
            "fence",
            site,
            name,
            item.frontier,
            acquires=both or operation.order == "acquire",
            releases=both or operation.order == "release",
            sc=operation.order == "seq_cst",
            scope="group" if Weakening(site, name, "scope") in self.weakened else operation.scope,
        )
        item.frontier = (event.number,)

    @staticmethod
    def _written(name: str, found: Any, given: list[Any]) -> tuple[Any, Any]:
        """Return what an operation writes, and whether it does where that depends on what it found."""
        values = [_vector(value, 32) for value in given]
        if name in ("store", "exchange"):
            return values[0], None
        if name == "compare_exchange":
            return values[1], found == values[0]
        if name == "inc":
            return found + 1, None
        if name in ("add", "or", "and", "sub", "xor"):
            return _ARITHMETIC[name][1](found, values[0]), None
        raise UnreadableError(f"no read-modify-write: {name}")
