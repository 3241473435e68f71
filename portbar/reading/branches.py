"""Which calls that many must make depend on a condition: those under it, and those that a jump under it skips."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from portbar.reading import kinds
from portbar.reading.loops import LOOPS, parts
from portbar.reading.tree import Node, Tree
from portbar.reading.values import ITEM

JUMPS: Final = (kinds.RETURN, kinds.BREAK, kinds.CONTINUE, kinds.GOTO)


@dataclass(frozen=True)
class Need:
    """Among whom control flow may not differ, by the strictest of some calls: a level, and that call; no call is above all."""

    level: int = ITEM + 1
    call: Node | None = None

    def __bool__(self) -> bool:
        return self.call is not None


NONE: Final = Need()


def strictest(needs: Iterable[Need]) -> Need:
    """The first of those of the lowest level."""
    return min(needs, key=lambda need: need.level, default=NONE)


@dataclass
class Jump:
    """A jump that skips calls."""

    node: Node
    skips: Need
    #: The statements with conditions that it leaves, the outermost first, and all that are around it.
    around: tuple[Branch, ...] = ()


@dataclass
class Branch:
    """A statement with a condition: an `if`, a `switch`, a loop."""

    node: Node
    condition: Node | None
    #: The calls in it.
    holds: Need
    #: Jumps in it that leave it and skip calls after it, or calls of a loop around it.
    jumps: list[Jump] = field(default_factory=list)
    #: Jumps of these of which it is the innermost condition, by their keys.
    own: set[int] = field(default_factory=set)
    #: Jumps that are to be decided after it, since not all who must make the calls that they skip reach their conditions.
    late: list[tuple[Jump, Need]] = field(default_factory=list)

    @property
    def need(self) -> Need:
        """Among whom its condition must be the same."""
        return strictest((self.holds, *(jump.skips for jump in self.jumps)))

    def part(self) -> None:
        """Let jumps that skip more than it holds lead to its end, and be decided there, unless its condition decides alone."""
        wide = [jump for jump in self.jumps if jump.skips.level < self.holds.level]
        if self.node.kind in LOOPS or any(jump.node.key not in self.own for jump in wide):
            self.late = [(jump, jump.skips) for jump in wide]
            for jump in wide:
                jump.skips = self.holds


@dataclass
class _Frame:
    """A function, a loop or a `switch` around a place: the calls from there to its end, and those of another turn."""

    node: Node | None
    rest: Need = NONE
    again: Need = NONE


class Branches:
    """The branches of one function. `holds` gives what a part of it must be called by."""

    def __init__(self, tree: Tree, body: Node, holds: Callable[[Node], Need]) -> None:
        self._tree, self._holds, self._whole = tree, holds, holds(body)
        self.of: dict[int, Branch] = {}
        self._frames = [_Frame(None)]
        self._visit(body, ())
        for branch in self.of.values():
            branch.part()

    def _visit(self, node: Node, around: tuple[Branch, ...]) -> None:
        kind = node.kind
        if kind in JUMPS:
            self._jump(node, around)
        elif kind == kinds.IF and node.kids:
            branch = self._branch(node, node.kids[0])
            for arm in node.kids[1:]:
                self._visit(arm, (*around, branch))
        elif kind in LOOPS:
            self._loop(node, around)
        elif kind == kinds.SWITCH and node.kids:
            self._switch(node, around)
        elif kind == kinds.BLOCK:
            self._list(node.kids, around)
        elif kind >= 200:
            for kid in node.kids:
                self._visit(kid, around)

    def _branch(self, node: Node, condition: Node | None) -> Branch:
        made = self.of[id(node)] = Branch(node, condition, self._holds(node))
        return made

    def _list(self, kids: Sequence[Node], around: tuple[Branch, ...], *, is_switch: bool = False) -> None:
        frame = self._frames[-1]
        before = frame.rest
        for number, kid in enumerate(kids):
            rest = kids[number + 1 :]
            after = before
            if is_switch:
                ends = next((n for n, one in enumerate(kids[number:]) if _last(one).kind in JUMPS), None)
                if ends is not None:
                    # No other case is fallen into.
                    rest, after = kids[number + 1 : number + ends], NONE
            frame.rest = strictest((*map(self._holds, rest), after))
            self._visit(kid, around)
        frame.rest = before

    def _loop(self, node: Node, around: tuple[Branch, ...]) -> None:
        loop = parts(self._tree, node)
        if loop is None:
            return
        branch = self._branch(node, loop.condition)
        is_once = node.kind == kinds.DO and self._tree.number(node.kids[-1]) == 0
        self._frames.append(_Frame(node, again=NONE if is_once else branch.holds))
        self._visit(loop.body, (*around, branch))
        self._frames.pop()

    def _switch(self, node: Node, around: tuple[Branch, ...]) -> None:
        branch = self._branch(node, node.kids[0])
        self._frames.append(_Frame(node))
        block = node.kids[-1]
        if block.kind == kinds.BLOCK:
            self._list(block.kids, (*around, branch), is_switch=True)
        else:
            self._visit(block, (*around, branch))
        self._frames.pop()

    def _jump(self, node: Node, around: tuple[Branch, ...]) -> None:
        target = 0
        needs: list[Need] = []
        if node.kind in (kinds.BREAK, kinds.CONTINUE):
            wanted = LOOPS if node.kind == kinds.CONTINUE else (*LOOPS, kinds.SWITCH)
            found = [n for n, one in enumerate(self._frames) if one.node is not None and one.node.kind in wanted]
            if not found:
                return
            target = found[-1]
        for number in range(len(self._frames) - 1, target - 1, -1):
            frame = self._frames[number]
            needs.append(frame.rest)
            if number > target or node.kind != kinds.CONTINUE:
                needs.append(frame.again)
        skips = self._whole if node.kind == kinds.GOTO else strictest(needs)
        if not skips:
            return
        # It leaves neither its target nor the statements around that.
        ended = self._frames[target].node
        place = next((n + 1 for n, branch in enumerate(around) if branch.node is ended), 0)
        jump = Jump(node, skips, around[place:])
        for branch in jump.around:
            branch.jumps.append(jump)
        if jump.around:
            jump.around[-1].own.add(node.key)


def _last(node: Node) -> Node:
    """The statement after the labels of a case."""
    while node.kind in (kinds.CASE, kinds.DEFAULT) and node.kids:
        node = node.kids[-1]
    return node
