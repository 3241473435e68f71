"""What the benchmarks share: rows, sessions, the devices to measure, samples, and tables."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import pyopencl as cl

import portbar
from portbar.device import usable
from portbar.device.facts import select_devices
from portbar.errors import DeviceError, Error
from portbar.measuring.rounds import in_turns


@dataclass(frozen=True)
class Row:
    """One comparison; `extra` holds what it was measured with. There is no ratio where a result was wrong."""

    benchmark: str
    device: str
    peer: str
    ratio: float | None
    ours_us: float | None
    peer_us: float | None
    samples: int
    extra: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The fields, with those of `extra` beside them."""
        record: dict[str, Any] = asdict(self)
        extra: dict[str, Any] = record.pop("extra")
        return record | extra


@dataclass(frozen=True)
class Session:
    """One device under measurement."""

    device: cl.Device
    name: str
    context: cl.Context
    quick: bool

    @cached_property
    def queue(self) -> cl.CommandQueue:
        """A plain queue. The session holds its context, too, which Intel's queues do not keep alive."""
        return cl.CommandQueue(self.context)

    @property
    def repeats(self) -> int:
        """Samples of each side."""
        return 5 if self.quick else 15

    @property
    def launch_s(self) -> float:
        """Seconds that one launch of many operations should take."""
        return 0.005 if self.quick else 0.02

    @property
    def is_cpu(self) -> bool:
        """Whether the device's work-groups are run by threads of the host."""
        return bool(self.device.type & cl.device_type.CPU)

    def compare(
        self,
        benchmark: str,
        peer: str,
        samples: Sequence[tuple[float, float]],
        **extra: Any,
    ) -> Row:
        """A row of the medians of both sides, taken in turns; the best of each show how busy the machine was."""
        ours, theirs = (statistics.median(side) for side in zip(*samples, strict=True))
        best = dict(zip(("ours_best_us", "peer_best_us"), map(min, zip(*samples, strict=True)), strict=True))
        return Row(benchmark, self.name, peer, ours / theirs, ours, theirs, len(samples), extra | best)


S = TypeVar("S", bound=Session)
T = TypeVar("T")


def note(text: str) -> None:
    """Say something that is no result."""
    print(text, file=sys.stderr, flush=True)


def command_line(prog: str, about: str | None, json_help: str, quick_help: str) -> argparse.ArgumentParser:
    """A parser of the options that benchmarks over chosen devices share."""
    parser = argparse.ArgumentParser(prog=prog, description=about)
    parser.add_argument("--json", action="store_true", help=json_help)
    parser.add_argument(
        "--device",
        "-d",
        action="append",
        default=[],
        metavar="SELECTOR",
        help="PLATFORM:DEVICE as `portbar devices` numbers them, or part of a name; may be repeated",
    )
    parser.add_argument("--quick", action="store_true", help=quick_help)
    return parser


def chosen_devices(selectors: Sequence[str]) -> Iterator[tuple[cl.Device, str]]:
    """The usable devices that `--device` selects; it notes a selector that matches none."""
    try:
        chosen = [device for _, device in select_devices(selectors)]
    except DeviceError as error:
        note(str(error))
        return
    found = False
    for found_one in usable_devices(chosen):
        found = True
        yield found_one
    if not found:
        note("no usable device matches")


def title_of(platform: cl.Platform) -> str:
    """Name and version of a platform."""
    return f"{platform.name.strip()} {platform.version.strip()}"


def usable_devices(candidates: Iterable[cl.Device]) -> Iterator[tuple[cl.Device, str]]:
    """Those devices that work, with a name to print; the others are noted."""
    for device in candidates:
        name = f"{device.name.strip()} ({title_of(device.platform)})"
        verdict = usable.check(device)
        if verdict.usable:
            yield device, name
        else:
            note(f"{name}: skipped, {verdict.reason}")


def measure(session: S, benchmarks: Mapping[str, Callable[[S], Iterator[Row]]]) -> Iterator[Row]:
    """All rows of one device, probed first if it never was; a benchmark that the device cannot run is noted."""
    try:
        if portbar.describe(session.device).findings is None:
            portbar.probe(session.device)
    except (Error, ImportError) as error:
        note(f"{session.name}: not probed, {error}")
    for title, benchmark in benchmarks.items():
        try:
            yield from benchmark(session)
        except (Error, cl.Error) as error:
            note(f"{session.name}: {title} skipped, {error}")


def collect(session: S, benchmarks: Mapping[str, Callable[[S], Iterator[Row]]], *, print_json: bool) -> list[Row]:
    """All rows of one device; with `print_json` each is printed as soon as it is there, as one JSON object a line."""
    rows = []
    for row in measure(session, benchmarks):
        rows.append(row)
        if print_json:
            print(json.dumps(row.to_json()), flush=True)
    return rows


def sampled(sides: Mapping[str, Callable[[], T]], repeats: int) -> dict[str, list[T]]:
    """Samples of each side, taken in turns; a side other than the first that fails is noted and left out."""

    def failed(side: str, error: Exception) -> None:
        if side == next(iter(sides)):
            raise error
        note(f"{side} left out, {error}")

    return in_turns(sides, repeats, failed=failed)


def show(rows: Sequence[Row], columns: Mapping[str, Callable[[Row], str]], width: int = 120) -> None:
    """Print the rows as one table a device; `width` is for output that goes to no terminal."""
    from rich.console import Console  # noqa: PLC0415 (not needed for --json)
    from rich.table import Table  # noqa: PLC0415

    console = Console(width=None if sys.stdout.isatty() else width)
    for device in dict.fromkeys(row.device for row in rows):
        table = Table(*columns, title=device)
        for row in rows:
            if row.device == device:
                table.add_row(*(text(row) for text in columns.values()))
        console.print(table)


def number(value: float | None) -> str:
    """Three digits, or nothing."""
    return "" if value is None else f"{value:.3g}"
