"""Pieces of headers: defs of templates in their order, and the names that these may use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from portbar.primitives.fault import Fault

if TYPE_CHECKING:  # a package that it is made of imports this module
    from portbar.primitives.strategy import Strategy

#: A template, as a path below `cl_templates`, and the name of a def in it.
Piece = tuple[str, str]


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
    #: Whether memory order within a work-group is enough for it; what goes further is then refused where it is used.
    is_local: bool = False
    #: Why it has no text without the source that uses it; empty where it has.
    needs_source: str = ""
