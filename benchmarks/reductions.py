"""`portbar.reduce` and `portbar_work_group_reduce_add` beside their peers: `python -m benchmarks.reductions --json`.

The tests check whether results are right; here each result is only checked before it is timed. A ratio below 1 means that
portbar is faster. The peers are NumPy, PyOpenCL's `ReductionKernel`, OpenCL's own `work_group_reduce_add`, and on NVIDIA
devices CUB, in a program that nvcc compiles and that runs alternately with ours. On CPUs a kernel that only reads the array
runs alternately with them, too: it shows the memory bandwidth of all threads, which bounds the sum of a large array. `--tune`
measures launch shapes instead, for a device's `findings.arrays.reduce` in its record, or for `portbar.arrays.shape.SHAPES`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
import pyopencl as cl
import pyopencl.array
from pyopencl.reduction import ReductionKernel

import portbar
from benchmarks.arrays import BUSY_NS, BusySession
from benchmarks.cuda import capability_of, cuda_program
from benchmarks.reductions_cub import CUDA_SOURCE, PERIOD, CubPeer
from benchmarks.reductions_memory import READS, reader_of
from benchmarks.shared import (
    Row,
    WrongResultError,
    attempted,
    chosen_devices,
    clock,
    command_line,
    judged,
    note,
    number,
    run,
    sampled,
    verdict,
    wrong,
)
from portbar.arrays.reduce import reduce
from portbar.arrays.shape import Shape, shape_for, trial
from portbar.errors import Error
from portbar.launching.build import build_options, compile_program
from portbar.primitives.headers import header_names
from portbar.survey.measuring.rounds import device_s, in_turns, most_rounds, rounds_for

#: The bound on the time of a sum, relative to its peers.
NUMPY_TARGET: Final = 1 / 0.9
KERNEL_TARGET: Final = {"cpu": 1 / 2, "gpu": 1 / 1.9}
CUB_SMALL_TARGET: Final = 0.85
CUB_TARGET: Final = 1.0
CUB_LARGE_TARGET: Final = 1 / 0.99
#: The bound on the time of sum, min and max together, relative to the sum alone.
TOGETHER_TARGET: Final = 1.1
#: The bound on the time of a sum along the first axis, relative to a kernel that adds whole rows.
ROWS_TARGET: Final = 1.2
#: The bound on the time of `portbar_work_group_reduce_add`, relative to the device's own and to CUB's.
BUILT_IN_TARGET: Final = 1.05
BLOCK_TARGET: Final = 1.1

FILL: Final = """kernel void fill(global {c} *a, const ulong n)
{{
    const ulong i = get_global_id(0);
    if (i < n)
        a[i] = ({c})(i % {period}ul);
}}
"""

#: The peer of a sum along the first axis: whole rows are added in turn, by as many work-items as the device has units.
ROWS: Final = """kernel void rows(global const float *a, global float *sums, const uint rows, const uint columns)
{
    const ulong parts = get_global_size(0), mine = get_global_id(0);
    const uint first = (uint)(columns * mine / parts), last = (uint)(columns * (mine + 1) / parts);
    for (uint c = first; c < last; ++c)
        sums[c] = 0;
    for (uint r = 0; r < rows; ++r)
        for (uint c = first; c < last; ++c)
            sums[c] += a[(size_t)r * columns + c];
}
"""

_SUM: Final = {"uint": "x * 1664525u + id", "float": "x * (1.0f / LOCAL) + id"}
LOOP: Final = """
#define LOCAL {local}
kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1)))
void loop(global {kind} *left, const uint rounds)
{{
    {before}
    const {kind} id = ({kind})get_local_id(0);
    {kind} x = id;
#pragma unroll 1
    for (uint round = 0; round < rounds; ++round) {{
        x = {call};
        x = {step};
    }}
    left[get_global_id(0)] = x;
}}
"""
#: CUB's blocks have their size from a template parameter, so ours is fixed as well.
HEADER: Final = (
    '#define PORTBAR_REDUCTION_LOCAL_SIZE {local}\n#define PORTBAR_REDUCTION_EXACT\n#include "portbar/reduction.h"\n'
)


@dataclass(frozen=True)
class ReductionSession(BusySession):
    """One device, with CUB's program if available."""

    capability: tuple[int, int] | None
    cub: CubPeer | None

    @cached_property
    def empty(self) -> tuple[float, float]:
        """Microseconds of an empty kernel: by events around it in CUDA, and by its own event in OpenCL."""
        assert self.cub is not None
        around, alone = [], []
        for _ in range(31):
            around.append(self.cub.us("empty", 0))
            self.keep_busy(BUSY_NS)
            event = self.keep_busy(0)
            event.wait()
            alone.append(device_s(event, 1.0) * 1e6)
        return statistics.median(around), statistics.median(alone)


def array_of(session: ReductionSession, dtype: Any, size: int) -> cl.array.Array:
    """An array that holds its indices modulo `PERIOD`; `Error` if the device has no room for it, or lacks the type."""
    kind = np.dtype(dtype)
    device = session.device
    if kind == np.float64 and "cl_khr_fp64" not in device.extensions.split():
        raise Error("the device has no double")
    if size * kind.itemsize > min(device.max_mem_alloc_size, device.global_mem_size // 3):
        raise Error(f"no room for {size} elements of {kind}")
    made = cl.array.Array(session.profiled, (size,), kind)
    c = {"float32": "float", "int32": "int", "float64": "double", "int8": "char"}[kind.name]
    head = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n" if kind == np.float64 else ""
    program = compile_program(session.context, device, head + FILL.format(c=c, period=PERIOD), ())
    kernel = cl.Kernel(program, "fill")
    data = made.data
    assert isinstance(data, cl.Buffer)
    kernel.set_args(data, np.uint64(size))
    cl.enqueue_nd_range_kernel(session.profiled, kernel, (-(-size // 64) * 64,), (64,))
    session.profiled.finish()
    return made


def sum_of(size: int) -> int:
    """The sum of such an array."""
    whole, rest = divmod(size, PERIOD)
    return whole * PERIOD * (PERIOD - 1) // 2 + rest * (rest - 1) // 2


def check_sum(what: str, found: float, size: int, dtype: Any) -> None:
    """Raise `WrongResultError` for another sum, modulo 2**32 for integers."""
    expected = sum_of(size)
    if np.dtype(dtype).kind == "i":
        wrong = (int(found) - expected) % (1 << 32) != 0
    else:
        wrong = abs(found - expected) > 1e-4 * expected
    if wrong:
        raise WrongResultError(f"{what} left {found}, the sum is {expected}")


def by_event(session: ReductionSession, call: Callable[[], tuple[Any, cl.Event]], *, awake: bool = False) -> float:
    """Microseconds of one launch by its event, after another kernel if the device is to be `awake`."""
    session.profiled.finish()
    began = time.perf_counter()
    if awake:
        session.keep_busy(BUSY_NS)
    _, event = call()
    event.wait()
    return device_s(event, time.perf_counter() - began) * 1e6


def row_of(
    session: ReductionSession,
    benchmark: str,
    peer: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    target: float | None,
    *,
    scale: float = 1.0,
    **extra: Any,
) -> Row:
    """A row with its target; the ratio is that of the medians, times `scale`."""
    if "bytes" in extra:
        for side, us in (("ours", ours), ("peer", theirs)):
            extra[f"{side}_gb_s"] = extra["bytes"] / statistics.median(us) * 1e-3
    return judged(session.compare(benchmark, peer, ours, theirs, **extra), target, scale=scale)


def kernel_for(session: ReductionSession, dtype: Any) -> ReductionKernel:
    """PyOpenCL's sum of an array of some type."""
    kind = np.dtype(dtype)
    c = {"float32": "float", "int32": "int", "float64": "double"}[kind.name]
    return ReductionKernel(session.context, kind, "0", "a + b", "x[i]", f"__global const {c} *x")


def summed(kernel: ReductionKernel, array: cl.array.Array) -> cl.array.Array:
    """One call of it, on the array's queue."""
    return kernel(array, queue=array.queue, return_event=False)


def sizes(session: ReductionSession) -> list[tuple[Any, int]]:
    """Types and numbers of elements."""
    if session.is_cpu:
        powers = (16, 20, 24) if session.quick else (16, 20, 24, 26)
        return [(np.float32, 1 << p) for p in powers] + [(np.int32, 1 << powers[-1]), (np.float64, 1 << powers[-1] - 1)]
    large_powers = (16, 20, 26) if session.quick else (16, 18, 20, 22, 24, 26, 28, 30)
    large = [] if session.quick else [(np.int32, 1 << 28), (np.float64, 1 << 27)]
    return [(np.float32, 1 << p) for p in large_powers] + large + [(np.int32, 1 << 20), (np.float64, 1 << 20)]


def sums(session: ReductionSession) -> Iterator[Row]:
    """Sums of one array beside each peer."""
    threads = session.device.max_compute_units
    with ThreadPoolExecutor(threads) as pool:
        for dtype, size in sizes(session):
            name = np.dtype(dtype).name
            rows = sums_of(session, np.dtype(dtype), size, pool, threads)
            yield from attempted(session, "sum", rows, dtype=name, size=size)


def sums_of(
    session: ReductionSession, dtype: np.dtype[Any], size: int, pool: ThreadPoolExecutor, threads: int
) -> Iterator[Row]:
    """The rows of one array."""
    queue, array = session.profiled, array_of(session, dtype, size)
    out = cl.array.Array(queue, (), dtype)
    ours = partial(reduce, queue, array, out=out, return_event=True)
    ours()
    check_sum("portbar", out.get(queue).item(), size, dtype)
    kernel = kernel_for(session, dtype)
    check_sum("ReductionKernel", summed(kernel, array).get(queue).item(), size, dtype)
    about: dict[str, Any] = {"dtype": dtype.name, "size": size, "bytes": size * dtype.itemsize}
    sides: dict[str, Callable[[], float]] = {
        "portbar": partial(session.whole_us, ours),
        "ReductionKernel": partial(session.whole_us, partial(summed, kernel, array)),
    }
    if session.is_cpu:
        values = array.get(queue)
        parts = np.array_split(values, threads)
        sides["NumPy, one thread"] = partial(clock, values.sum)
        sides["NumPy, a part each thread"] = partial(clock, lambda: sum(pool.map(np.sum, parts)))
        sides[READS] = partial(session.whole_us, reader_of(session.profiled, array, values))
    for side in sides.values():
        side()
    taken = sampled(sides, session.repeats)
    limit = {}
    if READS in taken:
        limit = {"memory_gb_s": about["bytes"] / statistics.median(taken[READS]) * 1e-3}
    for peer in list(taken)[1:]:
        target, scale = None, 1.0
        if peer == "ReductionKernel":
            target = KERNEL_TARGET[session.kind] if size >= 1 << (26 if session.is_cpu else 30) else None
        elif dtype == np.float32 and size == 1 << 26 and peer != READS:
            target = NUMPY_TARGET
        if peer == "NumPy, one thread":
            # Bandwidth of each thread used: NumPy has one.
            scale = threads
        more = {"clock": "host", "threads": threads} | about | limit
        yield row_of(session, "sum", peer, taken["portbar"], taken[peer], target, scale=scale, **more)
    if session.cub is not None:
        cub = session.cub
        check_sum("CUB", cub.order(dtype.name, size)["sum"], size, dtype)
        around, alone = session.empty
        taken = sampled(
            {
                "portbar": partial(by_event, session, ours, awake=True),
                # The overhead of events around a launch does not count for CUB; that of an empty kernel of OpenCL's does.
                "CUB": lambda: cub.us(dtype.name, size) - around + alone,
            },
            3 * session.repeats,
        )
        target = CUB_SMALL_TARGET if size <= 1 << 20 else CUB_TARGET if size <= 1 << 26 else CUB_LARGE_TARGET
        about |= {"clock": "device", "cuda": cub.about, "empty_us": session.empty}
        yield row_of(session, "sum", "CUB DeviceReduce", taken["portbar"], taken["CUB"], target, **about)


def together(session: ReductionSession) -> Iterator[Row]:
    """Sum, min and max in one pass, and a reproducible sum, beside the sum alone."""
    dtype = np.float32
    size = 1 << ((24 if session.quick else 26) if session.is_cpu else (26 if session.quick else 30))
    array = array_of(session, dtype, size)
    queue = session.profiled
    time_of: Callable[[Any], float] = session.whole_us if session.is_cpu else partial(by_event, session)
    several = partial(reduce, queue, array, outputs={"total": "+", "least": "min", "most": "max"}, return_event=True)
    fixed = partial(reduce, queue, array, reproducible=True, return_event=True)
    found, _ = several()
    check_sum("portbar", found["total"].get(queue).item(), size, dtype)
    if (found["least"].get(queue).item(), found["most"].get(queue).item()) != (0, PERIOD - 1):
        yield wrong(session, "together", "", "min or max is wrong", size=size)
        return
    check_sum("portbar, reproducible", fixed()[0].get(queue).item(), size, dtype)
    alone = partial(reduce, queue, array, return_event=True)
    alone()
    sides = {
        "together": partial(time_of, several),
        "reproducible": partial(time_of, fixed),
        "alone": partial(time_of, alone),
    }
    taken = sampled(sides, session.repeats)
    about: dict[str, Any] = {
        "dtype": "float32",
        "size": size,
        "bytes": 4 * size,
        "clock": "host" if session.is_cpu else "device",
    }
    yield row_of(
        session, "sum_min_max", "portbar, sum alone", taken["together"], taken["alone"], TOGETHER_TARGET, **about
    )
    yield row_of(session, "reproducible", "portbar, sum alone", taken["reproducible"], taken["alone"], None, **about)


def calls(session: ReductionSession) -> Iterator[Row]:
    """Measure the host's time for a call, whatever the device does meanwhile."""
    array = array_of(session, np.float32, 1 << 10)
    queue = session.queue
    array = array.with_queue(queue)
    kernel = kernel_for(session, np.float32)

    def of(call: Callable[[], Any]) -> float:
        taken = []
        for _ in range(50):
            taken.append(clock(call))
            queue.finish()
        return statistics.median(taken)

    sides = {
        "portbar": partial(of, partial(reduce, queue, array)),
        "ReductionKernel": partial(of, partial(summed, kernel, array)),
    }
    for side in sides.values():
        side()
    taken = sampled(sides, session.repeats)
    about: dict[str, Any] = {"size": 1 << 10, "clock": "host"}
    yield row_of(session, "call", "ReductionKernel", taken["portbar"], taken["ReductionKernel"], None, **about)


def lengths(session: ReductionSession) -> Iterator[Row]:
    """Measure the host's time for a call with a length that no call had before."""
    queue, most = session.queue, 1 << 12
    array = array_of(session, np.float32, most).with_queue(queue)
    kernel = kernel_for(session, np.float32)
    unused = iter(range(most - 1, 0, -1))

    def of(call: Callable[[cl.array.Array], Any]) -> float:
        taken = clock(partial(call, array[: next(unused)]))
        queue.finish()
        return taken

    sides = {"portbar": partial(of, partial(reduce, queue)), "ReductionKernel": partial(of, partial(summed, kernel))}
    for side in sides.values():
        side()
    taken = sampled(sides, 100 if session.quick else 500)
    tails = {
        f"{name}_p99_us": float(np.percentile(taken[side], 99))
        for name, side in (("ours", "portbar"), ("peer", "ReductionKernel"))
    }
    about: dict[str, Any] = {"size": most, "clock": "host", **tails}
    yield row_of(session, "new_length", "ReductionKernel", taken["portbar"], taken["ReductionKernel"], None, **about)


def first_axis(session: ReductionSession) -> Iterator[Row]:
    """Measure sums along the first axis."""
    shapes = (
        ((1024, 1024), (16, 1 << 16), (1 << 16, 16)) if session.quick else ((4096, 4096), (16, 1 << 20), (1 << 20, 16))
    )
    peer = compile_program(session.context, session.device, ROWS, ())
    for rows, columns in shapes:
        array = array_of(session, np.float32, rows * columns).reshape(rows, columns)
        kernel, sums = cl.Kernel(peer, "rows"), cl.array.empty(session.profiled, columns, np.float32)
        source, target = array.base_data, sums.base_data
        assert isinstance(source, cl.Buffer)
        assert isinstance(target, cl.Buffer)
        kernel.set_args(source, target, np.uint32(rows), np.uint32(columns))
        items = (session.device.max_compute_units,)
        plain = partial(cl.enqueue_nd_range_kernel, session.profiled, kernel, items, (1,))
        ours = partial(reduce, session.profiled, array, axis=0, out=cl.array.empty_like(sums))
        plain()
        if not np.allclose(ours().get(), sums.get(), rtol=1e-4):
            yield wrong(session, "first_axis", "a kernel that adds rows", "the sums differ", size=rows * columns)
            continue
        taken = sampled(
            {"portbar": partial(session.whole_us, ours), "rows": partial(session.whole_us, plain)}, session.repeats
        )
        about: dict[str, Any] = {"kind": f"{rows} x {columns}", "size": rows * columns, "bytes": 4 * rows * columns}
        yield row_of(
            session, "first_axis", "a kernel that adds rows", taken["portbar"], taken["rows"], ROWS_TARGET, **about
        )


def work_groups(session: ReductionSession) -> Iterator[Row]:
    """Reductions over a work-group, one after another in a loop."""
    if "reduction" not in header_names():
        raise Error("there is no portbar/reduction.h")
    locals_: tuple[int, ...] = (64,) if session.is_cpu else (64, 256, 1024)
    for kind, local in itertools.product(("uint", "float"), locals_):
        yield from attempted(session, "work_group", work_group(session, kind, local), kind=kind, local_size=local)


def work_group(session: ReductionSession, kind: str, local: int) -> Iterator[Row]:
    """The rows of one type and local size."""
    device, queue = session.device, session.profiled
    groups = device.max_compute_units
    text = partial(LOOP.format, kind=kind, local=local, step=_SUM[kind])
    source = HEADER.format(local=local) + text(
        before="PORTBAR_REDUCTION_SCRATCH(scratch);", call="portbar_work_group_reduce_add(scratch, x)"
    )
    program = portbar.Program(session.context, source, devices=[device])
    strategy = program.strategy(device)
    kernels = {"portbar": cl.Kernel(program.built(device, strategy), "loop")}
    options = build_options(strategy, ())
    findings = portbar.describe(device).findings
    # Where the probe's child did not survive it, as with PoCL 6.0 and cbs, this process would not.
    built_in = findings is None or findings.builds.get("work_group_collectives", True)
    for std in ("-cl-std=CL3.0", "-cl-std=CL2.0") if built_in else ():
        try:
            with_std = (*(option for option in options if not option.startswith("-cl-std")), std)
            built = compile_program(session.context, device, text(before="", call="work_group_reduce_add(x)"), with_std)
            kernels["work_group_reduce_add"] = cl.Kernel(built, "loop")
            break
        except Error:
            continue
    left = cl.Buffer(session.context, cl.mem_flags.READ_WRITE, 4 * groups * local)

    def launch_s(side: str, rounds: int) -> float:
        kernel = kernels[side]
        kernel.set_args(left, np.uint32(rounds))
        queue.finish()
        began = time.perf_counter()
        event = cl.enqueue_nd_range_kernel(queue, kernel, (groups * local,), (local,))
        event.wait()
        return device_s(event, time.perf_counter() - began)

    def first() -> float:
        values = np.empty(1, np.uint32 if kind == "uint" else np.float32)
        cl.enqueue_copy(queue, values, left)
        return float(values[0])

    expected, answers = value_after(kind, local, 7), {}
    for side in list(kernels):
        launch_s(side, 7)
        answers[side] = first()
    rounds = rounds_for(partial(launch_s, "portbar"), session.launch_s, most_rounds(program.profile(device)))

    def us(side: str) -> float:
        return launch_s(side, rounds) * 1e6 / rounds

    sides: dict[str, Callable[[], float]] = {side: partial(us, side) for side in kernels}
    if session.cub is not None:
        cub = session.cub
        for side, order in (("CUB BlockReduce", "block"), ("CUB BlockReduce, sum in thread 0 only", "first")):
            if order == "block":
                answers[side] = cub.order(f"{order}-{kind}", local, groups, 7)["sum"]
            sides[side] = partial(cub.us, f"{order}-{kind}", local, groups, rounds)
    for side, answer in answers.items():
        if abs(answer - expected) > 1e-5 * abs(expected):
            raise WrongResultError(f"{side} left {answer} after 7 rounds, not {expected}")
    (_, ours), *peers = sampled(sides, session.repeats).items()
    for peer, theirs in peers:
        target = {"work_group_reduce_add": BUILT_IN_TARGET, "CUB BlockReduce": BLOCK_TARGET}.get(peer)
        about: dict[str, Any] = {"kind": kind, "local_size": local, "groups": groups, "rounds": rounds}
        yield row_of(session, "work_group", peer, ours, theirs, target, **about)


def value_after(kind: str, local: int, rounds: int) -> float:
    """Return the value of work-item 0 after `rounds` rounds."""
    if kind == "uint":
        values: Any = np.arange(local, dtype=np.uint64)
        for _ in range(rounds):
            values = (int(values.sum()) % (1 << 32) * 1664525 + np.arange(local, dtype=np.uint64)) % np.uint64(1 << 32)
        return float(values[0])
    values = np.arange(local, dtype=np.float64)
    for _ in range(rounds):
        values = values.sum() / local + np.arange(local)
    return float(values[0])


BENCHMARKS: Final[dict[str, Callable[[ReductionSession], Iterator[Row]]]] = {
    "sum": sums,
    "together": together,
    "call": calls,
    "new_length": lengths,
    "first_axis": first_axis,
    "work_group": work_groups,
}


def candidates(session: ReductionSession) -> list[Shape]:
    """Shapes worth trying on a device."""
    if session.is_cpu:
        return [
            Shape(1, 64, loads, sets, per_unit, least_tiles=least, strided=False)
            for (loads, sets), per_unit, least in itertools.product(((2, 2), (4, 4), (8, 4)), (1, 4, 16), (64, 256))
        ]
    return [
        Shape(local, bytes_, loads, 1, 2048 // local // part, strided=strided)
        for local, (bytes_, loads), part, strided in itertools.product(
            (128, 256, 512, 1024), ((16, 1), (16, 2), (16, 4), (16, 8), (32, 2)), (1, 2), (True, False)
        )
    ]


def tune(session: ReductionSession, dtypes: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The times of each shape at each size, one record each; the shape of the table comes first."""
    top = 24 if session.quick else 26 if session.is_cpu else 30
    for name, power in itertools.product(dtypes, range(16, top + 1, 2)):
        dtype = np.dtype(name)
        size = (1 << power) * 4 // dtype.itemsize
        try:
            array = array_of(session, dtype, size)
        except Error as error:
            note(f"{session.name}: {error}")
            continue
        profile = portbar.describe(session.device)
        usual = shape_for(profile, portbar.choose(profile), size)
        shapes = list(dict.fromkeys([usual, *candidates(session)]))
        for shape, taken in tried(session, array, shapes).items():
            us = statistics.median(taken)
            yield {
                "benchmark": "tune",
                "device": session.name,
                "dtype": dtype.name,
                "size": size,
                "us": us,
                "gb_s": size * dtype.itemsize / us * 1e-3,
                "in_table": shape == usual,
                "shape": shape.__dict__,
            }


def tried(session: ReductionSession, array: cl.array.Array, shapes: Sequence[Shape]) -> dict[Shape, list[float]]:
    """Microseconds of each shape, in turns; one that fails is noted and left out."""
    queue = session.profiled
    out = cl.array.Array(queue, (), array.dtype)
    call = partial(reduce, queue, array, out=out, return_event=True)

    def us(shape: Shape) -> float:
        with trial(shape):
            if session.is_cpu:
                return session.whole_us(call)
            return by_event(session, call, awake=session.capability is not None)

    usable = []
    for shape in shapes:
        try:
            us(shape)
            check_sum("portbar", out.get(queue).item(), array.size, array.dtype)
            usable.append(shape)
        except (Error, cl.Error) as error:
            note(f"{session.name}: {shape} left out, {str(error)[:200]}")
    return in_turns({shape: partial(us, shape) for shape in usable}, 7)


def show_tuning(records: Sequence[Mapping[str, Any]]) -> None:
    """The five best shapes of each size, and that of the table."""
    by_size = itertools.groupby(records, key=lambda record: (record["device"], record["dtype"], record["size"]))
    for (device, dtype, size), group in by_size:
        ranked = sorted(group, key=lambda record: float(record["us"]))
        print(f"{device}: {dtype} x 2^{size.bit_length() - 1}")
        for place, record in enumerate(ranked):
            if place < 5 or record["in_table"]:
                shape = ", ".join(f"{name}={value}" for name, value in record["shape"].items())
                mark = "*" if record["in_table"] else " "
                print(f"  {mark} {place + 1:3d}. {record['us']:10.2f} us {record['gb_s']:8.1f} GB/s  {shape}")


COLUMNS: Final[dict[str, Callable[[Row], str]]] = {
    "benchmark": lambda row: row.benchmark,
    "what": lambda row: " ".join(str(row.extra[key]) for key in ("dtype", "kind", "local_size") if key in row.extra),
    "elements": lambda row: f"2^{int(row.extra['size']).bit_length() - 1}" if "size" in row.extra else "",
    "peer": lambda row: row.peer,
    "ratio": lambda row: "" if row.ratio is None else f"{row.ratio:.3f}",
    "ours, us": lambda row: number(row.ours_us),
    "peer, us": lambda row: number(row.peer_us),
    "GB/s": lambda row: (
        f"{row.extra['ours_gb_s']:.0f} / {row.extra['peer_gb_s']:.0f}" if "ours_gb_s" in row.extra else ""
    ),
    "of memory's": lambda row: (
        f"{row.extra['ours_gb_s'] / row.extra['memory_gb_s']:.0%}" if "memory_gb_s" in row.extra else ""
    ),
    "target met": verdict,
}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = command_line("reductions", __doc__, "smaller arrays and five repeats", BENCHMARKS)
    parser.add_argument("--tune", action="store_true", help="measure launch shapes instead")
    parser.add_argument(
        "--dtype",
        action="append",
        choices=("float32", "int32", "float64"),
        default=[],
        help="for --tune; float32 by default",
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 when a result was wrong, 3 when no usable device matches."""
    options = parse(arguments)
    if options.tune:
        return tune_all(options)

    @contextmanager
    def opened(device: cl.Device, name: str) -> Iterator[ReductionSession]:
        capability = capability_of(device)
        with cuda_program(CUDA_SOURCE, "reductions", capability, CubPeer) as cub:
            yield ReductionSession(device, name, cl.Context([device]), options.quick, capability, cub)

    return run(options, opened, BENCHMARKS, COLUMNS)


def tune_all(options: argparse.Namespace) -> int:
    """Measure launch shapes on each device and print; 3 when no usable device matches."""
    warnings.simplefilter("ignore", cl.CompilerWarning)
    records: list[dict[str, Any]] = []
    seen = False
    for device, name in chosen_devices(options.device):
        seen = True
        context = cl.Context([device])
        session = ReductionSession(device, name, context, options.quick, capability_of(device), None)
        for record in tune(session, options.dtype or ["float32"]):
            records.append(record)
            if options.json:
                print(json.dumps(record), flush=True)
    if not options.json:
        show_tuning(records)
    return 0 if seen else 3


if __name__ == "__main__":
    raise SystemExit(main())
