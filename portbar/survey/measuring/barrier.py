"""The time of a barrier between work-groups by algorithm and group count, beside relaunching an empty kernel."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import pyopencl as cl

from portbar.choices.strategy import DeviceProfile
from portbar.errors import Error
from portbar.primitives.grid import bounded
from portbar.records.reading import NO_TIME, measured, missing
from portbar.survey.measuring.barrier_timer import BarrierSamples, BarrierTimer, Relaunch
from portbar.survey.measuring.launches import LaunchTimer
from portbar.survey.measuring.rounds import Budget, in_one_line, in_turns, profiled_queue
from portbar.survey.measuring.session import Session, failure, largest_group, possible_sizes

Row = dict[str, Any]

#: Seconds that one timed launch should take, and launches of each algorithm and group count.
_LAUNCH_S: Final = (0.002, 0.020)
_LEAST_REPEATS: Final = 3
_MOST_REPEATS: Final = 15

#: How relaunching is called among the barrier algorithms that it is measured beside.
_RELAUNCH: Final = ""

#: Why the survey times no barrier without a spin limit: one launch that hangs would cost all that is measured after it.
_UNBOUNDED: Final = "it has no spin limit: call measuring.barrier.time_barriers with its name to time it"


#: Kind of compute units -> local sizes.
_SIZES: Final = {"cpu": (1, 64), "gpu": (32, 64, 256, 1024)}


def barrier_sizes(profile: DeviceProfile, largest: int | None = None) -> list[int]:
    """Local sizes of the barrier step: on a CPU a barrier costs more the more work-items one thread serves."""
    return possible_sizes(_SIZES[profile.units.kind], profile, largest)


def measure(session: Session) -> None:
    """Report a row for each local size, group count and algorithm, those of `time_barriers`."""
    queue, sizes = session.queue, session.sizes
    if not sizes:
        timer = BarrierTimer(queue, 1, {"device_barrier": bounded()[0]})
        sizes = barrier_sizes(session.profile, largest_group(timer.program, queue, timer.kernel.name))
    most: dict[int, int] = {}
    for row in time_barriers(queue, local_sizes=sizes, budget_s=session.budget.left(), on_step=session.doing):
        session.row(row)
        most[row["local_size"]] = max(row["groups"], most.get(row["local_size"], 0))
    if "cl_intel_concurrent_dispatch" in session.profile.facts.extensions:
        for local_size in sizes:
            session.row(_row("intel_device_barrier", most[local_size], local_size, missing("skipped", _UNBOUNDED)))


def _row(
    algorithm: str,
    groups: int,
    local_size: int,
    time: dict[str, Any],
    relaunch: dict[str, Any] | None = None,
    rounds: int | None = None,
) -> Row:
    return {
        "algorithm": algorithm,
        "groups": groups,
        "local_size": local_size,
        "rounds": rounds,
        "barrier_time": time,
        "relaunch_time": relaunch or time,
    }


def default_counts(bound: int) -> tuple[int, ...]:
    """Group counts worth measuring on a device that holds `bound`: powers of two, and the bound itself."""
    return tuple(sorted({1 << i for i in range(bound.bit_length())} | {bound}))


def time_barriers(
    queue: cl.CommandQueue,
    algorithms: Sequence[str] | None = None,
    group_counts: Sequence[int] | None = None,
    local_sizes: Sequence[int] = (1,),
    *,
    budget_s: float,
    on_step: Callable[[str], None] = lambda _: None,
) -> Iterator[Row]:
    """Time one device barrier for each algorithm and group count, in turns, so that a busy machine is unfair to none.

    The queue names context and device; the launches go to queues of their own. By default the algorithms are those with a
    spin limit (`intel_device_barrier` has none, and was seen to hang), and the group counts the powers of two up to the
    device's bound, and the bound. Counts above it are noted, not launched. The local sizes share the budget, compiling
    included; the first samples are taken even if it is spent. `on_step` is called with what is done next, in words.

    Yields a row for each local size, group count and algorithm as soon as it is known, the largest group count of a local
    size first: `algorithm`, `groups`, `local_size`, `rounds` (barriers in each launch, or None), and the readings
    `barrier_time` and `relaunch_time` (us, a sample per launch, measured in turns) and those of `launches.LaunchTimer`;
    `UnsupportedFeatureError` if the device cannot hold any barrier.
    """
    budget = Budget(budget_s)
    for index, local_size in enumerate(local_sizes):
        turns = _Turns(profiled_queue(queue), algorithms or bounded(), local_size, on_step)
        yield from turns.rows(group_counts, budget.part(1 / (len(local_sizes) - index)))


class _Turns:
    """Times the algorithms at one local size, in turns."""

    def __init__(
        self, queue: cl.CommandQueue, algorithms: Sequence[str], local_size: int, on_step: Callable[[str], None]
    ) -> None:
        self._queue, self._algorithms, self._local, self._on_step = queue, algorithms, local_size, on_step
        self._timers: dict[str, BarrierTimer] = {}
        self._bounds: dict[str, int] = {}
        #: The algorithms that cannot be timed at this local size, each with the reading in place of its time.
        self._refused: dict[str, dict[str, Any]] = {}
        self._tried = False
        self._launch_timer: LaunchTimer | None = None

    def rows(self, group_counts: Sequence[int] | None, budget: Budget) -> Iterator[Row]:
        """Measure every group count, the largest first."""
        self._compile(budget.part(0.6))
        counts = default_counts(max(self._bounds.values(), default=1)) if group_counts is None else set(group_counts)
        for done, groups in enumerate(sorted(counts, reverse=True)):
            late = self._tried and budget.left() <= 0
            yield from self._count(groups, late, budget.part(1 / (len(counts) - done)))

    def _compile(self, budget: Budget) -> None:
        errors: list[Error] = []
        for name in self._algorithms:
            if self._timers and budget.left() <= 0:
                self._refused[name] = missing("skipped", NO_TIME)
                continue
            self._on_step(f"compiling {name} for work-groups of {self._local}")
            try:
                timer = BarrierTimer(self._queue, self._local, {"device_barrier": name})
            except Error as error:
                errors.append(error)
                self._refused[name] = failure(error, "unsupported")
                continue
            try:
                self._bounds[name] = timer.bound
                self._timers[name] = timer
            except (Error, cl.Error) as error:
                self._refused[name] = missing("error", in_one_line(error))
        if errors and len(errors) == len(self._algorithms):
            raise errors[-1]

    def _count(self, groups: int, late: bool, budget: Budget) -> Iterator[Row]:
        instead = dict(self._refused)
        for name, bound in self._bounds.items():
            if groups > bound:
                why = f"the device runs {bound} work-groups of {self._local} concurrently"
                instead[name] = missing("unsupported", why)
            elif late:
                instead[name] = missing("skipped", NO_TIME)
        able = [name for name in self._timers if name not in instead]
        samples, relaunches = self._sample(able, groups, budget, instead) if able else ({}, [])
        relaunch = measured(statistics.median(relaunches), "us", relaunches) if relaunches else None
        launches = self._launch_times(self._timers[next(iter(samples))], groups, budget) if samples else {}
        for name in self._algorithms:
            known = samples.get(name)
            us = [round(one, 5) for one in known.us] if known is not None else []
            never = missing("error", f"discovery never found all {groups} work-groups")
            time = measured(statistics.median(us), "us", us) if us else instead.get(name, never)
            row = _row(name, groups, self._local, time, relaunch, known.rounds if known is not None else None)
            yield row | launches if us else row

    def _sample(
        self, names: Sequence[str], groups: int, budget: Budget, instead: dict[str, dict[str, Any]]
    ) -> tuple[dict[str, BarrierSamples], list[float]]:
        """Samples by algorithm, and those of relaunching; what fails is left out and gets a reading in `instead`."""
        self._tried = True
        self._on_step(f"barriers between {groups} work-groups of {self._local}")
        relaunch = Relaunch(self._queue, groups, self._local)
        least, most = _LAUNCH_S
        seconds = max(least, min(most, budget.left() / (len(names) * (_MOST_REPEATS + 8))))
        samples: dict[str, BarrierSamples] = {}
        for name in names:
            try:
                samples[name] = BarrierSamples(self._timers[name], groups, seconds)
            except (Error, cl.Error) as error:
                instead[name] = missing("error", in_one_line(error))
        # A simulator takes milliseconds to launch a kernel.
        launches = max(8, min(200, int(2e6 * seconds / relaunch.sample_us(8))))
        sides: dict[str, Callable[[], float | None]] = {_RELAUNCH: partial(relaunch.sample_us, launches)}
        sides |= {name: one.take for name, one in samples.items()}

        def failed(side: str, error: Exception) -> None:
            if side == _RELAUNCH:
                raise error
            instead[side] = missing("error", in_one_line(error))
            del samples[side]

        taken = in_turns(sides, _MOST_REPEATS, least=_LEAST_REPEATS, budget=budget, failed=failed)
        return samples, [round(us, 4) for us in taken[_RELAUNCH] if us is not None]

    def _launch_times(self, timer: BarrierTimer, groups: int, budget: Budget) -> dict[str, Any]:
        """The cost of launches of this shape; nothing from a device that fails at it."""
        try:
            if self._launch_timer is None:
                self._launch_timer = LaunchTimer(self._queue, timer.kernel, self._local, timer.most_rounds)
            return self._launch_timer(groups, budget)
        except (Error, cl.Error):
            return {}
