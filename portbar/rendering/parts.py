"""Defs as parts: what each defines, as its template says, and what it needs, by the identifiers of its code.

Templates have these functions, each on a line of its own, of which nothing is left in the text:

- `defines(*names, of=type)`: a part begins, which defines these names. It stays where something uses one of them; without
  names it always stays. An overload stays where a program may have a value of that type.
- `feature(name)`: a part that is a macro for programs that adapt to a device.
- `group()` and `end()`: the text before the first part of a group, such as the comment of several functions or an `#if`, and
  the text after `end()`, such as the `#endif`, stay where one of its parts does.

And within a part `reached(name)`: whether something else of the program uses that name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import field
from functools import cached_property
from typing import Any

from portbar.errors import RenderError
from portbar.records.dataclass import dataclass
from portbar.rendering.source import without_comments, words_in
from portbar.rendering.templates import BEGIN, marked


@dataclass(eq=False)
class Part:
    """Text that stays or goes as a whole."""

    text: str
    #: The names that it defines; empty if it always stays.
    names: tuple[str, ...] = ()
    #: The type by which it differs from other functions of its name, in OpenCL C.
    of: str = ""
    is_feature: bool = False
    #: Whether a blank line comes before it.
    is_spaced: bool = False
    #: The groups around it.
    groups: tuple[Group, ...] = ()

    @cached_property
    def words(self) -> frozenset[str]:
        """Every identifier that it needs."""
        texts = [self.text, *(group.text for group in self.groups)]
        return words_in(without_comments("\n".join(texts), keep_strings=False))


@dataclass(eq=False)
class Group:
    """Parts that share a comment or a condition."""

    text: str = ""
    is_spaced: bool = False
    groups: tuple[Group, ...] = ()
    parts: list[Part | Group] = field(default_factory=list)
    closing: str = ""


def parts_in(nodes: Iterable[Part | Group]) -> Iterator[Part]:
    """Every part, in order."""
    for node in nodes:
        if isinstance(node, Part):
            yield node
        else:
            yield from parts_in(node.parts)


class Def:
    """A def of a header, which is rendered for the names that a program reaches."""

    def __init__(self, template: str, name: str, context: Mapping[str, Any]) -> None:
        self._template = template
        self._name = name
        self._context = context
        self._asked: set[str] = set()
        self._made: dict[frozenset[str] | None, list[Part | Group]] = {}

    def asked(self, reached: AbstractSet[str]) -> frozenset[str]:
        """The names by which its text differs, as far as they are reached."""
        return frozenset(self._asked & reached)

    def parts(self, reached: AbstractSet[str] | None) -> list[Part | Group]:
        """Its parts where these names are reached, by default all."""
        key = None if reached is None else self.asked(reached)
        if key not in self._made:
            key, made = self._rendered(reached)
            self._made[key] = made
        return self._made[key]

    def _rendered(self, reached: AbstractSet[str] | None) -> tuple[frozenset[str] | None, list[Part | Group]]:
        def is_reached(name: str) -> bool:
            self._asked.add(name)
            return reached is None or name in reached

        text = marked(self._template, self._name, {**self._context, "reached": is_reached})
        return None if reached is None else self.asked(reached), _parsed(text, f"{self._template}: {self._name}")


def _parsed(text: str, where: str) -> list[Part | Group]:
    """The parts of a rendered def."""
    found: list[Part | Group] = []
    open_groups: list[Group] = []
    before, *chunks = text.split(BEGIN)
    is_spaced = True
    if before.strip():
        # A template without these functions; none of its text can go.
        found.append(Part(_stripped(before), is_spaced=True))
    for chunk in chunks:
        kind, _, after = chunk.partition(" ")
        given, _, rest = after.partition("\n")
        names, _, of = given.partition(":")
        is_spaced |= rest.startswith("\n")
        groups = tuple(open_groups)
        siblings = open_groups[-1].parts if open_groups else found
        if kind == "group":
            open_groups.append(Group(_stripped(rest), is_spaced, groups))
            siblings.append(open_groups[-1])
        elif kind == "end":
            if not open_groups:
                raise RenderError(f"{where}: end() without a group()")
            open_groups.pop().closing = _stripped(rest)
        else:
            siblings.append(Part(_stripped(rest), tuple(names.split()), of, kind == "feature", is_spaced, groups))
        is_spaced = rest.endswith("\n\n") or (is_spaced and not rest.strip())
    if open_groups:
        raise RenderError(f"{where}: a group() without end()")
    return found


def _stripped(text: str) -> str:
    text = text.strip("\n")
    return f"{text}\n" if text.strip() else ""


def written(nodes: Iterable[Part | Group], live: AbstractSet[Part] | None = None) -> str:
    """The text of the parts that are live, by default of all."""
    return "".join(_Writer(live).lines(nodes))


class _Writer:
    """Writes parts, and the comment that overloads share once."""

    def __init__(self, live: AbstractSet[Part] | None) -> None:
        self._live = live
        self._shared: set[tuple[str, ...]] = set()

    def lines(self, nodes: Iterable[Part | Group]) -> list[str]:
        made: list[str] = []
        is_spaced = False
        for node in nodes:
            is_spaced |= node.is_spaced
            text = self._part(node) if isinstance(node, Part) else self._group(node)
            if text:
                made += ["\n", text] if made and is_spaced else [text]
                is_spaced = False
        return made

    def _part(self, part: Part) -> str:
        return part.text if self._live is None or part in self._live else ""

    def _group(self, group: Group) -> str:
        inner = "".join(self.lines(group.parts))
        if not inner:
            return ""
        first = next(part for part in parts_in(group.parts) if self._live is None or part in self._live)
        about = (group.text, *first.names)
        is_new = self._live is None or bool(group.closing) or about not in self._shared
        self._shared.add(about)
        return f"{group.text if is_new else ''}{inner}{group.closing}"
