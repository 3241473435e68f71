"""The call that the tests of `portbar.scan` make, and the forms of its kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.arrays.scan import TRIAL
from portbar.arrays.scan_source import Tile
from tests.reduce.support import put
from tests.support import skipped_where_refused

#: By name: what the device's own table says, and small tiles of one work-item and of several.
FORMS = ("own", "items", "groups")


def put_all(queue: cl.CommandQueue, values: Any) -> Any:
    """Return one array or a mapping of them on the device."""
    return {name: put(queue, one) for name, one in values.items()} if isinstance(values, dict) else put(queue, values)


@pytest.fixture
def scan(queue: cl.CommandQueue) -> Callable[..., Any]:
    """Return `portbar.scan` from and to NumPy arrays, on the queue of the test; skip where portbar refuses the device."""
    with skipped_where_refused():
        portbar.scan(queue, put(queue, [1]))

    def call(values: Any, *args: Any, **more: Any) -> Any:
        given = {name: put(queue, one) if isinstance(one, np.ndarray) else one for name, one in more.items()}
        return portbar.scan(queue, put_all(queue, values), *args, **given).get()

    return call


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest, device: cl.Device) -> Iterator[str]:
    """Scan by one form of the kernel."""
    tiles = {
        "own": None,
        "items": Tile(local=1, runs=3, length=16, polls=2, load_bytes=16),
        "groups": Tile(local=min(16, device.max_work_group_size), runs=1, length=5, polls=2),
    }
    if request.param == "groups" and portbar.describe(device).loop_limit is not None:
        pytest.skip("the device ends loops early, so that portbar scans by single work-items there")
    token = TRIAL.set(tiles[request.param])
    yield request.param
    TRIAL.reset(token)
