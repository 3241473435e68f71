"""The OpenCL C of `portbar.sort`: shapes of its work-groups, and kernels as `cl_templates/sort` sees them."""

from __future__ import annotations

from typing import Final

from portbar.arrays.source import Source
from portbar.device.tuning import SortShape
from portbar.primitives.pieces import Piece
from portbar.primitives.scan.look_back import LookBack
from portbar.records.dataclass import dataclass

#: Values of a digit.
BINS: Final = 256
UNSIGNED: Final = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong"}
_INFINITIES: Final = {2: "0x7c00u", 4: "0x7f800000u", 8: "0x7ff0000000000000ul"}


@dataclass(frozen=True)
class TileShape:
    """How one work-group sorts its tile."""

    #: "items": groups of one work-item; "groups": groups that share local memory; "warps": NVIDIA's, whose lanes vote.
    form: str
    #: Work-items of a group.
    local: int
    #: Keys of a work-item.
    items: int
    #: Looks at a tile before, until it is counted here.
    polls: int
    #: Most keys that one group sorts by itself, in one launch.
    small: int = 0
    #: Tiles before that are looked at together, by `warps`.
    back: int = 1


_CPU: Final = TileShape("items", local=1, items=1 << 17, polls=256, small=1 << 14)
#: Kind of device -> shape. A GPU that was tuned has its own: `warps_shape`.
SHAPES: Final = {
    "cpu": _CPU,
    "narrow": _CPU,
    "limited": TileShape("items", local=1, items=1 << 12, polls=4, small=1 << 12),
    "gpu": TileShape("groups", local=256, items=8, polls=64),
}

#: Bytes of local memory that values may take there.
_STAGE_BYTES: Final = 30 * 1024


def warps_shape(tuned: SortShape, value_bytes: int) -> TileShape:
    """The shape of a tuned GPU, for what moves."""
    items = tuned.items if value_bytes else tuned.items_alone
    if value_bytes == 8:
        items = min(items, _STAGE_BYTES // (8 * tuned.local))
    return TileShape("warps", tuned.local, items, tuned.polls, small=tuned.local * items, back=tuned.back)


def element_of(size: int) -> str:
    """A C type with this number of bytes."""
    if size in UNSIGNED:
        return UNSIGNED[size]
    unit, count = ("uint", size // 4) if size % 4 == 0 else ("uchar", size)
    return f"struct {{ {unit} part[{count}]; }}"


@dataclass(frozen=True)
class SortJob(Source):
    """The text of a sort's kernels."""

    #: NumPy's letter for what keys are: u, i, f.
    kind: str
    key_bytes: int
    #: 0 where there are no values.
    value_bytes: int
    #: Whether values may be the keys' places, as for `argsort`.
    numbers: bool
    descending: bool
    digits: int
    shape: TileShape
    kernel: str = "portbar_sort_pass"

    words = ("load", "load_acquire", "store", "store_release", "add_relaxed")

    @property
    def key_type(self) -> str:
        """The unsigned type of a key's bits."""
        return UNSIGNED[self.key_bytes]

    @property
    def value_type(self) -> str:
        """A type of a value's size."""
        return element_of(self.value_bytes) if self.value_bytes else ""

    @property
    def sign(self) -> str:
        """The sign's bit."""
        return f"{1 << 8 * self.key_bytes - 1:#x}{'ul' if self.key_bytes == 8 else 'u'}"

    @property
    def infinity(self) -> str:
        """The bits of infinity."""
        return _INFINITIES[self.key_bytes]

    @property
    def local(self) -> int:
        """Work-items of a group."""
        return self.shape.local

    @property
    def tile(self) -> int:
        """Keys of a tile."""
        return self.shape.local * self.shape.items

    @property
    def bins_each(self) -> int:
        """Values of a digit that a work-item sums."""
        return -(-BINS // self.local)

    @property
    def count_local(self) -> int:
        """Work-items of a group that counts."""
        return {"items": 1, "groups": self.local, "warps": 512}[self.shape.form]

    @property
    def count_loads(self) -> int:
        """Keys that a counting work-item of a larger group has in flight."""
        return 32 // self.key_bytes if self.shape.form == "warps" else 1

    @property
    def line(self) -> int:
        """Keys of a line of a CPU's cache."""
        return 64 // self.key_bytes

    @property
    def stages_values(self) -> bool:
        """Whether values wait where keys do, until they are written in order."""
        return self.value_bytes in UNSIGNED

    @property
    def stage_words(self) -> int:
        """Words of 64 bits for a tile's keys or values."""
        widest = max(self.key_bytes, 4 if self.value_bytes else 0, self.value_bytes if self.stages_values else 0)
        return -(-self.tile * widest // 8)

    @property
    def by(self) -> LookBack:
        """Return the names that the text shared with scans uses."""
        return LookBack("portbar", "uint", "", "", f"{self.shape.polls}u")

    @property
    def pieces(self) -> list[Piece]:
        """Types, and one kernel, or those that count digits and sort by one."""
        kernels = "small" if self.kernel == "portbar_sort_small" else "kernels"
        return [("sort/host.mako", "types"), (f"sort/{self.shape.form}.mako", kernels)]
