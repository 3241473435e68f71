"""What `portbar/atomics.h` offers on a device: types, address spaces, scopes, and why the rest is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from portbar.device.facts import DeviceFacts
    from portbar.findings.findings import Findings


@dataclass(frozen=True)
class AtomicType:
    """A type of OpenCL C as the templates see it.

    Attributes
    ----------
    name : str
        In OpenCL C.
    bits : int
    kind : {"int", "uint", "float"}
    """

    name: str
    bits: int
    kind: str

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
        return f"as_{self.bits_type}({expression})" if self.name != self.bits_type else expression

    def from_bits(self, expression: str) -> str:
        """A value of `bits_type` as this type."""
        return f"as_{self.name}({expression})" if self.name != self.bits_type else expression


#: Every type that atomics are offered for, in the order in which tables list them.
TYPES: Final = (
    AtomicType("char", 8, "int"),
    AtomicType("uchar", 8, "uint"),
    AtomicType("short", 16, "int"),
    AtomicType("ushort", 16, "uint"),
    AtomicType("int", 32, "int"),
    AtomicType("uint", 32, "uint"),
    AtomicType("long", 64, "int"),
    AtomicType("ulong", 64, "uint"),
    AtomicType("float", 32, "float"),
    AtomicType("double", 64, "float"),
    AtomicType("half", 16, "float"),
)

_ALWAYS: Final = tuple(kind.name for kind in TYPES if kind.bits <= 32 and kind.name != "half")

#: Float type -> address space -> the compile probe of a native addition.
NATIVE_ADD_PROBES: Final = {
    "float": {"global": "float_atomics", "local": "float_atomics_local"},
    "double": {"global": "double_atomics", "local": "double_atomics_local"},
}


def _lacks_svm(name: str) -> str:
    return (
        f"memory_scope_all_svm_devices needs fine-grained shared virtual memory with atomics, which {name} is not known to "
        "have; use memory_scope_device"
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
        hold within a work-group only, `seq_cst` when that order is not to be had.
    """

    types: tuple[str, ...] = _ALWAYS
    spaces: tuple[str, ...] = ("global", "local")
    scopes: tuple[str, ...] = ("sub_group", "work_group", "device")
    native_add: frozenset[tuple[str, str]] = frozenset()
    refused: Mapping[str, str] = field(
        default_factory=lambda: {"all_svm_devices": _lacks_svm("the device")}, hash=False
    )

    def offered(self) -> tuple[AtomicType, ...]:
        """The offered types."""
        return tuple(kind for kind in TYPES if kind.name in self.types)

    def withheld(self) -> tuple[tuple[AtomicType, str], ...]:
        """Types that the device's compiler knows but that have no atomics here, with the reason."""
        return tuple((kind, self.refused[kind.name]) for kind in TYPES if kind.name in self.refused)


def atomics_table(facts: DeviceFacts, findings: Findings | None, atomics: str, *, ordering: str = "") -> AtomicsTable:
    """What one atomics strategy offers on a device.

    Parameters
    ----------
    facts : DeviceFacts
    findings : Findings or None
        Compile probes win over what the device reports.
    atomics : str
        The strategy.
    ordering : str
        Why memory is ordered within a work-group only; empty where it is ordered throughout the device.
    """
    builds = findings.builds if findings is not None else {}

    def has(probe: str, *, reported: bool | None) -> bool:
        return bool(builds.get(probe, reported))

    int64, fp64 = has("int64_atomics", reported=facts.int64_atomics), has("fp64", reported=facts.fp64)
    # NVIDIA computes with half but lacks the extension, and with it what turns one into bits.
    fp16 = bool(facts.fp16) and has("fp16", reported=True)
    types = set(_ALWAYS)
    refused: dict[str, str] = {}
    lacks_int64 = (
        f"64-bit atomics need cl_khr_int64_base_atomics and cl_khr_int64_extended_atomics, which {facts.name or 'the device'} "
        "lacks; use a 32-bit type"
    )
    if int64:
        types |= {"long", "ulong"}
    else:
        refused |= {"long": lacks_int64, "ulong": lacks_int64}
    if int64 and fp64:
        types.add("double")
    elif fp64:
        refused["double"] = lacks_int64
    if fp16:
        types.add("half")
    else:
        refused["half"] = f"half needs cl_khr_fp16, which {facts.name or 'the device'} lacks; use float"

    scopes = ["sub_group", "work_group", "device"]
    if _shares_with_host(facts):
        scopes.append("all_svm_devices")
    else:
        refused["all_svm_devices"] = _lacks_svm(facts.name or "the device")
    if ordering:
        refused["ordering"] = ordering
    if atomics == "c11" and not _has_seq_cst(facts, findings):
        refused["seq_cst"] = (
            f"{facts.name or 'the device'} does not claim memory_order_seq_cst, and no litmus tests have shown it; use "
            "memory_order_acq_rel, or run portbar check"
        )
    spaces = ["global", "local"]
    if atomics == "c11" and builds.get("generic_address_space"):
        spaces.append("generic")

    def adds(kind: str, probe: str) -> bool:
        if atomics in {"ptx", "membar"}:
            # PTX ISA: atom.add.f64 requires sm_60.
            return kind != "double" or facts.compute_capability >= 60
        # A CPU has no such instruction: its built-in is a loop too, without the pause of portbar's loop.
        return atomics == "c11" and "CPU" not in facts.type and bool(builds.get(probe))

    return AtomicsTable(
        types=tuple(kind.name for kind in TYPES if kind.name in types),
        spaces=tuple(spaces),
        scopes=tuple(scopes),
        native_add=frozenset(
            (kind, space)
            for kind, probes in NATIVE_ADD_PROBES.items()
            for space, probe in probes.items()
            if kind in types and adds(kind, probe)
        ),
        refused=refused,
    )


def _shares_with_host(facts: DeviceFacts) -> bool:
    """Whether atomics reach the host and other devices."""
    shared = "atomics" in (facts.svm_capabilities or ())
    claimed = facts.atomic_memory_capabilities
    return shared and (claimed is None or "scope_all_devices" in claimed)


def _has_seq_cst(facts: DeviceFacts, findings: Findings | None) -> bool:
    claimed = facts.atomic_memory_capabilities
    shown = findings is not None and findings.litmus.get("c11", "").startswith("pass")
    return shown or claimed is None or "seq_cst" in claimed
