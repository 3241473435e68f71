"""`portbar.reduce` gives what NumPy, math.fsum or a loop in Python gives, whatever the operator, the type and the shape."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from pyopencl import cltypes

import portbar
from portbar.arrays.reduce import reduce as wanted
from portbar.arrays.shape import trial
from portbar.primitives.reduction.operators import Operator
from tests.reduce.support import affine, composition, in_threads, need, put, random_of
from tests.support import scale

pytestmark = [pytest.mark.device, pytest.mark.slow]

SIZES = (0, 1, 2, 7, 63, 64, 65, 1009, 4099)
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


INTEGER_ORACLES: dict[str, Any] = {
    "+": lambda v: v.sum(dtype=v.dtype),
    "*": lambda v: v.prod(dtype=v.dtype),
    "min": lambda v: v.min(initial=np.iinfo(v.dtype).max),
    "max": lambda v: v.max(initial=np.iinfo(v.dtype).min),
    "&": np.bitwise_and.reduce,
    "|": np.bitwise_or.reduce,
    "^": np.bitwise_xor.reduce,
    "&&": np.logical_and.reduce,
    "||": np.logical_or.reduce,
    "==": lambda v: np.count_nonzero(v == 0) % 2 == 0,
    "!=": lambda v: np.count_nonzero(v) % 2 == 1,
}


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", list(INTEGER_ORACLES))
def test_integers_of_every_size_and_operator(op: str, dtype: str, reduce: Any, queue: cl.CommandQueue) -> None:
    for size in (0, 1, 65, 4099):
        values = random_of(dtype, size, size)
        if op == "*":
            values |= 1  # products of even numbers are 0
        if op in {"&", "|"}:
            values = values | 5 if op == "&" else values & 0x55
        if op in {"&&", "||"}:
            alone, others = (0, 2) if op == "&&" else (4, 0)
            values = np.where(np.arange(size) == size // 2, alone, others).astype(dtype)
        found = reduce(put(queue, values), op).get(queue)
        assert found.shape == ()
        assert found == INTEGER_ORACLES[op](values), size
        assert found.dtype == (np.int32 if op in {"&&", "||", "==", "!="} else values.dtype)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floats(dtype: str, reduce: Any, queue: cl.CommandQueue) -> None:
    need(queue.device, dtype)
    eps = float(np.finfo(dtype).eps)
    for size in SIZES:
        values = random_of(dtype, size, size + 1)
        wide = values.astype(float)
        array = put(queue, values)
        assert abs(float(reduce(array).get(queue)) - math.fsum(wide)) <= 8 * eps * (math.fsum(abs(wide)) + 1)
        assert reduce(array, "min").get(queue) == values.min(initial=math.inf)
        assert reduce(array, "max").get(queue) == values.max(initial=-math.inf)
        near_one = (1 + values / 4096).astype(dtype)
        right = float(np.prod(near_one.astype(float)))
        assert float(reduce(put(queue, near_one), "*").get(queue)) == pytest.approx(right, rel=4 * size * eps + eps)


def test_large_and_odd(reduce: Any, queue: cl.CommandQueue) -> None:
    if scale(queue.device).is_simulator:
        pytest.skip("a million elements take the simulator minutes")
    for size in ((1 << 20) + 3, 1_000_003, 1 << 21):
        values = random_of(np.int32, size, 3)
        array = put(queue, values)
        assert reduce(array, "^").get(queue) == np.bitwise_xor.reduce(values)
        assert reduce(array, dtype=np.int64).get(queue) == values.sum(dtype=np.int64)
        last = reduce(array, "argmax").get(queue)
        assert (last["value"], last["index"]) == (values.max(), values.argmax())


def test_min_and_max_take_numbers_over_nan_and_know_infinity(reduce: Any, queue: cl.CommandQueue) -> None:
    values = random_of(np.float32, 1009, 5)
    values[::3] = np.nan
    array = put(queue, values)
    assert reduce(array, "min").get(queue) == np.nanmin(values)
    assert reduce(array, "max").get(queue) == np.nanmax(values)
    found = reduce(array, "argmin").get(queue)
    assert (found["value"], found["index"]) == (np.nanmin(values), np.nanargmin(values))
    values[1], values[2] = np.inf, -np.inf
    array = put(queue, values)
    assert reduce(array, "min").get(queue) == -np.inf
    assert reduce(array, "max").get(queue) == np.inf
    assert reduce(array, "argmax").get(queue)["index"] == 1
    assert np.isnan(reduce(array).get(queue))
    alone = put(queue, np.full(70, np.nan, np.float32))
    assert reduce(alone, "argmax").get(queue)["index"] == 0
    only = put(queue, np.full(70, np.inf, np.float32))
    assert reduce(only, "min").get(queue) == np.inf
    assert reduce(only, "argmin").get(queue)["index"] == 0


def test_the_lowest_index_wins_a_tie(reduce: Any, queue: cl.CommandQueue) -> None:
    values = np.full(4099, 7, np.int16)
    values[[1234, 2048, 4098]] = 3
    values[[99, 3000]] = 9
    array = put(queue, values)
    assert reduce(array, "argmin").get(queue)["index"] == 1234
    assert reduce(array, "argmax").get(queue)["index"] == 99
    none = reduce(put(queue, values[:0]), "argmin").get(queue)
    assert none["index"] == -1


def test_an_operator_that_does_not_commute_keeps_the_order(reduce: Any, queue: cl.CommandQueue) -> None:
    for size in (0, 1, 5, 64, 1009, 4099):
        values, right = affine(np.uint32, size, size + 2)
        found = reduce(put(queue, values), composition("x_type")).get(queue)
        assert found.item() == (right[-1].item() if size else (1, 0))


def test_an_operator_of_the_caller(reduce: Any, queue: cl.CommandQueue) -> None:
    values = random_of(np.int32, 4099, 6) % 1000
    gcd_like = Operator("a + b + a * b", neutral="0")
    expected = 0
    for value in values.tolist():
        expected = (expected + value + expected * value) % (1 << 32)
    assert int(reduce(put(queue, values), gcd_like).get(queue)) % (1 << 32) == expected


def test_structures_by_leaf_by_operator_and_by_member(reduce: Any, queue: cl.CommandQueue) -> None:
    kind = np.dtype([("mass", np.float32), ("count", np.int32), ("big", np.int64)], align=True)
    values = np.zeros(1009, kind)
    rng = np.random.default_rng(8)
    values["mass"], values["count"] = rng.random(1009), rng.integers(-9, 9, 1009)
    values["big"] = rng.integers(-99, 99, 1009)
    array = put(queue, values)
    found = reduce(array).get(queue)
    assert (found["count"], found["big"]) == (values["count"].sum(), values["big"].sum())
    assert found["mass"] == pytest.approx(math.fsum(values["mass"]), rel=1e-5)
    heaviest = Operator("a.mass >= b.mass ? a : b", neutral="(x_type){-INFINITY, 0, 0}")
    found = reduce(array, heaviest, dtype=kind).get(queue)
    assert found.item() == values[values["mass"].argmax()].item()
    found = reduce(array, "min", map="x.count * 2", dtype=np.int32).get(queue)
    assert found == 2 * values["count"].min()


def test_a_member_may_have_the_array_s_name(reduce: Any, queue: cl.CommandQueue) -> None:
    values = np.zeros(5, np.dtype([("x", np.float32, 2)], align=True))
    values["x"] = np.arange(10).reshape(5, 2)
    assert reduce(put(queue, values), map="x.x[1] + x[i].x[0]", dtype=np.float32).get(queue) == 45


def test_outputs_of_different_alignment(reduce: Any, queue: cl.CommandQueue) -> None:
    """The members of what a work-group leaves to another are padded: 128 bytes where their sizes are 65."""
    outputs = {"a": portbar.Reduction(np.int8, "+"), "b": portbar.Reduction(cltypes.float16, "+")}
    array = put(queue, np.ones((4096, 7), np.float32))
    found = reduce(array, axis=0, outputs=outputs, map={"a": "1", "b": "(float16)(x)"})
    np.testing.assert_array_equal(found["a"].get(queue), np.zeros(7, np.int8))
    np.testing.assert_array_equal(found["b"].get(queue).view(np.float32), np.full(7 * 16, 4096))


def test_neutral_elements_that_are_equal_are_not_the_same(reduce: Any, queue: cl.CommandQueue) -> None:
    nothing = put(queue, np.zeros(0, np.float32))
    found = [reduce(nothing, Operator("a + b", neutral=zero)).get(queue) for zero in (0.0, -0.0, 0.0)]
    assert np.signbit(found).tolist() == [False, True, False]


def test_complex_numbers_and_vectors(reduce: Any, queue: cl.CommandQueue) -> None:
    for dtype in ("complex64", "complex128"):
        if dtype == "complex128" and "cl_khr_fp64" not in queue.device.extensions.split():
            continue
        for size in (1, 7, 64, 1009):
            rng = np.random.default_rng(size)
            values = np.exp(2j * np.pi * rng.random(size)).astype(dtype)
            array = put(queue, values)
            np.testing.assert_allclose(reduce(array).get(queue), values.sum(), rtol=1e-4, atol=1e-3)
            np.testing.assert_allclose(reduce(array, "*").get(queue), values.prod(), rtol=2e-3)
    for count in (2, 3, 4, 8):
        kind = getattr(cltypes, f"float{count}")
        parts = random_of(np.float32, 131 * (4 if count == 3 else count), count).reshape(131, -1)
        values = np.ascontiguousarray(parts).view(kind).reshape(131)
        found = np.array(reduce(put(queue, values), "max").get(queue)).reshape(1).view(np.float32)
        np.testing.assert_array_equal(found[:count], parts.max(0)[:count])


def test_views_that_start_anywhere(reduce: Any, queue: cl.CommandQueue) -> None:
    for dtype in ("uint8", "int16", "float32", "int64"):
        values = random_of(dtype, 4099 + 40, 9)
        array = put(queue, values)
        for start in (1, 2, 3, 5, 8, 17, 33):
            for size in (1, 3, 64, 4099):
                part = values[start : start + size]
                view = array[start : start + size]
                assert reduce(view, "max").get(queue) == part.max()
                found = reduce(view, "argmin").get(queue)
                assert (found["value"], found["index"]) == (part.min(), part.argmin())


@pytest.mark.parametrize("shape", [(1, 1), (3, 1001), (37, 129), (200, 33), (1009, 7), (5, 4099), (257, 1), (4, 0)])
def test_rows_and_columns(shape: tuple[int, int], reduce: Any, queue: cl.CommandQueue) -> None:
    if scale(queue.device).is_simulator and math.prod(shape) > 8000:
        pytest.skip("takes the simulator too long")
    values = random_of(np.int32, math.prod(shape), 10).reshape(shape)
    array = put(queue, values)
    for axis in (0, 1, -1, -2):
        found = reduce(array, "+", axis=axis).get(queue)
        np.testing.assert_array_equal(found, values.sum(axis, dtype=np.int32))
        found = reduce(array, "max", axis=axis, initial=-5).get(queue)
        np.testing.assert_array_equal(found, values.max(axis, initial=-5))
    if math.prod(shape):
        np.testing.assert_array_equal(reduce(array, "argmin", axis=1).get(queue)["index"], values.argmin(1))
        np.testing.assert_array_equal(reduce(array, "argmax", axis=0).get(queue)["index"], values.argmax(0))
        turned = put(queue, values.T.copy()).T
        np.testing.assert_array_equal(reduce(turned, "^", axis=0).get(queue), np.bitwise_xor.reduce(values, 0))
        np.testing.assert_array_equal(reduce(turned, "^", axis=1).get(queue), np.bitwise_xor.reduce(values, 1))
        assert reduce(turned, "^").get(queue) == np.bitwise_xor.reduce(values, None)


def test_three_dimensions_and_no_rows(reduce: Any, queue: cl.CommandQueue) -> None:
    values = random_of(np.int16, 5 * 7 * 11, 11).reshape(5, 7, 11)
    array = put(queue, values)
    np.testing.assert_array_equal(reduce(array, "|", axis=2).get(queue), np.bitwise_or.reduce(values, 2))
    np.testing.assert_array_equal(reduce(array, "min", axis=0).get(queue), values.min(0))
    assert reduce(array, "min").get(queue) == values.min()
    with pytest.raises(portbar.LaunchError, match="leaves axes on both sides"):
        reduce(array, axis=1)
    empty, event = reduce(put(queue, np.zeros((0, 4), np.float32)), axis=1, return_event=True)
    event.wait()
    assert empty.shape == (0,)


def test_several_outputs_in_one_pass(reduce: Any, queue: cl.CommandQueue) -> None:
    for size in SIZES:
        values = random_of(np.int16, size, 12)
        outputs = {"total": portbar.Reduction(np.int64, "+"), "least": "min", "at": "argmax"}
        outputs["squares"] = portbar.Reduction(np.int64, "+")
        found, event = reduce(
            put(queue, values),
            outputs=outputs,
            map={"squares": "(long)x[i] * x[i]"},
            initial={"total": 17},
            return_event=True,
        )
        event.wait()
        wide = values.astype(np.int64)
        assert list(found) == ["total", "least", "at", "squares"]
        assert found["total"].get(queue) == wide.sum() + 17
        assert found["least"].get(queue) == values.min(initial=32767)
        assert found["squares"].get(queue) == (wide**2).sum()
        assert found["at"].get(queue)["index"] == (values.argmax() if size else -1)


def test_maps_of_the_element_its_index_and_another_array(reduce: Any, queue: cl.CommandQueue) -> None:
    a, b = random_of(np.int32, 1009, 13) % 1000, random_of(np.int64, 1009, 14) % 1000
    found = reduce({"a": put(queue, a), "b": put(queue, b)}, map="a * b[i] - i", dtype=np.int64).get(queue)
    assert found == (a * b - np.arange(1009)).sum()
    weighed = reduce(put(queue, a), "max", map="i % 2 ? x[ i ] : -x").get(queue)
    assert weighed == np.where(np.arange(1009) % 2, a, -a).max()
    offset = put(queue, a)[5:], put(queue, b)[3:-2]
    found = reduce({"a": offset[0], "b": offset[1]}, "^", map="a + b", dtype=np.int64).get(queue)
    assert found == np.bitwise_xor.reduce(a[5:] + b[3:-2])


def test_initial_out_dtype_and_bool(reduce: Any, queue: cl.CommandQueue) -> None:
    values = random_of(np.uint8, 1009, 15)
    array = put(queue, values)
    assert reduce(array, dtype=np.uint32, initial=1000).get(queue) == values.sum(dtype=np.uint32) + 1000
    assert reduce(array, "&&", initial=0).get(queue) == 0
    assert reduce(put(queue, np.ones(5, np.int32)), "&&", initial=2).get(queue) == 1
    assert reduce(array[:0], "*", initial=3).get(queue) == 3
    out = cla.zeros(queue, (3,), np.int32)
    wanted = out[1:2].reshape(())
    assert reduce(array, dtype=np.int32, out=wanted) is wanted
    np.testing.assert_array_equal(out.get(queue), [0, values.sum(), 0])
    flags = put(queue, values > 99)
    assert reduce(flags).get(queue) == np.count_nonzero(values > 99)
    assert reduce(flags, "||").get(queue) == 1
    both = {"a": cla.zeros(queue, (), np.uint8), "b": cla.zeros(queue, (), np.uint8)}
    found = reduce(array, outputs={"a": "min", "b": "^"}, out=both)
    assert found["b"] is both["b"]
    assert (both["a"].get(queue), both["b"].get(queue)) == (values.min(), np.bitwise_xor.reduce(values))


def test_events_are_waited_for_and_given(reduce: Any, context: cl.Context, queue: cl.CommandQueue) -> None:
    array = put(queue, np.arange(999, dtype=np.int32))
    if scale(queue.device).is_simulator:
        pytest.skip("Oclgrind runs commands in clFlush, and waits there for the event that this test sets afterwards")
    gate = cl.UserEvent(context)
    found, event = reduce(array, return_event=True, wait_for=[gate])
    queue.flush()
    assert event.command_execution_status != cl.command_execution_status.COMPLETE
    assert event in found.events
    gate.set_status(cl.command_execution_status.COMPLETE)
    assert found.get(queue) == 999 * 998 // 2


def test_a_thousand_calls_do_not_remember_each_other(reduce: Any, queue: cl.CommandQueue) -> None:
    count = 40 if scale(queue.device).is_simulator else 1000
    rng = np.random.default_rng(16)
    values = rng.integers(-1000, 1000, 50_000 if count == 1000 else 600).astype(np.int32)
    array = put(queue, values)
    found = []
    for turn in range(count):
        size = int(rng.integers(0, values.size)) if turn % 10 == 0 else values.size - 1
        start = turn % (values.size - size)
        found.append((start, size, reduce(array[start : start + size], "+" if turn % 2 else "max")))
    for turn, (start, size, result) in enumerate(found):
        part = values[start : start + size]
        expected = part.sum() if turn % 2 else part.max(initial=np.iinfo(np.int32).min)
        assert result.get(queue) == expected, turn


def test_two_threads_and_two_queues_at_once(reduce: Any, context: cl.Context) -> None:
    if scale(context.devices[0]).is_simulator:
        pytest.skip("Oclgrind ends the process when two threads use it at once")
    queues = [cl.CommandQueue(context) for _ in range(2)]

    def work(which: int) -> None:
        own = queues[which // 2]
        for turn in range(150):
            values = np.arange(3000 + turn, dtype=np.int64) * (which + 1)
            found = wanted(own, put(own, values), "+" if turn % 3 else "max").get(own)
            assert found == (values.sum() if turn % 3 else values.max()), (which, turn)

    in_threads(work, 4)


def test_an_out_of_order_queue(reduce: Any, loose_queue: cl.CommandQueue) -> None:
    values = np.arange(100_003 if not scale(loose_queue.device).is_simulator else 2003, dtype=np.int64)
    arrays = [put(loose_queue, values + turn) for turn in range(8)]
    loose_queue.finish()
    found = [wanted(loose_queue, arrays[turn % 8], "^") for turn in range(64)]
    for turn, result in enumerate(found):
        assert result.get(loose_queue) == np.bitwise_xor.reduce(values + turn % 8)


def test_atomics_instead_of_a_fixed_order(reduce: Any, queue: cl.CommandQueue) -> None:
    for dtype, op, oracle in (
        (np.int32, "+", lambda v: v.sum(dtype=v.dtype)),
        (np.uint64, "^", np.bitwise_xor.reduce),
        (np.uint32, "|", np.bitwise_or.reduce),
        (np.int32, "max", np.max),
    ):
        values = random_of(dtype, 4099, 17) & np.dtype(dtype).type(0x1234567)
        array = put(queue, values)
        for groups in (1, 2, 7):
            with trial(groups=groups):
                for _ in range(3):
                    assert reduce(array, op, deterministic=False).get(queue) == oracle(values)
    floats = np.arange(4099, dtype=np.float32)
    with trial(groups=5):
        assert reduce(put(queue, floats), deterministic=False).get(queue) == floats.sum()
