"""Memory objects of every kind and arrays of every type: refused at each launch, or at none."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest
from pyopencl import cltypes
from pyopencl.tools import ImmediateAllocator, MemoryPool

import portbar
from tests import support
from tests.launch.support import HEADER, refused, refused_alike

pytestmark = pytest.mark.device

SOURCE = (
    HEADER
    + """
kernel void grid(PORTBAR_GRID_PARAM, global float *data, const uint n) { PORTBAR_ENTER(grid); data[0] = n; }
kernel void plain(global float *data, const uint n) { data[0] = n; }
kernel void shelf(global float *data, local float *shelf) { shelf[0] = 2.0f; data[0] = shelf[0]; }
"""
)
IMAGES = (
    SOURCE
    + "kernel void look(read_only image2d_t picture, global float *data) { data[0] = get_image_width(picture); }\n"
)
SIZES = {"grid": (None, (4,))}
ONE = np.uint32(1)


class Objects:
    """Objects of a context by name; what is right for each kernel."""

    def __init__(self, context, queue):
        self.context, self.queue = context, queue
        self.buffer = support.filled(queue, 64)
        self.array = cl_array.zeros(queue, 64, np.float32)

    def __getitem__(self, name):
        """The object of a name; another argument is itself."""
        return getattr(self, name)() if isinstance(name, str) and hasattr(self, name) else name

    def memory(self):
        return self.buffer

    def floats(self):
        return self.array

    def image(self):
        pixels = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT)
        return cl.create_image(self.context, cl.mem_flags.READ_ONLY, pixels, shape=(4, 4))

    def looked_at(self):
        """An image that was an argument before."""
        image = self.image()
        made = support.kernel(self.context, IMAGES, "look")
        made(self.queue, (1,), (1,), image, self.buffer).wait()
        return image

    def sampler(self):
        return cl.Sampler(self.context, False, cl.addressing_mode.CLAMP, cl.filter_mode.NEAREST)

    def pipe(self):
        try:
            return cl.Pipe(self.context, 0, 4, 16)
        except cl.Error as error:
            pytest.skip(f"no pipes: {error}")

    def foreign(self):
        self.theirs = cl.Context(self.context.devices)
        return cl.Buffer(self.theirs, cl.mem_flags.READ_WRITE, 256)

    def lost(self):
        """Intel's memory objects do not keep their context alive."""
        return cl.Buffer(cl.Context(self.context.devices), cl.mem_flags.READ_WRITE, 256)

    def foreign_image(self):
        self.theirs = cl.Context(self.context.devices)
        return Objects(self.theirs, cl.CommandQueue(self.theirs)).image()

    def pooled(self):
        return MemoryPool(ImmediateAllocator(self.queue)).allocate(256)

    def local(self):
        return cl.LocalMemory(64)

    def doubles(self):
        return cl_array.empty(self.queue, 64, np.float64)

    def whole_numbers(self):
        return cl_array.zeros(self.queue, 64, np.int32)


@pytest.fixture
def objects(context, queue):
    return Objects(context, queue)


#: Kernel, right arguments, the place of a wrong one, it, and words of the error.
WRONG = [
    *(
        (kernel, [right, ONE], 0, wrong, words)
        for kernel in ("grid", "plain")
        for right in ("memory", "floats")
        for wrong, words in [
            ("image", ["'data'", "an Image", "the pointer float*"]),
            ("looked_at", ["'data'", "an Image", "the pointer float*"]),
            ("sampler", ["'data'", "a Sampler"]),
            ("pipe", ["'data'", "a Pipe", "the pointer float*"]),
            ("local", ["'data'", "a LocalMemory"]),
            ("foreign", ["another context"]),
            ("lost", ["argument 0", "allocate it in the program's context"]),
            ("doubles", ["'data'", "array of float64", "float*", "array of float32", "array.data"]),
            ("whole_numbers", ["'data'", "array of int32"]),
            (ONE, ["'data'", "pointer"]),
        ]
    ),
    *(
        ("plain", ["memory", ONE], 1, wrong, ["'n'", "uint"])
        for wrong in ("memory", "floats", "image", "sampler", "local", None, np.uint64(1), 1)
    ),
    *(
        ("shelf", ["memory", "local"], 1, wrong, ["'shelf'", "LocalMemory"])
        for wrong in ("memory", "floats", "image", ONE)
    ),
    *(
        ("look", ["image", "memory"], 0, wrong, ["'picture'", words])
        for wrong, words in [
            ("memory", "pass a pyopencl.Image"),
            ("floats", "pass a pyopencl.Image"),
            ("pooled", "pass a pyopencl.Image"),
            ("pipe", "pass a pyopencl.Image"),
            ("sampler", "pass a pyopencl.Image"),
            (None, "pass a pyopencl.Image"),
        ]
    ),
    ("look", ["image", "memory"], 0, "foreign_image", ["argument 0", "another context"]),
    ("look", ["image", "memory"], 1, "image", ["'data'", "an Image"]),
    ("look", ["looked_at", "memory"], 1, "looked_at", ["'data'", "an Image"]),
]


@pytest.mark.parametrize(("name", "right", "place", "wrong", "words"), WRONG, ids=str)
def test_wrong_objects_are_refused_before_and_after_right_ones(objects, name, right, place, wrong, words):
    needs_images = name == "look" or any(
        isinstance(one, str) and one in {"image", "looked_at"} for one in (*right, wrong)
    )
    if needs_images and not objects.queue.device.image_support:
        pytest.skip("the device has no images")
    made = support.kernel(objects.context, IMAGES if name == "look" else SOURCE, name)
    good = [objects[one] for one in right]
    bad = [objects[wrong] if index == place else one for index, one in enumerate(good)]
    refused_alike([f"'{name}'", *words], made, objects.queue, SIZES.get(name, ((4,), (4,))), good, bad)


@pytest.mark.parametrize("right", ["memory", "floats", "pooled", None])
def test_right_objects_are_accepted_in_turn(objects, right):
    made = support.kernel(objects.context, SOURCE, "plain")
    for _ in range(3):
        for one in ("memory", "floats", "pooled") if right is None else (right,):
            made(objects.queue, (4,), (4,), objects[one], ONE).wait()


TYPES = """
#ifdef cl_khr_fp16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif
typedef float real;
typedef float4 four;
#ifdef WIDE
typedef ulong word;
#else
typedef uint word;
#endif
#ifdef __VENDOR_IS_WIDE
typedef ulong vendors;
#else
typedef uint vendors;
#endif
#define NAMED(type) typedef type type##_t
NAMED(uint);
typedef unsigned int first, second;
typedef __attribute__((aligned(4))) float of_attribute;
typedef struct { float x; int i; } pair;
"""
PAIR = np.dtype([("x", np.float32), ("i", np.int32)])
#: The type of a pointer's elements, types of arrays that fit, and types of arrays that do not.
ELEMENTS = [
    (
        "float",
        [np.float32, np.complex64, cltypes.float4, PAIR],
        [np.float64, np.int32, np.uint32, np.complex128, np.uint8, ">f4"],
    ),
    ("const float", [np.float32], [np.int32]),
    ("real", [np.float32], [np.float64, np.int32]),
    ("float4", [np.float32, cltypes.float4, cltypes.float3, np.complex64], [np.float64, cltypes.int4]),
    ("uint3", [np.uint32, np.int32, cltypes.uint3, cltypes.int4], [np.float32, np.uint64, cltypes.float3]),
    ("four", [np.float32, np.float64, np.int8], []),
    ("int", [np.int32, np.uint32], [np.float32, np.int64, np.int16, np.bool_]),
    ("unsigned int", [np.int32, np.uint32], [np.float32]),
    ("ulong", [np.int64, np.uint64, "M8[s]"], [np.float64, np.uint32]),
    ("short", [np.int16, np.uint16], [np.int32, np.float16]),
    ("char", [np.int8, np.bool_, np.float32, np.float64, PAIR, "S3"], []),
    ("uchar", [np.uint8, np.int64], []),
    ("uchar4", [np.uint8, np.uint32], []),
    ("void", [np.float32, np.int64], []),
    ("word", [np.uint32], [np.int64, np.float32, np.uint16]),
    # A driver decides about it.
    ("vendors", [np.uint32, np.int64], []),
    ("uint_t", [np.uint32], [np.float32, np.uint64]),
    ("second", [np.uint32], [np.float32, np.uint64]),
    ("of_attribute", [np.float32], [np.float64, np.int32]),
    ("pair", [PAIR, np.float64], []),
    ("half", [np.float16], [np.float32, np.uint16]),
]


@pytest.mark.parametrize(("element", "fitting", "others"), ELEMENTS, ids=[element for element, _, _ in ELEMENTS])
def test_arrays_of_other_elements_are_refused(context, queue, element, fitting, others):
    """At every launch, whatever came before, and with a way to pass the bytes as they are."""
    source = f"{TYPES}kernel void k(global {element} *data) {{ }}\n"
    made = portbar.Program(context, source).kernel("k")
    for _ in range(2):
        for dtype in fitting:
            made(queue, (1,), (1,), cl_array.empty(queue, 8, np.dtype(dtype))).wait()
        for dtype in others:
            array = cl_array.empty(queue, 8, np.dtype(dtype))
            refused(["'data'", "'k'", "is an array of ", "array.data"], made, queue, (1,), (1,), array)
            made(queue, (1,), (1,), array.data).wait()


def test_a_view_of_an_array_is_another_array(context, queue):
    source = "kernel void k(global uint *data) { data[0] = 0x3f800000u; }\n"
    made = portbar.Program(context, source).kernel("k")
    floats = cl_array.zeros(queue, 4, np.float32)
    refused(["array of float32", "array of uint32"], made, queue, (1,), (1,), floats)
    made(queue, (1,), (1,), floats.view(np.uint32)).wait()
    assert floats.get().tolist() == [1, 0, 0, 0]


def test_the_occupancy_of_a_kernel_is_asked_with_right_arrays(objects):
    made = support.kernel(objects.context, SOURCE, "grid")
    refused(["'data'", "array of float64"], made.occupancy, objects.queue, (4,), objects.doubles(), ONE)


def test_local_memory_of_no_bytes_is_refused(objects):
    made = support.kernel(objects.context, SOURCE, "shelf")
    right, wrong = [objects.buffer, cl.LocalMemory(64)], [objects.buffer, cl.LocalMemory(0)]
    refused_alike(["'shelf'", "LocalMemory(0)"], made, objects.queue, ((4,), (4,)), right, wrong)
