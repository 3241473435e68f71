"""The state of the analysis at a point of a program, on the paths that lead there, and why some work-items are on none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from portbar.reading import kinds
from portbar.reading.loops import LOOPS
from portbar.reading.tree import Node, Tree
from portbar.reading.values import UNKNOWN, Declaration, Value, Why, joined


@dataclass(frozen=True)
class Control:
    """A reason why control flow differs."""

    level: int
    #: The statement or operator that decides, with its condition.
    decides: Node
    why: Why | None
    #: The jump by which some leave, where it is that.
    jump: Node | None = None
    #: How many conditions are around what it ends.
    depth: int = 0
    #: The number of the call in which it is.
    frame: int = 0


@dataclass(frozen=True)
class Finding:
    """A call where control flow differs too much."""

    #: The call in the function that has the condition.
    call: Node
    #: The call of the function that all must call, elsewhere if that is in another function.
    collective: Node
    name: str
    known: Declaration
    control: Control
    function: Node


class State:
    """The values and the missing work-items at one point of the program."""

    __slots__ = ("alive", "lost", "values")

    def __init__(self) -> None:
        self.values: dict[Any, Value] = {}
        #: Where some work-items have gone instead, and the reason.
        self.lost: dict[tuple[str, int], Control] = {}
        self.alive = True

    def copy(self) -> State:
        """Return the same, to be changed alone."""
        made = State()
        made.values, made.lost, made.alive = self.values.copy(), self.lost.copy(), self.alive
        return made

    def lose(self, target: tuple[str, int], control: Control) -> None:
        """Note that some have left for a target, by the strongest reason."""
        if target not in self.lost or self.lost[target].level < control.level:
            self.lost[target] = control


def meet(one: State, other: State, control: Value) -> State:
    """The state where two paths meet that a condition chose between."""
    if not one.alive:
        one, other = other, one
    for target, lost in other.lost.items():
        one.lose(target, lost)
    if other.alive:
        values = one.values
        for key, value in other.values.items():
            mine = values.get(key)
            if mine is None:
                values[key] = value
            elif mine is not value:
                values[key] = joined(mine, value, control)
    return one


def unchanged(one: State, other: State) -> bool:
    """Whether two states say the same."""
    return (
        one.alive == other.alive
        and one.values.keys() == other.values.keys()
        and all(value.same_as(other.values[key]) for key, value in one.values.items())
        and {target: lost.level for target, lost in one.lost.items()}
        == {target: lost.level for target, lost in other.lost.items()}
    )


class Labels:
    """The places of the labels of a function: in which loops and switches, and after which jumps."""

    def __init__(self, tree: Tree, function: Node) -> None:
        self._order: dict[str, int] = {}
        self._jumps: dict[int, int] = {}
        self._around: dict[str, frozenset[int]] = {}
        self._learn(tree, tree.body(function), frozenset())

    def _learn(self, tree: Tree, node: Node, around: frozenset[int]) -> None:
        if node.kind == kinds.LABEL:
            name = tree.spelling(node)
            self._order[name], self._around[name] = len(self._order) + len(self._jumps), around
        elif node.kind == kinds.GOTO:
            self._jumps[node.key] = len(self._order) + len(self._jumps)
        elif node.kind in (*LOOPS, kinds.SWITCH):
            around |= {node.key}
        for kid in node.kids:
            self._learn(tree, kid, around)

    def is_ahead(self, jump: Node, name: str) -> bool:
        """Whether a `goto` leads to a label after it."""
        return self._order.get(name, 0) > self._jumps[jump.key]

    def is_in(self, name: str, node: Node) -> bool:
        """Whether a label is in a loop or a `switch`."""
        return node.key in self._around.get(name, ())

    def is_passed(self, name: str, other: str) -> bool:
        """Whether a label is another one, or before it."""
        return self._order.get(name, 0) <= self._order.get(other, 0)


@dataclass
class Again:
    """A loop made of a label and a `goto` after it."""

    depth: int
    jumps: list[tuple[State, Control | None]] = field(default_factory=list)


@dataclass
class Frame:
    """A call that is being analysed."""

    function: Node
    call: Node | None
    number: int
    depth: int
    returned: list[tuple[Value, Control | None, State]]
    waiting: dict[str, list[State]]
    #: By label of a loop made of `goto` that is being analysed: the number of conditions around it, and the jumps back to it.
    again: dict[str, Again] = field(default_factory=dict)


@dataclass
class Enclosing:
    """A loop or a switch."""

    node: Node
    depth: int
    is_loop: bool
    breaks: list[State]
    continues: list[State]
    has_default: bool = False
    entry: State | None = None
    control: Value = UNKNOWN
