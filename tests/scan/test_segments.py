"""Segmented scans of `portbar.scan`: nothing crosses a start, however segments are given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import portbar
from tests.reduce.support import affine, composition, need, put, random_of
from tests.scan.test_scan import UFUNCS, stalled
from tests.scan.test_scan import expected as whole_expected

pytestmark = pytest.mark.device


def expected(op: str, values: Any, starts: Any, **more: Any) -> Any:
    """Return what NumPy makes of each segment; `starts` are indices."""
    initial = {"min": np.iinfo(values.dtype).max, "max": np.iinfo(values.dtype).min}.get(op)
    more = {"exclusive": False, "initial": initial, **more}
    return np.concatenate([whole_expected(op, one, **more) for one in np.split(values, starts[1:])])


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lengths=st.lists(st.integers(1, 90), min_size=1, max_size=25), exclusive=st.booleans())
def test_flags_and_offsets_of_any_segments(queue, scan, form, lengths, exclusive):
    size = sum(lengths)
    starts = np.cumsum([0, *lengths[:-1]])
    values = random_of(np.int32, size, size)
    right = expected("max", values, starts, exclusive=exclusive)
    flags = np.zeros(size, np.bool_)
    flags[starts[1:]] = True
    for segments in ({"segments": flags}, {"offsets": starts.astype(np.int32)}):
        np.testing.assert_array_equal(scan(values, "max", exclusive=exclusive, **segments), right)


@pytest.mark.parametrize("op", UFUNCS)
@pytest.mark.parametrize("kind", [np.int16, np.uint64], ids=lambda kind: kind.__name__)
def test_operators_with_initial_values(queue, scan, form, op, kind):
    values = random_of(kind, 777, 1)
    flags = (np.arange(777) % 50 == 7).astype(np.int32) * 5
    starts = np.flatnonzero(flags | (np.arange(777) == 0))
    for exclusive in (False, True):
        found = scan(values, op, segments=flags, initial=5, exclusive=exclusive)
        np.testing.assert_array_equal(found, expected(op, values, starts, exclusive=exclusive, initial=5))


@pytest.mark.parametrize("shape", [(7, 100), (100, 7), (3, 40, 5), (700, 1), (1, 700)], ids=str)
def test_every_axis(queue, scan, form, shape):
    values = random_of(np.int32, int(np.prod(shape)), 2).reshape(shape)
    for axis in range(-1, len(shape)):
        right = np.cumsum(values, axis, dtype=np.int32)
        np.testing.assert_array_equal(scan(values, axis=axis), right)
        np.testing.assert_array_equal(scan(values, axis=axis, exclusive=True, initial=3), right - values + np.int32(3))


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.complex64], ids=lambda kind: kind.__name__)
def test_floats_have_the_same_bits_when_tiles_tell_nothing(queue, scan, form, device, monkeypatch, kind):
    need(device, kind)
    values = random_of(np.float32, 1_003 if form != "own" else 10_003, 3).astype(kind)
    flags = (np.arange(values.size) % 401 == 0).astype(np.uint8)
    first = scan(values, segments=flags)
    parts = np.split(values, np.arange(401, values.size, 401))
    np.testing.assert_allclose(
        first, np.concatenate([np.cumsum(one.astype(np.complex128)) for one in parts]), atol=1e-4
    )
    stalled(monkeypatch, "tile % 2u == 1u", "own all")
    np.testing.assert_array_equal(scan(values, segments=flags), first)


def test_an_operator_that_does_not_commute(scan, form):
    values, right = affine(np.uint32, 500, 3, every=100)
    found = scan(values.reshape(5, 100), composition("x_type"), axis=1)
    np.testing.assert_array_equal(found.reshape(-1), right)


def test_output_statements_see_segments(queue, scan, form):
    values = random_of(np.int32, 600, 5).reshape(20, 30)
    before, at, out = (put(queue, np.zeros_like(values)) for _ in range(3))
    text, outputs = "before[i] = prev_item; at[i] = x[i] + (int)i;", {"before": before, "at": at}
    portbar.scan(queue, put(queue, values), axis=0, out=out, output=text, targets=outputs)
    sums = np.cumsum(values, 0, dtype=np.int32)
    np.testing.assert_array_equal(out.get(), sums)
    np.testing.assert_array_equal(before.get(), sums - values)
    np.testing.assert_array_equal(at.get(), values + np.arange(600, dtype=np.int32).reshape(20, 30))


def test_the_largest_of_each_segment_by_place(queue, scan, form):
    values = random_of(np.int16, 300, 8).reshape(3, 100)
    found = scan(values, "argmax", axis=1)
    np.testing.assert_array_equal(found["value"], np.maximum.accumulate(values, 1))
    right = [[int(np.argmax(row[: k + 1])) + 100 * n for k in range(100)] for n, row in enumerate(values)]
    np.testing.assert_array_equal(found["index"], right)


def test_row_pointers_with_empty_rows_and_offsets_outside(queue, scan, form):
    x = np.ones(300, np.int32)
    right = expected("+", x, [0, 100, 250])
    pointers = [0, 0, 100, 100, 250, 300, 300]
    for offsets in (pointers, [-1, 100, 250, 2**40], [250, 100]):
        np.testing.assert_array_equal(scan(x, offsets=np.array(offsets, np.int64)), right)
    part = put(queue, np.array(pointers, np.uint16))[3:5]
    np.testing.assert_array_equal(scan(x, offsets=part), right)
    np.testing.assert_array_equal(scan(x, offsets=np.zeros(0, np.int32)), np.arange(1, 301))


def test_nothing_of_nothing(scan):
    none = np.zeros((0, 3), np.float32)
    for more in ({"axis": 0}, {"offsets": np.array([0, 5])}, {"segments": np.zeros((0, 3), np.uint8)}):
        assert scan(none, **more).shape == (0, 3)


def test_invalid_input_is_refused(queue, scan):
    x = put(queue, np.arange(100, dtype=np.int32))
    flags = put(queue, np.zeros(100, np.uint8))

    def refused(message: str, **more: Any) -> None:
        with pytest.raises(portbar.Error, match=message):
            portbar.scan(queue, x, **more)

    refused(r"segments= has shape \(50,\), the array \(100,\).*offsets=", segments=flags[:50])
    refused("segments= has type float32", segments=put(queue, np.zeros(100, np.float32)))
    refused("segments= .*has strides", segments=put(queue, np.zeros(200, np.uint8))[::2])
    refused("segments= is a ndarray, not a pyopencl.array.Array", segments=np.zeros(100))
    refused("not both", segments=flags, axis=0)
    refused("not both", segments=flags, offsets=flags)
    refused("not both", offsets=put(queue, np.arange(3)), axis=0)
    refused("offsets= has shape .* type float64", offsets=put(queue, np.zeros(3)))
    refused(r"offsets= has shape \(2, 2\)", offsets=put(queue, np.zeros((2, 2), np.int32)))
    refused("offsets= is a list, not a pyopencl.array.Array", offsets=[0, 5])
    for axis in (1, -2, 0.0, True):
        refused("axis= must be an axis of an array of 1 dimension", axis=axis)
    refused("last_item", segments=flags, output="int k = last_item;")
    refused("shares memory", segments=flags, output="y[i] = 1;", targets={"y": flags})
