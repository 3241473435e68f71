"""Shared by the tests of `portbar.reduce`: the call on a queue, arrays on the device, and random values.

Not tests.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest

import portbar
from portbar.arrays.reduce import reduce as wanted
from portbar.arrays.shape import fixed_part
from portbar.primitives.reduction.types import scalars_in, type_of
from tests.support import skipped_where_refused


def reducer(queue: cl.CommandQueue) -> Any:
    """Return `portbar.reduce` on the queue of the test; skip where portbar refuses the device."""
    with skipped_where_refused():
        wanted(queue, cla.zeros(queue, 4, np.int32))

    def call(array: Any, *args: Any, **more: Any) -> Any:
        return wanted(queue, array, *args, **more)

    return call


def put(queue: cl.CommandQueue, values: Any) -> Any:
    """Return an array on the device."""
    return cla.to_device(queue, np.ascontiguousarray(values))


def beyond_memory(queue: cl.CommandQueue) -> list[Any]:
    """Return arrays that reach beyond their memory at one end or the other."""
    memory = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 400)
    places = ((101, 0), (100, 4), (1, 1 << 40), (1, -4), (1 << 40, 0))
    return [cla.Array(queue, count, np.int32, data=memory, offset=offset) for count, offset in places]


def need(device: cl.Device, dtype: Any) -> None:
    """Skip where the device does not compute with a type."""
    names = {scalar.c for scalar in scalars_in(type_of(dtype, "t"))}
    for name, extension in (("double", "cl_khr_fp64"), ("half", "cl_khr_fp16")):
        if name in names and extension not in device.extensions.split():
            pytest.skip(f"the device has no {extension}")


def random_of(dtype: Any, size: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return rng.integers(limits.min, limits.max, size, kind, endpoint=True)
    return rng.uniform(-1, 1, size).astype(kind)


def in_threads(work: Callable[[int], Any], count: int) -> None:
    """Call a function with numbers from 0 on, each in a thread of its own; errors there are errors here."""
    wrong: list[Exception] = []

    def safely(number: int) -> None:
        try:
            work(number)
        except Exception as error:  # noqa: BLE001 (a thread's errors must reach the test)
            wrong.append(error)

    threads = [threading.Thread(target=safely, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def affine(kind: Any, size: int, seed: int, *, every: int = 0) -> tuple[Any, Any]:
    """Return maps x -> p x + q of integers, and each composed with those before it, from each multiple of `every` anew.

    `composition` composes two of them: associative, and no two elements may change places.
    """
    dtype = np.dtype([("p", kind), ("q", kind)], align=True)
    values, right = np.empty(size, dtype), np.empty(size, dtype)
    values["p"], values["q"] = random_of(kind, size, seed), random_of(kind, size, seed + 1)
    # Products of even numbers are soon 0.
    values["p"] |= 1
    modulus, p, q = 1 << 8 * np.dtype(kind).itemsize, 1, 0
    for k, (own_p, own_q) in enumerate(values.tolist()):
        if every and k % every == 0:
            p, q = 1, 0
        p, q = own_p * p % modulus, (own_p * q + own_q) % modulus
        right[k] = p, q
    return values, right


def composition(name: str) -> Any:
    """Return the operator that composes maps of the structure `name`."""
    text = f"(({name}){{ a.p * b.p, b.p * a.q + b.q }})"
    return portbar.Operator(text, neutral=f"(({name}){{ 1u, 0u }})", commutative=False)


def documented(values: Any, op: str = "+") -> Any:
    """Combine in the order that docs/reduce.md describes, in the values' own precision, without fused operations."""
    complexes = values.dtype.kind == "c"
    parts = [values.real, values.imag] if complexes else [values]
    neutral = ([0, 0] if op == "+" else [1, 0])[: len(parts)]

    def combine(a: list[Any], b: list[Any]) -> list[Any]:
        if op == "+":
            return [x + y for x, y in zip(a, b, strict=True)]
        if not complexes:
            return [a[0] * b[0]]
        return [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]

    def padded(held: list[Any], length: int) -> list[Any]:
        return [
            np.pad(one, (0, length - len(one)), constant_values=none) for one, none in zip(held, neutral, strict=True)
        ]

    def neighbours(held: list[Any]) -> list[Any]:
        while len(held[0]) > 1:
            held = combine([one[::2] for one in held], [one[1::2] for one in held])
        return held

    lanes = 256 * max(1, min(16, 16 // values.dtype.itemsize))
    size, part = len(values), fixed_part(len(values), values.dtype.itemsize)
    totals = []
    for start in range(0, max(1, size), part):
        sums = [np.full(lanes, none, one.dtype) for one, none in zip(parts, neutral, strict=True)]
        for row in range(start, min(start + part, size), lanes):
            sums = combine(sums, padded([one[row : min(row + lanes, size)] for one in parts], lanes))
        totals.append(neighbours(sums))
    joined = [np.concatenate(held) for held in zip(*totals, strict=True)]
    found = neighbours(padded(joined, 1 << (len(totals) - 1).bit_length()))
    return (found[0] + 1j * found[1] if complexes else found[0]).astype(values.dtype)[0]
