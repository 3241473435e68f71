"""`portbar.scan` beside a copy, CUB, PyOpenCL and NumPy: `python -m benchmarks.scan`.

Medians of samples in turns; a ratio below 1 means that portbar is faster. Beside CUB and copies times are by the device's
clock, else of whole calls. Beside NumPy the ratio is of times per thread.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import pyopencl as cl
import pyopencl.array
from pyopencl.scan import InclusiveScanKernel

import portbar
from benchmarks import arrays
from benchmarks.arrays import ArraySession
from benchmarks.shared import Row, WrongResultError, attempted, clock, judged, sampled
from portbar.arrays import scan as scans
from portbar.arrays.plan import QUEUES
from portbar.arrays.scan_source import ScanJob
from portbar.errors import Error

#: Kind of device -> (type, elements, of which "--quick" takes the last of each type).
SIZES: Final[dict[str, tuple[tuple[str, int], ...]]] = {
    "gpu": (
        ("float32", 1 << 28), ("int32", 1 << 28), ("float64", 1 << 27),
        ("float32", 1 << 24), ("float32", 1 << 20), ("float32", 1 << 18), ("float32", 1 << 16),
    ),
    "cpu": (("float32", 1 << 24), ("int32", 1 << 24), ("float64", 1 << 24), ("float32", 1 << 16), ("int32", 1 << 16)),
}  # fmt: skip
QUICK: Final = (("float32", 1 << 18), ("int32", 1 << 16))
#: Elements from which the bandwidth counts, not the launch.
LARGE: Final = 1 << 24
#: Peer -> most of its time that ours may take, for large arrays.
TARGETS: Final = {"copy": 1 / 0.95, "CUB": 1 / 0.97, "cumsum": 1 / 0.9, "stalled": 1 / 0.85}
PYOPENCL_TARGETS: Final = {"gpu": 1 / 1.9, "cpu": 1 / 3}
#: Microseconds that a small scan may take more than CUB's.
SMALL_US: Final = 3.0


def measured(session: ArraySession) -> Iterator[Row]:
    """Sums of arrays of each size beside all peers."""
    sizes = QUICK if session.quick else SIZES[session.kind]
    for dtype, size in sizes:
        rows = compared(session, np.dtype(dtype), size)
        yield from attempted(session, "scan", rows, dtype=dtype, size=size)


def compared(session: ArraySession, dtype: np.dtype[Any], size: int) -> Iterator[Row]:
    """One type and size."""
    queue, extra = session.profiled, {"dtype": dtype.name, "size": size}
    if dtype == np.float64 and "cl_khr_fp64" not in session.device.extensions.split():
        raise Error("the device has no double")
    values = np.resize(np.arange(8), size).astype(dtype)
    given = cl.array.to_device(queue, values)
    out = cl.array.empty_like(given)

    def scan() -> cl.Event:
        event: cl.Event = portbar.scan(queue, given, out=out, return_event=True)[1]
        return event

    scan().wait()
    check(out, values)
    kernel = InclusiveScanKernel(session.context, dtype, "a+b", neutral="0")
    theirs = cl.array.empty_like(given)
    sides: dict[str, Callable[[], float]] = {"": lambda: session.us(scan)}
    if session.cub is not None:
        cub = session.cub
        sides["CUB"] = lambda: cub.us(f"scan-{dtype.name}", size)
        sides["copy"] = lambda: cub.us("copy", size * dtype.itemsize)
    sides["whole"] = lambda: session.whole_us(scan)
    sides["InclusiveScanKernel"] = lambda: session.whole_us(lambda: kernel(given, theirs, queue=queue))
    if session.is_cpu:
        sides["cumsum"] = lambda: clock(lambda: np.cumsum(values, out=result))
        result = np.empty_like(values)
    if size >= LARGE and not session.is_cpu:
        with stalled():
            slow = scans.scan(queue, given, return_event=True)
            check(slow[0], values)

        def halted() -> float:
            with stalled():
                return session.us(lambda: scans.scan(queue, given, out=out, return_event=True)[1])

        sides["stalled"] = halted
    found = sampled(sides, session.repeats)
    threads = session.device.max_compute_units
    for peer, times in found.items():
        if peer in ("", "whole"):
            continue
        ours = found["whole" if peer == "InclusiveScanKernel" else ""]
        if peer == "stalled":
            # The other way round: how long half of all tiles held up take, beside none.
            ours, times = times, ours  # noqa: PLW2901
        target = TARGETS.get(peer, PYOPENCL_TARGETS[session.kind]) if size >= LARGE else None
        row = session.compare("scan", PEERS.get(peer, peer), ours, times, threads=threads, **extra)
        if peer == "CUB" and size < LARGE and row.ours_us is not None and row.peer_us is not None:
            yield judged(row, (row.peer_us + SMALL_US) / row.peer_us)
        else:
            yield judged(row, target, scale=threads if peer == "cumsum" else 1.0)


PEERS: Final = {
    "CUB": "cub::DeviceScan", "cumsum": "NumPy, one thread", "stalled": "ours, no tile held up",
}  # fmt: skip


def check(found: cl.array.Array, values: np.ndarray[Any, Any]) -> None:
    """Raise `WrongResultError` for other prefixes; of floats, for those that are not near."""
    wide = np.cumsum(values, dtype=np.float64 if values.dtype.kind == "f" else values.dtype)
    got = found.get()
    right = np.allclose(got, wide, rtol=1e-4) if values.dtype.kind == "f" else np.array_equal(got, wide)
    if not right:
        raise WrongResultError(f"the last prefix is {got[-1]}, and should be {wide[-1]}")


@contextmanager
def stalled() -> Iterator[None]:
    """Scan with every second tile held up: it never tells what it amounts to."""
    right = ScanJob.text

    def text(job: ScanJob, strategy: Any) -> str:
        return held_up(right(job, strategy))

    with patch.object(ScanJob, "text", text), patch.object(QUEUES, "_kept", _held_up):
        yield


#: The plans that are kept for queues with these scans.
_held_up: Any = OrderedDict()


def held_up(text: str) -> str:
    """Return the kernel in which every second tile, by a hash, does not publish its total."""
    publishing = re.compile(r"(portbar_(?:word_store_release\(flags \+ tile\b|publish_item\(PORTBAR_PLACE)[^;]*;)")
    changed = publishing.sub(r"if (tile * 2654435761u >> 31 == 0u) \1", text)
    if changed == text:
        raise Error("the kernel publishes nothing that could be held up")
    return changed


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 when a result was wrong, 3 when no usable device matches."""
    return arrays.main("scan", __doc__, measured, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
