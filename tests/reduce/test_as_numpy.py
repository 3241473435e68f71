"""Habits of NumPy's users in `portbar.reduce` and `portbar.scan`: axes, orders, names of operators, types of results."""

from __future__ import annotations

import numpy as np
import pyopencl.array as cl_array
import pytest

import portbar

pytestmark = pytest.mark.device

VALUES = np.random.default_rng(8).integers(-40, 40, (5, 7, 3)).astype(np.int16)
#: A callable that was written in C has no name to look up in some versions of NumPy.
NAMES = {
    "sum": np.sum, "prod": np.prod, "max": np.max, "minimum": np.min, "bitwise_or": np.bitwise_or.reduce,
    "all": np.all, "any": np.any,
}  # fmt: skip


@pytest.fixture(params=["C", "F"])
def array(request, queue):
    return cl_array.to_device(queue, np.asarray(VALUES, order=request.param))


@pytest.mark.parametrize("axis", [0, -1, (0, 1), (1, 2), (2, 1), (0, 1, 2), (-3,), None])
def test_axes_are_reduced_and_may_stay(queue, array, axis):
    for keepdims in (False, True):
        found = portbar.reduce(queue, array, "max", axis=axis, keepdims=keepdims).get()
        expected = VALUES.max(axis, keepdims=keepdims)
        assert found.shape == expected.shape
        np.testing.assert_array_equal(found, expected)


def test_axes_that_cannot_be_reduced_are_refused(queue, array):
    for axis, words in (
        (1, "both sides"),
        ((0, 2), "both sides"),
        ((0, 0), "twice"),
        ((), "reduces nothing"),
        (3, "axis="),
    ):
        with pytest.raises(portbar.LaunchError, match=words):
            portbar.reduce(queue, array, axis=axis)


def test_results_in_fortran_order_need_such_a_destination(queue):
    array = cl_array.to_device(queue, np.asarray(VALUES, order="F"))
    out = cl_array.zeros(queue, (5, 7), np.int16, order="F")
    assert portbar.reduce(queue, array, axis=2, out=out) is out
    np.testing.assert_array_equal(out.get(), VALUES.sum(2, dtype=np.int16))
    with pytest.raises(portbar.LaunchError, match="Fortran order"):
        portbar.reduce(queue, array, axis=2, out=cl_array.zeros(queue, (5, 7), np.int16))
    with pytest.raises(portbar.LaunchError, match=r"axis=, or x\.T"):
        portbar.scan(queue, array)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_an_axis_is_scanned_in_either_order(queue, array, axis):
    np.testing.assert_array_equal(portbar.scan(queue, array, axis=axis).get(), VALUES.cumsum(axis, dtype=np.int16))
    place = portbar.scan(queue, array, "max", map="along", axis=axis, dtype=np.int32).get()
    np.testing.assert_array_equal(place, np.indices(VALUES.shape)[axis])


def test_orders_that_do_not_suit_are_refused_in_words(queue):
    array = cl_array.to_device(queue, np.asfortranarray(np.arange(12, dtype=np.int32).reshape(3, 4)))
    for call, args, more in (
        (portbar.reduce, ("argmin",), {}),
        (portbar.reduce, (), {"map": "x * along", "axis": (0, 1)}),
        (portbar.compact, ("x > 1",), {}),
    ):
        with pytest.raises(portbar.LaunchError, match=r"Fortran order.* x\.T") as refused:
            call(queue, array, *args, **more)
        assert "pass axis=" not in str(refused.value)
    with pytest.raises(portbar.LaunchError, match=r"the mask is a ndarray, .*to_device"):
        portbar.compact(queue, array.T, np.ones((4, 3), bool))


@pytest.mark.parametrize("name", NAMES)
def test_operators_have_numpy_s_names(queue, name):
    values = np.array([3, 1, 2], np.int32)
    found = portbar.reduce(queue, cl_array.to_device(queue, values), name).get()
    assert found == NAMES[name](values)


def test_functions_of_numpy_are_operators(queue):
    values = cl_array.to_device(queue, np.array([3, 0, 2], np.int32))
    for op, expected in ((np.add, 5), (np.maximum, 3), (np.multiply, 0), (np.bitwise_xor, 1), (np.logical_and, 0)):
        assert portbar.reduce(queue, values, op).get() == expected
    with pytest.raises(portbar.Error, match="unknown operator 'subtract'"):
        portbar.reduce(queue, values, np.subtract)


def test_logical_operators_give_bool_where_that_is_asked_for(queue):
    values = cl_array.to_device(queue, np.array([0, 0.5, 0], np.float32))
    for op, expected in (("any", True), ("all", False)):
        found = portbar.reduce(queue, values, op, dtype=bool)
        assert found.dtype == np.bool_
        assert found.get() == expected
    found = portbar.scan(queue, values, "any", dtype=np.bool_, initial=False)
    assert found.get().tolist() == [False, True, True]
    with pytest.raises(portbar.Error, match="dtype=bool is for logical operators"):
        portbar.reduce(queue, values, "sum", dtype=bool)


@pytest.mark.parametrize("call", [portbar.reduce, portbar.scan])
def test_a_map_that_an_integer_would_cut_is_refused(queue, call):
    values = cl_array.to_device(queue, np.array([1, 2, 3], np.int32))
    with pytest.raises(portbar.BuildError, match=r"'0.5f \* x', gives floating-point numbers .* dtype=np.float32"):
        call(queue, values, map="0.5f * x")
    with pytest.raises(portbar.BuildError, match="does not compile"):
        call(queue, values, map="0.5f * wat")
    assert call(queue, values, map="0.5f * x", dtype=np.float32).get().ravel()[-1] == 3
    assert call(queue, values, map="(int)(0.5f * x)").get().ravel()[-1] == 2
    assert call(queue, values, map="x > 1").get().ravel()[-1] == 2
    assert call(queue, values, map="0.5f * x", dtype=np.int32).get().ravel()[-1] == 2


def test_an_index_along_an_axis_has_a_name(queue):
    values = cl_array.to_device(queue, np.ones((2, 4), np.int32))
    assert portbar.reduce(queue, values, map="x * along", axis=1).get().tolist() == [6, 6]
    assert portbar.reduce(queue, values, map="x[i] * along", axis=0).get().tolist() == [1, 1, 1, 1]
    assert portbar.reduce(queue, values, map="x * along").get() == 28
    with pytest.warns(DeprecationWarning, match="Write along"):
        assert portbar.reduce(queue, values, map="x * (i + 0)", axis=1).get().tolist() == [6, 6]


def test_a_scan_stores_in_place(queue):
    values = np.random.default_rng(3).integers(0, 9, 20_000).astype(np.int32)
    array = cl_array.to_device(queue, values)
    assert portbar.scan(queue, array, out=array) is array
    assert portbar.scan(queue, array, "max", exclusive=True, out=array) is array
    expected = np.concatenate([[np.iinfo(np.int32).min], values.cumsum()[:-1]])
    np.testing.assert_array_equal(array.get(), expected)
    with pytest.raises(portbar.LaunchError, match="shares memory"):
        portbar.scan(queue, array[1:], out=array[:-1])


def test_masks_choose_elements(queue):
    values = np.arange(8, dtype=np.float32)
    x, mask = cl_array.to_device(queue, values), cl_array.to_device(queue, values % 3 == 0)
    kept, count = portbar.compact(queue, x, mask)
    assert kept.get()[: int(count.get())].tolist() == values[values % 3 == 0].tolist()
    kept, count = portbar.compact(queue, {"mask": x, "b": x}, mask)
    assert set(kept) == {"mask", "b"}
    assert kept["b"].get()[: int(count.get())].tolist() == [0, 3, 6]
    assert portbar.compact(queue, mask, mask)[1].get() == 3
    with pytest.raises(portbar.LaunchError, match="the mask has shape"):
        portbar.compact(queue, x, mask[1:])


def test_destinations_of_kept_elements(queue):
    x = cl_array.to_device(queue, np.array([3, 3, 1, 1, 1], np.int32))
    out, lengths = cl_array.zeros(queue, 7, np.int32), cl_array.zeros(queue, 5, np.int64)
    assert portbar.compact(queue, x, "x > 2", out=out)[0] is out
    assert portbar.unique_consecutive(queue, x, out=out)[0] is out
    assert out.get().tolist()[:2] == [3, 1]
    found = portbar.run_lengths(queue, x, out=(out, lengths))
    assert found[1] is lengths
    assert lengths.get().tolist()[:2] == [2, 3]
    for call, args, wrong in (
        (portbar.compact, ("x > 2",), x[:3]),
        (portbar.compact, ("x > 2",), x),
        (portbar.unique_consecutive, (), lengths),
        (portbar.run_lengths, (), out),
        (portbar.run_lengths, (), (out, out)),
    ):
        with pytest.raises(portbar.LaunchError, match="out="):
            call(queue, x, *args, out=wrong)


def test_former_names_work_with_a_warning(queue):
    x = cl_array.to_device(queue, np.array([3, 3, 1], np.int32))
    with pytest.warns(DeprecationWarning, match="portbar.unique_consecutive"):
        assert portbar.unique(queue, x)[1].get() == 2
    to = cl_array.zeros(queue, 3, np.int32)
    with pytest.warns(DeprecationWarning, match="called targets="):
        portbar.scan(queue, x, output="to[i] = item;", outputs={"to": to})
    assert to.get().tolist() == [3, 6, 7]
