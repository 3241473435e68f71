"""Builds calls on arrays, and reductions in kernels, for each type that the pages promise: the task of a child process.

Not tests.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from pyopencl import cltypes

import portbar
from portbar.device import child
from portbar.device.addresses import DeviceAddress
from portbar.primitives.reduction.loops import LEVELS
from portbar.primitives.reduction.types import SCALARS, type_of

#: Sizes of vectors in OpenCL C.
_COUNTS = (2, 3, 4, 8, 16)
_STRUCTURE = np.dtype([("small", np.int8), ("large", np.int64), ("four", cltypes.float4)], align=True)

#: Families of types: a scalar with its vectors and complex numbers, and two more.
FAMILIES = (*(scalar.c for scalar in SCALARS), "bool", "structure")


def types_of(family: str) -> list[Any]:
    """Return the types of a family; PyOpenCL has no vectors of half."""
    if family in {"bool", "structure"}:
        return [np.dtype(np.bool_) if family == "bool" else _STRUCTURE]
    dtype = next(scalar.dtype for scalar in SCALARS if scalar.c == family)
    vectors = [cltypes.vec_types[dtype, count] for count in _COUNTS if (dtype, count) in cltypes.vec_types]
    complexes = {"float": [np.dtype(np.complex64)], "double": [np.dtype(np.complex128)]}
    return [dtype, *vectors, *complexes.get(family, [])]


def build(payload: dict[str, Any]) -> None:
    """Build and run each after it was reported by name, so that the last report names what did not end."""
    device = DeviceAddress.from_json(payload["address"]).resolve()
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    for what, call in {"reduce": _reduced, "others": _others}[payload["what"]](queue, types_of(payload["family"])):
        child.progress({"building": what})
        call()
        queue.finish()


def _reduced(queue: Any, dtypes: list[Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
    for dtype in dtypes:
        yield f"portbar.reduce of {_name(dtype)}", lambda dtype=dtype: portbar.reduce(queue, _zeros(queue, dtype))


def _others(queue: Any, dtypes: list[Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
    if "PORTBAR_TEST_NIGHTLY" not in os.environ:
        # All together take minutes on some compilers. Vectors of three are those that one did not end at.
        dtypes = [dtype for dtype in dtypes if dtype.names is None or "padding0" in dtype.names or dtype == _STRUCTURE]
    for dtype in dtypes:
        yield f"portbar.scan of {_name(dtype)}", lambda dtype=dtype: portbar.scan(queue, _zeros(queue, dtype))
    first = dtypes[0]
    if first.kind in "buif":
        yield f"portbar.sort of {_name(first)}", lambda: portbar.sort(queue, _zeros(queue, first))
    else:
        keys = cla.zeros(queue, _SIZE, np.uint32)
        yield f"portbar.sort with {_name(first)}", lambda: portbar.sort(queue, keys, _zeros(queue, first))
    if first.kind != "b":
        yield f"reductions in a kernel of {', '.join(map(_name, dtypes))}", lambda: _levels(queue, dtypes)


_SIZE = 70


def _name(dtype: Any) -> str:
    return type_of(np.uint8 if dtype == np.bool_ else dtype, "a structure").c


def _zeros(queue: Any, dtype: Any, size: int = _SIZE) -> Any:
    memory = cl.Buffer(
        queue.context,
        cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR,
        hostbuf=np.zeros(size * dtype.itemsize, np.uint8),
    )
    return cla.Array(queue, size, dtype, data=memory)


def _levels(queue: Any, dtypes: list[Any]) -> None:
    """Reduce a value of each type by all levels, in one kernel."""
    loop = portbar.ReductionLoop("all", {f"v{k}": portbar.Reduction(dtype, "+") for k, dtype in enumerate(dtypes)})
    calls = [f"all_reduce_{level}(scratch, {'results, ' if 'gang' in level else ''}mine)" for level in LEVELS]
    names = [loop.types[field].c for field in loop.fields]
    source = "\n".join([
        '#include "portbar/reduction.h"',
        f"kernel void levels(PORTBAR_REDUCTION_PARAM, {', '.join(f'global {c} *x{k}' for k, c in enumerate(names))})",
        "{",
        "    PORTBAR_REDUCTION_SCRATCH(scratch);",
        f"    const all_results results = {{ {', '.join(f'x{k}' for k in range(len(names)))} }};",
        "    all_local mine = all_identity();",
        *(f"    mine = {call};" for call in calls),
        "}",
    ])  # fmt: skip
    kernel = portbar.Program(queue.context, source, reductions=[loop]).kernel("levels")
    kernel(queue, (64,), (8,), *(_zeros(queue, dtype, 1) for dtype in dtypes)).wait()
