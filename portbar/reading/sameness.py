"""Among whom values may differ: the opposite of `divergence`, which knows what certainly differs.

A condition that is proven to be the same needs no check on the device, and a loop through which all go alike stays as it is in
the normal form. The analysis knows no order of statements: a variable is as its most differing assignment anywhere in its
function. So it says too often that values may differ, and never too rarely.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from portbar.reading import kinds
from portbar.reading.loops import LOOPS, parts
from portbar.reading.opencl import PURE, PURE_PREFIXES, knowledge_of
from portbar.reading.tree import PARAMETER, VARIABLE, Node, Tree, bare, below
from portbar.reading.values import GROUP, ITEM, SAME

#: Functions whose result is the same for all, though their declarations say nothing of it.
_THE_SAME: Final = frozenset({
    "portbar_agreed", "portbar_num_groups", "portbar_num_teams", "get_work_dim", "get_global_offset",
    "get_enqueued_num_sub_groups",
})  # fmt: skip
#: Parts of the names of functions that many call, each with a result of its own.
_OWN_RESULTS: Final = ("scan", "reserve", "begin", "publish", "push")
_FAILURES: Final = frozenset({"false is failure", "failed 0", "failed 1"})


class _Left(NamedTuple):
    """The levels of the conditions of jumps, -1 where there are none."""

    by_break: int = -1
    by_continue: int = -1

    def under(self, level: int) -> _Left:
        """The same under one more condition."""
        return _Left(*(max(one, level) if one >= 0 else one for one in self))


def _all(several: Iterable[_Left]) -> _Left:
    """The jumps of several statements."""
    made = _Left()
    for one in several:
        made = _Left(*map(max, made, one))
    return made


class Sameness:
    """The levels of a program's values: `SAME`, `GROUP` where work-groups may differ, `ITEM` where work-items may.

    Parameters
    ----------
    tree : Tree
    checked : callable
        A statement with a condition -> the level at which the device checks that condition; ITEM for no check.
    trusts_arguments : bool
        Whether all calls of the author's functions are in the text, so that their arguments are known.
    """

    def __init__(self, tree: Tree, *, checked: Callable[[Node], int], trusts_arguments: bool = True) -> None:
        self._tree, self._checked, self._trusts_arguments = tree, checked, trusts_arguments
        self._variables: dict[Any, int] = {}
        #: The results of the functions that were gone through; that of another may be anything.
        self._results: dict[int, int] = {}
        #: The levels of the conditions under which a loop is left, and under which a turn of it is cut short.
        self._left: dict[int, int] = {}
        self._cut: dict[int, int] = {}
        self._has_changed = False

    def settle(self, functions: Iterable[Node]) -> None:
        """Learn of all assignments in these functions. Levels only rise, so this ends."""
        functions = list(functions)
        self._results |= {function.key: SAME for function in functions if function.key not in self._results}
        self._has_changed = True
        while self._has_changed:
            self._has_changed = False
            for function in functions:
                self._function(function)

    def _raise(self, levels: dict[Any, int], key: Any, level: int) -> None:
        if level > levels.get(key, SAME):
            levels[key] = level
            self._has_changed = True

    # Statements

    def _function(self, function: Node) -> None:
        block = next((kid for kid in self._tree.body(function).kids if kid.kind == kinds.BLOCK), None)
        if block is not None:
            self._current = function
            if not self._trusts_arguments and not self._tree.is_kernel(function):
                for parameter in self._tree.parameters(function):
                    self._raise(self._variables, parameter.key, ITEM)
            # A `goto` may make loops of anything.
            self._statement(block, ITEM if any(kid.kind == kinds.GOTO for kid in below(block)) else SAME)

    def _statement(self, node: Node, control: int) -> _Left:
        """Go through a statement under conditions of a level; by which it leaves a loop or a `switch` around it."""
        kind = node.kind
        if kind in LOOPS:
            return self._loop(node, control)
        if kind == kinds.IF and node.kids:
            condition, *arms = node.kids
            self._expression(condition, control)
            level = self._narrowed(node, condition)
            return _all(self._statement(arm, max(control, level)) for arm in arms).under(level)
        if kind == kinds.SWITCH and node.kids:
            self._expression(node.kids[0], control)
            level = max(self._narrowed(node, node.kids[0]), self._left.get(node.key, SAME))
            left = self._statement(node.kids[-1], max(control, level))
            self._raise(self._left, node.key, left.by_break)
            return _Left(by_continue=left.by_continue).under(level)
        if kind == kinds.BREAK:
            return _Left(by_break=SAME)
        if kind == kinds.CONTINUE:
            return _Left(by_continue=SAME)
        if kind == kinds.RETURN:
            if node.kids:
                self._expression(node.kids[0], control)
                self._raise(self._results, self._current.key, max(control, self.level(node.kids[0])))
        elif kind == kinds.DECLARATIONS:
            self._declarations(node, control)
        elif 100 <= kind < 200:
            self._expression(node, control)
        else:
            return _all(self._statement(kid, control) for kid in node.kids)
        return _Left()

    def _loop(self, node: Node, control: int) -> _Left:
        loop = parts(self._tree, node)
        if loop is None:
            return _Left()
        if loop.initial is not None:
            self._statement(loop.initial, control)
        level = SAME if loop.condition is None else self._narrowed(node, loop.condition)
        control = max(control, level, self._left.get(node.key, SAME))
        for part in (loop.condition, loop.step):
            if part is not None:
                self._expression(part, control)
        left = self._statement(loop.body, max(control, self._cut.get(node.key, SAME)))
        self._raise(self._left, node.key, left.by_break)
        self._raise(self._cut, node.key, left.by_continue)
        return _Left()

    def is_alike(self, loop: Node) -> bool:
        """Whether all work-items of a group go through a loop alike, and nothing but its condition and `break` ends it."""
        found = parts(self._tree, loop)
        if found is None or any(kid.kind in (kinds.RETURN, kinds.GOTO, kinds.LABEL) for kid in below(loop)):
            return False
        level = SAME if found.condition is None else self._narrowed(loop, found.condition)
        return max(level, self._left.get(loop.key, SAME)) < ITEM

    def _narrowed(self, node: Node, condition: Node) -> int:
        return min(self.level(condition), self._checked(node))

    def _declarations(self, node: Node, control: int) -> None:
        for kid in node.kids:
            initial = self._tree.initial(kid) if kid.kind == VARIABLE else None
            if initial is not None:
                self._expression(initial, control)
                self._raise(self._variables, kid.key, max(control, self.level(initial)))

    def _expression(self, node: Node, control: int) -> None:
        """Learn of the assignments in an expression."""
        kind = node.kind
        if kind == kinds.BINARY and node.kids:
            operator = self._tree.operator(node)
            if operator == kinds.ASSIGN:
                self._store(node.kids[0], max(control, self.level(node.kids[-1])))
            elif operator in (kinds.BOTH, kinds.EITHER):
                self._expression(node.kids[0], control)
                self._expression(node.kids[-1], max(control, self._narrowed(node, node.kids[0])))
                return
        elif kind == kinds.COMPOUND and node.kids:
            self._store(node.kids[0], max(control, self.level(node.kids[-1])))
        elif kind == kinds.UNARY and self._tree.unary(node) in kinds.INCREMENTS:
            self._store(node.kids[0], control)
        elif kind == kinds.UNARY and self._tree.unary(node) == kinds.ADDRESS:
            # A function that has the address may store anything.
            self._store(node.kids[0], ITEM)
        elif kind == kinds.TERNARY and len(node.kids) == 3:
            self._expression(node.kids[0], control)
            inner = max(control, self._narrowed(node, node.kids[0]))
            self._expression(node.kids[1], inner)
            self._expression(node.kids[2], inner)
            return
        elif kind == kinds.CALL:
            self._arguments(node)
        elif kind >= 200:
            self._statement(node, control)
            return
        for kid in node.kids:
            self._expression(kid, control)

    def _arguments(self, call: Node) -> None:
        """Learn of the parameters of a function of the author's."""
        key, name, _ = self._tree.called(call)
        definition = self._tree.defined(key, name)
        if definition is not None:
            parameters = [kid for kid in self._tree.body(definition).kids if kid.kind == PARAMETER]
            for parameter, given in zip(parameters, call.kids[1:], strict=False):
                self._raise(self._variables, parameter.key, self.level(given))

    def _store(self, target: Node, level: int) -> None:
        key, indices, _ = self._place(target)
        if key is not None:
            self._raise(self._variables, key, max(level, indices))

    def _place(self, node: Node) -> tuple[Any, int, Node | None]:
        """The variable that an expression is a part of, the level of the indices, and its name; None for what is in memory."""
        node = bare(node)
        if node.kind == kinds.REFERENCE:
            kind, key = self._tree.referenced(node)
            return (key, SAME, node) if kind in (VARIABLE, PARAMETER) else (None, SAME, None)
        if node.kind in (kinds.SUBSCRIPT, kinds.MEMBER, 100) and node.kids:
            base = bare(node.kids[0])
            if node.kind != 100 and self._tree.is_pointer(base):
                return None, SAME, None
            key, level, name = self._place(base)
            return key, max(level, self.level(node.kids[1])) if node.kind == kinds.SUBSCRIPT else level, name
        return None, SAME, None

    # Values

    def level(self, node: Node) -> int:
        """The level of an expression's value."""
        kind = node.kind
        if kind in kinds.LITERALS or kind in (kinds.SIZEOF, kinds.TRUTH):
            return SAME
        if kind == kinds.REFERENCE and self._tree.referenced(node)[0] not in (VARIABLE, PARAMETER):
            return SAME
        if kind in (kinds.REFERENCE, kinds.SUBSCRIPT, kinds.MEMBER):
            return self._stored(node)
        if kind == kinds.CALL:
            return self._called(node)
        if kind == kinds.UNARY and node.kids:
            if self._tree.unary(node) == kinds.DEREFERENCE:
                return self._pointed(node)
            return self.level(node.kids[0])
        if kind in (kinds.BINARY, kinds.COMPOUND) and len(node.kids) == 2:
            operator = self._tree.operator(node)
            if operator in (kinds.ASSIGN, kinds.COMMA):
                return self.level(node.kids[1])
            first = self.level(node.kids[0])
            if operator in (kinds.BOTH, kinds.EITHER):
                first = min(first, self._checked(node))
            return max(first, self.level(node.kids[1]))
        if kind == kinds.TERNARY and len(node.kids) == 3:
            chosen = max(self.level(kid) for kid in node.kids[1:])
            return max(min(self.level(node.kids[0]), self._checked(node)), chosen)
        if kind == kinds.CAST and node.kids:
            return self.level(node.kids[-1])
        if kind in (kinds.PAREN, kinds.LIST, kinds.COMPOUND_LITERAL, 100) and node.kids:
            return max(self.level(kid) for kid in node.kids)
        return ITEM

    def _stored(self, node: Node) -> int:
        """The level of a variable, or of a part of one or of memory."""
        key, indices, name = self._place(node)
        if key is not None and name is not None:
            if self._tree.is_shared(name) and not self._tree.is_constant(name):
                return ITEM
            return max(indices, self._variables.get(key, SAME))
        if node.kind == kinds.SUBSCRIPT and self._stays(node, node.kids[0]):
            return max(self.level(node.kids[0]), self.level(node.kids[1]))
        return ITEM

    def _pointed(self, node: Node) -> int:
        """The level of what a pointer points to."""
        pointer = bare(node.kids[0])
        while pointer.kind == kinds.CAST and pointer.kids:
            pointer = bare(pointer.kids[-1])
        if pointer.kind == kinds.CALL:
            # Results of any type are declared so.
            return self._called(pointer)
        return self.level(node.kids[0]) if self._stays(node, node.kids[0]) else ITEM

    def _stays(self, value: Node, pointer: Node) -> bool:
        """Whether nothing writes to a value in memory during the launch."""
        return self._tree.is_constant(value) or self._tree.is_read_only(bare(pointer))

    def _called(self, node: Node) -> int:
        key, name, annotations = self._tree.called(node)
        definition = self._tree.defined(key, name)
        if definition is not None:
            return self._results.get(definition.key, ITEM)
        if name in _THE_SAME:
            return SAME
        known = knowledge_of(name, annotations)
        # False only in launches that fail, and then soon for all.
        if not _FAILURES.isdisjoint(annotations) and (known is None or known.caller in (None, SAME)):
            return SAME
        if known is None:
            is_pure = name in PURE or name.startswith(PURE_PREFIXES)
            return max((self.level(kid) for kid in node.kids[1:]), default=SAME) if is_pure else ITEM
        if known.caller is not None:
            if "false is failure" in annotations:
                return SAME
            if any(word in name for word in _OWN_RESULTS) or known.caller > GROUP:
                return ITEM
            return SAME if known.caller == SAME and name.startswith("portbar_device_") else GROUP
        if known.differs:
            return known.differs
        if known.is_size or known.is_constant:
            return SAME
        return max((self.level(kid) for kid in node.kids[1:]), default=SAME)
