"""Plans of calls on arrays: for one request on one queue, the compiled kernel, its sizes and the arguments that stay."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyopencl as cl

from portbar.arrays.source import Source
from portbar.choices.strategy import DeviceProfile
from portbar.errors import BuildError, UnsupportedFeatureError
from portbar.launching.build import build_options, compile_program
from portbar.launching.order import Order
from portbar.primitives.headers import resolve_includes
from portbar.primitives.reduction.code import extensions_for
from portbar.primitives.reduction.types import Type, scalars_in
from portbar.primitives.strategy import Strategy

#: Launches after which words of tiles are cleared; each holds an epoch and one more bit.
MOST_EPOCHS: Final = (1 << 31) - 1

_MOST_PROGRAMS: Final = 512
_MOST_STATES: Final = 64


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
        #: The last count of a sort, which clears the other half, if it waited for events: where they fail, it never runs.
        self.doubtful: cl.Event | None = None
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
                for words in self._tile_words:
                    self.order.clear(self.queue, words, words.size)
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


@dataclass
class Plan:
    """A kernel with the sizes and arguments of one request on one queue."""

    #: Used by this plan alone. Its first arguments are, for each array, buffer and offset; then for each output buffer,
    #: offset and, where asked for, the initial value. The others stay.
    kernel: cl.Kernel
    program: cl.Program
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None
    state: State
    job: Source
    held: Sequence[Any]
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
    """Compile a kernel, unless it was compiled before, and give it its last arguments."""
    program = _program(queue, strategy, job)
    return Plan(_kernel(program, job.kernel, kept), program, global_size, local_size, state_of(queue), job, kept)


def _kernel(program: cl.Program, name: str, kept: Sequence[Any]) -> cl.Kernel:
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
