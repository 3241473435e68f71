"""Errors in reductions are reported in terms of the author's code, with the correct form."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar import Operator, Reduction, ReductionLoop
from portbar.device import quirks
from portbar.primitives.headers import declarations
from portbar.primitives.reduction.checks import check_included, check_loops_used
from portbar.primitives.reduction.header import context as render_context
from portbar.primitives.reduction.loops import check_loops
from portbar.primitives.reduction.selection import ReductionCapabilities
from portbar.primitives.strategy import Choice, Strategy
from portbar.reading.own_headers import includes
from portbar.reading.reader import read
from tests.reading.trees import facts, needs_libclang, use_of
from tests.reduction.support import head, kernel_text, launched, program
from tests.support import skipped_where_refused, to_device, uints

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


#: Declares scratch memory, results and a value.
VALUES = "PORTBAR_REDUCTION_SCRATCH(s); energy_results r = {0}; energy_local v = energy_identity(); "


def check(source, loops):
    """As `Program` does before it reads which work-items make a call."""
    check_included("program.cl", [include.name for include in includes(source)], loops)
    check_loops_used("program.cl", facts(source, loops=loops), loops)


@needs_libclang
@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("kernel void k(void) {}", r"declares 'energy', but the source does not include.*reduction\.h"),
        (HEADER + "kernel void energy_local(void) {}", r"line 2: 'energy_local' is defined in the source"),
        (HEADER + "float energy_combine(float a, float b) { return a; }", r"'energy_combine' is defined in the source"),
        (
            HEADER + "#define F(n) int n\n\nF(energy_combine)(int a) { return a; }",
            r"line 4: 'energy_combine' is defined",
        ),
        (HEADER + "typedef float energy_local;", r"'energy_local' is defined"),
        (HEADER + "typedef struct { int x; } energy_p;", r"'energy_p' is defined in the source"),
        (HEADER + "constant int energy_identity = 1;", r"'energy_identity' is defined in the source"),
        (kernel(VALUES + "energy_fini_gang_worker(s, r, v);"), r"energy_fini_gang_worker .*PORTBAR_REDUCTION_PARAM"),
        (
            "#define FINISH(level) energy_fini_##level(s, r, v)\n" + kernel(VALUES + "FINISH(gang);"),
            r"energy_fini_gang .*PORTBAR_REDUCTION_PARAM",
        ),
        (HEADER + '#include "portbar/device_barrier.h"\n', r"device_barrier\.h\" must come before"),
    ],
)
def test_a_source_that_does_not_suit_its_loops_is_refused(source, words):
    fields = {"total": Reduction("f4", "+"), "p": Reduction([("x", "i4"), ("y", "i4")], "+")}
    with pytest.raises(portbar.BuildError, match=words):
        check(source, (loop(**fields),))


CALL = "x = portbar_work_group_reduce_add(s, x);"
#: A kernel with all names that the calls below use.
CALLING = """#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
kernel void k(PORTBAR_GRID_PARAM, global float *out, uint n) {
    PORTBAR_ENTER(g);
    PORTBAR_REDUCTION_SCRATCH(s);
    float x = 1; uint a = 0, b = 0;
    energy_local v = energy_identity();
    energy_results r = {0};
    BODY
    out[0] = x + a + b;
}
"""


def misuses(body, *options):
    return read("program.cl", CALLING.replace("BODY", body), declarations((loop(),)), options).misuses


@needs_libclang
@pytest.mark.parametrize(
    "body",
    [
        f"if (get_local_id(0) == 0) {CALL}",
        "if (get_local_id(0) == 0) x = energy_reduce_worker_vector(s, v).total;",
        "uint id = (uint)get_local_id(0);\nif (id == 0u) {\n v = energy_reduce_worker(s, v);\n}",
        "if (get_local_id(1) != 3) { a = 1; { energy_fini_gang(&g, s, r, v); } }",
        "if (portbar_sub_group_local_id() > 0) a = 1; else x = portbar_device_broadcast(&g, s, x, 0u);",
        "const int i = get_local_id(0); if (i==0) x = portbar_work_group_scan_exclusive_max(s, x);",
    ],
)
def test_a_call_that_some_work_items_of_a_group_make_is_refused(body):
    (found,) = misuses(body)
    assert "out of the" in found.remedy


@needs_libclang
@pytest.mark.parametrize(
    "body",
    [
        f"{CALL} if (get_local_id(0) == 0) *out = x;",
        f"if (get_group_id(0) == 0) {CALL}",
        f"uint i = get_local_id(0); i = 3; if (i == 3) {CALL}",
        f"if (get_local_id(0) == 0) a = 1; else b = 1; {CALL}",
        "if (portbar_sub_group_local_id() == 0) energy_lock_worker(&g, s);",
        # Two heads of one branch, of which the compiler sees one.
        f"\n#ifdef ALONE\nif (get_local_id(0) == 0) {{\n#else\nif (n == 1) {{\n#endif\n a = 1; }} {CALL}",
        # A name that is a place only in another function.
        f"{{ uint id = get_local_id(0); b = id; }} for (uint id = 0; id < n; ++id) if (id == 0) {CALL}",
        f"if (PORTBAR_UNIFORM(get_local_id(0) == 0)) {CALL}",
    ],
)
def test_a_call_that_may_be_made_by_all_is_left_alone(body):
    assert not misuses(body)


#: Uses that are not definitions, and names in a function that hide those of a loop.
RIGHT = [
    kernel("energy_local a = energy_identity(), mine = energy_combine(a, a);"),
    HEADER + "/* float energy_combine(float a, float b) { } */",
    HEADER + "energy_local twice(energy_local x) { return energy_combine(x, x); }",
    HEADER + "energy_local twice(const energy_local x) { const energy_local y = x, z = energy_identity(); return y; }",
    HEADER + "kernel void energy_total(global float *out) { float energy_total = 1; out[0] = energy_total; }",
    kernel("float energy_local = 0;"),
    kernel("", "global float *energy_results, int n"),
    kernel("local int energy_identity[3];"),
    HEADER + 'constant char text[] = "typedef int energy_local;";',
    HEADER + "struct own { int energy_results; };",
    # A macro of the author's, which the header does not see.
    HEADER + "#define energy_results 3\n",
    kernel(VALUES + "energy_reduce_gang(s, r, v);", "PORTBAR_REDUCTION_PARAM"),
    "#define FIRST PORTBAR_REDUCTION_PARAM\n" + kernel(VALUES + "energy_reduce_gang(s, r, v);", "FIRST"),
]


@needs_libclang
@pytest.mark.parametrize("source", RIGHT)
def test_correct_code_is_left_alone(source):
    check(source, (loop(),))


@pytest.mark.device
def test_names_in_functions_and_parameters_in_macros_are_the_author_s(context, queue):
    """A parameter with the name of a type that the loop defines, and the hidden one by a build option."""
    source = (
        HEADER
        + """
    kernel void k(FIRST, global int *energy_results)
    {
        PORTBAR_REDUCTION_SCRATCH(s);
        energy_local v = energy_identity();
        v.total = 1;
        const int energy_combine = energy_reduce_worker_vector(s, v).total;
        energy_results[get_global_id(0)] = energy_combine;
    }
    """
    )
    declared = loop(total=INT)
    with skipped_where_refused():
        made = portbar.Program(context, source, options=["-DFIRST=PORTBAR_REDUCTION_PARAM"], reductions=[declared])
    out = to_device(queue, np.zeros(8, np.int32))
    made.kernel("k")(queue, (8,), (4,), out).wait()
    assert uints(queue, out)[:8].tolist() == [4] * 8


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


def test_fields_that_a_compiler_loses_after_a_byte_are_refused():
    cutting = replace(STRATEGY, workarounds=frozenset({quirks.BYTES_FIRST_LOSE_OTHERS}))
    byte, word = Reduction(np.int8, "+"), Reduction(np.int32, "+")
    with pytest.raises(portbar.UnsupportedFeatureError, match=r"'energy' after 'x'.* wider type first"):
        render_context(cutting, use_of(HEADER, (), (loop(x=byte, y=word),)))
    for right in (loop(x=byte), loop(x=word, y=byte)):
        render_context(cutting, use_of(HEADER, (), (right,)))


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
    except portbar.UnsupportedFeatureError as error:
        # A compiler that needs barriers around branches takes it, and portbar's reader does not.
        said = str(error).replace("Name the address spaces of pointers", "Hint")
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
        ("", ("-DPORTBAR_REDUCTION_LOCAL_SIZE=(2*8)",)),
        (
            "#ifdef MORE\n#define PORTBAR_REDUCTION_LOCAL_SIZE 64\n#else\n#define PORTBAR_REDUCTION_LOCAL_SIZE 16\n#endif",
            (),
        ),
        ("#ifndef PORTBAR_REDUCTION_LOCAL_SIZE\n#define PORTBAR_REDUCTION_LOCAL_SIZE (1 << 4)\n#endif", ()),
    ],
    ids=["a macro", "another base", "an expression", "alternatives", "a default"],
)
def test_a_size_may_be_written_as_in_c(context, queue, defined, options):
    body = "    out[get_global_id(0)] = portbar_work_group_reduce_add(scratch, out[get_global_id(0)]);"
    text = f'{defined}\n#include "portbar/reduction.h"\n' + kernel_text("k", "global int *out", body)
    kernel = program(context, text, ordering="work_group", options=options).kernel("k")
    (found,) = launched(queue, kernel, 1, 16, np.ones(16, np.int32))[1]
    assert found.tolist() == [16] * 16
    local_bytes(context, kernel.program)
    with pytest.raises(portbar.LaunchError, match=r"32 work-items.* for 16"):
        launched(queue, kernel, 1, 32, np.ones(32, np.int32))


@pytest.mark.device
@pytest.mark.parametrize(
    ("defined", "options"),
    [
        ("#define PORTBAR_REDUCTION_LOCAL_SIZE sizeof(uint4)", ()),
        ("", ("-DPORTBAR_REDUCTION_LOCAL_SIZE=2*8",)),
        (
            "#ifdef __VENDOR\n#define PORTBAR_REDUCTION_LOCAL_SIZE 8\n#else\n#define PORTBAR_REDUCTION_LOCAL_SIZE 16\n#endif",
            (),
        ),
    ],
    ids=["no number", "an expression", "a driver's alternatives"],
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
