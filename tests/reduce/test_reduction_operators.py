"""Operators of `portbar.reduce` and `portbar.scan` on values that other types cannot hold, for every pair, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from pyopencl import cltypes

import portbar
from tests.reduce.support import need, put

pytestmark = pytest.mark.device

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float16", "float32", "float64")
LOGICAL = {
    "&&": np.logical_and.reduce,
    "||": np.logical_or.reduce,
    "==": lambda v: np.count_nonzero(v == 0) % 2 == 0,
    "!=": lambda v: np.count_nonzero(v) % 2 == 1,
}
NUMBERS = {
    "+": lambda v: np.add.reduce(v, dtype=v.dtype),
    "*": lambda v: np.multiply.reduce(v, dtype=v.dtype),
    "min": np.fmin.reduce,
    "max": np.fmax.reduce,
}
BITS = {"&": np.bitwise_and.reduce, "|": np.bitwise_or.reduce, "^": np.bitwise_xor.reduce}


def single_values(dtype: str, device: cl.Device) -> Any:
    """Values that become others, or lose their truth or their order, in most other types."""
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        edges = {info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 255, 256, 1 << 24, (1 << 24) + 1, 1 << 31}
        edges |= {1 << 32, (1 << 53) + 1, (1 << 53) + 2, 1 << 62, 1 << 63, -1, -128, -(1 << 31), -(1 << 32)}
        return np.array(sorted(value for value in edges if info.min <= value <= info.max), kind)
    info = np.finfo(kind)
    values = [0.0, -0.0, 0.5, -0.25, 1.0, 1e-3, -1e-4, info.tiny, info.max, info.min, np.inf, -np.inf, np.nan, 2048.0]
    if kind.itemsize > 2:
        values += [1e-30, 2.0**32, 2.0**63, -(2.0**63), 2.0**24 + 2]
    if kind.itemsize > 4:
        values += [1e-300, 2.0**53 + 2, 1e300]
    config = {2: "half_fp_config", 4: "single_fp_config", 8: "double_fp_config"}[kind.itemsize]
    if kind.itemsize == 8 or (kind.itemsize == 4 and getattr(device, config) & cl.device_fp_config.DENORM):
        values += [info.smallest_subnormal, -info.smallest_subnormal]
    return np.array(values, kind)


def pairs_of(values: Any) -> list[Any]:
    """Each value alone, beside a zero, beside a one, and beside another."""
    zero, one = values.dtype.type(0), values.dtype.type(1)
    return [
        np.array(group, values.dtype)
        for place, value in enumerate(values)
        for group in ([value], [value, zero], [one, value], [value, values[place - 1]])
    ]


def rows_of(groups: list[Any], neutral: Any, dtype: Any) -> Any:
    """The groups as rows of one length, filled up with the neutral element."""
    rows = np.full((len(groups), 2), neutral, dtype)
    for row, group in zip(rows, groups, strict=True):
        row[: len(group)] = group
    return rows


def neutral_of(op: str, dtype: Any) -> Any:
    lowest, highest = (-np.inf, np.inf) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    ones = -1 if dtype.kind == "i" else highest
    return {"*": 1, "min": highest, "max": lowest, "&": ones, "&&": 1, "==": 1}.get(op, 0)


def operators_of(dtype: str) -> dict[str, Any]:
    """Operators that a type has, each with what NumPy makes of an array."""
    return LOGICAL | NUMBERS | (BITS if dtype in INTEGERS else {})


def by_name(operators: Any) -> dict[str, str]:
    """The operators as outputs of one call."""
    return {f"r{place}": op for place, op in enumerate(operators)}


def right_of(op: str, rows: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.array([(LOGICAL | NUMBERS | BITS)[op](row) for row in rows])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_values_that_other_types_cannot_hold(dtype: str, queue: cl.CommandQueue) -> None:
    """Every operator on every pair of them: on rows, on columns, and among many, which CPUs load as vectors."""
    need(queue.device, dtype)
    kind = np.dtype(dtype)
    operators = by_name(operators_of(dtype))
    for op in BITS if dtype in FLOATS else ():
        with pytest.raises(portbar.Error, match="does not support"):
            portbar.reduce(queue, cla.zeros(queue, 3, dtype), op)
    # Pairs need no neutral element; those of one value are filled up with another operator's, too.
    groups = pairs_of(single_values(dtype, queue.device))
    for filled in ("*", "min", "max", "&", "+"):
        if filled == "&" and dtype in FLOATS:
            continue
        rows = rows_of(groups, neutral_of(filled, kind), kind)
        found = portbar.reduce(queue, put(queue, rows), outputs=operators, axis=1)
        by_column = portbar.reduce(queue, put(queue, rows.T), outputs=operators, axis=0)
        for name, op in operators.items():
            assert found[name].dtype == (np.int32 if op in LOGICAL else kind)
            np.testing.assert_array_equal(found[name].get(), right_of(op, rows), err_msg=op)
            np.testing.assert_array_equal(by_column[name].get(), right_of(op, rows), err_msg=op)
    for chosen in (rows[-1], rows[5], rows[-3]):
        many = np.full(1000, chosen[1], kind)
        many[17] = chosen[0]
        found = portbar.reduce(queue, put(queue, many), outputs=operators)
        for name, op in operators.items():
            if op not in {"+", "*"} or dtype in INTEGERS:
                np.testing.assert_array_equal(found[name].get(), right_of(op, [many])[0], err_msg=op)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
@pytest.mark.parametrize("op", [*LOGICAL, *NUMBERS, *BITS])
def test_scans_of_values_that_other_types_cannot_hold(op: str, dtype: str, queue: cl.CommandQueue) -> None:
    if op in BITS and dtype in FLOATS:
        pytest.skip("bits are those of integers")
    need(queue.device, dtype)
    groups = pairs_of(single_values(dtype, queue.device))
    rows = rows_of(groups, neutral_of(op, np.dtype(dtype)), dtype)
    found = portbar.scan(queue, put(queue, rows), op, axis=1).get()
    assert found.dtype == (np.int32 if op in LOGICAL else np.dtype(dtype))
    np.testing.assert_array_equal(found[:, 1], right_of(op, rows))
    np.testing.assert_array_equal(found[:, 0], right_of(op, rows[:, :1]))


def truths_of(dtype: str, device: cl.Device) -> list[Any]:
    """Values of a type of which some are true: all, those that are, and those that are not."""
    kind = np.dtype(dtype)
    values = single_values(f"float{kind.itemsize * 4}" if kind.kind == "c" else dtype, device)
    if kind.kind == "c":
        values = values[np.isfinite(values)]
        values = np.concatenate([values.astype(kind), values.astype(kind) * 1j])
    return [values, values[values != 0], values[values == 0], values[:1]]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, "complex64", "complex128"])
@pytest.mark.parametrize("result", [None, "int8"])
def test_truth_is_that_of_the_element_in_its_own_type(result: Any, dtype: str, queue: cl.CommandQueue) -> None:
    """Whatever the type of the result, as an element and as the value of a map."""
    need(queue.device, dtype)
    operators = by_name(LOGICAL)
    outputs = {name: op if result is None else portbar.Reduction(result, op) for name, op in operators.items()}
    mapped = {}
    if np.dtype(dtype).kind != "c":
        mapped = {f"m{name}": "x" for name in operators}
        outputs |= {f"m{name}": outputs[name] for name in operators}
    for chosen in truths_of(dtype, queue.device):
        found = portbar.reduce(queue, put(queue, chosen), outputs=outputs, map=mapped)
        for name, got in found.items():
            op = operators[name.removeprefix("m")]
            assert got.dtype == np.dtype(result or np.int32)
            assert got.get() == LOGICAL[op](chosen), (op, chosen)
    assert portbar.reduce(queue, put(queue, chosen), "||", dtype=result).get() == (chosen[0] != 0)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["uint8", "int64", "float32", "float64", "complex64"])
@pytest.mark.parametrize("op", list(LOGICAL))
def test_truth_in_scans(op: str, dtype: str, queue: cl.CommandQueue) -> None:
    need(queue.device, dtype)
    for chosen in truths_of(dtype, queue.device):
        array, n = put(queue, chosen), chosen.size
        prefixes = [LOGICAL[op](chosen[: k + 1]) for k in range(n)]
        np.testing.assert_array_equal(portbar.scan(queue, array, op).get(), prefixes)
        np.testing.assert_array_equal(
            portbar.scan(queue, array, op, dtype=np.int8, exclusive=True).get()[1:], prefixes[:-1]
        )
        alone = portbar.scan(queue, array, op, segments=put(queue, np.ones(n, np.uint8))).get()
        np.testing.assert_array_equal(alone, [LOGICAL[op](chosen[k : k + 1]) for k in range(n)])


def test_truth_of_what_a_map_computes(queue: cl.CommandQueue) -> None:
    halves = put(queue, np.array([1, 1], np.float32))
    for op in ("&&", "||"):
        assert portbar.reduce(queue, halves, op, map="x * 0.5f").get() == 1
        assert portbar.scan(queue, halves, op, map="x * 0.25f").get().tolist() == [1, 1]
        assert portbar.reduce(queue, halves, op, map="(long)x << 40").get() == 1


@pytest.mark.parametrize("op", list(LOGICAL))
def test_vectors_and_structures_are_true_by_part(op: str, queue: cl.CommandQueue) -> None:
    kind = np.dtype([("a", np.float32), ("b", np.int64)], align=True)
    values = np.array([(0.5, 1 << 40), (0.25, 0), (0.0, 1 << 32)], kind)
    four = np.zeros(3, cltypes.float4)
    for place, name in enumerate("xyzw"):
        four[name] = np.array([0.5, 0, 1e-30])[[place % 3, (place + 1) % 3, place % 2]]
    for given in (values, four):
        found = portbar.reduce(queue, put(queue, given), op).get()
        assert found.dtype == given.dtype
        single = portbar.scan(queue, put(queue, given[:1]), op).get()[0]
        for name in given.dtype.names:
            assert found[name] == LOGICAL[op](given[name]), name
            assert single[name] == LOGICAL[op](given[name][:1]), name


@pytest.mark.slow
@pytest.mark.parametrize("part", ["int8", "uint16", "float32"])
@pytest.mark.parametrize("count", [2, 3, 4, 8, 16])
def test_vectors_by_component(count: int, part: str, queue: cl.CommandQueue) -> None:
    need(queue.device, part)
    room = 4 if count == 3 else count
    rng = np.random.default_rng(count)
    operators = by_name(["+", "min", "max", *(("^",) if part[0] != "f" else ())])
    for size in (1, 3, 16, 999):
        numbers = rng.integers(-100, 100, (size, room)).astype(part)
        array = put(queue, numbers.view(cltypes.vec_types[np.dtype(part), count]).reshape(size))
        for more in ({}, {"reproducible": True}):
            found = portbar.reduce(queue, array, outputs=operators, **more)
            for name, op in operators.items():
                components = np.atleast_1d(found[name].get()).view(part)[:count]
                with np.errstate(over="ignore"):
                    right = (NUMBERS | BITS)[op](numbers[:, :count])
                np.testing.assert_array_equal(components, right, err_msg=f"{op} {size} {more}")


def test_reproducible_sums_of_vectors_add_in_the_documented_order(queue: cl.CommandQueue) -> None:
    """Each component is added as rows of one accumulator a lane, and lanes by a tree, neighbours first."""
    rng = np.random.default_rng(7)
    numbers = rng.uniform(-1, 1, (256 * 2 * 4, 2)).astype(np.float32)
    found = portbar.reduce(queue, put(queue, numbers.view(cltypes.float2).reshape(-1)), reproducible=True).get()
    lanes = np.zeros((512, 2), np.float32)
    for row in numbers.reshape(4, 512, 2):
        lanes = lanes + row
    while len(lanes) > 1:
        lanes = lanes[::2] + lanes[1::2]
    assert [found["x"], found["y"]] == lanes[0].tolist()


CONVERSIONS = (
    ("complex64", "complex128"), ("complex128", "complex64"), ("float64", "complex64"), ("int8", "complex128"),
    ("uint64", "float32"), ("uint8", "int64"), ("float32", "int32"), ("float64", "float32"),
)  # fmt: skip


@pytest.mark.parametrize(("dtype", "result"), CONVERSIONS)
def test_elements_are_converted_to_the_result_s_type(dtype: str, result: str, queue: cl.CommandQueue) -> None:
    for one in (dtype, result):
        need(queue.device, one)
    values = np.arange(1, 41).astype(dtype)
    if values.dtype.kind == "c":
        values = values * (1 + 2j)
    found = portbar.reduce(queue, put(queue, values), dtype=result).get()
    assert (found.dtype, found) == (np.dtype(result), values.sum(dtype=result))
    np.testing.assert_array_equal(
        portbar.scan(queue, put(queue, values), dtype=result).get(), np.cumsum(values, dtype=result)
    )


def test_vectors_are_converted_by_component(queue: cl.CommandQueue) -> None:
    four = np.arange(40, dtype=np.int16).view(cltypes.short4)
    found = portbar.reduce(queue, put(queue, four), dtype=cltypes.float4).get()
    assert [found[name] for name in "xyzw"] == [four[name].sum() for name in "xyzw"]
    wide = portbar.reduce(queue, put(queue, np.arange(9, dtype=np.int16)), dtype=cltypes.int2).get()
    assert [wide[name] for name in "xy"] == [36, 36]


@pytest.mark.parametrize(
    ("given", "more", "pattern"),
    [
        (np.complex64, {"dtype": np.float32}, r"'result' has the type float, .* elements of float2 .* map='x\.x'"),
        (np.complex64, {"op": "argmax", "dtype": np.float32}, r"elements of float2 are not converted"),
        (cltypes.float4, {"dtype": cltypes.float2}, "the type float2, to which elements of float4"),
        (cltypes.int3, {"dtype": np.int32}, r"map='x\.x'"),
        (np.dtype([("mass", np.float32), ("n", np.int32)], align=True), {"dtype": np.float32}, r"map='x\.mass'"),
        (cltypes.float4, {"op": "&&", "dtype": np.int32}, "elements of float4 are not converted"),
    ],
)
def test_elements_that_cannot_be_converted_are_refused(
    given: Any, more: Any, pattern: str, queue: cl.CommandQueue
) -> None:
    array = cla.Array(queue, 5, np.dtype(given))
    for call in (portbar.reduce, portbar.scan):
        with pytest.raises(portbar.Error, match=pattern):
            call(queue, array, **more)
