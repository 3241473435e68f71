"""The parts of portbar/reduction.h that one program uses, read from its source, so that no more is compiled.

Not for rendering it (`portbar.rendering.reduction`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from portbar.errors import BuildError
from portbar.primitives.reduction.argument_types import Declarations
from portbar.primitives.reduction.loops import LEVELS, ReductionLoop
from portbar.primitives.reduction.uniform import divergent_call
from portbar.text.source import includes, kernel_names, mentions, without_comments

HEADER: Final = "portbar/reduction.h"

_CALL: Final = re.compile(
    r"\bportbar_(?P<level>sub_group|work_group|device)_"
    r"(?:(?P<what>reduce|scan_inclusive|scan_exclusive)_(?P<op>\w+)|(?P<broadcast>broadcast)\b)"
)
_SIZES: Final = {
    "local_size": re.compile(r"PORTBAR_REDUCTION_LOCAL_SIZE[ \t=]+\(?(\d{1,9})[uU]?\b"),
    "sub_group_size": re.compile(r"PORTBAR_SUB_GROUP_SIZE[ \t=]+\(?(\d{1,9})[uU]?\b"),
}
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
        Whether the author promises by `PORTBAR_REDUCTION_EXACT` that every work-group has that local size.
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
    grids = mentions(source, "PORTBAR_GRID_PARAM") or mentions(source, "PORTBAR_REDUCTION_PARAM")
    return Use(
        wanted,
        loops,
        sizes.get("local_size"),
        sizes.get("sub_group_size"),
        gangs=grids or wanted is None or any(level == "device" for level, _, _ in wanted),
        vectors=wanted is None
        or any(
            re.search(rf"\b{loop.name}_(?:setup|init|fini|teardown|reduce)_(?:gang_)?vector\b", code) for loop in loops
        )
        or any(level == "sub_group" and op == loop.name for level, _, op in wanted for loop in loops),
        locks=any(mentions(source, f"{loop.name}_lock_{who}") for loop in loops for who in ("gang", "worker")),
        worker_locks=any(mentions(source, f"{loop.name}_lock_worker") for loop in loops),
        exact=re.search(r"\bPORTBAR_REDUCTION_EXACT\b", code) is not None,
        whole_groups=bool(loops)
        and re.search(r"\bportbar_loop_(?:id|count)_gang_(?:vector|worker)\b", code) is not None,
        known=tuple(_known(without_comments(source, keep_strings=False), tuple(options), wanted or frozenset())),
    )


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
