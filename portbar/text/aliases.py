"""Writes out macros that only stand for something short, such as a call, an argument or nothing, where headers use them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from portbar.text.source import without_comments

_DEFINITION: Final = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\(([^()]*)\))?[ \t]*(.*)$", re.MULTILINE)
#: The argument itself; a call that passes on names and numbers; nothing.
_SHORT: Final = re.compile(
    r"\(\w+\)|\w+\((?:\w+(?:, \w+)*)?\)|\(\(void\)\w+\((?:\w+(?:, \w+)*)?\)\)|\(\(void\)\(\w+\)\)|do \{ \} while \(0\)"
)
_CALL: Final = re.compile(r"^([ \t]*)\((\(void\)\w+\([^()]*\))\);$", re.MULTILINE)
_NOTHING: Final = re.compile(r"[ \t]*(?:\(\(void\)\(\w+\)\)|do \{ \} while \(0\));")


def written_out(texts: Sequence[str]) -> list[str]:
    """Headers of one program with short macros of portbar's written out; their definitions stay."""
    aliases = _aliases(texts)
    if not aliases:
        return list(texts)
    call = re.compile(rf"\b({'|'.join(aliases)})\(")
    return [_without_nothing(_expanded(text, aliases, call)) if call.search(text) else text for text in texts]


def _aliases(texts: Iterable[str]) -> dict[str, tuple[list[str], str]]:
    """Short macros, each with its parameters and what it stands for; those that are defined in one way only."""
    found: dict[str, set[tuple[str | None, str]]] = {}
    for text in texts:
        for made in _DEFINITION.finditer(without_comments(text)):
            found.setdefault(made[1], set()).add((made[2], made[3].strip()))
    single = {name: ways.pop() for name, ways in found.items() if len(ways) == 1}
    return {
        name: ([part.strip() for part in parameters.split(",")], body)
        for name, (parameters, body) in single.items()
        if parameters is not None and _SHORT.fullmatch(body) and name.lower().startswith("portbar_")
    }


def _expanded(text: str, aliases: dict[str, tuple[list[str], str]], call: re.Pattern[str]) -> str:
    code = without_comments(text)
    parts: list[str] = []
    done = 0
    for found in call.finditer(code):
        line = code.rfind("\n", 0, found.start()) + 1
        if found.start() < done or re.match(r"[ \t]*#[ \t]*define[ \t]+\w*$", code[line : found.start()]):
            continue
        parameters, body = aliases[found[1]]
        arguments, end = _arguments(code, found.end())
        if len(arguments) != len(parameters):
            continue
        given = dict(zip(parameters, (_expanded(argument, aliases, call) for argument in arguments), strict=True))
        if body[1:-1] in given:
            argument = given[body[1:-1]]
            made = argument if re.fullmatch(r"\w+", argument) else f"({argument})"
        else:
            made = "".join(given.get(part, part) for part in re.split(r"(\w+)", body))
        parts += [text[done : found.start()], made]
        done = end
    return "".join([*parts, text[done:]])


def _arguments(code: str, start: int) -> tuple[list[str], int]:
    """The arguments of a call whose bracket opens before `start`, and where it ends."""
    arguments, depth, begin = [], 1, start
    for at in range(start, len(code)):
        depth += (code[at] in "([{") - (code[at] in ")]}")
        if depth == 0 or (depth == 1 and code[at] == ","):
            arguments.append(code[begin:at].strip())
            begin = at + 1
        if depth == 0:
            return arguments, at + 1
    return [], len(code)


def _without_nothing(text: str) -> str:
    """`text` without statements that do nothing, where each stands on a line after a whole statement."""
    lines: list[str] = []
    before = ";"
    for line, code in zip(text.split("\n"), without_comments(text).split("\n"), strict=True):
        if _NOTHING.fullmatch(line) and before in {";", "{", "}"}:
            continue
        lines.append(line)
        before = code.rstrip()[-1:] or before
    return _CALL.sub(r"\1\2;", "\n".join(lines))
