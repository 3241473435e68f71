"""The time of a reduction, a scan and a sort of an array, beside PyOpenCL's kernels for them, by whole calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pyopencl as cl
import pyopencl.array

from portbar.arrays.reduce import reduce
from portbar.arrays.scan import scan
from portbar.arrays.sort import sort
from portbar.errors import Error
from portbar.records.reading import NO_TIME, missing, us_of
from portbar.survey.measuring.rounds import in_one_line
from portbar.survey.measuring.session import Session, time_in_turns

#: Kind of compute units -> elements.
SIZES: Final = {"cpu": (10_000, 1_000_000), "gpu": (10_000, 1_000_000, 10_000_000)}
#: Most calls between two waits, and fewest that a time takes.
_CALLS: Final = 200
_LEAST_CALLS: Final = 8
#: The side of portbar, and of its peer.
_OURS, _PEER = "time", "peer_time"


@dataclass(frozen=True)
class ArrayCall:
    """A call on an array, its peer, and NumPy's result. `peer` compiles for a context, and returns the call."""

    name: str
    dtype: Any
    call: Callable[[cl.CommandQueue, Any], Any]
    peer_name: str
    peer: Callable[[cl.Context], Callable[[cl.CommandQueue, Any], Any]]
    expected: Callable[[Any], Any]


def _reduction(context: cl.Context) -> Callable[[cl.CommandQueue, Any], Any]:
    from pyopencl.reduction import ReductionKernel  # noqa: PLC0415 (loads much)

    kernel: Any = ReductionKernel(context, np.float32, "0", "a+b", "x[i]", "__global const float *x")
    return lambda queue, x: kernel(x, queue=queue)


def _scan(context: cl.Context) -> Callable[[cl.CommandQueue, Any], Any]:
    from pyopencl.scan import InclusiveScanKernel  # noqa: PLC0415 (loads much)

    kernel = InclusiveScanKernel(context, np.dtype(np.int32), "a+b", neutral="0")

    def call(queue: cl.CommandQueue, x: Any) -> Any:
        out = cl.array.empty_like(x)
        kernel(x, out, queue=queue)
        return out

    return call


def _sort(context: cl.Context) -> Callable[[cl.CommandQueue, Any], Any]:
    from pyopencl.algorithm import RadixSort  # noqa: PLC0415 (loads much)

    kernel = RadixSort(context, "unsigned *ary", key_expr="ary[i]", sort_arg_names=["ary"])
    return lambda queue, x: kernel(x, queue=queue)[0][0]


OPERATIONS: Final = (
    ArrayCall("reduce", np.float32, reduce, "ReductionKernel", _reduction, lambda x: x.sum(dtype=np.float64)),
    ArrayCall("scan", np.int32, scan, "InclusiveScanKernel", _scan, partial(np.cumsum, dtype=np.int32)),
    ArrayCall("sort", np.uint32, sort, "RadixSort", _sort, np.sort),
)


def measure(session: Session) -> None:
    """Time of each operation at each size, and of its peer.

    Rows: `operation`, `type`, `elements`, `peer`, and the readings `time` and `peer_time` (us).
    """
    queue = cl.CommandQueue(session.context)
    random = np.random.default_rng(0)
    sizes = SIZES[session.profile.units.kind]
    cells = [(size, one) for size in sizes for one in OPERATIONS]
    peers: dict[str, Any] = {}
    #: ArrayCall and side -> seconds per element at the last size.
    paces: dict[tuple[str, str], float] = {}
    for index, (size, one) in enumerate(cells):
        row = {"operation": one.name, "type": np.dtype(one.dtype).name, "elements": size, "peer": one.peer_name}
        if index and session.late:
            session.row(row | {_OURS: missing("skipped", NO_TIME)})
            continue
        session.doing(f"{one.name} of {size} elements")
        values = random.integers(0, 1000, size).astype(one.dtype)
        x = cl.array.to_device(queue, values)
        if one.name not in peers:
            peers[one.name] = _made(one, session.context)
        calls = {_OURS: partial(one.call, queue, x)}
        readings: dict[str, dict[str, Any]] = {}
        if isinstance(peers[one.name], dict):
            readings[_PEER] = peers[one.name]
        else:
            calls[_PEER] = partial(peers[one.name], queue, x)
        expected = one.expected(values)
        sides = {side: partial(_timed, queue, call, expected) for side, call in calls.items()}
        for side in calls:
            if _LEAST_CALLS * size * paces.get((one.name, side), 0.0) > session.budget.left():
                readings[side] = missing("skipped", NO_TIME)
                del sides[side]
        part = session.budget.part(1 / (len(cells) - index))
        if sides:
            readings |= time_in_turns(sides, _CALLS, part, unit="us")
        paces |= {(one.name, side): (us_of(readings[side]) or 0.0) * 1e-6 / size for side in sides}
        session.row(row | readings)


def _made(one: ArrayCall, context: cl.Context) -> Any:
    """The peer's call, or the reading in place of its times."""
    try:
        return one.peer(context)
    except Exception as error:  # noqa: BLE001 (whatever it raises, portbar's own time is worth having)
        return missing("error", in_one_line(error))


def _timed(queue: cl.CommandQueue, call: Callable[[], Any], expected: Any, calls: int) -> float:
    """Seconds of some calls, and of the wait for the last; `Error` if its result is wrong."""
    start = time.perf_counter()
    for _ in range(calls):
        result = call()
    queue.finish()
    taken = time.perf_counter() - start
    if not np.allclose(result.get(), expected, rtol=1e-4, atol=0):
        raise Error("the result is wrong")
    return taken
