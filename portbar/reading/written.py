"""Where a program's parts are written, and which of them hold a barrier that a whole work-group meets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from portbar.reading import kinds
from portbar.reading.edits import Edits, UnformedError, flat
from portbar.reading.opencl import KNOWN, PURE, PURE_PREFIXES, knowledge_of
from portbar.reading.tree import Node, Tree, below
from portbar.reading.values import GROUP, SUB_GROUP

ATTRIBUTED: Final = 200
_IMPLICIT: Final = 100
#: A character that an expression or a statement may end with.
_LAST: Final = re.compile(rb"[\w)\]}\"';]")
_BRACKET: Final = re.compile(rb"""[()]|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|//[^\n]*|/\*.*?\*/""", re.DOTALL)
#: Functions that branch nowhere, but those in `PURE`.
_PLAIN: Final = frozenset({
    "portbar_global_id", "portbar_global_size", "portbar_group_id", "portbar_num_groups", "portbar_local_linear_id",
    "portbar_local_linear_size", "portbar_frontier_size",
})  # fmt: skip


class Written(Edits):
    """A program, its places and its barriers.

    `wide` says that OpenCL C's own functions of a sub-group are barriers of the work-group, `macros` names those of the
    author's.
    """

    def __init__(
        self, tree: Tree, barrier: str, work: str, *, wide: bool, macros: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(tree.contents, barrier, work)
        self._tree, self._wide, self._macros = tree, wide, macros
        self._holding: dict[int, bool] = {}
        self._own: dict[int, bool] = {}
        self._extents: dict[int, tuple[int, int]] = {}

    # Places

    def _extent(self, node: Node) -> tuple[int, int]:
        key = id(node)
        if key not in self._extents:
            begin, end = self._tree.file_extent(node)
            # A macro in an argument of a macro: only where it begins is known, also of the last part of an expression.
            self._extents[key] = begin, end if end > begin and self._is_end(end) else self._use_ends(end)
        return self._extents[key]

    def _is_end(self, at: int) -> bool:
        """Whether an expression can end at a place: not before a word, after a space or an operator."""
        return not self._tree.word_at(at) or _LAST.match(self._bytes, at - 1) is not None

    def _use_ends(self, at: int) -> int:
        """Where a macro's use that begins there ends."""
        at += len(self._tree.word_at(at))
        opening = self._skip(at)
        if self._bytes[opening : opening + 1] != b"(":
            return at
        depth = 0
        for found in _BRACKET.finditer(self._bytes, opening):
            depth += {b"(": 1, b")": -1}.get(found[0], 0)
            if depth == 0:
                return found.end()
        return at

    def _semicolon(self, at: int) -> int:
        at = self._skip(at)
        if self._bytes[at : at + 1] != b";":
            raise UnformedError("a statement without a semicolon of its own", self._line(at))
        return at + 1

    def _of_macro(self, at: int, what: str) -> UnformedError:
        """The error about a part that a macro's use stands for, which may be one of the author's."""
        word = self._tree.word_at(at)
        return UnformedError(f"{what} the macro {word}", self._line(at), macro=word if word in self._macros else "")

    def _check_written(self, node: Node) -> None:
        """Ask for the macro of the author's that an expression is a use of."""
        begin, end = self._extent(node)
        if self._tree.word_at(begin) in self._macros and self._use_ends(begin) == end:
            raise self._of_macro(begin, "an expression with a barrier in")

    def _ends(self, node: Node) -> int:
        """Where a statement ends, its semicolon included."""
        kind = node.kind
        if kind in (
            kinds.IF,
            kinds.FOR,
            kinds.WHILE,
            kinds.SWITCH,
            kinds.LABEL,
            kinds.CASE,
            kinds.DEFAULT,
            ATTRIBUTED,
        ):
            return self._ends(node.kids[-1])
        _, end = self._extent(node)
        if kind in (kinds.BLOCK, kinds.DECLARATIONS):
            return end
        if kind == kinds.NOTHING and self._bytes[end - 1 : end] == b";":
            return end
        return self._semicolon(end)

    def _source(self, begin: int, end: int) -> str:
        return flat(self._bytes[begin:end].decode())

    # Barriers

    def concerns(self, function: Node) -> bool:
        """Whether a function has a barrier that its work-group meets."""
        if function.key not in self._own:
            self._own[function.key] = False
            self._own[function.key] = any(self._holds(kid) for kid in self._tree.body(function).kids)
        return self._own[function.key]

    def _is_collective(self, call: Node) -> bool:
        """Whether a call itself has a barrier."""
        key, name, annotations = self._tree.called(call)
        definition = self._tree.defined(key, name)
        if definition is not None:
            return self.concerns(definition)
        declared = knowledge_of(name, annotations)
        if declared is None or declared.caller is None:
            return False
        return declared.caller <= GROUP or (self._wide and name in KNOWN and declared.caller == SUB_GROUP)

    def _holds(self, node: Node) -> bool:
        """Whether a barrier is in a part that is evaluated."""
        if id(node) not in self._holding:
            # From the inside to the outside.
            for one in reversed([node, *below(node)]):
                is_call = one.kind == kinds.CALL and self._is_collective(one)
                inside = one.kind != kinds.SIZEOF and any(self._holding[id(kid)] for kid in one.kids)
                self._holding[id(one)] = is_call or inside
        return self._holding[id(node)]

    def _calls(self, node: Node) -> Iterator[int]:
        if node.kind == kinds.CALL and self._is_collective(node):
            yield self._extent(node)[0]
        for kid in node.kids:
            yield from self._calls(kid)

    def _branches(self, node: Node) -> bool:
        """Whether an expression has control flow of its own, or may have."""
        if node.kind in (kinds.TERNARY, kinds.STATEMENTS):
            return True
        if node.kind == kinds.BINARY and self._tree.operator(node) in (kinds.BOTH, kinds.EITHER):
            return True
        if node.kind == kinds.CALL:
            name = self._tree.called(node)[1]
            if name not in PURE and not name.startswith((*PURE_PREFIXES, "get_")) and name not in _PLAIN:
                return True
        return any(self._branches(kid) for kid in node.kids)

    def _unit(self, node: Node) -> Node | None:
        """The call with a barrier that an expression is, as a macro may write it."""
        extent = self._extent(node)
        while not (node.kind == kinds.CALL and self._is_collective(node)):
            # A cast's type may be that of an expression.
            kids = node.kids[-1:] if node.kind == kinds.CAST else node.kids
            kids = [kid for kid in kids if self._holds(kid)]
            if len(kids) != 1 or (node.kind != _IMPLICIT and self._extent(kids[0]) != extent):
                return None
            node = kids[0]
        return node

    def _arguments(self, unit: Node, outer: Node) -> list[Node]:
        """The author's expressions in a call, which may be a macro: the outermost nodes within it."""
        extent = self._extent(outer)
        found: dict[tuple[int, int], Node] = {}

        def look(node: Node) -> None:
            for kid in node.kids:
                begin, end = self._extent(kid)
                if begin <= extent[0] or not begin < end <= extent[1]:
                    look(kid)
                elif (begin, end) not in found:
                    # A macro may write an argument twice.
                    found[begin, end] = kid

        look(unit)
        return list(found.values())
