"""Output statements of `portbar.scan`: they see what PyOpenCL's see, and run once for each element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portbar
from tests.reduce.support import put, random_of
from tests.scan.conftest import put_all

pytestmark = pytest.mark.device

EACH = "items[i] = item; before[i] = prev_item; places[i] += i; counts[i] = (int)N;"


@pytest.fixture
def state(queue, scan) -> Any:
    """Return a call that scans with an output statement, and gives what it wrote as NumPy arrays."""

    def call(values: Any, outputs: dict[str, Any], output: str, *args: Any, **more: Any) -> dict[str, Any]:
        written = put_all(queue, outputs)
        answer = portbar.scan(queue, put_all(queue, values), *args, output=output, targets=written, **more)
        assert answer == written
        return {name: one.get() for name, one in written.items()}

    return call


@pytest.mark.parametrize("size", [1, 48, 49, 81, 4_225])
@pytest.mark.parametrize("initial", [None, -9])
def test_each_element_is_seen_once_with_its_values(state, form, size, initial):
    values = random_of(np.int32, size, size)
    outputs = {"items": np.zeros(size, np.int32), "before": np.zeros(size, np.int32)}
    outputs |= {"places": np.zeros(size, np.int64), "counts": np.zeros(size, np.int32)}
    found = state(values, outputs, EACH, "max", initial=initial)
    start = np.iinfo(np.int32).min if initial is None else initial
    right = np.maximum.accumulate(np.concatenate([[start], values]))
    np.testing.assert_array_equal(found["items"], right[1:])
    np.testing.assert_array_equal(found["before"], right[:-1])
    np.testing.assert_array_equal(found["places"], np.arange(size))
    assert (found["counts"] == size).all()


def test_arrays_are_pointers_and_maps_look_around(state, form):
    values = np.sort(random_of(np.int32, 2_003, 2) % 300)
    heads = np.flatnonzero(np.diff(values, prepend=values[0] - 1))
    found = state(
        {"key": values, "place": np.arange(2_003, dtype=np.int16)},
        {"kept": np.zeros(2_003, np.int32), "at": np.zeros(2_003, np.int16)},
        "if (item != prev_item) { kept[prev_item] = key[i]; at[prev_item] = place[i]; }",
        map="i == 0 || key != key[i - 1]",
        dtype=np.uint32,
    )
    np.testing.assert_array_equal(found["kept"][: len(heads)], values[heads])
    np.testing.assert_array_equal(found["at"][: len(heads)], heads)
    assert not found["kept"][len(heads) :].any()


@pytest.mark.parametrize("kind", [np.uint8, np.int64, np.float32])
def test_the_last_item_is_known_to_all(state, form, kind):
    values = random_of(kind, 1_003, 3)
    found = state(values, {"left": np.zeros(1_003, kind)}, "left[i] = last_item - item;", initial=3)
    total = np.cumsum(np.concatenate([np.array([3], kind), values]), dtype=kind)[1:]
    np.testing.assert_allclose(found["left"], total[-1] - total, atol=1e-3)
    assert found["left"][-1] == 0


def test_structures_go_from_array_to_array(state, form):
    kind = np.dtype([("key", np.int32), ("value", np.float32)], align=True)
    values = np.zeros(500, kind)
    values["key"], values["value"] = random_of(np.int32, 500, 4), np.arange(500)
    found = state(
        values,
        {"kept": np.zeros(500, kind)},
        "if (item != prev_item) kept[prev_item] = x[i];",
        map="x.key > 0",
        dtype=np.int32,
    )
    right = values[values["key"] > 0]
    np.testing.assert_array_equal(found["kept"][: len(right)], right)


def test_a_result_where_it_is_asked_for(queue, scan, form):
    values = random_of(np.int32, 1_003, 5)
    out, twice = (put(queue, np.zeros_like(values)) for _ in range(2))
    written = {"output": "twice[i] = item - prev_item;", "targets": {"twice": twice}}
    answer, event = portbar.scan(queue, put(queue, values), out=out, exclusive=True, return_event=True, **written)
    assert answer is out
    event.wait()
    right = np.cumsum(values, dtype=np.int32)
    np.testing.assert_array_equal(out.get(), np.concatenate([[0], right[:-1]]))
    np.testing.assert_array_equal(twice.get(), values)


def test_the_same_statement_writes_to_other_arrays_and_nothing_of_nothing(queue, scan):
    for size in (7, 300, 0):
        values = random_of(np.int32, size, size)
        big = put(queue, np.zeros(size + 5, np.int32))
        portbar.scan(queue, put(queue, values), output="to[i] = item;", targets={"to": big[3 : size + 3]})
        np.testing.assert_array_equal(big.get()[3 : size + 3], np.cumsum(values, dtype=np.int32))
        assert not big.get()[:3].any()
        assert not big.get()[size + 3 :].any()


def test_invalid_input_is_refused(queue, scan):
    x, y = (put(queue, np.arange(100, dtype=np.int32)) for _ in range(2))

    def refused(message: str, error: type[portbar.Error] = portbar.Error, **more: Any) -> None:
        with pytest.raises(error, match=message):
            portbar.scan(queue, x, **more)

    def bad_outputs(message: str, output: str = "y[i] = item;", *, out: Any = None, **outputs: Any) -> None:
        refused(message, portbar.LaunchError, output=output, targets=outputs, out=out)

    written = {"output": "y[i] = item;", "targets": {"y": y}}
    refused(
        r"the output statement, 'z\[i\] = item;', does not compile",
        portbar.BuildError,
        **{**written, "output": "z[i] = item;"},
    )
    refused(r"the map of 'result', 'x\[i - 1\] \+ wat', does not compile", portbar.BuildError, map="x[i - 1] + wat")
    bad_outputs(r"'y'.*shares memory with another array", y=x[:50])
    bad_outputs(r"'z'.*shares memory", y=y[:51], z=y[50:])
    bad_outputs(r"'y'.*shares memory", y=y, out=y)
    bad_outputs("strides", y=y[::2])
    bad_outputs(r"targets\['y'\] is a ndarray, not a pyopencl.array.Array", y=np.zeros(100))
    for name in ("item", "last_item", "N"):
        refused(f"'{name}', which has a meaning", output="y[i] = item;", targets={name: y})
    refused("names both", output="x[i] = item;", targets={"x": y})
    refused("pass output= as well", targets={"y": y})
    refused(r"'total\[i\] = item;', not 7", output=7)
    refused("use prev_item", **written, exclusive=True)
