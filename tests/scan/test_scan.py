"""`portbar.scan`: right prefixes of any values, whatever the other work-groups do."""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.arrays import plan
from portbar.arrays.scan_source import ScanJob
from tests import support
from tests.reduce.support import affine, beyond_memory, composition, in_threads, need, put, random_of

pytestmark = pytest.mark.device

#: Around the ends of runs and tiles.
SIZES = (1, 2, 15, 16, 47, 48, 49, 80, 81, 1_000, 4_224, 4_225, 20_011)
UFUNCS = {"+": np.add, "*": np.multiply, "min": np.minimum, "max": np.maximum, "&": np.bitwise_and, "^": np.bitwise_xor}
INTEGERS = (np.int8, np.uint16, np.int32, np.uint64)


def expected(op: str, values: Any, *, exclusive: bool, initial: Any) -> Any:
    """Return what NumPy makes of it, in the values' own type."""
    with np.errstate(over="ignore"):
        start = np.array([UFUNCS[op].identity if initial is None else initial]).astype(values.dtype)
        whole = UFUNCS[op].accumulate(np.concatenate([start, values]), dtype=values.dtype)
    return whole[:-1] if exclusive else whole[1:]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("exclusive", [False, True], ids=["inclusive", "exclusive"])
def test_sums_of_every_size(scan, form, exclusive, size):
    values = random_of(np.int32, size, size)
    np.testing.assert_array_equal(
        scan(values, exclusive=exclusive), expected("+", values, exclusive=exclusive, initial=None)
    )


@pytest.mark.parametrize("op", UFUNCS)
def test_integers_of_every_operator(scan, form, op):
    dtypes = [dtype for place, dtype in enumerate(INTEGERS) if (place + list(UFUNCS).index(op)) % 2]
    for dtype, exclusive in zip(dtypes, (False, True), strict=True):
        values = random_of(dtype, 1_001, 5)
        initial = {"min": 100, "max": 3}.get(op, 7)
        found = scan(values, op, exclusive=exclusive, initial=initial)
        assert found.dtype == values.dtype
        np.testing.assert_array_equal(found, expected(op, values, exclusive=exclusive, initial=initial))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64], ids=lambda kind: kind.__name__)
def test_floats_are_near_the_exact_sums(scan, form, device, dtype):
    need(device, dtype)
    values = random_of(np.float64, 10_007, 1)
    if dtype is np.complex64:
        values = values + 1j * random_of(np.float64, 10_007, 2)
    values = values.astype(dtype)
    np.testing.assert_allclose(scan(values), np.cumsum(values.astype(np.complex128)), atol=2e-4)


def test_an_operator_that_does_not_commute_keeps_the_order(scan, form):
    values, right = affine(np.uint32, 777, 3)
    np.testing.assert_array_equal(scan(values, composition("x_type")), right)


def test_maps_of_several_arrays_and_the_index(scan, form):
    a, b = random_of(np.int32, 500, 1), random_of(np.int32, 500, 2)
    with np.errstate(over="ignore"):
        right = np.cumsum(a * b - np.arange(500, dtype=np.int32), dtype=np.int32)
    np.testing.assert_array_equal(scan({"a": a, "b": b}, map="a[i] * b - (int)i"), right)
    np.testing.assert_array_equal(scan(a > 0, map="x != 0"), np.cumsum(a > 0))
    np.testing.assert_array_equal(scan(a, map="x > 0", dtype=np.int64), np.cumsum(a > 0))


def test_the_place_of_the_largest_value_so_far(scan, form):
    values = random_of(np.int16, 300, 8)
    found = scan(values, "argmax")
    np.testing.assert_array_equal(found["value"], np.maximum.accumulate(values))
    np.testing.assert_array_equal(found["index"], [int(np.argmax(values[: k + 1])) for k in range(300)])


def own_size(device: cl.Device) -> int:
    """Elements of some of the device's own tiles: on GPUs, of more than two blocks of 32."""
    return 600_011 if device.type & cl.device_type.GPU else 30_011


def stalled(monkeypatch: pytest.MonkeyPatch, tiles: str, what: str) -> None:
    """Keep some tiles from publishing their totals or prefixes."""
    text_of = ScanJob.text
    tells = {
        "own": r"(portbar_word_store_release\(flags \+ tile, 2u \* epoch\);|portbar_publish_item\(PORTBAR_PLACE\(tile\), .*;)",
        "all": r"(portbar_word_store_release\(flags \+ tile, 2u \* epoch \+ 1u\);|portbar_publish_item\(PORTBAR_PLACE_OF.*;)",
    }

    def text(job: Any, strategy: Any) -> str:
        made = text_of(job, strategy)
        for name in what.split():
            made, count = re.subn(tells[name], rf"if (!({tiles})) \1", made)
            assert count == 1
        return f"/* {tiles} {what} */\n{made}"

    monkeypatch.setattr(ScanJob, "text", text)
    monkeypatch.setattr(plan.QUEUES, "_kept", OrderedDict())


@pytest.mark.parametrize("tiles", ["tile % 2u == 1u", "true"])
@pytest.mark.parametrize("what", ["own", "own all"])
def test_tiles_that_tell_nothing_change_no_bits(scan, form, device, monkeypatch, tiles, what):
    values = random_of(np.float32, 1_003 if form != "own" else own_size(device), 6)
    before = scan(values)
    stalled(monkeypatch, tiles, what)
    for _ in range(1 if support.scale(device).is_simulator else 3):
        np.testing.assert_array_equal(scan(values).view(np.uint32), before.view(np.uint32))


def test_floats_have_the_same_bits_in_each_run(scan, form, device):
    values = random_of(np.float32, 50_021, 7)
    first = scan(values)
    for _ in range(3 if support.scale(device).is_simulator else 10):
        np.testing.assert_array_equal(scan(values).view(np.uint32), first.view(np.uint32))


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.complex64], ids=lambda kind: kind.__name__)
def test_many_tiles_whose_values_take_words_of_their_own(queue, scan, device, dtype):
    """A value of several words may be read while it is written."""
    if support.scale(device).is_simulator:
        pytest.skip("the simulator would take minutes")
    values = (np.arange(2_000_003) % 3).astype(dtype)
    right, given = np.cumsum(values), put(queue, values)
    for _ in range(30 if device.type & cl.device_type.GPU else 3):
        np.testing.assert_array_equal(portbar.scan(queue, given).get(), right)


def test_words_of_earlier_launches_are_cleared_before_epochs_begin_again(scan, form, queue, monkeypatch):
    """Launches of odd sizes publish nothing: stale words of earlier launches with the same numbers would be used."""
    text_of = ScanJob.text

    def silent(job: Any, strategy: Any) -> str:
        tells = r"^( +)(?=tiles\[2u \* tile.*\] = |portbar_word_store_release\(flags|portbar_publish_item\(PORTBAR)"
        made, count = re.subn(tells, r"\1if (n % 2u == 0u) ", text_of(job, strategy), flags=re.MULTILINE)
        assert count == (2 if job.cut.warps else 4)
        return made

    monkeypatch.setattr(plan, "MOST_EPOCHS", 3)
    monkeypatch.setattr(ScanJob, "text", silent)
    monkeypatch.setattr(plan.QUEUES, "_kept", OrderedDict())
    state = plan.state_of(queue)
    even = 30_000 if form == "own" else 1_000
    for seed, size in enumerate([even] * 3 + [even + 1] * 4):
        values = random_of(np.int32, size, seed)
        np.testing.assert_array_equal(scan(values), np.cumsum(values, dtype=np.int32))
        assert 1 <= state._epoch <= 3


def test_an_array_of_more_elements_than_32_bits_count(queue, scan):
    if "PORTBAR_TEST_NIGHTLY" not in os.environ:
        pytest.skip("takes 4 GB of memory and a minute: set PORTBAR_TEST_NIGHTLY")
    size = (1 << 32) + 4_227
    if queue.device.max_mem_alloc_size < size or portbar.describe(queue.device).loop_limit is not None:
        pytest.skip("the device has no buffer of that size")
    memory = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, size)
    cl.enqueue_fill_buffer(queue, memory, np.uint8(1), 0, size).wait()
    values = cl.array.Array(queue, (size,), np.uint8, data=memory)
    out = put(queue, np.zeros(3, np.uint64))
    portbar.scan(
        queue,
        values,
        dtype=np.uint64,
        map="x + (i >> 32)",
        output="if (i >= N - 3) out[i - (N - 3)] = item;",
        targets={"out": out},
    )
    last = size + 4_227
    assert out.get().tolist() == [last - 4, last - 2, last]
    some = put(queue, np.zeros(1, np.uint64))
    portbar.scan(
        queue,
        cl.array.Array(queue, (2, size // 2), np.uint8, data=memory),
        dtype=np.uint64,
        axis=1,
        output="if (i + 1 == N) some[0] = item;",
        targets={"some": some},
    )
    assert int(some.get()[0]) == size // 2


def test_arrays_of_any_shape_and_place(queue, scan):
    values = random_of(np.int32, 600, 9)
    np.testing.assert_array_equal(scan(values.reshape(20, 30)), np.cumsum(values, dtype=np.int32).reshape(20, 30))
    part = portbar.scan(queue, put(queue, values)[7:307]).get()
    np.testing.assert_array_equal(part, np.cumsum(values[7:307], dtype=np.int32))
    for shape in (0, (3, 0)):
        assert scan(np.zeros(shape, np.float32)).shape == np.zeros(shape).shape


def test_out_and_events(queue, scan):
    values = random_of(np.int32, 5_000, 10)
    out = put(queue, np.zeros(5_000, np.int32))
    gate = cl.UserEvent(queue.context)
    answer, event = portbar.scan(queue, put(queue, values), out=out, return_event=True, wait_for=[gate])
    assert answer is out
    gate.set_status(cl.command_execution_status.COMPLETE)
    event.wait()
    np.testing.assert_array_equal(out.get(), np.cumsum(values, dtype=np.int32))


def test_threads_with_queues_of_their_own(context, scan, device):
    if "Oclgrind" in device.name:
        pytest.skip("Oclgrind ends the process when two threads use it at once")

    def work(seed: int) -> None:
        own = cl.CommandQueue(context)
        for k in range(10):
            values = random_of(np.int32, 1_000 * (seed + 1) + k, seed)
            np.testing.assert_array_equal(portbar.scan(own, put(own, values)).get(), np.cumsum(values, dtype=np.int32))

    in_threads(work, 4)


BAD = {
    "an operator that there is not": (([1], "plus"), {}, "'plus'"),
    "a map of two statements": (([1],), {"map": "x; x"}, "more than one expression"),
    "an initial value of another type": (([1],), {"initial": "a"}, "initial='a'"),
    "something to write to of another type": (([1],), {"out": np.zeros(1, np.float32)}, "type int64"),
    "something to write to of another shape": (([1],), {"out": np.zeros(2, np.int64)}, r"shape \(1,\)"),
    "arrays of two shapes": (({"a": [1], "b": [1, 2]},), {"map": "a + b"}, "the same"),
    "several arrays and no map": (({"a": [1], "b": [1]},), {}, "map expression"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_reported(scan, case):
    args, more, says = BAD[case]
    with pytest.raises(portbar.Error, match=says):
        scan(*args, **more)


def test_invalid_arrays_are_refused(queue, scan):
    x = put(queue, np.arange(100, dtype=np.int32))

    def refused(message: str, array: Any = x, *, on: Any = queue, **more: Any) -> None:
        with pytest.raises(portbar.Error, match=message):
            portbar.scan(on, array, **more)

    refused(r"strides.*ascontiguousarray", x[::2])
    refused("shares memory", x[:50], out=x[25:75])
    refused("to_device", [1, 2])
    refused("CommandQueue", on=x)
    for one in beyond_memory(queue):
        refused("the array reaches beyond its memory", one)
        if one.size == 101:
            refused("out= reaches beyond its memory", put(queue, np.zeros(101, np.int32)), out=one)
    refused("cannot have the type", type(x)(queue, 3, np.dtype([])))
    refused(r"portbar\.scan: wait_for must be a list of events, not int", wait_for=7)
    with pytest.raises(portbar.BuildError, match=r"the map of 'result', 'x \+ wat'"):
        portbar.scan(queue, x, map="x + wat")
