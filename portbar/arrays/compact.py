"""`compact`, `unique_consecutive` and `run_lengths`: the elements of an array that stay, in their order, by one scan each.

The places of PyOpenCL's `copy_if` and `unique`, and of CUB's `DeviceSelect` and `DeviceRunLengthEncode`. Each is an output
statement of `portbar.arrays.scan`, so that nothing is stored between.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyopencl as cl
import pyopencl.array
import pyopencl.cltypes

from portbar.arrays.request import check_apart, check_array, checked_arrays, element_type
from portbar.arrays.scan import ScanRequest, scanned
from portbar.errors import Error, LaunchError
from portbar.launching.arguments import check_queue
from portbar.primitives.reduction.operators import Operator
from portbar.primitives.reduction.types import Scalar, Struct

Events = Iterable[cl.Event] | None

_COUNT: Final = "if (i + 1 == N) portbar_count[0] = item;"


def compact(
    queue: cl.CommandQueue,
    array: cl.array.Array | Mapping[str, cl.array.Array],
    predicate: str | cl.array.Array,
    *,
    out: Any = None,
    allocator: Any = None,
    return_event: bool = False,
    wait_for: Events = None,
) -> tuple[Any, ...]:
    """Keep the elements of an array for which an expression holds, in their order, in one launch.

    Parameters
    ----------
    queue : pyopencl.CommandQueue
    array : pyopencl.array.Array or mapping of str to Array
        As for `portbar.scan`. For a mapping, the elements of all arrays at the same indices are kept.
    predicate : str or pyopencl.array.Array
        OpenCL C expression that is nonzero for elements to keep: of ``x`` (or the names of a mapping), its index ``i``, and
        other elements such as ``x[i - 1]``, which must exist. Or a mask: an array of bool or integers of the same shape.
    out : pyopencl.array.Array or mapping of str to Array, optional
        Destination: of one dimension, with room for all elements, in separate memory.
    allocator : callable, optional
        Allocates the results, as for `pyopencl.array.Array`; the array's by default.
    return_event : bool, optional
    wait_for : list of pyopencl.Event, optional

    Returns
    -------
    kept : pyopencl.array.Array or dict of str to Array
        One dimension with room for all elements. The first `count` are set.
    count : pyopencl.array.Array
        Shape ``()``, type int64, on the device: `count.get()` waits for it.
    event : pyopencl.Event
        Only with `return_event`.

    Raises
    ------
    Error, LaunchError, BuildError, UnsupportedFeatureError
        As for `portbar.scan`.
    """
    check_queue(queue)
    arrays = checked_arrays(array)
    given: dict[str, cl.array.Array] = dict(arrays)
    chosen: Any = predicate
    if hasattr(chosen, "dtype"):
        check_array("the mask", chosen)
        chosen = _masked(given, chosen)
    said = _said("the predicate", chosen, "x > 0")
    wanted = {name: one.dtype for name, one in arrays.items()}
    kept = _rooms(queue, given, wanted, out if isinstance(array, Mapping) or out is None else {"x": out}, allocator)
    targets = {f"portbar_kept_{place}": one for place, one in enumerate(kept.values())}
    copies = " ".join(
        f"{target}[prev_item] = {name}[i];" for target, (name, one) in zip(targets, arrays.items(), strict=True)
    )
    output = f"if (item != prev_item) {{ {copies} }} {_COUNT}"
    count, event = _selected(queue, given, f"({chosen}) ? 1 : 0", output, targets, said, wait_for, allocator=allocator)
    answer = (kept if isinstance(array, Mapping) else kept["x"], count)
    return (*answer, event) if return_event else answer


def unique(
    queue: cl.CommandQueue,
    array: cl.array.Array,
    equal: str | None = None,
    *,
    return_event: bool = False,
    wait_for: Events = None,
) -> tuple[Any, ...]:
    """Do what `unique_consecutive` does; deprecated, as `numpy.unique` sorts."""
    warnings.warn(
        "portbar.unique compares neighbours only, unlike numpy.unique, and is called portbar.unique_consecutive now; for each "
        "value once, pass it portbar.sort(queue, array)",
        DeprecationWarning,
        stacklevel=2,
    )
    return unique_consecutive(queue, array, equal, return_event=return_event, wait_for=wait_for)


def unique_consecutive(
    queue: cl.CommandQueue,
    array: cl.array.Array,
    equal: str | None = None,
    *,
    out: cl.array.Array | None = None,
    allocator: Any = None,
    return_event: bool = False,
    wait_for: Events = None,
) -> tuple[Any, ...]:
    """Keep the first of each run of equal elements, in one launch: of a sorted array, each value once.

    Parameters
    ----------
    queue : pyopencl.CommandQueue
    array : pyopencl.array.Array
        As for `portbar.scan`.
    equal : str, optional
        OpenCL C expression that is nonzero if two neighbours ``a`` and ``b`` are equal. Default: ``a == b``, for all components
        of a vector; a structure requires an expression. NaN is not equal to NaN.
    out, allocator
        As for `portbar.compact`.
    return_event : bool, optional
    wait_for : list of pyopencl.Event, optional

    Returns
    -------
    values, count, event
        As for `portbar.compact`.

    Raises
    ------
    Error, LaunchError, BuildError, UnsupportedFeatureError
        As for `portbar.scan`.
    """
    check_queue(queue)
    one = _only(array)
    begins, said = _begins(one, equal)
    given = None if out is None else {"values": out}
    values = _rooms(queue, {"x": one}, {"values": one.dtype}, given, allocator)["values"]
    output = f"if (item != prev_item) portbar_values[prev_item] = x[i]; {_COUNT}"
    targets, mapped = {"portbar_values": values}, f"({begins}) ? 1 : 0"
    count, event = _selected(queue, {"x": one}, mapped, output, targets, said, wait_for, allocator=allocator)
    return (values, count, event) if return_event else (values, count)


def run_lengths(
    queue: cl.CommandQueue,
    array: cl.array.Array,
    equal: str | None = None,
    *,
    out: tuple[cl.array.Array, cl.array.Array] | None = None,
    allocator: Any = None,
    return_event: bool = False,
    wait_for: Events = None,
) -> tuple[Any, ...]:
    """Find the runs of equal elements, in one launch: the value of each, and how many elements it has.

    Parameters
    ----------
    queue, array, equal, allocator, return_event, wait_for
        As for `portbar.unique_consecutive`.
    out : pair of pyopencl.array.Array, optional
        Destinations of values and of lengths: of one dimension, with room for all elements, in separate memory.

    Returns
    -------
    values : pyopencl.array.Array
        The first element of each run. One dimension with room for all elements; the first `count` are set.
    lengths : pyopencl.array.Array
        The number of elements of each run, likewise; int64.
    count : pyopencl.array.Array
        The number of runs. Shape ``()``, type int64.
    event : pyopencl.Event
        Only with `return_event`.

    Raises
    ------
    Error, LaunchError, BuildError, UnsupportedFeatureError
        As for `portbar.scan`.
    """
    check_queue(queue)
    one = _only(array)
    begins, said = _begins(one, equal)
    kind = "ulong" if one.size >> 32 else "uint"
    if out is not None and (not isinstance(out, Sequence) or len(out) != 2):
        raise LaunchError("out= must be a pair: an array for the values and one for the lengths")
    given = None if out is None else dict(zip(("values", "lengths"), out, strict=True))
    dtypes = {"values": one.dtype, "lengths": np.dtype(np.int64)}
    values, lengths = _rooms(queue, {"x": one}, dtypes, given, allocator).values()
    # How many runs have begun, and where the last of them did.
    runs = Operator(f"({kind}2)(a.x + b.x, max(a.y, b.y))", neutral=f"({kind}2)(0)")
    output = (
        "if (item.x != prev_item.x) { portbar_values[prev_item.x] = x[i]; "
        "if (i != 0) portbar_lengths[prev_item.x - 1] = i - (long)prev_item.y; } "
        "if (i + 1 == N) { portbar_lengths[item.x - 1] = N - (long)item.y; portbar_count[0] = item.x; }"
    )
    mapped = f"({begins}) ? ({kind}2)(1, ({kind})i) : ({kind}2)(0)"
    targets = {"portbar_values": values, "portbar_lengths": lengths}
    pair = getattr(cl.cltypes, f"{kind}2")
    count, event = _selected(queue, {"x": one}, mapped, output, targets, said, wait_for, runs, pair, allocator)
    return (values, lengths, count, event) if return_event else (values, lengths, count)


def _selected(
    queue: cl.CommandQueue,
    arrays: dict[str, cl.array.Array],
    mapped: str,
    output: str,
    targets: dict[str, cl.array.Array],
    said: tuple[str, str],
    wait_for: Events,
    op: str | Operator = "+",
    dtype: Any = None,
    allocator: Any = None,
) -> tuple[cl.array.Array, cl.Event]:
    """Scan with an output statement that also stores a count."""
    first = next(iter(arrays.values()))
    allocator = allocator or first.allocator
    if first.size:
        count = cl.array.Array(queue, (), np.int64, allocator=allocator)
    else:
        count = cl.array.zeros(queue, (), np.int64, allocator=allocator)
    if dtype is None:
        dtype = np.uint64 if first.size >> 32 else np.uint32
    written = {**targets, "portbar_count": count}
    request = ScanRequest(op, mapped, dtype, output=output, outputs=written, said=said, trusted=True)
    _, event = scanned(queue, arrays, request, return_event=True, wait_for=wait_for)
    return count, event


def _rooms(
    queue: cl.CommandQueue,
    arrays: Mapping[str, cl.array.Array],
    dtypes: Mapping[str, np.dtype[Any]],
    given: Any,
    allocator: Any,
) -> dict[str, cl.array.Array]:
    """Arrays of these types for as many elements as the first one has; the caller's, checked, where there are some."""
    first = next(iter(arrays.values()))
    if given is None:
        allocator = allocator or first.allocator
        return {
            name: cl.array.Array(queue, (first.size,), dtype, allocator=allocator) for name, dtype in dtypes.items()
        }
    if allocator is not None:
        raise LaunchError("pass out= or allocator=, not both: with out= no memory is allocated for the elements")
    if not isinstance(given, Mapping) or set(given) != set(dtypes):
        raise LaunchError(f"out= must be a mapping with an array for each of {', '.join(dtypes)}")
    taken: list[cl.array.Array] = []
    for name, dtype in dtypes.items():
        one = given[name]
        check_array("out=", one)
        if one.dtype != dtype or one.ndim != 1 or one.size < first.size or not one.flags.c_contiguous:
            raise LaunchError(
                f"out= must be contiguous, of one dimension with room for {first.size} elements of type {dtype}; it has shape "
                f"{one.shape}, type {one.dtype} and strides {one.strides}"
            )
        check_apart("out=", one, [*arrays.values(), *taken])
        taken.append(one)
    return {name: given[name] for name in dtypes}


def _masked(arrays: dict[str, cl.array.Array], mask: cl.array.Array) -> str:
    """Add a mask to the arrays of a call, and return the predicate that reads it."""
    first = next(iter(arrays.values()))
    if mask.shape != first.shape or mask.dtype.kind not in "biu":
        raise LaunchError(
            f"the mask has shape {mask.shape} and type {mask.dtype}: it must be of bool or integers, with the shape "
            f"{first.shape} of the array"
        )
    if any(mask is one for one in arrays.values()):
        return f"{next(name for name, one in arrays.items() if one is mask)} != 0"
    name = "mask"
    while name in arrays:
        name += "_"
    arrays[name] = mask
    return f"{name} != 0"


def _only(array: Any) -> cl.array.Array:
    """The array of a call that takes one, checked."""
    if isinstance(array, Mapping):
        raise Error("only the neighbours of one array can be compared: pass an array, not a mapping")
    return checked_arrays(array)["x"]


def _said(what: str, expression: Any, example: str) -> tuple[str, str]:
    """Return the user's expression, checked, and its name in messages."""
    if not isinstance(expression, str) or not expression.strip():
        raise Error(f"{what} is an OpenCL C expression such as {example!r}, not {expression!r}")
    if re.search(r";|//|\n", expression):
        raise Error(f"{what}, {expression!r}, is more than one expression: no semicolons, line breaks or comments")
    return what, expression


def _begins(array: cl.array.Array, equal: Any) -> tuple[str, tuple[str, str]]:
    """An expression of whether a run begins at an element."""
    if equal is None:
        kind = element_type(array.dtype, "x_type")
        if isinstance(kind, Struct):
            raise Error("structures cannot be compared as a whole: pass equal=, such as 'a.key == b.key'")
        equal = "a == b" if isinstance(kind, Scalar) else "all(a == b)"
    said = _said("the comparison", equal, "a == b")
    places = {"a": "x[i - 1]", "b": "x[i]"}
    compared = re.sub(r"(?<![.\w])[ab]\b", lambda found: places[found[0]], equal)
    return f"i == 0 || !({compared})", said
