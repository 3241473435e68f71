"""`portbar advise`."""

from __future__ import annotations

import math
import re
import sys
from textwrap import fill
from typing import Any, Final

import click

from portbar.choices.advice import Advice, advise, us_text
from portbar.cli.options import device_option, examples, json_option
from portbar.cli.output import print_json, say, show
from portbar.cli.selected import chosen, number
from portbar.errors import Error
from portbar.records.scrubbing import anonymous

_UNITS: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_WIDTH: Final = 80


class Duration(click.ParamType[float]):
    """A time with its unit, as seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds, or fail as a usage error."""
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*(s|ms|us|ns)", str(value).strip())
        seconds = float(found[1]) * _UNITS[found[2]] if found and len(found[1]) < 20 else math.inf
        if seconds > 1e6:
            self.fail(f"{value!r} is not a time with a unit, such as 2us, 350ns or 1.5ms.", param, ctx)
        return seconds


_count = click.IntRange(min=1, max=2**31 - 1)


@click.command(
    name="advise",
    epilog=examples(
        "portbar advise --work-per-iteration 2us --device pocl",
        "portbar advise -w 2us --groups 132 --iterations 500 --record h200",
        "portbar advise -w 20us --host-checks --json",
    ),
)
@click.option(
    "--work-per-iteration",
    "-w",
    "work",
    type=Duration(),
    required=True,
    metavar="TIME",
    help="Device time of one iteration's work, without launching, such as 2us.",
)
@click.option(
    "--groups",
    "-g",
    type=_count,
    metavar="N",
    help="Work-groups at the barrier; by default as many as the device runs concurrently.",
)
@click.option("--iterations", "-n", type=_count, default=100, show_default=True, metavar="N", help="Barriers in all.")
@click.option("--local-size", "-l", type=_count, metavar="N", help="Work-items per work-group.")
@click.option(
    "--host-checks", is_flag=True, help="The host reads a word after each launch to decide whether to continue."
)
@click.option(
    "--record", metavar="FILE|SLUG", help="Use a record instead of devices: a file, or one included in portbar."
)
@device_option
@json_option
def command(devices: tuple[str, ...], as_json: bool, record: str | None, work: float, **asked: Any) -> None:
    """Predict whether a loop pays in one kernel, with a barrier for each iteration, or with a launch for each.

    Nothing is run: the costs are those that `portbar bench barrier` or `portbar survey` measured on this machine, else those
    of a record that comes with portbar.

    Exit status 1: nothing is known of a device, or it does not hold the work-groups.
    """
    if record is not None and devices:
        raise click.UsageError("--record and --device exclude each other.")
    found: list[dict[str, Any]] = []
    known: list[tuple[str, Any]] = [("", record)]
    if record is None:
        known = [(number(address), device) for address, device in chosen(devices)]
    for which, device in known:
        try:
            advice = advise(device, work_per_iteration=work, **asked)
        except Error as error:
            say(f"{which}: {error}" if which else str(error))
            found.append({"device": which, "error": str(error)})
            continue
        found.append({"device": which, "name": advice.device} | advice.to_json() | {"device": which})
        if not as_json:
            _show(which, advice)
    if as_json:
        print_json([anonymous(one) for one in found])
    sys.exit(int(any("error" in one for one in found)))


def _show(which: str, advice: Advice) -> None:
    show(_wrapped(f"{which} {advice.device}".strip()), style="bold")
    shape = f"{advice.groups} work-groups of {advice.local_size}, {advice.iterations} iterations"
    lines = [
        f"{shape}, {us_text(advice.work_per_iteration)} of work in each",
        f"in one kernel {us_text(advice.one_kernel)}, relaunching {us_text(advice.relaunching)}: speed-up {advice.speedup:.3g}",
        f"advice: {advice.verdict}",
        f"because {advice.reason}",
        f"costs: {advice.source}",
    ]
    for line in lines:
        show(_wrapped(line, "  "))


def _wrapped(text: str, indent: str = "") -> str:
    below = f"{indent}  " if indent else ""
    return fill(text, _WIDTH, initial_indent=indent, subsequent_indent=below, break_on_hyphens=False)
