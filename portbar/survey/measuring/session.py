"""A survey's step under way in its child process, and times of what a kernel repeats in a loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pyopencl as cl

from portbar.choices.profile import describe, stored_findings
from portbar.choices.strategy import DeviceProfile
from portbar.device import child, quirks
from portbar.device.addresses import DeviceAddress
from portbar.device.facts import device_key, facts
from portbar.device.findings import CACHE_KIND
from portbar.errors import Error, UnsupportedFeatureError
from portbar.launching.compiled import CompiledProgram
from portbar.launching.program import Program
from portbar.records import cache
from portbar.records.reading import NO_TIME, missing
from portbar.survey.measuring.rounds import (
    Budget,
    device_s,
    in_one_line,
    in_turns,
    profiled_queue,
    rounds_for,
    time_reading,
)

#: Seconds that one timed launch should take, and timed launches of each side.
_LAUNCH_S: Final = (0.001, 0.01)
_REPEATS: Final = (3, 9)

#: Seconds and rounds: one launch.
Launch = Callable[[int], float]


def context_of(payload: Mapping[str, Any]) -> cl.Context:
    """A context for the device; to be kept, since a queue does not keep its context alive on every runtime.

    Payload: `address`, and `findings` to put where `describe` looks, if nothing is there.
    """
    device = DeviceAddress.from_json(payload["address"]).resolve()
    reported = facts(device)
    if payload.get("findings") and stored_findings(reported) is None:
        # If the cache is not writable, the parent's findings are not available here.
        cache.store(CACHE_KIND, device_key(reported), payload["findings"])
    return cl.Context([device])


class Session:
    """A step under way: its device, its time, and its rows, which are reported as they come.

    The queue has time stamps if the device has them; `skipped` counts rows that there was no time for.
    """

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self.budget = Budget(float(payload["budget_s"]))
        self.quick = bool(payload.get("quick"))
        self.sizes: Sequence[int] = payload.get("local_sizes") or ()
        self.context = context_of(payload)
        self.queue = profiled_queue(cl.CommandQueue(self.context))
        self.profile = describe(self.queue.device)
        self.skipped = 0

    @property
    def late(self) -> bool:
        """Whether the time is spent."""
        return self.budget.left() <= 0

    def doing(self, what: str) -> None:
        """Report the next action, which may abort or hang."""
        child.progress({"doing": what})

    def row(self, row: Mapping[str, Any]) -> None:
        """Report a row."""
        readings = [value for value in row.values() if isinstance(value, dict)]
        self.skipped += any(reading.get("reason") == NO_TIME for reading in readings)
        child.progress({"row": row})

    def programs(
        self, primitive: str, source: str, unusable: Mapping[str, str], what: str, *, late: bool = True
    ) -> tuple[dict[str, Program], dict[str, dict[str, Any]]]:
        """Compile a source with each strategy of a primitive; with `late`, only one of them where the time is spent.

        `unusable` says of each why the device cannot use it, if so. Returned are the programs, and for the strategies
        without one the reading in place of their times.
        """
        programs: dict[str, Program] = {}
        refused: dict[str, dict[str, Any]] = {}
        for name, why in unusable.items():
            if why:
                refused[name] = missing("unsupported", why)
            elif late and programs and self.late:
                refused[name] = missing("skipped", NO_TIME)
            else:
                self.doing(f"compiling {what} {name}")
                try:
                    programs[name] = Program(self.context, source, strategy={primitive: name})
                except (Error, cl.Error) as error:
                    refused[name] = failure(error)
        return programs, refused


def failure(error: Exception, unsupported: str = "refused") -> dict[str, Any]:
    """The reading that stands for what failed."""
    return missing(unsupported if isinstance(error, UnsupportedFeatureError) else "error", in_one_line(error))


def largest_group(program: CompiledProgram, queue: cl.CommandQueue, name: str) -> int:
    """Most work-items that a work-group of a kernel can have."""
    device = queue.device
    if quirks.has_effect(quirks.UNDERSTATED_WORK_GROUP_SIZE, program.profile(device).facts):
        return int(device.max_work_group_size)
    kernel = cl.Kernel(program.built(device, program.strategy(device)), name)
    return int(kernel.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, device))


def possible_sizes(wanted: Sequence[int], profile: DeviceProfile, largest: int | None = None) -> list[int]:
    """The wanted local sizes, each cut to what is possible."""
    limit = largest or profile.facts.max_work_group_size or 1
    return sorted({min(size, limit) for size in wanted})


class TimedLoop:
    """A kernel `(global T *left, const uint rounds)` on one queue; `launch` runs it and checks what it left.

    T has 32 bits. `expected` gives, for a number of rounds, what each work-item leaves.
    """

    def __init__(
        self,
        queue: cl.CommandQueue,
        kernel: cl.Kernel,
        groups: int,
        local_size: int,
        dtype: Any,
        expected: Callable[[int], Any],
    ) -> None:
        self._queue, self._kernel = queue, kernel
        self._sizes = ((groups * local_size,), (local_size,))
        self._expected = expected
        self._values = np.empty(groups * local_size, dtype)
        self._left = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, self._values.nbytes)

    def launch(self, rounds: int) -> float:
        """Seconds that a launch of `rounds` rounds took; `Error` if it left wrong values."""
        queue, (total, local) = self._queue, self._sizes
        cl.enqueue_fill_buffer(queue, self._left, np.zeros(1, np.uint32), 0, self._values.nbytes)
        self._kernel.set_args(self._left, np.uint32(rounds))
        queue.finish()
        start = time.perf_counter()
        event = cl.enqueue_nd_range_kernel(queue, self._kernel, total, local)
        event.wait()
        wall = time.perf_counter() - start
        cl.enqueue_copy(queue, self._values, self._left)
        check(self._values, self._expected(rounds), rounds)
        return device_s(event, wall)


def check(left: Any, expected: Any, rounds: int) -> None:
    """Raise `Error` where work-items left something else than they should have, floats to a thousandth."""
    wrong = ~np.isclose(left, expected, rtol=1e-3) if left.dtype.kind == "f" else left != expected
    if wrong.any():
        raise Error(f"{int(wrong.sum())} of {left.size} values are wrong after {rounds} rounds")


def repeated(factor: Any, term: Any, rounds: int, modulus: int | None = None) -> tuple[Any, Any]:
    """`x -> factor * x + term`, applied `rounds` times, as one such step: its factor and its term."""

    def cut(number: Any) -> Any:
        return number % modulus if modulus is not None else number

    done: tuple[Any, Any] = (1, 0)
    while rounds:
        if rounds & 1:
            done = (cut(done[0] * factor), cut(done[1] * factor + term))
        factor, term = cut(factor * factor), cut(factor * term + term)
        rounds >>= 1
    return done


def time_in_turns(
    sides: Mapping[str, Launch], most: int, budget: Budget, unit: str = "ns"
) -> dict[str, dict[str, Any]]:
    """The time per round of each side as a reading, its launches in turns with those of the others: a busy machine is unfair to
    none.

    A launch has at most `most` rounds; the first samples, one per launch, are taken even if the budget is spent.
    """
    scale = {"ns": 1e9, "us": 1e6}[unit]
    least, long = _LAUNCH_S
    wanted = max(least, min(long, budget.left() / (len(sides) * 2 * _REPEATS[1])))
    samplers: dict[str, Callable[[], float]] = {}
    wrong: dict[str, dict[str, Any]] = {}

    def failed(side: str, error: Exception) -> None:
        wrong[side] = missing("error", in_one_line(error))

    for side, launch in sides.items():
        try:
            # The first launch of a kernel may compile it.
            launch(1)
            rounds = rounds_for(launch, wanted, most)
            samplers[side] = partial(_each_of, launch, rounds, scale)
        except (Error, cl.Error) as error:
            failed(side, error)
    taken = in_turns(samplers, _REPEATS[1], least=_REPEATS[0], budget=budget, failed=failed)
    return wrong | {side: time_reading(times, unit) for side, times in taken.items()}


def _each_of(launch: Launch, rounds: int, scale: float) -> float:
    return launch(rounds) / rounds * scale
