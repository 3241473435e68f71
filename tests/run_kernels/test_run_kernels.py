"""Unmodified kernels that another kernel runs give the bits of their launches."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pytest

import portbar
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


IMAGES = """#include "portbar/run_kernels.h"
kernel void look(read_only image2d_t from, sampler_t how, global uint *to)
{
    const int x = get_global_id(0);
    to[x] = 3 * to[x] + read_imageui(from, how, (int2)(x, 1)).x;
}
kernel void driver(PORTBAR_GRID_PARAM, read_only image2d_t one, read_only image2d_t two, sampler_t how, global uint *to)
{
    PORTBAR_ENTER(grid);
    for (int t = 0; t < 2; ++t) {
        PORTBAR_RUN(&grid, look, (23), (), one, how, to);
        PORTBAR_RUN(&grid, look, (23), (), two, how, to);
    }
}
"""


def test_images_and_samplers_are_passed_on(queue: cl.CommandQueue) -> None:
    context, flags = queue.context, cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
    if not queue.device.image_support:
        pytest.skip("the device has no images")
    arrays = np.random.default_rng(3).integers(0, 256, (2, 3, 17, 4), np.uint8)
    pixels = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.UNSIGNED_INT8)
    images = [cl.create_image(context, flags, pixels, shape=(17, 3), hostbuf=array) for array in arrays]
    how = cl.Sampler(context, False, cl.addressing_mode.CLAMP, cl.filter_mode.NEAREST)
    expected, found = np.zeros((2, 23), np.uint32)
    to = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=found)
    with skipped_where_refused():
        program = portbar.Program(context, IMAGES)
    program.driver(queue, None, (16,), *images, how, to).wait()
    cl.enqueue_copy(queue, found, to)
    for array in (*arrays, *arrays):
        expected = 3 * expected + np.pad(array[1, :, 0].astype(np.uint32), (0, 6))
    assert (found == expected).all()
