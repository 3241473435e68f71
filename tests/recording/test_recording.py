"""A recording takes, refuses and explains steps as its documentation says."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest

import portbar
from portbar.device import quirks
from portbar.device.facts import facts
from portbar.recording import batches, khr_command_buffer, player

pytestmark = pytest.mark.device

_ADD = """
kernel void add(global uint *to, global const uint *from, uint n)
{
    to[get_global_id(0)] += n * from[get_global_id(0)];
}
"""


def built(queue: cl.CommandQueue, source: str, *options: str) -> cl.Program:
    return cl.Program(queue.context, source).build(list(options))


def begun(queue: cl.CommandQueue) -> portbar.Steps:
    return portbar.record(queue, options=[])


def one_kernel(steps: portbar.Steps) -> None:
    """Run the steps in one kernel; skip where the device should not."""
    if portbar.describe(steps.queue).loop_limit is not None:
        pytest.skip("loops end early")
    steps.launch(fused=True).wait()


def words(queue: cl.CommandQueue, *values: int) -> cl.array.Array:
    return cl.array.to_device(queue, np.array(values, np.uint32))


def test_programs_with_clashing_names_are_one_kernel(queue: cl.CommandQueue) -> None:
    sources = [
        """
        #define SCALE 3
        typedef uint value;
        struct pair { value a, b; };
        enum kind { FIRST, SECOND = SCALE };
        constant uint table[2] = {1, 2};
        value helper(value x) { return x * SCALE + table[get_global_id(0) % 2] + SECOND; }
        kernel void work(global value *to) { struct pair p = {1, helper(to[get_global_id(0)])}; to[get_global_id(0)] = p.b; }
        """,
        """
        #define SCALE(x) ((x) + 7u)
        typedef float value;
        struct pair { value a; };
        enum kind { SECOND, FIRST };
        constant float table[2] = {0.5f, 0.25f};
        uint helper(value x, uint y) { return (uint)(x * 4) + SCALE(y) + FIRST; }
        kernel void work(global uint *to)
        {
            struct pair p = {table[get_global_id(0) % 2]};
            to[get_global_id(0)] = helper(p.a, to[get_global_id(0)]);
        }
        """,
    ]
    kernels = [built(queue, source).work for source in sources]
    to = words(queue, *range(8))
    steps = begun(queue)
    with steps.repeat(2):
        for kernel in kernels:
            steps(kernel, (8,), (4,), to)
    one_kernel(steps)
    expected = np.arange(8, dtype=np.uint32)
    for _ in range(2):
        expected = expected * 3 + np.array([1, 2] * 4, np.uint32) + 3
        expected = np.array([2, 1] * 4, np.uint32) + expected + 7 + 1
    assert (to.get() == expected).all()


def test_macros_and_pragmas_of_a_program_end_with_it(queue: cl.CommandQueue) -> None:
    first = """
        #pragma pack(1)
        #pragma OPENCL FP_CONTRACT OFF
        #undef FLT_MAX
        #define FLT_MAX 1.0f
        struct odd { uchar a; uint b; };
        kernel void first(global float *to) { to[0] += FLT_MAX + sizeof(struct odd); }
    """
    second = """
        struct even { uchar a; uint b; };
        kernel void second(global float *to)
        {
            to[1] += (FLT_MAX > 2 ? 10 : 20) + sizeof(struct even);
            to[2] = to[3] * to[3] - to[4];
        }
    """
    side = np.float32(1 + 2**-12)
    arrays = [cl.array.to_device(queue, np.array([0, 0, 0, side, side * side], np.float32)) for _ in range(2)]
    for to, fused in zip(arrays, (False, True), strict=True):
        steps = begun(queue)
        steps(built(queue, first).first, (1,), None, to)
        steps(built(queue, second).second, (1,), None, to)
        one_kernel(steps) if fused else steps.launch(fused=False).wait()
    assert list(arrays[1].get()[:2]) == [6, 18]
    assert arrays[0].get().tobytes() == arrays[1].get().tobytes()


def test_macros_of_build_options_may_hold_spaces(queue: cl.CommandQueue) -> None:
    source = "kernel void work(global uint *to) { to[get_global_id(0)] += EACH FIRST; }"
    options = ('-DEACH="1u + 2u"', "-D", 'FIRST="* (3u + 4u)"')
    if any(quirk.name == "rusticl-spaces-in-options" for quirk in quirks.matching(facts(queue.device))):
        pytest.skip("this driver ends the process at such an option")
    kernels = [
        cl.Program(queue.context, source).build(list(options)).work,
        portbar.Program(queue.context, source, options=list(options)).kernel("work"),
    ]
    for kernel in kernels:
        to = words(queue, 0, 5)
        steps = portbar.record(queue, options=options)
        steps(kernel, (2,), None, to)
        for fused in (False, True):
            steps.launch(fused=fused).wait()
        assert list(to.get()) == [2 * 15, 5 + 2 * 15]


def test_a_structure_of_another_size_is_refused(queue: cl.CommandQueue) -> None:
    source = """
        typedef struct { uint a; float4 b; } item;
        kernel void work(global uint *to, item one, const struct { uchar a, b; } two) { to[0] = one.a + two.b; }
    """
    try:
        kernel = built(queue, source).work
    except cl.RuntimeError:
        pytest.skip("the compiler takes no structure without a name")
    steps = begun(queue)
    to = words(queue, 0)
    for one, two, wrong in ((16, 2, "one"), (48, 2, "one"), (32, 4, "two")):
        with pytest.raises(portbar.LaunchError, match=rf"'{wrong}'\): has|'{wrong}'\) has"):
            steps(kernel, (1,), None, to, np.zeros(one, np.uint8), np.zeros(two, np.uint8))


def test_kernel_of_portbar_is_recorded(queue: cl.CommandQueue) -> None:
    kernel = portbar.Program(queue.context, _ADD).kernel("add")
    to, one = words(queue, 1, 2, 3), words(queue, 4, 5, 6)
    steps = portbar.record(queue)
    with steps.repeat(5) as turn:
        steps(kernel, (3,), None, to, one, turn * 2 + 1)
    for fused in (False, None, None):
        steps.launch(fused=fused).wait()
    assert (to.get() == [1 + 3 * 25 * 4, 2 + 3 * 25 * 5, 3 + 3 * 25 * 6]).all()


def test_arguments_are_those_of_the_time_of_recording(queue: cl.CommandQueue) -> None:
    kernel = built(queue, "kernel void work(global uint *to, uint2 a, uint b) { to[0] += a.x * 10 + b; }").work
    to = words(queue, 0)
    steps = begun(queue)
    pair, turns = np.zeros(2, np.uint32), np.arange(1, 4, dtype=np.uint32)
    for _ in range(3):
        pair += 1
        with steps.repeat(3) as turn:
            steps(kernel, (1,), None, to, pair, turn.of(turns))
    pair[:] = turns[:] = 1000
    steps.launch(fused=False).wait()
    assert to.get()[0] == 3 * 60 + 3 * 6
    to.fill(0)
    one_kernel(steps)
    assert to.get()[0] == 3 * 60 + 3 * 6


def test_turns_of_nested_loops(queue: cl.CommandQueue) -> None:
    add = built(queue, _ADD).add
    to, one = words(queue, 0), words(queue, 1)
    steps = begun(queue)
    with steps.repeat(3) as outer, steps.repeat(4) as inner:
        steps(add, (1,), (1,), to, one, outer * 10)
        steps(add, (1,), (1,), to, one, inner.of(np.array([1, 2, 3, 4000])))
        with steps.repeat(0):
            steps(add, (1,), (1,), to, one, np.uint32(9))
    one_kernel(steps)
    assert to.get()[0] == 4 * (0 + 10 + 20) + 3 * 4006


def test_equal_launches_of_a_python_loop_share_a_row(queue: cl.CommandQueue) -> None:
    add = built(queue, _ADD).add
    to, one = words(queue, 0), words(queue, 1)
    sizes = []
    for count in (1, 500):
        steps = begun(queue)
        for _ in range(count):
            steps(add, (1,), (1,), to, one, np.uint32(1))
        steps.explain()
        assert steps._player is not None
        assert steps._player._replay is not None
        sizes.append(steps._player._replay._table.size)
    assert sizes[1] - sizes[0] <= 8 * 500


def test_steps_that_do_not_depend_on_each_other_meet_at_no_barrier(queue: cl.CommandQueue) -> None:
    add = built(queue, _ADD).add
    made = [words(queue, 1) for _ in range(4)]
    steps = begun(queue)
    with steps.repeat(10):
        steps(add, (1,), None, made[0], made[3], np.uint32(1))
        steps(add, (1,), None, made[1], made[3], np.uint32(1))
        steps(add, (1,), None, made[2], made[3], np.uint32(1))
    assert "30 launches" in steps.explain()
    assert "in one kernel: 10 barriers" in steps.explain()
    one_kernel(steps)
    assert [one.get()[0] for one in made] == [11, 11, 11, 1]


def test_parts_of_one_buffer_depend_on_each_other(queue: cl.CommandQueue) -> None:
    add = built(queue, _ADD).add
    align = max(1024, queue.device.mem_base_addr_align // 8)
    whole = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 4 * align)
    part, other = whole[:align], whole[2 * align : 3 * align]
    steps = begun(queue)
    steps.fill(whole, np.uint32(1))
    steps(add, (4,), None, part, other, np.uint32(1))
    steps(add, (4,), None, whole, part, np.uint32(1))
    assert "in one kernel: 2 barriers" in steps.explain()


def test_loop_with_a_flag_that_never_falls_is_an_error(queue: cl.CommandQueue) -> None:
    add = built(queue, _ADD).add
    to, one = words(queue, 1), words(queue, 1)
    steps = begun(queue)
    with steps.while_(to, limit=20):
        steps(add, (1,), None, to, one, np.uint32(1))
    ways = (False,) if portbar.describe(queue).loop_limit is not None else (False, True, True)
    for number, fused in enumerate(ways):
        launch = steps.launch(fused=fused)
        with pytest.raises(portbar.Error, match=r"before step 1 .*limit of 20 turns"):
            launch.wait()
        assert to.get()[0] == 1 + 20 * (number + 1)


def test_a_later_launch_does_not_hide_the_limit_of_an_earlier_one(queue: cl.CommandQueue) -> None:
    if portbar.describe(queue).loop_limit is not None:
        pytest.skip("loops end early")
    less = built(queue, "kernel void less(global uint *to) { to[0] -= 1; }").less
    to = words(queue, 15)
    steps = begun(queue)
    with steps.while_(to, limit=10):
        steps(less, (1,), None, to)
    first, second = steps.launch(fused=True), steps.launch(fused=True)
    second.wait()
    with pytest.raises(portbar.Error, match="limit of 10 turns"):
        first.wait()


def test_fills_and_copies_of_parts(queue: cl.CommandQueue) -> None:
    one, other = words(queue, *range(8)), words(queue, *range(8, 16))
    steps = begun(queue)
    steps.fill(one, np.uint16(0x1234), offset=2, size=4)
    steps.copy(other, one, to_offset=5, source_offset=1, size=3)
    steps.fill(other, np.float64(1), offset=16, size=8)
    expected = None
    for fused in (False, None):
        for array, first in ((one, 0), (other, 8)):
            array.set(np.arange(first, first + 8, dtype=np.uint32))
        steps.launch(fused=fused).wait()
        found = one.get().tobytes() + other.get().tobytes()
        assert expected in {None, found}
        expected = found
    assert one.get()[0] == 0x1234 << 16


def test_fills_and_copies_of_views_leave_the_rest(queue: cl.CommandQueue) -> None:
    to, one = words(queue, 1, 2, 3, 4), words(queue, 5, 6, 7, 8)
    steps = begun(queue)
    steps.fill(to[:2], np.uint32(9))
    steps.copy(to, one[:1])
    for fused in (False, None):
        to.set(np.arange(1, 5, dtype=np.uint32))
        steps.launch(fused=fused).wait()
        assert list(to.get()) == [5, 9, 3, 4]


def test_a_loop_of_no_turns_that_an_error_ends_is_left_out(queue: cl.CommandQueue) -> None:
    add = built(queue, _ADD).add
    to, one = words(queue, 0), words(queue, 1)
    steps = begun(queue)
    loop = steps.repeat(0)
    loop.__enter__()
    steps(add, (1,), None, to, one, np.uint32(1))
    error = portbar.LaunchError("of the caller")
    assert not loop.__exit__(type(error), error, None)
    steps(add, (1,), None, to, one, np.uint32(10))
    one_kernel(steps)
    assert to.get()[0] == 10


def test_smaller_work_groups_are_not_one_kernel_where_it_matters(queue: cl.CommandQueue) -> None:
    source = "kernel void work(global uint *to) { to[get_global_id(0)] = get_local_size(0); }"
    try:
        kernel = built(queue, source, "-cl-std=CL3.0").work
    except cl.RuntimeError:
        pytest.skip("the device has no OpenCL C 3.0")
    steps = portbar.record(queue, options=["-cl-std=CL3.0"])
    steps(kernel, (7,), (4,), words(queue, *range(7)))
    with pytest.raises(portbar.UnsupportedFeatureError, match=r"line 1: its last work-groups are smaller"):
        steps.launch(fused=True)


def test_later_launches_do_what_was_measured_to_be_faster(queue: cl.CommandQueue) -> None:
    add = built(queue, _ADD).add
    to, one = words(queue, 0), words(queue, 1)
    steps = begun(queue)
    with steps.repeat(50):
        steps(add, (1,), None, to, one, np.uint32(1))
    for _ in range(13):
        steps.launch().wait()
    assert to.get()[0] == 650
    said = steps.explain()
    assert re.search(r"launch\(\) (runs one kernel|enqueues command buffers|launches each step)", said), said


# Refusals


_BARRIERS = """
kernel void sum(global uint *to, local uint *mine)
{
    mine[get_local_id(0)] = to[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) == 0)
        to[get_group_id(0)] += mine[1];
}
"""


def test_work_groups_of_two_sizes_that_meet_are_refused_and_run_as_launches(queue: cl.CommandQueue) -> None:
    kernel = built(queue, _BARRIERS).sum
    to = words(queue, *range(16))
    steps = begun(queue)
    steps(kernel, (16,), (8,), to, cl.LocalMemory(32))
    steps(kernel, (4,), (4,), to, cl.LocalMemory(32))
    with pytest.raises(
        portbar.UnsupportedFeatureError, match=r"step 2 \(kernel 'sum'\).* 4 work-items, those of step 1"
    ):
        steps.launch(fused=True)
    assert (to.get() == np.arange(16)).all()
    steps.launch(fused=False).wait()
    assert to.get()[0] != 0
    assert "not one kernel: step 2" in steps.explain()


@pytest.mark.parametrize(
    ("source", "error"),
    [
        (
            "kernel void work(global uint *to)\n{\n    local uint tile[4];\n    to[0] = sizeof(tile);\n    tile[0] = 1;\n}",
            r"step 1 \(kernel 'work'\), program.cl, line 4: sizeof\(tile\) takes a local array as a whole",
        ),
        (
            "#define SET one = 1\nkernel void work(global uint *to)\n{\n    local uint one;\n    SET;\n    to[0] = one;\n}",
            r"step 1 \(kernel 'work'\), program.cl, line 5: a macro uses the local variable 'one'",
        ),
        (
            "kernel void other(global uint *to) { to[0] = 1; }\nkernel void work(global uint *to) { other(to); }",
            r"step 1 \(kernel 'work'\), program.cl, line 2: it calls a kernel",
        ),
    ],
)
def test_kernel_that_is_no_step_is_refused_with_its_line(queue: cl.CommandQueue, source: str, error: str) -> None:
    steps = begun(queue)
    steps(built(queue, source).work, (4,), (4,), words(queue, 1, 2, 3, 4))
    with pytest.raises(portbar.UnsupportedFeatureError, match=error):
        steps.launch(fused=True)
    with pytest.raises(portbar.UnsupportedFeatureError, match="launch\\(fused=False\\)"):
        steps.launch()
    steps.launch(fused=False).wait()


def test_constant_memory_that_a_step_writes_is_refused(queue: cl.CommandQueue) -> None:
    source = "kernel void work(global uint *to, constant uint *from) { to[0] = from[0]; }"
    steps = begun(queue)
    one = words(queue, 1)
    kernel = built(queue, source).work
    steps(kernel, (1,), None, words(queue, 1), one)
    steps.fill(one, np.uint32(2))
    with pytest.raises(portbar.UnsupportedFeatureError, match=r"step 1 \(kernel 'work'\).*'from', which is `constant`"):
        steps.launch(fused=True)


def _wrong(steps: portbar.Steps, add: Any, to: Any, one: Any) -> list[tuple[Any, str]]:
    n = np.uint32(1)
    return [
        (lambda: steps(add, (4,), None, to, one), r"step 1 \(kernel 'add'\) takes 3 arguments .*uint n.*, 2 given"),
        (lambda: steps(add, (4,), None, to, one, np.float32(1)), r"argument 2 \('n'\) has NumPy type float32"),
        (lambda: steps(add, (4,), None, to, one, -1), r"argument 2 \('n'\) is -1"),
        (lambda: steps(add, (4,), None, to, np.zeros(4), n), r"argument 1 \('from'\) is a ndarray"),
        (lambda: steps(add, (5,), (2,), to, one, n), r"\(5,\) is not a multiple of the local size \(2,\)"),
        (lambda: steps(add, (0,), None, to, one, n), "the global size must be 1 to 3 integers above 0"),
        (lambda: steps("add", (4,), None, to, one, n), "must be a pyopencl.Kernel or a portbar.Kernel, not str"),
        (lambda: steps.fill(to, 3), "takes a NumPy value"),
        (lambda: steps(add, (4.0,), None, to, one, n), "the global size must be 1 to 3 integers above 0"),
        (lambda: steps(add, (4,), None, to, one, n, global_offset=(0.5,)), "the global offset must have 1 integers"),
        (lambda: steps(add, (1 << 16,) * 2, None, to, one, n), "above 4294967295 work-items: launch it in parts"),
        (lambda: steps.while_(to, limit=1.5).__enter__(), r"while_\(\)'s limit takes an integer from 0"),
        (lambda: steps.while_(to, limit=1 << 32).__enter__(), r"while_\(\)'s limit takes an integer from 0"),
        (lambda: steps.copy(to, to), "two buffers that do not overlap"),
        (lambda: steps.repeat(-1).__enter__(), "takes an integer from 0"),
        (lambda: steps.while_(to, offset=3).__enter__(), "a word of 1, 2 or 4 bytes"),
        (steps.launch, "no steps are recorded"),
    ]


@pytest.mark.parametrize("number", range(17))
def test_wrong_steps_are_refused_when_they_are_recorded(queue: cl.CommandQueue, number: int) -> None:
    steps = begun(queue)
    call, message = _wrong(steps, built(queue, _ADD).add, words(queue, 1, 2, 3, 4), words(queue, 1, 2, 3, 4))[number]
    with pytest.raises(portbar.LaunchError, match=message):
        call()
    assert not steps._steps


def test_turn_of_another_loop_is_refused(queue: cl.CommandQueue) -> None:
    add = built(queue, _ADD).add
    to, one = words(queue, 1), words(queue, 1)
    steps = begun(queue)
    with steps.repeat(2) as turn:
        steps(add, (1,), None, to, one, turn)
    with pytest.raises(portbar.LaunchError, match="the turn of a loop that it is not in"):
        steps(add, (1,), None, to, one, turn)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (lambda turn: turn - 1, r"argument 2 \('n'\) is -1 in a turn, which uint does not hold"),
        (lambda turn: turn * np.uint32(2**31), r"argument 2 \('n'\) is 4294967296 in a turn"),
        (lambda turn: turn.of([1, 2, -3]), r"argument 2 \('n'\) is -3 in a turn"),
        (lambda turn: turn.of([1, 2]), "an array gives 2 values for 3 turns"),
        (
            lambda turn: turn.of(np.ones((3, 1))),
            r"of\(\) takes one number for each turn, not an array of shape \(3, 1\)",
        ),
    ],
)
def test_values_of_turns_are_checked_when_they_are_recorded(queue: cl.CommandQueue, value: Any, message: str) -> None:
    add = built(queue, _ADD).add
    steps = begun(queue)
    with steps.repeat(3) as turn, pytest.raises(portbar.LaunchError, match=message):
        steps(add, (1,), None, words(queue, 1), words(queue, 1), value(turn))


def test_turns_are_computed_with_numbers_only(queue: cl.CommandQueue) -> None:
    with begun(queue).repeat(3) as turn:
        for wrong in (lambda: turn + turn, lambda: turn * turn, lambda: turn - turn, lambda: turn * "2"):
            with pytest.raises(TypeError, match=r"unsupported operand|can't multiply"):
                wrong()
        assert (turn * np.uint8(3)).at(100) == 300


def test_kernel_with_a_grid_is_refused(queue: cl.CommandQueue) -> None:
    source = """#include "portbar/device_barrier.h"
    kernel void work(PORTBAR_GRID_PARAM, global uint *to) { PORTBAR_ENTER(grid); to[0] = 1; portbar_device_barrier(&grid); }
    """
    kernel = portbar.Program(queue.context, source).kernel("work")
    with pytest.raises(portbar.LaunchError, match="kernel 'work' takes PORTBAR_GRID_PARAM"):
        portbar.record(queue)(kernel, (1,), None, words(queue, 1))


def test_program_of_unknown_source_is_refused(queue: cl.CommandQueue) -> None:
    # The second is built from PyOpenCL's cache, where it has one for the driver.
    kept = [built(queue, _ADD) for _ in range(2)]
    program = cl.Program.from_int_ptr(kept[1].int_ptr)
    if str(program.get_info(cl.program_info.SOURCE)).strip("\0"):
        pytest.skip("the driver knows the source of a binary")
    with pytest.raises(portbar.LaunchError, match=r"step 1 \(kernel 'add'\): the driver does not give the source"):
        portbar.record(queue)(program.add, (1,), None, words(queue, 1), words(queue, 1), np.uint32(1))


def test_recordings_of_the_same_work_share_kernel_and_times(queue: cl.CommandQueue) -> None:
    if portbar.describe(queue).loop_limit is not None:
        pytest.skip("loops end early")
    kernel = built(queue, _ADD).add
    arrays = [[words(queue, *range(8)) for _ in "ab"] for _ in range(2)]
    made = []
    for number, size in ((0, 8), (1, 8), (1, 4)):
        steps = begun(queue)
        with steps.repeat(3):
            steps(kernel, (size,), None, *arrays[number], np.uint32(number))
        made.append(steps)
    for _ in range(6):
        made[0].launch().wait()
    replays = [steps._player._replay for steps in made if steps._player or steps.explain()]
    assert len({id(one._compiled) for one in replays}) == 1
    assert "one launch per step: " in made[1].explain()
    # Other sizes take other times.
    assert made[2].explain().endswith("launch() measures all ways in its first launches")
    assert "one launch per step: " not in made[2].explain()
    made[1].launch().wait()
    assert (arrays[1][0].get() == np.arange(8) * 4).all()
    assert (arrays[0][0].get() == np.arange(8)).all()
    other = cl.Context([queue.device])
    with cl.CommandQueue(other) as elsewhere:
        steps = begun(elsewhere)
        steps(built(elsewhere, _ADD).add, (8,), None, words(elsewhere, *range(8)), words(elsewhere, *range(8)), 1)
        steps.launch(fused=True).wait()
        assert steps._player._replay._compiled is not replays[0]._compiled
        elsewhere.finish()


def test_explain_compiles_no_kernel_that_the_device_should_not_run(
    queue: cl.CommandQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = begun(queue)
    steps(built(queue, _ADD).add, (8,), None, words(queue, *range(8)), words(queue, *range(8)), 1)
    steps._played()._doubt = "it said so"
    monkeypatch.setattr(player, "_Replay", None)
    assert steps.explain().splitlines()[1:] == [
        "in one kernel: 0 barriers",
        "launch() launches each step, because it said so",
    ]
    steps.launch().wait()


@pytest.mark.parametrize("size", [(80,), (80, 3), (48, 5, 3)])
@pytest.mark.parametrize("items", [4, 16])
def test_shares_that_begin_in_a_work_group_have_each_item_once(
    size: tuple[int, ...], items: int, queue: cl.CommandQueue
) -> None:
    source = """
        kernel void work(global uint *to)
        {
            const uint x = (int)get_group_id(0) * ITEMS + (int)get_local_id(0);
            const uint line = get_global_id(2) * get_global_size(1) + get_global_id(1);
            to[line * get_global_size(0) + x] += 1000u * (1u + get_local_id(0)) + get_group_id(0);
        }
    """
    to = cl.array.zeros(queue, np.prod(size), np.uint32)
    steps = begun(queue)
    with steps.repeat(2):
        program = cl.Program(queue.context, source.replace("ITEMS", str(items))).build()
        steps(program.work, size, (items, *[1] * (len(size) - 1)), to)
    one_kernel(steps)
    x = np.arange(np.prod(size)) % size[0]
    assert (to.get() == 2 * (1000 * (1 + x % items) + x // items)).all()


# Command buffers


def in_buffers(steps: portbar.Steps) -> portbar.Launch:
    """Launch the steps as command buffers; skip where the device has none."""
    if khr_command_buffer.EXTENSION not in steps.queue.device.extensions.split():
        with pytest.raises(
            portbar.UnsupportedFeatureError, match=r"no command buffers: .* has no cl_khr_command_buffer"
        ):
            steps.launch(command_buffers=True)
        pytest.skip("no command buffers")
    return steps.launch(command_buffers=True)


@pytest.mark.parametrize("in_order", [True, False])
def test_command_buffers_hold_the_values_of_all_turns(queue: cl.CommandQueue, in_order: bool) -> None:
    out_of_order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    if not in_order and not queue.device.queue_properties & out_of_order:
        pytest.skip("no queue out of order")
    own = cl.CommandQueue(queue.context, queue.device, 0 if in_order else out_of_order)
    add = built(own, _ADD).add
    to, one, more, other = words(own, 0), words(own, 1), words(own, 1), words(own, 1)
    own.finish()
    steps = begun(own)
    with steps.repeat(3) as outer:
        with steps.repeat(4) as inner:
            steps(add, (1,), (1,), to, one, outer * 10)
            steps(add, (1,), (1,), to, one, inner.of(np.array([1, 2, 3, 4000])))
        steps.fill(more, np.uint32(1))
        with steps.if_(more):
            steps(add, (1,), (1,), to, more, np.uint32(100_000))
        with steps.while_(more):
            steps.fill(more, np.uint32(0))
            steps.copy(one, other)
            steps(add, (1,), (1,), to, other, np.uint32(7))
    # A second launch before the end of the first.
    launches = [in_buffers(steps), in_buffers(steps)]
    for launch in launches:
        launch.wait()
    own.finish()
    assert to.get()[0] == 2 * (4 * (0 + 10 + 20) + 3 * 4006 + 3 * 100_000 + 3 * 7)


def test_command_buffers_of_fills_and_copies_of_parts(queue: cl.CommandQueue) -> None:
    one, other = words(queue, *range(8)), words(queue, *range(8, 16))
    steps = begun(queue)
    steps.fill(one, np.uint16(0x1234), offset=2, size=4)
    steps.copy(other, one, to_offset=5, source_offset=1, size=3)
    steps.fill(other, np.float64(1), offset=16, size=8)
    in_buffers(steps).wait()
    found = one.get().tobytes() + other.get().tobytes()
    for array, first in ((one, 0), (other, 8)):
        array.set(np.arange(first, first + 8, dtype=np.uint32))
    steps.launch(fused=False).wait()
    assert one.get().tobytes() + other.get().tobytes() == found


def test_command_buffers_end_a_loop_whose_flag_never_falls(queue: cl.CommandQueue) -> None:
    add = built(queue, _ADD).add
    to, one = words(queue, 1), words(queue, 1)
    steps = begun(queue)
    with steps.while_(to, limit=20):
        steps(add, (1,), None, to, one, np.uint32(1))
    for number in range(2):
        launch = in_buffers(steps)
        with pytest.raises(portbar.Error, match=r"before step 1 .*limit of 20 turns"):
            launch.wait()
        assert to.get()[0] == 1 + 20 * (number + 1)


def test_steps_that_no_command_buffer_can_have_are_named_and_run_otherwise(queue: cl.CommandQueue) -> None:
    add = built(queue, _ADD).add
    to, one, flag = words(queue, 0), words(queue, 1), words(queue, 0)
    steps = begun(queue)
    with steps.while_(flag) as turn:
        steps(add, (1,), None, to, one, turn + 1)
    with pytest.raises(
        portbar.UnsupportedFeatureError, match=r"no command buffers: step 1 \(kernel 'add'\) takes the turn"
    ):
        steps.launch(command_buffers=True)
    steps.launch().wait()
    with pytest.raises(portbar.LaunchError, match="not both"):
        steps.launch(fused=True, command_buffers=True)
    many = begun(queue)
    with many.repeat(30_000):
        many(add, (1,), None, to, one, np.uint32(1))
    with pytest.raises(
        portbar.UnsupportedFeatureError, match=r"30000 launches; command buffers are made of 20000 at most"
    ):
        many.launch(command_buffers=True)
    assert to.get()[0] == 0


def test_a_driver_that_refuses_command_buffers_runs_the_steps_otherwise(
    queue: cl.CommandQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise portbar.Error("clCreateCommandBufferKHR returned -5")

    monkeypatch.setattr(batches, "lack_of", lambda *_, **__: "")
    monkeypatch.setattr(batches, "CommandBuffer", refuse)
    to, one = words(queue, 0), words(queue, 1)
    steps = begun(queue)
    steps(built(queue, _ADD).add, (1,), None, to, one, np.uint32(1))
    for _ in range(2):
        steps.launch().wait()
    assert to.get()[0] == 2
    with pytest.raises(
        portbar.UnsupportedFeatureError, match="no command buffers: clCreateCommandBufferKHR returned -5"
    ):
        steps.launch(command_buffers=True)
