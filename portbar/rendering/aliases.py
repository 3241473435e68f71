"""Writes out macros that only stand for something short, such as a call, an argument or nothing, where headers use them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

_DEFINITION: Final = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\(([^()]*)\))?[ \t]*(.*)$", re.MULTILINE)
#: The argument itself; a call that passes on names and numbers; nothing.
_SHORT: Final = re.compile(
    r"\(\w+\)|\w+\((?:\w+(?:, \w+)*)?\)|\(\(void\)\w+\((?:\w+(?:, \w+)*)?\)\)|\(\(void\)\(\w+\)\)|do \{ \} while \(0\)"
)
_COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)
_CALL: Final = re.compile(r"^([ \t]*)\((\(void\)\w+\([^()]*\))\);$", re.MULTILINE)
_NOTHING: Final = re.compile(r"[ \t]*(?:\(\(void\)\(\w+\)\)|do \{ \} while \(0\));")


#: A macro's name, its parameters, None without brackets, and what it stands for.
_Macro = tuple[str, str | None, str]


def written_out(texts: Sequence[str]) -> list[str]:
    """Headers of one program with short macros of portbar's written out; their definitions stay."""
    macros = frozenset().union(*map(_macros, texts))
    ways = Counter(name for name, _, _ in macros)
    short = frozenset(macro for macro in macros if ways[macro[0]] == 1 and _is_short(macro))
    return [_rewritten(text, short) for text in texts]


# Results are cached, because most programs have the same texts.


@lru_cache(maxsize=32)
def _macros(text: str) -> frozenset[_Macro]:
    return frozenset((made[1], made[2], _COMMENT.sub("", made[3]).strip()) for made in _DEFINITION.finditer(text))


def _calls(text: str, name: str) -> bool:
    """Whether there is more than a macro's definition."""
    return text.count(f"{name}(") > text.count(f"define {name}(")


def _is_short(macro: _Macro) -> bool:
    """Whether a macro can be expanded, and is not one that authors call."""
    name, parameters, body = macro
    is_own = name.lower().startswith("portbar_") and not name.startswith("portbar_atomic_")
    return is_own and parameters is not None and _SHORT.fullmatch(body) is not None


@lru_cache(maxsize=32)
def _rewritten(text: str, macros: frozenset[_Macro]) -> str:
    aliases = {
        name: ([part.strip() for part in (parameters or "").split(",")], body)
        for name, parameters, body in macros
        if _calls(text, name)
    }
    if not aliases:
        return text
    return _without_nothing(_expanded(text, aliases, re.compile(rf"\b({'|'.join(aliases)})\(")))


def _expanded(text: str, aliases: dict[str, tuple[list[str], str]], call: re.Pattern[str]) -> str:
    parts: list[str] = []
    done = 0
    for found in call.finditer(text):
        start = found.start()
        is_comment = text.rfind("/*", 0, start) > text.rfind("*/", 0, start)
        if start < done or is_comment or text.endswith("define ", 0, start):
            continue
        parameters, body = aliases[found[1]]
        arguments, end = _arguments(text, found.end())
        if len(arguments) != len(parameters):
            continue
        given = dict(zip(parameters, (_expanded(argument, aliases, call) for argument in arguments), strict=True))
        if body[1:-1] in given:
            argument = given[body[1:-1]]
            made = argument if re.fullmatch(r"\w+", argument) else f"({argument})"
        else:
            made = "".join(given.get(part, part) for part in re.split(r"(\w+)", body))
        parts += [text[done:start], made]
        done = end
    return "".join([*parts, text[done:]])


def _arguments(text: str, start: int) -> tuple[list[str], int]:
    """The arguments of a call whose bracket opens before `start`, and where it ends."""
    arguments, depth, begin = [], 1, start
    for at in range(start, len(text)):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth == 0 or (depth == 1 and text[at] == ","):
            arguments.append(text[begin:at].strip())
            begin = at + 1
        if depth == 0:
            return arguments, at + 1
    return [], len(text)


def _without_nothing(text: str) -> str:
    """`text` without statements that do nothing, if each is on a line after a whole statement."""
    lines: list[str] = []
    for line in text.split("\n"):
        if not (_NOTHING.fullmatch(line) and _COMMENT.sub("", "\n".join(lines[-9:])).rstrip()[-1:] in {";", "{", "}"}):
            lines.append(line)
    return _CALL.sub(r"\1\2;", "\n".join(lines))
