"""Habits of PyOpenCL's users: how a kernel is named, and which keywords and arguments a launch takes."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest

import portbar
from tests import support
from tests.launch.support import SOURCE, refused

pytestmark = pytest.mark.device

PLACES = """
kernel void place(global int *out, const int base)
{
    const size_t x = get_global_id(0) - get_global_offset(0), y = get_global_id(1) - get_global_offset(1);
    out[y * get_global_size(0) + x] = base + 100 * (int)get_global_id(1) + (int)get_global_id(0);
}
kernel void kernel_names(global int *out) { out[0] = 1; }
"""
GANGS = '#include "portbar/atomics.h"\nkernel void waits(PORTBAR_WAIT_PARAM, global int *out) { out[0] = 1; }\n'


@pytest.fixture
def program(context):
    return support.program(context, PLACES)


@pytest.fixture
def out(queue):
    return cl_array.zeros(queue, 12, np.int32)


def test_a_kernel_is_an_attribute_of_its_program(queue, program, out):
    assert program.place is program.kernel("place")
    assert "place" in dir(program)
    program.place(queue, (12,), None, out, np.int32(7)).wait()
    assert out.get().tolist() == [7 + i for i in range(12)]
    assert [one.function_name for one in program.all_kernels()] == ["kernel_names", "place"]
    assert (program.place.num_args, repr(program.place)) == (2, "<portbar.Kernel place(int* out, int base)>")


def test_names_that_users_are_shown_are_there_and_no_internals(context, queue, program, out):
    launch = program.place(queue, (12,), None, out, np.int32(7))
    for one in (program, launch):
        assert all(hasattr(one, name) for name in dir(one))
        assert not {"built", "states", "report_copy", "trace_copy"} & set(dir(one))
    with pytest.raises(portbar.Error, match="no trace"):
        launch.trace()


def test_attributes_of_a_program_come_before_its_kernels(program):
    assert program.kernel_names() == ("kernel_names", "place")
    with pytest.raises(AttributeError, match="'places'"):
        _ = program.places
    assert not hasattr(program, "__array__")


@pytest.mark.parametrize(("offset", "first"), [((0, 0), 0), ((5, 2), 205), ([np.int64(5), 0], 5)])
@pytest.mark.parametrize("local", [None, (2, 1), (1, 3)])
def test_a_global_offset_shifts_the_ids(queue, program, out, offset, first, local):
    for _ in range(3):
        out.fill(-1)
        program.place(queue, (4, 3), local, out, np.int32(0), global_offset=offset).wait()
        assert out.get().reshape(3, 4).tolist() == [[first + 100 * y + x for x in range(4)] for y in range(3)]
        # A launch without one is remembered by itself.
        program.place(queue, (4, 3), local, out.data, np.int32(0)).wait()
        assert out.get()[0] == 0
        program.place(queue, (4, 3), local, out.data, np.int32(0), global_offset=offset).wait()
        assert out.get()[0] == first


@pytest.mark.parametrize("offset", [(1,), (1, -1), (1.5, 0), 3, "ab", (1 << 64, 0), (0, (1 << 64) - 2)])
def test_a_global_offset_that_cannot_be_is_refused(queue, program, out, offset):
    words = ["'place'", "global_offset", "2 integers"]
    refused(words, program.place, queue, (4, 3), None, out, np.int32(0), global_offset=offset)


def test_kernels_with_hidden_parameters_take_no_global_offset(context, queue):
    data = support.filled(queue, 64)
    scale = support.kernel(context, SOURCE, "scale")
    words = ["'scale'", "PORTBAR_GRID_PARAM", "argument of its own"]
    refused(words, scale, queue, (4,), (4,), data, np.uint32(1), global_offset=(1,))
    waits = support.kernel(context, GANGS, "waits")
    refused(["'waits'", "PORTBAR"], waits, queue, (4,), (4,), data, global_offset=(1,))


def test_g_times_l_counts_work_groups(queue, program, out):
    program.place(queue, (2, 3), (2, 1), out, np.int32(0), g_times_l=True).wait()
    assert out.get()[-1] == 203
    refused(["'place'", "g_times_l", "local size"], program.place, queue, (2,), None, out, np.int32(0), g_times_l=True)


def test_an_empty_launch_executes_nothing_and_has_an_event(context, queue, program, out):
    scale = support.kernel(context, SOURCE, "scale")
    data = cl_array.zeros(queue, 8, np.float32)
    launches = [
        program.place(queue, (4, 0), None, out, np.int32(5), allow_empty_ndrange=True),
        program.place(queue, (0,), (2,), out, np.int32(5), g_times_l=True, allow_empty_ndrange=True),
        scale(queue, None, (4,), data, np.uint32(3), items=0),
        scale(queue, None, (4,), data.data, np.uint32(3), items=0, wait_for=[out.events[-1]]),
    ]
    for launch in launches:
        launch.wait()
        assert (launch.groups, launch.num_groups) == (0, 0)
    assert launches[0].event in out.events
    assert not out.get().any()
    assert not data.get().any()
    refused(["above 0"], program.place, queue, (4, 0), None, out, np.int32(5))
    refused(["takes 2 arguments"], program.place, queue, (0,), None, out, allow_empty_ndrange=True)
    refused(["items", "at least 0"], scale, queue, None, (4,), data, np.uint32(3), items=-1)


def test_arrays_without_dimensions_are_scalars(queue, program, out):
    for base in (np.array(3, np.int32), np.int32(4), np.array(5, np.int32)):
        program.place(queue, (12,), None, out.data, base).wait()
        assert out.get()[0] == base
    refused(["'base'", "float64", "np.int32"], program.place, queue, (12,), None, out.data, np.array(3.0))
    refused(["'base'", "ndarray"], program.place, queue, (12,), None, out.data, np.array([3], np.int32))
    refused(["'base'", "device's memory", "get()[()]"], program.place, queue, (12,), None, out.data, out)


def test_a_launch_has_what_its_event_has(context, program):
    queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    out = cl_array.zeros(queue, 12, np.int32)
    launch = program.place(queue, (12,), None, out, np.int32(0))
    launch.wait()
    assert launch.command_execution_status == cl.command_execution_status.COMPLETE
    assert launch.profile.end >= launch.profile.start
    assert launch.get_profiling_info(cl.profiling_info.END) == launch.event.profile.end
    assert launch.get_info(cl.event_info.COMMAND_TYPE) == cl.command_type.NDRANGE_KERNEL
    assert "kernel 'place'" in repr(launch)
    assert "complete" in repr(launch)
    cl.wait_for_events([launch.event])


@pytest.mark.parametrize(
    "given",
    [
        lambda folder: ["-I", folder, "-D", "MORE=5"],
        lambda folder: f"-I '{folder}' -DMORE='(2 + 3)'",
        lambda folder: f'-I"{folder}" -D MORE=5',
        lambda folder: (f'-I"{folder}"', "-DMORE=5"),
    ],
    ids=["a path", "single quotes", "double quotes", "a tuple"],
)
def test_options_are_those_of_pyopencl(context, queue, tmp_path, given):
    folder = tmp_path / "of mine"
    folder.mkdir()
    (folder / "seven.h").write_text("#define SEVEN 7\n", encoding="utf-8")
    source = "#include <seven.h>\nkernel void k(global int *out) { out[0] = SEVEN + MORE; }"
    program = portbar.Program(context, source, given(folder))
    out = cl_array.zeros(queue, 1, np.int32)
    program.k(queue, (1,), None, out).wait()
    assert out.get()[0] == 12


def test_options_may_be_none_and_are_refused_in_words(context):
    assert portbar.Program(context, PLACES, None).options == ()
    refused(["options=", "quotation"], portbar.Program, context, PLACES, "-DA='b", error=portbar.Error)
    refused(["options=", "contains 3"], portbar.Program, context, PLACES, ["-DA", 3], error=portbar.Error)
    refused(["options=", "not int"], portbar.Program, context, PLACES, 3, error=portbar.Error)


@pytest.mark.parametrize("kind", ["atomic_uint", "atomic_int", "atomic_float"])
def test_atomic_types_of_opencl_are_refused_by_their_line(context, kind):
    source = f"""
#include "portbar/atomics.h"
/* {kind} */
kernel void top(global {kind} *most) {{ portbar_atomic_fetch_max(most, 3); }}
"""
    plain = kind.removeprefix("atomic_")
    refused(["line 4", kind, f"declare {plain}"], portbar.Program, context, source, error=portbar.BuildError)


@pytest.mark.parametrize(
    "text",
    [
        "kernel void k(global atomic_uint *a) { portbar_atomic_fetch_add(&a[1], 1u); }",
        "typedef struct { uint x; atomic_uint n; } s; kernel void k(global s *a) { portbar_atomic_load(&(a + 1)->n); }",
        "kernel void k(volatile global atomic_uint *const a) { portbar_atomic_load(a + get_global_id(0)); }",
        "kernel void k(global uint *o) { local atomic_uint n[4]; portbar_atomic_store(n, 0u); }",
    ],
)
def test_atomic_types_are_refused_where_portbar_s_functions_take_them(context, text):
    source = f'#include "portbar/atomics.h"\n{text}'
    refused(
        [f"line {source.count(chr(10)) + 1}", "declare uint"],
        portbar.Program,
        context,
        source,
        error=portbar.BuildError,
    )


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("#define atomic_uint uint\nkernel void k(global atomic_uint *a) { portbar_atomic_fetch_add(a, 1u); }", ""),
        ("kernel void k(global atomic_uint *a) { portbar_atomic_load(a); }", "-D atomic_uint=uint -cl-std=CL1.2"),
        (
            "typedef uint atomic_uint;\nkernel void k(global atomic_uint *a) { portbar_atomic_load(a); }",
            "-cl-std=CL1.2",
        ),
        ("kernel void k(global atomic_uint *a) { portbar_atomic_fetch_add((global uint *)a, 1u); }", ""),
        ("kernel void k(global int *a) { int atomic_int = 3; portbar_atomic_fetch_add(a, atomic_int); }", ""),
        ("#if 0\nkernel void k(global atomic_uint *a) { portbar_atomic_load(a); }\n#endif\nkernel void l() {}", ""),
        (
            "uint f(global atomic_uint *a) { return *(global uint *)a; }\n#define LOAD(a) \\\n portbar_atomic_load(a)",
            "",
        ),
        ("#define UNUSED atomic_uint\nkernel void k(global uint *a) { portbar_atomic_load(a); }", ""),
        (
            "typedef struct { uint atomic_uint; } s;\nkernel void k(global s *a) { portbar_atomic_load(&a->atomic_uint); }",
            "",
        ),
    ],
    ids=["define", "option", "typedef", "cast", "variable", "left out", "macro", "unused", "member"],
)
def test_names_of_atomic_types_that_mean_something_else_are_taken(context, text, options):
    # OpenCL 1.2 does not have these types.
    strategy = {"atomics": "cl12"} if options else None
    try:
        portbar.Program(context, f'#include "portbar/atomics.h"\n{text}', options, strategy)
    except portbar.BuildError as error:
        if "unknown type name 'atomic_uint'" in str(error) and "define" not in text.partition("\n")[0]:
            pytest.skip("the device's language level has no such types")
        raise
