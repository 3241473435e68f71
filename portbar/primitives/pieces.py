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
    """One `portbar/NAME.h`.

    Attributes
    ----------
    name : str
    summary : str
        One sentence, for the head of the rendered text.
    pieces : callable
        Strategy -> the pieces, in order.
    context : callable
        Strategy -> the names that the templates may use.
    requires : tuple of str
        Headers that come before it.
    needs_source : str
        Why it has no text without the source that uses it; empty where it has.
    faults : tuple of Fault
        What its functions report.
    is_local : bool
        Whether memory order within a work-group is enough for it; what goes further is then refused where it is used.
    """

    name: str
    summary: str
    pieces: Callable[[Strategy], list[Piece]]
    context: Callable[[Strategy], dict[str, Any]]
    requires: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    is_local: bool = False
    needs_source: str = ""
