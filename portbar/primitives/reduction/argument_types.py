"""Types of the values that a source reduces, where its declarations leave no doubt: overloads for others need no text."""

from __future__ import annotations

import re
from typing import Final

from portbar.primitives.reduction.types import SCALARS

_TYPES: Final = frozenset(scalar.c for scalar in SCALARS)
_PROMOTED: Final = frozenset({"char", "uchar", "short", "ushort", "half"})
_SPACES: Final = ("global", "local", "private", "constant")
_QUALIFIERS: Final = frozenset(
    ["const", "volatile", "restrict", "__restrict", "static", *_SPACES, *(f"__{space}" for space in _SPACES)]
)
_STATEMENTS: Final = frozenset({"return", "else", "case", "do"})
#: Macros that may hold declarations, and types and constants without one.
_DOUBT: Final = re.compile(r"#[ \t]*define[ \t]+\w+\(|\b(?:__typeof__|__typeof|typeof|__auto_type|auto|enum)\b")
_DIRECTIVE: Final = re.compile(r"^[ \t]*#(?:\\\r?\n|[^\n])*", re.MULTILINE)
_ATTRIBUTE: Final = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)")
_TOKEN: Final = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|->|\S")
_DIMENSIONS: Final = re.compile(r"(?:\s*\[[^][]*\])*")
_OPENING, _CLOSING, _COMMA, _OPERATOR = (re.compile(part) for part in (r"\s*\(", r"\)", ",", r"[-+*/]"))
_LITERALS: Final = {"int": r"\d{1,9}", "uint": r"\d{1,9}[uU]", "float": r"\d+\.\d*[fF]"}
_CAST: Final = re.compile(r"\(\s*(\w+)\s*\)\s*\w+\s*(?:\[[^][]*\]|\([^()]*\))?")
_NAMED: Final = re.compile(r"([A-Za-z_]\w*)\s*(\[[^][]*(?:\[[^][]*\][^][]*)*\])?")


class Declarations:
    """The types of a source's names, as far as it declares them.

    `code` is the source without comments; the build options may define macros.
    """

    def __init__(self, code: str, options: tuple[str, ...] = ()) -> None:
        directives = "\n".join([*_DIRECTIVE.findall(code), *(option.replace("-D", "-D ") for option in options)])
        self._macros = frozenset(re.findall(r"\w+", directives))
        self._code = _ATTRIBUTE.sub(" ", _DIRECTIVE.sub(" ", code))
        self._found = list(_TOKEN.finditer(self._code))
        self._tokens = [found[0] for found in self._found]
        self._doubts = bool(_DOUBT.search(directives) or _DOUBT.search(code)) or any(
            "(" in option for option in options
        )

    def of_calls(self, name: str, place: int) -> frozenset[str] | None:
        """All types that the argument at a place of a call of `name` can have, 0 the first; None where there is doubt."""
        kinds = [self._of_call(found.end(), place) for found in re.finditer(rf"\b{name}\b", self._code)]
        if self._doubts or name in self._macros or None in kinds:
            return None
        return frozenset().union(*(kind for kind in kinds if kind))

    def _of_call(self, start: int, place: int) -> frozenset[str] | None:
        """As `of_calls`, of the call whose name ends at `start`."""
        opening = _OPENING.match(self._code, start)
        if opening is None:
            return None
        inside = _split(self._code[opening.end() :], _CLOSING)[0]
        arguments = _split(inside, _COMMA)
        return self._of(arguments[place].strip()) if len(arguments) > place else None

    def _of(self, text: str) -> frozenset[str] | None:
        """All types that an expression can have."""
        for kind, literal in _LITERALS.items():
            if re.fullmatch(literal, text):
                return frozenset({kind})
        if (cast := _CAST.fullmatch(text)) and cast[1] in _TYPES - self._macros:
            return frozenset({cast[1]})
        if named := _NAMED.fullmatch(text):
            return self._declared(named[1], 1 if named[2] else 0)
        operands = _split(text, _OPERATOR)
        kinds = {self._of(operand.strip()) for operand in operands} if len(operands) > 1 else set()
        common = kinds.pop() if len(kinds) == 1 else None
        return common if common and len(common) == 1 and not common & _PROMOTED else None

    def _declared(self, name: str, depth: int) -> frozenset[str] | None:
        """All types of variables of a name, or where `depth` is 1 of what such pointers and arrays hold."""
        kinds: set[str] = set()
        for at, token in enumerate(self._tokens):
            if token != name or self._tokens[at - 1 : at] in (["."], ["->"]):
                continue
            declared = self._declared_at(at, depth)
            if declared is None:
                return None
            kinds |= declared
        return frozenset(kinds) if kinds and not (kinds | {name}) & self._macros else None

    def _declared_at(self, at: int, depth: int) -> set[str] | None:
        """The type of the name at this token; an empty set if it is only used, None if the type is unknown."""
        place = at - 1
        while place >= 0 and (self._tokens[place] == "*" or self._tokens[place].isidentifier()):
            place -= 1
        words = [word for word in self._tokens[place + 1 : at] if word != "*"]
        stars = at - place - 1 - len(words)
        before = self._tokens[place] if place >= 0 else ";"
        if words[:1] and words[0] in _STATEMENTS:
            return set()
        if not words:
            if before != ",":
                return None if before == "}" or (stars and before == "(") else set()
            listed = self._listed(place)
            if not listed:
                return set() if listed is not None else None
            words = listed
        elif stars and not _TYPES.intersection(words):
            # A factor, which cannot be a type.
            return set() if before[0].isdigit() or before in "=+-/%<>?:&|[])" else None
        dimensions = _DIMENSIONS.match(self._code, self._found[at].end())
        kind = [word for word in words if word not in _QUALIFIERS]
        is_function = self._tokens[at + 1 : at + 2] == ["("]
        if is_function or dimensions is None or stars + dimensions[0].count("[") != depth:
            return None
        return set(kind) if len(kind) == 1 and kind[0] in _TYPES else None

    def _listed(self, place: int) -> list[str] | None:
        """The words that declare the name after a comma: none in brackets, else those that begin the statement."""
        depth = 0
        while place >= 0 and (depth or self._tokens[place] not in "([{;}"):
            depth += (self._tokens[place] in ")]}") - (self._tokens[place] in "([{")
            place -= 1
        if place > 0 and self._tokens[place] in "([" and self._tokens[place - 1] != "for":
            return []
        begin = place + 1
        while place + 1 < len(self._tokens) and self._tokens[place + 1].isidentifier():
            place += 1
        words = self._tokens[begin:place]
        return words if _TYPES & set(words) else None


def _split(text: str, separator: re.Pattern[str]) -> list[str]:
    """The parts of a text between separators outside of brackets."""
    parts, depth, begin = [], 0, 0
    for at, letter in enumerate(text):
        if not depth and separator.match(letter):
            parts.append(text[begin:at])
            begin = at + 1
        else:
            depth += (letter in "([{") - (letter in ")]}")
    return [*parts, text[begin:]]
