"""The effects and values of expressions: the part of the analysis below that of statements and calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from portbar.reading import kinds
from portbar.reading.paths import Control, State, meet
from portbar.reading.tree import PARAMETER, VARIABLE, Node, Tree
from portbar.reading.values import (
    A_CONSTANT,
    CONSTANT,
    MASK,
    UNKNOWN,
    Value,
    Why,
    combined,
    higher,
    joined,
    total,
)


class Expressions(ABC):
    """The values of expressions at a point of a program, which evaluating them changes."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        #: The conditions around what is evaluated.
        self._stack: list[Control] = []
        self._plain: dict[int, bool] = {}
        #: Variables of which members were stored.
        self._structures: set[Any] = set()
        self._expressions: dict[int, Callable[[Node, State], Value]] = {
            kinds.REFERENCE: self._reference,
            kinds.MEMBER: self._member,
            kinds.CALL: self._call,
            kinds.UNARY: self._unary,
            kinds.BINARY: self._binary,
            kinds.COMPOUND: self._compound,
            kinds.TERNARY: self._ternary,
            kinds.SUBSCRIPT: self._subscript,
            kinds.CAST: self._cast,
            kinds.COMPOUND_LITERAL: self._list,
            kinds.LIST: self._list,
            kinds.STATEMENTS: self._statement_expression,
            kinds.SIZEOF: lambda *_: A_CONSTANT,
            **dict.fromkeys(kinds.LITERALS, lambda *_: A_CONSTANT),
        }

    @abstractmethod
    def _call(self, node: Node, state: State) -> Value:
        """The result of a call."""

    @abstractmethod
    def _do_statement(self, node: Node, state: State) -> State:
        """The state after a statement."""

    @abstractmethod
    def _control(self, decides: Node, value: Value) -> Control:
        """A condition around what it decides about."""

    @abstractmethod
    def _reason(self, decides: Node, value: Value) -> Value:
        """A condition as the reason why what is assigned under it differs."""

    def _value(self, node: Node, state: State) -> Value:
        handler = self._expressions.get(node.kind)
        if handler is not None:
            return handler(node, state)
        kids = node.kids
        if len(kids) == 1:
            return self._value(kids[0], state)
        made = UNKNOWN
        for number, kid in enumerate(kids):
            value = self._value(kid, state) if kid.kind < 200 else UNKNOWN
            made = value if number == 0 else higher(made, value)
        return made

    def _reference(self, node: Node, state: State) -> Value:
        kind, key = self._tree.referenced(node)
        if kind == kinds.ENUM_CONSTANT:
            return A_CONSTANT
        return state.values.get(key, UNKNOWN)

    def _place(self, node: Node, state: State) -> tuple[Any, bool]:
        """Which variable an expression stands for, and whether all of it; None for what is in memory."""
        while node.kind == kinds.PAREN and node.kids:
            node = node.kids[0]
        if node.kind == kinds.REFERENCE:
            kind, key = self._tree.referenced(node)
            return (key, True) if kind in (VARIABLE, PARAMETER) and key in state.values else (None, False)
        if node.kind == kinds.MEMBER and node.kids:
            base = node.kids[0]
            while base.kind in (100, kinds.PAREN) and base.kids:
                base = base.kids[0]
            if base.kind == kinds.REFERENCE:
                _, key = self._tree.referenced(base)
                value = state.values.get(key)
                points = value.points if value is not None else None
                if points is not None:
                    key = points
                elif self._is_pointer_member(node):
                    return None, False
                return (key, self._tree.spelling(node)), True
            # A member of a call's result, maybe.
            self._value(base, state)
            return None, False
        if node.kind == kinds.UNARY and self._tree.unary(node) == kinds.DEREFERENCE:
            value = self._value(node.kids[0], state)
            return value.points, value.points is not None
        if node.kind == 100 and node.kids:
            # Components of a vector.
            return self._place(node.kids[0], state)[0], False
        for kid in node.kids:
            self._value(kid, state)
        return None, False

    def _is_pointer_member(self, node: Node) -> bool:
        return "->" in self._tree.source(node)

    def _set(self, key: Any, node: Node, value: Value, state: State) -> None:
        if key in self._structures:
            for other in [one for one in state.values if type(one) is tuple and one[0] == key]:
                del state.values[other]
        if type(key) is tuple:
            self._structures.add(key[0])
        state.values[key] = Value(
            value.level,
            Why(node, value.why if value.level else None),
            value.flags,
            value.lanes,
            value.rest,
            value.points,
        )

    def _store(self, target: Node, node: Node, value: Value, state: State) -> None:
        key, is_whole = self._place(target, state)
        if key is None:
            return
        if is_whole:
            self._set(key, node, value, state)
        else:
            was = state.values.get(key, UNKNOWN)
            low = was if was.level < value.level else value
            self._set(key, node, Value(low.level, low.why), state)

    def _member(self, node: Node, state: State) -> Value:
        key, _ = self._place(node, state)
        return state.values.get(key, UNKNOWN) if key is not None else UNKNOWN

    def _subscript(self, node: Node, state: State) -> Value:
        if not self._is_plain(node):
            for kid in node.kids:
                self._value(kid, state)
        return UNKNOWN

    def _is_plain(self, node: Node) -> bool:
        """Whether an expression neither calls nor assigns anything."""
        if node.key not in self._plain:
            acts = (
                node.kind in (kinds.CALL, kinds.COMPOUND, kinds.STATEMENTS)
                or (node.kind == kinds.BINARY and self._tree.operator(node) == kinds.ASSIGN)
                or (node.kind == kinds.UNARY and self._tree.unary(node) in (*kinds.INCREMENTS, kinds.ADDRESS))
            )
            self._plain[node.key] = not acts and all(map(self._is_plain, node.kids))
        return self._plain[node.key]

    def _cast(self, node: Node, state: State) -> Value:
        return self._value(node.kids[-1], state) if node.kids else UNKNOWN

    def _list(self, node: Node, state: State) -> Value:
        """Several values at once: what all of them have in common."""
        made: Value | None = None
        for kid in node.kids:
            if kid.kind >= 100:
                value = self._value(kid, state)
                made = value if made is None or value.level < made.level else made
        return Value(made.level, made.why) if made is not None else UNKNOWN

    def _statement_expression(self, node: Node, state: State) -> Value:
        if not node.kids or not node.kids[-1].kids:
            return UNKNOWN
        *first, last = node.kids[-1].kids
        for kid in first:
            after = self._do_statement(kid, state)
            if after is not state:
                state.values, state.lost, state.alive = after.values, after.lost, after.alive
        return self._value(last, state) if 100 <= last.kind < 200 else self._none(last, state)

    def _none(self, node: Node, state: State) -> Value:
        after = self._do_statement(node, state)
        if after is not state:
            state.values, state.lost, state.alive = after.values, after.lost, after.alive
        return UNKNOWN

    def _unary(self, node: Node, state: State) -> Value:
        operator = self._tree.unary(node)
        kid = node.kids[0]
        if operator == kinds.ADDRESS:
            key, is_whole = self._place(kid, state)
            return Value(points=key) if is_whole else UNKNOWN
        if operator == kinds.DEREFERENCE:
            key, _ = self._place(node, state)
            return state.values.get(key, UNKNOWN) if key is not None else UNKNOWN
        value = self._value(kid, state)
        if operator in kinds.INCREMENTS:
            self._store(kid, node, total(value, A_CONSTANT, 1), state)
            return value
        if operator in (kinds.MINUS, kinds.NOT):
            return Value(value.level, value.why, MASK | (value.flags & CONSTANT))
        return Value(value.level, value.why, value.flags & CONSTANT) if operator > kinds.NOT else value

    def _binary(self, node: Node, state: State) -> Value:
        operator = self._tree.operator(node)
        first, second = node.kids[0], node.kids[-1]
        if operator == kinds.ASSIGN:
            value = self._value(second, state)
            self._store(first, node, value, state)
            return value
        if operator in (kinds.BOTH, kinds.EITHER):
            one = self._value(first, state)
            return higher(one, self._maybe(node, one, second, state))
        one = self._value(first, state)
        other = self._value(second, state)
        return (
            other
            if operator == kinds.COMMA
            else combined(operator, one, other, lambda place: self._tree.number(node.kids[place]))
        )

    def _maybe(self, decides: Node, condition: Value, node: Node, state: State) -> Value:
        """An operand that is evaluated for some values of another one."""
        other = state.copy()
        self._stack.append(self._control(decides, condition))
        value = self._value(node, state)
        self._stack.pop()
        made = meet(state, other, self._reason(decides, condition))
        if made is not state:
            state.values, state.lost, state.alive = made.values, made.lost, made.alive
        return value

    def _ternary(self, node: Node, state: State) -> Value:
        if len(node.kids) < 3:
            return UNKNOWN
        condition = self._value(node.kids[0], state)
        other = state.copy()
        self._stack.append(self._control(node, condition))
        one = self._value(node.kids[1], state)
        two = self._value(node.kids[2], other)
        self._stack.pop()
        made = meet(state, other, self._reason(node, condition))
        if made is not state:
            state.values, state.lost, state.alive = made.values, made.lost, made.alive
        return joined(one, two, condition)

    def _compound(self, node: Node, state: State) -> Value:
        operator = self._tree.operator(node)
        operator -= kinds.FROM_COMPOUND if operator < kinds.FROM_COMPOUND + 10 else kinds.COMPOUND_BITS
        other = self._value(node.kids[-1], state)
        key, is_whole = self._place(node.kids[0], state)
        if key is None:
            return UNKNOWN
        value = combined(
            operator, state.values.get(key, UNKNOWN), other, lambda place: self._tree.number(node.kids[place])
        )
        self._set(key, node, value if is_whole else UNKNOWN, state)
        return value
