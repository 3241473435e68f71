"""Lists devices in a child process, so that a driver that hangs or aborts over it costs its own entry only.

For commands, which may start processes; library calls list devices in their own process (`portbar.device.addresses`).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from portbar.device import child, icd
from portbar.device.addresses import DeviceAddress, devices_of, list_devices
from portbar.device.facts import DeviceFacts, facts, platform_facts
from portbar.device.icd import VendorFile
from portbar.errors import DeviceError
from portbar.records.dataclass import dataclass
from portbar.records.plain import plain_text

#: Seconds that all drivers together may take to load and to answer: some wake a device up first.
LIMIT_S: Final = 20.0

#: How many times as long they may take where processes start slowly.
_MOST_TIMES: Final = 10

_TASK: Final = "portbar.device.listing:list_task"


@dataclass(frozen=True)
class FaultyDriver:
    """A driver that could not be listed, so that nothing loads it any more."""

    #: The ICD file that names it, or the library that portbar registers.
    file: str
    library: str
    #: What it did.
    reason: str

    @property
    def remedy(self) -> str:
        """The remedy."""
        if self.reason.startswith(child.NO_ANSWER):
            return f"try again when the machine is less busy; if the driver hangs again, remove it, or move {self.file} away"
        return f"update or remove the driver, or move {self.file} away"

    def to_json(self) -> dict[str, str]:
        """As a JSON object, with the remedy."""
        return {"file": self.file, "library": self.library, "reason": self.reason, "remedy": self.remedy}

    def __str__(self) -> str:
        return f"skipped the driver of {self.file}, which fails when devices are listed: {self.reason}; {self.remedy}"


@dataclass(frozen=True)
class Listing:
    """The devices that the drivers list."""

    devices: tuple[tuple[DeviceAddress, DeviceFacts], ...]
    #: Platforms that list no devices.
    empty: tuple[DeviceFacts, ...] = ()
    #: Drivers that were skipped.
    faulty: tuple[FaultyDriver, ...] = ()
    #: Why no platform was found; empty if one was.
    problem: str = ""


def look(limit: float = LIMIT_S, say: Callable[[str], None] | None = None) -> Listing:
    """List devices; find and report a driver that hangs or aborts meanwhile, and load it no more.

    It is left out by this process, unless that has listed platforms before, and by all children. Drivers count as hanging
    after `limit` seconds, or longer where processes start slowly. `say` is called with a sentence where the search for a faulty
    driver makes this take longer. `DeviceError` if the loader fails without any ICD file, too, or in different ways from one
    time to the next. `ImportError` if PyOpenCL cannot be imported.
    """
    listing, reason = _try({}, limit)
    if listing is not None:
        return listing
    if say is not None:
        say(f"a driver failed when devices were listed ({reason}); trying one ICD file after another")
    faulty = _find_faulty(icd.vendor_files(os.environ), limit, reason)
    icd.leave_out([file for file, _ in faulty])
    listing, reason = _try({}, limit)
    if listing is None:
        raise DeviceError(
            f"the OpenCL drivers cannot be listed ({reason}), and no single ICD file is the cause: `OCL_ICD_VENDORS=FOLDER` "
            "loads only the drivers that FOLDER names"
        )
    left_out = tuple(FaultyDriver(file.path, file.library, why) for file, why in faulty)
    return Listing(listing.devices, listing.empty, left_out, listing.problem)


def _find_faulty(files: Sequence[VendorFile], limit: float, reason: str) -> list[tuple[VendorFile, str]]:
    """Files after whose addition listing fails, with what happens then; each is tried beside those that work."""
    kept: list[VendorFile] = []
    faulty: list[tuple[VendorFile, str]] = []
    if _try_with(kept, limit)[0] is None:
        raise DeviceError(
            f"the OpenCL drivers cannot be listed ({reason}), even without any ICD file: reinstall PyOpenCL, and uninstall "
            "pocl-binary-distribution if it is installed"
        )
    for file in files:
        listing, why = _try_with([*kept, file], limit)
        if listing is None:
            faulty.append((file, why))
        else:
            kept.append(file)
    return faulty


def _try_with(files: Sequence[VendorFile], limit: float) -> tuple[Listing | None, str]:
    with tempfile.TemporaryDirectory(prefix="portbar-") as folder:
        for file in files:
            Path(folder, file.name).write_bytes(file.content)
        return _try(icd.folder_variables(folder, os.environ), limit)


def _try(variables: dict[str, str], limit: float) -> tuple[Listing | None, str]:
    """List in a child; the listing, or None and what happened. It raises errors that no driver causes."""
    result = child.run_task(_TASK, {}, timeout=limit, at_most=_MOST_TIMES * limit, env=variables)
    doing = f" while {result.progress[-1]['doing']}" if result.progress else ""
    if result.status == "error":
        raise RuntimeError(result.message)
    if result.status != "ok":
        return None, plain_text(f"{result.message.partition('; last lines')[0]}{doing}")
    value = result.value
    if "unimportable" in value:
        raise ImportError(value["unimportable"], name="pyopencl")
    if "failed" in value:
        return None, plain_text(f"{value['failed']}{doing}")
    devices = tuple((DeviceAddress.from_json(at), DeviceFacts.from_json(of)) for at, of in value["devices"])
    return Listing(devices, tuple(map(DeviceFacts.from_json, value["empty"])), (), value["problem"]), ""


def list_task(_payload: dict[str, Any]) -> dict[str, Any]:
    """List devices and what they report: the child's side of `look`."""
    child.progress({"doing": "loading drivers"})
    try:
        import pyopencl as cl  # noqa: PLC0415 (this is what may fail)
    except ImportError as error:
        return {"unimportable": str(error)}
    try:
        platforms = icd.load_platforms()
        empty = []
        for platform in platforms:
            child.progress({"doing": "listing the devices of a platform"})
            of = platform_facts(platform)
            child.progress({"doing": f"listing the devices of the platform {of.platform_name!r}"})
            if not devices_of(platform):
                empty.append(of.to_json())
        listed = []
        for address, device in list_devices():
            child.progress({"doing": f"reading the properties of the device {address.device_name!r}"})
            listed.append((address.to_json(), facts(device).to_json()))
    except DeviceError as error:
        return {"devices": [], "empty": [], "problem": str(error)}
    except (cl.Error, MemoryError, OverflowError, UnicodeError) as error:
        return {"failed": f"{type(error).__name__}: {error}"}
    return {"devices": listed, "empty": empty, "problem": ""}
