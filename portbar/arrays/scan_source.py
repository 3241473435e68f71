"""The OpenCL C of `portbar.scan`: tiles, the contributions of elements, and kernels as `cl_templates/scan` sees them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

from portbar.arrays.request import looks_around
from portbar.arrays.source import Input, OutputText, ReductionJob
from portbar.arrays.statement import Statement, wants_last
from portbar.device.tuning import ScanShape
from portbar.primitives.pieces import Piece
from portbar.primitives.reduction.types import Scalar, Type
from portbar.primitives.scan.look_back import LookBack
from portbar.primitives.strategy import Strategy
from portbar.records.dataclass import dataclass


@dataclass(frozen=True)
class Tile:
    """How one work-group goes through its tile."""

    #: Work-items of a work-group.
    local: int
    #: Runs that a work-item of a group of one goes through side by side; 1 in larger groups.
    runs: int
    #: Elements of a run.
    length: int
    #: Looks at a tile before, until it is computed here.
    polls: int
    #: Bytes that a work-item loads at once, where values are plain numbers.
    load_bytes: int = 1
    #: Whether lanes of NVIDIA's warps work together.
    warps: bool = False
    #: Whether groups take tiles in the order in which they begin: a trip to memory for nothing where all begin at once.
    ordered: bool = True


#: Runs that begin 4 KiB apart would share one set of the cache.
_CPU: Final = Tile(local=1, runs=4, length=1024 + 32, polls=256, load_bytes=64)
#: Kind of device -> tile.
TILES: Final = {
    "cpu": _CPU,
    "narrow": replace(_CPU, load_bytes=32),
    "limited": Tile(local=1, runs=1, length=1024, polls=4),
    "gpu": Tile(local=256, runs=1, length=16, polls=16),
}
#: Most bytes of a value for `warps`.
WARPS_BYTES: Final = 16


def warps_tile(tuned: ScanShape, quad: int, elements: int) -> Tile:
    """The tile of a tuned GPU, for an array with this number of elements and loads of `quad` numbers."""
    few = next((one for one in tuned.few if elements <= one.up_to * one.local * one.rows * quad), None)
    shape = few or tuned
    return Tile(shape.local, runs=1, length=shape.rows * quad, polls=shape.polls, warps=True, ordered=few is None)


def quad_of(kind: Type) -> int:
    """Numbers of one load of 16 bytes, and at most 4."""
    return min(4, 16 // kind.size) if isinstance(kind, Scalar) else 1


@dataclass(frozen=True)
class Elements(OutputText):
    """The C text of what elements contribute to a scan: values, or pairs of a value and whether a segment starts in it."""

    #: Arguments of functions that look at elements.
    arguments: str = ""
    #: As in `ScanJob`.
    segments: str = ""

    @property
    def vectors(self) -> bool:
        """Whether accumulators are vectors, of numbers only."""
        return super().vectors and isinstance(self.output.kind, Scalar)

    @property
    def c(self) -> str:
        """The type of what is combined."""
        return "portbar_pair" if self.segments else super().c

    @property
    def looks_around(self) -> bool:
        """Whether the map looks at other elements than its own."""
        return looks_around(self.output.map, tuple(array.name for array in self.inputs))

    @property
    def parameters(self) -> str:
        """Return the map's parameters: arrays, if it reads neighbours, or else their elements."""
        if not self.looks_around:
            return super().parameters
        # None is restrict: the effect INLINED_STRUCTURES_UNKNOWN.
        arrays = [f"global const {array.c} *{array.name}" for array in self.inputs]
        return ", ".join([*arrays, "const long i"])

    def mapped_at(self, index: str, place: str | None = None) -> str:
        """Return the contribution of the element with an index."""
        if self.segments:
            return f"portbar_mapped({self.arguments}, {index})"
        if not self.looks_around:
            return super().mapped_at(index, place)
        return self.mapped([f"x{array.place}" for array in self.inputs], index)

    @property
    def value(self) -> OutputText:
        """Return the contributions of values alone, with functions of other names."""
        return replace(self, place=1, segments="")

    @property
    def value_at_place(self) -> str:
        """The value of the element at `place`."""
        arrays = [f"x{array.place}" if self.looks_around else f"x{array.place}[place]" for array in self.inputs]
        return f"portbar_map_1({', '.join(arrays)}, (long)place)"

    @property
    def functions(self) -> str:
        """Map, neutral element and combination as C functions."""
        if not self.segments:
            return super().functions
        return f"""{self.value.functions}
/* Pairs: values before a start do not count. */
static inline portbar_pair portbar_neutral_0(void)
{{
    portbar_pair none;
    none.value = portbar_neutral_1();
    none.starts = 0u;
    return none;
}}
static inline portbar_pair portbar_combine_0(const portbar_pair a, const portbar_pair b)
{{
    portbar_pair both = b;
    if (!b.starts) {{
        both.value = portbar_combine_1(a.value, b.value);
        both.starts = a.starts;
    }}
    return both;
}}"""


@dataclass(frozen=True)
class ScanJob(ReductionJob):
    """The text of one scan's kernel."""

    cut: Tile = TILES["cpu"]
    exclusive: bool = False
    #: Whether there is an array of results.
    writes: bool = True
    statement: Statement | None = None
    #: The user's expression that replaces the map, and its name in messages.
    said: tuple[str, str] | tuple[()] = ()
    #: How segments are given: "" (there is one), the type of flags, or "lines" of an axis.
    segments: str = ""
    #: Whether the elements of a line are neighbours.
    near: bool = True
    #: Whether indices take 64 bits.
    wide: bool = False
    #: Whether functions that return structures may be inlined.
    inlines: bool = True

    kernel = "portbar_scan"
    words = ("load", "load_acquire", "store", "store_release", "add_relaxed")

    @cached_property
    def outputs(self) -> tuple[Elements]:
        """The scan's values, which are more than the result's where the kernel needs to know more."""
        names, segments = self.array_names, self.segments
        return (Elements(0, self.wanted[0], self.inputs, self.layout, loops=False, arguments=names, segments=segments),)

    @property
    def result(self) -> str:
        """The type of the scan's values."""
        return self.wanted[0].kind.c

    @property
    def is_plain(self) -> bool:
        """Whether all that is done with a value is to store it."""
        return self.statement is None and not self.segments

    @property
    def targets(self) -> tuple[Input, ...]:
        """The arrays that the output statement writes to."""
        return self.statement.targets if self.statement else ()

    @property
    def wants_last(self) -> bool:
        """Whether the output statement needs the scan's last value."""
        return self.statement is not None and wants_last(self.statement.text)

    @property
    def output_arguments(self) -> str:
        """The arrays of the output statement as arguments."""
        inputs = [f"x{array.place}" for array in self.inputs]
        return ", ".join([*inputs, *(f"y{array.place}" for array in self.targets)])

    @property
    def typedefs(self) -> list[str]:
        """Structures that the kernel's types are made of, inner ones first."""
        arrays = self.arrays + (self.statement.arrays if self.statement else ())
        found = ReductionJob(arrays, self.wanted, self.layout).typedefs
        pair = f"typedef struct {{ {self.result} value; uint starts; }} portbar_pair;"
        return [*found, pair] if self.segments else found

    def expressions(self) -> Iterator[tuple[str, str, str]]:
        """Maps, operators and output statements of the caller."""
        for what, expression, text in super().expressions():
            yield (*self.said, text) if self.said and what.startswith("the map") else (what, expression, text)
        if self.statement is not None and not self.said:
            parameters = self.statement.parameters(self.inputs, self.result)
            head = f"static inline void portbar_output({parameters})\n{{\n"
            end = "\n}\nkernel void portbar_nothing(global int *unused) { }\n"
            yield "the output statement", self.statement.text, f"{head}{self.statement.text}{end}"

    @property
    def quad(self) -> int:
        """Elements of a load of `warps`."""
        return quad_of(self.wanted[0].kind) if self.cut.warps and not self.segments else 1

    @property
    def rows(self) -> int:
        """Such loads of a lane."""
        return self.cut.length // self.quad

    @property
    def loads_quads(self) -> bool:
        """Whether the array is loaded so."""
        kind = self.inputs[0].kind
        return len(self.inputs) == 1 and isinstance(kind, Scalar) and not self.outputs[0].looks_around

    @property
    def tile(self) -> int:
        """Elements of a tile."""
        return self.cut.local * self.cut.runs * self.cut.length

    @property
    def array_names(self) -> str:
        """The arrays as arguments, with what defines segments."""
        extra = {"": [], "lines": ["columns", "inner"]}.get(self.segments, ["segments"])
        return ", ".join([*(f"x{array.place}" for array in self.inputs), *extra])

    @property
    def index(self) -> str:
        """The type of indices that are divided."""
        return "ulong" if self.wide else "uint"

    @property
    def distances(self) -> list[int]:
        """Distances over which the values of a group, or the numbers of a vector, are combined."""
        return [1 << step for step in range((max(self.local, self.vector) - 1).bit_length())]

    def loaded(self, at: str) -> str:
        """The elements of one load, as the result's type."""
        return self.outputs[0].converted(self.inputs[0].load(f"x0 + {at}"))

    def shifted(self, vector: str, before: Sequence[str]) -> str:
        """Return a vector shifted by one, with the value before its first number."""
        moved = [f"{vector}.s{number:x}" for number in range(self.vector - len(before))]
        return f"({self.outputs[0].lane_type})({', '.join([*before, *moved])})"

    @property
    def last_component(self) -> str:
        """The name of a vector's last number."""
        return f"s{self.vector - 1:x}"

    def text(self, strategy: Strategy) -> str:
        """The kernel's OpenCL C."""
        text = super().text(strategy)
        if self.inlines:
            return text
        inline = r"static inline (__attribute__\(\(always_inline\)\) )?"
        return re.sub(inline, "static __attribute__((noinline)) ", text)

    @property
    def pieces(self) -> list[Piece]:
        """Types, functions of elements, and the form's kernel."""
        elements = [*super().pieces[:3], ("scan/host.mako", "elements")]
        if self.cut.warps:
            return [*elements, ("scan/warps.mako", "warps")]
        return [
            *elements,
            ("scan/host.mako", "look_back"),
            ("scan/host.mako", "items" if self.local == 1 else "groups"),
        ]

    @property
    def by(self) -> LookBack:
        """Return the names that look-back uses."""
        space = "" if self.local == 1 else "local "
        return LookBack("portbar", "portbar_item", "portbar_join", space, f"{self.cut.polls}u")
