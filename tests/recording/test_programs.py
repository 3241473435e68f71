"""Programs that launch unmodified kernels in loops give the same bits when they are recorded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import portbar
from examples.recorded.doing import Launches, Recorded
from examples.recorded.programs import PROGRAMS, HostProgram
from portbar.recording import player

pytestmark = pytest.mark.device


@pytest.mark.parametrize("kind", PROGRAMS, ids=lambda kind: kind.__name__)
def test_recorded_program_gives_the_bits_of_its_launches(kind: type[HostProgram], queue: cl.CommandQueue) -> None:
    check(kind, queue)


@pytest.mark.parametrize("kind", PROGRAMS, ids=lambda kind: kind.__name__)
def test_work_items_of_the_grid_as_on_a_gpu(
    kind: type[HostProgram], queue: cl.CommandQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(player, "suits_loops", lambda _: False)
    check(kind, queue)


def check(kind: type[HostProgram], queue: cl.CommandQueue) -> None:
    if lacks := kind.lacks(queue.device):
        pytest.skip(f"no {lacks}")
    # Mesa 22 ends the process over a structure by value.
    is_short = portbar.describe(queue).loop_limit is not None
    program = kind(queue.context)
    program.run(Launches(queue))
    expected = program.results(queue)
    recorded = Recorded(queue, kind.options)
    program.run(recorded)
    ways: tuple[bool | None, ...] = (None, False) if is_short else (True, True, False)
    if player.newer(kind.options, queue.device):
        with pytest.raises(portbar.UnsupportedFeatureError, match=r"-cl-std=CL2\.0, which is above the device"):
            recorded.steps.launch()
        ways = (False,)
    asked: list[dict[str, Any]] = [{"fused": fused} for fused in ways]
    if "cl_khr_command_buffer" in queue.device.extensions.split():
        asked += [{"command_buffers": True}] * 2
    for way in asked:
        program.reset(queue)
        recorded.steps.launch(**way).wait()
        found = program.results(queue)
        for name, values in expected.items():
            assert values.tobytes() == found[name].tobytes(), (name, way, np.argwhere(values != found[name])[:5])
    assert any((expected[name] != array).any() for name, array in program.arrays.items())
