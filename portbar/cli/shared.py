"""What several commands need: choosing devices, printing JSON, and consoles for both streams."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import click
import pyopencl as cl
from rich.console import Console

from portbar.device import DeviceAddress, select_devices

device_option = click.option(
    "--device",
    "-d",
    "devices",
    multiple=True,
    metavar="SELECTOR",
    help="PLATFORM:DEVICE as `portbar devices` numbers them, or part of a platform's or device's name; may be repeated.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


def chosen(patterns: Sequence[str]) -> list[tuple[DeviceAddress, cl.Device]]:
    """The devices that `--device` selects, all without any."""
    return select_devices(patterns)


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    json.dump(value, sys.stdout, indent=2)
    sys.stdout.write("\n")


def out() -> Console:
    """Console for data: 100 columns when standard output is no terminal."""
    return Console(width=None if sys.stdout.isatty() else 100, highlight=False, markup=False)


def err() -> Console:
    """Console for progress and messages."""
    return Console(stderr=True, highlight=False, markup=False)
