"""Random right programs come to what the interpreter says, on each runtime."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass

import pyopencl as cl
import pytest

from tests import support
from tests.generated.expressions import Name, Number
from tests.generated.interpreter import Machine
from tests.generated.launching import LOOPS_FROM, Bench
from tests.generated.programs import Program
from tests.generated.statements import Assign
from tests.generated.worker import Worker

pytestmark = pytest.mark.slow

NIGHTLY = "PORTBAR_TEST_NIGHTLY" in os.environ
#: Programs of the same seeds in each run, those with loops of their own kinds, those of other seeds, and how many a test tries.
FIXED, LOOPS, FRESH, SOME = (2000, 2000, 1000, 100) if NIGHTLY else (6, 2, 0, 1)
FIRSTS = [*range(0, FIXED, SOME), *range(LOOPS_FROM, LOOPS_FROM + LOOPS, SOME)]
#: Seconds for a program: PoCL compiles some for minutes on a busy machine.
LIMIT = 240.0


@pytest.fixture(scope="module")
def worker(device: cl.Device) -> Iterator[Worker]:
    scale = support.scale(device)
    if scale.is_simulator:
        pytest.skip("a simulator takes minutes for one of these programs")
    made = Worker(os.environ.get("PORTBAR_TEST_PLATFORM", ""), limit=LIMIT)
    yield made
    made.close()


def check(worker: Worker, seeds: list[int]) -> None:
    """Try the programs of these seeds."""
    faults = {seed: verdict for seed in seeds if (verdict := worker.ask(seed)).is_fault}
    assert not faults, "\n".join(
        f"seed {seed}: {verdict.kind}: {verdict.what}\n"
        f"    python -m tests.generated --shrink {seed} --platform {worker.platform or 'NAME'!r} prints a smaller one"
        for seed, verdict in faults.items()
    )


@pytest.mark.device
@pytest.mark.timeout(7200 if NIGHTLY else 900)
@pytest.mark.parametrize("first", FIRSTS)
def test_a_random_program_comes_to_what_the_interpreter_says(device: cl.Device, worker: Worker, first: int) -> None:
    check(worker, list(range(first, first + SOME)))


@pytest.mark.device
@pytest.mark.skipif(not NIGHTLY, reason="new seeds are for nights: PORTBAR_TEST_NIGHTLY is not set")
@pytest.mark.timeout(7200)
def test_so_does_one_that_no_run_has_tried(device: cl.Device, worker: Worker) -> None:
    draws = random.SystemRandom()
    check(
        worker,
        [draws.randrange(*limits) for limits in ((LOOPS_FROM,), (LOOPS_FROM, 1 << 32)) for _ in range(FRESH // 2)],
    )


@dataclass
class Lost(Assign):
    """An assignment that the device makes and the interpreter does not."""

    def run(self, machine: Machine) -> None:
        pass


@pytest.mark.device
def test_a_result_that_differs_is_found(context: cl.Context) -> None:
    right = Program(body=[Assign("v1", Name("lid"))])
    assert Bench(context).verdict(right, 0).kind == "right"
    wrong = Program(body=[Assign("v1", Name("lid")), Lost("v1", Number(7), "+")])
    found = Bench(context).verdict(wrong, 0)
    assert found.kind == "wrong"
    assert "the first is v1 of 0: 7, not 0" in found.what
