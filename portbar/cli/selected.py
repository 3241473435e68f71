"""The devices that a command works on: listed in a child process, selected by `--device`, and checked."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

from portbar.cli.output import err, explained, say
from portbar.cli.progress import ShownSteps
from portbar.device import listing
from portbar.device.addresses import DeviceAddress, select, select_devices
from portbar.device.facts import DeviceFacts, facts, platform_title
from portbar.device.listing import FaultyDriver, Listing
from portbar.device.usable import EmptyPlatform, Usability, check, check_listed
from portbar.errors import DeviceError
from portbar.records.plain import amount

if TYPE_CHECKING:
    import pyopencl as cl

#: Estimates for the user: seconds that listing devices takes, and checking one device, two at a time.
_LISTING_S: Final = 0.5
_CHECK_S: Final = 0.7


def listed() -> Listing:
    """Return the drivers' list, queried in a child process: no driver is loaded into this one."""
    # Commands need this module next. Importing it takes a third of the time of the child, which has a processor of its own.
    threading.Thread(target=importlib.import_module, args=("portbar.choices.profile",), daemon=True).start()
    with ShownSteps(err()) as steps:
        steps.step("", "listing devices", _LISTING_S)
        return listing.look(say=lambda text: steps.say(f"portbar: {text}"))


def tell_faulty(faulty: Sequence[FaultyDriver]) -> None:
    """Name the drivers that could not be listed, on standard error."""
    for fault in faulty:
        say(str(fault))


def chosen(patterns: Sequence[str]) -> list[tuple[DeviceAddress, cl.Device]]:
    """Return the devices that `--device` selects, all without it; report and skip drivers that cannot be listed."""
    found = listed()
    tell_faulty(found.faulty)
    if found.problem:
        raise DeviceError(found.problem)
    select(found.devices, patterns)
    return select_devices(patterns)


def check_devices(
    known: Sequence[tuple[DeviceAddress, DeviceFacts]], *, refresh: bool
) -> list[tuple[DeviceAddress, DeviceFacts, Usability]]:
    """Check whether listed devices work."""
    with ShownSteps(err()) as steps:
        steps.step("", f"checking {amount(len(known), 'device')}", _CHECK_S * len(known) if refresh else 0.0)
        verdicts = check_listed(known, refresh=refresh)
    return [(address, dict(known)[address], verdict) for address, verdict in verdicts]


def device_entry(address: DeviceAddress, of: DeviceFacts) -> dict[str, Any]:
    """Return what identifies a device, as JSON values."""
    return {"device": number(address), "name": of.name, "platform": platform_title(of)}


def device_json(address: DeviceAddress, of: DeviceFacts, verdict: Usability) -> dict[str, Any]:
    """Return what identifies a device and whether it works, as JSON values."""
    words = {"usable": verdict.usable, "reason": verdict.reason, "remedy": verdict.remedy}
    return device_entry(address, of) | words


def empty_json(platform: EmptyPlatform) -> dict[str, Any]:
    """Return a platform without devices as JSON values."""
    return {"name": platform.name, "reason": platform.reason, "remedy": platform.remedy}


def number(address: DeviceAddress) -> str:
    """Return the name of a device at the command line."""
    return f"{address.platform_index}:{address.device_index}"


def each_device(
    patterns: Sequence[str],
    work: Callable[[dict[str, Any], ShownSteps, DeviceAddress, cl.Device], None],
    done: str,
    **members: Any,
) -> tuple[list[dict[str, Any]], bool]:
    """Work on the usable devices that `--device` selects; the entry of each device, and whether Ctrl-C ended this.

    `work` fills in a device's entry, which holds `members` before. On Ctrl-C an entry says that this came before `done`.
    """
    found: list[dict[str, Any]] = []
    with ShownSteps(err()) as steps:
        try:
            for address, device in chosen(patterns):
                of = facts(device)
                entry = device_entry(address, of) | {"status": "interrupted", "reason": f"interrupted before {done}"}
                entry |= deepcopy(members)
                found.append(entry)
                verdict = check(address)
                if verdict.usable:
                    work(entry, steps, address, device)
                else:
                    reason = f"does not work: {explained(verdict.reason, verdict.remedy)}"
                    entry |= {"status": "unusable", "reason": reason}
                if entry["reason"]:
                    steps.say(f"{address}: {entry['reason']}")
        except KeyboardInterrupt:
            steps.say("portbar: interrupted; the results so far are shown")
            return found, True
    return found, False
