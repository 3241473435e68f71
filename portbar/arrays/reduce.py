"""`reduce`: a PyOpenCL array to one value of each output, or each of its rows, in one launch.

The place of PyOpenCL's `ReductionKernel`. Work-groups leave what they found in memory, and the last one to finish combines it,
as in CUDA's threadFenceReduction sample; so nothing is launched twice, and the order never depends on who comes first.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyopencl as cl
import pyopencl.array

from portbar.arrays.call import PlannedCall, enqueue, known_of
from portbar.arrays.reduce_plan import ReductionRequest, make_plan
from portbar.arrays.request import (
    Returned,
    array_types,
    checked_arrays,
    checked_axis,
    input_arguments,
    named,
    outputs_of,
    result_arrays,
    start_values,
)
from portbar.arrays.shape import TRIAL
from portbar.arrays.source import Output
from portbar.errors import LaunchError
from portbar.launching.arguments import CONTIGUOUS, check_queue
from portbar.primitives.reduction.operators import Operator
from portbar.primitives.reduction.types import Indexed

#: Byte alignment that a plan may rely on.
_ALIGNMENT: Final = 128


def reduce(
    queue: cl.CommandQueue,
    array: cl.array.Array | Mapping[str, cl.array.Array],
    op: str | Operator = "+",
    *,
    map: str | Mapping[str, str] | None = None,  # noqa: A002 (what PyOpenCL calls it)
    outputs: Mapping[str, Any] | None = None,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    initial: Any = None,
    out: Any = None,
    allocator: Any = None,
    dtype: Any = None,
    deterministic: bool = True,
    reproducible: bool = False,
    return_event: bool = False,
    wait_for: Iterable[cl.Event] | None = None,
) -> Any:
    """Reduce an array on its device, in one launch.

    Parameters
    ----------
    queue : pyopencl.CommandQueue
    array : pyopencl.array.Array or mapping of str to Array
        Contiguous, of any shape and any type that `portbar.Reduction` supports, or of bool. Map expressions refer to it as
        ``x``. A mapping gives arrays of one shape, with their names.
    op : str or Operator
        As for `portbar.Reduction`: ``"+"``, ``"*"``, ``"min"``, ``"max"``, ``"&"``, ``"|"``, ``"^"``, ``"&&"``, ``"||"``,
        ``"=="``, ``"!="``, ``"argmin"``, ``"argmax"``, or a `portbar.Operator`. NumPy's names and functions stand for the same:
        ``"sum"``, ``"prod"``, ``"any"``, ``"all"``, ``np.add``, ``np.logical_or``.
    map : str or mapping of str to str, optional
        OpenCL C expression for the contribution of each element: of ``x`` (or ``x[i]``), its index ``i`` in the array, a long,
        and ``along``, its index along the reduced axes. A mapping gives expressions for some or all outputs.
    outputs : mapping of str to Reduction, str or Operator, optional
        Several results of one pass, instead of `op`. A `portbar.Reduction` names the result's type, too.
    axis : int or tuple of int, optional
        The axes to reduce: the first or the last one, or several from there on. None: all of the array.
    keepdims : bool, optional
        Whether the reduced axes stay in the result with length 1.
    initial : scalar or mapping of str to scalar, optional
        A start value of the result's type, combined with the result from the left.
    out : pyopencl.array.Array or mapping of str to Array, optional
        Destination: contiguous, of the result's shape and type.
    allocator : callable, optional
        Allocates the results, as for `pyopencl.array.Array`; the first array's by default.
    dtype : dtype, optional
        The result's type, in which values are combined. By default the array's, as in PyOpenCL, but int32 for logical
        operators on numbers, and int64 for other sums of bool. Logical operators test elements before they are converted. In
        OpenCL C, a structure that is not registered with PyOpenCL is named ``x_type`` after its array, or ``result_type`` (with
        `outputs`, after the output) if it differs.
    deterministic : bool, optional
        Whether the result has the same bits in each run. If false, work-groups add their sums by one atomic operation each if
        the device has one for the type.
    reproducible : bool, optional
        Whether the result has the same bits on every device: elements are combined in a fixed order.
    return_event : bool, optional
    wait_for : list of pyopencl.Event, optional

    Returns
    -------
    pyopencl.array.Array, or a dict of such with `outputs`
        Of shape ``()`` without `axis`; the call does not wait. With `return_event`, a tuple of that and the event. The
        result of argmin and argmax has the fields ``value`` and ``index``; an index of -1 means that the array was empty.

    Raises
    ------
    Error
        An invalid operator, type, name or expression, before anything is enqueued.
    LaunchError
        Invalid arrays, or a failed dependency.
    BuildError
        An expression does not compile; the message shows it.
    UnsupportedFeatureError
        The device lacks the type, or no atomics strategy is known to order memory between its work-groups.
    """
    arrays = named(array)
    inputs: tuple[cl.array.Array, ...] = tuple(arrays.values())
    known: PlannedCall = known_of(
        queue,
        "reduce",
        lambda: (
            tuple([(one.dtype, one.shape, one.strides, one.offset % _ALIGNMENT) for one in inputs]),
            tuple(arrays),
            op,
            tuple(map.items()) if isinstance(map, Mapping) else map,
            tuple(outputs.items()) if isinstance(outputs, Mapping) else None,
            axis,
            keepdims,
            tuple(initial) if isinstance(initial, Mapping) else initial is None,
            dtype,
            deterministic,
            reproducible,
            TRIAL.get(),
        ),
        lambda: _known(queue, array, op, map, outputs, axis, keepdims, initial, dtype, deterministic, reproducible),
    )
    args = input_arguments(inputs, queue.context)
    results = result_arrays(queue, inputs, known.returned, out, allocator)
    starts = start_values(known.returned, initial)
    for place, one in enumerate(results):
        if out is not None:
            arrays[f"out {place}"] = one
        args += (one.base_data, one.offset // one.dtype.itemsize)
        if starts[place] is not None:
            args.append(starts[place])
    if known.plan is not None and not inputs[0].size:
        # PyOpenCL's empty arrays have no buffer; nothing is read from this one.
        spare = known.plan.state.cleared("counters", 4)
        args = [spare if value is None else value for value in args]
    event = enqueue("portbar.reduce", queue, known.plan, args, arrays, inputs, results, wait_for)
    names = known.returned.names
    answer = results[0] if names is None else dict(zip(names, results, strict=True))
    return (answer, event) if return_event else answer


def _known(
    queue: cl.CommandQueue,
    array: Any,
    op: Any,
    mapped: Any,
    outputs: Any,
    axis: Any,
    keepdims: Any,
    initial: Any,
    dtype: Any,
    deterministic: bool,
    reproducible: bool,
) -> PlannedCall:
    """Check a request, and make its plan."""
    check_queue(queue)
    arrays = checked_arrays(array)
    names = tuple(arrays)
    first = next(iter(arrays.values()))
    mapped = _counted(mapped, names, is_one=axis is None or first.ndim == 1)
    wanted = outputs_of(names, first.dtype, op, mapped, outputs, initial, dtype)
    rows, columns, along, shape, order = _extent(arrays, wanted, axis, keepdims=bool(keepdims))
    trial, groups = TRIAL.get() or (None, None)
    request = ReductionRequest(
        array_types(arrays),
        wanted,
        rows,
        columns,
        along,
        tuple(one.offset for one in arrays.values()),
        deterministic=bool(deterministic),
        fixed=bool(reproducible),
        shape=trial,
        groups=groups,
    )
    results = rows if along == "columns" else columns
    plan = make_plan(queue, request) if results else None
    given = None if outputs is None else tuple(out.name for out in wanted)
    return PlannedCall(plan, Returned(shape, tuple(out.dtype for out in wanted), given, order))


def _counted(mapped: Any, names: tuple[str, ...], *, is_one: bool) -> Any:
    """Maps with their index along the reduced axes as the kernel calls it; `is_one` if it is the index in the array, too."""
    if isinstance(mapped, Mapping):
        return {name: _counted(one, names, is_one=is_one) for name, one in mapped.items()}
    if not isinstance(mapped, str):
        return mapped
    own = re.sub(rf"(?<![.\w])({'|'.join(names)})\s*\[\s*i\s*\]", r"\1", mapped)
    if not is_one and re.search(r"(?<![.\w])i\b", own):
        # The caller is `reduce`, by way of `known_of`.
        warnings.warn(
            f"map {mapped!r}: with axis=, i counts along the reduced axes for one more release; then it is the element's "
            "index in the array, as in portbar.scan. Write along for the index along the axes",
            DeprecationWarning,
            stacklevel=6,
        )
    return mapped if "along" in names else re.sub(r"(?<![.\w])along\b", "i", mapped)


def _extent(
    arrays: Mapping[str, cl.array.Array], outputs: tuple[Output, ...], axis: Any, *, keepdims: bool
) -> tuple[int, int, str, tuple[int, ...], str]:
    """Rows, elements of a row, how they lie, and the shape and the order of the result."""
    first = next(iter(arrays.values()))
    shape = tuple(int(n) for n in first.shape)
    count = len(shape)
    axes = tuple(range(count)) if axis is None else _axes(axis, count)
    c_order = all(one.flags.c_contiguous for one in arrays.values())
    f_order = all(one.flags.f_contiguous for one in arrays.values())
    free = all(
        out.op.commutative and not isinstance(out.kind, Indexed) and not re.search(r"\bi\b", out.map or "")
        for out in outputs
    )
    if first.size and f_order and not c_order and not free and len(axes) > 1:
        name = next(iter(arrays))
        raise LaunchError(
            f"the array of shape {shape} is in Fortran order, and the result depends on the order of its elements: only one "
            f"axis can be reduced at once; pass {name}.T to reduce them in the order of memory, or an array in C order"
        )
    if first.size and not c_order and not f_order:
        strides = ", ".join(str(one.strides) for one in arrays.values())
        raise LaunchError(f"the array of shape {shape} has strides {strides} and is not contiguous: {CONTIGUOUS}")
    left = tuple(n if place not in axes else 1 for place, n in enumerate(shape) if keepdims or place not in axes)
    order = "C" if c_order or not f_order or len(left) < 2 else "F"
    if len(axes) == count:
        return 1, math.prod(shape), "columns", left, order
    if not axes:
        raise LaunchError("axis=() reduces nothing: pass an axis, a tuple of axes, or None for all of them")
    if order == "F" or (f_order and not c_order):
        shape, axes = shape[::-1], tuple(count - 1 - one for one in reversed(axes))
    if axes == tuple(range(count - len(axes), count)):
        return math.prod(shape[: axes[0]]), math.prod(shape[axes[0] :]), "columns", left, order
    if axes == tuple(range(len(axes))):
        return math.prod(shape[: len(axes)]), math.prod(shape[len(axes) :]), "rows", left, order
    raise LaunchError(
        f"axis={axis} of {count} axes leaves axes on both sides, and only the first or the last ones can be reduced at once: "
        "reshape the array, or reduce one after another"
    )


def _axes(axis: Any, count: int) -> tuple[int, ...]:
    """The axes that are reduced, from 0 on, in order."""
    given = axis if isinstance(axis, tuple) else (axis,)
    axes = sorted(checked_axis(one, count) for one in given)
    if len(set(axes)) < len(axes):
        raise LaunchError(f"axis={axis} names an axis twice")
    return tuple(axes)
