"""A kernel that cannot be run by another one is refused by name and line before anything runs."""

from __future__ import annotations

import re

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.primitives.headers import declarations
from portbar.primitives.run_kernels.runs import KernelFile, expanded
from tests.support import skipped_where_refused

HEADER = '#include "portbar/run_kernels.h"\n'
KERNELS = """
kernel void twice(global int *a) { a[get_global_id(0)] *= 2; }
kernel void count(global int *a)
{
    local int sum;
    if (get_local_id(0) == 0) sum = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    atomic_inc(&sum);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) == 0) a[get_group_id(0)] = sum;
}
__attribute__((reqd_work_group_size(8, 2, 1))) kernel void places(global int *a)
{
    a[get_global_id(1) * 16 + get_global_id(0)] = get_local_id(1) * 100 + get_local_id(0);
}
"""


def driver(statements: str, parameters: str = "global int *a, int n") -> str:
    body = f"    PORTBAR_ENTER(grid);\n    {statements}\n"
    return f"kernel void driver(PORTBAR_GRID_PARAM, {parameters})\n{{\n{body}}}\n"


def text_of(source: str) -> str:
    return expanded(KernelFile("own.cl", source), (), declarations())


@pytest.mark.parametrize(
    ("kernels", "said"),
    [
        (
            "kernel void odd(global int *a)\n{\n    a[0] = sub_group_reduce_add(1);\n}\n",
            r"own\.cl, line 9: kernel 'odd' cannot be run by another kernel: own\.cl, line 4: .*sub_group_reduce_add",
        ),
        (
            "kernel void odd(global int *a, write_only image2d_t image) { a[0] = 1; }\n",
            r"own\.cl, line 6: kernel 'odd' .*: own\.cl, line 2: the image 'image' is write_only",
        ),
        (
            "typedef struct { int x; } pair;\nkernel void odd(global int *a, pair b) { a[0] = b.x; }\n",
            r"own\.cl, line 7: kernel 'odd' .*: own\.cl, line 3: its parameter 'b' is a structure",
        ),
        ("kernel void odd(void) { }\n", r"own\.cl, line 6: kernel 'odd' .*takes no arguments"),
        (
            "global int kept;\nkernel void odd(global int *a) { a[0] = ++kept; }\n",
            r"own\.cl, line 7: kernel 'odd' .*: own\.cl, line 2: the variable 'kept' keeps its value",
        ),
    ],
)
def test_kernel_that_cannot_be_run_is_named_with_both_lines(kernels: str, said: str) -> None:
    source = HEADER + kernels + driver("PORTBAR_RUN(&grid, odd, (n), (), a);")
    with pytest.raises(portbar.UnsupportedFeatureError, match=said):
        text_of(source)


def test_unknown_kernel_is_named_with_those_that_there_are() -> None:
    with pytest.raises(portbar.Error, match=r"own\.cl, line 20: .* no 'twise'; such kernels: count, places, twice"):
        text_of(HEADER + KERNELS + driver("PORTBAR_RUN(&grid, twise, (n), (), a);"))
    with pytest.raises(portbar.Error, match="without a grid, and there is no 'driver'"):
        text_of(HEADER + KERNELS + driver("PORTBAR_RUN(&grid, driver, (n), (), a);"))


def test_comments_and_kernels_that_are_not_run_do_not_matter() -> None:
    source = HEADER + KERNELS + driver("/* PORTBAR_RUN(&grid, nothing, (n), (), a); */ (void)n;")
    assert text_of(source) == source
    found = text_of(source.replace("(void)n;", "PORTBAR_RUN(&grid, twice, (n), (), a);"))
    assert "portbar_run_twice(" in found
    assert "portbar_run_count(" not in found


def test_lines_stay_those_of_the_author() -> None:
    source = HEADER + KERNELS + driver("PORTBAR_RUN(&grid, twice, (n), (), a);")
    found = text_of(source)
    assert found.endswith('#line 2 "own.cl"\n' + source.partition("\n")[2])


def test_kernels_of_two_files_of_one_name_are_refused() -> None:
    one, other = (KernelFile(name, KERNELS) for name in ("one.cl", "other.cl"))
    source = KernelFile("own.cl", HEADER + driver("PORTBAR_RUN(&grid, twice, (n), (), a);"))
    with pytest.raises(portbar.Error, match=r"one\.cl and other\.cl both have a kernel"):
        expanded(source, (), declarations(), [one, other])


@pytest.mark.device
def test_a_kernel_in_a_macro_that_cannot_be_run_fails_to_compile(context: cl.Context) -> None:
    odd = "kernel void odd(global int *a, write_only image2d_t image) { a[0] = 1; }\n"
    macro = "#define RUN(kernel) PORTBAR_RUN(&grid, kernel, (n), (), a)\n"
    with skipped_where_refused():
        portbar.Program(context, HEADER + KERNELS + odd + macro + driver("RUN(twice);"))
    with pytest.raises(portbar.BuildError, match="the image 'image' is write_only"):
        portbar.Program(context, HEADER + KERNELS + odd + macro + driver("RUN(odd);"))


@pytest.mark.device
@pytest.mark.parametrize(
    ("run", "said"),
    [
        ("count, (n), (16), a", "line 20 runs a kernel in work-groups of 16 work-items, and the launch .* of 8"),
        ("count, (16, 16), (4, 2), a", None),
        ("count, (n), (4, 2), a", "line 20: the size is not a multiple of the local size"),
        ("count, (n), (), a", None),
        ("count, (n + 1), (8), a", "line 20: the size is not a multiple of the local size"),
        ("twice, (n + 1), (8), a", "line 20: the size is not a multiple of the local size"),
        ("places, (16, 16), (4, 4), a", "line 20 runs a kernel in work-groups of 16 work-items"),
        ("places, (16, 16), (), a", None),
        ("twice, (0), (), a", None),
        ("twice, (n, 0), (8), a", None),
        ("count, (0), (), a", None),
    ],
)
def test_local_size_that_does_not_fit_is_an_error_of_the_launch(
    run: str, said: str | None, context: cl.Context, queue: cl.CommandQueue
) -> None:
    source = HEADER + KERNELS + driver(f"if (PORTBAR_RUN(&grid, {run})) PORTBAR_RUN(&grid, twice, (n), (), a);")
    with skipped_where_refused():
        program = portbar.Program(context, source)
    values = np.arange(256, dtype=np.int32)
    buffer = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=values)
    launch = program.driver(queue, None, (8,), buffer, np.int32(256))
    found = np.empty_like(values)
    if said is not None:
        with pytest.raises(portbar.Error, match=re.compile(said)):
            launch.wait()
        cl.enqueue_copy(queue, found, buffer)
        assert (found == values).all(), "nothing ran"
        return
    launch.wait()
    cl.enqueue_copy(queue, found, buffer)
    x, y = np.arange(16), np.arange(16)[:, None]
    expected = {
        "count": np.where(values < 256 // 8, 8, values),
        "places": (y % 2 * 100 + x % 8).ravel(),
        "twice": values,
    }[run.partition(",")[0]]
    if "(0)" in run or "(n, 0)" in run:
        expected = values
    elif "(16, 16)" in run and "count" in run:
        expected = np.where(values < 4, 8, values)
    elif run.startswith("twice"):
        expected = 2 * values
    assert (found == 2 * expected).all()
