"""Values and results of GCC's public OpenACC reduction tests (libgomp.oacc-c-c++-common), done with portbar's levels.

Only what is computed and what comes out is GCC's; each test names the file whose result it must reproduce. Here are the macro
family of reduction.h, the functions of reduction-7.c, and what is outside of loops; `test_reduction_catalogue_nests.py` has
nested loops and whole programs, `test_reduction_catalogue_types.py` has types.

What cannot apply to OpenCL C: Fortran's subroutines, optional, by-reference and allocatable arguments, its internal procedures
and associate names (the values of those tests are here, without the calls); C's arrays of variable length; __int128, which
OpenCL C has not; and clauses that ask a compiler to find the reduction (kernels, auto), since here the author names the level.
"""

from __future__ import annotations

import numpy as np
import pytest

import portbar
from portbar.primitives.reduction.loops import LEVELS
from tests.reduction.catalogue_support import GANGS, LOCAL, one, results_of
from tests.reduction.support import scalars, scale


def macro_source(level, kind, values):
    """As reduction.h: every operator from its own start value, all in one loop."""
    gang = level.startswith("gang")
    param = "PORTBAR_REDUCTION_PARAM, " if gang else ""
    fields = ", ".join(f"global {kind} *{name}" for name in values)
    body = "\n        ".join(f"if (i < {n}) {{ {statement} }}" for n, statement in values.values())
    return f"""
#define PORTBAR_REDUCTION_LOCAL_SIZE 128
#include "portbar/reduction.h"
kernel void k({param}{fields})
{{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const all_results results = {{ {", ".join(values)} }};
    all_local mine = all_identity();
    mine = all_init_{level}(scratch, results, all_setup_{level}(scratch, results, mine));
    for (uint i = portbar_loop_id_{level}(); i < 1000u; i += portbar_loop_count_{level}()) {{
        {body}
    }}
    mine = all_fini_{level}(scratch, results, mine);
    all_teardown_{level}(scratch, results, mine);
}}
"""


#: Name -> operator, start value, result: reduction-1.c.
INTS = {
    "sum": ("+", 0, 5050),
    "product": ("*", 1, 0),
    "all_bits": ("&", -1, 0),
    "some_bits": ("|", 0, 127),
    "odd_bits": ("^", 0, 100),
    "every": ("&&", 1, 0),
    "any": ("||", 0, 1),
    "least": ("min", 1001, 0),
    "most": ("max", -1, 999),
}
INT_STEPS = {
    "sum": (100, "mine.sum += (int)i + 1;"),
    "product": (100, "mine.product *= (int)i + 1;"),
    "all_bits": (100, "mine.all_bits &= (int)i + 1;"),
    "some_bits": (100, "mine.some_bits |= (int)i + 1;"),
    "odd_bits": (100, "mine.odd_bits ^= (int)i + 1;"),
    "every": (1000, "mine.every = mine.every && 5 > i;"),
    "any": (1000, "mine.any = mine.any || 5 > i;"),
    "least": (1000, "mine.least = min(mine.least, (int)i);"),
    "most": (1000, "mine.most = max(mine.most, (int)i);"),
}


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_reduction_1_all_operators_on_int(context, queue, level):
    loop = portbar.ReductionLoop("all", {name: portbar.Reduction(np.int32, op) for name, (op, _, _) in INTS.items()})
    groups = GANGS if level.startswith("gang") else 1
    local = 8 if level == "vector" else LOCAL  # several sub-groups would each give the receiver its result
    got = results_of(
        context,
        queue,
        macro_source(level, "int", INT_STEPS),
        [loop],
        "k",
        groups * local,
        local,
        *(np.array([start], np.int32) for _, start, _ in INTS.values()),
    )
    assert {name: int(value[0]) for name, value in zip(INTS, got, strict=True)} == {
        name: result for name, (_, _, result) in INTS.items()
    }


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("dtype", "kind"), [(np.float32, "float"), (np.float64, "double")])
def test_reduction_2_and_3_floats_are_exact(context, queue, level, dtype, kind):
    if kind not in {scalar.c for scalar in scalars(context, "add")}:
        pytest.skip(f"the device has no {kind}")
    fields = {"sum": ("+", 0, 55), "product": ("*", 1, 3628800), "least": ("min", 1001, 0), "most": ("max", -1, 999)}
    steps = {
        "sum": (10, f"mine.sum += ({kind})(i + 1u);"),
        "product": (10, f"mine.product *= ({kind})(i + 1u);"),
        "least": (1000, f"mine.least = fmin(mine.least, ({kind})i);"),
        "most": (1000, f"mine.most = fmax(mine.most, ({kind})i);"),
    }
    loop = portbar.ReductionLoop("all", {name: portbar.Reduction(dtype, op) for name, (op, _, _) in fields.items()})
    groups = GANGS if level.startswith("gang") else 1
    local = 8 if level == "vector" else LOCAL
    starts = [np.array([start], dtype) for _, start, _ in fields.values()]
    source = macro_source(level, kind, steps)
    got = results_of(context, queue, source, [loop], "k", groups * local, local, *starts)
    assert [value[0] for value in got] == [result for _, _, result in fields.values()]


NESTED = """
#define PORTBAR_REDUCTION_LOCAL_SIZE 128
#include "portbar/reduction.h"

/* gwv_np_4: a sum and a maximum, two inner loops over the same variables, forwards and back. */
kernel void gwv_np_4(PORTBAR_REDUCTION_PARAM, global const float *arr, global float *sum, global float *peak)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const pair_results results = { sum, peak }, none = { 0, 0 };
    pair_local outer = pair_identity();
    outer = pair_init_gang(scratch, results, pair_setup_gang(scratch, results, outer));
    for (uint j = portbar_loop_id_gang(); j < 32u; j += portbar_loop_count_gang()) {
        pair_local inner = pair_init_worker_vector(scratch, none, pair_setup_worker_vector(scratch, none, outer));
        for (uint i = portbar_loop_id_worker_vector(); i < 1024u; i += portbar_loop_count_worker_vector()) {
            inner.sum += arr[j * 1024u + i];
            inner.peak = fmax(inner.peak, arr[j * 1024u + i]);
        }
        outer = pair_teardown_worker_vector(scratch, none, pair_fini_worker_vector(scratch, none, inner));
        inner = pair_init_worker_vector(scratch, none, outer);
        for (int i = 1023 - (int)portbar_loop_id_worker_vector(); i >= 0; i -= (int)portbar_loop_count_worker_vector()) {
            inner.sum += arr[j * 1024u + i];
            inner.peak = fmax(inner.peak, arr[j * 1024u + i]);
        }
        outer = pair_fini_worker_vector(scratch, none, inner);
    }
    pair_teardown_gang(scratch, results, pair_fini_gang(scratch, results, outer));
}
/* gwv_np_2: an inner result feeds the outer reduction of the same variable. */
kernel void gwv_np_2(PORTBAR_REDUCTION_PARAM, global int *total)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const sum_results results = { total }, none = { 0 };
    sum_local mine = sum_identity();
    mine = sum_init_gang(scratch, results, sum_setup_gang(scratch, results, mine));
    for (uint j = portbar_loop_id_gang(); j < 32u; j += portbar_loop_count_gang()) {
        mine = sum_init_worker_vector(scratch, none, mine);
        for (uint i = portbar_loop_id_worker_vector(); i < 1024u; i += portbar_loop_count_worker_vector())
            mine.v += (int)(j * 1024u + i);
        mine = sum_fini_worker_vector(scratch, none, mine);
    }
    sum_teardown_gang(scratch, results, sum_fini_gang(scratch, results, mine));
}
/* v_p_1, w_p_1, wv_p_1: an inner private result, stored by each gang. */
#define PRIVATE(level) <%BS%>
    kernel void private_##level(global int *out) <%BS%>
    { <%BS%>
        PORTBAR_REDUCTION_SCRATCH(scratch); <%BS%>
        const sum_results none = { 0 }; <%BS%>
        for (uint j = (uint)get_group_id(0); j < 32u; j += (uint)get_num_groups(0)) { <%BS%>
            sum_local mine = { 0 }; <%BS%>
            mine = sum_init_##level(scratch, none, mine); <%BS%>
            for (uint i = portbar_loop_id_##level(); i < 32u; i += portbar_loop_count_##level()) <%BS%>
                mine.v += (int)(j * 32u + i); <%BS%>
            mine = sum_fini_##level(scratch, none, mine); <%BS%>
            if (get_local_id(0) == get_local_size(0) - 1u) <%BS%>
                out[j] = mine.v; <%BS%>
        } <%BS%>
    }
PRIVATE(vector)
PRIVATE(worker)
PRIVATE(worker_vector)
/* wv_p_2: first the workers, then the lanes of each, backwards, on one variable. */
kernel void wv_p_2(global int *out)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const sum_results none = { 0 };
    for (uint j = (uint)get_group_id(0); j < 32u; j += (uint)get_num_groups(0)) {
        sum_local mine = { (int)j };
        mine = sum_init_worker(scratch, none, mine);
        for (uint i = portbar_loop_id_worker(); i < 1024u; i += portbar_loop_count_worker())
            mine.v += (int)(j * 1024u + i);
        mine = sum_fini_worker(scratch, none, mine);
        mine = sum_init_vector(scratch, none, mine);
        for (int i = 1023 - (int)portbar_loop_id_vector(); i >= 0; i -= (int)portbar_loop_count_vector())
            mine.v += (int)(j * 1024u) + i;
        mine = sum_fini_vector(scratch, none, mine);
        if (get_local_id(0) == get_local_size(0) - 1u)
            out[j] = mine.v;
    }
}
/* par-reduction-1, parallel-reduction: once a gang, outside of any loop. */
kernel void once_a_gang(PORTBAR_REDUCTION_PARAM, global int *total)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const sum_results results = { total };
    sum_local mine = sum_init_gang(scratch, results, sum_identity());
    mine.v += 5;
    sum_fini_gang(scratch, results, mine);
}
kernel void product_a_gang(PORTBAR_REDUCTION_PARAM, global int *total)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const product_results results = { total };
    product_local mine = product_init_gang(scratch, results, product_identity());
    mine.v *= 5;
    product_fini_gang(scratch, results, mine);
}
/* parallel-dims: ids of three nested levels, least and greatest, six reductions on one nest. */
kernel void parallel_dims(PORTBAR_REDUCTION_PARAM, global int *g0, global int *g1, global int *w0, global int *w1,
                          global int *v0, global int *v1)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const dims_results results = { g0, g1, w0, w1, v0, v1 };
    dims_local mine = dims_init_gang_worker_vector(scratch, results, dims_identity());
    const int g = (int)portbar_gang_id(), w = (int)portbar_sub_group_id(), v = (int)portbar_sub_group_local_id();
    mine.g0 = min(mine.g0, g);
    mine.g1 = max(mine.g1, g);
    mine.w0 = min(mine.w0, w);
    mine.w1 = max(mine.w1, w);
    mine.v0 = min(mine.v0, v);
    mine.v1 = max(mine.v1, v);
    dims_fini_gang_worker_vector(scratch, results, mine);
}
/* nvptx-sese-1: a second reduction where a condition that is the same for the gang says so. */
kernel void sese(global int *out, int n)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    sum_local mine = { 0 };
    for (int i = (int)get_local_id(0); i < n; i += (int)get_local_size(0))
        mine.v += i;
    mine = sum_reduce_worker_vector(scratch, mine);
    sum_local more = { 0 };
    for (int i = (int)get_local_id(0); i < (mine.v & 1 ? n : 0); i += (int)get_local_size(0))
        more.v += i;
    out[get_local_id(0)] = mine.v + sum_reduce_worker_vector(scratch, more).v;
}
""".replace("<%BS%>", "\\")

NEST_LOOPS = [
    portbar.ReductionLoop(
        "pair", {"sum": portbar.Reduction(np.float32, "+"), "peak": portbar.Reduction(np.float32, "max")}
    ),
    one("sum", np.int32, "+"),
    one("product", np.int32, "*"),
    portbar.ReductionLoop(
        "dims", {f"{what}{end}": portbar.Reduction(np.int32, ("min", "max")[end]) for what in "gwv" for end in (0, 1)}
    ),
]


def nested(context, queue, kernel, groups, local, *args):
    return results_of(context, queue, NESTED, NEST_LOOPS, kernel, groups * local, local, *args)


@pytest.mark.device
@pytest.mark.slow
def test_reduction_7_gwv_np_2_an_inner_result_feeds_an_outer_reduction(context, queue):
    local = 16 if scale(context.devices[0]).is_simulator else 64
    (total,) = nested(context, queue, "gwv_np_2", 32, local, np.zeros(1, np.int32))
    assert total[0] == 536854528


@pytest.mark.device
@pytest.mark.slow
def test_reduction_7_gwv_np_4_two_inner_loops_on_a_sum_and_a_maximum(context, queue):
    local = 16 if scale(context.devices[0]).is_simulator else 64
    arr = (np.arange(32 * 1024) % 512).astype(np.float32)
    start = [np.zeros(1, np.float32), np.zeros(1, np.float32)]
    _, total, peak = nested(context, queue, "gwv_np_4", 32, local, arr, *start)
    assert (total[0], peak[0]) == (16744448, 511)


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("level", ["vector", "worker", "worker_vector"])
def test_reduction_7_private_results_within_a_gang_loop(context, queue, level):
    (out,) = nested(context, queue, f"private_{level}", 32, 24, np.zeros(32, np.int32))
    assert out.tolist() == [1024 * j + 496 for j in range(32)]


@pytest.mark.device
@pytest.mark.slow
def test_reduction_7_wv_p_2_workers_and_then_lanes_on_one_variable(context, queue):
    (out,) = nested(context, queue, "wv_p_2", 32, 40, np.zeros(32, np.int32))
    assert out.tolist() == [j + 2 * (1048576 * j + 523776) for j in range(32)]
    assert (out[0], out[1], out[31]) == (1047552, 3144705, 66059295)


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "groups", "start", "result"), [("once_a_gang", 256, 0, 1280), ("product_a_gang", 8, 1, 390625)]
)
def test_par_reduction_1_counts_once_a_gang(context, queue, kernel, groups, start, result):
    (total,) = nested(context, queue, kernel, groups, 4, np.array([start], np.int32))
    assert total[0] == result


@pytest.mark.device
@pytest.mark.slow
def test_parallel_dims_six_reductions_on_one_nest(context, queue):
    start = [np.array([(2**31 - 1, -(2**31))[end]], np.int32) for _ in "gwv" for end in (0, 1)]
    g0, g1, w0, w1, v0, v1 = (int(value[0]) for value in nested(context, queue, "parallel_dims", 45, 96, *start))
    assert (g0, g1, w0, v0) == (0, 44, 0, 0)
    assert (w1 + 1) * (v1 + 1) == 96


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize(("n", "result"), [(40, 780), (42, 1722), (43, 1806)])
def test_nvptx_sese_1_a_second_reduction_under_a_uniform_condition(context, queue, n, result):
    out, *_ = nested(context, queue, "sese", 1, 32, np.zeros(32, np.int32), np.int32(n))
    assert out.tolist() == [result] * 32


SHARED = """
#define PORTBAR_REDUCTION_LOCAL_SIZE 128
#include "portbar/reduction.h"
#define KERNEL(level) <%BS%>
    kernel void of_##level(PORTBAR_REDUCTION_PARAM, global float *sum, global float *product, global float2 *zsum, <%BS%>
                           global float2 *zproduct) <%BS%>
    { <%BS%>
        PORTBAR_REDUCTION_SCRATCH(scratch); <%BS%>
        const both_results results = { sum, product, zsum, zproduct }; <%BS%>
        both_local mine = both_identity(); <%BS%>
        mine = both_init_##level(scratch, results, both_setup_##level(scratch, results, mine)); <%BS%>
        for (uint i = portbar_loop_id_##level(); i < 100u; i += portbar_loop_count_##level()) { <%BS%>
            const float f = 1.0f + i / 1024.0f; <%BS%>
            mine.sum += f; <%BS%>
            mine.product *= f; <%BS%>
            const float2 y = (float2)(f, 2.0f * f - 1.0f), p = mine.zproduct; <%BS%>
            mine.zsum += y; <%BS%>
            mine.zproduct = (float2)(p.x * y.x - p.y * y.y, p.x * y.y + p.y * y.x); <%BS%>
        } <%BS%>
        mine = both_fini_##level(scratch, results, mine); <%BS%>
        both_teardown_##level(scratch, results, mine); <%BS%>
    }
KERNEL(vector)
KERNEL(worker)
KERNEL(gang)
KERNEL(gang_worker_vector)
""".replace("<%BS%>", "\\")


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("level", ["vector", "worker", "gang", "gang_worker_vector"])
def test_reduction_flt_and_cplx_flt_sum_and_product_share_a_loop(context, queue, level):
    loop = portbar.ReductionLoop(
        "both",
        {
            "sum": portbar.Reduction(np.float32, "+"),
            "product": portbar.Reduction(np.float32, "*"),
            "zsum": portbar.Reduction(np.complex64, "+"),
            "zproduct": portbar.Reduction(np.complex64, "*"),
        },
    )
    gang = level.startswith("gang")
    start = [np.zeros(1, np.float32), np.ones(1, np.float32), np.zeros(1, np.complex64), np.ones(1, np.complex64)]
    local = 8 if level == "vector" else 32
    got = results_of(context, queue, SHARED, [loop], f"of_{level}", (32 if gang else 1) * local, local, *start)
    total, product, ztotal, zproduct = (value[0] for value in got)
    f = 1 + np.arange(100) / 1024
    assert total == 104.833984375
    assert product == pytest.approx(108.26748557978472, rel=2**-20)
    assert ztotal == 104.833984375 + 109.66796875j
    # The file's z is f + i(2f - 1), whose product it gives in double precision.
    exact = np.prod(f + 1j * (2 * f - 1))
    assert exact == pytest.approx(6.983172870612445e17 - 9.504349202243848e17j, rel=1e-12)
    assert abs(zproduct - exact) / abs(exact) < 2**-18
