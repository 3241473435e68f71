"""Which names the text of a program may reach, by the words in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from portbar.reading.options import given_macros
from portbar.rendering.source import words_in

#: A definition of a macro: its name, and its parameters and body.
MACRO: Final = re.compile(r"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)((?:\\\r?\n|[^\n])*)", re.MULTILINE)


@lru_cache(maxsize=8)
def definitions(text: str, options: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The macros that a text and build options define, each with its parameters and its body."""
    given = [
        (one.word, f"{one.name.removeprefix(one.word)} {one.body}")
        for one in given_macros(options)
        if one.body is not None
    ]
    return (*((found[1], found[2]) for found in MACRO.finditer(text)), *given)


def macros_of(text: str, options: Iterable[str]) -> dict[str, frozenset[str]]:
    """The macros of a text and of build options, each with the words of all its definitions."""
    made: dict[str, frozenset[str]] = {}
    for name, body in definitions(text, tuple(options)):
        made[name] = made.get(name, frozenset()) | words_in(body)
    return made


def closure(bodies: Mapping[str, frozenset[str]], names: Iterable[str]) -> set[str]:
    """`names`, and those of bodies that have one of them."""
    users: dict[str, list[str]] = {}
    for name, words in bodies.items():
        for word in words:
            users.setdefault(word, []).append(name)
    found = set(names)
    new = list(found)
    while new:
        for name in users.get(new.pop(), ()):
            if name not in found:
                found.add(name)
                new.append(name)
    return found
