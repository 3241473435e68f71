"""Functions without the statements that decide nothing: neither who reaches a call that many must make, nor a value there.

A statement matters if it has such a call or a jump, by the words in its text, or if it may change a variable that one which
matters names. The others are not read: most of a kernel computes values in memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from portbar.reading import kinds
from portbar.reading.names import closure
from portbar.reading.tree import Node, Tree
from portbar.rendering.source import without_comments

#: Identifiers, without members and the endings of numbers.
_NAME: Final = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_WORDS_THAT_MATTER: Final = frozenset({"break", "continue", "return", "case", "default", "__builtin_trap"})
#: In a function with one of these, all matters.
_UNSTRUCTURED: Final = re.compile(r"\b(?:goto|asm|__asm|__asm__)\b")
#: Words of portbar's that only compute something.
_PLAIN: Final = re.compile(
    r"portbar_(?:global_id|global_size|group_id|num_groups|local_linear_id|local_linear_size)\s*\(\s*&?\s*\w*\s*\)"
)
_PORTBARS: Final = re.compile(r"(?i)portbar_(?!atomic_)")
#: May change a variable, or take its address.
_CHANGE: Final = re.compile(r"(?<![=!<>])=(?!=)|<<=|>>=|\+\+|--|&(?<!&&)(?!&)")
#: In a declaration, a name that may be declared.
_DECLARED: Final = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?=\s*(?:[=,;\[)]|\Z))")
_END: Final = re.compile(r"[;{}]")
_KERNEL: Final = re.compile(r"\b(?:__)?kernel\b")
#: Words before names of variables.
_NO_VARIABLES: Final = frozenset({
    *("for", "if", "while", "do", "else", "switch", "sizeof", "struct", "union", "enum", "static", "unsigned", "signed"),
    *(f"{prefix}{word}" for prefix in ("", "__") for word in ("global", "local", "private", "constant", "generic")),
    *("const", "volatile", "restrict", "bool", "size_t", "ptrdiff_t", "intptr_t", "uintptr_t"),
    *(
        f"{scalar}{lanes}"
        for scalar in ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "float", "double")
        for lanes in ("", 2, 3, 4, 8, 16)
    ),
})  # fmt: skip


@dataclass(eq=False)
class _Statement:
    """A statement that may decide nothing, and its text and place."""

    node: Node
    code: str
    begin: int
    end: int
    changed: set[str] | None = None


class Slices:
    """The functions of a program, each without what decides nothing.

    Parameters
    ----------
    tree : Tree
    macros : mapping of str to set of str
        The author's macros, with the words that each stands for.
    bodies : iterable of (str, str)
        Their definitions.
    names : set of str
        Functions and macros that reach a call which many must make.
    """

    def __init__(
        self,
        tree: Tree,
        macros: Mapping[str, frozenset[str]],
        bodies: Iterable[tuple[str, str]],
        names: AbstractSet[str],
    ) -> None:
        self._tree, self._macros = tree, macros
        self._code = without_comments(tree.contents.decode("latin-1"), keep_strings=False)
        changing = {name for name, body in bodies if _CHANGE.search(body) or _PORTBARS.search(body)}
        self._matter = closure(macros, {*changing, *_WORDS_THAT_MATTER, *names})

    def of(self, function: Node) -> list[Node]:
        """The parameters and statements of a function; a statement that decides nothing is an empty one."""
        begin, end = self._tree.extent(function)
        if _UNSTRUCTURED.search(self._code, begin, end):
            return self._tree.children(function)
        left: list[_Statement] = []
        # Blocks whose last statement is their value.
        values: set[int] = set()

        def reads(node: Node, around: Node) -> bool:
            if around.kind == kinds.STATEMENTS:
                values.add(node.key)
            if around.kind != kinds.BLOCK or around.key in values:
                return True
            first, last = self._tree.extent(node)
            code = self._code[first:last]
            if first >= last or self._matters(code):
                return True
            left.append(_Statement(node, code, first, last))
            return False

        kids = self._tree.children(function, reads)
        if _KERNEL.search(self._code, begin, end):
            # Others may change what their parameters point to, which matters to their callers.
            begin = next((self._tree.extent(kid)[0] for kid in kids if kid.kind == kinds.BLOCK), begin)
        words: set[str] = set()
        self._mention(self._outside(begin, end, left), words)
        while True:
            found = [one for one in left if not self._changed(one).isdisjoint(words)]
            if not found:
                break
            for one in found:
                left.remove(one)
                one.node.kids = self._tree.children(one.node)
                self._mention(one.code, words)
        for one in left:
            one.node.kind, one.node.kids = kinds.NOTHING, []
        return kids

    def _matters(self, code: str) -> bool:
        """Whether a statement has a call that many must make, or a jump."""
        plain = _PLAIN.sub("0", code)
        return _PORTBARS.search(plain) is not None or not self._matter.isdisjoint(_NAME.findall(plain))

    def _outside(self, begin: int, end: int, left: list[_Statement]) -> str:
        """The text between two places without that of some statements."""
        found, done = [], begin
        for one in left:
            found.append(self._code[done : one.begin])
            done = one.end
        return " ".join([*found, self._code[done:end]])

    def _mention(self, code: str, words: set[str]) -> None:
        """Add the words of a text, and those that macros among them stand for."""
        words |= self._meant(_NAME.findall(code))

    def _meant(self, words: Iterable[str]) -> set[str]:
        found = set(words)
        new = [word for word in found if word in self._macros]
        while new:
            more = self._macros[new.pop()] - found
            found |= more
            new += [word for word in more if word in self._macros]
        return found

    def _changed(self, statement: _Statement) -> set[str]:
        """The variables that a statement may change or declare, or whose address it may take, and maybe others."""
        if statement.changed is None:
            made: set[str] = set()
            code = _PLAIN.sub("0", statement.code)
            is_declaration = statement.node.kind == kinds.DECLARATIONS
            if is_declaration:
                made.update(_DECLARED.findall(code))
            for part in _END.split(code):
                for change in _CHANGE.finditer(part):
                    if not change[0].endswith("="):
                        made.update(_NAME.findall(part))
                    elif not is_declaration:
                        made.update(_NAME.findall(part, 0, change.end()))
            statement.changed = self._meant(made) - _NO_VARIABLES
        return statement.changed
