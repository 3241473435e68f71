"""`portbar bench`."""

from __future__ import annotations

import click
import pyopencl as cl
from rich.table import Table

from portbar.benching import barrier_table, store_table, time_barriers
from portbar.cli.shared import chosen, device_option, err, json_option, out, print_json
from portbar.device import facts


@click.group(name="bench")
def command() -> None:
    """Measure portbar's own algorithms on a device."""


@command.command()
@device_option
@json_option
@click.option("--local-size", default=64, show_default=True, help="Work-items a work-group.")
@click.option("--seconds", default=10.0, show_default=True, help="Time to spend on each device.")
@click.option("--store/--no-store", default=True, help="Keep the table for this device, so that portbar uses it.")
def barrier(devices: tuple[str, ...], as_json: bool, local_size: int, seconds: float, store: bool) -> None:
    """Time every barrier algorithm at several group counts, and keep which is fastest where.

    \b
    Examples:
      portbar bench barrier --device pocl
      portbar bench barrier --json --no-store
    """
    found = []
    for address, device in chosen(devices):
        err().print(f"{address}")
        context = cl.Context([device])
        queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
        times = time_barriers(queue, local_size=local_size, budget_s=seconds)
        table = barrier_table(times)
        if store:
            store_table(device, table)
        found.append(
            {
                "device": facts(device).name,
                "local_size": local_size,
                "barrier_table": [list(entry) for entry in table],
                "times": [
                    {
                        "algorithm": entry.algorithm,
                        "groups": entry.groups,
                        "us": entry.us,
                        "relaunch_us": entry.relaunch_us,
                        "samples": entry.samples,
                        "note": entry.note,
                    }
                    for entry in times
                ],
            }
        )
    if as_json:
        print_json(found)
        return
    for device_times in found:
        view = Table(title=device_times["device"], title_justify="left", box=None)
        for name in ("groups", "algorithm", "us a barrier", "us a relaunch", ""):
            view.add_column(name, justify="left" if name in {"algorithm", ""} else "right")
        for row in device_times["times"]:
            us = "" if row["us"] is None else f"{row['us']:.3f}"
            again = "" if row["relaunch_us"] is None else f"{row['relaunch_us']:.2f}"
            view.add_row(str(row["groups"]), row["algorithm"], us, again, row["note"])
        out().print(view)
