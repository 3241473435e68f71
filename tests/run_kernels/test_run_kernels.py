"""Unmodified kernels that another kernel runs give the bits of their launches."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pytest

from examples.recorded.doing import Launches
from examples.recorded.drivers import DRIVERS, ByHand
from examples.recorded.programs import HostProgram
from tests.support import skipped_where_refused

pytestmark = pytest.mark.device


@pytest.mark.parametrize("kind", DRIVERS, ids=lambda kind: kind.__name__)
def test_program_by_hand_gives_the_bits_of_its_launches(kind: type[HostProgram], queue: cl.CommandQueue) -> None:
    program = kind(queue.context)
    program.run(Launches(queue))
    expected = program.results(queue)
    with skipped_where_refused():
        by_hand = ByHand(queue, program)
    for _ in range(2):
        program.reset(queue)
        by_hand.launch().wait()
        found = program.results(queue)
        for name, values in expected.items():
            assert values.tobytes() == found[name].tobytes(), (name, np.argwhere(values != found[name])[:5])
    assert any((expected[name] != array).any() for name, array in program.arrays.items())
