"""The fixture that tests of atomics by type and address space take."""

from __future__ import annotations

import pytest

from tests.atomics import support


@pytest.fixture
def made(request, context, queue):
    """Return the case to test, from (strategy, type, space) of `over`; skip where the device's table does not offer it."""
    return support.setting(context, queue, *request.param)
