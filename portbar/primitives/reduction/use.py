"""The parts of portbar/reduction.h that one program uses, read from its source, so that no more is compiled.

Not for rendering it (`portbar.rendering.reduction`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from portbar.errors import BuildError
from portbar.primitives.reduction.argument_types import Declarations
from portbar.primitives.reduction.loops import LEVELS, ReductionLoop
from portbar.primitives.reduction.uniform import divergent_call
from portbar.rendering.source import includes, kernel_names, kernel_text, mentions, without_comments

HEADER: Final = "portbar/reduction.h"

_CALL: Final = re.compile(
    r"\bportbar_(?P<level>sub_group|work_group|device)_"
    r"(?:(?P<what>reduce|scan_inclusive|scan_exclusive)_(?P<op>\w+)|(?P<broadcast>broadcast)\b)"
)
_SIZES: Final = {
    "local_size": re.compile(r"PORTBAR_REDUCTION_LOCAL_SIZE[ \t=]+\(?(\d{1,9})[uU]?\b"),
    "sub_group_size": re.compile(r"PORTBAR_SUB_GROUP_SIZE[ \t=]+\(?(\d{1,9})[uU]?\b"),
}
_SCRATCH: Final = "PORTBAR_REDUCTION_SCRATCH"
_REQUIRED: Final = re.compile(r"\breqd_work_group_size(?:__)?\s*\(([^()]*)\)")
_INTEGER: Final = re.compile(r"[1-9]\d{0,8}[uU]?")
#: A macro for an integer, in a source or among build options.
_NUMBER: Final = re.compile(r"(?:#\s*define\s+|^-D\s*)(\w+)[ \t=]+\(?(\d{1,9}[uU]?)\)?[ \t]*$", re.MULTILINE)
#: Text that may hide a call: names made of pieces, and files that portbar does not read.
_HIDDEN: Final = re.compile(r"##|#\s*include\s*[\"<](?!portbar/)")

#: A function, a macro, a type, or a variable of a name.
_DEFINITION: Final = (
    r"\b\w+[\s*]+{word}\s*\([^;{{}}]*\)\s*\{{|#\s*define\s+{word}\b|\btypedef\b[^;]*\b{word}\s*;|\}}\s*{word}\s*;"
    r"|\b(?!(?:return|else|const|volatile|restrict|global|local|private|constant)\b)\w+[\s*]+{word}\s*[;=,)\[]"
)

Wanted = frozenset[tuple[str, str, str]]


@dataclass(frozen=True)
class Use:
    """The parts that a program uses.

    Attributes
    ----------
    wanted : frozenset of (level, what, operator), or None
        The short forms that it calls; None for all.
    loops : tuple of ReductionLoop
    known : tuple of (operator, types)
        The operators of short forms all of whose values are of these types; "" is for broadcasts.
    local_size, sub_group_size : int or None
        The author's `PORTBAR_REDUCTION_LOCAL_SIZE` and `PORTBAR_SUB_GROUP_SIZE`.
    exact : bool
        Whether every work-group has that local size: the author promises it by `PORTBAR_REDUCTION_EXACT`, or by
        `reqd_work_group_size` of each kernel that reduces, all of them with grids.
    whole_groups : bool
        Whether loops share work among the sub-groups of all work-groups, which must be of one size then.
    gangs : bool
        Whether work-groups combine their values.
    worker_locks : bool
        Whether sub-groups take locks.
    vectors : bool
        Whether loops are reduced over the lanes of sub-groups alone.
    locks : bool
        Whether a work-item takes a lock of a loop.
    """

    wanted: Wanted | None = None
    loops: tuple[ReductionLoop, ...] = ()
    local_size: int | None = None
    sub_group_size: int | None = None
    gangs: bool = True
    worker_locks: bool = False
    vectors: bool = True
    locks: bool = False
    exact: bool = False
    whole_groups: bool = False
    known: tuple[tuple[str, frozenset[str]], ...] = ()


def use_of(source: str, options: Sequence[str] = (), loops: tuple[ReductionLoop, ...] = ()) -> Use:
    """Read what a program uses from its source and build options."""
    code = "\n".join([without_comments(source, keep_strings=False), *options])
    wanted: Wanted | None = None
    if not _HIDDEN.search(without_comments(source)):
        calls = _CALL.finditer(code)
        wanted = frozenset((call["level"], call["what"] or "broadcast", call["op"] or "") for call in calls)
    sizes = {name: int(found[1]) for name, pattern in _SIZES.items() if (found := pattern.search(code))}
    stated = None if wanted is None else _stated_size(source, options)
    local_size = sizes.get("local_size", stated)
    grids = mentions(source, "PORTBAR_GRID_PARAM") or mentions(source, "PORTBAR_REDUCTION_PARAM")
    return Use(
        wanted,
        loops,
        local_size,
        sizes.get("sub_group_size"),
        gangs=grids or wanted is None or any(level == "device" for level, _, _ in wanted),
        vectors=wanted is None
        or any(
            re.search(rf"\b{loop.name}_(?:setup|init|fini|teardown|reduce)_(?:gang_)?vector\b", code) for loop in loops
        )
        or any(level == "sub_group" and op == loop.name for level, _, op in wanted for loop in loops),
        locks=any(mentions(source, f"{loop.name}_lock_{who}") for loop in loops for who in ("gang", "worker")),
        worker_locks=any(mentions(source, f"{loop.name}_lock_worker") for loop in loops),
        exact=re.search(r"\bPORTBAR_REDUCTION_EXACT\b", code) is not None
        or (stated is not None and stated == local_size),
        whole_groups=bool(loops)
        and re.search(r"\bportbar_loop_(?:id|count)_gang_(?:vector|worker)\b", code) is not None,
        known=tuple(_known(without_comments(source, keep_strings=False), tuple(options), wanted or frozenset())),
    )


def _stated_size(source: str, options: Sequence[str]) -> int | None:
    """The work-items of a work-group that `reqd_work_group_size` states, the same for each kernel with reductions, in a grid.

    Without a grid the last work-group may be smaller.
    """
    code = without_comments(source, keep_strings=False)
    texts = [text for name in kernel_names(source) if (text := kernel_text(source, name)).count(_SCRATCH)]
    if not texts or sum(text.count(_SCRATCH) for text in texts) != code.count(_SCRATCH):
        return None
    numbers = dict(_NUMBER.findall("\n".join([code, *options])))
    sizes = set()
    for text in texts:
        head, _, _ = text.partition("{")
        stated = _REQUIRED.search(head)
        parts = [numbers.get(part.strip(), part.strip()) for part in stated[1].split(",")] if stated else []
        if "PORTBAR_GRID_PARAM" not in head or not parts or not all(map(_INTEGER.fullmatch, parts)):
            return None
        sizes.add(math.prod(int(part.rstrip("uU")) for part in parts))
    return sizes.pop() if len(sizes) == 1 else None


def _known(code: str, options: tuple[str, ...], wanted: Wanted) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the operators whose values have types that the source declares, with those types."""
    declarations = Declarations(code, options)
    for op in sorted({op for _, _, op in wanted}):
        calls = [(f"portbar_{level}_{what}_{op}".rstrip("_"), level) for level, what, of in wanted if of == op]
        # The grid precedes the scratch memory and the value.
        kinds = [declarations.of_calls(name, 2 if level == "device" else 1) for name, level in calls]
        if all(kinds):
            yield op, frozenset().union(*(kind for kind in kinds if kind))


def check_source(name: str, source: str, loops: tuple[ReductionLoop, ...]) -> None:
    """Check that a program with declared loops can be what its author means.

    Raises
    ------
    BuildError
        The header is not included, a name of a loop is defined by the source itself, the gang level is used without its
        parameter, headers are in an order in which functions would be missing, or a call is under a condition that cannot hold
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
    """Check that no call is placed where only some work-items of a group make it."""
    alone = _SIZES["local_size"].search(code)
    found = None if alone and int(alone[1]) == 1 else divergent_call(code, loops)
    if found is not None:
        call, condition, line = found
        raise BuildError(
            f"{name}, line {line}: {call} is under `if ({condition})`, which does not hold for a whole work-group, but all "
            "its work-items must make the call: move it out of the if, with the neutral element for the other work-items"
        )
