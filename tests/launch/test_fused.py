"""Launches of a shape that was launched before, by one generated function: it leaves out no check."""

from __future__ import annotations

import re

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.launching.arguments import CONTEXT_MARK
from portbar.launching.build import TypedKernel
from portbar.launching.launch import States
from tests import support

pytestmark = pytest.mark.device

SOURCE = """
#include "portbar/device_barrier.h"
kernel void grid_add(PORTBAR_GRID_PARAM, global uint *to, constant uint *from, const uint times)
{
    PORTBAR_ENTER(grid);
    if (portbar_global_id(&grid) == 0u)
        to[0] += (from ? from[0] : 1u) * times;
}
kernel void plain_add(global uint *to, global const uint *from, const uint times)
{
    if (get_global_id(0) == 0u)
        to[0] += (from ? from[0] : 1u) * times;
}
typedef global uint *cell;
kernel void typed_add(cell to, global const uint *from, const uint times)
{
    if (get_global_id(0) == 0u)
        to[0] += (from ? from[0] : 1u) * times;
}
"""
#: In a program of its own: NVIDIA's driver describes no arguments of a program that has such a kernel.
NOTHING = "kernel void nothing(void) {}"
LOCAL = (4,)


@pytest.fixture(params=["grid_add", "plain_add", "typed_add"])
def add(request, context):
    return support.kernel(context, SOURCE, request.param)


@pytest.fixture
def at_length(monkeypatch):
    """Launches that were made the long way."""
    made = []
    launch = States.launch

    def counting(self, plan, *rest):
        made.append(plan.label)
        return launch(self, plan, *rest)

    monkeypatch.setattr(States, "launch", counting)
    return made


def size(made):
    return None if made.uses_grid else (8,)


def test_a_shape_is_launched_the_long_way_once(add, queue, at_length):
    to, source = support.filled(queue, 1), support.filled(queue, 1, 3)
    support.need_groups(add, queue, LOCAL, 1) if add.uses_grid else None
    add(queue, size(add), LOCAL, to, source, np.uint32(1)).wait()
    before = len(at_length)
    for times in range(2, 200):
        add(queue, size(add), LOCAL, to, source, np.uint32(times)).wait()
    assert len(at_length) == before
    assert support.uints(queue, to)[0] == 3 * sum(range(200))


def test_shapes_queues_and_buffers_in_turn_give_each_its_own(add, context, queue):
    queues = [queue, cl.CommandQueue(context)]
    cells = [support.filled(queue, 1) for _ in queues]
    ones, twos = support.filled(queue, 1, 1), support.filled(queue, 1, 2)
    for local in (LOCAL, (8,), [4]):
        for _ in range(3):
            for each, cell in zip(queues, cells, strict=True):
                for source in (ones, twos, None):
                    launch = add(each, size(add), local, cell, source, np.uint32(1))
                    launch.wait()
                    assert launch.num_groups > 0 or not add.uses_grid
    # A null pointer stands for 1.
    assert [int(support.uints(queue, cell)[0]) for cell in cells] == [3 * 3 * 4] * 2


@pytest.mark.parametrize(
    ("places", "words"),
    [
        ({0: "foreign"}, "argument 0 .* another context"),
        ({1: "foreign"}, "argument 1 .* another context"),
        ({1: np.zeros(1, np.uint32)}, "'from'.* NumPy array"),
        ({2: np.int32(1)}, "'times'.* NumPy type int32"),
        ({2: 1}, "'times'.* Python int"),
        ({2: None}, "takes 3 arguments .* 2 given"),
        ({3: np.uint32(1)}, "takes 3 arguments .* 4 given"),
    ],
    ids=["first-context", "second-context", "host-array", "scalar", "number", "too-few", "too-many"],
)
def test_wrong_arguments_are_refused_after_right_ones(add, device, queue, places, words):
    theirs = cl.Context([device])
    foreign = cl.Buffer(theirs, cl.mem_flags.READ_WRITE, 4)
    to, source = support.filled(queue, 1), support.filled(queue, 1, 1)
    given = {0: to, 1: source, 2: np.uint32(1)} | places
    wrong = [foreign if isinstance(one, str) else one for one in given.values() if one is not None]
    for count in range(1, 4):
        add(queue, size(add), LOCAL, to, source, np.uint32(1)).wait()
        with pytest.raises(portbar.LaunchError, match=words):
            add(queue, size(add), LOCAL, *wrong)
        assert support.uints(queue, to)[0] == count


def test_one_buffer_for_what_is_constant_and_what_is_written_is_refused_each_time(context, queue):
    add = support.kernel(context, SOURCE, "grid_add")
    to, source = support.filled(queue, 1), support.filled(queue, 1, 1)
    for _ in range(3):
        add(queue, None, LOCAL, to, source, np.uint32(1)).wait()
        with pytest.raises(portbar.LaunchError, match="the same buffer"):
            add(queue, None, LOCAL, to, to, np.uint32(1))


def test_a_buffer_that_takes_the_place_of_a_freed_one_is_asked_for_its_context(add, context, device, queue):
    """Its address and that of its Python object may be those of a buffer that was checked."""
    theirs = cl.Context([device])
    source = support.filled(queue, 1, 1)
    for _ in range(20):
        to = support.filled(queue, 1)
        add(queue, size(add), LOCAL, to, source, np.uint32(1)).wait()
        assert getattr(to, CONTEXT_MARK) == context.int_ptr
        del to
        foreign = cl.Buffer(theirs, cl.mem_flags.READ_WRITE, 4)
        with pytest.raises(portbar.LaunchError, match="another context"):
            add(queue, size(add), LOCAL, foreign, source, np.uint32(1))
        del foreign


def test_launches_that_are_kept_keep_their_reports(context, queue):
    add = support.kernel(context, SOURCE, "grid_add")
    to, source = support.filled(queue, 1), support.filled(queue, 1, 1)
    kept = [add(queue, None, LOCAL, to, source, np.uint32(1)) for _ in range(150)]
    assert {launch.num_groups > 0 for launch in kept} == {True}
    for launch in kept:
        launch.wait()
    assert support.uints(queue, to)[0] == len(kept)


def test_a_kernel_without_parameters(context, queue):
    """NVIDIA's driver does not compile it with -cl-kernel-arg-info, a quirk."""
    nothing = support.kernel(context, NOTHING, "nothing")
    for _ in range(3):
        nothing(queue, (8,), LOCAL).wait()
        with pytest.raises(portbar.LaunchError, match=re.escape("takes 0 arguments")):
            nothing(queue, (8,), LOCAL, np.uint32(1))


def test_memory_that_takes_no_mark_is_launched_the_long_way(context, queue, at_length, monkeypatch):
    """As with a PyOpenCL whose memory objects have no room for attributes."""
    monkeypatch.setattr("portbar.launching.arguments.CONTEXT_MARK", "size")
    add = support.kernel(context, SOURCE, "plain_add")
    to, source = support.filled(queue, 1), support.filled(queue, 1, 1)
    before = len(at_length)
    for _ in range(3):
        add(queue, (8,), LOCAL, to, source, np.uint32(1)).wait()
    assert len(at_length) == before + 3
    assert support.uints(queue, to)[0] == 3


def test_a_pyopencl_that_shows_no_generated_function_calls_the_kernel(context, queue, monkeypatch):
    monkeypatch.setattr(TypedKernel, "_set_enqueue_and_set_args", cl.Kernel._set_enqueue_and_set_args)
    made = portbar.Program(context, SOURCE)
    for name in ("grid_add", "plain_add"):
        add = made.kernel(name)
        to, source = support.filled(queue, 1), support.filled(queue, 1, 1)
        for _ in range(3):
            add(queue, size(add), LOCAL, to, source, np.uint32(2)).wait()
        assert support.uints(queue, to)[0] == 6
