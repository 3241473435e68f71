"""The two memory models as constraints for a solver: OpenCL's, and PTX's from version 6.0 on.

Both are release/acquire models with scopes, and here share one form. Each write of a word has a place in the word's
order, each read the place of the write that it takes its value from. Synchronisation makes edges between work-items; `reaches`
holds for all events that follow an event in the closure of these edges and program order. It may
hold for more, which only forbids more to the solver that looks for an execution: so what it cannot avoid is exact.

OpenCL: Batty, Donaldson and Wickerson, "Overhauling SC atomics in C11 and OpenCL" (POPL 2016), with scoped
sequential consistency; release sequences are read-modify-writes only, as in C++20, which promises less.
PTX: Lustig, Sahasrabuddhe and Giroux, "A formal analysis of the NVIDIA PTX memory consistency model" (ASPLOS 2019).
There the model has one more way to acquire (a strong read, and an acquiring one of the same word after it), and one
more to release; the order of its sequentially consistent fences synchronises. Values out of thin air are excluded in
both: no circle of reads-from and dependencies.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import z3

from .events import Event, Execution, Place, variables


class Constraints:
    """The constraints on every execution of a program under a model."""

    def __init__(self, execution: Execution, *, ptx: bool, sources: Iterable[int] = (), unread: bool = False) -> None:
        self.execution, self.ptx = execution, ptx
        self.events = execution.events
        self.solver = z3.SolverFor("QF_FD")
        self.solver.add(*execution.known)
        self.by_place: dict[Place, list[Event]] = defaultdict(list)
        # Unread words do not matter, except for a litmus test that checks their final values.
        read = {event.place for event in self.events if event.reads or unread}
        for event in self.events:
            if event.place is not None and event.place in read:
                self.by_place[event.place].append(event)
        self._order_in_groups()
        self.takes: dict[tuple[int, int], z3.BoolRef] = {}
        self.position: dict[int, z3.BitVecRef] = {}
        self.seen: dict[int, z3.BitVecRef] = {}
        self._reads_from()
        self.synchronises = self._synchronisation()
        self._rank_fences()
        self.reaches: dict[int, dict[int, z3.BoolRef]] = {}
        ordered = {event.number for events in self.by_place.values() for event in events}
        ordered |= {event.number for event in self.events if event.sc}
        alike: dict[frozenset[int], list[int]] = defaultdict(list)
        for source in sorted(ordered | set(sources)):
            leaving = (number for number in (source, *self.after[source]) if self.synchronises.get(number))
            alike[frozenset(leaving)].append(source)
        for edges, same in alike.items():
            self._reach(edges, same)
        self._coherence()
        self._no_thin_air()
        if not ptx:
            self._sequential_consistency()

    # Program order and work-groups' barriers

    def _order_in_groups(self) -> None:
        """`after`: what surely comes after an event in its group; `same`: of these, what its own work-item does."""
        followers: dict[int, list[int]] = defaultdict(list)
        for event in self.events:
            for other in event.before:
                followers[other].append(event.number)
        self.followers = followers
        self.after: list[frozenset[int]] = [frozenset()] * len(self.events)
        for event in reversed(self.events):
            found = set(followers[event.number])
            for other in followers[event.number]:
                found |= self.after[other]
            self.after[event.number] = frozenset(found)

    def later(self, event: Event, kind: str = "") -> Iterator[Event]:
        """The later events of the same work-item."""
        for number in self.after[event.number]:
            other = self.events[number]
            if other.item == event.item and (not kind or other.kind == kind):
                yield other

    def before(self, one: Event, other: Event) -> z3.BoolRef:
        """Whether an event comes before another in happens-before, or PTX's causality order."""
        if other.number in self.after[one.number]:
            return z3.BoolVal(True)
        return self.reaches[one.number].get(other.number, z3.BoolVal(False))

    @staticmethod
    def inclusive(one: Event, other: Event) -> bool:
        """Whether the scope of each includes the other's work-item."""
        return one.group == other.group or (one.scope == "device" and other.scope == "device")

    # Reads, and the order of writes

    def _reads_from(self) -> None:
        for place, events in self.by_place.items():
            writers = [event for event in events if event.writes]
            width = len(writers).bit_length() + 1
            start = z3.BitVecVal(0, width)
            initial = z3.BitVecVal(self.execution.initial.get(place, 0), 32)
            for event in writers:
                self.position[event.number] = z3.BitVec(f"position_{event.number}", width)
                self.solver.add(z3.UGT(self.position[event.number], start))
                self.solver.add(z3.ULE(self.position[event.number], z3.BitVecVal(len(writers), width)))
            for index, one in enumerate(writers):
                for other in writers[index + 1 :]:
                    self.solver.add(self.position[one.number] != self.position[other.number])
            for event in events:
                if not event.reads:
                    continue
                self.seen[event.number] = z3.BitVec(f"seen_{event.number}", width)
                ways = [self._takes(event, -1, z3.BoolVal(True), initial, start)]
                for writer in writers:
                    # A work-item's events that do not follow each other belong to ways of which it takes one.
                    alone = (writer.group, writer.item) == (event.group, event.item)
                    if (
                        event.number in self.after[writer.number]
                        if alone
                        else writer.number not in self.after[event.number]
                    ):
                        at = self.position[writer.number]
                        ways.append(self._takes(event, writer.number, writer.wrote, writer.value, at))
                self.solver.add(z3.Implies(event.guard, z3.Or(ways)))
                self.solver.add(z3.AtMost(*ways, 1))
            for event in events:
                if event.kind != "update":
                    continue
                mine, found = self.position[event.number], self.seen[event.number]
                self.solver.add(z3.Implies(event.wrote, z3.ULT(found, mine)))
                for writer in writers:
                    if writer is not event:
                        at = self.position[writer.number]
                        between = z3.And(z3.ULT(found, at), z3.ULT(at, mine))
                        self.solver.add(z3.Implies(z3.And(event.wrote, writer.wrote), z3.Not(between)))

    def _takes(
        self, reader: Event, writer: int, wrote: z3.BoolRef, value: z3.BitVecRef, position: z3.BitVecRef
    ) -> z3.BoolRef:
        takes = z3.Bool(f"reads_{reader.number}_{writer}")
        self.takes[reader.number, writer] = takes
        self.solver.add(
            z3.Implies(takes, z3.And(reader.guard, wrote, reader.found == value, self.seen[reader.number] == position))
        )
        return takes

    # Synchronisation

    def _synchronisation(self) -> dict[int, dict[int, z3.BoolRef]]:
        """Edges between work-items: event -> event -> condition."""
        edges: dict[int, dict[int, z3.BoolRef]] = defaultdict(dict)
        releasing: dict[int, list[Event]] = defaultdict(list)
        acquiring: dict[int, list[Event]] = defaultdict(list)
        for event in self.events:
            if event.kind == "fence" and event.releases:
                for other in self.later(event):
                    if other.writes:
                        releasing[other.number].append(event)
            if event.writes and event.releases:
                releasing[event.number].append(event)
                if self.ptx:
                    for other in self.later(event):
                        if other.writes and other.place == event.place:
                            releasing[other.number].append(event)
            if event.reads:
                acquiring[event.number] += [event] if event.acquires else []
                for other in self.later(event):
                    again = self.ptx and other.reads and other.place == event.place
                    if other.acquires and (other.kind == "fence" or again):
                        acquiring[event.number].append(other)
        for events in self.by_place.values():
            for writer in events:
                if not writer.writes or not releasing[writer.number]:
                    continue
                observed = self._observed(writer, events)
                for reader, condition in observed.items():
                    if self.events[reader].group == writer.group and self.events[reader].item == writer.item:
                        continue
                    for one in releasing[writer.number]:
                        for other in acquiring[reader]:
                            if self.inclusive(one, other):
                                both = z3.And(condition, one.guard, other.guard)
                                known = edges[one.number].get(other.number)
                                edges[one.number][other.number] = both if known is None else z3.Or(known, both)
        return edges

    def _observed(self, writer: Event, events: list[Event]) -> dict[int, z3.BoolRef]:
        """Who takes a write's value, or that of a read-modify-write in the chain that begins at it."""
        readers = [event for event in events if event.reads and (event.number, writer.number) in self.takes]
        chained = [event for event in events if event.kind == "update" and event is not writer]
        if not chained:
            return {event.number: self.takes[event.number, writer.number] for event in readers}
        observed = {
            event.number: z3.Bool(f"observes_{event.number}_{writer.number}") for event in events if event.reads
        }
        for number, condition in observed.items():
            direct = self.takes.get((number, writer.number))
            if direct is not None:
                self.solver.add(z3.Implies(direct, condition))
            for link in chained:
                takes = self.takes.get((number, link.number))
                if takes is not None:
                    self.solver.add(z3.Implies(z3.And(takes, observed[link.number]), condition))
        observed.pop(writer.number, None)
        return observed

    def _rank_fences(self) -> None:
        """PTX: of two morally strong fence.sc, one synchronises with the other."""
        fences = [event for event in self.events if self.ptx and event.kind == "fence" and event.sc]
        rank = {event.number: z3.BitVec(f"rank_{event.number}", 8) for event in fences}
        for one in fences:
            for other in fences:
                if one is not other and self.inclusive(one, other) and one.item != -1:
                    earlier = z3.And(z3.ULT(rank[one.number], rank[other.number]), one.guard, other.guard)
                    self.synchronises[one.number][other.number] = earlier
        for index, one in enumerate(fences):
            for other in fences[index + 1 :]:
                self.solver.add(rank[one.number] != rank[other.number])

    def _reach(self, leaving: frozenset[int], sources: list[int]) -> None:
        """Define what each source comes before, besides the order within its group; edges leave them at `leaving` only."""
        sure = frozenset.intersection(*(self.after[source] for source in sources))
        found: dict[int, z3.BoolRef] = {}

        def variable(number: int) -> z3.BoolRef:
            if number not in found:
                found[number] = z3.Bool(f"reaches_{sources[0]}_{number}")
                waiting.append(number)
            return found[number]

        waiting: list[int] = []
        for number in sorted(leaving):
            for other, condition in self.synchronises[number].items():
                if other not in sure:
                    self.solver.add(z3.Implies(condition, variable(other)))
        while waiting:
            number = waiting.pop()
            here = found[number]
            if number in sources:
                self.solver.add(z3.Not(here))
            for other in self.followers[number]:
                if other not in sure:
                    self.solver.add(z3.Implies(here, variable(other)))
            for other, condition in self.synchronises.get(number, {}).items():
                if other not in sure:
                    self.solver.add(z3.Implies(z3.And(here, condition), variable(other)))
        self.reaches |= dict.fromkeys(sources, found)

    # Axioms

    def _coherence(self) -> None:
        """Where one access of a word comes before another, the second does not see an older value."""
        for events in self.by_place.values():
            for one in events:
                for other in events:
                    if one is other:
                        continue
                    before = self.before(one, other)
                    if z3.is_false(before):
                        continue
                    rules = []
                    if one.writes and other.writes:
                        both = z3.And(one.wrote, other.wrote)
                        rules.append(z3.Implies(both, z3.ULT(self.position[one.number], self.position[other.number])))
                    if one.writes and other.reads:
                        rules.append(z3.Implies(one.wrote, z3.ULE(self.position[one.number], self.seen[other.number])))
                    if one.reads and other.writes:
                        rules.append(
                            z3.Implies(other.wrote, z3.ULT(self.seen[one.number], self.position[other.number]))
                        )
                    if one.reads and other.reads:
                        rules.append(z3.ULE(self.seen[one.number], self.seen[other.number]))
                    executed = z3.And(before, one.guard, other.guard)
                    self.solver.add(z3.Implies(executed, z3.And(rules)))

    def _no_thin_air(self) -> None:
        """No circle of reads-from and dependencies: each has a time, which grows along both."""
        reads = {str(event.found): event for event in self.events if event.reads}
        writers = [event for event in self.events if event.writes and event.place in self.by_place]
        time = {event.number: z3.BitVec(f"time_{event.number}", 8) for event in self.events if event.place is not None}
        self.time = time
        for event in writers:
            for name in variables(event.guard, event.value):
                other = reads.get(name)
                if other is not None and other is not event:
                    executed = z3.And(event.guard, other.guard)
                    self.solver.add(z3.Implies(executed, z3.ULT(time[other.number], time[event.number])))
        for (reader, writer), takes in self.takes.items():
            if writer >= 0:
                self.solver.add(z3.Implies(takes, z3.ULT(time[writer], time[reader])))

    def _sequential_consistency(self) -> None:
        """OpenCL: one order of seq_cst operations that agrees with happens-before and coherence."""
        ordered = [event for event in self.events if event.sc]
        rank = {event.number: z3.BitVec(f"rank_{event.number}", 8) for event in ordered}
        for one in ordered:
            for other in ordered:
                if one is not other and self.inclusive(one, other):
                    earlier = z3.ULT(rank[one.number], rank[other.number])
                    first = [one, *(self.later(one) if one.kind == "fence" else ())]
                    last = [other]
                    if other.kind == "fence":
                        last += [event for event in self.events if other in self.later(event)]
                    for begin in first:
                        for end in last:
                            if begin is not end:
                                self._ranked(begin, end, z3.Implies(z3.And(one.guard, other.guard), earlier))

    def _ranked(self, begin: Event, end: Event, consequence: z3.BoolRef) -> None:
        executed = [begin.guard, end.guard]
        if begin.number in self.reaches:
            self.solver.add(z3.Implies(z3.And(*executed, self.before(begin, end)), consequence))
        if begin.place is None or begin.place != end.place or not end.writes:
            return
        after = self.position[end.number]
        if begin.reads:
            self.solver.add(z3.Implies(z3.And(*executed, z3.ULT(self.seen[begin.number], after)), consequence))
        if begin.writes:
            self.solver.add(z3.Implies(z3.And(*executed, z3.ULT(self.position[begin.number], after)), consequence))
