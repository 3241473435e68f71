"""`Kernel`: one kernel of a program, launched the way PyOpenCL does, with the hidden arguments filled in."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyopencl as cl
import pyopencl.array

from portbar.choices.timing import is_time, patience_rounds, rounds, shortened
from portbar.errors import LaunchError
from portbar.launching.arguments import (
    Arguments,
    Signature,
    check_local_memory,
    check_memory,
    check_queue,
    dummy_arguments,
    own_local_bytes,
    without_arrays,
)
from portbar.launching.compiled import CompiledKernel, CompiledProgram
from portbar.launching.fused import NOTHING, Remembered, fused
from portbar.launching.launch import Launch, LaunchPlan
from portbar.launching.occupancy import Occupancies, Occupancy
from portbar.launching.parameters import GANGS, GRID, SCAN
from portbar.launching.plan import (
    LaunchShape,
    Planner,
    Size,
    checked_local_size,
    counted,
    extent,
    most_groups,
    suggested,
)
from portbar.launching.queues import UntilEnd
from portbar.primitives import layout
from portbar.records.plain import amount

if TYPE_CHECKING:  # few programs ask for them
    from portbar.launching.resources import Resources

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
        self._compiled = CompiledKernel(program, name)
        self.uses_grid = self._compiled.hidden is GRID
        self.reduces_gangs = self._compiled.hidden is GANGS
        self.scans = self._compiled.hidden is SCAN
        self._arguments = Arguments(self._compiled)
        self._occupancies = Occupancies(self._compiled)
        self._planner = Planner(self._compiled, self._occupancies)
        self._plans: dict[Any, LaunchPlan] = {}
        self._until_end = UntilEnd(self, Kernel._forget)
        #: Launches of buffers and scalars, by the queue's handle and the shape.
        self._remembered: dict[tuple[int, tuple[Any, ...]], Remembered] = {}
        #: The one that launched last, which is likely to launch next.
        self._latest = NOTHING
        self._resources: dict[cl.Device, Resources | None] = {}
        self._suggested: dict[cl.Device, Size] = {}

    def __repr__(self) -> str:
        hidden = self._compiled.hidden
        if self._compiled.parameters is None:
            takes = amount(self._compiled.count, "argument")
        else:
            takes = ", ".join(f"{one.type_name} {one.name}" for one in self._compiled.parameters)
        first = [hidden.macros[0]] if hidden in (GRID, GANGS, SCAN) else []
        return f"<portbar.Kernel {self.name}({', '.join([*first, takes] if takes else first)})>"

    @property
    def function_name(self) -> str:
        """The kernel's name, as PyOpenCL calls it."""
        return self.name

    @property
    def num_args(self) -> int:
        """The number of the author's arguments, without hidden ones."""
        return self._compiled.count

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
        global_offset: Sequence[int] | None = None,
        g_times_l: bool = False,
        allow_empty_ndrange: bool = False,
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
            The author's arguments: buffers, PyOpenCL arrays, NumPy scalars and arrays of shape ``()``, `LocalMemory`.
        wait_for : list of pyopencl.Event, optional
            A `Launch` may stand for its event.
        num_groups : int, optional
            Launch this many work-groups, which the device must be able to hold at once.
        max_groups : int, optional
            With a global size of None: launch at most this many.
        items : int, optional
            With a global size of None: launch no more work-groups than this many items need, at one item per work-item. With 0
            items nothing is executed; the event is that of a marker.
        global_offset : tuple of int, optional
            As in PyOpenCL, for kernels without hidden parameters.
        g_times_l, allow_empty_ndrange : bool, optional
            As in PyOpenCL: the global size counts work-groups; a global size with a 0 executes nothing.

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
        if num_groups is not None:
            num_groups = counted(self.name, "num_groups", num_groups)
        if max_groups is not None or items is not None:
            most = most_groups(self._compiled, queue, global_size, local_size, num_groups, max_groups, items)
        is_empty = items is not None and most == 0
        if g_times_l or allow_empty_ndrange:
            global_size, is_empty = extent(
                self.name, global_size, local_size, g_times_l=g_times_l, empty=allow_empty_ndrange
            )
        shape = (global_size, local_size, num_groups, most, global_offset)
        if wait_for is None and not is_empty:
            known = self._latest
            try:
                # The `LIFE_MARK`: `getattr` would take twice as long.
                pointer = queue._portbar_life.pointer  # type: ignore[attr-defined]
                if known.pointer != pointer or known.shape != shape:
                    self._latest = known = self._remembered.get((pointer, shape), NOTHING)
            # A queue that was never used; sizes given as lists or as arrays of NumPy.
            except (AttributeError, TypeError, ValueError):
                known = NOTHING
            same = known.launch(args) if known is not NOTHING else None
            if same is not None:
                return same
        args, types, signature, wait_for, arrays = self._arguments.take(queue, args, wait_for)
        if is_empty:
            self._compiled.check_queue(queue)
            marker = cl.enqueue_marker(queue, wait_for=wait_for or None)
            launch = Launch(marker, self._compiled.label(queue.device))
        else:
            plan, key = self._planned(queue, shape, args, signature)
            launch = self.program.states.launch(plan, args, wait_for)
            if wait_for is None and signature.is_simple and plan.lasting and global_offset is None:
                self._remember(key[0], key[1:6], plan, types)
        for array in arrays.values():
            array.add_event(launch.event)
        return launch

    def _planned(
        self, queue: cl.CommandQueue, shape: tuple[Any, ...], args: Sequence[Any], signature: Signature
    ) -> tuple[LaunchPlan, tuple[Any, ...]]:
        """The plan of a launch, remembered where others may go by it, and its key: the queue, the shape and more."""
        local_memory = tuple([args[i].size for i in signature.locals]) if signature.locals else ()
        pointers = tuple([i for i in signature.pointers if isinstance(args[i], cl.SVMPointer)])
        life = self._until_end.life_of(queue)
        key = (life.pointer, *shape, local_memory, pointers)
        try:
            plan = self._plans.get(key)
        except TypeError:  # sizes given as lists
            key = (key[0], *LaunchShape(*shape).as_key(), local_memory, pointers)
            plan = self._plans.get(key)
        most = shape[3]
        if plan is None and most is not None:
            # Where the device holds fewer, the plan without a bound serves: bounds may differ from launch to launch.
            unbounded = (*key[:4], None, *key[5:])
            plan = self._plans.get(unbounded)
            plan = plan if plan is not None and plan.groups < most else None
        if plan is None:
            plan = self._planner.plan(life.queue, LaunchShape(*shape), local_memory, args)
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            if plan.lasting:
                self._plans[key if most is None or plan.groups == most else unbounded] = plan
        return plan, key

    def _remember(self, pointer: int, shape: tuple[Any, ...], plan: LaunchPlan, types: tuple[type, ...]) -> None:
        """Make later launches of a shape cheap, unless each of them has a trace to keep."""
        if self._compiled.parameters is None or (plan.state is not None and plan.state.tracing is not None):
            return
        with self.program.states.lock:
            key = (pointer, shape)
            known = self._remembered.get(key)
            if known is not None and known.types == types and known.state is plan.state:
                return
            if len(self._remembered) >= _MAX_PLANS:
                self._remembered.clear()
            launch = fused(self._compiled, plan, types)
            self._remembered[key] = self._latest = Remembered(pointer, shape, launch, types, plan.state)

    def _forget(self, pointer: int) -> None:
        """Keep nothing of a queue whose life has ended."""
        for kept in (self._plans, self._remembered):
            for key in tuple(kept):
                if key[0] == pointer:
                    kept.pop(key, None)
        if self._latest.pointer == pointer:
            self._latest = NOTHING

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
        bare, local_memory = self._bare_arguments(queue, args)
        local = checked_local_size(self._compiled, self._compiled.on(queue), local_size)
        strategy = self.program.strategy(queue.device)
        return self._occupancies.occupancy(queue, strategy, local, local_memory, bare, again=True)

    def suggested_local_size(self, queue: cl.CommandQueue) -> Size:
        """Return a good local size for this kernel.

        The kernel's `reqd_work_group_size` or `PORTBAR_REDUCTION_EXACT` decides if present. On CPUs it is small, because one
        thread runs all work-items of a work-group; on GPUs it is 256, in whole sub-groups; both within the
        kernel's limit. `docs/sizes.md` has the rule and the measurements. Nothing is launched.

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
            self._suggested[device] = suggested(self._compiled, device, self._planner.scratch_limit(device))
        return self._suggested[device]

    def resources(self, device: cl.Device) -> Resources | None:
        """Return the kernel's resources as the compiler reports them: registers, stack and spills.

        Compiles the program once more. None if the compiler does not report them: only NVIDIA's does.
        """
        if device not in self._resources:
            from portbar.launching.resources import resources_in  # noqa: PLC0415 (few programs ask)

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
        from portbar.launching.resources import computed_bound  # noqa: PLC0415 (the same)

        own = own_local_bytes(self._compiled.handle(device), device)
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
        local = checked_local_size(self._compiled, self._compiled.on(queue), local_size)
        bare = self._bare_arguments(queue, args)[0]
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
        return self._occupancies.dry_run(queue, strategy, local, groups, given, bare)

    def _bare_arguments(self, queue: cl.CommandQueue, args: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        """Arguments for a dry run (invented ones if none are given), and the sizes of those in local memory."""
        if not self.uses_grid:
            raise LaunchError(
                f"kernel {self.name!r} has no grid: occupancy is defined only for kernels that take PORTBAR_GRID_PARAM"
            )
        self._compiled.check_queue(queue)
        if not args:
            return dummy_arguments(self._compiled), ()
        signature = self._arguments.signature(tuple(map(type, args)), args)
        local_memory = tuple(args[i].size for i in signature.locals)
        check_local_memory(self._compiled, queue.device, local_memory)
        bare = without_arrays(self._compiled, signature, args)
        check_memory(self._compiled, signature.memories, bare)
        return bare, local_memory
