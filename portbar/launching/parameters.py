"""Parameters of a kernel, as the driver reports them, and the hidden ones that portbar fills in."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import numpy as np
import pyopencl as cl

from portbar.errors import LaunchError
from portbar.primitives.scalars import TYPES
from portbar.records.dataclass import dataclass

_QUALIFIER: Final = r"\b(?:const|volatile|restrict|(?:__)?(?:global|constant))\b"
#: The numbers of elements of vectors, and none for a scalar.
_LANES: Final = ("", "2", "3", "4", "8", "16")


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
#: Checks of a debug build, in kernels without other hidden parameters; no author declares them.
CHECKS: Final = Hidden(("PORTBAR_AGREEMENT_PARAM",), "portbar_agreement_param", "portbar_agreement_launch")
SCAN: Final = Hidden(("PORTBAR_SCAN_PARAM",), "portbar_scan_param", "portbar_scan_launch")
_KINDS: Final = (GRID, GANGS, SCAN, CHECKS)


@dataclass(frozen=True)
class Argument:
    """One argument of a kernel, as the driver reports it."""

    name: str
    type_name: str
    #: Its address space, one of `pyopencl.kernel_arg_address_qualifier`.
    address: int
    #: Of `pyopencl.kernel_arg_type_qualifier`; None where the driver does not report them.
    qualifiers: int | None


@dataclass(frozen=True)
class KernelParameter:
    """One parameter of a kernel."""

    #: As written.
    name: str
    type_name: str
    #: ``local``, ``pointer``, ``scalar``, or ``other``: images, samplers, pipes, vectors and structs, left to PyOpenCL.
    kind: str
    #: The scalar type that has a name of the author's, also that of a pointer's elements.
    scalar: str | None = None
    #: ``unchanging`` for a pointer to what nothing may write during the launch (`constant`, or `const` and `restrict`),
    #: ``writable`` for a pointer to what the kernel may write, and empty for the rest.
    access: str = ""

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The NumPy type of a scalar parameter, None for anything else."""
        return TYPES.get(self.scalar or self.type_name) if self.kind == "scalar" else None

    @property
    def passed_as(self) -> np.dtype[Any] | None:
        """How PyOpenCL should pass an argument: a scalar's type, raw bytes, or None for what it must look at itself."""
        return np.dtype("V16") if self.name in {kind.launch for kind in _KINDS} else self.dtype


def scalar_of(type_name: str) -> str | None:
    """The scalar type of a pointer to scalars or vectors; None for another type."""
    element = type_name.removesuffix("*")
    if element not in TYPES:
        element = _parts(" ".join(re.sub(_QUALIFIER, "", element).split()))[0]
    return element or None


def bytes_of(type_name: str) -> int | None:
    """Bytes of a scalar or a vector type, None for another type."""
    scalar, lanes = _parts(type_name)
    # Three elements take as much as four.
    return TYPES[scalar].itemsize * (4 if lanes == "3" else int(lanes or 1)) if scalar else None


def _parts(type_name: str) -> tuple[str, str]:
    """The scalar type of a scalar or a vector type, and the number of its elements; two empty texts for another type."""
    scalar = type_name.rstrip("0123456789")
    lanes = type_name.removeprefix(scalar)
    return (scalar, lanes) if scalar in TYPES and lanes in _LANES else ("", "")


def arguments_of(kernel: cl.Kernel) -> tuple[Argument, ...] | None:
    """Return a kernel's arguments as the driver reports them, None if it does not."""
    try:
        return tuple(_argument(kernel, index) for index in range(kernel.num_args))
    except cl.Error:
        return None


def _argument(kernel: cl.Kernel, index: int) -> Argument:
    query = cl.kernel_arg_info
    address: Any = kernel.get_arg_info(index, query.ADDRESS_QUALIFIER)
    type_name = str(kernel.get_arg_info(index, query.TYPE_NAME)).strip("\0 ")
    name = str(kernel.get_arg_info(index, query.NAME)).strip("\0 ")
    try:
        qualifiers: Any = kernel.get_arg_info(index, query.TYPE_QUALIFIER)
    except cl.Error:
        qualifiers = None
    return Argument(name, type_name, int(address), None if qualifiers is None else int(qualifiers))


def parameters_of(
    arguments: Sequence[Argument] | None, scalar: Callable[[str], str | None]
) -> tuple[KernelParameter, ...] | None:
    """Return the parameters of a kernel with these arguments, None if the driver does not report them.

    `scalar` returns the scalar type that has a name of the author's, None if it is another type or unknown. A driver
    may report a parameter's type by such a name, and accept an argument of any size for it (the effect ARGUMENTS_UNCHECKED).
    """
    return None if arguments is None else tuple(_parameter(argument, scalar) for argument in arguments)


def _parameter(argument: Argument, scalar: Callable[[str], str | None]) -> KernelParameter:
    name, type_name = argument.name, argument.type_name
    if argument.address == cl.kernel_arg_address_qualifier.LOCAL:
        return KernelParameter(name, type_name, "local")
    if type_name.endswith("*"):
        element = type_name.removesuffix("*").strip()
        found = None if scalar_of(element) else scalar(element)
        return KernelParameter(name, type_name, "pointer", found, _access(argument))
    # Its type is that of its packets.
    if (argument.qualifiers or 0) & cl.kernel_arg_type_qualifier.PIPE:
        return KernelParameter(name, f"pipe {type_name}", "other")
    if type_name in TYPES:
        return KernelParameter(name, type_name, "scalar")
    # No author defines the name of a vector.
    found = None if bytes_of(type_name) else scalar(type_name)
    return KernelParameter(name, type_name, "other" if found is None else "scalar", found)


def _access(argument: Argument) -> str:
    of_pointer, qualifiers = cl.kernel_arg_type_qualifier, argument.qualifiers
    if argument.address == cl.kernel_arg_address_qualifier.CONSTANT:
        return "unchanging"
    if qualifiers is None:
        return ""
    if not qualifiers & of_pointer.CONST:
        return "writable"
    return "unchanging" if qualifiers & of_pointer.RESTRICT and not qualifiers & of_pointer.VOLATILE else ""


def hidden_of(kernel: str, names: Sequence[str] | None, used: Callable[[], AbstractSet[str]]) -> Hidden | None:
    """Return the hidden parameters of a kernel, None if it has none.

    `names` are those of its parameters, None if they are unknown: then the program's words decide, which `used` returns.
    """
    if names is None:
        return next((kind for kind in _KINDS if not used().isdisjoint(kind.macros)), None)
    found = next((kind for kind in _KINDS if names[:1] == [kind.state]), None)
    for kind in _KINDS:
        if kind is found or kind.state not in names:
            continue
        macro = next((macro for macro in kind.macros if macro in used()), kind.macros[-1])
        more = ", and the only hidden one" if kind is SCAN else ""
        if (found, kind) == (GRID, GANGS):
            more = "; in a kernel with a grid, call the functions that take &grid instead"
        raise LaunchError(f"kernel {kernel!r}: {macro} must be the first parameter{more}")
    return found


def exclusive_pairs(parameters: Sequence[KernelParameter]) -> tuple[tuple[int, int], ...]:
    """Places of parameters that must not get one buffer: one that a compiler takes for unchanging, and one that is written."""
    places: dict[str, list[int]] = {"unchanging": [], "writable": [], "": []}
    for index, parameter in enumerate(parameters):
        places[parameter.access].append(index)
    return tuple((fixed, written) for fixed in places["unchanging"] for written in places["writable"])
