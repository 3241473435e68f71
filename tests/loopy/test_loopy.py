"""Programs of loopy give the same bits in one kernel as in loopy's own launches."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest

pytest.importorskip("loopy", reason='no loopy: `pip install "portbar[loopy]"` brings it')

import loopy as lp

import portbar
from portbar.recording.loopy import RecordingExecutor, RecordingTarget, _Index, _TurnNeededError
from portbar.recording.steps import Repetition, Turn
from tests.checkout import ROOT
from tests.loopy.programs import PROGRAMS, REVERSAL, STENCIL, UNEVEN, LoopyProgram

Arrays = dict[str, cl.array.Array]


def arrays_of(program: LoopyProgram, queue: cl.CommandQueue) -> Arrays:
    return {name: cl.array.to_device(queue, array) for name, array in program.arrays.items()}


def executor_of(program: LoopyProgram, queue: cl.CommandQueue, **options: Any) -> RecordingExecutor:
    made = program.made(RecordingTarget()).executor(queue, **options)
    assert isinstance(made, RecordingExecutor)
    return made


def expected_of(program: LoopyProgram, queue: cl.CommandQueue, calls: int = 1) -> Arrays:
    """The arrays after launches of loopy's own."""
    executor = program.made(lp.PyOpenCLTarget()).executor(queue)
    arrays = arrays_of(program, queue)
    for _ in range(calls):
        event, _ = executor(queue, **arrays, **program.numbers)
        event.wait()
    return arrays


def check_same(arrays: Arrays, expected: Arrays) -> None:
    for name, array in expected.items():
        assert array.get().tobytes() == arrays[name].get().tobytes(), name


def is_short(queue: cl.CommandQueue) -> bool:
    return portbar.describe(queue).loop_limit is not None


@pytest.mark.device
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_kernel_and_launches_give_the_bits_of_loopys_launches(name: str, queue: cl.CommandQueue) -> None:
    program = PROGRAMS[name]
    expected = expected_of(program, queue, 2)
    assert any(expected[name].get().tobytes() != array.tobytes() for name, array in program.arrays.items())
    for fused in (None, False) if is_short(queue) else (True, False, None):
        executor = executor_of(program, queue, fused=fused)
        arrays = arrays_of(program, queue)
        for _ in range(2):
            event, _ = executor(queue, **arrays, **program.numbers)
            event.wait()
            executor.launch.wait()
        check_same(arrays, expected)
        assert "launches on" in executor.explain()
        if not is_short(queue):
            assert ("that meet" in executor.explain()) == (name == "prefix")


@pytest.mark.device
@pytest.mark.parametrize(("name", "launches"), [("stencil", 2), ("elimination", 2), ("triangle", 3 * 5)])
def test_a_loop_is_recorded_once_unless_its_turns_differ(
    name: str, launches: int, queue: cl.CommandQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = PROGRAMS[name]
    begun: list[int] = []

    class Counting(portbar.Steps):
        def __call__(self, *args: Any, **options: Any) -> None:
            begun[-1] += 1
            super().__call__(*args, **options)

    def record(queue: cl.CommandQueue, **options: Any) -> Counting:
        begun.append(0)
        steps = portbar.record(queue, **options)
        steps.__class__ = Counting
        return steps  # type: ignore[return-value]

    monkeypatch.setattr("portbar.recording.loopy.record", record)
    executor = executor_of(program, queue, fused=False)
    executor(queue, **arrays_of(program, queue), **program.numbers)
    assert begun[-1] == launches
    # Each attempt but the last found a loop to unroll.
    assert len(begun) == (2 if name == "triangle" else 1)


@pytest.mark.device
def test_a_call_with_the_same_arrays_and_numbers_is_not_recorded_again(
    queue: cl.CommandQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []

    def record(queue: cl.CommandQueue, **options: Any) -> portbar.Steps:
        begun.append(queue)
        return portbar.record(queue, **options)

    monkeypatch.setattr("portbar.recording.loopy.record", record)
    executor = executor_of(STENCIL, queue, fused=False)
    arrays, others = arrays_of(STENCIL, queue), arrays_of(STENCIL, queue)
    # Equal numbers may differ in their bits.
    zero, minus_zero = {"scale": np.float32(0.0)}, {"scale": np.float32(-0.0)}
    calls = [
        (arrays, {}),
        (arrays, {}),
        (others, {}),
        (arrays, {}),
        (arrays, zero),
        (arrays, minus_zero),
        (arrays, zero),
    ]
    counts = []
    for given, numbers in calls:
        executor(queue, **given, **STENCIL.numbers | numbers)
        counts.append(len(begun))
    assert counts == [1, 1, 2, 2, 3, 4, 4]
    queue.finish()
    with cl.CommandQueue(queue.context) as other:
        executor(other, **arrays, **STENCIL.numbers | zero)
        other.finish()
    assert len(begun) == 5


@pytest.mark.device
def test_zeros_of_both_signs_give_their_own_results(queue: cl.CommandQueue) -> None:
    executor = executor_of(STENCIL, queue, fused=False)
    signs = []
    arrays = arrays_of(STENCIL, queue)
    for scale in (0.0, -0.0):
        arrays["a"].set(STENCIL.arrays["a"])
        event, _ = executor(queue, **arrays, n=100, steps=1, scale=scale)
        event.wait()
        signs.append(np.signbit(arrays["b"].get()).all())
    assert signs == [False, True]


@pytest.mark.device
def test_old_recordings_let_go_of_their_arrays(queue: cl.CommandQueue) -> None:
    executor = executor_of(STENCIL, queue, fused=False)
    kept: list[weakref.ref[Any]] = []

    class Kept(cl.Buffer):
        """A buffer that can be looked for."""

    for _ in range(12):
        buffers = [Kept(queue.context, cl.mem_flags.READ_WRITE, 400) for _ in "ab"]
        arrays = [cl.array.Array(queue, 100, np.float32, data=buffer) for buffer in buffers]
        executor(queue, a=arrays[0].fill(1), b=arrays[1], **STENCIL.numbers)
        kept.append(weakref.ref(buffers[0]))
    queue.finish()
    del arrays, buffers
    gc.collect()
    assert [one() is not None for one in kept] == [False] * 4 + [True] * 8


@pytest.mark.device
def test_arrays_of_numpy_come_back_as_from_loopy(queue: cl.CommandQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = expected_of(REVERSAL, queue)["a"].get()
    executor = executor_of(REVERSAL, queue)
    given = REVERSAL.arrays["a"].copy()
    _, (found,) = executor(queue, a=given, **REVERSAL.numbers)
    assert found is given
    assert (given == expected).all()

    def fail(launch: portbar.Launch) -> None:
        raise portbar.BarrierTimeoutError("late")

    # Results of a failed launch are not handed out.
    monkeypatch.setattr("portbar.recording.player.RecordedLaunch.wait", fail)
    executor.fused = False
    with pytest.raises(portbar.BarrierTimeoutError, match="late"):
        executor(queue, a=given, **REVERSAL.numbers)


@pytest.mark.device
def test_types_may_be_those_of_the_arrays(queue: cl.CommandQueue) -> None:
    program = lp.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        """
        b[i] = 2 * a[i]
        ... gbarrier
        c[j] = b[n - 1 - j]
        """,
        [lp.GlobalArg("b, c", shape="n", is_input=False), ...],
        target=RecordingTarget(),
        seq_dependencies=True,
        lang_version=(2018, 2),
    )
    program = lp.set_options(lp.tag_inames(program, {"i": "g.0", "j": "g.0"}), return_dict=True)
    executor = program.executor(queue)
    for dtype in (np.int32, np.float32):
        a = cl.array.arange(queue, 5, dtype=dtype)
        _, results = executor(queue, a=a)
        executor.launch.wait()
        assert results["c"].dtype == dtype
        assert results["c"].get().tolist() == [8, 6, 4, 2, 0]


@pytest.mark.device
def test_a_call_waits_for_events_and_earlier_calls_in_any_order(context: cl.Context) -> None:
    in_any_order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    if not context.devices[0].queue_properties & in_any_order:
        pytest.skip("no queues without order")
    queue = cl.CommandQueue(context, properties=in_any_order)
    expected = expected_of(REVERSAL, cl.CommandQueue(context), 6)
    executor = executor_of(REVERSAL, queue, fused=False)
    arrays = arrays_of(REVERSAL, queue)
    begin = cl.UserEvent(context)
    events = [begin]
    # An array of PyOpenCL waits for its events when it has more than ten.
    for _ in range(6):
        event, _ = executor(queue, wait_for=events, **arrays, **REVERSAL.numbers)
        events = []
    assert event.command_execution_status != cl.command_execution_status.COMPLETE
    begin.set_status(cl.command_execution_status.COMPLETE)
    queue.finish()
    check_same(arrays, expected)


@pytest.mark.device
def test_nothing_to_do_is_no_error(queue: cl.CommandQueue) -> None:
    executor = executor_of(STENCIL, queue)
    with pytest.raises(portbar.LaunchError, match="has launched nothing"):
        executor.explain()
    arrays = arrays_of(STENCIL, queue)
    event, _ = executor(queue, **arrays, **STENCIL.numbers | {"steps": np.int32(0)})
    event.wait()
    assert (arrays["a"].get() == STENCIL.arrays["a"]).all()
    with pytest.raises(portbar.LaunchError, match="has launched nothing"):
        _ = executor.launch


@pytest.mark.device
@pytest.mark.parametrize("fused", [None, True])
def test_kernels_that_cannot_be_one_are_refused_and_run_as_launches(fused: bool | None, queue: cl.CommandQueue) -> None:
    arrays = arrays_of(UNEVEN, queue)
    refused = executor_of(UNEVEN, queue, fused=fused)
    with pytest.raises(portbar.UnsupportedFeatureError, match=r"step 2 \(kernel 'made_0'\).*launch\(fused=False\)"):
        refused(queue, **arrays, **UNEVEN.numbers)
    event, _ = executor_of(UNEVEN, queue, fused=False)(queue, **arrays, **UNEVEN.numbers)
    event.wait()
    check_same(arrays, expected_of(UNEVEN, queue))


def test_arguments_in_shared_virtual_memory_are_refused() -> None:
    with pytest.raises(portbar.UnsupportedFeatureError, match="leave the limit out"):
        RecordingTarget(limit_arg_size_nbytes=64)


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "+": lambda turn: turn + 1,
    "1 -": lambda turn: 1 - turn,
    "-": lambda turn: -turn,
    "*": lambda turn: 2 * turn,
    "//": lambda turn: turn // 2,
    "%": lambda turn: turn % 2,
    "==": lambda turn: turn == 0,
    "!=": lambda turn: turn != 0,
    "<": lambda turn: turn < 3,
    "not": lambda turn: not turn,
    "min": lambda turn: min(5, turn),
    "range": range,
    "int": int,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_turn_that_a_host_program_computes_with_is_needed(name: str) -> None:
    turn: Any = _Index("t", Turn(Repetition(4)))
    with pytest.raises(_TurnNeededError, match="t"):
        OPERATIONS[name](turn)


def test_another_target_has_other_host_programs() -> None:
    mine, other = (STENCIL.made(target) for target in (RecordingTarget(), lp.PyOpenCLTarget()))
    assert RecordingTarget() == RecordingTarget() != lp.PyOpenCLTarget()
    codes = [lp.generate_code_v2(lp.linearize(lp.preprocess_program(one))) for one in (mine, other)]
    assert codes[0].device_code() == codes[1].device_code()
    assert "_lpy_recorder.turns('t', 0, -1 + steps + 1)" in codes[0].host_code()


def test_without_loopy_the_error_says_how_to_install_it() -> None:
    code = "import sys; sys.modules['loopy'] = None; import portbar.recording.loopy"
    made = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert 'pip install "portbar[loopy]"' in made.stderr.splitlines()[-1]
