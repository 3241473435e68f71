"""The parts of portbar/reduction.h that one program uses, read from its source, so that no more is compiled."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from portbar.primitives.reduction.argument_types import Declarations
from portbar.primitives.reduction.loops import ReductionLoop
from portbar.rendering.source import hides_names, kernel_names, kernel_text, mentions, spliced, without_comments

#: Kinds of the functions that combine values by an operator.
SHORT_FORMS: Final = ("reduce", "scan_inclusive", "scan_exclusive")
_CALL: Final = re.compile(
    r"\bportbar_(?P<level>sub_group|work_group|device)_"
    rf"(?:(?P<what>{'|'.join(SHORT_FORMS)})_(?P<op>\w+)|(?P<broadcast>broadcast)\b)"
)
#: A macro's definition, in a source or among build options, and a number that is all that it stands for.
_DEFINED: Final = r"(?:#[ \t]*define[ \t]+|^-D\s*)"
_WHOLE: Final = r"[ \t=]+\(?(\d{1,9})[uU]?\)?[ \t]*$"
#: The author's own sizes. A program's header refuses what these do not read.
LOCAL_SIZE: Final = re.compile(rf"{_DEFINED}PORTBAR_REDUCTION_LOCAL_SIZE{_WHOLE}", re.MULTILINE)
_SUB_GROUP_SIZE: Final = re.compile(rf"{_DEFINED}PORTBAR_SUB_GROUP_SIZE{_WHOLE}", re.MULTILINE)
_EXACT: Final = re.compile(rf"{_DEFINED}PORTBAR_REDUCTION_EXACT\b", re.MULTILINE)
_SCRATCH: Final = "PORTBAR_REDUCTION_SCRATCH"
_REQUIRED: Final = re.compile(r"\breqd_work_group_size(?:__)?\s*\(([^()]*)\)")
_INTEGER: Final = re.compile(r"[1-9]\d{0,8}[uU]?")
#: A macro for an integer, in a source or among build options.
_NUMBER: Final = re.compile(rf"{_DEFINED}(\w+)(?:[ \t=]+\(?(\d{{1,9}}[uU]?)\)?[ \t]*$)?", re.MULTILINE)

Wanted = frozenset[tuple[str, str, str]]


@dataclass(frozen=True)
class Use:
    """The parts that a program uses."""

    #: The short forms that it calls; None for all.
    wanted: Wanted | None = None
    loops: tuple[ReductionLoop, ...] = ()
    #: The author's `PORTBAR_REDUCTION_LOCAL_SIZE` and `PORTBAR_SUB_GROUP_SIZE`.
    local_size: int | None = None
    sub_group_size: int | None = None
    #: Whether work-groups combine their values.
    gangs: bool = True
    #: Whether sub-groups take locks.
    worker_locks: bool = False
    #: Whether loops are reduced over the lanes of sub-groups alone.
    vectors: bool = True
    #: Whether a work-item takes a lock of a loop.
    locks: bool = False
    #: Whether every work-group has that local size: the author promises it by `PORTBAR_REDUCTION_EXACT`, or by
    #: `reqd_work_group_size` of each kernel that reduces, all of them with grids.
    exact: bool = False
    #: Whether loops share work among the sub-groups of all work-groups, which must be of one size then.
    whole_groups: bool = False
    #: The operators of short forms all of whose values are of these types; "" is for broadcasts.
    known: tuple[tuple[str, frozenset[str]], ...] = ()
    #: Whether launches are checked against these sizes, as portbar's are; the compiler must then read the same ones.
    checked: bool = False


def use_of(
    source: str, options: Sequence[str] = (), loops: tuple[ReductionLoop, ...] = (), *, is_program: bool = True
) -> Use:
    """Read what a program uses from its source and build options.

    Other sources are compiled with other options, and maybe in parts: only sizes that hold for each part and any options
    are then read.
    """
    own = without_comments(source, keep_strings=False)
    # One text may hold several options.
    options = [word for option in options for word in option.split()]
    code = "\n".join([own, *options])
    wanted: Wanted | None = None
    stated: int | None = None
    if not hides_names(spliced(without_comments(source))):
        calls = _CALL.finditer(code)
        wanted = frozenset((call["level"], call["what"] or "broadcast", call["op"] or "") for call in calls)
        stated = _stated_size(source, options, is_program=is_program)

    def uses(pattern: str) -> bool:
        return re.search(rf"\b{pattern}\b", code) is not None

    own_size, is_promised = LOCAL_SIZE.search(code), _EXACT.search(code) is not None
    local_size = int(own_size[1]) if own_size else stated
    if not is_program and (own_size or is_promised):
        # The compiler reads the author's own macros in the parts that define them. Others have the usual size.
        local_size = stated = None
        is_promised = False
    worker_locks = any(mentions(source, f"{loop.name}_lock_worker") for loop in loops)
    return Use(
        wanted,
        loops,
        local_size,
        int(found[1]) if (found := _SUB_GROUP_SIZE.search(code)) else None,
        gangs=wanted is None
        or any(mentions(source, name) for name in ("PORTBAR_GRID_PARAM", "PORTBAR_REDUCTION_PARAM"))
        or any(level == "device" for level, _, _ in wanted),
        vectors=wanted is None
        or any(uses(f"{loop.name}_(?:setup|init|fini|teardown|reduce)_(?:gang_)?vector") for loop in loops)
        or any(("sub_group", what, loop.name) in wanted for what in SHORT_FORMS for loop in loops),
        locks=worker_locks or any(mentions(source, f"{loop.name}_lock_gang") for loop in loops),
        worker_locks=worker_locks,
        exact=is_promised or (stated is not None and stated == local_size),
        whole_groups=bool(loops) and uses("portbar_loop_(?:id|count)_gang_(?:vector|worker)"),
        known=tuple(_known(own, tuple(options), wanted or frozenset())),
        checked=is_program,
    )


def _stated_size(source: str, options: Sequence[str], *, is_program: bool) -> int | None:
    """The work-items of a work-group that `reqd_work_group_size` states, the same for each kernel with reductions, in a grid.

    Without a grid the last work-group may be smaller. Unless the source is a program's, its macros may be others.
    """
    code = without_comments(source, keep_strings=False)
    texts = [text for name in kernel_names(source) if (text := kernel_text(source, name)).count(_SCRATCH)]
    if not texts or sum(text.count(_SCRATCH) for text in texts) != code.count(_SCRATCH):
        return None
    values: dict[str, set[str]] = {}
    for name, number in _NUMBER.findall("\n".join([code, *options])):
        values.setdefault(name, set()).add(number)
    # Which of several definitions holds is the preprocessor's to say.
    numbers = {name: found.pop() if len(found) == 1 and is_program else "" for name, found in values.items()}
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
