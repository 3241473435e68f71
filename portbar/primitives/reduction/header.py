"""The parts of portbar/reduction.h for one device and one program: the templates' pieces, their names, and memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from portbar.device import quirks
from portbar.errors import UnsupportedFeatureError
from portbar.primitives.layout import FAULTS, LINE_WORDS
from portbar.primitives.pieces import Area, Header, LocalWords, Piece, Preparation
from portbar.primitives.reduction import code
from portbar.primitives.reduction.declared import declared
from portbar.primitives.reduction.forms import Form, form_of, short_forms
from portbar.primitives.reduction.loops import ReductionLoop
from portbar.primitives.reduction.operators import short_form_operators
from portbar.primitives.reduction.selection import USUAL_LOCAL_SIZE, VARIANTS, Lanes
from portbar.primitives.reduction.types import SCALARS, Scalar
from portbar.primitives.reduction.use import SHORT_FORMS, Use, Wanted
from portbar.primitives.strategy import Strategy
from portbar.records.dataclass import dataclass

#: Launches without a grid that have locks, counters and faults of their own before the host clears those words.
LAUNCHES: Final = 64

#: Slices of a reduction over a grid of many groups, of each of which the last group to come combines the values.
GRID_SLICES: Final = 64

#: Most work-groups whose values each of them reads after a device barrier, and fewest of a slice where there are more.
GRID_FLAT: Final = 1024
GRID_SLICE: Final = 48

_LEVELS: Final = ("sub_group", "work_group", "device")


def _everything() -> Wanted:
    """All that `wanted` can hold."""
    what = [("broadcast", ""), *((form, op.name) for op in short_form_operators() for form in SHORT_FORMS)]
    return frozenset((level, form, op) for level in _LEVELS for form, op in what)


def scalars_of(strategy: Strategy) -> tuple[Scalar, ...]:
    """The scalar types that a device can reduce, whether or not it has atomics on them."""
    table = strategy.capabilities.atomics_table
    return tuple(
        scalar
        for scalar in SCALARS
        if scalar.c in table.types or (scalar.c in {"long", "ulong", "double"} and scalar.c in table.refused)
    )


@dataclass(frozen=True)
class LoopWords:
    """Where a loop's words lie in the state of kernels without a grid: its lock and its counters among each launch's words,
    and the words of values that a work-group has before this loop's.
    """

    lock: int
    counters: int
    before: int


def places(loops: tuple[ReductionLoop, ...]) -> tuple[dict[str, LoopWords], int, int]:
    """Place of each loop, words of each launch's own, and words of values for each work-group."""
    found: dict[str, LoopWords] = {}
    counters = (1 + len(loops)) * LINE_WORDS
    values = 0
    for number, loop in enumerate(loops):
        found[loop.name] = LoopWords((1 + number) * LINE_WORDS, counters, values)
        counters += loop.uses
        values += loop.uses * -(-loop.struct.size // 4) if loop.deterministic else 0
        values = -(-values // 4) * 4
    return found, -(-counters // LINE_WORDS) * LINE_WORDS, values


def grid_words(use: Use) -> int:
    """Words that each work-group of a grid leaves its value in, in each of the two areas."""
    sizes = [8, *(loop.struct.size for loop in use.loops)]
    return -(-max(sizes) // 16) * 4


def areas(use: Use) -> tuple[Area, ...]:
    """Words of a grid: arrivals in slices, locks of loops, and the values of all groups, twice."""
    return (
        Area("SLICES", GRID_SLICES * LINE_WORDS),
        *([Area("LOOP_LOCKS", len(use.loops) * LINE_WORDS)] if use.loops else []),
        Area("VALUES", 2 * grid_words(use), each=1),
    )


#: Sets the counters of slices.
_PREPARATION: Final = Preparation(
    "portbar_slices_prepare",
    ("reduction/device.mako", "prepare"),
    "SLICES",
    "portbar_grid_slice_is_last",
    (("grid_slices", GRID_SLICES), ("grid_flat", GRID_FLAT), ("grid_slice", GRID_SLICE)),
)


def lanes_of(strategy: Strategy, use: Use) -> Lanes:
    """The lane level's variant for a program, whose author may ask for sub-groups of another size than the device's."""
    lanes = VARIANTS[strategy.reduction.value]
    return lanes if use.sub_group_size is None or lanes.takes(use.sub_group_size) else VARIANTS["tree"]


def sub_group_size(lanes: Lanes, use: Use, usual: int = 32) -> int:
    """Work-items of a sub-group where portbar makes it, which is single where it may call alone and could not otherwise."""
    return use.sub_group_size or (1 if use.single and lanes.meets(usual) else usual)


def _closure(wanted: Wanted, by_sub_groups: bool) -> Wanted:
    """The functions that others are made of, with those.

    Work-groups are made of sub-groups where those have means of their own.
    """
    found = set(wanted)
    for level, what, op in wanted:
        if level == "device" and what != "broadcast":
            found |= {("work_group", what, op), ("work_group", "reduce", op)}
    for level, what, op in tuple(found):
        if by_sub_groups and level == "work_group" and what != "broadcast":
            found.add(("sub_group", what, op))
    return frozenset(found)


def local_size_limit(strategy: Strategy, use: Use) -> int:
    """Most work-items of a work-group for which there is scratch memory; raises as `context` does."""
    return int(context(strategy, use)["limit"])


def scratch_bytes(strategy: Strategy, use: Use) -> int:
    """Bytes of local memory that PORTBAR_REDUCTION_SCRATCH takes in a kernel of a program; raises as `context` does."""
    return int(context(strategy, use)["scratch_bytes"])


def _limit(strategy: Strategy, use: Use, slot: int, slots: Callable[[int], int]) -> int:
    """As `local_size_limit`: `slot` is bytes of a slot, `slots` how many of them are needed for a local size."""
    means = strategy.capabilities.reduction
    limit = use.local_size or min(means.local_size, USUAL_LOCAL_SIZE)
    while (needed := slot * slots(limit)) > means.local_memory:
        if use.local_size is not None or limit <= 8:
            raise UnsupportedFeatureError(
                f"reductions of {limit} work-items with values of {slot} bytes need {needed} bytes of local memory, and the "
                f"device has {means.local_memory}: #define a smaller PORTBAR_REDUCTION_LOCAL_SIZE (the maximum work-group "
                'size) before #include "portbar/reduction.h", or reduce fewer or smaller values in one loop'
            )
        limit //= 2
    return limit


def _refuse(strategy: Strategy, use: Use) -> None:
    """Refuse types that the device lacks, structures that its compiler cuts, and locks where barriers are made of fences.

    There all work-items of a group would wait for the one that waits for a lock.
    """
    table = strategy.capabilities.atomics_table
    offered = {scalar.c for scalar in scalars_of(strategy)}
    for name in sorted(code.scalar_names(use.loops) - offered):
        loop = next(loop.name for loop in use.loops if name in code.scalar_names((loop,)))
        why = f" ({table.refused[name]})" if name in table.refused else ""
        raise UnsupportedFeatureError(
            f"reduction loop {loop!r} has values of type {name}, which the device does not support{why}"
        )
    if strategy.has(quirks.BYTES_FIRST_LOSE_OTHERS):
        for cut in use.loops:
            (name, kind), *others = cut.struct.members
            if others and isinstance(kind, Scalar) and kind.bits == 8:
                raise UnsupportedFeatureError(
                    f"this device's compiler loses the fields of reduction loop {cut.name!r} after {name!r}, which has 8 "
                    "bits: declare a field of a wider type first"
                )
    if not strategy.has(quirks.FENCES_ARE_BARRIERS):
        return
    loose = [loop for loop in use.loops if use.gangs and not loop.deterministic]
    locked = next((loop.name for loop in loose if code.atomic_lines(loop, table.types) is None), None)
    if use.locks or locked is not None:
        needs = f", and deterministic=False of reduction loop {locked!r} needs one, because the device lacks atomics"
        raise UnsupportedFeatureError(
            "this device's runtime implements memory fences as barriers, so a single work-item cannot take a lock"
            f"{'' if locked is None else needs}; use deterministic=True, which needs no lock"
        )


def _wanted(use: Use, *, by_sub_groups: bool) -> Wanted:
    """The functions that a program and its loops need, with those that these are made of."""
    everything = _everything()
    wanted = everything if use.wanted is None else use.wanted & everything
    levels = [level for level in _LEVELS if {"sub_group": use.vectors, "device": use.gangs}.get(level, True)]
    wanted |= frozenset(
        (level, what, loop.name)
        for loop in use.loops
        for level in levels
        for what in SHORT_FORMS
        if what == "reduce" or use.wanted is None or (level, what, loop.name) in use.wanted
    )
    if use.loops and use.gangs:
        wanted |= {("work_group", "broadcast", "")}
    return _closure(wanted, by_sub_groups)


def context(strategy: Strategy, use: Use) -> dict[str, Any]:
    """The names that the templates may use.

    `UnsupportedFeatureError` if the device lacks a type, locks, or local memory for what the author asks for or for one
    sub-group.
    """
    _refuse(strategy, use)
    lanes = lanes_of(strategy, use)
    capabilities = strategy.capabilities
    means = capabilities.reduction
    serial = strategy.units.folds_serially and lanes.may_fold
    by_sub_groups = lanes.joins_sub_groups and not serial
    wanted = _wanted(use, by_sub_groups=by_sub_groups)
    scalars = scalars_of(strategy)
    forms = (
        *_known_forms(use, short_forms(scalars, frozenset(op for _, _, op in wanted))),
        *(form_of(loop, keeps=strategy.has(quirks.COPIES_SHARED)) for loop in use.loops),
    )
    kinds = dict.fromkeys((scalar.c, scalar.size) for scalar in scalars if _is_needed(scalar.c, use, wanted, forms))
    kinds |= dict.fromkeys((form.kind, form.size) for form in forms)
    usual_size = 8 if serial else 32
    size = sub_group_size(lanes, use, usual_size)
    # Those of other files of an exported header's source may be larger.
    single = lanes.is_virtual and size == 1 and use.checked

    # A slot holds the largest value, at the strictest alignment. Scans have a place for each work-item, and so have
    # sub-groups that combine values by local memory.
    alignment = max([8, *(loop.struct.alignment for loop in use.loops)])
    slot = -(-max([8, *(form.size for form in forms)]) // alignment) * alignment
    by_memory = [form for form in forms if not lanes.has_built_ins or not form.native]
    own_places = (
        (not single and ("sub_group", "broadcast", "") in wanted)
        or any(not single and ("sub_group", what, form.op) in wanted for form in by_memory for what in SHORT_FORMS)
        or any(("work_group", what, form.op) in wanted for form in forms for what in SHORT_FORMS if what != "reduce")
    )
    group_slots = any(("work_group", "reduce", form.op) in wanted for form in forms)

    def slots(local_size: int) -> int:
        """Values that there is room for, as in `cl_templates/reduction/base.mako`."""
        if lanes.slots is not None:
            return lanes.slots(local_size, size)
        return 1 + local_size * own_places + (local_size // 8 + 1 if by_sub_groups else local_size * group_slots)

    where, header_words, _ = places(use.loops)
    limit, locks = _limit(strategy, use, slot, slots), len(use.loops) if use.worker_locks else 0
    asserted = {"PORTBAR_REDUCTION_LOCAL_SIZE": limit, **({"PORTBAR_SUB_GROUP_SIZE": size} if lanes.is_virtual else {})}
    return {
        "lanes": lanes.name,
        "template": lanes.template,
        "virtual": lanes.is_virtual,
        "serial": serial,
        "widest": 32 if strategy.has(quirks.WIDE_VECTORS_LOST) else 64,
        "inlines": means.inlines,
        "by_sub_groups": by_sub_groups,
        "collectives": means.collectives and lanes.may_fold,
        "limit": limit,
        "exact": use.exact,
        "asserted": asserted if use.checked else {},
        "scratch_bytes": slot * slots(limit) + 4 * locks,
        "own_places": own_places,
        "group_slots": group_slots,
        # The author's own is defined where it holds: other files of an exported header's source have the usual one.
        "sub_group_size": size if use.checked or use.single else usual_size,
        "single": single,
        "slot_unit": "ulong" if alignment == 8 else f"ulong{alignment // 8}",
        "slot_units": slot // alignment,
        "redux": "redux.sync" in strategy.units.instructions,
        "wanted": wanted,
        "forms": forms,
        "kinds": tuple(kinds),
        "loops": use.loops,
        "structs": code.structs(use.loops),
        "indexed": code.indexed(use.loops),
        "gangs": use.gangs,
        "vectors": use.vectors,
        "worker_locks": locks,
        "places": where,
        "value_words": LAUNCHES * header_words,
        "grid_words": grid_words(use),
        "faults": FAULTS,
        "polls": capabilities.wait_polls,
        "atomics": capabilities.atomics_table.types,
        "workarounds": strategy.workarounds,
    }


def _known_forms(use: Use, forms: tuple[Form, ...]) -> list[Form]:
    """Return the forms for types that the source declares; all of an operator that does not support each of those types.

    The compiler then names them all in its message, and converts no value.
    """
    takes = {form.op: frozenset(other.kind for other in forms if other.op == form.op) for form in forms}
    known = {op: kinds for op, kinds in use.known if kinds <= takes.get(op, frozenset())}
    return [form for form in forms if form.kind in known.get(form.op, takes[form.op])]


def _is_needed(kind: str, use: Use, wanted: Wanted, forms: tuple[Form, ...]) -> bool:
    """Whether a scalar type has any function; the gangs broadcast a uint."""
    broadcast = any(what == "broadcast" for _, what, _ in wanted)
    known = {} if use.loops else dict(use.known)
    return (broadcast and kind in known.get("", {kind})) or any(form.kind == kind for form in forms)


def pieces(use: Use) -> list[Piece]:
    """The defs that the header is made of, in order."""
    loops, gangs = bool(use.loops), use.gangs
    effects = ("all_work", "ask_id", *(("keep", "join", "group_fence") if loops else ()))
    listed = (
        ("base", "sizes", True),
        ("loops", "types", loops),
        ("base", "scratch", True),
        ("lanes", "ids", True),
        ("loops", "indices", loops),
        ("lanes", "operators", True),
        ("lanes", "functions", True),
        ("device", "values", gangs),
        ("device", "device", gangs),
        ("gangs", "positions", loops),
        ("loops", "ids", loops),
        ("loops", "members", loops),
        ("loops", "levels", loops),
        ("gangs", "locks", loops and gangs),
        ("gangs", "finish", loops and gangs),
        ("loops", "gang_levels", loops and gangs),
        ("gangs", "sub_group_locks", loops and use.worker_locks),
        ("base", "entry", True),
    )
    return [
        *(("backend/effects.mako", name) for name in effects),
        *((f"reduction/{template}.mako", name) for template, name, is_part in listed if is_part),
    ]


def header(use: Use) -> Header:
    """The header with what a program uses of it."""
    return Header(
        "reduction",
        "Reductions, scans and broadcasts over sub-groups, work-groups and grids.",
        lambda _: pieces(use),
        lambda strategy: context(strategy, use),
        ("atomics",),
        areas=areas(use),
        local=(LocalWords("LAST"),),
        preparation=_PREPARATION,
        is_local=True,
        needs_source="is rendered for the kernels that use it, because all its functions take 25,000 lines: name their files "
        "with portbar export --source, or pass their text to portbar.render as source",
        page="reductions.md",
        declared=declared(use.loops),
        of=header,
    )


HEADER: Final = header(Use())
