"""`portbar bench`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from portbar.choices.strategy import choose
from portbar.cli import INTERRUPTED
from portbar.cli.options import device_option, examples, json_option, seconds_option, store_option
from portbar.cli.output import print_json, show, show_title
from portbar.cli.progress import ShownSteps
from portbar.cli.selected import each_device
from portbar.device.addresses import DeviceAddress
from portbar.errors import Error
from portbar.records.plain import amount
from portbar.records.scrubbing import anonymous
from portbar.survey.measuring.barrier_table import barrier_table, reject_times, store_table, unsteady
from portbar.survey.measuring.probe import probe
from portbar.survey.steps.barrier import BarrierStep, notes, times_table
from portbar.survey.steps.step import run_step

if TYPE_CHECKING:
    import pyopencl as cl


@click.group(name="bench", epilog=examples("portbar bench barrier"))
def command() -> None:
    """Measure portbar's own algorithms on a device."""


@command.command(
    epilog=examples(
        "portbar bench barrier --device pocl",
        "portbar bench barrier --local-size 256 --seconds 60",
        "portbar bench barrier --json --no-store",
    )
)
@device_option
@json_option
@click.option(
    "--local-size",
    "-l",
    "local_sizes",
    type=click.IntRange(min=1),
    multiple=True,
    metavar="N",
    help="Work-items per work-group; may be repeated. By default 1 and 64 on CPUs, 32 to 1024 elsewhere.",
)
@seconds_option("--seconds", 0.1, "Time to spend on each device; the first samples are always taken.", 20.0)
@store_option("table")
def barrier(devices: tuple[str, ...], as_json: bool, local_sizes: tuple[int, ...], seconds: float, store: bool) -> None:
    """Time every barrier algorithm at several group counts, and keep which is fastest where.

    The measurement runs in a child process, so that a driver that aborts or hangs costs its own device only. A device that was
    never probed is probed first. Ctrl-C keeps the times taken so far (exit status 130).
    """

    def work(entry: dict[str, Any], steps: ShownSteps, address: DeviceAddress, device: cl.Device) -> None:
        steps.step(str(address), "measuring", seconds)
        payload = {"address": address.to_json(), "local_sizes": list(local_sizes), "budget_s": seconds}
        _measure_into(entry, device, payload, store=store)

    found, interrupted = each_device(devices, work, "all was measured", barrier_table=[], stored=False, rows=[])
    found = [anonymous(entry) for entry in found]
    if as_json:
        print_json(found)
    else:
        for entry in found:
            _show(entry)
    sys.exit(INTERRUPTED if interrupted else _status(found))


_SHORT = "; a larger --seconds gives it more"
_ONE_GROUP = "grids of this device have one work-group, so that no algorithm is better than another"
_VARY = "they vary too much to be used, as on a busy machine; run this again on an idle one"


def _measure_into(entry: dict[str, Any], device: cl.Device, payload: dict[str, Any], *, store: bool) -> None:
    """Measure one device; on Ctrl-C its entry holds the rows so far, and the interrupt goes on."""
    try:
        profile = probe(device)
        one_group = choose(profile).max_groups == 1
    except Error as error:
        entry |= {"status": "refused", "reason": str(error)}
        return
    rows = entry["rows"]
    payload["findings"] = profile.findings.to_json() if profile.findings is not None else None
    entry |= {"reason": "", **run_step(BarrierStep(), payload, 3 * payload["budget_s"] + 30, rows)}
    table = () if one_group else barrier_table(rows)
    entry["barrier_table"] = [list(line) for line in table]
    if entry["status"] == "partial":
        entry["reason"] += _SHORT
    elif one_group and entry["status"] == "ok":
        entry["reason"] = _ONE_GROUP
    elif not store:
        entry["reason"] = entry["reason"] or "--no-store was given"
    elif table and entry["status"] == "ok":
        if unsteady(rows):
            entry["reason"] = _VARY
            reject_times(device)
        else:
            store_table(device, table, rows)
            entry["stored"] = True


def _status(found: list[dict[str, Any]]) -> int:
    statuses = {entry["status"] for entry in found}
    if statuses <= {"unusable"}:
        return 3
    if "timeout" in statuses:
        return 4
    has_times = all(times_table({"barrier": entry}) is not None for entry in found if entry["status"] == "ok")
    return 0 if has_times and not statuses & {"crash", "error"} else 1


def _show(entry: dict[str, Any]) -> None:
    show_title(entry)
    times = times_table({"barrier": entry})
    if times is None:
        show(f"  no times: {entry['reason'] or 'no algorithm could be measured'}")
    else:
        show(times)
    for reason in notes({"barrier": entry}):
        show(f"  {reason}")
    if entry["barrier_table"]:
        parts = [
            f"from {amount(groups, 'work-group')} of {local} on {name}"
            for local, groups, name in entry["barrier_table"]
        ]
        kept = "stored; portbar now chooses by these times" if entry["stored"] else f"not stored: {entry['reason']}"
        show(f"  fastest: {', '.join(parts)}")
        show(f"  {kept}")
    elif times is not None:
        show(f"  not stored: {entry['reason']}")
    show("")
