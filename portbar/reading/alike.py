"""Loops through which all work-items of a work-group certainly go alike.

Known are a `for` over one variable, whose first value, bound and step are the same for all, and which nothing else ends or
changes. Values from memory, from calls and from parameters of helper functions may differ.
"""

from __future__ import annotations

from typing import Final

from portbar.reading import kinds
from portbar.reading.loops import Loop, parts
from portbar.reading.opencl import PURE
from portbar.reading.tree import PARAMETER, VARIABLE, Node, Tree, below

#: Queries that return the same to all work-items of a group.
_QUERIES: Final = frozenset({
    "get_work_dim", "get_local_size", "get_enqueued_local_size", "get_global_size", "get_global_offset", "get_num_groups",
    "get_group_id",
})  # fmt: skip
_GRID_QUERIES: Final = frozenset({"portbar_group_id", "portbar_num_groups", "portbar_global_size"})
_COMPARISONS: Final = range(kinds.LT, kinds.NE + 1)
#: Expressions whose value follows from those of their parts.
_MADE_OF_PARTS: Final = (
    kinds.CONVERSION,
    kinds.PAREN,
    kinds.CAST,
    kinds.UNARY,
    kinds.BINARY,
    kinds.TERNARY,
)


class Alike:
    """The loops of a function that all work-items of a group go through alike."""

    def __init__(self, tree: Tree, function: Node, block: Node) -> None:
        self._tree = tree
        self._changed = {key for node in below(block) if (key := self._changes(node))}
        #: Variables with one value in all work-items.
        self._same: set[int] = set()
        if tree.is_kernel(function):
            self._same = {one.key for one in tree.parameters(function)} - self._changed
        for node in below(block):
            if node.kind == VARIABLE and node.key not in self._changed and self._is_same(tree.initial(node)):
                self._same.add(node.key)

    def goes(self, node: Node) -> bool:
        """Whether all go through a loop alike. Ask for a loop before those in it."""
        found = parts(self._tree, node) if node.kind == kinds.FOR else None
        if found is None or found.initial is None or found.condition is None or found.step is None:
            return False
        variable = self._variable(found.initial)
        if variable is None or any(self._ends(kid) for kid in (found.body, *below(found.body))):
            return False
        if any(self._changes(kid) == variable for kid in (found.body, *below(found.body))):
            return False
        self._same.add(variable)
        goes = self._is_condition(found.condition) and self._is_step(found, variable)
        if not goes or found.initial.kind != kinds.DECLARATIONS:
            # Others may change it after the loop.
            self._same.discard(variable)
        return goes

    def _variable(self, initial: Node) -> int | None:
        """The variable of a loop, if its first value is the same for all."""
        if initial.kind == kinds.DECLARATIONS and len(initial.kids) == 1 and initial.kids[0].kind == VARIABLE:
            return initial.kids[0].key if self._is_same(self._tree.initial(initial.kids[0])) else None
        if initial.kind == kinds.BINARY and self._tree.operator(initial) == kinds.ASSIGN:
            target, value = initial.kids
            return self._named(target) if self._is_same(value) else None
        return None

    def _is_condition(self, node: Node) -> bool:
        return node.kind == kinds.BINARY and self._tree.operator(node) in _COMPARISONS and self._is_same(node)

    def _is_step(self, loop: Loop, variable: int) -> bool:
        step = loop.step
        if step is None or self._changes(step) != variable:
            return False
        return all(self._is_same(kid) for kid in step.kids)

    def _ends(self, node: Node) -> bool:
        """Whether a statement may end a loop around it; that of an inner loop counts, too."""
        return node.kind in (kinds.BREAK, kinds.RETURN, kinds.GOTO, kinds.LABEL)

    def _changes(self, node: Node) -> int | None:
        """The variable that an expression changes, or takes the address of."""
        if node.kind == kinds.COMPOUND or (node.kind == kinds.BINARY and self._tree.operator(node) == kinds.ASSIGN):
            return self._named(node.kids[0])
        if node.kind == kinds.UNARY and self._tree.unary(node) in (*kinds.INCREMENTS, kinds.ADDRESS):
            return self._named(node.kids[0])
        return None

    def _named(self, node: Node) -> int | None:
        """The variable or parameter that an expression is."""
        while node.kind in (kinds.PAREN, kinds.CONVERSION) and len(node.kids) == 1:
            node = node.kids[0]
        if node.kind != kinds.REFERENCE:
            return None
        kind, key = self._tree.referenced(node)
        return key if kind in (VARIABLE, PARAMETER) else None

    def _is_same(self, node: Node | None) -> bool:
        """Whether an expression certainly has one value in all work-items of a group."""
        if node is None:
            return False
        if node.kind in kinds.LITERALS or node.kind == kinds.SIZEOF:
            return True
        if node.kind == kinds.REFERENCE:
            kind, key = self._tree.referenced(node)
            return kind == kinds.ENUM_CONSTANT or key in self._same
        if node.kind == kinds.CALL:
            name = self._tree.called(node)[1]
            if name in _GRID_QUERIES:
                return True
            return (name in _QUERIES or name in PURE) and all(map(self._is_same, node.kids[1:]))
        if node.kind == kinds.UNARY and self._tree.unary(node) == kinds.DEREFERENCE:
            return False
        return node.kind in _MADE_OF_PARTS and bool(node.kids) and all(map(self._is_same, node.kids))
