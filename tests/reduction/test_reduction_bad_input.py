"""What is wrong with a reduction is said in terms of what the author wrote, with what would be right."""

from __future__ import annotations

import itertools

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest

import portbar
from portbar.primitives.reduction.header import context as render_context
from portbar.primitives.reduction.loops import check_loops
from portbar.primitives.reduction.strategies import Means
from portbar.primitives.reduction.use import check_source, use_of
from portbar.primitives.strategy import Choice, Strategy
from tests.reduction.support import device_array, host_array, program

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
        (
            lambda: portbar.ReductionLoop(
                "energy",
                {"t": portbar.Reduction(np.int32, portbar.Operator("a * b", 1, commutative=False))},
                deterministic=False,
            ),
            r"'t' of reduction loop 'energy' has an operator that does not commute.*leave it out",
        ),
        (lambda: loop(ulong16=portbar.Reduction(np.int32, "+")), r"cannot be called 'ulong16'"),
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


@pytest.mark.parametrize("name", ["s2", "x4", "v16", "int1", "shorts3"])
def test_names_that_end_in_a_number_are_no_vectors(name):
    assert portbar.ReductionLoop(name, {name: portbar.Reduction(np.int32, "+")}).fields


HEADER = '#include "portbar/reduction.h"\n'


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("kernel void k(void) {}", r"declares 'energy', but nothing includes it.*reduction\.h"),
        (HEADER + "kernel void energy_local(void) {}", r"'energy_local' is defined in the source"),
        (HEADER + "float energy_combine(float a, float b) { return a; }", r"'energy_combine' is defined in the source"),
        (HEADER + "#define energy_results 3\n", r"'energy_results' is defined"),
        (HEADER + "typedef float energy_local;", r"'energy_local' is defined"),
        (HEADER + "kernel void k(void) { float energy_local = 0; }", r"'energy_local' is defined"),
        (HEADER + "kernel void k(global float *energy_results, int n) { }", r"'energy_results' is defined"),
        (HEADER + "kernel void k(void) { local int energy_identity[3]; }", r"'energy_identity' is defined"),
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
        HEADER
        + "energy_local twice(const energy_local x) { const energy_local y = x, z = energy_identity(); return y; }",
        HEADER
        + "kernel void k(void) { if (get_local_id(0) == 0) x = sizeof(energy_local) * sizeof(const energy_local); }",
        HEADER + "kernel void energy_total(void) { float energy_total; }",
    ],
)
def test_uses_are_not_taken_for_definitions(source):
    check_source("program.cl", source, (loop(),))


def test_a_structure_of_a_loop_must_not_be_the_author_s():
    pair = loop(p=portbar.Reduction(np.dtype([("x", np.int32), ("y", np.int32)]), "+"))
    with pytest.raises(portbar.BuildError, match=r"'energy_p' is defined in the source"):
        check_source("program.cl", HEADER + "typedef struct { int x; } energy_p;", (pair,))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            "if (get_local_id(0) == 0) x = portbar_work_group_reduce_add(s, x);",
            r"line 2: portbar_work_group_reduce_add .*`if \(",
        ),
        (
            "uint id = (uint)get_local_id(0);\nif (id == 0u) {\n x = energy_reduce_worker(s, x);\n}",
            r"line 4: energy_reduce_worker",
        ),
        ("if (get_local_id(1) != 3) { f(x); { energy_fini_gang(s, r, x); } }", r"`if \(get_local_id\(1\) != 3\)`"),
        (
            "if (portbar_sub_group_local_id() > 0) a = 1; else portbar_device_broadcast(&g, s, x, 0u);",
            r"portbar_device_broadcast",
        ),
        (
            "const int i = get_local_id(0); if (i==0) x = portbar_work_group_scan_exclusive_max(s, x);",
            r"scan_exclusive_max",
        ),
    ],
)
def test_a_call_that_some_work_items_of_a_group_make_is_refused(body, words):
    source = HEADER + "kernel void k(PORTBAR_REDUCTION_PARAM) { " + body + " }"
    with pytest.raises(
        portbar.BuildError, match=words + r".*(.|\n)*outside, where the others give the neutral element"
    ):
        check_source("program.cl", source, (loop(),))


@pytest.mark.parametrize(
    "body",
    [
        "x = portbar_work_group_reduce_add(s, x); if (get_local_id(0) == 0) *out = x;",
        "if (get_group_id(0) == 0) x = portbar_work_group_reduce_add(s, x);",
        "if (get_global_id(0) < n) x = portbar_work_group_reduce_add(s, x);",
        "if (get_local_id(0) < 64u) x = portbar_work_group_reduce_add(s, x);",
        "if (get_local_id(0) == 0 || n == 1) x = portbar_work_group_reduce_add(s, x);",
        "uint i = get_local_id(0); i = 3; if (i == 3) x = portbar_work_group_reduce_add(s, x);",
        "if (get_local_id(0) == 0) a = 1; else b = 1; x = portbar_work_group_reduce_add(s, x);",
        "if (portbar_sub_group_local_id() == 0) energy_lock_worker(s);",
        "if (get_local_id(0) == 0) x = energy_reduce_vector(s, x);",
    ],
)
def test_calls_that_may_be_uniform_are_left_alone(body):
    check_source("program.cl", HEADER + "kernel void k(PORTBAR_REDUCTION_PARAM) { " + body + " }", (loop(),))


def test_in_groups_of_one_any_condition_is_uniform():
    body = "kernel void k(void) { if (get_local_id(0) == 0) portbar_work_group_reduce_add(s, x); }"
    check_source("program.cl", "#define PORTBAR_REDUCTION_LOCAL_SIZE 1\n" + HEADER + body, ())


def test_too_little_local_memory_is_told_with_what_would_fit():
    big = loop(v=portbar.Reduction(np.uint32, "+", shape=2000))
    small = STRATEGY.with_capabilities(reduction_means=Means(local_memory=65536))
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
    assert render_context(STRATEGY.with_capabilities(reduction_means=Means(local_memory=49152)), use)["limit"] == 512


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

OWN_SUM = portbar.ReductionLoop("own", {"v": portbar.Reduction(np.int32, "+")})
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
    said = str(caught.value).partition("Rendered source")[0]
    assert f"'{shown}' of own.v" in said
    assert "portbar_" not in said
    assert "scratch" not in said


@pytest.mark.device
@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"map": "x *+* 2"}, r"the map of 'result', 'x \*\+\* 2'"),
        ({"op": portbar.Operator("a *+* b", 0)}, r"the operator of 'result', 'a \*\+\* b'"),
        ({"op": portbar.Operator("a + b", "none_such")}, r"the neutral element of 'result', 'none_such'"),
    ],
)
def test_an_expression_of_an_array_s_reduction_is_shown_with_its_cause_alone(context, queue, more, what):
    array = cl.array.zeros(queue, 8, np.int32)
    try:
        portbar.reduce(queue, array)
    except portbar.UnsupportedFeatureError as error:
        pytest.skip(f"refused: {error}")
    with pytest.raises(portbar.BuildError, match=what + r", does not compile on .*: (indirection|use of undeclared)"):
        portbar.reduce(queue, array, **more)


@pytest.mark.device
def test_values_for_which_the_device_has_no_local_memory_are_refused(context):
    room = context.devices[0].local_mem_size
    huge = portbar.ReductionLoop("own", {"v": portbar.Reduction(np.int32, "+", shape=room // 4 + 1)})
    source = OWN.replace("const own_local mine = { out[0] };", "own_local mine = own_identity();").replace(
        ").v;", ").v[0];"
    )
    with pytest.raises(
        portbar.UnsupportedFeatureError, match=rf"local memory, and the device has {room}: .*fewer or smaller"
    ):
        portbar.Program(context, source, reductions=[huge])


HELPER = """
#define PORTBAR_REDUCTION_LOCAL_SIZE 16
#include "portbar/reduction.h"
int squares(PARAM, int x)
{
    return portbar_work_group_reduce_add(scratch, x * x) + own_reduce_worker_vector(scratch, own_identity()).v;
}
kernel void k(global int *out)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    out[get_global_id(0)] = squares(scratch, out[get_global_id(0)]);
}
"""


@pytest.mark.device
@pytest.mark.parametrize("param", ["PORTBAR_SCRATCH_PARAM scratch", "PORTBAR_SCRATCH_PARAM(scratch)"])
def test_a_helper_function_takes_the_scratch_memory_as_a_parameter(context, queue, param):
    made = program(context, HELPER.replace("PARAM", param), ordering="work_group", loops=[OWN_SUM])
    out = device_array(queue, np.arange(16, dtype=np.int32))
    made.kernel("k")(queue, (16,), (8,), out).wait()
    sums = [sum(i * i for i in range(8)), sum(i * i for i in range(8, 16))]
    assert host_array(queue, out, np.int32).tolist() == [sums[0]] * 8 + [sums[1]] * 8


@pytest.mark.device
@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("portbar_work_group_reduce_add(x)", "portbar_work_group_reduce_add takes scratch"),
        ("portbar_work_group_scan_exclusive_max(x)", "portbar_work_group_scan_exclusive_max takes scratch"),
        ("portbar_sub_group_broadcast(x, 0u)", "portbar_sub_group_broadcast takes scratch"),
        (
            "own_reduce_worker_vector(own_identity()).v",
            "(own_reduce_worker_vector|a function of a reduction) takes scratch",
        ),
    ],
)
def test_a_call_without_scratch_says_so(context, call, name):
    source = HELPER.replace("PARAM", "PORTBAR_SCRATCH_PARAM scratch").replace(
        "portbar_work_group_reduce_add(scratch, x * x)", call
    )
    with pytest.raises(portbar.BuildError, match=rf"Hint: .*{name} before.*PORTBAR_REDUCTION_SCRATCH\(scratch\)"):
        portbar.Program(context, source, reductions=[OWN_SUM])


@pytest.mark.device
def test_a_grid_s_call_without_scratch_says_so(context):
    source = GRID_CALL.replace("&grid, scratch, 1u", "&grid, 1u")
    try:
        with pytest.raises(
            portbar.BuildError, match=r"portbar_device_reduce_add takes &grid, scratch before its values"
        ):
            portbar.Program(context, source)
    except portbar.UnsupportedFeatureError as error:
        pytest.skip(f"refused: {error}")


@pytest.mark.device
def test_a_helper_s_pointer_without_address_space_builds_or_says_what_would_do(context):
    """Compilers differ: with generic pointers, only one into private memory will do."""
    said = "Hint: PORTBAR_SCRATCH_PARAM scratch"
    try:
        portbar.Program(context, HELPER.replace("PARAM", "portbar_scratch *scratch"), reductions=[OWN_SUM])
    except portbar.BuildError as error:
        said = str(error)
    assert "PORTBAR_SCRATCH_PARAM scratch" in said.partition("Hint: ")[2]


GRID_CALL = """
#define PORTBAR_REDUCTION_LOCAL_SIZE 16
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *out)
{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    if (portbar_group_id(&grid) != 0u)
        out[portbar_global_id(&grid)] = portbar_device_reduce_add(&grid, scratch, 1u);
}
"""


@pytest.mark.device
def test_a_call_that_one_group_of_a_grid_leaves_out_ends_in_an_error(context, queue):
    try:
        kernel = portbar.Program(context, GRID_CALL, spin_limit=0.1).kernel("k")
    except portbar.UnsupportedFeatureError as error:
        pytest.skip(f"refused: {error}")
    if kernel.occupancy(queue, (4,)).groups < 2:
        pytest.skip("the device holds one work-group, so that nobody is missing")
    launch = kernel(queue, None, (4,), device_array(queue, np.zeros(1 << 16, np.uint32)))
    with pytest.raises(portbar.BarrierTimeoutError):
        launch.wait()


SIZED = """
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *out)
{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    own_local mine = own_identity();
    mine.v[0] = out[portbar_global_id(&grid)];
    mine = own_reduce_worker_vector(scratch, mine);
    out[portbar_global_id(&grid)] = mine.v[0];
}
"""


def sized(context, local_size, words, head=""):
    """Build a program whose work-items reduce so many words each."""
    wide = portbar.ReductionLoop("own", {"v": portbar.Reduction(np.uint32, "+", shape=words)})
    return program(context, f"{head}#define PORTBAR_REDUCTION_LOCAL_SIZE {local_size}\n{SIZED}", loops=[wide])


@pytest.mark.device
def test_the_size_of_the_scratch_memory_is_that_which_the_driver_finds(context):
    device = context.devices[0]
    told, computed = [], []
    for local_size, words in ((16, 3), (64, 3), (64, 20)):
        made = sized(context, local_size, words)
        handle = cl.Kernel(made.built(device, made.strategy(device)), "k")
        told.append(handle.get_work_group_info(cl.kernel_work_group_info.LOCAL_MEM_SIZE, device))
        computed.append(made.reduction_bytes(device))
    if not told[0]:
        pytest.skip("the runtime does not tell how much local memory a kernel has")
    assert computed[0] < computed[1] < computed[2]
    # What is told has the barrier's few words too, and Mesa counts each variable twice.
    grown = [after - before for before, after in itertools.pairwise(told)]
    wanted = [after - before for before, after in itertools.pairwise(computed)]
    assert grown in (wanted, [2 * more for more in wanted])


@pytest.mark.device
def test_scratch_memory_lowers_the_number_of_groups_where_local_memory_limits_it(context, queue):
    device = context.devices[0]
    if not device.type & cl.device_type.GPU or "Oclgrind" in device.name or "llvmpipe" in device.name:
        pytest.skip("on a CPU local memory is memory like any other, and limits no number of groups")
    # Sub-groups of two, which leave a value each: three quarters of the memory for few words of each work-item.
    words = device.local_mem_size * 3 // 4 // (4 * 1026)
    few, many = sized(context, 32, 1), sized(context, 1024, words, "#define PORTBAR_SUB_GROUP_SIZE 2\n")
    use = many.reduction_bytes(device)
    assert use > device.local_mem_size // 2, "two groups of this would still fit"
    small = few.kernel("k").occupancy(queue, (32,)).groups
    large = many.kernel("k").occupancy(queue, (32,)).groups
    # The launches are alike; only the room differs.
    assert large < small
    assert large >= device.max_compute_units


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
