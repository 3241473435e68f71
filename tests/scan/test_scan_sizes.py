"""Sizes that `portbar.scan` must cope with: of values in local memory, and of arrays beyond 32 bits."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

import portbar
from portbar.arrays.scan import fitted
from portbar.arrays.scan_source import TILES
from portbar.device.facts import DeviceFacts
from tests.reduce.support import put


@pytest.mark.parametrize("size", [1, 4, 8, 16, 24, 200, 5_000])
def test_tiles_fit_the_local_memory(size):
    facts = DeviceFacts(name="x", max_work_group_size=1024, local_mem_size=48 << 10)
    cut = fitted(TILES["gpu"], size, facts)
    assert (cut.local * cut.length * 33 // 32 + cut.local + 2) * size + 64 <= 48 << 10 or cut.local == 1
    if size <= 8:
        assert cut == TILES["gpu"]
    assert fitted(TILES["gpu"], 4, replace(facts, max_work_group_size=100)).local == 64
    assert fitted(TILES["cpu"], size, facts) == TILES["cpu"]


@pytest.mark.device
def test_an_array_of_more_elements_than_32_bits_count(queue, scan):
    if "PORTBAR_TEST_NIGHTLY" not in os.environ:
        pytest.skip("takes 4 GB of memory and a minute: set PORTBAR_TEST_NIGHTLY")
    import pyopencl as cl  # noqa: PLC0415
    import pyopencl.array as cla  # noqa: PLC0415

    size = (1 << 32) + 4_227
    if queue.device.max_mem_alloc_size < size or portbar.describe(queue.device).loop_limit is not None:
        pytest.skip("the device has no buffer of that size")
    memory = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, size)
    cl.enqueue_fill_buffer(queue, memory, np.uint8(1), 0, size).wait()
    values = cla.Array(queue, (size,), np.uint8, data=memory)
    out = cla.zeros(queue, 3, np.uint64)
    portbar.scan(
        queue,
        values,
        dtype=np.uint64,
        map="x + (i >> 32)",
        output="if (i >= N - 3) out[i - (N - 3)] = item;",
        outputs={"out": out},
    )
    last = size + 4_227
    assert out.get().tolist() == [last - 4, last - 2, last]
    some = put(queue, np.zeros(1, np.uint64))
    portbar.scan(
        queue,
        cla.Array(queue, (2, size // 2), np.uint8, data=memory),
        dtype=np.uint64,
        axis=1,
        output="if (i + 1 == N) some[0] = item;",
        outputs={"some": some},
    )
    assert int(some.get()[0]) == size // 2
