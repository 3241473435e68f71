"""Parameters of a kernel, as the driver reports them, and the hidden ones that portbar fills in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyopencl as cl

from portbar.errors import LaunchError
from portbar.primitives import scan
from portbar.primitives.reduction import types
from portbar.rendering.source import mentions, without_comments

#: Scalar types of OpenCL C, by each of their names -> the NumPy type.
SCALARS: Final[dict[str, np.dtype[Any]]] = {
    "bool": np.dtype(np.uint8),
    **{scalar.c: scalar.dtype for scalar in types.SCALARS},
    **{f"unsigned {scalar.c[1:]}": scalar.dtype for scalar in types.SCALARS if scalar.kind == "uint"},
}

_VALUE: Final = re.compile(r"(?P<scalar>[a-z][a-z ]*?)(?P<lanes>2|3|4|8|16)?")
_TYPEDEF: Final = re.compile(r"\btypedef\s+(?P<type>[A-Za-z_]\w*(?:\s+[A-Za-z_]\w*)?)\s+(?P<name>[A-Za-z_]\w*)\s*;")


@dataclass(frozen=True)
class Hidden:
    """The hidden parameters of a kernel that synchronises work-groups; they come before the author's."""

    #: By which an author declares them.
    macros: tuple[str, ...]
    #: Names of the parameters: the words where work-groups meet, and numbers of the launch.
    state: str
    launch: str

    #: How many there are.
    COUNT = 2


GRID: Final = Hidden(("PORTBAR_GRID_PARAM",), "portbar_grid_param", "portbar_grid_launch")
#: Reductions at gang level and atomic waits, without a grid.
GANGS: Final = Hidden(
    ("PORTBAR_REDUCTION_PARAM", "PORTBAR_WAIT_PARAM"), "portbar_reduction_param", "portbar_reduction_launch"
)
SCAN: Final = Hidden((scan.PARAMETER,), "portbar_scan_param", "portbar_scan_launch")
_KINDS: Final = (GRID, GANGS, SCAN)


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel."""

    #: As written.
    name: str
    type_name: str
    #: ``local``, ``pointer``, ``scalar``, or ``other``: images, samplers, vectors and structs, which are left to PyOpenCL.
    kind: str
    #: Scalar types that a typedef of the author's may stand for; several where they depend on the preprocessor.
    scalars: tuple[str, ...] = ()
    #: ``unchanging`` for a pointer to what nothing may write during the launch (`constant`, or `const` and `restrict`),
    #: ``writable`` for a pointer to what the kernel may write, and empty for the rest.
    access: str = ""

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The NumPy type of a scalar parameter, None for anything else."""
        names = self.scalars or (self.type_name,)
        return SCALARS.get(names[0]) if len(names) == 1 and self.kind == "scalar" else None

    @property
    def passed_as(self) -> np.dtype[Any] | None:
        """How PyOpenCL should pass an argument: a scalar's type, raw bytes, or None for what it must look at itself."""
        return np.dtype("V16") if self.name in {kind.launch for kind in _KINDS} else self.dtype


def bytes_of(type_name: str) -> int | None:
    """Bytes of a scalar or a vector type, None for another type."""
    written = _VALUE.fullmatch(type_name)
    if written is None or written["scalar"] not in SCALARS:
        return None
    # Three elements take as much as four.
    lanes = 4 if written["lanes"] == "3" else int(written["lanes"] or 1)
    return SCALARS[written["scalar"]].itemsize * lanes


def scalar_typedefs(source: str) -> dict[str, tuple[str, ...]]:
    """Names that a program's own text gives to scalar types -> those types.

    A driver may report a parameter's type by such a name, and accept an argument of any size for it (the effect
    ARGUMENTS_UNCHECKED).
    """
    given: dict[str, set[str]] = {}
    for match in _TYPEDEF.finditer(without_comments(source, keep_strings=False)):
        given.setdefault(match["name"], set()).add(" ".join(match["type"].split()))

    def scalars(name: str, seen: frozenset[str]) -> set[str]:
        if name in SCALARS:
            return {name}
        if name in seen or name not in given:
            return set()
        return set().union(*(scalars(other, seen | {name}) for other in given[name]))

    found = {name: scalars(name, frozenset()) for name in given}
    return {name: tuple(sorted(types)) for name, types in found.items() if types}


def parameters_of(kernel: cl.Kernel, typedefs: Mapping[str, tuple[str, ...]]) -> tuple[Parameter, ...] | None:
    """Return the parameters of a kernel, None if the driver does not report them. `typedefs` are as from `scalar_typedefs`."""
    try:
        return tuple(_parameter(kernel, index, typedefs) for index in range(kernel.num_args))
    except cl.Error:
        return None


def _parameter(kernel: cl.Kernel, index: int, typedefs: Mapping[str, tuple[str, ...]]) -> Parameter:
    query = cl.kernel_arg_info
    address = kernel.get_arg_info(index, query.ADDRESS_QUALIFIER)
    type_name = str(kernel.get_arg_info(index, query.TYPE_NAME)).strip("\0 ")
    name = str(kernel.get_arg_info(index, query.NAME)).strip("\0 ")
    if address == cl.kernel_arg_address_qualifier.LOCAL:
        return Parameter(name, type_name, "local")
    if type_name.endswith("*"):
        return Parameter(name, type_name, "pointer", access=_access(kernel, index, address))
    if type_name in SCALARS:
        return Parameter(name, type_name, "scalar")
    scalars = typedefs.get(type_name, ())
    return Parameter(name, type_name, "scalar" if len(scalars) == 1 else "other", scalars)


def _access(kernel: cl.Kernel, index: int, address: object) -> str:
    of_pointer = cl.kernel_arg_type_qualifier
    if address == cl.kernel_arg_address_qualifier.CONSTANT:
        return "unchanging"
    try:
        qualifier: Any = kernel.get_arg_info(index, cl.kernel_arg_info.TYPE_QUALIFIER)
    except cl.Error:
        return ""
    if not qualifier & of_pointer.CONST:
        return "writable"
    return "unchanging" if qualifier & of_pointer.RESTRICT and not qualifier & of_pointer.VOLATILE else ""


def hidden_of(kernel: str, source: str, parameters: Sequence[Parameter] | None) -> Hidden | None:
    """Return the hidden parameters of a kernel, None if it has none; by its program's text if the driver reports none."""
    if parameters is None:
        return next((kind for kind in _KINDS if any(mentions(source, macro) for macro in kind.macros)), None)
    names = [parameter.name for parameter in parameters]
    found = next((kind for kind in _KINDS if names[:1] == [kind.state]), None)
    for kind in _KINDS:
        if kind is found or kind.state not in names:
            continue
        macro = next((macro for macro in kind.macros if mentions(source, macro)), kind.macros[-1])
        more = ", and the only hidden one" if kind is SCAN else ""
        if (found, kind) == (GRID, GANGS):
            more = "; in a kernel with a grid, call the functions that take &grid instead"
        raise LaunchError(f"kernel {kernel!r}: {macro} must be the first parameter{more}")
    return found


def exclusive_pairs(parameters: Sequence[Parameter]) -> tuple[tuple[int, int], ...]:
    """Places of parameters that must not get one buffer: one that a compiler takes for unchanging, and one that is written."""
    places: dict[str, list[int]] = {"unchanging": [], "writable": [], "": []}
    for index, parameter in enumerate(parameters):
        places[parameter.access].append(index)
    return tuple((fixed, written) for fixed in places["unchanging"] for written in places["writable"])
