"""The parts of portbar/reduction.h for one device and one program: the templates' pieces, their names, and memory.

Not for the text of the templates, nor for reading a program (`portbar.primitives.reduction.use`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from portbar.device import quirks
from portbar.errors import UnsupportedFeatureError
from portbar.primitives.layout import FAULTS, LINE_WORDS, TEAM_WORDS
from portbar.primitives.pieces import Header, Piece
from portbar.primitives.reduction import code
from portbar.primitives.reduction.forms import Form, short_forms
from portbar.primitives.reduction.loops import ReductionLoop
from portbar.primitives.reduction.operators import short_form_operators
from portbar.primitives.reduction.strategies import USUAL_LOCAL_SIZE, VARIANTS, Lanes
from portbar.primitives.reduction.types import SCALARS, Scalar
from portbar.primitives.reduction.use import Use, Wanted

if TYPE_CHECKING:
    from portbar.primitives.strategy import Strategy

#: Launches without a grid that have locks, counters and faults of their own before the host clears those words.
LAUNCHES: Final = 64

_SCANS: Final = tuple(
    (level, what) for level in ("sub_group", "work_group") for what in ("scan_inclusive", "scan_exclusive")
)


def _everything() -> Wanted:
    """All that `wanted` can hold."""
    levels = ("sub_group", "work_group", "device")
    what = [("broadcast", "")]
    for op in short_form_operators():
        what += [(one, op.name) for one in ("reduce", "scan_inclusive", "scan_exclusive")]
    return frozenset((level, one, op) for level in levels for one, op in what)


def scalars_of(strategy: Strategy) -> tuple[Scalar, ...]:
    """The scalar types that a device can reduce, whether or not it has atomics on them."""
    table = strategy.capabilities.atomics_table
    return tuple(
        scalar
        for scalar in SCALARS
        if scalar.c in table.types or (scalar.c in {"long", "ulong", "double"} and scalar.c in table.refused)
    )


@dataclass(frozen=True)
class Place:
    """Where a loop's words lie in the state of kernels without a grid: its lock and its counters among each launch's words,
    and the words of values that a work-group has before this loop's.
    """

    lock: int
    counters: int
    before: int


def places(loops: tuple[ReductionLoop, ...]) -> tuple[dict[str, Place], int, int]:
    """Place of each loop, words of each launch's own, and words of values for each work-group."""
    found: dict[str, Place] = {}
    counters = (1 + len(loops)) * LINE_WORDS
    values = 0
    for number, loop in enumerate(loops):
        found[loop.name] = Place((1 + number) * LINE_WORDS, counters, values)
        counters += loop.uses
        values += loop.uses * -(-loop.struct.size // 4) if loop.deterministic else 0
        values = -(-values // 4) * 4
    return found, -(-counters // LINE_WORDS) * LINE_WORDS, values


def grid_words(use: Use) -> int:
    """Words that each work-group of a grid leaves its value in, in each of the two areas."""
    sizes = [8, *(loop.struct.size for loop in use.loops)]
    return -(-max(sizes) // 16) * 4


def grid_extra_words(use: Use, capacity: int) -> int:
    """Words that reductions add to the state of a grid of `capacity` work-groups."""
    return len(use.loops) * LINE_WORDS + 2 * capacity * grid_words(use)


def lanes_of(strategy: Strategy, use: Use) -> Lanes:
    """The lane level's variant for a program, whose author may ask for sub-groups of another size than the device's."""
    lanes = VARIANTS[strategy.reduction.value]
    return lanes if use.sub_group_size is None or lanes.takes(use.sub_group_size) else VARIANTS["tree"]


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


def _slot_unit(loops: tuple[ReductionLoop, ...]) -> str:
    """A type with the strictest alignment of all values."""
    alignment = max([8, *(loop.struct.alignment for loop in loops)])
    return "ulong" if alignment == 8 else f"ulong{alignment // 8}"


def _alignment_room(forms: tuple[Form, ...], loops: tuple[ReductionLoop, ...]) -> int:
    """Bytes of a slot: the largest value's, rounded up to the strictest alignment."""
    alignment = max([8, *(loop.struct.alignment for loop in loops)])
    size = max([8, *(form.size for form in forms)])
    return -(-size // alignment) * alignment


@dataclass(frozen=True)
class Areas:
    """The parts of the scratch memory, as in `cl_templates/reduction/base.mako`.

    Attributes
    ----------
    lanes : Lanes
        The lane level's variant.
    own_places : bool
        Whether there is a place for each work-item, for scans, and for sub-groups by local memory.
    group_slots : bool
        Whether work-groups are reduced.
    parts : bool
        Whether sub-groups rather than work-items leave a value for that.
    """

    lanes: Lanes
    own_places: bool
    group_slots: bool
    parts: bool

    def slots(self, local_size: int, sub_group_size: int) -> int:
        """Values that there is room for."""
        if self.lanes.slots is not None:
            return self.lanes.slots(local_size, sub_group_size)
        grouped = local_size // 8 + 1 if self.parts else local_size * self.group_slots
        return 1 + local_size * self.own_places + grouped


def local_size_limit(strategy: Strategy, use: Use) -> int:
    """Most work-items of a work-group for which there is scratch memory.

    Raises
    ------
    UnsupportedFeatureError
        The device has too little local memory for what the author asks for, or for one sub-group.
    """
    return int(context(strategy, use)["limit"])


def scratch_bytes(strategy: Strategy, use: Use) -> int:
    """Bytes of local memory that PORTBAR_REDUCTION_SCRATCH takes in a kernel of a program.

    Raises
    ------
    UnsupportedFeatureError
        As `context`.
    """
    return int(context(strategy, use)["scratch_bytes"])


def _limit(strategy: Strategy, use: Use, areas: Areas, sub_group_size: int, slot: int) -> int:
    means = strategy.capabilities.reduction_means
    limit = use.local_size or min(means.local_size, USUAL_LOCAL_SIZE)
    while (needed := slot * areas.slots(limit, sub_group_size)) > means.local_memory:
        if use.local_size is not None or limit <= 8:
            raise UnsupportedFeatureError(
                f"reductions of {limit} work-items with values of {slot} bytes need {needed} bytes of local memory, and the "
                f"device has {means.local_memory}: #define a smaller PORTBAR_REDUCTION_LOCAL_SIZE (the maximum work-group "
                'size) before #include "portbar/reduction.h", or reduce fewer or smaller values in one loop'
            )
        limit //= 2
    return limit


def _refuse_locks(strategy: Strategy, use: Use) -> None:
    """Refuse locks where the runtime makes barriers of fences: one work-item that waits would be waited for by its group."""
    locked = [
        loop.name
        for loop in use.loops
        if use.gangs
        and not loop.deterministic
        and code.atomic_lines(loop, strategy.capabilities.atomics_table.types) is None
    ]
    if strategy.has(quirks.FENCES_ARE_BARRIERS) and (use.locks or locked):
        raise UnsupportedFeatureError(
            "this device's runtime implements memory fences as barriers, so a single work-item cannot take a lock"
            + (
                f", and deterministic=False of reduction loop {locked[0]!r} needs one, because the device lacks atomics"
                if locked
                else ""
            )
            + "; use deterministic=True, which needs no lock"
        )


def context(strategy: Strategy, use: Use) -> dict[str, Any]:
    """The names that the templates may use.

    Raises
    ------
    UnsupportedFeatureError
        The device lacks a type, or local memory.
    """
    lanes = lanes_of(strategy, use)
    means = strategy.capabilities.reduction_means
    serial = means.serial and lanes.may_fold
    by_sub_groups = lanes.joins_sub_groups and not serial
    scalars = scalars_of(strategy)
    offered = {scalar.c for scalar in scalars}
    for name in sorted(code.scalar_names(use.loops) - offered):
        loop = next(loop.name for loop in use.loops if name in code.scalar_names((loop,)))
        why = strategy.capabilities.atomics_table.refused.get(name, "")
        raise UnsupportedFeatureError(
            f"reduction loop {loop!r} has values of type {name}, which the device does not support"
            + (f" ({why})" if why else "")
        )
    _refuse_locks(strategy, use)
    everything = _everything()
    wanted = everything if use.wanted is None else use.wanted & everything
    wanted |= frozenset(
        (level, what, loop.name)
        for loop in use.loops
        for level in (*(("sub_group",) if use.vectors else ()), "work_group", *(("device",) if use.gangs else ()))
        for what in ("reduce", "scan_inclusive", "scan_exclusive")
        if what == "reduce" or use.wanted is None or (level, what, loop.name) in use.wanted
    )
    if use.loops and use.gangs:
        wanted |= {("work_group", "broadcast", "")}
    wanted = _closure(wanted, by_sub_groups)
    forms = (
        *_known_forms(use, short_forms(scalars, frozenset(op for _, _, op in wanted))),
        *(code.form_of(loop, keeps=strategy.has(quirks.COPIES_SHARED)) for loop in use.loops),
    )
    kinds = dict.fromkeys((scalar.c, scalar.size) for scalar in scalars if _is_needed(scalar.c, use, wanted, forms))
    kinds |= dict.fromkeys((form.kind, form.size) for form in forms)
    slot = _alignment_room(forms, use.loops)
    size = use.sub_group_size or (8 if serial else 32)
    by_memory = [form for form in forms if not lanes.has_built_ins or not form.native]
    areas = Areas(
        lanes,
        own_places=any(
            (level, what, form.op) in wanted for form in by_memory for level, what in (("sub_group", "reduce"), *_SCANS)
        )
        or any((level, what, form.op) in wanted for form in forms for level, what in _SCANS if level == "work_group")
        or ("sub_group", "broadcast", "") in wanted,
        group_slots=any(("work_group", "reduce", form.op) in wanted for form in forms),
        parts=by_sub_groups,
    )
    where, header_words, _ = places(use.loops)
    limit, locks = _limit(strategy, use, areas, size, slot), len(use.loops) if use.worker_locks else 0
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
        "scratch_bytes": slot * areas.slots(limit, size) + 4 * locks,
        "own_places": areas.own_places,
        "group_slots": areas.group_slots,
        "sub_group_size": size,
        "slot_unit": _slot_unit(use.loops),
        "slot_units": slot // max([8, *(loop.struct.alignment for loop in use.loops)]),
        "redux": strategy.capabilities.compute_capability >= 80,
        "wanted": wanted,
        "forms": forms,
        "kinds": tuple(kinds),
        "loops": use.loops,
        "structs": tuple(code.structs(use.loops)),
        "indexed": code.indexed(use.loops),
        "gangs": use.gangs,
        "vectors": use.vectors,
        "worker_locks": locks,
        "places": where,
        "value_words": LAUNCHES * header_words,
        "grid_words": grid_words(use),
        "team_words": TEAM_WORDS,
        "faults": FAULTS,
        "polls": strategy.capabilities.wait_polls,
        "atomics": strategy.capabilities.atomics_table.types,
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
    effects = ("all_work", "ask_id", *(("keep", "join", "group_fence") if use.loops else ()))
    found = [("base", "sizes")]
    if use.loops:
        found.append(("loops", "types"))
    found += [("base", "scratch"), ("lanes", "ids")]
    if use.loops:
        found.append(("loops", "indices"))
    found += [("lanes", "operators"), ("lanes", "functions")]
    if use.gangs:
        found += [("device", "values"), ("device", "device")]
    if use.loops:
        found += [("gangs", "positions"), ("loops", "ids"), ("loops", "members"), ("loops", "levels")]
        if use.gangs:
            found += [("gangs", "locks"), ("gangs", "finish"), ("loops", "gang_levels")]
        if use.worker_locks:
            found.append(("gangs", "sub_group_locks"))
    found.append(("base", "entry"))
    return [
        *(("backend/effects.mako", name) for name in effects),
        *((f"reduction/{template}.mako", name) for template, name in found),
    ]


def header(use: Use) -> Header:
    """The header with what a program uses of it."""
    return Header(
        "reduction",
        "Reductions, scans and broadcasts over sub-groups, work-groups and grids.",
        lambda _: pieces(use),
        lambda strategy: context(strategy, use),
        ("atomics",),
        is_local=True,
        needs_source="is rendered for the kernels that use it, because all its functions take 20,000 lines: name their files "
        "with portbar export --source, or pass their text to portbar.render as source",
    )
