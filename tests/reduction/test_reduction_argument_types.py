"""Overloads are left out only for types that no value of the source can have."""

from __future__ import annotations

import numpy as np
import pytest

import portbar
from tests.reading.trees import needs_libclang, use_of
from tests.support import filled, skipped_where_refused, uints

HEADER = '#include "portbar/device_barrier.h"\n#include "portbar/reduction.h"\n'
CALL = "portbar_work_group_reduce_add(scratch, {})"


def told(head: str, value: str, *options: str, before: str = "") -> set[str] | None:
    """The types that a kernel's only reduction is told to have."""
    source = f"{HEADER}{before}\nkernel void k({head}) {{ PORTBAR_REDUCTION_SCRATCH(scratch); {CALL.format(value)}; }}"
    found = dict(use_of(source, options).known).get("add")
    return None if found is None else set(found)


@needs_libclang
@pytest.mark.parametrize(
    ("head", "value", "kinds"),
    [
        ("global float *a", "a[get_global_id(0)]", {"float"}),
        ("const global float *restrict a", "a[0]", {"float"}),
        ("__global const double* a", "a[0]", {"double"}),
        ("global float a[]", "a[0]", {"float"}),
        ("global int *a, uint n", "n", {"uint"}),
        ("global int *a, uint n", "a[a[n]]", {"int"}),
        ("global int *a, uint n", "(float)n", {"float"}),
        ("global int *a, uint n", "(uint)get_local_id(0)", {"uint"}),
        ("global float *a, global float *b", "a[0] * b[0]", {"float"}),
        ("global float *a", "2.0f * a[0]", {"float"}),
        ("void", "1u", {"uint"}),
        ("void", "1", {"int"}),
        # Types that follow from the language.
        ("void", "10000000000", {"long"}),
        ("global float *a", "a[0] + 1", {"float"}),
        ("global short *a", "a[0] + a[1]", {"int"}),
        ("global short *a", "a[0]", {"short"}),
        ("global float4 *a", "a[0].x", {"float"}),
        ("float x", "-x", {"float"}),
        ("float x", "x < x", {"int"}),
        ("float x", "1.0", {"double"}),
        ("float x", "max(x, 1.0f)", {"float"}),
        ("unsigned x", "x", {"uint"}),
        ("unsigned long x", "x", {"ulong"}),
        ("uint n", "get_local_id(0) * n", {"ulong"}),
        ("uint n", "as_float(n)", {"float"}),
        ("uint n", "n ? 1.5f : n", {"float"}),
        # Not scalars of OpenCL C, or unknown.
        ("bool x", "x", None),
        ("float4 a", "a", None),
        ("float x", "vendor_function(x)", None),
        ("float x", "undeclared", None),
    ],
)
def test_values_have_the_types_that_the_language_gives_them(head, value, kinds):
    assert told(head, value) == kinds


@needs_libclang
@pytest.mark.parametrize(
    ("before", "kinds"),
    [
        ("typedef float real; typedef real length; real f(length x) { return x; }", {"float"}),
        ("#define f(x) ((double)(x))", {"double"}),
        ("struct own { char y; ulong z; }; constant struct own s = {1, 2};\n#define f(x) (s.y + (uint)x)", {"uint"}),
        ("enum { f_of = 1 };\n#define f(x) f_of", {"int"}),
        ("#ifdef WIDE\n#define f(x) (double)(x)\n#else\n#define f(x) (uint)(x)\n#endif", {"uint"}),
        # A driver decides.
        ("#ifdef __VENDOR__\n#define f(x) (double)(x)\n#else\n#define f(x) (uint)(x)\n#endif", None),
    ],
)
def test_types_are_seen_through_names_and_macros(before, kinds):
    assert told("float x", "f(x)", before=before) == kinds


@needs_libclang
def test_build_options_count():
    assert told("T x", "x", "-DT=float") == {"float"}
    assert told("T x", "x", "-D T=ulong -DOTHER=1") == {"ulong"}
    assert told("float x", "F(x)", "-DF(x)=(int)x") == {"int"}


@needs_libclang
def test_all_calls_of_an_operator_count_and_a_grid_precedes_the_value():
    source = f"""{HEADER}
    float other(PORTBAR_SCRATCH_PARAM scratch, double x) {{ return portbar_sub_group_reduce_min(scratch, x); }}
    kernel void k(PORTBAR_GRID_PARAM, global float *a, global int *b, uint x)
    {{
        PORTBAR_ENTER(grid);
        PORTBAR_REDUCTION_SCRATCH(scratch);
        {CALL.format("a[0]")};
        portbar_device_reduce_add(&grid, scratch, b[0]);
        portbar_sub_group_scan_inclusive_max(scratch, (float4)(x));
        {{ long x = 1; portbar_sub_group_reduce_min(scratch, x); }}
        portbar_work_group_broadcast(scratch, x, 0u);
    }}"""
    found = {op: set(kinds) for op, kinds in use_of(source).known}
    assert found == {"add": {"float", "int"}, "min": {"double", "long"}, "": {"uint"}}


@pytest.mark.device
def test_values_that_only_the_language_gives_a_type(context, queue):
    """Names in two roles, pasted names of operators, and a type by a build option."""
    source = (
        HEADER
        + """
    #define SUM(level, x) portbar_##level##_reduce_add(scratch, x)
    struct own { T value; };
    kernel void k(PORTBAR_GRID_PARAM, global T *out)
    {
        PORTBAR_ENTER(grid);
        PORTBAR_REDUCTION_SCRATCH(scratch);
        struct own x = {2.5f};
        out[portbar_global_id(&grid)] = SUM(work_group, x.value * 2);
    }
    """
    )
    with skipped_where_refused():
        made = portbar.Program(context, source, options=["-DT=float"])
    out = filled(queue, 8)
    made.kernel("k")(queue, (4,), (4,), out).wait()
    assert uints(queue, out)[:4].view(np.float32).tolist() == [20.0] * 4
    assert "reduce_add(private portbar_scratch *scratch, int" not in made.rendered(queue.device)


@pytest.mark.device
@pytest.mark.parametrize("value", ["M_PI_F", "i ? FLT_EPSILON : M_PI_F", "i == 3 ? M_PI_F : -INFINITY", "i * 0x1p-1f"])
def test_constants_of_opencl_have_overloads_though_no_name_says_their_type(context, queue, value):
    source = f"""{HEADER}
    kernel void k(PORTBAR_GRID_PARAM, global uint *out)
    {{
        PORTBAR_ENTER(grid);
        PORTBAR_REDUCTION_SCRATCH(scratch);
        const uint i = get_local_id(0);
        out[i] = 100 * portbar_work_group_reduce_max(scratch, {value});
    }}"""
    with skipped_where_refused():
        made = portbar.Program(context, source)
    out = filled(queue, 8)
    made.kernel("k")(queue, (8,), (8,), out).wait()
    assert uints(queue, out).tolist() == [350 if value.startswith("i *") else 314] * 8
