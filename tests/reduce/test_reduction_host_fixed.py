"""Reproducible sums have the bits that the documented order of additions gives, on every device and for every launch shape."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import portbar
from portbar.arrays.shape import Shape, fixed_part
from tests.reduce.support import need, put, reducer
from tests.support import scale

if TYPE_CHECKING:
    import pyopencl as cl


@pytest.fixture
def reduce(queue: cl.CommandQueue) -> Any:
    """Return `portbar.reduce` on the queue of the test."""
    return reducer(queue)


#: Groups of one work-item, loads of other widths, few and many in flight.
SHAPES = (
    Shape(1, 64, 4, 4, 8, 1, strided=False),
    Shape(1, 16, 2, 1, 3, 1, strided=False),
    Shape(256, 16, 1, 1, 8),
    Shape(256, 16, 4, 1, 8),
    Shape(64, 16, 2, 2, 8),
    Shape(16, 32, 2, 1, 4),
)


def neighbours(values: Any) -> Any:
    """Combine neighbours until one value is left, along the first axis, whose length is a power of two."""
    while len(values) > 1:
        values = values[::2] + values[1::2]
    return values[0]


def documented_sum(values: Any, item_bytes: int) -> Any:
    """Add in the order that docs/reduce.md describes, in the values' own precision."""
    lanes = 256 * max(1, min(16, 16 // item_bytes))
    part = fixed_part(len(values), item_bytes)
    zero = values.dtype.type(0)
    sums = []
    for start in range(0, max(1, len(values)), part):
        rows = values[start : start + part]
        rows = np.concatenate([rows, np.zeros(-len(rows) % lanes, values.dtype)]).reshape(-1, lanes)
        lane_sums = np.zeros(lanes, values.dtype)
        for row in rows:
            lane_sums = lane_sums + row
        sums.append(neighbours(lane_sums))
    if len(sums) == 1:
        return sums[0]
    return neighbours(np.array(sums + [zero] * ((1 << (len(sums) - 1).bit_length()) - len(sums)), values.dtype))


def values_of(dtype: Any, size: int) -> Any:
    """Values of very different sizes, so that another order gives other bits."""
    rng = np.random.default_rng(size)
    made = rng.uniform(-1, 1, size) * 10.0 ** rng.integers(-3, 4, size)
    if np.dtype(dtype).kind == "c":
        made = made + 1j * rng.permutation(made)
    return made.astype(dtype)


def shapes_for(queue: cl.CommandQueue) -> list[Shape]:
    if "PoCL" in queue.device.platform.version:
        # PoCL gets groups of one work-item. Its versions abort on barriers in conditional positions, or miscompile them.
        return [shape for shape in SHAPES if shape.local == 1]
    return list(SHAPES)


def sizes_for(queue: cl.CommandQueue) -> tuple[int, ...]:
    small = (0, 1, 2, 1023, 1024, 1025, 4099)
    return small if scale(queue.device).is_simulator else (*small, 100_003, (1 << 20) + 3)


@pytest.mark.device
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "float16"])
def test_sums_have_the_bits_of_the_documented_order(dtype: str, reduce: Any, queue: cl.CommandQueue) -> None:
    from portbar.arrays.shape import trial  # noqa: PLC0415

    need(queue.device, dtype)
    differs = False
    for size in sizes_for(queue):
        values = values_of(dtype, size)
        expected = documented_sum(values, values.dtype.itemsize).tobytes()
        for shape in (None, *shapes_for(queue)):
            with trial(shape):
                for start in (0, 3):
                    array = put(queue, np.concatenate([np.ones(start, dtype), values]))[start:]
                    assert reduce(array, reproducible=True).get(queue).tobytes() == expected, (size, shape, start)
        differs = differs or values.sum().tobytes() != expected
    assert differs, "another order would give the same bits, so this test shows nothing"


@pytest.mark.device
def test_squares_are_rounded_before_they_are_added(reduce: Any, queue: cl.CommandQueue) -> None:
    values = values_of(np.float32, 4099)
    squares = values * values
    expected = documented_sum(squares, 4)
    fused = math.fsum(values.astype(float) ** 2)
    found = reduce(put(queue, values), map="x * x", reproducible=True).get(queue)
    assert found.tobytes() == expected.tobytes()
    assert found == pytest.approx(fused, rel=1e-5)


@pytest.mark.device
def test_rows_and_columns_have_the_same_bits_whatever_the_shape(reduce: Any, queue: cl.CommandQueue) -> None:
    from portbar.arrays.shape import trial  # noqa: PLC0415

    for rows, columns in ((3, 1009), (700, 5)):
        values = values_of(np.float32, rows * columns).reshape(rows, columns)
        array = put(queue, values)
        expected = [documented_sum(row, 4) for row in values]
        bits = set()
        for shape in (None, *shapes_for(queue)):
            with trial(shape):
                np.testing.assert_array_equal(reduce(array, axis=1, reproducible=True).get(queue), expected)
                bits.add(reduce(array, axis=0, reproducible=True).get(queue).tobytes())
        assert len(bits) == 1


def test_the_order_depends_on_the_size_only() -> None:
    for item_bytes in (2, 4, 8, 16):
        lanes = 256 * 16 // item_bytes if item_bytes > 1 else 4096
        for size in (0, 1, 5000, 1 << 20, (1 << 26) + 1, 1 << 33):
            part = fixed_part(size, item_bytes)
            assert part % lanes == 0
            assert -(-max(1, size) // part) <= 1024


def test_a_local_size_that_cannot_give_the_order_is_refused() -> None:
    from portbar.arrays.shape import fixed_layout  # noqa: PLC0415

    for local in (3, 512):
        with pytest.raises(portbar.UnsupportedFeatureError, match="power of two up to 256"):
            fixed_layout(Shape(local, 16, 1, 1, 8), 4)
