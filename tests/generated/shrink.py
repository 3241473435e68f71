"""Makes a program that fails smaller for as long as it fails in the same way."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import fields

from tests.generated.collectives import Collective
from tests.generated.expressions import Name, Number
from tests.generated.interpreter import NotUniformError, TooLongError
from tests.generated.jumps import Again, GoBack, Goto, Labelled
from tests.generated.programs import Call, Program, blocks
from tests.generated.statements import Break, Case, Continue, Switch, While
from tests.generated.tree import Block, Expression, Node, Statement

#: Whether a program fails as the first one did.
Fails = Callable[[Program], bool]
Change = Callable[[], None]


def shrunk(program: Program, fails: Fails, most: int = 400) -> Program:
    """Return a smaller program that fails as well; asks at most `most` times."""
    asked = 0

    def holds(candidate: Program) -> bool:
        nonlocal asked
        asked += 1
        return fails(candidate)

    best = copy.deepcopy(program)
    found = True
    while found and asked < most:
        found = False
        for change in (without_statements, unwrapped, simpler):
            place = 0
            while asked < most:
                candidate = copy.deepcopy(best)
                if not changed(candidate, change, place):
                    break
                tidy(candidate)
                if is_whole(candidate) and candidate.text() != best.text() and holds(candidate):
                    best, found = candidate, True
                else:
                    place += 1
    return best


def changed(program: Program, change: Callable[[Program], Iterator[Change]], place: int) -> bool:
    """Make the change of this number, if there are as many."""
    for number, make in enumerate(change(program)):
        if number == place:
            make()
            return True
    return False


def distinct(program: Program) -> list[Block]:
    """Return the blocks of a program, each once, the largest first."""
    found = {id(block): block for block in blocks(program) if block}
    return sorted(found.values(), key=lambda block: -sum(map(size, block)))


def size(node: Node) -> int:
    """Return how many nodes a part has."""
    return sum(1 for _ in node.walk())


def without_statements(program: Program) -> Iterator[Change]:
    """Yield changes that remove a statement, the largest first."""
    places = [(block, place) for block in distinct(program) for place in range(len(block))]
    for block, place in sorted(places, key=lambda one: -size(one[0][one[1]])):
        yield lambda block=block, place=place: block.__delitem__(place)


def unwrapped(program: Program) -> Iterator[Change]:
    """Yield changes that put the statements of a block in the place of what holds it."""
    for block in distinct(program):
        for place, statement in enumerate(block):
            holders: list[Node] = statement.cases if isinstance(statement, Switch) else [statement]  # type: ignore[assignment]
            for holder in holders:
                for inner in own_blocks(holder):
                    yield lambda block=block, place=place, inner=inner: block.__setitem__(
                        slice(place, place + 1), inner
                    )
            if isinstance(statement, Switch):
                for case in statement.cases[:-1]:
                    yield lambda statement=statement, case=case: statement.cases.remove(case)


def simpler(program: Program) -> Iterator[Change]:
    """Yield changes that replace an expression by a number, or by a part of it."""
    seen: set[int] = set()
    for node in list(program.walk()):
        if id(node) in seen:
            continue
        seen.add(id(node))
        for one in fields(node):
            value = getattr(node, one.name)
            if not isinstance(value, Expression) or isinstance(value, (Name, Number)):
                continue
            if isinstance(node, (While, Again, GoBack)):
                # Its condition bounds the loop, also one that these arguments do not reach.
                continue
            parts = [part for part in value.children() if isinstance(part, Expression)]
            # Calls stay: an exchange without its barrier would be a wrong program.
            others = [one for one in (Number(1), Number(0), *parts) if calls(one) == calls(value)]
            for other in others:
                yield lambda node=node, name=one.name, other=other: setattr(node, name, other)


def calls(expression: Expression) -> int:
    """Return how many collectives and calls an expression has."""
    return sum(isinstance(node, (Collective, Call)) for node in expression.walk())


def own_blocks(holder: Node) -> Iterator[Block]:
    """Yield the blocks right below a node."""
    for value in vars(holder).values():
        if isinstance(value, list) and value and all(isinstance(part, Statement) for part in value):
            yield value


def tidy(program: Program) -> None:
    """Leave out functions and macros that nothing uses."""
    while True:
        used = {id(node) for top in program.tops for one in top for node in one.walk()}
        inside = {id(node) for function in program.functions for one in function.body for node in one.walk()}
        text = program.text()
        functions = [one for one in program.functions if id(one) in used | inside]
        macros = [one for one in program.macros if len(re.findall(rf"\b{one.name}\b", text)) > 1]
        if len(functions) == len(program.functions) and len(macros) == len(program.macros):
            return
        program.functions, program.macros = functions, macros


def is_whole(program: Program) -> bool:
    """Whether the program is still a right one: jumps are in loops, names are declared, control flow is uniform."""
    from tests.generated.launching import MOST_GROUPS, expected  # noqa: PLC0415 (needs OpenCL)

    if any(lost_jumps(block) for block in (*program.tops, *(one.body for one in program.functions))):
        return False
    try:
        for groups in (1, 2, MOST_GROUPS):
            expected(program, 0, groups, 8)
    except (NotUniformError, TooLongError, KeyError, IndexError):
        return False
    return undeclared(program) == set()


def lost_jumps(block: Block) -> bool:
    """Whether a block holds a jump of a loop or to a label around it that is not there."""

    def lost(node: Node, labels: frozenset[str], *, loops: bool) -> bool:
        if isinstance(node, (Break, Continue)):
            return not loops
        if isinstance(node, (Goto, GoBack)):
            return node.label not in labels
        if isinstance(node, (Again, Labelled)):
            labels |= {node.label}
        inside = loops or type(node).__name__ in {"For", "While", "Elements", "Tiles", "Frontier"}
        if isinstance(node, (Expression,)):
            return False
        return any(
            lost(child, labels, loops=inside) for child in node.children() if isinstance(child, (Statement, Case))
        )

    return any(lost(one, frozenset(), loops=False) for one in block)


def undeclared(program: Program) -> set[str]:
    """Return names that the text uses and does not declare; those that are drawn have a letter and two digits."""
    text = program.text()
    pattern = r"\b(?:[ugvkistecda]|team)[1-9]\d+\b"
    declared = rf"(?:uint|token|portbar_team|sum_local) ({pattern})|(?:TURNS|PORTBAR_FOR\w*)\(({pattern})"
    known = {name for pair in re.findall(declared, text) for name in pair if name}
    return set(re.findall(pattern, text)) - known
