"""Recorded steps with each run of launches as one command buffer, which a driver enqueues faster than the launches."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import pyopencl as cl

from portbar.device import quirks
from portbar.device.facts import facts
from portbar.errors import UnsupportedFeatureError
from portbar.recording.khr_command_buffer import CommandBuffer, lack_of
from portbar.recording.steps import Call, Conditional, Opaque, Repetition, Step, StepValue, Turns, calls_in, steps_in

#: The most launches that are kept as commands.
_MOST: Final = 20_000
_PRINTF: Final = re.compile(r"\bprintf\b")


class Batch:
    """Launches without a question of the host between them."""

    def __init__(self) -> None:
        self._calls: list[tuple[Call, dict[Repetition, int]]] = []
        self._buffer: CommandBuffer | None = None

    def add(self, call: Call, turns: Turns) -> None:
        """Add a launch in one turn of the loops around it."""
        self._calls.append((call, dict(turns)))

    def record(self, queue: cl.CommandQueue) -> None:
        """Make the command buffer."""
        buffer = CommandBuffer(queue)
        kernels: dict[Any, cl.Kernel] = {}
        for call, turns in self._calls:
            key = call, *(turns[turn.loop] for turn in _turns_of(call))
            if key not in kernels:
                kernels[key] = call.alone.kernel(queue, turns)
            dimensions = call.dimensions
            local = None if call.local is None else call.local[:dimensions]
            offset = call.offset[:dimensions] if any(call.offset) else None
            buffer.add(kernels[key], call.size[:dimensions], local, offset)
        buffer.finish()
        self._buffer = buffer
        # Its launches are in the buffer now.
        self._calls.clear()

    def enqueue(self, _: cl.CommandQueue, wait_for: Sequence[cl.Event] | None, __: Turns) -> cl.Event:
        """Enqueue the launches."""
        assert self._buffer is not None
        return self._buffer.enqueue(wait_for)


def _turns_of(call: Call) -> list[Any]:
    """The values of a launch that change from turn to turn."""
    return [one.turn for one in call.arguments if isinstance(one, StepValue) and one.turn is not None]


def batched(queue: cl.CommandQueue, steps: Sequence[Step]) -> list[Step | Batch]:
    """Steps with batches in place of launches. Loops whose turns are known are unrolled.

    Raises
    ------
    UnsupportedFeatureError
        The queue or the steps cannot have command buffers. The message says why.
    Error
        The driver refused a command buffer.
    """
    launches = sum(turns for step, turns in steps_in(steps) if isinstance(step, Call))
    if launches > _MOST:
        raise UnsupportedFeatureError(f"the steps are {launches} launches; command buffers are made of {_MOST} at most")
    calls = calls_in(steps)
    flagged = {step for step, _ in steps_in(steps) if isinstance(step, Repetition) and step.flag is not None}
    for call in calls:
        if any(turn.loop in flagged for turn in _turns_of(call)):
            raise UnsupportedFeatureError(
                f"{call} takes the turn of a loop that a flag ends, which no command buffer has"
            )
    if any(isinstance(one, Opaque) and one.type_name == "sampler_t" for call in calls for one in call.arguments):
        fault = quirks.with_effect(quirks.SAMPLERS_LAUNCHED, facts(queue.device))
        if fault is not None:
            raise UnsupportedFeatureError(f"the steps take samplers, and on this device {fault.fault}")
    prints = any(call.origin is not None and _PRINTF.search(call.origin.text) for call in calls)
    if lack := lack_of(queue, prints=prints):
        raise UnsupportedFeatureError(lack)
    made: list[Step | Batch] = []
    batches: list[Batch] = []
    _batch(steps, {}, made, batches)
    for batch in batches:
        batch.record(queue)
    return made


def _batch(steps: Sequence[Step], turns: dict[Repetition, int], made: list[Any], batches: list[Batch]) -> None:
    for step in steps:
        if isinstance(step, Call):
            if not made or not isinstance(made[-1], Batch):
                made.append(Batch())
                batches.append(made[-1])
            made[-1].add(step, turns)
        elif isinstance(step, Repetition) and step.flag is None:
            for turn in range(step.turns):
                _batch(step.body, {**turns, step: turn}, made, batches)
        else:
            body: list[Any] = []
            _batch(step.body, turns, body, batches)
            made.append(
                Conditional(step.flag, body)
                if isinstance(step, Conditional)
                else Repetition(step.turns, step.flag, step.number, body)
            )
