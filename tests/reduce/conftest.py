"""The call that the tests of `portbar.reduce` make."""

from __future__ import annotations

from typing import Any

import pyopencl as cl
import pytest

from tests.reduce.support import reducer


@pytest.fixture
def reduce(queue: cl.CommandQueue) -> Any:
    """Return `portbar.reduce` on the queue of the test; skip where portbar refuses the device."""
    return reducer(queue)
