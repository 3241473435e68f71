"""Branches of which both ways branch again before they meet: where a barrier follows in a loop, PoCL 5.0 ends the process.

It parts each branch from the barrier by a block of its own, the inner ones first. For the outer one none is left that leads to
the barrier; LLVM makes the end of the kernel of its block (`region_entry_barrier`, Kernel.cc). A branch that no work-item
takes, between them and the barrier, is what leads there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from portbar.reading import kinds
from portbar.reading.loops import LOOPS
from portbar.reading.tree import Node, Tree, below
from portbar.reading.written import ATTRIBUTED

_BRANCHING = (kinds.IF, kinds.SWITCH)


class Forks:
    """The branches of a program. `branches` says whether an expression has control flow of its own, or may have."""

    def __init__(self, tree: Tree, branches: Callable[[Node], bool]) -> None:
        self._tree, self._branches = tree, branches
        self._functions: dict[int, bool] = {}

    def ends(self, node: Node) -> bool:
        """Whether a statement may end where several ways through it meet."""
        if node.kind in (kinds.BLOCK, kinds.LABEL, kinds.CASE, kinds.DEFAULT, ATTRIBUTED):
            return bool(node.kids) and self.ends(node.kids[-1])
        if node.kind in (*_BRANCHING, *LOOPS):
            return True
        return node.kind not in (kinds.RETURN, kinds.BREAK, kinds.CONTINUE, kinds.GOTO) and self._branches(node)

    def twice(self, node: Node) -> bool:
        """Whether both ways of a branch of an expression, or of a function that it calls, branch again."""
        if node.kind == kinds.TERNARY and all(map(self._branches, node.kids[1:])):
            return True
        if node.kind == kinds.CALL:
            key, name, _ = self._tree.called(node)
            function = self._tree.defined(key, name)
            if function is not None and self._within(function):
                return True
        return any(map(self.twice, node.kids))

    def _within(self, function: Node) -> bool:
        if function.key not in self._functions:
            self._functions[function.key] = False
            body = self._tree.body(function)
            returns = sum(node.kind == kinds.RETURN for node in below(body))
            self._functions[function.key] = (returns > 2 and any(_returns(body.kids))) or any(
                self._is_twice(node) for node in below(body)
            )
        return self._functions[function.key]

    def _is_twice(self, node: Node) -> bool:
        """Whether that holds of a node by itself or, of an expression, by its parts."""
        if node.kind == kinds.IF:
            return len(node.kids) == 3 and all(map(self.ends, node.kids[1:]))
        if node.kind == kinds.SWITCH:
            return sum(map(self.ends, node.kids[-1].kids)) > 1
        return node.kind in (kinds.TERNARY, kinds.CALL) and self.twice(node)


def _returns(nodes: Sequence[Node], depth: int = 0) -> Iterator[bool]:
    """Of each `return`, whether it is under two conditions or more."""
    for node in nodes:
        if node.kind == kinds.RETURN:
            yield depth > 1
        yield from _returns(node.kids, depth + (node.kind in _BRANCHING))
