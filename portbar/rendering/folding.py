"""Shortens a header that holds the same functions for many types: one macro for each kind of block, and a line for each use.

Templates mark blocks by lines `/*{ NAME */` and `/*} */`. Blocks that differ only in types, address spaces and similar words
become one macro; the differences are derived from the blocks themselves, so the text stays that of the templates.
"""

from __future__ import annotations

import re
import textwrap
from typing import Final

#: Columns of a line at most.
COLUMNS: Final = 120

_BLOCK: Final = re.compile(r"^/\*\{ (\w+) \*/\n(.*?)^/\*\} \*/\n", re.MULTILINE | re.DOTALL)
_TYPE: Final = r"u?char|u?short|u?int|u?long|float|double|half"
_VARYING: Final = re.compile(
    rf"(?P<comment>/\*.*?\*/)|\b(?P<type>{_TYPE})\b|\b(?P<cast>as_(?:{_TYPE}))\b|\b(?P<object>atomic_(?:{_TYPE}))\b|\b(?P<space>global|local|PORTBAR_GENERIC)\b"
    r"|\b(?P<flags>CLK_\w+_MEM_FENCE|PORTBAR_BOTH_FENCES)\b|\b(?P<number>(?:0x[\da-f]+|\d+)u?)\b"
    r'|(?P<text>(?<=")=?[rlfd](?=")|(?<=\.)[busf](?:8|16|32|64)\b|(?<=")\.(?:global|shared)(?=\.)|(?<=")(?=\.[a-z]\w* %))',
    re.DOTALL,
)
_COMMENT: Final = re.compile(r"(^[ \t]*/\*(?:(?!\*/).)*\*/$)", re.MULTILINE | re.DOTALL)
_NAMES: Final = {
    "type": ("TYPE", "BITS", "WORD"),
    "cast": ("CAST",),
    "object": ("ATOMIC",),
    "space": ("SPACE",),
    "flags": ("FLAGS",),
    "number": ("NUMBER",),
    "text": ("PTX",),
}


def begin(folding: bool, name: str) -> str:
    """The mark before a block, for templates; nothing where the text is not `folded`."""
    return f"/*{{ {name} */\n" if folding else ""


def finish(folding: bool) -> str:
    """The mark after a block."""
    return "/*} */\n" if folding else ""


def folded(text: str) -> str:
    """`text` with each kind of block as a macro, and without the marks."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name, body in _BLOCK.findall(text):
        groups.setdefault((name, _skeleton(body)), []).append(body)
    macros: dict[tuple[str, str], _Macro] = {}
    taken: set[str] = set()
    for (name, skeleton), bodies in groups.items():
        if len(bodies) > 1:
            number = 1 + sum(other.partition("__")[0] == name for other in taken)
            full = name if number == 1 else f"{name}_{number}"
            taken.add(f"{name}__{number}")
            macros[name, skeleton] = _Macro(f"PORTBAR_DEFINE_{full}", bodies)

    def use(found: re.Match[str]) -> str:
        macro = macros.get((found[1], _skeleton(found[2])))
        return found[2] if macro is None else macro.use(found[2])

    return _BLOCK.sub(use, text)


def _skeleton(body: str) -> str:
    return _VARYING.sub(lambda found: found[0] if found["comment"] else f"@{found.lastgroup}", body)


def _tokens(body: str) -> list[re.Match[str]]:
    return [found for found in _VARYING.finditer(body) if not found["comment"]]


class _Macro:
    """A block as a macro, whose parameters are where its instances differ."""

    def __init__(self, name: str, bodies: list[str]) -> None:
        self._name = name
        self._is_defined = False
        columns = list(zip(*([found[0] for found in _tokens(body)] for body in bodies), strict=True))
        self._places: dict[tuple[str, ...], int] = {}
        self._parameters: dict[tuple[str, ...], str] = {}
        count: dict[str, int] = {}
        kinds = [str(found.lastgroup) for found in _tokens(bodies[0])]
        for place, (column, kind) in enumerate(zip(columns, kinds, strict=True)):
            if len(set(column)) == 1 or (kind, *column) in self._parameters:
                continue
            count[kind] = at = count.get(kind, 0) + 1
            names = _NAMES[kind]
            self._parameters[kind, *column] = names[at - 1] if at <= len(names) else f"{names[0]}_{at}"
            self._places[kind, *column] = place
        self._columns = [(kind, *column) for column, kind in zip(columns, kinds, strict=True)]

    def use(self, body: str) -> str:
        """A line that stands for an instance, after the macro where it is the first."""
        found = _tokens(body)
        values = [found[place] for place in self._places.values()]
        given = ", ".join(f'"{value[0]}"' if value.lastgroup == "text" else value[0] for value in values)
        line = f"{self._name}({given})\n"
        if self._is_defined:
            return line
        self._is_defined = True
        return f"{self._definition(body)}{line}"

    def _definition(self, body: str) -> str:
        parts: list[str] = []
        done = 0
        for found, column in zip(_tokens(body), self._columns, strict=True):
            parameter = self._parameters.get(column)
            if parameter is not None:
                shown = f'" {parameter} "' if found.lastgroup == "text" else parameter
                parts += [body[done : found.start()], shown]
                done = found.end()
        made = "".join([*parts, body[done:]]).replace('"" ', "").replace(' ""', "").rstrip("\n")
        head = f"#define {self._name}({', '.join(self._parameters.values())})"
        return " \\\n".join(line.rstrip() for line in [head, *made.split("\n")]) + "\n"


def narrow(text: str) -> str:
    """`text` with lines of code and comments broken at 120 columns."""
    lines: list[str] = []
    for part in _COMMENT.split(re.sub(r"\n{3,}", "\n\n", text).removesuffix("\n")):
        if _COMMENT.fullmatch(part) and any(len(line) > COLUMNS for line in part.split("\n")):
            indent = " " * (len(part) - len(part.lstrip()))
            words = " ".join(part.split())
            lines += textwrap.wrap(words, COLUMNS, initial_indent=indent, subsequent_indent=f"{indent}   ")
        else:
            for line in part.removeprefix("\n").removesuffix("\n").split("\n"):
                inside = line.endswith("\\") or line.lstrip().startswith("#") or (lines and lines[-1].endswith("\\"))
                lines += _broken(line, " \\" if inside else "")
    return "\n".join(lines).lstrip("\n") + "\n"


def _broken(line: str, end: str) -> list[str]:
    """A line of code in pieces, all but the last with this end."""
    pieces: list[str] = []
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    while len(line) > COLUMNS:
        room = COLUMNS - 4
        quotes = [found.end() for found in re.finditer(r'(?<!\\)"', line[:room])]
        at = line.rfind(" ", len(indent) + 1, room)
        before = after = ""
        if len(quotes) % 2:
            # Strings that follow each other are one.
            at = line.rfind(" ", quotes[-1], room) + 1
            before = after = '"'
            if not at:
                at, before, after = line.rfind(" ", len(indent) + 1, quotes[-1] - 1), "", ""
        if at <= len(indent):
            break
        pieces.append(line[:at].rstrip(" " if not before else "") + before + end)
        line = indent + after + line[at:].lstrip(" " if not after else "")
    return [*pieces, line]
