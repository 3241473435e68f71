"""Leaves out of rendered headers what a program cannot reach, so that drivers compile only what is used.

The names in the author's source keep what they name, and what is kept keeps what it names in turn. A header that cannot be
read as items (`portbar.rendering.items`) stays whole.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from portbar.rendering.aliases import written_out
from portbar.rendering.items import WORD, Item, Region, Run, items_in, runs_of, unmarked
from portbar.rendering.source import UnreadableError, hides_names, spliced, without_comments

_PASTED: Final = re.compile(r"(?<![\w#])(\w+)\s*##\s*(\w+)(?!\s*##)")

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

_CALL: Final = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_DEFINED: Final = re.compile(r"#[ \t]*define[ \t]+(\w+)\(|\b(\w+)\s*\([^(){};]*\)\s*\{")
#: Calls whose type is that of an argument, `int`, `long` or in their name; keywords among them.
_PLAIN_CALLS: Final = re.compile(
    r"if|for|while|switch|return|sizeof|defined|__attribute__|get_\w+|(?:work_group_|sub_group_)?barrier"
    r"|(?:(?:read|write)_)?mem_fence|atom(?:ic)?_\w+|min|max|clamp|abs|mad24|mul24|mad|fma|popcount|clz|select|printf|v(?:load|store)\d+"
    r"|as_\w+|convert_\w+"
)
_FLOAT_LITERAL: Final = re.compile(
    r"(?<![\w.])(?:\d+\.\d*|\.\d+|\d+(?=[eE][+-]?\d))(?:[eE][+-]?\d+)?([fFhH]?)|0[xX][\da-fA-F.]*[pP]"
)


def pruned(texts: Sequence[str], source: str, options: Sequence[str] = ()) -> list[str]:
    """All headers that a program includes, without what it cannot reach; macros among its build options may reach some.

    They are as they were where the source may use what it does not name: where it includes files other than
    portbar's, or makes names of pieces.
    """
    # An option may be `-Dname=...`.
    given = [part for option in options for part in (option, option.replace("-D", " "))]
    code = spliced("\n".join([without_comments(source), *given]))
    if hides_names(code):
        return [unmarked(text) for text in texts]
    try:
        headers = [runs_of(text) for text in written_out(texts)]
        live = _Reach([item for runs in headers for item in items_in(runs)]).live(code)
    except UnreadableError:
        return [unmarked(text) for text in texts]
    return ["".join(f"{line}\n" for line in _written(runs, live, set())) for runs in headers]


class _Reach:
    """Which items a source reaches."""

    def __init__(self, items: list[Item]) -> None:
        self._items = items
        self._by_word: defaultdict[str, list[Item]] = defaultdict(list)
        self._waiting: list[Item] = []
        self._live: set[Item] = set()
        self._words: set[str] = set()
        self._new: list[str] = []
        self._features: set[str] = set()
        overloadable = {"overloadable"}
        for item in items:
            for name in item.names:
                self._by_word[name].append(item)
            if item.parameters is None and "overloadable" in item.code:
                overloadable.update(item.names)
        self._overloadable = overloadable

    def live(self, code: str) -> set[Item]:
        """The items that `code` reaches."""
        self._features = _value_features(code, set(self._by_word))
        self._mention(WORD.findall(code))
        for item in self._items:
            if not item.names:
                self._keep(item)
        while self._new:
            for item in self._by_word.get(self._new.pop(), ()):
                self._reach(item)
            if not self._new:
                waiting, self._waiting = self._waiting, []
                for item in waiting:
                    self._reach(item)
        return self._live

    def _mention(self, words: Iterable[str]) -> None:
        for word in words:
            if word not in self._words:
                self._words.add(word)
                self._new.append(word)
                self._features |= _features(word)

    def _reach(self, item: Item) -> None:
        if item in self._live:
            return
        if self._overloadable.isdisjoint(item.head) or _demands(item.parameters or "") <= self._features:
            self._keep(item)
        else:
            self._waiting.append(item)

    def _keep(self, item: Item) -> None:
        self._live.add(item)
        self._mention(item.words)
        if "##" in item.code:
            self._paste(item.code)

    def _paste(self, code: str) -> None:
        """Let each name that a macro makes be reached by the word that it is made of."""
        parameters = set(WORD.findall(code.partition("(")[2].partition(")")[0]))
        for pasted in _PASTED.finditer(code):
            prefix, parameter = pasted.groups()
            if prefix in parameters or parameter not in parameters:
                raise UnreadableError
            for name in [name for name in self._by_word if name.startswith(prefix)]:
                ending = name.removeprefix(prefix)
                self._by_word[ending] += self._by_word[name]
                if ending in self._words:
                    self._new.append(ending)
        if code.count("##") != len(_PASTED.findall(code)):
            raise UnreadableError


@lru_cache(maxsize=4096)
def _demands(parameters: str) -> frozenset[str]:
    """Features of a program without which no call can mean an overload with these parameters.

    An argument that is a pointer decides alone: it converts to no other type.
    """
    pointers: set[str] = set()
    values: set[str] = set()
    for parameter in parameters.split(","):
        words = WORD.findall(parameter)
        families = {family for word in words for family in _FAMILIES if word.removeprefix("u") == family}
        if "*" in parameter:
            pointers |= {f"{family} *" for family in families} | ({"local"} & set(words))
        else:
            values |= families - {"long"}
    return frozenset(pointers or values)


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


def _value_features(code: str, known: set[str]) -> set[str]:
    """The types that values of a source may have though it does not name them; `known` are names of the headers."""
    known = known.union(*_DEFINED.findall(code))
    if any(not _PLAIN_CALLS.fullmatch(name) and name not in known for name in _CALL.findall(code)):
        return set(_FAMILIES)
    endings = {literal[1] for literal in _FLOAT_LITERAL.finditer(code)}
    kinds = {"f": ("float",), "F": ("float",), "h": _RELATED["half"], "H": _RELATED["half"]}
    return {family for ending in endings for family in kinds.get(ending or "", _RELATED["double"])}


def _written(runs: Iterable[Run], live: set[Item], written_comments: set[tuple[str, ...]]) -> list[str]:
    """The lines of what is live. Overloads share a comment: `written_comments` holds those written, with what they are
    about.
    """
    lines: list[str] = []
    for run in runs:
        kept = [(part, written) for part in run.parts if (written := _part_lines(part, live, written_comments))]
        if not kept:
            continue
        if run.is_spaced and lines:
            lines.append("")
        first = kept[0][0]
        about = first.names if isinstance(first, Item) else (first.branches[0][0],)
        for comment in run.comments:
            if (comment, *about) not in written_comments:
                written_comments.add((comment, *about))
                lines.append(comment)
        for _, written in kept:
            lines += written
    return lines


def _part_lines(part: Item | Region, live: set[Item], written_comments: set[tuple[str, ...]]) -> list[str]:
    if isinstance(part, Item):
        dropped = {number for number, line in part.lines.items() if line not in live}
        return (
            [line for number, line in enumerate(part.text.split("\n")) if number not in dropped] if part in live else []
        )
    branches = [(directive, _written(runs, live, written_comments)) for directive, runs in part.branches]
    while branches and not branches[-1][1]:
        branches.pop()
    if not branches:
        return []
    return [*(line for directive, lines in branches for line in (directive, *lines)), part.end]
