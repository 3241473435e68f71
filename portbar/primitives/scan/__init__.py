"""Scans over all work-groups of a launch, inside kernels, by look-back with fallback: `portbar/scan.h`.

Not for scans of arrays from the host (`portbar.arrays.scan`), nor for those of a grid, a work-group or a sub-group
(`portbar.primitives.reduction`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from portbar.errors import BuildError, Error
from portbar.primitives.pieces import Header, Piece
from portbar.primitives.reduction.code import combined, extensions_for, literal, neutral, struct_lines
from portbar.primitives.reduction.loops import Reduction, check_identifier
from portbar.primitives.reduction.operators import BuiltIn
from portbar.primitives.reduction.types import Array, Type, structs_in
from portbar.primitives.scan.declared import declared
from portbar.primitives.scan.look_back import LookBack
from portbar.primitives.strategy import Strategy
from portbar.records.dataclass import dataclass

if TYPE_CHECKING:  # takes long to import
    from portbar.reading.found import Facts

_INCLUDED: Final = "portbar/scan.h"
PARAMETER: Final = "PORTBAR_SCAN_PARAM"
#: Words before those of tiles, the first of which is the ticket: a cache line or two.
TICKET_WORDS: Final = 64

#: Suffixes of what a scan defines.
_NAMES: Final = (
    "value",
    "scan",
    "combine",
    "neutral",
    "begin",
    "publish",
    "missing",
    "missing_tile",
    "supply",
    "inclusive",
    "exclusive",
)


@dataclass(frozen=True)
class DeviceScan:
    """A scan over the work-groups of a launch, computed in a kernel by functions with its name as a prefix.

    Parameters
    ----------
    name : str
        The prefix of the generated types and functions, as in ``rank_scan`` and ``rank_publish``.
    dtype : dtype
        The type of values, as for `portbar.Reduction`: 16 bytes or less.
    op : str or Operator
        As for `portbar.Reduction`, but neither ``"argmin"`` nor ``"argmax"``. It need not commute.
    neutral : str or number, optional
        The neutral element of a `portbar.Operator`, instead of its own.
    local_size : int, optional
        Maximum work-group size, for which local memory is reserved.

    Raises
    ------
    Error
        An invalid name; unsupported types, operators and sizes.
    """

    name: str
    dtype: Any
    op: Any = "+"
    _: KW_ONLY
    neutral: Any = None
    local_size: int = 256

    def __post_init__(self) -> None:
        check_identifier("a scan", self.name)
        kind = self.kind
        if isinstance(kind, Array):
            raise Error(f"scan {self.name!r} has array values, which are unsupported: use a structure")
        if isinstance(self.reduction.operator, BuiltIn) and self.reduction.operator.finds_index:
            raise Error(
                f"scan {self.name!r} does not support {self.op!r}: use a portbar.Operator on a structure with an index"
            )
        if kind.size > 16:
            raise Error(f"scan {self.name!r} has values of {kind.size} bytes; the limit is 16")
        size = self.local_size
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= 4096:
            raise Error(f"local_size= of scan {self.name!r} must be an integer from 1 to 4096, not {size!r}")

    @cached_property
    def reduction(self) -> Reduction:
        """Type and operator."""
        return Reduction(self.dtype, self.op, neutral=self.neutral)

    @cached_property
    def kind(self) -> Type:
        """The type of values."""
        return self.reduction.type_called(f"{self.name}_value")

    @property
    def by(self) -> LookBack:
        """Return the names that its look-back uses."""
        value, name = f"{self.name}_value", self.name
        return LookBack(f"portbar_{name}", value, f"{name}_combine", "local ", "PORTBAR_SCAN_POLLS", public=True)

    @property
    def typedefs(self) -> list[str]:
        """The type of values, and the structures in it."""
        found = [f"typedef struct {{ {' '.join(struct_lines(one))} }} {one.c};" for one in structs_in(self.kind)]
        called = f"{self.name}_value"
        return found if self.kind.c == called else [*found, f"typedef {self.kind.c} {called};"]

    @property
    def extensions(self) -> tuple[str, ...]:
        """Extensions that its values require."""
        return extensions_for([self.kind])

    @property
    def combined(self) -> str:
        """The body of the function that combines two values."""
        return combined(self.kind, self.reduction.operator)

    @property
    def neutral_value(self) -> str:
        """The body of the function that returns the neutral element."""
        op = self.reduction.operator
        given = None if self.neutral is None or isinstance(op, BuiltIn) else literal(self.neutral, self.kind)
        return neutral(self.kind, op, given)

    @property
    def generated_names(self) -> frozenset[str]:
        """Every name that the scan puts into the program."""
        return frozenset(f"{self.name}_{part}" for part in _NAMES)


def check_scans(scans: Any) -> tuple[DeviceScan, ...]:
    """The scans of a program as a tuple. `Error` if an object is not a scan, or two share a name."""
    made = (scans,) if isinstance(scans, DeviceScan) else tuple(scans)
    for place, one in enumerate(made):
        if not isinstance(one, DeviceScan):
            raise Error(f"scans= must hold portbar.DeviceScan objects, not {one!r}")
        if any(one.generated_names & other.generated_names for other in made[:place]):
            raise Error(f"two scans define functions that begin with {one.name!r}; rename one")
    return made


def check_included(name: str, headers: Sequence[str], scans: tuple[DeviceScan, ...]) -> None:
    """Check that a program with scans includes their header; a `BuildError` if it does not."""
    if scans and _INCLUDED not in headers:
        raise BuildError(
            f"{name}: scans= declares {scans[0].name!r}, but the source does not include the header; add "
            f'#include "{_INCLUDED}"'
        )


def check_declared(name: str, text: str, options: tuple[str, ...], scans: tuple[DeviceScan, ...]) -> None:
    """Check that a program without scans has no kernel that scans; a `BuildError` if it has."""
    from portbar.reading.words import words  # noqa: PLC0415 (arrays are scanned without it)

    if not scans and PARAMETER in words(text, options):
        raise BuildError(f"{name}: a kernel takes {PARAMETER}, but scans= declares no portbar.DeviceScan")


def check_scans_used(name: str, facts: Facts, scans: tuple[DeviceScan, ...]) -> None:
    """Check that a program with scans can be what its author means.

    `BuildError` if the source defines a name of a scan outside of functions, a kernel lacks the parameter for the state, or
    never supplies missing tiles.
    """
    for scan in scans:
        facts.check_undefined(scan.generated_names, f"scan {scan.name!r}")
        for kernel in facts.kernels.values():
            if not kernel.is_whole or not facts.is_whole:
                continue
            if f"{scan.name}_begin" in kernel.calls and "portbar_scan_param" not in kernel.parameters:
                raise BuildError(
                    f"{name}: {scan.name}_begin needs memory for the values of work-groups: make {PARAMETER} the first "
                    f"parameter of kernel {kernel.name!r}"
                )
            calls = [part for part in ("missing", "supply") if f"{scan.name}_{part}" not in kernel.calls]
            if f"{scan.name}_publish" in kernel.calls and calls:
                raise BuildError(
                    f"{name}: {scan.name}_publish without {scan.name}_{calls[0]} in kernel {kernel.name!r} would have to wait "
                    f"for work-groups that may never run: after it, while ({scan.name}_missing(&scan)) "
                    f"{scan.name}_supply(&scan, this work-item's contribution to tile {scan.name}_missing_tile(&scan));"
                )


def header(scans: tuple[DeviceScan, ...] = ()) -> Header:
    """`portbar/scan.h` with the functions of some scans."""

    def pieces(_strategy: Strategy) -> list[Piece]:
        return [("scan/device.mako", name) for name in ("parameters", *(("common", "every_scan") if scans else ()))]

    def context(_strategy: Strategy) -> dict[str, Any]:
        return {"scans": scans, "ticket_words": TICKET_WORDS}

    return Header(
        "scan",
        "Scans over all work-groups, by look-back with fallback.",
        pieces,
        context,
        ("atomics",),
        page="scan.md#scans-inside-your-own-kernels",
        declared=declared((one.name, one.typedefs) for one in scans),
        of=header,
    )


HEADER: Final = header()
