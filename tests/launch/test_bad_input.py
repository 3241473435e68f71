"""Invalid launches are refused before they run, with an error that names the cause and the remedy."""

from __future__ import annotations

import reprlib
from dataclasses import replace

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest

import portbar
from tests import support
from tests.launch.support import HEADER, SOURCE, refused, refused_alike

pytestmark = pytest.mark.device


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


def test_a_local_size_that_does_not_match_reqd_work_group_size(context, queue, data):
    shaped = support.kernel(context, SOURCE, "shaped")
    for local in ((8,), (2, 4), (4, 2, 2), (4,)):
        refused(["'shaped'", "reqd_work_group_size", "(4, 2, 1)", str(local)], shaped, queue, None, local, data)
    refused(["reqd_work_group_size"], shaped.occupancy, queue, (8,))
    shaped(queue, None, (4, 2), data).wait()


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
    *((None, (4,), {"num_groups": n}, ["num_groups"]) for n in (1.5, "2", [1])),
    ([8], 8, {}, ["local size"]),
    (8, [8], {}, ["global size"]),
    ((4,), (4,), {"num_groups": 1}, ["not both"]),
    *((size, (4,), {}, ["global size"]) for size in ((0,), (-4,), ("8",), "ab", (None,))),
    *((size, (4,), {}, ["must be a multiple of the local size (4,) in each dimension"]) for size in ((9,), (8, 8))),
    *(((n,), (4,), {}, ["global size"]) for n in (float("inf"), float("nan"))),
]


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
            ("meet", 1, np.array([5], np.uint32), ["'n'", "ndarray", "np.uint32(...)"]),
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


@pytest.mark.parametrize(("name", "wrong", "count", "words"), ARGUMENTS)
def test_arguments_of_a_wrong_number_or_type(context, queue, data, name, wrong, count, words):
    """Also after right ones, as objects and in arrays."""
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
    refused_alike([f"'{name}'", *words], made, queue, (None, (4,)), right, given)
    if 0 not in wrong:
        in_array = cl_array.Array(queue, (data.size // 4,), np.float32, data=data)
        right, given = [in_array, *right[1:]], [in_array, *given[1:]][: len(given)]
        refused_alike([f"'{name}'", *words], made, queue, (None, (4,)), right, given)


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


def test_a_discovery_starts_no_more_groups_than_may_wait_for_each_other(context, queue):
    limited = replace(
        support.program(context, SOURCE).strategy(queue.device), max_groups=1, max_groups_reason="so it is"
    )
    made = portbar.Program(context, SOURCE, strategy=limited).kernel("scale")
    refused(["2 work-groups", "the limit of 1", "so it is"], made.discover, queue, (4,), 2)
    assert made.discover(queue, (4,), 1).num_groups == 1


def test_a_launch_is_accepted_as_its_event_in_a_wait_list_and_nothing_else_is(queue, scale, data):
    first = scale(queue, None, (4,), data, np.uint32(1))
    scale(queue, None, (4,), data, np.uint32(2), wait_for=[first, first.event]).wait()
    for alone in (first, first.event):
        refused(["'scale'", "wait_for", "list"], scale, queue, None, (4,), data, np.uint32(1), wait_for=alone)
    refused(["'scale'", "wait_for", "7"], scale, queue, None, (4,), data, np.uint32(1), wait_for=[7])
    refused(["'scale'", "wait_for", "not int"], scale, queue, None, (4,), data, np.uint32(1), wait_for=7)


def test_an_argument_that_is_not_a_queue(context, scale, data):
    for call in (scale, scale.occupancy, scale.discover):
        for other in (None, context):
            refused(["pyopencl.CommandQueue", type(other).__name__], call, other, (4,), (4,), data, np.uint32(1))


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
    for call in (scale.occupancy, lambda *args: scale.discover(*args[:2], 1, *args[2:])):
        refused(["'scale'", "another context"], call, other, (4,), data, one)
        refused(words[:3], call, queue, (4,), foreign, one)


def test_a_pointer_s_argument_that_is_no_memory(context, queue, scale):
    """Some drivers end the process over it."""
    wrong = [queue, context, cl.Sampler(context, False, cl.addressing_mode.CLAMP, cl.filter_mode.NEAREST)]
    if queue.device.image_support:
        pixels = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT)
        wrong.append(cl.create_image(context, cl.mem_flags.READ_ONLY, pixels, shape=(4, 4)))
    for one in wrong:
        refused(["'scale'", "argument 0", type(one).__name__, "pointer"], scale, queue, None, (4,), one, np.uint32(1))


def test_sizes_of_different_dimensions_of_a_kernel_without_a_grid(context, queue, data):
    plain = support.kernel(context, SOURCE, "plain")
    refused(["'plain'", "differ in dimensions"], plain, queue, (8, 8), (8,), data)


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


def test_global_size_none_without_a_grid(context, queue, data):
    plain = support.kernel(context, SOURCE, "plain")
    refused(["'plain'", "no grid", "PORTBAR_GRID_PARAM"], plain, queue, None, (4,), data)
    refused(["'plain'", "no grid"], plain, queue, (4,), (4,), data, num_groups=1)
    refused(["'plain'", "no grid"], plain.occupancy, queue, (4,))


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


def test_a_buffer_that_a_grid_both_writes_and_takes_for_constant_is_refused(context, queue):
    made = support.kernel(context, READERS, "grid")
    other, out = (support.filled(queue, 8 * support.room(made, queue, (4,)), 1) for _ in range(2))
    array = cl_array.zeros(queue, out.size // 4, np.uint32)
    for first, second in ((out, out), (array, array)):
        words = ["'table'", "'out'", "the same buffer", "sub-buffers"]
        refused(words, made, queue, None, (4,), other, first, other, second)
    # Inputs may share a buffer, and plain pointers may be one.
    for plain in (other, out):
        made(queue, None, (4,), other, other, plain, out).wait()
    qualifiers = made._compiled.handle(queue.device).get_arg_info(2, cl.kernel_arg_info.TYPE_QUALIFIER)
    if not qualifiers & cl.kernel_arg_type_qualifier.RESTRICT:
        pytest.skip("the driver does not report restrict")
    refused(["'fixed'", "'out'", "const restrict"], made, queue, None, (4,), out, other, other, out)


def test_a_kernel_without_a_grid_may_get_one_buffer_twice(context, queue):
    out = support.filled(queue, 4, 1)
    support.kernel(context, READERS, "apart")(queue, (1,), None, out, out, out, out).wait()
    assert support.uints(queue, out)[0] == 3
