"""Macros by which an author sets something in a header, with their value where the header is included."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from portbar.reading.conditions import CONDITIONALS, Macros
from portbar.reading.options import given_macros
from portbar.rendering.source import WORD, spaced, spliced

_DIRECTIVE: Final = re.compile(r"^[ \t]*#[ \t]*(?P<word>\w+)(?P<rest>[^\n]*)", re.MULTILINE)
#: Names of macros that a driver may define.
RESERVED: Final = re.compile(r"_|cl_|CL_|POCL_|defined$")
_NUMBER: Final = re.compile(r"\d\w*")
_LARGEST: Final = 10**9


@dataclass(frozen=True)
class Setting:
    """One such macro."""

    #: None if a driver decides about it.
    is_defined: bool | None = False
    #: Its value, a positive integer in one token or in parentheses; None of others, or if a driver decides about it.
    value: int | None = None


def read_settings(names: Sequence[str], header: str, text: str, options: Sequence[str] = ()) -> dict[str, Setting]:
    """Macros by their names, where a program first includes a header, such as ``"portbar/reduction.h"``, or at its end."""
    return _read(tuple(names), header, text, tuple(options))


def begin(options: Sequence[str]) -> Macros:
    """The macros of build options."""
    macros = Macros()
    for definition in given_macros(options):
        macros.give(definition)
    return macros


def follow(macros: Macros, word: str, rest: str) -> None:
    """Read a directive. Names that C and OpenCL C do not reserve are undefined unless the program defines them."""
    rest = rest.strip()
    if word in CONDITIONALS:
        for name in WORD.findall(rest):
            if not RESERVED.match(name):
                macros.begin_without(name)
        if word.startswith("if") or macros.is_inside:
            macros.conditional(word, rest)
    elif macros.is_possible and word == "define":
        macros.define(rest)
    elif macros.is_possible and word == "undef":
        macros.undefine(rest)


@lru_cache(maxsize=32)
def _read(names: tuple[str, ...], header: str, text: str, options: tuple[str, ...]) -> dict[str, Setting]:
    macros = begin(options)
    for name in names:
        macros.begin_without(name)
    included = f'"{header}"', f"<{header}>"
    for directive in _DIRECTIVE.finditer(spliced(spaced(text))):
        if directive["word"] == "include" and directive["rest"].strip() in included and macros.is_possible:
            break
        follow(macros, directive["word"], directive["rest"])
    return {name: _setting(macros, name) for name in names}


def _setting(macros: Macros, name: str) -> Setting:
    is_defined = macros.is_defined(name)
    text = (macros.expanded(name) or "").strip() if is_defined else ""
    value = macros.value(text) if _is_one(text) else None
    return Setting(is_defined, value if value is not None and 0 < value < _LARGEST else None)


def _is_one(text: str) -> bool:
    """Whether an expression is one operand wherever a macro for it is used."""
    if _NUMBER.fullmatch(text):
        return True
    depth, closings = 0, 0
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        closings += depth == 0
    return text.startswith("(") and depth == 0 and closings == 1
