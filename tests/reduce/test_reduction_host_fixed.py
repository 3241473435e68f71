"""Reproducible sums have the bits that the documented order of additions gives, on every device and for every launch shape."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.arrays.shape import (
    FIXED_ITEMS,
    FIXED_LEAST_ROWS,
    FIXED_PARTS,
    Shape,
    fixed_layout,
    fixed_part,
    shape_for,
    trial,
)
from tests.checkout import ROOT
from tests.reduce.support import documented, need, put
from tests.support import scale

#: Groups of one work-item, loads of other widths, few and many in flight.
SHAPES = (
    Shape(1, 64, 4, 4, 8, 1, strided=False),
    Shape(1, 16, 2, 1, 3, 1, strided=False),
    Shape(256, 16, 1, 1, 8),
    Shape(256, 16, 4, 1, 8),
    Shape(64, 16, 2, 2, 8),
    Shape(16, 32, 2, 1, 4),
)


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
        profile = portbar.describe(queue.device)
        widest = shape_for(profile, portbar.choose(profile), 1).load_bytes
        return [shape for shape in SHAPES if shape.local == 1 and shape.load_bytes <= widest]
    return list(SHAPES)


def sizes_for(queue: cl.CommandQueue) -> tuple[int, ...]:
    small = (0, 1, 2, 1023, 1024, 1025, 4099)
    return small if scale(queue.device).is_simulator else (*small, 100_003, (1 << 20) + 3)


@pytest.mark.device
@pytest.mark.parametrize("op", ["+", "*"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "float16"])
def test_results_have_the_bits_of_the_documented_order(
    dtype: str, op: str, reduce: Any, queue: cl.CommandQueue
) -> None:
    need(queue.device, dtype)
    differs = False
    for size in sizes_for(queue) if op == "+" else (1025, 4099, 20_011):
        values = values_of(dtype, size)
        if op == "*":
            # Products near one in precision enough that the order shows.
            values = (1 + values / 4096).astype(dtype)
        expected = documented(values, op).tobytes()
        for shape in (None, *shapes_for(queue)):
            with trial(shape):
                for start in (0, 3):
                    array = put(queue, np.concatenate([np.ones(start, dtype), values]))[start:]
                    found = reduce(array, op, reproducible=True).get(queue)
                    assert found.tobytes() == expected, (size, shape, start)
        differs = differs or (values.sum() if op == "+" else values.prod()).tobytes() != expected
    assert differs, "another order would give the same bits, so this test shows nothing"


@pytest.mark.device
def test_squares_are_rounded_before_they_are_added(reduce: Any, queue: cl.CommandQueue) -> None:
    values = values_of(np.float32, 4099)
    squares = values * values
    expected = documented(squares)
    fused = math.fsum(values.astype(float) ** 2)
    found = reduce(put(queue, values), map="x * x", reproducible=True).get(queue)
    assert found.tobytes() == expected.tobytes()
    assert found == pytest.approx(fused, rel=1e-5)


@pytest.mark.device
def test_rows_and_columns_have_the_same_bits_whatever_the_shape(reduce: Any, queue: cl.CommandQueue) -> None:
    for rows, columns in ((3, 1009), (70 if scale(queue.device).is_simulator else 700, 5)):
        values = values_of(np.float32, rows * columns).reshape(rows, columns)
        array = put(queue, values)
        expected = [documented(row) for row in values]
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
    for local in (3, 512):
        with pytest.raises(portbar.UnsupportedFeatureError, match="power of two up to 256"):
            fixed_layout(Shape(local, 16, 1, 1, 8), 4)


def test_the_page_has_the_numbers_of_the_code() -> None:
    page = (ROOT / "docs" / "reduce.md").read_text(encoding="utf-8")
    assert f"*L* = {FIXED_ITEMS} · 16" in page
    assert f"at most {FIXED_PARTS:,} parts of at least {FIXED_LEAST_ROWS} rows" in page
    assert (fixed_part(1, 4), fixed_part(1, 8)) == (1024, 512)
