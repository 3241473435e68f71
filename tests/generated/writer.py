"""The text of a program, line by line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.generated.tree import Block


@dataclass
class Writer:
    """Lines of OpenCL C. `grid` is the address of the grid at this place, `returns` what a fault returns."""

    grid: str = "&grid"
    returns: str = "return;"
    depth: int = 0
    lines: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        """Add a line."""
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def braces(self, head: str = "", tail: str = "") -> Iterator[None]:
        """Put what is added meanwhile into braces."""
        self.add(f"{head} {{".strip())
        self.depth += 1
        yield
        self.depth -= 1
        self.add(f"}}{tail}")

    def block(self, block: Block) -> None:
        """Add statements."""
        for statement in block:
            statement.write(self)

    def body(self, head: str, block: Block, *, bare: bool = False) -> None:
        """Add statements under a head, without braces where that is asked for and allowed."""
        if bare and len(block) == 1 and block[0].is_single:
            self.add(head)
            self.depth += 1
            self.block(block)
            self.depth -= 1
            return
        with self.braces(head):
            self.block(block)

    def elsewhere(self, **places: str) -> Writer:
        """Return a writer of lines of their own."""
        return replace(self, lines=[], depth=1, **places)

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"
