"""Runs recorded steps: in one kernel, as command buffers, or as one launch each, whichever was measured to be fastest."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np
import pyopencl as cl

from portbar.choices.profile import describe
from portbar.choices.strategy import choose
from portbar.device import quirks
from portbar.errors import Error, UnsupportedFeatureError
from portbar.launching.launch import Launch
from portbar.launching.program import Program
from portbar.locks import Lock
from portbar.primitives.run_kernels.phases import Phases
from portbar.recording.batches import batched
from portbar.recording.dependences import Waits, access_of, barriers_of, launches_of
from portbar.recording.driver import Driver, MemoryObjects
from portbar.recording.memory import own_origin
from portbar.recording.origin import Origin
from portbar.recording.relaunch import Relauncher
from portbar.recording.steps import Buffer, Call, Flag, Opaque, Repetition, Step, calls_in, steps_in
from portbar.recording.table import StepTable

#: Launches of each way before one is chosen. The first, which also compiles, does not count.
_TRIALS: Final = 4
#: Pointers that the kernel takes of its own.
_OWN_ARGUMENTS: Final = 8
#: A way that takes this many times as long as another is not tried again.
_HOPELESS: Final = 4.0
#: The ways, in the order in which they are tried, and what each does.
_KERNEL: Final = "one kernel"
_BUFFERS: Final = "command buffers"
_LAUNCHES: Final = "one launch per step"
_WAYS: Final = {_KERNEL: "runs one kernel", _BUFFERS: "enqueues command buffers", _LAUNCHES: "launches each step"}
#: A build option for a version of OpenCL C.
_VERSION: Final = re.compile(r"-cl-std=CL(\d)\.(\d)")
_OPENCL: Final = re.compile(r"OpenCL (\d+)\.(\d+)")


class RecordedLaunch(Launch):
    """A launch of recorded steps."""

    _recorded: Launch | None = None
    _check: _Check | None = None

    @classmethod
    def of(cls, launch: Launch, check: _Check | None) -> RecordedLaunch:
        """A launch of the kernel that replays steps."""
        made = cls(launch.event, launch._label)
        made.groups = launch.groups
        made._recorded, made._check = launch, check
        return made

    @property
    def num_groups(self) -> int:
        """Number of participating work-groups; waits for the launch. 0 if the steps were launched one by one."""
        return self._recorded.num_groups if self._recorded is not None else 0

    def wait(self) -> None:
        """Wait until all steps are complete, and check that barriers held and loops ended.

        Raises
        ------
        BarrierTimeoutError
            As for `Launch.wait`.
        Error
            The flag of a loop did not fall within its limit of turns.
        """
        if self._recorded is None:
            self.event.wait()
        else:
            self._recorded.wait()
        if self._check is not None:
            self._check()


class _Check:
    """Looks whether a loop with a flag came to its limit."""

    def __init__(
        self, queue: cl.CommandQueue, status: cl.Buffer | None, endless: Repetition | None, loops: Sequence[Repetition]
    ) -> None:
        self._queue, self._status, self._endless, self._loops = queue, status, endless, loops

    def __call__(self) -> None:
        endless = self._endless
        if self._status is not None:
            found = np.zeros(1, np.uint32)
            cl.enqueue_copy(self._queue, found, self._status)
            endless = next((loop for loop in self._loops if loop.number + 1 == found[0]), None)
        if endless is not None:
            raise Error(
                f"the loop before step {endless.number} reached its limit of {endless.turns} turns, and its flag is still "
                "set: let a step in it clear the flag, or pass a larger limit to while_()"
            )


def suits_loops(device: cl.Device) -> bool:
    """Whether a work-item should run many of a step: threads of the host do, unless the device ends loops early."""
    profile = describe(device)
    return profile.units.loops_in_pieces and profile.loop_limit is None


def newer(options: Sequence[str], device: cl.Device) -> str:
    """The option for a version of OpenCL C above the device's version of OpenCL; empty without one."""
    known = _OPENCL.match(device.version)
    for option in options:
        asked = _VERSION.fullmatch(option)
        if asked and known and (int(asked[1]), int(asked[2])) > (int(known[1]), int(known[2])):
            return option
    return ""


class Player:
    """The recorded steps of one queue.

    Parameters
    ----------
    queue : pyopencl.CommandQueue
    steps : list of Step
    """

    def __init__(self, queue: cl.CommandQueue, steps: Sequence[Step]) -> None:
        self.queue, self._steps = queue, steps
        self._calls = calls_in(steps)
        self._waits = Waits(steps)
        self._relauncher = Relauncher(queue, steps)
        self._problem = self._find_problem()
        self._chosen: str | None = None
        limit = describe(queue.device).loop_limit
        #: Why one kernel is not what this device should run.
        self._doubt = "" if limit is None else f"the device ends loops silently after {limit} iterations"

    def _find_problem(self) -> str:
        """Why the steps cannot be one kernel; empty if they can."""
        for call in self._calls:
            if call.problem:
                return call.problem
        met = [call for call in self._calls if call.phase is not None and call.phase.meets and call.local]
        for call in met:
            first = met[0]
            if _items(call) != _items(first):
                return (
                    f"{call}: its work-groups have {_items(call)} work-items, those of step {first.number} (kernel "
                    f"{first.name!r}) {_items(first)}, and both kernels have barriers or local memory"
                )
        own = [call for call in self._calls if call.origin is not own_origin()]
        for call in own[1:]:
            assert call.origin is not None
            assert own[0].origin is not None
            if set(call.origin.options) != set(own[0].origin.options):
                return (
                    f"{call}: its program is built with {' '.join(call.origin.options) or 'no options'}, that of step "
                    f"{own[0].number} with {' '.join(own[0].origin.options) or 'none'}: build both with the same"
                )
        if own and own[0].origin is not None and (above := newer(own[0].origin.options, self.queue.device)):
            return (
                f"{own[0]}: its program is built with {above}, which is above the device's version, and the kernel that "
                "replays the steps would need all of it"
            )
        return self._too_many() or self._changed()

    def _too_many(self) -> str:
        """The step that needs more arguments than a kernel can have; empty if none does."""
        device = self.queue.device
        most = {"image": device.max_read_image_args, "sampler": device.max_samplers}
        buffers: set[int] = set()
        opaque: dict[str, set[Any]] = {kind: set() for kind in most}
        for call in self._calls:
            assert call.phase is not None
            for parameter, argument in zip(call.phase.parameters, call.arguments, strict=True):
                if isinstance(argument, Buffer):
                    buffers.add(id(argument.memory))
                elif isinstance(argument, Opaque):
                    opaque[parameter.kind].add(argument.key)
                    count = len(opaque[parameter.kind])
                    if count > most[parameter.kind]:
                        return (
                            f"{call}, {call.phase.place}: with {parameter.name!r} the steps use {count} {parameter.kind}s, "
                            f"and a kernel of {device.name.strip()} takes {most[parameter.kind]}: record them in parts"
                        )
        count = len(buffers) + sum(map(len, opaque.values()))
        if 8 * (count + _OWN_ARGUMENTS) > device.max_parameter_size:
            more = "".join(f" and {len(found)} {kind}s" for kind, found in opaque.items() if found)
            return (
                f"the steps use {len(buffers)} buffers{more}, more than a kernel of {device.name.strip()} can take as "
                "arguments: record them in parts"
            )
        return ""

    def _changed(self) -> str:
        """The step that reads what another writes in a way that may give old values; empty if none does."""
        written = {root for call in self._calls for root in access_of(call).writes}
        for call in self._calls:
            assert call.phase is not None
            for parameter, argument in zip(call.phase.parameters, call.arguments, strict=True):
                if isinstance(argument, Opaque) and argument.root in written:
                    return (
                        f"{call}, {call.phase.place}: a step writes the buffer of the image {parameter.name!r}, so that the "
                        "device may read old values: read the buffer"
                    )
                if parameter.kind == "constant" and isinstance(argument, Buffer) and argument.root in written:
                    return (
                        f"{call}, {call.phase.place}: a step writes the buffer of {parameter.name!r}, which is `constant`, so "
                        "that the device may read old values: declare it as const global"
                    )
        return ""

    def launch(self, *, fused: bool | None = None, command_buffers: bool = False) -> Launch:
        """Run the steps."""
        if command_buffers:
            if isinstance(self._batched, str):
                raise UnsupportedFeatureError(f"no command buffers: {self._batched}")
            return self._launched(self._batched)
        if fused is False:
            return self._launched(self._relauncher)
        if self._problem:
            raise UnsupportedFeatureError(f"{self._problem}. Or run the steps as launches: launch(fused=False)")
        if fused is True:
            return self._in_one()
        if self._doubt:
            return self._launched(self._relauncher)
        # Each launch comes here, and a choice stays.
        self._chosen = self._chosen or self._choice
        if self._chosen is not None:
            return self._by(self._chosen)
        way = min(self._open_ways(), key=lambda one: len(self._times[one]))
        self.queue.finish()
        begin = time.perf_counter()
        launch = self._by(way)
        launch.wait()
        self._times[way].append(time.perf_counter() - begin)
        return launch

    @property
    def _choice(self) -> str | None:
        """The fastest way; None as long as one is to be measured."""
        return None if self._open_ways() else min(self._best, key=lambda way: self._best[way])

    @property
    def _best(self) -> dict[str, float]:
        """The least seconds of each way, of those that were measured."""
        return {way: min(times[1:]) for way, times in self._times.items() if times[1:] and way in self._ways}

    def _open_ways(self) -> list[str]:
        """The ways that are to be measured again."""
        best = self._best
        least = min(best.values(), default=0.0)
        return [
            way
            for way in self._ways
            if way not in best or (len(self._times[way]) < _TRIALS and best[way] < _HOPELESS * least)
        ]

    @cached_property
    def _ways(self) -> tuple[str, ...]:
        """The ways that the device has."""
        return tuple(way for way in _WAYS if way != _BUFFERS or not isinstance(self._batched, str))

    @cached_property
    def _batched(self) -> Relauncher | str:
        """Runs the steps as command buffers; or why they cannot be."""
        try:
            return Relauncher(self.queue, batched(self.queue, self._steps))
        except Error as error:
            return str(error)

    def _by(self, way: str) -> Launch:
        if way == _KERNEL:
            return self._in_one()
        return self._launched(
            self._batched if way == _BUFFERS and not isinstance(self._batched, str) else self._relauncher
        )

    @cached_property
    def _replay(self) -> _Replay:
        """The kernel of all steps; compiled at first need."""
        return _Replay(self.queue, self._steps, self._calls, self._waits)

    @property
    def _times(self) -> dict[str, list[float]]:
        """Seconds of launches of each way; of all recordings of the same work."""
        return self._replay.times

    def _in_one(self) -> Launch:
        return self._replay.launch()

    def _launched(self, relauncher: Relauncher) -> Launch:
        event = relauncher.run()
        made = RecordedLaunch(event, ("recorded steps", self.queue.device.name.strip()))
        if relauncher.endless is not None:
            made._check = _Check(self.queue, None, relauncher.endless, ())
        return made

    def explain(self) -> str:
        """How the steps are run, and why."""
        launches, barriers = launches_of(self._steps), barriers_of(self._steps, self._waits)
        lines = [f"{launches} launches on {self.queue.device.name.strip()}"]
        if self._problem:
            lines += [f"not one kernel: {self._problem}", "launch(fused=False) launches each step"]
            return "\n".join(lines)
        lines.append(f"in one kernel: {barriers} barriers")
        if self._doubt:
            # A driver that cannot run the kernel may not even compile it.
            lines.append(f"launch() launches each step, because {self._doubt}")
            return "\n".join(lines)
        lines += self._replay.described()
        for way, least in self._best.items():
            lines.append(f"{way}: {least * 1e3:.3g} ms, the best of {len(self._times[way]) - 1}")
        if isinstance(self._batched, str):
            lines.append(f"no command buffers: {self._batched}")
        chosen = self._choice
        lines.append(f"launch() {_WAYS[chosen] if chosen is not None else 'measures all ways in its first launches'}")
        return "\n".join(lines)


def _items(call: Call) -> int:
    assert call.local is not None
    return call.local[0] * call.local[1] * call.local[2]


def _all_items(call: Call) -> int:
    """The work-items of a launch, in whole work-groups."""
    local = call.local or (1, 1, 1)
    return math.prod(-(-size // one) * one for size, one in zip(call.size, local, strict=True))


class _Compiled:
    """A kernel that replays steps, and how long launches took, by their work."""

    def __init__(self, queue: cl.CommandQueue, text: str, options: Sequence[str]) -> None:
        self.kernel = Program(queue.context, text, options, devices=[queue.device]).kernel("portbar_replay")
        self.times: dict[Any, dict[str, list[float]]] = {}


#: Those in use. A key's context lives as long as its kernel.
_COMPILED: Final[WeakValueDictionary[Any, _Compiled]] = WeakValueDictionary()
_lock: Final = Lock()


def _compiled(queue: cl.CommandQueue, text: str, options: tuple[str, ...]) -> _Compiled:
    """The kernel of a text, which recordings with other buffers, sizes and numbers share."""
    key = queue.context.int_ptr, queue.device.int_ptr, text, options
    with _lock:
        known = _COMPILED.get(key)
    if known is None:
        known = _Compiled(queue, text, options)
        with _lock:
            known = _COMPILED.setdefault(key, known)
    return known


def _work_of(steps: Sequence[Step]) -> tuple[Any, ...]:
    """The work of steps, which takes their time: kernels, sizes and turns."""
    work: list[Any] = []
    for step in steps:
        if isinstance(step, Call):
            work.append((step.name, step.size, step.local))
        else:
            work.append((getattr(step, "turns", None), _work_of(step.body)))
    return tuple(work)


class _Replay:
    """The kernel that runs the steps."""

    def __init__(self, queue: cl.CommandQueue, steps: Sequence[Step], calls: Sequence[Call], waits: Waits) -> None:
        self._queue = queue
        flagged = [step for step, _ in steps_in(steps) if not isinstance(step, Call) and step.flag is not None]
        self._loops = [step for step in flagged if isinstance(step, Repetition)]
        flags = [step.flag for step in flagged if step.flag is not None]
        memory, self._memory = _memory_of(calls, flags)
        phases: dict[Origin, Phases] = {}
        for call in calls:
            assert call.origin is not None
            phases.setdefault(call.origin, call.origin.phases(queue.device))
        self._calls = calls
        by_rows = suits_loops(queue.device)
        by_vectors = quirks.has_effect(quirks.LOOPS_KEEP_VECTORS_OFF, describe(queue.device).facts)
        self._driver = Driver(calls, flags, memory, phases, by_rows=by_rows, by_vectors=by_vectors)
        table = StepTable(steps, waits, self._driver.numbers, memory.numbers)
        # Barriers make a GPU read global memory anew, which takes as long as a step. Its cache of constants keeps the table.
        room = 0 if by_rows or memory.constant else queue.device.max_constant_buffer_size // 2
        self.text = self._driver.text(table.depth, is_constant=table.words.nbytes <= room)
        options = next((origin.options for origin in phases if origin is not own_origin()), ())
        if choose(describe(queue.device)).capabilities.std is not None:
            # Barriers need the version of OpenCL C that portbar sets.
            options = tuple(option for option in options if not option.startswith("-cl-std="))
        self._compiled = _compiled(queue, self.text, options)
        self._kernel = self._compiled.kernel
        self.times = self._compiled.times.setdefault(_work_of(steps), {way: [] for way in _WAYS})
        local = self._driver.local
        self._local = self._kernel.suggested_local_size(queue) if local is None else local
        flags_of = cl.mem_flags
        #: Those of the largest step: more work-groups than they need would only make barriers slower.
        self._items = max(_all_items(call) for call in calls)
        self._table = cl.Buffer(queue.context, flags_of.READ_ONLY | flags_of.COPY_HOST_PTR, hostbuf=table.words)
        self._status = self._new_status()

    def _new_status(self) -> cl.Buffer:
        flags = cl.mem_flags
        return cl.Buffer(self._queue.context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=np.zeros(1, np.uint32))

    def launch(self) -> Launch:
        """Enqueue it."""
        # A later launch must not hide that this one came to a limit.
        status = self._new_status() if self._loops else self._status
        args = (self._table, status, *self._memory)
        launch = self._kernel(self._queue, None, self._local, *args, items=self._items)
        check = _Check(self._queue, status, None, self._loops) if self._loops else None
        return RecordedLaunch.of(launch, check)

    def described(self) -> list[str]:
        """How the work-items of each kernel are run."""
        lines: dict[str, None] = {}
        for call in self._calls:
            way = self._driver.way_of(call)
            if way.mode == "groups":
                how = f"work-groups of {_items(call)} work-items that meet"
            elif way.mode == "chunks":
                how = "work-items, in the work-groups of those that meet"
            elif way.mode == "rows":
                how = "loops over rows of work-items" + (
                    "" if way.vectorises else ", not vectorised: it has private arrays"
                )
            else:
                how = "work-items"
            lines[f"  kernel {call.name!r}: {how}"] = None
        return list(lines)


def _memory_of(calls: Sequence[Call], flags: Sequence[Flag]) -> tuple[MemoryObjects, list[Any]]:
    """The memory of steps, and the arguments that stand for it."""
    written = {root for call in calls for root in access_of(call).writes}
    objects: dict[int, Buffer] = {}
    constants: dict[int, Buffer] = {}
    opaque: dict[tuple[str, int], Opaque] = {}
    for call in calls:
        assert call.phase is not None
        for parameter, argument in zip(call.phase.parameters, call.arguments, strict=True):
            if isinstance(argument, Buffer) and argument.memory is not None:
                objects.setdefault(id(argument.memory), argument)
                if parameter.kind == "constant":
                    constants.setdefault(id(argument.memory), argument)
            elif isinstance(argument, Opaque):
                opaque.setdefault(argument.key, argument)
    for flag in flags:
        objects.setdefault(id(flag.buffer.memory), flag.buffer)
    numbers = {key: number for number, key in enumerate(objects)}
    only_read = frozenset(numbers[key] for key, buffer in objects.items() if buffer.root not in written)
    ordered = sorted(constants, key=lambda key: numbers[key])
    memory = MemoryObjects(
        numbers,
        only_read,
        frozenset(numbers[key] for key in constants),
        {key: number for number, key in enumerate(opaque)},
    )
    given = [*(one.memory for one in objects.values()), *(constants[key].memory for key in ordered)]
    return memory, [*given, *(one.handle for one in opaque.values())]
