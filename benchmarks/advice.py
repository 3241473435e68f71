"""How right `portbar.advise` is about a program that was measured: its prediction beside the measured ratio, and a plot."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pyopencl as cl
import pyopencl.array

import portbar
from benchmarks.shared import Row, number
from examples.applications.common import Application
from portbar.choices.advice import EITHER, EVEN, verdict_of
from portbar.errors import Error, UnsupportedFeatureError
from portbar.survey.measuring.rounds import device_s, profiled_queue

#: How far the two ways may be apart where the advice is that either will do.
_APART: Final = 1.25

_EMPTY: Final = "kernel void portbar_empty(global uint *out) { }\n"


@dataclass
class _Noted:
    """Launches, the local size of the last one, and how often the host read an array, while a program ran."""

    launches: list[portbar.Launch] = field(default_factory=list)
    local_size: int = 1
    reads: int = 0


@contextmanager
def _noted() -> Iterator[_Noted]:
    noted = _Noted()
    launch, get = portbar.Kernel.__call__, cl.array.Array.get

    def launched(kernel: Any, queue: Any, global_size: Any, local_size: Any, *args: Any, **more: Any) -> portbar.Launch:
        one = launch(kernel, queue, global_size, local_size, *args, **more)
        noted.launches.append(one)
        noted.local_size = 1
        for extent in local_size or ():
            noted.local_size *= extent
        return one

    def read(*args: Any, **more: Any) -> Any:
        noted.reads += 1
        return get(*args, **more)

    with patch.object(portbar.Kernel, "__call__", launched), patch.object(cl.array.Array, "get", read):
        yield noted


def predicted(made: type[Application], queue: cl.CommandQueue, size: int) -> dict[str, Any]:
    """The advice of `portbar.advise` on an application, from the device's own time of its launches.

    That is `predicted_ratio` (as the measured one), `predicted_us`, `predicted_peer_us`, `work_us` (of an iteration),
    `iterations`, `host_checks` and `verdict`; or why there is `no_prediction`.
    """
    profiled = profiled_queue(queue)
    try:
        problem = made(profiled, size)
        problem.by_relaunching()
        with _noted() as steps:
            problem.by_relaunching()
        with _noted() as whole:
            problem.in_one_kernel()
        # The wall clock is not a bound here: the launches ran beside others.
        work = statistics.fmean(device_s(one.event, 1e3) for one in steps.launches) - _empty_s(profiled, problem.local)
        advice = portbar.advise(
            queue.device,
            work_per_iteration=max(0.0, work),
            groups=whole.launches[-1].num_groups,
            iterations=len(steps.launches),
            local_size=whole.local_size,
            host_checks=2 * steps.reads > len(steps.launches),
        )
    except (Error, cl.Error) as error:
        return {"no_prediction": " ".join(str(error).split())[:200]}
    return {
        "predicted_ratio": 1 / advice.speedup,
        "predicted_us": advice.one_kernel * 1e6,
        "predicted_peer_us": advice.relaunching * 1e6,
        "work_us": advice.work_per_iteration * 1e6,
        "iterations": advice.iterations,
        "host_checks": advice.host_checks,
        "verdict": advice.verdict,
        "costs": advice.source,
    }


def _empty_s(queue: cl.CommandQueue, local_size: int) -> float:
    """Seconds of an empty launch by its event, which no iteration of a loop in a kernel has."""
    empty = portbar.Program(queue.context, _EMPTY, devices=[queue.device]).kernel("portbar_empty")
    out = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 4)
    taken = []
    for _ in range(9):
        event = empty(queue, (local_size,), (local_size,), out).event
        event.wait()
        taken.append(device_s(event, 1e3))
    return statistics.median(taken)


def right(verdict: str, speedup: float) -> bool:
    """Whether who follows a verdict loses little: the way that it names is not clearly the slower one.

    `speedup` is the measured one. Where either way will do, they may be a quarter apart.
    """
    if verdict == EITHER:
        return 1 / _APART <= speedup <= _APART
    return verdict_of(speedup) in {verdict, EITHER}


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """The error of the predictions of one device: that of a median row, and the verdicts that were right.

    An error is the larger one of predicted and measured ratio over the other, less one: at 0.25 they differ by a quarter.
    """
    known = [row for row in rows if row.ratio and "predicted_ratio" in row.extra]
    errors = [max(row.ratio or 0.0, _guess(row)) / min(row.ratio or 1.0, _guess(row)) - 1 for row in known]
    verdicts = [right(row.extra["verdict"], 1 / (row.ratio or 1.0)) for row in known]
    return {
        "benchmark": "advice",
        "device": rows[0].device if rows else "",
        "rows": len(known),
        "without": len(rows) - len(known),
        "median_error": statistics.median(errors) if errors else None,
        "largest_error": max(errors, default=None),
        "verdicts": len(verdicts),
        "verdicts_right": sum(verdicts),
    }


def _guess(row: Row) -> float:
    return float(row.extra["predicted_ratio"])


def tell(rows: Sequence[Row], *, as_json: bool) -> None:
    """Print the summary of each device."""
    for device in dict.fromkeys(row.device for row in rows):
        found = summary([row for row in rows if row.device == device])
        if as_json:
            print(json.dumps(found), flush=True)
        elif found["rows"]:
            print(
                f"{device}: predictions of {found['rows']} programs are off by {number(100 * found['median_error'])} % "
                f"(median), {found['verdicts_right']} of {found['verdicts']} verdicts are right"
            )


def plot(rows: Sequence[Row], file: Path) -> None:
    """Draw speed-up over work per iteration: measured points, and a hollow one for each prediction.

    The ending of the file says the format, such as `.svg` or `.png`. `UnsupportedFeatureError` if matplotlib is not
    installed, or does not know it.
    """
    figure_class = _figure_class()
    known = [row for row in rows if row.ratio and row.extra.get("work_us")]
    devices = list(dict.fromkeys(row.device for row in known))
    figure = figure_class(figsize=(7, 1 + 4 * max(1, len(devices))), layout="constrained")
    drawn = figure.subplots(max(1, len(devices)), squeeze=False)[:, 0]
    for axes, device in zip(drawn, devices or ["nothing was measured"], strict=True):
        axes.set(title=device[:80], xlabel="work per iteration, us", ylabel="speed-up of one kernel")
        axes.set(xscale="log", yscale="log")
        axes.axhspan(1 / (1 + EVEN), 1 + EVEN, alpha=0.15)
        mine = [row for row in known if row.device == device]
        for index, name in enumerate(dict.fromkeys(row.benchmark for row in mine)):
            points = sorted((_point(row) for row in mine if row.benchmark == name), key=lambda point: point["work"])
            for which, style in (("measured", {"label": name}), ("predicted", {"mfc": "none", "ls": ":"})):
                line: Mapping[str, Any] = {"marker": "osv^Dph<>"[index % 9], "color": f"C{index % 10}", **style}
                axes.plot([point["work"] for point in points], [point[which] for point in points], **line)
        if mine:
            axes.legend(title="filled: measured\nhollow: predicted")
    try:
        figure.savefig(file)
    except ValueError as error:
        raise UnsupportedFeatureError(f"{file.name}: {error}") from None


def _point(row: Row) -> dict[str, float]:
    return {"work": row.extra["work_us"], "measured": 1 / (row.ratio or 1.0), "predicted": 1 / _guess(row)}


def _figure_class() -> Any:
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 (an extra, and slow to load)
    except ImportError:
        raise UnsupportedFeatureError(
            '--plot needs matplotlib: install it with `pip install "portbar[plot]"`, or leave --plot out'
        ) from None
    return Figure
