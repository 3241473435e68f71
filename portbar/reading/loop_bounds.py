"""Bounds of portbar's loops that have 64 bits, of which the loop would take 32."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from portbar.reading import kinds
from portbar.reading.opencl import KNOWN, PURE
from portbar.reading.tree import VARIABLE, Node, Tree, bare, below

_CUTS: Final = "cuts"
_LARGEST: Final = 2**32 - 1
_BITS: Final = 32
_LEAST: Final = frozenset({"min", "clamp"})


@dataclass(frozen=True)
class Cut:
    """A number that is cut to 32 bits."""

    #: The call that takes 32 bits, in the macro's place.
    call: Node
    #: The part of the number that has 64.
    part: Node


def cuts(tree: Tree, function: Node) -> Iterator[Cut]:
    """The bounds in a function that have 64 bits, and whose values may need them."""
    nodes = list(below(tree.body(function)))
    calls = [node for node in nodes if node.kind == kinds.CALL and len(node.kids) > 1]
    bounds = [node for node in calls if _CUTS in tree.called(node)[2] and tree.is_wide(bare(node.kids[1]))]
    if bounds:
        widths = _Widths(tree, _values(tree, nodes))
        for node in bounds:
            part = widths.wide_part(node.kids[1])
            if part is not None:
                yield Cut(node, part)


def _values(tree: Tree, nodes: list[Node]) -> dict[int, Node]:
    """The initial values of variables that keep them."""
    found: dict[int, Node] = {}
    changed: set[int] = set()
    for node in nodes:
        if node.kind == VARIABLE:
            initial = tree.initial(node)
            if initial is not None:
                found[node.key] = initial
        elif (
            node.kind == kinds.COMPOUND
            or (node.kind == kinds.BINARY and tree.operator(node) == kinds.ASSIGN)
            or (node.kind == kinds.UNARY and tree.unary(node) in (*kinds.INCREMENTS, kinds.ADDRESS))
        ):
            changed.add(tree.referenced(bare(node.kids[0]))[1])
    return {key: value for key, value in found.items() if key not in changed}


class _Widths:
    """Which parts of an expression need 64 bits, as far as its author said so by their types."""

    def __init__(self, tree: Tree, values: dict[int, Node]) -> None:
        self._tree, self._values = tree, values

    def wide_part(self, node: Node) -> Node | None:
        """The part because of which an expression may need more than 32 bits, None if there is none."""
        tree = self._tree
        node = bare(node)
        if not tree.is_wide(node):
            return None
        number = tree.number(node)
        if number is not None:
            return None if 0 <= number <= _LARGEST else node
        kids = node.kids
        if node.kind == kinds.CAST:
            return self.wide_part(kids[-1])
        if node.kind == kinds.TERNARY and len(kids) == 3:
            return self.wide_part(kids[1]) or self.wide_part(kids[2])
        if node.kind == kinds.BINARY and len(kids) == 2:
            return self._of_operator(node)
        if node.kind == kinds.REFERENCE:
            value = self._values.get(tree.referenced(node)[1])
            return node if value is None or self.wide_part(value) is not None else None
        if node.kind == kinds.CALL:
            return self._of_call(node)
        return node

    def _of_operator(self, node: Node) -> Node | None:
        operator, (first, second) = self._tree.operator(node), node.kids
        one, two = self.wide_part(first), self.wide_part(second)
        number = self._tree.number(second)
        if operator == kinds.AND:
            return one and two
        if operator == kinds.REM:
            return two and one
        if operator == kinds.SHR and number is not None and number >= _BITS:
            return None
        if operator == kinds.MUL and self._tree.number(first) is None and number is None:
            # A factor that is converted to 64 bits says that the product needs them.
            for factor in map(bare, (first, second)):
                if factor.kind == kinds.CAST and self._tree.is_wide(factor):
                    return node
        return one or two

    def _of_call(self, node: Node) -> Node | None:
        key, name, _ = self._tree.called(node)
        parts = [self.wide_part(kid) for kid in node.kids[1:]]
        if self._tree.defined(key, name) is None and name in KNOWN:
            # Sizes and ids of a launch, which portbar counts by 32 bits.
            return None
        if name in _LEAST:
            return node if all(parts) else None
        if name in PURE:
            return next(filter(None, parts), None)
        return node
