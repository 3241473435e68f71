"""Finds OpenCL devices, in all platforms or by a user's patterns, and gives each an address for other processes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, TypeVar

from portbar.device import icd
from portbar.device.facts import ask, platform_facts
from portbar.errors import DeviceError
from portbar.records.classes import ruled
from portbar.records.dataclass import dataclass
from portbar.records.plain import plain_text

if TYPE_CHECKING:
    import pyopencl as cl

T = TypeVar("T")


@ruled("address")
@dataclass(frozen=True)
class DeviceAddress:
    """The position of a device in the list of platforms, with which a child process finds the same one."""

    #: Positions in `portbar.device.icd.load_platforms()` and among the platform's devices.
    platform_index: int
    device_index: int
    #: The names at these positions; checked when the address is used.
    platform_name: str
    device_name: str
    platform_version: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the address as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> DeviceAddress:
        """Return the address that `to_json` wrote."""
        return cls(**{entry.name: record[entry.name] for entry in fields(cls) if entry.name in record})

    def resolve(self) -> cl.Device:
        """Return the device.

        A process that asked the loader before portbar did may count its platforms differently. Then the only device of these
        names is taken. `DeviceError` if no device, or more than one, matches this address.
        """
        known = list_devices()
        for address, device in known:
            if address == self:
                return device
        alike = [device for address, device in known if address._names() == self._names()]
        if len(alike) == 1:
            return alike[0]
        problem = "no longer exists" if not alike else "has changed its number, and several devices have its name"
        raise DeviceError(f"the device {self} {problem}; available devices:\n{_listing(known)}")

    def _names(self) -> tuple[str, str, str]:
        return self.platform_name, self.platform_version, self.device_name

    def __str__(self) -> str:
        return (
            f"{self.platform_index}:{self.device_index} {self.device_name} "
            f"({' '.join(filter(None, [self.platform_name, self.platform_version]))})"
        )


def list_devices() -> list[tuple[DeviceAddress, cl.Device]]:
    """Return every device of every platform with its address; it does not check whether they work.

    `DeviceError` if there is no platform at all.
    """
    found = []
    for platform_index, platform in enumerate(icd.load_platforms()):
        names = platform_facts(platform)
        for device_index, device in enumerate(devices_of(platform)):
            name = plain_text(ask(device, "NAME"))
            address = DeviceAddress(platform_index, device_index, names.platform_name, name, names.platform_version)
            found.append((address, device))
    return found


def devices_of(platform: cl.Platform) -> list[cl.Device]:
    """Return a platform's devices; one that returns an error, as some without hardware do, has none."""
    import pyopencl as cl  # noqa: PLC0415 (facts can be read from JSON without a driver)

    try:
        return list(platform.get_devices())
    except cl.Error:
        return []


def device_of(caller: str, given: Any) -> cl.Device:
    """The device that a caller passed, or that of a queue; `DeviceError` in the caller's name for anything else."""
    import pyopencl as cl  # noqa: PLC0415 (facts can be read from JSON without a driver)

    if isinstance(given, cl.CommandQueue):
        return given.device
    # Not by its class: tests replace devices.
    if not hasattr(given, "get_info") or not hasattr(given, "platform"):
        raise DeviceError(
            f"{caller} requires a pyopencl.Device, or a queue on one, not {type(given).__name__}; `portbar.load_platforms()` "
            "returns platforms with their devices"
        )
    device: cl.Device = given
    return device


def root_of(device: cl.Device) -> cl.Device:
    """Return the device that a sub-device is a part of, or a part of a part; any other device itself."""
    parent: Any = ask(device, "PARENT_DEVICE")
    return device if parent is None else root_of(parent)


def address_of(device: cl.Device) -> DeviceAddress:
    """Return the address of a device. `DeviceError` if no platform lists it; a sub-device has no address."""
    known = list_devices()
    for address, candidate in known:
        if candidate == device:
            return address
    name = plain_text(ask(device, "NAME"))
    raise DeviceError(
        f"no platform lists the device {name!r} (for a sub-device, name the device that it is a part of); available "
        f"devices:\n{_listing(known)}"
    )


def select_devices(patterns: Sequence[str]) -> list[tuple[DeviceAddress, cl.Device]]:
    """Return the devices that a user asked for, each once, in the order of the patterns; all devices without any.

    ``"1:0"`` is the first device of the second platform. Anything else is a part, in any case, of "PLATFORM VERSION" or, if no
    platform has it, of a device's name: ``"intel"`` is Intel's platform, and not PoCL on a processor of Intel. `DeviceError`
    if a pattern matches nothing; the message lists what there is.
    """
    if isinstance(patterns, str):
        raise TypeError("select_devices requires a sequence of patterns, not one string")
    return select(list_devices(), patterns)


def select(known: Sequence[tuple[DeviceAddress, T]], patterns: Sequence[str]) -> list[tuple[DeviceAddress, T]]:
    """Return the entries of a listing whose addresses match, as `select_devices` does.

    `DeviceError` if a pattern matches nothing.
    """
    if not patterns:
        return list(known)
    chosen: list[tuple[DeviceAddress, T]] = []
    for pattern in patterns:
        matching = _matching(known, pattern.strip())
        if not matching:
            raise DeviceError(f"no device matches {pattern!r}; available devices:\n{_listing(known)}")
        chosen += [entry for entry in matching if entry not in chosen]
    return chosen


def _matching(known: Sequence[tuple[DeviceAddress, T]], pattern: str) -> list[tuple[DeviceAddress, T]]:
    """The entries that one pattern selects; a platform's name goes first, as devices repeat the names of vendors."""
    if re.fullmatch(r"\d+:\d+", pattern):
        return [entry for entry in known if pattern == f"{entry[0].platform_index}:{entry[0].device_index}"]
    wanted = pattern.lower()
    if not wanted:
        return []
    of_platforms = [
        entry for entry in known if wanted in f"{entry[0].platform_name} {entry[0].platform_version}".lower()
    ]
    return of_platforms or [entry for entry in known if wanted in entry[0].device_name.lower()]


def _listing(known: Sequence[tuple[DeviceAddress, object]]) -> str:
    return "\n".join(f"  {address}" for address, _ in known) or "  no device on any platform"
