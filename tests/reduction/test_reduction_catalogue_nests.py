"""GCC's public OpenACC reduction tests of nested loops, of work shared among all levels, and of whole programs.

As in `test_reduction_catalogue.py`, which says what cannot apply, each test names the file whose values it takes. What those
files say by atomics on private variables (private-atomic-1.c) is plain arithmetic here, and links between their structures are
indices, since pointers do not outlive an OpenCL kernel.
"""

from __future__ import annotations

import numpy as np
import pytest

import portbar
from tests.reduction.catalogue_support import (
    loop_at,
    one,
    reduced_at,
    results_of,
    too_long_for_a_simulator,
)
from tests.reduction.support import device_array, host_array, program, scalars, scale

pytestmark = [pytest.mark.device, pytest.mark.slow]


@pytest.fixture(autouse=True)
def _not_on_a_simulator(device):
    too_long_for_a_simulator(device)


def need(context, *kinds):
    for kind in kinds:
        if kind not in {scalar.c for scalar in scalars(context, "add")}:
            pytest.skip(f"the device has no {kind}")


SUM = one("sum", np.int32, "+")


def summed(context, queue, level, n, value, start=0, dtype=np.int32, kind="int", local=32):
    """Return one sum of `value` over `i` below `n`."""
    start_value = [np.array([start], dtype)]
    reduction = {"v": portbar.Reduction(dtype, "+")}
    (v,) = reduced_at(
        context, queue, level, reduction, {"v": kind}, n, f"mine.v += ({kind})({value});", start_value, local=local
    )
    return v[0]


@pytest.mark.parametrize("level", ["gang", "gang_vector", "gang_worker", "gang_worker_vector"])
def test_reduction_7_g_gv_gw_and_gwv_np_1(context, queue, level):
    assert summed(context, queue, level, 1024, "i") == 523776


def test_reduction_7_g_np_1_a_product_with_a_zero(context, queue):
    product = {"v": portbar.Reduction(np.int32, "*")}
    (v,) = reduced_at(context, queue, "gang", product, {"v": "int"}, 12, "mine.v *= (int)i;", [np.ones(1, np.int32)])
    assert v[0] == 0


def test_reduction_7_gwv_np_3_an_inner_sum_feeds_an_outer_one_of_double(context, queue):
    need(context, "double")
    source = """
#define PORTBAR_REDUCTION_LOCAL_SIZE 64
#include "portbar/reduction.h"
kernel void k(PORTBAR_REDUCTION_PARAM, global double *total)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const sum_results results = { total }, none = { 0 };
    sum_local mine = sum_init_gang(scratch, results, sum_identity());
    for (uint j = portbar_loop_id_gang(); j < 32u; j += portbar_loop_count_gang()) {
        mine = sum_init_worker_vector(scratch, none, mine);
        for (uint i = portbar_loop_id_worker_vector(); i < 1024u; i += portbar_loop_count_worker_vector())
            mine.v += j * 1024u + i;
        mine = sum_fini_worker_vector(scratch, none, mine);
    }
    sum_fini_gang(scratch, results, mine);
}
"""
    (total,) = results_of(context, queue, source, [one("sum", np.float64, "+")], "k", 32 * 64, 64, np.zeros(1))
    assert total[0] == 536854528.0


DOT = """
#define PORTBAR_REDUCTION_LOCAL_SIZE 64
#include "portbar/reduction.h"
kernel void v_p_2(global const double *ina, global const double *inb, global double *out)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const dot_results none = { 0 };
    const uint count = (uint)get_num_groups(0) * portbar_num_sub_groups();
    for (uint first = 0; first < 32u; first += count) {
        const uint k = first + (uint)get_group_id(0) * portbar_num_sub_groups() + portbar_sub_group_id();
        for (uint j = 0; j < 32u; ++j) {
            dot_local mine = dot_init_vector(scratch, none, dot_identity());
            for (uint i = portbar_loop_id_vector(); k < 32u && i < 32u; i += portbar_loop_count_vector())
                mine.v += ina[k * 32u + i] * inb[i * 32u + j];
            mine = dot_fini_vector(scratch, none, mine);
            if (k < 32u && portbar_sub_group_local_id() == 0u)
                out[k * 32u + j] = mine.v;
        }
    }
}
"""


def test_reduction_7_v_p_2_products_of_matrices_by_lanes(context, queue):
    """Gangs and workers share the rows, in rounds that all of them make, since portable lanes need the whole group."""
    need(context, "double")
    i, j = np.mgrid[0:32, 0:32]
    ina, inb = 2.0 * (i == j), (i + j).astype(np.float64)
    _, _, out = results_of(
        context,
        queue,
        DOT,
        [one("dot", np.float64, "+")],
        "v_p_2",
        *((8, 2) if scale(context.devices[0]).is_cut_short else (96, 24)),
        ina.ravel(),
        inb.ravel(),
        np.zeros(1024),
    )
    np.testing.assert_array_equal(out.reshape(32, 32), 2 * (i + j))


PROGRAMS = """
#define PORTBAR_REDUCTION_LOCAL_SIZE 128
#include "portbar/reduction.h"

/* reduction-6.c, reduction-7.f90: a private variable in a gang loop, counted up by lanes. */
kernel void reduction_6(global int *red)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const sum_results none = { 0 };
    for (uint j = (uint)get_group_id(0); j < 10u; j += (uint)get_num_groups(0)) {
        sum_local mine = { (int)j };
        mine = sum_init_vector(scratch, none, mine);
        for (uint i = portbar_loop_id_vector(); i < 100u; i += portbar_loop_count_vector())
            mine.v++;
        mine = sum_fini_vector(scratch, none, mine);
        if (get_local_id(0) == 0)
            red[j] = mine.v;
    }
}
/* wv_p_3: the same loop in every gang, then its result by all work-items. */
kernel void wv_p_3(global int *out)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const sum_results none = { 0 };
    sum_local mine = sum_init_worker_vector(scratch, none, sum_identity());
    for (uint i = portbar_loop_id_worker_vector(); i < 1024u; i += portbar_loop_count_worker_vector())
        mine.v += (int)(i ^ 33u);
    mine = sum_fini_worker_vector(scratch, none, mine);
    for (uint i = (uint)get_global_id(0); i < 32u; i += (uint)get_global_size(0))
        out[i] = mine.v;
}
/* par-loop-comb-reduction-1.c: workers, and then lanes backwards, within a gang loop that is itself reduced. */
kernel void comb_1(PORTBAR_REDUCTION_PARAM, global int *total)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const sum_results results = { total }, none = { 0 };
    sum_local mine = sum_init_gang(scratch, results, sum_identity());
    for (uint j = portbar_loop_id_gang(); j < 32u; j += portbar_loop_count_gang()) {
        mine = sum_init_worker(scratch, none, mine);
        for (uint i = portbar_loop_id_worker(); i < 1024u; i += portbar_loop_count_worker())
            mine.v += (int)(j * 1024u + i);
        mine = sum_fini_worker(scratch, none, mine);
        mine = sum_init_vector(scratch, none, mine);
        for (int i = 1023 - (int)portbar_loop_id_vector(); i >= 0; i -= (int)portbar_loop_count_vector())
            mine.v += (int)(j * 1024u) + i;
        mine = sum_fini_vector(scratch, none, mine);
    }
    sum_fini_gang(scratch, results, mine);
}
/* par-loop-comb-reduction-2.c: exclusive or of 3i and then of i, work-groups as a whole, twice. */
kernel void comb_2(PORTBAR_REDUCTION_PARAM, global int *total)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const odd_results results = { total }, none = { 0 };
    odd_local mine = odd_init_gang(scratch, results, odd_identity());
    for (uint j = portbar_loop_id_gang(); j < 32u; j += portbar_loop_count_gang())
        for (int factor = 3; factor >= 1; factor -= 2) {
            mine = odd_init_worker_vector(scratch, none, mine);
            for (uint i = portbar_loop_id_worker_vector(); i < 1024u; i += portbar_loop_count_worker_vector())
                mine.v ^= factor * (int)(j * 1024u + i);
            mine = odd_fini_worker_vector(scratch, none, mine);
        }
    odd_fini_gang(scratch, results, mine);
}
/* parallel-reduction.c: sums of the parallel region itself, and one whose loop within shares its ten turns among the gangs. */
kernel void parallel(PORTBAR_REDUCTION_PARAM, global int *s1, global int *s2)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const pair_results results = { s1, s2 };
    pair_local mine = pair_init_gang(scratch, results, pair_identity());
    mine.s1++;
    mine.s2 += 10;
    pair_fini_gang(scratch, results, mine);
}
kernel void parallel_loop(PORTBAR_REDUCTION_PARAM, global int *s1)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const sum_results results = { s1 };
    sum_local mine = sum_init_gang(scratch, results, sum_identity());
    for (uint i = portbar_loop_id_gang(); i < 10u; i += portbar_loop_count_gang())
        mine.v++;
    sum_fini_gang(scratch, results, mine);
}
/* gang-reduction-var-assignment.c: what was in the variable is overwritten within the region, and still counts. */
kernel void assignment(PORTBAR_REDUCTION_PARAM, global int *x)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const sum_results results = { x };
    sum_local mine = sum_init_gang(scratch, results, sum_identity());
    mine.v = 23;
    sum_fini_gang(scratch, results, mine);
}
/* pr70289.c, pr70373.c: a variable that nobody changes. */
kernel void untouched(PORTBAR_REDUCTION_PARAM, global int *x)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const sum_results results = { x };
    sum_fini_gang(scratch, results, sum_init_gang(scratch, results, sum_identity()));
}
/* deep-copy-4.c: a list, here of indices. */
kernel void list(PORTBAR_REDUCTION_PARAM, global const int *next, global const int *value, global int *total)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const sum_results results = { total };
    sum_local mine = sum_init_gang(scratch, results, sum_identity());
    for (int node = 0; node >= 0; node = next[node])
        mine.v += value[node];
    sum_fini_gang(scratch, results, mine);
}
/* static-variable-1.c: the largest of what an atomic addition gave to each gang, and of the gangs' numbers. */
kernel void captured(PORTBAR_REDUCTION_PARAM, volatile global int *counter, global int *peak, global int *gangs)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const peaks_results results = { peak, gangs };
    peaks_local mine = peaks_init_gang(scratch, results, peaks_identity());
    if (get_local_id(0) == 0) {
        mine.peak = atomic_inc(counter) + 1;
        mine.gangs = 1 + (int)portbar_gang_id();
    }
    peaks_fini_gang(scratch, results, mine);
}
/* private-atomic-1.c: 2322 turns of gangs and lanes, each of which counts to 121 by itself. */
kernel void counted(PORTBAR_REDUCTION_PARAM, global int *total)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const sum_results results = { total };
    sum_local mine = sum_init_gang_vector(scratch, results, sum_identity());
    for (uint i = portbar_loop_id_gang_vector(); i < 2322u; i += portbar_loop_count_gang_vector()) {
        int v = 0;
        for (int j = 0; j < 121; ++j)
            v++;
        mine.v += v == 121;
    }
    sum_fini_gang_vector(scratch, results, mine);
}
/* broadcast-many.c: four loops over the workers one after another. */
kernel void chained(global int *out)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const sum_results none = { 0 };
    sum_local mine = { 0 };
    for (int turn = 0; turn < 4; ++turn) {
        mine = sum_init_worker(scratch, none, mine);
        for (uint i = portbar_loop_id_worker(); i < 2048u; i += portbar_loop_count_worker())
            mine.v++;
        mine = sum_fini_worker(scratch, none, mine);
    }
    out[get_local_id(0)] = mine.v;
}
/* nested-function-2.c: a logical or over a block of 5 by 5 by 6, whose cells are set. */
kernel void cells(PORTBAR_REDUCTION_PARAM, global int *cell, global int *l)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const any_results results = { l };
    any_local mine = any_init_gang_worker_vector(scratch, results, any_identity());
    for (uint i = portbar_loop_id_gang_worker_vector(); i < 150u; i += portbar_loop_count_gang_worker_vector()) {
        const uint x = i / 30u, y = i / 6u % 5u, z = i % 6u;
        mine.v = mine.v || x >= 5u || y >= 5u || z >= 6u || (x * 5u + y) * 6u + z != i;
        if (!mine.v)
            cell[i]++;
    }
    any_fini_gang_worker_vector(scratch, results, mine);
}
"""
PROGRAM_LOOPS = [
    SUM,
    one("odd", np.int32, "^"),
    one("any", np.int32, "||"),
    portbar.ReductionLoop("pair", {name: portbar.Reduction(np.int32, "+") for name in ("s1", "s2")}),
    portbar.ReductionLoop("peaks", {name: portbar.Reduction(np.int32, "max") for name in ("peak", "gangs")}),
]


def launched(context, queue, kernel, groups, local, *args):
    return results_of(context, queue, PROGRAMS, PROGRAM_LOOPS, kernel, groups * local, local, *args)


def number(value=0):
    return np.array([value], np.int32)


def test_reduction_6_and_7_f90_a_private_variable_that_starts_from_the_outer_index(context, queue):
    (red,) = launched(context, queue, "reduction_6", 10, 8, np.zeros(10, np.int32))
    assert red.tolist() == [j + 100 for j in range(10)]


def test_reduction_7_wv_p_3_every_gang_does_the_whole_loop(context, queue):
    (out,) = launched(context, queue, "wv_p_3", 4, 24, np.zeros(32, np.int32))
    assert out.tolist() == [523776] * 32


def test_par_loop_comb_reduction_1_workers_and_lanes_within_a_gang_loop(context, queue):
    local = 8 if scale(context.devices[0]).is_cut_short else 32
    (total,) = launched(context, queue, "comb_1", 32, local, number())
    assert total[0] == 1073709056


def test_par_loop_comb_reduction_2_exclusive_or(context, queue):
    (total,) = launched(context, queue, "comb_2", 32, 32, number())
    numbers = np.arange(32768)
    assert total[0] == np.bitwise_xor.reduce(3 * numbers) ^ np.bitwise_xor.reduce(numbers)
    assert total[0] == 32768


def test_par_loop_comb_reduction_3_float_sums_that_are_exact_in_any_order(context, queue):
    """The fourth of these files has the values of reduction-7.c's gwv_np_4, which `test_reduction_catalogue.py` has."""
    assert summed(context, queue, "gang_worker_vector", 32768 * 2, "i % 512u", 0, np.float32, "float") == 16744448


def test_parallel_reduction_counts_gangs_and_shares_a_loop_within(context, queue):
    s1, s2 = launched(context, queue, "parallel", 10, 4, number(), number())
    assert (s1[0], s2[0]) == (10, 100)
    (s1,) = launched(context, queue, "parallel_loop", 10, 4, number())
    assert s1[0] == 10


def test_gang_reduction_var_assignment_the_start_value_is_added_once(context, queue):
    (x,) = launched(context, queue, "assignment", 1, 1, number(123))
    assert x[0] == 146


def test_pr70289_and_pr70373_what_nobody_changes_stays(context, queue):
    for start in (0, 42):
        (x,) = launched(context, queue, "untouched", 6, 5, number(start))
        assert x[0] == start


def test_deep_copy_4_a_list_of_ten(context, queue):
    order = np.random.default_rng(5).permutation(np.arange(1, 10))
    chain = [0, *order.tolist()]
    following, value = np.full(10, -1, np.int32), np.zeros(10, np.int32)
    following[chain[:-1]] = chain[1:]
    value[chain] = np.arange(1, 11)
    _, _, total = launched(context, queue, "list", 1, 1, following, value, number())
    assert total[0] == 55


def test_static_variable_1_the_largest_of_what_atomics_gave(context, queue):
    kernel = program(context, PROGRAMS, loops=PROGRAM_LOOPS).kernel("captured")
    counter = device_array(queue, number(5))
    for i in range(3):
        peak, gangs = (device_array(queue, number()) for _ in range(2))
        kernel(queue, (444 * 2,), (2,), counter, peak, gangs).wait()
        assert host_array(queue, peak, np.int32)[0] == 5 + 444 * (1 + i)
        assert host_array(queue, gangs, np.int32)[0] == 444


def test_private_atomic_1_loops_within_the_turns_of_a_reduced_one(context, queue):
    (total,) = launched(context, queue, "counted", 8, 8, number())
    assert total[0] == 2322


def test_broadcast_many_four_loops_in_a_chain(context, queue):
    (out,) = launched(context, queue, "chained", 1, 32, np.zeros(32, np.int32))
    assert out.tolist() == [8192] * 32


def test_nested_function_2_a_logical_or_guards_a_hundred_and_fifty_cells(context, queue):
    cell, held = launched(context, queue, "cells", 3, 16, np.zeros(150, np.int32), number())
    assert held[0] == 0
    assert cell.tolist() == [1] * 150


@pytest.mark.parametrize("ordered", [True, False])
def test_reduction_8_and_par_reduction_2_launches_that_nobody_waits_for(context, ordered):
    import pyopencl as cl  # noqa: PLC0415

    properties = 0 if ordered else cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    try:
        queue = cl.CommandQueue(context, properties=properties)
    except cl.Error:
        pytest.skip("the device has no out-of-order queues")
    kernel = program(
        context, loop_at("gang", {"v": "int"}, 100, "mine.v += (int)i + 1;"), loops=[one("all", np.int32, "+")]
    )
    v = device_array(queue, number())
    # pr70688.c: the second launch goes on from what the first left.
    launches = [kernel.kernel("k")(queue, (10,), (1,), v) for _ in range(2)]
    for launch in launches:
        launch.wait()
    assert host_array(queue, v, np.int32)[0] == 10100


@pytest.mark.parametrize(
    ("level", "n", "value", "start", "result"),
    [
        ("gang_worker_vector", 100, "1", 0, 100),  # combined-reduction.c, kernels-reduction-1.c
        ("gang_vector", 10000, "i % 2u", 1, 5001),  # kernels-reduction.c
        ("worker_vector", 4, "1", 0, 4),  # collapse-4.c, kernels-acc-loop-reduction-2.f90: two loops of two as one
        ("gang", 128, "2u * i + 1u", 0, 16384),  # pr95270-2.c
        ("worker", 40, "10", 0, 400),  # reduction-5.f90
        ("gang_worker", 1000, "1", 0, 1000),  # reduction-6.f90: loops of ten within each other
    ],
)
def test_small_programs(context, queue, level, n, value, start, result):
    assert summed(context, queue, level, n, value, start) == result


def test_collapse_1_and_3_no_index_is_wrong(context, queue):
    wrong = {"v": portbar.Reduction(np.int32, "|")}
    body = "const int x = (int)i / 12, y = (int)i / 3 % 4, z = (int)i % 3; mine.v |= (x * 4 + y) * 3 + z != (int)i;"
    (v,) = reduced_at(context, queue, "gang_worker_vector", wrong, {"v": "int"}, 24, body, [number()])
    assert v[0] == 0


GEMM = """
#define PORTBAR_REDUCTION_LOCAL_SIZE 128
#define PORTBAR_SUB_GROUP_SIZE 128
#include "portbar/reduction.h"
kernel void gemm(uint count, uint depth, float alpha, float beta, global float *c)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const dot_results none = { 0 };
    for (uint j = (uint)get_group_id(0); j < count; j += (uint)get_num_groups(0)) {
        dot_local mine = dot_init_vector(scratch, none, dot_identity());
        for (uint i = portbar_loop_id_vector(); i < depth; i += portbar_loop_count_vector())
            mine.v += 1.0f * 0.25f;
        mine = dot_fini_vector(scratch, none, mine);
        if (get_local_id(0) == 0)
            c[j] = alpha * mine.v + beta * c[j];
    }
}
"""


def test_gemm_f90_a_dot_product_over_128_lanes(context, queue):
    count = 50 if scale(context.devices[0]).is_cut_short else 5000
    (c,) = results_of(
        context,
        queue,
        GEMM,
        [one("dot", np.float32, "+")],
        "gemm",
        8 * 128,
        128,
        np.uint32(count),
        np.uint32(2000),
        np.float32(1.05),
        np.float32(1.25),
        np.zeros(count, np.float32),
    )
    np.testing.assert_allclose(c, 525.0, rtol=1e-6)


VECTOR_128 = """
#define PORTBAR_REDUCTION_LOCAL_SIZE 128
#define PORTBAR_SUB_GROUP_SIZE 128
#include "portbar/reduction.h"
/* vector-length-128-10.c: lanes within a reduction over the gangs, of two types. */
kernel void both(PORTBAR_REDUCTION_PARAM, global uint *u, global ulong *l)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const two_results results = { u, l };
    two_local mine = two_init_gang_vector(scratch, results, two_identity());
    for (uint i = portbar_loop_id_gang_vector(); i < 1024u; i += portbar_loop_count_gang_vector()) {
        mine.u += (i % 3u + i % 5u) % 2u;
        mine.l += (i % 3u + i % 5u) % 2u;
    }
    two_fini_gang_vector(scratch, results, mine);
}
/* vred2d-128.c: rows of a triangle, two sums at once. */
#define ROWS(level, id, count) <%BS%>
    kernel void rows_##level(uint n, global long *a1, global long *a2) <%BS%>
    { <%BS%>
        PORTBAR_REDUCTION_SCRATCH(scratch); <%BS%>
        const rows_results none = { 0, 0 }; <%BS%>
        /* Every sub-group makes as many turns, since portable lanes need the whole group. */ <%BS%>
        for (uint first = 0; first < n; first += (count)) { <%BS%>
            const uint i = first + (id); <%BS%>
            rows_local mine = rows_init_##level(scratch, none, rows_identity()); <%BS%>
            for (uint j = i + portbar_loop_id_##level(); j < n; j += portbar_loop_count_##level()) { <%BS%>
                mine.t1 += 1; <%BS%>
                mine.t2 -= 1; <%BS%>
            } <%BS%>
            mine = rows_fini_##level(scratch, none, mine); <%BS%>
            if (i < n) { <%BS%>
                a1[i] = mine.t1; <%BS%>
                a2[i] = mine.t2; <%BS%>
            } <%BS%>
        } <%BS%>
    }
ROWS(vector, (uint)get_group_id(0) * portbar_num_sub_groups() + portbar_sub_group_id(),
     (uint)get_num_groups(0) * portbar_num_sub_groups())
ROWS(worker_vector, (uint)get_group_id(0), (uint)get_num_groups(0))
""".replace("<%BS%>", "\\")
LOOPS_128 = [
    portbar.ReductionLoop("two", {"u": portbar.Reduction(np.uint32, "+"), "l": portbar.Reduction(np.uint64, "+")}),
    portbar.ReductionLoop("rows", {name: portbar.Reduction(np.int64, "+") for name in ("t1", "t2")}),
]


def test_vector_length_128_10_two_types_over_128_lanes(context, queue):
    need(context, "ulong")
    start = [np.ones(1, np.uint32), np.ones(1, np.uint64)]
    u, wide = results_of(context, queue, VECTOR_128, LOOPS_128, "both", 4 * 128, 128, *start)
    assert (u[0], wide[0]) == (478, 478)


@pytest.mark.parametrize(
    ("level", "size"), [("vector", 128), ("worker_vector", 128), ("vector", 32), ("worker_vector", 32)]
)
def test_vred2d_128_rows_of_a_triangle(context, queue, level, size):
    """With gangs for rows and 128 lanes for columns, with workers among either, and with what the device has for lanes."""
    need(context, "long")
    n = 60 if scale(context.devices[0]).is_cut_short else 2500
    source = VECTOR_128.replace("#define PORTBAR_SUB_GROUP_SIZE 128", f"#define PORTBAR_SUB_GROUP_SIZE {size}")
    args = (np.uint32(n), np.zeros(n, np.int64), np.zeros(n, np.int64))
    a1, a2 = results_of(context, queue, source, LOOPS_128, f"rows_{level}", 8 * 128, 128, *args)
    np.testing.assert_array_equal(a1, n - np.arange(n))
    np.testing.assert_array_equal(a2, np.arange(n) - n)


#: 32 gangs of 32 workers of 32 lanes, and a number of turns that no size divides.
TURNS = 32**3 + 17
DEALT = """
#define PORTBAR_REDUCTION_LOCAL_SIZE 1024
#define PORTBAR_SUB_GROUP_SIZE 32
#include "portbar/reduction.h"
#define GANG portbar_gang_id()
#define WORKER portbar_sub_group_id()
#define LANE portbar_sub_group_local_id()
kernel void of_gang(PORTBAR_REDUCTION_PARAM, global int *total)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const sum_results results = { total };
    sum_local mine = sum_init_gang(scratch, results, sum_identity());
    const uint chunk = (TURNS + 31u) / 32u;
    for (uint i = GANG * chunk; i < min((GANG + 1u) * chunk, TURNS); ++i)
        mine.v += (int)(GANG << 16);
    sum_fini_gang(scratch, results, mine);
}
#define WITHIN(level, value) <%BS%>
    kernel void of_##level(global int *total) <%BS%>
    { <%BS%>
        PORTBAR_REDUCTION_SCRATCH(scratch); <%BS%>
        const sum_results none = { 0 }; <%BS%>
        sum_local mine = sum_init_##level(scratch, none, sum_identity()); <%BS%>
        for (uint i = portbar_loop_id_##level(); i < TURNS; i += portbar_loop_count_##level()) <%BS%>
            mine.v += (int)(value); <%BS%>
        const int t = sum_fini_##level(scratch, none, mine).v; /* the private copy of the -2 variants */ <%BS%>
        total[get_local_id(0) % 2u] = t; <%BS%>
    }
WITHIN(worker, WORKER << 8)
WITHIN(vector, LANE)
WITHIN(worker_vector, WORKER << 8 | LANE)
kernel void of_all(PORTBAR_REDUCTION_PARAM, global int *total)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const sum_results results = { total };
    sum_local mine = sum_init_gang_worker_vector(scratch, results, sum_identity());
    const uint chunk = (TURNS + 32u * 1024u - 1u) / (32u * 1024u) * 1024u;
    for (uint i = GANG * chunk + portbar_loop_id_worker_vector(); i < min((GANG + 1u) * chunk, TURNS); i += 1024u)
        mine.v += (int)(GANG << 16 | WORKER << 8 | LANE);
    sum_fini_gang_worker_vector(scratch, results, mine);
}
""".replace("<%BS%>", "\\").replace("TURNS", f"{TURNS}u")


@pytest.mark.parametrize(
    ("kernel", "groups", "local", "result"),
    [
        ("of_gang", 32, 1, -1071710208),
        ("of_worker", 1, 1024, 130058240),
        ("of_vector", 1, 32, 508040),
        ("of_worker_vector", 1, 1024, 130531464),
        ("of_all", 32, 1024, -925384568),
    ],
)
def test_loop_red_each_member_of_each_level_takes_its_turns(context, queue, kernel, groups, local, result):
    if context.devices[0].max_work_group_size < local:
        pytest.skip(f"the device has no work-groups of {local}")
    if scale(context.devices[0]).is_cut_short and kernel in {"of_worker", "of_vector"}:
        pytest.skip("the device ends loops before they are over")
    (total,) = results_of(context, queue, DEALT, [SUM], kernel, groups * local, local, np.zeros(2, np.int32))
    i = np.arange(TURNS)
    of = {
        "of_gang": i // 1025 << 16,
        "of_worker": i % 32 << 8,
        "of_vector": i % 32,
        "of_worker_vector": i // 32 % 32 << 8 | i % 32,
        "of_all": i // 2048 << 16 | i // 32 % 32 << 8 | i % 32,
    }[kernel]
    assert int(of.sum()) % 2**32 == result % 2**32
    assert set(total.tolist()) - {0} == {result}
