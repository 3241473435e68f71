"""What the tests of `portbar.reduce` share: the call on a queue, arrays on the device, and random values.

Not tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import portbar

if TYPE_CHECKING:
    import pyopencl as cl


def reducer(queue: cl.CommandQueue) -> Any:
    """Return `portbar.reduce` on the queue of the test; skip where portbar refuses the device."""
    import pyopencl.array as cla  # noqa: PLC0415

    from portbar.arrays.reduce import reduce as wanted  # noqa: PLC0415

    try:
        wanted(queue, cla.zeros(queue, 4, np.int32))
    except portbar.UnsupportedFeatureError as error:
        pytest.skip(f"refused: {error}")

    def call(array: Any, *args: Any, **more: Any) -> Any:
        return wanted(queue, array, *args, **more)

    return call


def put(queue: cl.CommandQueue, values: Any) -> Any:
    """Return an array on the device."""
    import pyopencl.array as cla  # noqa: PLC0415

    return cla.to_device(queue, np.ascontiguousarray(values))


def need(device: cl.Device, dtype: Any) -> None:
    """Skip where the device does not compute with a type."""
    from portbar.primitives.reduction.types import scalars_in, type_of  # noqa: PLC0415

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
