"""Keeps an author's macros out of portbar's headers, in which names of parameters and members may be theirs too."""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Final

from portbar.rendering.source import without_comments, words_in

_DEFINED: Final = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
#: Those that begin with `PORTBAR_` set something in a header, and features are the driver's.
_MEANT: Final = re.compile(r"(?i)portbar_|cl_|__")
#: The name of a macro, wherever a text may define one.
_MAY_DEFINE: Final = re.compile(r"define\b(?<!\wdefine)(?:\s|\\\n|/\*.*?\*/)*([A-Za-z_]\w*)", re.DOTALL)


def apart(text: str, names: AbstractSet[str]) -> tuple[str, str]:
    """Directives before and after a header, so that macros of some names do not change it.

    Those that it defines itself stay.
    """
    reached = sorted(names & _reachable(text)) if names else []
    before = "".join(f'#pragma push_macro("{name}")\n#undef {name}\n' for name in reached)
    return before, "".join(f'#pragma pop_macro("{name}")\n' for name in reached)


def around(text: str, names: AbstractSet[str]) -> str:
    """A header between these directives."""
    before, after = apart(text, names)
    return f"{before}{text}{after}"


def possible_macros(text: str, options: Iterable[str]) -> set[str]:
    """The names of all macros that a program may define; `options` are those of a front end, one a word."""
    given = "\n".join(options).replace("-D\n", "-D")
    return {*_MAY_DEFINE.findall(text), *re.findall(r"^-D([A-Za-z_]\w*)", given, re.MULTILINE)}


@lru_cache(maxsize=64)
def _reachable(text: str) -> frozenset[str]:
    """The names in a header that a macro could change."""
    code = without_comments(text, keep_strings=False)
    words = words_in(code) - set(_DEFINED.findall(code))
    return frozenset(word for word in words if not _MEANT.match(word))
