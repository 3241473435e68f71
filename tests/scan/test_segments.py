"""Segmented scans of `portbar.scan`: nothing crosses a start, however segments are given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import portbar
from tests.reduce.support import need, put, random_of
from tests.scan.test_scan import UFUNCS, stalled

pytestmark = pytest.mark.device


def expected(op: str, values: Any, starts: Any, *, exclusive: bool = False, initial: Any = None) -> Any:
    """Return what NumPy makes of each segment; `starts` are indices."""
    found = np.empty_like(values)
    identity = {"min": np.iinfo, "max": np.iinfo}.get(op)
    none = UFUNCS[op].identity if identity is None else {"min": "max", "max": "min"}[op]
    start = (
        initial if initial is not None else none if not isinstance(none, str) else getattr(np.iinfo(values.dtype), none)
    )
    ends = [*starts[1:], len(values)]
    for begin, end in zip(starts, ends, strict=True):
        with np.errstate(over="ignore"):
            whole = np.concatenate([np.array([start]).astype(values.dtype), values[begin:end]])
            whole = UFUNCS[op].accumulate(whole, dtype=values.dtype)
        found[begin:end] = whole[:-1] if exclusive else whole[1:]
    return found


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lengths=st.lists(st.integers(1, 90), min_size=1, max_size=25), exclusive=st.booleans())
def test_flags_and_offsets_of_any_segments(queue, scan, form, lengths, exclusive):
    size = sum(lengths)
    starts = np.cumsum([0, *lengths[:-1]])
    values = random_of(np.int32, size, size)
    right = expected("max", values, starts, exclusive=exclusive)
    flags = np.zeros(size, np.bool_)
    flags[starts[1:]] = True
    x = put(queue, values)
    found = portbar.scan(queue, x, "max", segments=put(queue, flags), exclusive=exclusive)
    np.testing.assert_array_equal(found.get(), right)
    found = portbar.scan(queue, x, "max", offsets=put(queue, starts.astype(np.int32)), exclusive=exclusive)
    np.testing.assert_array_equal(found.get(), right)


@pytest.mark.parametrize("op", UFUNCS)
@pytest.mark.parametrize("kind", [np.int16, np.uint64], ids=lambda kind: kind.__name__)
def test_operators_with_initial_values(queue, scan, form, op, kind):
    values = random_of(kind, 777, 1)
    flags = (np.arange(777) % 50 == 7).astype(np.int32) * 5
    starts = np.flatnonzero(flags | (np.arange(777) == 0))
    for exclusive in (False, True):
        found = portbar.scan(queue, put(queue, values), op, segments=put(queue, flags), initial=5, exclusive=exclusive)
        np.testing.assert_array_equal(found.get(), expected(op, values, starts, exclusive=exclusive, initial=5))


@pytest.mark.parametrize("shape", [(7, 100), (100, 7), (3, 40, 5), (700, 1), (1, 700)], ids=str)
def test_every_axis(queue, scan, form, shape):
    values = random_of(np.int32, int(np.prod(shape)), 2).reshape(shape)
    x = put(queue, values)
    for axis in range(-1, len(shape)):
        found = portbar.scan(queue, x, axis=axis).get()
        np.testing.assert_array_equal(found, np.cumsum(values, axis, dtype=np.int32))
        found = portbar.scan(queue, x, axis=axis, exclusive=True, initial=3).get()
        right = np.cumsum(values, axis, dtype=np.int32) - values + np.int32(3)
        np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.complex64], ids=lambda kind: kind.__name__)
def test_floats_have_the_same_bits_when_tiles_tell_nothing(queue, scan, form, device, monkeypatch, kind):
    need(device, kind)
    values = put(queue, random_of(np.float32, 1_003 if form != "own" else 10_003, 3).astype(kind))
    flags = put(queue, (np.arange(values.size) % 401 == 0).astype(np.uint8))
    first = portbar.scan(queue, values, segments=flags).get()
    starts = np.arange(0, values.size, 401)
    right = np.concatenate([np.cumsum(one.astype(np.complex128)) for one in np.split(values.get(), starts[1:])])
    np.testing.assert_allclose(first, right if kind == np.complex64 else right.real, atol=1e-4)
    stalled(monkeypatch, "tile % 2u == 1u", "own all")
    np.testing.assert_array_equal(portbar.scan(queue, values, segments=flags).get(), first)


def test_an_operator_that_does_not_commute(queue, scan, form):
    affine = np.dtype([("p", np.uint32), ("q", np.uint32)], align=True)
    after = portbar.Operator(
        "((x_type){ a.p * b.p, b.p * a.q + b.q })", neutral="((x_type){ 1u, 0u })", commutative=False
    )
    values = np.empty(500, affine)
    values["p"], values["q"] = random_of(np.uint32, 500, 3), random_of(np.uint32, 500, 4)
    right = np.empty_like(values)
    p, q = 1, 0
    for k, (mine_p, mine_q) in enumerate(values.tolist()):
        if k % 100 == 0:
            p, q = 1, 0
        p, q = p * mine_p % 2**32, (mine_p * q + mine_q) % 2**32
        right[k] = p, q
    found = portbar.scan(queue, put(queue, values.reshape(5, 100)), after, axis=1)
    np.testing.assert_array_equal(found.get().reshape(-1), right)


def test_output_statements_see_segments(queue, scan, form):
    import pyopencl.array as cla  # noqa: PLC0415

    values = random_of(np.int32, 600, 5).reshape(20, 30)
    before, at = cla.zeros(queue, (20, 30), np.int32), cla.zeros(queue, (20, 30), np.int32)
    out = cla.zeros(queue, (20, 30), np.int32)
    portbar.scan(
        queue,
        put(queue, values),
        axis=0,
        out=out,
        output="before[i] = prev_item; at[i] = x[i] + (int)i;",
        outputs={"before": before, "at": at},
    )
    sums = np.cumsum(values, 0, dtype=np.int32)
    np.testing.assert_array_equal(out.get(), sums)
    np.testing.assert_array_equal(before.get(), sums - values)
    np.testing.assert_array_equal(at.get(), values + np.arange(600, dtype=np.int32).reshape(20, 30))


def test_the_largest_of_each_segment_by_place(queue, scan, form):
    values = random_of(np.int16, 300, 8).reshape(3, 100)
    found = portbar.scan(queue, put(queue, values), "argmax", axis=1).get()
    np.testing.assert_array_equal(found["value"], np.maximum.accumulate(values, 1))
    right = [[int(np.argmax(row[: k + 1])) + 100 * n for k in range(100)] for n, row in enumerate(values)]
    np.testing.assert_array_equal(found["index"], right)


def test_row_pointers_with_empty_rows_and_offsets_outside(queue, scan, form):
    x = put(queue, np.ones(300, np.int32))
    pointers = np.array([0, 0, 100, 100, 250, 300, 300], np.int64)
    right = expected("+", np.ones(300, np.int32), [0, 100, 250])
    np.testing.assert_array_equal(portbar.scan(queue, x, offsets=put(queue, pointers)).get(), right)
    for outside in ([-1, 100, 250, 2**40], [250, 100]):
        found = portbar.scan(queue, x, offsets=put(queue, np.array(outside, np.int64))).get()
        np.testing.assert_array_equal(found, right)
    found = portbar.scan(queue, x, offsets=put(queue, pointers.astype(np.uint16))[3:5]).get()
    np.testing.assert_array_equal(found, right)
    none = portbar.scan(queue, x, offsets=put(queue, np.zeros(0, np.int32))).get()
    np.testing.assert_array_equal(none, np.arange(1, 301))


def test_nothing_of_nothing(queue, scan):
    none = put(queue, np.zeros((0, 3), np.float32))
    assert portbar.scan(queue, none, axis=0).shape == (0, 3)
    assert portbar.scan(queue, none, offsets=put(queue, np.array([0, 5]))).shape == (0, 3)
    assert portbar.scan(queue, none, segments=put(queue, np.zeros((0, 3), np.uint8))).shape == (0, 3)


def test_invalid_input_is_refused(queue, scan):
    x = put(queue, np.arange(100, dtype=np.int32))
    flags = put(queue, np.zeros(100, np.uint8))

    def refused(message: str, **more: Any) -> None:
        with pytest.raises(portbar.Error, match=message):
            portbar.scan(queue, x, **more)

    refused(r"segments= has shape \(50,\), the array \(100,\).*offsets=", segments=flags[:50])
    refused("segments= has type float32", segments=put(queue, np.zeros(100, np.float32)))
    refused("segments= has strides", segments=put(queue, np.zeros(200, np.uint8))[::2])
    refused("segments= must be a pyopencl.array.Array of flags, not ndarray", segments=np.zeros(100))
    refused("not both", segments=flags, axis=0)
    refused("not both", segments=flags, offsets=flags)
    refused("not both", offsets=put(queue, np.arange(3)), axis=0)
    refused("offsets= has shape .* type float64", offsets=put(queue, np.zeros(3)))
    refused(r"offsets= has shape \(2, 2\)", offsets=put(queue, np.zeros((2, 2), np.int32)))
    refused("offsets= must be a pyopencl.array.Array of indices, not list", offsets=[0, 5])
    for axis in (1, -2, 0.0, True):
        refused("axis= must be an axis of an array of 1 dimension", axis=axis)
    refused("last_item", segments=flags, output="int k = last_item;")
    refused("shares memory", segments=flags, output="y[i] = 1;", outputs={"y": flags})
