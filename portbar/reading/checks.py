"""A program whose conditions are checked on the device, where calls that many must make depend on them.

A condition that is not proven to be the same for all who must make such a call becomes the argument of a check in which they
meet. Where they disagree, it notes a fault and leads all out. All who must agree reach the check, since the conditions around
it are the same for them, or have been checked. A jump out of a statement that not all go through together is decided after
that statement. No line moves.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from portbar.reading import kinds
from portbar.reading.branches import NONE, Branch, Branches, Jump, Need, strictest
from portbar.reading.edits import Inserted, UnformedError
from portbar.reading.found import NUMBER_BITS, Checked, Condition
from portbar.reading.loops import LOOPS, parts
from portbar.reading.opencl import BASE, KNOWN, knowledge_of
from portbar.reading.places import Places
from portbar.reading.sameness import Sameness
from portbar.reading.tree import PARAMETER, VARIABLE, Node, Tree
from portbar.reading.values import GROUP, ITEM, SAME, SUB_GROUP
from portbar.reading.written import ATTRIBUTED, Written

#: The parameter by which functions get at the state of the checks.
_HERE: Final = "portbar_here"
_TYPE: Final = "private portbar_agreement *const"
_GOES_ON: Final = f"portbar_goes_on({_HERE})"
_BY: Final = {SAME: "grid", GROUP: "work_group"}
_GRID: Final = "portbar_grid"
#: The hidden parameter by which a kernel without a grid gets at memory that the host looks at.
_GANGS: Final = "portbar_reduction_param"
_SCAN: Final = "portbar_scan_param"
_INCLUDE: Final = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*["<]portbar/[^\n]*\n', re.MULTILINE)
_WORDS: Final = {kinds.IF: b"if", kinds.SWITCH: b"switch", kinds.WHILE: b"while", kinds.FOR: b"for", kinds.DO: b"do"}
_SHOWN: Final = 60
#: An attribute, as OpenCL C's word for kernels is one.


def with_checks(
    name: str, text: str, headers: Mapping[str, str], options: Sequence[str], *, header: str, wide: bool
) -> Checked:
    """`text` with checks; `header` is the file that has their functions.

    Raises
    ------
    UnformedError
        A check cannot be written, so the program has none.
    UnparsedError
        The front end gave no tree.
    """
    tree = Tree(name, text, {"opencl-c-base.h": BASE, **headers}, options)
    try:
        return _Checks(tree, wide=wide).made(header)
    finally:
        tree.close()


class _Checks(Written):
    """The checks of a program."""

    def __init__(self, tree: Tree, *, wide: bool) -> None:
        super().__init__(tree, "", "", wide=wide)
        self._needs: dict[int, Need] = {}
        self._summaries: dict[int, Need] = {}
        self._decisions: dict[int, Branch] = {}
        self._conditions: dict[int, Condition] = {}
        self._sameness: Sameness
        # Of the function that is gone through.
        self._function: Node
        self._has_grid = False
        #: Loops that hold calls, whose conditions are the same for all: they end after a fault.
        self._endless: list[tuple[int, Node]] = []

    def _squeezed(self, text: str) -> str:
        return text

    def made(self, header: str) -> Checked:
        """The program with all checks."""
        functions = [one for one in self._tree.functions.values() if self._summary(one)]
        for function in functions:
            if self._tree.unread_in(function):
                raise UnformedError(f"{self._tree.spelling(function)} cannot be read")
            block = self._block(function)
            if block is not None:
                self._decisions |= Branches(self._tree, block, self._need).of
        self._sameness = Sameness(self._tree, checked=self._level_checked)
        self._sameness.settle(self._tree.functions.values())
        with_own: set[int] = set()
        for function in functions:
            count, block = len(self._conditions), self._block(function)
            self._function, self._has_grid = function, self._grid_of(function) is not None
            if block is not None:
                self._visit(block, SAME if self._summary(function).level == SAME else GROUP)
            if len(self._conditions) > count:
                with_own.add(function.key)
        if self._conditions:
            self._pass_on(functions, with_own, header)
        return Checked(self.text(), self._conditions)

    # Calls that many must make

    def _block(self, function: Node) -> Node | None:
        return next((kid for kid in self._tree.body(function).kids if kid.kind == kinds.BLOCK), None)

    def _summary(self, function: Node) -> Need:
        """The strictest call in a function."""
        if function.key not in self._summaries:
            self._summaries[function.key] = NONE
            self._summaries[function.key] = strictest(map(self._need, self._tree.body(function).kids))
        return self._summaries[function.key]

    def _need(self, node: Node) -> Need:
        """The strictest call in a part of a function."""
        key = id(node)
        if key not in self._needs:
            own = self._own_need(node) if node.kind == kinds.CALL else NONE
            self._needs[key] = strictest((own, *map(self._need, node.kids)))
        return self._needs[key]

    def _own_need(self, call: Node) -> Need:
        key, name, annotations = self._tree.called(call)
        definition = self._tree.defined(key, name)
        if definition is not None:
            found = self._summary(definition)
            return Need(found.level, call) if found else NONE
        known = knowledge_of(name, annotations)
        if known is None or known.caller is None:
            return NONE
        is_wide = self._wide and name in KNOWN and known.caller == SUB_GROUP
        return Need(min(known.caller, GROUP), call) if known.caller <= GROUP or is_wide else NONE

    def _level_checked(self, node: Node) -> int:
        """The level at which the condition of a statement or an operator is checked, ITEM where it is not."""
        branch = self._decisions.get(id(node))
        if branch is not None:
            return ITEM if self._is_portbars(node) else branch.need.level
        return self._operand_need(node).level

    def _operand_need(self, node: Node) -> Need:
        """The calls that an operator makes for some values of its first operand."""
        return strictest(map(self._need, node.kids[1:]))

    # Checks

    def _visit(self, node: Node, ambient: int) -> None:
        """Check what is in a statement that all of a level reach together."""
        kind = node.kind
        if id(node) in self._decisions:
            self._branch(node, self._extent(node)[0], ambient)
        elif kind == ATTRIBUTED and node.kids and id(node.kids[-1]) in self._decisions:
            begin = self._extent(node)[0]
            line = self._bytes[self._bytes.rfind(b"\n", 0, begin) + 1 : begin + 1].strip()
            # One that a pragma gives begins there.
            self._branch(node.kids[-1], self._extent(node.kids[-1])[0] if line[:1] == b"#" else begin, ambient)
        elif kind >= 200:
            for kid in node.kids:
                self._visit(kid, ambient)
        elif kind == VARIABLE or kind >= 100:
            self._expression(node, ambient)

    def _expression(self, node: Node, ambient: int) -> None:
        if not self._need(node):
            return
        operator = self._tree.operator(node) if node.kind == kinds.BINARY else None
        if operator in (kinds.EITHER, kinds.BOTH) or node.kind == kinds.TERNARY:
            first, *others = node.kids
            need, inside = self._operand_need(node), ambient
            if need:
                inside = self._checked(node, first, need, ambient, otherwise=operator == kinds.EITHER)
            self._expression(first, ambient)
            for kid in others:
                self._expression(kid, inside)
            return
        for kid in node.kids:
            if kid.kind >= 200:
                self._visit(kid, ambient)
            else:
                self._expression(kid, ambient)

    def _is_portbars(self, node: Node) -> bool:
        """Whether a statement comes from a macro of portbar's."""
        return self._tree.word_at(self._extent(node)[0]).startswith("PORTBAR_")

    def _level(self, need: Need, ambient: int) -> int:
        """The level at which a need can be checked."""
        return max(need.level, ambient, SAME if self._has_grid else GROUP)

    def _branch(self, node: Node, begin: int, ambient: int) -> None:
        branch = self._decisions[id(node)]
        late = [(jump, need) for jump, need in branch.late if self._is_doubtful(branch, jump.around, need)]
        after = None
        if late:
            after = self._end(self._ends(node), "")
            after.text = self._decided_after(begin, ambient, late)
        if not branch.need:
            return
        if self._is_portbars(node):
            # The body of a loop over tiles; what enters the grid has no other.
            inside = max(ambient, GROUP)
        elif branch.condition is None:
            self._goes_on(node)
            inside = ambient
        else:
            count = len(self._conditions)
            inside = self._checked(
                node, branch.condition, branch.need, ambient, otherwise=node.kind == kinds.IF and self._jumps_out(node)
            )
            if len(self._conditions) > count:
                self._begin(begin, "{")
                self._end(self._ends(node), f"if (!{_GOES_ON}) {self._leave()} }}")
            elif node.kind in LOOPS:
                self._goes_on(node)
            self._expression(branch.condition, ambient)
        loop = parts(self._tree, node) if node.kind in LOOPS else None
        bodies = [loop.initial, loop.step, loop.body] if loop else node.kids[1:]
        for part in bodies:
            if part is not None:
                self._visit(part, inside)

    def _is_doubtful(self, branch: Branch, around: Sequence[Branch], need: Need) -> bool:
        """Whether a jump out of a statement may be made by some of those only who must make a call after it."""
        level = self._level(need, SAME)
        inner = around[next(place for place, one in enumerate(around) if one is branch) :]
        return any(one.condition is not None and self._sameness.level(one.condition) > level for one in inner)

    def _jumps_out(self, node: Node) -> bool:
        """Whether the first arm of an `if` leaves, so that it is the way out after a fault."""
        return len(node.kids) > 1 and self._leaves(node.kids[1], is_inside=False)

    def _leaves(self, node: Node, *, is_inside: bool) -> bool:
        if node.kind in (kinds.RETURN, kinds.GOTO) or (node.kind == kinds.BREAK and not is_inside):
            return True
        is_inside |= node.kind in (*LOOPS, kinds.SWITCH)
        return any(self._leaves(kid, is_inside=is_inside) for kid in node.kids if kid.kind >= 200)

    def _leave(self) -> str:
        """The end of a function after a fault."""
        kind = self._tree.result_type(self._function)
        return "return;" if kind == "void" else f"return ({kind}){{0}};"

    def _checked(self, node: Node, condition: Node, need: Need, ambient: int, *, otherwise: bool) -> int:
        """Check a condition where it must be; the level of those who go on together."""
        raw, level = self._sameness.level(condition), self._level(need, ambient)
        if raw <= level:
            return max(ambient, raw)
        if node.kind in _WORDS and not self._bytes.startswith(_WORDS[node.kind], self._extent(node)[0]):
            raise UnformedError(f"a condition in a macro, line {self._line(self._extent(node)[0])}")
        begin, end = self._extent(condition)
        number = self._number(condition, need, level)
        by = _BY[level]
        if node.kind == kinds.SWITCH:
            kind = self._tree.type_name(condition)
            self._wrap(begin, end, f"({kind})portbar_value_agreed_by_{by}({_HERE}, (ulong)(", f"), {number}u)")
        else:
            instead = str(otherwise).lower()
            self._wrap(begin, end, f"portbar_agreed_by_{by}({_HERE}, (", f"), {number}u, {instead})")
        return level

    def _wrap(self, begin: int, end: int, before: str, after: str) -> None:
        if not begin < end:
            raise UnformedError(f"a condition in a macro, line {self._line(begin)}")
        self._before.setdefault(begin, []).append(Inserted(before))
        self._after.setdefault(end, []).insert(0, Inserted(after))

    def _number(self, condition: Node, need: Need, level: int) -> int:
        """The number of a condition, which is another one for most conditions of all programs."""
        assert need.call is not None
        place = self._tree.start(condition)
        source = self._tree.source(condition)
        call = self._tree.called(need.call)[1]
        made = Condition(
            place,
            source if len(source) <= _SHOWN else f"{source[: _SHOWN - 3]}...",
            call,
            self._tree.start(need.call).line,
            level == SAME,
        )
        number = zlib.crc32(repr((made, self._tree.name)).encode()) % (1 << NUMBER_BITS)
        while number in self._conditions:
            number = (number + 1) % (1 << NUMBER_BITS)
        self._conditions[number] = made
        return number

    # Jumps that are decided after a statement

    def _decided_after(self, begin: int, ambient: int, late: Sequence[tuple[Jump, Need]]) -> str:
        self._count += 1
        left, out, result = (f"portbar_{word}_{self._count}" for word in ("leaving", "outside", "returned"))
        need = strictest(need for _, need in late)
        level = self._level(need, ambient)
        kind = self._tree.result_type(self._function)
        declared, ways = f"{{ uint {left} = 0u;", ""
        if kind != "void" and any(jump.node.kind == kinds.RETURN for jump, _ in late):
            declared += f" {kind} {result};"
        for way, (jump, _) in enumerate(late, 1):
            at, end = self._extent(jump.node)[0], self._ends(jump.node)
            text = self._source(at, end)
            if jump.node.kind == kinds.RETURN and jump.node.kids:
                value = jump.node.kids[0]
                if self._need(value):
                    raise UnformedError(f"a call that many must make in a return, line {self._line(at)}")
                source = self._source(*self._extent(value))
                self._replace(at, end, f"{{ {left} = {way}u; {result} = {source}; goto {out}; }}")
                text = f"return {result};"
            else:
                self._replace(at, end, f"{{ {left} = {way}u; goto {out}; }}")
            ways += f" if ({left} == {way}u) {text}"
        number = self._number(self._deciding(late), need, level)
        self._begin(begin, declared)
        agreed = f"(uint)portbar_value_agreed_by_{_BY[level]}({_HERE}, (ulong){left}, {number}u)"
        return f" {out}: {left} = {agreed}; if (!{_GOES_ON}) {self._leave()}{ways} }} "

    def _deciding(self, late: Sequence[tuple[Jump, Need]]) -> Node:
        """The innermost condition of the first of some jumps."""
        jump, _ = late[0]
        around = [one.condition for one in jump.around if one.condition is not None]
        return around[-1] if around else jump.node

    # Ends of loops after a fault

    def _goes_on(self, node: Node) -> None:
        if self._need(node) and self._bytes.startswith(_WORDS[node.kind], self._extent(node)[0]):
            self._endless.append((self._function.key, node))

    def _end_loops(self, functions: set[int]) -> None:
        for key, node in self._endless:
            if key not in functions:
                continue
            loop = parts(self._tree, node)
            if loop is None:
                continue
            if loop.condition is not None:
                begin, end = self._extent(loop.condition)
                if begin < end:
                    # Around all checks in it.
                    self._before.setdefault(begin, []).insert(0, Inserted("("))
                    self._after.setdefault(end, []).append(Inserted(f") && {_GOES_ON}"))
                continue
            found = re.compile(rb"for\s*\([^;()]*(?:\([^;()]*\)[^;()]*)*;\s*(?=;)").match(
                self._bytes, self._extent(node)[0]
            )
            if found is None:
                raise UnformedError(f"the head of a loop, line {self._line(self._extent(node)[0])}")
            self._before.setdefault(found.end(), []).append(Inserted(f" {_GOES_ON}"))

    # How functions get at what their checks need

    def _pass_on(self, functions: Sequence[Node], with_own: set[int], header: str) -> None:
        calls = {one.key: list(self._own_calls(one)) for one in functions}
        reached = set(with_own)
        while True:
            more = {key for key, found in calls.items() if any(target in reached for _, target in found)} - reached
            if not more:
                break
            reached |= more
        self._end_loops(reached)
        called = {target for found in calls.values() for _, target in found}
        first = len(self._bytes)
        for function in functions:
            if function.key not in reached:
                continue
            first = min(first, self._extent(function)[0])
            if self._tree.is_kernel(function):
                if function.key in called:
                    raise UnformedError(f"kernel {self._tree.spelling(function)} is called by a function")
                self._enter(function)
            else:
                self._parameter(function, f"{_TYPE} {_HERE}")
            for call, target in calls[function.key]:
                if target in reached:
                    self._argument(call)
        for declared in self._tree.prototypes():
            definition = self._tree.defined(declared.key, self._tree.spelling(declared))
            if definition is not None and definition.key in reached and not self._tree.is_kernel(definition):
                first = min(first, self._extent(declared)[0])
                self._parameter(declared, _TYPE)
        self._include(header, first)

    def _own_calls(self, function: Node) -> Iterator[tuple[Node, int]]:
        stack = list(self._tree.body(function).kids)
        while stack:
            node = stack.pop()
            stack += node.kids
            if node.kind == kinds.CALL:
                key, name, _ = self._tree.called(node)
                definition = self._tree.defined(key, name)
                if definition is not None:
                    yield node, definition.key

    def _opened(self, at: int, name: str) -> int:
        """The place after the bracket that follows a name."""
        if self._tree.word_at(at) != name:
            raise UnformedError(f"the name {name} comes from a macro, line {self._line(at)}")
        opening = self._skip(at + len(name))
        if self._bytes[opening : opening + 1] != b"(":
            raise UnformedError(f"no bracket after {name}, line {self._line(at)}")
        return opening + 1

    def _parameter(self, function: Node, text: str) -> None:
        at = self._opened(self._tree.file_place(function), self._tree.spelling(function))
        if any(kid.kind == PARAMETER for kid in self._tree.body(function).kids):
            self._before.setdefault(at, []).append(Inserted(f"{text}, "))
            return
        end = self._empty_until(at)
        if end is None:
            raise UnformedError(f"the parameters of {self._tree.spelling(function)}")
        self._replaced[at] = (end, text)

    def _argument(self, call: Node) -> None:
        at = self._opened(self._extent(call)[0], self._tree.called(call)[1])
        self._before.setdefault(at, []).append(Inserted(_HERE + (", " if len(call.kids) > 1 else "")))

    def _grid_of(self, function: Node) -> Node | None:
        """The variable or the parameter of a function that is its grid."""
        kids = self._tree.body(function).kids
        block = self._block(function)
        found = [kid for kid in kids if kid.kind == PARAMETER and _GRID in self._tree.type_name(kid)]
        for part in block.kids if block else ():
            if part.kind == kinds.DECLARATIONS:
                found += [kid for kid in part.kids if kid.kind == VARIABLE and self._tree.type_name(kid) == _GRID]
        return found[0] if found else None

    def _enter(self, kernel: Node) -> None:
        """Let a kernel begin with what its checks need."""
        block, grid = self._block(kernel), self._grid_of(kernel)
        assert block is not None
        if self._bytes[self._extent(block)[0] : self._extent(block)[0] + 1] != b"{":
            raise UnformedError(f"the body of {self._tree.spelling(kernel)} comes from a macro")
        if grid is not None:
            at = max((self._extent(part)[1] for part in block.kids if self._is_entry(part)), default=0)
            if not at:
                raise UnformedError(f"{self._tree.spelling(kernel)} has no PORTBAR_ENTER in its block")
            self._end(self._semicolon(at), f"PORTBAR_AGREEMENT_OF_GRID({self._tree.spelling(grid)});")
            return
        names = [self._tree.spelling(kid) for kid in kernel.kids if kid.kind == PARAMETER]
        if _SCAN in names:
            raise UnformedError(f"kernel {self._tree.spelling(kernel)} takes PORTBAR_SCAN_PARAM")
        by = "GANGS" if _GANGS in names else "KERNEL"
        if by == "KERNEL":
            self._parameter(kernel, "PORTBAR_AGREEMENT_PARAM")
        self._after.setdefault(self._extent(block)[0] + 1, []).append(Inserted(f" PORTBAR_AGREEMENT_OF_{by}; "))

    def _is_entry(self, part: Node) -> bool:
        return self._tree.word_at(self._extent(part)[0]) == "PORTBAR_ENTER"

    def _include(self, header: str, first: int) -> None:
        """Include the checks before the first function that has some, after what it may need."""
        ends = [found.end() for found in _INCLUDE.finditer(self._bytes) if found.end() <= first]
        at = ends[-1] if ends else 0
        # The line after the directive is where it was.
        line = Places(self._bytes.decode(), self._tree.name).directive(self._line(at))
        self._after.setdefault(at, []).append(Inserted(f'#include "portbar/{header}.h"\n{line}'))
