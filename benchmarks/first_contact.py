"""The costs of a newcomer's program, from its second start to votes: `python -m benchmarks.first_contact`.

A ratio is portbar's time over the peer's of the same run, below 1 where portbar is faster.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyopencl as cl

import portbar
from benchmarks.shared import COLUMNS, Row, Session, command_line, complete, note, plain, run, sampled
from benchmarks.starting import starting
from portbar.errors import Error
from portbar.launching.build import compile_program
from portbar.launching.launch import Launch
from portbar.primitives.grid import bounded
from portbar.survey.measuring.barrier_timer import BarrierSamples, BarrierTimer
from portbar.survey.measuring.rounds import device_s, in_one_line, profiled_queue

#: The same arguments for all; the kernels do nothing with them.
PARAMETERS = "global int *out, global const int *in, const int n"
BODY = "if (n == 12345) out[0] = in[0];"
RAW = f"kernel void empty({PARAMETERS}) {{ {BODY} }}\n"
#: As a grid's kernel has them: its state, and four words that each launch sets.
RAW_HIDDEN = f"kernel void empty(global uint *state, uint4 words, {PARAMETERS}) {{ {BODY} }}\n"
WITHOUT_GRID = f'#include "portbar/atomics.h"\n{RAW}'
WITH_GRID = f"""
#include "portbar/device_barrier.h"
kernel void empty(PORTBAR_GRID_PARAM, {PARAMETERS})
{{
    PORTBAR_ENTER(grid);
    {BODY}
}}
"""

#: A round of what rides on the barrier; the sum of all numbers keeps the compiler from dropping one.
ROUND = """
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
kernel void portbar_bench(PORTBAR_GRID_PARAM, global uint *passed, const uint rounds)
{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    uint done = 0u;
    for (uint round = 0u; round < rounds; ++round)
        done += CALL ? 1u : 0u;
    if (portbar_global_id(&grid) == 0u)
        passed[0] = done;
}
"""
CALLS = {
    "reduce-add": "portbar_device_reduce_add(&grid, scratch, round < rounds ? 1.0f : 0.0f) > 0.0f",
    "vote-any": "portbar_device_barrier_any(&grid, round < rounds)",
    "vote-count": "portbar_device_barrier_count(&grid, round < rounds) == portbar_global_size(&grid)",
    "reduce-logical-or": "portbar_device_reduce_logical_or(&grid, scratch, round < rounds ? 1 : 0)",
}

#: The same sum where the compiler knows how many work-items a work-group has.
EXACT = "#define PORTBAR_REDUCTION_LOCAL_SIZE {size}u\n#define PORTBAR_REDUCTION_EXACT\n"

#: Shapes of a GPU at which barriers are compared: groups for each of its compute units, local size.
GPU_SHAPES = ((1, 256), (1, 1024), (2, 256), (2, 1024), (4, 256), (8, 256), (16, 64), (32, 32))
CPU_LOCAL_SIZES = (1, 64)


@dataclass(frozen=True)
class Launches:
    """An empty kernel launched in three ways: plain PyOpenCL with its types declared, portbar without a grid, and with one."""

    raw: Callable[[], cl.Event]
    without: Callable[[], Launch]
    grid: Callable[[], Launch]
    #: The same launch with a grid, of which PyOpenCL's event is all that the caller takes.
    event: Callable[[], cl.Event]
    groups: int
    local_size: int


def shapes(session: Session) -> list[tuple[int, int]]:
    """Groups, 0 for as many as fit, and local sizes at which to measure."""
    if session.is_cpu:
        return [(0, size) for size in CPU_LOCAL_SIZES]
    units = session.device.max_compute_units
    found = [(units * groups, size) for groups, size in GPU_SHAPES if size <= session.device.max_work_group_size]
    return found[:1] if session.quick else found


def launches(session: Session, queue: cl.CommandQueue, groups: int, local_size: int) -> Launches:
    """Prepare the three; each was launched once."""
    context, local = session.context, (local_size,)
    arguments = buffers(context)
    grid = portbar.Program(context, WITH_GRID).kernel("empty")
    without = portbar.Program(context, WITHOUT_GRID).kernel("empty")
    raw = raw_kernel(session)
    bound = grid.occupancy(queue, local).groups
    groups = min(groups or bound, bound)
    total = (groups * local_size,)
    # Of its own program, whose launches are never waited for: their events are.
    event = portbar.Program(context, WITH_GRID).kernel("empty")
    made = Launches(
        lambda: raw(queue, total, local, *arguments),
        lambda: without(queue, total, local, *arguments),
        lambda: grid(queue, total, local, *arguments),
        lambda: event(queue, total, local, *arguments).event,
        groups,
        local_size,
    )
    for launch in (made.raw, made.without, made.grid, made.event):
        launch().wait()
    return made


def waiting(session: Session) -> Iterator[Row]:
    """A launch and the wait for it, beside PyOpenCL's launch and wait of an empty kernel of the same size."""
    for groups, local_size in shapes(session):
        made = launches(session, session.queue, groups, local_size)
        calls: dict[str, Callable[[], cl.Event | Launch]] = {
            "raw": made.raw,
            "wait": made.grid,
            "wait-event": made.event,
            "wait-without-grid": made.without,
        }
        sides = {name: partial(each_us, partial(ended, call)) for name, call in calls.items()}
        yield from beside_raw(session, made, sides)


def enqueueing(session: Session) -> Iterator[Row]:
    """Host time of one launch beside PyOpenCL's, with its types declared; the device holds them back meanwhile.

    `raw-hidden` is the least that a grid can cost: PyOpenCL with the two hidden arguments, and a Python object.
    """
    for groups, local_size in shapes(session)[:1]:
        made = launches(session, session.queue, groups, local_size)
        sides = {
            "raw": partial(host_us, session.queue, made.raw),
            "raw-hidden": partial(host_us, session.queue, hidden_launch(session, made)),
            "enqueue": partial(host_us, session.queue, made.grid),
            "enqueue-without-grid": partial(host_us, session.queue, made.without),
        }
        yield from beside_raw(session, made, sides)


def entering(session: Session) -> Iterator[Row]:
    """A kernel that enters its grid and returns, beside an empty kernel, by the device's own clock where it has one."""
    queue = profiled_queue(session.queue)
    for groups, local_size in shapes(session):
        made = launches(session, queue, groups, local_size)
        sides = {"grid": partial(ran_us, made.event), "raw": partial(ran_us, made.raw)}
        taken = sampled(sides, 4 * session.repeats)
        about = {"groups": made.groups, "local_size": local_size}
        yield session.compare("enter", "empty-kernel", taken["grid"], taken["raw"], **about)


def first(session: Session) -> Iterator[Row]:
    """A kernel's first launch, compiled already, beside its later ones; and PyOpenCL's first launch beside its later ones.

    The second ratio is the driver's own cost, such as the transfer of the binary to the device.
    """
    # Not a local size for which portbar has measured that another barrier is faster: its first launch compiles that.
    _, local_size = shapes(session)[-1 if session.is_cpu else 0]
    local, arguments = (local_size,), buffers(session.context)
    program = portbar.Program(session.context, WITH_GRID)
    total = (program.kernel("empty").occupancy(session.queue, local).groups * local_size,)

    def grid() -> Callable[[], Launch]:
        kernel = portbar.Program(session.context, WITH_GRID).kernel("empty")
        return lambda: kernel(session.queue, None, local, *arguments)

    def plain() -> Callable[[], cl.Event]:
        raw = raw_kernel(session)
        return lambda: raw(session.queue, total, local, *arguments)

    sides: dict[str, Callable[[], tuple[float, float]]] = {
        "first-launch": partial(first_and_later_us, grid),
        "raw-first-launch": partial(first_and_later_us, plain),
    }
    taken = sampled(sides, session.repeats + 1)
    for name, peer in zip(sides, ("later-launch", "raw-later-launch"), strict=True):
        yield session.compare(name, peer, *zip(*taken[name][1:], strict=True), local_size=local_size)


def riding(session: Session) -> Iterator[Row]:
    """A reduction or a vote over the grid, beside the bare barrier at the same shape."""
    queue = profiled_queue(session.queue)
    for groups, local_size in shapes(session):
        timers = {"": BarrierTimer(queue, local_size)}
        for name, call in CALLS.items():
            timers[name] = BarrierTimer(queue, local_size, source=ROUND.replace("CALL", call))
        exact = EXACT.format(size=local_size) + ROUND.replace("CALL", CALLS["reduce-add"])
        timers["reduce-add-exact"] = BarrierTimer(queue, local_size, source=exact)
        count, us = barrier_us(session, timers, groups)
        for name in list(timers)[1:]:
            yield session.compare(name, "bare-barrier", us[name], us[""], groups=count, local_size=local_size)


def choosing(session: Session) -> Iterator[Row]:
    """The barrier that portbar chooses by itself, beside the fastest of all algorithms at the same shape."""
    queue = profiled_queue(session.queue)
    for groups, local_size in shapes(session):
        timers = {"": BarrierTimer(queue, local_size)}
        for name in bounded():
            try:
                timers[name] = BarrierTimer(queue, local_size, {"device_barrier": name})
            except Error as error:
                note(f"{session.name}: {name} left out, {in_one_line(error)}")
        count, us = barrier_us(session, timers, groups)
        ours = us.pop("")
        best = min(us, key=lambda name: statistics.median(us[name]))
        chosen = timers[""].algorithm(count)
        extra = {"groups": count, "local_size": local_size, "algorithm": chosen, "best": best}
        yield session.compare("choice", "best-algorithm", ours, us[best], **extra)


BENCHMARKS: dict[str, Callable[[Session], Iterator[Row]]] = {
    "second-start": starting,
    "wait": waiting,
    "enqueue": enqueueing,
    "enter": entering,
    "first": first,
    "riding": riding,
    "choice": choosing,
}


def beside_raw(session: Session, made: Launches, sides: Mapping[str, Callable[[], float]]) -> Iterator[Row]:
    """A row for each side but `raw`, which is their peer; taken in turns, the first time each for nothing."""
    taken = {name: us[1:] for name, us in sampled(sides, session.repeats * 2 + 1).items()}
    raw = taken.pop("raw")
    for name, us in taken.items():
        yield session.compare(name, "raw-launch", us, raw, groups=made.groups, local_size=made.local_size)


def barrier_us(session: Session, timers: dict[str, BarrierTimer], groups: int) -> tuple[int, dict[str, list[float]]]:
    """How many groups met, at most `groups` unless that is 0, and the microseconds of each timer.

    The timers' launches are taken in turns, again where a busy machine kept discovery from finding all groups.
    """
    bound = min(timer.bound for timer in timers.values())
    count = min(groups or bound, bound)
    samples = {name: BarrierSamples(timer, count, session.launch_s) for name, timer in timers.items()}
    sides = {name: partial(complete, one.take, count) for name, one in samples.items()}
    for side in sides.values():
        side()
    return count, sampled(sides, session.repeats)


def raw_kernel(session: Session) -> cl.Kernel:
    """The empty kernel through PyOpenCL, with its types declared; compiled so that it needs no folder for PyOpenCL's cache."""
    raw = cl.Kernel(compile_program(session.context, session.device, RAW, ()), "empty")
    raw.set_scalar_arg_dtypes([None, None, np.int32])
    return raw


@dataclass
class Held:
    """A Python object for each launch, as portbar's own."""

    event: cl.Event
    epoch: int
    groups: int


def hidden_launch(session: Session, made: Launches) -> Callable[[], Held]:
    """Return the launch of an empty kernel with a grid's hidden arguments, through PyOpenCL."""
    raw = cl.Kernel(compile_program(session.context, session.device, RAW_HIDDEN, ()), "empty")
    raw.set_arg_types([None, np.dtype("V16"), None, None, np.dtype(np.int32)])
    state, words = cl.Buffer(session.context, cl.mem_flags.READ_WRITE, 64), memoryview(bytearray(16))
    queue, arguments = session.queue, buffers(session.context)
    total, local = (made.groups * made.local_size,), (made.local_size,)
    return lambda: Held(raw(queue, total, local, state, words, *arguments), 1, made.groups)


def first_and_later_us(make: Callable[[], Callable[[], cl.Event | Launch]]) -> tuple[float, float]:
    """Microseconds of the first launch that `make` gives, with a wait, and the median of nine later ones."""
    launch = make()
    us = [each_us(partial(ended, launch), calls=1) for _ in range(10)]
    return us[0], statistics.median(us[1:])


def buffers(context: cl.Context) -> tuple[cl.Buffer, cl.Buffer, np.int32]:
    """Arguments of the empty kernel."""
    flags = cl.mem_flags.READ_WRITE
    return cl.Buffer(context, flags, 64), cl.Buffer(context, flags, 64), np.int32(3)


def ended(launch: Callable[[], cl.Event | Launch]) -> None:
    """Launch and wait."""
    launch().wait()


def each_us(call: Callable[[], object], calls: int = 20) -> float:
    """Return the microseconds per call, one after the other."""
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) * 1e6 / calls


def ran_us(launch: Callable[[], cl.Event]) -> float:
    """Microseconds that one launch ran."""
    start = time.perf_counter()
    event = launch()
    event.wait()
    return device_s(event, time.perf_counter() - start) * 1e6


def host_us(queue: cl.CommandQueue, launch: Callable[[], object], calls: int = 100) -> float:
    """Microseconds of host time a call, while the device holds the launches back.

    They wait for a user event, so that the device's threads do not take the cores from the host.
    """
    gate = cl.UserEvent(queue.context)
    cl.enqueue_barrier(queue, wait_for=[gate])
    gc.disable()
    try:
        return each_us(launch, calls)
    finally:
        gc.enable()
        gate.set_status(cl.command_execution_status.COMPLETE)
        queue.finish()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    quick = "short launches, and the first shape of a GPU alone"
    options = command_line("first_contact", __doc__, quick, BENCHMARKS).parse_args(arguments)
    return run(options, plain(options), BENCHMARKS, COLUMNS, width=120)


if __name__ == "__main__":
    raise SystemExit(main())
