"""Which functions that many work-items must call together are called where control flow certainly differs among them.

An abstract interpretation of each kernel: statements in their order, loops until nothing changes, calls of the author's own
functions with what is known of their arguments. A value differs where ids of work-items or groups flow into it, or where it
depends on such a condition. A value from memory may be the same for all, so nothing is said of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from portbar.reading import kinds
from portbar.reading.expressions import Expressions
from portbar.reading.goto_loops import loop_ends
from portbar.reading.loops import LOOPS, parts
from portbar.reading.opencl import PURE, PURE_PREFIXES, ROUNDING, knowledge_of
from portbar.reading.paths import Again, Control, Enclosing, Finding, Frame, Labels, State, meet, unchanged
from portbar.reading.tree import PARAMETER, VARIABLE, Node, Tree, below
from portbar.reading.values import (
    A_CONSTANT,
    A_SIZE,
    CONSTANT,
    GROUP,
    ITEM,
    QUOTIENT,
    SAME,
    UNKNOWN,
    WHOLE,
    Declaration,
    Value,
    Why,
    higher,
    joined,
)

#: Rounds of a loop's analysis, which end long before.
_ROUNDS: Final = 20
_DEPTH: Final = 40
_GOTO: Final = "goto "


def _assigned(head: State, last: State, target: Enclosing) -> set[Any]:
    """The variables that a turn of a loop assigns."""
    return {
        key
        for one in (last, *target.breaks, *target.continues)
        for key, value in one.values.items()
        if head.values.get(key) is not value
    }


class Analysis(Expressions):
    """The findings of one program."""

    def __init__(self, tree: Tree, *, findings: dict[int, Finding] | None = None) -> None:
        super().__init__(tree)
        self.findings: dict[int, Finding] = {} if findings is None else findings
        self._frames: list[Frame] = []
        self._targets: list[Enclosing] = []
        self._known: dict[int, Declaration | None] = {}
        self._returns: dict[Any, Value] = {}
        self._heads: dict[tuple[int, ...], State] = {}
        self._shared: dict[int, bool] = {}
        self._labels: dict[int, Labels] = {}
        #: Whether functions have a `goto`, by their keys.
        self._with_goto: dict[int, bool] = {}
        self._statements: dict[int, Callable[[Node, State], State]] = {
            kinds.BLOCK: self._block,
            kinds.IF: self._if,
            **dict.fromkeys(LOOPS, self._any_loop),
            kinds.SWITCH: self._switch,
            kinds.CASE: self._case,
            kinds.DEFAULT: self._case,
            kinds.RETURN: self._return,
            kinds.BREAK: self._break,
            kinds.CONTINUE: self._continue,
            kinds.GOTO: self._goto,
            kinds.LABEL: self._label,
            kinds.DECLARATIONS: self._declarations,
        }

    def analyse(self, function: Node) -> None:
        """Go through a function as if it were called in uniform control flow, with arguments of which nothing is known."""
        self._enter(function, None, (), State())

    # Functions

    def _enter(
        self, function: Node, call: Node | None, arguments: Iterable[Value], state: State
    ) -> tuple[Value, State]:
        body = self._tree.body(function)
        depth = len(self._stack)
        frame = Frame(function, call, len(self._frames), depth, [], {})
        self._frames.append(frame)
        targets, self._targets = self._targets, []
        given = iter(arguments)
        block = None
        for kid in body.kids:
            if kid.kind == PARAMETER:
                state.values[kid.key] = next(given, UNKNOWN)
            elif kid.kind == kinds.BLOCK:
                block = kid
        if block is not None:
            state = self._do_statement(block, state)
        self._frames.pop()
        self._targets = targets
        result, control, last = UNKNOWN, None, state
        for number, (value, left_by, at) in enumerate(frame.returned):
            if left_by is not None and (control is None or control.level < left_by.level):
                control = left_by
            result = value if number == 0 else joined(result, value, UNKNOWN)
            last = meet(last, at, UNKNOWN)
        if control is not None and len(frame.returned) > 1 and control.level > result.level:
            result = Value(control.level, Why(control.decides, control.why))
        last.alive = True
        for target in [one for one in last.lost if one[1] == frame.number and one[0].startswith(("return", _GOTO))]:
            del last.lost[target]
        return result, last

    def _own(self, definition: Node, call: Node, arguments: list[Value], state: State) -> Value:
        """The result of a function of the author's."""
        active = any(frame.function is definition for frame in self._frames)
        if active or len(self._frames) > _DEPTH or self._tree.unread_in(definition):
            return UNKNOWN
        if any(value.points is not None for value in arguments):
            inner = state.copy()
            result, last = self._enter(definition, call, arguments, inner)
            for key in state.values:
                state.values[key] = last.values.get(key, state.values[key])
            return result
        strongest = self._strongest(state, SAME)
        known = tuple((value.level, value.flags, value.lanes, value.rest) for value in arguments)
        # Where control flow differs, each call is a case of its own.
        memo = (definition.key, known, (call.key, strongest.level) if strongest else None)
        if memo not in self._returns:
            inner = State()
            inner.lost = state.lost.copy()
            self._returns[memo] = UNKNOWN
            self._returns[memo] = self._enter(definition, call, arguments, inner)[0]
        found = self._returns[memo]
        return Value(found.level, Why(call, found.why), found.flags, found.lanes, found.rest) if found.level else found

    def _knowledge(self, key: int, name: str, annotations: tuple[str, ...]) -> Declaration | None:
        if key not in self._known:
            self._known[key] = knowledge_of(name, annotations)
        return self._known[key]

    def _call(self, node: Node, state: State) -> Value:
        key, name, annotations = self._tree.called(node)
        arguments = [self._value(kid, state) for kid in node.kids[1:]]
        definition = self._tree.defined(key, name)
        if definition is not None:
            return self._own(definition, node, arguments, state)
        known = self._knowledge(key, name, annotations)
        for value in arguments:
            if value.points is not None and name not in PURE:
                state.values[value.points] = Value()
        if known is None:
            if name in PURE or name.startswith(PURE_PREFIXES):
                return self._pure(name, arguments)
            return UNKNOWN
        if known.caller is not None:
            control = self._strongest(state, known.caller)
            if control is None and known.is_single:
                control = self._by_number(state)
            if control is not None:
                self._find(node, name, known, control)
            return UNKNOWN
        if known.is_size:
            return A_SIZE
        if known.is_constant:
            return A_CONSTANT
        if not known.differs:
            return UNKNOWN
        return self._id(node, known)

    def _id(self, node: Node, known: Declaration) -> Value:
        if not known.id_of:
            return Value(known.differs, Why(node))
        kids = node.kids[1:]
        is_portbars = bool(self._tree.called(node)[2])
        dimension = "0" if is_portbars or len(kids) != 1 else self._tree.source(kids[0])
        rest = GROUP if known.id_of == "global" else SAME
        return Value(ITEM, Why(node), 0, ((dimension, 1),), rest)

    def _pure(self, name: str, arguments: list[Value]) -> Value:
        made = UNKNOWN
        for number, value in enumerate(arguments):
            made = value if number == 0 else higher(made, value)
        if len(arguments) == 1 and (name.startswith(PURE_PREFIXES) or name == "__builtin_expect"):
            return made
        if name == "__builtin_expect":
            return arguments[0] if arguments else UNKNOWN
        if name in {"min", "clamp", "fmin"} and any(value.flags & WHOLE for value in arguments):
            # An id that is cut at the size of the group.
            return Value(made.level, made.why, 0)
        return Value(made.level, made.why, QUOTIENT if name in ROUNDING else made.flags & CONSTANT)

    def _find(self, node: Node, name: str, known: Declaration, control: Control) -> None:
        call, function = node, self._frames[-1].function
        for frame in self._frames:
            if frame.number == control.frame:
                function = frame.function
            if frame.number == control.frame + 1 and frame.call is not None:
                call = frame.call
        if call.key not in self.findings:
            self.findings[call.key] = Finding(call, node, name, known, control, function)

    # Control flow

    def _strongest(self, state: State, above: int) -> Control | None:
        """The strongest reason why control flow differs among more than `above`, the innermost of several."""
        return self._highest((*state.lost.values(), *self._stack), above)

    def _by_number(self, state: State) -> Control | None:
        """The reason why sub-groups are here by their number, as in the last step of a sum by hand, rather than in their turn.

        Loops that share iterations among sub-groups are right for any number of them, and so is one turn of such a loop, with
        the id of its level. Who asks for the number of a sub-group expects as many lanes as there are sub-groups.
        """
        found = (*state.lost.values(), *self._stack)
        return self._highest((one for one in found if one.level > GROUP and not self._shares(one)), GROUP)

    def _shares(self, control: Control) -> bool:
        """Whether a loop, or one turn of it, shares work."""
        if control.jump is None and control.decides.kind in LOOPS:
            return True
        why = control.why
        while why is not None and why.before is not None:
            why = why.before
        return (
            why is not None
            and why.node.kind == kinds.CALL
            and self._tree.called(why.node)[1].startswith("portbar_loop_id_")
        )

    @staticmethod
    def _highest(controls: Iterable[Control], above: int) -> Control | None:
        found = None
        for control in controls:
            if control.level > above and (found is None or control.level >= found.level):
                found = control
        return found

    def _control(self, decides: Node, value: Value) -> Control:
        return Control(value.level, decides, value.why, frame=len(self._frames) - 1)

    def _reason(self, decides: Node, value: Value) -> Value:
        """A condition as the reason why what is assigned under it differs."""
        return Value(value.level, Why(decides, value.why)) if value.level else UNKNOWN

    def _do_statement(self, node: Node, state: State) -> State:
        handler = self._statements.get(node.kind)
        if handler is not None:
            return handler(node, state)
        if not state.alive:
            return state
        if node.kind in (200, kinds.NOTHING, kinds.ASSEMBLY):
            for kid in node.kids:
                state = self._do_statement(kid, state)
            return state
        if node.kind >= 100 and node.kind < 200:
            self._value(node, state)
        return state

    def _block(self, node: Node, state: State) -> State:
        return self._statements_of(node.kids, state, loop_ends(self._tree, node.kids) if self._has_goto() else {})

    def _statements_of(self, nodes: Sequence[Node], state: State, ends: Mapping[int, int]) -> State:
        last = -1
        for place, kid in enumerate(nodes):
            if place <= last:
                continue
            if place in ends:
                last = ends[place]
                state = self._goto_loop(
                    nodes[place : last + 1], state, {at - place: end - place for at, end in ends.items()}
                )
            elif state.alive or kid.kind in (kinds.CASE, kinds.DEFAULT, kinds.LABEL, kinds.BLOCK):
                state = self._do_statement(kid, state)
        return state

    def _has_goto(self) -> bool:
        function = self._frames[-1].function
        if function.key not in self._with_goto:
            self._with_goto[function.key] = "goto" in self._tree.source(function)
        return self._with_goto[function.key]

    def _goto_loop(self, nodes: Sequence[Node], state: State, ends: Mapping[int, int]) -> State:
        """Statements that a `goto` in them repeats: twice, in the second turn without those who did not jump."""
        frame, inner = self._frames[-1], {at: end for at, end in ends.items() if at > 0 and end < len(nodes)}
        labels, one = list[str](), nodes[0]
        while one.kind == kinds.LABEL and one.kids:
            labels.append(self._tree.spelling(one))
            one = one.kids[-1]
        frame.again.update({name: Again(len(self._stack)) for name in labels})
        state = self._statements_of(nodes, state, inner)
        jumps = [jump for name in labels for jump in frame.again.pop(name).jumps]
        if not jumps:
            return state
        turn = jumps[0][0]
        for other, _ in jumps[1:]:
            turn = meet(turn, other, UNKNOWN)
        # Who has left for a label in the loop is a reason of the jump back, and in the next turn no longer there.
        within = {self._tree.spelling(one) for node in nodes for one in (node, *below(node)) if one.kind == kinds.LABEL}
        self._forget(turn, lambda _, name: name in within)
        control = self._highest((control for _, control in jumps if control is not None), SAME)
        if control is not None:
            self._stack.append(control)
        turn = self._statements_of(nodes, turn, inner)
        if control is not None:
            self._stack.pop()
        return meet(state, turn, UNKNOWN)

    def _declarations(self, node: Node, state: State) -> State:
        for kid in node.kids:
            if kid.kind == VARIABLE:
                initial = self._tree.initial(kid)
                value = UNKNOWN if initial is None else self._value(initial, state)
                if not self._is_shared(kid):
                    self._set(kid.key, kid, value, state)
        return state

    def _is_shared(self, node: Node) -> bool:
        if node.key not in self._shared:
            self._shared[node.key] = self._tree.is_shared(node)
        return self._shared[node.key]

    def _under(self, control: Control | None, node: Node, state: State) -> State:
        """A statement under a condition."""
        if control is not None:
            self._stack.append(control)
        state = self._do_statement(node, state)
        if control is not None:
            self._stack.pop()
        return state

    def _if(self, node: Node, state: State) -> State:
        if len(node.kids) < 2:
            return state
        value = self._value(node.kids[0], state)
        control = self._control(node, value)
        other = state.copy()
        state = self._under(control, node.kids[1], state)
        if len(node.kids) > 2:
            other = self._under(control, node.kids[2], other)
        return meet(state, other, self._reason(node, value))

    def _any_loop(self, node: Node, state: State) -> State:
        loop = parts(self._tree, node)
        if loop is None:
            return state
        if loop.initial is not None:
            if loop.initial.kind == kinds.DECLARATIONS:
                state = self._declarations(loop.initial, state)
            else:
                self._value(loop.initial, state)
        return self._loop(node, loop.condition, loop.body, loop.step, state, tests_first=loop.tests_first)

    def _is_constant(self, node: Node | None) -> bool | None:
        """The truth of a condition that is a literal, None of others."""
        if node is None:
            return True
        while node.kind in (100, kinds.PAREN) and len(node.kids) == 1:
            node = node.kids[0]
        if node.kind in kinds.LITERALS:
            return self._tree.source(node).rstrip("uUlL") not in {"0", "false"}
        return None

    def _loop(
        self,
        node: Node,
        condition: Node | None,
        body: Node,
        step: Node | None,
        state: State,
        *,
        tests_first: bool,
    ) -> State:
        truth = self._is_constant(condition)
        entry = state
        place = (node.key, *(frame.call.key if frame.call else 0 for frame in self._frames))
        head = state.copy()
        before = self._heads.get(place)
        if before is not None:
            head = meet(head, before.copy(), UNKNOWN)
        target = Enclosing(node, len(self._stack), True, [], [])
        control: Control | None = None
        value = UNKNOWN
        for round_ in range(_ROUNDS):
            target.breaks, target.continues = [], []
            state = head.copy()
            left: State | None = None
            if tests_first:
                value = self._tested(control, condition, value, state)
                left = state.copy() if truth is not True else None
                control = self._control(node, value) if value.level else None
            self._targets.append(target)
            state = self._under(control, body, state)
            for other in target.continues:
                state = meet(state, other, UNKNOWN)
            self._rejoin(state)
            self._targets.pop()
            state.lost.pop(("continue", node.key), None)
            self._arrive(state, node)
            if state.alive:
                if step is not None:
                    self._tested(control, step, UNKNOWN, state)
                if not tests_first:
                    value = self._tested(control, condition, value, state)
                    left = state.copy() if truth is not True else None
                    control = self._control(node, value) if value.level else None
            if not state.alive or truth is False:
                break
            following = meet(head.copy(), state, UNKNOWN)
            # A call in the second turn, too, is one where some have left.
            is_seen = control is None or round_ > 0 or (tests_first and self._calls_nothing(condition, step))
            if is_seen and unchanged(following, head):
                break
            head = following
        # The loop's own assignments alone: all else is the same on all ways through it, whatever it was at another visit.
        assigned, kept = _assigned(head, state, target), head.copy()
        kept.values = {key: value for key, value in head.values.items() if key in assigned}
        self._heads[place] = kept
        return self._after_loop(target, entry, head, state, left, value)

    def _calls_nothing(self, *nodes: Node | None) -> bool:
        """Whether parts of a loop's head call nothing, though they may assign."""
        parts = [
            part for node in nodes if node is not None for part in (node.kids if node.kind in kinds.CHANGES else [node])
        ]
        return all(map(self._is_plain, parts))

    def _after_loop(
        self, target: Enclosing, entry: State, head: State, last: State, left: State | None, value: Value
    ) -> State:
        """The state after a loop, which some left by its condition with a value, others by `break`."""
        leave = ("break", target.node.key)
        ends = [*target.breaks, *([left] if left is not None else [])]
        reason = self._reason(target.node, value)
        for lost in filter(None, (one.lost.get(leave) for one in (last, *ends))):
            if lost.level > reason.level:
                reason = Value(lost.level, Why(lost.decides, lost.why))
        made = left
        for one in target.breaks:
            made = one if made is None else meet(made, one, reason)
        if made is None:
            made = last
            made.alive = False
        if reason.level:
            # Some made more turns than others.
            changed = {
                key
                for one in (last, *target.breaks)
                for key, mine in one.values.items()
                if key in entry.values and head.values.get(key) is not mine
            }
            for key in changed & made.values.keys():
                mine = made.values[key]
                if reason.level > mine.level:
                    made.values[key] = Value(reason.level, reason.why, points=mine.points)
        made.lost.pop(leave, None)
        made.lost.pop(("continue", target.node.key), None)
        self._arrive(made, target.node)
        return made

    def _tested(self, control: Control | None, node: Node | None, before: Value, state: State) -> Value:
        """The value of an expression of a loop's head, evaluated by those who are still in the loop, or one before it."""
        if node is None:
            return before
        if control is not None:
            self._stack.append(control)
        value = self._value(node, state)
        if control is not None:
            self._stack.pop()
        return before if before.level > value.level else value

    def _switch(self, node: Node, state: State) -> State:
        if len(node.kids) < 2:
            return state
        value = self._value(node.kids[0], state)
        reason = self._reason(node, value)
        target = Enclosing(node, len(self._stack), False, [], [], entry=state.copy(), control=reason)
        self._targets.append(target)
        state.alive = False
        state = self._under(self._control(node, value), node.kids[-1], state)
        self._targets.pop()
        for one in target.breaks:
            state = meet(state, one, reason)
        if not target.has_default and target.entry is not None:
            state = meet(state, target.entry, reason)
        state.lost.pop(("break", node.key), None)
        self._arrive(state, node)
        return state

    def _case(self, node: Node, state: State) -> State:
        target = next((one for one in reversed(self._targets) if not one.is_loop), None)
        if target is not None and target.entry is not None:
            state = meet(state, target.entry.copy(), target.control)
            target.has_default |= node.kind == kinds.DEFAULT
        return self._do_statement(node.kids[-1], state) if node.kids else state

    def _jump(
        self, node: Node, state: State, kind: str, target: int, depth: int, lasts: int | None = None
    ) -> Control | None:
        """Leave what began at a depth, and keep in mind that others do not: by the conditions in it, and by jumps inside it.

        Where the jump leads to a place in it, and not to its end, `lasts` is the depth of that place.
        """
        frame = len(self._frames) - 1
        least = depth if kind == "return" else depth + 1
        left = (
            lost
            for (other, key), lost in state.lost.items()
            if lost.frame == frame
            and (lost.depth >= least or self._is_passed(other, kind) or self._stays(other, key, kind, target))
        )
        control = self._highest((*left, *self._stack[depth:]), SAME)
        if control is not None:
            depth = depth if lasts is None else lasts
            # Those who made a `continue` are the ones who stay.
            jump = node if control.jump is None or control.jump.kind == kinds.CONTINUE else control.jump
            lost = Control(control.level, control.decides, control.why, jump, depth, frame)
            state.lose((kind, target), lost)
        return control

    def _return(self, node: Node, state: State) -> State:
        value = self._value(node.kids[0], state) if node.kids else UNKNOWN
        frame = self._frames[-1]
        control = self._jump(node, state, "return", frame.number, frame.depth)
        if value.level:
            value = Value(value.level, Why(node, value.why), value.flags, value.lanes, value.rest, value.points)
        frame.returned.append((value, control, state.copy()))
        state.alive = False
        return state

    def _break(self, node: Node, state: State) -> State:
        if self._targets:
            target = self._targets[-1]
            self._jump(node, state, "break", target.node.key, target.depth)
            target.breaks.append(state.copy())
        state.alive = False
        return state

    def _continue(self, node: Node, state: State) -> State:
        target = next((one for one in reversed(self._targets) if one.is_loop), None)
        if target is not None:
            self._jump(node, state, "continue", target.node.key, target.depth)
            target.continues.append(state.copy())
        state.alive = False
        return state

    def _rejoin(self, state: State) -> None:
        """Forget who has left loops and switches that ended before this place, also where a jump led out of them."""
        around, frame = {target.node.key for target in self._targets}, len(self._frames) - 1
        for (kind, key), lost in list(state.lost.items()):
            if kind in {"break", "continue"} and lost.frame == frame and key not in around:
                del state.lost[kind, key]

    def _labels_of(self, frame: Frame) -> Labels:
        function = frame.function
        if function.key not in self._labels:
            self._labels[function.key] = Labels(self._tree, function)
        return self._labels[function.key]

    def _arrive(self, state: State, node: Node) -> None:
        """Forget who has left for labels in a loop or a switch, after it or after a turn of it."""
        self._forget(state, lambda labels, name: labels.is_in(name, node))

    def _forget(self, state: State, has_ended: Callable[[Labels, str], bool]) -> None:
        frame = self._frames[-1]
        for kind, number in list(state.lost):
            if (
                kind.startswith(_GOTO)
                and number == frame.number
                and has_ended(self._labels_of(frame), kind[len(_GOTO) :])
            ):
                del state.lost[kind, number]

    def _is_passed(self, one: str, other: str) -> bool:
        """Whether both are jumps to labels, and the first leads to one that is before the other's."""
        if one == other or not (one.startswith(_GOTO) and other.startswith(_GOTO)):
            return False
        return self._labels_of(self._frames[-1]).is_passed(one[len(_GOTO) :], other[len(_GOTO) :])

    def _stays(self, one: str, key: int, other: str, target: int) -> bool:
        """Whether the first is a `continue` of a loop that the other one leaves, and so those who made it stay there."""
        if one != "continue":
            return False
        if other.startswith(_GOTO):
            loop = next((around.node for around in self._targets if around.node.key == key), None)
            return loop is not None and not self._labels_of(self._frames[-1]).is_in(other[len(_GOTO) :], loop)
        return other == "break" and key == target

    def _goto(self, node: Node, state: State) -> State:
        frame = self._frames[-1]
        name = self._tree.spelling(node.kids[0]) if node.kids else ""
        labels = self._labels_of(frame)
        if labels.is_ahead(node, name):
            inner = next((one for one in reversed(self._targets) if labels.is_in(name, one.node)), None)
            depth, lasts = (frame.depth, frame.depth) if inner is None else (inner.depth, inner.depth + 1)
            self._jump(node, state, _GOTO + name, frame.number, depth, lasts)
            frame.waiting.setdefault(name, []).append(state.copy())
        elif name in frame.again:
            again, number = frame.again[name], len(self._frames) - 1
            left = (lost for lost in state.lost.values() if lost.frame == number and lost.depth > again.depth)
            control = self._highest((*left, *self._stack[again.depth :]), SAME)
            if control is not None:
                control = Control(
                    control.level, control.decides, control.why, control.jump or node, again.depth, number
                )
            again.jumps.append((state.copy(), control))
        state.alive = False
        return state

    def _label(self, node: Node, state: State) -> State:
        frame = self._frames[-1]
        name = self._tree.spelling(node)
        for one in frame.waiting.pop(name, ()):
            one.alive = True
            state = meet(state, one, UNKNOWN)
        self._rejoin(state)
        self._forget(state, lambda labels, other: labels.is_passed(other, name))
        return self._do_statement(node.kids[-1], state) if node.kids else state
