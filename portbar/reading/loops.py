"""The parts of a loop: what it begins with, its condition, its step and its body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from portbar.reading import kinds
from portbar.reading.tree import Node, Tree

#: Kinds of statements that are loops.
LOOPS: Final = (kinds.WHILE, kinds.DO, kinds.FOR)


@dataclass(frozen=True)
class Loop:
    """A loop's parts, None for those that it lacks."""

    initial: Node | None
    condition: Node | None
    step: Node | None
    body: Node
    tests_first: bool = True


def parts(tree: Tree, node: Node) -> Loop | None:
    """The parts of a loop; None where the front end left some out."""
    if not node.kids:
        return None
    if node.kind == kinds.FOR:
        return _for(tree, node)
    if len(node.kids) < 2:
        return None
    if node.kind == kinds.DO:
        return Loop(None, node.kids[-1], None, node.kids[0], tests_first=False)
    return Loop(None, node.kids[0], None, node.kids[-1])


def _for(tree: Tree, node: Node) -> Loop:
    *head, body = node.kids
    if len(head) == 3:
        return Loop(head[0], head[1], head[2], body)
    found: list[Node | None] = [None, None, None]
    semicolons = tree.semicolons(node, head, body)
    for number, part in enumerate(head):
        place = semicolons[number] if semicolons else _guess(tree, part, number)
        found[min(place, 2)] = part
    return Loop(found[0], found[1], found[2], body)


def _guess(tree: Tree, part: Node, number: int) -> int:
    """Which part of the head of a `for` from a macro this is."""
    if part.kind == kinds.DECLARATIONS:
        return 0
    if part.kind == kinds.COMPOUND or (part.kind == kinds.UNARY and tree.unary(part) in kinds.INCREMENTS):
        return 2
    if part.kind != kinds.BINARY or tree.operator(part) < kinds.ASSIGN:
        return 1
    return 0 if number == 0 else 2
