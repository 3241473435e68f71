"""`portbar devices`."""

from __future__ import annotations

import sys

import click
from rich.table import Table

from portbar.cli.shared import chosen, device_option, json_option, out, print_json
from portbar.device import facts
from portbar.usable import check_all, empty_platforms


def explained(reason: str, remedy: str) -> str:
    """Why not, and what would help, for one cell."""
    return f"no: {reason}. What would help: {remedy}" if remedy else f"no: {reason}"


@click.command(name="devices")
@device_option
@json_option
@click.option("--refresh", is_flag=True, help="Check again whether each device works, whatever is remembered.")
def command(devices: tuple[str, ...], as_json: bool, refresh: bool) -> None:
    """List every OpenCL device with its facts, and whether a probe kernel compiled and ran on it.

    \b
    Examples:
      portbar devices
      portbar devices --json --device pocl
    """
    known = {address: facts(device) for address, device in chosen(devices)}
    entries = [(address, verdict) for address, verdict in check_all(refresh=refresh) if address in known]
    empty = empty_platforms() if not devices else []
    if as_json:
        print_json(
            {
                "devices": [
                    {
                        "address": address.to_json(),
                        "facts": known[address].to_json(),
                        "usable": verdict.usable,
                        "reason": verdict.reason,
                        "remedy": verdict.remedy,
                    }
                    for address, verdict in entries
                ],
                "empty_platforms": [{"name": p.name, "reason": p.reason, "remedy": p.remedy} for p in empty],
            }
        )
    else:
        table = Table(box=None, padding=(0, 1))
        for name in ("", "device", "platform", "units", "usable"):
            table.add_column(name, overflow="fold")
        for address, verdict in entries:
            of = known[address]
            table.add_row(
                f"{address.platform_index}:{address.device_index}",
                of.name,
                " ".join(f"{of.platform_name} {of.platform_version}".split())[:60],
                str(of.compute_units),
                "yes" if verdict.usable else explained(verdict.reason, verdict.remedy),
            )
        for platform in empty:
            table.add_row("-", "none", platform.name, "", explained(platform.reason, platform.remedy))
        out().print(table)
    if not any(verdict.usable for _, verdict in entries):
        sys.exit(3)
