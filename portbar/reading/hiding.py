"""Branches of work-items of which a compiler does not know that one of them is always taken.

Where it knows all values that something has, it makes a `switch` without a default of the comparisons with them. PoCL takes
the default that is left out for a way to the end of the kernel, which has no barrier: the quirk pocl-all-values. So the subject
of each `switch`, and comparisons of a variable from the third in a function on, however they are written, depend on a condition
on ids that a compiler learns of after PoCL has parted the barriers. Loops that may never end in a compiler's view get an end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from portbar.reading import kinds
from portbar.reading.edits import Inserted, UnformedError, flat
from portbar.reading.loops import LOOPS, parts
from portbar.reading.lowering import Lowering
from portbar.reading.tree import PARAMETER, VARIABLE, Node, Tree, bare, below
from portbar.reading.written import ATTRIBUTED

#: True in each work-item, which compilers cannot tell from the form's own conditions: those ask for the first dimension.
_HERE: Final = "(get_local_id(1) < get_local_size(1))"
_NOWHERE: Final = "(get_local_id(1) >= get_local_size(1))"
#: Comparisons of a variable that stay as they are: of two, a compiler makes no `switch` without a default.
_MOST_COMPARED: Final = 2
_UNREACHABLE: Final = "__builtin_unreachable"
_EQUALITY: Final = {kinds.EQ: "==", kinds.NE: "!="}
_ORDER: Final = {kinds.LT: "<", kinds.GT: ">", kinds.LE: "<=", kinds.GE: ">="}
_BOTH: Final = {kinds.BOTH: "&&", kinds.EITHER: "||"}
_COMPARING: Final = {**_EQUALITY, **_ORDER}
#: The beginnings of names of functions whose results no compiler knows anything about.
_ASKING: Final = ("portbar_", "get_", "atomic_", "atom_")
#: Types of which `!` is an int.
_SCALARS: Final = frozenset({
    "bool", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "float", "double", "size_t",
})  # fmt: skip


class Hiding(Lowering):
    """Conditions whose outcome the author's program knows, and a compiler must not."""

    def __init__(
        self, tree: Tree, barrier: str, work: str, *, wide: bool, macros: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(tree, barrier, work, wide=wide, macros=macros)
        #: Branches that a work-group takes as a whole.
        self._taken_whole: set[int] = set()
        #: Loops that were given an end.
        self._ending: set[tuple[int, int]] = set()
        #: The variables from which those of a function were computed where they are declared.
        self._roots: dict[int, frozenset[int]] = {}
        #: Those that hold a number from their declaration on.
        self._numbers: set[int] = set()
        self._is_called = False

    def _hide(self, body: Node, *, is_called: bool) -> None:
        """Hide what a function compares, once all other edits of it are made; whether others call it."""
        begins: dict[int, int] = {}
        for node in below(body):
            if node.kind == kinds.SWITCH and id(node) not in self._taken_whole:
                self._hide_subject(node)
            elif node.kind == ATTRIBUTED and node.kids:
                begins[id(node.kids[-1])] = self._extent(node)[0]
            elif node.kind in LOOPS and not self._holds(node):
                self._give_end(node, begins.get(id(node), self._extent(node)[0]))
        counts = Counter[int]()
        done: set[tuple[int, int]] = set()
        self._roots.clear()
        self._numbers.clear()
        self._is_called = is_called
        for leaf, is_hidden in self._comparisons(body):
            roots = self._roots_of(leaf)
            counts.update(roots)
            if not is_hidden or all(counts[root] <= _MOST_COMPARED for root in roots):
                continue
            extent = self._extent(leaf)
            # A macro may write an argument twice.
            if extent in done or self._tree.number(leaf) is not None or not self._is_scalar(leaf):
                continue
            done.add(extent)
            self._wrap(leaf, "(!(", f") ^ {_HERE})")

    def _wrap(self, node: Node, opening: str, closing: str) -> None:
        """Put text around an expression, within whatever surrounds it."""
        begin, end = self._extent(node)
        self._before.setdefault(begin, []).append(Inserted(opening))
        self._after.setdefault(end, []).insert(0, Inserted(closing))

    def _hide_subject(self, node: Node) -> None:
        """Hide which values the subject of a `switch` of work-items may have; no loop may have its cases."""
        for loop in (one for one in below(node.kids[-1]) if one.kind in LOOPS and has_case(one)):
            at = self._extent(loop)[0]
            remedy = "Begin the loop with an `if` in its first turn."
            raise UnformedError("a case inside a loop of its switch", self._line(at), remedy=remedy)
        if self._is_around(node.kids[0]):
            self._wrap(node.kids[0], "(", f") ^ -{_NOWHERE}")

    def _give_end(self, node: Node, begin: int) -> None:
        """Let a loop end in any case, after more turns than anyone waits for, unless its condition counts them.

        Where what it asks for does not change, a compiler asks before the loop, and leaves one that never ends for the case
        that none of it holds. PoCL finds no way from there to the barrier.
        """
        loop, extent = parts(self._tree, node), self._extent(node)
        # A macro may write an argument twice.
        if loop is None or extent in self._ending or self._tree.word_at(extent[0]) not in {"for", "while", "do"}:
            return
        if loop.condition is not None and (self._counts(loop.condition) or self._tree.number(loop.condition) == 0):
            return
        start, is_block = self._extent(loop.body)[0], loop.body.kind == kinds.BLOCK
        if is_block and self._bytes[start : start + 1] != b"{":
            return
        self._ending.add(extent)
        turns = self._name("turns")
        self._begin(begin, f"{{ ulong {turns} = 0;")
        self._after.setdefault(self._ends(node), []).insert(0, Inserted(" }"))
        text = f"if (++{turns} == 0) break;"
        if is_block:
            self._after.setdefault(start + 1, []).insert(0, Inserted(f" {text} "))
        else:
            self._before.setdefault(start, []).insert(0, Inserted(f"{{ {text} "))
            self._after.setdefault(self._ends(loop.body), []).append(Inserted(" }"))

    def _counts(self, condition: Node) -> bool:
        """Whether a condition compares numbers in a way that counts its iterations."""
        inner = bare(condition)
        if inner.kind != kinds.BINARY:
            return False
        operator = self._tree.operator(inner)
        if operator in _BOTH:
            return any(map(self._counts, inner.kids))
        return operator in _ORDER or (operator in _EQUALITY and not any(map(self._is_number, inner.kids)))

    def _reach(self, body: Node) -> None:
        """Let statements end that an author says are never reached: PoCL takes them for ways to the end of the kernel."""
        for node in below(body):
            if node.kind == kinds.CALL and self._tree.called(node)[1] == _UNREACHABLE:
                begin, end = self._extent(node)
                if self._tree.word_at(begin) == _UNREACHABLE:
                    self._replace(begin, end, "(void)0")

    def _comparisons(self, node: Node) -> Iterator[tuple[Node, bool]]:
        """The comparisons in a part of a function in the author's order, and whether each is to be hidden."""
        kind, kids = node.kind, node.kids
        if kind == kinds.IF:
            if id(node) not in self._taken_whole:
                yield from self._decided(kids[0], is_hidden=self._is_around(kids[0]))
            kids = kids[1:]
        elif kind in LOOPS:
            loop = parts(self._tree, node)
            if loop is None:
                return
            if loop.condition is not None:
                # Compilers count the iterations by it.
                yield from self._decided(loop.condition, is_hidden=False)
            kids = [part for part in (loop.initial, loop.body) if part is not None]
        elif kind == kinds.SWITCH:
            kids = kids[1:]
        elif kind == kinds.CASE:
            kids = kids[-1:]
        elif kind == kinds.SIZEOF:
            return
        elif kind == VARIABLE:
            initial = self._tree.initial(node)
            kids = [initial] if initial is not None else []
            if initial is not None:
                self._roots[node.key] = self._roots_of(initial, loads=False)
                if self._is_number(initial):
                    self._numbers.add(node.key)
        elif kind == kinds.TERNARY:
            yield from self._decided(kids[0], is_hidden=self._are_apart(kids, "?"))
            kids = kids[1:]
        elif self._decides(node):
            yield from self._decided(node, is_hidden=True)
            return
        for kid in kids:
            yield from self._comparisons(kid)

    def _decides(self, node: Node) -> bool:
        """Whether an expression is true or false, and no order, of which a compiler hardly knows which it is."""
        if node.kind == kinds.UNARY:
            return self._tree.unary(node) == kinds.LOGICAL_NOT
        return node.kind == kinds.BINARY and (
            self._tree.operator(node) in _EQUALITY or self._tree.operator(node) in _BOTH
        )

    def _decided(self, node: Node, *, is_hidden: bool) -> Iterator[tuple[Node, bool]]:
        """The comparisons in a condition, which are hidden where the author wrote them and their surroundings."""
        inner = bare(node)
        operator = self._tree.operator(inner) if inner.kind == kinds.BINARY else 0
        compares = operator in _COMPARING
        if operator in _BOTH and self._are_apart(inner.kids, _BOTH[operator]):
            for kid in inner.kids:
                yield from self._decided(kid, is_hidden=is_hidden)
            return
        # The sides of an operator that a macro writes cannot be told apart.
        is_inner = compares and self._are_apart(inner.kids, _COMPARING[operator])
        if any(map(self._is_number, inner.kids)) if compares else not self._is_known(inner):
            yield inner if is_inner else node, is_hidden
        for kid in inner.kids:
            yield from self._comparisons(kid)

    def _is_known(self, node: Node) -> bool:
        """Whether a compiler learns nothing from the truth of a value: a number, a `bool`, and what portbar says."""
        if node.kind == kinds.UNARY and self._tree.unary(node) == kinds.LOGICAL_NOT:
            return self._is_known(bare(node.kids[0]))
        if node.kind == kinds.CALL:
            return self._tree.called(node)[1].startswith(_ASKING)
        if node.kind == kinds.REFERENCE:
            return self._tree.canonical_type(node) == "bool"
        return not node.kids and node.kind in (*kinds.LITERALS, kinds.TRUTH)

    def _roots_of(self, node: Node, *, loads: bool = True) -> frozenset[int]:
        """The variables of an expression, and of their first values; pointers only of what it loads itself."""
        if node.kind == kinds.REFERENCE:
            key = self._tree.referenced(node)[1]
            return self._roots.get(key, frozenset()) | {key}
        kids: Sequence[Node] = node.kids
        if node.kind == kinds.CALL:
            kids = () if self._tree.called(node)[1].startswith(_ASKING) else kids[1:]
        elif node.kind in (kinds.SUBSCRIPT, kinds.MEMBER) or (
            node.kind == kinds.UNARY and self._tree.unary(node) == kinds.DEREFERENCE
        ):
            kids = kids[:1] if loads else ()
        return frozenset().union(*(self._roots_of(kid, loads=loads) for kid in kids))

    def _is_number(self, node: Node) -> bool:
        """Whether a compiler may know a number: where a function is called in its place, that of a parameter, too."""
        node = bare(node)
        if node.kind == kinds.REFERENCE:
            kind, key = self._tree.referenced(node)
            if key in self._numbers or (kind == PARAMETER and self._is_called):
                return True
        return node.kind in kinds.LITERALS or self._tree.number(node) is not None

    def _is_scalar(self, node: Node) -> bool:
        """Whether `!` of a value is an int."""
        return self._tree.is_pointer(node) or self._tree.canonical_type(node) in _SCALARS

    def _are_apart(self, parts_of_it: Sequence[Node], operator: str) -> bool:
        """Whether the author wrote this operator between the first two parts of an expression, and no macro did."""
        end, begin = self._extent(parts_of_it[0])[1], self._extent(parts_of_it[1])[0]
        return end < begin and flat(self._bytes[end:begin].decode(errors="replace")) == operator

    def _is_around(self, condition: Node) -> bool:
        """Whether the author wrote the brackets around a condition, and no macro did."""
        begin, end = self._extent(condition)
        at = self._skip(end)
        bracket = self._bytes.rfind(b"(", 0, begin)
        return self._bytes[at : at + 1] == b")" and bracket >= 0 and self._skip(bracket + 1) == begin


def has_case(node: Node) -> bool:
    """Whether a label of the `switch` around a statement is in it."""
    if node.kind in (kinds.CASE, kinds.DEFAULT):
        return True
    return node.kind != kinds.SWITCH and any(map(has_case, node.kids))
