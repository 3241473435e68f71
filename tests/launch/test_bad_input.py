"""Invalid input is refused before it runs, with an error that names the cause and the remedy."""

from __future__ import annotations

import os
import reprlib
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

cl = pytest.importorskip("pyopencl")

import pyopencl.array as cl_array  # noqa: E402

import portbar  # noqa: E402
from portbar.choices import profile  # noqa: E402
from portbar.device import icd  # noqa: E402
from portbar.device.facts import address_of, list_devices  # noqa: E402
from portbar.launching import arguments, program  # noqa: E402
from portbar.records import cache  # noqa: E402
from portbar.survey.measuring.session import context_of  # noqa: E402
from tests import support  # noqa: E402 (needs PyOpenCL)
from tests.checkout import ROOT  # noqa: E402

HEADER = '#include "portbar/device_barrier.h"\n'
SOURCE = (
    HEADER
    + """
kernel void meet(PORTBAR_GRID_PARAM, global float *data, const uint n, local float *shelf)
{
    PORTBAR_ENTER(grid);
    portbar_device_barrier(&grid);
    if (portbar_global_id(&grid) < n)
        data[portbar_global_id(&grid)] = 1.0f;
}

kernel void scale(PORTBAR_GRID_PARAM, global float *data, const uint n)
{
    PORTBAR_ENTER(grid);
    portbar_device_barrier(&grid);
    data[portbar_global_id(&grid)] = n;
}

kernel __attribute__((reqd_work_group_size(4, 2, 1))) void shaped(PORTBAR_GRID_PARAM, global float *data)
{
    PORTBAR_ENTER(grid);
    portbar_device_barrier(&grid);
    data[portbar_global_id(&grid)] = 2.0f;
}

kernel void plain(global float *data) { data[get_global_id(0)] = 3.0f; }
"""
)


class NoPlatforms(cl.LogicError):
    """PyOpenCL's error if the loader finds no driver."""

    code = cl.status_code.PLATFORM_NOT_FOUND_KHR


def refuse():
    raise NoPlatforms("clGetPlatformIDs failed: PLATFORM_NOT_FOUND_KHR")


@pytest.mark.parametrize("get_platforms", [refuse, list])
def test_no_platform_at_all_says_what_would_help(monkeypatch, get_platforms):
    # Restored, since the loader has not really been asked.
    monkeypatch.setattr(icd, "_loaded", icd._loaded)
    monkeypatch.setattr(cl, "get_platforms", get_platforms)
    with pytest.raises(portbar.DeviceError, match=r"portbar\[cpu\]"):
        icd.load_platforms()
    with pytest.raises(portbar.DeviceError, match=r"portbar\[cpu\]"):
        list_devices()


@pytest.fixture
def meet(context):
    return support.kernel(context, SOURCE, "meet")


@pytest.fixture
def scale(context):
    return support.kernel(context, SOURCE, "scale")


@pytest.fixture
def data(queue, scale):
    """Room for launches of local size (4,), or (4, 2), that take as many groups as the device holds."""
    return support.filled(queue, 8 * support.room(scale, queue, (4,)))


def refused(words, call, *args, error=portbar.LaunchError, **keywords):
    """Check that a call is refused with an error that has all the words; return it."""
    with pytest.raises(error) as caught:
        call(*args, **keywords)
    for word in words:
        assert word in str(caught.value), word
    return caught.value


on_device = pytest.mark.device


@on_device
def test_a_local_size_that_does_not_match_reqd_work_group_size(context, queue, data):
    shaped = support.kernel(context, SOURCE, "shaped")
    for local in ((8,), (2, 4), (4, 2, 2), (4,)):
        refused(["'shaped'", "reqd_work_group_size", "(4, 2, 1)", str(local)], shaped, queue, None, local, data)
    refused(["reqd_work_group_size"], shaped.occupancy, queue, (8,))
    shaped(queue, None, (4, 2), data).wait()


@on_device
def test_sizes_above_what_the_device_has(queue, scale, data):
    most, bound = queue.device.max_work_group_size, scale.occupancy(queue, (4,)).groups
    name, one = queue.device.name.strip(), np.uint32(1)
    refused(["'scale'", "limit", str(2 * most), name], scale, queue, None, (2 * most,), data, one)
    refused(["limit"], scale.occupancy, queue, (most, 2))
    words = ["'scale'", str(bound + 1), f"runs at most {bound} concurrently", name]
    refused(words, scale, queue, None, (4,), data, one, num_groups=bound + 1)
    refused(["concurrently"], scale, queue, None, (4,), data, one, num_groups=1 << 40)
    refused(["'scale'", "work-groups in one launch"], scale, queue, (1 << 26,), (1,), data, one)


#: Global and local size, keywords, words of the error.
SIZES = [
    *((None, local, {}, ["local size"]) for local in ((0,), (-8,), (), (1, 1, 1, 1), (2.5,), 8, "8", (None,), "ab")),
    *((None, (n,), {}, ["local size"]) for n in (float("inf"), float("nan"))),
    (None, None, {}, ["'scale'", "local size", "(256,)"]),
    *((None, (4,), {"num_groups": n}, ["'scale'", str(n), "at least 1"]) for n in (0, -1, -(1 << 40))),
    *((None, (4,), {"num_groups": n}, ["num_groups"]) for n in (1.5, "2")),
    ((4,), (4,), {"num_groups": 1}, ["not both"]),
    *((size, (4,), {}, ["global size"]) for size in ((9,), (8, 8), (0,), (-4,), ("8",), "ab", (None,))),
    *(((n,), (4,), {}, ["global size"]) for n in (float("inf"), float("nan"))),
]


@on_device
@pytest.mark.parametrize(("size", "local", "more", "words"), SIZES, ids=str)
def test_sizes_that_cannot_be(queue, scale, data, size, local, more, words):
    refused(words, scale, queue, size, local, data, np.uint32(1), **more)


TYPEDEFS = (
    HEADER
    + """
typedef float real;
typedef real extent;   /* typedef double extent; */
#ifdef WIDE
typedef ulong index;
#else
typedef unsigned int index;
#endif
kernel void sized(PORTBAR_GRID_PARAM, global float *data, const extent by, const index at)
{
    PORTBAR_ENTER(grid);
    data[at] = by;
}
"""
)


#: Kernel, its arguments in place of right ones, words of the error.
ARGUMENTS = [
    *(("scale", {}, count, ["takes 2 arguments", f"{count} given"]) for count in (0, 1, 3, 4)),
    *(
        (kernel, {index: wrong}, None, [f"argument {index}", *words])
        for kernel, index, wrong, words in [
            ("meet", 1, 5, ["'n'", "Python int", "np.uint32(5)"]),
            ("meet", 1, 5.0, ["Python float"]),
            ("meet", 1, np.int64(5), ["int64", "np.uint32"]),
            ("meet", 1, np.float32(5), ["float32", "uint"]),
            ("meet", 1, None, ["'n'"]),
            ("meet", 0, np.zeros(4, np.float32), ["'data'", "NumPy array", "to_device"]),
            ("meet", 0, np.uint32(1), ["pointer"]),
            ("meet", 0, 7, ["pointer"]),
            ("meet", 0, "text", ["pointer"]),
            ("meet", 0, [1, 2], ["'data'", "list", "pointer", "pyopencl.Buffer"]),
            ("meet", 0, object(), ["'data'", "object", "pointer"]),
            ("meet", 2, np.float32(1), ["'shelf'", "LocalMemory"]),
            ("meet", 2, 64, ["LocalMemory"]),
            # The author's own names of types.
            ("sized", 1, np.float64(2.5), ["'by'", "float64", "np.float32"]),
            ("sized", 1, np.int32(2), ["int32"]),
            ("sized", 1, 2.5, ["Python float"]),
            ("sized", 2, np.uint16(1), ["'at'", "uint16", "uint32"]),
        ]
    ),
]


@on_device
@pytest.mark.parametrize(("name", "wrong", "count", "words"), ARGUMENTS)
def test_arguments_of_a_wrong_number_or_type(context, queue, data, name, wrong, count, words):
    """Also after right ones."""
    made = support.kernel(context, TYPEDEFS if name == "sized" else SOURCE, name)
    right = {
        "scale": [data, np.uint32(1)],
        "meet": [data, np.uint32(1), cl.LocalMemory(64)],
        "sized": [data, np.float32(2.5), np.uint32(1)],
    }[name]
    made(queue, None, (4,), *right).wait()
    assert name != "sized" or support.uints(queue, data)[:3].view(np.float32).tolist() == [0, 2.5, 0]
    given = [wrong.get(index, one) for index, one in enumerate(right)]
    given = given if count is None else [*given, np.uint32(2), np.uint32(3)][:count]
    refused([f"'{name}'", *words], made, queue, None, (4,), *given)


def test_names_of_scalar_types_are_followed_to_what_they_may_stand_for():
    found = arguments.scalar_typedefs(
        "typedef float real; typedef real length;\n#if X\ntypedef uint n;\n#else\ntypedef ulong n;\n#endif\n"
        "// typedef double real;\ntypedef unsigned  int m; typedef float4 v; typedef struct { int a; } s;"
        "typedef a b; typedef b a;"
    )
    assert found == {"real": ("float",), "length": ("float",), "n": ("uint", "ulong"), "m": ("unsigned int",)}


@on_device
@pytest.mark.parametrize("size", [1 << 40, 1 << 62, None])
def test_more_local_memory_than_the_device_has(queue, meet, data, size):
    """The kernel's own, of which a grid has some, counts as well."""
    handle = cl.Kernel(meet.program.built(queue.device, meet.program.strategy(queue.device)), meet.name)
    own = handle.get_work_group_info(cl.kernel_work_group_info.LOCAL_MEM_SIZE, queue.device)
    if size is None and not own:
        pytest.skip("the runtime does not report a kernel's local memory")
    size = size or queue.device.local_mem_size
    words = ["'meet'", f"{size} bytes of local memory", f"has {queue.device.local_mem_size}", "LocalMemory"]
    args = data, np.uint32(1), cl.LocalMemory(size)
    for call in ((meet, queue, None), (meet, queue, (4,)), (meet.occupancy, queue)):
        refused(words, *call, (4,), *args)
    refused(words, meet.discover, queue, (4,), 1, *args)


OBJECTS = """
kernel void look(read_only image2d_t picture, const sampler_t how, global float4 *out)
{
    out[0] = read_imagef(picture, how, (int2)(0, 0));
}
"""


@on_device
@pytest.mark.parametrize("index", [0, 1])
def test_an_argument_that_is_not_an_image_or_a_sampler(context, queue, index):
    """Some drivers end the process over it."""
    if not queue.device.image_support:
        pytest.skip("the device has no images")
    look = support.kernel(context, OBJECTS, "look")
    pixels = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT)
    out = support.filled(queue, 4)
    picture = cl.create_image(context, cl.mem_flags.READ_ONLY, pixels, shape=(4, 4))
    how = cl.Sampler(context, False, cl.addressing_mode.CLAMP, cl.filter_mode.NEAREST)
    name, kind = [("'picture'", "pyopencl.Image"), ("'how'", "pyopencl.Sampler")][index]
    for wrong in (None, out, np.uint32(1), 7):
        args = [picture, how, out]
        args[index] = wrong
        refused(["'look'", f"argument {index}", name, kind], look, queue, (1,), (1,), *args)
    look(queue, (1,), (1,), picture, how, out).wait()


@on_device
@pytest.mark.parametrize(
    ("groups", "patience", "words"),
    [
        (0, None, ["at least 1"]),
        (-1, None, ["at least 1"]),
        ("a", None, ["'a'", "integer"]),
        (2.5, None, ["2.5"]),
        (10**9, None, ["1000000000"]),
        *((1, bad, ["patience", reprlib.repr(bad)]) for bad in (-1, float("nan"), "long", float("inf"), 10**400, 1j)),
    ],
)
def test_a_discovery_of_groups_or_with_a_patience_that_cannot_be(queue, scale, data, groups, patience, words):
    refused(["'scale'", *words], scale.discover, queue, (4,), groups, data, np.uint32(1), patience=patience)


@on_device
def test_a_discovery_starts_no_more_groups_than_may_wait_for_each_other(context, queue):
    limited = replace(
        support.program(context, SOURCE).strategy(queue.device), max_groups=1, max_groups_reason="so it is"
    )
    made = portbar.Program(context, SOURCE, strategy=limited).kernel("scale")
    refused(["2 work-groups", "the limit of 1", "so it is"], made.discover, queue, (4,), 2)
    assert made.discover(queue, (4,), 1).num_groups == 1


@on_device
def test_a_launch_is_accepted_as_its_event_in_a_wait_list_and_nothing_else_is(queue, scale, data):
    first = scale(queue, None, (4,), data, np.uint32(1))
    scale(queue, None, (4,), data, np.uint32(2), wait_for=[first, first.event]).wait()
    for alone in (first, first.event):
        refused(["'scale'", "wait_for", "list"], scale, queue, None, (4,), data, np.uint32(1), wait_for=alone)
    refused(["'scale'", "wait_for", "7"], scale, queue, None, (4,), data, np.uint32(1), wait_for=[7])
    refused(["'scale'", "wait_for", "not int"], scale, queue, None, (4,), data, np.uint32(1), wait_for=7)


@on_device
def test_an_argument_that_is_not_a_queue(context, scale, data):
    for call in (scale, scale.occupancy, scale.discover):
        for other in (None, context):
            refused(["pyopencl.CommandQueue", type(other).__name__], call, other, (4,), (4,), data, np.uint32(1))


@on_device
@pytest.mark.parametrize(
    ("more", "error", "words"),
    [
        ({"devices": []}, portbar.DeviceError, ["devices="]),
        ({"devices": 7}, portbar.Error, ["devices= must be a list, not int"]),
        ({"devices": ["CPU"]}, portbar.DeviceError, ["a list of pyopencl.Device, but it contains 'CPU'"]),
        ({"context": None}, portbar.Error, ["a pyopencl.Context, not NoneType"]),
        ({"options": None}, portbar.Error, ["options= must be a list, not NoneType"]),
        ({"options": b"-DX"}, portbar.Error, ["options= must be a list, not bytes"]),
        ({"options": [7]}, portbar.Error, ["options= must hold build options as strings, but it contains 7"]),
        ({"options": ["-DX\0"]}, portbar.Error, ["but it contains '-DX\\x00'"]),
        ({"options": ["-DX=\ud800"]}, portbar.Error, ["but it contains '-DX=\\ud800'"]),
        ({"require": 7}, portbar.Error, ["require= must be a list, not int"]),
        ({"reductions": 7}, portbar.Error, ["reductions= must be a list, not int"]),
        ({"source": None}, portbar.Error, ["text"]),
        ({"source": b"kernel void k(void) { }"}, portbar.Error, ["text"]),
        ({"source": "kernels/stencil.cl"}, portbar.Error, ["'kernels/stencil.cl'", "pathlib.Path"]),
        ({"strategy": "tree"}, portbar.UnsupportedFeatureError, ["'tree'", "mapping", "device_barrier"]),
        (
            {"strategy": {"device_barrier": "wishful"}},
            portbar.UnsupportedFeatureError,
            ["'wishful'", "counter_backoff"],
        ),
        ({"require": ["teleport"]}, portbar.UnsupportedFeatureError, ["'teleport'"]),
        (
            {"source": '\n#include "portbar/device_barriers.h"\n'},
            portbar.RenderError,
            ["line 2", "portbar/device_barriers.h", "did you mean portbar/device_barrier.h"],
        ),
    ],
)
def test_a_program_that_cannot_be(context, more, error, words):
    support.program(context, SOURCE)
    refused(words, portbar.Program, **{"context": context, "source": SOURCE, **more}, error=error)


@pytest.mark.parametrize("wrong", [None, "cpu", 3])
def test_describe_of_an_argument_that_is_not_a_device(wrong):
    with pytest.raises(portbar.DeviceError, match=r"describe requires a pyopencl\.Device"):
        portbar.describe(wrong)


@on_device
def test_objects_of_another_context(device, queue, scale, data):
    theirs = cl.Context([device])  # Intel's queues do not keep their context alive
    other = cl.CommandQueue(theirs)
    foreign, array = support.filled(other, 64), cl_array.zeros(other, 64, np.float32)
    words, one = ["argument 0", "'scale'", "another context", "allocate"], np.uint32(1)
    for _ in range(2):
        refused(words, scale, queue, None, (4,), foreign, one)
        refused(words[:3], scale, queue, None, (4,), array, one)
        refused(["'scale'", "another context"], scale, other, None, (4,), data, one)
        scale(queue, None, (4,), data, one).wait()


@on_device
def test_a_queue_of_a_device_that_the_program_was_not_built_for(context, device, queue, data):
    support.program(context, SOURCE)
    other = next(
        (found for platform in cl.get_platforms() for found in platform.get_devices() if found != device), None
    )
    if other is None:
        pytest.skip("the machine has one OpenCL device")
    theirs = cl.Context([other])
    foreign = cl.CommandQueue(theirs)
    words = ["not built for", other.name.strip(), device.name.strip()]
    made = support.kernel(context, SOURCE, "scale")
    refused(words, made, foreign, None, (4,), data, np.uint32(1), error=portbar.DeviceError)
    refused(words, made.occupancy, foreign, (4,), error=portbar.DeviceError)
    words = [other.name.strip(), "not a device of"]
    refused(words, portbar.Program, context, SOURCE, devices=[other], error=portbar.DeviceError)


@on_device
def test_global_size_none_without_a_grid(context, queue, data):
    plain = support.kernel(context, SOURCE, "plain")
    refused(["'plain'", "no grid", "PORTBAR_GRID_PARAM"], plain, queue, None, (4,), data)
    refused(["'plain'", "no grid"], plain, queue, (4,), (4,), data, num_groups=1)
    refused(["'plain'", "no grid"], plain.occupancy, queue, (4,))


@on_device
def test_a_kernel_that_does_not_exist_is_named_beside_those_that_do(context):
    made = support.program(context, SOURCE)
    refused(["'meat'", "meet", "plain", "scale", "shaped"], made.kernel, "meat", error=portbar.Error)


def build(context, source, **keywords):
    """Build a source that differs from `SOURCE`; skip where the device is refused altogether."""
    support.program(context, SOURCE)
    return portbar.Program(context, source, **keywords)


@on_device
def test_a_syntax_error_on_line_12_says_12_and_everything_else_one_needs(context, queue):
    lines = ["", "/* line 2", "   and 3 */", HEADER.strip(), "kernel void k(PORTBAR_GRID_PARAM, global int *data)", "{",
             "    PORTBAR_ENTER(grid);", "    portbar_device_barrier(&grid);", "    int a = 1;", "    int b = 2;",
             "    int c = 3;", "    data[0] = a + b + c + missing_here;", "}", ""]  # fmt: skip
    assert "missing_here" in lines[11]
    options = ("-DSIZE=4",)
    error = refused(
        ["missing_here", "-DSIZE=4"], build, context, "\n".join(lines), error=portbar.BuildError, options=options
    )
    assert "missing_here" in error.log
    where = [line for line in str(error).splitlines() if "missing_here" in line and "error" in line]
    assert any(":12:" in line or "line 12" in line for line in where), str(error)
    assert error.device == queue.device.name.strip()
    assert error.device in str(error)
    assert "-DSIZE=4" in error.options
    assert error.source_path in str(error)
    saved = Path(error.source_path)
    try:
        text = saved.read_text(encoding="utf-8")
        assert lines[11] in text
        assert "#define PORTBAR_ENTER(" in text
        assert "#include" not in text
    finally:
        saved.unlink()


@on_device
def test_a_byte_order_mark_and_comments_beside_an_include_are_valid(context, queue, tmp_path):
    source = f"""{HEADER.strip()} /* a comment that is
    ended here */ kernel void k(global int *p) {{ p[0] = 42; }}
    """
    path = tmp_path / "from_windows.cl"
    path.write_text(source, encoding="utf-8-sig")
    for given in (path, "\ufeff" + source):
        out = support.filled(queue, 1)
        build(context, given).kernel("k")(queue, (1,), None, out).wait()
        assert support.uints(queue, out).tolist() == [42]


@on_device
@pytest.mark.parametrize(
    ("lines", "line"),
    [
        (["#if 0", HEADER.strip(), "#endif", "", "kernel void k(global int *p) { p[0] = nothing; }"], 5),
        ([HEADER, "", "kernel void k(global int *p) { p[0] = nothing; }"], 4),
    ],
    ids=["after a header that is not compiled", "after a header"],
)
def test_a_source_file_and_the_author_s_lines_are_named_in_the_log(context, tmp_path, lines, line):
    path = tmp_path / "stencil_of_mine.cl"
    path.write_text("\n".join(lines), encoding="utf-8")
    error = refused(["nothing", f"stencil_of_mine.cl:{line}:"], build, context, path, error=portbar.BuildError)
    Path(error.source_path).unlink()


@on_device
@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("\n/* \0 */", ["program.cl, line 2", "null character"]),
        ("// \ud800", ["program.cl is not UTF-8", "at 3"]),
        (b"// \xe9", ["latin.cl is not UTF-8", "at 3", "save it as UTF-8"]),
    ],
    ids=["a null character", "half a pair", "a file in Latin-1"],
)
def test_a_source_that_no_driver_reads_whole(context, tmp_path, source, words):
    if isinstance(source, bytes):
        (tmp_path / "latin.cl").write_bytes(source)
        source = tmp_path / "latin.cl"
    refused(words, portbar.Program, context, source, error=portbar.Error)


ENTERED = "PORTBAR_ENTER(grid); portbar_device_barrier(&grid);"


def one_kernel(parameters, body):
    return f"{HEADER}kernel void k({parameters}) {{ {body} }}"


GRID = "PORTBAR_GRID_PARAM"
LATE = ["line 2", "'k'", "before PORTBAR_ENTER", "surplus work-groups"]
NO_GRID = ["Hint: ", "'mesh'", "PORTBAR_GRID_PARAM", "PORTBAR_ENTER(mesh);"]
#: Fault of a grid -> the source, and words of the error.
MISUSES = {
    "no parameter": (one_kernel("global int *p", ENTERED), ["PORTBAR_GRID_PARAM", "first"]),
    "entered twice": (one_kernel(GRID, f"PORTBAR_ENTER(other); {ENTERED}"), ["PORTBAR_ENTER", "twice"]),
    "twice by one name": (one_kernel(GRID, f"PORTBAR_ENTER(grid); {ENTERED}"), ["PORTBAR_ENTER", "twice"]),
    "never entered": (one_kernel(f"{GRID}, global int *p", "p[0] = 1;"), ["PORTBAR_ENTER", "first statement"]),
    "entered late": (one_kernel(f"{GRID}, global int *p", f"*p = 1; {ENTERED}"), LATE),
    "entered without a semicolon": (one_kernel(GRID, "PORTBAR_ENTER(grid)\nf();"), ["line 2", "semicolon"]),
    "no grid": (one_kernel("global int *p", "portbar_device_barrier( &mesh ); p[0] = 1;"), NO_GRID),
    "no folder": (
        one_kernel(GRID, ENTERED).replace("portbar/", "", 1),
        ["with their folder", "portbar/device_barrier.h"],
    ),
    "no header": (f"kernel void k({GRID}) {{ {ENTERED} }}", ['#include "portbar/device_barrier.h"']),
}


@on_device
@pytest.mark.parametrize(("source", "words"), MISUSES.values(), ids=MISUSES)
def test_a_grid_that_is_used_wrongly_does_not_build(context, source, words):
    error = refused(words, build, context, source, error=portbar.BuildError)
    if error.source_path:
        Path(error.source_path).unlink()


@on_device
def test_the_grid_parameter_must_be_the_first(context):
    made = build(context, one_kernel(f"global int *p, {GRID}", ENTERED))
    refused(["'k'", "first parameter"], made.kernel, "k", error=portbar.LaunchError)


@on_device
def test_a_kernel_that_never_enters_is_reported_after_its_launch(context, queue, data):
    source = SOURCE + "kernel void idle(PORTBAR_GRID_PARAM, global float *data) { data[0] = 1.0f; }\n"
    made = build(context, source).kernel("idle")

    def run():
        made(queue, None, (4,), data).wait()

    refused(["'idle'", "PORTBAR_ENTER", "first statement"], run, error=portbar.Error)
    support.kernel(context, SOURCE, "scale")(queue, None, (4,), data, np.uint32(1)).wait()


READERS = (
    HEADER
    + """
kernel void grid(PORTBAR_GRID_PARAM, const global uint *restrict fixed, constant uint *table, const global uint *plain,
                 global uint *out)
{
    PORTBAR_ENTER(grid);
    const uint sum = fixed[0] + table[0] + plain[0];
    portbar_device_barrier(&grid);
    out[portbar_global_id(&grid)] = sum;
}
kernel void apart(const global uint *restrict fixed, constant uint *table, const global uint *plain, global uint *out)
{
    out[get_global_id(0)] = fixed[0] + table[0] + plain[0];
}
"""
)


@on_device
def test_a_buffer_that_a_grid_both_writes_and_takes_for_constant_is_refused(context, queue):
    made = build(context, READERS).kernel("grid")
    other, out = (support.filled(queue, 8 * support.room(made, queue, (4,)), 1) for _ in range(2))
    array = cl_array.zeros(queue, out.size // 4, np.uint32)
    for first, second in ((out, out), (array, array)):
        words = ["'table'", "'out'", "the same buffer", "sub-buffers"]
        refused(words, made, queue, None, (4,), other, first, other, second)
    # Inputs may share a buffer, and plain pointers may be one.
    for plain in (other, out):
        made(queue, None, (4,), other, other, plain, out).wait()
    qualifiers = made._handle(queue.device, made.program.strategy(queue.device)).get_arg_info(
        2, cl.kernel_arg_info.TYPE_QUALIFIER
    )
    if not qualifiers & cl.kernel_arg_type_qualifier.RESTRICT:
        pytest.skip("the driver does not report restrict")
    refused(["'fixed'", "'out'", "const restrict"], made, queue, None, (4,), out, other, other, out)


@on_device
def test_a_kernel_without_a_grid_may_get_one_buffer_twice(context, queue):
    out = support.filled(queue, 4, 1)
    build(context, READERS).kernel("apart")(queue, (1,), None, out, out, out, out).wait()
    assert support.uints(queue, out)[0] == 3


@on_device
@pytest.mark.parametrize("limit", [0, -1.0, float("nan"), "a", float("inf"), np.float32("inf"), 10**400, 1j, None])
def test_a_spin_limit_that_is_none(context, limit):
    error = refused(["spin_limit", "finite", "above 0"], build, context, SOURCE, spin_limit=limit, error=portbar.Error)
    assert len(str(error)) < 200


@on_device
@pytest.mark.parametrize("limit", [10**19, np.uint64(2**63), np.float32(3e38), 1e308, 1e-300])
def test_a_spin_limit_far_from_what_the_device_counts(context, queue, data, limit):
    build(context, SOURCE, spin_limit=limit).kernel("scale")(queue, None, (4,), data, np.uint32(1), num_groups=1).wait()


@on_device
def test_loops_that_end_early_are_reported_once_per_device_with_the_remedy(context, monkeypatch):
    known = program.describe(context.devices[0])
    short = replace(known, findings=replace(known.findings, loop_limit=70))
    monkeypatch.setattr(program, "describe", lambda _: short)
    monkeypatch.setattr(program, "_warned", set())
    source = "kernel void own(global uint *out, uint n) { for (uint i = 0; i < n; ++i) out[0] += i; }"
    with pytest.warns(portbar.LoopLimitWarning) as caught:
        portbar.Program(context, source)
    (told,) = (one for one in caught if issubclass(one.category, portbar.LoopLimitWarning))
    assert told.filename == __file__
    for word in ("after 70 iterations", "own kernels", "another runtime", known.facts.name):
        assert word in str(told.message)
    with warnings.catch_warnings():
        warnings.simplefilter("error", portbar.LoopLimitWarning)
        portbar.Program(context, source)


@on_device
def test_only_devices_that_end_loops_early_are_warned_of(context, monkeypatch):
    limit = portbar.describe(context.devices[0]).loop_limit
    monkeypatch.setattr(program, "_warned", set())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        portbar.Program(context, "kernel void own(global uint *out) { out[0] = 1; }")
    told = [one for one in caught if issubclass(one.category, portbar.LoopLimitWarning)]
    assert [f"after {limit} iterations" in str(one.message) for one in told] == ([] if limit is None else [True])


#: The survey and benchmarks build by themselves what they compare with.
HOMELESS = """
import sys
import numpy as np
import pyopencl as cl
import portbar
from portbar.device.facts import DeviceAddress
from portbar.survey.measuring.barrier_timer import Relaunch
from portbar.primitives.atomics.table import AtomicsTable
from portbar.primitives.reduction.strategies import Means
from portbar.device.tuning import WaitTuning
from portbar.primitives.strategy import Capabilities, Choice, Strategy, Tuning

context = cl.Context([DeviceAddress.from_json(eval(sys.argv[1])).resolve()])
queue = cl.CommandQueue(context)
made = portbar.Program(context, sys.argv[2], strategy=eval(sys.argv[3])).kernel("scale")
data = cl.Buffer(context, cl.mem_flags.READ_WRITE, 16)
made(queue, None, (4,), data, np.uint32(9), num_groups=1).wait()
out = np.zeros(4, np.float32)
cl.enqueue_copy(queue, out, data)
assert out.tolist() == [9.0] * 4
assert Relaunch(queue, 2, 4).sample_us(3) > 0
"""


@pytest.fixture
def block(tmp_path, monkeypatch):
    """A file where a home or a cache should be; the driver's own cache is not what this is about."""
    for name in [name for name in os.environ if name.startswith("XDG_")] + ["PORTBAR_CACHE_DIR", "PYOPENCL_NO_CACHE"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path / "pocl"))
    path = tmp_path / "block"
    path.write_text("not a folder")
    return path


@pytest.mark.few
@on_device
@pytest.mark.parametrize("place", ["a cache that is a file", "a home that is a file", "a home without permission"])
def test_a_home_that_cannot_be_written_costs_the_cache_only(context, device, monkeypatch, block, place):
    strategy = support.program(context, SOURCE).strategy(device)
    if place == "a home without permission":
        block.unlink()
        block.mkdir(mode=0o500)
    monkeypatch.setenv("PORTBAR_CACHE_DIR" if "cache" in place else "HOME", str(block))
    done = subprocess.run(
        [sys.executable, "-c", HOMELESS, repr(address_of(device).to_json()), SOURCE, repr(strategy)],
        cwd=ROOT, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]


@on_device
def test_a_childs_measurements_go_by_the_findings_that_it_is_given(context, device, monkeypatch, block):
    """Where the cache cannot be written, the survey's children would otherwise know nothing of the probe."""
    monkeypatch.setenv("PORTBAR_CACHE_DIR", str(block))
    monkeypatch.setattr(cache, "_memory", {})
    profile.forget()
    given = portbar.Findings(builds={"cl12": True}, source="as the survey's own process found")
    try:
        with pytest.warns(cache.CacheWarning):
            context_of({"address": address_of(device).to_json(), "findings": given.to_json()})
        assert portbar.describe(device).findings.source.startswith(given.source)
    finally:
        monkeypatch.undo()
        profile.forget()
