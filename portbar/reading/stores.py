"""Stores through pointers that are declared `const` and `restrict`, from which a cast has removed `const`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from portbar.reading import kinds
from portbar.reading.tree import VARIABLE, Node, Tree, bare, below

#: Functions that store through their first argument, or their last one.
_ATOMIC: Final = re.compile(r"atom(?:ic)?_(?!load|work_item)\w+")
_VECTOR_STORE: Final = re.compile(r"vstore\w+")


@dataclass(frozen=True)
class Store:
    """A store to what a pointer says is only read."""

    node: Node
    pointer: Node
    #: The call of the author's function that stores, None where the store is in the function of the pointer.
    call: Node | None = None


def writes_to(name: str) -> bool:
    """Whether a function of OpenCL C may store through an argument."""
    return _ATOMIC.fullmatch(name) is not None or _VECTOR_STORE.fullmatch(name) is not None


class Stores:
    """The stores of a program that break its pointers' promises."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._stored: dict[tuple[int, int], Node | None] = {}

    def of(self, function: Node) -> Iterator[Store]:
        """Those through the parameters of one function."""
        for parameter in self._parameters(function):
            if self._tree.is_read_only(parameter):
                for node, call in self._through(function, parameter):
                    yield Store(node, parameter, call)

    def _parameters(self, function: Node) -> list[Node]:
        return self._tree.parameters(function)

    def _through(self, function: Node, parameter: Node) -> Iterator[tuple[Node, Node | None]]:
        """The stores through a parameter, each with the call that leads to it."""
        nodes = list(below(self._tree.whole_body(function)))
        based = self._variables(nodes, parameter)
        for node in nodes:
            if self._changes(node) and self._leads_to(node.kids[0], based):
                yield node, None
            elif node.kind == kinds.CALL:
                stored = self._by_call(node, based)
                if stored is not None:
                    yield stored, node if stored is not node else None

    def _by_call(self, node: Node, based: set[int]) -> Node | None:
        key, name, _ = self._tree.called(node)
        arguments = node.kids[1:]
        definition = self._tree.defined(key, name)
        if definition is None:
            written = (
                arguments[:1] if _ATOMIC.fullmatch(name) else arguments[-1:] if _VECTOR_STORE.fullmatch(name) else []
            )
            return node if any(self._is_based(one, based) for one in written) else None
        for number, argument in enumerate(arguments):
            if self._is_based(argument, based):
                stored = self._stored_by(definition, number)
                if stored is not None:
                    return stored
        return None

    def _stored_by(self, definition: Node, number: int) -> Node | None:
        """A store of a function through one of its parameters."""
        memo = (definition.key, number)
        if memo not in self._stored:
            self._stored[memo] = None
            parameters = self._parameters(definition)
            # Its own promise is reported where it breaks it.
            if number < len(parameters) and not self._tree.is_read_only(parameters[number]):
                self._stored[memo] = next((node for node, _ in self._through(definition, parameters[number])), None)
        return self._stored[memo]

    def _changes(self, node: Node) -> bool:
        return bool(node.kids) and (
            node.kind == kinds.COMPOUND
            or (node.kind == kinds.BINARY and self._tree.operator(node) == kinds.ASSIGN)
            or (node.kind == kinds.UNARY and self._tree.unary(node) in kinds.INCREMENTS)
        )

    def _variables(self, nodes: list[Node], parameter: Node) -> set[int]:
        """A parameter that is never assigned, and variables that only ever point to the same memory."""
        based = {parameter.key}
        values: dict[int, list[Node | None]] = {}
        for node in nodes:
            if node.kind == VARIABLE:
                initial = self._tree.initial(node)
                if initial is not None:
                    values.setdefault(node.key, []).append(initial)
            elif node.kind == kinds.BINARY and self._tree.operator(node) == kinds.ASSIGN:
                values.setdefault(self._variable(node.kids[0]), []).append(node.kids[1])
            elif node.kind == kinds.UNARY and self._tree.unary(node) == kinds.ADDRESS:
                values.setdefault(self._variable(node.kids[0]), []).append(None)
        if not all(one is not None and self._is_based(one, based) for one in values.pop(parameter.key, [])):
            return set()
        while True:
            more = {
                key
                for key, given in values.items()
                if key and key not in based and all(one is not None and self._is_based(one, based) for one in given)
            }
            if not more:
                return based
            based |= more

    def _variable(self, node: Node) -> int:
        node = bare(node)
        return self._tree.referenced(node)[1] if node.kind == kinds.REFERENCE else 0

    def _is_based(self, node: Node, based: set[int]) -> bool:
        """Whether the value of an expression is a pointer that is made of one of some variables."""
        node = bare(node)
        if node.kind == kinds.REFERENCE:
            return self._variable(node) in based
        if node.kind == kinds.CAST and node.kids:
            return self._tree.is_pointer(node) and self._is_based(node.kids[-1], based)
        if node.kind == kinds.BINARY and self._tree.operator(node) in (kinds.ADD, kinds.SUB):
            return self._tree.is_pointer(node) and any(self._is_based(kid, based) for kid in node.kids)
        if node.kind == kinds.UNARY:
            operator = self._tree.unary(node)
            if operator in kinds.INCREMENTS:
                return self._is_based(node.kids[0], based)
            return operator == kinds.ADDRESS and self._leads_to(node.kids[0], based)
        return False

    def _leads_to(self, node: Node, based: set[int]) -> bool:
        """Whether an expression is a place in the memory that some variables point to."""
        node = bare(node)
        if node.kind == kinds.SUBSCRIPT and node.kids:
            first = node.kids[0]
            return self._is_based(first, based) or self._leads_to(first, based)
        if node.kind == kinds.UNARY and self._tree.unary(node) == kinds.DEREFERENCE:
            return self._is_based(node.kids[0], based)
        if node.kind == kinds.MEMBER and node.kids:
            first = node.kids[0]
            return (self._tree.is_pointer(bare(first)) and self._is_based(first, based)) or self._leads_to(first, based)
        return False
