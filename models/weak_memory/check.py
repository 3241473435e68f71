"""Looks for an execution that breaks a promise, and says it in words."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import z3

from portbar.primitives import layout

from .axioms import Constraints
from .events import Event, Execution, Site, Weakening
from .execute import Executor, Setting
from .llvm import Module


@dataclass
class Verdict:
    """The result of a search: `trail` is empty if no execution breaks the promise."""

    seconds: float
    events: int
    trail: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether no execution breaks the promise."""
        return not self.trail


@dataclass
class Broken:
    """A way to break the promise: the condition of it, and the words."""

    condition: z3.BoolRef
    words: str


def check(
    module: Module, kernel: str, setting: Setting, promise: str, weakened: Iterable[Weakening] = ()
) -> tuple[Verdict, Execution]:
    """Look for an execution of a kernel that breaks its promise."""
    began = time.perf_counter()
    execution = Executor(module, kernel, setting, weakened).run()
    race = local_race(execution)
    if race or promise == "local":
        return Verdict(time.perf_counter() - began, len(execution.events), [race] if race else []), execution
    pairs = list(_pairs(execution, promise))
    constraints = Constraints(execution, ptx=setting.ptx, sources={one.number for pair in pairs for one in pair[:2]})
    broken = list(_broken(constraints, pairs))
    if not weakened and constraints.solver.check() != z3.sat:
        raise RuntimeError("the program has no execution at all, so nothing is shown")
    constraints.solver.add(z3.Or([way.condition for way in broken]))
    answer = constraints.solver.check()
    trail = []
    if answer == z3.sat:
        trail = _trail(constraints, broken)
    elif answer != z3.unsat:
        raise RuntimeError(f"the solver gave up: {constraints.solver.reason_unknown()}")
    return Verdict(time.perf_counter() - began, len(execution.events), trail), execution


def _pairs(execution: Execution, promise: str) -> Iterator[tuple[Event, Event, bool]]:
    """Events of which the first comes before the second, or with True any of both before the other."""
    marks = [event for event in execution.events if event.kind == "mark"]
    if promise == "discovery":
        prepared = [
            event
            for event in execution.events
            if event.writes and any(name == "portbar_state_prepare" for name, _ in event.site)
        ]
        # Predecessors of a later one are predecessors of it, too.
        first = {number for event in prepared for number in event.before}
        yield from ((one, mark, False) for one in prepared if one.number not in first for mark in marks)
        return
    if promise == "data":
        yield from ((one, other, False) for one, other in _data_pairs(execution))
        return
    for one in marks:
        for other in marks:
            if (
                promise == "barrier"
                and other.turn == one.turn + 1
                and (one.group, one.item) != (other.group, other.item)
            ):
                yield one, other, False
            if promise == "lock" and one.number < other.number and one.group != other.group:
                yield one, other, True


def _data_pairs(execution: Execution) -> Iterator[tuple[Event, Event]]:
    """A word's writes before the reads of their turn, and before them all accesses of earlier turns."""
    for one in _data(execution):
        for other in _data(execution):
            alike = one.datum == other.datum and (one.group, one.item) != (other.group, other.item)
            if alike and ((one.turn < other.turn and other.stores) or (one.turn == other.turn and one.stores)):
                yield one, other


def _data(execution: Execution) -> list[Event]:
    return [event for event in execution.events if event.kind == "data"]


def local_race(execution: Execution) -> str:
    """Two work-items of a group that access a word of local memory, one writing, with no barrier that counts between."""
    marks = [event for event in execution.events if event.kind == "mark"]
    for one in marks:
        for other in marks:
            same = one.group == other.group and one.item != other.item and other.turn == one.turn + 1
            if same and one.local_phase >= other.local_phase:
                return (
                    f"In group {one.group}, item {other.item} may read local memory from before what item {one.item} "
                    f"wrote before barrier {one.turn + 1}: no barrier between orders local memory."
                )
    for access in execution.accesses:
        if not access.writes:
            continue
        for second in execution.accesses:
            same = (access.group, access.phase, access.place) == (second.group, second.phase, second.place)
            # Work-items of a master may all note the same failure: whichever store is last, the word is the same.
            alike = second.writes and access.value is not None and access.value == second.value
            if same and access.item != second.item and not alike:
                return (
                    f"In group {access.group}, item {access.item} writes a word of local memory at {_where(access.site)} while "
                    f"item {second.item} {'writes' if second.writes else 'reads'} it at {_where(second.site)}: no barrier "
                    "between them orders local memory."
                )
    return ""


def _broken(constraints: Constraints, pairs: Iterable[tuple[Event, Event, bool]]) -> Iterator[Broken]:
    execution = constraints.execution
    for one, other, either in pairs:
        ordered = constraints.before(one, other)
        if either:
            ordered = z3.Or(ordered, constraints.before(other, one))
        if not z3.is_true(ordered):
            yield Broken(z3.And(one.guard, other.guard, z3.Not(ordered)), _unordered(one, other, either=either))
    for read in (event for event in _data(execution) if not event.stores):
        written = [
            event.guard
            for event in _data(execution)
            if event.stores and (event.datum, event.turn) == (read.datum, read.turn)
        ]
        yield Broken(
            z3.And(read.guard, z3.Not(z3.Or(written))), f"{_event(read)} reads a value that was never written."
        )
    for condition, site in execution.faults:
        yield Broken(condition, f"A group reports words as overwritten that were not, at {_where(site)}.")
    for event, as_expected in execution.expected:
        yield Broken(
            z3.And(event.wrote, z3.Not(as_expected)), f"{_event(event)} writes what this model did not expect."
        )
    known = execution.identities
    for index, (one_path, _, one_count) in enumerate(known):
        for other_path, _, other_count in known[index + 1 :]:
            # Work-items of one group know the same; a group's id is unlike that of others.
            wrong = z3.Not(_same(one_count, other_count))
            yield Broken(z3.And(one_path, other_path, wrong), "Two work-items know different numbers of groups.")
    # Atomic operations whose scopes do not reach each other race like plain ones.
    for events in constraints.by_place.values():
        for one in events:
            for other in events:
                races = one.number < other.number and (one.writes or other.writes)
                if races and not constraints.inclusive(one, other):
                    unordered = z3.Not(z3.Or(constraints.before(one, other), constraints.before(other, one)))
                    words = f"{_event(one)} and {_event(other)} race: their scopes do not reach each other."
                    yield Broken(z3.And(one.guard, other.guard, unordered), words)


def _same(one: Any, other: Any) -> z3.BoolRef:
    if isinstance(one, int) and isinstance(other, int):
        return z3.BoolVal(one == other)
    return one == other


# Words


def _where(site: Site) -> str:
    return " > ".join(f"{name}:{line}" for name, line in site) or "the kernel"


def _who(event: Event) -> str:
    return f"group {event.group} item {event.item}" if event.item else f"group {event.group}'s leader"


def _word(event: Event) -> str:
    name, offset = event.place or event.datum or ("", 0)
    if name != "state":
        return f"{name}+{offset}"
    word = offset // 4
    names = [(start, known) for known, start in layout.OFFSETS.items() if start <= word]
    start, known = max(names, default=(0, "STATE"))
    return known if start == word else f"{known}+{word - start}"


def _event(event: Event) -> str:
    return f"{_who(event)}: {event.name} of {_word(event)} at {_where(event.site)}"


def _unordered(one: Event, other: Event, *, either: bool) -> str:
    if one.kind == "data":
        return f"{_event(one)} does not come before {_event(other)}."
    if one.kind != "mark":
        return f"The stores of {_event(one)} do not come before the accesses of {_who(other)} after discovery."
    if either:
        return f"{_who(one)} and {_who(other)} hold the lock, and neither comes before the other."
    return (
        f"The writes of {_who(one)} before barrier {one.turn + 1} do not come before the reads of {_who(other)} after it: "
        "the read may be stale."
    )


def _trail(constraints: Constraints, broken: list[Broken]) -> list[str]:
    model = constraints.solver.model()

    def holds(condition: z3.BoolRef) -> bool:
        return bool(z3.is_true(model.eval(condition, model_completion=True)))

    lines = []
    atomics = [event for event in constraints.events if event.place is not None and holds(event.guard)]
    time_of = getattr(constraints, "time", {})
    atomics.sort(key=lambda event: model.eval(time_of[event.number], model_completion=True).as_long())
    for event in atomics:
        line = _event(event)
        if event.reads:
            source = next(
                (
                    writer
                    for (reader, writer), takes in constraints.takes.items()
                    if reader == event.number and holds(takes)
                ),
                None,
            )
            value = model.eval(event.found, model_completion=True)
            origin = "before the launch" if source in (None, -1) else f"by {_who(constraints.events[source])}"
            line += f" finds {value}, written {origin}"
        lines.append(line)
    lines.append(next(way.words for way in broken if holds(way.condition)))
    return lines
