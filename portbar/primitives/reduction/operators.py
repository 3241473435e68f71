"""The operators of reductions: how two values become one, what leaves a value as it is, and in which types.

Not for the order in which values are combined: the templates in `cl_templates/reduction` decide that, and keep the order of
operators that do not commute.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from portbar.errors import Error
from portbar.primitives.reduction.types import Complex, Indexed, Scalar, Type, Vector


@dataclass(frozen=True)
class Operator:
    """An associative operator, from an OpenCL C expression.

    Parameters
    ----------
    expression : str
        In `a` and `b`, both of the reduction's type, such as ``"a * b + a + b"``; `a` comes before `b` where the order
        matters. It must be associative, or the result depends on the device.
    neutral : str or number
        What leaves every value as it is, in OpenCL C, such as ``"0"``. Each value is combined with it any number of times,
        so one that is not neutral makes the result depend on the device.
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

    def __post_init__(self) -> None:
        if not isinstance(self.expression, str) or not {"a", "b"} <= set(re.findall(r"\b\w+\b", self.expression)):
            raise Error(
                f"an operator is an OpenCL C expression in a and b, such as 'a * b', not {self.expression!r}; the built-in "
                f"ones are asked for by name: {', '.join(SYMBOLS)}"
            )
        if not str(self.neutral).strip():
            raise Error(f"the operator {self.expression!r} needs a neutral element, such as neutral='0'")

    @property
    def symbol(self) -> str:
        """How messages call it."""
        return self.expression


@dataclass(frozen=True)
class BuiltIn:
    """One of the operators that portbar knows; `name` as in `portbar_work_group_reduce_NAME`, `symbol` as in OpenACC."""

    name: str
    symbol: str
    kinds: frozenset[str]
    commutative: bool = True

    def takes(self, kind: Type) -> bool:
        """Whether it works on a type, for arrays and structures on each part."""
        if isinstance(kind, Scalar | Vector):
            part = kind if isinstance(kind, Scalar) else kind.part
            return not self.finds_index and part.kind in self.kinds
        if isinstance(kind, Complex):
            return "complex" in self.kinds
        return isinstance(kind, Indexed) and self.finds_index

    @property
    def is_logical(self) -> bool:
        """Whether values count as true or false."""
        return self.name in _LOGICAL

    @property
    def finds_index(self) -> bool:
        """Whether it is argmin or argmax."""
        return self.name in {"argmin", "argmax"}

    def combine(self, kind: Type, a: str, b: str) -> str:
        """An OpenCL C expression of `a` and `b` combined, both simple enough to stand more than once."""
        if isinstance(kind, Indexed):
            return f"portbar_better_{self.name}({a}, {b}) ? {a} : {b}"
        if isinstance(kind, Complex):
            if self.name == "mul":
                return f"({kind.c})({a}.x * {b}.x - {a}.y * {b}.y, {a}.x * {b}.y + {a}.y * {b}.x)"
            return f"{a} + {b}"
        assert isinstance(kind, Scalar | Vector)
        vector = isinstance(kind, Vector)
        part = kind.part if isinstance(kind, Vector) else kind
        if self.name in _LOGICAL:
            if isinstance(kind, Vector):
                holds = _LOGICAL[self.name][1].format(a=a, b=b, zero=f"({kind.c})0")
                return f"select(({kind.c})0, ({kind.c})1, {holds})"
            return f"({kind.c})({_LOGICAL[self.name][0].format(a=a, b=b)})"
        if self.name in {"min", "max"}:
            return f"f{self.name}({a}, {b})" if part.kind == "float" else f"{self.name}({a}, {b})"
        together = f"{a} {_ARITHMETIC[self.name]} {b}"
        # Smaller integers are promoted to int.
        return f"({kind.c})({together})" if part.bits < 32 and part.kind != "float" and not vector else together

    def neutral(self, kind: Type) -> str:
        """The neutral element in OpenCL C."""
        if isinstance(kind, Indexed):
            worst = kind.part.highest if self.name == "argmin" else kind.part.lowest
            return f"portbar_no_{kind.c.removeprefix('portbar_')}({worst})"
        if isinstance(kind, Complex):
            return f"({kind.c})({'1, 0' if self.name == 'mul' else '0, 0'})"
        part = kind.part if isinstance(kind, Vector) else kind
        assert isinstance(part, Scalar)
        value = {
            "min": part.highest,
            "max": part.lowest,
            "and": f"({part.c})~({part.c})0",
        }.get(self.name, f"({part.c}){_NEUTRAL.get(self.name, '0')}")
        return f"({kind.c})({value})" if isinstance(kind, Vector) else f"({value})"

    def is_neutral(self, part: Scalar, value: Any) -> bool:
        """Whether a number that the caller gives is this operator's neutral element in a scalar type."""
        text = str(value).strip().lower()
        if text in _SPELLED:
            text = _SPELLED[text]
        try:
            number = float(text) if part.kind == "float" else int(text, 0)
        except ValueError:
            return text == self.neutral(part).strip("()").lower()
        if self.name in {"min", "max"}:
            if part.kind == "float":
                return number == (float("inf") if self.name == "min" else float("-inf"))
            top = (1 << part.bits - (part.kind == "int")) - 1
            return number == (top if self.name == "min" else -top - 1 if part.kind == "int" else 0)
        if self.name == "and":
            return int(number) in {-1, (1 << part.bits) - 1}
        return number == int(_NEUTRAL.get(self.name, "0"))


_ARITHMETIC: Final = {"add": "+", "mul": "*", "and": "&", "or": "|", "xor": "^"}

#: For scalars, and for vectors, whose comparisons are -1 and 0. Zero is false, all else true, and results are 1 and 0.
_LOGICAL: Final = {
    "logical_and": ("{a} && {b}", "({a} != {zero}) & ({b} != {zero})"),
    "logical_or": ("{a} || {b}", "({a} != {zero}) | ({b} != {zero})"),
    "logical_eqv": ("({a} != 0) == ({b} != 0)", "({a} != {zero}) == ({b} != {zero})"),
    "logical_xor": ("({a} != 0) != ({b} != 0)", "({a} != {zero}) != ({b} != {zero})"),
}

_NEUTRAL: Final = {"mul": "1", "logical_and": "1", "logical_eqv": "1"}
_SPELLED: Final = {"infinity": "inf", "-infinity": "-inf", "true": "1", "false": "0"}

_NUMBERS: Final = frozenset({"int", "uint", "float"})
_INTEGERS: Final = frozenset({"int", "uint"})

BUILT_INS: Final = (
    BuiltIn("add", "+", _NUMBERS | {"complex"}),
    BuiltIn("mul", "*", _NUMBERS | {"complex"}),
    BuiltIn("min", "min", _NUMBERS),
    BuiltIn("max", "max", _NUMBERS),
    BuiltIn("and", "&", _INTEGERS),
    BuiltIn("or", "|", _INTEGERS),
    BuiltIn("xor", "^", _INTEGERS),
    BuiltIn("logical_and", "&&", _NUMBERS),
    BuiltIn("logical_or", "||", _NUMBERS),
    BuiltIn("logical_eqv", "==", _NUMBERS),
    BuiltIn("logical_xor", "!=", _NUMBERS),
    BuiltIn("argmin", "argmin", _NUMBERS),
    BuiltIn("argmax", "argmax", _NUMBERS),
)

#: How operators are asked for -> the operator: OpenACC's symbols, Fortran's names for the last two, and portbar's names.
SYMBOLS: Final[Mapping[str, BuiltIn]] = {
    **{op.symbol: op for op in BUILT_INS},
    **{op.name: op for op in BUILT_INS},
    ".eqv.": BUILT_INS[9],
    ".neqv.": BUILT_INS[10],
}

#: Operators of the short forms, such as `portbar_work_group_reduce_add`.
SHORT_FORMS: Final = tuple(op for op in BUILT_INS if not op.finds_index)


def operator_of(asked: Any) -> BuiltIn | Operator:
    """The operator that a caller asks for, by symbol, by name, or as an `Operator`.

    Raises
    ------
    Error
        There is none of that name; the message lists those that there are.
    """
    if isinstance(asked, Operator | BuiltIn):
        return asked
    if isinstance(asked, str) and asked in SYMBOLS:
        return SYMBOLS[asked]
    hint = "; sums of differences are sums: use '+'" if asked == "-" else ""
    raise Error(
        f"no operator is called {asked!r}{hint}. Operators: {', '.join(op.symbol for op in BUILT_INS)}; any other is "
        "portbar.Operator('expression in a and b', neutral='...')"
    )
