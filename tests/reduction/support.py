"""What the tests of reductions share: programs, values whose reductions are exact, and what they come to on the host.

Not fixtures (`conftest.py`) and not tests.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.choices.strategy import choose
from portbar.primitives.reduction.header import scalars_of
from portbar.primitives.reduction.operators import SYMBOLS
from portbar.primitives.reduction.types import Scalar
from portbar.primitives.strategy import Strategy

#: What each operator does to two Python numbers.
ON_HOST: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "mul": operator.mul,
    "min": min,
    "max": max,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "logical_and": lambda a, b: int(bool(a) and bool(b)),
    "logical_or": lambda a, b: int(bool(a) or bool(b)),
    "logical_eqv": lambda a, b: int(bool(a) == bool(b)),
    "logical_xor": lambda a, b: int(bool(a) != bool(b)),
}

#: How the strategies under test are told apart; `None` is what portbar chooses.
STRATEGIES = (None, "tree", "fold")


@dataclass(frozen=True)
class Scale:
    """Sizes that take a device about the same time."""

    local_sizes: tuple[int, ...]
    is_simulator: bool
    is_cut_short: bool


def scale(device: cl.Device) -> Scale:
    """Return local sizes for a device: whole and partial sub-groups, one work-item, and one more than a power of two."""
    simulator, llvmpipe = "Oclgrind" in device.name, "llvmpipe" in device.name
    sizes = (1, 5, 33) if simulator else (1, 5, 32, 33, 96, 100, 256)
    return Scale(tuple(size for size in sizes if size <= device.max_work_group_size), simulator, llvmpipe)


def strategy(context: cl.Context, name: str | None, *, ordering: str = "device") -> Strategy:
    """Return the strategy of the device under test with one way to combine lanes; skip where the device cannot have it."""
    profile = portbar.describe(context.devices[0])
    asked = {"tree": "tree", "fold": "tree"}.get(name or "", name)
    try:
        chosen = choose(profile, {} if asked is None else {"reduction": asked}, ordering=ordering)
    except portbar.UnsupportedFeatureError as error:
        pytest.skip(f"refused: {error}")
    if name in {"tree", "fold"}:
        if name == "fold" and profile.findings is not None and profile.findings.loop_limit is not None:
            pytest.skip("the device ends loops early, so that nothing folds there")
        means = replace(chosen.capabilities.reduction_means, folds=name == "fold", collectives=False)
        chosen = chosen.with_capabilities(reduction_means=means)
    return chosen


@functools.lru_cache(maxsize=128)
def _built(
    context: cl.Context, source: str, how: str | None, ordering: str, loops: tuple[Any, ...], options: tuple[str, ...]
) -> portbar.Program:
    chosen = strategy(context, how, ordering=ordering)
    return portbar.Program(context, source, options, chosen, reductions=loops)


def program(
    context: cl.Context,
    source: str,
    how: str | None = None,
    *,
    ordering: str = "device",
    loops: Sequence[portbar.ReductionLoop] = (),
    options: Sequence[str] = (),
) -> portbar.Program:
    """Build a program, once for each source and strategy; skip where portbar refuses the device, with its reason."""
    if how == "tree" and loops and context.devices[0].platform.name.startswith("Intel"):
        pytest.skip(
            "Intel's compiler crashes over structures that change between the barriers of a loop; portbar folds there"
        )
    try:
        return _built(context, source, how, ordering, tuple(loops), tuple(options))
    except portbar.UnsupportedFeatureError as error:
        pytest.skip(f"refused: {error}")


def scalars(context: cl.Context, op: str) -> list[Scalar]:
    """Return the scalar types of the device that an operator takes."""
    return [kind for kind in scalars_of(strategy(context, None, ordering="work_group")) if SYMBOLS[op].takes(kind)]


def values(scalar: Scalar, op: str, count: int, seed: int) -> np.ndarray[Any, Any]:
    """Return values whose reduction is exact in any order, zeros among them for logical operators."""
    random = np.random.default_rng(seed)
    if op.startswith("logical"):
        few = random.integers(0, 40, count)
        made = np.where(few == 0 if op == "logical_and" else few > 20, 0, few)
    elif op == "mul":
        made = np.ones(count, np.int64)
        made[random.integers(0, count, 5)] = 2
        made[random.integers(0, count, 3)] = -1 if scalar.kind != "uint" else 3
    elif scalar.kind == "float":
        # Half has 11 bits: sums stay below 2048.
        made = random.integers(-3, 4, count) if op == "add" else random.integers(-60, 60, count)
    else:
        info = np.iinfo(scalar.dtype)
        made = random.integers(info.min, info.max, count, dtype=scalar.dtype, endpoint=True)
    return made.astype(scalar.dtype)


def folded(op: str, items: Sequence[Any], start: Any = None) -> Any:
    """Return Python numbers combined from left to right."""
    items = [item.item() if hasattr(item, "item") else item for item in items]
    if start is not None:
        items = [start, *items]
    if op.startswith("logical"):
        items = [int(bool(items[0])), *items[1:]] if len(items) > 1 else items
    return functools.reduce(ON_HOST[op], items)


def wrapped(number: Any, dtype: np.dtype[Any]) -> Any:
    """Return a Python number as a device would keep it in a type."""
    if np.dtype(dtype).kind in "iu":
        bits = 8 * np.dtype(dtype).itemsize
        return np.array(int(number) & ((1 << bits) - 1), f"uint{bits}").astype(dtype)[()]
    return np.dtype(dtype).type(number)


def need(context: cl.Context, *kinds: str) -> None:
    """Skip where the device lacks a scalar type."""
    offered = {scalar.c for scalar in scalars_of(strategy(context, None, ordering="work_group"))}
    for kind in kinds:
        if kind not in offered:
            pytest.skip(f"the device has no {kind}")


def head(local_size: int, *, grid: bool = False, more: str = "") -> str:
    """Return the lines with which a source begins that uses portbar/reduction.h."""
    barrier = '#include "portbar/device_barrier.h"\n' if grid else ""
    return f'#define PORTBAR_REDUCTION_LOCAL_SIZE {local_size}\n{more}{barrier}#include "portbar/reduction.h"\n'


def kernel_text(name: str, parameters: str, body: str, hidden: str = "") -> str:
    """Return a kernel with scratch memory; `hidden` is "gangs", "grid" or nothing."""
    first = {"gangs": "PORTBAR_REDUCTION_PARAM, ", "grid": "PORTBAR_GRID_PARAM, "}.get(hidden, "")
    enter = "PORTBAR_ENTER(grid); " if hidden == "grid" else ""
    body = body.strip("\n")
    return f"kernel void {name}({first}{parameters})\n{{\n    {enter}PORTBAR_REDUCTION_SCRATCH(scratch);\n{body}\n}}\n"


def launched(
    queue: cl.CommandQueue, kernel: portbar.Kernel, groups: int | None, local: int, *args: Any
) -> tuple[portbar.Launch, list[np.ndarray[Any, Any]]]:
    """Launch a kernel once, wait, and return the launch and what its arrays hold then, in the order of the arguments."""
    held = [device_array(queue, value) if isinstance(value, np.ndarray) else value for value in args]
    launch = kernel(queue, None if groups is None else (groups * local,), (local,), *held)
    launch.wait()
    pairs = zip(held, args, strict=True)
    return launch, [host_array(queue, buffer, value.dtype) for buffer, value in pairs if isinstance(value, np.ndarray)]


def device_array(queue: cl.CommandQueue, made: np.ndarray[Any, Any]) -> cl.Buffer:
    """Return a buffer with a copy of an array."""
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    return cl.Buffer(queue.context, flags, hostbuf=np.ascontiguousarray(made))


def host_array(queue: cl.CommandQueue, buffer: cl.Buffer, dtype: Any) -> np.ndarray[Any, Any]:
    """Return what a buffer holds, after all that was enqueued before."""
    made = np.empty(buffer.size // np.dtype(dtype).itemsize, dtype)
    cl.enqueue_copy(queue, made, buffer)
    return made
