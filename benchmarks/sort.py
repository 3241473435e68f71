"""`portbar.sort` beside CUB, PyOpenCL's `RadixSort` and `numpy.sort`: `python -m benchmarks.sort`.

Medians of samples in turns; a ratio below 1 means that portbar is faster. On NVIDIA's GPUs beside CUB by the device's clock,
elsewhere whole calls. Beside NumPy the ratio is of times per thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyopencl as cl
import pyopencl.array
from pyopencl.algorithm import RadixSort

import portbar
from benchmarks import arrays
from benchmarks.arrays import ArraySession
from benchmarks.shared import Row, WrongResultError, attempted, clock, judged, sampled

#: Kind of device -> (what, type, elements).
SIZES: Final[dict[str, tuple[tuple[str, str, int], ...]]] = {
    "gpu": (
        ("keys", "uint32", 1 << 26), ("pairs", "uint32", 1 << 26), ("keys", "uint64", 1 << 26), ("keys", "float32", 1 << 26),
        ("keys", "uint32", 1 << 20), ("keys", "uint32", 1 << 16), ("keys", "uint32", 1 << 12),
    ),
    "cpu": (
        ("keys", "uint32", 1 << 24), ("keys", "float32", 1 << 24), ("keys", "uint64", 1 << 24), ("pairs", "uint32", 1 << 24),
        ("keys", "uint32", 1 << 16),
    ),
}  # fmt: skip
QUICK: Final = (("keys", "uint32", 1 << 17), ("pairs", "uint32", 1 << 12))
#: Keys from which targets hold.
LARGE: Final = 1 << 24
CUB_TARGET: Final = 1 / 0.8
PYOPENCL_TARGET: Final = 1 / 5
NUMPY_TARGET: Final = 1.5


def measured(session: ArraySession) -> Iterator[Row]:
    """Arrays of each size beside all peers."""
    for what, dtype, size in QUICK if session.quick else SIZES[session.kind]:
        rows = compared(session, what, np.dtype(dtype), size)
        yield from attempted(session, what, rows, dtype=dtype, size=size)


def compared(session: ArraySession, what: str, dtype: np.dtype[Any], size: int) -> Iterator[Row]:
    """One kind of sort."""
    queue, rng = session.profiled, np.random.default_rng(size)
    values = (
        rng.standard_normal(size).astype(dtype) if dtype.kind == "f" else rng.integers(0, 1 << 63, size).astype(dtype)
    )
    keys = cl.array.to_device(queue, values)
    moved = cl.array.arange(queue, size, dtype=np.uint32) if what == "pairs" else None
    out: Any = cl.array.empty_like(keys)
    if moved is not None:
        out = (out, cl.array.empty_like(moved))

    def sort() -> cl.Event:
        event: cl.Event = portbar.sort(queue, keys, moved, out=out, return_event=True)[1]
        return event

    sort().wait()
    check(out, values, pairs=moved is not None)
    sides: dict[str, Callable[[], float]] = {"": lambda: session.us(sort)}
    if session.cub is not None:
        cub, order = session.cub, "pairs" if what == "pairs" else "sort"
        sides["cub::DeviceRadixSort"] = lambda: cub.us(f"{order}-{dtype.name}", size)
    sides["whole"] = lambda: session.whole_us(sort)
    if dtype == np.uint32 and moved is None:
        radix = RadixSort(session.context, "unsigned *ary", key_expr="ary[i]", sort_arg_names=["ary"])
        sides["RadixSort"] = lambda: session.whole_us(lambda: radix(keys, queue=queue))
    if session.is_cpu:
        numpy_call = (lambda: np.argsort(values, kind="stable")) if moved is not None else (lambda: np.sort(values))
        sides["NumPy, one thread"] = lambda: clock(numpy_call)
    found = sampled(sides, session.repeats)
    threads = session.device.max_compute_units
    for peer, times in found.items():
        if peer in ("", "whole"):
            continue
        ours = found["whole" if peer == "RadixSort" else ""]
        row = session.compare(what, peer, ours, times, dtype=dtype.name, size=size, threads=threads)
        target = {"RadixSort": PYOPENCL_TARGET, "NumPy, one thread": NUMPY_TARGET}.get(peer, CUB_TARGET)
        if size < LARGE or (peer == "RadixSort" and session.is_cpu) or (peer.startswith("NumPy") and moved is not None):
            target = None  # type: ignore[assignment]
        yield judged(row, target, scale=threads if peer == "NumPy, one thread" else 1.0)


def check(out: Any, values: np.ndarray[Any, Any], *, pairs: bool) -> None:
    """Raise `WrongResultError` for another order."""
    found = (out[0] if pairs else out).get()
    right = np.array_equal(found, np.sort(values))
    if right and pairs:
        places = out[1].get()
        same = values[places[:-1]] == values[places[1:]]
        right = np.array_equal(values[places], found) and bool((places[:-1] < places[1:])[same].all())
    if not right:
        raise WrongResultError("the keys are not in order, or not the same, or equal ones have changed places")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 when a result was wrong, 3 when no usable device matches."""
    return arrays.main("sort", __doc__, measured, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
