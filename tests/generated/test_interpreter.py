"""The interpreter of random programs: what C and portbar's documentation say; and the shrinker keeps programs right."""

from __future__ import annotations

import random

import numpy as np
import pytest

from portbar.primitives.headers import declarations
from portbar.reading.reader import is_available, read
from tests.generated.collectives import Barrier, Broadcast, Reduce, Scan, Vote
from tests.generated.drawing import Draw
from tests.generated.expressions import Arithmetic, Both, Comparison, Name, Number
from tests.generated.interpreter import Machine, NotUniformError
from tests.generated.jumps import Again, GoBack, Goto, Labelled
from tests.generated.launching import LOOPS_FROM, drawn, expected
from tests.generated.loops import LoopDraw
from tests.generated.primitives import Elements, Exchange, Frontier, Relay, Sum, Tasks, Team, Tiles
from tests.generated.programs import VARIABLES, Call, Function, Program
from tests.generated.scan_programs import ScanProgram
from tests.generated.shrink import is_whole, shrunk, size
from tests.generated.statements import (
    Assign,
    Atomic,
    Break,
    Case,
    Continue,
    Declare,
    Evaluate,
    For,
    If,
    Return,
    Switch,
    While,
)
from tests.generated.tree import Block, Expression, Statement
from tests.generated.worker import Worker

LID, ME, GROUP, K = Name("lid"), Name("me"), Name("group"), Name("k10")


def add(value: Expression | int) -> Assign:
    """Return what adds to v0."""
    return Assign("v0", Number(value) if isinstance(value, int) else value, "+")


def when(left: Expression, number: int, *then: object) -> If:
    return If(Comparison("==", left, Number(number)), list(then))  # type: ignore[arg-type]


TURNS = Number(4)
#: Rule -> statements, and v0 of two groups with three work-items each.
CASES: dict[str, tuple[Block, list[int]]] = {
    "continue goes on with the next turn": ([For("k10", TURNS, [when(K, 2, Continue()), add(K)])], [4] * 6),
    "break leaves the loop": ([For("k10", TURNS, [when(K, 2, Break()), add(10)])], [20] * 6),
    "some break": ([For("k10", TURNS, [when(K, 1, when(LID, 2, Break())), add(1)])], [4, 4, 1, 4, 4, 1]),
    "do executes once": ([While("do", "k10", Comparison("<", K, Number(0)), [add(K)])], [1] * 6),
    "while may not": ([While("while", "k10", Comparison("<", K, Number(0)), [add(7)])], [0] * 6),
    "do goes on after continue": ([While("do", "k10", Comparison("<", K, Number(3)), [add(K), Continue()])], [6] * 6),
    "down": (
        [For("k10", TURNS, [Assign("v0", Arithmetic("+", Arithmetic("*", Name("v0"), Number(10)), K))], down=True)],
        [4321] * 6,
    ),
    "trips differ": ([For("k10", LID, [add(1)])], [0, 1, 2, 0, 1, 2]),
    "a case falls": (
        [Switch(LID, [Case(0, [add(1)], falls=True), Case(1, [add(10)]), Case(None, [add(100)])])],
        [11, 10, 100] * 2,
    ),
    "a return leaves the others": ([add(1), when(LID, 1, Return()), add(1)], [2, 0xABCD, 2] * 2),
    "and of a call evaluates its right side where the left holds": (
        [
            If(
                Both(Comparison("==", GROUP, Number(1)), Comparison(">", Reduce("work_group", "add", LID), Number(2))),
                [add(5)],
            )
        ],
        [0, 0, 0, 5, 5, 5],
    ),
    "reductions": ([add(Reduce("device", "max", ME)), add(Reduce("work_group", "add", ME))], [8, 8, 8, 17, 17, 17]),
    "an inclusive scan": ([add(Scan("device", "add", False, ME))], [0, 1, 3, 6, 10, 15]),
    "an exclusive scan": ([add(Scan("work_group", "add", True, ME))], [0, 0, 1, 0, 3, 7]),
    "a broadcast": ([add(Broadcast("work_group", ME, 1))], [1, 1, 1, 4, 4, 4]),
    "votes": (
        [add(Vote("count", LID)), add(Vote("all", LID)), add(Vote("any", LID)), add(Vote("sum", ME))],
        [4 + 0 + 1 + 15] * 6,
    ),
    "an exchange": ([Exchange(0, ME, Evaluate(Barrier()), "v0", 2, Evaluate(Barrier()))], [2, 3, 4, 5, 0, 1]),
    "a sum": ([Sum("s10", "i10", Number(10), Name("i10"), "u0", "add"), add(Name("u0"))], [45] * 6),
    "teams of one": (
        [Team("team10", 1, [add(Reduce("team", "add", ME, team="team10"))], by_colour=False)],
        [0, 0, 0, 3, 3, 3],
    ),
    "a team of two": ([Team("team10", 2, [add(Reduce("team", "add", ME, team="team10"))], by_colour=False)], [3] * 6),
    "a loop of each team": (
        [
            Team(
                "team10",
                1,
                [While("do", "k10", Vote("any", Comparison("<=", K, GROUP), "team10"), [add(1)])],
                by_colour=True,
            )
        ],
        [1, 1, 1, 2, 2, 2],
    ),
    "a relay": ([Relay(Number(2), "u0", Evaluate(Barrier())), add(Name("u0"))], [8] * 6),
    "a relay goes on from the value of the group before": (
        [Relay(GROUP, "u0", Evaluate(Barrier())), add(Name("u0"))],
        [1] * 6,
    ),
    "a function returns early": (
        [
            add(
                Call(
                    Function("f0", True, [when(Name("v0"), 2, Return(Number(9)))], Number(1)),
                    [Number(0), Number(0), LID],
                )
            )
        ],
        [1, 1, 9] * 2,
    ),
}

CASES |= {
    "goto leaves two loops": (
        [
            Labelled("l10", [For("k10", TURNS, [For("k11", TURNS, [add(1), when(K, 1, Goto("l10"))]), add(10)])]),
            add(100),
        ],
        [4 + 10 + 1 + 100] * 6,
    ),
    "some goto": (
        [Labelled("l10", [For("k10", TURNS, [add(1), when(K, 1, when(LID, 2, Goto("l10")))]), add(10)]), add(100)],
        [114, 114, 102] * 2,
    ),
    "a goto back is a loop that executes once": (
        [Again("do", "l10", "k10", Comparison("<", K, Number(0)), [add(K)]), add(10)],
        [11] * 6,
    ),
    "or that may not": ([Again("while", "l10", "k10", Comparison("<", K, Number(0)), [add(7)])], [0] * 6),
    "trips of a loop of goto differ": (
        [Again("while", "l10", "k10", Comparison("<", K, LID), [add(1)])],
        [0, 1, 2] * 2,
    ),
    "a goto back begins the next turn": (
        [
            Again(
                "do",
                "l10",
                "k10",
                Comparison("<", K, Number(3)),
                [add(1), GoBack("l10", Both(Comparison("<", K, Number(2)), Comparison("==", LID, Number(0)))), add(10)],
            )
        ],
        [23, 33, 33] * 2,
    ),
    "a goto leaves a loop of goto": (
        [Labelled("l11", [Again("do", "l10", "k10", Number(1), [add(1), when(K, 3, Goto("l11"))])])],
        [3] * 6,
    ),
    "a vote lets all stay until the last is done": (
        [
            Declare("v10", LID),
            While(
                "do",
                "k10",
                Vote("any", Comparison("<", K, LID)),
                [when(LID, 0, Continue()), add(1)],
            ),
        ],
        [0, 2, 2] * 2,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_interpreter_executes_as_c_does(name: str) -> None:
    body, values = CASES[name]
    memory = expected(Program(body=body), 0, 2, 3).memory
    place = VARIABLES.index("v0") * (memory["out"].size // len(VARIABLES))
    assert memory["out"][place : place + 6].tolist() == values


VISIT: Block = [Atomic("add", 1, Name("e10"), portable=False)]
#: Statement -> what its body adds up to: a worklist begins with 8, and each element pushes its half twice.
SUMS: dict[str, tuple[Statement, int]] = {
    "tiles": (Tiles("i10", Number(5), [Atomic("add", 1, Name("i10"), portable=False)]), 3 * (1 + 2 + 3 + 4)),
    "elements": (Elements("i10", Number(5), [Atomic("add", 1, Name("i10"), portable=False)]), 1 + 2 + 3 + 4),
    "a frontier": (Frontier("e10", Number(7), Number(2), VISIT, [], tiled=False), 4 * 8),
    "tasks": (Tasks("e10", Number(7), Number(2), VISIT), 3 * 4 * 8),
}


@pytest.mark.parametrize("name", SUMS)
def test_each_element_is_taken_once(name: str) -> None:
    statement, total = SUMS[name]
    assert expected(Program(body=[statement]), 0, 2, 3).memory["cells"][1] == total


@pytest.mark.parametrize(
    "body",
    [
        [when(LID, 0, Evaluate(Barrier()))],
        [when(GROUP, 0, Evaluate(Barrier()))],
        [when(LID, 0, Return()), Evaluate(Reduce("work_group", "add", LID))],
        [For("k10", LID, [Evaluate(Barrier())])],
        [Again("do", "l10", "k10", Comparison("<", K, LID), [Evaluate(Barrier())])],
        [Labelled("l10", [when(LID, 0, Goto("l10")), Evaluate(Barrier())])],
        [Assign("u0", GROUP)],
        [Declare("g10", LID)],
    ],
)
def test_a_program_that_is_not_right_is_found(body: Block) -> None:
    with pytest.raises(NotUniformError):
        expected(Program(body=body), 0, 2, 3)


def test_a_seed_is_one_program() -> None:
    texts = {drawn(seed).text() for seed in (3, 3, 4)}
    assert len(texts) == 2


@pytest.mark.skipif(not is_available(), reason="no libclang for this platform")
@pytest.mark.parametrize("first", [0, 20, 40, LOOPS_FROM, LOOPS_FROM + 20, LOOPS_FROM + 40, LOOPS_FROM + 60])
def test_no_program_is_refused(first: int) -> None:
    for seed in range(first, first + 20):
        found = read("k.cl", drawn(seed).text(), declarations())
        # Functions of declared loops are known to `Program` alone.
        assert not found.misuses, f"seed {seed}: {found.misuses}"


def test_collectives_stand_in_nested_control_flow() -> None:
    draws = random.Random(1)  # noqa: S311 (nothing secret)
    kinds = {type(node).__name__ for _ in range(60) for node in Draw(draws).program().walk()}
    assert kinds >= {
        "Vote",
        "Reduce",
        "Scan",
        "Tiles",
        "Frontier",
        "Tasks",
        "Team",
        "Relay",
        "SplitDevice",
        "Awaited",
        "Use",
    }


def test_loops_that_work_items_leave_apart_and_labels_stand_among_collectives() -> None:
    draws = random.Random(1)  # noqa: S311 (nothing secret)
    programs = [LoopDraw(draws).program() for _ in range(60)]
    kinds = {type(node).__name__ for program in programs for node in program.walk()}
    assert kinds >= {"Again", "GoBack", "Goto", "Labelled", "Sequence"}
    loops = [node for program in programs for node in program.walk() if isinstance(node, Again)]
    assert any(isinstance(node, (Vote, Reduce)) for loop in loops for node in loop.walk())


def test_a_smaller_program_keeps_the_labels_of_its_jumps() -> None:
    program = Program(body=[Labelled("l10", [For("k10", TURNS, [add(1), when(K, 1, Goto("l10"))])])])
    assert is_whole(program)
    program.body = program.body[0].body  # type: ignore[attr-defined]
    assert not is_whole(program)


def test_a_failing_program_is_made_smaller_and_stays_right() -> None:
    """The failure is a sum of a grid in a loop."""

    def fails(program: Program) -> bool:
        assert is_whole(program)
        loops = [node for one in program.body for node in one.walk() if isinstance(node, (For, While))]
        return any(isinstance(node, Reduce) and node.scope == "device" for loop in loops for node in loop.walk())

    tried = 0
    for seed in range(60):
        program = drawn(seed)
        if fails(program):
            smaller = shrunk(program, fails)
            assert fails(smaller)
            assert size(smaller) < 25, smaller.text()
            tried += 1
            if tried == 3:
                return
    pytest.fail("no such program")


def test_a_worker_that_dies_is_replaced() -> None:
    worker = Worker("no such platform", limit=60.0)
    try:
        assert worker.ask(0).kind == "no device"
        assert worker.process is not None
        worker.process.kill()
        assert worker.ask(0).what == "SIGKILL"
        assert worker.ask(0).kind == "no device"
    finally:
        worker.close()


def test_memory_of_a_machine_wraps() -> None:
    machine = Machine(1, 1, {})
    assert Arithmetic("-", Number(0), Number(1)).value(machine) == np.uint32(0xFFFFFFFF)


def test_a_scan_program_scans_the_tiles_in_order() -> None:
    program = ScanProgram(value=ME, operator="add", exclusive=False, after=[when(GROUP, 1, add(100))])
    memory = expected(program, 0, 2, 3).memory
    place = VARIABLES.index("v0") * (memory["out"].size // len(VARIABLES))
    assert memory["out"][place : place + 6].tolist() == [0, 1, 3, 106, 110, 115]
