"""`scan`: the prefix sums of a PyOpenCL array, in one launch that reads each element once from memory.

The place of PyOpenCL's `GenericScanKernel`. Work-groups take tiles in the order in which they start, and each looks back at
what the tiles before amount to (Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", 2016). A
value that is missing after some polls is computed by the group that needs it (Smith, Levien and Owens,
"Decoupled Fallback", SPAA 2025): no group ever waits for another to run, and a device that runs one work-group at a time
computes correct results, too.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyopencl as cl
import pyopencl.array

from portbar.arrays.call import Known, enqueue, remember
from portbar.arrays.elements import Elements
from portbar.arrays.plan import check_types, plan_of, state_of
from portbar.arrays.request import (
    Returned,
    array_types,
    check_bounds,
    checked_arrays,
    input_arguments,
    looks_around,
    outputs_of,
    result_arrays,
    start_values,
)
from portbar.arrays.segments import flags_of, lines_of
from portbar.arrays.shape import Layout, Shape, kind_of, layout_of
from portbar.arrays.source import Input, Job, Lanes, Output, most_elements
from portbar.arrays.statement import Statement, check_targets, statement_of, wants_last
from portbar.choices.profile import describe
from portbar.choices.strategy import DeviceProfile, choose
from portbar.device import quirks
from portbar.device.facts import DeviceFacts
from portbar.errors import Error, LaunchError
from portbar.launching.arguments import check_queue
from portbar.primitives.pieces import Piece
from portbar.primitives.reduction.operators import Operator
from portbar.primitives.reduction.types import Scalar, Type
from portbar.primitives.scan.look_back import LookBack
from portbar.primitives.strategy import Strategy


@dataclass(frozen=True)
class Tile:
    """How one work-group goes through its tile.

    Attributes
    ----------
    local : int
        Work-items of a work-group.
    runs : int
        Runs that a work-item of a group of one goes through side by side; 1 in larger groups.
    length : int
        Elements of a run.
    polls : int
        Looks at a tile before, until it is computed here.
    load_bytes : int
        Bytes that a work-item loads at once, where values are plain numbers.
    warps : bool
        Whether lanes of NVIDIA's warps work together.
    """

    local: int
    runs: int
    length: int
    polls: int
    load_bytes: int = 1
    warps: bool = False


#: Runs that begin 4 KiB apart would share one set of the cache.
_CPU: Final = Tile(local=1, runs=4, length=1024 + 32, polls=256, load_bytes=64)
#: Kind of device -> tile.
TILES: Final = {
    "cpu": _CPU,
    "narrow": replace(_CPU, load_bytes=32),
    "limited": Tile(local=1, runs=1, length=1024, polls=4),
    "gpu": Tile(local=256, runs=1, length=16, polls=16),
}
#: On NVIDIA's GPUs, for values of up to 16 bytes: 22 rows of a warp's loads, which fill 44 KiB, as measured on an H200.
WARPS: Final = Tile(local=128, runs=1, length=22, polls=2, warps=True)
_WARPS_BYTES: Final = 16


@dataclass(frozen=True)
class ScanJob(Job):
    """The text of one scan's kernel."""

    cut: Tile = TILES["cpu"]
    exclusive: bool = False
    #: Whether there is an array of results.
    writes: bool = True
    statement: Statement | None = None
    #: The user's expression that replaces the map, and its name in messages.
    said: tuple[str, str] | tuple[()] = ()
    #: How segments are given: "" (there is one), the type of flags, or "lines" of an axis.
    segments: str = ""
    #: Whether the elements of a line are neighbours.
    near: bool = True
    #: Whether indices take 64 bits.
    wide: bool = False
    #: Whether functions that return structures may be inlined.
    inlines: bool = True

    kernel = "portbar_scan"
    words = ("word_load", "word_load_acquire", "word_store", "word_store_release", "word_add_relaxed")

    @cached_property
    def outputs(self) -> tuple[Lanes, ...]:
        """The scan's values, which are more than the result's where the kernel needs to know more."""
        names, segments = self.array_names, self.segments
        return (Elements(0, self.wanted[0], self.inputs, self.layout, loops=False, arguments=names, segments=segments),)

    @property
    def result(self) -> str:
        """The type of the scan's values."""
        return self.wanted[0].kind.c

    @property
    def looks_around(self) -> bool:
        """Whether what an element contributes depends on others."""
        return looks_around(self.wanted[0].map, tuple(name for name, _ in self.arrays))

    @property
    def is_plain(self) -> bool:
        """Whether all that is done with a value is to store it."""
        return self.statement is None and not self.segments

    @property
    def targets(self) -> tuple[Input, ...]:
        """The arrays that the output statement writes to."""
        return self.statement.targets if self.statement else ()

    @property
    def wants_last(self) -> bool:
        """Whether the output statement needs the scan's last value."""
        return self.statement is not None and self.statement.wants_last

    @property
    def output_arguments(self) -> str:
        """The arrays of the output statement as arguments."""
        return ", ".join(
            [*(f"x{array.place}" for array in self.inputs), *(f"y{array.place}" for array in self.targets)]
        )

    @property
    def typedefs(self) -> list[str]:
        """Structures that the kernel's types are made of, inner ones first."""
        arrays = self.arrays + (self.statement.arrays if self.statement else ())
        found = Job(arrays, self.wanted, self.layout).typedefs
        pair = f"typedef struct {{ {self.result} value; uint starts; }} portbar_pair;"
        return [*found, pair] if self.segments else found

    def expressions(self) -> Iterator[tuple[str, str, str]]:
        """Return the expressions of users."""
        for what, expression, text in super().expressions():
            yield (*self.said, text) if self.said and what.startswith("the map") else (what, expression, text)
        if self.statement is not None and not self.said:
            parameters = self.statement.parameters(self.inputs, self.result)
            head = f"static inline void portbar_output({parameters})\n{{\n"
            end = "\n}\nkernel void portbar_nothing(global int *unused) { }\n"
            yield "the output statement", self.statement.text, f"{head}{self.statement.text}{end}"

    @property
    def rows(self) -> int:
        """Loads of a lane of `warps`."""
        return self.cut.length // self.quad

    @property
    def quad(self) -> int:
        """Elements of such a load."""
        return quad_of(self.wanted[0].kind) if self.cut.warps and not self.segments else 1

    @property
    def loads_quads(self) -> bool:
        """Whether the array is loaded so."""
        kind = self.inputs[0].kind
        return len(self.inputs) == 1 and isinstance(kind, Scalar) and not self.looks_around

    @property
    def look(self) -> int:
        """Blocks of 32 tiles that a warp looks at together."""
        return 2

    @property
    def word_type(self) -> str:
        """The state of a tile."""
        return "ulong" if self.cut.warps else "uint"

    @property
    def tile(self) -> int:
        """Elements of a tile."""
        return self.cut.local * self.cut.runs * self.cut.length

    @property
    def space(self) -> str:
        """Where a group keeps what the tiles before its own amount to."""
        return "" if self.local == 1 else "local "

    @property
    def array_names(self) -> str:
        """Return the arrays as arguments, with those that define segments."""
        extra = {"": [], "lines": ["columns", "inner"]}.get(self.segments, ["segments"])
        return ", ".join([*(f"x{array.place}" for array in self.inputs), *extra])

    @property
    def index(self) -> str:
        """The type of indices that are divided."""
        return "ulong" if self.wide else "uint"

    @property
    def distances(self) -> list[int]:
        """Distances over which the values of a group, or the numbers of a vector, are combined."""
        return [1 << step for step in range((max(self.local, self.vector) - 1).bit_length())]

    def loaded(self, at: str) -> str:
        """The elements of one load, as the result's type."""
        array, out = self.inputs[0], self.outputs[0]
        value = array.load(f"x0 + {at}")
        return value if array.kind == out.output.kind else f"convert_{out.lane_type}({value})"

    def shifted(self, vector: str, before: Sequence[str]) -> str:
        """Return a vector shifted by one, with the value before its first number."""
        moved = [f"{vector}.s{number:x}" for number in range(self.vector - len(before))]
        return f"({self.outputs[0].lane_type})({', '.join([*before, *moved])})"

    @property
    def last_component(self) -> str:
        """The name of a vector's last number."""
        return f"s{self.vector - 1:x}"

    def text(self, strategy: Strategy) -> str:
        """The kernel's OpenCL C."""
        text = super().text(strategy)
        if not self.inlines:
            text = re.sub(
                r"static inline (__attribute__\(\(always_inline\)\) )?", "static __attribute__((noinline)) ", text
            )
        return text

    @property
    def pieces(self) -> list[Piece]:
        """Return the names that the text uses, after the words."""
        if self.cut.warps:
            return [*super().pieces[:3], ("scan/host.mako", "elements"), ("scan/warps.mako", "warps")]
        form = "items" if self.local == 1 else "groups"
        return [*super().pieces[:3], *(("scan/host.mako", name) for name in ("elements", "look_back", form))]

    @property
    def by(self) -> LookBack:
        """Return the names that look-back uses."""
        return LookBack("portbar", "portbar_item", "portbar_join", self.space, f"{self.cut.polls}u")


_plans: OrderedDict[Any, Known] = OrderedDict()
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
    output: str | None = None,
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
        OpenCL C expression for the contribution of each element: of ``x`` (or ``x[i]``), its index ``i``, a long, and other
        elements such as ``x[i - 1]``, which must exist.
    initial : scalar, optional
        A start value, combined with every result from the left.
    out : pyopencl.array.Array, optional
        Destination: contiguous, of the array's shape and the result's type, and not the array itself.
    dtype : dtype, optional
        The result's type, in which values are combined. By default as for `portbar.reduce`.
    output : str, optional
        OpenCL C statements that run once per element, in any order, like the output statement of PyOpenCL's
        `GenericScanKernel`: with ``i``, the number of elements ``N``, the inclusive scan's value ``item``, the one before it
        ``prev_item`` (`initial` or the neutral element at index 0) and the last one ``last_item``, and with the arrays and
        those of `outputs` as pointers. A statement that uses ``last_item`` costs a second launch. The call then returns no
        array of results, unless `out` is given.
    outputs : mapping of str to pyopencl.array.Array, optional
        The arrays that `output` writes to, by name: contiguous, of any shape. The places that a statement writes to are not
        checked.
    segments : pyopencl.array.Array, optional
        Flags of the array's shape, bool or integers: a nonzero flag starts a segment, and earlier elements do not count. A
        result, `prev_item` and `initial` are those of the element's segment; there is no ``last_item``.
    offsets : pyopencl.array.Array, optional
        Instead of flags, the index of each segment's first element: integers, of one dimension. Offsets outside the array are
        ignored, and equal ones start one segment: row pointers of a sparse matrix work. Two more commands make flags from them.
    axis : int, optional
        The axis whose lines are segments. The last axis is the fastest, because the elements of its lines are adjacent.
    return_event : bool, optional
    wait_for : list of pyopencl.Event, optional

    Returns
    -------
    pyopencl.array.Array
        Of the array's shape; the call does not wait. With `output` and without `out`, a dict of `outputs` instead. With
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
    more = More(bool(exclusive), output, outputs, segments=segments, axis=axis)
    return scanned(queue, array, op, map, initial, out, dtype, more, return_event=return_event, wait_for=wait_for)


@dataclass(frozen=True)
class More:
    """The options of a scan besides the elements and the operator; as for `scan`.

    Attributes
    ----------
    said : tuple of str
        What the user gave instead of the map: how it is called in messages, and its text.
    trusted : bool
        Whether names of outputs may be portbar's own.
    """

    exclusive: bool = False
    output: str | None = None
    outputs: Mapping[str, cl.array.Array] | None = None
    said: tuple[str, str] | tuple[()] = ()
    trusted: bool = False
    segments: cl.array.Array | None = None
    axis: int | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """All that a plan depends on."""
        kinds = None
        if self.outputs is not None:
            kinds = tuple(
                [(name, one.dtype, one.strides, one.offset % one.dtype.itemsize) for name, one in self.outputs.items()]
            )
        flags = self.segments
        lines = (
            None if flags is None else (flags.dtype, flags.shape, flags.strides, flags.offset % flags.dtype.itemsize)
        )
        return self.exclusive, self.output, kinds, self.said, lines, self.axis


def scanned(
    queue: cl.CommandQueue,
    array: cl.array.Array | Mapping[str, cl.array.Array],
    op: Any,
    mapped: Any,
    initial: Any,
    out: cl.array.Array | None,
    dtype: Any,
    more: More,
    *,
    return_event: bool,
    wait_for: Iterable[cl.Event] | None,
) -> Any:
    """Do what `scan` describes."""
    inputs: tuple[cl.array.Array, ...] = tuple(array.values()) if isinstance(array, Mapping) else (array,)
    key: Any = None
    try:
        key = (
            queue.int_ptr,
            tuple([(one.dtype, one.shape, one.strides, one.offset % one.dtype.itemsize) for one in inputs]),
            tuple(array) if isinstance(array, Mapping) else None,
            op,
            mapped,
            initial is None,
            out is None,
            dtype,
            more.key,
            TRIAL.get(),
        )
        known = _plans.get(key)
    except (TypeError, AttributeError, ZeroDivisionError):
        # An argument is not an array, or cannot be looked up; the checks below report it.
        key, known = None, None
    writes = more.output is None or out is not None
    if known is None:
        known = _known(queue, array, op, mapped, initial, dtype, more, writes=writes)
        if key is not None:
            remember(_plans, key, known)

    arrays = dict(array) if isinstance(array, Mapping) else {"x": array}
    if more.segments is not None:
        arrays["segments"] = more.segments
        inputs = (*inputs, more.segments)
    args = input_arguments(inputs, queue.context)
    results = result_arrays(queue, inputs, known.returned, out) if writes else []
    [start] = start_values(known.returned, initial)
    targets = dict(more.outputs or {})
    check_targets(queue, inputs, targets, out)
    arrays |= {f"outputs[{name!r}]": one for name, one in targets.items()}
    args += [part for one in targets.values() for part in (one.base_data, one.offset // one.dtype.itemsize)]
    if known.plan is not None and more.output is not None and wants_last(more.output):
        last = cl.array.Array(queue, (1,), known.returned.dtypes[0], allocator=inputs[0].allocator)
        final = More(output="if (i + 1 == N) portbar_last[0] = item;", outputs={"portbar_last": last}, trusted=True)
        scanned(queue, array, op, mapped, initial, None, dtype, final, return_event=False, wait_for=wait_for)
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


def quad_of(kind: Type) -> int:
    """Numbers of one load of 16 bytes, and at most 4."""
    return min(4, 16 // kind.size) if isinstance(kind, Scalar) else 1


def _cut(profile: DeviceProfile, strategy: Strategy, kind: Type, size: int, *, segments: bool) -> Tile:
    """The tile for values of `size` bytes."""
    if (trial := TRIAL.get()) is not None:
        return trial
    if kind_of(profile) == "gpu" and strategy.capabilities.compute_capability >= 70 and size <= _WARPS_BYTES:
        return WARPS if segments else replace(WARPS, length=WARPS.length * quad_of(kind))
    return fitted(TILES[kind_of(profile)], size, profile.facts)


def _layout(cut: Tile, kinds: Sequence[tuple[str, Type]], out: Output) -> Layout:
    """One element at a time, or vectors where a CPU's compiler need not find them."""
    shape = Shape(local=cut.local, load_bytes=cut.load_bytes, loads=1, sets=1, per_unit=1)
    layout = layout_of(shape, max(kinds[0][1].size, out.kind.size), most=most_elements(kinds[0][1]))
    is_plain = Lanes(0, out, (Input(0, *kinds[0]),), layout, loops=False).vectors
    return layout if is_plain else replace(layout, vector=1)


def _known(
    queue: cl.CommandQueue,
    array: Any,
    op: Any,
    mapped: Any,
    initial: Any,
    dtype: Any,
    more: More,
    *,
    writes: bool,
) -> Known:
    """Check a request, and make its plan."""
    check_queue(queue)
    arrays = checked_arrays(array)
    names = tuple(arrays)
    first = next(iter(arrays.values()))
    wanted = outputs_of(names, first.dtype, op, mapped, None, initial, dtype, neighbours=True)
    kinds = array_types(arrays)
    statement = statement_of(names, more.output, more.outputs, trusted=more.trusted)
    if statement:
        # A structure that is in one array can be stored in another.
        same = {kind.dtype: kind for kind in (wanted[0].kind, *(kind for _, kind in reversed(kinds)))}
        statement = replace(
            statement, arrays=tuple((name, same.get(kind.dtype, kind)) for name, kind in statement.arrays)
        )
    if more.exclusive and not writes:
        raise Error(
            "exclusive= applies to the array of results, and output= replaces that array: use prev_item in output="
        )
    for name, one in arrays.items():
        if one.size and not one.flags.c_contiguous:
            raise LaunchError(f"array {name!r} of shape {one.shape} has strides {one.strides}: scan {name}.copy()")
        check_bounds("the array", one)
    lines = lines_of(first.shape, more.segments, more.axis)
    returned = Returned(first.shape, (wanted[0].kind.dtype,))
    if not first.size:
        return Known(None, returned)
    device = queue.device
    profile = describe(device)
    strategy = choose(profile)
    size, unit = wanted[0].kind.size, max(4, wanted[0].kind.alignment)
    if lines.given:
        size = -(-(size + 4) // unit) * unit
    cut = _cut(profile, strategy, wanted[0].kind, size, segments=bool(lines.given))
    every = [*(kind for _, kind in (*kinds, *(statement.arrays if statement else ()))), wanted[0].kind]
    job = ScanJob(
        kinds,
        wanted,
        _layout(cut, kinds, wanted[0]),
        extensions=check_types(device, profile, every),
        cut=cut,
        exclusive=more.exclusive,
        writes=writes,
        statement=statement,
        said=more.said,
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
    state = state_of(queue)
    item = -(-size // 16) * 16
    extents = [np.uint64(n) if job.wide else np.uint32(n) for n in (lines.columns, lines.inner)]
    kept = (
        np.uint64(first.size),
        *(extents if job.segments == "lines" else ()),
        state.cleared("ticket", 4),
        *(
            (state.tile_words(2 * (item // 4) * (tiles + tiles // 32 + 1), "scan words"), state.cleared("tiles", 16))
            if cut.warps
            else (state.tile_words(tiles), state.cleared("tiles", 2 * item * tiles))
        ),
    )
    plan = plan_of(queue, strategy, job, (tiles * cut.local,), (cut.local,), kept)
    return Known(plan, returned)
