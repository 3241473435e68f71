"""Overloads are left out only for types that no value of the source can have."""

from __future__ import annotations

import pytest

from portbar.primitives.reduction.use import use_of

CALL = "portbar_work_group_reduce_add(scratch, {})"


def told(before: str, value: str, *options: str) -> set[str] | None:
    """The types that a kernel's only reduction is told to have."""
    source = f"{before} {{ PORTBAR_REDUCTION_SCRATCH(scratch); out[0] = {CALL.format(value)}; }}"
    found = dict(use_of(source, options).known).get("add")
    return None if found is None else set(found)


@pytest.mark.parametrize(
    ("before", "value", "kinds"),
    [
        ("kernel void k(global float *a)", "a[get_global_id(0)]", {"float"}),
        ("kernel void k(const global float *restrict a)", "a[0]", {"float"}),
        ("kernel void k(__global const double* a)", "a[0]", {"double"}),
        ("kernel void k(global float a[])", "a[0]", {"float"}),
        ("kernel void k(global int *a, uint n)", "n", {"uint"}),
        ("kernel void k(global int *a, uint n)", "a[b[n]]", {"int"}),
        ("kernel void k(global int *a, uint n)", "(float)n", {"float"}),
        ("kernel void k(global int *a, uint n)", "(uint)get_local_id(0)", {"uint"}),
        ("kernel void k(global float *a, global float *b)", "a[0] * b[0]", {"float"}),
        ("kernel void k(global float *a)", "2.0f * a[0]", {"float"}),
        ("kernel void k(void)", "1u", {"uint"}),
        ("kernel void k(void)", "1", {"int"}),
        ("float other(float x) { return x; } kernel void k(double x)", "x", {"float", "double"}),
        ("kernel void k(void) { float y = 1, x = 2; }", "x", {"float"}),
        ("kernel void k(void) { for (uint i = 0, x = 1; ; ) ; }", "x", {"uint"}),
        ("struct s { int x; }; kernel void k(float x)", "x", {"int", "float"}),
        ("kernel void k(float x, float y) { y = x; f(y, x); y = 2 * x; if (x) return x; }", "x", {"float"}),
        ("kernel void k(global float *a) { a[1] = y * a[0] + a[0]; }", "a[0]", {"float"}),
        ("kernel __attribute__((reqd_work_group_size(8, 1, 1))) void k(float x)", "x", {"float"}),
        ("#define PORTBAR_REDUCTION_LOCAL_SIZE 64\nkernel void k(float x)", "x", {"float"}),
        ("kernel void k(global float *x) { *x = 1; y = *x; f(y, *x); }", "x[0]", {"float"}),
        # The doubtful ones.
        ("kernel void k(void)", "10000000000", None),
        ("enum { x }; kernel void k(float x)", "x", None),
        ("kernel void k(float x) { void (*x)(void); }", "x", None),
        ("kernel void k(float *x) { double *y, *x; }", "x[0]", None),
        ("kernel void k(global float *a)", "a[0] + 1", None),
        ("kernel void k(global short *a)", "a[0] + a[1]", None),
        ("kernel void k(global float *a)", "a", None),
        ("kernel void k(float4 a)", "a[0]", None),
        ("kernel void k(global float4 *a)", "a[0]", None),
        ("kernel void k(global float4 *a)", "a[0].x", None),
        ("kernel void k(float x)", "f(x)", None),
        ("kernel void k(float x)", "y", None),
        ("kernel void k(float x)", "-x", None),
        ("kernel void k(float x)", "x < x", None),
        ("kernel void k(float x)", "1.0", None),
        ("kernel void k(unsigned x)", "x", None),
        ("kernel void k(unsigned int x)", "x", None),
        ("kernel void k(long long x)", "x", None),
        ("kernel void k(bool x)", "x", None),
        ("float x(int y); kernel void k(void)", "x", None),
        ("kernel void k(float x) { mine x; }", "x", None),
        ("kernel void k(global float *x) { mine *x; }", "x[0]", None),
        ("kernel void k(float x) { mine y, x; }", "x", None),
        ("kernel void k(float x) { double *y, x; }", "x", None),
        ("kernel void k(float x) { struct { int y; } x; }", "x", None),
        ("kernel void k(float x) { typeof(y) z; }", "x", None),
        ("kernel void k(global float *a) { float a[2][2]; }", "a[0]", None),
        ("#define x y\nkernel void k(float x)", "x", None),
        ("#define float double\nkernel void k(float x)", "x", None),
        ("#define MINE double x\nkernel void k(float x) { MINE; }", "x", None),
        ("#define MINE(n) double n\nkernel void k(float x) { MINE(x); }", "x", None),
        ("#define SUM portbar_work_group_reduce_add\nkernel void k(float x)", "x", None),
        ("kernel void k(float x) { f(portbar_work_group_reduce_add); }", "x", None),
        (f"kernel void k(float x) {{ {CALL.format('z')}; }}", "x", None),
    ],
)
def test_values_have_the_types_that_their_declarations_tell(before, value, kinds):
    assert told(before, value) == kinds


@pytest.mark.parametrize("option", ["-Dx=y", "-D x=y", "-Dfloat=double", "-DF(x)=x"])
def test_build_options_that_change_names_leave_doubt(option):
    assert told("kernel void k(float x)", "x", option) is None
    assert told("kernel void k(float x)", "x", "-DOTHER=1") == {"float"}


def test_all_calls_of_an_operator_count_and_a_grid_precedes_the_value():
    source = f"""kernel void k(global float *a, global int *b, uint x)
    {{
        {CALL.format("a[0]")};
        portbar_device_reduce_add(&grid, scratch, b[0]);
        portbar_sub_group_scan_inclusive_max(scratch, x + y);
        portbar_work_group_broadcast(scratch, x, 0u);
    }}"""
    assert dict(use_of(source).known) == {"add": {"float", "int"}, "": {"uint"}}
