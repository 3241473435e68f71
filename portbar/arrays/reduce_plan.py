"""Plans of `portbar.reduce`: which kernel computes a request, and by how many work-groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyopencl as cl

from portbar.arrays.plan import Memory, Plan, check_types, choices_for, plan_of
from portbar.arrays.shape import (
    FIXED_ITEMS,
    Shape,
    SizedShape,
    by_warps,
    cut,
    fixed_layout,
    fixed_part,
    kind_of,
    layout_of,
    shape_for,
)
from portbar.arrays.source import Output, ReductionJob, most_elements
from portbar.backends.profile import DeviceProfile
from portbar.errors import UnsupportedFeatureError
from portbar.primitives.reduction.operators import BuiltIn
from portbar.primitives.reduction.types import Indexed, Scalar, Struct, Type
from portbar.primitives.strategy import Strategy
from portbar.records.dataclass import dataclass

#: Rows that a CPU's thread takes one after another, and elements of rows that some work-items of a group share elsewhere.
_ROWS_A_UNIT: Final = 4
_NARROW_LOADS: Final = 8

#: Most bytes of a value that work-groups leave with tags.
_TAGGED_BYTES: Final = 64

#: Work-items of a group that goes through columns.
_COLUMN_ITEMS: Final = 64
#: Bytes of sums that a CPU's thread holds on its way through the rows: a part of its first cache, and several lines.
_STRIP_BYTES: Final = 4096


@dataclass(frozen=True)
class ReductionRequest:
    """The request of one call, without the arrays' contents."""

    arrays: tuple[tuple[str, Type], ...]
    outputs: tuple[Output, ...]
    #: `columns` elements are reduced in each of `rows` rows.
    rows: int
    columns: int
    #: "columns": the elements of a row are neighbours in memory; "rows": those of the same index in all rows are reduced.
    along: str
    #: Bytes from the start of each array's buffer, of which only the alignment matters.
    offsets: tuple[int, ...]
    deterministic: bool = True
    fixed: bool = False
    #: Overrides the table.
    shape: Shape | None = None
    #: Overrides how many work-groups share a row.
    groups: int | None = None


def _layout(request: ReductionRequest, shape: Shape, *, vectors: bool) -> SizedShape:
    """The layout for the widest element."""
    size = max(kind.size for _, kind in request.arrays)
    most = min(most_elements(kind) for _, kind in request.arrays) if vectors else 1
    if not all(out.op.commutative for out in request.outputs):
        return SizedShape(replace(shape, loads=1, sets=1, strided=False), 1)
    return fixed_layout(shape, size, most=most) if request.fixed else layout_of(shape, size, most=most)


def _heads(request: ReductionRequest, layout: SizedShape) -> int | None:
    """Elements before the first that all arrays' loads are aligned at; None where there is none."""
    heads = set()
    for (_, kind), offset in zip(request.arrays, request.offsets, strict=True):
        width = layout.vector * kind.size
        if layout.vector > 1 and width & width - 1:
            return None
        heads.add(-offset % width // kind.size)
    return heads.pop() if len(heads) == 1 else None


def _fit(request: ReductionRequest, profile: DeviceProfile, strategy: Strategy, *, shuffles: bool) -> Shape:
    """The shape of the table or of the request, with no more work-items than the device and its local memory allow."""
    shape = request.shape or shape_for(profile, strategy, request.rows * request.columns)
    local = min(shape.local, profile.facts.max_work_group_size or shape.local)
    if request.fixed and request.shape is None:
        local = min(local, FIXED_ITEMS)
    local = 1 << max(0, local.bit_length() - 1)
    bytes_each = _item_bytes(request.outputs)
    memory = (profile.facts.local_mem_size or 32768) // 2
    while local > 1 and local * bytes_each // (32 if shuffles else 1) > memory:
        local //= 2
    return shape if local == shape.local else replace(shape, local=local)


def make_plan(queue: cl.CommandQueue, request: ReductionRequest) -> Plan:
    """Choose kernel and sizes for a request, and compile the kernel unless it was compiled before."""
    device = queue.device
    profile, strategy = choices_for(queue)
    kinds = [*(kind for _, kind in request.arrays), *(out.kind for out in request.outputs)]
    extensions = check_types(device, profile, kinds)
    on_cpu, warps = kind_of(profile) != "gpu", by_warps(profile, strategy)
    shape = _fit(request, profile, strategy, shuffles=warps)
    if shape.local == 1 and any(isinstance(out.kind, Indexed) for out in request.outputs):
        # Their branches are not made into vectors, so that more of them only take longer to compile.
        shape = replace(shape, loads=1, sets=1)
    if request.along == "rows":
        return _by_columns(queue, request, profile, strategy, shape, extensions)

    layout, head = _loads(request, shape, on_cpu=on_cpu)
    job = ReductionJob(
        request.arrays,
        request.outputs,
        layout,
        team=shape.local,
        aligned=head is not None,
        peels=bool(head),
        fixed=request.fixed,
        shuffles=warps and shape.local % 32 == 0,
        extensions=extensions,
    )
    if not request.fixed and profile.loop_limit is None and request.groups is None and not head:
        team = _team(layout, request.columns, request.rows, device.max_compute_units, on_cpu=on_cpu)
        if team is not None:
            return _by_teams(queue, request, strategy, replace(job, form="teams", team=team), on_cpu=on_cpu)
    return _by_groups(queue, request, profile, strategy, job, head or 0)


def _loads(request: ReductionRequest, shape: Shape, *, on_cpu: bool) -> tuple[SizedShape, int | None]:
    """The layout, and after how many elements its loads are aligned, or None."""
    layout = _layout(request, shape, vectors=True)
    # CPUs load from any address.
    if on_cpu or layout.vector == 1:
        return layout, None
    head, rows, columns = _heads(request, layout), request.rows, request.columns
    if head == 0 and (rows == 1 or columns % layout.vector == 0):
        return layout, 0
    if request.fixed:
        return layout, None
    if head is not None and rows == 1:
        return layout, min(head, columns)
    return _layout(request, shape, vectors=False), None


def _by_teams(
    queue: cl.CommandQueue, request: ReductionRequest, strategy: Strategy, job: ReductionJob, *, on_cpu: bool
) -> Plan:
    """Rows that share work-groups."""
    local, rows = job.local, request.rows
    teams = local // job.team
    most = job.layout.shape.per_unit * queue.device.max_compute_units * teams
    each = max(1, -(-rows // most)) if on_cpu else 1
    groups = -(-rows // (teams * each))
    kept = [np.uint64(request.columns), np.uint64(rows), np.uint64(each)]
    return plan_of(queue, strategy, job, (groups * local,), (local,), kept)


def _by_groups(
    queue: cl.CommandQueue,
    request: ReductionRequest,
    profile: DeviceProfile,
    strategy: Strategy,
    job: ReductionJob,
    head: int,
) -> Plan:
    """Work-groups that share rows."""
    device, layout, rows, columns = queue.device, job.layout, request.rows, request.columns
    limit = profile.loop_limit
    if not request.deterministic and not request.fixed:
        job = replace(job, atomic=all(_is_native_atomic(out, strategy) for out in request.outputs))
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
        groups, part = cut(layout, columns, rows, device.max_compute_units, limit)
    one_of_many = job.shuffles and rows == 1 and groups > 1 and not job.atomic
    job = replace(job, tagged=one_of_many and _item_bytes(job.wanted) <= _TAGGED_BYTES)
    kept = [np.uint64(columns), np.uint64(part), np.uint32(groups), np.uint32(head), *_rooms(job, rows, groups)]
    return plan_of(queue, strategy, job, (rows * groups * job.local,), (job.local,), kept)


def _team(layout: SizedShape, columns: int, rows: int, units: int, *, on_cpu: bool) -> int | None:
    """Work-items that share a row where there are more rows than work-groups should be; None where groups share rows."""
    if on_cpu:
        return 1 if layout.shape.local == 1 and rows >= _ROWS_A_UNIT * units else None
    team = 1 << max(0, columns // (layout.vector * _NARROW_LOADS)).bit_length()
    most = min(32, layout.shape.local)
    if team > most or rows < units * (layout.shape.local // most):
        return None
    return team


def _item_size(outputs: Sequence[Output]) -> int:
    """The size of `portbar_item`."""
    return Struct("portbar_item", tuple((out.name, out.kind) for out in outputs)).size


def _item_bytes(outputs: Sequence[Output]) -> int:
    """The size of `portbar_item`, rounded up to a multiple of 16."""
    return -(-_item_size(outputs) // 16) * 16


def _rooms(job: ReductionJob, rows: int, groups: int) -> list[Memory]:
    """The memory that a job's work-groups share."""
    if groups == 1:
        # It leaves nothing to others.
        rows = 1
    if job.tagged:
        # The tag of the last launch, then words with tags. Nothing else may ever be in this memory, or it might look like one.
        found = Memory("tagged", 8 * (1 + _item_bytes(job.wanted) // 4 * groups))
    else:
        found = Memory("found", _item_bytes(job.wanted) * rows * groups)
    rooms = [found, Memory("counters", 4 * max(1, rows))]
    return [*rooms, Memory("cells", 8 * rows * len(job.wanted))] if job.atomic else rooms


def _by_columns(
    queue: cl.CommandQueue,
    request: ReductionRequest,
    profile: DeviceProfile,
    strategy: Strategy,
    shape: Shape,
    extensions: tuple[str, ...],
) -> Plan:
    """A reduction along the first axis: the elements of one result lie a row apart."""
    rows, columns = request.rows, request.columns
    local = min(_COLUMN_ITEMS, shape.local) if shape.local > 1 else 1
    strip = _strip(request, profile) if local == 1 else 1
    widest = max(kind.size for _, kind in request.arrays)
    vector = layout_of(shape, widest, most=strip).vector if strip > 1 else 1
    layout = SizedShape(replace(shape, local=local, loads=1, sets=1, strided=False), vector)
    job = ReductionJob(
        request.arrays,
        request.outputs,
        layout,
        form="strips" if strip > 1 else "columns",
        strip=strip,
        team=local,
        fixed=request.fixed,
        extensions=extensions,
    )
    tiles = -(-columns // (local * strip))
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
    kept = [np.uint64(rows), np.uint64(columns), np.uint64(part), *_rooms(job, max(columns, tiles), groups)]
    return plan_of(queue, strategy, job, (tiles * local, groups), (local, 1), kept)


def _strip(request: ReductionRequest, profile: DeviceProfile) -> int:
    """Neighbouring columns that a work-item takes at once: a power of two, 1 where memory does not matter."""
    if kind_of(profile) == "limited":
        return 1
    most = max(1, _STRIP_BYTES // _item_size(request.outputs))
    return 1 << min(max(1, request.columns - 1).bit_length(), most.bit_length() - 1)


def _is_native_atomic(output: Output, strategy: Strategy) -> bool:
    """Whether the device has one atomic operation for an output, in global memory."""
    op, kind = output.op, output.kind
    # Memory that was cleared once holds values of operators whose neutral element is a word of zeros.
    zeros = isinstance(op, BuiltIn) and op.atomic and op.neutral_value == "0"
    if not zeros or not isinstance(kind, Scalar) or kind.bits < 32:
        return False
    table = strategy.capabilities.atomics_table
    if kind.kind == "float":
        return (kind.c, "global") in table.native_add
    return kind.c in table.types
