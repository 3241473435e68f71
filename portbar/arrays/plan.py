"""Plans of `portbar.reduce`: for one request on one queue, the compiled kernel, its sizes and the arguments that stay.

Not for what users ask for (`portbar.arrays.reduce`) nor for the text of kernels (`portbar.arrays.source`).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final, Protocol

import numpy as np
import pyopencl as cl

from portbar.arrays.shape import (
    FIXED_ITEMS,
    Layout,
    Shape,
    cut,
    fixed_layout,
    fixed_part,
    kind_of,
    layout_of,
    shape_for,
)
from portbar.arrays.source import Job, Output, is_native_atomic, most_elements
from portbar.choices.profile import describe
from portbar.choices.strategy import DeviceProfile, choose
from portbar.errors import BuildError, UnsupportedFeatureError
from portbar.launching.build import build_options, compile_program
from portbar.launching.order import Order
from portbar.primitives.headers import resolve_includes
from portbar.primitives.reduction.code import extensions_for
from portbar.primitives.reduction.types import Indexed, Type, scalars_in
from portbar.primitives.strategy import Strategy

#: Rows that a CPU's thread takes one after another, and elements of rows that some work-items of a group share elsewhere.
_ROWS_A_UNIT: Final = 4
_NARROW_LOADS: Final = 8

#: Most bytes of a value that work-groups leave with tags.
_TAGGED_BYTES: Final = 64

#: Launches after which words of tiles are cleared; each holds an epoch and one more bit.
MOST_EPOCHS: Final = (1 << 31) - 1

_MOST_PROGRAMS: Final = 512
_MOST_STATES: Final = 64

#: Work-items of a group that goes through columns.
_COLUMN_ITEMS: Final = 64


@dataclass(frozen=True)
class Request:
    """The request of one call, without the arrays' contents.

    Attributes
    ----------
    arrays : tuple of (str, Type)
    outputs : tuple of Output
    rows, columns : int
        `columns` elements are reduced in each of `rows` rows.
    along : {"columns", "rows"}
        Whether the elements of a row are neighbours in memory, or elements of the same index in all rows are reduced.
    offsets : tuple of int
        Bytes from the start of each array's buffer, of which only the alignment matters.
    deterministic, fixed : bool
    shape : Shape or None
        Overrides the table.
    groups : int or None
        Overrides how many work-groups share a row.
    """

    arrays: tuple[tuple[str, Type], ...]
    outputs: tuple[Output, ...]
    rows: int
    columns: int
    along: str
    offsets: tuple[int, ...]
    deterministic: bool = True
    fixed: bool = False
    shape: Shape | None = None
    groups: int | None = None


class State:
    """Memory that the launches on one queue share: counters, which each launch leaves at zero, and what groups found.

    Launches never overlap: `order` sees to it.
    """

    def __init__(self, queue: cl.CommandQueue) -> None:
        self.queue = queue
        # A queue may not keep its context alive: the effect CONTEXTS_LOST.
        self.context = queue.context
        self.lock = threading.RLock()
        self.order = Order(queue)
        self._buffers: dict[str, cl.Buffer] = {}
        self._epoch = 0
        #: Sorts so far: each counts in the other half of its memory.
        self.sorts = 0
        self._tile_words: list[cl.Buffer] = []

    def cleared(self, name: str, size: int) -> cl.Buffer:
        """A buffer of at least `size` bytes that held zeros when it was made."""
        found = self._buffers.get(name)
        if found is None or found.size < size:
            zeros = np.zeros(max(256, 1 << max(0, size - 1).bit_length()), np.uint8)
            flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
            found = self._buffers[name] = cl.Buffer(self.context, flags, hostbuf=zeros)
        return found

    def room(self, name: str, size: int) -> cl.Buffer:
        """A buffer of at least `size` bytes that may hold anything."""
        found = self._buffers.get(name)
        if found is None or found.size < size:
            found = self._buffers[name] = cl.Buffer(self.context, cl.mem_flags.READ_WRITE, max(256, size))
        return found

    def tile_words(self, count: int, name: str = "tile words") -> cl.Buffer:
        """At least this many words of tiles, each of which holds the epoch of a launch, or 0."""
        words = self.cleared(name, 4 * count)
        if words not in self._tile_words:
            self._tile_words.append(words)
        return words

    def next_epoch(self) -> int:
        """A number from 1 on that no words of tiles hold: they are cleared when numbers begin again."""
        with self.lock:
            if self._epoch == MOST_EPOCHS:
                zero = np.zeros(1, np.uint32)
                for words in self._tile_words:
                    before = self.order.after(None)
                    cleared = cl.enqueue_fill_buffer(self.queue, words, zero, 0, words.size, before)
                    self.order.add(cleared, None)
                self._epoch = 0
            self._epoch += 1
            return self._epoch


#: Held while anything is made: a queue has one state only.
_lock = threading.RLock()
_kept_state = lru_cache(maxsize=_MOST_STATES)(State)
_kept_program = lru_cache(maxsize=_MOST_PROGRAMS)(compile_program)


def state_of(queue: cl.CommandQueue) -> State:
    """The state of a queue."""
    with _lock:
        return _kept_state(queue)


class Source(Protocol):
    """The parts of a program: its text, and the caller's expressions in it."""

    @property
    def kernel(self) -> str:
        """The kernel's name."""

    @property
    def extensions(self) -> tuple[str, ...]:
        """Extensions that it needs."""

    @property
    def typedefs(self) -> list[str]:
        """Types that the caller's expressions use."""

    def expressions(self) -> Iterable[tuple[str, str, str]]:
        """Return the caller's expressions, as `Job.expressions`."""

    def text(self, strategy: Strategy) -> str:
        """The program's OpenCL C."""


@dataclass
class Plan:
    """A kernel with the sizes and arguments of one request on one queue.

    Attributes
    ----------
    kernel : pyopencl.Kernel
        Used by this plan alone. Its first arguments are, for each array, buffer and offset; then for each output buffer, offset
        and, where asked for, the initial value. The others stay.
    global_size, local_size : tuple of int
    state : State
    job : Source
    """

    kernel: cl.Kernel
    program: cl.Program
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None
    state: State
    job: Source
    held: tuple[Any, ...]
    last: dict[int, int | bytes] = field(default_factory=dict)
    #: Places of arguments in shared virtual memory.
    pointers: tuple[int, ...] = ()

    def launch(self, args: Sequence[Any], wait_for: list[cl.Event] | None) -> cl.Event:
        """Enqueue the kernel with the arguments that change."""
        state = self.state
        with state.lock:
            pointers = tuple([place for place, value in enumerate(args) if isinstance(value, cl.SVMPointer)])
            if pointers != self.pointers:
                # A kernel may take no buffer where such a pointer has been: the effect POINTERS_STAY.
                self.kernel, self.last, self.pointers = _kernel(self.program, self.job.kernel, self.held), {}, pointers
            kernel, last = self.kernel, self.last
            for place, value in enumerate(args):
                # Numbers cost ten times what buffers do.
                if isinstance(value, int | bytes):
                    if last.get(place) != value:
                        kernel.set_arg(place, np.uint64(value) if isinstance(value, int) else value)
                        last[place] = value
                else:
                    kernel.set_arg(place, value)
            before = state.order.after(wait_for)
            event = cl.enqueue_nd_range_kernel(state.queue, kernel, self.global_size, self.local_size, None, before)
            state.order.add(event, wait_for)
        return event


def _layout(request: Request, shape: Shape, *, vectors: bool) -> Layout:
    size = max(kind.size for _, kind in request.arrays)
    most = min(most_elements(kind) for _, kind in request.arrays) if vectors else 1
    if any(out.is_ordered for out in request.outputs):
        return Layout(replace(shape, loads=1, sets=1, strided=False), 1)
    return fixed_layout(shape, size, most=most) if request.fixed else layout_of(shape, size, most=most)


def _heads(request: Request, layout: Layout) -> int | None:
    """Elements before the first that all arrays' loads are aligned at; None where there is none."""
    heads = set()
    for (_, kind), offset in zip(request.arrays, request.offsets, strict=True):
        width = layout.vector * kind.size
        if layout.vector > 1 and width & width - 1:
            return None
        heads.add(-offset % width // kind.size)
    return heads.pop() if len(heads) == 1 else None


def check_types(device: cl.Device, profile: DeviceProfile, kinds: Sequence[Type]) -> tuple[str, ...]:
    """The extensions that types need.

    Raises
    ------
    UnsupportedFeatureError
        The device does not compute with one of them.
    """
    names = {scalar.c for kind in kinds for scalar in scalars_in(kind)}
    for name, has in (("double", profile.facts.fp64), ("half", profile.facts.fp16)):
        if name in names and not has:
            raise UnsupportedFeatureError(
                f"{device.name.strip()} does not support {name}; convert the array to float32, or use another device"
            )
    return extensions_for(kinds)


def _fit(shape: Shape, request: Request, profile: DeviceProfile, *, shuffles: bool) -> Shape:
    """The shape with no more work-items than the device and its local memory allow."""
    local = min(shape.local, profile.facts.max_work_group_size or shape.local)
    if request.fixed and request.shape is None:
        local = min(local, FIXED_ITEMS)
    local = 1 << max(0, local.bit_length() - 1)
    bytes_each = _item_bytes(request.outputs)
    memory = (profile.facts.local_mem_size or 32768) // 2
    while local > 1 and local * bytes_each // (32 if shuffles else 1) > memory:
        local //= 2
    return shape if local == shape.local else replace(shape, local=local)


def make_plan(queue: cl.CommandQueue, request: Request) -> Plan:
    """Choose kernel and sizes for a request, and compile the kernel unless it was compiled before.

    Raises
    ------
    BuildError
        An expression does not compile; the message shows it.
    UnsupportedFeatureError
        The device cannot do it.
    """
    device = queue.device
    profile = describe(device)
    strategy = choose(profile)
    kinds = [*(kind for _, kind in request.arrays), *(out.kind for out in request.outputs)]
    extensions = check_types(device, profile, kinds)
    on_cpu = kind_of(profile) != "gpu"
    shape = request.shape or shape_for(profile, request.rows * request.columns)
    shape = _fit(shape, request, profile, shuffles=strategy.capabilities.compute_capability >= 70)
    if shape.local == 1 and any(isinstance(out.kind, Indexed) for out in request.outputs):
        # Their branches are not made into vectors, so that more of them only take longer to compile.
        shape = replace(shape, loads=1, sets=1)
    if request.along == "rows":
        return _by_columns(queue, request, profile, strategy, shape, extensions)

    layout, loads = _loads(request, shape, on_cpu=on_cpu)
    job = Job(
        request.arrays,
        request.outputs,
        layout,
        team=shape.local,
        aligned=loads.aligned,
        peels=loads.peels,
        fixed=request.fixed,
        shuffles=strategy.capabilities.compute_capability >= 70 and shape.local % 32 == 0,
        extensions=extensions,
    )
    if not request.fixed and profile.loop_limit is None and request.groups is None:
        team = _team(layout, request.columns, request.rows, device.max_compute_units, on_cpu=on_cpu)
        if team is not None:
            return _by_teams(
                queue, request, strategy, replace(job, form="teams", team=team, peels=False), on_cpu=on_cpu
            )
    return _by_groups(queue, request, profile, strategy, job, loads.head)


@dataclass(frozen=True)
class _Loads:
    """Whether loads are aligned, and after how many elements."""

    aligned: bool = False
    peels: bool = False
    head: int = 0


def _loads(request: Request, shape: Shape, *, on_cpu: bool) -> tuple[Layout, _Loads]:
    """The layout, with vectors where those of a device that wants them aligned are."""
    layout = _layout(request, shape, vectors=True)
    # CPUs load from any address.
    if on_cpu or layout.vector == 1:
        return layout, _Loads()
    head, rows, columns = _heads(request, layout), request.rows, request.columns
    if head == 0 and (rows == 1 or columns % layout.vector == 0):
        return layout, _Loads(aligned=True)
    if request.fixed:
        return layout, _Loads()
    if head is not None and rows == 1:
        return layout, _Loads(aligned=True, peels=True, head=min(head, columns))
    return _layout(request, shape, vectors=False), _Loads()


def _by_teams(queue: cl.CommandQueue, request: Request, strategy: Strategy, job: Job, *, on_cpu: bool) -> Plan:
    """Rows that share work-groups."""
    local, rows = job.local, request.rows
    teams = local // job.team
    most = job.layout.shape.per_unit * queue.device.max_compute_units * teams
    each = max(1, -(-rows // most)) if on_cpu else 1
    groups = -(-rows // (teams * each))
    kept = (np.uint64(request.columns), np.uint64(rows), np.uint64(each))
    return plan_of(queue, strategy, job, (groups * local,), (local,), kept)


def _by_groups(
    queue: cl.CommandQueue, request: Request, profile: DeviceProfile, strategy: Strategy, job: Job, head: int
) -> Plan:
    """Work-groups that share rows."""
    device, layout, rows, columns = queue.device, job.layout, request.rows, request.columns
    limit = profile.loop_limit
    if not request.deterministic and not request.fixed:
        job = replace(job, atomic=all(is_native_atomic(out, strategy) for out in request.outputs))
    if request.fixed:
        part = fixed_part(columns, max(kind.size for _, kind in request.arrays))
        groups = max(1, -(-columns // part))
        if limit is not None and part // (layout.vector * job.local) + 2 * layout.shape.sets + groups > limit:
            raise UnsupportedFeatureError(
                f"{device.name.strip()} ends loops after {limit} iterations, too few for a reproducible sum of {columns} "
                "elements; reduce parts of the array, or use another device"
            )
    elif request.groups is not None:
        groups = request.groups
        part = -(-max(1, columns) // (groups * layout.tile)) * layout.tile
    else:
        dealt = cut(layout, columns, rows, device.max_compute_units, limit)
        groups, part = dealt.groups, dealt.part
    job = replace(
        job,
        tagged=job.shuffles
        and rows == 1
        and groups > 1
        and not job.atomic
        and _item_bytes(job.wanted) <= _TAGGED_BYTES,
    )
    found, counters, cells = _rooms(state_of(queue), job, rows, groups)
    kept = (np.uint64(columns), np.uint64(part), np.uint32(groups), np.uint32(head), found, counters)
    return plan_of(
        queue, strategy, job, (rows * groups * job.local,), (job.local,), (*kept, cells) if job.atomic else kept
    )


def _team(layout: Layout, columns: int, rows: int, units: int, *, on_cpu: bool) -> int | None:
    """Work-items that share a row where there are more rows than work-groups should be; None where groups share rows."""
    if on_cpu:
        return 1 if layout.shape.local == 1 and rows >= _ROWS_A_UNIT * units else None
    team = 1 << max(0, columns // (layout.vector * _NARROW_LOADS)).bit_length()
    most = min(32, layout.shape.local)
    if team > most or rows < units * (layout.shape.local // most):
        return None
    return team


def _item_bytes(outputs: Sequence[Output]) -> int:
    """An upper bound of the size of `portbar_item`."""
    return sum(-(-out.kind.size // 16) * 16 for out in outputs)


def _rooms(state: State, job: Job, rows: int, groups: int) -> tuple[cl.Buffer, cl.Buffer, cl.Buffer]:
    cells = state.cleared("cells", 8 * rows * len(job.wanted) if job.atomic else 8)
    if job.tagged:
        # The tag of the last launch, then words with tags. Nothing else may ever be in this memory, or it might look like one.
        found = state.cleared("tagged", 8 * (1 + _item_bytes(job.wanted) // 4 * groups))
    else:
        found = state.cleared("found", _item_bytes(job.wanted) * rows * groups)
    return found, state.cleared("counters", 4 * max(1, rows)), cells


def _by_columns(
    queue: cl.CommandQueue,
    request: Request,
    profile: DeviceProfile,
    strategy: Strategy,
    shape: Shape,
    extensions: tuple[str, ...],
) -> Plan:
    """A reduction along the first axis: the elements of one result lie a row apart."""
    rows, columns = request.rows, request.columns
    local = min(_COLUMN_ITEMS, shape.local) if shape.local > 1 else 1
    layout = Layout(replace(shape, local=local, loads=1, sets=1, strided=False), 1)
    job = Job(
        request.arrays, request.outputs, layout, form="columns", team=local, fixed=request.fixed, extensions=extensions
    )
    tiles = -(-columns // local)
    units, limit = queue.device.max_compute_units, profile.loop_limit
    groups = max(1, min(-(-shape.per_unit * units * 4 // tiles), rows // 64))
    if request.fixed:
        groups = max(1, min(64, rows // 256))
    if limit is not None and rows // groups > limit // 2:
        if request.fixed:
            raise UnsupportedFeatureError(
                f"{queue.device.name.strip()} ends loops after {limit} iterations, too few for reproducible sums of {rows} "
                "rows; reduce parts of the array, or use another device"
            )
        groups = -(-rows // (limit // 2))
    part = -(-max(1, rows) // groups)
    groups = max(1, -(-rows // part))
    state = state_of(queue)
    found, counters, _ = _rooms(state, job, max(columns, tiles), groups)
    kept = (np.uint64(rows), np.uint64(columns), np.uint64(part), found, counters)
    return plan_of(queue, strategy, job, (tiles * local, groups), (local, 1), kept)


def plan_of(
    queue: cl.CommandQueue,
    strategy: Strategy,
    job: Source,
    global_size: tuple[int, ...],
    local_size: tuple[int, ...] | None,
    kept: tuple[Any, ...],
) -> Plan:
    """Compile a kernel, unless it was compiled before, and give it its last arguments.

    Raises
    ------
    BuildError
        An expression does not compile; the message shows it.
    """
    program = _program(queue, strategy, job)
    return Plan(_kernel(program, job.kernel, kept), program, global_size, local_size, state_of(queue), job, kept)


def _kernel(program: cl.Program, name: str, kept: tuple[Any, ...]) -> cl.Kernel:
    """A kernel with its last arguments, which stay."""
    kernel = cl.Kernel(program, name)
    for place, value in enumerate(kept, start=kernel.num_args - len(kept)):
        kernel.set_arg(place, value)
    return kernel


def _program(queue: cl.CommandQueue, strategy: Strategy, job: Source) -> cl.Program:
    text = resolve_includes(job.text(strategy), strategy, name=f"{job.kernel}.cl")
    context, device = queue.context, queue.device
    try:
        with _lock:
            return _kept_program(context, device, text, build_options(strategy, ()))
    except BuildError as error:
        raise _explained(context, device, strategy, job, error) from error


def _explained(
    context: cl.Context, device: cl.Device, strategy: Strategy, job: Source, error: BuildError
) -> BuildError:
    """The error of the expression that does not compile, or the one given where all of them do."""
    head = "\n".join([*(f"#pragma OPENCL EXTENSION {name} : enable" for name in job.extensions), *job.typedefs, ""])
    for what, expression, text in job.expressions():
        try:
            compile_program(context, device, head + text, build_options(strategy, ()))
        except BuildError as refused:
            # The place may come after the word: the effect LOGS_REWRITTEN.
            found = re.search(r"error: (?:\S+:\d+:\d+: )?(.*)", refused.log)
            cause = found[1].strip() if found else "the driver gave no reason"
            return BuildError(
                f"{what}, {expression!r}, does not compile on {device.name.strip()}: {cause}",
                device=refused.device,
                options=refused.options,
                log=refused.log,
                source_path=refused.source_path,
            )
    return error
