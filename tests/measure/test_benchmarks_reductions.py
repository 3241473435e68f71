"""The benchmark of reductions runs, its lines are valid, and it sees wrong results and peers that fail."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.measure.conftest import Done, check_targeted, measured, python, run


@pytest.fixture(autouse=True)
def _is_fast_enough(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("device") and re.search(
        "Oclgrind|llvmpipe", request.getfixturevalue("device").name
    ):
        pytest.skip("a simulator's times tell nothing, and take minutes")


@pytest.mark.device
@pytest.mark.slow
def test_every_line_is_valid(selector: str) -> None:
    rows, _ = measured("reductions", selector)
    for row in rows:
        check_targeted(row)
        scale = row["threads"] if row["peer"] == "NumPy, one thread" else 1
        assert row["ratio"] == pytest.approx(row["ours_us"] / row["peer_us"] * scale)
    assert {row["benchmark"] for row in rows} >= {
        *("sum", "sum_min_max", "reproducible", "call", "new_length", "first_axis"),
    }
    assert {row["peer"] for row in rows if row["benchmark"] == "sum"} >= {"ReductionKernel"}
    assert {row["target"] for row in rows if row["benchmark"] == "sum_min_max"} == {1.1}


@pytest.mark.device
@pytest.mark.slow
def test_the_table_names_what_was_measured(selector: str) -> None:
    done = run("reductions", "--quick", "--device", selector, "--only", "call", "--only", "together")
    assert done.returncode == 0, done.stderr
    assert "target met" in done.stdout
    assert "sum_min_max" in done.stdout
    assert "ReductionKernel" in done.stdout


@pytest.mark.device
def test_tuning_ranks_shapes_and_marks_that_of_the_table(on_device: Callable[..., Done]) -> None:
    code = (
        "import benchmarks.reductions as bench\n"
        "session = bench.ReductionSession(device, 'here', bench.cl.Context([device]), True, None, None)\n"
        "bench.candidates = lambda session: [bench.Shape(1, 64, 2, 2, 4, 1, False), bench.Shape(1, 32, 4, 2, 1, 1, False)]\n"
        "bench.range = lambda *all: (16,)\n"
        "records = list(bench.tune(session, ['float32']))\n"
        "bench.show_tuning(records)\n"
        "print(len(records), sum(record['in_table'] for record in records))\n"
    )
    *shown, last = on_device(code).stdout.splitlines()
    assert last == "3 1"
    assert shown[0] == "here: float32 x 2^16"
    assert sum(line.startswith("  * ") for line in shown) == 1
    assert len(shown) == 4


@pytest.mark.device
def test_a_wrong_sum_is_a_row_without_times(on_device: Callable[..., Done]) -> None:
    code = (
        "import benchmarks.reductions as bench\n"
        "session = bench.ReductionSession(device, 'here', bench.cl.Context([device]), True, None, None)\n"
        "bench.sizes = lambda session: [(bench.np.int32, 4096)]\n"
        "right = bench.reduce\n"
        "bench.reduce = lambda *all, **more: right(*all, **more, initial=1)\n"
        "for row in bench.sums(session):\n"
        "    print(row.ours_us, row.extra['error'])\n"
    )
    (line,) = on_device(code).stdout.splitlines()
    assert line in {"None portbar left 14337, the sum is 14336", "None portbar left 14337.0, the sum is 14336"}


def test_expected_values_are_those_of_a_loop() -> None:
    code = (
        "from benchmarks.reductions import *\n"
        "for size in (0, 1, 7, 8, 1000):\n"
        "    assert sum_of(size) == sum(i % PERIOD for i in range(size))\n"
        "for kind in ('uint', 'float'):\n"
        "    x = list(range(4))\n"
        "    for _ in range(3):\n"
        "        total = sum(x)\n"
        "        x = [(total * 1664525 + i) % 2**32 if kind == 'uint' else total / 4 + i for i in range(4)]\n"
        "    assert value_after(kind, 4, 3) == x[0], (kind, x)\n"
    )
    python(code)
