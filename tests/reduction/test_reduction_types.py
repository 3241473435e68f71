"""Loops on complex numbers, vectors, structures, arrays, sections, values with an index, and operators of the author's own."""

from __future__ import annotations

import functools

import numpy as np
import pyopencl as cl
import pyopencl.cltypes
import pytest

import portbar
from portbar.primitives.reduction.header import scalars_of
from tests.reduction.support import STRATEGIES, device_array, host_array, program, strategy

#: Whether a loop ends within a group or over all of them.
ENDS = ("worker_vector", "gang_worker_vector")


def ends(name, fields, values, *, level, before="", local_size=64):
    """Return a kernel that reduces what `values` puts into `mine` for work-item `i`, into one receiver a field."""
    gang = level.startswith("gang")
    parameters = ", ".join(f"global {kind} *{field}" for field, kind in fields.items())
    results = ", ".join(fields)
    return f"""{before}
#define PORTBAR_REDUCTION_LOCAL_SIZE {local_size}
#include "portbar/reduction.h"
kernel void k({"PORTBAR_REDUCTION_PARAM, " if gang else ""}{parameters})
{{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const int i = (int)get_global_id(0);
    const {name}_results results = {{ {results} }};
    {name}_local mine = {name}_identity();
    mine = {name}_init_{level}(scratch, results, {name}_setup_{level}(scratch, results, mine));
    {values}
    mine = {name}_fini_{level}(scratch, results, mine);
    {name}_teardown_{level}(scratch, results, mine);
}}
"""


def run(context, queue, source, loop, how, level, start, local=33):
    """Return what the receivers hold after a launch, and how many work-items took part."""
    made = program(context, source, how, loops=[loop])
    n = local * (5 if level.startswith("gang") else 1)
    held = [device_array(queue, value) for value in start]
    made.kernel("k")(queue, (n,), (local,), *held).wait()
    return [host_array(queue, buffer, value.dtype) for buffer, value in zip(held, start, strict=True)], n


def need(context, *names):
    offered = {scalar.c for scalar in scalars_of(strategy(context, None))}
    for name in names:
        if name not in offered:
            pytest.skip(f"the device has no {name}")


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("how", STRATEGIES)
@pytest.mark.parametrize("level", ENDS)
@pytest.mark.parametrize(("dtype", "real"), [(np.complex64, "float"), (np.complex128, "double")])
def test_complex_sums_and_products(context, queue, how, level, dtype, real):
    need(context, real)
    loop = portbar.ReductionLoop("z", {"sum": portbar.Reduction(dtype, "+"), "product": portbar.Reduction(dtype, "*")})
    body = f"""mine.sum += ({real}2)(i, 2 * i + 1);
    const {real}2 f = ({real}2)(0, i % 7 == 0 ? 1 : -1);
    mine.product = ({real}2)(mine.product.x * f.x - mine.product.y * f.y, mine.product.x * f.y + mine.product.y * f.x);"""
    source = ends("z", {"sum": f"{real}2", "product": f"{real}2"}, body, level=level)
    start = [np.array([1 + 2j], dtype), np.array([3 - 1j], dtype)]
    (total, product), n = run(context, queue, source, loop, how, level, start)
    assert total[0] == 1 + 2j + sum(complex(i, 2 * i + 1) for i in range(n))
    assert product[0] == functools.reduce(lambda a, b: a * b, [1j if i % 7 == 0 else -1j for i in range(n)], 3 - 1j)


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("how", STRATEGIES)
@pytest.mark.parametrize("level", ENDS)
def test_vectors_are_reduced_in_each_component(context, queue, how, level):
    loop = portbar.ReductionLoop(
        "v",
        {
            "peak": portbar.Reduction(cl.cltypes.float4, "max"),
            "sum": portbar.Reduction(cl.cltypes.int3, "+"),
            "any": portbar.Reduction(cl.cltypes.uchar2, "||"),
        },
    )
    body = """mine.peak = fmax(mine.peak, (float4)(i, -i, i % 5, 7));
    mine.sum += (int3)(i, 1, -i);
    mine.any |= (uchar2)(i == 3, 0);"""
    source = ends("v", {"peak": "float4", "sum": "int3", "any": "uchar2"}, body, level=level)
    start = [np.zeros(1, cl.cltypes.float4), np.zeros(1, cl.cltypes.int3), np.array([(0, 4)], cl.cltypes.uchar2)]
    (peak, total, some), n = run(context, queue, source, loop, how, level, start)
    assert peak[0].tolist() == (n - 1, 0, 4, 7)
    assert total[0].tolist()[:3] == (n * (n - 1) // 2, n, -n * (n - 1) // 2)
    assert some[0].tolist() == (1, 1)


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("how", STRATEGIES)
@pytest.mark.parametrize("level", ENDS)
@pytest.mark.parametrize("op", ["+", "max"])
def test_structures_are_reduced_leaf_by_leaf(context, queue, how, level, op):
    inner = np.dtype([("x", np.int64), ("y", np.uint8)], align=True)
    dtype = np.dtype([("i", np.int32), ("f", np.float32), ("a", np.int16, (10,)), ("in_", inner)], align=True)
    loop = portbar.ReductionLoop("s", {"all": portbar.Reduction(dtype, op)})
    leaves = {"i": "i - 5", "f": "0.5f * i", "in_.x": "3L * i", "in_.y": "(uchar)(i % 9)"}
    many = " ".join(
        f"mine.all.{leaf} " + (f"+= {v};" if op == "+" else f"= mine.all.{leaf} > {v} ? mine.all.{leaf} : {v};")
        for leaf, v in leaves.items()
    )
    head = "for (int k = 0; k < 10; ++k) "
    elements = {"+": "mine.all.a[k] += k * (i & 1);", "max": "mine.all.a[k] = max(mine.all.a[k], (short)(k * i));"}
    body = many + head + elements[op]
    source = ends("s", {"all": "s_all"}, body, level=level)
    start = np.zeros(1, dtype)
    start["i"] = 1000
    (got,), n = run(context, queue, source, loop, how, level, [start])
    total = sum if op == "+" else max
    items = range(n)
    assert got["i"][0] == total([1000, *(i - 5 for i in items)])
    assert got["f"][0] == total([0, *(0.5 * i for i in items)])
    assert got["in_"]["x"][0] == total([0, *(3 * i for i in items)])
    assert got["in_"]["y"][0] == total([0, *(i % 9 for i in items)]) % 256
    assert got["a"][0].tolist() == [
        total([0, *((k * (i & 1)) if op == "+" else k * i for i in items)]) for k in range(10)
    ]


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("how", STRATEGIES)
@pytest.mark.parametrize("level", [*ENDS, "vector", "worker", "gang", "gang_vector", "gang_worker"])
def test_only_the_section_of_an_array_changes(context, queue, how, level):
    loop = portbar.ReductionLoop("a", {"v": portbar.Reduction(np.int32, "+", shape=6)})
    gang = level.startswith("gang")
    source = f"""
#define PORTBAR_REDUCTION_LOCAL_SIZE 64
#include "portbar/reduction.h"
kernel void k({"PORTBAR_REDUCTION_PARAM, " if gang else ""}global int *v, uint offset, uint length, global int *outside)
{{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const a_results results = {{ v, offset, length }};
    a_local mine;
    for (int k = 0; k < 6; ++k)
        mine.v[k] = 100 + (int)get_global_id(0);
    mine = a_init_{level}(scratch, results, a_setup_{level}(scratch, results, mine));
    if (portbar_loop_id_{level}() < 10u)
        for (uint k = offset; k < offset + length; ++k)
            mine.v[k] += 1;
    mine = a_fini_{level}(scratch, results, mine);
    mine = a_teardown_{level}(scratch, results, mine);
    if (offset + length < 6)
        outside[get_global_id(0)] = mine.v[5];
}}
"""
    made = program(context, source, how, loops=[loop])
    v = device_array(queue, np.array([5, 1, 1, 5, 9, 9], np.int32))
    outside = device_array(queue, np.zeros(24, np.int32))
    expected = [5, 1, 1, 5, 9, 9]
    groups = 2 if gang else 1
    local = 12 if level != "vector" else 4
    members = members_of(made, level, groups, local, context)
    # As GCC's reduction-arrays tests: what lies outside of a section must not change.
    for offset, length in ((1, 2), (3, 2), (0, 5), (4, 1), (3, 3), (1, 3)):
        launch = made.kernel("k")(queue, (groups * local,), (local,), v, np.uint32(offset), np.uint32(length), outside)
        launch.wait()
        for k in range(offset, offset + length):
            expected[k] += min(members, 10)
        assert host_array(queue, v, np.int32).tolist() == expected, (offset, length)
        if offset + length < 6:
            kept = host_array(queue, outside, np.int32)[: groups * local]
            assert kept.tolist() == [100 + i for i in range(groups * local)]


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("op", ["+", "*"])
def test_only_the_section_of_an_array_changes_by_atomics_too(context, queue, op):
    """Sums have atomics of their own, products a loop of compare-exchanges."""
    loop = portbar.ReductionLoop("a", {"v": portbar.Reduction(np.uint32, op, shape=6)}, deterministic=False)
    source = """
#define PORTBAR_REDUCTION_LOCAL_SIZE 64
#include "portbar/reduction.h"
kernel void k(PORTBAR_REDUCTION_PARAM, global uint *v, uint offset, uint length)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const a_results results = { v, offset, length };
    const a_local mine = { { 3u, 3u, 3u, 3u, 3u, 3u } };
    a_reduce_gang_worker_vector(scratch, results, mine);
}
"""
    kernel = program(context, source, loops=[loop]).kernel("k")
    v = device_array(queue, np.array([5, 1, 1, 5, 9, 9], np.uint32))
    expected = [5, 1, 1, 5, 9, 9]
    for offset, length in ((1, 2), (0, 5), (3, 3), (4, 0)):
        kernel(queue, (12,), (4,), v, np.uint32(offset), np.uint32(length)).wait()
        for k in range(offset, offset + (length or 6 - offset)):
            expected[k] = (expected[k] + 36 if op == "+" else expected[k] * 3**12) % 2**32
        assert host_array(queue, v, np.uint32).tolist() == expected, (offset, length)


def members_of(made, level, groups, local, context):
    """Count the members of a level by what the kernel's own header says of sub-groups."""
    queue = cl.CommandQueue(context)
    source = """
#include "portbar/reduction.h"
kernel void ask(global uint *out) { out[0] = portbar_num_sub_groups(); out[1] = portbar_sub_group_max_size(); }
"""
    asked = portbar.Program(context, source, strategy=made.strategy(context.devices[0]))
    out = device_array(queue, np.zeros(2, np.uint32))
    asked.kernel("ask")(queue, (local,), (local,), out).wait()
    workers, lanes = host_array(queue, out, np.uint32).tolist()
    per_group = {"": 1, "vector": lanes, "worker": workers, "worker_vector": local}
    return per_group[level.removeprefix("gang").removeprefix("_")] * (groups if level.startswith("gang") else 1)


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("how", STRATEGIES)
@pytest.mark.parametrize("level", ENDS)
@pytest.mark.parametrize(("op", "choose"), [("argmin", min), ("argmax", max)])
def test_the_lowest_index_wins_among_equals_and_numbers_over_what_is_none(context, queue, how, level, op, choose):
    reduction = portbar.Reduction(np.float32, op)
    loop = portbar.ReductionLoop("m", {"best": reduction})
    body = f"""const portbar_indexed_float x = {{ i == 0 ? NAN : (float)((i * 29) % 13), i }};
    mine.best = portbar_better_{op}(mine.best, x) ? mine.best : x;"""
    source = ends("m", {"best": "portbar_indexed_float"}, body, level=level)
    start = np.zeros(1, reduction.result_dtype)
    start["index"] = -1
    (best,), n = run(context, queue, source, loop, how, level, [start])
    values = {i: (i * 29) % 13 for i in range(1, n)}
    wanted = choose(values.values())
    assert best[0].tolist() == (wanted, min(i for i, value in values.items() if value == wanted))


#: Affine maps x -> p * x + q, composed: associative and not commutative.
AFFINE = np.dtype([("p", np.uint32), ("q", np.uint32)], align=True)


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("how", STRATEGIES)
@pytest.mark.parametrize("level", ENDS)
def test_an_operator_that_does_not_commute_keeps_the_order(context, queue, how, level):
    op = portbar.Operator("((f_map){ a.p * b.p, b.p * a.q + b.q })", neutral="{ 1u, 0u }", commutative=False)
    loop = portbar.ReductionLoop("f", {"map": portbar.Reduction(AFFINE, op)})
    body = """const f_map next = { 2u * i + 1u, i + 3u };
    const f_map so_far = mine.map;
    mine.map.p = so_far.p * next.p;
    mine.map.q = next.p * so_far.q + next.q;"""
    source = ends("f", {"map": "f_map"}, body, level=level)
    start = np.array([(5, 11)], AFFINE)
    (got,), n = run(context, queue, source, loop, how, level, [start])
    p, q = 5, 11
    for i in range(n):
        p, q = p * (2 * i + 1) % 2**32, ((2 * i + 1) * q + i + 3) % 2**32
    assert got[0].tolist() == (p, q)


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("how", STRATEGIES)
def test_an_operator_on_numbers_has_the_short_forms_of_its_loop(context, queue, how):
    # The products of one more than each number, less one.
    op = portbar.Operator("a * b + a + b", neutral=0)
    loop = portbar.ReductionLoop("own", {"v": portbar.Reduction(np.uint32, op)})
    source = """
#define PORTBAR_REDUCTION_LOCAL_SIZE 64
#include "portbar/reduction.h"
kernel void k(global uint *out)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const uint i = (uint)get_global_id(0);
    const own_local mine = { i };
    out[i] = portbar_work_group_reduce_own(scratch, mine).v;
    out[64 + i] = portbar_work_group_scan_inclusive_own(scratch, mine).v;
}
"""
    made = program(context, source, how, ordering="work_group", loops=[loop])
    out = device_array(queue, np.zeros(128, np.uint32))
    made.kernel("k")(queue, (33,), (33,), out).wait()
    got = host_array(queue, out, np.uint32)
    products = [functools.reduce(lambda a, b: a * b % 2**32, range(1, i + 2)) - 1 for i in range(33)]
    assert got[:33].tolist() == [products[-1] % 2**32] * 33
    assert got[64:97].tolist() == [value % 2**32 for value in products]


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("how", STRATEGIES)
@pytest.mark.parametrize("level", ENDS)
def test_a_number_wins_over_nan_and_infinities_are_numbers(context, queue, how, level):
    fields = {name: portbar.Reduction(np.float32, name[:3]) for name in ("min_nan", "max_nan", "min_inf", "max_inf")}
    loop = portbar.ReductionLoop("n", fields)
    body = """mine.min_nan = fmin(mine.min_nan, i == 4 ? 2.0f : NAN);
    mine.max_nan = fmax(mine.max_nan, i == 4 ? 2.0f : NAN);
    mine.min_inf = fmin(mine.min_inf, i == 6 ? -INFINITY : (float)i);
    mine.max_inf = fmax(mine.max_inf, i == 6 ? INFINITY : (float)i);"""
    source = ends("n", dict.fromkeys(fields, "float"), body, level=level)
    start = [np.array([value], np.float32) for value in (np.nan, np.nan, 5, 5)]
    got, _ = run(context, queue, source, loop, how, level, start)
    assert [float(value[0]) for value in got] == [2, 2, -np.inf, np.inf]
