"""The oracle of the atomics tests, without a device: it accepts every right history and rejects a wrong one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("pyopencl")

from tests.atomics import support as atomics
from tests.atomics.support import after


def test_a_history_with_a_lost_or_repeated_value_is_no_chain():
    """The oracle against a reference in plain Python: any order passes, and a wrong value in any place does not."""
    generator = np.random.default_rng(7)
    several = {"fetch_add": np.float32, "exchange": np.uint8, "fetch_inc": np.uint32, "fetch_min": np.int16}
    for operation, dtype in several.items():
        operands = generator.integers(1, 100, 40).astype(dtype)
        value, olds = dtype(3), []
        for v in operands:
            olds.append(value)
            value = after(operation, np.array([value]), np.array([v]))[0]
        found = np.array(olds)
        assert not atomics.broken(dtype(3), found, after(operation, found, operands), value)
        for i in range(len(found)):
            wrong = found.copy()
            wrong[i] += dtype(101)
            assert atomics.broken(dtype(3), wrong, after(operation, wrong, operands), value), (operation, i)
    walk = np.array([1, 2, 3, 8, 9, 8], np.uint32)
    assert "parts" in atomics.broken(np.uint32(1), walk[[0, 1, 3, 4]], walk[[1, 2, 4, 5]], np.uint32(3))
    for old, new in pairwise(walk[:3]):
        assert not atomics.broken(old, np.array([old]), np.array([new]), new)
