"""Calls on arrays that an exception cuts short, by Ctrl-C or the driver, between any two commands: the next is right."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.arrays import scan, sort
from portbar.arrays.scan_source import Tile
from portbar.arrays.shape import trial
from portbar.arrays.sort_source import TileShape
from tests.interrupts import every_place
from tests.reduce.support import put, random_of
from tests.support import skipped_where_refused

pytestmark = pytest.mark.device

LOOSE = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
KEYS = random_of(np.uint16, 230, 36)
VALUES = random_of(np.int32, 230, 37)


def sorted_pairs(queue):
    found = portbar.sort(queue, put(queue, KEYS), put(queue, VALUES))
    return lambda: np.concatenate([one.get() for one in found])


def places(queue):
    found = portbar.argsort(queue, put(queue, KEYS), begin_bit=4)
    return found.get


def reduced(queue):
    found = portbar.reduce(queue, put(queue, VALUES), outputs={"least": "min", "sum": "+"}, initial={"sum": 5})
    return lambda: np.array([int(one.get()) for one in found.values()])


def scanned(queue):
    found = portbar.scan(queue, put(queue, VALUES), initial=3)
    return found.get


def kept(queue):
    found, count = portbar.compact(queue, put(queue, VALUES), "x > 0")
    return lambda: found.get()[: int(count.get())]


with np.errstate(over="ignore"):
    CALLS = {
        sorted_pairs: np.concatenate([np.sort(KEYS), VALUES[np.argsort(KEYS, kind="stable")]]),
        places: np.argsort(KEYS >> 4, kind="stable"),
        reduced: np.array([VALUES.min(), np.sum(VALUES, dtype=np.int32) + np.int32(5)]),
        scanned: np.cumsum(VALUES, dtype=np.int32) + np.int32(3),
        kept: VALUES[VALUES > 0],
    }


@pytest.fixture(autouse=True)
def several_tiles(queue):
    """Several work-groups in each launch, and several launches for a sort."""
    with skipped_where_refused():
        portbar.sort(queue, put(queue, [1]))
    sorts = sort.TRIAL.set(TileShape("items", local=1, items=100, polls=2))
    scans = scan.TRIAL.set(Tile(local=1, runs=1, length=100, polls=2))
    with trial(groups=3):
        yield
    sort.TRIAL.reset(sorts)
    scan.TRIAL.reset(scans)


@pytest.fixture(params=[0, LOOSE], ids=["in order", "out of order"])
def own_queue(request, context):
    return cl.CommandQueue(context, properties=request.param)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_a_call_after_one_that_was_interrupted_is_right(own_queue, call):
    for _ in range(2):
        np.testing.assert_array_equal(call(own_queue)(), CALLS[call])
    for where in every_place(lambda: call(own_queue), 1 if own_queue.properties == 0 else 3):
        own_queue.finish()
        np.testing.assert_array_equal(call(own_queue)(), CALLS[call], err_msg=where)


def test_numbers_that_an_interrupted_call_has_set_are_set_again(own_queue):
    """Of two halves of an array, which differ by the first element's number only."""
    both = put(own_queue, np.arange(128, dtype=np.uint32))
    first, second = both[:64], both[64:]
    for half in (second, first):
        portbar.reduce(own_queue, half)
    for where in every_place(lambda: portbar.reduce(own_queue, second)):
        own_queue.finish()
        assert portbar.reduce(own_queue, first).get() == sum(range(64)), where


def test_a_kernel_that_arrays_of_other_lengths_share_has_the_arguments_of_each_call(own_queue):
    """In random order, with lengths whose memory outgrows that of the earlier calls."""
    seed = 11
    generator = np.random.default_rng(seed)
    arrays = {int(n): put(own_queue, np.arange(n, dtype=np.uint32)) for n in (*range(500, 520), 3000, 40_000)}
    for turn in range(120):
        length = int(generator.choice(list(arrays)[: 20 if turn < 60 else 22]))
        for call in (portbar.reduce, portbar.scan) if turn % 3 == 0 else (portbar.reduce,):
            found = call(own_queue, arrays[length]).get()
            expected = np.arange(length, dtype=np.uint32)
            right = expected.sum(dtype=np.uint32) if call is portbar.reduce else expected.cumsum(dtype=np.uint32)
            np.testing.assert_array_equal(found, right, err_msg=f"seed {seed}, turn {turn}, length {length}")


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
@pytest.mark.parametrize("enqueued", [False, True], ids=["refused", "enqueued"])
def test_a_call_after_one_whose_command_failed_in_the_driver_is_right(own_queue, call, enqueued, monkeypatch):
    np.testing.assert_array_equal(call(own_queue)(), CALLS[call])
    right, left = cl.enqueue_nd_range_kernel, 0

    def failing(*args, **more):
        nonlocal left
        left -= 1
        event = right(*args, **more) if left != 0 or enqueued else None
        if left == 0:
            raise cl.RuntimeError("clEnqueueNDRangeKernel failed: OUT_OF_RESOURCES")
        return event

    monkeypatch.setattr(cl, "enqueue_nd_range_kernel", failing)
    for number in range(1, 20):
        left = number
        try:
            call(own_queue)
        except cl.RuntimeError:
            left = 0
        else:
            break
        own_queue.finish()
        np.testing.assert_array_equal(call(own_queue)(), CALLS[call], err_msg=str(number))
    assert 1 < number < 19
