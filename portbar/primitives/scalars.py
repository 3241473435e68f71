"""The scalar types of OpenCL C, and the NumPy types that are like them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from portbar.records.dataclass import dataclass


class InMemory:
    """Size and alignment in bytes of a type as large as its NumPy type and, unless it says otherwise, aligned to its size."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """Bytes of a value."""
        return self.dtype.itemsize

    @property
    def alignment(self) -> int:
        """Bytes of which a value's address is a multiple."""
        return self.size


@dataclass(frozen=True)
class Scalar(InMemory):
    """One number: `kind` is ``int``, ``uint`` or ``float``, `c` its name in OpenCL C."""

    c: str
    bits: int
    kind: str

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type."""
        return np.dtype(f"{self.kind}{self.bits}")

    @property
    def lowest(self) -> str:
        """The value below all others, in OpenCL C."""
        if self.kind == "float":
            return f"({self.c})-INFINITY"
        return f"({self.c})0" if self.kind == "uint" else f"{self._limits}_MIN"

    @property
    def highest(self) -> str:
        """The value above all others, in OpenCL C."""
        return f"({self.c})INFINITY" if self.kind == "float" else f"{self._limits}_MAX"

    @property
    def _limits(self) -> str:
        return self.c.replace("short", "shrt").upper()


#: Every scalar type, in the order in which tables list them.
SCALARS: Final = (
    Scalar("char", 8, "int"),
    Scalar("uchar", 8, "uint"),
    Scalar("short", 16, "int"),
    Scalar("ushort", 16, "uint"),
    Scalar("int", 32, "int"),
    Scalar("uint", 32, "uint"),
    Scalar("long", 64, "int"),
    Scalar("ulong", 64, "uint"),
    Scalar("half", 16, "float"),
    Scalar("float", 32, "float"),
    Scalar("double", 64, "float"),
)

#: Scalar types of OpenCL C, by each of their names -> the NumPy type.
TYPES: Final[dict[str, np.dtype[Any]]] = {
    "bool": np.dtype(np.uint8),
    **{scalar.c: scalar.dtype for scalar in SCALARS},
    **{f"unsigned {scalar.c[1:]}": scalar.dtype for scalar in SCALARS if scalar.kind == "uint"},
}
