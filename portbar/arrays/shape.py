"""Launch shapes of `portbar.reduce`: how many work-groups of how many work-items, and what each of them has in flight.

`SHAPES` has one for each kind of device. A GPU that was tuned has its own: `portbar.device.tuning.ReduceShape`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Final

from portbar.backends.profile import DeviceProfile
from portbar.device import quirks
from portbar.errors import UnsupportedFeatureError
from portbar.primitives.strategy import Strategy
from portbar.records.dataclass import dataclass


@dataclass(frozen=True)
class Shape:
    """How one launch goes through an array."""

    #: Work-items of a work-group, a power of two.
    local: int
    #: Bytes of the widest element times the elements that one load takes.
    load_bytes: int
    #: Loads that a work-item has in flight.
    loads: int
    #: Sets of accumulators, one accumulator an element of a load each; a divisor of `loads`.
    sets: int
    #: Most work-groups for each compute unit.
    per_unit: int
    #: Tiles (what a work-group loads at once) that a work-group takes at least, if the array has that many.
    least_tiles: int = 1
    #: Whether tiles are dealt to the work-groups in turn; else each work-group has one run of them.
    strided: bool = True


#: Work-groups are threads: few of one work-item, whose loop is made of vectors, each on its own part of the array.
_CPU: Final = Shape(local=1, load_bytes=64, loads=4, sets=4, per_unit=4, least_tiles=256, strided=False)
#: Kind of device -> shape. `python -m benchmarks.reductions --tune` measures others.
SHAPES: Final = {
    "cpu": _CPU,
    # CPUs whose built-in functions lose half of longer vectors.
    "narrow": replace(_CPU, load_bytes=32),
    # Devices that cut loops short, or whose compiler takes minutes for long bodies of loops.
    "limited": Shape(local=1, load_bytes=4, loads=1, sets=1, per_unit=8, least_tiles=256, strided=False),
    # GPUs that were not tuned, and none like them.
    "gpu": Shape(local=256, load_bytes=16, loads=4, sets=1, per_unit=4, strided=False),
}

#: Replacements for the table's values, for measurements and tests: a shape, and how many work-groups share a row; None changes
#: nothing.
TRIAL: ContextVar[tuple[Shape | None, int | None] | None] = ContextVar("TRIAL", default=None)


@contextmanager
def trial(shape: Shape | None = None, groups: int | None = None) -> Iterator[None]:
    """Within this, `portbar.reduce` takes another launch shape."""
    token = TRIAL.set((shape, groups))
    try:
        yield
    finally:
        TRIAL.reset(token)


#: Accumulators of the fixed shape, for elements of 16 bytes; twice as many for 8 bytes, and so on.
FIXED_ITEMS: Final = 256
#: Most parts that the fixed shape cuts an array into, and how many rows of accumulators each has at least.
FIXED_PARTS: Final = 1024
FIXED_LEAST_ROWS: Final = 4

_MOST_ELEMENTS: Final = 16


def kind_of(profile: DeviceProfile) -> str:
    """The entry of `SHAPES` that suits a device."""
    if profile.loop_limit is not None or quirks.has_effect(quirks.LONG_BODIES_SLOW, profile.facts):
        return "limited"
    kind = profile.units.kind
    return "narrow" if kind == "cpu" and quirks.has_effect(quirks.WIDE_VECTORS_LOST, profile.facts) else kind


def by_warps(profile: DeviceProfile, strategy: Strategy) -> bool:
    """Whether the device is a GPU whose work-items exchange values by the instructions of NVIDIA's warps."""
    return kind_of(profile) == "gpu" and "bar.warp.sync" in strategy.units.instructions


def shape_for(profile: DeviceProfile, strategy: Strategy, elements: int) -> Shape:
    """Return the shape for an array with this number of elements."""
    kind, tuned = kind_of(profile), strategy.tuning.arrays.reduce
    if kind != "gpu" or not tuned:
        return SHAPES[kind]
    best = next((one for one in tuned if elements <= one.up_to), tuned[-1])
    return Shape(best.local, best.load_bytes, best.loads, sets=1, per_unit=best.per_unit, strided=best.strided)


@dataclass(frozen=True)
class SizedShape:
    """A shape with the numbers that follow from an element's size."""

    shape: Shape
    #: Elements of a load: a power of two up to 16.
    vector: int

    @property
    def tile(self) -> int:
        """Elements that a work-group loads at once."""
        return self.shape.local * self.shape.loads * self.vector


def layout_of(shape: Shape, item_bytes: int, *, most: int = _MOST_ELEMENTS) -> SizedShape:
    """Return the layout for elements of `item_bytes`, at most `most` to a load."""
    vector = max(1, min(most, _MOST_ELEMENTS, shape.load_bytes // item_bytes))
    return SizedShape(shape, 1 << vector.bit_length() - 1)


def fixed_layout(shape: Shape, item_bytes: int, *, most: int = _MOST_ELEMENTS) -> SizedShape:
    """A layout whose lanes depend on the size of an element only."""
    local = shape.local
    if local & local - 1 or not 1 <= local <= FIXED_ITEMS:
        raise UnsupportedFeatureError(
            f"reproducible sums need a local size that is a power of two up to {FIXED_ITEMS}, not {local}"
        )
    lanes = FIXED_ITEMS * max(1, min(_MOST_ELEMENTS, 16 // item_bytes))
    vector = layout_of(shape, item_bytes, most=most).vector
    vector = min(vector, lanes // local)
    sets = lanes // (local * vector)
    loads = sets * max(1, shape.loads // sets)
    return SizedShape(replace(shape, sets=sets, loads=loads, strided=False), vector)


def fixed_part(elements: int, item_bytes: int) -> int:
    """Elements of each part of the fixed shape: of all but the last, which may have fewer. Depends on nothing else."""
    lanes = FIXED_ITEMS * max(1, min(_MOST_ELEMENTS, 16 // item_bytes))
    rows = max(1, -(-elements // lanes))
    parts = max(1, min(FIXED_PARTS, rows // FIXED_LEAST_ROWS))
    return -(-rows // parts) * lanes


def cut(layout: SizedShape, elements: int, rows: int, units: int, limit: int | None) -> tuple[int, int]:
    """Deal `elements` to as many work-groups as pay: return their number, and the elements in each one's run.

    `rows` such reductions share the device's compute units, `units`; it ends a kernel's loops after `limit` iterations.
    """
    tile = layout.tile
    tiles = -(-elements // tile)
    most = max(1, layout.shape.per_unit * units // max(1, rows))
    groups = max(1, min(most, tiles // layout.shape.least_tiles))
    if limit is not None:
        # Half for the elements, the rest for later steps; a tile may be read element by element.
        each = max(1, limit // 2 - tile)
        groups = max(groups, -(-tiles // each))
    part = -(-max(1, tiles) // groups) * tile
    if not layout.shape.strided:
        groups = max(1, -(-elements // part))
    return groups, part
