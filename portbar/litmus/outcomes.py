"""Which outcomes a litmus test can have, by trying every order of its operations on the host.

Not for what a device does: this is what its outcomes are compared with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import permutations

from portbar.litmus.model import UNREAD, Litmus, Operation, Outcome, Thread

#: The values of an outcome, in the order of `Litmus.columns`.
Values = tuple[int, ...]


def text(test: Litmus, values: Iterable[int]) -> str:
    """An outcome as `r0=1 r1=- x=2`."""
    return " ".join(
        f"{name}={'-' if name.startswith('r') and value == UNREAD else value}"
        for name, value in zip(test.columns, values, strict=True)
    )


def as_mapping(test: Litmus, values: Values) -> Outcome:
    """An outcome with its names."""
    return dict(zip(test.columns, values, strict=True))


@cache
def serial(test: Litmus) -> frozenset[Values]:
    """Outcomes where each thread runs from its beginning to its end while the others wait."""
    return frozenset(_run(test, [op for thread in order for op in thread]) for order in permutations(test.threads))


@cache
def sequential(test: Litmus) -> frozenset[Values]:
    """Outcomes of sequential consistency: every interleaving of the threads."""
    return frozenset(_run(test, order) for order in _interleavings(test.threads))


def _interleavings(threads: tuple[Thread, ...]) -> Iterator[list[Operation]]:
    if not any(threads):
        yield []
    for index, thread in enumerate(threads):
        if thread:
            rest = (*threads[:index], thread[1:], *threads[index + 1 :])
            for order in _interleavings(rest):
                yield [thread[0], *order]


def _run(test: Litmus, order: Iterable[Operation]) -> Values:
    memory = dict.fromkeys(test.locations, 0)
    registers = [UNREAD] * test.registers
    guarded: list[Operation] = []
    for op in order:
        if op.kind == "fence":
            continue
        before = memory[op.location]
        if op.kind in {"store", "exchange"}:
            memory[op.location] = op.value
        elif op.kind == "add":
            memory[op.location] = before + op.value
        if op.register >= 0:
            registers[op.register] = before
        if op.guard is not None:
            guarded.append(op)
    # A guarded load may have been moved before its guard, so what it saw counts only where the guard holds in the end.
    for op in guarded:
        assert op.guard is not None
        if registers[op.guard[0]] != op.guard[1]:
            registers[op.register] = UNREAD
    return (*registers, *(memory[name] for name in test.finals))
