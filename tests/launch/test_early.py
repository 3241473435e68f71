"""Reports that come with their launches, where a program waits for each launch before the next."""

from __future__ import annotations

import gc
import time
import warnings

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.launching import early, memory
from portbar.launching.state import _HABIT as HABIT
from tests import support

pytestmark = pytest.mark.device

_SOURCE = """#include "portbar/device_barrier.h"
#include "portbar/signal.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, global portbar_signal *signal, const uint more)
{
    PORTBAR_ENTER(grid);
    if (more > 0u && portbar_global_id(&grid) == 0u)
        portbar_signal_add(&grid, signal, more);
    if (!portbar_device_barrier(&grid))
        return;
    PORTBAR_FOR(i, &grid, 8u) a[i] += 1u;
}
"""
#: More than a signal holds.
_TOO_MUCH = 1 << 31
_FAULT = "exceeded its largest value"


class Running:
    """A transfer that is under way."""

    command_execution_status = cl.command_execution_status.RUNNING


class Steps:
    """Launches of one kernel in one queue, on a device whose memory the host does not see."""

    def __init__(self, context: cl.Context, queue: cl.CommandQueue, *, is_array: bool) -> None:
        self.queue = queue
        self.kernel = portbar.Program(context, _SOURCE).kernel("k")
        self.memory = cl.array.zeros(queue, 8, np.uint32)
        self.argument = self.memory if is_array else self.memory.data
        self.signal = support.filled(queue, 1)
        self.done = 0
        # The first launch asks the device for more; none of these is waited for.
        for _ in range(2):
            self()
        queue.finish()

    @property
    def counts(self) -> list[int]:
        """How many launches each count has seen."""
        return self.memory.get().tolist()

    def __call__(self, more: int = 0, **options: object) -> portbar.Launch:
        self.done += 1
        return self.kernel(self.queue, None, (4,), self.argument, self.signal, np.uint32(more), max_groups=2, **options)


# Launches with arrays wait for the arrays' events, and are made at length.
@pytest.fixture(params=["array", "buffer"])
def steps(
    request: pytest.FixtureRequest, context: cl.Context, queue: cl.CommandQueue, monkeypatch: pytest.MonkeyPatch
) -> Steps:
    monkeypatch.setattr(memory, "_can_share", lambda _: False)
    return Steps(context, queue, is_array=request.param == "array")


@pytest.fixture
def transfers(monkeypatch: pytest.MonkeyPatch) -> list[early.EarlyRead | None]:
    """The transfers after launches, as they are made; after the steps among the arguments."""
    made: list[early.EarlyRead | None] = []
    after_all = early.EarlyReads.after_all

    def noted(self: early.EarlyReads) -> early.EarlyRead | None:
        made.append(after_all(self))
        return made[-1]

    monkeypatch.setattr(early.EarlyReads, "after_all", noted)
    return made


def _in_habit(steps: Steps) -> None:
    for _ in range(HABIT):
        steps().wait()


def test_reports_come_early_after_some_launches_that_were_waited_for(steps: Steps, transfers: list[object]) -> None:
    _in_habit(steps)
    assert not transfers
    for count in range(1, 40):
        launch = steps()
        launch.wait()
        assert launch.num_groups in {1, 2}
        assert len(transfers) == count
    assert steps.counts == [steps.done] * 8


def test_without_waits_none_is_made(steps: Steps, transfers: list[object]) -> None:
    launches = [steps() for _ in range(20)]
    for launch in launches:
        launch.wait()
    assert not transfers
    # The last one of them was waited for before the next.
    steps().wait()
    assert not transfers
    steps().wait()
    assert len(transfers) == 1
    launches = [steps() for _ in range(5)]
    assert len(transfers) == 2
    for launch in launches:
        launch.wait()


def test_a_fault_of_an_early_report_is_raised_and_the_next_launch_is_right(
    steps: Steps, transfers: list[object]
) -> None:
    for _ in range(2):
        _in_habit(steps)
        steps().wait()
        before = len(transfers)
        with pytest.raises(portbar.Error, match=_FAULT):
            steps(_TOO_MUCH).wait()
        assert len(transfers) == before + 1
        cl.enqueue_fill_buffer(steps.queue, steps.signal, np.uint32([0]), 0, 4)
        counts = steps.counts
        steps().wait()
        assert steps.counts == [count + 1 for count in counts]


def test_a_fault_that_is_dropped_is_owed(steps: Steps, transfers: list[object]) -> None:
    _in_habit(steps)
    steps().wait()
    steps(_TOO_MUCH)
    assert len(transfers) == 2
    steps.queue.finish()
    time.sleep(0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", portbar.UnreportedFaultWarning)
        launch = steps()
    with pytest.raises(portbar.Error, match="was dropped"):
        launch.wait()


def test_reports_outlive_the_places_that_they_came_to(steps: Steps, transfers: list[object]) -> None:
    _in_habit(steps)
    steps().wait()
    kept = steps()
    for _ in range(3 * early._SLOTS):
        steps().wait()
    assert len(transfers) > early._SLOTS
    assert kept.num_groups in {1, 2}
    kept.wait()


def test_none_is_made_for_a_launch_that_waits_for_events(steps: Steps, transfers: list[object]) -> None:
    _in_habit(steps)
    gate = cl.UserEvent(steps.queue.context)
    launch = steps(wait_for=[gate])
    gate.set_status(cl.command_execution_status.COMPLETE)
    launch.wait()
    assert not transfers


def test_with_too_many_under_way_launches_go_without(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        early.EarlyReads, "__init__", lambda self, *_: self.__dict__.update(_running=[(0, Running)], _free=[])
    )
    _in_habit(steps)
    launch = steps()
    assert launch._early is None
    launch.wait()
    assert steps.counts == [steps.done] * 8


def test_an_error_of_the_driver_leaves_launches_as_they_were(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def fails(*_: object) -> None:
        asked.append(1)
        raise cl.MemoryError("none left")  # type: ignore[attr-defined]

    monkeypatch.setattr(early.EarlyReads, "__init__", fails)
    _in_habit(steps)
    for _ in range(3):
        launch = steps()
        launch.wait()
        assert launch.num_groups in {1, 2}
    assert asked == [1]


def test_a_dropped_launch_does_not_hold_up_the_host(steps: Steps, transfers: list[object]) -> None:
    _in_habit(steps)
    steps().wait()
    gate = cl.UserEvent(steps.queue.context)
    cl.enqueue_marker(steps.queue, [gate])
    timer = time.monotonic()
    launch = steps()
    made = len(transfers)
    del launch
    transfers.clear()
    gc.collect()
    taken = time.monotonic() - timer
    gate.set_status(cl.command_execution_status.COMPLETE)
    steps.queue.finish()
    assert made == 2
    assert taken < 5
    assert steps.counts == [steps.done] * 8
