"""Shared by the device tests: programs built once, sizes that suit the device, and buffers to look into.

Not fixtures (`conftest.py`) and not tests. Tests that call these take the fixture `context`, which probes the device first.
"""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.launching.state import GridState
from portbar.primitives import grid

#: `intel_device_barrier` has no spin limit and is added where a device has it.
ALGORITHMS = grid.bounded()
DISCOVERIES = tuple(grid.DISCOVERIES)

UInts = np.ndarray[Any, np.dtype[np.uint32]]


@dataclass(frozen=True)
class Scale:
    """Sizes that take a device about the same time."""

    rounds: int
    many_rounds: int
    launches: int
    surplus: int
    local_sizes: tuple[int, ...]
    is_simulator: bool
    is_cut_short: bool


def scale(device: cl.Device) -> Scale:
    """Return sizes for a device: tiny ones for a simulator, whose barrier takes a thousand times as long.

    Local sizes are one work-item, one more than a power of two, and many; on GPUs also whole and partial sub-groups.
    """
    simulator, llvmpipe = "Oclgrind" in device.name, "llvmpipe" in device.name
    has_lanes = bool(device.type & cl.device_type.GPU) or llvmpipe
    sizes = (1, 5, 33) if simulator else (1, 5, 32, 33, 96, 100, 256) if has_lanes else (1, 5, 33, 256)
    sizes = tuple(size for size in sizes if size <= device.max_work_group_size)
    rounds, many_rounds, surplus = (6, 40, 6) if simulator else (60, 5_000, 64)
    return Scale(rounds, many_rounds, 140, surplus, sizes, is_simulator=simulator, is_cut_short=llvmpipe)


@contextlib.contextmanager
def within(seconds: float, device: cl.Device, groups: int) -> Iterator[None]:
    """Check that a launch of `groups` work-groups, which has begun, ends in time; not on a simulator, which interprets polls.

    The launch itself may have compiled another algorithm before it began.
    """
    began, worked = time.monotonic(), time.process_time()
    yield
    took = time.monotonic() - began
    if device.type & cl.device_type.CPU:
        # Polls are counted in processor time there, since other processes may take the cores.
        took = min(took, (time.process_time() - worked) / groups)
    assert took < seconds or scale(device).is_simulator, f"{took:.2f} s"


@contextlib.contextmanager
def skipped_where_refused() -> Iterator[None]:
    """Skip a test where portbar refuses the device, with its reason."""
    try:
        yield
    except portbar.UnsupportedFeatureError as error:
        pytest.skip(f"refused: {error}")


@functools.lru_cache(maxsize=256)
def _built(
    context: cl.Context, source: str, overrides: tuple[tuple[str, str], ...], spin_limit: float
) -> portbar.Program:
    return portbar.Program(context, source, strategy=dict(overrides), spin_limit=spin_limit)


def program(context: cl.Context, source: str, *, spin_limit: float = 20.0, **overrides: str) -> portbar.Program:
    """Build a program, once for each source and strategy; skip where portbar refuses the device, with its reason."""
    with skipped_where_refused():
        chosen = portbar.choose(portbar.describe(context.devices[0]))
        if overrides.get("discovery") == chosen.discovery.value:
            del overrides["discovery"]  # The same text, which is built under one name.
        return _built(context, source, tuple(sorted(overrides.items())), spin_limit)


def kernel(
    context: cl.Context, source: str, name: str, *, spin_limit: float = 20.0, **overrides: str
) -> portbar.Kernel:
    """Return a kernel of `program(...)`."""
    return program(context, source, spin_limit=spin_limit, **overrides).kernel(name)


def need_groups(made: portbar.Kernel, queue: cl.CommandQueue, local: tuple[int, ...], least: int, *args: Any) -> int:
    """Return how many groups the device holds; skip when they are fewer than the test is about."""
    groups = made.occupancy(queue, local, *args).groups
    if groups < least:
        pytest.skip(f"{queue.device.name.strip()} runs {groups} work-group(s) concurrently, the test needs {least}")
    return groups


def launched_with(launch: Callable[[], portbar.Launch], least: int) -> portbar.Launch:
    """Launch again until at least `least` work-groups took part."""
    for _ in range(20):
        done = launch()
        if done.num_groups >= least:
            return done
    return pytest.skip(f"the busy machine never ran {least} work-groups at once")


def room(made: portbar.Kernel, queue: cl.CommandQueue, local: tuple[int, ...], *args: Any) -> int:
    """Return for how many work-groups a buffer should have room where a test leaves their number to the device.

    A launch has as many as were found at once; twice that, since another barrier algorithm is another binary.
    """
    return 2 * made.occupancy(queue, local, *args).groups + 32


def cells(made: portbar.Kernel, queue: cl.CommandQueue, local: tuple[int, ...], value: int = 0) -> cl.Buffer:
    """Return a buffer with a uint for each work-item that a launch of this local size may have."""
    return filled(queue, room(made, queue, local) * math.prod(local), value)


def skip_without_intel_barrier(device: cl.Device, algorithm: str) -> None:
    """Skip a test of Intel's own barrier where the device has none."""
    if algorithm == "intel_device_barrier" and "cl_intel_concurrent_dispatch" not in device.extensions.split():
        pytest.skip("the device has no cl_intel_concurrent_dispatch")


def filled(queue: cl.CommandQueue, length: int, value: int = 0) -> cl.Buffer:
    """Return a buffer of `length` uints that all hold `value`."""
    return to_device(queue, np.full(length, value, np.uint32))


def to_device(queue: cl.CommandQueue, values: np.ndarray[Any, Any]) -> cl.Buffer:
    """Return a buffer with a copy of `values`."""
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    return cl.Buffer(queue.context, flags, hostbuf=np.ascontiguousarray(values))


def host_array(queue: cl.CommandQueue, buffer: cl.Buffer, dtype: Any) -> np.ndarray[Any, Any]:
    """Return what a buffer holds, after all that was enqueued before."""
    values = np.empty(buffer.size // np.dtype(dtype).itemsize, dtype)
    cl.enqueue_copy(queue, values, buffer)
    return values


def uints(queue: cl.CommandQueue, buffer: cl.Buffer) -> UInts:
    """Return what a buffer of uints holds, after all that was enqueued before."""
    return host_array(queue, buffer, np.uint32)


def grid_state(program, queue, groups):
    """The state of a program's queue that the next launch of a grid takes its hidden words from."""
    make = functools.partial(GridState, own=program.layout, tracing=program.strategy(queue.device).tracing)
    return program.states.grid.of(queue, groups, make)
