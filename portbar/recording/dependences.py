"""Which steps must wait for those before: where one writes memory that the other uses, by their buffers and `const`."""

from __future__ import annotations

from collections.abc import Sequence

from portbar.recording.steps import Buffer, Call, Conditional, Flag, Opaque, Step, steps_in
from portbar.records.dataclass import dataclass


@dataclass(frozen=True)
class Access:
    """The memory that steps read, and that they write."""

    reads: frozenset[int] = frozenset()
    writes: frozenset[int] = frozenset()

    def __or__(self, other: Access) -> Access:
        return Access(self.reads | other.reads, self.writes | other.writes)

    def disturbs(self, other: Access) -> bool:
        """Whether one writes what the other uses."""
        return not (self.writes.isdisjoint(other.reads | other.writes) and self.reads.isdisjoint(other.writes))


NOTHING = Access()


def access_of(step: Call) -> Access:
    """The memory that one launch reads and writes."""
    reads, writes = set(), set()
    for index, argument in enumerate(step.arguments):
        if isinstance(argument, Buffer) and argument.memory is not None:
            only_read = step.phase is not None and step.phase.parameters[index].only_read
            reads.add(argument.root)
            if not only_read:
                writes.add(argument.root)
        elif isinstance(argument, Opaque) and argument.root:
            reads.add(argument.root)
    return Access(frozenset(reads), frozenset(writes))


class Waits:
    """The steps before which all work-groups wait; for a loop with a flag and for a condition, before the flag is read."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.before: set[int] = set()
        self._list(steps, NOTHING)

    def __contains__(self, step: Step) -> bool:
        return id(step) in self.before

    def _meet(self, step: Step, since: Access, access: Access) -> Access:
        """The memory that was used since the last barrier, after a step."""
        if since.disturbs(access):
            self.before.add(id(step))
        return access if id(step) in self.before else since | access

    def _list(self, steps: Sequence[Step], since: Access) -> Access:
        for step in steps:
            since = self._step(step, since)
        return since

    def _step(self, step: Step, since: Access) -> Access:
        if isinstance(step, Call):
            return self._meet(step, since, access_of(step))
        if isinstance(step, Conditional):
            head = self._meet(step, since, _flag(step.flag))
            return head | self._list(step.body, head)
        # A turn may follow what is before the loop, or another turn.
        while True:
            head = since if step.flag is None else self._meet(step, since, _flag(step.flag))
            end = self._list(step.body, head)
            if end | since == since:
                return end if step.flag is None else head
            since |= end


def _flag(flag: Flag) -> Access:
    return Access(reads=frozenset({flag.buffer.root}))


def barriers_of(steps: Sequence[Step], waits: Waits) -> int:
    """How many barriers the steps take in one pass, with each loop's turns; a loop with a flag counts as one turn."""
    return sum(turns for step, turns in steps_in(steps) if step in waits)


def launches_of(steps: Sequence[Step]) -> int:
    """How many launches the steps stand for; a loop with a flag counts as one turn."""
    return sum(turns for step, turns in steps_in(steps) if isinstance(step, Call))
