"""Headers: the defs of templates that they are made of, and all that they own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from portbar.primitives.fault import Fault
from portbar.records.dataclass import dataclass
from portbar.rendering import Piece

if TYPE_CHECKING:  # a package that it is made of imports this module
    from portbar.primitives.strategy import Strategy


__all__ = ["Header", "Piece"]


@dataclass(frozen=True)
class Area:
    """Words of 32 bits of the hidden state of a grid; they begin on a cache line."""

    #: `PORTBAR_STATE_name(capacity)` in templates is the first word.
    name: str
    #: Their number, for the whole grid, or for every `each` work-groups where that is not 0.
    words: int
    each: int = 0


@dataclass(frozen=True)
class LocalWords:
    """Words of the local memory that a work-group keeps for its leader."""

    #: `PORTBAR_SHARED_name` in templates is the place of the first word.
    name: str
    words: int = 1
    #: The function that finds 0 there at its first call of a launch; empty where none does.
    zero_for: str = ""


@dataclass(frozen=True)
class Preparation:
    """A function that sets words of a header before a launch's first barrier. Dry runs call it, too."""

    #: Its name; its parameters are `volatile global uint *words, uint4 launch`.
    function: str
    piece: Piece
    #: The area that begins at `words`.
    area: str
    #: The function that needs it.
    needed_by: str
    #: Further names that its template may use.
    names: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Header:
    """One `portbar/NAME.h`."""

    name: str
    #: One sentence, for the head of the rendered text.
    summary: str
    #: Strategy -> the pieces, in order.
    pieces: Callable[[Strategy], list[Piece]]
    #: Strategy -> the names that the templates may use.
    context: Callable[[Strategy], dict[str, Any]]
    #: Headers that come before it.
    requires: tuple[str, ...] = ()
    #: Faults that its functions report.
    faults: tuple[Fault, ...] = ()
    #: Its words in the hidden state of a grid, and in the local memory of each work-group.
    areas: tuple[Area, ...] = ()
    local: tuple[LocalWords, ...] = ()
    #: The function that sets its words before a launch's first barrier.
    preparation: Preparation | None = None
    #: Whether its text is where kernels enter a grid, with the words of all headers.
    is_grid: bool = False
    #: Whether memory order within a work-group is enough for it; what goes further is then refused where it is used.
    is_local: bool = False
    #: Why it has no text without the source that uses it; empty where it has.
    needs_source: str = ""
    #: The page of its functions below `docs`, with the section if it is one.
    page: str = ""
    #: The header as the reader of authors' programs sees it: who must call what, and what differs among whom.
    declared: str = ""
    #: The declarations of a program on the host -> the header with what the program uses; None if all programs get the same.
    of: Callable[[Any], Header] | None = None

    def with_content(self, content: Any) -> Header:
        """Return the header for what a program declares on the host, None where that is not known."""
        return self if self.of is None or content is None else replace(self.of(content), of=self.of, faults=self.faults)
