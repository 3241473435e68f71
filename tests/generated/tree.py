"""Nodes of a program: what all of them share, and walks over them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

import numpy as np

if TYPE_CHECKING:
    from tests.generated.interpreter import Machine
    from tests.generated.writer import Writer

UInts = np.ndarray

#: Levels of values and of control flow: the same in all work-items of the grid, of a team, of a work-group, or in none.
GRID, TEAM, GROUP, ITEM = range(4)


@dataclass
class Node:
    """Part of a program. `needs` names what the kernel must declare for it."""

    needs: ClassVar[frozenset[str]] = frozenset()

    def children(self) -> Iterator[Node]:
        """Yield the nodes right below."""
        for field in fields(self):
            found = getattr(self, field.name)
            if isinstance(found, Node):
                yield found
            elif isinstance(found, list):
                yield from (one for one in found if isinstance(one, Node))

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below, also in the functions and macros that it calls."""
        yield self
        for child in self.children():
            yield from child.walk()


@dataclass
class Expression(Node):
    """A value of type uint, or a condition. `text` is safe as an operand."""

    def text(self, writer: Writer) -> str:
        raise NotImplementedError

    def value(self, machine: Machine) -> UInts:
        """Return the value in each work-item, of shape (work-groups, work-items); any value where it is not active."""
        raise NotImplementedError


@dataclass
class Statement(Node):
    """A statement. `is_single` where its text is one statement of C, which needs no braces under an `if`."""

    is_single: ClassVar[bool] = False

    def write(self, writer: Writer) -> None:
        raise NotImplementedError

    def run(self, machine: Machine) -> None:
        raise NotImplementedError


Block = list[Statement]
