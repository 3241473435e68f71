"""Macros of the author's that hold statements or barriers, written out, so that each statement has a place in the text.

libclang says where a macro is used and which of its definitions counts there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from portbar.reading.edits import UnformedError
from portbar.reading.opencl import BASE
from portbar.reading.tree import MacroUse, Tree

_ROUNDS: Final = 40
_TOKEN: Final = re.compile(
    r"""(?P<space>\s+)|(?P<paste>\#\#|%:%:)|(?P<quote>\#|%:)|(?P<word>[A-Za-z_]\w*)
    |(?P<other>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\.?\d(?:[eEpP][-+]|[\w.])*|.)""",
    re.VERBOSE | re.DOTALL,
)
_BRACKET: Final = re.compile(r"""[(),]|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""")
_COMMENT: Final = re.compile(r"/\*.*?\*/|//(?:\\\r?\n|[^\n])*", re.DOTALL)
_HEAD: Final = re.compile(r"([A-Za-z_]\w*)(?:\(([^)]*)\))?(.*)", re.DOTALL)


def written_out(
    name: str,
    text: str,
    headers: Mapping[str, str],
    options: Sequence[str],
    macros: frozenset[str],
    given: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """`text` with each use of these macros replaced by what it stands for; no line moves.

    Parameters
    ----------
    name, text, headers, options
        As for `Tree`.
    macros : frozenset of str
    given : mapping of str to str
        Definitions by build options, as after `#define`.

    Raises
    ------
    UnformedError
        A use cannot be written out.
    UnparsedError
        The front end gave no tree.
    """
    for _ in range(_ROUNDS):
        tree = Tree(name, text, {"opencl-c-base.h": BASE, **headers}, options, uses=True)
        try:
            uses = [use for use in tree.macro_uses() if use.name in macros]
        finally:
            tree.close()
        if not uses:
            return text
        contents, done = text.encode(), 0
        parts: list[str] = []
        for use in sorted(uses, key=lambda one: one.begin):
            if use.begin < done:
                continue  # within an argument of one before it
            written = contents[use.begin : use.end].decode()
            line = contents.count(b"\n", 0, use.begin) + 1
            made = _expanded(_definition(use, given, line), written, line)
            parts += [contents[done : use.begin].decode(), made, "\n" * written.count("\n")]
            done = use.end
        parts.append(contents[done:].decode())
        text = "".join(parts)
    raise UnformedError("a macro that stands for itself", line)


def _definition(use: MacroUse, given: Mapping[str, str], line: int) -> str:
    found = given.get(use.name) if use.definition is None else use.definition
    if found is None:
        raise UnformedError(f"the macro {use.name}, of which the definition is not known", line)
    return found


def _expanded(definition: str, use: str, line: int) -> str:
    """The text that a use of a macro stands for; its arguments may be macros in turn."""
    plain = _COMMENT.sub(" ", definition.replace("\\\r\n", " ").replace("\\\n", " "))
    head = _HEAD.fullmatch(plain)
    if head is None:
        raise UnformedError("the definition of a macro that cannot be read", line)
    if head[2] is None:
        return _substituted(head[3], {})
    parameters = [one.strip() for one in head[2].split(",")] if head[2].strip() else []
    values = _arguments(_COMMENT.sub(" ", use))
    rest = parameters[-1].removesuffix("...").strip() if parameters and parameters[-1].endswith("...") else None
    if rest is not None:
        parameters[-1] = rest or "__VA_ARGS__"
        fixed = len(parameters) - 1
        values = [*values[:fixed], ",".join(values[fixed:])]
    if not parameters and values == [""]:
        values = []
    if len(values) != len(parameters):
        raise UnformedError("a macro with another number of arguments than its definition has", line)
    return _substituted(head[3], dict(zip(parameters, (" ".join(value.split()) for value in values), strict=True)))


def _arguments(use: str) -> list[str]:
    begin = use.index("(") + 1
    depth, found, at = 1, [], begin
    for bracket in _BRACKET.finditer(use, begin):
        depth += {"(": 1, ")": -1}.get(bracket[0], 0)
        if depth == 0 or (depth == 1 and bracket[0] == ","):
            found.append(use[at : bracket.start()])
            at = bracket.end()
        if depth == 0:
            break
    return found


def _substituted(body: str, values: Mapping[str, str]) -> str:
    made: list[str] = []
    quotes = False
    for token in _TOKEN.finditer(body):
        kind, word = token.lastgroup, token[0]
        if kind == "paste":
            while made and made[-1].isspace():
                made.pop()
            made.append("##")
        elif kind == "quote" and values:
            quotes = True
        elif kind == "space":
            if not (made and made[-1] == "##") and not quotes:
                made.append(" ")
        else:
            value = values.get(word, word) if kind == "word" else word
            if quotes:
                value = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
                quotes = False
            made.append(value)
    return "".join(part for part in made if part != "##").strip()
