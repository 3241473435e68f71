"""`portbar devices`."""

from __future__ import annotations

import sys
from typing import Any

import click
from rich.padding import Padding
from rich.table import Table

from portbar.cli.options import device_option, examples, json_option
from portbar.cli.output import explained, print_json, show
from portbar.cli.selected import check_devices, device_json, empty_json, listed, tell_faulty
from portbar.device.addresses import DeviceAddress, select
from portbar.device.facts import DeviceFacts
from portbar.device.quirks import loop_notice
from portbar.device.usable import Usability, explain_empty
from portbar.errors import DeviceError


@click.command(
    name="devices",
    epilog=examples("portbar devices", "portbar devices --json --device pocl", "portbar devices --refresh -d 1:0"),
)
@device_option
@json_option
@click.option("--refresh", is_flag=True, help="Check again whether each device works, ignoring stored results.")
def command(devices: tuple[str, ...], as_json: bool, refresh: bool) -> None:
    """List every OpenCL device with its facts, and whether a probe kernel compiled and ran on it.

    A driver that hangs or aborts during listing is reported and skipped.

    Exit status 3: no listed device works.
    """
    found = listed()
    if found.problem:
        tell_faulty(found.faulty)
        raise DeviceError(found.problem)
    report = {
        "devices": [_device(*one) for one in check_devices(select(found.devices, devices), refresh=refresh)],
        "empty_platforms": [empty_json(explain_empty(one)) for one in (() if devices else found.empty)],
        "faulty_drivers": [fault.to_json() for fault in found.faulty],
    }
    if as_json:
        print_json(report)
    else:
        _show(report)
        tell_faulty(found.faulty)
    if not any(entry["usable"] for entry in report["devices"]):
        sys.exit(3)


def _device(address: DeviceAddress, of: DeviceFacts, verdict: Usability) -> dict[str, Any]:
    """Return a device as JSON values, with what to know of one that works, from findings that are there already."""
    from portbar.choices.profile import profile_of  # noqa: PLC0415 (`listed` imports it while the drivers are listed)

    profile, notice = profile_of(of), ""
    if verdict.usable and profile.loop_limit is not None:
        notice = loop_notice(profile.facts, profile.loop_limit)
    return device_json(address, of, verdict) | {
        "address": address.to_json(),
        "facts": of.to_json(),
        "notice": notice,
    }


def _show(report: dict[str, Any]) -> None:
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    for name in ("", "device", "platform", "units", "works"):
        table.add_column(name, overflow="fold", justify="right" if name == "units" else "left")
    for entry in report["devices"]:
        units = entry["facts"]["compute_units"]
        works = "yes" if entry["usable"] else "no"
        table.add_row(entry["device"], entry["name"], entry["platform"], "" if units is None else str(units), works)
    for platform in report["empty_platforms"]:
        table.add_row("", "no device", platform["name"], "", "no")
    show(table)

    def remark(title: str, text: str) -> None:
        # Reasons take sentences, and sentences take the whole width.
        show(f"\n{title}", style="bold")
        show(Padding(text, (0, 0, 0, 2)))

    for entry in report["devices"]:
        title = f"{entry['device']} {entry['name']}"
        if not entry["usable"]:
            remark(f"{title} does not work:", explained(entry["reason"], entry["remedy"]))
        elif entry["notice"]:
            remark(f"{title} works, but:", f"{entry['notice']}.")
    for platform in report["empty_platforms"]:
        remark(f"{platform['name']} has no device:", explained(platform["reason"], platform["remedy"]))
