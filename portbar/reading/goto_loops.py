"""Loops that an author makes of a label and a `goto` after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from portbar.reading import kinds
from portbar.reading.tree import Node, Tree, below


def goto_loops(tree: Tree, body: Node) -> Iterator[tuple[Node, Node]]:
    """The outermost loops of a function: the statement with the label, and the last one after it with a `goto` to it.

    Both are statements of one block, or the same one.
    """
    if any(node.kind == kinds.LABEL for node in below(body)):
        yield from _in(tree, body)


def _in(tree: Tree, node: Node) -> Iterator[tuple[Node, Node]]:
    if node.kind == kinds.LABEL and tree.spelling(node) in _targets(tree, node):
        yield node, node
        return
    last, ends = -1, loop_ends(tree, node.kids) if node.kind == kinds.BLOCK else {}
    for place, one in enumerate(node.kids):
        if place <= last:
            continue
        last = ends.get(place, place)
        # Another loop that begins within this one may end after it.
        while (further := max(ends.get(within, within) for within in range(place, last + 1))) > last:
            last = further
        if last > place:
            yield one, node.kids[last]
        else:
            yield from _in(tree, one)


def loop_ends(tree: Tree, statements: Sequence[Node]) -> dict[int, int]:
    """The places of the statements that later ones jump back to, and of the last of those."""
    begins: dict[str, int] = {}
    ends: dict[int, int] = {}
    for place, one in enumerate(statements):
        targets = _targets(tree, one)
        for name in targets & begins.keys():
            ends[begins[name]] = place
        if one.kind == kinds.LABEL and tree.spelling(one) in targets:
            ends[place] = place
        begins |= {tree.spelling(node): place for node in (one, *below(one)) if node.kind == kinds.LABEL}
    return ends


def _targets(tree: Tree, node: Node) -> set[str]:
    """The labels that a statement jumps to."""
    jumps = (one for one in (node, *below(node)) if one.kind == kinds.GOTO)
    return {tree.spelling(kid) for one in jumps for kid in one.kids if kid.kind == kinds.LABEL_REFERENCE}
