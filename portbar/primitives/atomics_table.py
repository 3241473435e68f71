"""The features of `portbar/atomics.h` on a device: types, address spaces, scopes, and why the rest is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Final

from portbar.primitives.scalars import SCALARS
from portbar.records.dataclass import dataclass


@dataclass(frozen=True)
class AtomicType:
    """A type of OpenCL C as the templates see it."""

    #: In OpenCL C.
    name: str
    bits: int
    kind: str
    #: Whether conversions are written that do nothing.
    uniform: bool = False

    def made_uniform(self) -> AtomicType:
        """The same type, whose text is that of every other of its kind."""
        return replace(self, uniform=True)

    @property
    def bits_type(self) -> str:
        """The unsigned integer of this size."""
        return {8: "uchar", 16: "ushort", 32: "uint", 64: "ulong"}[self.bits]

    @property
    def word(self) -> str:
        """The unsigned integer on which the device's own atomics work: that around it for 8 and 16 bits."""
        return "ulong" if self.bits == 64 else "uint"

    @property
    def is_small(self) -> bool:
        """Whether operations work on the aligned 32 bits around it."""
        return self.bits < 32

    def to_bits(self, expression: str) -> str:
        """The expression's value as `bits_type`."""
        return f"as_{self.bits_type}({expression})" if self.uniform or self.name != self.bits_type else expression

    def from_bits(self, expression: str) -> str:
        """A value of `bits_type` as this type."""
        return f"as_{self.name}({expression})" if self.uniform or self.name != self.bits_type else expression


#: Every type that atomics are offered for, in the order in which tables list them.
TYPES: Final = tuple(
    AtomicType(scalar.c, scalar.bits, scalar.kind)
    for scalar in sorted(SCALARS, key=lambda scalar: scalar.c == "half")  # half comes last
)

#: Types that every device has.
ALWAYS: Final = tuple(kind.name for kind in TYPES if kind.bits <= 32 and kind.name != "half")


def pointer_to(space: str, kind: str) -> str:
    """The beginning of a pointer's declaration, where `PORTBAR_GENERIC` is in place of a named address space."""
    return f"volatile {'PORTBAR_GENERIC' if space == 'generic' else space} {kind} *"


def guards(space: str) -> tuple[str, str]:
    """Lines before and after text of an address space that the author's `-cl-std` may lack."""
    return ("#ifdef PORTBAR_GENERIC_ADDRESS_SPACE\n", "#endif\n") if space == "generic" else ("", "")


def lacks_svm(name: str) -> str:
    """Why there is no system scope."""
    return (
        f"memory_scope_all_svm_devices needs fine-grained shared virtual memory with atomics, which {name} is not known to "
        "support; use memory_scope_device"
    )


@dataclass(frozen=True)
class AtomicsTable:
    """The capability table of `portbar/atomics.h` on one device; whatever it does not list fails to build, with the reason.

    Attributes
    ----------
    types : tuple of str
        Names in OpenCL C.
    spaces : tuple of str
        `global`, `local`, and `generic` where the device has the generic address space.
    scopes : tuple of str
        Without `memory_scope_`.
    native_add : frozenset of (str, str)
        Float type and address space for which the device has an addition of its own; elsewhere it is a compare-exchange loop.
    refused : mapping of str to str
        Type or scope that is not offered -> why, and what would do instead. `ordering` when orders other than relaxed
        hold within a work-group only, `seq_cst` if that order is unsupported.
    """

    types: tuple[str, ...] = ALWAYS
    spaces: tuple[str, ...] = ("global", "local")
    scopes: tuple[str, ...] = ("sub_group", "work_group", "device")
    native_add: frozenset[tuple[str, str]] = frozenset()
    refused: Mapping[str, str] = field(default_factory=lambda: {"all_svm_devices": lacks_svm("the device")}, hash=False)

    def offered(self) -> tuple[AtomicType, ...]:
        """The offered types."""
        return tuple(kind for kind in TYPES if kind.name in self.types)

    def withheld(self) -> tuple[tuple[AtomicType, str], ...]:
        """Types that the device's compiler knows but that have no atomics here, with the reason."""
        return tuple((kind, self.refused[kind.name]) for kind in TYPES if kind.name in self.refused)
