"""Which parts of headers a program reaches, so that drivers compile only what is used.

The names in the author's source keep what they name, and what is kept keeps what it names in turn.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Final

from portbar.records.dataclass import dataclass
from portbar.rendering.parts import Def, Group, Part, parts_in
from portbar.rendering.source import WORD

#: Types that overloads differ by, beside `int` and `uint`, which any expression may have; `uchar` counts as `char`.
_FAMILIES: Final = ("char", "short", "long", "half", "float", "double")
#: Each of these may be converted to the others where there is no overload for it.
_RELATED: Final = {"half": ("half", "float", "double"), "double": ("double", "float")}
#: Types whose name no source needs to spell out.
_UNNAMED_TYPES: Final = re.compile(r"(?:__)?typeof(?:__)?|__auto_type|auto|mode|address_space|__\w+_TYPE__")
_SIZE_TYPES: Final = re.compile(r"size_t|ptrdiff_t|u?intptr_t")
_LOCAL_QUERIES: Final = re.compile(r"get_\w+")
_POINTERS: Final = frozenset(f"{family} *" for family in _FAMILIES)
_EVERY_FEATURE: Final = frozenset({*_FAMILIES, *_POINTERS, "local"})


@dataclass(frozen=True)
class Used:
    """The names and values of an author's program, as `portbar.reading.used` finds them."""

    names: frozenset[str]
    #: Functions that it calls and does not define, but those whose type is that of an argument or in their name.
    calls: frozenset[str] = frozenset()
    #: Types that values have though no name says so: `float`, `double` and `half`.
    values: frozenset[str] = frozenset()


def reached(headers: Sequence[Sequence[Def]], used: Used) -> tuple[list[list[Part | Group]], set[Part]]:
    """The parts of all headers of a program, and those that it reaches by the names that are `used`.

    Some defs have more text where a name is reached, which in turn may reach more.
    """
    names: AbstractSet[str] = frozenset()
    while True:
        nodes = [[node for one in header for node in one.parts(names)] for header in headers]
        asked = [one.asked(names) for header in headers for one in header]
        live, more = _Reach(parts_in(node for header in nodes for node in header)).live(used)
        if asked == [one.asked(more) for header in headers for one in header]:
            return nodes, live
        names = more


class _Reach:
    """Which parts a source reaches."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._by_word: defaultdict[str, list[Part]] = defaultdict(list)
        self._always: list[Part] = []
        for part in parts:
            for name in part.names:
                self._by_word[name].append(part)
            if not part.names:
                self._always.append(part)
        self._waiting: list[Part] = []
        self._live: set[Part] = set()
        self._words: set[str] = set()
        self._new: list[str] = []
        self._features: set[str] = set()

    def live(self, used: Used) -> tuple[set[Part], set[str]]:
        """The parts that a program reaches, and all names that it does."""
        self._features = _value_features(used, self._by_word.keys())
        self._mention(used.names)
        for part in self._always:
            self._keep(part)
        while self._new:
            for part in self._by_word.get(self._new.pop(), ()):
                self._reach(part)
            if not self._new:
                waiting, self._waiting = self._waiting, []
                for part in waiting:
                    self._reach(part)
        return self._live, self._words

    def _mention(self, words: Iterable[str]) -> None:
        for word in words:
            if word not in self._words:
                self._words.add(word)
                self._new.append(word)
                self._features |= _features(word)

    def _reach(self, part: Part) -> None:
        if part in self._live:
            return
        if _demands(part.of) <= self._features:
            self._keep(part)
        else:
            self._waiting.append(part)

    def _keep(self, part: Part) -> None:
        self._live.add(part)
        self._mention(part.words)


@lru_cache(maxsize=4096)
def _demands(of: str) -> frozenset[str]:
    """Features of a program without which no call can mean an overload for this type.

    An argument that is a pointer decides alone: it converts to no other type.
    """
    words = WORD.findall(of)
    families = {family for word in words for family in _FAMILIES if word.removeprefix("u") == family}
    if "*" in of:
        return frozenset({f"{family} *" for family in families} | ({"local"} & set(words)))
    return frozenset(families - {"long"})


@lru_cache(maxsize=4096)
def _features(word: str) -> frozenset[str]:
    """Return the features that an identifier implies: types by which overloads differ, and pointers to local memory."""
    if _UNNAMED_TYPES.fullmatch(word):
        return _EVERY_FEATURE
    families = {other for family in _FAMILIES if family in word for other in _RELATED.get(family, (family,))}
    if _SIZE_TYPES.fullmatch(word):
        families.add("long")
    is_local = "local" in word and not _LOCAL_QUERIES.fullmatch(word)
    return frozenset([*families, *(f"{family} *" for family in families), *(["local"] if is_local else [])])


def _value_features(used: Used, known: AbstractSet[str]) -> set[str]:
    """The types that values of a program may have though it does not name them; `known` are names of the headers."""
    if used.calls - known:
        return set(_FAMILIES)
    return {family for kind in used.values for family in _RELATED.get(kind, (kind,))}
