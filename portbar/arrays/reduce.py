"""`reduce`: a PyOpenCL array to one value of each output, or each of its rows, in one launch.

The place of PyOpenCL's `ReductionKernel`. Work-groups leave what they found in memory, and the last one to finish combines it,
as in CUDA's threadFenceReduction sample; so nothing is launched twice, and the order never depends on who comes first.
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyopencl as cl
import pyopencl.array

from portbar.arrays.call import Known, enqueue, known_of
from portbar.arrays.reduce_plan import Request, make_plan
from portbar.arrays.request import (
    REARRANGE,
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
from portbar.launching.arguments import check_queue
from portbar.primitives.reduction.operators import Operator
from portbar.primitives.reduction.types import Indexed

#: Byte alignment that a plan may rely on.
_ALIGNMENT: Final = 128

_plans: OrderedDict[Any, Known] = OrderedDict()


def reduce(
    queue: cl.CommandQueue,
    array: cl.array.Array | Mapping[str, cl.array.Array],
    op: str | Operator = "+",
    *,
    map: str | Mapping[str, str] | None = None,  # noqa: A002 (what PyOpenCL calls it)
    outputs: Mapping[str, Any] | None = None,
    axis: int | None = None,
    initial: Any = None,
    out: Any = None,
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
        ``"=="``, ``"!="``, ``"argmin"``, ``"argmax"``, or a `portbar.Operator`.
    map : str or mapping of str to str, optional
        OpenCL C expression for the contribution of each element: of ``x`` (or ``x[i]``) and its index ``i``, a long, counted
        along the reduced axis. A mapping gives expressions for some or all outputs.
    outputs : mapping of str to Reduction, str or Operator, optional
        Several results of one pass, instead of `op`. A `portbar.Reduction` names the result's type, too.
    axis : int, optional
        The axis to reduce: the first or the last. None: all of the array.
    initial : scalar or mapping of str to scalar, optional
        A start value, combined with the result from the left.
    out : pyopencl.array.Array or mapping of str to Array, optional
        Destination: contiguous, of the result's shape and type.
    dtype : dtype, optional
        The result's type, in which values are combined. By default the array's, as in PyOpenCL, but int32 for logical
        operators, and int64 for other sums of bool. In OpenCL C, a structure that is not registered with PyOpenCL is named
        ``x_type`` after its array, or ``result_type`` (with `outputs`, after the output) if it differs.
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
    known = known_of(
        _plans,
        lambda: (
            queue.int_ptr,
            tuple([(one.dtype, one.shape, one.strides, one.offset % _ALIGNMENT) for one in inputs]),
            tuple(arrays),
            op,
            tuple(map.items()) if isinstance(map, Mapping) else map,
            tuple(outputs.items()) if isinstance(outputs, Mapping) else None,
            axis,
            tuple(initial) if isinstance(initial, Mapping) else initial is None,
            dtype,
            deterministic,
            reproducible,
            TRIAL.get(),
        ),
        lambda: _known(queue, array, op, map, outputs, axis, initial, dtype, deterministic, reproducible),
    )
    args = input_arguments(inputs, queue.context)
    results = result_arrays(queue, inputs, known.returned, out)
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
    initial: Any,
    dtype: Any,
    deterministic: bool,
    reproducible: bool,
) -> Known:
    """Check a request, and make its plan."""
    check_queue(queue)
    arrays = checked_arrays(array)
    names = tuple(arrays)
    wanted = outputs_of(names, next(iter(arrays.values())).dtype, op, mapped, outputs, initial, dtype)
    rows, columns, along, shape = _extent(arrays, wanted, axis)
    trial, groups = TRIAL.get() or (None, None)
    request = Request(
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
    return Known(plan, Returned(shape, tuple(out.kind.dtype for out in wanted), given))


def _extent(
    arrays: Mapping[str, cl.array.Array], outputs: tuple[Output, ...], axis: Any
) -> tuple[int, int, str, tuple[int, ...]]:
    """Rows, elements of a row, how they lie, and the shape of the result."""
    first = next(iter(arrays.values()))
    shape = tuple(int(n) for n in first.shape)
    c_order = all(one.flags.c_contiguous for one in arrays.values())
    f_order = all(one.flags.f_contiguous for one in arrays.values())
    free = all(
        out.op.commutative and not isinstance(out.kind, Indexed) and not re.search(r"\bi\b", out.map or "")
        for out in outputs
    )
    if first.size and not c_order and not (f_order and (free if axis is None else len(shape) == 2)):
        strides = ", ".join(str(one.strides) for one in arrays.values())
        raise LaunchError(f"the array of shape {shape} has strides {strides} and is not contiguous: {REARRANGE}")
    if axis is None:
        return 1, math.prod(shape), "columns", ()
    count = len(shape)
    axis = checked_axis(axis, count)
    left = shape[:axis] + shape[axis + 1 :]
    if not c_order:
        shape, axis = shape[::-1], count - 1 - axis
    if axis == count - 1:
        return math.prod(shape[:-1]), shape[-1], "columns", left
    if axis == 0:
        return shape[0], math.prod(shape[1:]), "rows", left
    raise LaunchError(
        f"axis {axis} of {count} is neither the first nor the last, and only those can be reduced; reshape the array"
    )
