"""Plans a kernel's launches: checks the sizes that a caller gives, and decides how many work-groups are launched."""

from __future__ import annotations

import math
import operator
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import pyopencl as cl

from portbar.choices import timing
from portbar.choices.timing import shortened
from portbar.device import quirks
from portbar.device.facts import DeviceFacts, ask
from portbar.errors import LaunchError, UnsupportedFeatureError
from portbar.launching.arguments import check_local_memory, check_queue, own_local_bytes
from portbar.launching.compiled import CompiledKernel, KernelOnDevice
from portbar.launching.launch import LaunchPlan
from portbar.launching.occupancy import Occupancies
from portbar.launching.parameters import CHECKS, GRID, SCAN, KernelParameter, bytes_of
from portbar.launching.state import GridState, QueueState
from portbar.primitives import layout
from portbar.records.plain import amount

Size = tuple[int, ...]


class LaunchShape(NamedTuple):
    """A launch but for its queue and arguments."""

    global_size: Sequence[int] | None
    local_size: Sequence[int] | None
    num_groups: int | None
    #: Most work-groups, where portbar chooses their number; None without a bound.
    most: int | None
    global_offset: Sequence[int] | None = None

    def as_key(self) -> LaunchShape:
        """The same with sizes that a mapping takes as keys."""

        def key(size: Any) -> Any:
            return tuple(size) if isinstance(size, Iterable) else size

        return LaunchShape(key(self[0]), key(self[1]), self.num_groups, self.most, key(self.global_offset))


#: Work-items of a work-group on a GPU, unless the kernel's limit is below.
_USUAL: Final = 256

#: A program that names one of these may hand out work in steps of the whole grid.
_STRIDES: Final = ("portbar_global_size", "portbar_num_groups", "get_global_size", "get_num_groups")


def as_size(what: str, size: Sequence[int]) -> Size:
    """A size that a caller gives, one to three whole numbers above 0."""
    try:
        dims = tuple(int(n) for n in size)
    except (TypeError, ValueError, OverflowError):
        raise LaunchError(f"the {what} must be a tuple of one to three integers, not {size!r}") from None
    if not 1 <= len(dims) <= 3 or any(n < 1 for n in dims) or dims != tuple(size):
        raise LaunchError(f"the {what} must be one to three integers above 0, not {size!r}")
    return dims


def checked_offset(kernel: str, offset: Any, size: Size) -> Size:
    """A global offset that a caller gives, one whole number for each dimension of the global size."""
    try:
        dims = tuple(operator.index(n) for n in offset)
    except TypeError:
        dims = ()
    if len(dims) != len(size) or any(not 0 <= n <= (1 << 64) - one for n, one in zip(dims, size, strict=True)):
        raise LaunchError(
            f"kernel {kernel!r}: global_offset must be {len(size)} integers from 0 on, one per dimension of the global size "
            f"{size}, not {shortened(offset)}"
        )
    return dims


def extent(
    kernel: str, global_size: Any, local_size: Any, *, g_times_l: bool, empty: bool
) -> tuple[tuple[int, ...], bool]:
    """The global size that PyOpenCL's keywords ask for, and whether it is empty: with `g_times_l` it counts work-groups."""
    keyword = "g_times_l" if g_times_l else "allow_empty_ndrange"
    try:
        size = tuple(operator.index(n) for n in global_size)
        local = tuple(operator.index(n) for n in local_size) if g_times_l else ()
    except TypeError:
        more = " and a local size" if g_times_l else ""
        raise LaunchError(
            f"kernel {kernel!r}: {keyword}=True requires a global size{more}, as tuples of integers"
        ) from None
    if g_times_l:
        if len(local) != len(size):
            raise LaunchError(f"kernel {kernel!r}: global size {size} and local size {local} differ in dimensions")
        size = tuple(groups * items for groups, items in zip(size, local, strict=True))
    return size, empty and len(size) <= 3 and min(size, default=1) == 0


def required_size(handle: cl.Kernel, device: cl.Device) -> Size | None:
    """The kernel's `reqd_work_group_size`, None where it has none."""
    query = cl.kernel_work_group_info
    required = tuple(int(n) for n in handle.get_work_group_info(query.COMPILE_WORK_GROUP_SIZE, device))
    return required if any(required) else None


def largest(handle: cl.Kernel, device: cl.Device, facts: DeviceFacts) -> int:
    """Most work-items of a work-group of a kernel."""
    if quirks.has_effect(quirks.UNDERSTATED_WORK_GROUP_SIZE, facts):
        return int(device.max_work_group_size)
    return int(handle.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, device))


def checked_local_size(kernel: CompiledKernel, on: KernelOnDevice, local_size: Sequence[int] | None) -> Size:
    """The local size to use, checked against the kernel's and the device's limits."""
    where = f"kernel {kernel.name!r} on {on.label[1]}"
    handle, device = on.handle, on.device
    required = required_size(handle, device)
    if local_size is None:
        if required is None:
            what = "grid" if kernel.hidden is GRID else "scan" if kernel.hidden is SCAN else "gang reduction"
            raise LaunchError(
                f"{where}: a {what} needs a local size, such as (256,) or kernel.suggested_local_size(queue)"
            )
        return required
    local = as_size("local size", local_size)
    if required is not None and local + (1,) * (3 - len(local)) != required:
        raise LaunchError(f"{where}: local size {local} does not match its reqd_work_group_size {required}")
    most = largest(handle, device, on.profile.facts)
    if math.prod(local) > most:
        raise LaunchError(
            f"{where}: local size {local} is {math.prod(local)} work-items, above the kernel's limit of {most}"
        )
    for axis, (asked, limit) in enumerate(zip(local, device.max_work_item_sizes, strict=False)):
        if asked > limit:
            raise LaunchError(f"{where}: local size {local} is {asked} in dimension {axis}, above the limit of {limit}")
    return local


def exchanged_with(facts: DeviceFacts, size: Size, local: Size | None) -> int:
    """The dimension that a launch exchanges with its first one, 0 for none; drivers that choose the local size may choose 1."""
    if not quirks.has_effect(quirks.FIRST_ITEM_TWICE, facts) or (local is not None and local[0] > 1):
        return 0
    shape = local or size
    return shape.index(max(shape))


def exchange(size: Size, other: int) -> Size:
    """A size with dimension `other` and the first one exchanged."""
    return size if other == 0 else (size[other], *size[1:other], size[0], *size[other + 1 :])


def counted(kernel: str, what: str, given: Any, least: int = 1) -> int:
    """A number of work-groups or of items that a caller gives for a kernel, a whole number of at least `least`."""
    try:
        asked = operator.index(given)
    except TypeError:
        raise LaunchError(f"kernel {kernel!r}: {what} must be an integer, not {shortened(given)}") from None
    if asked < least:
        raise LaunchError(f"kernel {kernel!r}: {what} must be at least {least}, not {shortened(asked)}")
    return asked


def explicit_groups(kernel: str, shape: LaunchShape, local: Size) -> int | None:
    """Work-groups that the caller asks for, None for as many as fit."""
    if shape.num_groups is not None:
        if shape.global_size is not None:
            raise LaunchError(f"kernel {kernel!r}: pass a global size or num_groups, not both")
        return shape.num_groups
    if shape.global_size is None:
        return None
    size = as_size("global size", shape.global_size)
    if len(size) != len(local) or any(g % n for g, n in zip(size, local, strict=False)):
        raise LaunchError(
            f"kernel {kernel!r}: global size {size} must be a multiple of the local size {local} in each dimension"
        )
    groups = math.prod(size) // math.prod(local)
    if groups > layout.MAX_LAUNCHED_GROUPS:
        raise LaunchError(
            f"kernel {kernel!r}: {groups} work-groups in one launch exceed the limit of {layout.MAX_LAUNCHED_GROUPS}"
        )
    return groups


def most_groups(
    kernel: CompiledKernel,
    queue: cl.CommandQueue,
    global_size: Sequence[int] | None,
    local_size: Sequence[int] | None,
    num_groups: int | None,
    max_groups: Any,
    items: Any,
) -> int:
    """Most work-groups of a launch, by the caller's `max_groups` and `items`.

    At least as many as the program requires; 0 without items.
    """
    name, least = kernel.name, kernel.program.least_groups
    if kernel.hidden is not GRID:
        what = "items" if max_groups is None else "max_groups"
        raise LaunchError(f"kernel {name!r} has no grid: {what} requires a kernel that takes PORTBAR_GRID_PARAM")
    if local_size is None:
        check_queue(queue)
        local = checked_local_size(kernel, kernel.on(queue), None)
    else:
        local = as_size("local size", local_size)
    fixed = "a global size" if global_size is not None else "num_groups" if num_groups is not None else ""
    for what, given in (("max_groups", max_groups), ("items", items)):
        if given is not None and fixed:
            raise LaunchError(
                f"kernel {name!r}: pass {fixed} or {what}, not both: {what} applies only when portbar chooses the number of "
                "work-groups"
            )
    most = layout.MAX_LAUNCHED_GROUPS
    if max_groups is not None:
        most = min(most, counted(name, "max_groups", max_groups))
        if most < least:
            raise LaunchError(
                f"kernel {name!r}: max_groups is {most}, but its program requires groups>={least}: pass at least that"
            )
    if items is not None:
        items = counted(name, "items", items, 0)
        most = min(most, max(least, -(-items // math.prod(local)))) if items else 0
    return most


def check_least(kernel: str, device: str, least: int, local: Size, bound: int, asked: int | None) -> None:
    """Check a launch against the work-groups that its program requires (`groups>=N`)."""
    if bound < least:
        raise UnsupportedFeatureError(
            f"kernel {kernel!r}: its program requires groups>={least}, but {device} runs at most {amount(bound, 'work-group')} "
            f"of {local} concurrently. Use a smaller local size, less local memory, or a device with more compute units"
        )
    if asked is not None and asked < least:
        raise LaunchError(
            f"kernel {kernel!r}: a launch of {amount(asked, 'work-group')} was requested, but its program requires "
            f"groups>={least}: launch at least that many"
        )


def element_bytes(parameters: Iterable[KernelParameter] | None) -> int:
    """Bytes of the smallest element that a kernel's writable pointers lead to; 4 if the driver does not report them."""
    written = [parameter for parameter in parameters or () if parameter.access == "writable"]
    found = [bytes_of(parameter.type_name.removesuffix("*").rstrip()) for parameter in written]
    return min(filter(None, found), default=4)


def suits_cpu(
    source: str, parameters: Iterable[KernelParameter] | None, cache_line: int, options: tuple[str, ...] = ()
) -> int:
    """The local size for a device whose work-groups are threads of the host.

    Such a thread runs the work-items one after the other between two barriers, so that one of them is enough. Where the
    program may hand out elements in turns to all work-items of the grid, a work-group takes as many neighbours as fill a
    line of the cache: with fewer, several threads write to each line; with more, the loop over work-items costs more.
    A line has 64 bytes if the driver does not report it (0).
    """
    from portbar.reading.words import may_use  # noqa: PLC0415 (many launches state their local size)

    if not any(may_use(name, source, options) for name in _STRIDES):
        return 1
    return max(1, (cache_line or 64) // element_bytes(parameters))


def suggested(kernel: CompiledKernel, device: cl.Device, scratch: int | None) -> Size:
    """The local size that suits a kernel; `scratch` is the limit of its reductions' local memory, None where it has none."""
    handle, profile, use = kernel.handle(device), kernel.program.profile(device), kernel.program.reduction_use
    required = required_size(handle, device)
    if required is not None:
        return required
    if scratch is not None and use is not None and use.exact:
        return (scratch,)
    limit = largest(handle, device, profile.facts)
    limit = min(limit, scratch or limit)
    # Where loops end early, more work-items leave each fewer turns.
    if profile.units.sized_by_cache:
        line = ask(device, "GLOBAL_MEM_CACHELINE_SIZE")
        program, line = kernel.program, line if isinstance(line, int) else 0
        wanted = suits_cpu(program.source, kernel.parameters, line, program.options)
        return (min(limit, wanted),)
    try:
        query: Any = cl.kernel_work_group_info.PREFERRED_WORK_GROUP_SIZE_MULTIPLE
        multiple = int(handle.get_work_group_info(query, device))
    except cl.Error:
        multiple = 0
    return (suits_gpu(limit, multiple),)


def suits_gpu(limit: int, multiple: int) -> int:
    """The local size for other devices: 256 work-items or the kernel's limit, of whole sub-groups where one fits.

    `multiple` is the preferred work-group size multiple, such as a warp; 0 if the driver does not report it.
    """
    multiple = max(1, multiple)
    return min(limit, max(multiple, min(limit, _USUAL) // multiple * multiple))


def groups_of(kernel: str, size: tuple[int, ...], local: tuple[int, ...]) -> int:
    """Work-groups of a launch, whose sizes must have as many dimensions."""
    if len(local) != len(size):
        raise LaunchError(f"kernel {kernel!r}: global size {size} and local size {local} differ in dimensions")
    return math.prod(-(-whole // part) for whole, part in zip(size, local, strict=True))


class Planner:
    """Plans the launches of one kernel."""

    def __init__(self, kernel: CompiledKernel, occupancies: Occupancies) -> None:
        self._kernel, self._program = kernel, kernel.program
        self._occupancies = occupancies

    def plan(
        self, queue: cl.CommandQueue, shape: LaunchShape, local_memory: tuple[int, ...], args: Sequence[Any]
    ) -> LaunchPlan:
        """Plan a launch; `local_memory` are the sizes of its arguments in local memory."""
        on = self._kernel.on(queue)
        if local_memory:
            check_local_memory(self._kernel, on.device, local_memory)
        hidden = self._kernel.hidden
        if shape.global_offset is not None and hidden not in (None, CHECKS):
            raise LaunchError(
                f"kernel {self._kernel.name!r} takes {hidden.macros[0]}, and global_offset= is for kernels without "
                "hidden parameters: pass the offset as an argument of its own"
            )
        if hidden is GRID:
            return self._plan_grid(queue, on, shape, local_memory, args)
        return self._plan_without_grid(queue, on, shape, args)

    def _plan_without_grid(
        self, queue: cl.CommandQueue, on: KernelOnDevice, shape: LaunchShape, args: Sequence[Any]
    ) -> LaunchPlan:
        kernel, program, device = self._kernel, self._program, queue.device
        if shape.global_size is None or shape.num_groups is not None:
            raise LaunchError(
                f"kernel {kernel.name!r} has no grid, so portbar cannot choose the number of work-groups: pass a global "
                "size, or make PORTBAR_GRID_PARAM its first parameter"
            )
        counts = kernel.hidden not in (None, CHECKS)
        chosen_by_driver = shape.local_size is None and not counts
        local = None if chosen_by_driver else checked_local_size(kernel, on, shape.local_size)
        size = as_size("global size", shape.global_size)
        offset = None if shape.global_offset is None else checked_offset(kernel.name, shape.global_offset, size)
        self._check_reductions(device, local, size)
        groups = groups_of(kernel.name, size, local) if local is not None else 0
        if kernel.hidden is SCAN and local is not None:
            from portbar.launching.partials import check_sizes  # noqa: PLC0415 (few kernels need it)

            used = [one.name for one in program.scans if kernel.may_declare(f"{one.name}_scan", f"{one.name}_scan")]
            check_sizes(kernel.name, program.scans, size, local, used)
        other = exchanged_with(on.profile.facts, size, local)
        if other and "barrier(" not in program.rendered(device):
            # Statements are executed twice only where work-items meet.
            other = 0
        handle, local = kernel.handle(device, args=args, other=other), local and exchange(local, other)
        return LaunchPlan(
            queue,
            handle,
            on.label,
            kernel.hidden,
            None if kernel.hidden is None else self._state_maker(device),
            exchange(size, other),
            local,
            groups,
            global_offset=offset and exchange(offset, other),
        )

    def _state_maker(self, device: cl.Device) -> Callable[..., QueueState]:
        """Makes the state of a kernel with hidden words, but without a grid."""
        from portbar.launching import partials  # noqa: PLC0415 (the same)

        program = self._program
        if self._kernel.hidden is SCAN:
            return partial(partials.ScanState, scans=program.scans)
        limit = timing.limit_rounds(program.profile(device), program.spin_limit)
        return partial(partials.GangState, loops=program.reductions, limit=limit)

    def _plan_grid(
        self,
        queue: cl.CommandQueue,
        on: KernelOnDevice,
        shape: LaunchShape,
        local_memory: tuple[int, ...],
        args: Sequence[Any],
    ) -> LaunchPlan:
        kernel, program, device = self._kernel, self._program, queue.device
        strategy, label = on.strategy, on.label
        local = checked_local_size(kernel, on, shape.local_size)
        self._check_reductions(device, local, None)
        groups = explicit_groups(kernel.name, shape, local)
        asked = shape.most if groups is None else groups
        bound = self._occupancies.occupancy(queue, strategy, local, local_memory, args).groups
        tuned = strategy.for_groups(bound if asked is None else min(asked, bound), math.prod(local))
        if tuned is not strategy:
            # Another algorithm is another binary, which may hold another number of groups.
            bound = self._occupancies.occupancy(queue, tuned, local, local_memory, args).groups
        if bound < program.least_groups:
            bound = self._occupancies.occupancy(queue, tuned, local, local_memory, args, again=True).groups
        check_least(kernel.name, label[1], program.least_groups, local, bound, groups)
        if shape.num_groups is not None and shape.num_groups > bound:
            raise LaunchError(
                f"kernel {kernel.name!r}: {shape.num_groups} work-groups of {local} were requested, but {label[1]} runs at "
                f"most {bound} concurrently; a barrier between more would never complete"
            )
        global_size = shape.global_size
        if groups is None or strategy.max_groups is not None:
            # Where waiting is unsafe, a surplus group must not even be started.
            groups, global_size = bound if shape.most is None else min(shape.most, bound), None
        if global_size is None:
            global_size = (groups * local[0], *local[1:])
        profile, size = on.profile, tuple(map(int, global_size))
        other = exchanged_with(profile.facts, size, local)
        patience, resident = timing.patience_rounds(profile), min(groups, bound)
        splits = quirks.has_effect(quirks.QUEUES_SPLIT_THREADS, profile.facts)
        return LaunchPlan(
            queue,
            kernel.handle(device, tuned, args, other),
            label,
            kernel.hidden,
            partial(GridState, own=program.states.layout, tracing=strategy.tracing),
            exchange(size, other),
            exchange(local, other),
            groups,
            memoryview(array("I", (0, resident, patience, timing.limit_rounds(profile, program.spin_limit, resident)))),
            patience=(patience, timing.rounds(profile, timing.PATIENCE_SHARED)) if splits else None,
            lasting=all(self._occupancies.is_settled(device, s, local, local_memory) for s in {strategy, tuned}),
        )

    def scratch_limit(self, device: cl.Device) -> int | None:
        """Most work-items that the scratch memory of the kernel's reductions is for; None where it has none."""
        program, use = self._program, self._program.reduction_use
        if use is None:
            return None
        # If a driver reports no local memory, the source says so: the effect LOCAL_MEMORY_UNREPORTED.
        reports = own_local_bytes(self._kernel.handle(device), device) > 0
        if not reports and not self._kernel.may_declare("portbar_scratch", "PORTBAR_REDUCTION_SCRATCH"):
            return None
        from portbar.primitives.reduction.header import local_size_limit  # noqa: PLC0415 (the same)

        return local_size_limit(program.strategy(device), use)

    def _check_reductions(self, device: cl.Device, local: Size | None, size: Size | None) -> None:
        """Check that work-groups have as many work-items as the scratch memory of their reductions is for."""
        use, limit, name = self._program.reduction_use, self.scratch_limit(device), self._kernel.name
        if use is None or limit is None:
            return
        if local is not None and math.prod(local) > limit:
            raise LaunchError(
                f"kernel {name!r}: local size {local} is {math.prod(local)} work-items, but its reductions have local memory "
                f"for {limit}: #define PORTBAR_REDUCTION_LOCAL_SIZE {math.prod(local)} before "
                '#include "portbar/reduction.h"'
            )
        whole = local is not None and (size is None or not any(g % n for g, n in zip(size, local, strict=False)))
        if use.exact and not (whole and math.prod(local or ()) == limit):
            raise LaunchError(
                f"kernel {name!r}: PORTBAR_REDUCTION_EXACT in its source promises {limit} work-items in every work-group, but "
                f"this launch has local size {local} and global size {size or 'whole groups'}: launch whole groups of that "
                "size, or remove PORTBAR_REDUCTION_EXACT"
            )
        if use.whole_groups and not whole:
            raise LaunchError(
                f"kernel {name!r}: its program distributes work over the sub-groups of all work-groups, which requires "
                f"work-groups of equal size: global size {size}, local size {local}. Pass a global size that is a multiple of "
                "the local size, or distribute work at level gang_worker_vector"
            )
