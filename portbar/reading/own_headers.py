"""Where a text includes portbar's headers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from portbar.rendering.source import line_of, spaced

#: Texts of which the directives are remembered, since many ask for them while a program is made.
_KEPT: Final = 8
#: Directives that matter here, in text whose comments are spaces, line breaks in them included.
_DIRECTIVE = re.compile(
    r"""
    ^[ \t]* (?P<sign>\#) (?:[ \t]|\\\r?\n)*
    (?: include (?:[ \t]|\\\r?\n)* ["<](?P<name>portbar/[^">\n]*)[">]
      | (?P<conditional>ifdef|ifndef|if|elif|else|endif)\b (?:\\\r?\n|[^\n])* \n? )
    """,
    re.MULTILINE | re.VERBOSE,
)
#: Such an include, wherever it is.
_OWN_INCLUDE: Final = re.compile(r"\binclude\s*[\"<]portbar/")


def may_include_more(text: str) -> bool:
    """Whether a text may include other files than portbar's headers."""
    return text.count("include") > len(_OWN_INCLUDE.findall(text))


@dataclass(frozen=True)
class Include:
    """One `#include "portbar/..."`: its header, its 1-based line, and its span from `#` to the closing quote."""

    name: str
    line: int
    start: int
    end: int


@lru_cache(maxsize=_KEPT)
def _directives(text: str) -> tuple[re.Match[str], ...]:
    """Each include of a portbar header and each conditional directive outside comments, in order."""
    return tuple(_DIRECTIVE.finditer(spaced(text)))


def includes(text: str) -> Iterator[Include]:
    """Each include of a portbar header outside comments, in order."""
    for match in _directives(text):
        if match["name"] is not None:
            yield Include(match["name"], line_of(text, match.start("sign")), match.start("sign"), match.end())


def ends_of_skipped(text: str) -> Iterator[int]:
    """Where compiled text may continue after includes of portbar headers that were skipped: after `#elif`, `#else` and
    `#endif`.
    """
    open_conditionals: list[bool] = []
    for match in _directives(text):
        what = match["conditional"]
        if what is None:
            open_conditionals = [True] * len(open_conditionals)
        elif what in {"if", "ifdef", "ifndef"}:
            open_conditionals.append(False)
        elif open_conditionals:
            if open_conditionals[-1]:
                yield match.end()
            if what == "endif":
                open_conditionals.pop()
