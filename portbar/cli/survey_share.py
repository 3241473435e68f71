"""`portbar survey --share`: devices without a record first, and what to do with the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from portbar.cli.output import say
from portbar.cli.selected import listed, tell_faulty
from portbar.device.addresses import DeviceAddress, select, select_devices
from portbar.device.facts import DeviceFacts, facts
from portbar.errors import DeviceError
from portbar.records.files import shipped
from portbar.records.placing import slug

if TYPE_CHECKING:
    import pyopencl as cl

#: Seconds of the whole command, but for its last seconds: under ten minutes.
LIMIT_S: Final = 540.0
#: The file to send in, unless --output names one.
FILE: Final = "portbar-record.json"


@dataclass(frozen=True)
class Found:
    """The devices to survey, and the drivers that could not be listed with the reason."""

    devices: list[tuple[DeviceAddress, cl.Device]]
    unlisted: list[str]


def found(patterns: Sequence[str]) -> Found:
    """Return the devices that `--device` selects, all without it, those of most value first.

    A driver that crashes while it is listed is worth sending in, too. `DeviceError` if there is neither.
    """
    seen = listed()
    tell_faulty(seen.faulty)
    unlisted = [str(fault) for fault in seen.faulty]
    if seen.problem:
        if not unlisted:
            raise DeviceError(seen.problem)
        return Found([], unlisted)
    select(seen.devices, patterns)
    known = {_device_of(name) for name in shipped()}
    devices = sorted(select_devices(patterns), key=lambda one: order(facts(one[1]), known))
    return Found(devices, unlisted)


def order(of: DeviceFacts, known: set[tuple[str, ...]]) -> tuple[bool, bool]:
    """Return what sorts devices: those without a record first, and GPUs before others."""
    return _device_of(slug({"facts": of.to_json()})) in known, "GPU" not in of.type


def tell(record: dict[str, Any], file: Path | None) -> None:
    """Say where the record is, and what to do with it."""
    say(f"{file} is the file to send in; nothing was sent. It holds no names of hosts, users or folders.")
    say("attach it to an issue of portbar: docs/records.md says which are wanted")
    if any(entry["status"] in {"complete", "partial"} for entry in record["devices"]):
        say(f"or, in a checkout: portbar submit {file}")


def _device_of(name: str) -> tuple[str, ...]:
    """The platform and the device of a record's name, without the driver's version."""
    return tuple(name.split("--")[:2])
