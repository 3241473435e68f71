"""The declarations of a host program: the reductions that one loop computes together."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, field
from functools import cached_property
from typing import Any, Final

import numpy as np

from portbar.errors import Error
from portbar.primitives.host_values import converted
from portbar.primitives.reduction.operators import OPERATORS, BuiltIn, Operator, operator_of
from portbar.primitives.reduction.types import (
    Array,
    Complex,
    Indexed,
    Scalar,
    Struct,
    Type,
    array_of,
    each_part,
    scalars_in,
    structs_in,
    type_of,
)
from portbar.records.dataclass import dataclass

LEVELS: Final = (
    "vector",
    "worker",
    "gang",
    "worker_vector",
    "gang_vector",
    "gang_worker",
    "gang_worker_vector",
)

_IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*")

#: Words that OpenCL C or portbar's functions would take for something else.
_WORDS: Final = """
    auto break case char const continue default do double else enum extern float for goto if inline int long register restrict
    return short signed sizeof static struct switch typedef union unsigned void volatile while bool half uchar ushort uint ulong
    size_t kernel global local constant private generic read_only write_only read_write uniform pipe image1d_t image2d_t
    image3d_t sampler_t event_t complex imaginary true false NULL
    """
_TAKEN: Final = frozenset(_WORDS.split())
_VECTOR: Final = re.compile(r"(u?(char|short|int|long)|bool|half|float|double)(2|3|4|8|16)")


def check_identifier(what: str, name: Any) -> None:
    """Raise `Error` for a name that is not an identifier in OpenCL C, or is reserved."""
    if not isinstance(name, str) or not _IDENTIFIER.fullmatch(name):
        raise Error(
            f"{what} is named {name!r}, which is not an OpenCL C identifier: use letters, digits and _, not starting with a "
            "digit"
        )
    if name in _TAKEN or name in OPERATORS or name.startswith(("portbar", "PORTBAR", "__")) or _VECTOR.fullmatch(name):
        raise Error(f"{what} cannot be named {name!r}, which is reserved by OpenCL C or by portbar's header")


def check_neutral(given: Any, kind: Type) -> None:
    """Raise `Error` for the neutral element of an `Operator` that is neither text nor a number of the type."""
    number = given.item() if isinstance(given, np.generic | np.ndarray) and given.size == 1 else given
    if isinstance(number, str):
        return
    if not isinstance(number, bool | int | float | complex | np.number):
        raise Error(
            f"neutral={given!r} is neither OpenCL C text nor a number: write a structure or a vector as '{{ 1, 0 }}'"
        )
    for _, _, part in each_part(kind):
        try:
            converted(number, part.dtype if isinstance(part, Complex) else next(scalars_in(part)).dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise Error(f"neutral={given!r} cannot be converted to {part.c} without loss: {error}") from None


@dataclass(frozen=True)
class Reduction:
    """One value that a loop reduces.

    Parameters
    ----------
    dtype : dtype
        Integers of 8 to 64 bits, float16 (if the device supports it), float32, float64, complex64, complex128, vectors of
        `pyopencl.cltypes`, structured dtypes made with ``align=True``, and arrays of those.
    op : str or Operator
        ``"+"``, ``"*"``, ``"min"``, ``"max"``, ``"&"``, ``"|"``, ``"^"``, ``"&&"``, ``"||"``, ``"=="`` (equivalence), ``"!="``,
        ``"argmin"``, ``"argmax"``, or a `portbar.Operator`. A built-in operator works on each part of a vector, array or
        structure, `Operator` on each element of an array.
    neutral : str or number, optional
        The neutral element: of a `portbar.Operator`, instead of its own. For a built-in operator any other value is refused.
    shape : int or tuple of int, optional
        Makes it an array of this many elements, flat in OpenCL C.

    Raises
    ------
    Error
        Unknown types and operators, types that an operator does not support, a neutral element that is not neutral.
    """

    dtype: Any
    op: Any
    _: KW_ONLY
    neutral: Any = None
    shape: Any = None
    #: Tells apart 0.0 and -0.0, which are equal, where reductions are.
    _spelled: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_spelled", str(self.neutral))
        self.type_called("portbar_value")

    def type_called(self, name: str) -> Type:
        """Its type; `name` is what portbar calls a structure that it defines."""
        element = type_of(self.dtype, name)
        if isinstance(self.operator, BuiltIn):
            if self.operator.finds_index:
                if not isinstance(element, Scalar):
                    symbol = self.operator.symbol
                    raise Error(f"operator {symbol!r} selects one of many numbers and does not support {self.dtype}")
                element = Indexed(element)
            for _, _, part in each_part(element):
                self._check_part(self.operator, part)
        else:
            check_neutral(self.operator.neutral if self.neutral is None else self.neutral, element)
        return array_of(element, self.shape)

    def _check_part(self, op: BuiltIn, part: Type) -> None:
        if not op.takes(part):
            inside = f" (in {self.dtype})" if part.dtype != self.dtype else ""
            raise Error(
                f"operator {op.symbol!r} does not support {part.c}{inside}; it is defined for "
                + ", ".join(sorted(op.takes_kinds))
            )
        for scalar in scalars_in(part):
            if self.neutral is not None and (op.finds_index or not op.is_neutral(scalar, self.neutral)):
                raise Error(
                    f"neutral={self.neutral!r} is not neutral for {op.symbol!r} on {scalar.c}, whose neutral element is "
                    f"{op.neutral(part)}: omit neutral=; a start value goes into the result or the local value"
                )

    @cached_property
    def operator(self) -> BuiltIn | Operator:
        """The operator."""
        return operator_of(self.op)

    @cached_property
    def result_dtype(self) -> np.dtype[Any]:
        """The type of this reduction's result, of one element for an array."""
        kind = self.type_called("portbar_value")
        return kind.element.dtype if isinstance(kind, Array) else kind.dtype


@dataclass(frozen=True)
class ReductionLoop:
    """The reductions of one loop, which share their barriers and their scratch memory.

    Parameters
    ----------
    name : str
        The prefix of the generated types and functions, as in ``energy_local`` and ``energy_fini_gang``.
    fields : mapping of str to Reduction
        Name of each reduction, a field of ``energy_local`` -> the reduction.
    deterministic : bool, optional
        Whether work-groups combine their values in the same order in each launch. If false, they update the result by atomic
        operations, or under a lock if no atomic operation exists, in the order of arrival.
    uses : int, optional
        Maximum number of gang-level reductions of this loop per launch without a grid; `Launch.wait` raises an error for more.

    Raises
    ------
    Error
        Invalid or clashing names, no fields, fields that are not a `Reduction`.
    """

    name: str
    fields: Mapping[str, Reduction] = field(hash=False)
    _: KW_ONLY
    deterministic: bool = True
    uses: int = 4

    def __post_init__(self) -> None:
        check_identifier("a reduction loop", self.name)
        if not isinstance(self.fields, Mapping) or not self.fields:
            raise Error(f"reduction loop {self.name!r} needs fields: a dict of name -> portbar.Reduction")
        for name, reduction in self.fields.items():
            check_identifier(f"a field of reduction loop {self.name!r}", name)
            if not isinstance(reduction, Reduction):
                raise Error(
                    f"field {name!r} of reduction loop {self.name!r} must be a portbar.Reduction, not {reduction!r}"
                )
        for name, kind in self.types.items():
            clash = next((f"{name}_{part}" for part in ("offset", "length") if f"{name}_{part}" in self.fields), None)
            if isinstance(kind, Array) and clash is not None:
                raise Error(
                    f"reduction loop {self.name!r} has an array {name!r} and a field {clash!r}, the name of the array's "
                    "section; rename one"
                )
        ordered = next((name for name, reduction in self.fields.items() if not reduction.operator.commutative), None)
        if ordered is not None and not self.deterministic:
            raise Error(
                f"field {ordered!r} of reduction loop {self.name!r} has an operator that does not commute, but with "
                "deterministic=False work-groups combine their values in any order: omit deterministic=False"
            )
        try:
            uses = operator.index(self.uses)
        except TypeError:
            uses = 0
        if not 1 <= uses <= 1024:
            raise Error(f"uses= of reduction loop {self.name!r} must be an integer from 1 to 1024, not {self.uses!r}")

    @cached_property
    def types(self) -> dict[str, Type]:
        """Type of each field."""
        return {name: reduction.type_called(f"{self.name}_{name}") for name, reduction in self.fields.items()}

    @cached_property
    def struct(self) -> Struct:
        """The type of the local object, one field a reduction."""
        return Struct(f"{self.name}_local", tuple(self.types.items()))

    @property
    def local_dtype(self) -> np.dtype[Any]:
        """The NumPy type of the local object."""
        return self.struct.dtype

    @property
    def commutative(self) -> bool:
        """Whether all of its operators commute, so that values may be combined in any order."""
        return all(reduction.operator.commutative for reduction in self.fields.values())

    @property
    def generated_names(self) -> frozenset[str]:
        """Every name that the loop puts into the program."""
        steps = ("setup", "init", "fini", "teardown", "reduce")
        made = {f"{self.name}_{part}" for part in ("local", "results", "identity", "combine")}
        made |= {f"{self.name}_{step}_{level}" for step in steps for level in LEVELS}
        made |= {f"{self.name}_{do}_{level}" for do in ("lock", "unlock") for level in ("gang", "worker")}
        made |= {f"portbar_combine_{self.name}"} | {struct.c for struct in structs_in(self.struct)}
        return frozenset(made)


def check_loops(loops: Any) -> tuple[ReductionLoop, ...]:
    """The loops of a program as a tuple; `Error` if one is not a loop, or two would define the same name."""
    if isinstance(loops, ReductionLoop):
        loops = (loops,)
    made = tuple(loops)
    owners: dict[str, str] = {}
    for loop in made:
        if not isinstance(loop, ReductionLoop):
            raise Error(f"reductions= must hold portbar.ReductionLoop objects, not {loop!r}")
        # The same name in each run, and one that the author may have seen.
        for name in sorted(loop.generated_names, key=lambda made: (made.startswith("portbar"), made)):
            if name in owners:
                raise Error(f"reduction loops {owners[name]!r} and {loop.name!r} would both define {name}; rename one")
            owners[name] = loop.name
    return made
