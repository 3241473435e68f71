"""Expressions without the calls in them that have a barrier, which become statements of their own before them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from portbar.reading import kinds
from portbar.reading.edits import flat
from portbar.reading.tree import VARIABLE, Node
from portbar.reading.written import Written

#: Calls that need no barriers around them, since they are one.
_BARRIERS: Final = frozenset({"barrier", "work_group_barrier"})
_CASTS: Final = re.compile(r"(?:\(\s*void\s*\)\s*)+")


class Lowering(Written):
    """Expressions in normal form. Of operators that evaluate some operands only, branches are made."""

    #: Whether branches with a barrier become loops of one turn or none.
    _by_turns = False

    def _turns(self, condition: str, count: int) -> tuple[str, list[str], list[str]]:
        """The declarations for `count` branches as loops, their heads, and the first statements of each.

        No compiler knows how many turns such a loop has, since a volatile word says it.
        """
        on, most = self._name("on"), self._name("most")
        declared = f"volatile uint {on} = ({condition}) ? 1u : 0u; const uint {most} = {on};"
        heads, firsts = [], []
        for bound in (most, f"1u - {most}")[:count]:
            turn, goes = self._name("turn"), self._name("goes_on")
            heads.append(f"for (uint {turn} = 0u; ; ++{turn})")
            firsts.append(f"const bool {goes} = {turn} < {bound}; {self._barrier} if (!{goes}) break; {self._barrier} ")
        return declared, heads, firsts

    def _branch(self, condition: str, arms: Sequence[str]) -> str:
        """One or two branches with a barrier, of their statements."""
        if not self._by_turns:
            taken = [f"{{ {self._apart_after} {arm}{self._apart_after} }}" for arm in arms]
            return f"{self._barrier} if ({condition}) {' else '.join(taken)} {self._apart_after} "
        declared, heads, firsts = self._turns(condition, len(arms))
        made = "".join(
            f"{head} {{ {self._barrier} {first}{self._work} {arm}{self._barrier} }} {self._apart_after} "
            for head, first, arm in zip(heads, firsts, arms, strict=True)
        )
        return f"{declared} {self._barrier} {made}"

    def _part(self, node: Node) -> str:
        """A statement that parts an expression from a barrier after it, "" where that is not needed."""
        raise NotImplementedError

    def _form_list(self, parts: Sequence[Node]) -> None:
        """Bring statements into the form that are part of an expression."""
        raise NotImplementedError

    def _expression(self, node: Node) -> None:
        """A statement that is an expression with a barrier in it."""
        begin, end = self._extent(node)[0], self._ends(node)
        if self._is_plain(node):
            unit = self._unit(node)
            if unit is not None and self._tree.called(unit)[1] in _BARRIERS:
                self._end(end, self._work)
                return
            self._begin(begin, self._barrier)
            self._end(end, self._apart_after)
            return
        before, value = self._lowered(node, is_used=False)
        rest = "" if re.fullmatch(r"portbar_value_\d+", _CASTS.sub("", value)) or not value else f"{value}; "
        self._begin(begin, "{")
        self._replace(begin, end, f"{before}{rest}{self._part(node)}}}")

    def _is_plain(self, node: Node) -> bool:
        """Whether a statement is a call with a barrier, maybe one whose result a variable gets, and nothing else branches."""
        if node.kind == kinds.BINARY and self._tree.operator(node) == kinds.ASSIGN:
            left, right = node.kids
            return not self._branches(left) and not self._holds(left) and self._is_plain(right)
        unit = self._unit(node)
        return unit is not None and not any(
            self._holds(kid) or self._branches(kid) for kid in self._arguments(unit, node)
        )

    def _lowered(self, node: Node, *, is_used: bool = True) -> tuple[str, str]:
        """Statements that come before an expression, so that no barrier is left in it, and the expression then."""
        if not self._holds(node):
            return "", self._source(*self._extent(node))
        unit = self._unit(node)
        extent = self._extent(node)
        if unit is not None:
            before, made = self._inside(extent, self._arguments(unit, node), is_argument=True)
            if not is_used or self._tree.is_void(unit):
                return f"{before}{self._barrier} {made}; {self._apart_after} ", ""
            name = self._name("value")
            return f"{before}{self._barrier} const __typeof__({made}) {name} = {made}; {self._apart_after} ", name
        self._check_written(node)
        if node.kind == kinds.STATEMENTS:
            return self._statements(node, is_used=is_used)
        if node.kind == kinds.BINARY and self._tree.operator(node) in (kinds.BOTH, kinds.EITHER):
            left, right = node.kids
            if self._holds(right):
                first, one = self._lowered(left)
                second, other = self._lowered(right)
                name = self._name("value")
                taken = name if self._tree.operator(node) == kinds.BOTH else f"!{name}"
                branch = self._branch(taken, [f"{second}{name} = {other}; {self._part(right)}"])
                return f"{first}bool {name} = {one}; {self._part(left)}{branch}", name
        if node.kind == kinds.TERNARY and any(map(self._holds, node.kids[1:])):
            first, condition = self._lowered(node.kids[0])
            chosen, name = self._name("taken"), "" if self._tree.is_void(node) else self._name("value")
            arms = []
            for kid in node.kids[1:]:
                before, value = self._lowered(kid, is_used=bool(name))
                given = f"{name} = {value}; " if name else f"{value}; " if value else ""
                arms.append(f"{before}{given}{self._part(kid)}")
            declared = f"const bool {chosen} = {condition};"
            if name:
                declared += f" __typeof__({self._source(*extent)}) {name};"
            return f"{first}{declared} {self._part(node.kids[0])}{self._branch(chosen, arms)}", name
        if node.kind == kinds.BINARY and self._tree.operator(node) == kinds.COMMA and self._holds(node.kids[1]):
            first, one = self._lowered(node.kids[0], is_used=False)
            second, other = self._lowered(node.kids[1], is_used=is_used)
            return f"{first}{one + '; ' if one else ''}{second}", other
        return self._inside(extent, node.kids, is_argument=False)

    def _statements(self, node: Node, *, is_used: bool) -> tuple[str, str]:
        """A block of statements whose last one is the value, as compilers other than OpenCL C's have it."""
        *parts, last = node.kids[0].kids
        has_value = last.kind not in kinds.STATEMENT and not self._tree.is_void(node)
        name = self._name("value") if has_value and is_used else ""
        declared = f"__typeof__({self._source(*self._extent(node))}) {name}; " if name else ""
        begin, end = self._extent(node.kids[0])[0] + 1, self._ends(last)
        with self._apart_from_others():
            self._form_list(parts if name else [*parts, last])
            if name:
                before, value = self._lowered(last)
                self._replace(self._extent(last)[0], end, f"{before}{name} = {value};")
            made = self._edited(begin, end)
        return f"{declared}{{ {flat(made)} }} ", name

    def _inside(self, extent: tuple[int, int], kids: Sequence[Node], *, is_argument: bool) -> tuple[str, str]:
        """The text of an expression with its parts lowered."""
        before, parts, at = "", [], extent[0]
        for kid in sorted(kids, key=lambda one: self._extent(one)[0]):
            begin, end = self._extent(kid)
            if begin < at or end > extent[1]:
                if self._holds(kid):
                    raise self._of_macro(begin, "a barrier in")
                continue
            if self._holds(kid):
                more, value = self._lowered(kid)
            elif is_argument and self._branches(kid) and not self._tree.is_void(kid):
                name = self._name("value")
                source = self._source(begin, end)
                more, value = f"const __typeof__((0, {source})) {name} = {source}; {self._part(kid)}", name
            else:
                continue
            before += more
            parts += [self._source(at, begin), value]
            at = end
        parts.append(self._source(at, extent[1]))
        return before, " ".join(part for part in parts if part)

    def _declarations(self, node: Node) -> None:
        begin, end = self._extent(node)
        variables = [kid for kid in node.kids if kid.kind == VARIABLE]
        if len(variables) == 1:
            initial = self._tree.initial(variables[0])
            if initial is not None and self._is_plain(initial):
                self._begin(begin, self._barrier)
                self._end(end, self._apart_after)
                return
        names = [self._tree.file_place(variable) for variable in variables]
        head = self._bytes[begin : names[0]].decode()
        specifiers = re.sub(r"[\s*]*(?:\b(?:const|volatile|restrict)\b[\s*]*)*$", "", head) if "*" in head else head
        for number, variable in enumerate(variables):
            initial = self._tree.initial(variable)
            before = ""
            if initial is not None and self._holds(initial):
                before, value = self._lowered(initial)
                self._replace(*self._extent(initial), value)
            if number == 0:
                if before:
                    self._begin(begin, before)
            elif any(self._holds(one) for one in map(self._tree.initial, variables[number:]) if one is not None):
                comma = self._bytes.rfind(b",", begin, names[number])
                self._replace(comma, comma + 1, f"; {before} {' '.join(specifiers.split())} ")

    def _tested(self, condition: Node, stem: str) -> tuple[str, str]:
        """Statements before a condition, and what is left of it, which branches nowhere."""
        before, value = self._lowered(condition)
        if not self._branches_besides(condition):
            return before, value
        name = self._name(stem)
        return f"{before}const bool {name} = {value}; {self._part(condition)}", name

    def _branches_besides(self, node: Node) -> bool:
        """Whether an expression has control flow, but for calls with a barrier."""
        if self._unit(node) is not None:
            return False
        if node.kind == kinds.CALL and not self._holds(node):
            return self._branches(node)
        if node.kind in (kinds.TERNARY, kinds.STATEMENTS) or (
            node.kind == kinds.BINARY and self._tree.operator(node) in (kinds.BOTH, kinds.EITHER)
        ):
            # One with a barrier on its right is a variable by then.
            return not any(map(self._holds, node.kids[1:]))
        return any(map(self._branches_besides, node.kids))

    def _splits(self, condition: Node) -> bool:
        """Whether a condition is decided in a statement of its own."""
        return self._holds(condition) or self._branches(condition)
