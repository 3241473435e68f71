"""`portbar.sort` and `portbar.argsort`: any keys in order, whatever the other work-groups do."""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.arrays import plan as plans
from portbar.arrays.sort_source import SortJob
from tests import support
from tests.reduce.support import in_threads, put, random_of

pytestmark = pytest.mark.device

#: Around the ends of tiles.
SIZES = (1, 2, 79, 80, 81, 99, 100, 101, 1_000)
DTYPES = (
    np.uint8, np.int8, np.uint16, np.int16, np.float16, np.uint32, np.int32, np.float32, np.uint64, np.int64, np.float64,
)  # fmt: skip


def keys_of(dtype: Any, size: int, seed: int) -> Any:
    """Return keys with repetitions, both zeros, infinities and NaNs."""
    values = random_of(dtype, size, seed)
    if np.dtype(dtype).kind == "f":
        values *= np.asarray(100, dtype)
        values[::5] = np.round(values[::5])
        special = [np.nan, -np.nan, -0.0, 0.0, np.inf, -np.inf, -0.0]
        values[1 : 1 + 11 * len(special) : 11] = special[: len(values[1 : 1 + 11 * len(special) : 11])]
    return values


def ordered(values: Any, *, descending: bool) -> Any:
    """Return the places of keys in order, equal ones in theirs: of NaNs, too."""
    if not descending:
        return np.argsort(values, kind="stable")
    return len(values) - 1 - np.argsort(values[::-1], kind="stable")[::-1]


@pytest.mark.parametrize("size", SIZES)
def test_keys_of_every_number(queue, form, size):
    keys = random_of(np.uint32, size, size) % 1000
    np.testing.assert_array_equal(portbar.sort(queue, put(queue, keys)).get(), np.sort(keys))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda kind: kind.__name__)
def test_keys_of_every_type_keep_the_order_of_equal_ones(queue, form, dtype):
    keys = keys_of(dtype, 523, 1)
    descending = (DTYPES.index(dtype) + len(form)) % 2 == 1
    places = ordered(keys, descending=descending)
    values = random_of(np.int16, 523, 2)
    found, moved = portbar.sort(queue, put(queue, keys), put(queue, values), descending=descending)
    # By their bits: zeros have a sign, and what is no number has one and more.
    bits = np.dtype(f"u{keys.itemsize}")
    np.testing.assert_array_equal(found.get().view(bits), keys[places].view(bits))
    np.testing.assert_array_equal(moved.get(), values[places])


@pytest.mark.parametrize("descending", [False, True], ids=["ascending", "descending"])
def test_places_of_keys_in_order(queue, form, descending):
    keys = keys_of(np.float32, 523, 1)
    found = portbar.argsort(queue, put(queue, keys), descending=descending).get()
    assert found.dtype == np.uint32
    np.testing.assert_array_equal(found, ordered(keys, descending=descending))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int64, "S3", "f8,i4", "S16", "S24"], ids=str)
def test_values_of_every_size_move_with_their_keys(queue, form, dtype):
    keys = random_of(np.int16, 333, 3) % 50
    values = np.frombuffer(np.random.default_rng(4).bytes(333 * np.dtype(dtype).itemsize), dtype)
    found, moved = portbar.sort(queue, put(queue, keys), put(queue, values.view(np.dtype(("V", values.itemsize)))))
    places = np.argsort(keys, kind="stable")
    np.testing.assert_array_equal(found.get(), keys[places])
    assert moved.get().tobytes() == values[places].tobytes()


@pytest.mark.parametrize(("begin", "end"), [(0, 1), (3, 8), (4, 14), (0, 17), (31, 32), (5, 32)])
def test_some_bits_of_the_keys(queue, form, begin, end):
    keys = random_of(np.uint32, 700, 5)
    places = np.argsort(keys >> begin & ((1 << (end - begin)) - 1), kind="stable")
    np.testing.assert_array_equal(
        portbar.sort(queue, put(queue, keys), begin_bit=begin, end_bit=end).get(), keys[places]
    )
    np.testing.assert_array_equal(
        portbar.argsort(queue, put(queue, keys), begin_bit=begin, end_bit=end, dtype=np.int64).get(), places
    )


def test_signed_integers_by_their_upper_bits(queue, form):
    keys = random_of(np.int32, 700, 6)
    places = np.argsort(keys >> 20, kind="stable")
    np.testing.assert_array_equal(portbar.sort(queue, put(queue, keys), begin_bit=20).get(), keys[places])


def test_keys_that_are_all_the_same_and_keys_in_order(queue, form):
    for keys in (np.full(801, 7, np.uint16), np.arange(801, dtype=np.int32), np.arange(801, 0, -1, np.int64)):
        np.testing.assert_array_equal(portbar.sort(queue, put(queue, keys)).get(), np.sort(keys))


def test_truth_values(queue, form):
    keys = random_of(np.uint8, 300, 7) > 100
    found = portbar.sort(queue, put(queue, keys))
    assert found.dtype == np.bool_
    np.testing.assert_array_equal(found.get(), np.sort(keys))


def test_parts_of_buffers_and_results_of_the_callers(queue, form):
    keys, values = put(queue, random_of(np.int16, 500, 8)), put(queue, random_of(np.uint64, 500, 9))
    out = (put(queue, np.zeros(500, np.int16)), put(queue, np.zeros(500, np.uint64)))
    returned, event = portbar.sort(
        queue, keys[3:203], values[5:205], out=(out[0][7:207], out[1][9:209]), return_event=True
    )
    event.wait()
    places = np.argsort(keys.get()[3:203], kind="stable")
    np.testing.assert_array_equal(out[0].get()[7:207], keys.get()[3:203][places])
    np.testing.assert_array_equal(returned[1].get(), values.get()[5:205][places])
    for one, begin in zip(out, (7, 9), strict=True):
        around = one.get()
        around[begin : begin + 200] = 0
        assert not around.any()


def test_sorts_of_different_kinds_one_after_another(queue, form):
    """Each finds what the one before left in the memory that they share."""
    for turn in range(3):
        for dtype, size in ((np.uint64, 300), (np.uint8, 900), (np.float32, 450)):
            keys = keys_of(dtype, size, turn)
            np.testing.assert_array_equal(portbar.sort(queue, put(queue, keys)).get(), np.sort(keys))


def untold(text: str) -> str:
    """Return the kernels of a sort whose tiles publish nothing to later ones."""
    changed = re.sub(r"portbar_(word_store_release|tagged_store)\(words \+ .*;", ";", text)
    assert changed != text
    return changed


def test_tiles_that_never_tell_their_counts(queue, device, form, monkeypatch):
    """As with a work-group that the device stops: later ones count its tile themselves, and do not wait."""
    if form == "small":
        pytest.skip("one work-group sorts all")
    if form == "own" and support.scale(queue.device).is_simulator:
        pytest.skip("the simulator would take minutes for three of its tiles")
    right = SortJob.text
    monkeypatch.setattr(SortJob, "text", lambda job, strategy: untold(right(job, strategy)))
    monkeypatch.setattr(plans.QUEUES, "_kept", OrderedDict())
    # Loops that a device ends early see no more tiles untold than it runs at once.
    own = 10_000 if portbar.describe(device).loop_limit is not None else 300_000
    for size in (own,) if form == "own" else (81, 1_000):
        keys = random_of(np.uint16, size, 10)
        np.testing.assert_array_equal(portbar.argsort(queue, put(queue, keys)).get(), np.argsort(keys, kind="stable"))


def test_numbers_of_launches_begin_again(queue, form, monkeypatch):
    monkeypatch.setattr(plans, "MOST_EPOCHS", plans.state_of(queue)._epoch % 1_000_000 + 7)
    for turn in range(6):
        keys = random_of(np.uint32, 400, turn)
        np.testing.assert_array_equal(portbar.sort(queue, put(queue, keys)).get(), np.sort(keys))


def test_threads_that_sort_on_one_queue(queue, form):
    if "Oclgrind" in queue.device.platform.name:
        pytest.skip("Oclgrind ends the process when two threads use it at once")

    def work(seed: int) -> None:
        keys = random_of(np.int32, 600, seed)
        given, right = put(queue, keys), np.sort(keys)
        for _ in range(5):
            np.testing.assert_array_equal(portbar.sort(queue, given).get(), right)

    in_threads(work, 4)


def test_a_queue_that_keeps_no_order(loose_queue, form):
    keys = random_of(np.uint32, 900, 11)
    given = put(loose_queue, keys)
    for _ in range(3):
        given = portbar.sort(loose_queue, given, descending=True)
        given = portbar.sort(loose_queue, given)
    np.testing.assert_array_equal(given.get(), np.sort(keys))


def test_a_sort_waits_for_the_commands_on_its_destinations(queue):
    """It refuses one that has failed."""
    keys, out = put(queue, np.array([3, 1, 2], np.int32)), put(queue, np.zeros(3, np.int32))
    places = put(queue, np.zeros(3, np.uint32))
    failed = cl.UserEvent(queue.context)
    failed.set_status(-5)
    for name, wrong, call, more in (
        ("out of keys", out, portbar.sort, {"out": out}),
        ("out of keys", out, portbar.sort, {"values": keys, "out": (out, places.view(np.int32))}),
        (
            "out of values",
            places,
            portbar.sort,
            {"values": put(queue, np.arange(3, dtype=np.uint32)), "out": (out, places)},
        ),
        ("out of values", places, portbar.argsort, {"out": places}),
        ("'out'", out, portbar.sort, {"axis": 0, "out": out}),
        ("'out'", places, portbar.argsort, {"axis": 0, "out": places}),
    ):
        wrong.events[:] = [failed]
        with pytest.raises(portbar.LaunchError, match=name):
            call(queue, keys, **more)
        wrong.events.clear()
        call(queue, keys, **more)


def test_no_keys(queue, form):
    empty = put(queue, np.zeros(0, np.float32))
    assert portbar.sort(queue, empty).get().shape == (0,)
    assert portbar.argsort(queue, empty).get().shape == (0,)


BYTES = np.zeros(4, np.int8)
REFUSED = {
    "list": ([1, 2], {}, r"keys is a list, not a pyopencl.array.Array"),
    "complex": (np.zeros(4, np.complex64), {}, r"keys of complex64 cannot be sorted"),
    "another byte order": (np.zeros(4, ">i4"), {}, r"keys of >i4 cannot be sorted: .* in the host's byte order"),
    "two dimensions": (np.zeros((2, 2), np.int32), {}, r"shape \(2, 2\): without axis= portbar sorts one dimension"),
    "no bits": (BYTES, {"begin_bit": 3, "end_bit": 3}, "select none of them"),
    "too many bits": (BYTES, {"end_bit": 9}, "have bits 0 to 8"),
    "half a bit": (BYTES, {"end_bit": 1.5}, "must be integers"),
    "fewer values": (BYTES, {"values": np.zeros(3)}, "4 keys and 3 values"),
    "out of another type": (BYTES, {"out": np.zeros(4, np.int16)}, r"must have shape \(4,\) and type int8"),
    "out of another length": (BYTES, {"out": np.zeros(5, np.int8)}, r"must have shape \(4,\)"),
    "one out of two": (BYTES, {"values": np.zeros(4), "out": np.zeros(4, np.int8)}, "must be a pair"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_unsortable_arguments_are_refused_by_name(queue, case):
    keys, more, said = REFUSED[case]
    more = {name: put(queue, one) if isinstance(one, np.ndarray) else one for name, one in more.items()}
    with pytest.raises(portbar.Error, match=said):
        portbar.sort(queue, put(queue, keys) if isinstance(keys, np.ndarray) else keys, **more)


def test_strides_shared_memory_and_other_contexts_are_refused(queue, device):
    keys = put(queue, np.arange(10, dtype=np.int32))
    out = put(queue, np.zeros(4, np.int32))
    # A queue may not keep its context alive: the effect CONTEXTS_LOST.
    another = cl.Context([device])
    other = cl.CommandQueue(another)
    for call, args, more, told in (
        (portbar.sort, (queue, keys[::2]), {}, r"ascontiguousarray"),
        (portbar.sort, (queue, keys[:5]), {"out": keys[4:9]}, "shares memory"),
        (portbar.argsort, (queue, keys), {"out": keys.view(np.uint32)}, "shares memory"),
        (portbar.sort, (queue, keys[:4], keys[4:8]), {"out": (out, out)}, "shares memory"),
        (portbar.argsort, (queue, keys), {"dtype": ">u4"}, "in the host's byte order"),
        (portbar.argsort, (queue, keys), {"dtype": np.float32}, "integers of 32 or 64 bits"),
        (portbar.sort, (other, keys), {}, "another context"),
        (portbar.sort, (keys, keys), {}, r"first argument must be a pyopencl.CommandQueue"),
    ):
        with pytest.raises(portbar.LaunchError, match=told):
            call(*args, **more)


def test_indices_of_more_keys_than_their_type_has_numbers_are_refused(queue, monkeypatch):
    class Few(np.iinfo):
        max = 8

    monkeypatch.setattr(np, "iinfo", Few)
    with pytest.raises(portbar.LaunchError, match=r"indices of 10 keys do not fit int32: pass dtype=numpy\.uint32"):
        portbar.argsort(queue, put(queue, np.arange(10)), dtype=np.int32)


def test_more_keys_than_places_have_numbers_are_refused(queue, monkeypatch):
    monkeypatch.setattr("portbar.arrays.sort.MOST_KEYS", 9)
    with pytest.raises(portbar.LaunchError, match="10 elements; one sort takes at most 9"):
        portbar.sort(queue, put(queue, np.arange(10)))
