"""Errors in reductions are reported in terms of the author's code, with the correct form."""

from __future__ import annotations

import itertools

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar import Operator, Reduction, ReductionLoop
from portbar.primitives.reduction.checks import check_source
from portbar.primitives.reduction.header import context as render_context
from portbar.primitives.reduction.loops import check_loops
from portbar.primitives.reduction.selection import ReductionCapabilities
from portbar.primitives.reduction.use import use_of
from portbar.primitives.strategy import Choice, Strategy
from tests.reduction.support import head, kernel_text, launched, program
from tests.support import skipped_where_refused, to_device

STRATEGY = Strategy(Choice("c11", "for a test"), Choice("packed", ""), Choice("counter", ""))
INT = Reduction("i4", "+")


def loop(name="energy", **fields):
    return ReductionLoop(name, fields or {"total": Reduction("f4", "+")})


def uncommuting():
    ReductionLoop("energy", {"t": Reduction("i4", Operator("a * b", 1, commutative=False))}, deterministic=False)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Reduction("f4", "avg"), r"unknown operator 'avg'.*&&.*portbar\.Operator\("),
        (lambda: Reduction("f4", "-"), r"'-'.*sums of differences are sums"),
        (lambda: Reduction("flaot32", "+"), r"'flaot32' is not a NumPy dtype"),
        (lambda: Reduction("?", "||"), r"cannot have the type bool.*use numpy\.int8"),
        (lambda: Reduction("S4", "+"), r"cannot have the type \|S4.*integers of 8 to 64 bits"),
        (lambda: Reduction(">i4", "+"), r"cannot have the type >i4"),
        (lambda: Reduction("f4", "&"), r"'&' does not support float; it is defined for int, uint"),
        (lambda: Reduction("c8", "max"), r"'max' does not support float2"),
        (lambda: Reduction("c8", "argmin"), r"'argmin' selects one of many numbers"),
        (lambda: Reduction("i4", "+", neutral=1), r"neutral=1 is not neutral for '\+' on int.*start value"),
        (lambda: Reduction("i1", "min", neutral=100), r"neutral=100 is not neutral for 'min' on char"),
        (lambda: Reduction("u1", "&", neutral="0"), r"'&' on uchar"),
        (lambda: Reduction("f8", "max", neutral="0.0"), r"'max' on double"),
        (lambda: Reduction("i4", "+", shape=0), r"shape= must be a positive number of elements.*0"),
        (lambda: Reduction("i4", "+", shape="ten"), r"shape= .*'ten'"),
        (lambda: Reduction("i4", "+", shape=2**70), r"larger than 16777216 bytes"),
        (lambda: Reduction(("i4", (0,)), "+"), r"shape= must be a positive number of elements.*0"),
        (lambda: Reduction({"names": []}, "+"), r"not a NumPy dtype"),
        (lambda: Reduction([("a", "i1"), ("b", "i8")], "+"), r"differs from OpenCL C's.*align=True"),
        (lambda: Operator("a + 1", neutral="0"), r"expression in a and b.*'a \+ 1'"),
        (lambda: Operator("a + b", neutral=" "), r"needs a neutral element"),
        (lambda: loop("int"), r"loop cannot be named 'int'"),
        (lambda: loop("float4"), r"cannot be named 'float4'"),
        (lambda: loop("my loop"), r"'my loop', which is not an OpenCL C identifier"),
        (lambda: loop("add"), r"cannot be named 'add'"),
        (lambda: loop("portbar_x"), r"cannot be named 'portbar_x'"),
        (lambda: loop(**{"for": INT}), r"field of reduction loop 'energy' cannot be named 'for'"),
        (lambda: loop(total=np.float32), r"field 'total' of reduction loop 'energy' must be a portbar\.Reduction"),
        (lambda: ReductionLoop("energy", {}), r"'energy' needs fields"),
        (lambda: ReductionLoop("energy", {"t": INT}, uses=0), r"uses= .* not 0"),
        (lambda: loop(v=Reduction("i4", "+", shape=3), v_length=INT), r"array 'v' and a field 'v_length'"),
        (uncommuting, r"'t' of reduction loop 'energy' has an operator that does not commute.*omit"),
        (lambda: loop(ulong16=INT), r"cannot be named 'ulong16'"),
        (lambda: check_loops([loop(), loop()]), r"'energy' and 'energy' would both define energy_"),
        (lambda: check_loops(["energy"]), r"must hold portbar\.ReductionLoop objects, not 'energy'"),
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
    assert Reduction(dtype, op, neutral=neutral).neutral == neutral


@pytest.mark.parametrize("name", ["s2", "x4", "v16", "int1", "shorts3"])
def test_names_that_end_in_a_number_are_not_vectors(name):
    assert loop(name, **{name: INT}).fields


HEADER = '#include "portbar/reduction.h"\n'


def kernel(body, param="void"):
    return f"{HEADER}kernel void k({param}) {{ {body} }}"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("kernel void k(void) {}", r"declares 'energy', but the source does not include.*reduction\.h"),
        (HEADER + "kernel void energy_local(void) {}", r"'energy_local' is defined in the source"),
        (HEADER + "float energy_combine(float a, float b) { return a; }", r"'energy_combine' is defined in the source"),
        (HEADER + "#define energy_results 3\n", r"'energy_results' is defined"),
        (HEADER + "typedef float energy_local;", r"'energy_local' is defined"),
        (kernel("float energy_local = 0;"), r"'energy_local' is defined"),
        (kernel("", "global float *energy_results, int n"), r"'energy_results' is defined"),
        (kernel("local int energy_identity[3];"), r"'energy_identity' is defined"),
        (HEADER + "typedef struct { int x; } energy_p;", r"'energy_p' is defined in the source"),
        (kernel("energy_fini_gang_worker(s, r, v);"), r"energy_fini_gang_worker .*PORTBAR_REDUCTION_PARAM"),
        (HEADER + '#include "portbar/device_barrier.h"\n', r"device_barrier\.h\" must come before"),
    ],
)
def test_a_source_that_does_not_suit_its_loops_is_refused(source, words):
    fields = {"total": Reduction("f4", "+"), "p": Reduction([("x", "i4"), ("y", "i4")], "+")}
    with pytest.raises(portbar.BuildError, match=words):
        check_source("program.cl", source, (loop(**fields),))


CALL = "x = portbar_work_group_reduce_add(s, x);"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (f"if (get_local_id(0) == 0) {CALL}", r"line 2: portbar_work_group_reduce_add .*`if \("),
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
    words += r".*(.|\n)*out of the if, with the neutral element"
    with pytest.raises(portbar.BuildError, match=words):
        check_source("program.cl", kernel(body, "PORTBAR_REDUCTION_PARAM"), (loop(),))


#: Uses that are not definitions, and calls that may be uniform.
RIGHT = [
    kernel("energy_local mine = energy_combine(a, b);"),
    HEADER + "/* float energy_combine(float a, float b) { } */",
    HEADER + "energy_local twice(energy_local x) { return energy_combine(x, x); }",
    HEADER + "energy_local twice(const energy_local x) { const energy_local y = x, z = energy_identity(); return y; }",
    kernel("if (get_local_id(0) == 0) x = sizeof(energy_local) * sizeof(const energy_local);"),
    HEADER + "kernel void energy_total(void) { float energy_total; }",
    # In groups of one any condition is uniform.
    "#define PORTBAR_REDUCTION_LOCAL_SIZE 1\n" + kernel(f"if (get_local_id(0) == 0) {CALL}"),
    *(
        kernel(body, "PORTBAR_REDUCTION_PARAM")
        for body in (
            "energy_reduce_gang(s, r, v);",
            f"{CALL} if (get_local_id(0) == 0) *out = x;",
            f"if (get_group_id(0) == 0) {CALL}",
            f"if (get_global_id(0) < n) {CALL}",
            f"if (get_local_id(0) < 64u) {CALL}",
            f"if (get_local_id(0) == 0 || n == 1) {CALL}",
            f"uint i = get_local_id(0); i = 3; if (i == 3) {CALL}",
            f"if (get_local_id(0) == 0) a = 1; else b = 1; {CALL}",
            "if (portbar_sub_group_local_id() == 0) energy_lock_worker(s);",
            "if (get_local_id(0) == 0) x = energy_reduce_vector(s, x);",
        )
    ),
]


@pytest.mark.parametrize("source", RIGHT)
def test_correct_code_is_left_alone(source):
    check_source("program.cl", source, (loop(),))


def test_too_little_local_memory_is_reported_with_the_remedy():
    big = loop(v=Reduction("u4", "+", shape=2000))
    small = STRATEGY.with_capabilities(reduction=ReductionCapabilities(local_memory=65536))
    use = use_of(HEADER + "energy_reduce_worker_vector(s, v)", (), (big,))
    with pytest.raises(
        portbar.UnsupportedFeatureError, match=r"8 work-items with values of 8000 bytes need 72000 bytes.*65536"
    ):
        render_context(small, use)
    asked = use_of(HEADER + "portbar_work_group_reduce_add(s, x)", ("-DPORTBAR_REDUCTION_LOCAL_SIZE=9000",))
    with pytest.raises(
        portbar.UnsupportedFeatureError, match=r"of 9000 work-items .* smaller PORTBAR_REDUCTION_LOCAL_SIZE"
    ):
        render_context(small, asked)


def test_the_size_of_groups_shrinks_until_values_fit():
    big = loop(v=Reduction("u4", "+", shape=20))
    use = use_of(HEADER + "energy_reduce_worker_vector(s, v)", (), (big,))
    assert (
        render_context(STRATEGY.with_capabilities(reduction=ReductionCapabilities(local_memory=49152)), use)["limit"]
        == 512
    )


def test_a_type_that_the_device_has_not_is_named():
    half = loop(x=Reduction(np.float16, "+"))
    with pytest.raises(portbar.UnsupportedFeatureError, match=r"'energy' has values of type half"):
        render_context(STRATEGY, use_of(HEADER, (), (half,)))


OWN_SUM = loop("own", v=INT)
OWN = head(16) + kernel_text(
    "k",
    "global int *out",
    "    own_local mine = own_identity();\n    mine = own_reduce_worker_vector(scratch, mine);\n    out[0] = 1;",
)


@pytest.mark.device
@pytest.mark.parametrize(("expression", "neutral"), [("a *+* b", "0"), ("a + wrong(b)", "0"), ("a + b", "none_such")])
def test_an_expression_that_does_not_compile_is_shown(context, expression, neutral):
    bad = loop("own", v=Reduction("i4", Operator(expression, neutral=neutral)))
    with pytest.raises(portbar.BuildError) as caught:
        portbar.Program(context, OWN, reductions=[bad])
    said = str(caught.value).partition("Rendered source")[0]
    assert f"'{expression if neutral == '0' else neutral}' of own.v" in said
    assert "portbar_" not in said
    assert "scratch" not in said


@pytest.mark.device
def test_values_for_which_the_device_has_no_local_memory_are_refused(context):
    room = context.devices[0].local_mem_size
    huge = loop("own", v=Reduction("i4", "+", shape=room // 4 + 1))
    words = rf"local memory, and the device has {room}: .*fewer or smaller"
    with pytest.raises(portbar.UnsupportedFeatureError, match=words):
        portbar.Program(context, OWN, reductions=[huge])


HELPER = (
    head(16)
    + """
int squares(PARAM, int x)
{
    return portbar_work_group_reduce_add(scratch, x * x) + own_reduce_worker_vector(scratch, own_identity()).v;
}
"""
    + kernel_text("k", "global int *out", "    out[get_global_id(0)] = squares(scratch, out[get_global_id(0)]);")
)


@pytest.mark.device
@pytest.mark.parametrize("param", ["PORTBAR_SCRATCH_PARAM scratch", "PORTBAR_SCRATCH_PARAM(scratch)"])
def test_a_helper_function_takes_the_scratch_memory_as_a_parameter(context, queue, param):
    made = program(context, HELPER.replace("PARAM", param), ordering="work_group", loops=[OWN_SUM])
    _, (out,) = launched(queue, made.kernel("k"), 2, 8, np.arange(16, dtype=np.int32))
    assert out.tolist() == [sum(i * i for i in range(8))] * 8 + [sum(i * i for i in range(8, 16))] * 8


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
        ("portbar_device_reduce_add(&grid, 1u)", "portbar_device_reduce_add takes &grid, scratch"),
    ],
)
def test_a_call_without_scratch_says_so(context, call, name):
    if "&grid" in call:
        source = GRID_CALL.replace("&grid, scratch, 1u", "&grid, 1u")
    else:
        source = HELPER.replace("PARAM", "PORTBAR_SCRATCH_PARAM scratch")
        source = source.replace("portbar_work_group_reduce_add(scratch, x * x)", call)
    words = rf"Hint: .*{name} before.*PORTBAR_REDUCTION_SCRATCH\(scratch\)"
    with skipped_where_refused(), pytest.raises(portbar.BuildError, match=words):
        portbar.Program(context, source, reductions=[OWN_SUM])


@pytest.mark.device
def test_a_helper_s_pointer_without_address_space_builds_or_says_what_would_do(context):
    """Compilers differ: with generic pointers, only one into private memory will do."""
    said = "Hint: PORTBAR_SCRATCH_PARAM scratch"
    try:
        portbar.Program(context, HELPER.replace("PARAM", "portbar_scratch *scratch"), reductions=[OWN_SUM])
    except portbar.BuildError as error:
        said = str(error)
    assert "PORTBAR_SCRATCH_PARAM scratch" in said.partition("Hint: ")[2]


GRID_CALL = head(16, grid=True) + kernel_text(
    "k",
    "global uint *out",
    """
    if (portbar_group_id(&grid) != 0u)
        out[portbar_global_id(&grid)] = portbar_device_reduce_add(&grid, scratch, 1u);""",
    "grid",
)


def sized(context, local_size, words, more=""):
    """Build a program whose work-items reduce `words` words each."""
    body = """
    own_local mine = own_identity();
    mine.v[0] = out[portbar_global_id(&grid)];
    out[portbar_global_id(&grid)] = own_reduce_worker_vector(scratch, mine).v[0];"""
    source = head(local_size, grid=True, more=more) + kernel_text("k", "global uint *out", body, "grid")
    return program(context, source, loops=[loop("own", v=Reduction("u4", "+", shape=words))])


def local_bytes(context, made):
    """Return how much local memory the driver says that kernel `k` has; skip if it does not report it."""
    device = context.devices[0]
    handle = cl.Kernel(made.built(device, made.strategy(device)), "k")
    told = handle.get_work_group_info(cl.kernel_work_group_info.LOCAL_MEM_SIZE, device)
    if not told:
        pytest.skip("the runtime does not report a kernel's local memory")
    return told


@pytest.mark.device
def test_the_size_of_the_scratch_memory_is_that_which_the_driver_finds(context):
    programs = [sized(context, *sizes) for sizes in ((16, 3), (64, 3), (64, 20))]
    told = [local_bytes(context, made) for made in programs]
    computed = [made.reduction_bytes(context.devices[0]) for made in programs]
    assert computed[0] < computed[1] < computed[2]
    # The reported number includes the barrier's few words, and Mesa counts each variable twice.
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
    assert many.reduction_bytes(device) > device.local_mem_size // 2, "two groups of this would still fit"
    # The launches are alike; only the room differs.
    small, large = (made.kernel("k").occupancy(queue, (32,)).groups for made in (few, many))
    assert device.max_compute_units <= large < small


@pytest.mark.device
def test_a_group_larger_than_its_scratch_memory_is_refused(context, queue):
    body = "    const size_t i = get_global_id(0);\n    out[i] = portbar_work_group_reduce_xor(scratch, out[i]);"
    kernel = program(context, head(16) + kernel_text("k", "global int *out", body), ordering="work_group").kernel("k")
    local_bytes(context, kernel.program)
    out = np.zeros(64, np.int32)
    with pytest.raises(portbar.LaunchError, match=r"32 work-items.* for 16: #define PORTBAR_REDUCTION_LOCAL_SIZE 32"):
        launched(queue, kernel, 1, 32, out)
    launched(queue, kernel, 2, 16, out)


@pytest.mark.device
@pytest.mark.parametrize(
    ("defined", "options"),
    [
        ("#define W 16\n#define PORTBAR_REDUCTION_LOCAL_SIZE W", ()),
        ("#define PORTBAR_REDUCTION_LOCAL_SIZE 0x10", ()),
        ("", ("-DPORTBAR_REDUCTION_LOCAL_SIZE=2*8",)),
        (
            "#ifdef MORE\n#define PORTBAR_REDUCTION_LOCAL_SIZE 64\n#else\n#define PORTBAR_REDUCTION_LOCAL_SIZE 16\n#endif",
            (),
        ),
    ],
    ids=["a macro", "another base", "an expression", "alternatives"],
)
def test_a_size_that_portbar_reads_otherwise_than_the_compiler_is_refused(context, defined, options):
    """Launches are checked against what portbar reads: else larger groups would overrun the scratch memory."""
    body = "    out[0] = portbar_work_group_reduce_xor(scratch, out[0]);"
    text = f'{defined}\n#include "portbar/reduction.h"\n' + kernel_text("k", "global int *out", body)
    program(context, head(16) + kernel_text("k", "global int *out", body), ordering="work_group")
    with pytest.raises(portbar.BuildError, match="define PORTBAR_REDUCTION_LOCAL_SIZE once, as a decimal number"):
        program(context, text, ordering="work_group", options=options)


@pytest.mark.parametrize(
    "hidden", ['#import "x.h"', "#include X_H", "#include_next <x.h>", '#include \\\n"x.h"', "%:%:"]
)
def test_what_portbar_cannot_read_may_call_any_function(hidden):
    assert use_of(f"{HEADER}{hidden}\n").wanted is None
    assert use_of(HEADER).wanted == frozenset()


GANG = head(64) + kernel_text(
    "right",
    "global float *total",
    """
    const energy_results results = { total };
    const energy_local mine = { 1.0f };
    energy_reduce_gang(scratch, results, mine);""",
    "gangs",
)
WRONG = (
    "kernel void wrong(global float *t, PORTBAR_REDUCTION_PARAM) { t[0] = (float)(size_t)portbar_reduction_param; }\n"
)


@pytest.mark.device
def test_hidden_arguments_come_first_and_need_a_local_size(context, queue):
    made = program(context, GANG + WRONG, loops=[loop()])
    total = to_device(queue, np.zeros(1, np.float32))
    with pytest.raises(portbar.LaunchError, match=r"no reqd_work_group_size|local size"):
        made.kernel("right")(queue, (64,), None, total)
    with pytest.raises(portbar.LaunchError, match=r"PORTBAR_REDUCTION_PARAM must be the first parameter"):
        made.kernel("wrong")
    with pytest.raises(portbar.LaunchError, match=r"takes 1 argument \(float\* total\), 2 given"):
        made.kernel("right")(queue, (64,), (8,), total, total)
    made.kernel("right")(queue, (64,), (8,), total).wait()
