"""Loops that a failed launch does not leave: `false` of a barrier leads back into them.

After a fault, every barrier of a launch returns at once: `false`, or what ends the usual loop on a vote. The body of each loop
is gone through as if nothing had failed, and as if all had. A loop that may end in the first case and certainly does not end
in the second is misuse, and so is a `continue` on the `false` that only a failure returns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from portbar.reading import kinds
from portbar.reading.failed_values import FAILED, Failed, FailedValues, KnownValues, Result, Values, met
from portbar.reading.loops import LOOPS, Loop, parts
from portbar.reading.tree import VARIABLE, Node, Tree, bare, below


@dataclass(frozen=True)
class Endless:
    """A loop that a call's failure leads back into."""

    call: Failed
    loop: Node
    #: The `continue` by which it does, None where the loop never ends.
    jump: Node | None = None


@dataclass
class _Traversed:
    """A loop or a switch that is gone through."""

    node: Node
    is_loop: bool
    loop: Loop | None = None
    breaks: list[KnownValues] = field(default_factory=list)
    continues: list[KnownValues] = field(default_factory=list)


@dataclass(frozen=True)
class _Decision:
    """A condition that is known, the way that it takes, and what was known before."""

    result: Result
    taken: Node
    before: Values


class Loops(FailedValues):
    """The loops of a program's functions that a failed launch does not leave."""

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        self._never: set[int] = set()
        self._failing: dict[int, bool] = {}
        self._found: list[Endless] = []
        self._returned: dict[int, Result | None] = {}
        self._reset()
        self._statements: dict[int, Callable[[Node, KnownValues], KnownValues]] = {
            kinds.BLOCK: self._block,
            kinds.IF: self._if,
            **dict.fromkeys(LOOPS, self._inner),
            kinds.SWITCH: self._switch,
            kinds.CASE: self._case,
            kinds.DEFAULT: self._case,
            kinds.RETURN: self._leave,
            kinds.GOTO: self._leave,
            kinds.LABEL: self._leave,
            kinds.ASSEMBLY: self._leave,
            kinds.BREAK: self._break,
            kinds.CONTINUE: self._continue,
            kinds.DECLARATIONS: self._declarations,
        }

    def _reset(self) -> None:
        self._targets: list[_Traversed] = []
        self._entries: list[KnownValues] = []
        self._decisions: list[_Decision] = []
        self._left = False
        self._calls = []
        self._decided: list[Failed] = []
        self._jumps: list[Endless] = []
        self._results: list[Result | None] = []

    def of(self, function: Node) -> list[Endless]:
        """Those of one function, one for each call."""
        body = self._tree.body(function)
        self._note_addresses(body)
        self._found = []
        for loop in self._calling_loops(body)[0]:
            self._judge(loop)
        made: dict[int, Endless] = {}
        for one in sorted(self._found, key=lambda one: one.jump is not None):
            made.setdefault(one.call.node.key, one)
        return list(made.values())

    def _calling_loops(self, node: Node) -> tuple[list[Node], bool]:
        """The loops in a part of the program that call what may fail, the inner ones first; whether it does itself."""
        loops: list[Node] = []
        calls = node.kind == kinds.CALL and self._may_fail(node)
        for kid in node.kids:
            if kid.kids:
                more, does = self._calling_loops(kid)
                loops += more
                calls |= does
        if calls and node.kind in LOOPS:
            loops.append(node)
        return loops, calls

    def _may_fail(self, node: Node) -> bool:
        """Whether a call may fail."""
        key, name, annotations = self._tree.called(node)
        definition = self._tree.defined(key, name)
        if definition is None:
            return any(word.startswith(FAILED) for word in annotations)
        if key not in self._failing:
            self._failing[key] = False
            self._failing[key] = self._calling_loops(self._tree.body(definition))[1]
        return self._failing[key]

    # Loops

    def _judge(self, node: Node) -> None:
        loop = parts(self._tree, node)
        if loop is None:
            return
        ends, blamed, jumps = self._gone_through(node, loop, fails=True)
        if not ends and blamed is not None and self._gone_through(node, loop, fails=False)[0]:
            self._never.add(node.key)
            self._found.append(Endless(blamed, node))
        self._found += jumps

    def _gone_through(self, node: Node, loop: Loop, *, fails: bool) -> tuple[bool, Failed | None, list[Endless]]:
        """Whether a loop may end, the call that decides, and each `continue` on a failure."""
        self._fails = fails
        self._reset()
        # Nothing is known at first, so that all that is found holds in every turn.
        ends, known = self._turn(node, loop, KnownValues())
        call = known.call if known is not None else None
        return ends, call or next(iter((*self._decided, *self._calls)), None), self._jumps

    def _turn(self, node: Node, loop: Loop, state: KnownValues) -> tuple[bool, Result | None]:
        """Whether a loop may end in a turn from a state, and its condition if that is known."""
        if loop.tests_first and loop.condition is not None:
            known = self._value(loop.condition, state)
            if known is not None and not known.number:
                return True, known
        target = _Traversed(node, is_loop=True, loop=loop)
        state = self._body(target, state)
        if self._left or target.breaks or not state.alive:
            return True, None
        if loop.step is not None:
            self._value(loop.step, state)
        if loop.condition is None:
            return False, None
        holds = self._holds(loop.condition, state)
        return not holds, self._value(loop.condition, state)

    def _body(self, target: _Traversed, state: KnownValues) -> KnownValues:
        """The state after a turn of a loop, without those that have left it."""
        if target.loop is not None:
            self._targets.append(target)
            state = self._do(target.loop.body, state)
            self._targets.pop()
        for other in target.continues:
            state = met(state, other)
        return state

    def _holds(self, condition: Node, state: KnownValues) -> bool:
        """Whether a condition that was true is true again, since it is known, or nothing in it was assigned."""
        condition = bare(condition)
        number = self._tree.number(condition)
        if number is not None:
            # `do ... while (0)` was never true.
            return bool(number)
        if condition.kind == kinds.BINARY and self._tree.operator(condition) == kinds.BOTH:
            inner = state.copy()
            for kid in condition.kids:
                if not self._holds(kid, inner):
                    return False
                self._value(kid, inner)
            return True
        if self._is_private(condition):
            variables = {self._variable(node) for node in (condition, *below(condition))}
            if variables.isdisjoint(state.values):
                return True
        known = self._value(condition, state.copy())
        return known is not None and bool(known.number)

    # Statements

    def _do(self, node: Node, state: KnownValues) -> KnownValues:
        handler = self._statements.get(node.kind)
        if handler is not None:
            return handler(node, state)
        if state.alive and 100 <= node.kind < 200:
            self._value(node, state)
        return state

    def _block(self, node: Node, state: KnownValues) -> KnownValues:
        for kid in node.kids:
            if state.alive or kid.kind in (kinds.CASE, kinds.DEFAULT, kinds.LABEL, kinds.BLOCK):
                state = self._do(kid, state)
        return state

    def _if(self, node: Node, state: KnownValues) -> KnownValues:
        if len(node.kids) < 2 or not state.alive:
            return state
        condition, one, *rest = node.kids
        known = self._value(condition, state)
        if known is None:
            other = state.copy()
            state = self._do(one, state)
            return met(state, self._do(rest[0], other) if rest else other)
        taken = one if known.number else rest[0] if rest else None
        if known.call is not None:
            self._decided.append(known.call)
        if taken is None:
            return state
        self._decisions.append(_Decision(known, taken, state.values.copy()))
        state = self._do(taken, state)
        self._decisions.pop()
        return state

    def _inner(self, node: Node, state: KnownValues) -> KnownValues:
        """A loop in the one that is gone through."""
        loop = parts(self._tree, node)
        if loop is None or not state.alive:
            return state
        if loop.initial is not None:
            self._do(loop.initial, state)
        for part in below(node):
            self._forget(part, state)
        target = _Traversed(node, is_loop=True, loop=loop)
        ends: list[KnownValues] = []
        if loop.tests_first and self._may_end(loop, state):
            ends.append(state.copy())
        state = self._body(target, state)
        if state.alive:
            if loop.step is not None:
                self._value(loop.step, state)
            if self._may_end(loop, state):
                ends.append(state)
        made = KnownValues(alive=False)
        if not (self._fails and node.key in self._never):
            for end in (*target.breaks, *ends):
                made = met(made, end)
        return made

    def _may_end(self, loop: Loop, state: KnownValues) -> bool:
        """Whether a loop may end where it evaluates its condition."""
        known = self._value(loop.condition, state) if loop.condition is not None else Result(1)
        return known is None or not known.number

    def _forget(self, node: Node, state: KnownValues) -> None:
        """Know nothing of what a part of a loop assigns."""
        target = None
        if node.kind == VARIABLE:
            target = node.key
        elif (
            node.kind == kinds.COMPOUND
            or (node.kind == kinds.BINARY and self._tree.operator(node) == kinds.ASSIGN)
            or (node.kind == kinds.UNARY and self._tree.unary(node) in kinds.INCREMENTS)
        ):
            target = self._variable(node.kids[0])
        if target is not None:
            state.values[target] = None

    def _switch(self, node: Node, state: KnownValues) -> KnownValues:
        if len(node.kids) < 2 or not state.alive:
            return state
        self._value(node.kids[0], state)
        target = _Traversed(node, is_loop=False)
        self._targets.append(target)
        self._entries.append(state.copy())
        after = self._do(node.kids[-1], KnownValues(state.values.copy(), alive=False))
        self._entries.pop()
        self._targets.pop()
        for end in target.breaks:
            after = met(after, end)
        return met(after, state)

    def _case(self, node: Node, state: KnownValues) -> KnownValues:
        if self._entries:
            state = met(state, self._entries[-1].copy())
        return self._do(node.kids[-1], state) if node.kids else state

    def _leave(self, node: Node, state: KnownValues) -> KnownValues:
        """A statement that may leave all loops: `return`, and those that are not looked into."""
        if not state.alive and node.kind != kinds.LABEL:
            return state
        result = self._value(node.kids[0], state) if node.kind == kinds.RETURN and node.kids else None
        self._left = True
        self._results.append(result)
        if node.kind in (kinds.RETURN, kinds.GOTO):
            state.alive = False
        return state

    def _break(self, _: Node, state: KnownValues) -> KnownValues:
        if self._targets and state.alive:
            self._targets[-1].breaks.append(state.copy())
        state.alive = False
        return state

    def _continue(self, node: Node, state: KnownValues) -> KnownValues:
        target = next((one for one in reversed(self._targets) if one.is_loop), None)
        if target is None or not state.alive:
            self._left |= target is None
            return state
        if target is self._targets[0]:
            self._jump(node, target, state)
        target.continues.append(state.copy())
        state.alive = False
        return state

    def _jump(self, node: Node, target: _Traversed, state: KnownValues) -> None:
        """Note a `continue` on a failure, unless statements before it may end the loop."""
        decision = next((one for one in self._decisions if one.result.is_failure), None)
        if decision is None or decision.result.call is None:
            return
        condition = target.loop.condition if target.loop is not None else None
        if condition is not None:
            variables = {self._variable(part) for part in (condition, *below(condition))} - {None}
            if any(decision.before.get(key, _NONE) is not state.values.get(key, _NONE) for key in variables):
                return
            known = self._value(condition, state.copy())
            if known is not None and not known.number:
                return
            if not _is_alone(decision.taken) and not self._is_private(condition):
                return
        self._jumps.append(Endless(decision.result.call, target.node, node))

    def _declarations(self, node: Node, state: KnownValues) -> KnownValues:
        for kid in node.kids:
            if kid.kind == VARIABLE:
                initial = self._tree.initial(kid)
                value = self._value(initial, state) if initial is not None else None
                state.values[kid.key] = None if self._is_out_of_sight(kid.key, kid) else value
        return state

    def _own(self, definition: Node) -> Result | None:
        """The result of a function of the author's in a failed launch, if it is the same on all ways through it."""
        if not self._fails or self._tree.unread_in(definition):
            return None
        memo = definition.key
        if memo not in self._returned:
            self._returned[memo] = None
            inside = Loops(self._tree)
            inside._returned, inside._fails = self._returned, self._fails
            self._returned[memo] = inside._result_of(definition)
        return self._returned[memo]

    def _result_of(self, definition: Node) -> Result | None:
        body = self._tree.body(definition)
        self._note_addresses(body)
        block = next((kid for kid in body.kids if kid.kind == kinds.BLOCK), None)
        if block is None or self._do(block, KnownValues()).alive:
            return None
        numbers = {None if result is None else result.number for result in self._results}
        first = self._results[0] if len(numbers) == 1 else None
        if first is not None and first.call is None and self._decided:
            # A constant, on the way that a failed call takes.
            return Result(first.number, self._decided[0])
        return first


#: A value that no variable has.
_NONE: Final = Result(0)


def _is_alone(node: Node) -> bool:
    """Whether a statement is one jump and nothing else."""
    while node.kind == kinds.BLOCK and len(node.kids) == 1:
        node = node.kids[0]
    return node.kind == kinds.CONTINUE
