"""`record`: launches of unmodified kernels are recorded, and replayed in one kernel or one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from operator import index
from typing import Any, Final

import numpy as np
import pyopencl as cl

from portbar.choices.timing import shortened
from portbar.errors import LaunchError
from portbar.launching.arguments import check_queue
from portbar.launching.kernel import Kernel
from portbar.launching.launch import Launch
from portbar.primitives.run_kernels.phases import Phase, Problem
from portbar.recording import memory
from portbar.recording.binding import bound, buffer_of
from portbar.recording.origin import Hints, Origin, name_of, origin_of
from portbar.recording.player import Player
from portbar.recording.relaunch import KernelAlone
from portbar.recording.steps import Call, Conditional, Flag, Repetition, Size, Step, Turn

#: Work-items of a side, and turns, that one kernel counts.
_MOST: Final = 1 << 31
#: Work-items of one launch.
_MOST_ITEMS: Final = (1 << 32) - 1
#: Turns that a flag allows, unless the caller says otherwise.
_USUAL_LIMIT: Final = 1_000_000
#: Work-items of a work-group, where the caller leaves the local size open.
_USUAL_ITEMS: Final = 64
_STEPS_ALIVE: Final = "the recorded steps are fixed by the first launch(): record others anew"


def record(
    queue: cl.CommandQueue, *, programs: Sequence[cl.Program] = (), options: Sequence[str] | None = None
) -> Steps:
    """Begin to record launches of unmodified kernels.

    Nothing is launched until `Steps.launch`, which runs all steps in one kernel, with a device barrier before each step that
    depends on an earlier one.

    Parameters
    ----------
    queue : pyopencl.CommandQueue
    programs : sequence of pyopencl.Program, optional
        Programs of the kernels, where the driver does not give their source.
    options : sequence of str, optional
        Build options of all programs, where the driver does not give them.

    Returns
    -------
    Steps

    Raises
    ------
    LaunchError
        `queue` is not a queue.
    """
    return Steps(queue, Hints(tuple(programs), None if options is None else tuple(options)))


class Steps:
    """Recorded launches; made by `record`.

    Attributes
    ----------
    queue : pyopencl.CommandQueue
    """

    def __init__(self, queue: cl.CommandQueue, hints: Hints) -> None:
        check_queue(queue)
        self.queue = queue
        self._hints = hints
        self._steps: list[Step] = []
        self._open = [self._steps]
        self._count = 0
        self._player: Player | None = None

    def __call__(
        self,
        kernel: cl.Kernel | Kernel,
        global_size: Sequence[int],
        local_size: Sequence[int] | None,
        *args: Any,
        global_offset: Sequence[int] | None = None,
    ) -> None:
        """Record a launch of a kernel.

        Parameters
        ----------
        kernel : pyopencl.Kernel or portbar.Kernel
            Of an unmodified source.
        global_size : tuple of int
            One to three dimensions.
        local_size : tuple of int or None
            None takes the kernel's `reqd_work_group_size`, or leaves it to portbar.
        *args
            Buffers, arrays of PyOpenCL, numbers, `pyopencl.LocalMemory`; a `Turn`, or one computed with, for a number that
            changes from turn to turn.
        global_offset : tuple of int, optional

        Raises
        ------
        LaunchError
            Sizes or arguments that cannot be right; nothing was recorded.
        """
        self._check_open()
        number = self._count + 1
        device = self.queue.device
        origin = origin_of(kernel, device, self._hints)
        name = name_of(kernel)
        label = f"step {number} (kernel {name!r})"
        size = _size(label, "global size", global_size)
        if isinstance(origin, str):
            raise LaunchError(f"{label}: {origin}")
        phases = origin.phases(device)
        phase = phases.phases.get(name)
        problems = phases.problems or (() if phase is None else phase.problems)
        if phase is None:
            reason = str(problems[0]) if problems else "its source has no kernel of that name"
            raise LaunchError(f"{label} cannot be recorded: {reason}")
        arguments = bound(label, phase, args)
        local = _local(label, phase, size, local_size, device, origin)
        offset = (0, 0, 0) if global_offset is None else _offset(label, size, global_offset)
        for argument in arguments:
            turn = getattr(argument, "turn", None)
            if turn is not None and turn.loop not in self._loops:
                raise LaunchError(f"{label} takes the turn of a loop that it is not in")
        if local is not None and phase.asks_local and any(one % other for one, other in zip(size, local, strict=False)):
            reason = "its last work-groups are smaller, and it asks for ids or sizes of work-groups"
            problems = (*problems, Problem(phase.place, reason))
        given_local = None if local_size is None else tuple(local_size)
        given_offset = None if global_offset is None else tuple(global_offset)
        alone = KernelAlone(kernel, tuple(global_size), given_local, given_offset, arguments)
        self._add(
            Call(
                *(number, name, phase, origin, len(tuple(global_size)), _padded(size, 1), local, offset, arguments),
                *(alone, f"{label}, {problems[0]}" if problems else ""),
            )
        )
        self._count = number

    def fill(self, to: Any, value: np.generic, *, offset: int = 0, size: int | None = None) -> None:
        """Record that a buffer is filled.

        Parameters
        ----------
        to : pyopencl.Buffer or pyopencl.array.Array
        value : NumPy scalar
            Of 1, 2, 4, 8 or 16 bytes.
        offset, size : int, optional
            The part of the buffer in bytes; all of the buffer or the array by default.

        Raises
        ------
        LaunchError
            There is no such part, or the value is not a NumPy scalar.
        """
        self._check_open()
        self._add(memory.fill(self._count + 1, self.queue.device, to, value, offset, size))
        self._count += 1

    def copy(
        self, to: Any, source: Any, *, to_offset: int = 0, source_offset: int = 0, size: int | None = None
    ) -> None:
        """Record that a buffer is copied to another.

        Parameters
        ----------
        to, source : pyopencl.Buffer or pyopencl.array.Array
        to_offset, source_offset, size : int, optional
            The parts of the buffers in bytes; all of `source` by default.

        Raises
        ------
        LaunchError
            There are no such parts, or both are in one buffer.
        """
        self._check_open()
        self._add(memory.copy(self._count + 1, self.queue.device, to, source, (to_offset, source_offset), size))
        self._count += 1

    @property
    def _loops(self) -> list[Repetition]:
        return [step for step in self._around if isinstance(step, Repetition)]

    @property
    def _around(self) -> list[Step]:
        """The loops and conditions that are being recorded."""
        return [body[-1] for body in self._open[:-1]]

    def _add(self, step: Step) -> None:
        self._open[-1].append(step)

    def _check_open(self) -> None:
        if self._player is not None:
            raise LaunchError(_STEPS_ALIVE)

    @contextmanager
    def repeat(self, turns: int) -> Iterator[Turn]:
        """Record steps that are repeated, in a `with` block.

        Parameters
        ----------
        turns : int
            How often; the steps are left out if it is 0.

        Returns
        -------
        Turn
            The number of the turn, from 0, for arguments of steps.

        Raises
        ------
        LaunchError
            `turns` is not such a number.
        """
        self._check_open()
        loop = Repetition(_turns("repeat()", turns))
        try:
            with self._block(loop):
                yield Turn(loop)
        finally:
            if not loop.turns or not loop.body:
                self._open[-1].remove(loop)

    @contextmanager
    def while_(
        self, flag: Any, *, offset: int = 0, size: int | None = None, limit: int = _USUAL_LIMIT
    ) -> Iterator[Turn]:
        """Record steps that are repeated while a word in a buffer is not 0, in a `with` block.

        The word is read before each turn, also the first.

        Parameters
        ----------
        flag : pyopencl.Buffer or pyopencl.array.Array
            The buffer of the word.
        offset : int, optional
            Bytes before the word.
        size : int, optional
            Bytes of the word: 1, 2 or 4. An array's elements by default, or 4.
        limit : int, optional
            Turns after which `Launch.wait` raises an `Error`.

        Returns
        -------
        Turn

        Raises
        ------
        LaunchError
            There is no such word.
        """
        self._check_open()
        loop = Repetition(_turns("while_()'s limit", limit), _flag("while_()", flag, offset, size), self._count + 1)
        with self._block(loop):
            yield Turn(loop)

    @contextmanager
    def if_(self, flag: Any, *, offset: int = 0, size: int | None = None) -> Iterator[None]:
        """Record steps that run if a word in a buffer is not 0, in a `with` block.

        The parameters are those of `while_`.
        """
        self._check_open()
        with self._block(Conditional(_flag("if_()", flag, offset, size))):
            yield

    @contextmanager
    def _block(self, step: Repetition | Conditional) -> Iterator[None]:
        self._add(step)
        self._open.append(step.body)
        try:
            yield
        finally:
            self._open.pop()

    def launch(self, *, fused: bool | None = None, command_buffers: bool = False) -> Launch:
        """Run the recorded steps; can be called again.

        Parameters
        ----------
        fused : bool, optional
            True runs them in one kernel, False as one launch each. By default, the first launches do each of the ways that
            the device has in turns and are timed, and later ones do what was fastest.
        command_buffers : bool, optional
            Run them as command buffers of `cl_khr_command_buffer`: launches between two flags are enqueued as one.

        Returns
        -------
        Launch

        Raises
        ------
        UnsupportedFeatureError
            A step cannot be a part of one kernel. The message names the step, its kernel and the line. Or the device or the
            steps cannot have command buffers, and they are asked for; the message says why.
        BuildError
            The driver refused the kernel.
        LaunchError
            Nothing is recorded, a `with` block is open, or command buffers in one kernel are asked for.
        """
        if command_buffers and fused:
            raise LaunchError(
                "steps are one kernel or command buffers: pass fused=True or command_buffers=True, not both"
            )
        return self._played().launch(fused=fused, command_buffers=command_buffers)

    def explain(self) -> str:
        """Return how the steps are run, and why: kernels, barriers, how each step's work-items are run, and measured times."""
        return self._played().explain()

    def _played(self) -> Player:
        if len(self._open) > 1:
            raise LaunchError("the steps are launched in a with block of their own: end it first")
        if self._player is None:
            if not self._count:
                raise LaunchError("no steps are recorded: call steps(kernel, global_size, local_size, *args) first")
            self._player = Player(self.queue, self._steps)
        return self._player


def _size(label: str, what: str, given: Any) -> tuple[int, ...]:
    try:
        size = tuple(index(one) for one in given)
    except TypeError:
        size = ()
    if not 1 <= len(size) <= 3 or not all(0 < one < _MOST for one in size):
        raise LaunchError(f"{label}: the {what} must be 1 to 3 integers above 0, not {shortened(given)}")
    if prod(size) > _MOST_ITEMS:
        raise LaunchError(f"{label}: the {what} {size} is above {_MOST_ITEMS} work-items: launch it in parts")
    return size


def _turns(what: str, given: Any) -> int:
    """How many turns a caller allows."""
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or not 0 <= given < _MOST:
        raise LaunchError(f"{what} takes an integer from 0 to {_MOST - 1}, not {shortened(given)}")
    return int(given)


def _padded(size: Sequence[int], value: int) -> Size:
    made = (*size, value, value)
    return made[0], made[1], made[2]


def _offset(label: str, size: Sequence[int], given: Any) -> Size:
    try:
        offset = tuple(index(one) for one in given)
    except TypeError:
        offset = ()
    if len(offset) != len(size) or not all(0 <= one < _MOST for one in offset):
        raise LaunchError(
            f"{label}: the global offset must have {len(size)} integers of at least 0, not {shortened(given)}"
        )
    return _padded(offset, 0)


def _local(
    label: str, phase: Phase, size: tuple[int, ...], given: Any, device: cl.Device, origin: Origin
) -> Size | None:
    """The local size of a launch; None where nothing depends on it."""
    if given is None:
        if phase.required is not None:
            given = phase.required[: len(size)]
        elif not (phase.meets or phase.asks_local):
            return None
        else:
            given = [_divisor(size[0]), *[1 for _ in size[1:]]]
    local = _size(label, "local size", given)
    if len(local) != len(size):
        raise LaunchError(f"{label}: the local size {local} and the global size {size} differ in their dimensions")
    if phase.required is not None and _padded(local, 1) != phase.required:
        raise LaunchError(f"{label} requires the local size {phase.required} (reqd_work_group_size), not {local}")
    most = device.max_work_group_size
    if local[0] * _padded(local, 1)[1] * _padded(local, 1)[2] > most:
        raise LaunchError(f"{label}: the local size {local} is above the {most} work-items of {device.name.strip()}")
    is_uniform = all(one % other == 0 for one, other in zip(size, local, strict=True))
    if not is_uniform and (phase.meets or not _may_differ(origin)):
        raise LaunchError(f"{label}: the global size {size} is not a multiple of the local size {local}")
    return _padded(local, 1)


def _may_differ(origin: Origin) -> bool:
    """Whether the last work-groups may be smaller."""
    return any(one in {"-cl-std=CL2.0", "-cl-std=CL3.0"} for one in origin.options)


def _divisor(size: int) -> int:
    return next(one for one in range(min(size, _USUAL_ITEMS), 0, -1) if size % one == 0)


def _flag(label: str, flag: Any, offset: int, size: int | None) -> Flag:
    buffer = buffer_of(f"{label}: the flag", flag)
    if size is None:
        dtype = getattr(flag, "dtype", None)
        size = 4 if dtype is None else dtype.itemsize
    if buffer.memory is None or size not in {1, 2, 4} or offset % size or not 0 <= offset <= buffer.memory.size - size:
        raise LaunchError(f"{label}: a flag is a word of 1, 2 or 4 bytes in a buffer, at a multiple of its size")
    return Flag(buffer, offset, size)
