"""Barriers, tables and phases, without a device."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from portbar.primitives.run_kernels.phases import Phase, PhaseParameter, Phases, phases_of
from portbar.reading.found import Place
from portbar.reading.reader import is_available
from portbar.recording import table
from portbar.recording.dependences import Waits, barriers_of, launches_of
from portbar.recording.origin import Origin
from portbar.recording.steps import Buffer, Call, Conditional, Flag, Repetition, Step, StepValue, Turn
from portbar.recording.table import StepTable, slots_of

pytest.importorskip("pyopencl")

A, B, C = (Buffer(object(), root) for root in (1, 2, 3))


def call(reads: Buffer, writes: Buffer, value: int = 0) -> Call:
    parameters = (
        PhaseParameter("reads", "const global uint *", "global", only_read=True),
        PhaseParameter("writes", "global uint *", "global"),
        PhaseParameter("value", "uint", "value", True, np.dtype(np.uint32), 4),
    )
    phase = Phase("work", Place("a.cl", 1), parameters, None, False, False, True, False)
    arguments = (reads, writes, StepValue(np.uint32(value).tobytes()))
    origin = Origin("a.cl", "", (), ())
    return Call(1, "work", phase, origin, 1, (4, 1, 1), None, (0, 0, 0), arguments, lambda *_: None)


def waiting(steps: list[Step]) -> list[bool]:
    waits = Waits(steps)
    return [step in waits for step in steps]


def test_a_step_waits_for_those_that_write_what_it_uses_or_use_what_it_writes() -> None:
    assert waiting([call(A, B), call(A, C)]) == [False, False]
    assert waiting([call(A, B), call(B, C)]) == [False, True]
    assert waiting([call(A, B), call(C, A)]) == [False, True]
    assert waiting([call(A, B), call(C, B)]) == [False, True]
    # The second barrier is that of the step before.
    assert waiting([call(A, B), call(B, C), call(A, B)]) == [False, True, True]
    assert waiting([call(A, B), call(B, C), Conditional(Flag(A, 0, 4)), call(A, A)]) == [False, True, False, True]


def test_a_turn_waits_for_the_turn_before() -> None:
    lone = call(A, B)
    assert lone in Waits([Repetition(3, body=[lone])])
    first, second = call(A, B), call(A, C)
    waits = Waits([Repetition(3, body=[first, second])])
    # One barrier per turn is enough: before the first.
    assert [first in waits, second in waits] == [True, False]
    assert barriers_of([Repetition(3, body=[first, second])], waits) == 3


def test_a_flag_is_read_after_its_writer_and_before_the_next_one() -> None:
    body = call(A, B)
    loop = Repetition(9, Flag(B, 0, 4), 1, [body])
    waits = Waits([loop])
    assert loop in waits
    assert body in waits
    other = call(A, C)
    loop = Repetition(9, Flag(B, 0, 4), 1, [other])
    assert loop not in Waits([loop])


def test_launches_are_counted_with_turns() -> None:
    assert launches_of([call(A, B), Repetition(5, body=[call(A, B), Repetition(2, body=[call(A, B)])])]) == 16


def test_turns_of_64_bits_are_exact() -> None:
    turn = Turn(Repetition(3)) + (2**63 - 1)
    assert turn.all(np.dtype(np.uint64)).tolist() == [2**63 - 1, 2**63, 2**63 + 1]


def test_equal_rows_are_there_once_and_operations_follow_each_other() -> None:
    calls = [call(A, B, 7), call(A, B, 7), call(A, B, 8)]
    slots = slots_of([one.arguments for one in calls])
    numbers = {id(one): (0, slots) for one in calls}
    made = StepTable(calls, Waits(calls), numbers, {id(A.memory): 0, id(B.memory): 1})
    codes, rows = made.words[0:8:2], made.words[1:8:2]
    assert list(codes[1:]) == [table.MARK + table.STEP, table.MARK + table.STEP, table.MARK + table.END]
    assert codes[0] == table.MARK + table.STEP
    assert rows[0] == rows[1] != rows[2]
    value = slots[2]
    assert value is not None
    assert [made.words[row + value.at // 4] for row in rows[:3]] == [7, 7, 8]


def read(text: str) -> Phases:
    if not is_available():
        pytest.skip("libclang is missing")
    return phases_of("a.cl", text, (), ())


@pytest.mark.parametrize(
    ("body", "vectorises"),
    [
        ("float x = to[i]; float4 v = x; to[i] = v.y;", True),
        ("global float *x = to + i; *x = 2;", True),
        ("float x[4] = {1, 2, 3, 4}; to[i] = x[i % 4];", False),
        ("float x[4] = {1, 2, 3, 4}; float *p = x; to[i] = p[i % 4];", False),
        ("struct { float x; } s; s.x = 1; to[i] = s.x;", False),
        ("float x = 1; float *p = &x; *p = 2; to[i] = x;", False),
        ("to[i] = helper(i);", False),
    ],
)
def test_loops_are_vectorised_where_work_items_need_no_memory(body: str, vectorises: bool) -> None:
    found = read(
        "float helper(int i) { float x[2]; x[0] = 1; x[1] = 2; return x[i % 2]; }\n"
        f"kernel void work(global float *to) {{ const int i = get_global_id(0); {body} }}\n"
    )
    assert found.phases["work"].vectorises is vectorises


def test_phases_keep_the_lines_of_their_program() -> None:
    text = "kernel void one(\n    global int *a)\n{\n    local int x[2],\n        y;\n    x[0] = y = 1;\n    a[0] = x[0];\n}\n"
    found = read(text)
    assert found.text.count("\n") == text.count("\n")
    assert found.phases["one"].meets
    assert found.text.splitlines()[6] == "    a[0] = x[0];"


def test_only_kernels_and_helpers_that_ask_for_ids_get_a_place() -> None:
    found = read(
        "int plain(int x) { return x; }\nint inner(void) { return get_local_id(0); }\n"
        "int outer(int x) { return inner() + x; }\n"
        "kernel void work(global int *a, const global int *b) { a[0] = outer(plain(b[0])); }\n"
    )
    assert found.declared == {"plain": None, "inner": 0, "outer": 1, "work": 2}
    assert [one.only_read for one in found.phases["work"].parameters] == [False, True]
    assert found.phases["work"].asks_local
    assert Path(found.name).name == "a.cl"


@pytest.mark.parametrize(
    "head", ["work(void)", "work()", "work /* ( */ ( /* no ( */ void )", "work(void /* nothing */)"]
)
def test_hidden_parameters_go_into_the_brackets_of_a_head(head: str) -> None:
    (line,) = read(f"kernel void {head} {{ }}").text.splitlines()
    assert re.fullmatch(r"kernel void portbar_\w*work\(PORTBAR_STEP_PARAM\) \{ \}", line)


def test_hidden_parameters_precede_others() -> None:
    text = read("kernel void work // (\n/* ( */ (global int *a) { a[0] = 1; }").text
    assert "work(PORTBAR_STEP_PARAM, global int *a)" in " ".join(text.split())


@pytest.mark.parametrize(
    ("body", "only_read"),
    [
        ("((global int *)b)[0] = 1;", False),
        ("global int *c = (global int *)(b + 1); c[0] = 1;", False),
        ("put(b);", False),
        ("a[0] = ((const global int2 *)b)[0].x;", True),
        ("((global float *)a)[0] = b[0];", True),
    ],
)
def test_a_pointer_whose_const_is_cast_away_is_written(body: str, only_read: bool) -> None:
    found = read(
        "void put(const global int *x) { *(global int *)x = 2; }\n"
        f"kernel void work(global int *a, const global int *b) {{ {body} }}\n"
    )
    assert found.phases["work"].parameters[1].only_read is only_read


@pytest.mark.parametrize(("ids", "count"), [("1", 0), ("1, 2", 1)])
def test_broadcasts_by_several_ids_are_a_problem(ids: str, count: int) -> None:
    if not is_available():
        pytest.skip("libclang is missing")
    found = phases_of(
        "a.cl",
        f"kernel void work(global int *a) {{ a[0] = work_group_broadcast(a[1], {ids}); }}\n",
        ("-cl-std=CL2.0",),
        (),
    )
    assert [one.place.line for one in found.phases["work"].problems] == [1] * count


def test_overloads_of_which_one_asks_for_ids_are_a_problem() -> None:
    found = read(
        "int __attribute__((overloadable)) f(int x) { return get_global_id(0); }\n"
        "int __attribute__((overloadable)) f(float x) { return 1; }\n"
        "kernel void work(global int *a) { a[0] = f(1) + f(1.0f); }\n"
    )
    assert [(one.place.line, "f() has an overload" in one.reason) for one in found.problems] == [(2, True)]


def test_variables_at_program_scope_are_a_problem() -> None:
    found = read("global int kept;\nkernel void work(global int *a) { a[0] = ++kept; }\n")
    assert "keeps its value from launch to launch" in str(found.problems[0])
    assert found.problems[0].place.line == 1
