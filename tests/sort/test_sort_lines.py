"""Sorts along an axis, in place, and of keys with several arrays of values: what NumPy gives."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest
from pyopencl.tools import ImmediateAllocator, MemoryPool

import portbar

pytestmark = pytest.mark.device

SHAPES = [((5, 7, 3), axis) for axis in (0, 1, -1)] + [((1, 9), 1), ((9, 1), 1), ((4, 300), 1)]
PAIR = np.dtype([("a", np.int32), ("b", np.uint8)], align=True)


def drawn(shape, order):
    values = np.random.default_rng(4).integers(-20, 20, shape).astype(np.int16)
    return np.asarray(values, order=order)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_an_axis_is_sorted_stably_with_all_its_values(queue, shape, axis, order):
    keys = drawn(shape, order)
    numbers = np.asarray(np.arange(keys.size, dtype=np.float32).reshape(shape), order=order)
    pairs = np.zeros(shape, PAIR, order=order)
    pairs["a"], pairs["b"] = numbers, 7
    on_device = cl_array.to_device(queue, keys)
    places = np.argsort(keys, axis, kind="stable")
    found = portbar.argsort(queue, on_device, axis=axis)
    np.testing.assert_array_equal(found.get(), places)
    assert found.flags.f_contiguous == on_device.flags.f_contiguous
    values = cl_array.to_device(queue, numbers), cl_array.to_device(queue, pairs)
    ordered, moved = portbar.sort(queue, on_device, values, axis=axis)
    np.testing.assert_array_equal(ordered.get(), np.sort(keys, axis))
    np.testing.assert_array_equal(moved[0].get(), np.take_along_axis(numbers, places, axis))
    np.testing.assert_array_equal(moved[1].get()["a"], moved[0].get().astype(np.int32))
    ordered, one = portbar.sort(queue, on_device, values[0], axis=axis)
    np.testing.assert_array_equal(one.get(), moved[0].get())


def test_an_axis_takes_the_options_of_a_sort(queue, loose_queue):
    keys = drawn((3, 40), "C")
    for any_queue in (queue, loose_queue):
        on_device = cl_array.to_device(any_queue, keys)
        gate = cl.UserEvent(any_queue.context)
        found, event = portbar.sort(any_queue, on_device, axis=1, descending=True, wait_for=[gate], return_event=True)
        gate.set_status(cl.command_execution_status.COMPLETE)
        event.wait()
        np.testing.assert_array_equal(found.get(), np.sort(keys, 1)[:, ::-1])
    by_bits = portbar.argsort(queue, on_device.view(np.uint16), axis=1, begin_bit=0, end_bit=3, dtype=np.int64)
    np.testing.assert_array_equal(by_bits.get(), np.argsort(keys.view(np.uint16) & 7, 1, kind="stable"))
    assert by_bits.dtype == np.int64


@pytest.mark.parametrize("length", [1, 50, 5000])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_keys_and_values_are_sorted_in_place(queue, dtype, length):
    keys = np.random.default_rng(length).integers(0, 200, length).astype(dtype)
    on_device, values = cl_array.to_device(queue, keys), cl_array.arange(queue, length, dtype=np.int32)
    first, second = portbar.sort(queue, on_device, values, out=(on_device, values))
    assert first is on_device
    assert second is values
    np.testing.assert_array_equal(on_device.get(), np.sort(keys))
    np.testing.assert_array_equal(values.get(), np.argsort(keys, kind="stable"))


def test_several_values_of_one_dimension_and_their_destinations(queue):
    keys = cl_array.to_device(queue, np.array([3, 1, 2], np.int32))
    a, b = (cl_array.to_device(queue, np.array(values, np.float32)) for values in ([30, 10, 20], [3, 1, 2]))
    out = cl_array.empty_like(keys), [cl_array.empty_like(a), b]
    found, moved = portbar.sort(queue, keys, [a, b], out=out)
    assert moved[1] is b
    assert [one.get().tolist() for one in (found, *moved)] == [[1, 2, 3], [10, 20, 30], [1, 2, 3]]
    assert portbar.sort(queue, keys, [])[1] == ()


def test_results_come_from_an_allocator(queue):
    pool = MemoryPool(ImmediateAllocator(queue))
    keys = cl_array.to_device(queue, np.array([3, 1, 2], np.int32))
    for found in (
        portbar.sort(queue, keys, allocator=pool), portbar.argsort(queue, keys, allocator=pool),
        portbar.scan(queue, keys, allocator=pool), portbar.reduce(queue, keys, allocator=pool),
        portbar.compact(queue, keys, "x > 1", allocator=pool)[0], portbar.unique_consecutive(queue, keys, allocator=pool)[0],
        *portbar.run_lengths(queue, keys, allocator=pool),
    ):  # fmt: skip
        assert found.allocator is pool
    out = cl_array.empty_like(keys)
    for call in (portbar.sort, portbar.argsort, portbar.scan, portbar.reduce, portbar.unique_consecutive):
        given = cl_array.empty(queue, (), np.int32) if call is portbar.reduce else out.view(np.uint32)
        given = out if call in (portbar.sort, portbar.scan, portbar.unique_consecutive) else given
        with pytest.raises(portbar.LaunchError, match="out= or allocator=, not both"):
            call(queue, keys, out=given, allocator=pool)


def test_arrays_that_cannot_be_sorted_are_refused(queue):
    keys = cl_array.to_device(queue, drawn((4, 6), "C"))
    other = cl_array.to_device(queue, drawn((4, 6), "F"))
    for words, args, more in (
        ("pass axis=", (keys,), {}),
        ("axis of an array of 2 dimensions", (keys,), {"axis": 2}),
        ("strides", (keys, other), {"axis": 0}),
        ("strides", (keys,), {"axis": 0, "out": other}),
        ("Fortran order", (other,), {"axis": 0, "out": keys}),
        ("keys of shape", (keys, keys.reshape(6, 4)), {"axis": 0}),
        ("1 arrays for 2", (keys, [keys, keys]), {"axis": 0, "out": (keys, [keys])}),
        ("shares memory", (keys, [keys]), {"axis": 0, "out": (keys, [keys])}),
    ):
        with pytest.raises(portbar.LaunchError, match=words):
            portbar.sort(queue, *args, **more)


def test_a_failed_event_of_the_wait_list_is_named_as_such(queue):
    keys = cl_array.to_device(queue, drawn((4, 6), "C"))
    failed = cl.UserEvent(queue.context)
    failed.set_status(-5)
    for call in (portbar.sort, portbar.argsort):
        with pytest.raises(portbar.LaunchError, match="a command in wait_for failed"):
            call(queue, keys, axis=0, wait_for=[failed])
        assert failed not in keys.events
