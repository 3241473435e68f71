"""`scan`: the prefix sums of a PyOpenCL array, in one launch that reads each element once from memory.

The place of PyOpenCL's `GenericScanKernel`. Work-groups take tiles in the order in which they start, and each looks back at
what the tiles before amount to (Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", 2016). A
value that is missing after some polls is computed by the group that needs it (Smith, Levien and Owens,
"Decoupled Fallback", SPAA 2025): no group ever waits for another to run, and a device that runs one work-group at a time
computes correct results, too.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array

from portbar.arrays.call import PlannedCall, copied, enqueue, known_of
from portbar.arrays.plan import Memory, check_types, choices_for, plan_of
from portbar.arrays.request import (
    Returned,
    array_types,
    check_contiguous,
    check_memory,
    checked_arrays,
    input_arguments,
    is_same,
    named,
    outputs_of,
    result_arrays,
    start_values,
)
from portbar.arrays.scan_source import TILES, WARPS_BYTES, Elements, ScanJob, Tile, quad_of, warps_tile
from portbar.arrays.segments import Segments, flags_of, lines_of
from portbar.arrays.shape import Shape, SizedShape, by_warps, kind_of, layout_of
from portbar.arrays.source import Input, Output, most_elements
from portbar.arrays.statement import check_targets, statement_of, wants_last
from portbar.backends.profile import DeviceProfile
from portbar.device import quirks
from portbar.device.facts import DeviceFacts
from portbar.errors import Error, LaunchError
from portbar.launching.arguments import check_queue
from portbar.primitives.reduction.operators import Operator
from portbar.primitives.reduction.types import Type
from portbar.primitives.strategy import Strategy
from portbar.records.dataclass import dataclass

#: Replacements for the table's values, for tests and measurements.
TRIAL: ContextVar[Tile | None] = ContextVar("TRIAL", default=None)


def scan(
    queue: cl.CommandQueue,
    array: cl.array.Array | Mapping[str, cl.array.Array],
    op: str | Operator = "+",
    *,
    exclusive: bool = False,
    map: str | None = None,  # noqa: A002 (as in `portbar.reduce`)
    initial: Any = None,
    out: cl.array.Array | None = None,
    dtype: Any = None,
    allocator: Any = None,
    output: str | None = None,
    targets: Mapping[str, cl.array.Array] | None = None,
    outputs: Mapping[str, cl.array.Array] | None = None,
    segments: cl.array.Array | None = None,
    offsets: cl.array.Array | None = None,
    axis: int | None = None,
    return_event: bool = False,
    wait_for: Iterable[cl.Event] | None = None,
) -> Any:
    """Compute prefix sums of an array, or prefixes of another operator, on its device, in one launch.

    Parameters
    ----------
    queue : pyopencl.CommandQueue
    array : pyopencl.array.Array or mapping of str to Array
        Contiguous, of any shape and any type that `portbar.Reduction` supports, or of bool; scanned in the order of memory.
        `map` refers to it as ``x``. A mapping gives arrays of one shape, with their names.
    op : str or Operator
        As for `portbar.reduce`. An operator need not commute.
    exclusive : bool, optional
        Whether results exclude the element itself: the first result is `initial`, or the operator's neutral element.
    map : str, optional
        OpenCL C expression for the contribution of each element: of ``x`` (or ``x[i]``), its index ``i`` in memory, a long, its
        index ``along`` the axis, and other elements such as ``x[i - 1]``, which must exist.
    initial : scalar, optional
        A start value, combined with every result from the left.
    out : pyopencl.array.Array, optional
        Destination: contiguous, of the array's shape and the result's type. It may be the array itself, which costs a copy.
    allocator : callable, optional
        Allocates the result, as for `pyopencl.array.Array`; the array's by default.
    dtype : dtype, optional
        The result's type, in which values are combined. By default as for `portbar.reduce`.
    output : str, optional
        OpenCL C statements that run once per element, in any order, like the output statement of PyOpenCL's
        `GenericScanKernel`: with ``i``, the number of elements ``N``, the inclusive scan's value ``item``, the one before it
        ``prev_item`` (`initial` or the neutral element at index 0) and the last one ``last_item``, and with the arrays and
        those of `targets` as pointers. A statement that uses ``last_item`` costs a second launch. The call then returns no
        array of results, unless `out` is given.
    targets : mapping of str to pyopencl.array.Array, optional
        The arrays that `output` writes to, by name: contiguous, of any shape. The places that a statement writes to are not
        checked.
    outputs : mapping of str to pyopencl.array.Array, optional
        The former name of `targets`, deprecated: `outputs` of `portbar.reduce` are operators.
    segments : pyopencl.array.Array, optional
        Flags of the array's shape, bool or integers: a nonzero flag starts a segment, and earlier elements do not count. A
        result, `prev_item` and `initial` are those of the element's segment; there is no ``last_item``.
    offsets : pyopencl.array.Array, optional
        Instead of flags, the index of each segment's first element: integers, of one dimension. Offsets outside the array are
        ignored, and equal ones start one segment: row pointers of a sparse matrix work. Two more commands make flags from them.
    axis : int, optional
        The axis whose lines are segments. The fastest is the one whose elements are adjacent: the last one, or the first one of
        an array in Fortran order, whose result is in that order.
    return_event : bool, optional
    wait_for : list of pyopencl.Event, optional

    Returns
    -------
    pyopencl.array.Array
        Of the array's shape; the call does not wait. With `output` and without `out`, a dict of `targets` instead. With
        `return_event`, a tuple of that and the event. Floats have the same bits in each run on a device: they depend neither on
        timing nor on the assignment of work to work-groups.

    Raises
    ------
    Error
        An invalid operator, type, name or expression, before anything is enqueued.
    LaunchError
        Invalid arrays, or a failed dependency.
    BuildError
        An expression or statement does not compile; the message shows it.
    UnsupportedFeatureError
        The device lacks the type, or no atomics strategy is known to order memory between its work-groups.
    """
    if offsets is not None:
        if segments is not None:
            raise Error("pass segments= (flags) or offsets= (indices), not both")
        check_queue(queue)
        segments = flags_of(queue, next(iter(checked_arrays(array).values())), offsets, wait_for)
    if outputs is not None:
        if targets is not None:
            raise Error("pass targets=, not its former name outputs= as well")
        warnings.warn("outputs= of portbar.scan is called targets= now", DeprecationWarning, stacklevel=2)
        targets = outputs
    request = ScanRequest(op, map, dtype, bool(exclusive), output, targets, segments=segments, axis=axis)
    return scanned(queue, array, request, initial, out, allocator, return_event=return_event, wait_for=wait_for)


@dataclass
class ScanRequest:
    """The options of a scan but for `initial` and `out`; as for `scan`."""

    op: Any = "+"
    map: Any = None
    dtype: Any = None
    exclusive: bool = False
    output: str | None = None
    outputs: Mapping[str, cl.array.Array] | None = None
    #: The name in messages of an expression that replaces the map, and the user's text of it.
    said: tuple[str, str] | tuple[()] = ()
    #: Whether names of outputs may be portbar's own.
    trusted: bool = False
    segments: cl.array.Array | None = None
    axis: int | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """All that a plan depends on."""
        outputs = None if self.outputs is None else (*self.outputs, *map(_layout_key, self.outputs.values()))
        segments = None if self.segments is None else _layout_key(self.segments)
        return self.op, self.map, self.dtype, self.exclusive, self.output, outputs, self.said, segments, self.axis


def _layout_key(array: cl.array.Array) -> tuple[Any, ...]:
    """All of an array that a plan depends on."""
    return array.dtype, array.shape, array.strides, array.offset % array.dtype.itemsize


def scanned(
    queue: cl.CommandQueue,
    array: cl.array.Array | Mapping[str, cl.array.Array],
    request: ScanRequest,
    initial: Any = None,
    out: cl.array.Array | None = None,
    allocator: Any = None,
    *,
    return_event: bool = False,
    wait_for: Iterable[cl.Event] | None = None,
) -> Any:
    """Do what `scan` describes."""
    arrays = named(array)
    inputs: tuple[cl.array.Array, ...] = tuple(arrays.values())
    writes = request.output is None or out is not None
    known: PlannedCall = known_of(
        queue,
        "scan",
        lambda: (*map(_layout_key, inputs), *arrays, *request.key, initial is None, writes, TRIAL.get()),
        lambda: _known(queue, array, request, initial, writes=writes),
    )
    if request.segments is not None:
        arrays["segments"] = request.segments
        inputs = (*inputs, request.segments)
    args = input_arguments(inputs, queue.context)
    results = result_arrays(queue, inputs, known.returned, out, allocator, in_place=True) if writes else []
    whole = next((one for one in inputs if out is not None and is_same(out, one)), None)
    if whole is not None:
        # Groups read elements again where they supply what is missing: results go elsewhere first.
        results = result_arrays(queue, inputs, known.returned, None)
    [start] = start_values(known.returned, initial)
    targets = dict(request.outputs or {})
    check_targets(queue, inputs, targets, None if whole is not None else out)
    arrays |= {f"targets[{name!r}]": one for name, one in targets.items()}
    args += [part for one in targets.values() for part in (one.base_data, one.offset // one.dtype.itemsize)]
    if known.plan is not None and request.output is not None and wants_last(request.output):
        last = cl.array.Array(queue, (1,), known.returned.dtypes[0], allocator=inputs[0].allocator)
        text = "if (i + 1 == N) portbar_last[0] = item;"
        outputs = {"portbar_last": last}
        final = ScanRequest(request.op, request.map, request.dtype, output=text, outputs=outputs, trusted=True)
        scanned(queue, array, final, initial, wait_for=wait_for)
        arrays["last_item"] = last
        args.append(last.base_data)
    if out is not None:
        arrays["out"] = out
    for one in results:
        args += (one.base_data, one.offset // one.dtype.itemsize)
    if start is not None:
        args.append(start)
    if known.plan is not None:
        # PyOpenCL's empty arrays have no buffer; a statement that writes to them writes nowhere.
        spare = known.plan.state.cleared("ticket", 4)
        args = [spare if value is None else value for value in args]
        args.append(np.uint32(known.plan.state.next_epoch()).tobytes())
    event = enqueue("portbar.scan", queue, known.plan, args, arrays, inputs, [*results, *targets.values()], wait_for)
    if whole is not None:
        event = copied(queue, results[0], whole, event)
        results = [whole]
    answer: Any = results[0] if writes else targets
    return (answer, event) if return_event else answer


def fitted(cut: Tile, size: int, facts: DeviceFacts) -> Tile:
    """A tile with no more work-items, and values of `size` bytes, than a device and its local memory have room for."""
    local = min(cut.local, facts.max_work_group_size or cut.local)
    cut = replace(cut, local=1 << max(0, local.bit_length() - 1))
    # Values in their places, totals, and what is found before.
    memory = (facts.local_mem_size or 32768) - 64 - size
    while cut.local > 1 and (cut.local * cut.length * 33 // 32 + 1 + cut.local) * size > memory:
        cut = replace(cut, length=cut.length // 2) if cut.length > 1 else replace(cut, local=cut.local // 2)
    return cut


def _cut(profile: DeviceProfile, strategy: Strategy, kind: Type, size: int, elements: int, *, segments: bool) -> Tile:
    """The tile for an array of `elements`, whose values have `size` bytes."""
    if (trial := TRIAL.get()) is not None:
        return trial
    tuned = strategy.tuning.arrays.scan
    if tuned is not None and size <= WARPS_BYTES and by_warps(profile, strategy):
        return warps_tile(tuned, 1 if segments else quad_of(kind), elements)
    return fitted(TILES[kind_of(profile)], size, profile.facts)


def _layout(cut: Tile, kinds: Sequence[tuple[str, Type]], out: Output) -> SizedShape:
    """One element at a time, or vectors where a CPU's compiler need not find them."""
    shape = Shape(local=cut.local, load_bytes=cut.load_bytes, loads=1, sets=1, per_unit=1)
    layout = layout_of(shape, max(kinds[0][1].size, out.kind.size), most=most_elements(kinds[0][1]))
    is_plain = Elements(0, out, (Input(0, *kinds[0]),), layout, loops=False).vectors
    return layout if is_plain else replace(layout, vector=1)


def _order(arrays: Mapping[str, cl.array.Array], request: ScanRequest) -> str:
    """The order of the elements in memory, ``"C"`` or ``"F"``, in which an axis may be scanned."""
    is_f = all(one.flags.f_contiguous for one in arrays.values())
    if is_f and not all(one.flags.c_contiguous for one in arrays.values()):
        if request.axis is not None:
            return "F"
        name = next(iter(arrays))
        raise LaunchError(
            f"array {name!r} of shape {arrays[name].shape} is in Fortran order: pass {'' if request.trusted else 'axis=, or '}"
            f"{name}.T to take its elements in the order of memory"
        )
    for name, one in arrays.items():
        check_contiguous(f"array {name!r}", one)
    return "C"


def _along(text: str | None, names: tuple[str, ...], lines: Segments) -> str | None:
    """An expression or a statement with the index along the axis as an expression of the index in memory."""
    if text is None or "along" in names:
        return text
    index = f"((i / {lines.inner}) % {lines.columns})" if lines.given == "lines" else "i"
    return re.sub(r"(?<![.\w])along\b", index, text)


def _known(queue: cl.CommandQueue, array: Any, request: ScanRequest, initial: Any, *, writes: bool) -> PlannedCall:
    """Check a request, and make its plan."""
    check_queue(queue)
    arrays = checked_arrays(array)
    first, names = next(iter(arrays.values())), tuple(arrays)
    wanted = outputs_of(names, first.dtype, request.op, request.map, None, initial, request.dtype, neighbours=True)
    kinds, kind = array_types(arrays), wanted[0].kind
    statement = statement_of(names, request.output, request.outputs, trusted=request.trusted)
    if statement:
        # A structure that is in one array can be stored in another.
        same = {one.dtype: one for one in (kind, *(one for _, one in reversed(kinds)))}
        targets = tuple((name, same.get(one.dtype, one)) for name, one in statement.arrays)
        statement = replace(statement, arrays=targets)
    if request.exclusive and not writes:
        raise Error(
            "exclusive= applies to the array of results, and output= replaces that array: use prev_item in output="
        )
    order = _order(arrays, request)
    for one in arrays.values():
        check_memory("the array", one, queue.context)
    lines = lines_of(first.shape, request.segments, request.axis, order)
    wanted = tuple(replace(one, map=_along(one.map, names, lines)) for one in wanted)
    if statement:
        statement = replace(statement, text=_along(statement.text, (*names, *(request.outputs or ())), lines) or "")
    returned = Returned(first.shape, (wanted[0].dtype,), order=order)
    if not first.size:
        return PlannedCall(None, returned)
    profile, strategy = choices_for(queue)
    size, unit = kind.size, max(4, kind.alignment)
    if lines.given:
        size = -(-(size + 4) // unit) * unit
    cut = _cut(profile, strategy, kind, size, first.size, segments=bool(lines.given))
    every = [one for _, one in (*kinds, *(statement.arrays if statement else ()))]
    job = ScanJob(
        kinds,
        wanted,
        _layout(cut, kinds, wanted[0]),
        extensions=check_types(queue.device, profile, [*every, kind]),
        cut=cut,
        exclusive=request.exclusive,
        writes=writes,
        statement=statement,
        said=request.said,
        segments=lines.given,
        near=lines.inner == 1,
        wide=bool(first.size >> 32),
        inlines=not quirks.has_effect(quirks.INLINED_STRUCTURES_UNKNOWN, profile.facts),
    )
    if job.segments and job.wants_last:
        raise Error("last_item in output= is the value of the one last element: do not use it with segments")
    if not job.is_plain:
        job = replace(job, layout=replace(job.layout, vector=1))
    tiles = -(-first.size // job.tile)
    if tiles >> 31:
        raise LaunchError(f"the array has {first.size} elements; at most {(1 << 31) * job.tile} can be scanned at once")
    kept: list[Any] = [np.uint64(first.size)]
    if job.segments == "lines":
        kept += [np.uint64(n) if job.wide else np.uint32(n) for n in (lines.columns, lines.inner)]
    item = -(-size // 16) * 16
    kept.append(Memory("ticket", 4))
    if cut.warps:
        words = 2 * (item // 4) * (tiles + tiles // 32 + 1)
        kept += [Memory("scan words", 4 * words, "words"), Memory("tiles", 16)]
    else:
        kept += [Memory("tile words", 4 * tiles, "words"), Memory("tiles", 2 * item * tiles)]
    return PlannedCall(plan_of(queue, strategy, job, (tiles * cut.local,), (cut.local,), kept), returned)
