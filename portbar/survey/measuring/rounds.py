"""The engine of all timings: how many rounds a launch needs, samples in turns, and the time for all of it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import pyopencl as cl

from portbar.choices.strategy import DeviceProfile
from portbar.errors import Error
from portbar.records.reading import measured

K = TypeVar("K")
T = TypeVar("T")

_MOST_ROUNDS: Final = 1 << 20


class Budget:
    """Seconds that a measurement may take, from now on."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds left, below 0 when the budget is overdrawn."""
        return self._end - time.monotonic()

    def part(self, share: float) -> Budget:
        """A budget of this share of what is left."""
        return Budget(max(0.0, self.left() * share))


def profiled_queue(queue: cl.CommandQueue) -> cl.CommandQueue:
    """A queue on the same device whose events carry time stamps, or a plain one where the device refuses."""
    try:
        return cl.CommandQueue(queue.context, queue.device, properties=cl.command_queue_properties.PROFILING_ENABLE)
    except cl.Error:
        return cl.CommandQueue(queue.context, queue.device)


def device_s(event: cl.Event, wall: float, least: float = 1e-7) -> float:
    """Seconds that a finished command ran by its event; wall-clock time where its stamps are under `least` or over that."""
    try:
        seconds = float(event.profile.end - event.profile.start) * 1e-9
    except cl.Error:
        return wall
    # Stamps may be a few nanoseconds apart, whatever ran between them: the effect STAMPS_WRONG.
    return seconds if least <= seconds <= wall else wall


def most_rounds(profile: DeviceProfile, iterations: int = 64) -> int:
    """Rounds of a kernel's loop that one launch may have on a device, which may end loops early.

    A round takes at most `iterations`, those of inner loops included.
    """
    limit = profile.loop_limit
    return _MOST_ROUNDS if limit is None else max(1, min(_MOST_ROUNDS, limit // iterations))


def rounds_for(launch: Callable[[int], float | None], seconds: float, most: int) -> int:
    """At most `most` rounds that make one launch take about `seconds`; an estimate, which a busy machine makes too low.

    `launch` takes rounds and returns the seconds that they took; None for a launch that does not count.
    """
    rounds = min(4, most)
    while True:
        # One launch may have been kept off a core for far longer than it ran.
        taken = min((one for one in (launch(rounds) for _ in range(3)) if one is not None), default=None)
        if taken is None:
            return rounds
        if taken >= seconds / 4 or rounds >= most:
            return max(1, min(most, int(rounds * seconds / max(taken, 1e-9))))
        rounds = min(most, 4 * rounds)


def in_turns(
    sides: Mapping[K, Callable[[], T]],
    repeats: int,
    *,
    least: int = 0,
    budget: Budget | None = None,
    failed: Callable[[K, Exception], None] | None = None,
) -> dict[K, list[T]]:
    """Take samples of each side in turns with those of the others, so that a busy machine is unfair to none.

    A call of a side takes one sample; each side comes first in its turn. Once the budget is spent, only the `least` samples are
    taken. A side that fails is left out, and `failed` is called with it and its error; without `failed` the error is raised.
    """
    taken: dict[K, list[T]] = {side: [] for side in sides}
    for repeat in range(repeats):
        if not taken or (budget is not None and repeat >= least and budget.left() <= 0):
            break
        order = list(taken)
        turn = repeat % len(order)
        for side in order[turn:] + order[:turn]:
            try:
                taken[side].append(sides[side]())
            except (Error, cl.Error) as error:
                if failed is None:
                    raise
                failed(side, error)
                del taken[side]
    return taken


def time_reading(times: Iterable[float], unit: str) -> dict[str, Any]:
    """A reading of the median of some times."""
    samples = [round(time, 4) for time in times]
    return measured(round(statistics.median(samples), 4), unit, samples)


def in_one_line(error: Exception) -> str:
    """An error's message, for a note beside a number."""
    return " ".join(str(error).split())[:400]
