"""A form is one operator on one type, as the templates see it: short forms such as add on float, and whole loops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from portbar.primitives.reduction.code import combine_lines, parts
from portbar.primitives.reduction.loops import ReductionLoop
from portbar.primitives.reduction.operators import BuiltIn, short_form_operators
from portbar.primitives.reduction.types import Complex, Scalar, Vector
from portbar.records.dataclass import dataclass

#: Operator -> the vote at a device barrier that gives its result over a grid.
_VOTES: Final = {"logical_or": "any", "logical_and": "all"}


@dataclass(frozen=True)
class Form:
    """An operator on a type."""

    #: The type's name in OpenCL C.
    kind: str
    #: The last part of the functions' names, as in `portbar_work_group_reduce_add`.
    op: str
    #: Bytes of a value.
    size: int
    #: The value of `a` and `b` combined, an OpenCL C expression, or statements that return it.
    body: str
    #: The neutral element, an expression.
    neutral: str
    #: Whether `a op b` and `b op a` are the same to the last bit.
    symmetric: bool = True
    #: Whether values may be combined in another order than that of the work-items.
    commutative: bool = True
    #: The device's own function for it, as in `sub_group_reduce_add`; empty where there is none that keeps the rules.
    native: str = ""
    #: The type on which that function works.
    through: str = ""
    #: The suffix of PTX's `redux.sync` that does it; empty where there is none.
    redux: str = ""
    #: Statements that make a true logical value of `x` where the operator needs that; a lone value is never combined.
    prepare: str = ""
    #: The vote at a device barrier that does it over a grid, `any` or `all`; empty where none does.
    vote: str = ""
    #: Two vectors of eight values, `a` and `b`, combined; empty where that is not done by vectors.
    wide: str = ""

    @property
    def combine(self) -> str:
        """The function that combines two values."""
        return f"portbar_combine_{self.op}"

    @property
    def none(self) -> str:
        """The macro that is the neutral element."""
        return f"PORTBAR_NEUTRAL_{self.op}_{self.kind}"


def _short_form(scalar: Scalar, op: BuiltIn) -> Form:
    through = scalar.c
    if scalar.bits < 32 and scalar.kind != "float":
        through = "int" if scalar.kind == "int" else "uint"
    return Form(
        scalar.c,
        op.name,
        scalar.size,
        f"return {op.combine(scalar, 'a', 'b')};",
        op.neutral(scalar),
        native=op.native(scalar),
        through=through,
        redux=op.redux_of(scalar),
        wide="" if op.is_logical else op.combine(Vector(scalar, 8), "a", "b"),
        prepare=f"x = ({scalar.c})(x != 0);" if op.is_logical else "",
        vote=_VOTES.get(op.name, ""),
    )


def short_forms(scalars: tuple[Scalar, ...], names: frozenset[str]) -> tuple[Form, ...]:
    """The built-in operators of some names on every scalar type that they take."""
    return tuple(
        _short_form(scalar, op)
        for op in short_form_operators()
        if op.name in names
        for scalar in scalars
        if op.takes(scalar)
    )


def _is_symmetric(loop: ReductionLoop) -> bool:
    """Whether `a op b` and `b op a` are the same to the last bit.

    Products of complex numbers need not be where multiplications and additions are fused.
    """
    return all(
        isinstance(op := loop.fields[name].operator, BuiltIn) and not (op.on_complex and isinstance(part, Complex))
        for name, _, _, part in parts(loop)
    )


def form_of(loop: ReductionLoop, *, keeps: bool = False) -> Form:
    """The loop as one operator on its local object, which the text says it keeps across barriers where `keeps` is true."""
    struct = loop.struct
    body = [f"{struct.c} both;", *combine_lines(loop, "both", "a", "b"), "return both;"]
    return Form(
        struct.c,
        loop.name,
        struct.size,
        "\n    ".join(body),
        f"{loop.name}_identity()",
        symmetric=_is_symmetric(loop),
        commutative=loop.commutative,
        prepare="\n    ".join([*(["PORTBAR_KEEP(x);"] if keeps else []), *_prepare_lines(loop)]),
    )


def _prepare_lines(loop: ReductionLoop) -> Iterator[str]:
    """Statements that make true logical values of the fields of `x` that are combined as such."""
    for name, head, path, part in parts(loop):
        op = loop.fields[name].operator
        if isinstance(op, BuiltIn) and op.is_logical:
            yield f"{head}x.{path} = {op.combine(part, op.neutral(part), f'x.{path}')};"
