"""The parts of portbar/reduction.h that one program uses, read from its source, so that no more is compiled."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from portbar.primitives.reduction.loops import ReductionLoop
from portbar.primitives.reduction.types import SCALARS
from portbar.reading.conditions import defined_names
from portbar.reading.doubt import doubtful_words, is_conditional
from portbar.reading.found import Facts, ReadKernel
from portbar.reading.options import words_of
from portbar.reading.settings import read_settings
from portbar.reading.words import hides_names, words
from portbar.records.dataclass import dataclass

#: Kinds of the functions that combine values by an operator.
SHORT_FORMS: Final = ("reduce", "scan_inclusive", "scan_exclusive")
_CALL: Final = re.compile(
    r"portbar_(?P<level>sub_group|work_group|device)_"
    rf"(?:(?P<what>{'|'.join(SHORT_FORMS)})_(?P<op>\w+)|(?P<broadcast>broadcast))"
)
HEADER: Final = "portbar/reduction.h"
#: The author's own sizes. A program's header refuses those that are not read.
_LOCAL_SIZE: Final = "PORTBAR_REDUCTION_LOCAL_SIZE"
_SUB_GROUP_SIZE: Final = "PORTBAR_SUB_GROUP_SIZE"
_EXACT: Final = "PORTBAR_REDUCTION_EXACT"
_SETTINGS: Final = (_LOCAL_SIZE, _SUB_GROUP_SIZE, _EXACT)
_TYPES: Final = frozenset(scalar.c for scalar in SCALARS)

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
    #: Whether some sub-groups of a work-group call a function of sub-groups without the others.
    single: bool = False
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
    source: str,
    options: Sequence[str] = (),
    loops: tuple[ReductionLoop, ...] = (),
    facts: Facts | None = None,
    *,
    is_program: bool = True,
) -> Use:
    """Read what a program uses from its source and build options.

    `facts` are those of the tree; without them the text decides: everything that it may use. Other sources than programs are
    compiled with other options, and maybe in parts: only sizes that hold for each part and any options are then read.
    """
    # One text may hold several options.
    options = tuple(words_of(options))
    names = words(source, options) | (facts.calls.keys() if facts is not None else set())
    is_fixed = is_program or not (is_conditional(source) or any(option.startswith("-D") for option in options))
    is_certain = facts is not None and facts.is_whole and is_fixed and not doubtful_words(source, options)
    is_hidden = hides_names(source, options) and not is_certain
    wanted: Wanted | None = None
    if not is_hidden:
        calls = filter(None, map(_CALL.fullmatch, names))
        wanted = frozenset((call["level"], call["what"] or "broadcast", call["op"] or "") for call in calls)
    settings = read_settings(_SETTINGS, HEADER, source, options)
    own_size, is_promised = settings[_LOCAL_SIZE], settings[_EXACT].is_defined is True
    stated = _stated_size(facts.kernels.values()) if facts is not None and is_certain else None
    local_size = own_size.value if own_size.is_defined is not False else stated
    if not is_program and {_LOCAL_SIZE, _EXACT} & defined_names(source, options):
        # The compiler reads the author's own macros in the parts that define them. Others have the usual size.
        local_size = stated = None
        is_promised = False

    def uses(*patterns: str) -> bool:
        return any(re.fullmatch(pattern, name) for pattern in patterns for name in names)

    worker_locks = uses(*(f"{loop.name}_lock_worker" for loop in loops))
    return Use(
        wanted,
        loops,
        local_size,
        settings[_SUB_GROUP_SIZE].value,
        gangs=wanted is None
        or uses("PORTBAR_GRID_PARAM", "PORTBAR_REDUCTION_PARAM")
        or any(level == "device" for level, _, _ in wanted),
        vectors=wanted is None
        or uses(*(f"{loop.name}_(?:setup|init|fini|teardown|reduce)_(?:gang_)?vector" for loop in loops))
        or any(("sub_group", what, loop.name) in wanted for what in SHORT_FORMS for loop in loops),
        locks=worker_locks or uses(*(f"{loop.name}_lock_gang" for loop in loops)),
        worker_locks=worker_locks,
        exact=is_promised or (stated is not None and stated == local_size),
        whole_groups=bool(loops) and (is_hidden or uses("portbar_loop_(?:id|count)_gang_(?:vector|worker)")),
        known=tuple(_known(facts.calls, wanted or frozenset())) if facts is not None and is_certain else (),
        checked=is_program,
    )


def _stated_size(kernels: Iterable[ReadKernel]) -> int | None:
    """The work-items of a work-group that `reqd_work_group_size` states, the same for each kernel with reductions, in a grid.

    Without a grid the last work-group may be smaller.
    """
    reducing = [kernel for kernel in kernels if "portbar_scratch" in kernel.types]
    if not all("portbar_grid_param" in kernel.parameters for kernel in reducing):
        return None
    sizes = {math.prod(kernel.required) if kernel.required else None for kernel in reducing}
    return sizes.pop() if len(sizes) == 1 else None


def _known(calls: Mapping[str, frozenset[str]], wanted: Wanted) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the operators whose values all have scalar types, with those types."""
    for op in sorted({op for _, _, op in wanted}):
        names = [f"portbar_{level}_{what}_{op}".rstrip("_") for level, what, of in wanted if of == op]
        kinds = frozenset().union(*(calls.get(name, ()) for name in names))
        if kinds and kinds <= _TYPES:
            yield op, kinds
