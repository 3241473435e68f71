"""The types that reductions take: NumPy dtypes, what OpenCL C calls them, and how they lie in memory there."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from portbar.errors import Error
from portbar.primitives.scalars import SCALARS as SCALARS  # noqa: PLC0414 (types are built of these)
from portbar.primitives.scalars import InMemory
from portbar.primitives.scalars import Scalar as Scalar  # noqa: PLC0414 (the same)
from portbar.records.dataclass import dataclass

#: Bytes of the largest array.
_MOST_BYTES: Final = 1 << 24

_BY_DTYPE: Final = {scalar.dtype: scalar for scalar in SCALARS}


@dataclass(frozen=True)
class Complex(InMemory):
    """A complex number: two of its part, with the product of complex numbers."""

    part: Scalar

    @property
    def c(self) -> str:
        """Its name in OpenCL C."""
        return f"{self.part.c}2"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type."""
        return np.dtype(f"complex{2 * self.part.bits}")


@dataclass(frozen=True)
class Vector(InMemory):
    """One of OpenCL C's vectors; built-in operators work on each component."""

    part: Scalar
    count: int

    @property
    def c(self) -> str:
        """Its name in OpenCL C."""
        return f"{self.part.c}{self.count}"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type, of `pyopencl.cltypes`; that of a vector of 3 takes the room of 4."""
        from pyopencl import cltypes  # noqa: PLC0415 (PyOpenCL is what must stay out of import time)

        return cltypes.vec_types[self.part.dtype, self.count]


@dataclass(frozen=True)
class Array(InMemory):
    """A fixed number of elements of one type, reduced element by element."""

    element: Type
    count: int

    @property
    def c(self) -> str:
        """The name of one element's type in OpenCL C."""
        return self.element.c

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type, a sub-array."""
        return np.dtype((self.element.dtype, (self.count,)))

    @property
    def alignment(self) -> int:
        """As of one element."""
        return self.element.alignment


@dataclass(frozen=True)
class Struct(InMemory):
    """Members one after another, as a C compiler lays them out.

    `defined` says that the author's own source has a type of this name (it is registered with PyOpenCL), so that portbar
    defines none.
    """

    c: str
    members: tuple[tuple[str, Type], ...]
    defined: bool = False

    @property
    def alignment(self) -> int:
        """As of the member with the strictest."""
        return max(kind.alignment for _, kind in self.members)

    @property
    def offsets(self) -> tuple[int, ...]:
        """Bytes from the start to each member."""
        found, end = [], 0
        for _, kind in self.members:
            found.append(-(-end // kind.alignment) * kind.alignment)
            end = found[-1] + kind.size
        return tuple(found)

    @property
    def size(self) -> int:
        """Bytes of a value, a multiple of the alignment."""
        end = self.offsets[-1] + self.members[-1][1].size
        return -(-end // self.alignment) * self.alignment

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type with C's offsets."""
        return np.dtype(
            {
                "names": [name for name, _ in self.members],
                "formats": [kind.dtype for _, kind in self.members],
                "offsets": list(self.offsets),
                "itemsize": self.size,
            }
        )


@dataclass(frozen=True)
class Indexed(InMemory):
    """A value and where it was found, for argmin and argmax; an index below 0 means that there is none yet."""

    part: Scalar

    @property
    def c(self) -> str:
        """Its name in OpenCL C."""
        return f"portbar_indexed_{self.part.c}"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type: fields `value` and `index`."""
        return np.dtype([("value", self.part.dtype), ("index", np.int64)], align=True)

    @property
    def alignment(self) -> int:
        """As of the index."""
        return 8


Type = Scalar | Complex | Vector | Array | Struct | Indexed


def type_of(dtype: Any, name: str) -> Type:
    """The type that OpenCL C has for a NumPy dtype, or `Error`; `name` is for a structure without a name of its own."""
    try:
        given = np.dtype(dtype)
    except Exception as error:  # noqa: BLE001 (NumPy raises whatever it comes across in what it takes for a description)
        raise Error(
            f"{dtype!r} is not a NumPy dtype ({error}); pass one such as numpy.float32, or a structured dtype"
        ) from None
    if given.subdtype is not None:
        base, shape = given.subdtype
        return array_of(type_of(base, name), shape)
    if given.isnative and given in _BY_DTYPE:
        return _BY_DTYPE[given]
    if given in (np.complex64, np.complex128):
        return Complex(_BY_DTYPE[np.dtype(np.float32 if given == np.complex64 else np.float64)])
    from pyopencl import cltypes  # noqa: PLC0415 (the same; scalars need no PyOpenCL)

    if given in cltypes.vec_type_to_scalar_and_count:
        part, count = cltypes.vec_type_to_scalar_and_count[given]
        return Vector(_BY_DTYPE[part], count)
    if given.names:
        return _struct_of(given, name)
    raise Error(
        f"a reduction cannot have the type {given}; supported: integers of 8 to 64 bits, float16 to float64, complex64, "
        "complex128, the vectors of pyopencl.cltypes, and structures and arrays of those"
        + ("; bool has no fixed size in OpenCL C, use numpy.int8 or numpy.int32" if given == np.bool_ else "")
    )


def _struct_of(dtype: np.dtype[Any], name: str) -> Struct:
    assert dtype.names is not None
    assert dtype.fields is not None
    registered = _registered_name(dtype)
    name = registered or name
    members = tuple((field, type_of(dtype.fields[field][0], f"{name}_{field}")) for field in dtype.names)
    made = Struct(name, members, registered is not None)
    offsets = tuple(dtype.fields[field][1] for field in dtype.names)
    if offsets != made.offsets or dtype.itemsize != made.size:
        raise Error(
            f"the layout of structure {dtype} differs from OpenCL C's (offsets {made.offsets}, size "
            f"{made.size}): make it with numpy.dtype([...], align=True), or with pyopencl.tools.match_dtype_to_c_struct"
        )
    return made


def array_of(kind: Type, shape: Any) -> Type:
    """The type of an array of some shape, the type itself for None; `Error` for a wrong shape or a too large array."""
    if shape is None:
        return kind
    try:
        dims = tuple(map(operator.index, shape if isinstance(shape, tuple | list) else (shape,)))
    except TypeError:
        dims = ()
    if not dims or min(dims) < 1:
        raise Error(f"shape= must be a positive number of elements, or a tuple of such numbers, not {shape!r}")
    count = math.prod(dims)
    if count * kind.size > _MOST_BYTES:
        raise Error(
            f"an array of {count} elements of {kind.c} is larger than {_MOST_BYTES} bytes, the limit per work-item"
        )
    return Array(kind, count)


def each_part(kind: Type, depth: int = 0) -> Iterator[tuple[str, str, Scalar | Complex | Vector | Indexed]]:
    """Loop heads, the path to a part, and the part's type, for each part of a value that an operator takes whole."""
    if isinstance(kind, Array):
        i = f"i{depth}"
        head = f"for (uint {i} = 0; {i} < {kind.count}u; ++{i}) "
        for inner, path, part in each_part(kind.element, depth + 1):
            yield head + inner, f"[{i}]{path}", part
    elif isinstance(kind, Struct):
        for name, member in kind.members:
            for inner, path, part in each_part(member, depth):
                yield inner, f".{name}{path}", part
    else:
        yield "", "", kind


def scalars_in(kind: Type) -> Iterator[Scalar]:
    """Every scalar that a type is made of."""
    for _, _, part in each_part(kind):
        yield part if isinstance(part, Scalar) else part.part


def structs_in(kind: Type, *, defined: bool = False) -> Iterator[Struct]:
    """Every structure in a type that portbar defines, inner ones first; with `defined` those that an author's text has, too."""
    if isinstance(kind, Array):
        yield from structs_in(kind.element, defined=defined)
    elif isinstance(kind, Struct) and (defined or not kind.defined):
        for _, member in kind.members:
            yield from structs_in(member, defined=defined)
        yield kind


def declaration(kind: Type, name: str) -> str:
    """`name` declared with a type, in OpenCL C."""
    counts = ""
    while isinstance(kind, Array):
        counts += f"[{kind.count}]"
        kind = kind.element
    return f"{kind.c} {name}{counts}"


def _registered_name(dtype: np.dtype[Any]) -> str | None:
    """Return the name that an author gave a structure by `pyopencl.tools.get_or_register_dtype`."""
    from pyopencl.tools import dtype_to_ctype  # noqa: PLC0415

    try:
        return str(dtype_to_ctype(dtype))
    except (ValueError, KeyError, TypeError):
        return None
