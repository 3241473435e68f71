"""The values of expressions in a launch that has failed, or in one that succeeds.

After a fault, every barrier of a launch returns at once: `false`, or what ends the usual loop on a vote.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Final

from portbar.reading import kinds
from portbar.reading.tree import PARAMETER, VARIABLE, Node, Tree, bare, below

#: Annotations of functions in the declarations of headers: their result after a fault, and whether they return it only then.
FAILED: Final = "failed "
_IS_FAILURE: Final = "false is failure"
_UNIFORM: Final = "portbar_agreed"
#: A hint on a condition, and the end of a kernel.
_EXPECTED, _TRAP = "__builtin_expect", "__builtin_trap"


@dataclass(frozen=True)
class Failed:
    """A call in a failed launch."""

    node: Node
    returns: int
    #: Whether only a failure makes it return that.
    is_failure: bool


@dataclass(frozen=True)
class Result:
    """A value that is known, and the failed call that it follows from."""

    number: int
    call: Failed | None = None
    #: Whether only a failure leads to it.
    is_failure: bool = False


#: Variable -> its value, None for one that is not known. A variable that was not assigned has no entry.
Values = dict[Any, Result | None]


@dataclass
class KnownValues:
    """The values that are known at one point of a function, and whether it is reached."""

    values: Values = field(default_factory=dict)
    alive: bool = True

    def copy(self) -> KnownValues:
        """Return the same, to be changed alone."""
        return KnownValues(self.values.copy(), self.alive)


def met(one: KnownValues, other: KnownValues) -> KnownValues:
    """The state where two ways meet."""
    if not other.alive:
        return one
    if not one.alive:
        return other
    values: Values = {}
    for key in one.values.keys() | other.values.keys():
        mine, others = one.values.get(key), other.values.get(key)
        same = mine is not None and others is not None and mine.number == others.number
        values[key] = mine if same else None
    return KnownValues(values)


def _become(state: KnownValues, other: KnownValues) -> None:
    state.values, state.alive = other.values, other.alive


class FailedValues(ABC):
    """The values of expressions at a point of a function, which evaluating them changes."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        #: Variables that something else may change.
        self._addressed: set[Any] = set()
        #: Whether the launch has failed.
        self._fails = False
        #: Whether something that was gone through may leave all loops.
        self._left = False
        #: The calls that have failed.
        self._calls: list[Failed] = []

    @abstractmethod
    def _do(self, node: Node, state: KnownValues) -> KnownValues:
        """The state after a statement."""

    @abstractmethod
    def _own(self, definition: Node) -> Result | None:
        """The result of a function of the author's, if it is the same on all ways through it."""

    def _note_addresses(self, function: Node) -> None:
        for node in below(function):
            if node.kind == kinds.UNARY and self._tree.unary(node) == kinds.ADDRESS:
                self._addressed.add(self._variable(node.kids[0]))

    def _is_private(self, node: Node) -> bool:
        """Whether an expression reads variables of the work-item alone, and changes nothing."""
        if node.kind == kinds.REFERENCE:
            kind, key = self._tree.referenced(node)
            return kind == kinds.ENUM_CONSTANT or (
                kind in (VARIABLE, PARAMETER) and key not in self._addressed and not self._tree.is_shared(node)
            )
        if node.kind == kinds.UNARY:
            acts = self._tree.unary(node) in (*kinds.INCREMENTS, kinds.ADDRESS, kinds.DEREFERENCE)
            return not acts and all(map(self._is_private, node.kids))
        if node.kind == kinds.BINARY:
            return self._tree.operator(node) != kinds.ASSIGN and all(map(self._is_private, node.kids))
        if node.kind in (100, kinds.PAREN, kinds.CAST, kinds.TERNARY):
            return all(map(self._is_private, node.kids))
        return node.kind in (*kinds.LITERALS, kinds.TRUTH)

    def _is_out_of_sight(self, key: Any, node: Node) -> bool:
        """Whether something else than an assignment may change a variable."""
        return key in self._addressed or self._tree.is_shared(node)

    def _variable(self, node: Node) -> Any:
        """The variable that an expression stands for, if it is one."""
        node = bare(node)
        if node.kind != kinds.REFERENCE:
            return None
        kind, key = self._tree.referenced(node)
        return key if kind in (VARIABLE, PARAMETER) else None

    def _set(self, target: Node, value: Result | None, state: KnownValues) -> None:
        key = self._variable(target)
        if key is None:
            self._value(target, state)
        else:
            state.values[key] = None if self._is_out_of_sight(key, bare(target)) else value

    def _value(self, node: Node, state: KnownValues) -> Result | None:
        kind, kids = node.kind, node.kids
        if kind in (100, kinds.PAREN) and len(kids) == 1:
            return self._value(kids[0], state)
        if kind in (*kinds.LITERALS, kinds.TRUTH):
            number = self._tree.number(node)
            return None if number is None else Result(number)
        if kind == kinds.REFERENCE:
            return state.values.get(self._variable(node))
        if kind == kinds.CALL:
            return self._call(node, state)
        if kind == kinds.UNARY and kids:
            return self._unary(node, state)
        if kind == kinds.BINARY and len(kids) == 2:
            return self._binary(node, state)
        if kind == kinds.COMPOUND and len(kids) == 2:
            value = self._value(kids[1], state)
            was = state.values.get(self._variable(kids[0]))
            is_and = self._tree.operator(node) == kinds.AND + kinds.COMPOUND_BITS
            self._set(kids[0], self._combined(kinds.AND, was, value) if is_and else None, state)
            return state.values.get(self._variable(kids[0]))
        if kind == kinds.TERNARY and len(kids) == 3:
            return self._ternary(node, state)
        if kind == kinds.CAST and kids:
            return self._value(kids[-1], state)
        if kind == kinds.STATEMENTS:
            for kid in kids:
                _become(state, self._do(kid, state))
            return None
        for kid in kids:
            if kid.kind < 200:
                self._value(kid, state)
        return None

    def _unary(self, node: Node, state: KnownValues) -> Result | None:
        operator, kid = self._tree.unary(node), node.kids[0]
        value = self._value(kid, state)
        if operator in kinds.INCREMENTS:
            self._set(kid, None, state)
            return None
        if operator == kinds.LOGICAL_NOT and value is not None:
            return Result(int(not value.number), value.call, value.is_failure)
        return None

    def _binary(self, node: Node, state: KnownValues) -> Result | None:
        operator, (first, second) = self._tree.operator(node), node.kids
        if operator == kinds.ASSIGN:
            value = self._value(second, state)
            self._set(first, value, state)
            return value
        one = self._value(first, state)
        if operator in (kinds.BOTH, kinds.EITHER):
            decides = operator == kinds.EITHER
            if one is not None and bool(one.number) == decides:
                return Result(int(decides), one.call, one.is_failure)
            other = state.copy()
            two = self._value(second, state)
            if one is None:
                _become(state, met(state, other))
                is_decided = two is not None and bool(two.number) == decides
                return Result(int(decides), two.call) if two is not None and is_decided else None
            return None if two is None else Result(int(bool(two.number)), two.call, two.is_failure)
        two = self._value(second, state)
        return two if operator == kinds.COMMA else self._combined(operator, one, two)

    @staticmethod
    def _combined(operator: int, one: Result | None, two: Result | None) -> Result | None:
        if one is None or two is None:
            zero = next((value for value in (one, two) if value is not None and not value.number), None)
            return Result(0, zero.call) if operator == kinds.AND and zero is not None else None
        a, b = one.number, two.number
        compared = {
            kinds.EQ: a == b,
            kinds.NE: a != b,
            kinds.LT: a < b,
            kinds.GT: a > b,
            kinds.LE: a <= b,
            kinds.GE: a >= b,
            kinds.AND: a & b,
        }
        if operator not in compared:
            return None
        # One of the two is a constant, or both are of failed calls.
        source = one if one.call is not None else two
        is_failure = source.is_failure and None in (one.call, two.call)
        return Result(int(compared[operator]), source.call, is_failure)

    def _ternary(self, node: Node, state: KnownValues) -> Result | None:
        condition, first, second = node.kids
        known = self._value(condition, state)
        if known is not None:
            value = self._value(first if known.number else second, state)
            return None if value is None else Result(value.number, value.call or known.call)
        other = state.copy()
        one, two = self._value(first, state), self._value(second, other)
        _become(state, met(state, other))
        return one if one is not None and two is not None and one.number == two.number else None

    def _call(self, node: Node, state: KnownValues) -> Result | None:
        key, name, annotations = self._tree.called(node)
        values = [self._value(kid, state) for kid in node.kids[1:]]
        if name in {_UNIFORM, _EXPECTED} and values:
            return values[0]
        if name == _TRAP:
            self._left = True
        definition = self._tree.defined(key, name)
        if definition is not None:
            found = self._own(definition)
            if found is None or found.call is None:
                return found
            return self._failed(node, found.number, is_failure=found.is_failure)
        failed = next((word for word in annotations if word.startswith(FAILED)), None)
        if failed is None or not self._fails:
            return None
        return self._failed(node, int(failed.removeprefix(FAILED)), is_failure=_IS_FAILURE in annotations)

    def _failed(self, node: Node, number: int, *, is_failure: bool) -> Result:
        call = Failed(node, number, is_failure)
        self._calls.append(call)
        return Result(number, call, is_failure)
