"""Values and results of GCC's public OpenACC reduction tests (libgomp.oacc-c-c++-common), done with portbar's levels.

Only what is computed and what comes out is GCC's; each case names the file whose result it must reproduce. Here are the files
with one loop; `test_reduction_catalogue_nests.py` has nested loops and whole programs, `test_reduction_types.py` the sections
of arrays.

What cannot apply to OpenCL C: Fortran's subroutines, optional, by-reference and allocatable arguments, its internal procedures
and associate names (the values of those tests are here, without the calls); C's arrays of variable length; __int128, which
OpenCL C has not; and clauses that ask a compiler to find the reduction (kernels, auto), since here the author names the level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from portbar.primitives.reduction.loops import LEVELS
from portbar.primitives.reduction.types import type_of
from tests.reduction.support import USUAL, Case

pytestmark = [pytest.mark.device, pytest.mark.slow]

SINGLE = USUAL[:3]


#: What `x` does to a variable by each operator.
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
#: In GCC's own file the product stands under #if 0: products of doubles depend on the order.
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
