"""The forms of the kernels of `portbar.sort`."""

from __future__ import annotations

from collections.abc import Iterator

import pyopencl as cl
import pytest

import portbar
from portbar.arrays.sort import TRIAL
from portbar.arrays.sort_source import TileShape
from portbar.device import quirks
from portbar.device.facts import facts
from tests.reduce.support import put
from tests.support import skipped_where_refused

#: By name: what the device's own table says, small tiles of one work-item and of several, and one group for all.
FORMS = ("own", "items", "groups", "small")


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest, device: cl.Device, queue: cl.CommandQueue) -> Iterator[str]:
    """Sort by one form of the kernels; skip where portbar refuses the device."""
    shapes = {
        "own": None,
        "items": TileShape("items", local=1, items=100, polls=2),
        "groups": TileShape("groups", local=min(16, device.max_work_group_size), items=5, polls=2),
        "small": TileShape("items", local=1, items=100, polls=2, small=1 << 20),
    }
    if request.param == "groups" and portbar.describe(device).loop_limit is not None:
        pytest.skip("the device ends loops early, so that portbar sorts by single work-items there")
    if request.param == "groups" and quirks.has_effect(quirks.BRANCHES_ABORT, facts(device)):
        pytest.skip(
            "the compiler aborts on loops in branches between barriers: portbar sorts by single work-items there"
        )
    with skipped_where_refused():
        portbar.sort(queue, put(queue, [1]))
    token = TRIAL.set(shapes[request.param])
    yield request.param
    TRIAL.reset(token)
