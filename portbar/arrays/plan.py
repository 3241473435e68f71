"""Plans of calls on arrays: for one request on one queue, the compiled kernel, its sizes and the arguments that stay."""

from __future__ import annotations

import os
import re
import weakref
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import field
from functools import partial
from typing import Any, Final

import numpy as np
import pyopencl as cl

from portbar.arrays.source import Source, without_whole
from portbar.backends.profile import DeviceProfile
from portbar.choices.profile import profile_of, reported
from portbar.choices.strategy import VARIABLE, choose
from portbar.device import quirks
from portbar.device.facts import DeviceFacts
from portbar.errors import BuildError, UnsupportedFeatureError
from portbar.launching.build import build_options, compile_program
from portbar.launching.queues import Order, UntilEnd, life_of
from portbar.locks import Lock
from portbar.primitives.reduction.code import extensions_for
from portbar.primitives.reduction.types import Type, scalars_in
from portbar.primitives.strategy import Strategy
from portbar.records import remembered
from portbar.records.dataclass import dataclass

#: Launches after which words of tiles are cleared; each holds an epoch and one more bit.
MOST_EPOCHS: Final = (1 << 31) - 1

#: Programs of a context that are kept.
_MOST_PROGRAMS: Final = 512
#: Contexts whose programs are kept when no queue of theirs lives.
_MOST_CONTEXTS: Final = 4
#: Queues for which anything is kept.
_MOST_QUEUES: Final = 64

#: A queue keeps at most this part of its device's memory from one call to the next.
_KEPT_PART: Final = 16


class Programs:
    """The programs that were compiled for one context; its queues share them."""

    def __init__(self, context: cl.Context) -> None:
        # A queue may not keep its context alive: the effect CONTEXTS_LOST.
        self.context = context
        self._known: OrderedDict[tuple[cl.Device, str, tuple[str, ...]], cl.Program] = OrderedDict()
        #: By all that a text depends on. Equal is not the same: a neutral element may be 0.0 or -0.0.
        self._by_job: OrderedDict[tuple[cl.Device, Strategy, str], cl.Program] = OrderedDict()

    def compiled(self, device: cl.Device, strategy: Strategy, job: Source) -> cl.Program:
        """The program of a job, compiled unless it was before. The caller holds the module's lock."""
        asked = (device, strategy, repr(job))
        program = self._by_job.get(asked)
        if program is None:
            text = remembered.text_of((job, strategy), partial(_text_of, job, strategy))
            key = (device, text, build_options(strategy, ()))
            program = self._known.get(key)
            if program is None:
                program = self._known[key] = compile_program(self.context, *key, remember=True)
            self._by_job[asked] = program
            for known in (self._known, self._by_job):
                while len(known) > _MOST_PROGRAMS:
                    known.popitem(last=False)
        self._by_job.move_to_end(asked)
        return program


def _text_of(job: Source, strategy: Strategy) -> str:
    from portbar.primitives.headers import resolve_includes  # noqa: PLC0415 (a remembered text does without)

    return resolve_includes(job.text(strategy), strategy, name=f"{job.kernel}.cl", is_own=True)


@dataclass(frozen=True)
class Memory:
    """Memory of a queue's state that a kernel takes: its name, its use, and how many bytes it has at least."""

    name: str
    size: int
    #: "cleared": held zeros when it was made; "room": may hold anything; "words": of tiles, each with a launch's epoch, or 0.
    use: str = "cleared"


class QueueMemory:
    """Memory that the launches on one queue share: counters, which each launch leaves at zero, and what groups found.

    Launches never overlap: `order` sees to it.
    """

    def __init__(self, queue: cl.CommandQueue, programs: Programs) -> None:
        self.queue, self.programs = queue, programs
        self.context = programs.context
        self.lock = Lock()
        self.order = Order(queue)
        self._buffers: dict[str, cl.Buffer] = {}
        #: The names of buffers that may hold anything, and of words of tiles.
        self._rooms: set[str] = set()
        self._words: set[str] = set()
        #: By program, name, and the places of arguments in shared virtual memory.
        self._bounds: OrderedDict[tuple[cl.Program, str, tuple[int, ...]], Bound] = OrderedDict()
        self._has_grown = False
        self._most_bytes = queue.device.global_mem_size // _KEPT_PART
        self._epoch = 0
        #: Sorts so far: each counts in the other half of its memory.
        self.sorts = 0
        #: Whether the last count of a sort, which clears the other half, is not known to be in the queue.
        self.count_in_doubt = False
        #: That count, if it waited for events: where they fail, it never runs.
        self.count_waited: cl.Event | None = None

    def cleared(self, name: str, size: int) -> cl.Buffer:
        """A buffer of at least `size` bytes that held zeros when it was made."""
        found = self._buffers.get(name)
        if found is None or found.size < size:
            zeros = np.zeros(max(256, 1 << max(0, size - 1).bit_length()), np.uint8)
            flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
            found = self._keep(name, cl.Buffer(self.context, flags, hostbuf=zeros))
        return found

    def room(self, name: str, size: int) -> cl.Buffer:
        """A buffer of at least `size` bytes that may hold anything."""
        found = self._buffers.get(name)
        if found is None or found.size < size:
            self._rooms.add(name)
            found = self._keep(name, cl.Buffer(self.context, cl.mem_flags.READ_WRITE, max(256, size)))
        return found

    def taken(self, memory: Memory) -> cl.Buffer:
        """The buffer that a kernel takes."""
        if memory.use == "words":
            self._words.add(memory.name)
        return (self.room if memory.use == "room" else self.cleared)(memory.name, memory.size)

    def _keep(self, name: str, buffer: cl.Buffer) -> cl.Buffer:
        self._has_grown = True
        before = self._buffers.get(name)
        self._buffers[name] = buffer
        if before is not None:
            self._forget_kernels_with(before)
        return buffer

    def _forget_kernels_with(self, buffer: cl.Buffer) -> None:
        """Give up the kernels that have a buffer which is no longer used: they would keep its memory."""
        with self.lock:
            for key, bound in list(self._bounds.items()):
                if any(value is buffer for value in bound.last.values()):
                    del self._bounds[key]

    def trim(self) -> None:
        """Give up memory that may hold anything, the largest first, where more is kept than a queue should.

        OpenCL frees it once the commands that use it have ended.
        """
        if not self._has_grown:
            return
        with self.lock:
            sizes = {name: buffer.size for name, buffer in self._buffers.items()}
            over = sum(sizes.values()) - self._most_bytes
            for name in sorted(self._rooms & sizes.keys(), key=sizes.__getitem__, reverse=True):
                if over > 0:
                    self._forget_kernels_with(self._buffers.pop(name))
                    over -= sizes[name]
            self._has_grown = False

    def bound(self, program: cl.Program, name: str, pointers: tuple[int, ...]) -> Bound:
        """A kernel with the arguments that it got last. The caller holds the lock.

        A kernel may take no buffer where a pointer to shared virtual memory has been: the effect POINTERS_STAY.
        """
        key = (program, name, pointers)
        found = self._bounds.get(key)
        if found is None:
            found = self._bounds[key] = Bound(cl.Kernel(program, name))
            while len(self._bounds) > _MOST_PROGRAMS:
                self._bounds.popitem(last=False)
        self._bounds.move_to_end(key)
        return found

    def next_epoch(self) -> int:
        """A number from 1 on that no words of tiles hold: they are cleared when numbers begin again."""
        with self.lock:
            if self._epoch == MOST_EPOCHS:
                for name in self._words & self._buffers.keys():
                    self.order.clear(self.queue, self._buffers[name], self._buffers[name].size)
                self._epoch = 0
            self._epoch += 1
            return self._epoch


@dataclass
class Kept:
    """All that is kept for a queue: its state, and for each kind of call what is known of requests."""

    state: QueueMemory
    requests: dict[str, OrderedDict[Any, Any]] = field(default_factory=dict)
    #: Facts of the device, and of the one that it is a part of.
    facts: tuple[DeviceFacts, DeviceFacts | None] | None = None
    #: The choices for the device, after what they follow from.
    chosen: tuple[Any, Strategy] | None = None


class Queues:
    """All that is kept for queues, until the caller's objects of one are gone, or many others were used since."""

    def __init__(self) -> None:
        #: Held while anything is made: a queue has one state only.
        self.lock = Lock()
        self._kept: OrderedDict[int, Kept] = OrderedDict()
        self._until_end = UntilEnd(self, Queues._forget)
        self._programs: weakref.WeakValueDictionary[int, Programs] = weakref.WeakValueDictionary()
        self._recent: deque[Programs] = deque(maxlen=_MOST_CONTEXTS)

    def __call__(self, queue: cl.CommandQueue) -> Kept:
        """All that is kept for a queue."""
        life = life_of(queue)
        with self.lock:
            kept = self._kept.get(life.pointer)
            if kept is None:
                self._until_end.watch(life)
                kept = self._kept[life.pointer] = Kept(QueueMemory(life.queue, self._programs_of(queue.context)))
                while len(self._kept) > _MOST_QUEUES:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(life.pointer)
        return kept

    def _programs_of(self, context: cl.Context) -> Programs:
        programs = self._programs.get(context.int_ptr)
        if programs is None:
            programs = self._programs[context.int_ptr] = Programs(context)
        if programs not in self._recent:
            self._recent.append(programs)
        return programs

    def _forget(self, pointer: int) -> None:
        self._kept.pop(pointer, None)


QUEUES: Final = Queues()


def state_of(queue: cl.CommandQueue) -> QueueMemory:
    """The state of a queue."""
    return QUEUES(queue).state


@dataclass(eq=False)
class Bound:
    """A kernel of a state's, and the arguments that it has; plans of other sizes share it.

    Its first arguments are, for each array, buffer and offset; then for each output buffer, offset and, where asked for, the
    initial value; then a plan's own.
    """

    kernel: cl.Kernel
    #: The numbers and the state's memory among the arguments, by their places.
    last: dict[int, Any] = field(default_factory=dict)
    #: The plan whose own arguments these are. Where the state gives up memory, it gives up the kernels that have it, too.
    holder: Plan | None = None

    def __post_init__(self) -> None:
        """Ask the driver once."""
        self.count = int(self.kernel.num_args)

    def number(self, place: int, value: Any) -> None:
        """Give the kernel a number, unless it has it: numbers cost ten times what buffers do."""
        if self.last.get(place) != value:
            # An exception may come between the two: then nothing is known of the argument.
            self.last.pop(place, None)
            self.kernel.set_arg(place, np.uint64(value) if isinstance(value, int) else value)
            self.last[place] = value

    def memory(self, place: int, buffer: cl.Buffer) -> None:
        """Give the kernel memory of the state, unless it has it."""
        if self.last.get(place) is not buffer:
            self.last.pop(place, None)
            self.kernel.set_arg(place, buffer)
            self.last[place] = buffer


@dataclass
class Plan:
    """A kernel with the sizes and arguments of one request on one queue."""

    program: cl.Program
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None
    state: QueueMemory
    job: Source
    #: The last arguments: numbers, and memory of the state, of which there may be more by and by.
    held: Sequence[Any]

    def launch(self, args: Sequence[Any], wait_for: list[cl.Event] | None) -> cl.Event:
        """Enqueue the kernel with the arguments that change."""
        state = self.state
        with state.lock:
            pointers = tuple([place for place, value in enumerate(args) if isinstance(value, cl.SVMPointer)])
            bound = state.bound(self.program, self.job.kernel, pointers)
            if bound.holder is not self:
                bound.holder = None
                for place, value in enumerate(self.held, bound.count - len(self.held)):
                    if isinstance(value, Memory):
                        bound.memory(place, state.taken(value))
                    else:
                        bound.number(place, value)
                bound.holder = self
            for place, value in enumerate(args):
                if isinstance(value, int | bytes):
                    bound.number(place, value)
                else:
                    bound.kernel.set_arg(place, value)
            before = state.order.begin(wait_for)
            event = cl.enqueue_nd_range_kernel(
                state.queue, bound.kernel, self.global_size, self.local_size, None, before
            )
            state.order.add(event, wait_for)
        return event


def choices_for(queue: cl.CommandQueue) -> tuple[DeviceProfile, Strategy]:
    """The profile of a queue's device, and portbar's choices for it, which are made again only when they may differ."""
    kept = QUEUES(queue)
    if kept.facts is None:
        kept.facts = reported(queue.device)
    profile = profile_of(*kept.facts)
    asked = (profile, os.environ.get(VARIABLE), quirks.effects_of(profile.facts))
    if kept.chosen is None or kept.chosen[0] != asked:
        kept.chosen = (asked, choose(profile))
    return profile, kept.chosen[1]


def check_types(device: cl.Device, profile: DeviceProfile, kinds: Sequence[Type]) -> tuple[str, ...]:
    """The extensions that types need."""
    names = {scalar.c for kind in kinds for scalar in scalars_in(kind)}
    for name, has in (("double", profile.facts.fp64), ("half", profile.facts.fp16)):
        if name in names and not has:
            raise UnsupportedFeatureError(
                f"{device.name.strip()} does not support {name}; convert the array to float32, or use another device"
            )
    return extensions_for(kinds)


def plan_of(
    queue: cl.CommandQueue,
    strategy: Strategy,
    job: Source,
    global_size: tuple[int, ...],
    local_size: tuple[int, ...] | None,
    kept: Sequence[Any],
) -> Plan:
    """Compile a kernel, unless it was compiled before."""
    return Plan(_program(queue, strategy, job), global_size, local_size, state_of(queue), job, kept)


def _program(queue: cl.CommandQueue, strategy: Strategy, job: Source) -> cl.Program:
    programs, device = state_of(queue).programs, queue.device
    try:
        with QUEUES.lock:
            return programs.compiled(device, strategy, job)
    except BuildError as error:
        raise _explained(programs.context, device, strategy, job, error) from error


def _compiles(context: cl.Context, device: cl.Device, strategy: Strategy, text: str) -> bool:
    try:
        compile_program(context, device, text, build_options(strategy, ()))
    except BuildError:
        return False
    return True


def _cut_short(refused: BuildError, what: str, expression: str, device: cl.Device) -> BuildError:
    """The error of a map whose fractions an array of integers would lose."""
    return BuildError(
        f"{what}, {expression!r}, gives floating-point numbers on {device.name.strip()}, and the result has the array's type, "
        "an integer, which would cut each of them: pass dtype=, such as dtype=np.float32, or convert them in the map, such as "
        "map='(int)(...)'",
        device=refused.device,
        options=refused.options,
        log=refused.log,
        source_path=refused.source_path,
    )


def _explained(
    context: cl.Context, device: cl.Device, strategy: Strategy, job: Source, error: BuildError
) -> BuildError:
    """The error of the expression that does not compile, or the one given where all of them do."""
    head = "\n".join([*(f"#pragma OPENCL EXTENSION {name} : enable" for name in job.extensions), *job.typedefs, ""])
    for what, expression, text in job.expressions():
        try:
            compile_program(context, device, head + text, build_options(strategy, ()))
        except BuildError as refused:
            plain = without_whole(head + text)
            if plain != head + text and _compiles(context, device, strategy, plain):
                return _cut_short(refused, what, expression, device)
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
