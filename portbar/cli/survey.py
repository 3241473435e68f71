"""`portbar survey`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import click

from portbar.cache import write_atomically
from portbar.cli.shared import chosen, device_option, err, json_option, out, print_json
from portbar.survey import survey_devices
from portbar.survey.table import record_view


@click.command(name="survey")
@device_option
@json_option
@click.option("--quick", is_flag=True, help="Fewer sizes and runs, earlier probes believed: under a minute for five runtimes.")
@click.option("--timeout", default=120.0, show_default=True, help="Seconds that one device may take.")
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="Write the record to this file too.")
def command(devices: tuple[str, ...], as_json: bool, quick: bool, timeout: float, output: Path | None) -> None:
    """Measure what the devices of this machine do between work-groups.

    For each device: whether it works, how many work-groups it runs at once (by lock kind, with and without patience), what a
    barrier costs beside relaunching a kernel, and the strategy that portbar chooses, with its reasons. Every device is measured
    in child processes, so that a driver that aborts or hangs costs its own row only. Ctrl-C keeps what is done.

    \b
    Examples:
      portbar survey
      portbar survey --quick --device pocl
      portbar survey --json -o record.json
    """
    console = err()
    started = time.monotonic()

    def on_step(device: str, step: str) -> None:
        console.print(f"[{time.monotonic() - started:5.1f} s] {device}: {step}")

    record = survey_devices(chosen(devices), quick=quick, timeout=timeout, on_step=on_step)
    if output is not None:
        write_atomically(output, (json.dumps(record, indent=2) + "\n").encode())
    if as_json:
        print_json(record)
    else:
        out().print(record_view(record))
    sys.exit(_status(record))


def _status(record: dict[str, Any]) -> int:
    entries = record["devices"]
    steps = [entry[name]["status"] for entry in entries for name in ("occupancy", "barrier") if name in entry]
    if record.get("interrupted"):
        return 130
    if "timeout" in steps:
        return 4
    if not any(entry.get("usable", {}).get("usable") for entry in entries):
        return 3
    return 1 if "crash" in steps or "error" in steps else 0
