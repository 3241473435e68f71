"""`portbar devices`."""

from __future__ import annotations

import sys
from textwrap import wrap
from typing import Any, Final

import click
from rich.padding import Padding
from rich.table import Table

from portbar.cli.options import device_option, examples, json_option
from portbar.cli.output import explained, print_json, show, width
from portbar.cli.selected import check_devices, device_json, empty_json, listed, tell_faulty
from portbar.device.addresses import DeviceAddress, select
from portbar.device.facts import DeviceFacts
from portbar.device.quirks import loop_notice
from portbar.device.usable import Usability, explain_empty
from portbar.errors import DeviceError

#: Columns that are left to platforms beside a device whose name cannot be broken.
_LEAST: Final = 20


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
    findings = profile.findings
    if verdict.usable and profile.loop_limit is not None:
        notice = loop_notice(profile.facts, profile.loop_limit)
    return device_json(address, of, verdict) | {
        "address": address.to_json(),
        "facts": of.to_json(),
        "notice": notice,
        "findings": findings.origin if findings is not None else None,
        "doubt": findings.doubt if findings is not None and verdict.usable else "",
    }


def table_of(report: dict[str, Any], room: int) -> Table:
    """Return devices and empty platforms as a table of `room` columns, whose names break after words and hyphens."""
    rows = []
    for entry in report["devices"]:
        units = entry["facts"]["compute_units"]
        works = "yes" if entry["usable"] else "no"
        rows.append((entry["device"], entry["name"], entry["platform"], "" if units is None else str(units), works))
    rows += [("", "no device", platform["name"], "", "no") for platform in report["empty_platforms"]]
    titles = ("", "device", "platform", "units", "works")
    columns = [[titles[at], *(row[at] for row in rows)] for at in range(len(titles))]
    # Two spaces between columns.
    left = room - sum(max(map(len, columns[at])) for at in (0, 3, 4)) - 2 * (len(titles) - 1)
    first = min(max(map(len, columns[1])), max(left // 2, *map(_longest_part, columns[1])), left - _LEAST)
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    for name in titles:
        table.add_column(name, overflow="fold", justify="right" if name == "units" else "left")
    for number, device, platform, *others in rows:
        table.add_row(number, _in_lines(device, first), _in_lines(platform, left - first), *others)
    return table


def _in_lines(text: str, columns: int) -> str:
    return "\n".join(wrap(text, max(1, columns)))


def _longest_part(text: str) -> int:
    """Return the width of the part of a name that is longest if it is broken wherever it may be."""
    return max(map(len, wrap(text, 1, break_long_words=False)), default=0)


def _show(report: dict[str, Any]) -> None:
    show(table_of(report, width()))

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
        if entry["doubt"]:
            remark(f"{title} works, with findings of:", f"{entry['doubt']}.")
    for platform in report["empty_platforms"]:
        remark(f"{platform['name']} has no device:", explained(platform["reason"], platform["remedy"]))
