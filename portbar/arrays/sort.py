"""`sort` and `argsort`: PyOpenCL arrays in order, by radix sort on their device.

Least significant digits of 8 bits first, and each digit in one pass over the keys, as in Adinets and Merrill, "Onesweep: A
Faster Least Significant Digit Radix Sort for GPUs" (2022). A tile looks back for the counts of those before it. Counts that are
missing after some polls are computed by the group that needs them (Smith, Levien and Owens, "Decoupled Fallback", SPAA 2025):
no group ever waits for another to run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from dataclasses import field, replace
from typing import Any, Final

import numpy as np
import pyopencl as cl
import pyopencl.array

from portbar.arrays.call import copied, enqueue, known_of
from portbar.arrays.lines import Lines, indices, move, order_of
from portbar.arrays.plan import Memory, Plan, QueueMemory, choices_for, plan_of, state_of
from portbar.arrays.request import check_apart, check_array, check_contiguous, check_memory, checked_axis, is_same
from portbar.arrays.shape import by_warps, kind_of
from portbar.arrays.sort_source import BINS, SHAPES, UNSIGNED, SortJob, TileShape, warps_shape
from portbar.backends.profile import DeviceProfile
from portbar.errors import Error, LaunchError
from portbar.launching.arguments import check_queue, events_of
from portbar.launching.queues import awaited, has_run, hides_failures
from portbar.primitives.strategy import Strategy
from portbar.records.dataclass import dataclass

#: Most keys of one sort; their places are 32-bit numbers.
MOST_KEYS: Final = (1 << 32) - 1

#: Counts of eight digits, for two sorts in turn.
_BINS_BYTES: Final = 2 * 8 * BINS * 4

#: Replacements for the table's values, for tests and measurements.
TRIAL: ContextVar[TileShape | None] = ContextVar("TRIAL", default=None)


@dataclass
class _Sort:
    """The launches of one kind of sort on one queue."""

    job: SortJob
    state: QueueMemory
    #: One launch for all digits, or one that counts them and one for each.
    small: Plan | None = None
    count: Plan | None = None
    passes: list[Plan] = field(default_factory=list)

    def launch(self, args: Sequence[cl.array.Array | None], wait_for: list[cl.Event] | None) -> cl.Event:
        """Enqueue them for keys, values, and where both go."""
        keys, values, keys_out, values_out = args
        assert keys is not None
        with self.state.lock:
            rooms = [self._room("keys", self.job.key_bytes, keys, keys_out, keys.shape[0])]
            if values_out is not None:
                # Without values, these are the places of keys, and nothing is read.
                source = values_out if values is None else values
                rooms.append(self._room("values", self.job.value_bytes, source, values_out, keys.shape[0]))
            if self.small is not None:
                given = [part for room in rooms for place in (room.source, room.target) for part in place]
                return self.small.launch(given, wait_for)
            return self._launch_passes(keys, rooms, wait_for)

    def _launch_passes(self, keys: cl.array.Array, rooms: list[_Room], wait_for: list[cl.Event] | None) -> cl.Event:
        assert self.count is not None
        state = self.state
        waited = state.count_waited
        if state.count_in_doubt or (waited is not None and not has_run(waited, hidden=state.order.hidden)):
            state.order.clear(state.queue, state.cleared("sort bins", _BINS_BYTES), _BINS_BYTES)
        first_bin, other_bin = [8 * BINS * (turn & 1) for turn in (state.sorts, state.sorts + 1)]
        given = [*_place(keys), np.uint32(first_bin).tobytes(), np.uint32(other_bin).tobytes()]
        # Before the launch, in case of an exception: no two sorts may count in one half without a count in the other between.
        state.count_in_doubt = True
        state.sorts += 1
        event = self.count.launch(given, wait_for)
        state.count_waited = None if state.order.in_order and not wait_for else event
        state.count_in_doubt = False
        sources = [room.source for room in rooms]
        for digit, plan in enumerate(self.passes):
            # The last one goes to where results belong, and those before in turns there and elsewhere.
            away = (self.job.digits - digit) % 2 == 0
            targets = [(state.room(*room.spare), 0) if away else room.target for room in rooms]
            args = [part for pair in zip(sources, targets, strict=True) for place in pair for part in place]
            epoch, bins = np.uint32(state.next_epoch()), np.uint32(first_bin + BINS * digit)
            event = plan.launch([*args, epoch.tobytes(), bins.tobytes()], [event])
            sources = targets
        return event

    def _room(self, name: str, each: int, source: cl.array.Array, target: cl.array.Array | None, length: int) -> _Room:
        spare = f"sort {name}", length * each
        elsewhere = f"sort {name} out", length * each
        return _Room(_place(source), (self.state.room(*elsewhere), 0) if target is None else _place(target), spare)


@dataclass
class _Room:
    """Where keys or values are, where they go, and the name and size of memory between passes."""

    source: tuple[Any, int]
    target: tuple[Any, int]
    spare: tuple[str, int]


def _place(array: cl.array.Array) -> tuple[Any, int]:
    """An array's memory, and its first element there."""
    return array.base_data, array.offset // array.dtype.itemsize


def _planned(
    queue: cl.CommandQueue, keys: cl.array.Array, value_bytes: int, bits: _Bits, *, numbers: bool, descending: bool
) -> _Sort:
    """Compile the kernels of a sort, and give them what stays."""
    device, state, length, dtype = queue.device, state_of(queue), keys.shape[0], keys.dtype
    profile, strategy = choices_for(queue)
    kind = "u" if dtype.kind == "b" else dtype.kind
    shape = _shape(profile, strategy, dtype.itemsize, value_bytes)
    job = SortJob(kind, dtype.itemsize, value_bytes, numbers, descending, bits.digits, shape)
    n, begin, last = np.uint32(length), np.uint32(bits.begin), np.uint32(bits.mask(bits.digits - 1))

    def plan(name: str, groups: int, local: int, *kept: Any) -> Plan:
        return plan_of(queue, strategy, replace(job, kernel=f"portbar_sort_{name}"), (groups * local,), (local,), kept)

    if length <= shape.small:
        spare: tuple[Memory, ...] = ()
        if shape.form == "items":
            sizes = [("keys", job.key_bytes), *([("values", value_bytes)] if value_bytes else [])]
            spare = tuple(Memory(f"sort {name}", shape.small * each, "room") for name, each in sizes)
        return _Sort(job, state, small=plan("small", 1, job.local, np.uint32(numbers), n, begin, last, *spare))
    tiles = -(-length // job.tile)
    bins = Memory("sort bins", _BINS_BYTES)
    few = max(1, min(2 * device.max_compute_units, -(-length // (4 * job.count_local))))
    count = plan("count", tiles if shape.form == "items" else few, job.count_local, bins, n, begin, last)
    ticket = Memory("ticket", 4)
    if shape.form == "warps":
        words, counts = Memory("sort words", 4 * 2 * BINS * tiles, "words"), Memory("sort counts", 4, "room")
    else:
        words, counts = Memory("tile words", 4 * tiles, "words"), Memory("sort counts", 2 * 4 * BINS * tiles, "room")
    passes = [
        plan(
            "pass", tiles, job.local, bins, np.uint32(numbers and digit == 0), np.uint32(bits.begin + 8 * digit),
            np.uint32(bits.mask(digit)), n, ticket, words, counts,
        )
        for digit in range(bits.digits)
    ]  # fmt: skip
    return _Sort(job, state, count=count, passes=passes)


def sort(
    queue: cl.CommandQueue,
    keys: cl.array.Array,
    values: cl.array.Array | Sequence[cl.array.Array] | None = None,
    *,
    axis: int | None = None,
    descending: bool = False,
    begin_bit: int = 0,
    end_bit: int | None = None,
    out: Any = None,
    allocator: Any = None,
    return_event: bool = False,
    wait_for: Iterable[cl.Event] | None = None,
) -> Any:
    """Sort an array on its device, and others with it. Equal keys keep their order.

    Parameters
    ----------
    queue : pyopencl.CommandQueue
    keys : pyopencl.array.Array
        One-dimensional and contiguous, of bool or of integers or floating-point numbers of 8 to 64 bits; with `axis`, of any
        shape, and in C or Fortran order. The device need not compute with the type. As in NumPy, -0.0 equals 0.0, and NaNs come
        last.
    values : pyopencl.array.Array or sequence of such, optional
        Of the same shape and any types; each value moves with its key.
    axis : int, optional
        The axis to sort along, of an array of several; -1 is the last one. Takes a second sort, by the lines.
    descending : bool, optional
        Whether the largest key comes first. NaNs come first, too.
    begin_bit, end_bit : int, optional
        Sort by these bits of the keys only: from `begin_bit` up to `end_bit`, without it. By default, all. Bit 0 is the least
        significant one. Floating-point numbers and signed integers are sorted by the bits of unsigned numbers in their order.
        The time grows with the number of bits, by steps of 8.
    out : pyopencl.array.Array or pair of them, optional
        Destination: with the shapes and types of `keys` and `values`, in separate memory, or `keys` and `values` themselves,
        which costs a copy. For a sequence of values, the second of the pair is a sequence.
    allocator : callable, optional
        Allocates the results, as for `pyopencl.array.Array`; the arrays' own by default.
    return_event : bool, optional
    wait_for : list of pyopencl.Event, optional

    Returns
    -------
    pyopencl.array.Array or tuple of two
        The sorted keys, or keys and values, which are a tuple for a sequence; the call does not wait. With `return_event`, a
        tuple of that and the event.

    Raises
    ------
    Error
        Keys of an unsupported type, or bits that they do not have.
    LaunchError
        Invalid arrays, or a failed dependency.
    UnsupportedFeatureError
        No atomics strategy is known to order memory between the device's work-groups.
    """
    check_queue(queue)
    several = [] if values is None else [values] if isinstance(values, cl.array.Array) else _listed(values)
    is_one = values is None or isinstance(values, cl.array.Array)
    layout = _layout_of(queue, keys, axis)
    moved = [keys, *several]
    for place, one in enumerate(several):
        name = "values" if is_one else f"values[{place}]"
        if _checked(queue, name, one, layout.order, flat=axis is None) != keys.shape:
            shown = (
                f"{keys.size} keys and {one.size}" if keys.ndim == 1 else f"keys of shape {keys.shape} and {one.shape}"
            )
            raise LaunchError(f"there are {shown} {name}: each key needs one value")
    given = _targets(queue, out, moved, layout.order, allocator, is_one=is_one, has_values=values is not None)
    bits = _Bits.of(keys.dtype, begin_bit, end_bit)
    # Where results go that belong where keys or values are still read.
    made = [
        cl.array.Array(queue, one.shape, one.dtype, layout.order, allocator=one.allocator)
        if any(is_same(one, other) for other in moved)
        else one
        for one in given
    ]
    if axis is None and len(several) <= 1:
        value, value_out = (several[0], made[1]) if several else (None, None)
        args = keys, value, made[0], value_out
        event = _enqueue("portbar.sort", queue, *args, bits, wait_for, descending=descending)
    elif not keys.size:
        event = cl.enqueue_marker(queue, wait_for=None if wait_for is None else events_of("portbar.sort", wait_for))
    else:
        order = _order(queue, keys, layout.lines, bits, wait_for, descending=descending)
        for source, target in zip(moved, made, strict=True):
            event = move(queue, order, layout.lines, source, target)
    for source, target in zip(made, given, strict=True):
        if source is not target:
            event = copied(queue, source, target, event)
    kept: Any = given[0]
    if values is not None:
        kept = (given[0], given[1] if is_one else tuple(given[1:]))
    return (kept, event) if return_event else kept


def argsort(
    queue: cl.CommandQueue,
    keys: cl.array.Array,
    *,
    axis: int | None = None,
    descending: bool = False,
    begin_bit: int = 0,
    end_bit: int | None = None,
    dtype: Any = np.uint32,
    out: cl.array.Array | None = None,
    allocator: Any = None,
    return_event: bool = False,
    wait_for: Iterable[cl.Event] | None = None,
) -> Any:
    """Return the indices that would sort an array. Equal keys keep their order.

    Parameters
    ----------
    queue, keys, axis, descending, begin_bit, end_bit, allocator, return_event, wait_for
        As for `portbar.sort`.
    dtype : dtype, optional
        An integer type of 32 or 64 bits for the indices; without `out`.
    out : pyopencl.array.Array, optional
        Destination: of the keys' shape and an integer type of 32 or 64 bits, in separate memory.

    Returns
    -------
    pyopencl.array.Array
        ``keys[result]`` is sorted, with `axis` as ``numpy.take_along_axis(keys, result, axis)``; the call does not wait. With
        `return_event`, a tuple of that and the event.

    Raises
    ------
    Error, LaunchError, UnsupportedFeatureError
        As for `portbar.sort`.
    """
    check_queue(queue)
    layout = _layout_of(queue, keys, axis)
    length = keys.size
    try:
        kind = np.dtype(dtype if out is None else out.dtype)
    except (AttributeError, TypeError) as error:
        raise LaunchError(f"dtype= is not a type for indices: {error}") from None
    if kind.kind not in "iu" or kind.itemsize not in (4, 8) or not kind.isnative:
        raise LaunchError(f"indices must be integers of 32 or 64 bits in the host's byte order, not {kind}")
    if length - 1 > np.iinfo(kind).max:
        raise LaunchError(f"indices of {length} keys do not fit {kind}: pass dtype=numpy.uint32")
    if out is None:
        out = cl.array.Array(queue, keys.shape, kind, layout.order, allocator=allocator or keys.allocator)
    elif allocator is not None:
        raise LaunchError(_BOTH)
    else:
        _check_out(queue, out, keys.shape, kind, [keys], layout.order)
    bits = _Bits.of(keys.dtype, begin_bit, end_bit)
    if axis is None or not length:
        event = _enqueue("portbar.argsort", queue, keys, None, None, out, bits, wait_for, descending=descending)
    else:
        order = _order(queue, keys, layout.lines, bits, wait_for, descending=descending)
        event = indices(queue, order, layout.lines, out)
    return (out, event) if return_event else out


_BOTH: Final = "pass out= or allocator=, not both: with out= no memory is allocated"


@dataclass(frozen=True)
class _Layout:
    """How keys lie: their lines, and the order of their elements in memory, ``"C"`` or ``"F"``."""

    lines: Lines
    order: str = "C"


def _layout_of(queue: cl.CommandQueue, keys: Any, axis: Any) -> _Layout:
    """How the keys of a call lie, checked."""
    check_array("keys", keys)
    if axis is None:
        _checked(queue, "keys", keys, "C", flat=True)
        return _Layout(Lines(max(1, keys.size)))
    place = checked_axis(axis, keys.ndim)
    order = "F" if keys.flags.f_contiguous and not keys.flags.c_contiguous else "C"
    _checked(queue, "keys", keys, order, flat=False)
    return _Layout(Lines.of(keys.shape, place, order), order)


def _listed(values: Any) -> list[Any]:
    """Several arrays of values."""
    if not isinstance(values, Sequence):
        check_array("values", values)
    return list(values)


def _targets(
    queue: cl.CommandQueue,
    out: Any,
    moved: Sequence[cl.array.Array],
    order: str,
    allocator: Any,
    *,
    is_one: bool,
    has_values: bool,
) -> list[cl.array.Array]:
    """The arrays that results go to, checked."""
    if out is None:
        return [
            cl.array.Array(queue, one.shape, one.dtype, order, allocator=allocator or one.allocator) for one in moved
        ]
    if allocator is not None:
        raise LaunchError(_BOTH)
    given = [out]
    if has_values:
        if not isinstance(out, Sequence) or len(out) != 2:
            raise LaunchError("out= must be a pair: an array for the keys and one for the values")
        given = [out[0], out[1]] if is_one else [out[0], *_listed(out[1])]
        if len(given) != len(moved):
            raise LaunchError(f"out= has {len(given) - 1} arrays for {len(moved) - 1} arrays of values")
    for place, (one, like) in enumerate(zip(given, moved, strict=True)):
        others = [other for other in moved if not (isinstance(one, cl.array.Array) and is_same(one, other))]
        _check_out(queue, one, like.shape, like.dtype, [*others, *given[:place]], order)
    return given


def _order(
    queue: cl.CommandQueue,
    keys: cl.array.Array,
    lines: Lines,
    bits: _Bits,
    wait_for: Iterable[cl.Event] | None,
    *,
    descending: bool,
) -> cl.array.Array:
    """The places of keys, line after line."""
    if wait_for is not None:
        events = events_of("portbar.sort", wait_for)
        events = awaited("portbar.sort", events, {}, hidden=hides_failures(queue.device))
        keys = keys.with_queue(keys.queue)
        keys.events = [*keys.events, *events]

    def by_keys(flat: cl.array.Array) -> cl.array.Array:
        made = cl.array.Array(queue, flat.shape, np.uint32, allocator=keys.allocator)
        _enqueue("portbar.sort", queue, flat, None, None, made, bits, None, descending=descending)
        return made

    def by_lines(numbers: cl.array.Array, order: cl.array.Array, most: int) -> cl.array.Array:
        lines_out, made = (cl.array.Array(queue, order.shape, np.uint32, allocator=keys.allocator) for _ in range(2))
        _enqueue("portbar.sort", queue, numbers, order, lines_out, made, _Bits(0, most), None, descending=False)
        return made

    return order_of(queue, keys, lines, by_keys, by_lines)


@dataclass(frozen=True)
class _Bits:
    """The bits that are sorted by."""

    begin: int
    end: int

    @classmethod
    def of(cls, dtype: np.dtype[Any], begin: Any, end: Any) -> _Bits:
        """The bits of keys of a type, checked."""
        if dtype.kind not in "buif" or dtype.itemsize not in UNSIGNED or not dtype.isnative:
            raise Error(
                f"keys of {dtype} cannot be sorted: keys must be bool, integers or floating-point numbers of 8 to 64 bits, "
                "in the host's byte order"
            )
        width = 8 * dtype.itemsize
        end = width if end is None else end
        for one in (begin, end):
            if isinstance(one, bool) or not isinstance(one, int | np.integer):
                raise Error(f"begin_bit= and end_bit= must be integers, not {one!r}")
        if not 0 <= begin < end <= width:
            raise Error(
                f"keys of {dtype} have bits 0 to {width}: begin_bit={begin} and end_bit={end} select none of them"
            )
        return cls(int(begin), int(end))

    @property
    def digits(self) -> int:
        """Passes."""
        return -(-(self.end - self.begin) // 8)

    def mask(self, digit: int) -> int:
        """The bits of one digit."""
        return (1 << min(8, self.end - self.begin - 8 * digit)) - 1


def _checked(queue: cl.CommandQueue, name: str, array: Any, order: str, *, flat: bool) -> tuple[int, ...]:
    """The shape of an array that may be sorted; `flat` if it must have one dimension."""
    check_array(name, array)
    if flat and len(array.shape) != 1:
        raise LaunchError(
            f"{name} has shape {array.shape}: without axis= portbar sorts one dimension; pass axis=, or {name}.ravel()"
        )
    if order == "C" or not array.flags.f_contiguous:
        check_contiguous(name, array)
    if array.offset % array.dtype.itemsize:
        raise LaunchError(
            f"{name} starts {array.offset} bytes into its buffer, within an element of {array.dtype}: pass {name}.copy()"
        )
    check_memory(name, array, queue.context)
    if array.size > MOST_KEYS:
        raise LaunchError(f"{name} has {array.size} elements; one sort takes at most {MOST_KEYS}")
    shape: tuple[int, ...] = array.shape
    return shape


def _check_out(
    queue: cl.CommandQueue,
    out: Any,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    others: Iterable[cl.array.Array],
    order: str,
) -> None:
    """Check an array that results go to."""
    _checked(queue, "out", out, order, flat=len(shape) == 1)
    if out.shape != shape or out.dtype != dtype:
        raise LaunchError(f"out= must have shape {shape} and type {dtype}; it has {out.shape} and {out.dtype}")
    if order == "F" and not out.flags.f_contiguous:
        raise LaunchError("out= must be in Fortran order, as the keys are")
    check_apart("out=", out, others)


def _shape(profile: DeviceProfile, strategy: Strategy, key_bytes: int, value_bytes: int) -> TileShape:
    if (trial := TRIAL.get()) is not None:
        return trial
    tuned = next((one for one in strategy.tuning.arrays.sort if one.key_bytes == key_bytes), None)
    if tuned is not None and by_warps(profile, strategy):
        return warps_shape(tuned, value_bytes)
    return SHAPES[kind_of(profile)]


def _enqueue(
    caller: str,
    queue: cl.CommandQueue,
    keys: cl.array.Array,
    values: cl.array.Array | None,
    keys_out: cl.array.Array | None,
    values_out: cl.array.Array | None,
    bits: _Bits,
    wait_for: Iterable[cl.Event] | None,
    *,
    descending: bool,
) -> cl.Event:
    """Enqueue a sort; without `keys_out`, of the keys' places."""
    args = keys, values, keys_out, values_out
    names = "keys", "values", "out of keys", "out of values"
    arrays = {name: one for name, one in zip(names, args, strict=True) if one is not None}
    inputs = [one for one in args[:2] if one is not None]
    results = [one for one in args[2:] if one is not None]
    known = None
    if keys.size:
        numbers = values is None and values_out is not None
        value_bytes = 0 if values_out is None else values_out.dtype.itemsize
        known = known_of(
            queue,
            "sort",
            lambda: (*keys.shape, keys.dtype, value_bytes, numbers, bool(descending), bits, TRIAL.get()),
            lambda: _planned(queue, keys, value_bytes, bits, numbers=numbers, descending=bool(descending)),
        )
    return enqueue(caller, queue, known, args, arrays, inputs, results, wait_for)
