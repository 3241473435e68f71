"""Shared by the benchmarks: rows, sessions, the devices to measure, samples, and tables."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import pyopencl as cl

import portbar
from portbar.device import usable
from portbar.device.addresses import select_devices
from portbar.errors import DeviceError, Error
from portbar.survey.measuring.rounds import in_turns


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
        self, benchmark: str, peer: str, ours: Sequence[float], theirs: Sequence[float], /, **extra: Any
    ) -> Row:
        """A row of the medians of both sides' microseconds; the best of each show how busy the machine was."""
        mine, peers = statistics.median(ours), statistics.median(theirs)
        extra |= {"ours_best_us": min(ours), "peer_best_us": min(theirs)}
        return Row(benchmark, self.name, peer, mine / peers, mine, peers, len(ours), extra)


class WrongResultError(Error):
    """A kernel left wrong numbers."""


S = TypeVar("S", bound=Session)
T = TypeVar("T")


def note(text: str) -> None:
    """Print a message that is not a result."""
    print(text, file=sys.stderr, flush=True)


def command_line(
    name: str, about: str | None, quick_help: str, benchmarks: Iterable[str] = ()
) -> argparse.ArgumentParser:
    """A parser of the options that benchmarks over chosen devices share; `benchmarks` are what `--only` picks from."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=about)
    parser.add_argument("--json", action="store_true", help="one JSON object a line, as they come, instead of tables")
    parser.add_argument(
        "--device",
        "-d",
        action="append",
        default=[],
        metavar="SELECTOR",
        help="PLATFORM:DEVICE as `portbar devices` numbers them, or part of a name; may be repeated",
    )
    parser.add_argument("--quick", action="store_true", help=quick_help)
    choices = list(benchmarks)
    parser.add_argument("--only", action="append", choices=choices, default=[], help="one part; may be repeated")
    return parser


def chosen_devices(selectors: Sequence[str]) -> Iterator[tuple[cl.Device, str]]:
    """The devices that `--device` selects and that work, with a name to print; others are noted."""
    try:
        chosen = [device for _, device in select_devices(selectors)]
    except DeviceError as error:
        note(str(error))
        return
    found = False
    for device in chosen:
        platform = device.platform
        name = f"{device.name.strip()} ({platform.name.strip()} {platform.version.strip()})"
        verdict = usable.check(device)
        if verdict.usable:
            found = True
            yield device, name
        else:
            note(f"{name}: skipped, {verdict.reason}")
    if not found:
        note("no usable device matches")


def collect(session: S, benchmarks: Mapping[str, Callable[[S], Iterator[Row]]], *, print_json: bool) -> list[Row]:
    """All rows of one device, probed first if it never was; a benchmark that the device cannot run is noted.

    With `print_json` each row is printed as soon as it is there, as one JSON object a line.
    """
    try:
        if portbar.describe(session.device).findings is None:
            portbar.probe(session.device)
    except (Error, ImportError) as error:
        note(f"{session.name}: not probed, {error}")
    rows = []
    for title, benchmark in benchmarks.items():
        try:
            for row in benchmark(session):
                rows.append(row)
                if print_json:
                    print(json.dumps(row.to_json()), flush=True)
        except (Error, cl.Error) as error:
            note(f"{session.name}: {title} skipped, {error}")
    return rows


def plain(options: argparse.Namespace) -> Callable[[cl.Device, str], AbstractContextManager[Session]]:
    """Opens sessions that need nothing but the device."""
    return lambda device, name: nullcontext(Session(device, name, cl.Context([device]), options.quick))


def run(
    options: argparse.Namespace,
    opened: Callable[[cl.Device, str], AbstractContextManager[S | None]],
    benchmarks: Mapping[str, Callable[[S], Iterator[Row]]],
    columns: Mapping[str, Callable[[Row], str]],
    width: int = 144,
) -> int:
    """Measure each device that is selected, and print; 1 when a result was wrong, 3 when no usable device matches.

    `opened` gives the session of a device, or None where the benchmarks are not for it.
    """
    warnings.simplefilter("ignore", cl.CompilerWarning)
    rows: list[Row] = []
    seen = False
    for device, name in chosen_devices(options.device):
        with opened(device, name) as session:
            if session is not None:
                seen = True
                chosen = {title: one for title, one in benchmarks.items() if not options.only or title in options.only}
                rows += collect(session, chosen, print_json=options.json)
    if not seen:
        return 3
    if not options.json:
        show(rows, columns, width)
    return int(any("error" in row.extra for row in rows))


def attempted(session: Session, benchmark: str, rows: Iterator[Row], **extra: Any) -> Iterator[Row]:
    """The rows of one comparison; one without times where a result was wrong, and any other failure is noted."""
    try:
        yield from rows
    except WrongResultError as error:
        yield wrong(session, benchmark, "", str(error), **extra)
    except (Error, cl.Error, MemoryError) as error:
        note(f"{session.name}: {benchmark} skipped with {extra}, {error}")


def wrong(session: Session, benchmark: str, peer: str, why: str, **extra: Any) -> Row:
    """A row without times."""
    more = extra | {"target": None, "met": False, "error": why}
    return Row(benchmark, session.name, peer, None, None, None, 0, more)


def clock(call: Callable[[], Any]) -> float:
    """Microseconds of a call."""
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1e6


def paired(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the ratios of samples that followed one another."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def sampled(sides: Mapping[str, Callable[[], T]], repeats: int) -> dict[str, list[T]]:
    """Samples of each side, taken in turns; a side other than the first that fails is noted and left out."""

    def failed(side: str, error: Exception) -> None:
        if side == next(iter(sides)):
            raise error
        note(f"{side} left out, {error}")

    return in_turns(sides, repeats, failed=failed)


def complete(take: Callable[[], float | None], groups: int | None = None) -> float:
    """One sample, from a launch that found all groups, of 20 where a busy machine keeps discovery from it, or `Error`."""
    taken = next((one for one in (take() for _ in range(20)) if one is not None), None)
    if taken is None:
        raise Error(f"discovery never found {'all' if groups is None else groups} work-groups")
    return taken


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


#: Columns of a table of barriers and launches.
COLUMNS: dict[str, Callable[[Row], str]] = {
    "benchmark": lambda row: row.benchmark,
    "peer": lambda row: row.peer,
    "local": lambda row: str(row.extra.get("local_size", "")),
    "groups": lambda row: str(row.extra.get("groups", "")),
    "ratio": lambda row: number(row.ratio),
    "ours, us": lambda row: number(row.ours_us),
    "peer, us": lambda row: number(row.peer_us),
    "samples": lambda row: str(row.samples),
}


def judged(row: Row, target: float | None, *, scale: float = 1.0, ratio: float | None = None) -> Row:
    """A row with its ratio, scaled, or another one, and whether that is at most the target; None without a target."""
    if ratio is None and row.ratio is not None:
        ratio = row.ratio * scale
    met = None if target is None or ratio is None else ratio <= target
    return replace(row, ratio=ratio, extra=row.extra | {"target": target, "met": met})


def verdict(row: Row) -> str:
    """Whether the target is met, in words."""
    if "error" in row.extra:
        return f"WRONG: {row.extra['error']}"
    met = row.extra.get("met")
    return "" if met is None else f"{'yes' if met else 'no'} ({row.extra['target']:.3g})"
