"""Launches kernels the way PyOpenCL does, with the hidden arguments of a grid filled in.

Not for building (`portbar.launching.program`) nor for what a launch reports afterwards (`portbar.launching.launch`).
"""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pyopencl as cl
import pyopencl.array

from portbar.choices.timing import (
    is_time,
    limit_rounds,
    patience_rounds,
    rounds,
    shared_patience_rounds,
    shortened,
)
from portbar.device import quirks
from portbar.device.vendor import vendor_bound
from portbar.errors import LaunchError
from portbar.launching import gangs as launching
from portbar.launching import scans as scanning
from portbar.launching.arguments import (
    GANG_PARAMETER,
    GRID_PARAMETER,
    HIDDEN,
    SCAN_PARAMETER,
    Parameter,
    base_buffer,
    check_arguments,
    check_local_memory,
    check_memory_contexts,
    check_queue,
    dummy_arguments,
    events_of,
    exclusive_pairs,
    parameters_of,
    passed_as,
    refuse_shared,
    scalar_typedefs,
)
from portbar.launching.compiled import CompiledProgram
from portbar.launching.fused import NOTHING, Remembered, Shape, fused
from portbar.launching.handle import TypedKernel
from portbar.launching.launch import Launch
from portbar.launching.occupancy import (
    Occupancy,
    Resources,
    Retry,
    computed_bound,
    drain,
    is_complete,
    known_bound,
    measure,
    resources_in,
)
from portbar.launching.order import awaited, hides_failures
from portbar.launching.plan import Plan, Signature
from portbar.launching.sizes import (
    Size,
    as_size,
    check_least,
    checked_local_size,
    counted,
    explicit_groups,
    most_groups,
    required_size,
    size_key,
    suggested,
)
from portbar.launching.state import QueueState
from portbar.launching.states import dry_runs
from portbar.primitives import layout, scan
from portbar.primitives.reduction.header import local_size_limit
from portbar.primitives.strategy import Strategy
from portbar.rendering.source import kernel_text, mentions

#: Combinations of queue, sizes and local memory that are remembered for each kernel.
_MAX_PLANS: Final = 256


class Kernel:
    """A kernel of a `Program`, launched like a `pyopencl.Kernel`.

    Attributes
    ----------
    name : str
    uses_grid : bool
        Whether it takes PORTBAR_GRID_PARAM.
    reduces_gangs : bool
        Whether it takes PORTBAR_REDUCTION_PARAM or PORTBAR_WAIT_PARAM, which are equivalent.
    scans : bool
        Whether it takes PORTBAR_SCAN_PARAM.
    """

    def __init__(self, program: CompiledProgram, name: str) -> None:
        self.program = program
        self.name = name
        self._handles: dict[tuple[cl.Device, str, tuple[int, ...]], TypedKernel] = {}
        self._occupancy: dict[tuple[cl.Device, str, Size, tuple[int, ...]], Occupancy] = {}
        #: Occupancies that a busy device may have made too small.
        self._retries: dict[tuple[cl.Device, str, Size, tuple[int, ...]], Retry] = {}
        self._plans: dict[Any, Plan] = {}
        #: Launches of buffers and scalars, by the queue and the shape.
        self._remembered: dict[tuple[int, Shape], Remembered] = {}
        #: The one that launched last, which is likely to launch next.
        self._latest = NOTHING
        self._resources: dict[cl.Device, Resources | None] = {}
        self._suggested: dict[cl.Device, Size] = {}
        self._signatures: dict[tuple[type, ...], Signature] = {}
        self._states, self._context = program.states, program.context
        self._typedefs = scalar_typedefs(program.source)
        self._failures_hidden = any(map(hides_failures, program.devices))
        first = program.devices[0]
        handle = self._handle(first, program.strategy(first))
        parameters = parameters_of(handle, self._typedefs)
        if parameters is None:
            self.uses_grid = mentions(program.source, "PORTBAR_GRID_PARAM")
            self.reduces_gangs = not self.uses_grid and any(
                mentions(program.source, name) for name in ("PORTBAR_REDUCTION_PARAM", "PORTBAR_WAIT_PARAM")
            )
        else:
            self.uses_grid = bool(parameters) and parameters[0].name == GRID_PARAMETER
            if not self.uses_grid and any(p.name == GRID_PARAMETER for p in parameters):
                raise LaunchError(f"kernel {name!r}: PORTBAR_GRID_PARAM must be the first parameter")
            self.reduces_gangs = bool(parameters) and parameters[0].name == GANG_PARAMETER
            if not self.reduces_gangs and any(p.name == GANG_PARAMETER for p in parameters):
                other = (
                    "; in a kernel with a grid, call the functions that take &grid instead" if self.uses_grid else ""
                )
                hidden_name = "PORTBAR_REDUCTION_PARAM"
                if not mentions(program.source, hidden_name):
                    hidden_name = "PORTBAR_WAIT_PARAM"
                raise LaunchError(f"kernel {name!r}: {hidden_name} must be the first parameter{other}")
        others = self.uses_grid or self.reduces_gangs
        if parameters is None:
            self.scans = not others and mentions(program.source, scan.PARAMETER)
        else:
            self.scans = bool(parameters) and parameters[0].name == SCAN_PARAMETER
            if not self.scans and any(p.name == SCAN_PARAMETER for p in parameters):
                raise LaunchError(
                    f"kernel {name!r}: {scan.PARAMETER} must be the first parameter, and the only hidden one"
                )
        #: Enqueues a kernel that neither has a grid nor is plain.
        self._enqueue_other = launching.launch if self.reduces_gangs else scanning.launch if self.scans else None
        hidden = HIDDEN if others or self.scans else 0
        self._count = handle.num_args - hidden
        self._parameters: tuple[Parameter, ...] | None = parameters[hidden:] if parameters is not None else None
        # Without a grid no work-group waits for what another one writes.
        self._exclusive = exclusive_pairs(self._parameters) if self.uses_grid else ()

    def __call__(
        self,
        queue: cl.CommandQueue,
        global_size: Sequence[int] | None,
        local_size: Sequence[int] | None,
        *args: Any,
        wait_for: Iterable[cl.Event] | None = None,
        num_groups: int | None = None,
        max_groups: int | None = None,
        items: int | None = None,
    ) -> Launch:
        """Enqueue the kernel.

        Parameters
        ----------
        queue : pyopencl.CommandQueue
        global_size : tuple of int or None
            As in PyOpenCL. None (grid kernels only): as many work-groups as the device holds. A size with more work-groups than
            that is fine: the surplus ones return from PORTBAR_ENTER.
        local_size : tuple of int
            One to three dimensions; None takes the kernel's `reqd_work_group_size`, or leaves it to the driver without a grid.
        *args
            The author's arguments: buffers, PyOpenCL arrays, NumPy scalars, `LocalMemory`.
        wait_for : list of pyopencl.Event, optional
            A `Launch` may stand for its event.
        num_groups : int, optional
            Launch this many work-groups, which the device must be able to hold at once.
        max_groups : int, optional
            With a global size of None: launch at most this many.
        items : int, optional
            With a global size of None: launch no more work-groups than this many items need, at one item per work-item.

        Returns
        -------
        Launch
            ``launch.event`` is the event; ``launch.wait()`` raises `BarrierTimeoutError` if a barrier gave up.

        Raises
        ------
        LaunchError
            Sizes or arguments that cannot be right, or something to wait for that has failed; nothing was enqueued.
        UnsupportedFeatureError
            The device holds fewer work-groups of the kernel than its program requires.
        """
        most = None
        if max_groups is not None or items is not None:
            most = self._most_groups(queue, global_size, local_size, num_groups, max_groups, items)
        if wait_for is None:
            shape = (global_size, local_size, num_groups, most)
            known = self._latest
            try:
                if known.queue is not queue or known.shape != shape:
                    self._latest = known = self._remembered.get((id(queue), shape), NOTHING)
            except (TypeError, ValueError):  # sizes given as lists or as arrays of NumPy
                known = NOTHING
            same = known.launch(args)
            if same is not None:
                return same
        check_queue(queue)
        types = tuple(map(type, args))
        signature = self._signatures.get(types)
        if signature is None:
            signature = self._check(types, args)
        arrays: tuple[cl.array.Array, ...] = ()
        if wait_for is not None:
            wait_for = events_of(f"kernel {self.name!r}", wait_for)
        if signature.arrays:
            arrays = tuple(args[i] for i in signature.arrays)
            args = self._unwrapped(signature, args)
        self._check_shared(args)
        if wait_for or arrays:
            places = dict(zip(signature.arrays, arrays, strict=True))
            wait_for = awaited(f"kernel {self.name!r}", wait_for, places, hidden=self._failures_hidden)
        check_memory_contexts(self.name, self._context, signature.memories, args)
        plan = self._planned(queue, global_size, local_size, num_groups, most, args, signature)
        launch = self._enqueue(plan, args, wait_for)
        if wait_for is None and signature.is_simple and plan.lasting:
            self._remember(queue, (size_key(global_size), size_key(local_size), num_groups, most), plan, types)
        for one in arrays:
            one.add_event(launch.event)
        return launch

    def _planned(
        self,
        queue: cl.CommandQueue,
        global_size: Sequence[int] | None,
        local_size: Sequence[int] | None,
        num_groups: int | None,
        most: int | None,
        args: Sequence[Any],
        signature: Signature,
    ) -> Plan:
        """The plan of a launch, remembered where others may go by it."""
        local_memory = tuple([args[i].size for i in signature.locals]) if signature.locals else ()
        pointers = tuple([i for i in signature.pointers if isinstance(args[i], cl.SVMPointer)])
        key = (queue.int_ptr, global_size, local_size, num_groups, most, local_memory, pointers)
        try:
            plan = self._plans.get(key)
        except TypeError:  # sizes given as lists
            key = (key[0], size_key(global_size), size_key(local_size), *key[3:])
            plan = self._plans.get(key)
        if plan is None and most is not None:
            # Where the device holds fewer, the plan without a bound serves: bounds may differ from launch to launch.
            unbounded = (*key[:4], None, *key[5:])
            plan = self._plans.get(unbounded)
            plan = plan if plan is not None and plan.groups < most else None
        if plan is None:
            plan = self._plan(queue, global_size, local_size, num_groups, most, local_memory, args)
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            if plan.lasting:
                self._plans[key if most is None or plan.groups == most else unbounded] = plan
        return plan

    def _remember(self, queue: cl.CommandQueue, shape: Shape, plan: Plan, types: tuple[type, ...]) -> None:
        """Make later launches of a shape cheap, unless each of them has a trace to keep."""
        if self._parameters is None or (plan.state is not None and plan.state.tracing is not None):
            return
        with self._states.lock:
            key = (id(queue), shape)
            known = self._remembered.get(key)
            if known is not None and known.types == types and known.state is plan.state:
                return
            if len(self._remembered) >= _MAX_PLANS:
                self._remembered.clear()
            others = None
            if self._enqueue_other is not None:
                others = partial(self._enqueue_other, self._states, plan)
            launch = fused(plan, self._states, self._context, self._parameters, self._exclusive, types, others)
            self._remembered[key] = self._latest = Remembered(queue, shape, launch, types, plan.state)

    def occupancy(self, queue: cl.CommandQueue, local_size: Sequence[int], *args: Any) -> Occupancy:
        """Return how many work-groups of this kernel the queue's device runs concurrently.

        The first call measures it by launches that return right after discovery, so none of the kernel's code runs; the result
        is cached per kernel, local size, local memory and device. A result that a busy device may have reduced is
        measured again at the next call.

        Parameters
        ----------
        queue : pyopencl.CommandQueue
        local_size : tuple of int
        *args
            The kernel's arguments; required only if it takes local memory or images.

        Raises
        ------
        LaunchError
            The kernel has no grid, the local size is invalid, or the arguments are required.
        """
        check_queue(queue)
        bare, local_memory = self._bare_arguments(queue.device, args)
        strategy = self.program.strategy(queue.device)
        handle = self._handle(queue.device, strategy)
        local = self._local_size(queue.device, handle, local_size)
        return self._occupied(queue, strategy, local, local_memory, bare, again=True)

    def suggested_local_size(self, queue: cl.CommandQueue) -> Size:
        """Return a good local size for this kernel.

        The kernel's `reqd_work_group_size` or `PORTBAR_REDUCTION_EXACT` decides if present. On CPUs it is small, because one
        thread runs all work-items of a work-group; on GPUs it is 256, in whole sub-groups; both within the
        kernel's limit. `docs/launching.md` has the rule and the measurements. Nothing is launched.

        Parameters
        ----------
        queue : pyopencl.CommandQueue

        Returns
        -------
        tuple of int
            One dimension, unless the kernel requires more.
        """
        check_queue(queue)
        device = queue.device
        if device not in self._suggested:
            self._suggested[device] = self._suggest(device)
        return self._suggested[device]

    def _suggest(self, device: cl.Device) -> Size:
        strategy, use = self.program.strategy(device), self.program.reduction_use
        handle = self._handle(device, strategy)
        scratch = None
        if use is not None and self._has_scratch(device, handle):
            scratch = local_size_limit(strategy, use)
            if use.exact:
                return required_size(handle, device) or (scratch,)
        return suggested(handle, self.program.profile(device), device, self.program.source, self._parameters, scratch)

    def resources(self, device: cl.Device) -> Resources | None:
        """Return the kernel's resources as the compiler reports them: registers, stack and spills.

        Compiles the program once more. None if the compiler does not report them: only NVIDIA's does.
        """
        if device not in self._resources:
            log = self.program.verbose_log(device)
            self._resources[device] = resources_in(log, self.name) if log else None
        return self._resources[device]

    def computed_bound(self, device: cl.Device, local_size: Sequence[int], local_bytes: int = 0) -> int | None:
        """Return how many work-groups the device should run concurrently, by the kernel's resources; None if unknown.

        For comparison with `occupancy`, which measures.

        Parameters
        ----------
        device : pyopencl.Device
        local_size : tuple of int
        local_bytes : int
            Bytes of local memory passed as arguments.
        """
        taken = self.resources(device)
        if taken is None:
            return None
        handle = self._handle(device, self.program.strategy(device))
        own = int(handle.get_work_group_info(cl.kernel_work_group_info.LOCAL_MEM_SIZE, device))
        return computed_bound(self.program.profile(device).facts, taken, math.prod(local_size), own + local_bytes)

    def discover(
        self, queue: cl.CommandQueue, local_size: Sequence[int], groups: int, *args: Any, patience: float | None = None
    ) -> Launch:
        """Launch exactly `groups` work-groups that return right after discovery, and wait.

        For studies of discovery itself; programs need only `occupancy`.

        Parameters
        ----------
        queue : pyopencl.CommandQueue
        local_size : tuple of int
        groups : int
        *args
            As for `occupancy`.
        patience : float, optional
            Seconds without a new arrival until the poll closes; 0 closes it at once, as published.

        Raises
        ------
        LaunchError
            The kernel has no grid, the local size or the arguments are invalid, or too many groups were requested.

        Returns
        -------
        Launch
            ``launch.num_groups`` is the number of work-groups that discovery found, ``launch.event`` has the time.
        """
        check_queue(queue)
        strategy = self.program.strategy(queue.device)
        local = self._local_size(queue.device, self._handle(queue.device, strategy), local_size)
        bare = self._bare_arguments(queue.device, args)[0]
        groups = counted(self.name, "the number of work-groups", groups)
        most = layout.MAX_LAUNCHED_GROUPS if strategy.max_groups is None else strategy.max_groups
        if groups > most:
            why = f": {strategy.max_groups_reason}" if strategy.max_groups is not None else ""
            raise LaunchError(
                f"kernel {self.name!r}: {groups} work-groups in one launch exceed the limit of {most}{why}"
            )
        if patience is not None and not (is_time(patience) and patience >= 0):
            raise LaunchError(
                f"kernel {self.name!r}: patience must be a finite number of seconds, 0 or more, not {shortened(patience)}"
            )
        profile = self.program.profile(queue.device)
        given = patience_rounds(profile) if patience is None else rounds(profile, patience) if patience > 0 else 0
        return self._dry_run(queue, strategy, local, groups, given, bare)

    def _bare_arguments(self, device: cl.Device, args: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        """Arguments for a dry run (invented ones if none are given), and the sizes of those in local memory."""
        if not self.uses_grid:
            raise LaunchError(
                f"kernel {self.name!r} has no grid: occupancy is defined only for kernels that take PORTBAR_GRID_PARAM"
            )
        if not args:
            return dummy_arguments(self.program.context, self.name, self._parameters, self._count), ()
        signature = self._check(tuple(map(type, args)), args)
        bare = self._unwrapped(signature, args)
        local_memory = tuple(bare[i].size for i in signature.locals)
        self._check_local_memory(device, local_memory)
        return bare, local_memory

    def _handle(self, device: cl.Device, strategy: Strategy, args: Sequence[Any] = ()) -> TypedKernel:
        """The handle for a device and algorithm, and for where `args` are pointers to shared virtual memory.

        Such pointers need a handle of their own, which may take no buffer in their place afterwards (the effect POINTERS_STAY).
        """
        pointers = tuple(i for i, argument in enumerate(args) if isinstance(argument, cl.SVMPointer))
        key = (device, strategy.device_barrier.value, pointers)
        handle = self._handles.get(key)
        if handle is None:
            handle = TypedKernel(self.program.built(device, strategy), self.name)
            parameters = parameters_of(handle, self._typedefs)
            if parameters is not None:
                handle.declare([*map(passed_as, parameters)])
            self._handles[key] = handle
        return handle

    def _check(self, types: tuple[type, ...], args: Sequence[Any]) -> Signature:
        check_arguments(self.name, self._parameters, self._count, args)
        signature = Signature(
            tuple(i for i, argument in enumerate(args) if isinstance(argument, cl.array.Array)),
            tuple(i for i, argument in enumerate(args) if isinstance(argument, cl.LocalMemory)),
            tuple(i for i, argument in enumerate(args) if isinstance(argument, cl.MemoryObjectHolder | cl.array.Array)),
            tuple(i for i, argument in enumerate(args) if isinstance(argument, cl.SVMPointer | cl.array.Array)),
        )
        if self._parameters is not None:
            self._signatures[types] = signature
        return signature

    def _unwrapped(self, signature: Signature, args: Sequence[Any]) -> tuple[Any, ...]:
        bare = list(args)
        for index in signature.arrays:
            bare[index] = base_buffer(self.name, self._parameters, index, bare[index])
        return tuple(bare)

    def _check_shared(self, args: Sequence[Any]) -> None:
        for fixed, written in self._exclusive:
            if args[fixed] is args[written] and args[fixed] is not None:
                refuse_shared(self.name, self._parameters or (), fixed, written)

    def _check_local_memory(self, device: cl.Device, sizes: tuple[int, ...]) -> None:
        if sizes:
            check_local_memory(
                cl.Kernel(self.program.built(device, self.program.strategy(device)), self.name), device, sizes
            )

    def _local_size(self, device: cl.Device, handle: cl.Kernel, local_size: Sequence[int] | None) -> Size:
        """The local size to use, checked against the kernel's and the device's limits."""
        what = "scan" if self.scans else "grid"
        return checked_local_size(self.name, what, handle, device, self.program.profile(device).facts, local_size)

    def _most_groups(
        self,
        queue: cl.CommandQueue,
        global_size: Sequence[int] | None,
        local_size: Sequence[int] | None,
        num_groups: int | None,
        max_groups: int | None,
        items: int | None,
    ) -> int:
        """Most work-groups of a launch, by what the caller gives."""
        what = "items" if max_groups is None else "max_groups"
        if not self.uses_grid:
            raise LaunchError(
                f"kernel {self.name!r} has no grid: {what} requires a kernel that takes PORTBAR_GRID_PARAM"
            )
        if local_size is None:
            check_queue(queue)
            device = queue.device
            local_size = self._local_size(device, self._handle(device, self.program.strategy(device)), None)
        fixed = "a global size" if global_size is not None else "num_groups" if num_groups is not None else ""
        local = as_size("local size", local_size)
        return most_groups(self.name, fixed, local, max_groups, items, self.program.least_groups)

    def _plan(
        self,
        queue: cl.CommandQueue,
        global_size: Sequence[int] | None,
        local_size: Sequence[int] | None,
        num_groups: int | None,
        most: int | None,
        local_memory: tuple[int, ...],
        args: Sequence[Any],
    ) -> Plan:
        device = queue.device
        strategy = self.program.strategy(device)
        if queue.context != self.program.context:
            raise LaunchError(f"kernel {self.name!r}: the queue belongs to another context than the program")
        self._check_local_memory(device, local_memory)
        handle = self._handle(device, strategy, args)
        if not self.uses_grid:
            if global_size is None or num_groups is not None:
                raise LaunchError(
                    f"kernel {self.name!r} has no grid, so portbar cannot choose the number of work-groups: pass a global "
                    "size, or make PORTBAR_GRID_PARAM its first parameter"
                )
            counts = self.reduces_gangs or self.scans
            chosen_by_driver = local_size is None and not counts
            local = None if chosen_by_driver else self._local_size(device, handle, local_size)
            size = as_size("global size", global_size)
            self._check_reductions(device, strategy, handle, local, size)
            gangs = launching.groups_of(self.name, size, local) if counts else 0
            if self.scans and local is not None:
                text = kernel_text(self.program.source, self.name)
                used = [one.name for one in self.program.scans if mentions(text, f"{one.name}_scan")]
                scanning.check_sizes(self.name, self.program.scans, size, local, used)
            return Plan(queue, handle, (self.name, device.name.strip()), size, local, gangs, 0, None)

        local = self._local_size(device, handle, local_size)
        self._check_reductions(device, strategy, handle, local)
        groups = explicit_groups(self.name, global_size, local, num_groups)
        asked = most if groups is None else groups
        bound = self._occupied(queue, strategy, local, local_memory, args).groups
        tuned = strategy.for_groups(bound if asked is None else min(asked, bound), math.prod(local))
        if tuned is not strategy:
            # Another algorithm is another binary, which may hold another number of groups.
            bound = self._occupied(queue, tuned, local, local_memory, args).groups
            handle = self._handle(device, tuned, args)
        if bound < self.program.least_groups:
            bound = self._occupied(queue, tuned, local, local_memory, args, again=True).groups
        check_least(self.name, device.name.strip(), self.program.least_groups, local, bound, groups)
        if num_groups is not None and num_groups > bound:
            raise LaunchError(
                f"kernel {self.name!r}: {num_groups} work-groups of {local} were requested, but "
                f"{device.name.strip()} runs at most {bound} concurrently; a barrier between more would never complete"
            )
        if groups is None or strategy.max_groups is not None:
            # Where waiting is unsafe, a surplus group must not even be started.
            groups, global_size = bound if most is None else min(most, bound), None
        if global_size is None:
            global_size = (groups * local[0], *local[1:])
        profile = self.program.profile(device)
        limit = limit_rounds(profile, self.program.spin_limit, min(groups, bound))
        words = memoryview(array("I", (0, min(groups, bound), patience_rounds(profile), limit)))
        patience = None
        if quirks.has_effect(quirks.QUEUES_SPLIT_THREADS, profile.facts):
            patience = patience_rounds(profile), shared_patience_rounds(profile)
        lasting = known_bound(profile) is not None or not any(
            (device, s.device_barrier.value, local, local_memory) in self._retries for s in (strategy, tuned)
        )
        label, size = (self.name, device.name.strip()), tuple(map(int, global_size))
        return Plan(queue, handle, label, size, local, groups, 0, words, patience=patience, lasting=lasting)

    def _has_scratch(self, device: cl.Device, handle: cl.Kernel) -> bool:
        """Whether the kernel has scratch memory for reductions."""
        # If a driver reports no local memory, the source is parsed: the effect LOCAL_MEMORY_UNREPORTED.
        return bool(handle.get_work_group_info(cl.kernel_work_group_info.LOCAL_MEM_SIZE, device)) or mentions(
            kernel_text(self.program.source, self.name), "PORTBAR_REDUCTION_SCRATCH"
        )

    def _check_reductions(
        self, device: cl.Device, strategy: Strategy, handle: cl.Kernel, local: Size | None, size: Size | None = None
    ) -> None:
        """Check that work-groups have as many work-items as the scratch memory of their reductions is for."""
        use = self.program.reduction_use
        if use is None or not self._has_scratch(device, handle):
            return
        limit = local_size_limit(strategy, use)
        if local is not None and math.prod(local) > limit:
            raise LaunchError(
                f"kernel {self.name!r}: local size {local} is {math.prod(local)} work-items, but its reductions have local "
                f"memory for {limit}: #define PORTBAR_REDUCTION_LOCAL_SIZE {math.prod(local)} before "
                '#include "portbar/reduction.h"'
            )
        whole = local is not None and (size is None or not any(g % n for g, n in zip(size, local, strict=False)))
        if use.exact and not (whole and math.prod(local or ()) == limit):
            raise LaunchError(
                f"kernel {self.name!r}: PORTBAR_REDUCTION_EXACT in its source promises {limit} work-items in every "
                f"work-group, but this launch has local size {local} and global size {size or 'whole groups'}: launch whole "
                "groups of that size, or remove PORTBAR_REDUCTION_EXACT"
            )
        if use.whole_groups and not whole:
            raise LaunchError(
                f"kernel {self.name!r}: its program distributes work over the sub-groups of all work-groups, which requires "
                f"work-groups of equal size: global size {size}, local size {local}. Pass a global size that is a multiple of "
                "the local size, or distribute work at level gang_worker_vector"
            )

    def _occupied(
        self,
        queue: cl.CommandQueue,
        strategy: Strategy,
        local: Size,
        local_memory: tuple[int, ...],
        args: Sequence[Any],
        *,
        again: bool = False,
    ) -> Occupancy:
        """The occupancy, measured if it is not known, or if it is `again` to be measured where it may be too small."""
        device = queue.device
        if strategy.max_groups == 1:
            return Occupancy(1, ())
        profile = self.program.profile(device)
        if not again and (probed := known_bound(profile)) is not None:
            return probed
        key = (device, strategy.device_barrier.value, local, local_memory)
        known, retry = self._occupancy.get(key), self._retries.get(key)
        if known is not None and (retry is None or not (again or retry.is_due)):
            return known
        patience = patience_rounds(profile)
        apart = dry_runs(self.program.context, device, strategy.discovery.value)

        def dry_run(groups: int) -> int:
            with apart.lock:
                state = apart.state(groups)
                return self._dry_run(apart.queue, strategy, local, groups, patience, args, state).num_groups

        start = time.monotonic()
        drained = drain(queue)
        found = measure(profile, dry_run) if known is None else measure(profile, dry_run, 1)
        bound = vendor_bound(queue, self._handle(device, strategy), local)
        measured = replace(found, groups=max(found.groups, known.groups if known else 0), vendor_bound=bound)
        self._occupancy[key] = measured
        if drained and is_complete(profile, measured):
            self._retries.pop(key, None)
        else:
            retry = self._retries.setdefault(key, Retry())
            retry.postpone((time.monotonic() - start) / max(1, len(measured.runs)))
        return measured

    def _dry_run(
        self,
        queue: cl.CommandQueue,
        strategy: Strategy,
        local: Size,
        groups: int,
        patience: int,
        args: Sequence[Any],
        state: QueueState | None = None,
    ) -> Launch:
        """A launch of exactly `groups` work-groups that returns right after discovery; waits for it."""
        limit = limit_rounds(self.program.profile(queue.device), self.program.spin_limit)
        words = memoryview(array("I", (0, groups, patience, limit)))
        size = (groups * local[0], *local[1:])
        handle = self._handle(queue.device, strategy, args)
        plan = Plan(
            queue, handle, (self.name, queue.device.name.strip()), size, local, groups, layout.DRY_RUN, words, state
        )
        launch = self._enqueue(plan, args, None)
        launch.wait()
        return launch

    def _enqueue(self, plan: Plan, args: Sequence[Any], wait_for: Sequence[cl.Event] | None) -> Launch:
        states, words = self._states, plan.words
        with states.lock:
            if self._enqueue_other is not None:
                return self._enqueue_other(states, plan, args, wait_for)
            if words is None:
                return Launch(plan.call(*args, wait_for=wait_for), plan.label)
            state = plan.state
            if state is None or state.exhausted:
                state = plan.state = states.grid(plan.queue, plan.groups)
            epoch = state.epoch + 1
            before = state.prepare(epoch, wait_for)
            words[0] = plan.flags | state.capacity_log2 << 24 | epoch
            if plan.patience is not None:
                words[2] = plan.patience[state.joins_others()]
            event = plan.call(state.buffer, words, *args, wait_for=before)
            launch = Launch(event, plan.label, state, epoch, plan.groups)
            state.note(epoch, launch, wait_for)
        return launch
