"""What is wrong with a reduction is said in terms of what the author wrote, with what would be right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.reduction.loops import check_loops
from portbar.reduction.rendering import context as render_context
from portbar.reduction.strategies import Means
from portbar.reduction.use import check_source, use_of
from portbar.strategy import Choice, Strategy
from tests.reduction_support import device_array, program

WHY = Choice("c11", "for a test")
STRATEGY = Strategy(WHY, Choice("packed", ""), Choice("counter", ""))


def loop(name="energy", **fields):
    return portbar.ReductionLoop(name, fields or {"total": portbar.Reduction(np.float32, "+")})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: portbar.Reduction(np.float32, "avg"), r"no operator is called 'avg'.*&&.*portbar\.Operator\("),
        (lambda: portbar.Reduction(np.float32, "-"), r"'-'.*sums of differences are sums"),
        (lambda: portbar.Reduction("flaot32", "+"), r"'flaot32' is no NumPy dtype"),
        (lambda: portbar.Reduction(np.bool_, "||"), r"cannot have the type bool.*use numpy\.int8"),
        (lambda: portbar.Reduction("S4", "+"), r"cannot have the type \|S4.*integers of 8 to 64 bits"),
        (lambda: portbar.Reduction(">i4", "+"), r"cannot have the type >i4"),
        (lambda: portbar.Reduction(np.float32, "&"), r"'&' takes no float; it is defined for int, uint"),
        (lambda: portbar.Reduction(np.complex64, "max"), r"'max' takes no float2"),
        (lambda: portbar.Reduction(np.complex64, "argmin"), r"argmin finds one of many numbers"),
        (lambda: portbar.Reduction(np.int32, "+", neutral=1), r"neutral=1 is not neutral for '\+' on int.*start value"),
        (lambda: portbar.Reduction(np.int8, "min", neutral=100), r"neutral=100 is not neutral for 'min' on char"),
        (lambda: portbar.Reduction(np.uint8, "&", neutral="0"), r"'&' on uchar"),
        (lambda: portbar.Reduction(np.float64, "max", neutral="0.0"), r"'max' on double"),
        (lambda: portbar.Reduction(np.int32, "+", shape=0), r"shape= is a number of elements above 0.*0"),
        (lambda: portbar.Reduction(np.int32, "+", shape="ten"), r"shape= .*'ten'"),
        (
            lambda: portbar.Reduction([("a", np.int8), ("b", np.int64)], "+"),
            r"as OpenCL C would lay it out.*align=True",
        ),
        (lambda: portbar.Operator("a + 1", neutral="0"), r"expression in a and b.*'a \+ 1'"),
        (lambda: portbar.Operator("a + b", neutral=" "), r"needs a neutral element"),
        (lambda: loop("int"), r"loop cannot be called 'int'"),
        (lambda: loop("float4"), r"cannot be called 'float4'"),
        (lambda: loop("my loop"), r"'my loop', which is no identifier"),
        (lambda: loop("add"), r"cannot be called 'add'"),
        (lambda: loop("portbar_x"), r"cannot be called 'portbar_x'"),
        (
            lambda: loop(**{"for": portbar.Reduction(np.int32, "+")}),
            r"field of reduction loop 'energy' cannot be called 'for'",
        ),
        (lambda: loop(total=np.float32), r"field 'total' of reduction loop 'energy' is no portbar\.Reduction"),
        (lambda: portbar.ReductionLoop("energy", {}), r"'energy' needs fields"),
        (lambda: portbar.ReductionLoop("energy", {"t": portbar.Reduction(np.int8, "+")}, uses=0), r"uses= .* not 0"),
        (
            lambda: loop(v=portbar.Reduction(np.int32, "+", shape=3), v_length=portbar.Reduction(np.int32, "+")),
            r"array 'v' and a field 'v_length'",
        ),
        (lambda: check_loops([loop(), loop()]), r"'energy' and 'energy' would both define energy_"),
        (lambda: check_loops(["energy"]), r"takes portbar\.ReductionLoop objects, not 'energy'"),
    ],
)
def test_a_wrong_declaration_is_an_error_that_says_what_would_do(make, words):
    with pytest.raises(portbar.Error, match=words):
        make()


@pytest.mark.parametrize(
    ("dtype", "op", "neutral"),
    [
        (np.int32, "+", 0),
        (np.int32, "*", "1"),
        (np.uint8, "min", 255),
        (np.int8, "max", -128),
        (np.int16, "min", "SHRT_MAX"),
        (np.float32, "min", "INFINITY"),
        (np.float64, "max", -np.inf),
        (np.uint32, "&", "0xffffffff"),
        (np.int64, "&", -1),
        (np.int32, "&&", 1),
        (np.int32, "==", True),
    ],
)
def test_the_right_neutral_element_may_be_given(dtype, op, neutral):
    assert portbar.Reduction(dtype, op, neutral=neutral).neutral == neutral


HEADER = '#include "portbar/reduction.h"\n'


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("kernel void k(void) {}", r"declares 'energy', but nothing includes it.*reduction\.h"),
        (HEADER + "kernel void energy_local(void) {}", r"'energy_local' is defined in the source"),
        (HEADER + "float energy_combine(float a, float b) { return a; }", r"'energy_combine' is defined in the source"),
        (HEADER + "#define energy_results 3\n", r"'energy_results' is defined"),
        (HEADER + "typedef float energy_local;", r"'energy_local' is defined"),
        (
            HEADER + "kernel void k(void) { energy_fini_gang_worker(s, r, v); }",
            r"energy_fini_gang_worker .*PORTBAR_REDUCTION_PARAM",
        ),
        (HEADER + '#include "portbar/device_barrier.h"\n', r"device_barrier\.h\" must stand before"),
    ],
)
def test_a_source_that_does_not_suit_its_loops_is_refused(source, words):
    with pytest.raises(portbar.BuildError, match=words):
        check_source("program.cl", source, (loop(),))


@pytest.mark.parametrize(
    "source",
    [
        HEADER + "kernel void k(void) { energy_local mine = energy_combine(a, b); }",
        HEADER + "kernel void k(PORTBAR_REDUCTION_PARAM) { energy_reduce_gang(s, r, v); }",
        HEADER + "/* float energy_combine(float a, float b) { } */",
        HEADER + "energy_local twice(energy_local x) { return energy_combine(x, x); }",
    ],
)
def test_uses_are_not_taken_for_definitions(source):
    check_source("program.cl", source, (loop(),))


def test_too_little_local_memory_is_told_with_what_would_fit():
    big = loop(v=portbar.Reduction(np.uint32, "+", shape=2000))
    small = replace(STRATEGY, reduction_means=Means(local_memory=65536))
    use = use_of(HEADER + "energy_reduce_worker_vector(s, v)", (), (big,))
    with pytest.raises(
        portbar.UnsupportedFeatureError, match=r"8 work-items with values of 8000 bytes need 72000 bytes.*65536"
    ):
        render_context(small, use)
    asked = use_of(HEADER + "portbar_work_group_reduce_add(s, x)", ("-DPORTBAR_REDUCTION_LOCAL_SIZE=9000",))
    with pytest.raises(
        portbar.UnsupportedFeatureError, match=r"of 9000 work-items .* PORTBAR_REDUCTION_LOCAL_SIZE smaller"
    ):
        render_context(small, asked)


def test_the_size_of_groups_shrinks_until_values_fit():
    big = loop(v=portbar.Reduction(np.uint32, "+", shape=20))
    use = use_of(HEADER + "energy_reduce_worker_vector(s, v)", (), (big,))
    assert render_context(replace(STRATEGY, reduction_means=Means(local_memory=49152)), use)["limit"] == 512


def test_a_type_that_the_device_has_not_is_named():
    half = loop(x=portbar.Reduction(np.float16, "+"))
    with pytest.raises(portbar.UnsupportedFeatureError, match=r"'energy' has values of type half"):
        render_context(STRATEGY, use_of(HEADER, (), (half,)))


SIMPLE = """
#define PORTBAR_REDUCTION_LOCAL_SIZE 16
#include "portbar/reduction.h"
kernel void k(global int *out)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    out[get_global_id(0)] = portbar_work_group_reduce_xor(scratch, out[get_global_id(0)]);
}
"""

OWN = """
#include "portbar/reduction.h"
kernel void k(global int *out)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const own_local mine = { out[0] };
    out[get_global_id(0)] = own_reduce_worker_vector(scratch, mine).v;
}
"""


@pytest.mark.device
@pytest.mark.parametrize(("expression", "neutral"), [("a *+* b", "0"), ("a + wrong(b)", "0"), ("a + b", "none_such")])
def test_an_expression_that_does_not_compile_is_shown(context, expression, neutral):
    op = portbar.Operator(expression, neutral=neutral)
    bad = portbar.ReductionLoop("own", {"v": portbar.Reduction(np.int32, op)})
    with pytest.raises(portbar.BuildError) as caught:
        portbar.Program(context, OWN, reductions=[bad])
    shown = expression if neutral == "0" else neutral
    assert f"'{shown}' of own.v" in str(caught.value)


@pytest.mark.device
def test_a_group_larger_than_its_scratch_memory_is_refused(context, queue):
    kernel = program(context, SIMPLE, ordering="work_group").kernel("k")
    out = device_array(queue, np.zeros(64, np.int32))
    made = kernel.program.built(context.devices[0], kernel.program.strategy(context.devices[0]))
    query = cl.kernel_work_group_info.LOCAL_MEM_SIZE
    if not cl.Kernel(made, "k").get_work_group_info(query, context.devices[0]):
        pytest.skip("the runtime does not tell how much local memory a kernel has")
    with pytest.raises(portbar.LaunchError, match=r"32 work-items.* for 16: #define PORTBAR_REDUCTION_LOCAL_SIZE 32"):
        kernel(queue, (32,), (32,), out)
    kernel(queue, (32,), (16,), out).wait()


GANG = """
#include "portbar/reduction.h"
kernel void right(PORTBAR_REDUCTION_PARAM, global float *total)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const energy_results results = { total };
    const energy_local mine = { 1.0f };
    energy_reduce_gang(scratch, results, mine);
}
kernel void wrong(global float *total, PORTBAR_REDUCTION_PARAM)
{
    total[0] = (float)(size_t)portbar_reduction_param;
}
"""


@pytest.mark.device
def test_hidden_arguments_come_first_and_need_a_local_size(context, queue):
    made = program(context, GANG, loops=[loop()])
    total = device_array(queue, np.zeros(1, np.float32))
    with pytest.raises(portbar.LaunchError, match=r"no reqd_work_group_size|local size"):
        made.kernel("right")(queue, (64,), None, total)
    with pytest.raises(portbar.LaunchError, match=r"PORTBAR_REDUCTION_PARAM must be the first parameter"):
        made.kernel("wrong")
    with pytest.raises(portbar.LaunchError, match=r"takes 1 argument \(float\* total\), 2 given"):
        made.kernel("right")(queue, (64,), (8,), total, total)
    made.kernel("right")(queue, (64,), (8,), total).wait()
