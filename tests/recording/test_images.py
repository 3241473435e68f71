"""Recorded kernels read images and samplers with the bits of their launches; other images are refused by name and line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.device import quirks
from portbar.device.facts import facts
from portbar.recording import player

pytestmark = pytest.mark.device

SOURCE = """
constant sampler_t outside = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
const sampler_t edge = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;

/* Two images and a buffer, with samplers of the program and of the kernel. */
kernel void blend(__read_only image2d_t one, global const uint *from, read_only image2d_t two, global uint *to)
{
    const sampler_t own = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_NONE | CLK_FILTER_NEAREST;
    const int2 at = (int2)(get_global_id(0), get_global_id(1));
    const int i = at.y * get_global_size(0) + at.x;
    const uint4 inner = read_imageui(two, own, at % get_image_dim(two));
    to[i] = 3 * from[i] + read_imageui(one, outside, at - 1).x + 5 * read_imageui(one, edge, at + 1).y + 7 * inner.z
        + inner.w;
}

"""
#: Apart, since Mesa 22 ends the process at samplers of both kinds in one program.
GIVEN_SAMPLERS = """
/* A sampler as an argument. */
kernel void scale(read_only image2d_t picture, sampler_t how, float2 step, global float4 *to)
{
    const int x = get_global_id(0), y = get_global_id(1);
    to[y * get_global_size(0) + x] += read_imagef(picture, how, (float2)(x - 1.25f, y - 0.75f) * step);
}

/* Barriers and local memory. */
kernel void turn(read_only image2d_t picture, sampler_t how, global uint *to, local uint *more)
{
    local uint own[8];
    const int x = get_global_id(0), y = get_global_id(1), lane = get_local_id(0);
    own[lane] = read_imageui(picture, how, (int2)(x, y)).x;
    more[lane] = get_image_width(picture);
    barrier(CLK_LOCAL_MEM_FENCE);
    to[y * get_global_size(0) + x] = 11 * to[y * get_global_size(0) + x] + own[7 - lane] + more[(lane + 1) % 8];
}
"""
_RGBA8 = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.UNSIGNED_INT8)
_RGBA16 = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.UNSIGNED_INT16)
_FLOATS = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT)
_INTS = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.SIGNED_INT32)
_READ = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR


@pytest.fixture(autouse=True)
def images(queue: cl.CommandQueue) -> None:
    if not queue.device.image_support:
        pytest.skip("the device has no images")


def picture(queue: cl.CommandQueue, pixels: cl.ImageFormat, array: np.ndarray) -> cl.Image:
    """A 2-D image of an array (height, width, 4)."""
    return cl.create_image(queue.context, _READ, pixels, shape=array.shape[1::-1], hostbuf=np.ascontiguousarray(array))


def ways(queue: cl.CommandQueue) -> list[dict[str, Any]]:
    """The ways to run recorded steps, launches first."""
    asked: list[dict[str, Any]] = [{"fused": False}]
    # Loops end early there.
    asked += [{}] if portbar.describe(queue).loop_limit is not None else [{"fused": True}, {"fused": True}, {}]
    return asked + [{"command_buffers": True}] * ("cl_khr_command_buffer" in queue.device.extensions.split())


def launched(steps: portbar.Steps, way: dict[str, Any]) -> bool:
    """Run the steps in one way, unless the driver has a fault in it; whether they ran."""
    has_fault = quirks.has_effect(quirks.SAMPLERS_LAUNCHED, facts(steps.queue.device))
    try:
        steps.launch(**way).wait()
    except portbar.UnsupportedFeatureError as error:
        if not (has_fault and "command_buffers" in way and "the steps take samplers" in str(error)):
            raise
        return False
    return True


def check(queue: cl.CommandQueue, steps: portbar.Steps, buffers: list[cl.Buffer]) -> list[np.ndarray]:
    """Run the steps in each way from the same begin; the contents of the buffers, which are the same bits."""
    begin, expected = [], []
    for buffer in buffers:
        begin.append(np.empty(buffer.size, np.uint8))
        cl.enqueue_copy(queue, begin[-1], buffer)
    for way in ways(queue):
        for buffer, values in zip(buffers, begin, strict=True):
            cl.enqueue_copy(queue, buffer, values)
        if not launched(steps, way):
            continue
        found = [np.empty_like(values) for values in begin]
        for buffer, values in zip(buffers, found, strict=True):
            cl.enqueue_copy(queue, values, buffer)
        expected = expected or found
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert one.tobytes() == other.tobytes(), (way, number, np.argwhere(one != other)[:5])
    assert any((one != other).any() for one, other in zip(begin, expected, strict=True))
    return expected


def buffer_of(queue: cl.CommandQueue, array: np.ndarray) -> cl.Buffer:
    return cl.Buffer(queue.context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=array)


def taken(array: np.ndarray, y: np.ndarray, x: np.ndarray, *, clamp: bool) -> np.ndarray:
    """Pixels, those of the edge or zeros outside."""
    height, width = array.shape[:2]
    found = array[np.clip(y, 0, height - 1), np.clip(x, 0, width - 1)].astype(np.uint32)
    inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
    return found if clamp else np.where(inside[..., None], found, 0)


@pytest.mark.parametrize(("seed", "as_on_a_gpu"), [(0, False), (1, False), (2, True)])
def test_images_that_change_places_are_mixed_with_buffers(
    seed: int, as_on_a_gpu: bool, queue: cl.CommandQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    if as_on_a_gpu:
        monkeypatch.setattr(player, "suits_loops", lambda _: False)
    random = np.random.default_rng(seed)
    (height, width), shapes = random.integers(1, 40, 2), random.integers(1, 40, (3, 2))
    arrays = [random.integers(0, 1 << 16, (*shape, 4), np.uint16) for shape in shapes]
    pictures = [picture(queue, _RGBA16, array) for array in arrays]
    values = random.integers(0, 1 << 32, (2, height, width), np.uint32)
    a, b = (buffer_of(queue, one) for one in values)
    blend = cl.Program(queue.context, SOURCE).build().blend
    turns = random.integers(0, 3, (5, 2))
    steps = portbar.record(queue, options=[])
    with steps.repeat(3):
        for number, (one, two) in enumerate(turns):
            to = (a, b) if number % 2 else (b, a)
            steps(blend, (width, height), None, pictures[one], to[1], pictures[two], to[0])
    found = check(queue, steps, [a, b])
    y, x = np.mgrid[:height, :width]
    for _ in range(3):
        for number, (one, two) in enumerate(turns):
            inner = arrays[two][y % shapes[two][0], x % shapes[two][1]].astype(np.uint32)
            values[1 - number % 2] = (
                3 * values[number % 2]
                + taken(arrays[one], y - 1, x - 1, clamp=False)[..., 0]
                + 5 * taken(arrays[one], y + 1, x + 1, clamp=True)[..., 1]
                + (7 * inner[..., 2] + inner[..., 3])
            )
    for one, expected in zip(found, values, strict=True):
        assert (one.view(np.uint32).reshape(height, width) == expected).all()


@pytest.mark.parametrize("seed", range(2))
def test_samplers_change_places_with_images_of_floats(seed: int, queue: cl.CommandQueue) -> None:
    random = np.random.default_rng(seed + 10)
    shapes = random.integers(1, 30, (2, 2))
    bytes_, floats = random.integers(0, 256, (*shapes[0], 4), np.uint8), random.random((*shapes[1], 4), np.float32)
    modes, nearest, linear = cl.addressing_mode, cl.filter_mode.NEAREST, cl.filter_mode.LINEAR
    normalised = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.UNORM_INT8)
    pictures = [picture(queue, normalised, bytes_), picture(queue, _FLOATS, floats)]
    samplers = [
        (cl.Sampler(queue.context, False, modes.CLAMP, linear), (1, 1)),
        (cl.Sampler(queue.context, True, modes.REPEAT, nearest), (0.11, 0.07)),
        (cl.Sampler(queue.context, True, modes.MIRRORED_REPEAT, linear), (0.13, 0.05)),
        (cl.Sampler(queue.context, False, modes.CLAMP_TO_EDGE, nearest), (0.5, 2)),
    ]
    height, width = (int(one) for one in random.integers(1, 30, 2))
    to = buffer_of(queue, np.zeros((height, width, 4), np.float32))
    scale = cl.Program(queue.context, GIVEN_SAMPLERS).build().scale
    steps = portbar.record(queue, options=[])
    for number in random.integers(0, 4, 5):
        how, step = samplers[number]
        steps(scale, (width, height), None, pictures[number % 2], how, np.array(step, np.float32), to)
    (found,) = check(queue, steps, [to])
    assert np.isfinite(found.view(np.float32)).all()


def test_kernels_with_barriers_take_several_images(queue: cl.CommandQueue) -> None:
    random = np.random.default_rng(20)
    arrays = [random.integers(0, 256, (5, width, 4), np.uint8) for width in (24, 19, 33)]
    pictures = [picture(queue, _RGBA8, array) for array in arrays]
    how = cl.Sampler(queue.context, False, cl.addressing_mode.CLAMP, cl.filter_mode.NEAREST)
    to = buffer_of(queue, np.zeros((7, 24), np.uint32))
    turn = cl.Program(queue.context, GIVEN_SAMPLERS).build().turn
    steps = portbar.record(queue, options=[])
    with steps.repeat(2):
        for one in pictures:
            steps(turn, (24, 7), (8, 1), one, how, to, cl.LocalMemory(32))
    (found,) = check(queue, steps, [to])
    expected = np.zeros((7, 24), np.uint32)
    y, x = np.mgrid[:7, :24]
    for _ in range(2):
        for array in arrays:
            read = taken(array, y, x // 8 * 8 + 7 - x % 8, clamp=False)[..., 0]
            expected = 11 * expected + read + np.uint32(array.shape[1])
    assert (found.view(np.uint32).reshape(7, 24) == expected).all()


#: A kind of images, an array's sides in elements of 4, and the place that a work-item reads.
_KINDS = (
    ("image1d_t", (13,), "x % get_image_width(from)"),
    ("image1d_buffer_t", (11,), "x % 11"),
    ("image2d_t", (3, 7), "(int2)(x % 7, x % 3)"),
    ("image2d_array_t", (2, 5, 3), "(int4)(x % 3, x % 5, x % get_image_array_size(from), 0)"),
    ("image3d_t", (3, 5, 2), "(int4)(x % 2, x % 5, x % get_image_depth(from), 0)"),
)


@pytest.mark.parametrize(("kind", "shape", "at"), _KINDS, ids=[kind for kind, *_ in _KINDS])
def test_images_of_each_kind_are_read(kind: str, shape: tuple[int, ...], at: str, queue: cl.CommandQueue) -> None:
    values = np.random.default_rng(len(kind)).integers(-(1 << 31), 1 << 31, (*shape, 4), np.int32)
    context, kinds = queue.context, cl.mem_object_type
    if _INTS not in cl.get_supported_image_formats(context, cl.mem_flags.READ_ONLY, getattr(kinds, kind[:-2].upper())):
        pytest.skip("the device has no such images")
    # Not all drivers keep the buffer of an image.
    whole = buffer_of(queue, values)
    if kind == "image1d_buffer_t":
        made = cl.create_image(context, cl.mem_flags.READ_ONLY, _INTS, shape=shape, buffer=whole)
    else:
        made = cl.create_image(context, _READ, _INTS, shape=shape[::-1], hostbuf=values, is_array="array" in kind)
    source = f"""
        kernel void gather(read_only {kind} from, global int4 *to)
        {{
            const int x = get_global_id(0);
            to[x] = to[x] * 3 + read_imagei(from, {at});
        }}
    """
    gather = cl.Program(context, source).build(["-cl-std=CL1.2"]).gather
    to = buffer_of(queue, np.zeros((30, 4), np.int32))
    steps = portbar.record(queue, options=[])
    with steps.repeat(2):
        steps(gather, (30,), None, made, to)
    (found,) = check(queue, steps, [to])
    x = np.arange(30)
    read = values[tuple(x % size for size in shape)]
    assert (found.view(np.int32).reshape(30, 4) == 4 * read).all()


WRONG = """
kernel void writes(global uint *a, write_only image2d_t made) { write_imageui(made, (int2)(0, 0), (uint4)(a[0])); }
kernel void reads(global uint *a, read_only image2d_t from, sampler_t how) { a[0] += read_imageui(from, how, (int2)(0, 0)).x; }
kernel void line(global uint *a, read_only image1d_buffer_t from) { a[0] += read_imageui(from, 1).x; }
"""


def test_a_written_image_is_refused_with_its_line_and_runs_as_launches(queue: cl.CommandQueue) -> None:
    program = cl.Program(queue.context, WRONG).build()
    made = cl.create_image(queue.context, cl.mem_flags.READ_WRITE, _RGBA8, shape=(2, 2))
    how = cl.Sampler(queue.context, False, cl.addressing_mode.CLAMP, cl.filter_mode.NEAREST)
    a = buffer_of(queue, np.array([5], np.uint32))
    steps = portbar.record(queue, options=[])
    steps(program.reads, (1,), None, a, picture(queue, _RGBA8, np.ones((1, 1, 4), np.uint8)), how)
    steps(program.writes, (1,), None, a, made)
    steps(program.reads, (1,), None, a, made, how)
    said = r"step 2 \(kernel 'writes'\), program\.cl, line 2: the image 'made' is write_only.*launch\(fused=False\)"
    for fused in (None, True):
        with pytest.raises(portbar.UnsupportedFeatureError, match=said):
            steps.launch(fused=fused)
    for way in ways(queue):
        if "fused" not in way or way["fused"] is False:
            if not way:
                continue
            cl.enqueue_copy(queue, a, np.array([5], np.uint32))
            if not launched(steps, way):
                continue
            found = np.zeros(1, np.uint32)
            cl.enqueue_copy(queue, found, a)
            assert found[0] == 12, way


def test_an_image_of_a_buffer_that_a_step_writes_is_refused(queue: cl.CommandQueue) -> None:
    program = cl.Program(queue.context, WRONG).build(["-cl-std=CL1.2"])
    values, a = buffer_of(queue, np.arange(8, dtype=np.uint32)), buffer_of(queue, np.zeros(1, np.uint32))
    pixels = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.UNSIGNED_INT32)
    if pixels not in cl.get_supported_image_formats(
        queue.context, cl.mem_flags.READ_ONLY, cl.mem_object_type.IMAGE1D_BUFFER
    ):
        pytest.skip("the device has no such images")
    line = cl.create_image(queue.context, cl.mem_flags.READ_ONLY, pixels, shape=(2,), buffer=values)
    steps = portbar.record(queue, options=[])
    steps(program.line, (1,), None, a, line)
    steps.copy(values, a, size=4)
    with pytest.raises(
        portbar.UnsupportedFeatureError, match=r"step 1 \(kernel 'line'\), program\.cl, line 4: a step writes .*'from'"
    ):
        steps.launch()
    steps.launch(fused=False).wait()


def test_arguments_that_are_no_such_images_are_refused(queue: cl.CommandQueue) -> None:
    program = cl.Program(queue.context, WRONG).build()
    a = buffer_of(queue, np.zeros(1, np.uint32))
    how = cl.Sampler(queue.context, False, cl.addressing_mode.CLAMP, cl.filter_mode.NEAREST)
    flat = picture(queue, _RGBA8, np.ones((2, 2, 4), np.uint8))
    deep = cl.create_image(queue.context, cl.mem_flags.READ_ONLY, _RGBA8, shape=(2, 2, 2))
    written = cl.create_image(queue.context, cl.mem_flags.WRITE_ONLY, _RGBA8, shape=(2, 2))
    steps = portbar.record(queue, options=[])
    for wrong in (None, a, how, deep, np.uint32(1), cl.LocalMemory(4)):
        with pytest.raises(
            portbar.LaunchError, match=r"argument 1 \('from'\) is a read_only image2d_t: pass a pyopencl\.Im"
        ):
            steps(program.reads, (1,), None, a, wrong, how)
    with pytest.raises(portbar.LaunchError, match=r"argument 1 \('from'\) is an image that was made with WRITE_ONLY"):
        steps(program.reads, (1,), None, a, written, how)
    for wrong in (None, a, flat, np.uint32(0x10)):
        with pytest.raises(portbar.LaunchError, match=r"argument 2 \('how'\) is a sampler_t: pass a pyopencl\.Sampler"):
            steps(program.reads, (1,), None, a, flat, wrong)
    for wrong in (flat, how):
        with pytest.raises(portbar.LaunchError, match=r"argument 0 \('a'\)"):
            steps(program.reads, (1,), None, wrong, flat, how)


def test_more_images_than_a_kernel_takes_are_refused_and_run_as_launches(queue: cl.CommandQueue) -> None:
    most = queue.device.max_read_image_args
    if most > 500:
        pytest.skip("so many images take long")
    program = cl.Program(queue.context, WRONG).build()
    a = buffer_of(queue, np.zeros(1, np.uint32))
    how = cl.Sampler(queue.context, False, cl.addressing_mode.CLAMP, cl.filter_mode.NEAREST)
    steps = portbar.record(queue, options=[])
    for _ in range(most + 1):
        steps(program.reads, (1,), None, a, picture(queue, _RGBA8, np.ones((1, 1, 4), np.uint8)), how)
    said = rf"step {most + 1} \(kernel 'reads'\), program\.cl, line 3: with 'from' .* {most + 1} images, and .* {most}:"
    with pytest.raises(portbar.UnsupportedFeatureError, match=said):
        steps.launch()
    steps.launch(fused=False).wait()
    found = np.zeros(1, np.uint32)
    cl.enqueue_copy(queue, found, a)
    assert found[0] == most + 1
