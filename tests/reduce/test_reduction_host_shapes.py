"""The launch shapes of GPUs give right results on whatever device runs them: aligned loads, heads, teams, shared rows."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

from portbar.arrays import reduce_plan
from portbar.arrays import shape as host_shape
from portbar.arrays.plan import QUEUES
from portbar.arrays.shape import Shape, trial
from tests.reduce.support import affine, composition, put, random_of, reducer
from tests.support import scale

pytestmark = [pytest.mark.device, pytest.mark.slow]

SHAPES = (
    None,
    # An H200's, of short and of long arrays.
    Shape(128, 32, 2, 1, 8),
    Shape(512, 16, 4, 1, 2, strided=False),
    Shape(256, 16, 4, 1, 8),
    Shape(64, 32, 2, 2, 8, strided=False),
    Shape(32, 16, 1, 1, 4),
    Shape(16, 8, 8, 4, 2, 3),
)


@pytest.fixture
def reduce(queue: cl.CommandQueue, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return `portbar.reduce` on the queue of the test, which takes the device for a GPU."""
    if "PoCL" in queue.device.platform.version:
        pytest.skip(
            "PoCL gets groups of one work-item: its versions abort on barriers in conditional positions, or miscompile them"
        )
    call = reducer(queue)
    monkeypatch.setattr(host_shape, "kind_of", lambda _: "gpu")
    monkeypatch.setattr(reduce_plan, "kind_of", lambda _: "gpu")
    monkeypatch.setattr(QUEUES, "_kept", OrderedDict())
    return call


def sizes_for(queue: cl.CommandQueue) -> tuple[int, ...]:
    return (0, 1, 5, 1000, 4099) if scale(queue.device).is_simulator else (0, 1, 5, 1000, 4099, 262_147)


@pytest.mark.parametrize("shape", SHAPES)
def test_whole_arrays_that_start_anywhere(shape: Shape | None, reduce: Any, queue: cl.CommandQueue) -> None:
    with trial(shape):
        for size in sizes_for(queue):
            values = random_of(np.int32, size + 3, 20)
            array = put(queue, values)
            for start in (0, 1, 3):
                part = values[start : start + size]
                view = array[start : start + size]
                assert reduce(view, "^").get(queue) == np.bitwise_xor.reduce(part)
                signs = np.where(np.arange(size) % 3, part, -part)
                assert reduce(view, map="i % 3 ? x : -x").get(queue) == signs.sum(dtype=np.int32)
                if size:
                    found = reduce(view, "argmax").get(queue)
                    assert (found["value"], found["index"]) == (part.max(), part.argmax())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("groups", [None, 1, 7])
def test_order_is_kept(shape: Shape | None, groups: int | None, reduce: Any, queue: cl.CommandQueue) -> None:
    for size in (1, 65, 4099):
        values, right = affine(np.uint32, size, 21)
        with trial(shape, groups):
            assert reduce(put(queue, values), composition("x_type")).get(queue).item() == right[-1].item()


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_and_columns(shape: Shape | None, reduce: Any, queue: cl.CommandQueue) -> None:
    for rows, columns in ((3, 1001), (2000, 7), (300, 33), (1060, 64), (40, 260), (5, 1024)):
        if scale(queue.device).is_simulator and rows * columns > 11_000:
            continue
        values = random_of(np.int32, rows * columns, 22).reshape(rows, columns)
        array = put(queue, values)
        with trial(shape):
            np.testing.assert_array_equal(reduce(array, axis=1).get(queue), values.sum(1, dtype=np.int32))
            np.testing.assert_array_equal(reduce(array, "max", axis=0).get(queue), values.max(0))
            np.testing.assert_array_equal(reduce(array, "argmin", axis=1).get(queue)["index"], values.argmin(1))


@pytest.mark.parametrize("shape", SHAPES)
def test_atomics_and_several_outputs(shape: Shape | None, reduce: Any, queue: cl.CommandQueue) -> None:
    values = random_of(np.uint32, 4099, 23)
    array = put(queue, values)
    with trial(shape):
        for _ in range(3):
            found = reduce(array, outputs={"a": "+", "b": "^"}, deterministic=False)
            assert found["a"].get(queue) == values.sum(dtype=np.uint32)
            assert found["b"].get(queue) == np.bitwise_xor.reduce(values)
            found = reduce(array, outputs={"a": "+", "b": "min", "c": "max"})
            assert (found["b"].get(queue), found["c"].get(queue)) == (values.min(), values.max())


def test_a_group_is_made_smaller_where_local_memory_does_not_suffice(reduce: Any, queue: cl.CommandQueue) -> None:
    """Forty-eight results of 8 bytes for each of 256 work-items are more than most devices have."""
    count = 8 if scale(queue.device).is_simulator else 48
    values = random_of(np.float32, 2 * 1009, 24).view(np.complex64)
    array = put(queue, values)
    found = reduce(
        array, outputs={f"sum{k}": "+" for k in range(count)}, map={f"sum{k}": f"x * {k}.0f" for k in range(count)}
    )
    for k in range(count):
        np.testing.assert_allclose(found[f"sum{k}"].get(queue), k * values.sum(), rtol=1e-3, atol=1e-2)
    plan = next(known.plan for known in QUEUES(queue).requests["reduce"].values() if known.plan is not None)
    memory = queue.device.local_mem_size
    # One slot a work-item, or one a warp where warps exchange values by shuffles.
    assert plan.job.room * 8 * count <= memory // 2 or plan.job.local == 1


def test_launches_of_many_sizes_and_types_in_turn_do_not_see_each_other_s_parts(
    reduce: Any, queue: cl.CommandQueue
) -> None:
    """Values that one launch left must never count in the next one, whatever both are."""
    most = 20_000 if scale(queue.device).is_simulator else 400_000
    random = np.random.default_rng(25)
    held = {
        dtype: (made := random.integers(-9, 9, most).astype(dtype), put(queue, made))
        for dtype in (np.int32, np.float32, np.int64)
    }
    for turn in range(12 if scale(queue.device).is_simulator else 120):
        dtype = (np.int32, np.float32, np.int64)[turn % 3]
        values, array = held[dtype]
        size = int(random.integers(1, most))
        if turn % 2:
            found = reduce(array[:size])
            assert found.get(queue) == values[:size].sum(), (turn, size)
        else:
            found = reduce(array[:size], outputs={"a": "+", "b": "max"})
            assert found["a"].get(queue) == values[:size].sum(), (turn, size)
            assert found["b"].get(queue) == values[:size].max(), (turn, size)
