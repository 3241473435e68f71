"""The kernels of a program and what they use, as its tree shows them.

A tree holds the text that the front end compiles, and a driver may define other macros. So facts never say that something is
unused: for that, ask the text (`portbar.reading.words`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from portbar.reading import kinds
from portbar.reading.entering import entering
from portbar.reading.found import Facts, Place, ReadKernel
from portbar.reading.tree import TYPEDEF, VARIABLE, Node, Tree, bare

#: Statements with parts whose values nothing uses, and expressions that pass their parts' values on.
_DROPPING: Final = frozenset(
    {
        *(kinds.BLOCK, kinds.IF, kinds.WHILE, kinds.FOR, kinds.DO, kinds.CASE, kinds.DEFAULT, kinds.LABEL),
        *(kinds.CAST, kinds.PAREN, kinds.CONVERSION),
    }
)
_DIMENSIONS: Final = re.compile(r"[ *]*(?:\[\d*\])*$")


@dataclass
class _Uses:
    """The names that a function uses."""

    types: set[str] = field(default_factory=set)
    calls: dict[str, set[str]] = field(default_factory=dict)
    results: set[str] = field(default_factory=set)
    own: set[int] = field(default_factory=set)


def facts_of(tree: Tree, functions: Iterable[Node]) -> Facts:
    """The facts of a program; `functions` are those that may reach a call which many must make."""
    uses = {node.key: _uses(tree, node) for node in functions if not tree.unread_in(node)}
    kernels = {}
    declared: dict[str, Place] = {}
    for node in tree.functions.values():
        name = tree.spelling(node)
        declared[name] = tree.place(node)
        if tree.is_kernel(node):
            kernels[name] = _kernel(tree, node, uses)
    typedefs = {}
    for node in tree.declarations:
        name = tree.spelling(node)
        declared.setdefault(name, tree.place(node))
        if node.kind == TYPEDEF:
            typedefs[name] = tree.canonical_type(node)
    calls: dict[str, set[str]] = {}
    for used in uses.values():
        for name, types in used.calls.items():
            calls.setdefault(name, set()).update(types)
    return Facts(
        kernels,
        {name: frozenset(types) for name, types in calls.items()},
        frozenset().union(*(used.results for used in uses.values())),
        declared,
        typedefs,
        is_whole=not (tree.has_errors or tree.missing),
    )


def _kernel(tree: Tree, node: Node, uses: Mapping[int, _Uses]) -> ReadKernel:
    is_whole = not tree.unread_in(node)
    parameters = tuple(tree.spelling(kid) for kid in tree.parameters(node))
    reached, waiting = set(), [node.key]
    calls: set[str] = set()
    while waiting:
        key = waiting.pop()
        if key in reached:
            continue
        reached.add(key)
        is_whole = is_whole and not (key in tree.functions and tree.unread_in(tree.functions[key]))
        if key in uses:
            calls.update(uses[key].calls)
            waiting += uses[key].own
    return ReadKernel(
        tree.spelling(node),
        parameters,
        tree.required_size(node),
        frozenset(uses[node.key].types if node.key in uses else ()),
        frozenset(calls),
        entering(tree, node) if is_whole and node.key in uses else None,
        is_whole,
    )


def _uses(tree: Tree, function: Node) -> _Uses:
    """The names that a function uses, after the expansion of macros."""
    used = _Uses()
    unused: set[int] = set()
    valued: set[int] = set()
    stack = tree.body(function).kids[::-1]
    while stack:
        node = stack.pop()
        kind, kids = node.kind, node.kids
        if kids:
            stack += kids[::-1]
        if kind == kinds.CALL:
            key, name, _ = tree.called(node)
            if name not in used.calls:
                used.calls[name] = set()
            if key in tree.functions:
                used.own.add(key)
            if node.key not in unused:
                used.results.add(name)
        elif kind == VARIABLE:
            used.types.add(_DIMENSIONS.sub("", tree.canonical_type(node)))
        elif kind == kinds.UNARY:
            _note_value(tree, node, used)
        elif kind == kinds.STATEMENTS:
            valued.update(kid.key for kid in kids)
        elif kind in _DROPPING:
            dropped = _dropped(tree, node, node.key in unused)
            unused.update(kid.key for kid in (dropped[:-1] if node.key in valued else dropped))
    return used


def _note_value(tree: Tree, node: Node, used: _Uses) -> None:
    """Note the type of a combined value, which the declarations of headers write as `*(type *)function(...)`."""
    cast = bare(node.kids[0]) if node.kids else node
    call = bare(cast.kids[-1]) if cast.kind == kinds.CAST and cast.kids else node
    if call.kind == kinds.CALL:
        used.calls.setdefault(tree.called(call)[1], set()).add(tree.canonical_type(node))


def _dropped(tree: Tree, node: Node, is_unused: bool) -> list[Node]:
    """The parts of a node whose values nothing uses."""
    kids = node.kids
    if node.kind == kinds.BLOCK:
        return kids
    if node.kind == kinds.IF:
        return kids[1:]
    if node.kind in (kinds.CASE, kinds.DEFAULT, kinds.LABEL, kinds.WHILE, kinds.FOR):
        return kids[-1:]
    if node.kind == kinds.DO:
        return kids[:1]
    is_passed_on = node.kind != kinds.CAST or tree.is_void(node)
    return kids if is_unused and is_passed_on else []
