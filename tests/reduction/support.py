"""Shared by the tests of reductions: programs, values whose reductions are exact, and their results on the host.

Not fixtures (`conftest.py`) and not tests.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.choices.strategy import choose
from portbar.primitives.reduction.header import scalars_of
from portbar.primitives.reduction.operators import OPERATORS
from portbar.primitives.reduction.types import Scalar, Type, scalars_in
from portbar.primitives.strategy import Strategy
from tests.support import host_array, skipped_where_refused, to_device

#: How the strategies under test are told apart; `None` is what portbar chooses.
STRATEGIES = (None, "tree", "fold")


def strategy(context: cl.Context, name: str | None, *, ordering: str = "device") -> Strategy:
    """Return the strategy of the device under test with one way to combine lanes; skip where the device cannot have it."""
    profile = portbar.describe(context.devices[0])
    asked = {"tree": "tree", "fold": "tree"}.get(name or "", name)
    with skipped_where_refused():
        chosen = choose(profile, {} if asked is None else {"reduction": asked}, ordering=ordering)
    if name in {"tree", "fold"}:
        if name == "fold" and profile.findings is not None and profile.findings.loop_limit is not None:
            pytest.skip("the device ends loops early, so no strategy is serial there")
        means = replace(chosen.capabilities.reduction, collectives=False)
        chosen = chosen.with_capabilities(reduction=means).with_units(folds_serially=name == "fold")
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
    with skipped_where_refused():
        return _built(context, source, how, ordering, tuple(loops), tuple(options))


def scalars(context: cl.Context, op: str) -> list[Scalar]:
    """Return the scalar types of the device that an operator takes."""
    return [kind for kind in scalars_of(strategy(context, None, ordering="work_group")) if OPERATORS[op].takes(kind)]


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
    return functools.reduce(OPERATORS[op].on_host, items)


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
    held = [to_device(queue, value) if isinstance(value, np.ndarray) else value for value in args]
    launch = kernel(queue, None if groups is None else (groups * local,), (local,), *held)
    launch.wait()
    pairs = zip(held, args, strict=True)
    return launch, [host_array(queue, buffer, value.dtype) for buffer, value in pairs if isinstance(value, np.ndarray)]


#: Affine maps x -> p * x + q. Composed they do not commute, and wrap, so that every order but one shows.
AFFINE = np.dtype([("p", np.uint32), ("q", np.uint32)], align=True)


def affine(loop: str) -> portbar.Reduction:
    """Return the composition of the maps that are field `map` of a loop."""
    text = f"(({loop}_map){{ a.p * b.p, b.p * a.q + b.q }})"
    return portbar.Reduction(AFFINE, portbar.Operator(text, neutral="{ 1u, 0u }", commutative=False))


def composed(maps: Iterable[tuple[int, int]], start: tuple[int, int] = (1, 0)) -> list[tuple[int, int]]:
    """Return `start` and what it comes to with each further map."""
    found = [start]
    for factor, more in maps:
        p, q = found[-1]
        found.append((p * factor % 2**32, (factor * q + more) % 2**32))
    return found


#: The levels that most of GCC's files name: gang, worker, vector, and one loop over all.
USUAL = ("gang", "worker", "vector", "gang_worker_vector")


@dataclass(frozen=True)
class Case:
    """One loop over `i` below `n`, which puts what `i` contributes into `mine`.

    Fields are type, operator, start value and result; those of an array hold it in each element.
    """

    n: int
    body: str
    fields: Mapping[str, tuple[Any, str, Any, Any]]
    levels: tuple[str, ...] = USUAL
    local: int = 128
    shape: int | None = None
    more: str = ""

    @property
    def types(self) -> dict[str, Type]:
        """The OpenCL C type of each field."""
        return {name: made.type_called(f"all_{name}") for name, made in self.loop.fields.items()}

    @property
    def loop(self) -> portbar.ReductionLoop:
        """The declaration."""
        made = {name: portbar.Reduction(dtype, op, shape=self.shape) for name, (dtype, op, *_) in self.fields.items()}
        return portbar.ReductionLoop("all", made)

    def sizes(self, level: str) -> tuple[int, int]:
        """Return work-groups and local size: one group where there are no gangs, one sub-group of lanes alone."""
        return 8 if level.startswith("gang") else 1, 8 if level == "vector" else self.local

    def source(self, level: str, parameters: str = "", section: str = "0u, 0u") -> str:
        """Return kernel `k`, which reduces at one level into one receiver a field."""
        receivers = ", ".join(f"global {kind.c} *{name}" for name, kind in self.types.items()) + parameters
        results = ", ".join(f"{name}, {section}" if self.shape else name for name in self.fields)
        body = f"""
    const all_results results = {{ {results} }};
    all_local mine = all_identity();
    mine = all_init_{level}(scratch, results, all_setup_{level}(scratch, results, mine));
    /* No bound that the compiler knows, which the quirk pocl-uneven-loops is about. */
    volatile uint count = {self.n}u;
    const uint end = count;
    for (uint i = portbar_loop_id_{level}(); i < end; i += portbar_loop_count_{level}()) {{
        {self.body}
    }}
    mine = all_fini_{level}(scratch, results, mine);
    all_teardown_{level}(scratch, results, mine);"""
        return head(self.local, more=self.more) + kernel_text(
            "k", receivers, body, "gangs" if level.startswith("gang") else ""
        )

    def need(self, context: cl.Context) -> None:
        """Skip where the device lacks a type."""
        need(context, *(scalar.c for kind in self.types.values() for scalar in scalars_in(kind)))

    def check(self, context: cl.Context, queue: cl.CommandQueue, level: str, how: str | None = None) -> None:
        """Launch, and compare what the receivers hold with the results."""
        self.need(context)
        start = [
            before
            if isinstance(before, np.ndarray)
            else np.full(self.shape or 1, before, self.loop.fields[name].result_dtype)
            for name, (_, _, before, _) in self.fields.items()
        ]
        kernel = program(context, self.source(level), how, loops=[self.loop]).kernel("k")
        _, got = launched(queue, kernel, *self.sizes(level), *start)
        for held, (field, (_, _, _, result)) in zip(got, self.fields.items(), strict=True):
            if isinstance(result, np.ndarray):
                assert held == result, field
            else:
                assert held.tolist() == [result] * len(held), field
