"""Loops on vectors, structures, values with an index and sections of arrays, by each strategy."""

from __future__ import annotations

from unittest.mock import ANY

import numpy as np
import pyopencl as cl
import pyopencl.cltypes
import pytest

import portbar
from tests.reduction.support import STRATEGIES, Case, head, kernel_text, program
from tests.support import host_array, to_device

pytestmark = [pytest.mark.device, pytest.mark.slow]

#: Whether a loop ends within a group or over all of them.
ENDS = ("worker_vector", "gang_worker_vector")
N = 97
ITEMS = range(N)


def case(body, **fields):
    return Case(N, body, fields, ENDS, local=33)


INNER = np.dtype([("x", np.int64), ("y", np.uint8)], align=True)
RECORD = np.dtype([("i", np.int32), ("f", np.float32), ("a", np.int16, (10,)), ("in_", INNER)], align=True)
LEAVES = {"i": "(int)i - 5", "f": "0.5f * i", "in_.x": "3L * i", "in_.y": "(uchar)(i % 9u)"}


def records(op):
    """Return a reduction of every leaf of a record, the first of which starts from 1000."""
    if op == "+":
        body = " ".join(f"mine.s.{leaf} += {value};" for leaf, value in LEAVES.items())
        body += " for (int k = 0; k < 10; ++k) mine.s.a[k] += k * (i & 1);"
        total, of = sum, lambda k, i: k * (i & 1)
    else:
        body = " ".join(
            f"mine.s.{leaf} = mine.s.{leaf} > {value} ? mine.s.{leaf} : {value};" for leaf, value in LEAVES.items()
        )
        body += " for (int k = 0; k < 10; ++k) mine.s.a[k] = max(mine.s.a[k], (short)(k * i));"
        total, of = max, lambda k, i: k * i
    start, result = np.zeros(1, RECORD), np.zeros(1, RECORD)
    start["i"] = 1000
    result["i"] = total([1000, *(i - 5 for i in ITEMS)])
    result["f"] = total([0, *(0.5 * i for i in ITEMS)])
    result["in_"]["x"] = total([0, *(3 * i for i in ITEMS)])
    result["in_"]["y"] = total([0, *(i % 9 for i in ITEMS)]) % 256
    result["a"] = [total([0, *(of(k, i) for i in ITEMS)]) for k in range(10)]
    return case(body, s=(RECORD, op, start, result))


def indexed(op, choose):
    """Return a search among equals, and among NaNs."""
    body = f"""const portbar_indexed_float x = {{ i == 0 ? NAN : (float)((i * 29) % 13), i }};
        mine.best = portbar_better_{op}(mine.best, x) ? mine.best : x;"""
    wanted = choose((i * 29) % 13 for i in ITEMS[1:])
    first = min(i for i in ITEMS[1:] if (i * 29) % 13 == wanted)
    start = np.array([(0, -1)], portbar.Reduction(np.float32, op).result_dtype)
    return case(body, best=(np.float32, op, start, (wanted, first)))


SUM = N * (N - 1) // 2
CASES = {
    "components of vectors": case(
        """mine.peak = fmax(mine.peak, (float4)(i, -(int)i, i % 5, 7));
        mine.sum += (int3)(i, 1, -(int)i);
        mine.any |= (uchar2)(i == 3, 0);""",
        peak=(cl.cltypes.float4, "max", np.zeros(1, cl.cltypes.float4), (N - 1, 0, 4, 7)),
        sum=(cl.cltypes.int3, "+", np.zeros(1, cl.cltypes.int3), (SUM, N, -SUM, ANY)),
        any=(cl.cltypes.uchar2, "||", np.array([(0, 4)], cl.cltypes.uchar2), (1, 1)),
    ),
    "leaves of a structure, sum": records("+"),
    "leaves of a structure, max": records("max"),
    "lowest index of the least": indexed("argmin", min),
    "lowest index of the greatest": indexed("argmax", max),
    "numbers over nan, and infinities": case(
        """mine.min_nan = fmin(mine.min_nan, i == 4 ? 2.0f : NAN);
        mine.max_nan = fmax(mine.max_nan, i == 4 ? 2.0f : NAN);
        mine.min_inf = fmin(mine.min_inf, i == 6 ? -INFINITY : (float)i);
        mine.max_inf = fmax(mine.max_inf, i == 6 ? INFINITY : (float)i);""",
        min_nan=(np.float32, "min", np.nan, 2),
        max_nan=(np.float32, "max", np.nan, 2),
        min_inf=(np.float32, "min", 5, -np.inf),
        max_inf=(np.float32, "max", 5, np.inf),
    ),
}


@pytest.mark.parametrize("how", STRATEGIES)
@pytest.mark.parametrize("level", ENDS)
@pytest.mark.parametrize("name", CASES)
def test_values_of_every_kind_are_reduced(context, queue, name, level, how):
    CASES[name].check(context, queue, level, how)


#: Of GCC's reduction-arrays-2.c to -4.c, and of reduction-15.f90 and -16.f90; -5's variable lengths are not in OpenCL C.
SECTIONS = ((1, 2), (1, 2), (3, 2), (3, 2), (0, 5), (0, 5), (4, 1), (3, 3), (1, 3), (2, 3), (3, 2), (1, 2))
ARRAY = np.array([5, 1, 1, 5, 9, 9], np.uint32)


@pytest.mark.parametrize("how", STRATEGIES)
@pytest.mark.parametrize("level", [*ENDS, "vector", "worker", "gang", "gang_vector", "gang_worker"])
def test_only_the_section_of_an_array_changes(context, queue, how, level):
    loop = portbar.ReductionLoop("a", {"v": portbar.Reduction(np.uint32, "+", shape=6)})
    gangs = level.startswith("gang")
    body = f"""
    const a_results results = {{ v, offset, length }};
    a_local mine;
    for (int k = 0; k < 6; ++k)
        mine.v[k] = 100u + (uint)get_global_id(0);
    mine = a_init_{level}(scratch, results, a_setup_{level}(scratch, results, mine));
    const uint end = get_num_groups(0) != 0 ? 10u : 0u;
    for (uint i = portbar_loop_id_{level}(); i < end; i += portbar_loop_count_{level}())
        for (uint k = offset; k < offset + length; ++k)
            mine.v[k] += 1u;
    mine = a_teardown_{level}(scratch, results, a_fini_{level}(scratch, results, mine));
    outside[get_global_id(0)] = offset + length < 6u ? mine.v[5] : 0u;"""
    text = kernel_text(
        "k", "global uint *v, uint offset, uint length, global uint *outside", body, "gangs" if gangs else ""
    )
    kernel = program(context, head(64) + text, how, loops=[loop]).kernel("k")
    local = 12 if level != "vector" else 4
    items = local * (2 if gangs else 1)
    v, outside = to_device(queue, ARRAY), to_device(queue, np.zeros(items, np.uint32))
    expected = ARRAY.copy()
    for offset, length in SECTIONS:
        kernel(queue, (items,), (local,), v, np.uint32(offset), np.uint32(length), outside).wait()
        expected[offset : offset + length] += 10
        assert host_array(queue, v, np.uint32).tolist() == expected.tolist(), (offset, length)
        if offset + length < 6:
            assert host_array(queue, outside, np.uint32).tolist() == [100 + i for i in range(items)]
    assert expected.tolist() == [25, 61, 71, 85, 89, 19]


@pytest.mark.parametrize("op", ["+", "*"])
def test_only_the_section_of_an_array_changes_by_atomics_too(context, queue, op):
    """Sums have atomics of their own, products a loop of compare-exchanges."""
    loop = portbar.ReductionLoop("a", {"v": portbar.Reduction(np.uint32, op, shape=6)}, deterministic=False)
    body = """
    const a_results results = { v, offset, length };
    const a_local mine = { { 3u, 3u, 3u, 3u, 3u, 3u } };
    a_reduce_gang_worker_vector(scratch, results, mine);"""
    text = kernel_text("k", "global uint *v, uint offset, uint length", body, "gangs")
    kernel = program(context, head(64) + text, loops=[loop]).kernel("k")
    v, expected = to_device(queue, ARRAY), ARRAY.tolist()
    for offset, length in ((1, 2), (0, 5), (3, 3), (4, 0)):
        kernel(queue, (12,), (4,), v, np.uint32(offset), np.uint32(length)).wait()
        for k in range(offset, offset + (length or 6 - offset)):
            expected[k] = (expected[k] + 36 if op == "+" else expected[k] * 3**12) % 2**32
        assert host_array(queue, v, np.uint32).tolist() == expected, (offset, length)
