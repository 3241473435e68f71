"""Values and results of GCC's public OpenACC reduction tests (libgomp.oacc-c-c++-common), done with portbar's levels.

Only the computations and their results are GCC's; each case names the file whose result it must reproduce. The sections of
arrays are in `test_reduction_types.py`. Of the files with nested loops those are left out whose nests another one has with
other values, or whose reductions are plain loops (deep-copy-4.c, nested-function-2.f90).

Not applicable to OpenCL C: Fortran's subroutines, optional, by-reference and allocatable arguments, its internal procedures
and associate names (the values of those tests are here, without the calls); C's arrays of variable length; __int128, which
OpenCL C lacks; and clauses that ask a compiler to find the reduction (kernels, auto), since here the author names the level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import portbar
from portbar.primitives.reduction.loops import LEVELS
from portbar.primitives.reduction.types import type_of
from tests.reduction.support import USUAL, Case, head, launched, need, program
from tests.support import scale

pytestmark = [pytest.mark.device, pytest.mark.slow]

SINGLE = USUAL[:3]


#: The statement that applies each operator to a variable.
STEPS = {
    "+": "{0} += {1};",
    "*": "{0} *= {1};",
    "min": "{0} = {0} < {1} ? {0} : {1};",
    "max": "{0} = {0} > {1} ? {0} : {1};",
    "&": "{0} &= {1};",
    "|": "{0} |= {1};",
    "^": "{0} ^= {1};",
    "&&": "{0} = {0} && 5 > {1};",
    "||": "{0} = {0} || 5 > {1};",
}


def step(op: str, kind: str, what: str, x: str = "i + 1u") -> str:
    """Return a statement that combines `x` into a variable."""
    return STEPS[op].format(what, f"({kind})({x})")


def macros(dtype: Any, kind: str, few: int, results: Mapping[str, tuple[str, Any, Any]]) -> Case:
    """As reduction.h: sums, products and bits of 1 to `few`, other operators on 0 to 999, each from its own start value."""
    late = {"min", "max", "&&", "||"}
    body = " ".join(
        step(op, kind, f"mine.{name}", "i") if op in late else f"if (i < {few}u) {step(op, kind, f'mine.{name}')}"
        for name, (op, _, _) in results.items()
    )
    return Case(1000, body, {name: (dtype, *rest) for name, rest in results.items()}, LEVELS)


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
FLOATS = {"sum": ("+", 0, 55), "product": ("*", 1, 3628800), "least": ("min", 1001, 0), "most": ("max", -1, 999)}


def shared(real: Any, kind: str, exact: float, levels: tuple[str, ...]) -> Case:
    """Return a sum and a product of real numbers and of complex ones, in one loop."""
    pair = np.result_type(real, np.complex64)
    body = f"""const {kind} f = 1 + i / ({kind})1024;
        mine.sum += f;
        mine.product *= f;
        const {kind}2 y = ({kind}2)(f, 2 * f - 1), p = mine.zproduct;
        mine.zsum += y;
        mine.zproduct = ({kind}2)(p.x * y.x - p.y * y.y, p.x * y.y + p.y * y.x);"""
    product, zproduct = 108.26748557978472, 6.983172870612445e17 - 9.504349202243848e17j
    fields = {
        "sum": (real, "+", 0, 104.833984375),
        "product": (real, "*", 1, pytest.approx(product, rel=exact)),
        "zsum": (pair, "+", 0, 104.833984375 + 109.66796875j),
        "zproduct": (pair, "*", 1, pytest.approx(zproduct, rel=4 * exact)),
    }
    return Case(100, body, fields, levels, local=32)


def arrays(dtype: Any, kind: str, results: Mapping[str, tuple[str, Any, Any]], levels: tuple[str, ...]) -> Case:
    """Return a reduction of every element of arrays."""
    steps = " ".join(step(op, kind, f"mine.{name}[k]") for name, (op, _, _) in results.items())
    fields = {name: (dtype, *rest) for name, rest in results.items()}
    return Case(100, f"for (int k = 0; k < 10; ++k) {{ {steps} }}", fields, levels, local=32, shape=10)


#: reduction-arrays-1.c: least and greatest of 1 to 100; a product of 100! is 0 in 32 bits.
INT_ARRAYS = INTS | {"least": ("min", 101, 1), "most": ("max", -100, 100)}
#: In GCC's own file the product is under #if 0: products of doubles depend on the order.
FLOAT_ARRAYS = {"sum": ("+", 0, 5050), "least": ("min", 101, 1), "most": ("max", -100, 100)}
FACTORIAL = pytest.approx(float(math.factorial(100)), rel=1e-13)

#: reduction-1.f90: iand, ior, ieor, .and., .or., .eqv. and .neqv. over 1 to 10; a logical value says whether it is 5 or more.
FORTRAN = {
    "least": ("min", 0, 0, "min({0}, x)"),
    "all_bits": ("&", 1, 0, "{0} & x"),
    "some_bits": ("|", 0, 15, "{0} | x"),
    "odd_bits": ("^", 0, 11, "{0} ^ x"),
    "every": (".eqv.", 1, 1, "({0} != 0) == (x >= 5)"),
    "other": (".neqv.", 1, 1, "({0} != 0) != (x >= 5)"),
    "both": ("&&", 1, 0, "{0} && x >= 5"),
    "either": ("||", 1, 1, "{0} || x >= 5"),
}
FORTRAN_BODY = "const int x = (int)i + 1; " + " ".join(
    f"mine.{name} = {step.format(f'mine.{name}')};" for name, (_, _, _, step) in FORTRAN.items()
)


def added(n: int, value: str, result: Any, levels: tuple[str, ...], start: Any = 0, dtype: Any = np.int32) -> Case:
    """Return one sum."""
    kind = type_of(dtype, "").c
    return Case(n, f"mine.v += ({kind})({value});", {"v": (dtype, "+", start, result)}, levels, local=32)


def either(dtype: Any) -> Case:
    """Return a logical or and a logical and of whether `i` is odd."""
    body = "mine.some = mine.some || (i & 1u); mine.every = mine.every && (i & 1u);"
    return Case(512, body, {"some": (dtype, "||", 0, 1), "every": (dtype, "&&", 1, 0)}, ("gang_worker_vector",))


S14 = np.dtype([("i", np.int32), ("r", np.float32)], align=True)
P14 = np.dtype([("r", np.float32), ("i", np.int32), ("d", np.float64)], align=True)
P14_RESULT = (pytest.approx(2.5937424, abs=1e-3), 1024, pytest.approx(13.785849, abs=1e-3))
I32, F64 = np.int32, np.float64

CASES = {
    "reduction_1": macros(I32, "int", 100, INTS),
    "reduction_2": macros(np.float32, "float", 10, FLOATS),
    "reduction_3": macros(F64, "double", 10, FLOATS),
    "reduction_4_real_parts": Case(
        10,
        "const double2 z = (double2)(i + 1u, 0.5); mine.sum += z.x; mine.product *= z.x;",
        {"sum": (F64, "+", 0, 55), "product": (F64, "*", 1, 3628800)},
    ),
    "reduction_5_two_in_one_clause": Case(
        100, "mine.s1 += 3; mine.s2 += 5;", {"s1": (I32, "+", 2, 302), "s2": (I32, "+", 5, 505)}
    ),
    "reduction_initial_1": added(32, "8", 261, ("vector", "worker_vector"), start=5),
    "reduction_flt_and_cplx_flt": shared(np.float32, "float", 2**-20, USUAL),
    "reduction_dbl_and_cplx_dbl": shared(F64, "double", 2**-49, SINGLE),
    "reduction_cplx_flt_2_powers_of_one_and_i": Case(
        32,
        "const float2 p = mine.z; mine.z = (float2)(p.x - p.y, p.x + p.y);",
        {"z": (np.complex64, "*", 1, 65536)},
        ("vector", "worker_vector", "gang"),
    ),
    "reduction_arrays_1_int": arrays(I32, "int", INT_ARRAYS, LEVELS),
    "reduction_arrays_1_float": arrays(np.float32, "float", FLOAT_ARRAYS | {"product": ("*", 1, math.inf)}, SINGLE),
    "reduction_arrays_1_double": arrays(F64, "double", FLOAT_ARRAYS | {"product": ("*", 1, FACTORIAL)}, SINGLE),
    "reduction_1_f90": Case(10, FORTRAN_BODY, {name: (I32, *rest[:3]) for name, rest in FORTRAN.items()}, local=32),
    "reduction_14_f90_sums": Case(
        10, "mine.s.i += 1; mine.s.r += 2.0f;", {"s": (S14, "+", 0, (10, 20.0))}, ("gang", "vector", USUAL[3])
    ),
    "reduction_14_f90_products": Case(
        10,
        "mine.s.r *= 1.1f; mine.s.i *= 2; mine.s.d *= 1.3;",
        {"s": (P14, "*", 1, P14_RESULT)},
        ("gang", "vector", USUAL[3]),
    ),
    "openmp_reduction_16_char": either(np.int8),
    "openmp_reduction_16_short": either(np.int16),
    "openmp_reduction_16_int": either(I32),
    "openmp_reduction_16_long": either(np.int64),
    "reference_reductions_10": added(10, "1", 1010, ("gang",), 1000, np.int64),
    "reference_reductions_100": added(100, "1", 1010, ("vector",), 910, np.int64),
    "kernels_decompose_1_factorial": Case(
        20,
        "mine.v *= i + 1ul;",
        {"v": (np.uint64, "*", 1, math.factorial(20))},
        ("worker_vector", "gang_vector"),
    ),
    "reduction_7_np_1": added(1024, "i", 523776, ("gang", "gang_vector", "gang_worker", "gang_worker_vector")),
    "reduction_7_g_np_1_product_with_a_zero": Case(12, "mine.v *= (int)i;", {"v": (I32, "*", 1, 0)}, ("gang",)),
    # The fourth of these files has the values of reduction-7.c's gwv_np_4, which the nests have.
    "par_loop_comb_reduction_3": added(32768 * 2, "i % 512u", 16744448, (USUAL[3],), 0, np.float32),
    "combined_reduction_and_kernels_reduction_1": added(100, "1", 100, (USUAL[3],)),
    "kernels_reduction": added(10000, "i % 2u", 5001, ("gang_vector",), start=1),
    # Two loops of two as one, as in kernels-acc-loop-reduction-2.f90.
    "collapse_4": added(4, "1", 4, ("worker_vector",)),
    "pr95270_2": added(128, "2u * i + 1u", 16384, ("gang",)),
    "reduction_5_f90": added(40, "10", 400, ("worker",)),
    "reduction_6_f90_loops_of_ten_in_each_other": added(1000, "1", 1000, ("gang_worker",)),
    "collapse_1_and_3_no_index_is_wrong": Case(
        24,
        "const int x = (int)i / 12, y = (int)i / 3 % 4, z = (int)i % 3; mine.v |= (x * 4 + y) * 3 + z != (int)i;",
        {"v": (I32, "|", 0, 0)},
        (USUAL[3],),
    ),
    "vector_length_128_10_two_types": Case(
        1024,
        "mine.u += (i % 3u + i % 5u) % 2u; mine.l += (i % 3u + i % 5u) % 2u;",
        {"u": (np.uint32, "+", 1, 478), "l": (np.uint64, "+", 1, 478)},
        ("gang_vector",),
        more="#define PORTBAR_SUB_GROUP_SIZE 128\n",
    ),
}


@pytest.mark.parametrize(
    ("name", "level"),
    [pytest.param(name, level, id=f"{name}-{level}") for name, case in CASES.items() for level in case.levels],
)
def test_a_loop_has_the_result_of_gcc_s_file(context, queue, name, level):
    CASES[name].check(context, queue, level)


# Nested loops, work shared among all levels, and whole programs.


def one(name, dtype, op, **more):
    """Return a loop with the one reduction `v`."""
    return portbar.ReductionLoop(name, {"v": portbar.Reduction(dtype, op)}, **more)


def several(name, op_of, dtype=np.int32):
    """Return a loop with several reductions."""
    return portbar.ReductionLoop(name, {field: portbar.Reduction(dtype, op) for field, op in op_of.items()})


def number(value=0, dtype=np.int32):
    return np.array([value], dtype)


LOOPS = [
    one("sum", np.int32, "+"),
    one("product", np.int32, "*"),
    one("odd", np.int32, "^"),
    several("pair", {"sum": "+", "peak": "max"}, np.float32),
    several("dims", {f"{what}{end}": ("min", "max")[end] for what in "gwv" for end in (0, 1)}),
]

#: `FOR` deals a loop's turns to a level, `REDUCED` reduces `mine` over them; `DECLARED` declares what most kernels need.
MACROS = """
#define FOR(level, i, n) for (uint i = portbar_loop_id_##level(); i < (n); i += portbar_loop_count_##level())
#define REDUCED(loop, level, held, n, statement) \\
    mine = loop##_init_##level(scratch, held, mine); \\
    FOR(level, i, n) { statement; } \\
    mine = loop##_fini_##level(scratch, held, mine);
#define DECLARED(loop) PORTBAR_REDUCTION_SCRATCH(scratch); const loop##_results results = { total }, none = { 0 }; \\
    loop##_local mine = loop##_identity();
#define SUM DECLARED(sum)
#define LAST_ITEM (get_local_id(0) == get_local_size(0) - 1u)
#define EACH_GROUP(j, n) for (uint j = (uint)get_group_id(0); j < (n); j += (uint)get_num_groups(0))
"""


def of_gangs(name, body, loop="sum", kind="int", parameters=""):
    """Return a kernel in which each gang adds what the body does to one receiver."""
    return f"""
kernel void {name}(PORTBAR_REDUCTION_PARAM, {parameters}global {kind} *total)
{{
    DECLARED({loop})
    mine = {loop}_init_gang(scratch, results, {loop}_setup_gang(scratch, results, mine));
    {body}
    {loop}_teardown_gang(scratch, results, {loop}_fini_gang(scratch, results, mine));
}}
"""


def of_each(name, count, start, body):
    """Return a kernel in which gangs share `j` below `count`, and store what the body makes of a private start value."""
    return f"""
kernel void {name}(global int *total)
{{
    SUM
    EACH_GROUP(j, {count}u) {{
        mine.v = {start};
        {body}
        if (LAST_ITEM)
            total[j] = mine.v;
    }}
}}
"""


#: Workers, and then lanes backwards, on one variable.
FORTH_AND_BACK = """REDUCED(sum, worker, none, 1024u, mine.v += (int)(j * 1024u + i))
        REDUCED(sum, vector, none, 1024u, mine.v += (int)(j * 1024u + 1023u - i))"""
FED = "FOR(gang, j, 32u) { REDUCED(sum, worker_vector, none, 1024u, mine.v += j * 1024u + i) }"
GENERATED = [
    # An inner result feeds the outer reduction of the same variable.
    of_gangs("reduction_7_gwv_np_2", FED),
    # An inner private result, stored by each gang.
    *(
        of_each(f"reduction_7_{name}_p_1", 32, 0, f"REDUCED(sum, {level}, none, 32u, mine.v += (int)(j * 32u + i))")
        for name, level in (("v", "vector"), ("w", "worker"), ("wv", "worker_vector"))
    ),
    of_each("reduction_7_wv_p_2", 32, "(int)j", FORTH_AND_BACK),
    # Once a gang, outside of any loop.
    of_gangs("par_reduction_1_sum", "mine.v += 5;"),
    of_gangs("par_reduction_1_product", "mine.v *= 5;", "product"),
    # The variable's old value is overwritten within the region, and the start value is added once.
    of_gangs("gang_reduction_var_assignment", "mine.v = 23;"),
    # A variable that never changes.
    of_gangs("pr70289_and_pr70373", ""),
    # A private variable in a gang loop, counted up by lanes.
    of_each("reduction_6_and_7_f90", 10, "(int)j", "REDUCED(sum, vector, none, 100u, mine.v++)"),
    # Within a gang loop that is itself reduced.
    of_gangs("par_loop_comb_reduction_1", f"FOR(gang, j, 32u) {{ {FORTH_AND_BACK} }}"),
    # Exclusive or of 3i and then of i, work-groups as a whole, twice.
    of_gangs(
        "par_loop_comb_reduction_2",
        """FOR(gang, j, 32u)
        for (int factor = 3; factor >= 1; factor -= 2) {
            REDUCED(odd, worker_vector, none, 1024u, mine.v ^= factor * (int)(j * 1024u + i))
        }""",
        "odd",
    ),
]
NESTS = (
    head(128)
    + MACROS
    + "".join(GENERATED)
    + """
/* A sum and a maximum, two inner loops over the same variables, forwards and back. */
kernel void reduction_7_gwv_np_4(PORTBAR_REDUCTION_PARAM, global const float *arr, global float *sum, global float *peak)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const pair_results results = { sum, peak }, none = { 0, 0 };
    pair_local mine = pair_init_gang(scratch, results, pair_setup_gang(scratch, results, pair_identity()));
    FOR(gang, j, 32u) {
        mine = pair_setup_worker_vector(scratch, none, mine);
        REDUCED(pair, worker_vector, none, 1024u, mine.sum += arr[j * 1024u + i];
                mine.peak = fmax(mine.peak, arr[j * 1024u + i]))
        mine = pair_teardown_worker_vector(scratch, none, mine);
        REDUCED(pair, worker_vector, none, 1024u, mine.sum += arr[j * 1024u + 1023u - i];
                mine.peak = fmax(mine.peak, arr[j * 1024u + 1023u - i]))
    }
    pair_teardown_gang(scratch, results, pair_fini_gang(scratch, results, mine));
}
/* A second reduction where a condition that is the same for the gang says so. */
kernel void nvptx_sese_1(global int *total, int n)
{
    SUM
    for (int i = (int)get_local_id(0); i < n; i += (int)get_local_size(0))
        mine.v += i;
    mine = sum_reduce_worker_vector(scratch, mine);
    sum_local more = { 0 };
    for (int i = (int)get_local_id(0); i < (mine.v & 1 ? n : 0); i += (int)get_local_size(0))
        more.v += i;
    total[get_local_id(0)] = mine.v + sum_reduce_worker_vector(scratch, more).v;
}
/* Least and greatest ids of three nested levels, six reductions on one nest. */
kernel void parallel_dims(PORTBAR_REDUCTION_PARAM, global int *g0, global int *g1, global int *w0, global int *w1,
                          global int *v0, global int *v1)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const dims_results results = { g0, g1, w0, w1, v0, v1 };
    dims_local mine = dims_init_gang_worker_vector(scratch, results, dims_identity());
    const int g = (int)portbar_gang_id(), w = (int)portbar_sub_group_id(), v = (int)portbar_sub_group_local_id();
    mine.g0 = min(mine.g0, g); mine.w0 = min(mine.w0, w); mine.v0 = min(mine.v0, v);
    mine.g1 = max(mine.g1, g); mine.w1 = max(mine.w1, w); mine.v1 = max(mine.v1, v);
    dims_fini_gang_worker_vector(scratch, results, mine);
}
"""
)

ALL = np.arange(32768)
MANY, FLOAT = np.zeros(32, np.int32), number(0, np.float32)
BITS = np.bitwise_xor.reduce(3 * ALL) ^ np.bitwise_xor.reduce(ALL)

#: Kernel, work-groups, local size, arguments, and what arrays hold afterwards.
LAUNCHES = [
    ("reduction_7_gwv_np_4", 32, 64, [(ALL % 512).astype(np.float32), FLOAT, FLOAT], [None, [16744448], [511]]),
    ("reduction_7_gwv_np_2", 32, 64, [number()], [[536854528]]),
    *((f"reduction_7_{v}_p_1", 32, 24, [MANY], [[1024 * j + 496 for j in range(32)]]) for v in ("v", "w", "wv")),
    ("reduction_7_wv_p_2", 32, 40, [MANY], [[j + 2 * (1048576 * j + 523776) for j in range(32)]]),
    ("par_reduction_1_sum", 256, 4, [number()], [[1280]]),
    ("par_reduction_1_product", 8, 4, [number(1)], [[390625]]),
    ("gang_reduction_var_assignment", 1, 1, [number(123)], [[146]]),
    *(("pr70289_and_pr70373", 6, 5, [number(start)], [[start]]) for start in (0, 42)),
    ("reduction_6_and_7_f90", 10, 8, [np.zeros(10, np.int32)], [[j + 100 for j in range(10)]]),
    ("par_loop_comb_reduction_1", 32, 32, [number()], [[1073709056]]),
    ("par_loop_comb_reduction_2", 32, 32, [number()], [[BITS]]),
    *(("nvptx_sese_1", 1, 32, [MANY, np.int32(n)], [[r] * 32]) for n, r in ((40, 780), (42, 1722), (43, 1806))),
]


@pytest.mark.parametrize(
    ("name", "groups", "local", "start", "results"), [pytest.param(*one, id=one[0]) for one in LAUNCHES]
)
def test_a_nest_has_the_result_of_gcc_s_file(context, queue, name, groups, local, start, results):
    if name == "par_loop_comb_reduction_1" and scale(context.devices[0]).is_cut_short:
        local = 8
    _, got = launched(queue, program(context, NESTS, loops=LOOPS).kernel(name), groups, local, *start)
    for found, result in zip(got, results, strict=True):
        assert result is None or found.tolist() == result


def test_parallel_dims_six_reductions_on_one_nest(context, queue):
    start = [number((2**31 - 1, -(2**31))[end]) for _ in "gwv" for end in (0, 1)]
    _, got = launched(queue, program(context, NESTS, loops=LOOPS).kernel("parallel_dims"), 45, 96, *start)
    g0, g1, w0, w1, v0, v1 = (int(value[0]) for value in got)
    assert (g0, g1, w0, v0) == (0, 44, 0, 0)
    assert (w1 + 1) * (v1 + 1) == 96


def test_reduction_7_gwv_np_3_of_double(context, queue):
    need(context, "double")
    source = head(64) + MACROS + of_gangs("fed", FED, kind="double")
    kernel = program(context, source, loops=[one("sum", np.float64, "+")]).kernel("fed")
    _, (total,) = launched(queue, kernel, 32, 64, np.zeros(1))
    assert total[0] == 536854528.0


#: Rows of a triangle, two sums at once, in as many turns for every sub-group.
TRIANGLES = (
    MACROS
    + """
#define ROWS(level, id, count) \\
    kernel void rows_##level(uint n, global long *a1, global long *a2) \\
    { \\
        PORTBAR_REDUCTION_SCRATCH(scratch); \\
        const rows_results none = { 0, 0 }; \\
        for (uint first = 0; first < n; first += (count)) { \\
            const uint row = first + (id); \\
            rows_local mine = rows_identity(); \\
            REDUCED(rows, level, none, row < n ? n - row : 0u, mine.t1 += 1; mine.t2 -= 1) \\
            if (row < n) { \\
                a1[row] = mine.t1; \\
                a2[row] = mine.t2; \\
            } \\
        } \\
    }
ROWS(vector, (uint)get_group_id(0) * portbar_num_sub_groups() + portbar_sub_group_id(),
     (uint)get_num_groups(0) * portbar_num_sub_groups())
ROWS(worker_vector, (uint)get_group_id(0), (uint)get_num_groups(0))
"""
)


@pytest.mark.parametrize("lanes", [128, 32])
def test_vred2d_128_rows_of_a_triangle(context, queue, lanes):
    """With gangs for rows and 128 lanes for columns, with workers among either, and with what the device has for lanes."""
    need(context, "long")
    n = 60 if scale(context.devices[0]).is_cut_short else 2500
    source = head(128, more=f"#define PORTBAR_SUB_GROUP_SIZE {lanes}\n") + TRIANGLES
    made = program(context, source, loops=[several("rows", {"t1": "+", "t2": "+"}, np.int64)])
    for level in ("vector", "worker_vector"):
        empty = np.zeros(n, np.int64), np.zeros(n, np.int64)
        _, (a1, a2) = launched(queue, made.kernel(f"rows_{level}"), 8, 128, np.uint32(n), *empty)
        np.testing.assert_array_equal(a1, n - np.arange(n), level)
        np.testing.assert_array_equal(a2, np.arange(n) - n, level)


#: 32 gangs of 32 workers of 32 lanes, and a number of iterations that no size divides.
TURNS = 32**3 + 17
DEALING = f"""
#define GANG portbar_gang_id()
#define WORKER portbar_sub_group_id()
#define LANE portbar_sub_group_local_id()
/* Gangs take a chunk of the turns each. */
#define OF_GANGS(level, chunk, start, step, value) \\
    kernel void k(PORTBAR_REDUCTION_PARAM, global int *total) \\
    {{ \\
        SUM \\
        mine = sum_init_##level(scratch, results, mine); \\
        for (uint i = GANG * chunk + start; i < min((GANG + 1u) * chunk, {TURNS}u); i += step) \\
            mine.v += (int)(value); \\
        sum_fini_##level(scratch, results, mine); \\
    }}
/* One group, whose result every work-item has, the private copy of the -2 variants. */
#define WITHIN(level, value) \\
    kernel void k(global int *total) \\
    {{ \\
        SUM \\
        REDUCED(sum, level, none, {TURNS}u, mine.v += (int)(value)) \\
        total[get_local_id(0) % 2u] = mine.v; \\
    }}
"""
TURN = np.arange(TURNS)
ALL_TURNS = TURN // 2048 << 16 | TURN // 32 % 32 << 8 | TURN % 32
#: Kernel, work-groups, local size, GCC's result, and what each turn adds.
DEALT = {
    "gang": ("OF_GANGS(gang, 1025u, 0u, 1u, GANG << 16)", 32, 1, -1071710208, TURN // 1025 << 16),
    "worker": ("WITHIN(worker, WORKER << 8)", 1, 1024, 130058240, TURN % 32 << 8),
    "vector": ("WITHIN(vector, LANE)", 1, 32, 508040, TURN % 32),
    "worker_vector": ("WITHIN(worker_vector, WORKER << 8 | LANE)", 1, 1024, 130531464, TURN // 32 % 32 << 8 | TURN % 32),
    "all": (
        "OF_GANGS(gang_worker_vector, 2048u, portbar_loop_id_worker_vector(), 1024u, GANG << 16 | WORKER << 8 | LANE)",
        32, 1024, -925384568, ALL_TURNS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("level", DEALT)
def test_loop_red_each_member_of_each_level_takes_its_turns(context, queue, level):
    text, groups, local, result, of = DEALT[level]
    if context.devices[0].max_work_group_size < local:
        pytest.skip(f"the device has no work-groups of {local}")
    if scale(context.devices[0]).is_cut_short and level in {"worker", "vector"}:
        pytest.skip("the device ends loops before they are over")
    source = head(1024, more="#define PORTBAR_SUB_GROUP_SIZE 32\n") + MACROS + DEALING + text + "\n"
    _, (total,) = launched(
        queue, program(context, source, loops=LOOPS[:1]).kernel("k"), groups, local, np.zeros(2, np.int32)
    )
    assert int(of.sum()) % 2**32 == result % 2**32
    assert set(total.tolist()) - {0} == {result}
