"""The kernels that a program runs by `PORTBAR_RUN`, and where it enters a grid, by its text alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from portbar.reading.found import Place
from portbar.reading.own_headers import includes
from portbar.reading.places import Places
from portbar.rendering.source import line_of, without_comments

HEADER: Final = "portbar/run_kernels.h"
_RUN: Final = re.compile(r"\bPORTBAR_RUN(?:_NOWAIT)?\s*\(\s*[^,()]*,\s*(\w+)")
_ENTER: Final = re.compile(r"\bPORTBAR_ENTER\s*\(\s*(\w+)\s*\)")
_DIRECTIVE: Final = re.compile(r"\s*#")


@dataclass(frozen=True)
class Run:
    """One `PORTBAR_RUN`."""

    kernel: str
    place: Place
    #: Whether a macro contains it, so that its kernel may be the macro's argument.
    in_macro: bool


def runs_in(name: str, text: str) -> Iterator[Run]:
    """Each run in a text."""
    code = without_comments(text, keep_strings=False)
    places = Places(text, name)
    for found in _RUN.finditer(code):
        begin = code.rfind("\n", 0, found.start()) + 1
        while code[:begin].endswith("\\\n"):
            begin = code.rfind("\n", 0, begin - 1) + 1
        yield Run(found[1], Place(*places[line_of(text, found.start())]), bool(_DIRECTIVE.match(code, begin)))


def with_memory(text: str, declaration: str, pointer: str) -> str:
    """A text that declares memory of each work-group where it enters a grid; `pointer` is set in the grid after that."""
    code = without_comments(text, keep_strings=False)
    made, end = [], 0
    for found in _ENTER.finditer(code):
        made += [text[end : found.start()], f"{declaration} {found[0]}; {found[1]}.{pointer}"]
        end = found.end()
    return "".join([*made, text[end:]])


def without_includes(text: str) -> str:
    """A text that includes none of portbar's headers."""
    made, end = [], 0
    for include in includes(text):
        made.append(text[end : include.start])
        end = include.end
    return "".join([*made, text[end:]])


def after_include(text: str) -> tuple[int, int] | None:
    """Where a text goes on after it has included `portbar/run_kernels.h`, and the 1-based line there; None if it does not."""
    found = next((include for include in includes(text) if include.name == HEADER), None)
    if found is None:
        return None
    end = text.find("\n", found.end)
    at = len(text) if end < 0 else end + 1
    return at, line_of(text, at)
