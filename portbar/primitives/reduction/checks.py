"""Checks that a program's source can mean what it says about reductions."""

from __future__ import annotations

import re
from typing import Final

from portbar.errors import BuildError
from portbar.primitives.reduction.loops import LEVELS, ReductionLoop
from portbar.primitives.reduction.use import LOCAL_SIZE, SHORT_FORMS
from portbar.rendering.source import (
    UnreadableError,
    closed,
    includes,
    kernel_names,
    line_of,
    mentions,
    without_comments,
)

HEADER: Final = "portbar/reduction.h"

#: A function, a macro, a type, or a variable of a name.
_DEFINITION: Final = (
    r"\b\w+[\s*]+{word}\s*\([^;{{}}]*\)\s*\{{|#\s*define\s+{word}\b|\btypedef\b[^;]*\b{word}\s*;|\}}\s*{word}\s*;"
    r"|\b(?!(?:return|else|const|volatile|restrict|global|local|private|constant)\b)\w+[\s*]+{word}\s*[;=,)\[]"
)

#: The position of a work-item in its work-group or sub-group.
_PLACE: Final = (
    r"(?:get_local_id\s*\(\s*\d\s*\)|(?:get_local_linear_id|get_sub_group_local_id|portbar_reduction_id"
    r"|portbar_sub_group_local_id)\s*\(\s*\))"
)
_IF: Final = re.compile(r"\bif\s*\(")
#: A variable and what is assigned to it.
_SET: Final = re.compile(r"\b(?P<name>[A-Za-z_]\w*)\s*(?P<op>[-+*/%&|^]?=|<<=|>>=)(?!=)\s*(?P<value>[^;,{}]*)")
_PLAIN: Final = re.compile(rf"(?:\(\s*\w+\s*\)\s*)?{_PLACE}\s*\)?")


def check_source(name: str, source: str, loops: tuple[ReductionLoop, ...]) -> None:
    """Check that a program with declared loops can be what its author means.

    `BuildError` if the header is not included, a name of a loop is defined by the source itself, the gang level is used without
    its parameter, headers are in an order in which functions would be missing, or a call is under a condition that cannot hold
    for all work-items.
    """
    found = [include.name for include in includes(source)]
    if loops and HEADER not in found:
        raise BuildError(
            f"{name}: reductions= declares {loops[0].name!r}, but the source does not include the header; add #include "
            f'"{HEADER}"'
        )
    if HEADER not in found:
        return
    barrier = "portbar/device_barrier.h"
    if barrier in found and found.index(barrier) > found.index(HEADER):
        raise BuildError(f'{name}: #include "{barrier}" must come before #include "{HEADER}", which uses it')
    code = without_comments(source, keep_strings=False)
    _check_uniform(name, code, loops)
    carried = mentions(source, "PORTBAR_REDUCTION_PARAM") or mentions(source, "PORTBAR_GRID_PARAM")
    kernels = set(kernel_names(source))
    for loop in loops:
        for taken in sorted(loop.generated_names):
            if taken in kernels or re.search(_DEFINITION.format(word=re.escape(taken)), code):
                raise BuildError(
                    f"{name}: {taken!r} is defined in the source, but reduction loop {loop.name!r} defines a function or type "
                    "of that name too; rename one"
                )
        steps = "setup|init|fini|teardown|reduce|lock|unlock"
        levels = "|".join(level for level in LEVELS if level.startswith("gang"))
        call = re.search(rf"\b{loop.name}_(?:{steps})_(?:{levels})\b", code)
        if call and not carried:
            raise BuildError(
                f"{name}: {call[0]} needs memory for the values of work-groups: make PORTBAR_REDUCTION_PARAM the kernel's "
                "first parameter, or PORTBAR_GRID_PARAM in a kernel with a grid"
            )


def _check_uniform(name: str, code: str, loops: tuple[ReductionLoop, ...]) -> None:
    """Check that no call is placed where only some work-items of a group make it, which no device reports and some hang in.

    Only what cannot be meant is found: an `if` that picks one work-item, or all but some first ones, by its place in its
    work-group or sub-group, around a call that the whole group makes. Conditions on global ids may hold for whole groups.
    """
    alone = LOCAL_SIZE.search(code)
    calls = _calls(loops)
    if (alone and int(alone[1]) == 1) or not calls.search(code):
        return
    places = "|".join([_PLACE, *(rf"\b{place}\b" for place in sorted(_place_names(code)))])
    # Anything else in a condition may be what makes it uniform.
    picks = re.compile(rf"[\s()]*(?:\(\s*\w+\s*\)\s*)?(?:{places})[\s()]*(?:[=!]=|>)[\s()]*\d+[uU]?[\s()]*")
    for found in _IF.finditer(code):
        end, stop = _branches(code, found.end() - 1)
        condition = code[found.end() : end - 1]
        call = calls.search(code, end, stop) if picks.fullmatch(condition) else None
        if call:
            raise BuildError(
                f"{name}, line {line_of(code, call.start())}: {call[0]} is under `if ({' '.join(condition.split())})`, which "
                "does not hold for a whole work-group, but all its work-items must make the call: move it out of the if, with "
                "the neutral element for the other work-items"
            )


def _calls(loops: tuple[ReductionLoop, ...]) -> re.Pattern[str]:
    """Calls that a whole work-group makes."""
    levels = "|".join(level for level in LEVELS if level != "vector")
    names = [
        rf"portbar_(?:work_group|device)_(?:{'|'.join(SHORT_FORMS)})_\w+",
        r"portbar_(?:work_group|device)_broadcast",
        *(rf"{loop.name}_(?:fini|reduce)_(?:{levels})" for loop in loops),
    ]
    return re.compile(rf"\b(?:{'|'.join(names)})\b(?=\s*\()")


def _place_names(code: str) -> set[str]:
    """Variables that hold a place and are never given anything else."""
    found: dict[str, bool] = {}
    for match in _SET.finditer(code):
        holds = match["op"] == "=" and _PLAIN.fullmatch(match["value"].strip()) is not None
        found[match["name"]] = found.get(match["name"], True) and holds
    return {name for name, holds in found.items() if holds}


def _branches(code: str, start: int) -> tuple[int, int]:
    """Where the condition in the bracket at `start` ends, and where the branches of its `if` do; 0 for unreadable text."""
    try:
        end = closed(code, start)
        stop = _statement(code, end)
        other = re.compile(r"\s*else\b").match(code, stop)
        return end, _statement(code, other.end()) if other else stop
    except UnreadableError:
        return 0, 0


def _statement(code: str, start: int) -> int:
    """Where the statement that begins at `start` ends."""
    at = start
    while at < len(code) and code[at] != ";":
        if code[at] == "{":
            return closed(code, at)
        at = closed(code, at) if code[at] == "(" else at + 1
    return min(at + 1, len(code))
