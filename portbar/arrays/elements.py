"""The contributions of an array's elements to a scan, as OpenCL C: values, or pairs if the scan has segments."""

from __future__ import annotations

from dataclasses import dataclass, replace

from portbar.arrays.request import looks_around
from portbar.arrays.source import Lanes


@dataclass(frozen=True)
class Elements(Lanes):
    """The C text of what the elements of an array contribute to a scan: values, or pairs of a value and whether it is a start.

    Attributes
    ----------
    arguments : str
        What functions that look at elements are handed.
    segments : str
        As for `ScanJob`.
    """

    arguments: str = ""
    segments: str = ""

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
    def value(self) -> Lanes:
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
