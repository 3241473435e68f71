"""The fixture that tests of atomics by type and address space take."""

from __future__ import annotations

import pytest


@pytest.fixture
def made(request, context, queue):
    """Return the case to test, from (strategy, type, space) of `over`; skip where the device's table does not offer it."""
    from tests.atomics import support  # noqa: PLC0415 (needs PyOpenCL)

    return support.setting(context, queue, *request.param)
