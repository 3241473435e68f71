"""The OpenCL C of calls on arrays: their inputs and outputs, and a reduction as `cl_templates/reduction/host.mako` sees it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np

from portbar.arrays.shape import FIXED_PARTS, SizedShape
from portbar.primitives.atomics import word_context, word_pieces
from portbar.primitives.pieces import Piece
from portbar.primitives.reduction.code import combined, neutral, struct_lines
from portbar.primitives.reduction.operators import BuiltIn, Operator
from portbar.primitives.reduction.types import (
    Array,
    Complex,
    Indexed,
    Scalar,
    Struct,
    Type,
    Vector,
    each_part,
    structs_in,
)
from portbar.primitives.strategy import Strategy
from portbar.records.dataclass import dataclass
from portbar.rendering.templates import render_def

_TEMPLATE: Final = "reduction/host.mako"
_DIGITS: Final = "0123456789abcdef"

#: Functions that take wide vectors are inlined, so how a processor without such registers would pass them does not matter.
_QUIET: Final = """\
#ifdef __has_warning
#if __has_warning("-Wpsabi")
#pragma clang diagnostic ignored "-Wpsabi"
#endif
#endif
"""


_WHOLE: Final = "portbar_whole"
#: A call with a floating-point number is ambiguous, and an error; smaller integers are promoted to int.
_WHOLE_TEXT: Final = "\n".join(
    [
        "/* Takes whole numbers only. */",
        *(
            f"static inline __attribute__((overloadable)) {kind} {_WHOLE}(const {kind} x) {{ return x; }}"
            for kind in ("int", "uint", "long", "ulong")
        ),
    ]
)


def without_whole(text: str) -> str:
    """A text of a map without the check that it gives whole numbers."""
    return re.sub(rf"\b{_WHOLE}\((?!const)", "(", text)


@dataclass(frozen=True)
class Input:
    """One array: its place among the arrays, its name in map expressions, and how its elements are loaded."""

    place: int
    name: str
    kind: Type
    vector: int = 1
    aligned: bool = False

    @property
    def c(self) -> str:
        """The element's type."""
        return self.kind.c

    @property
    def _parts(self) -> tuple[str, int]:
        """Type and number of what an element is made of."""
        part = self.kind.part.c if isinstance(self.kind, Complex | Vector) else self.kind.c
        return part, _room_of(self.kind)

    @property
    def load_type(self) -> str:
        """The type of one load."""
        if self.vector == 1:
            return self.kind.c
        part, count = self._parts
        return f"{part}{count * self.vector}"

    def load(self, place: str) -> str:
        """The elements at a pointer."""
        if self.vector == 1:
            return f"*({place})"
        if self.aligned:
            return f"*(global const {self.load_type} *)({place})"
        part, count = self._parts
        return f"vload{count * self.vector}(0, (global const {part} *)({place}))"

    def element(self, loaded: str, which: int) -> str:
        """One element of a load."""
        if self.vector == 1:
            return loaded
        count = self._parts[1]
        shown = self.kind.count if isinstance(self.kind, Vector) else count
        return f"{loaded}.s{_DIGITS[which * count : which * count + shown]}"


def most_elements(kind: Type) -> int:
    """Elements that one load may take."""
    if isinstance(kind, Struct | Indexed | Array):
        return 1
    return 16 // _room_of(kind)


@dataclass(frozen=True)
class Output:
    """One result: its type and operator, and what each element contributes."""

    name: str
    kind: Type
    op: BuiltIn | Operator
    map: str | None = None
    neutral: str | None = None
    #: Whether the kernel is given an initial value.
    start: bool = False
    #: Whether the result is an array of bool, whose elements have one byte as computed.
    is_bool: bool = False
    #: Whether the map must give whole numbers: the result has the type of the array by default.
    is_whole: bool = False

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the array of results."""
        return np.dtype(np.bool_) if self.is_bool else self.kind.dtype


@dataclass(frozen=True)
class OutputText:
    """The C text of one output in one kernel."""

    place: int
    output: Output
    inputs: tuple[Input, ...]
    layout: SizedShape
    loops: bool

    @property
    def c(self) -> str:
        """The result's type."""
        return self.output.kind.c

    @property
    def vectors(self) -> bool:
        """Whether accumulators are OpenCL C's vectors, which a CPU's compiler need not find by itself."""
        # Of vectors, as many as a load takes: the effect THREES_ENDLESS.
        op, kind = self.output.op, self.output.kind
        return (
            self.layout.shape.local == 1
            and self.layout.vector > 1
            and self.output.map is None
            and isinstance(op, BuiltIn)
            and not op.finds_index
            # True in vectors may become 255: the effect TRUTH_IS_255.
            and not op.is_logical
            and isinstance(kind, Scalar | Vector)
            and isinstance(self.inputs[0].kind, type(kind))
        )

    @property
    def _part(self) -> Scalar:
        """The type of the numbers in an accumulator that is a vector."""
        kind = self.output.kind
        assert isinstance(kind, Scalar | Vector)
        return kind if isinstance(kind, Scalar) else kind.part

    @property
    def _each(self) -> int:
        """Numbers of one value there."""
        return _room_of(self.output.kind)

    @property
    def _wide(self) -> Vector:
        return Vector(self._part, self.layout.vector * self._each)

    @property
    def lane_type(self) -> str:
        """The type of an accumulator."""
        return self._wide.c if self.vectors else self.c

    @property
    def lane_neutral(self) -> str:
        """Return the start value of an accumulator."""
        if self.vectors:
            assert isinstance(self.output.op, BuiltIn)
            return f"({self.lane_type})({self.output.op.neutral(self._part)})"
        return f"portbar_neutral_{self.place}()"

    @property
    def lanes(self) -> list[str]:
        """Names of the accumulators where they are not in arrays."""
        sets = range(self.layout.shape.sets)
        if self.vectors:
            return [self._set(s) for s in sets]
        return [self._lane(s, c) for s in sets for c in range(self.layout.vector)]

    def _set(self, which: int | str) -> str:
        return f"a{self.place}[{which}]" if self.loops else f"a{self.place}_{which}"

    def _lane(self, which_set: int | str, component: int) -> str:
        if self.vectors:
            shown = self.output.kind.count if isinstance(self.output.kind, Vector) else 1
            start = component * self._each
            return f"{self._set(which_set)}.s{_DIGITS[start : start + shown]}"
        if self.loops:
            return f"a{self.place}[{which_set} * {self.layout.vector}u + {component}u]"
        return f"{self._set(which_set)}_{component}"

    @property
    def parameters(self) -> str:
        """Return a map's parameters: an element of each array, and its index."""
        return ", ".join([*(f"const {array.c} {array.name}" for array in self.inputs), "const long i"])

    def mapped(self, elements: Sequence[str], index: str) -> str:
        """Return the contribution of elements with an index."""
        return f"portbar_map_{self.place}({', '.join(elements)}, (long)(first + {index}))"

    def mapped_at(self, index: str, place: str | None = None) -> str:
        """Return the contribution of the element `place` elements after the start."""
        return self.mapped([f"x{array.place}[{place or index}]" for array in self.inputs], index)

    def converted(self, loaded: str) -> str:
        """Return one load of the first array as accumulators."""
        return loaded if self.inputs[0].kind == self.output.kind else f"convert_{self.lane_type}({loaded})"

    def take(self, which_set: int | str, at: str, loaded: Sequence[str]) -> Iterator[str]:
        """Statements that combine the elements of one load into the accumulators of one set."""
        if self.vectors:
            whole = self._set(which_set)
            yield f"{whole} = portbar_lanes_{self.place}({whole}, {self.converted(loaded[0])});"
            return
        for c in range(self.layout.vector):
            lane = self._lane(which_set, c)
            elements = [array.element(one, c) for array, one in zip(self.inputs, loaded, strict=True)]
            yield f"{lane} = portbar_combine_{self.place}({lane}, {self.mapped(elements, f'{at} + {c}u')});"

    def take_one(self, which_set: int | str, component: int, at: str) -> str:
        """A statement that combines one element into one accumulator."""
        lane = self._lane(which_set, component)
        return f"{lane} = portbar_combine_{self.place}({lane}, {self.mapped_at(at)});"

    def fold(self, into: str, which_set: str | None) -> str:
        """A statement that combines the accumulators of one set (None: of all), neighbours first."""
        sets = [which_set] if which_set is not None else list(map(str, range(self.layout.shape.sets)))
        if self.vectors:
            wholes = _paired(f"portbar_lanes_{self.place}", [self._set(s) for s in sets])
            return f"{into} = portbar_fold_{self.place}({wholes});"
        lanes = [self._lane(s, c) for s in sets for c in range(self.layout.vector)]
        return f"{into} = {_paired(f'portbar_combine_{self.place}', lanes)};"

    @property
    def functions(self) -> str:
        """Map, neutral element and combination of this output as C functions."""
        place, kind, op = self.place, self.output.kind, self.output.op
        two = f"(const {kind.c} a, const {kind.c} b)"
        parts = [
            f"/* An element's contribution to {self.output.name}, the neutral element, and two values combined. */",
            _function(f"{kind.c} portbar_map_{place}({self.parameters})", _contribution(self.output, self.inputs)),
            _function(f"{kind.c} portbar_neutral_{place}(void)", neutral(kind, op, self.output.neutral)),
            _function(f"{kind.c} portbar_combine_{place}{two}", combined(kind, op)),
        ]
        if self.vectors:
            assert isinstance(op, BuiltIn)
            wide = self._wide
            two = f"(const {wide.c} a, const {wide.c} b)"
            folded = _folded(wide, self._each, kind, op, place)
            parts += [
                _function(f"{wide.c} portbar_lanes_{place}{two}", f"    return {op.combine(wide, 'a', 'b')};"),
                _function(f"{kind.c} portbar_fold_{place}(const {wide.c} v{wide.count})", folded),
            ]
        return "\n".join(parts)


def _function(head: str, body: str) -> str:
    return f"static inline {head}\n{{\n{body}\n}}"


def _paired(function: str, values: list[str]) -> str:
    while len(values) > 1:
        pairs = [f"{function}({a}, {b})" for a, b in zip(values[::2], values[1::2], strict=False)]
        values = pairs + ([values[-1]] if len(values) % 2 else [])
    return values[0]


def _room_of(kind: Type) -> int:
    """Numbers of a value in memory."""
    if isinstance(kind, Vector):
        return 4 if kind.count == 3 else kind.count
    return 2 if isinstance(kind, Complex) else 1


def _folded(wide: Vector, each: int, kind: Type, op: BuiltIn, place: int) -> str:
    """The body of a function that combines the values of a vector, `each` numbers a value, neighbours first."""

    def values(count: int, first: int, shown: int) -> str:
        """Every second value of a vector."""
        starts = range(first * each, count, 2 * each)
        return f"v{count}.s{''.join(_DIGITS[start : start + shown] for start in starts)}"

    lines, count = [], wide.count
    while count > 2 * each:
        half = Vector(wide.part, count // 2)
        both = op.combine(half, values(count, 0, each), values(count, 1, each))
        lines.append(f"    const {half.c} v{half.count} = {both};")
        count //= 2
    shown = kind.count if isinstance(kind, Vector) else 1
    return "\n".join(
        [*lines, f"    return portbar_combine_{place}({values(count, 0, shown)}, {values(count, 1, shown)});"]
    )


def converts(element: Type, kind: Type, op: BuiltIn | Operator) -> bool:
    """Whether elements of a type can be combined as another without a map."""
    if isinstance(kind, Indexed):
        kind = kind.part
    if isinstance(kind, Scalar):
        return isinstance(element, Scalar) or (isinstance(element, Complex) and _is_logical(op))
    if isinstance(kind, Complex | Vector):
        same_count = isinstance(element, Vector) and isinstance(kind, Vector) and element.count == kind.count
        same_kind = isinstance(element, Complex) and isinstance(kind, Complex)
        return isinstance(element, Scalar) or same_count or same_kind or element.c == kind.c
    return element == kind


def _is_logical(op: BuiltIn | Operator) -> bool:
    return isinstance(op, BuiltIn) and op.is_logical


def _contribution(output: Output, inputs: Sequence[Input]) -> str:
    """The body of a function that returns what an element contributes."""
    kind, op, element = output.kind, output.op, inputs[0].kind
    if output.map is None:
        if isinstance(kind, Struct) and isinstance(op, BuiltIn) and op.is_logical:
            each = [
                f"    {head}one{path} = {op.truth(part, f'{inputs[0].name}{path}')};"
                for head, path, part in each_part(kind)
            ]
            return "\n".join([f"    {kind.c} one;", *each, "    return one;"])
        expression = _converted(inputs[0].name, element, kind, op)
    elif isinstance(kind, Scalar) and _is_logical(op):
        # Tested in its own type: 0.5 is true, and so is 2 to the power of 32.
        expression = f"({kind.c})(({output.map}) != 0)"
    else:
        expression = f"{_WHOLE}({output.map})" if output.is_whole else output.map
    if isinstance(kind, Indexed):
        return f"    {kind.c} one;\n    one.value = {expression};\n    one.index = i;\n    return one;"
    return f"    return {expression};"


def _converted(x: str, element: Type, kind: Type, op: BuiltIn | Operator) -> str:
    """An element in the type of an output, for which `converts` holds."""
    if isinstance(op, BuiltIn) and op.is_logical:
        if isinstance(element, Complex):
            # One comparison: compilers join two into one of a vector, which Oclgrind gets wrong (quirk oclgrind-vector-truth).
            return f"({kind.c})(fabs({x}.x) + fabs({x}.y) != 0)"
        # In the element's type: none of its values is lost before.
        x = op.truth(element, x)
    if isinstance(kind, Scalar | Indexed) or element.c == kind.c:
        return x
    if isinstance(element, Scalar) and isinstance(kind, Complex):
        return f"({kind.c})({x}, 0)"
    if isinstance(element, Scalar) and isinstance(kind, Vector):
        return f"({kind.c})(({kind.part.c}){x})"
    return f"convert_{kind.c}({x})"


class Source:
    """The text of one kernel, made of the pieces of templates."""

    #: The kernel's name, and the words of other work-groups that it works on.
    kernel: str
    words: ClassVar[tuple[str, ...]] = ()
    #: Extensions that it needs.
    extensions: tuple[str, ...] = ()

    @property
    def head(self) -> str:
        """Text before the pieces."""
        return ""

    @property
    def typedefs(self) -> list[str]:
        """Structures that the caller's expressions use, inner ones first."""
        return []

    def expressions(self) -> Iterable[tuple[str, str, str]]:
        """Return the caller's expressions: role, text, and a program that holds no other one."""
        return ()

    @property
    def pieces(self) -> Sequence[Piece]:
        """Return templates and names of their defs, after the words."""
        raise NotImplementedError

    def text(self, strategy: Strategy) -> str:
        """The kernel's OpenCL C."""
        # Orders are held by the text of the words; only typedefs may precede the structures.
        pieces = [*word_pieces(strategy), *self.pieces]
        context = {"job": self, **word_context(strategy, self.words)}
        return self.head + "\n".join(render_def(template, name, context) for template, name in pieces)


@dataclass(frozen=True)
class ReductionJob(Source):
    """A reduction: everything that its text depends on."""

    #: Name and element type of each array.
    arrays: tuple[tuple[str, Type], ...]
    wanted: tuple[Output, ...]
    layout: SizedShape
    #: One of "split", "teams", "columns", "strips".
    form: str = "split"
    #: Columns that a work-item takes at once in the form "strips".
    strip: int = 1
    #: Work-items that share a row.
    team: int = 1
    #: Whether all loads are of aligned vectors.
    aligned: bool = False
    #: Whether elements before the first aligned one may come.
    peels: bool = False
    #: Whether results have the same bits on every device.
    fixed: bool = False
    #: Whether work-groups add to the result by atomics.
    atomic: bool = False
    #: Whether lanes exchange values by PTX.
    shuffles: bool = False
    #: Whether work-groups leave what they found with the launch's tag, by PTX, instead of ordering it before their
    #: count.
    tagged: bool = False
    extensions: tuple[str, ...] = ()

    kernel = "portbar_reduce"
    words: ClassVar[tuple[str, ...]] = ("add", "store")

    @property
    def local(self) -> int:
        """Work-items of a group."""
        return self.layout.shape.local

    @property
    def vector(self) -> int:
        """Elements of a load."""
        return self.layout.vector

    @property
    def sets(self) -> int:
        """Sets of accumulators."""
        return self.layout.shape.sets

    @property
    def by_vectors(self) -> bool:
        """Whether strips are combined as OpenCL C's vectors: numbers, without a map."""
        kinds = [*(kind for _, kind in self.arrays), *(out.kind for out in self.wanted)]
        return all(out.vectors for out in self.outputs) and all(isinstance(kind, Scalar) for kind in kinds)

    @property
    def loops(self) -> bool:
        """Whether sets are gone through by loops, so that the order in which they are combined is that of the fixed shape."""
        return self.fixed and self.sets > 1

    @property
    def ordered(self) -> bool:
        """Whether an operator does not commute."""
        return not all(out.op.commutative for out in self.wanted)

    @property
    def room(self) -> int:
        """Values that the group holds in local memory."""
        return max(1, self.local // 32) if self.shuffles else self.local

    @property
    def parts_depth(self) -> int:
        """Sub-trees over the parts that may wait for their neighbours at once."""
        return FIXED_PARTS.bit_length() + 1

    @cached_property
    def inputs(self) -> tuple[Input, ...]:
        """The arrays."""
        return tuple(
            Input(place, name, kind, self.vector, self.aligned) for place, (name, kind) in enumerate(self.arrays)
        )

    @cached_property
    def outputs(self) -> tuple[OutputText, ...]:
        """The results."""
        return tuple(
            OutputText(place, out, self.inputs, self.layout, self.loops) for place, out in enumerate(self.wanted)
        )

    @property
    def indexed(self) -> list[str]:
        """Types of values that argmin and argmax look for."""
        return sorted({out.kind.part.c for out in self.wanted if isinstance(out.kind, Indexed)})

    @property
    def typedefs(self) -> list[str]:
        """Structures that the kernel's types are made of, inner ones first."""
        found: dict[str, str] = {}
        for kind in [*(kind for _, kind in self.arrays), *(out.kind for out in self.wanted)]:
            for struct in structs_in(kind, defined=True):
                found[struct.c] = f"typedef struct {{ {' '.join(struct_lines(struct))} }} {struct.c};"
            if isinstance(kind, Indexed):
                found[kind.c] = f"typedef struct {{ {kind.part.c} value; long index; }} {kind.c};"
        return [*found.values(), *([_WHOLE_TEXT] if any(out.is_whole for out in self.wanted) else [])]

    def expressions(self) -> Iterator[tuple[str, str, str]]:
        """Maps, operators and neutral elements of the caller."""
        for out in self.outputs:
            wanted, kind = out.output, out.output.kind.c
            end = "}\nkernel void portbar_nothing(global int *unused) { }\n"
            if wanted.map is not None:
                head = f"static inline {kind} portbar_map({out.parameters})\n{{\n"
                yield f"the map of {wanted.name!r}", wanted.map, f"{head}{_contribution(wanted, self.inputs)}\n{end}"
            if isinstance(wanted.op, Operator):
                head = f"static inline {kind} portbar_combine(const {kind} a, const {kind} b)\n{{\n"
                yield (
                    f"the operator of {wanted.name!r}",
                    wanted.op.expression,
                    f"{head}{combined(wanted.kind, wanted.op)}\n{end}",
                )
            if isinstance(wanted.op, Operator):
                body = neutral(wanted.kind, wanted.op, wanted.neutral)
                text = f"static inline {kind} portbar_neutral(void)\n{{\n{body}\n{end}"
                given = wanted.op.neutral if wanted.neutral is None else wanted.neutral
                yield f"the neutral element of {wanted.name!r}", str(given).strip(), text

    @property
    def pieces(self) -> list[Piece]:
        """Types, functions of the outputs, and the form's kernel."""
        return [(_TEMPLATE, name) for name in ("prelude", "indexed", "functions", "tree", "tagged", self.form)]

    @property
    def head(self) -> str:
        """Text before the pieces."""
        return _QUIET + ('#include "portbar/atomics.h"\n' if self.atomic else "")
