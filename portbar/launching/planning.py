"""Plans a kernel's launches: checks the sizes that a caller gives, and decides how many work-groups are launched."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from portbar.choices import timing
from portbar.device import quirks
from portbar.errors import LaunchError
from portbar.launching import gangs, scans
from portbar.launching.arguments import check_context, check_local_memory, own_local_bytes
from portbar.launching.compiled import CompiledKernel
from portbar.launching.occupancy import Occupancies
from portbar.launching.parameters import GRID, SCAN
from portbar.launching.plan import Plan
from portbar.launching.sizes import (
    Shape,
    Size,
    as_size,
    check_least,
    checked_local_size,
    exchange,
    exchanged_with,
    explicit_groups,
)
from portbar.primitives.reduction.header import local_size_limit
from portbar.rendering.source import kernel_text, mentions


class Planner:
    """Plans the launches of one kernel."""

    def __init__(self, kernel: CompiledKernel, occupancies: Occupancies) -> None:
        self._kernel, self._program = kernel, kernel.program
        self._occupancies = occupancies

    def plan(self, queue: cl.CommandQueue, shape: Shape, local_memory: tuple[int, ...], args: Sequence[Any]) -> Plan:
        """Plan a launch; `local_memory` are the sizes of its arguments in local memory."""
        check_context(self._kernel, queue)
        check_local_memory(self._kernel, queue.device, local_memory)
        if self._kernel.hidden is GRID:
            return self._plan_grid(queue, shape, local_memory, args)
        return self._plan_without_grid(queue, shape, args)

    def _plan_without_grid(self, queue: cl.CommandQueue, shape: Shape, args: Sequence[Any]) -> Plan:
        kernel, program, device = self._kernel, self._program, queue.device
        if shape.global_size is None or shape.num_groups is not None:
            raise LaunchError(
                f"kernel {kernel.name!r} has no grid, so portbar cannot choose the number of work-groups: pass a global "
                "size, or make PORTBAR_GRID_PARAM its first parameter"
            )
        counts = kernel.hidden is not None
        chosen_by_driver = shape.local_size is None and not counts
        local = None if chosen_by_driver else checked_local_size(kernel, device, shape.local_size)
        size = as_size("global size", shape.global_size)
        self._check_reductions(device, local, size)
        groups = gangs.groups_of(kernel.name, size, local) if local is not None else 0
        if kernel.hidden is SCAN and local is not None:
            text = kernel_text(program.source, kernel.name)
            used = [one.name for one in program.scans if mentions(text, f"{one.name}_scan")]
            scans.check_sizes(kernel.name, program.scans, size, local, used)
        other = exchanged_with(program.profile(device).facts, size, local)
        if other and "barrier(" not in program.rendered(device):
            # Statements are executed twice only where work-items meet.
            other = 0
        handle, local = kernel.handle(device, args=args, other=other), local and exchange(local, other)
        return Plan(queue, handle, kernel.label(device), kernel.hidden, exchange(size, other), local, groups)

    def _plan_grid(
        self, queue: cl.CommandQueue, shape: Shape, local_memory: tuple[int, ...], args: Sequence[Any]
    ) -> Plan:
        kernel, program, device = self._kernel, self._program, queue.device
        strategy, label = program.strategy(device), kernel.label(device)
        local = checked_local_size(kernel, device, shape.local_size)
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
        profile, size = program.profile(device), tuple(map(int, global_size))
        other = exchanged_with(profile.facts, size, local)
        patience, resident = timing.patience_rounds(profile), min(groups, bound)
        splits = quirks.has_effect(quirks.QUEUES_SPLIT_THREADS, profile.facts)
        return Plan(
            queue,
            kernel.handle(device, tuned, args, other),
            label,
            kernel.hidden,
            exchange(size, other),
            exchange(local, other),
            groups,
            memoryview(array("I", (0, resident, patience, timing.limit_rounds(profile, program.spin_limit, resident)))),
            patience=(patience, timing.rounds(profile, timing.PATIENCE_SHARED)) if splits else None,
            lasting=all(self._occupancies.is_settled(device, s, local, local_memory) for s in (strategy, tuned)),
        )

    def scratch_limit(self, device: cl.Device) -> int | None:
        """Most work-items that the scratch memory of the kernel's reductions is for; None where it has none."""
        program, use = self._program, self._program.reduction_use
        if use is None:
            return None
        # If a driver reports no local memory, the source is parsed: the effect LOCAL_MEMORY_UNREPORTED.
        if not own_local_bytes(self._kernel.handle(device), device) and not mentions(
            kernel_text(program.source, self._kernel.name), "PORTBAR_REDUCTION_SCRATCH"
        ):
            return None
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
