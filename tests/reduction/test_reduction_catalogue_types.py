"""GCC's public OpenACC reduction tests by type: complex, records, arrays and their sections, small integers, logical values.

As in `test_reduction_catalogue.py`, which says what cannot apply, each test names the file whose values it takes.
reduction-15.f90 and -16.f90 are sections as in reduction-arrays-2.c to -5.c.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import portbar
from portbar.primitives.reduction.loops import LEVELS
from tests.reduction.catalogue_support import loop_at, reduced_at, results_of, sizes_for, too_long_for_a_simulator
from tests.reduction.support import device_array, host_array, program, scalars

#: The levels that most of GCC's files name: gang, worker, vector, and one loop over all.
USUAL = ("gang", "worker", "vector", "gang_worker_vector")

pytestmark = [pytest.mark.device, pytest.mark.slow]


@pytest.fixture(autouse=True)
def _not_on_a_simulator(device):
    too_long_for_a_simulator(device)


def need(context, kind):
    if kind not in {scalar.c for scalar in scalars(context, "add")}:
        pytest.skip(f"the device has no {kind}")


@pytest.mark.parametrize("level", USUAL)
def test_reduction_4_the_real_part_of_complex_numbers(context, queue, level):
    need(context, "double")
    reductions = {"sum": portbar.Reduction(np.float64, "+"), "product": portbar.Reduction(np.float64, "*")}
    body = "const double2 z = (double2)(i + 1u, 0.5); mine.sum += z.x; mine.product *= z.x;"
    start = [np.zeros(1), np.ones(1)]
    total, product = reduced_at(context, queue, level, reductions, dict.fromkeys(reductions, "double"), 10, body, start)
    assert (total[0], product[0]) == (55, 3628800)


@pytest.mark.parametrize("level", USUAL)
def test_reduction_5_two_sums_in_one_clause(context, queue, level):
    reductions = {name: portbar.Reduction(np.int32, "+") for name in ("s1", "s2")}
    start = [np.array([2], np.int32), np.array([5], np.int32)]
    body = "mine.s1 += 3; mine.s2 += 5;"
    s1, s2 = reduced_at(context, queue, level, reductions, dict.fromkeys(reductions, "int"), 100, body, start)
    assert (s1[0], s2[0]) == (302, 505)


@pytest.mark.parametrize("level", ["vector", "worker_vector"])
def test_reduction_initial_1_the_start_value_counts_once(context, queue, level):
    reductions = {"s": portbar.Reduction(np.int32, "+")}
    (s,) = reduced_at(context, queue, level, reductions, {"s": "int"}, 32, "mine.s += 8;", [np.array([5], np.int32)])
    assert s[0] == 261


@pytest.mark.parametrize("level", ["gang", "worker", "vector"])
def test_reduction_dbl_and_cplx_dbl_sum_and_product_share_a_loop(context, queue, level):
    need(context, "double")
    reductions = {
        "sum": portbar.Reduction(np.float64, "+"),
        "product": portbar.Reduction(np.float64, "*"),
        "zsum": portbar.Reduction(np.complex128, "+"),
        "zproduct": portbar.Reduction(np.complex128, "*"),
    }
    fields = {"sum": "double", "product": "double", "zsum": "double2", "zproduct": "double2"}
    body = """const double f = 1.0 + i / 1024.0;
        mine.sum += f;
        mine.product *= f;
        const double2 y = (double2)(f, 2.0 * f - 1.0), p = mine.zproduct;
        mine.zsum += y;
        mine.zproduct = (double2)(p.x * y.x - p.y * y.y, p.x * y.y + p.y * y.x);"""
    start = [np.zeros(1), np.ones(1), np.zeros(1, np.complex128), np.ones(1, np.complex128)]
    got = reduced_at(context, queue, level, reductions, fields, 100, body, start, local=32)
    total, product, ztotal, zproduct = (value[0] for value in got)
    assert total == 104.833984375
    assert product == pytest.approx(108.26748557978472, rel=2**-48)
    assert ztotal == 104.833984375 + 109.66796875j
    exact = 6.983172870612445e17 - 9.504349202243848e17j
    assert abs(zproduct - exact) / abs(exact) < 2**-47


@pytest.mark.parametrize("level", ["vector", "worker_vector", "gang"])
def test_reduction_cplx_flt_2_powers_of_one_and_i_are_exact(context, queue, level):
    reductions = {"z": portbar.Reduction(np.complex64, "*")}
    body = "const float2 p = mine.z; mine.z = (float2)(p.x - p.y, p.x + p.y);"
    (z,) = reduced_at(context, queue, level, reductions, {"z": "float2"}, 32, body, [np.ones(1, np.complex64)])
    assert z[0] == 65536


INNER = {"p": [("x", np.int32), ("y", np.int32)], "q": [("m", np.float32), ("n", np.float32)]}
LEAVES = ("i", "d", "f", "p.x", "p.y", "q.m", "q.n")


def record(*, double):
    """Return the record of reduction-structs-1.c, with a float for its double where the device has none."""
    inner = [(name, np.dtype(members, align=True)) for name, members in INNER.items()]
    real = np.float64 if double else np.float32
    return np.dtype([("i", np.int32), ("d", real), ("f", np.float32), ("a", np.int32, (10,)), *inner], align=True)


def leaves_of(value):
    return [
        *(value[leaf].item() for leaf in ("i", "d", "f")),
        *value["a"].tolist(),
        *value["p"].tolist(),
        *value["q"].tolist(),
    ]


def filled(dtype, number):
    """Return one record all of whose leaves are a number."""
    made = np.zeros(1, dtype)
    for name in ("i", "d", "f", "a"):
        made[name] = number
    for name, members in INNER.items():
        for member, _ in members:
            made[name][member] = number
    return made


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("op", "start", "result"), [("+", 0, 55), ("*", 1, 3628800), ("min", 11, 1), ("max", -1, 10)])
def test_reduction_structs_1_every_leaf_of_a_record(context, queue, level, op, start, result):
    dtype = record(double="double" in {scalar.c for scalar in scalars(context, "add")})
    step = {
        "+": "{0} += ({1})(i + 1u);",
        "*": "{0} *= ({1})(i + 1u);",
        "min": "{0} = {0} < ({1})(i + 1u) ? {0} : ({1})(i + 1u);",
        "max": "{0} = {0} > ({1})(i + 1u) ? {0} : ({1})(i + 1u);",
    }[op]
    kinds = ("int", "double" if dtype["d"] == np.float64 else "float", "float", "int", "int", "float", "float")
    body = " ".join(step.format(f"mine.s.{leaf}", kind) for leaf, kind in zip(LEAVES, kinds, strict=True))
    body += " for (int k = 0; k < 10; ++k) { " + step.format("mine.s.a[k]", "int") + " }"
    reductions = {"s": portbar.Reduction(dtype, op)}
    (got,) = reduced_at(context, queue, level, reductions, {"s": "all_s"}, 10, body, [filled(dtype, start)], local=64)
    assert leaves_of(got[0]) == [result] * 17


#: Operator, start value and result of each array of reduction-arrays-1.c; a product of 100! is 0 in 32 bits.
ARRAYS = {
    "sum": ("+", 0, 5050),
    "product": ("*", 1, 0),
    "least": ("min", 101, 1),
    "most": ("max", -100, 100),
    "all_bits": ("&", -1, 0),
    "some_bits": ("|", 0, 127),
    "odd_bits": ("^", 0, 100),
    "every": ("&&", 1, 0),
    "any": ("||", 0, 1),
}
STEPS = {
    "sum": "{0} += x;",
    "product": "{0} *= x;",
    "least": "{0} = min({0}, x);",
    "most": "{0} = max({0}, x);",
    "all_bits": "{0} &= x;",
    "some_bits": "{0} |= x;",
    "odd_bits": "{0} ^= x;",
    "every": "{0} = {0} && 5 > x;",
    "any": "{0} = {0} || 5 > x;",
}


def arrays_at(context, queue, level, dtype, kind, names):
    reductions = {name: portbar.Reduction(dtype, ARRAYS[name][0], shape=10) for name in names}
    steps = " ".join(STEPS[name].format(f"mine.{name}[k]") for name in names)
    body = f"const {kind} x = ({kind})(i + 1u); for (int k = 0; k < 10; ++k) {{ {steps} }}"
    start = [np.full(10, ARRAYS[name][1], dtype) for name in names]
    source = loop_at(level, dict.fromkeys(names, kind), 100, body, local=32)
    # Of each array all elements take part, which a length of 0 says.
    source = source.replace(f"{{ {', '.join(names)} }}", f"{{ {', '.join(f'{name}, 0u, 0u' for name in names)} }}")
    loops = [portbar.ReductionLoop("all", reductions)]
    return dict(zip(names, results_of(context, queue, source, loops, "k", *sizes_for(level, 32), *start), strict=True))


@pytest.mark.parametrize("level", LEVELS)
def test_reduction_arrays_1_every_element_of_an_array_of_int(context, queue, level):
    got = arrays_at(context, queue, level, np.int32, "int", tuple(ARRAYS))
    for name, (_, _, result) in ARRAYS.items():
        assert got[name].tolist() == [result] * 10, name


@pytest.mark.parametrize("level", ["gang", "worker", "vector"])
@pytest.mark.parametrize(("dtype", "kind"), [(np.float32, "float"), (np.float64, "double")])
def test_reduction_arrays_1_every_element_of_an_array_of_floats(context, queue, level, dtype, kind):
    need(context, kind)
    got = arrays_at(context, queue, level, dtype, kind, ("sum", "product", "least", "most"))
    for name, result in (("sum", 5050), ("least", 1), ("most", 100)):
        assert got[name].tolist() == [result] * 10, name
    if kind == "float":
        assert got["product"].tolist() == [math.inf] * 10
    else:
        # In GCC's own file this stands under #if 0: products of doubles depend on the order.
        np.testing.assert_allclose(got["product"], float(math.factorial(100)), rtol=1e-13)


SECTIONS = ((1, 2), (1, 2), (3, 2), (3, 2), (0, 5), (0, 5), (4, 1), (3, 3), (1, 3), (2, 3), (3, 2), (1, 2))


@pytest.mark.parametrize("level", [*USUAL, "worker_vector"])
def test_reduction_arrays_2_to_5_twelve_sections_one_after_another(context, queue, level):
    """Constant bounds are -2's, run-time ones -3's and -4's; arrays of variable length, -5's, are not in OpenCL C."""
    source = loop_at(level, {"v": "int"}, 10, "for (uint k = from; k < from + length; ++k) mine.v[k] += 1;")
    source = source.replace("global int *v)", "global int *v, uint from, uint length)")
    source = source.replace("{ v }", "{ v, from, length }")
    loops = [portbar.ReductionLoop("all", {"v": portbar.Reduction(np.int32, "+", shape=6)})]
    kernel = program(context, source, loops=loops).kernel("k")
    v = device_array(queue, np.array([5, 1, 1, 5, 9, 9], np.int32))
    size, local = sizes_for(level)
    for start, length in SECTIONS:
        kernel(queue, (size,), (local,), v, np.uint32(start), np.uint32(length)).wait()
    assert host_array(queue, v, np.int32).tolist() == [25, 61, 71, 85, 89, 19]


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_openmp_reduction_16_logical_operators_on_integers_of_every_size(context, queue, dtype):
    kind = {1: "char", 2: "short", 4: "int", 8: "long"}[np.dtype(dtype).itemsize]
    need(context, kind)
    some = {"v": portbar.Reduction(dtype, "||")}
    (held,) = reduced_at(
        context,
        queue,
        "gang_worker_vector",
        some,
        {"v": kind},
        512,
        "mine.v = mine.v || (i & 1u);",
        [np.zeros(1, dtype)],
    )
    assert held[0] == 1
    every = {"v": portbar.Reduction(dtype, "&&")}
    (held,) = reduced_at(
        context, queue, "gang_worker_vector", every, {"v": kind}, 512, "mine.v = mine.v && (i & 1u);", [held]
    )
    assert held[0] == 0


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


@pytest.mark.parametrize("level", USUAL)
def test_reduction_1_f90_bits_logical_values_and_equivalence(context, queue, level):
    reductions = {name: portbar.Reduction(np.int32, op) for name, (op, _, _, _) in FORTRAN.items()}
    steps = [f"mine.{name} = {step.format(f'mine.{name}')};" for name, (_, _, _, step) in FORTRAN.items()]
    body = "const int x = (int)i + 1; " + " ".join(steps)
    start = [np.array([value], np.int32) for _, value, _, _ in FORTRAN.values()]
    got = reduced_at(context, queue, level, reductions, dict.fromkeys(reductions, "int"), 10, body, start, local=32)
    found = {name: int(value[0]) for name, value in zip(FORTRAN, got, strict=True)}
    assert found == {name: result for name, (_, _, result, _) in FORTRAN.items()}


@pytest.mark.parametrize("level", ["gang", "vector", "gang_worker_vector"])
def test_reduction_14_f90_sums_and_products_of_records(context, queue, level):
    sums = np.dtype([("i", np.int32), ("r", np.float32)], align=True)
    body = "mine.s.i += 1; mine.s.r += 2.0f;"
    (got,) = reduced_at(
        context, queue, level, {"s": portbar.Reduction(sums, "+")}, {"s": "all_s"}, 10, body, [np.zeros(1, sums)]
    )
    assert got[0].tolist() == (10, 20.0)
    need(context, "double")
    products = np.dtype([("r", np.float32), ("i", np.int32), ("d", np.float64)], align=True)
    body = "mine.s.r *= 1.1f; mine.s.i *= 2; mine.s.d *= 1.3;"
    start = np.ones(1, products)
    (got,) = reduced_at(
        context, queue, level, {"s": portbar.Reduction(products, "*")}, {"s": "all_s"}, 10, body, [start]
    )
    assert got[0]["r"] == pytest.approx(2.5937424, abs=1e-3)
    assert got[0]["i"] == 1024
    assert got[0]["d"] == pytest.approx(13.785849, abs=1e-3)


def test_reference_reductions_a_sum_of_64_bits(context, queue):
    need(context, "long")
    for level, n in (("gang", 10), ("vector", 100)):
        total = {"r": portbar.Reduction(np.int64, "+")}
        start = [np.array([1000 if level == "gang" else 910], np.int64)]
        (r,) = reduced_at(context, queue, level, total, {"r": "long"}, n, "mine.r += 1;", start)
        assert r[0] == 1010


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.float32, np.float64, np.int64])
def test_template_reduction_one_kernel_for_any_type_in_a_chain_without_waits(context, queue, dtype):
    kind = {"int32": "int", "uint32": "uint", "float32": "float", "float64": "double", "int64": "long"}[
        np.dtype(dtype).name
    ]
    need(context, kind)
    source = loop_at("gang", {"v": kind}, 100, f"mine.v += ({kind})(i + 1u);")
    loops = [portbar.ReductionLoop("all", {"v": portbar.Reduction(dtype, "+")})]
    kernel = program(context, source, loops=loops).kernel("k")
    v = device_array(queue, np.zeros(1, dtype))
    launches = [kernel(queue, (10,), (1,), v) for _ in range(3)]
    for launch in launches:
        launch.wait()
    assert host_array(queue, v, dtype)[0] == 3 * 5050


def test_kernels_decompose_1_a_factorial_of_64_bits(context, queue):
    need(context, "ulong")
    factorial = {"v": portbar.Reduction(np.uint64, "*")}
    for level in ("worker_vector", "gang_vector"):
        (v,) = reduced_at(
            context, queue, level, factorial, {"v": "ulong"}, 20, "mine.v *= i + 1ul;", [np.ones(1, np.uint64)]
        )
        assert int(v[0]) == math.factorial(20)
