"""`portbar devices`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click
from rich.padding import Padding
from rich.table import Table

from portbar.cli.progress import Steps
from portbar.cli.shared import (
    CHECK_S,
    device_option,
    err,
    examples,
    explained,
    json_option,
    listed,
    number,
    platform_title,
    print_json,
    show,
    tell_faulty,
)
from portbar.device.facts import DeviceAddress, DeviceFacts, select
from portbar.device.listing import FaultyDriver
from portbar.device.quirks import loop_notice
from portbar.device.usable import EmptyPlatform, Usability, check_listed, explain_empty
from portbar.errors import DeviceError

Entry = tuple[DeviceAddress, DeviceFacts, Usability, str]


@click.command(
    name="devices",
    epilog=examples("portbar devices", "portbar devices --json --device pocl", "portbar devices --refresh -d 1:0"),
)
@device_option
@json_option
@click.option("--refresh", is_flag=True, help="Check again whether each device works, whatever is remembered.")
def command(devices: tuple[str, ...], as_json: bool, refresh: bool) -> None:
    """List every OpenCL device with its facts, and whether a probe kernel compiled and ran on it.

    A driver that hangs or aborts when it is asked for its devices is named and left out.

    Exit status 3: no device listed works.
    """
    found = listed()
    if found.problem:
        tell_faulty(found.faulty)
        raise DeviceError(found.problem)
    known = select(found.devices, devices)
    with Steps(err()) as steps:
        steps.step("", f"checking {_counted(len(known))}", CHECK_S * len(known) if refresh else 0.0)
        verdicts = check_listed(known, refresh=refresh)
    reported = dict(known)
    entries = [
        (address, reported[address], verdict, _notice(reported[address]) if verdict.usable else "")
        for address, verdict in verdicts
    ]
    empty = [] if devices else [explain_empty(platform) for platform in found.empty]
    if as_json:
        print_json(_as_json(entries, empty, found.faulty))
    else:
        _show(entries, empty)
        tell_faulty(found.faulty)
    if not any(verdict.usable for _, _, verdict, _ in entries):
        sys.exit(3)


def _counted(devices: int) -> str:
    return "1 device" if devices == 1 else f"{devices} devices"


def _notice(of: DeviceFacts) -> str:
    """What to know of a device that works, from findings that are there already; empty for most."""
    from portbar.choices.profile import profile_of  # noqa: PLC0415 (`listed` imports it while the drivers are listed)

    profile = profile_of(of)
    return "" if profile.loop_limit is None else loop_notice(profile.facts, profile.loop_limit)


def _as_json(entries: list[Entry], empty: list[EmptyPlatform], faulty: Sequence[FaultyDriver]) -> dict[str, Any]:
    return {
        "devices": [
            {
                "device": number(address),
                "address": address.to_json(),
                "facts": of.to_json(),
                "usable": verdict.usable,
                "reason": verdict.reason,
                "remedy": verdict.remedy,
                "notice": notice,
            }
            for address, of, verdict, notice in entries
        ],
        "empty_platforms": [{"name": p.name, "reason": p.reason, "remedy": p.remedy} for p in empty],
        "faulty_drivers": [fault.to_json() for fault in faulty],
    }


def _show(entries: list[Entry], empty: list[EmptyPlatform]) -> None:
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    table.add_column("")
    table.add_column("device", overflow="fold")
    table.add_column("platform", overflow="fold")
    table.add_column("units", justify="right")
    table.add_column("works")
    for address, of, verdict, _ in entries:
        units = "" if of.compute_units is None else str(of.compute_units)
        works = "yes" if verdict.usable else "no"
        table.add_row(number(address), of.name, platform_title(of), units, works)
    for platform in empty:
        table.add_row("", "no device", platform.name, "", "no")
    show(table)
    # Reasons take sentences, and sentences take the whole width.
    for address, of, verdict, notice in entries:
        if not verdict.usable:
            show(f"\n{number(address)} {of.name} does not work:", style="bold")
            show(Padding(explained(verdict.reason, verdict.remedy), (0, 0, 0, 2)))
        elif notice:
            show(f"\n{number(address)} {of.name} works, but:", style="bold")
            show(Padding(f"{notice}.", (0, 0, 0, 2)))
    for platform in empty:
        show(f"\n{platform.name} has no device:", style="bold")
        show(Padding(explained(platform.reason, platform.remedy), (0, 0, 0, 2)))
