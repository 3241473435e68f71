"""A program in the form that compilers take rightly which make one loop over work-items of each part between two barriers.

PoCL copies all code after a barrier that some path avoids, and lets a work-group's first work-item choose among the copies.
It is right where each branch that a work-group takes as a whole has barriers on all its edges, so that nothing that work-items
do apart shares a part with it. So here: a call with a barrier is a statement of its own between two barriers; a branch or a
loop around one begins and ends with a barrier, and so does each of its arms and turns; a `switch` becomes branches; the
work-group leaves a kernel by a jump to its end, and statements without a barrier by a jump after them: the conditions around
a jump in them may differ where no work-item makes it. A loop that work-items may leave at different turns is under a condition
on ids that all meet: without one, PoCL takes a variable for the same in all of them after the loop if each value that the loop
gives it is. Where there are more than a few branches, they become loops of one turn or none, of which PoCL copies nothing;
the work-group leaves them by a flag, under which are all statements that it does not reach then. No line moves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, TypeGuard

from portbar.reading import kinds
from portbar.reading.edits import Inserted, UnformedError
from portbar.reading.forks import Forks
from portbar.reading.goto_loops import goto_loops
from portbar.reading.hiding import Hiding, has_case
from portbar.reading.loops import LOOPS, Loop, parts
from portbar.reading.sameness import Sameness
from portbar.reading.tree import VARIABLE, Node, Tree, below
from portbar.reading.values import ITEM
from portbar.reading.written import ATTRIBUTED

#: A loop that the work-group enters as a whole, and whose turns it shares out among its work-items.
_SHARED_OUT: Final = "PORTBAR_FOR_DYNAMIC"
_END: Final = "portbar_end"
_RESULT: Final = "portbar_result"
_LEFT: Final = "portbar_left"
_GONE: Final = "portbar_gone"
#: True in each work-item, and in none of them, which PoCL finds out after it has looked for what differs.
_EACH: Final = "if (get_local_id(0) < get_local_size(0))"
_NONE: Final = "if (get_local_id(0) >= get_local_size(0))"
#: Branches with a barrier in a function that stay branches in all functions. With three in a loop PoCL 5.0 takes as long for
#: both forms; then its time doubles with each branch, and hardly grows with each loop.
_MOST_BRANCHES: Final = 2
_JUMPS: Final = (kinds.RETURN, kinds.BREAK, kinds.CONTINUE, kinds.GOTO)
#: The beginnings of statements of each kind that no macro of the author's writes.
_HEADS: Final = {
    kinds.IF: re.compile(rb"if\b"),
    kinds.FOR: re.compile(rb"for\b|PORTBAR_FOR(?:_2D|_3D|_TILES(?:_STATIC(?:_2D|_3D)?)?|_DYNAMIC)?\b"),
    kinds.WHILE: re.compile(rb"while\b"),
    kinds.DO: re.compile(rb"do\b"),
    kinds.SWITCH: re.compile(rb"switch\b"),
}


@dataclass
class _Meeting:
    """A place with a barrier where jumps lead: of work-items on their own, and of the work-group as a whole."""

    label: str
    alone: bool = False
    whole: bool = False
    #: Whether a statement of all is after the label: PoCL 5.0 loses values that ways bring right to the barrier at the end of a
    #: turn of a loop in a loop.
    is_apart: bool = False

    def goto(self, *, whole: bool) -> str:
        """A jump there."""
        if whole:
            self.whole = True
        else:
            self.alone = True
        return f"goto {self.label}_all;" if whole else f"goto {self.label};"

    def text(self, barrier: str, work: str) -> str:
        """The labels and the barrier, a second one where the work-group comes from a barrier."""
        first = f"{self.label}: {work if self.is_apart else ''} " if self.alone else ""
        return f"{first}{barrier} {work} {self.label}_all: {barrier}" if self.whole else f"{first}{barrier}"


@dataclass
class _Target:
    """A loop or a `switch` around a statement."""

    begin: int
    end: int
    #: Whether the work-group goes through it as a whole.
    holds: bool
    is_loop: bool
    #: Whether it is `do ... while (0)`.
    is_once: bool = False
    turn_ends: int = 0
    #: Before its end, where a `continue`, or a `break` of a `switch`, leads.
    meeting: _Meeting | None = None
    #: Jumps after the loop, by number, of work-groups that leave it at its head; None where they leave it at once.
    leaving: dict[int, str] | None = None


@dataclass
class _Arm:
    """A branch, or a turn of a loop, that ends with a barrier: those who leave it alone meet the others there first."""

    begin: int
    end: int
    meeting: _Meeting
    #: Jumps that go on after the statement whose arm it is, by their number.
    leaving: dict[int, str]


@dataclass
class _Label:
    """A place where `goto` leads: where it is, the statements with a barrier and the loops around it, and the text after it."""

    begin: int
    around: tuple[tuple[int, int], ...]
    loops: tuple[tuple[int, int], ...]
    text: Inserted
    meeting: _Meeting
    #: Whether the work-group jumps there as a whole, and whether some work-items jump back there.
    is_met: bool = False
    is_turned: bool = False


@dataclass
class _Context:
    """The statements around one."""

    targets: tuple[_Target, ...] = ()
    arms: tuple[_Arm, ...] = ()
    #: The outermost statements that work-items execute each on its own and the work-group leaves as a whole.
    apart: _Apart | None = None
    #: Whether they are under a condition on ids, made for a loop.
    each: bool = False
    #: Whether jumps of the whole work-group are made by a flag, and not by `goto`.
    by_flag: bool = False
    #: Whether they are statements of a kernel, under no condition.
    is_top: bool = False

    def inside(self, *targets: _Target, arm: _Arm | None = None, each: bool = False) -> _Context:
        """The context in these, and in a branch or a turn."""
        arms = (*self.arms, arm) if arm else self.arms
        return _Context((*self.targets, *targets), arms, self.apart, each, self.by_flag)


@dataclass
class _Apart:
    """Statements without a barrier, out of which the work-group jumps as a whole: each work-item says so by a flag."""

    begin: int
    end: int
    number: int
    #: Jumps of the work-group as a whole, and those of some work-items past barriers after them, by their number.
    jumps: dict[int, str] = field(default_factory=dict)
    alone: dict[int, str] = field(default_factory=dict)
    is_left: bool = False

    @property
    def flag(self) -> str:
        """The variable that says which jump was made."""
        return f"portbar_left_{self.number}"

    def leave(self, jumps: dict[int, str], text: str) -> str:
        """Leave them for a jump of one of the two kinds."""
        self.is_left = True
        number = len(self.jumps) + len(self.alone) + 1
        jumps[number] = text
        return f"{self.flag} = {number}u; {self.past()}"

    def past(self) -> str:
        """Leave them for what is right after them."""
        self.is_left = True
        return f"goto portbar_out_{self.number};"


def normal_form(tree: Tree, *, barrier: str, work: str, wide: bool, macros: frozenset[str] = frozenset()) -> str:
    """A program in normal form. Functions that could not be parsed stay as they are.

    Parameters
    ----------
    tree : Tree
    barrier, work : str
        Statements: a barrier of the work-group, and one that each work-item executes.
    wide : bool
        Whether OpenCL C's own functions of a sub-group are barriers of the work-group.
    macros : frozenset of str
        Names of the author's macros, which can be written out.

    Raises
    ------
    UnformedError
        A function cannot be brought into the form.
    """
    form = _Form(tree, barrier, work, wide=wide, macros=macros)
    for function in filter(form.concerns, tree.whole):
        if not tree.unread_in(function):
            form.bring(function)
    for function in tree.whole:
        # They become parts of kernels that may have barriers.
        if not form.concerns(function) and not tree.is_kernel(function) and not tree.unread_in(function):
            form.part_loops(function)
    return form.text()


def _last(node: Node) -> Node:
    """A statement, or the last one of a block."""
    while node.kind == kinds.BLOCK and node.kids:
        node = node.kids[-1]
    return node


@dataclass
class _Run:
    """Statements of a `switch` from a label to the next, and the conditions of their labels, None for `default`."""

    begin: int
    labels: list[str | None] = field(default_factory=list)
    parts: list[Node] = field(default_factory=list)


class _Form(Hiding):
    """The statements of a program in normal form."""

    def __init__(self, tree: Tree, barrier: str, work: str, *, wide: bool, macros: frozenset[str]) -> None:
        super().__init__(tree, barrier, work, wide=wide, macros=macros)
        # Of the function that is brought into the form.
        self._result = ""
        self._body = (0, 0)
        self._collectives: list[int] = []
        self._in_loops = False
        self._labels: dict[str, _Label] = {}
        self._end_of_function = _Meeting(_END)
        self._jumps_made = 0
        #: Numbers of the places where jumps by a flag lead.
        self._flagged: dict[tuple[int, int], int] = {}
        #: Labels to which the work-group skips statements by the flag; those of loops made of `goto` by it, and their ends.
        self._skipped_to: set[int] = set()
        self._again: dict[int, int] = {}
        self._around = _Context()
        self._branched: dict[int, int] = {}
        #: Operators of reductions, say, are called by portbar's text.
        self._sameness = Sameness(tree, checked=lambda _: ITEM, trusts_arguments=False)
        self._sameness.settle(one for one in tree.whole if not tree.unread_in(one))
        self._shapes = Forks(tree, self._branches)
        self._by_turns = any(self._branches_of(one) > _MOST_BRANCHES for one in filter(self.concerns, tree.whole))

    def _between(self, begin: int, end: int) -> bool:
        """Whether a barrier is between two places."""
        return any(begin < at < end for at in self._collectives)

    def bring(self, function: Node) -> None:
        """Bring a function into the form."""
        self._result = self._tree.result_type(function)
        block = next((kid for kid in function.kids if kid.kind == kinds.BLOCK), None)
        if block is None:
            return
        self._body = self._extent(block)
        begin, end = self._body
        if not self._is_block(block):
            raise self._of_macro(begin, "the body of a function from")
        self._collectives = sorted(self._calls(block))
        self._labels = {}
        self._find_labels(block, ())
        loops = any(node.kind in LOOPS and self._holds(node) for node in below(block))
        self._in_loops = loops or self._by_turns or bool(self._labels) or not self._tree.is_kernel(function)
        self._end_of_function = _Meeting(_END)
        self._jumps_made = 0
        self._flagged = {}
        jumps = [one for one in self._jumps(block, ()) if one[0].kind == kinds.GOTO] if self._labels else []
        self._skipped_to, self._again = set(), {}
        by_flag = (self._by_turns or self._is_left_at_conditions(block)) and not self._jumps_in_expression(block)
        if by_flag and jumps and not self._may_have_flags(block, jumps):
            self._skipped_to, self._again = set(), {}
            by_flag = False
        for jump in [] if by_flag else jumps:
            self._label_of(jump[0]).is_met |= self._is_whole(*jump)
        is_top = by_flag and not jumps and self._tree.is_kernel(function)
        self._list(block.kids, _Context(by_flag=by_flag, is_top=is_top))
        self._reach(block)
        if self._labels:
            self._part_goto_loops(block)
        self._hide(block, is_called=not self._tree.is_kernel(function))
        if not self._tree.is_kernel(function) and self._begins_with_a_loop(block):
            self._before.setdefault(begin + 1, []).insert(0, Inserted(f" {self._work} "))
        if self._jumps_made:
            self._before.setdefault(begin + 1, []).insert(0, Inserted(f" uint {_LEFT} = 0u; "))
        if self._flagged:
            self._before.setdefault(begin + 1, []).insert(0, Inserted(f" uint {_GONE} = 0u; "))
        meeting = self._end_of_function.text(self._barrier, self._work)
        if self._result != "void":
            self._before.setdefault(begin + 1, []).insert(0, Inserted(f" {self._result} {_RESULT}; "))
            meeting += f" return {_RESULT};"
        self._begin(end - 1, meeting)

    def _begins_with_a_loop(self, block: Node) -> bool:
        """Whether a loop without a barrier is before the first barrier of a function.

        Right after the barrier before the call, PoCL 5.0 finds no end of the loop's part, and ends the process or compiles for
        ever.
        """
        first = self._collectives[0] if self._collectives else self._body[1]
        before = (node for node in below(block) if self._extent(node)[0] < first and not self._holds(node))
        return any(node.kind in (*LOOPS, kinds.LABEL) or self._is_of_author(node) for node in before)

    def _is_of_author(self, node: Node) -> bool:
        """Whether a part is a call of a function of the author's."""
        return node.kind == kinds.CALL and self._tree.defined(*self._tree.called(node)[:2]) is not None

    def _branches_of(self, function: Node) -> int:
        """How many branches with a barrier a function has, with those of the functions that it calls."""
        if function.key not in self._branched:
            self._branched[function.key] = 0
            self._branched[function.key] = sum(map(self._branches_by, below(self._tree.body(function))))
        return self._branched[function.key]

    def _branches_by(self, node: Node) -> int:
        """Those of a part of a function, without the parts in it."""
        if node.kind == kinds.CALL:
            key, name, _ = self._tree.called(node)
            definition = self._tree.defined(key, name)
            return 0 if definition is None else self._branches_of(definition)
        if node.kind in (kinds.IF, kinds.TERNARY):
            return any(map(self._holds, node.kids[1:]))
        if node.kind == kinds.SWITCH and self._holds(node.kids[-1]):
            return sum(kid.kind in (kinds.CASE, kinds.DEFAULT) for kid in below(node.kids[-1]))
        if node.kind == kinds.BINARY and self._tree.operator(node) in (kinds.BOTH, kinds.EITHER):
            return self._holds(node.kids[1])
        return 0

    def part_loops(self, function: Node) -> None:
        """Part the loops of a function without a barrier, which is called by work-items on their own."""
        body = self._tree.body(function)
        self._collectives = []
        self._part_loops(body.kids)
        self._labels = {}
        self._find_labels(body, ())
        for node in below(body):
            if node.kind == kinds.GOTO:
                self._label_of(node)
        self._reach(body)
        self._part_goto_loops(body)
        self._hide(body, is_called=True)

    def _may_have_flags(self, block: Node, jumps: Sequence[tuple[Node, tuple[_Target, ...]]]) -> bool:
        """Whether jumps of the whole work-group can be made by a flag, with these to labels."""
        alone = [one for one in jumps if not self._is_whole(*one)]
        nodes = [jump for jump, _ in alone]
        if not self._finds_flags(block, [jump for jump, _ in jumps if jump not in nodes], nodes):
            return False
        if any(self._is_whole(*one) for one in alone):
            # Out of a loop that is made of a label.
            return False
        return all(self._stays_between(block, jump, nodes) for jump in nodes)

    def _stays_between(self, node: Node, jump: Node, alone: Sequence[Node]) -> bool:
        """Whether no flag is asked for between a jump of some work-items and its label, which cannot lead under one.

        A jump back makes a loop, in which statements under a flag must not end.
        """
        at, to = self._extent(jump)[0], self._label_of(jump).begin
        for block in (one for one in (node, *below(node)) if one.kind == kinds.BLOCK):
            begins = [self._extent(part)[0] for part in block.kids]
            if to in begins and begins[0] <= at < self._extent(block)[1]:
                jumps_from = max(begin for begin in begins if begin <= at)
                first, last = (to, jumps_from) if to <= at else (jumps_from, to - 1)
                return not any(first <= begin <= last for begin in self._left_by_flag(block, alone))
        return False

    def _finds_flags(self, node: Node, jumps: Sequence[Node], alone: Sequence[Node]) -> bool:
        """Whether all these jumps to labels can be made by a flag, beside others of some work-items.

        Under it are the statements that they skip, or those after them in a loop from the label to the last jump back to it.
        So a label and the jumps to it are in statements of one block, and none of those declares what is used after them, nor
        does one that another jump skips.
        """
        again: dict[int, int] = {}
        for block in (one for one in (node, *below(node)) if one.kind == kinds.BLOCK):
            begins = [self._extent(part)[0] for part in block.kids]
            spans: list[tuple[int, int]] = []
            for place, begin in enumerate(begins):
                if block.kids[place].kind != kinds.LABEL:
                    continue
                origins = [self._extent(jump)[0] for jump in jumps if self._label_of(jump).begin == begin]
                if not origins or not begins[0] <= min(origins) <= max(origins) < self._extent(block)[1]:
                    continue
                if min(origins) < begin:
                    first = min(*origins, *self._left_by_flag(block, alone))
                    if self._declares_for(block, [at for at in begins if first < at < begin], begin):
                        continue
                    self._skipped_to.add(begin)
                if max(origins) > begin:
                    last = [at for at in begins if at <= max(origins)][-1]
                    end = self._ends(block.kids[begins.index(last)])
                    if self._declares_for(block, [at for at in begins if begin <= at <= last], end):
                        continue
                    spans.append((begin, end))
            again |= dict(spans)
            if any(one[0] < other[0] < one[1] < other[1] for one in spans for other in spans):
                return False
        found = {(self._label_of(jump).begin, self._extent(jump)[0]) for jump in jumps}
        if not all(begin in (self._skipped_to if at < begin else again) for begin, at in found):
            return False
        self._again = again
        return True

    def _left_by_flag(self, block: Node, alone: Sequence[Node]) -> list[int]:
        """Where statements of a block begin that a jump may leave by a flag, besides these of some work-items.

        Macros for several statements, such as PORTBAR_ENTER, are not left so.
        """
        begins = [self._extent(part)[0] for part in block.kids]
        return [
            begin
            for begin, part in zip(begins, block.kids, strict=True)
            if begins.count(begin) == 1 and self._may_leave(part, alone)
        ]

    def _may_leave(self, node: Node, alone: Sequence[Node]) -> bool:
        """Whether a jump, but none of these, leads out of a statement."""
        begin, end = self._extent(node)[0], self._ends(node)
        for jump, targets in self._jumps(node, ()):
            if jump in alone:
                continue
            to = self._label_of(jump).begin if jump.kind == kinds.GOTO else self._leads(jump, targets)
            if not begin <= to <= end:
                return True
        return False

    def _declares_for(self, block: Node, begins: Sequence[int], after: int) -> bool:
        """Whether some of a block's statements, which begin there, declare what is used from a place on."""
        parts = [part for part in block.kids if part.kind == kinds.DECLARATIONS and self._extent(part)[0] in begins]
        names = {self._tree.spelling(kid) for part in parts for kid in part.kids if kid.kind == VARIABLE}
        return not names.isdisjoint(re.findall(r"\w+", self._source(after, self._extent(block)[1])))

    def _is_left_at_conditions(self, block: Node) -> bool:
        """Whether the work-group may leave a loop, in whose condition or step is a barrier, by a jump.

        With a second end of such a loop, PoCL 5.0 may end the process (`context restore for a PHI node`).
        """
        return any(
            node.kind in LOOPS
            and any(
                part is not None and self._holds(part) for part in (self._parts(node).condition, self._parts(node).step)
            )
            and self._leaves(node, _Context())
            for node in below(block)
        )

    def _is_written(self, node: Node) -> bool:
        """Whether no macro writes the beginning of a statement."""
        return _HEADS[node.kind].match(self._bytes, self._extent(node)[0]) is not None

    def _part_goto_loops(self, body: Node) -> None:
        """Put loops made of `goto`, without a barrier, under a condition on ids."""
        for first, last in goto_loops(self._tree, body):
            begin, end = self._extent(first)[0], self._ends(last)
            if self._between(begin, end):
                continue
            for node in (one for one in (first, *below(first)) if one.kind == kinds.LABEL):
                self._check_label(node)
            for jump in (one for one in below(body) if one.kind == kinds.GOTO):
                if begin < self._label_of(jump).begin < end and not begin <= self._extent(jump)[0] < end:
                    raise self._into_a_loop(jump)
            past = self._name("past")
            self._begin(begin, f"{_NONE} goto {past};")
            block = next((one for one in (body, *body.kids) if one.kind == kinds.BLOCK), body)
            if self._is_block(block):
                # As of other loops, a compiler must not know that this one may not end.
                turns = self._name("turns")
                self._before.setdefault(self._extent(block)[0] + 1, []).insert(0, Inserted(f" ulong {turns} = 0; "))
                self._begins_first(self._bytes.index(b":", begin) + 1, f"if (++{turns} == 0) goto {past};")
            self._end(end, f"{past}: ;")

    def _check_label(self, node: Node) -> None:
        begin = self._extent(node)[0]
        if self._tree.word_at(begin) != self._tree.spelling(node):
            raise self._of_macro(begin, "a label from")

    def _part_loops(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            loop = node.kids[-1] if node.kind == ATTRIBUTED and node.kids else node
            if loop.kind in LOOPS:
                if self._parts_each(loop, self._extent(node)[0], self._ends(loop)):
                    continue
                self._part_turns(self._parts(loop).body)
            self._part_loops(node.kids)

    def _part_turns(self, body: Node) -> None:
        """Begin each turn with a statement, in a loop that all go through alike, where a turn begins with one of several loops.

        PoCL makes barriers in some of several loops in a loop, and one where the turn begins. Where another loop begins right
        there, without one, PoCL 5.0 does not find the part before it (`exit != NULL`, ParallelRegion.cc).
        """
        loops = [part for part in body.kids if any(one.kind in LOOPS for one in (part, *below(part)))]
        branches = (part for part in body.kids if self._shapes.ends(part))
        if self._is_block(body) and len(loops) > 1 and next(branches, None) is loops[0]:
            self._begins_first(self._extent(body)[0] + 1, self._work)

    def _parts_each(self, node: Node, begin: int, end: int) -> bool:
        """Put a loop that work-items may leave at different turns under a condition on ids; whether it is one."""
        at = self._extent(node)[0]
        word = self._tree.word_at(at)
        if word == _SHARED_OUT or self._sameness.is_alike(node):
            return False
        if not self._is_written(node):
            if word.lower().startswith("portbar_"):
                return False
            raise self._of_macro(at, "a loop from")
        self._begin(begin, f"{{ {_EACH}")
        self._end(end, "}")
        return True

    def _find_labels(
        self, node: Node, around: tuple[tuple[int, int], ...], loops: tuple[tuple[int, int], ...] = ()
    ) -> None:
        """Note the labels of `goto`, and the statements around each that have a barrier, and loops."""
        if node.kind in _HEADS and self._holds(node):
            around = (*around, (self._extent(node)[0], self._ends(node)))
        elif node.kind in LOOPS:
            loops = (*loops, (self._extent(node)[0], self._ends(node)))
        elif node.kind == kinds.LABEL:
            self._check_label(node)
            begin = self._extent(node)[0]
            colon = self._bytes.index(b":", begin)
            meeting = _Meeting(self._name("label"))
            self._labels[self._tree.spelling(node)] = _Label(begin, around, loops, self._begins(colon + 1), meeting)
        for kid in node.kids:
            self._find_labels(kid, around, loops)

    def _begins(self, at: int) -> Inserted:
        """Insert at a place, before what others insert there."""
        made = Inserted("")
        self._before.setdefault(at, []).insert(0, made)
        return made

    def _begins_first(self, at: int, text: str) -> None:
        """Insert at a place, where others may have inserted before."""
        self._after.setdefault(at, []).append(Inserted(f" {text} "))

    def _begins_last(self, at: int, text: str) -> None:
        """Insert at a place, after what others insert there."""
        self._before.setdefault(at, []).append(Inserted(f" {text} "))

    def _list(self, parts: Sequence[Node], context: _Context) -> None:
        """Statements after each other; those that one macro stands for are one."""
        place = 0
        while place < len(parts):
            begin = self._extent(parts[place])[0]
            count = 0 if context.by_flag or context.apart is not None else self._passed_over(parts[place:], context)
            if count:
                with self._apart(parts[place : place + count], None, context) as inside:
                    self._list(parts[place : place + count], inside)
                place += count
                continue
            last = place
            while last + 1 < len(parts) and self._extent(parts[last + 1])[0] == begin:
                last += 1
            if last > place:
                self._macro(parts[place : last + 1], context)
            elif self._again.get(begin, 0) > begin and parts[place].kind == kinds.LABEL:
                end = self._again[begin]
                turn = [part for part in parts[place:] if self._extent(part)[0] < end]
                rest = parts[place + len(turn) :]
                opening = self._end(end, "")
                self._turn_again(turn, context)
                if rest and self._leads_past(turn, end, context):
                    self._skipped(rest, turn, opening, context)
                    return
                last = place + len(turn) - 1
            elif context.by_flag and context.apart is None and self._passes(parts[place], context):
                self._passed(parts[place], parts[last + 1 :], context)
                if not context.is_top:
                    return
            else:
                if place and parts[place].kind == kinds.CONTINUE and self._shapes.ends(parts[place - 1]):
                    self._part_continue(parts[place], context)
                self._statement(parts[place], context)
            place = last + 1

    def _part_continue(self, node: Node, context: _Context) -> None:
        """Part a `continue` of work-items from a branch right before it, as arms that end in a branch are parted.

        With one more branch before the barrier at the end of the turn, PoCL 5.0 does not find where the part before it begins.
        """
        if not self._is_in_own_loop(context) and not self._is_whole(node, context.targets):
            self._part_before(node, "continue")

    def _part_before(self, node: Node, word: str) -> None:
        """Put a statement of all work-items before one that begins with this word, unless a macro writes it."""
        begin = self._extent(node)[0]
        if self._tree.word_at(begin) == word:
            self._begins_last(begin, self._work)

    @staticmethod
    def _is_in_own_loop(context: _Context) -> bool:
        """Whether a loop around is gone through by each work-item on its own."""
        return any(one.is_loop and not one.holds for one in context.targets)

    def _passed(self, node: Node, rest: Sequence[Node], context: _Context) -> None:
        """A statement out of which the work-group may jump, and those after it, which it may not reach then."""
        if context.is_top:
            # Nothing is after the end of a kernel that PoCL could copy.
            if node.kind == kinds.IF and not any(map(self._holds, node.kids[1:])):
                self._list([node], replace(context, by_flag=False, is_top=False))
                return
            after = self._end(self._ends(node), "")
            self._statement(node, context)
            if node.kind != kinds.BLOCK and self._skip(self._ends(node)) < self._body[1] - 1:
                leave = f"{self._apart_after} {self._end_of_function.goto(whole=True)}"
                after.text = f" {self._barrier} if ({_GONE} != 0u) {{ {leave} }} {self._apart_after} "
            return
        opening = self._end(self._ends(node), "")
        self._statement(node, context)
        self._skipped(rest, [node], opening, context)

    def _turn_again(self, parts: Sequence[Node], context: _Context) -> None:
        """A loop that an author makes of a label and jumps back to it, which the work-group makes as a whole."""
        begin, end = self._extent(parts[0])[0], self._list_ends(parts)
        after, leaving = self._end(end, ""), dict[int, str]()
        arm = _Arm(begin, end, _Meeting(self._name("turn")), leaving)
        number = self._flagged.setdefault((begin, kinds.GOTO), len(self._flagged) + 1)
        again = self._name("again")
        head = f"const bool {again} = {_GONE} == {number}u; {self._barrier} if (!{again}) break;"
        opens = f"{_GONE} = {number}u; {self._barrier} for (;;) {{ {self._barrier} {head} {self._barrier} {self._work}"
        self._begin(begin, f"{opens} {_GONE} = 0u;")
        self._list([parts[0].kids[-1], *parts[1:]], context.inside(arm=arm))
        ends = f"{self._work} {arm.meeting.text(self._barrier, self._work)} {self._work} }}"
        after.text = f" {ends} {self._apart_after}{self._leaving(leaving)} "

    def _leads_past(self, parts: Sequence[Node], end: int, context: _Context) -> bool:
        """Whether a jump that the work-group makes as a whole leads from one of these statements past a place."""
        return any(
            self._leads(jump, targets) > end and self._is_whole(jump, targets)
            for part in parts
            for jump, targets in self._jumps(part, context.targets)
        )

    def _skipped(self, parts: Sequence[Node], before: Sequence[Node], opening: Inserted, context: _Context) -> None:
        """Statements that the work-group may not reach, since statements before them jump; `opening` is text between them."""
        labels = [place for place, part in enumerate(parts) if self._extent(part)[0] in self._skipped_to]
        skipped, rest = (parts[: labels[0]], parts[labels[0] :]) if labels else (parts, [])
        onward = self._under_flag(skipped, opening, context) if skipped else opening
        if not rest:
            return
        begin = self._extent(rest[0])[0]
        onward.text += self._arrives(begin, kinds.GOTO)
        done = [*before, *skipped]
        if self._leads_past(done, begin, context):
            under = [part for part in rest if self._extent(part)[0] <= max(begin, self._again.get(begin, 0) - 1)]
            self._skipped(rest[len(under) :], [*done, *under], self._under_flag(under, onward, context), context)
        else:
            self._list(rest, context)

    def _under_flag(self, parts: Sequence[Node], opening: Inserted, context: _Context) -> Inserted:
        """Put statements under the flag; the text after them, which may grow."""
        after = self._end(self._list_ends(parts), "")
        closing = self._end(self._list_ends(parts), "")
        if not any(map(self._holds, parts)):
            self._list(parts, context)
            opening.text += f" if ({_GONE} == 0u) {{ "
            closing.text = f" }} {self._work} "
            return after
        leaving = dict[int, str]()
        arm = _Arm(self._extent(parts[0])[0], self._list_ends(parts), _Meeting(self._name("meet")), leaving)
        self._list(parts, context.inside(arm=arm))
        opens, closes = self._turn(f"{_GONE} == 0u", self._leaving(leaving))
        opening.text += f" {opens}{self._work} "
        before = f"{self._work} " if arm.meeting.alone and self._ends_in_a_branch(parts[-1]) else ""
        closing.text = f" {before}{arm.meeting.text(self._barrier, self._work)} {self._work} {closes} "
        return after

    def _turn(self, condition: str, after: str = "") -> tuple[str, str]:
        """The beginning and the end of a loop of one turn or none, and other text after it."""
        declared, (head,), (first,) = self._turns(condition, 1)
        opens = f"{{ {declared} {self._barrier} {head} {{ {self._barrier} {first}"
        return opens, f"}} {self._apart_after}{after} }}"

    def _list_ends(self, parts: Sequence[Node]) -> int:
        """Where a list of statements ends, the last of which a macro may write together with others."""
        begin = self._extent(parts[-1])[0]
        same = [part for part in parts if self._extent(part)[0] == begin]
        return self._ends(same[0]) if len(same) == 1 else self._semicolon(max(self._extent(part)[1] for part in same))

    def _passes(self, node: Node, context: _Context) -> bool:
        """Whether a jump that the work-group makes as a whole leads past the end of a statement."""
        if not any(one.kind in _JUMPS for one in (node, *below(node))):
            return False
        return self._leads_past([node], self._ends(node), context)

    def _jumps_in_expression(self, node: Node) -> bool:
        """Whether an expression has statements in it with a jump."""
        return any(
            one.kind == kinds.STATEMENTS and any(kid.kind in _JUMPS for kid in below(one)) for one in below(node)
        )

    def _flag(self, jump: Node, targets: tuple[_Target, ...]) -> str:
        """A jump by a flag, which says where it leads."""
        if jump.kind == kinds.RETURN:
            key = (-1, jump.kind)
        elif jump.kind == kinds.CONTINUE:
            key = ([one for one in targets if one.is_loop][-1].begin, jump.kind)
        elif jump.kind == kinds.GOTO:
            key = (self._label_of(jump).begin, jump.kind)
        else:
            key = (targets[-1].begin, jump.kind)
        return f"{_GONE} = {self._flagged.setdefault(key, len(self._flagged) + 1)}u;"

    def _arrives(self, begin: int, *jumps: int) -> str:
        """Take the flag back where jumps of these kinds lead, of the loop, the `switch` or the label that begins there."""
        numbers = [self._flagged[begin, kind] for kind in jumps if (begin, kind) in self._flagged]
        return "".join(f" {_GONE} = {_GONE} == {number}u ? 0u : {_GONE}; " for number in numbers)

    def _macro(self, parts: Sequence[Node], context: _Context) -> None:
        """A macro that stands for several statements, of portbar's if they have a barrier."""
        if not any(map(self._holds, parts)):
            if not context.each:
                self._part_loops(parts)
            return
        begin = self._extent(parts[0])[0]
        end = self._semicolon(max(self._extent(part)[1] for part in parts))
        word = self._tree.word_at(begin)
        if not word.startswith("PORTBAR_"):
            raise self._of_macro(begin, "statements from")
        if word != "PORTBAR_ENTER":
            self._begin(begin, self._barrier)
        self._end(end, self._apart_after)

    def _form_list(self, parts: Sequence[Node]) -> None:
        self._list(parts, self._around)

    def _statement(self, node: Node, context: _Context) -> None:
        self._around = context
        kind = node.kind
        if kind == kinds.BLOCK:
            self._list(node.kids, context)
        elif kind == ATTRIBUTED and node.kids:
            begin = self._extent(node)[0]
            line = self._bytes[self._bytes.rfind(b"\n", 0, begin) + 1 : begin + 1].strip()
            # One that a pragma gives begins there.
            self._statement_at(node.kids[-1], self._extent(node.kids[-1])[0] if line[:1] == b"#" else begin, context)
        elif kind in (kinds.LABEL, kinds.CASE, kinds.DEFAULT):
            self._statement(node.kids[-1], context)
        elif kind in _JUMPS:
            self._jump(node, context)
        elif kind == kinds.DECLARATIONS and self._holds(node):
            self._declarations(node)
        elif kind in _HEADS:
            self._statement_at(node, self._extent(node)[0], context)
        elif kind not in kinds.STATEMENT and self._holds(node):
            self._expression(node)
        else:
            if not context.each:
                # An expression may have statements in it.
                self._part_loops(node.kids)
            part = self._part(node)
            if part and kind != kinds.DECLARATIONS:
                self._begin(self._extent(node)[0], "{")
                part += "}"
            if part:
                self._end(self._ends(node), part)

    def _part(self, node: Node) -> str:
        """Part a branch from a barrier after it, in a loop with one."""
        apart = self._is_in_own_loop(self._around)
        return f"{_NONE} {self._work} " if self._in_loops and not apart and self._shapes.twice(node) else ""

    def _statement_at(self, node: Node, begin: int, context: _Context) -> None:
        """A statement with others in it, before which text goes to `begin`."""
        if node.kind not in _HEADS:
            self._statement(node, context)
            return
        if self._is_left_apart(node, context):
            with self._apart([node], begin, context) as inside:
                self._statement_at(node, begin, inside)
            return
        is_whole = self._holds(node) or (context.apart is None and self._leaves(node, context))
        if (is_whole or self._rewrites(node)) and not self._is_written(node):
            raise self._of_macro(self._extent(node)[0], "a statement from")
        if node.kind == kinds.IF:
            self._if(node, begin, context, is_whole=is_whole)
        elif node.kind == kinds.SWITCH:
            self._switch(node, begin, context, is_whole=is_whole)
        else:
            self._loop(node, begin, context)

    def _rewrites(self, node: Node) -> bool:
        """Whether a jump in a statement may have to be written otherwise."""
        return any(kid.kind in _JUMPS for kid in below(node))

    def _leaves(self, node: Node, context: _Context) -> bool:
        """Whether a jump that the work-group makes as a whole leads out of a statement."""
        begin, end = self._extent(node)[0], self._ends(node)
        return any(self._goes(jump, targets, begin, end) for jump, targets in self._jumps(node, context.targets))

    def _jumps(self, node: Node, targets: tuple[_Target, ...]) -> Iterator[tuple[Node, tuple[_Target, ...]]]:
        if node.kind in _JUMPS:
            yield node, targets
            return
        if node.kind in LOOPS or node.kind == kinds.SWITCH:
            targets = (*targets, self._target(node))
        for kid in node.kids:
            yield from self._jumps(kid, targets)

    def _goes(self, jump: Node, targets: tuple[_Target, ...], begin: int, end: int) -> bool:
        """Whether a jump leads out of the text from `begin` to `end`, past a barrier."""
        to = self._leads(jump, targets)
        return not begin <= to < end and self._is_whole(jump, targets)

    def _leads(self, jump: Node, targets: tuple[_Target, ...]) -> int:
        """Where a jump leads; the end of a loop for a `continue`, after it for a `break`."""
        if jump.kind == kinds.RETURN:
            return self._body[1]
        if jump.kind == kinds.GOTO:
            begin = self._label_of(jump).begin
            return begin if self._extent(jump)[0] < begin else self._again.get(begin, begin)
        if jump.kind == kinds.CONTINUE:
            loops = [one for one in targets if one.is_loop]
            return loops[-1].turn_ends - 1 if loops else self._body[1]
        return targets[-1].end if targets else self._body[1]

    def _label_of(self, jump: Node) -> _Label:
        """Where a `goto` leads."""
        name = next((self._tree.spelling(kid) for kid in jump.kids if kid.kind == kinds.LABEL_REFERENCE), "")
        found, at = self._labels.get(name), self._extent(jump)[0]
        if found is None:
            raise UnformedError("a goto to a place that is not known", self._line(at))
        if not all(begin <= at < end for begin, end in found.around):
            remedy = "Jump to a label outside of it, or use a flag."
            raise UnformedError("a goto into a branch or a loop that has a barrier", self._line(at), remedy=remedy)
        if not all(begin <= at < end for begin, end in found.loops):
            raise self._into_a_loop(jump)
        return found

    def _into_a_loop(self, jump: Node) -> UnformedError:
        """PoCL ends the process, or its kernel never ends, where a loop has two ways into it."""
        remedy = "Jump to a label outside of it, or use a flag."
        return UnformedError("a goto into a loop", self._line(self._extent(jump)[0]), remedy=remedy)

    def _is_whole(self, jump: Node, targets: tuple[_Target, ...]) -> bool:
        """Whether a work-group makes a jump as a whole, since a barrier would be missed otherwise."""
        at = self._extent(jump)[0]
        to = self._label_of(jump).begin if jump.kind == kinds.GOTO else self._leads(jump, targets)
        if self._between(min(at, to), max(at, to)):
            return True
        if any(begin <= at < end and not begin <= to <= end for begin, end in self._again.items()):
            return True
        around = [one for one in targets if one.is_loop and one.holds and not one.is_once and one.begin <= at < one.end]
        if jump.kind == kinds.CONTINUE:
            return False
        # Those who stay in a loop with a barrier meet it again.
        return any(not one.begin <= to < one.end for one in around)

    def _target(self, node: Node) -> _Target:
        is_loop = node.kind in LOOPS
        is_once = node.kind == kinds.DO and self._tree.number(node.kids[-1]) == 0
        body = self._parts(node).body if is_loop else node.kids[-1]
        begin, end = self._extent(node)[0], self._ends(node)
        return _Target(begin, end, self._holds(node), is_loop, is_once, self._ends(body))

    def _arm(
        self,
        node: Node,
        context: _Context,
        leaving: dict[int, str],
        *,
        first: str = "",
        target: _Target | None = None,
        last: str = "",
    ) -> None:
        """A branch, or a turn of a loop: between barriers."""
        begin, end = self._extent(node)[0], self._ends(node)
        meeting = target.meeting if target and target.meeting else _Meeting(self._name("meet"))
        inside = context.inside(arm=_Arm(begin, end, meeting, leaving))
        opening = f"{self._barrier} {first}{self._work}"

        def closing() -> str:
            # Without what tells them apart, a compiler merges the ends of two branches into one copy after both.
            is_joined = target is not None or meeting.alone
            before = f"{self._work} " if is_joined and self._ends_in_a_branch(node) else ""
            arrives = self._arrives(target.begin, kinds.CONTINUE) if target else ""
            ends = meeting.text(self._barrier, self._work)
            return f"{before}{ends} {arrives}{last or ('' if target else self._work)} "

        if node.kind == kinds.BLOCK:
            self._after.setdefault(begin + 1, []).append(Inserted(f" {opening} "))
            self._list(node.kids, inside)
            is_left = bool(node.kids) and node.kids[-1].kind in _JUMPS and not context.by_flag
            if last or meeting.alone or meeting.whole or not is_left:
                self._before.setdefault(end - 1, []).append(Inserted(f" {closing()}"))
        elif node.kind in _JUMPS and not (target or last or context.by_flag) and self._is_whole(node, context.targets):
            # It has a barrier before it.
            self._statement(node, context)
        else:
            self._begin(begin, f"{{ {opening}")
            after = self._end(end, "")
            self._list([node], inside)
            after.text = f" {closing()}}} "

    def _ends_in_a_branch(self, node: Node) -> bool:
        """Whether a turn of a loop, or an arm of a branch, ends in a branch of work-items.

        Right before the barrier at the end of a turn of a loop in a loop, PoCL 5.0 takes one for a branch that all take. Where
        work-items jump to the end of an arm as well, it does not find the part before the barrier.
        """
        last = (node.kids[-1] if node.kids else None) if node.kind == kinds.BLOCK else node
        if last is None or not self._shapes.ends(last):
            return False
        # A condition with a barrier is tested in a statement of its own.
        return not any(map(self._holds, last.kids[1:] if last.kind == kinds.IF else [last]))

    @staticmethod
    def _leaving(leaving: Mapping[int, str]) -> str:
        """The jumps after a statement, of those who left an arm of it."""
        return "".join(f" if ({_LEFT} == {number}u) {jump}" for number, jump in leaving.items())

    def _if(self, node: Node, begin: int, context: _Context, *, is_whole: bool) -> None:
        condition, *arms = node.kids
        leaves = self._leaves_by(arms, context)
        inside = any(map(self._holds, arms)) or leaves
        if leaves and context.by_flag:
            inside = any(map(self._holds, arms))
        if not is_whole or (not inside and not self._holds(condition)):
            self._arms_apart(arms, context)
            return
        self._taken_whole.add(id(node))
        # After such a loop, a `goto` of all would be a branch, which copies what is after it as well.
        by_turns = inside and self._by_turns and (context.by_flag or not leaves)
        close, value = "", self._source(*self._extent(condition))
        if self._splits(condition):
            before, value = self._tested(condition, "taken")
            self._begin(begin, f"{{ {before}")
            if not by_turns:
                self._replace(*self._extent(condition), value)
            close = " }"
        if not inside:
            # Its arms are for each work-item on its own.
            self._end(self._ends(node), close)
            self._arms_apart(arms, context)
            return
        if by_turns:
            self._arms_by_turns(node, begin, context, value, close)
            return
        self._begin(begin, self._barrier)
        after, leaving = self._end(self._ends(node), ""), dict[int, str]()
        for arm in arms:
            self._arm(arm, context, leaving)
        after.text = f" {self._apart_after}{self._leaving(leaving)}{close} "

    def _arms_by_turns(self, node: Node, begin: int, context: _Context, value: str, close: str) -> None:
        """Branches as loops of one turn or none.

        PoCL copies all code after a branch with a barrier, once for each way through it, and none after a loop.
        """
        arms = node.kids[1:]
        declared, heads, firsts = self._turns(value, len(arms))
        self._begin(begin, f"{{ {declared} {self._barrier}")
        self._replace(self._extent(node)[0], self._extent(arms[0])[0], heads[0])
        after, leaving = self._end(self._ends(node), ""), dict[int, str]()
        if len(arms) == 2:
            first_ends, second_begins = self._ends(arms[0]), self._extent(arms[1])[0]
            self._replace(first_ends, second_begins, f" {self._apart_after} {heads[1]}")
        for arm, first in zip(arms, firsts, strict=True):
            self._arm(arm, context, leaving, first=first)
        after.text = f" {self._apart_after}{self._leaving(leaving)}{close} }} "

    def _arms_apart(self, arms: Sequence[Node], context: _Context) -> None:
        """Branches that each work-item takes on its own.

        Where several that end in a branch lead to one place, PoCL 5.0 does not find where the part before it begins, and ends
        the process (`createParallelRegionBefore`): they have an end of their own. So it is with two arms of one branch, and
        with branches in the end of others.
        """
        ended = [arm for arm in arms if self._shapes.ends(arm) and (self._by_turns or self._forks_within(arm))]
        if len(arms) == 2 and all(map(self._shapes.ends, arms)) and arms[0] not in ended:
            ended.append(arms[0])
        for arm in ended:
            begin, end = self._extent(arm)[0], self._ends(arm)
            if self._is_block(arm):
                self._begins_last(end - 1, self._work)
            elif arm.kind not in _HEADS or _HEADS[arm.kind].match(self._bytes, begin):
                self._begin(begin, "{")
                self._end(end, f"{self._work} }}")
        for arm in arms:
            self._statement(arm, context)

    def _forks_within(self, node: Node) -> bool:
        """Whether a statement ends in a branch that ends in one."""
        node = _last(node)
        if node.kind != kinds.IF:
            return False
        # Each `if` of a chain is in the `else` of another, and not deeper.
        arms = [arm for arm in node.kids[1:] if arm is node.kids[1] or arm.kind == kinds.BLOCK]
        return any(_last(arm).kind in _HEADS for arm in arms)

    def _is_block(self, node: Node) -> bool:
        """Whether a statement is a block whose braces no macro writes."""
        begin, end = self._extent(node)
        return (
            node.kind == kinds.BLOCK and self._bytes[begin : begin + 1] == b"{" and self._bytes[end - 1 : end] == b"}"
        )

    def _leaves_by(self, arms: Sequence[Node], context: _Context) -> bool:
        return context.apart is None and any(self._leaves(arm, context) for arm in arms)

    def _loop(self, node: Node, begin: int, context: _Context) -> None:
        target, loop = self._target(node), self._parts(node)
        inside = context.inside(target, each=context.each)
        if not target.holds:
            self._turns_apart(node, loop.body, begin, context, inside)
            return
        word = self._tree.word_at(self._extent(node)[0])
        if word == _SHARED_OUT:
            self._begin(begin, self._barrier)
            self._end(self._ends(node), self._apart_after)
            target.holds = False
            if context.apart is not None or not self._leaves(node, context):
                self._turns_apart(node, loop.body, begin, context, inside)
                return
            with self._apart([node], begin, context) as around:
                self._turns_apart(node, loop.body, begin, context, around.inside(target, each=context.each))
            return
        head, close, first, last = self._barrier, "", "", ""
        leaving = dict[int, str]()
        left = self._left_by(node, loop, word, context)
        if left == _LEFT:
            # With a second end of the loop, PoCL would copy all code after it.
            target.leaving = leaving
        if left and not (word in ("for", "while") and self._is_tested(loop.condition)):
            first = f"if ({left} != 0u) break; {self._barrier} "
        if word == "for":
            head, close, tested, last = self._for(loop, left)
            first = tested or first
        elif word == "while" and self._is_tested(loop.condition):
            first = self._test(loop.condition, left)
            self._replace(self._extent(node)[0], self._extent(loop.body)[0], "for (;;) ")
        elif word == "do" and loop.condition is not None and (left or self._splits(loop.condition)):
            name = self._name("again")
            before, value = self._lowered(loop.condition)
            head, close = f"{{ bool {name}; {self._barrier}", " }"
            last = f"{before}{name} = {value}; {self._part(loop.condition)}{self._barrier} "
            if left:
                first = ""
                last = f"{self._unless(left, before, name, value)} {self._barrier} "
            self._replace(*self._extent(loop.condition), name)
        target.meeting = _Meeting(self._name("turn"), is_apart=True)
        if left != _LEFT and not context.by_flag and self._leaves(loop.body, inside):
            # Where a jump leaves the scope of variables, a compiler makes one end of it and of the turn's.
            last += self._work
        self._begin(begin, head)
        after = self._end(self._ends(node), "")
        self._arm(loop.body, inside, leaving, first=first, target=target, last=last)
        arrives = self._arrives(target.begin, kinds.BREAK)
        after.text = f" {self._apart_after}{arrives}{self._leaving(leaving)}{close} "

    def _left_by(self, node: Node, loop: Loop, word: str, context: _Context) -> str:
        """The variable that says whether the work-group leaves a loop at its head, "" of loops that it does not leave so."""
        if self._target(node).is_once or not self._leaves(node, context):
            return ""
        if context.by_flag:
            return _GONE
        may_hold = any(part is not None and self._holds(part) for part in (loop.condition, loop.step))
        return _LEFT if word in ("for", "while", "do") and not may_hold else ""

    def _unless(self, left: str, before: str, name: str, value: str) -> str:
        """Evaluate a condition for a variable, which is false where the work-group leaves."""
        if not before:
            return f"{name} = {left} == 0u && ({value});"
        return f"{name} = false; {self._branch(f'{left} == 0u', [f'{before}{name} = {value}; '])}"

    def _parts(self, node: Node) -> Loop:
        loop = parts(self._tree, node)
        if loop is None:
            raise UnformedError("a loop that cannot be read", self._line(self._extent(node)[0]))
        return loop

    def _is_tested(self, condition: Node | None) -> TypeGuard[Node]:
        """Whether a condition is tested between barriers at the begin of each turn.

        A compiler would test one in a loop's head once before the loop as well. PoCL then copies all code after the loop.
        """
        return condition is not None and not self._tree.number(condition)

    def _test(self, condition: Node, left: str = "") -> str:
        if left:
            name = self._name("goes_on")
            before, value = self._lowered(condition)
            made = f"{'bool' if before else 'const bool'} {self._unless(left, before, name, value)}"
            return f"{made} {self._barrier} if (!{name}) break; {self._barrier} "
        before, value = self._tested(condition, "goes_on")
        return f"{before}{self._barrier} if (!({value})) break; {self._barrier} "

    def _for(self, loop: Loop, left: str) -> tuple[str, str, str, str]:
        """The text before a `for`, after it, and at the start and the end of its body."""
        initial, condition, step = loop.initial, loop.condition, loop.step
        head, close, first, last = self._barrier, "", "", ""
        if initial is not None and self._holds(initial):
            begin, end = self._extent(initial)
            if initial.kind == kinds.DECLARATIONS:
                values = [found for kid in initial.kids if kid.kind == VARIABLE and (found := self._tree.initial(kid))]
                before, value = self._inside((begin, end), values, is_argument=False)
                head = f"{{ {before}{value} {self._barrier}"
            else:
                before, value = self._lowered(initial)
                head = f"{{ {before}{value}; {self._barrier}"
            close = " }"
            self._replace(begin, end, ";" if initial.kind == kinds.DECLARATIONS else "")
        if self._is_tested(condition):
            first = self._test(condition, left)
            self._replace(*self._extent(condition), "")
        if step is not None and self._holds(step):
            before, value = self._lowered(step)
            last = f"{before}{value}; {self._barrier} "
            if left:
                last = f"{self._branch(f'{left} == 0u', [f'{before}{value}; '])} {self._barrier} "
            self._replace(*self._extent(step), "")
        elif step is not None and left:
            last = f"if ({left} == 0u) {{ {self._source(*self._extent(step))}; }} {self._barrier} "
            self._replace(*self._extent(step), "")
        return head, close, first, last

    def _is_left_apart(self, node: Node, context: _Context) -> bool:
        """Whether work-items execute a statement each on its own, out of which a jump leads that all make or none.

        None of them may make it, and then its conditions may differ: a guard that never holds.
        """
        if self._holds(node) or context.apart is not None or not self._leaves(node, context):
            return False
        if node.kind != kinds.IF:
            return True
        return not context.by_flag and not all(
            self._leaves_at_end(arm, context) for arm in node.kids[1:] if self._leaves(arm, context)
        )

    def _leaves_at_end(self, node: Node, context: _Context) -> bool:
        """Whether no work-item goes through a branch without the jump of all that ends it."""
        if node.kind in _JUMPS:
            return True
        if node.kind != kinds.BLOCK or not node.kids or node.kids[-1].kind not in _JUMPS:
            return False
        return self._is_whole(node.kids[-1], context.targets) and not any(
            one.kind in _JUMPS and self._leads(one, targets) > self._ends(kid)
            for kid in node.kids[:-1]
            for one, targets in self._jumps(kid, context.targets)
        )

    def _passed_over(self, parts: Sequence[Node], context: _Context) -> int:
        """How many of these statements work-items execute each on its own, since some jump over a jump of all.

        Barriers around that jump would not be met by those who jump over it: 0 if there is none.
        """
        found, far = 0, 0
        for number, part in enumerate(parts):
            begin = self._extent(part)[0]
            if (number and number >= found and far <= begin) or self._holds(part):
                break
            if far > begin and self._leaves(part, context):
                found = number + 1
            far = max([far, *self._alone_past(part, context)])
            if part.kind == kinds.LABEL:
                again = [place for place, other in enumerate(parts) if self._leads_back(other, begin, context)]
                if any(self._leaves(one, context) for one in parts[number : max(again, default=-1) + 1]):
                    found = max(found, again[-1] + 1)
        return found

    def _alone_past(self, node: Node, context: _Context) -> Iterator[int]:
        """Where jumps lead that some work-items may make past the end of a statement."""
        end = self._ends(node)
        for jump, targets in self._jumps(node, context.targets):
            to = self._leads(jump, targets)
            if to > end and not self._is_whole(jump, targets):
                yield to

    def _leads_back(self, node: Node, begin: int, context: _Context) -> bool:
        """Whether some work-items may jump back from a statement to the label that begins there."""
        return any(
            jump.kind == kinds.GOTO
            and self._label_of(jump).begin == begin < self._extent(jump)[0]
            and not self._is_whole(jump, targets)
            for jump, targets in self._jumps(node, context.targets)
        )

    def _leads_out(self, jump: Node, targets: tuple[_Target, ...], apart: _Apart) -> bool:
        """Whether a jump leads out of statements that work-items execute each on its own."""
        if jump.kind == kinds.RETURN:
            return True
        if jump.kind == kinds.GOTO:
            return not apart.begin <= self._label_of(jump).begin < apart.end
        chosen = [one for one in targets if one.is_loop or jump.kind == kinds.BREAK]
        return chosen[-1].begin < apart.begin

    @contextmanager
    def _apart(self, parts: Sequence[Node], opening: int | None, context: _Context) -> Iterator[_Context]:
        """Statements that work-items execute each on its own, after which the work-group makes the jumps out of them.

        They become a block that begins at `opening`, or stay what they are if that is None.
        """
        self._count += 1
        end = self._list_ends(parts)
        apart = _Apart(self._extent(parts[0])[0], end, self._count)
        after, closing, clear = self._end(end, ""), "", ""
        if opening is None:
            # Another jump may lead past a declaration among the statements.
            self._before.setdefault(self._body[0] + 1, []).insert(0, Inserted(f" uint {apart.flag} = 0u; "))
            clear = f"{apart.flag} = 0u; "
        else:
            self._begin(opening, f"{{ uint {apart.flag} = 0u;")
            closing = "} "
        yield replace(context, apart=apart, is_top=False)
        label = f"portbar_out_{apart.number}: " if apart.is_left else ""
        if context.by_flag:
            leaves = " ".join(f"if ({apart.flag} == {number}u) {{ {jump} }}" for number, jump in apart.jumps.items())
            after.text = f" {label}{self._work} {leaves} {_NONE} {self._work} {closing}"
            return
        leaves = " ".join(
            f"if ({apart.flag} == {number}u) {{ {self._apart_after} {clear}{jump} }} {self._barrier}"
            for number, jump in apart.jumps.items()
        )
        for number, jump in apart.alone.items():
            leaves += f" {self._work} if ({apart.flag} == {number}u) {{ {clear}{jump} }}"
        # Many ways may lead there.
        after.text = f" {label}{_NONE} {self._work} {self._barrier} {leaves} {self._work} {closing}"

    def _turns_apart(self, node: Node, body: Node, begin: int, context: _Context, inside: _Context) -> None:
        inside.each = context.each or self._parts_each(node, begin, self._ends(node))
        if not inside.each:
            self._part_turns(body)
        self._statement(body, inside)

    def _jump(self, node: Node, context: _Context) -> None:
        begin, end = self._extent(node)[0], self._ends(node)
        whole = self._is_whole(node, context.targets)
        value = node.kids[0] if node.kind == kinds.RETURN and node.kids else None
        text = self._source(begin, end)
        before = ""
        if node.kind == kinds.RETURN:
            if value is not None:
                lowered, made = self._lowered(value)
                before = f"{lowered}{_RESULT} = {made}; {self._part(value)}"
            if not (whole and context.by_flag):
                text = self._end_of_function.goto(whole=whole)
        elif node.kind == kinds.GOTO and not context.by_flag:
            text = self._to_label(begin, self._label_of(node), text, whole=whole)
        elif node.kind in (kinds.CONTINUE, kinds.BREAK):
            chosen = [one for one in context.targets if one.is_loop or node.kind == kinds.BREAK]
            if not chosen:
                raise UnformedError("a jump out of nothing", self._line(begin))
            target = chosen[-1]
            is_jump = node.kind == kinds.CONTINUE or not target.is_loop
            if target.meeting and is_jump and not (whole and context.by_flag):
                text = target.meeting.goto(whole=whole)
        if whole and context.by_flag:
            text = self._flag(node, context.targets)
        elif whole:
            text = self._left_at_heads(node, context, text)
        apart = context.apart
        if apart is not None and not self._leads_out(node, context.targets, apart):
            apart = None
        if whole and apart is not None:
            self._replace(begin, end, f"{{ {before}{self._work} {apart.leave(apart.jumps, text)} }}")
            return
        crossed = "" if whole else self._cross(node, context, text)
        if apart is not None and not whole and not context.by_flag:
            is_next = apart.begin < self._leads(node, context.targets) <= self._skip(apart.end)
            leave = apart.past() if is_next else apart.leave(apart.alone, crossed or text)
            self._replace(begin, end, f"{{ {before}{leave} }}")
        elif crossed:
            self._replace(begin, end, f"{{ {before}{crossed} }}")
        elif whole and context.by_flag:
            self._replace(begin, end, f"{{ {before}{text} }}")
        elif whole:
            self._replace(begin, end, f"{{ {before}{self._apart_after} {text} }}")
        elif before or text != self._source(begin, end):
            self._replace(begin, end, f"{{ {before}{text} }}" if before else text)

    def _left_at_heads(self, jump: Node, context: _Context, text: str) -> str:
        """A jump of the whole work-group, by the heads of the loops that it leaves there."""
        at, to = self._extent(jump)[0], self._leads(jump, context.targets)
        number = self._jumps_made + 1
        # After the loop, a `break` has been made.
        onward, clear = "" if jump.kind == kinds.BREAK else text, f"{_LEFT} = 0u; "
        for one in context.targets:
            if one.leaving is None or one.meeting is None or not one.begin <= at < one.end or one.begin <= to < one.end:
                continue
            self._jumps_made = number
            # A branch that the work-group takes as a whole, with barriers on both of its edges.
            leaves = f"{{ {self._apart_after} {clear}{onward} }} {self._apart_after}"
            one.leaving[number] = leaves if onward else f"{{ {clear}}}"
            onward, clear = one.meeting.goto(whole=True), ""
        return f"{_LEFT} = {number}u; {onward}" if self._jumps_made == number else text

    def _to_label(self, begin: int, label: _Label, text: str, *, whole: bool) -> str:
        """A jump to a label, which has barriers after it where the work-group jumps there as a whole."""
        if whole:
            text = label.meeting.goto(whole=True)
        elif label.is_met and label.begin < begin:
            # Past the barriers, which some work-items would come to again.
            label.is_turned = True
            text = f"goto {label.meeting.label}_each;"
        if label.is_met:
            each = f"{label.meeting.label}_each: " if label.is_turned else ""
            label.text.text = f" {label.meeting.text(self._barrier, self._work)} {self._work} {each}"
        return text

    def _cross(self, jump: Node, context: _Context, text: str) -> str:
        """A jump of some work-items that is made arm by arm, "" where it leaves none."""
        crossed = self._crossed(jump, context)
        if not crossed:
            return ""
        self._jumps_made += 1
        if jump.kind == kinds.BREAK and context.targets[-1].is_loop:
            # After the loop, it has been made.
            text = ""
        for arm, outer in zip(reversed(crossed), [*reversed(crossed[:-1]), None], strict=True):
            onward = outer.meeting.goto(whole=False) if outer else f"{{ {_LEFT} = 0u; {text} }}"
            arm.leaving[self._jumps_made] = onward
        return f"{_LEFT} = {self._jumps_made}u; {crossed[-1].meeting.goto(whole=False)}"

    def _crossed(self, jump: Node, context: _Context) -> list[_Arm]:
        """The arms that a jump leaves before it comes to its place, the innermost last."""
        if jump.kind == kinds.RETURN:
            return list(context.arms)
        if jump.kind == kinds.GOTO:
            to = self._label_of(jump).begin
            return [arm for arm in context.arms if not arm.begin <= to < arm.end]
        chosen = [one for one in context.targets if one.is_loop or jump.kind == kinds.BREAK]
        # One that begins where the loop does is around it.
        inside = [arm for arm in context.arms if arm.begin > chosen[-1].begin]
        # A turn that is cut short, and a case, end where the jump leads.
        return (
            inside
            if jump.kind == kinds.BREAK and chosen[-1].is_loop
            else [one for one in inside if one.meeting is not chosen[-1].meeting]
        )

    def _switch(self, node: Node, begin: int, context: _Context, *, is_whole: bool) -> None:
        block = node.kids[-1]
        if not is_whole:
            self._statement(block, context.inside(self._target(node), each=context.each))
            self._cases_apart(block)
            return
        self._taken_whole.add(id(node))
        unreached, runs = self._runs(block)
        shares = self._shares(runs)
        by_turns = self._by_turns and not shares and (context.by_flag or not self._leaves(node, context))
        before, value = self._lowered(node.kids[0])
        on, case = self._name("switch"), self._name("case")
        chosen = self._chosen(runs, on, case)
        opening, closing = ("", "") if block.kind == kinds.BLOCK else ("{", "}")
        head = f"{{ {before}const __typeof__((0, {value})) {on} = {value}; {chosen} {self._barrier} {opening} "
        self._replace(begin, self._extent(block)[0], head)
        self._unreach(unreached)
        after, leaving = self._end(self._ends(node), ""), dict[int, str]()
        done, was_done, has_fallen, opened = self._name("done"), False, False, 0
        for number, run in enumerate(runs):
            target = self._target(node)
            target.meeting = _Meeting(self._name("leave"))
            parts = list(run.parts)
            stop = self._ends(parts[-1])
            falls = number + 1 < len(runs) and parts[-1].kind not in _JUMPS
            has_fallen |= falls or by_turns
            if shares:
                # Variables of cases that share them last until the end of all.
                skip = self._name("skip")
                enters, leaves = f"if ({case} != {number}u) goto {skip};", f"{'' if falls else f'goto {done};'} {skip}:"
            elif by_turns:
                enters, leaves = self._turn(f"{case} == {number}u")
            else:
                opens = f"else {{ {self._barrier} {self._work} " if was_done else ""
                enters, leaves = f"{opens}if ({case} == {number}u) {{", "}"
                opened += was_done
            is_last = number + 1 == len(runs)
            self._replace(run.begin, self._extent(parts[0])[0], f"{enters} {self._barrier} {self._work} ")
            if parts[-1].kind == kinds.BREAK:
                last = parts.pop()
                self._replace(self._extent(last)[0], self._ends(last), ";")
            arm = _Arm(run.begin, stop, target.meeting, leaving)
            self._list(parts, context.inside(target, arm=arm))
            fall = self._fall(case, number + 1, context) if falls else ""
            arrives = self._arrives(target.begin, kinds.BREAK)
            ends = f"{fall}{target.meeting.text(self._barrier, self._work)}{arrives} {self._work} {leaves}"
            # Cases that none falls into are a chain: PoCL copies the code after it once per case, not for each set of them.
            # After a case that falls it ends the process, since the number of the case is not of one value there.
            joins = ""
            if has_fallen or is_last or shares:
                joins, opened = self._barrier + f" {self._work} }} {self._barrier}" * opened, 0
            made = self._after.setdefault(stop, [])
            # Without braces around the cases, the `switch` ends there, too.
            made.insert(made.index(after) if after in made else len(made), Inserted(f" {ends} {joins} "))
            was_done = not has_fallen
        ending = f"{done}: " if shares and runs else ""
        after.text = f" {closing} {ending}{self._apart_after}{self._leaving(leaving)} }} "

    @staticmethod
    def _chosen(runs: Sequence[_Run], on: str, case: str) -> str:
        """The declaration of the number of the case that is taken first, that of all of them where none is."""
        default = next((number for number, run in enumerate(runs) if None in run.labels), len(runs))
        chosen = f"uint {case} = {default}u;"
        for number, run in enumerate(runs):
            for label in run.labels:
                if label is not None:
                    chosen += f" {case} = {label.format(on=on)} ? {number}u : {case};"
        return chosen

    def _fall(self, case: str, number: int, context: _Context) -> str:
        """Fall into a case, unless the work-group jumps elsewhere."""
        if not context.by_flag:
            return f"{case} = {number}u; "
        self._flagged.setdefault((-1, kinds.RETURN), len(self._flagged) + 1)
        return f"{case} = {_GONE} == 0u ? {number}u : {case}; "

    def _cases_apart(self, block: Node) -> None:
        """Cases that each work-item takes on its own: as two branches that both end in one."""
        parts = block.kids if block.kind == kinds.BLOCK else ()
        ends = [after for part, after in pairwise(parts) if after.kind == kinds.BREAK and self._shapes.ends(part)]
        for end in ends:
            self._part_before(end, "break")

    def _runs(self, block: Node) -> tuple[list[Node], list[_Run]]:
        """The statements of a `switch` before its first label, and those from label to label."""
        unreached: list[Node] = []
        found: list[_Run] = []
        for part in block.kids if block.kind == kinds.BLOCK else [block]:
            inner = part
            if part.kind in (kinds.CASE, kinds.DEFAULT):
                run = _Run(self._extent(part)[0])
                while inner.kind in (kinds.CASE, kinds.DEFAULT):
                    run.labels.append(self._label(inner))
                    inner = inner.kids[-1]
                found.append(run)
            if has_case(inner):
                at = self._extent(inner)[0]
                remedy = "Put each case directly into the block of its switch, or use if and else."
                raise UnformedError("a case inside another statement of its switch", self._line(at), remedy=remedy)
            (found[-1].parts if found else unreached).append(inner)
        return unreached, found

    def _label(self, node: Node) -> str | None:
        """The condition of a `case`, with a place for the value; None for `default`."""
        if node.kind == kinds.DEFAULT:
            return None
        first, *more = (
            self._source(*self._extent(one)).replace("{", "{{").replace("}", "}}") for one in node.kids[:-1]
        )
        if not more:
            return f"{{on}} == ({first})"
        # A range of cases; no operator that evaluates one side only.
        kind = "(__typeof__({on}))"
        return f"(({{on}} >= {kind}({first})) & ({{on}} <= {kind}({more[0]})))"

    def _unreach(self, parts: Sequence[Node]) -> None:
        """Remove what nothing reaches before the first label of a `switch`, but for the variables."""
        for part in parts:
            begin = self._extent(part)[0]
            if part.kind != kinds.DECLARATIONS:
                if any(kid.kind == kinds.LABEL for kid in (part, *below(part))):
                    remedy = "Put the label after a case."
                    raise UnformedError("a label in a switch before its first case", self._line(begin), remedy=remedy)
                self._replace(begin, self._ends(part), ";")
                continue
            for variable in part.kids:
                initial = self._tree.initial(variable) if variable.kind == VARIABLE else None
                if initial is not None:
                    start, end = self._extent(initial)
                    self._replace(self._bytes.rfind(b"=", begin, start), end, "")

    def _shares(self, runs: Sequence[_Run]) -> bool:
        """Whether cases share a variable that is declared in one of them."""
        declared: set[str] = set()
        for run in runs:
            words = {
                word
                for part in run.parts
                for word in re.findall(r"\w+", self._source(self._extent(part)[0], self._ends(part)))
            }
            if declared & words:
                return True
            declared |= {
                self._tree.spelling(kid) for part in run.parts if part.kind == kinds.DECLARATIONS for kid in part.kids
            }
        return False
