"""Leaves out of rendered headers what a program cannot reach, so that drivers compile only what is used.

A header is read as a list of functions, types, macros and conditional regions. The names in the author's source keep what
they name, and what is kept keeps what it names in turn. Text that cannot be read this way stays whole.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Final

from portbar.rendering.aliases import written_out
from portbar.rendering.source import UnreadableError, closed, without_comments

#: Names that no reader of the source alone can know: made of pieces, spelled otherwise, or in files that portbar does not read.
_HIDDEN: Final = re.compile(
    r"##|%:|\?\?=|\\u|#\s*(?:include_next|import|include(?!\s*[\"<]portbar/))|(?:^|\s)-include\b"
)
_WORD: Final = re.compile(r"[A-Za-z_]\w*")
_DIRECTIVE: Final = re.compile(r"\s*#\s*(\w*)")
_PASTED: Final = re.compile(r"(?<![\w#])(\w+)\s*##\s*(\w+)(?!\s*##)")
_NO_FUNCTION: Final = re.compile(r"\s*(?:typedef|enum)\b|[^({]*[={]")
_HEAD_WORD: Final = re.compile(r"[\s*]*([A-Za-z_]\w*)\s*(\()?")
_MACRO: Final = re.compile(r"__attribute__|[A-Z][A-Z0-9_]*")
_OF_AUTHOR: Final = re.compile(r"^\s*#\s*line\b", re.MULTILINE)
#: A line of a function, a type or a macro that stays only where something else uses the name.
_LINE_FOR: Final = re.compile(r"/\* where (\w+) is used \*/(?:[ \t]*\\)?$")

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


@dataclass(eq=False)
class _Item:
    """A function, a type, a macro, or something that always stays.

    Attributes
    ----------
    text, code : str
        As written, and without comments and strings.
    names : tuple of str
        The names that it defines; empty if it always stays.
    regions : tuple of str
        Directives of the regions that enclose it.
    head : tuple of str
        Macros before a function's name.
    parameters : str or None
        Of a function.
    lines : dict of int to _Item
        Lines of it that stay only where the name that they are for is used, with what they use themselves.
    """

    text: str
    code: str
    names: tuple[str, ...]
    regions: tuple[str, ...]
    head: tuple[str, ...] = ()
    parameters: str | None = None
    lines: dict[int, _Item] = field(default_factory=dict)

    @cached_property
    def words(self) -> frozenset[str]:
        """Every identifier that it needs."""
        return frozenset(_WORD.findall(" ".join([self.code, *self.regions])))

    @cached_property
    def demands(self) -> frozenset[str]:
        """Features of a program without which no call can mean this overload.

        An argument that is a pointer decides alone: it converts to no other type.
        """
        pointers: set[str] = set()
        values: set[str] = set()
        for parameter in (self.parameters or "").split(","):
            words = _WORD.findall(parameter)
            families = {family for word in words for family in _FAMILIES if word.removeprefix("u") == family}
            if "*" in parameter:
                pointers |= {f"{family} *" for family in families}
                pointers |= {"local"} & set(words)
            else:
                values |= families - {"long"}
        return frozenset(pointers or values)


@dataclass
class _Run:
    """Yield comments with the text that they precede, up to a blank line or the next comment."""

    comments: list[str] = field(default_factory=list)
    parts: list[_Item | _Region] = field(default_factory=list)
    is_spaced: bool = False


@dataclass
class _Region:
    """The branches of an `#if`, each with its directive, and the `#endif`."""

    branches: list[tuple[str, list[_Run]]]
    end: str = ""


def pruned(texts: Sequence[str], source: str, options: Sequence[str] = ()) -> list[str]:
    """Headers without what a program cannot reach.

    Parameters
    ----------
    texts : sequence of str
        All headers that the program includes.
    source : str
        The author's source.
    options : sequence of str, optional
        Build options, whose macros may name something too.

    Returns
    -------
    list of str
        The headers as they were where the source may use what it does not name: where it includes files other than
        portbar's, or makes names of pieces.
    """
    # An option may be `-Dname=...`.
    given = [part for option in options for part in (option, option.replace("-D", " "))]
    code = "\n".join([without_comments(source), *given]).replace("\\\r\n", "").replace("\\\n", "")
    if _HIDDEN.search(code):
        return list(texts)
    try:
        headers = [_runs(text) for text in written_out(texts)]
        live = _Reach([item for runs in headers for item in _items(runs)]).live(code)
    except UnreadableError:
        return list(texts)
    return ["".join(f"{line}\n" for line in _written(runs, live, set())) for runs in headers]


class _Reach:
    """Which items a source reaches."""

    def __init__(self, items: list[_Item]) -> None:
        self._items = items
        self._by_word: defaultdict[str, list[_Item]] = defaultdict(list)
        self._waiting: list[_Item] = []
        self._live: set[_Item] = set()
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

    def live(self, code: str) -> set[_Item]:
        """The items that `code` reaches."""
        self._features = _value_features(code, set(self._by_word))
        self._mention(_WORD.findall(code))
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

    def _reach(self, item: _Item) -> None:
        if item in self._live:
            return
        if self._overloadable.isdisjoint(item.head) or item.demands <= self._features:
            self._keep(item)
        else:
            self._waiting.append(item)

    def _keep(self, item: _Item) -> None:
        self._live.add(item)
        self._mention(item.words)
        if "##" in item.code:
            self._paste(item.code)

    def _paste(self, code: str) -> None:
        """Let each name that a macro makes be reached by the word that it is made of."""
        parameters = set(_WORD.findall(code.partition("(")[2].partition(")")[0]))
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


def _items(runs: Iterable[_Run]) -> Iterator[_Item]:
    for run in runs:
        for part in run.parts:
            if isinstance(part, _Item):
                yield part
                yield from part.lines.values()
            else:
                for _, inner in part.branches:
                    yield from _items(inner)


def _written(runs: Iterable[_Run], live: set[_Item], written_comments: set[tuple[str, ...]]) -> list[str]:
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
        about = first.names if isinstance(first, _Item) else (first.branches[0][0],)
        for comment in run.comments:
            if (comment, *about) not in written_comments:
                written_comments.add((comment, *about))
                lines.append(comment)
        for _, written in kept:
            lines += written
    return lines


def _part_lines(part: _Item | _Region, live: set[_Item], written_comments: set[tuple[str, ...]]) -> list[str]:
    if isinstance(part, _Item):
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


@lru_cache(maxsize=32)
def _runs(text: str) -> list[_Run]:
    """A header's text, read."""
    reader = _Reader(text)
    runs = reader.runs(())
    if not reader.is_done:
        raise UnreadableError
    return runs


class _Reader:
    """Reads the lines of a header one by one."""

    def __init__(self, text: str) -> None:
        self._lines = text.removesuffix("\n").split("\n")
        self._code = without_comments(text, keep_strings=False).removesuffix("\n").split("\n")
        self._at = 0

    @property
    def is_done(self) -> bool:
        """Whether all lines are read."""
        return self._at == len(self._lines)

    def runs(self, regions: tuple[str, ...]) -> list[_Run]:
        """Return the parts up to the end of the text or of a branch."""
        runs = [_Run()]
        while not self.is_done:
            line, code = self._lines[self._at], self._code[self._at]
            last = runs[-1]
            if not line.strip():
                if last.parts:
                    runs.append(_Run())
                runs[-1].is_spaced = True
                self._at += 1
            elif not code.strip():
                if last.parts:
                    runs.append(_Run())
                runs[-1].comments.append(self._comment())
            elif directive := _DIRECTIVE.match(code):
                if directive[1] in {"elif", "else", "endif"}:
                    break
                if directive[1] in {"if", "ifdef", "ifndef"}:
                    last.parts.append(self._region(regions))
                else:
                    last.parts.append(self._macro(directive[1], regions))
            else:
                last.parts.append(self._declaration(regions))
        return runs

    def _take(self, end: int) -> tuple[str, str]:
        start, self._at = self._at, end
        return "\n".join(self._lines[start:end]), "\n".join(self._code[start:end])

    def _comment(self) -> str:
        end = self._at
        while "*/" not in self._lines[end]:
            end += 1
            if end == len(self._lines) or self._code[end].strip():
                raise UnreadableError
        return self._take(end + 1)[0]

    def _directive(self) -> tuple[str, str]:
        end = self._at
        while self._code[end].rstrip().endswith("\\"):
            end += 1
            if end == len(self._lines):
                raise UnreadableError
        return self._take(end + 1)

    def _region(self, regions: tuple[str, ...]) -> _Region:
        directive, code = self._directive()
        inner = (*regions, code)
        made = _Region([(directive, self.runs(inner))])
        while not self.is_done:
            directive, code = self._directive()
            if code.split("#", 1)[1].split()[0] == "endif":
                made.end = directive
                return made
            inner = (*inner, code)
            made.branches.append((directive, self.runs(inner)))
        raise UnreadableError

    def _macro(self, kind: str, regions: tuple[str, ...]) -> _Item:
        text, code = self._directive()
        named = re.match(r"\s*#\s*(?:define|undef)\s+(\w+)", code)
        if kind in {"define", "undef"} and named is None:
            raise UnreadableError
        code, lines = _lines_for(text, code, regions)
        return _Item(text, code, (named[1],) if named else (), regions, lines=lines)

    def _declaration(self, regions: tuple[str, ...]) -> _Item:
        end, braces, brackets = self._at, 0, 0
        while end == self._at or braces or brackets or self._code[end - 1].rstrip()[-1:] not in {";", "}"}:
            if end == len(self._code):
                raise UnreadableError
            line = self._code[end]
            braces += line.count("{") - line.count("}")
            brackets += line.count("(") - line.count(")")
            if braces < 0 or brackets < 0:
                raise UnreadableError
            end += 1
        text, code = self._take(end)
        if _OF_AUTHOR.search(code):
            # An author's expression is compiled even if unused, so that its errors are reported.
            return _Item(text, code, (), regions)
        code, lines = _lines_for(text, code, regions)
        if found := _function(code):
            return _Item(text, code, (found[1],), regions, found[0], found[2], lines)
        return _Item(text, code, _type_names(code), regions, lines=lines)


def _lines_for(text: str, code: str, regions: tuple[str, ...]) -> tuple[str, dict[int, _Item]]:
    """The code of what always stays, and each line that does not, by its number."""
    always, lines = [], {}
    for number, (line, words) in enumerate(zip(text.split("\n"), code.split("\n"), strict=True)):
        if found := _LINE_FOR.search(line):
            lines[number] = _Item(line, words, (found[1],), regions)
        else:
            always.append(words)
    return "\n".join(always), lines


def _function(code: str) -> tuple[tuple[str, ...], str, str] | None:
    """Words before a function's name, its name and its parameters; None if it is not a function."""
    if _NO_FUNCTION.match(code):
        return None
    head: list[str] = []
    at = 0
    while found := _HEAD_WORD.match(code, at):
        word, call = found.groups()
        at = found.end()
        if not call:
            head.append(word)
            continue
        end = closed(code, at - 1)
        if not _MACRO.fullmatch(word):
            return tuple(head), word, code[at : end - 1]
        head += [word, *_WORD.findall(code, at, end)]
        at = end
    return None


def _type_names(code: str) -> tuple[str, ...]:
    """The names that a type defines; an empty set if they are unknown."""
    if re.match(r"\s*enum\s*\{[^{}]*\}\s*;\s*$", code):
        return tuple(re.findall(r"[{,]\s*(\w+)", code))
    last = re.search(r"[\s*}](\w+)\s*;\s*$", code)
    if re.match(r"\s*typedef\b", code) and last and not re.search(r"\benum\b|\(\s*\*", code):
        return last[1], *re.findall(r"\b(?:struct|union)\s+(\w+)\s*\{", code)
    return ()
