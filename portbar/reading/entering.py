"""How a kernel enters its grid: nothing but declarations may precede that, in its outermost block."""

from __future__ import annotations

import re
from typing import Final

from portbar.reading import kinds
from portbar.reading.found import Entering, Place
from portbar.reading.opencl import PURE, PURE_PREFIXES, knowledge_of
from portbar.reading.tree import Node, Tree, bare, below
from portbar.rendering.source import line_of, without_comments

ENTER: Final = "portbar_enter"
_PREFIXES: Final = (*PURE_PREFIXES, "native_", "half_")
_QUERIES: Final = frozenset({"get_work_dim", "get_global_offset", "get_sub_group_size", "get_enqueued_num_sub_groups"})
_CONTROL: Final = frozenset((*range(kinds.CASE, kinds.RETURN + 1), kinds.LABEL, kinds.ASSEMBLY))
_DIRECTIVE: Final = re.compile(r"^[ \t]*\#(?:\\\r?\n|[^\n])*", re.MULTILINE)
_ENTER: Final = r"PORTBAR_ENTER\b(?<!\wPORTBAR_ENTER)"
#: PORTBAR_ENTER, unless it is as it should be.
_ODD: Final = re.compile(rf"{_ENTER}(?!\s*\(\s*\w+\s*\)\s*;)")
_OPEN: Final = re.compile(rf"{_ENTER}\s*\(\s*\w+\s*\)(?!\s*;)")


def entering(tree: Tree, kernel: Node) -> Entering | None:
    """How a kernel enters its grid, None of one that does not. It must have been read without an error."""
    calls = (node for node in below(tree.body(kernel)) if node.kind == kinds.CALL and tree.called(node)[1] == ENTER)
    call = next(calls, None)
    if call is None:
        return None
    last, _ = tree.extent(call)

    def reads(node: Node, around: Node) -> bool:
        return around.kind != kinds.BLOCK or tree.extent(node)[0] <= last

    # All that precedes it, whether it decides anything or not.
    body = next((kid for kid in tree.children(kernel, reads) if kid.kind == kinds.BLOCK), None)
    if body is None:
        return None
    early: Place | None = None
    block = body
    while True:
        holder = next((kid for kid in block.kids if _enters(tree, kid)), None)
        if holder is None:
            return None
        for kid in block.kids[: block.kids.index(holder)]:
            early = early or _effect(tree, kid)
        inner = holder if holder.kind == kinds.BLOCK else _block_in(tree, holder)
        if inner is None:
            return Entering(None if block is body else tree.start(block), early)
        block = inner


def _enters(tree: Tree, node: Node) -> bool:
    return any(one.kind == kinds.CALL and tree.called(one)[1] == ENTER for one in (node, *below(node)))


def _block_in(tree: Tree, node: Node) -> Node | None:
    """The outermost block in a statement that enters the grid."""
    return next((one for one in below(node) if one.kind == kinds.BLOCK and _enters(tree, one)), None)


def _effect(tree: Tree, statement: Node) -> Place | None:
    """Where a statement does something that other work-items could see, None if it only declares and computes."""
    if statement.kind == kinds.BLOCK:
        return next((place for kid in statement.kids if (place := _effect(tree, kid))), None)
    has_effect = statement.kind in _CONTROL or any(_acts(tree, one) for one in (statement, *below(statement)))
    return tree.start(statement) if has_effect else None


def _acts(tree: Tree, node: Node) -> bool:
    """Whether an expression does more than compute a value and keep it in a variable."""
    if node.kind == kinds.CALL:
        _, name, annotations = tree.called(node)
        known = knowledge_of(name, annotations)
        is_id = known is not None and known.caller is None
        return not (is_id or name in PURE or name in _QUERIES or name.startswith(_PREFIXES))
    is_change = (
        node.kind == kinds.COMPOUND
        or (node.kind == kinds.BINARY and tree.operator(node) == kinds.ASSIGN)
        or (node.kind == kinds.UNARY and tree.unary(node) in kinds.INCREMENTS)
    )
    return is_change and bare(node.kids[0]).kind != kinds.REFERENCE


def open_enter(text: str) -> int | None:
    """The 1-based line of the first PORTBAR_ENTER without a semicolon, None if there is none.

    The macro ends in `return`, which takes the next statement for its value: no front end makes a tree of that. Macros of the
    author's are not judged.
    """
    code = without_comments(text, keep_strings=False)
    if _ODD.search(code) is None:
        return None
    code = _DIRECTIVE.sub(lambda found: "".join(letter if letter == "\n" else " " for letter in found[0]), code)
    found = _OPEN.search(code)
    return None if found is None else line_of(code, found.start())
