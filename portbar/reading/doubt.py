"""The parts of a program that a driver's own macros decide about, where a front end may read other text than the driver.

Names that C and OpenCL C reserve are a driver's. All others are undefined unless the program or its build options define them.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from portbar.reading.settings import begin, follow
from portbar.rendering.source import WORD, spaced, spliced

_IF: Final = re.compile(r"^[ \t]*(?:#|%:|\?\?=)[ \t]*if", re.MULTILINE)
_DIRECTIVE: Final = re.compile(r"^[ \t]*#[ \t]*(?P<word>\w+)(?P<rest>[^\n]*)", re.MULTILINE)


def is_conditional(text: str) -> bool:
    """Whether a text has conditionals at all."""
    return _IF.search(text) is not None


@lru_cache(maxsize=64)
def doubtful_words(text: str, options: tuple[str, ...] = ()) -> frozenset[str]:
    """The identifiers in text that is compiled or not as the driver's macros say."""
    if not is_conditional(text):
        return frozenset()
    macros = begin(options)
    code = spliced(spaced(text))
    found: set[str] = set()
    done = 0
    for directive in _DIRECTIVE.finditer(code):
        if macros.is_possible and not macros.is_certain:
            found.update(WORD.findall(code, done, directive.start()))
            if directive["word"] in {"define", "undef"}:
                found.update(WORD.findall(directive["rest"]))
        done = directive.end()
        follow(macros, directive["word"], directive["rest"])
    return frozenset(found)
