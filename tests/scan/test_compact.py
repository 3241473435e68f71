"""`portbar.compact`, `unique_consecutive` and `run_lengths` keep what NumPy keeps, in its order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import portbar
from portbar.arrays.plan import Plan
from tests.reduce.support import need, put, random_of

pytestmark = pytest.mark.device

KINDS = (np.int8, np.uint16, np.int32, np.uint64, np.float32, np.float64)


def runs_of(values: Any) -> tuple[Any, Any]:
    """Return where runs of equal values begin, and how long they are."""
    begins = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
    return begins, np.diff(np.append(begins, len(values)))


def first(found: Any, count: Any) -> Any:
    return found.get()[: int(count.get())]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_type_is_compacted_and_counted(queue, scan, form, device, kind):
    need(device, kind)
    values = random_of(kind, 1_003, 1)
    for at, limit in ((values > 0, "x > 0"), (values < 0, "x[i] < 0")):
        kept, count = portbar.compact(queue, put(queue, values), limit)
        assert kept.dtype == kind
        assert (count.shape, count.dtype) == ((), np.int64)
        np.testing.assert_array_equal(first(kept, count), values[at])


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lengths=st.lists(st.integers(1, 60), min_size=1, max_size=40), few=st.integers(1, 3))
def test_runs_of_any_lengths(queue, scan, form, lengths, few):
    values = np.repeat(np.arange(len(lengths)) % (few + 1), lengths).astype(np.int16)
    begins, long = runs_of(values)
    found, long_found, count = portbar.run_lengths(queue, put(queue, values))
    assert int(count.get()) == len(begins)
    np.testing.assert_array_equal(first(found, count), values[begins])
    np.testing.assert_array_equal(first(long_found, count), long)
    found, count = portbar.unique_consecutive(queue, put(queue, values))
    np.testing.assert_array_equal(first(found, count), values[begins])


@pytest.mark.parametrize("size", [1, 48, 49, 80, 81])
def test_all_none_and_a_single_run(queue, scan, form, size):
    values = put(queue, np.full(size, 3, np.int32))
    kept, count = portbar.compact(queue, values, "x != 3")
    assert int(count.get()) == 0
    kept, count = portbar.compact(queue, values, "x == 3")
    np.testing.assert_array_equal(first(kept, count), [3] * size)
    found, lengths, count = portbar.run_lengths(queue, values)
    assert (first(found, count).tolist(), first(lengths, count).tolist()) == ([3], [size])


def test_several_arrays_keep_the_same_elements(queue, scan, form):
    pairs = np.dtype([("a", np.int16), ("b", np.float32)], align=True)
    key, more = random_of(np.int32, 777, 2), np.zeros(777, pairs)
    more["a"], more["b"] = np.arange(777), random_of(np.float32, 777, 3)
    arrays = {"key": put(queue, key), "more": put(queue, more)}
    kept, count, event = portbar.compact(queue, arrays, "key > 0 && more.b > 0 && i > 5", return_event=True)
    event.wait()
    at = (key > 0) & (more["b"] > 0) & (np.arange(777) > 5)
    np.testing.assert_array_equal(first(kept["key"], count), key[at])
    np.testing.assert_array_equal(first(kept["more"], count), more[at])


def test_comparisons_of_ones_own_and_of_vectors(queue, scan, form):
    values = np.sort(random_of(np.int32, 600, 4))
    found, count = portbar.unique_consecutive(queue, put(queue, values), "abs_diff(a, b) < 10000000u")
    right = values[np.concatenate([[True], np.diff(values.astype(np.int64)) >= 10_000_000])]
    np.testing.assert_array_equal(first(found, count), right)
    complexes = np.repeat([1 + 1j, 1 + 2j, 2 + 2j], [3, 50, 200]).astype(np.complex64)
    found, lengths, count = portbar.run_lengths(queue, put(queue, complexes))
    np.testing.assert_array_equal(first(found, count), [1 + 1j, 1 + 2j, 2 + 2j])
    np.testing.assert_array_equal(first(lengths, count), [3, 50, 200])
    pairs = np.dtype([("a", np.int32), ("b", np.int32)], align=True)
    structs = np.zeros(300, pairs)
    structs["b"] = np.arange(300) // 7
    found, count = portbar.unique_consecutive(queue, put(queue, structs), "a.b == b.b")
    np.testing.assert_array_equal(first(found, count)["b"], np.arange(43))


def test_nothing_of_nothing(queue, scan):
    none = put(queue, np.zeros(0, np.float32))
    for call in (lambda: portbar.compact(queue, none, "x > 0"), lambda: portbar.unique_consecutive(queue, none)):
        kept, count = call()
        assert (kept.shape, int(count.get())) == ((0,), 0)
    found, lengths, count = portbar.run_lengths(queue, none)
    assert (found.shape, lengths.shape, int(count.get())) == ((0,), (0,), 0)


def test_each_is_one_launch(queue, scan, monkeypatch):
    launches = []
    launch = Plan.launch
    monkeypatch.setattr(Plan, "launch", lambda *args: (launches.append(1), launch(*args))[1])
    values = put(queue, np.arange(5_000, dtype=np.int32) // 3)
    for call in (lambda: portbar.compact(queue, values, "x > 7"), lambda: portbar.unique_consecutive(queue, values)):
        call()
    portbar.run_lengths(queue, values)
    assert len(launches) == 3


def test_invalid_input_is_refused(queue, scan):
    x = put(queue, np.arange(100, dtype=np.int32))
    structures = put(queue, np.zeros(3, np.dtype([("a", np.int32), ("b", np.int32)], align=True)))
    for call, args, error, message in (
        (portbar.compact, (x, "x > wat"), portbar.BuildError, r"the predicate, 'x > wat', does not compile"),
        (portbar.run_lengths, (x, "a == wat"), portbar.BuildError, r"the comparison, 'a == wat', does not compile"),
        (portbar.compact, (x, "x; x"), portbar.Error, "more than one expression"),
        (portbar.compact, (x, 7), portbar.Error, "'x > 0', not 7"),
        (portbar.unique_consecutive, ({"x": x},), portbar.Error, "not a mapping"),
        (portbar.unique_consecutive, (structures,), portbar.Error, "equal="),
        (portbar.compact, (x[::2], "x > 0"), portbar.LaunchError, "strides"),
        (portbar.unique_consecutive, ([1, 2],), portbar.LaunchError, "to_device"),
    ):
        with pytest.raises(error, match=message):
            call(queue, *args)
    with pytest.raises(portbar.LaunchError, match="CommandQueue"):
        portbar.compact(x, x, "x > 0")
