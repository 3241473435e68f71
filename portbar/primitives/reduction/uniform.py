"""Calls that a source shows to be made by some work-items of a work-group only, which no device reports and some hang in.

Only what cannot be meant is found: an `if` that picks one work-item, or all but some first ones, by its place in its work-group
or sub-group, around a call that the whole group makes. Not a proof that other calls are uniform: conditions on global ids may
hold for whole groups, and are left alone.
"""

from __future__ import annotations

import re
from typing import Final

from portbar.primitives.reduction.loops import LEVELS, ReductionLoop

#: The position of a work-item in its work-group or sub-group.
_PLACE: Final = (
    r"(?:get_local_id\s*\(\s*\d\s*\)|(?:get_local_linear_id|get_sub_group_local_id|portbar_reduction_id"
    r"|portbar_sub_group_local_id)\s*\(\s*\))"
)
_IF: Final = re.compile(r"\bif\s*\(")
#: A variable and what is assigned to it.
_SET: Final = re.compile(r"\b(?P<name>[A-Za-z_]\w*)\s*(?P<op>[-+*/%&|^]?=|<<=|>>=)(?!=)\s*(?P<value>[^;,{}]*)")
_PLAIN: Final = re.compile(rf"(?:\(\s*\w+\s*\)\s*)?{_PLACE}\s*\)?")


def divergent_call(code: str, loops: tuple[ReductionLoop, ...]) -> tuple[str, str, int] | None:
    """The first call under such a condition: the call, the condition, and the call's line. `code` has no comments.

    Parameters
    ----------
    code : str
    loops : tuple of ReductionLoop
        Those of the program, whose functions are such calls too.
    """
    calls = _calls(loops)
    if not calls.search(code):
        return None
    places = "|".join([_PLACE, *(rf"\b{name}\b" for name in sorted(_place_names(code)))])
    for found in _IF.finditer(code):
        end = _closed(code, found.end() - 1)
        condition = code[found.end() : end - 1]
        # Anything else in it may be what makes it uniform.
        if not re.fullmatch(
            rf"[\s()]*(?:\(\s*\w+\s*\)\s*)?(?:{places})[\s()]*(?:[=!]=|>)[\s()]*\d+[uU]?[\s()]*", condition
        ):
            continue
        stop = _statement(code, end)
        other = re.match(r"\s*else\b", code[stop:])
        if other:
            stop = _statement(code, stop + other.end())
        call = calls.search(code, end, stop)
        if call:
            return call[0], " ".join(condition.split()), code.count("\n", 0, call.start()) + 1
    return None


def _calls(loops: tuple[ReductionLoop, ...]) -> re.Pattern[str]:
    """Calls that a whole work-group makes."""
    levels = "|".join(level for level in LEVELS if level != "vector")
    names = [
        r"portbar_(?:work_group|device)_(?:reduce|scan_inclusive|scan_exclusive)_\w+",
        r"portbar_(?:work_group|device)_broadcast",
    ]
    names += [rf"{loop.name}_(?:fini|reduce)_(?:{levels})" for loop in loops]
    return re.compile(rf"\b(?:{'|'.join(names)})\b(?=\s*\()")


def _place_names(code: str) -> set[str]:
    """Variables that hold a place and are never given anything else."""
    found: dict[str, bool] = {}
    for match in _SET.finditer(code):
        holds = match["op"] == "=" and _PLAIN.fullmatch(match["value"].strip()) is not None
        found[match["name"]] = found.get(match["name"], True) and holds
    return {name for name, holds in found.items() if holds}


def _closed(code: str, start: int) -> int:
    """Where the bracket that opens at `start` has been closed, or the end."""
    pairs = {"(": ")", "{": "}"}
    opening, depth = code[start], 0
    for at in range(start, len(code)):
        depth += (code[at] == opening) - (code[at] == pairs[opening])
        if depth == 0:
            return at + 1
    return len(code)


def _statement(code: str, start: int) -> int:
    """Where the statement that begins at `start` ends."""
    at = start
    while at < len(code):
        if code[at] == "{":
            return _closed(code, at)
        if code[at] == "(":
            at = _closed(code, at)
            continue
        if code[at] == ";":
            return at + 1
        at += 1
    return at
