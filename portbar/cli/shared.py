"""Shared parts of the commands: options, choosing and checking devices, and output on both streams."""

from __future__ import annotations

import importlib
import json
import math
import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click
from rich.console import Console, ConsoleOptions, RenderableType

from portbar.cli.progress import Steps
from portbar.device import listing
from portbar.device.facts import DeviceAddress, DeviceFacts, facts, select, select_devices
from portbar.device.listing import FaultyDriver, Listing
from portbar.device.usable import EmptyPlatform, Usability, check, check_listed
from portbar.errors import DeviceError
from portbar.records.plain import harmless

if TYPE_CHECKING:
    import pyopencl as cl
    from rich.segment import Segment

#: A decorator that adds an option to a function.
Decorator: TypeAlias = "Callable[[Callable[..., Any]], Callable[..., Any]]"

#: Exit status of a command that Ctrl-C ended after it had printed what was done.
INTERRUPTED: Final = 130

#: Estimates for the user: seconds that listing devices takes, and checking one device, two at a time.
_LISTING_S: Final = 0.5
_CHECK_S: Final = 0.7

#: Bound of every time limit, eleven days: timers of operating systems have one, too.
_MOST_SECONDS: Final = 1e6


class FiniteRange(click.FloatRange):
    """A range of numbers without `nan`, which no bound refuses, and without infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, or fail as a usage error."""
        number = click.FLOAT.convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{number} is not a finite number.", param, ctx)
        return super().convert(value, param, ctx)


#: The argument of a command that takes a folder.
FOLDER: Final = click.Path(exists=True, file_okay=False, path_type=Path)

device_option = click.option(
    "--device",
    "-d",
    "devices",
    multiple=True,
    metavar="SELECTOR",
    help="PLATFORM:DEVICE as `portbar devices` numbers them, or part of a platform's or device's name; may be repeated.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def seconds_option(name: str, least: float, about: str, default: float | None = None) -> Decorator:
    """Return an option that takes a time limit."""
    limits = FiniteRange(min=least, max=_MOST_SECONDS)
    shown: dict[str, Any] = {} if default is None else {"default": default, "show_default": True}
    return click.option(name, type=limits, metavar="SECONDS", help=about, **shown)


def store_option(what: str) -> Decorator:
    """Return an option not to keep what was measured."""
    about = f"Store the {what}, so that portbar chooses by {'it' if what == 'table' else 'them'}."
    return click.option("--store/--no-store", default=True, show_default=True, help=about)


def examples(*commands: str) -> str:
    """Return the epilogue of a command's help."""
    return "\b\nExamples:\n" + "\n".join(f"  {command}" for command in commands)


def listed() -> Listing:
    """Return the drivers' list, queried in a child process: no driver is loaded into this one."""
    # Commands need this module next. Importing it takes a third of the time of the child, which has a processor of its own.
    threading.Thread(target=importlib.import_module, args=("portbar.choices.profile",), daemon=True).start()
    with Steps(err()) as steps:
        steps.step("", "listing devices", _LISTING_S)
        return listing.look(say=lambda text: steps.say(f"portbar: {text}"))


def tell_faulty(faulty: Sequence[FaultyDriver]) -> None:
    """Name the drivers that could not be listed, on standard error."""
    for fault in faulty:
        err().print(f"portbar: {fault}")


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
    count = "1 device" if len(known) == 1 else f"{len(known)} devices"
    with Steps(err()) as steps:
        steps.step("", f"checking {count}", _CHECK_S * len(known) if refresh else 0.0)
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


def show_title(entry: dict[str, Any]) -> None:
    """Print what identifies a device."""
    show(f"{entry['device']} {entry['name']} ({entry['platform']})", style="bold")


def number(address: DeviceAddress) -> str:
    """Return the name of a device at the command line."""
    return f"{address.platform_index}:{address.device_index}"


def platform_title(facts: DeviceFacts) -> str:
    """Return a platform's name and version, without the build options that some list after a comma."""
    version = facts.platform_version.partition(",")[0]
    return f"{facts.platform_name}, {version}" if version else facts.platform_name


def each_device(
    patterns: Sequence[str],
    work: Callable[[dict[str, Any], Steps, DeviceAddress, cl.Device], None],
    done: str,
    kept: str,
    **members: Any,
) -> tuple[list[dict[str, Any]], bool]:
    """Work on the usable devices that `--device` selects; the entry of each device, and whether Ctrl-C ended this.

    `work` fills in a device's entry, which holds `members` before. `done` and `kept` are for the messages on Ctrl-C.
    """
    found: list[dict[str, Any]] = []
    with Steps(err()) as steps:
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
            steps.say(f"portbar: interrupted; {kept}")
            return found, True
    return found, False


def explained(reason: str, remedy: str) -> str:
    """Return a reason and its remedy as sentences."""
    return f"{reason}. Remedy: {remedy}." if remedy else f"{reason}."


def print_json(value: Any) -> None:
    """Print one JSON document."""
    json.dump(value, sys.stdout, indent=2)
    sys.stdout.write("\n")
    sys.stdout.flush()


class _Console(Console):
    """A console on which only rich itself moves the cursor: a driver's text may hold escape sequences."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=harmless(segment.text))


def _out() -> Console:
    """Return a console for data: as wide as the terminal or COLUMNS say, otherwise 80 columns."""
    is_known = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return _Console(width=None if is_known else 80, highlight=False, markup=False, emoji=False)


def show(*parts: RenderableType, style: str | None = None) -> None:
    """Print data; without trailing spaces if it goes to a file or into a message."""
    console = _out()
    if console.is_terminal:
        console.print(*parts, style=style)
        return
    with console.capture() as captured:
        console.print(*parts, style=style)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))
    sys.stdout.flush()


def err() -> Console:
    """Return a console for progress and messages: a line stays a line, so that it can be searched for."""
    return _Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)
