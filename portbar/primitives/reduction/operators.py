"""The operators of reductions, an entry each: how two values become one, what leaves a value as it is, and in which types."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar, Final

import numpy as np

from portbar.backends.variants import Variant, Variants
from portbar.errors import Error
from portbar.primitives.reduction.types import Complex, Indexed, Scalar, Type, Vector
from portbar.records.dataclass import dataclass


@dataclass(frozen=True)
class Operator:
    """An associative operator, from an OpenCL C expression.

    Parameters
    ----------
    expression : str
        In `a` and `b`, both of the reduction's type, such as ``"a * b + a + b"``; `a` comes before `b` if the order matters. It
        must be associative, or the result depends on the device.
    neutral : str or number
        The value that leaves every other one unchanged, in OpenCL C, such as ``"0"``. Each value may be combined with it any
        number of times, so a wrong one makes the result depend on the device.
    commutative : bool, optional
        Whether ``a op b`` is ``b op a``. Without it values are combined in the order of the work-items' ids.

    Raises
    ------
    Error
        The expression does not use both names.
    """

    expression: str
    neutral: Any
    commutative: bool = True
    #: Tells apart 0.0 and -0.0, which are equal, where operators are.
    _spelled: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        from portbar.reading.words import words  # noqa: PLC0415 (most programs have no operators of their own)

        if not isinstance(self.expression, str) or not {"a", "b"} <= words(self.expression):
            raise Error(
                f"an operator must be an OpenCL C expression in a and b, such as 'a * b', not {self.expression!r}; built-in "
                f"operators are selected by name: {', '.join(_names())}"
            )
        if not str(self.neutral).strip():
            raise Error(f"the operator {self.expression!r} needs a neutral element, such as neutral='0'")
        object.__setattr__(self, "_spelled", str(self.neutral))

    @property
    def symbol(self) -> str:
        """Its name in messages."""
        return self.expression


@dataclass(frozen=True)
class BuiltIn(Variant):
    """One of the operators that portbar knows; its `name` is that in `portbar_work_group_reduce_NAME`."""

    #: How it is asked for, as in OpenACC.
    symbol: str
    #: Of ``int``, ``uint``, ``float`` and ``complex``.
    takes_kinds: frozenset[str]
    #: An OpenCL C expression of scalars `{a}` and `{b}`, both simple enough to be repeated.
    combines: str
    #: The value that leaves every other one unchanged.
    neutral_value: str
    #: The operation on two Python numbers.
    on_host: Callable[[Any, Any], Any] | None = None
    #: Expressions for these types, where they differ: of `{a}`, `{b}`, and of vectors' `{zero}`, whose result is a mask.
    on_floats: str = ""
    on_vectors: str = ""
    on_complex: str = ""
    complex_neutral: str = "0, 0"
    #: The end of OpenCL C's functions for it, as in `sub_group_reduce_add`; empty if none exists.
    built_in: str = ""
    #: Whether these functions keep the rules for NaNs.
    built_in_on_floats: bool = False
    #: Suffix of PTX's `redux.sync` on 32-bit integers, `{}` for its type.
    redux: str = ""
    #: The end of `portbar_atomic_NAME_explicit`.
    atomic: str = ""
    #: Whether values count as true or false.
    is_logical: bool = False
    #: For argmin and argmax: the comparison by which a value is better.
    finds_index: str = ""
    #: Other names for it.
    spelled: tuple[str, ...] = ()

    #: All of them commute.
    commutative: ClassVar[bool] = True

    def takes(self, kind: Type) -> bool:
        """Whether it works on a type, for arrays and structures on each part."""
        if isinstance(kind, Scalar | Vector):
            part = kind if isinstance(kind, Scalar) else kind.part
            return not self.finds_index and part.kind in self.takes_kinds
        if isinstance(kind, Complex):
            return "complex" in self.takes_kinds
        return isinstance(kind, Indexed) and bool(self.finds_index)

    def combine(self, kind: Type, a: str, b: str) -> str:
        """Return an OpenCL C expression of `a` and `b` combined, both simple enough to be repeated."""
        if isinstance(kind, Indexed):
            return f"portbar_better_{self.name}({a}, {b}) ? {a} : {b}"
        if isinstance(kind, Complex):
            return (self.on_complex or self.combines).format(a=a, b=b, kind=kind.c)
        assert isinstance(kind, Scalar | Vector)
        part = kind.part if isinstance(kind, Vector) else kind
        if isinstance(kind, Vector) and self.on_vectors:
            holds = self.on_vectors.format(a=a, b=b, zero=f"({kind.c})0")
            return f"select(({kind.c})0, ({kind.c})1, {holds})"
        together = (self.on_floats if part.kind == "float" and self.on_floats else self.combines).format(a=a, b=b)
        # Smaller integers are promoted to int.
        small = part.bits < 32 and part.kind != "float" and not isinstance(kind, Vector)
        return f"({kind.c})({together})" if self.is_logical or small else together

    def truth(self, kind: Type, x: str) -> str:
        """Return an OpenCL C expression of 1 where `x` is true and 0 where not, in a logical operator's type."""
        assert isinstance(kind, Scalar | Vector)
        if isinstance(kind, Vector):
            return f"select(({kind.c})0, ({kind.c})1, {x} != ({kind.c})0)"
        return f"({kind.c})({x} != 0)"

    def neutral(self, kind: Type) -> str:
        """The neutral element in OpenCL C."""
        if isinstance(kind, Indexed):
            return f"portbar_no_{kind.c.removeprefix('portbar_')}({getattr(kind.part, self.neutral_value)})"
        if isinstance(kind, Complex):
            return f"({kind.c})({self.complex_neutral})"
        part = kind.part if isinstance(kind, Vector) else kind
        assert isinstance(part, Scalar)
        value = {"lowest": part.lowest, "highest": part.highest, "ones": f"({part.c})~({part.c})0"}.get(
            self.neutral_value, f"({part.c}){self.neutral_value}"
        )
        return f"({kind.c})({value})" if isinstance(kind, Vector) else f"({value})"

    def is_neutral(self, part: Scalar, value: Any) -> bool:
        """Whether a number that the caller gives is this operator's neutral element in a scalar type."""
        text = str(value).strip().lower()
        text = _SPELLED.get(text, text)
        try:
            number = float(text) if part.kind == "float" else int(text, 0)
        except ValueError:
            return text == self.neutral(part).strip("()").lower()
        if self.neutral_value == "ones":
            return number in {-1, (1 << part.bits) - 1}
        return number == self.neutral_number(part)

    def neutral_number(self, part: Scalar) -> float:
        """The neutral element in a scalar type, as a Python number."""
        if part.kind == "float":
            lowest, highest = float("-inf"), float("inf")
        else:
            highest = (1 << part.bits - (part.kind == "int")) - 1
            lowest = -highest - 1 if part.kind == "int" else 0
        ones = -1 if part.kind == "int" else highest
        found = {"lowest": lowest, "highest": highest, "ones": ones}.get(self.neutral_value)
        return int(self.neutral_value) if found is None else found

    def native(self, part: Scalar) -> str:
        """The end of OpenCL C's functions that do it on a scalar type; empty where there are none."""
        return self.built_in if part.kind != "float" or self.built_in_on_floats else ""

    def redux_of(self, part: Scalar) -> str:
        """Suffix of `redux.sync` that does it on a scalar type; empty where there is none."""
        if part.bits != 32 or part.kind == "float":
            return ""
        return self.redux.format("s32" if part.kind == "int" else "u32")


_SPELLED: Final = {"infinity": "inf", "-infinity": "-inf", "true": "1", "false": "0"}

_NUMBERS: Final = frozenset({"int", "uint", "float"})
_INTEGERS: Final = frozenset({"int", "uint"})


def _bits(name: str, rank: int, symbol: str, neutral: str, on_host: Callable[[Any, Any], Any]) -> BuiltIn:
    words = f"{{a}} {symbol} {{b}}"
    return BuiltIn(
        name, rank, f"bitwise {name}", symbol, _INTEGERS, words, neutral, on_host, redux=f"{name}.b32", atomic=name,
        spelled=(f"bitwise_{name}",),
    )  # fmt: skip


def _logical(
    name: str,
    rank: int,
    symbol: str,
    neutral: str,
    scalars: str,
    masks: str,
    holds: Callable[[Any, Any], Any],
    *spelled: str,
) -> BuiltIn:
    # Zero is false, all else true, and results are 1 and 0; a comparison of vectors is -1 and 0.
    return BuiltIn(
        name, rank, name.replace("_", " "), symbol, _NUMBERS, scalars, neutral, lambda a, b: int(holds(bool(a), bool(b))),
        on_vectors=f"({{a}} != {{zero}}) {masks} ({{b}} != {{zero}})", is_logical=True, spelled=spelled,
    )  # fmt: skip


#: Name -> operator. A new one is one entry, here or by `register`.
OPERATORS: Final[Variants[BuiltIn]] = Variants(
    "the built-in operators",
    (
        BuiltIn(
            "add", 1, "sum", "+", _NUMBERS | {"complex"}, "{a} + {b}", "0", operator.add,
            built_in="add", built_in_on_floats=True, redux="add.{}", atomic="add", spelled=("sum",),
        ),
        BuiltIn(
            "mul", 2, "product", "*", _NUMBERS | {"complex"}, "{a} * {b}", "1", operator.mul,
            on_complex="({kind})({a}.x * {b}.x - {a}.y * {b}.y, {a}.x * {b}.y + {a}.y * {b}.x)", complex_neutral="1, 0",
            spelled=("prod", "product", "multiply"),
        ),
        # The built-in functions' min and max of floats may do anything with NaNs.
        BuiltIn(
            "min", 3, "minimum", "min", _NUMBERS, "min({a}, {b})", "highest", min,
            on_floats="fmin({a}, {b})", built_in="min", redux="min.{}", atomic="min", spelled=("minimum", "fmin"),
        ),
        BuiltIn(
            "max", 4, "maximum", "max", _NUMBERS, "max({a}, {b})", "lowest", max,
            on_floats="fmax({a}, {b})", built_in="max", redux="max.{}", atomic="max", spelled=("maximum", "fmax"),
        ),
        _bits("and", 5, "&", "ones", operator.and_),
        _bits("or", 6, "|", "0", operator.or_),
        _bits("xor", 7, "^", "0", operator.xor),
        _logical("logical_and", 8, "&&", "1", "{a} && {b}", "&", operator.and_, "all"),
        _logical("logical_or", 9, "||", "0", "{a} || {b}", "|", operator.or_, "any"),
        _logical("logical_eqv", 10, "==", "1", "({a} != 0) == ({b} != 0)", "==", operator.eq, ".eqv."),
        _logical("logical_xor", 11, "!=", "0", "({a} != 0) != ({b} != 0)", "!=", operator.ne, ".neqv."),
        BuiltIn("argmin", 12, "least and its index", "argmin", _NUMBERS, "", "highest", finds_index="<"),
        BuiltIn("argmax", 13, "largest and its index", "argmax", _NUMBERS, "", "lowest", finds_index=">"),
    ),
)  # fmt: skip


def short_form_operators() -> tuple[BuiltIn, ...]:
    """Operators of the short forms, such as `portbar_work_group_reduce_add`."""
    return tuple(op for op in OPERATORS.values() if not op.finds_index)


def finders() -> tuple[tuple[str, str], ...]:
    """Operators that look for an index, and the comparison by which a value is better."""
    return tuple((op.name, op.finds_index) for op in OPERATORS.values() if op.finds_index)


def _names() -> list[str]:
    """How operators may be asked for: OpenACC's symbols, portbar's names, Fortran's names."""
    known = OPERATORS.values()
    spelled = [name for op in known for name in op.spelled]
    return list(dict.fromkeys([*(op.symbol for op in known), *(op.name for op in known), *spelled]))


def operator_of(asked: Any) -> BuiltIn | Operator:
    """The operator that a caller asks for: by symbol, by name, as a function of NumPy's, or as an `Operator`.

    `Error` if it is unknown.
    """
    if isinstance(asked, np.ufunc):
        asked = asked.__name__
    if isinstance(asked, Operator | BuiltIn):
        return asked
    for op in OPERATORS.values():
        if isinstance(asked, str) and asked in (op.symbol, op.name, *op.spelled):
            return op
    hint = "; sums of differences are sums: use '+'" if isinstance(asked, str) and asked == "-" else ""
    raise Error(
        f"unknown operator {asked!r}{hint}. Operators: {', '.join(op.symbol for op in OPERATORS.values())}; define others as "
        "portbar.Operator('expression in a and b', neutral='...')"
    )
