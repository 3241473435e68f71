"""`portbar survey`."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import click

from portbar.cache import write_atomically
from portbar.cli.shared import chosen, device_option, err, examples, json_option, print_json, show
from portbar.matrix import single_device_records
from portbar.survey import Survey
from portbar.survey.table import record_view


@click.command(
    name="survey",
    epilog=examples("portbar survey", "portbar survey --quick --device pocl", "portbar survey --json -o record.json"),
)
@device_option
@json_option
@click.option(
    "--quick", is_flag=True, help="Fewer sizes and runs, earlier probes believed: under a minute for five devices."
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="Time that one device may take.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the record to this file, as it grows.",
)
@click.option(
    "--matrix",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write one record a device into this folder, named as in vendor_matrix/.",
)
def command(
    devices: tuple[str, ...], as_json: bool, quick: bool, timeout: float, output: Path | None, matrix: Path | None
) -> None:
    """Measure what the devices of this machine do between work-groups.

    For each device: whether it works, how many work-groups it runs at once (by lock kind, with and without patience), what a
    barrier costs beside relaunching a kernel, and the strategy that portbar chooses, with its reasons. Every device is measured
    in child processes, so that a driver that aborts or hangs costs its own rows only. Ctrl-C keeps what is done (exit status
    130).

    A device that does not work is a row, not a failure. Exit status 1: a driver failed during a measurement; 3: no device
    works; 4: a measurement was ended by its time limit.
    """
    console = err()
    started = time.monotonic()

    def on_step(device: str, step: str) -> None:
        console.print(f"[{time.monotonic() - started:5.1f} s] {device}: {step}")
        if output is not None:
            _write(output, survey.record)

    survey = Survey(quick, timeout, on_step)
    record = survey.run(chosen(devices))
    if output is not None:
        _write(output, record)
    if matrix is not None:
        for slug, one in single_device_records(record):
            _write(matrix / f"{slug}.json", one)
    if as_json:
        print_json(record)
    else:
        show(record_view(record))
    if record["interrupted"]:
        console.print("portbar: interrupted; the record is partial and marked so")
    sys.exit(status_of(record))


def _text(record: dict[str, Any]) -> str:
    """A record as text, one line for each list of numbers."""
    text = json.dumps(record, indent=1) + "\n"
    return re.sub(r"\[\s+([-+.\deE,\s]+?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text)


def _write(output: Path, record: dict[str, Any]) -> None:
    try:
        write_atomically(output, _text(record).encode())
    except OSError as error:
        raise click.UsageError(
            f"the record cannot be written to {output} ({error.strerror or error}); name another file with --output"
        ) from error


def status_of(record: dict[str, Any]) -> int:
    """The exit status that a record calls for."""
    entries = record["devices"]
    steps = [entry[name]["status"] for entry in entries for name in ("occupancy", "barrier") if name in entry]
    if record["interrupted"]:
        return 130
    if not any(entry.get("usable", {}).get("usable") for entry in entries):
        return 3
    if "timeout" in steps:
        return 4
    return 1 if {"crash", "error"} & set(steps) or any(entry["status"] == "failed" for entry in entries) else 0
