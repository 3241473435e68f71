"""The facts that devices and platforms report about themselves, which can be written to JSON."""

# Without `from __future__ import annotations`: `records.classes.readers` takes annotations as values.

import hashlib
import json
import os
import platform as this_machine
import re
from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Annotated, Any, Self

from portbar.device.emulation import emulator
from portbar.errors import RecordError
from portbar.records.classes import Rule, in_words, plain, readers, ruled
from portbar.records.dataclass import dataclass
from portbar.records.plain import plain_text

if TYPE_CHECKING:
    import pyopencl as cl

_SAME_ARCHITECTURE = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}

#: Names of bits, the lowest first; the first bit of a type says that it is the platform's default.
_TYPES = ("", "CPU", "GPU", "ACCELERATOR", "CUSTOM")
_ATOMIC_CAPABILITIES = (
    *("relaxed", "acq_rel", "seq_cst"),
    *("scope_work_item", "scope_work_group", "scope_device", "scope_all_devices"),
)
_SVM_CAPABILITIES = ("coarse_grain_buffer", "fine_grain_buffer", "fine_grain_system", "atomics")

_NUMBERS = {
    "compute_units": "MAX_COMPUTE_UNITS",
    "max_sub_groups": "MAX_NUM_SUB_GROUPS",
    **{name: name.upper() for name in ("max_work_group_size", "local_mem_size", "global_mem_size", "address_bits")},
}
_NVIDIA = {
    "compute_capability_major": "COMPUTE_CAPABILITY_MAJOR_NV",
    "compute_capability_minor": "COMPUTE_CAPABILITY_MINOR_NV",
    "warp_size": "WARP_SIZE_NV",
    "registers_per_block": "REGISTERS_PER_BLOCK_NV",
    "multiprocessors": "MAX_COMPUTE_UNITS",
    "kernel_exec_timeout": "KERNEL_EXEC_TIMEOUT_NV",
    "integrated_memory": "INTEGRATED_MEMORY_NV",
}

#: Characters of a list of extensions at most: a thousand of them.
_LONGEST_LIST = 1 << 15

#: Variables that set the number or use of threads in CPU runtimes; no fact of the device shows them.
_SCHEDULING_VARIABLES = ("OCLGRIND_NUM_THREADS", "LP_NUM_THREADS", "POCL_AFFINITY", "POCL_WORK_GROUP_METHOD")


@ruled(
    "facts",
    description="The properties that the driver reports. More members may come; each is plain.",
    maxProperties=200,
    required=["name"],
    additionalProperties=True,
)
@dataclass(frozen=True)
class DeviceFacts:
    """The claims of a device and its platform.

    If the driver reports nothing, a text or a list of names is empty and other values are None.

    Attributes
    ----------
    platform_name, platform_version, platform_vendor, name, vendor, version, driver_version : str
        As reported, without surrounding blanks.
    type : tuple of str
        The reported ones of CPU, GPU, ACCELERATOR and CUSTOM.
    opencl_c_versions : tuple of str
        Such as ``("1.0", "1.1", "1.2", "3.0")``, ascending. Only a compilation shows which of them work.
    compute_units, max_work_group_size, address_bits : int
        As reported.
    max_work_item_sizes : tuple of int
        One per dimension.
    local_mem_size, global_mem_size : int
        Bytes.
    extensions, features : tuple of str
        Sorted; the features are those of OpenCL C 3.0 (``__opencl_c_...``).
    atomic_memory_capabilities, atomic_fence_capabilities : tuple of str
        Of relaxed, acq_rel, seq_cst, scope_work_item, scope_work_group, scope_device and scope_all_devices.
        None means unknown: OpenCL 2.x has the atomics without the query.
    svm_capabilities : tuple of str
        Shared virtual memory, of coarse_grain_buffer, fine_grain_buffer, fine_grain_system and atomics.
    max_sub_groups : int
        Maximum number of sub-groups per work-group, 0 without sub-groups.
    sub_group_independent_forward_progress : bool
        As claimed, which is unreliable: PoCL claims it without providing it.
    fp64, fp16, int64_atomics : bool
        int64_atomics means both 64-bit atomics extensions.
    nvidia : dict of str to int
        compute_capability_major, compute_capability_minor, warp_size, registers_per_block, multiprocessors,
        kernel_exec_timeout, integrated_memory; None for other vendors.
    emulator : str
        What executes the instructions of a device that is the host's processor, such as `qemu-aarch64`; empty for the processor
        itself, and where no emulator is known.
    """

    platform_name: str = ""
    platform_version: str = ""
    platform_vendor: str = ""
    name: str = ""
    vendor: str = ""
    version: str = ""
    driver_version: str = ""
    type: tuple[str, ...] = ()
    opencl_c_versions: tuple[str, ...] = ()
    compute_units: int | None = None
    max_work_group_size: int | None = None
    max_work_item_sizes: Annotated[tuple[int, ...], Rule(maxItems=16)] | None = None
    local_mem_size: int | None = None
    global_mem_size: int | None = None
    address_bits: int | None = None
    extensions: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    atomic_memory_capabilities: tuple[str, ...] | None = None
    atomic_fence_capabilities: tuple[str, ...] | None = None
    svm_capabilities: tuple[str, ...] | None = None
    max_sub_groups: int | None = None
    sub_group_independent_forward_progress: bool | None = None
    fp64: bool | None = None
    fp16: bool | None = None
    int64_atomics: bool | None = None
    nvidia: Annotated[Mapping[str, int | None], Rule(maxProperties=50)] | None = field(default=None, hash=False)
    emulator: str = ""

    @property
    def compute_capability(self) -> int:
        """NVIDIA's compute capability times ten; 0 for other vendors."""
        nvidia = self.nvidia or {}
        return 10 * (nvidia.get("compute_capability_major") or 0) + (nvidia.get("compute_capability_minor") or 0)

    @property
    def is_host(self) -> bool:
        """Whether the device is the host's processor, whose threads run its work-groups."""
        return "CPU" in self.type

    def to_json(self) -> dict[str, Any]:
        """Return the facts as a JSON object."""
        value: dict[str, Any] = plain(self)
        return value

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Return the facts that `to_json` wrote; unknown members are ignored, missing ones are None.

        `RecordError` if a member has an invalid type.
        """
        if not isinstance(record, Mapping):
            raise RecordError(f"device facts must be a JSON object, not {type(record).__name__}")
        values: dict[str, Any] = {}
        for name, read in readers(cls).items():
            if name in record:
                try:
                    values[name] = read(record[name])
                except (TypeError, ValueError):
                    must = f"device facts: {name} must be {in_words(cls, name)}"
                    raise RecordError(f"{must}, not {record[name]!r}") from None
        return cls(**values)


def host_architecture() -> str:
    """Return the name of this machine's kind of processor, such as `x86_64` or `aarch64`; empty where it is not known."""
    return architecture(this_machine.machine())


def architecture(machine: str | None) -> str:
    """Return one name for a kind of processor that operating systems call differently."""
    name = (machine or "").lower()
    return _SAME_ARCHITECTURE.get(name, name)


def facts(device: "cl.Device") -> DeviceFacts:
    """Return what a device reports. No answer of a driver raises: it costs the one fact."""
    listed = ask(device, "EXTENSIONS")
    extensions = tuple(sorted(set(plain_text(listed, _LONGEST_LIST).split())))
    features = _version_names(ask(device, "OPENCL_C_FEATURES"))
    progress = _integer(ask(device, "SUB_GROUP_INDEPENDENT_FORWARD_PROGRESS"))
    sizes = ask(device, "MAX_WORK_ITEM_SIZES")
    long_atomics = {"cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics"}
    is_nvidia = "cl_nv_device_attribute_query" in extensions
    texts = {name: plain_text(ask(device, name.upper())) for name in ("name", "vendor", "version", "driver_version")}
    numbers = {name: _integer(ask(device, question)) for name, question in _NUMBERS.items()}
    as_reported: dict[str, Any] = {**texts, **numbers}
    types = _names_of_bits(_integer(ask(device, "TYPE")) or 0, _TYPES)
    return replace(
        platform_facts(ask(device, "PLATFORM")),
        **as_reported,
        type=types,
        opencl_c_versions=_c_versions(ask(device, "OPENCL_C_ALL_VERSIONS"), ask(device, "OPENCL_C_VERSION")),
        max_work_item_sizes=tuple(int(size) for size in sizes) if isinstance(sizes, list) and sizes else None,
        extensions=extensions,
        features=features,
        atomic_memory_capabilities=_capabilities(ask(device, "ATOMIC_MEMORY_CAPABILITIES")),
        atomic_fence_capabilities=_capabilities(ask(device, "ATOMIC_FENCE_CAPABILITIES")),
        svm_capabilities=_capabilities(ask(device, "SVM_CAPABILITIES"), _SVM_CAPABILITIES),
        sub_group_independent_forward_progress=None if progress is None else bool(progress),
        fp64=_fp64(_integer(ask(device, "DOUBLE_FP_CONFIG")), extensions, features),
        fp16=None if listed is None else "cl_khr_fp16" in extensions,
        int64_atomics=None if listed is None else long_atomics <= set(extensions),
        nvidia={key: _integer(ask(device, name)) for key, name in _NVIDIA.items()} if is_nvidia else None,
        emulator=emulator() if "CPU" in types else "",
    )


def ask(owner: Any, question: str) -> object:
    """Return a driver's answer to a question of `pyopencl.device_info` or `platform_info`; None for whatever goes wrong."""
    import pyopencl as cl  # noqa: PLC0415 (facts can be read from JSON without a driver)

    kind = cl.platform_info if isinstance(owner, cl.Platform) else cl.device_info
    try:
        return owner.get_info(getattr(kind, question))
    except Exception:  # noqa: BLE001 (drivers answer with errors of every kind, also undecodable text)
        return None


def scheduling_variables() -> dict[str, str]:
    """The user's variables that set the number or use of threads in CPU runtimes, as far as they have a value."""
    return {name: os.environ[name] for name in _SCHEDULING_VARIABLES if os.environ.get(name)}


def platform_facts(platform: Any) -> DeviceFacts:
    """Return the facts of a platform alone."""
    name, version, vendor = (plain_text(ask(platform, question)) for question in ("NAME", "VERSION", "VENDOR"))
    return DeviceFacts(name, version, vendor)


def platform_title(facts: DeviceFacts) -> str:
    """Return a platform's name and version, without the build options that some list after a comma."""
    version = facts.platform_version.partition(",")[0]
    return f"{facts.platform_name}, {version}" if version else facts.platform_name


def device_key(facts: DeviceFacts) -> str:
    """Return a name for what was found out about a device, stable until its driver or its platform changes.

    It is fit for a file name. It names this machine's kind of processor too, and any emulator: hosts of different
    kinds may share a home, and with it the cache.
    """
    of_device = [facts.name, facts.driver_version, facts.platform_name, facts.platform_version, facts.compute_units]
    scheduling = [os.environ.get(name, "") for name in _SCHEDULING_VARIABLES]
    identity = [*of_device, host_architecture(), scheduling, *filter(None, [facts.emulator])]
    digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:10]
    slug = re.sub(r"[^a-z0-9]+", "-", facts.name.lower()).strip("-")[:48].strip("-")
    return f"{slug or 'device'}-{digest}"


def _integer(value: object) -> int | None:
    return int(value) if isinstance(value, int) else None


def _version_names(value: object) -> tuple[str, ...]:
    entries = value if isinstance(value, list) else []
    return tuple(sorted({plain_text(getattr(entry, "name", "")) for entry in entries} - {""}))


def _c_versions(all_versions: object, one_version: object) -> tuple[str, ...]:
    """The versions of OpenCL C, ascending; before OpenCL 3.0 only the highest was reported."""
    pairs: set[tuple[int, int]] = set()
    if isinstance(all_versions, list):
        numbers = [getattr(entry, "version", None) for entry in all_versions]
        pairs = {(number >> 22, number >> 12 & 0x3FF) for number in numbers if isinstance(number, int)}
    if not pairs:
        match = re.match(r"OpenCL C (\d+)\.(\d+)", plain_text(one_version))
        if match is None:
            return ()
        pairs = {(int(match[1]), int(match[2]))}
    return tuple(f"{major}.{minor}" for major, minor in sorted(pairs))


def _names_of_bits(bits: int, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for place, name in enumerate(names) if name and bits >> place & 1)


def _capabilities(value: object, names: tuple[str, ...] = _ATOMIC_CAPABILITIES) -> tuple[str, ...] | None:
    # Relaxed order at work-group scope is mandatory: a value without any bit is invalid.
    bits = _integer(value)
    return _names_of_bits(bits, names) if bits else None


def _fp64(config: int | None, extensions: tuple[str, ...], features: tuple[str, ...]) -> bool | None:
    if config is None and not extensions:
        return None
    return bool(config) or "cl_khr_fp64" in extensions or "__opencl_c_fp64" in features
