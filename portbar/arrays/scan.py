"""`scan`: the prefix sums of a PyOpenCL array, in one launch that reads each element once from memory.

The place of PyOpenCL's `GenericScanKernel`. Work-groups take tiles in the order in which they start, and each looks back at
what the tiles before amount to (Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", 2016). What
is not there after some polls is computed by the group that needs it (Smith, Levien and Owens, "Decoupled Fallback", SPAA 2025):
no group ever waits for another to run, and a device that runs one work-group at a time is right, too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from portbar.arrays.call import Known, enqueue, remember
from portbar.arrays.plan import check_types, plan_of, state_of
from portbar.arrays.request import (
    Returned,
    array_types,
    check_queue,
    checked_arrays,
    input_arguments,
    outputs_of,
    result_arrays,
    start_values,
)
from portbar.arrays.shape import Layout, Shape, kind_of, layout_of
from portbar.arrays.source import Input, Job, Lanes, Output, most_elements
from portbar.choices.profile import describe
from portbar.choices.strategy import choose
from portbar.errors import LaunchError
from portbar.primitives.header import Piece
from portbar.primitives.reduction.operators import Operator
from portbar.primitives.reduction.types import Type

if TYPE_CHECKING:
    import pyopencl as cl
    import pyopencl.array


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
    """

    local: int
    runs: int
    length: int
    polls: int
    load_bytes: int = 1


#: Kind of device -> tile.
TILES: Final = {
    # Runs that begin 4 KiB apart would share one set of the cache.
    "cpu": Tile(local=1, runs=4, length=1024 + 32, polls=256, load_bytes=64),
    "limited": Tile(local=1, runs=1, length=1024, polls=4),
    "gpu": Tile(local=256, runs=1, length=16, polls=16),
}


@dataclass(frozen=True)
class ScanJob(Job):
    """The text of one scan's kernel."""

    cut: Tile = TILES["cpu"]
    exclusive: bool = False

    kernel = "portbar_scan"
    words = ("word_load", "word_load_acquire", "word_store", "word_store_release", "word_add")

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
        """The arrays as arguments."""
        return ", ".join(f"x{array.place}" for array in self.inputs)

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
        """A vector moved up, with what comes before its first number."""
        moved = [f"{vector}.s{number:x}" for number in range(self.vector - len(before))]
        return f"({self.outputs[0].lane_type})({', '.join([*before, *moved])})"

    @property
    def last_component(self) -> str:
        """The name of a vector's last number."""
        return f"s{self.vector - 1:x}"

    @property
    def pieces(self) -> list[Piece]:
        """What the text is made of, behind the words."""
        form = "items" if self.local == 1 else "groups"
        return [*super().pieces[:3], *(("scan/host.mako", name) for name in ("look_back", form))]


_plans: OrderedDict[Any, Known] = OrderedDict()
#: What tests and measurements put in place of the table.
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
    return_event: bool = False,
    wait_for: Iterable[cl.Event] | None = None,
) -> Any:
    """Scan an array on its device, in one launch: each element becomes what all up to it amount to.

    Parameters
    ----------
    queue : pyopencl.CommandQueue
    array : pyopencl.array.Array or mapping of str to Array
        Contiguous, of any shape and any type that `portbar.Reduction` takes, or of bool; scanned in the order of memory. It
        is called ``x`` in `map`. With a mapping, arrays of one shape, called by its names.
    op : str or Operator
        As for `portbar.reduce`. An operator need not commute.
    exclusive : bool, optional
        Whether an element itself does not count: the first result is `initial`, or the operator's neutral element.
    map : str, optional
        OpenCL C expression of what each element contributes: of ``x`` (or ``x[i]``) and its index ``i``, a long.
    initial : scalar, optional
        What is combined with every result, from the left.
    out : pyopencl.array.Array, optional
        Where results go: contiguous, of the array's shape and the result's type, and not the array itself.
    dtype : dtype, optional
        The result's type, in which values are combined. By default as for `portbar.reduce`.
    return_event : bool, optional
    wait_for : list of pyopencl.Event, optional

    Returns
    -------
    pyopencl.array.Array
        Of the array's shape; nothing has been waited for. With `return_event`, a tuple of that and the event. Floats have the
        same bits in each run on a device: they depend neither on timing nor on which work-group computes what.

    Raises
    ------
    Error
        An operator, type, name or expression that cannot be, before anything is enqueued.
    LaunchError
        Arrays that cannot be, or something to wait for that has failed.
    BuildError
        An expression does not compile; the message shows it.
    UnsupportedFeatureError
        The device lacks the type, or no way is known to order memory between its work-groups.
    """
    inputs: tuple[cl.array.Array, ...] = tuple(array.values()) if isinstance(array, Mapping) else (array,)
    key: Any = None
    try:
        key = (
            queue.int_ptr,
            tuple([(one.dtype, one.shape, one.strides, one.offset % one.dtype.itemsize) for one in inputs]),
            tuple(array) if isinstance(array, Mapping) else None,
            op,
            bool(exclusive),
            map,
            initial is None,
            dtype,
            TRIAL.get(),
        )
        known = _plans.get(key)
    except (TypeError, AttributeError):
        # Something is no array, or cannot be looked up; what is wrong is told below.
        key, known = None, None
    if known is None:
        known = _known(queue, array, op, map, initial, dtype, exclusive=exclusive)
        if key is not None:
            remember(_plans, key, known)

    arrays = dict(array) if isinstance(array, Mapping) else {"x": array}
    args = input_arguments(inputs, queue.context)
    [result] = result_arrays(queue, inputs, known.returned, out)
    [start] = start_values(known.returned, initial)
    if out is not None:
        arrays["out"] = result
    args += (result.base_data, result.offset // result.dtype.itemsize, *([] if start is None else [start]))
    if known.plan is not None:
        args.append(np.uint32(known.plan.state.next_epoch()).tobytes())
    event = enqueue("portbar.scan", queue, known.plan, args, arrays, inputs, [result], wait_for)
    return (result, event) if return_event else result


def _layout(cut: Tile, kinds: Sequence[tuple[str, Type]], out: Output) -> Layout:
    """One element at a time, or vectors where a CPU's compiler need not find them."""
    shape = Shape(local=cut.local, load_bytes=cut.load_bytes, loads=1, sets=1, per_unit=1)
    layout = layout_of(shape, max(kinds[0][1].size, out.kind.size), most=most_elements(kinds[0][1]))
    is_plain = Lanes(0, out, (Input(0, *kinds[0]),), layout, loops=False).vectors
    return layout if is_plain else replace(layout, vector=1)


def _known(
    queue: cl.CommandQueue, array: Any, op: Any, mapped: Any, initial: Any, dtype: Any, *, exclusive: bool
) -> Known:
    """Check a request, and make its plan."""
    check_queue(queue)
    arrays = checked_arrays(array)
    names = tuple(arrays)
    first = next(iter(arrays.values()))
    wanted = outputs_of(names, first.dtype, op, mapped, None, initial, dtype)
    kinds = array_types(arrays)
    for name, one in arrays.items():
        if one.size and not one.flags.c_contiguous:
            raise LaunchError(f"array {name!r} of shape {one.shape} has strides {one.strides}: scan {name}.copy()")
    returned = Returned(first.shape, (wanted[0].kind.dtype,))
    if not first.size:
        return Known(None, returned)
    device = queue.device
    profile = describe(device)
    strategy = choose(profile)
    cut = TRIAL.get() or TILES[kind_of(profile)]
    job = ScanJob(
        kinds,
        wanted,
        _layout(cut, kinds, wanted[0]),
        extensions=check_types(device, profile, [*(kind for _, kind in kinds), wanted[0].kind]),
        cut=cut,
        exclusive=bool(exclusive),
    )
    tiles = -(-first.size // job.tile)
    state = state_of(queue)
    item = -(-wanted[0].kind.size // 16) * 16
    kept = (
        np.uint64(first.size),
        state.cleared("ticket", 4),
        state.tile_words(tiles),
        state.cleared("tiles", 2 * item * tiles),
    )
    plan = plan_of(queue, strategy, job, (tiles * cut.local,), (cut.local,), kept)
    return Known(plan, returned)
