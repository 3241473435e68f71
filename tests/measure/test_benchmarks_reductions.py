"""The benchmark of reductions runs, its lines are valid, and it sees wrong results and peers that fail."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.checkout import ROOT

if TYPE_CHECKING:
    import pyopencl as cl

    from portbar.findings.findings import Findings

REQUIRED = {"benchmark", "device", "peer", "ratio", "ours_us", "peer_us", "samples", "target", "met"}


def run(*arguments: str, timeout: float = 110) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.reductions", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def python(code: str, *arguments: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def selected(device: cl.Device, findings: Findings | None) -> str:
    """Return what selects the device under test, which is fast enough to be measured."""
    if "Oclgrind" in device.name or "llvmpipe" in device.name:
        pytest.skip("a simulator's times tell nothing, and take minutes")
    from portbar.device.facts import address_of  # noqa: PLC0415

    address = address_of(device)
    return f"{address.platform_index}:{address.device_index}"


@pytest.mark.device
@pytest.mark.slow
def test_every_line_is_valid(selected: str) -> None:
    done = run("--json", "--quick", "--device", selected)
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    for row in rows:
        assert set(row) >= REQUIRED
        assert row["samples"] >= 5
        assert min(row["ours_us"], row["peer_us"], row["ratio"]) > 0
        assert row["met"] == (None if row["target"] is None else row["ratio"] <= row["target"])
        scale = row["threads"] if row["peer"] == "NumPy, one thread" else 1
        assert row["ratio"] == pytest.approx(row["ours_us"] / row["peer_us"] * scale)
    assert {row["benchmark"] for row in rows} >= {"sum", "sum_min_max", "reproducible", "call"}
    assert {row["peer"] for row in rows if row["benchmark"] == "sum"} >= {"ReductionKernel"}
    assert {row["target"] for row in rows if row["benchmark"] == "sum_min_max"} == {1.1}


@pytest.mark.device
@pytest.mark.slow
def test_the_table_names_what_was_measured(selected: str) -> None:
    done = run("--quick", "--device", selected, "--only", "call", "--only", "together")
    assert done.returncode == 0, done.stderr
    assert "target met" in done.stdout
    assert "sum_min_max" in done.stdout
    assert "ReductionKernel" in done.stdout


@pytest.mark.device
def test_tuning_ranks_shapes_and_marks_that_of_the_table(selected: str) -> None:
    code = (
        "import sys, benchmarks.reductions as bench\n"
        "from portbar.device.facts import select_devices\n"
        "device = select_devices(sys.argv[1:])[0][1]\n"
        "session = bench.ReductionSession(device, 'here', bench.cl.Context([device]), True, None, None)\n"
        "bench.candidates = lambda session: [bench.Shape(1, 64, 2, 2, 4, 1, False), bench.Shape(1, 32, 4, 2, 1, 1, False)]\n"
        "bench.range = lambda *all: (16,)\n"
        "records = list(bench.tune(session, ['float32'], repeats=3))\n"
        "bench.show_tuning(records)\n"
        "print(len(records), sum(record['in_table'] for record in records))\n"
    )
    *shown, last = python(code, selected)
    assert last == "3 1"
    assert shown[0] == "here: float32 x 2^16"
    assert sum(line.startswith("  * ") for line in shown) == 1
    assert len(shown) == 4


@pytest.mark.device
def test_a_wrong_sum_is_a_row_without_times(selected: str) -> None:
    code = (
        "import sys, benchmarks.reductions as bench\n"
        "from portbar.device.facts import select_devices\n"
        "device = select_devices(sys.argv[1:])[0][1]\n"
        "session = bench.ReductionSession(device, 'here', bench.cl.Context([device]), True, None, None)\n"
        "bench.sizes = lambda session: [(bench.np.int32, 4096)]\n"
        "right = bench.reduce\n"
        "bench.reduce = lambda *all, **more: right(*all, **more, initial=1)\n"
        "for row in bench.sums(session):\n"
        "    print(row.ours_us, row.extra['error'])\n"
    )
    (line,) = python(code, selected)
    assert line in {"None portbar left 14337, the sum is 14336", "None portbar left 14337.0, the sum is 14336"}


@pytest.mark.parametrize(("arguments", "status"), [(("--unknown",), 2), (("--json", "--device", "no such device"), 3)])
def test_what_it_cannot_measure_is_refused(arguments: tuple[str, ...], status: int) -> None:
    pytest.importorskip("pyopencl")
    done = run(*arguments)
    assert done.returncode == status
    assert done.stdout == ""
    assert done.stderr


#: A compiler that leaves a program which answers as the CUDA program does: well, badly, then not at all.
COMPILER = """#!/bin/sh
echo "$@" > {folder}/arguments
cp "$(eval echo \\${{$#}})" {folder}/source.cu
while [ "$1" != -o ]; do shift; done
cat > "$2" <<'END'
#!{python}
import sys, time
print('{{"name": "none", "cub": 300000}}', flush=True)
answers = ['{{"seconds": 0.5, "sum": 28.0}}', '{{"error": "busy"}}']
for line in sys.stdin:
    assert line == "float32 8 0 0\\n", line
    if not answers:
        time.sleep(60)
    print(answers.pop(0), flush=True)
END
chmod +x "$2"
"""


def test_cuda_program_is_asked_and_ended_when_it_hangs(tmp_path: Path) -> None:
    pytest.importorskip("pyopencl")
    compiler = tmp_path / "nvcc"
    compiler.write_text(COMPILER.format(folder=tmp_path, python=sys.executable), encoding="utf-8")
    compiler.chmod(0o755)
    code = (
        "import benchmarks.reductions_cub as bench\n"
        "from portbar.errors import Error\n"
        "from benchmarks.cuda import cuda_program\n"
        "with cuda_program(bench.CUDA_SOURCE, 'reductions', (9, 0), bench.CubPeer) as peer:\n"
        "    peer._limit_s = 1.0\n"
        "    print(peer.about['cub'])\n"
        "    for _ in range(4):\n"
        "        try:\n"
        "            print(peer.order('float32', 8))\n"
        "        except Error as error:\n"
        "            print(type(error).__name__, error)\n"
    )
    about, right, bad, hung, ended = python(code, PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert (about, right) == ("300000", "{'seconds': 0.5, 'sum': 28.0}")
    assert bad == "Error the CUDA program failed: busy"
    assert "took more than 1 s" in hung
    assert "has ended" in ended
    assert (tmp_path / "arguments").read_text(encoding="utf-8").split()[:3] == ["-O3", "-std=c++17", "-arch=sm_90"]
    source = (tmp_path / "source.cu").read_text(encoding="utf-8")
    assert source.count("{") == source.count("}")
    assert "PERIOD" not in source


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_cuda_program_compiles(tmp_path: Path) -> None:
    pytest.importorskip("pyopencl")
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from benchmarks.cuda import compiled\n"
        "from benchmarks.reductions_cub import CUDA_SOURCE\n"
        "print(compiled(CUDA_SOURCE, Path(sys.argv[1], 'peer'), (9, 0)).exists())\n"
    )
    assert python(code, str(tmp_path)) == ["True"]


def test_expected_values_are_those_of_a_loop() -> None:
    pytest.importorskip("pyopencl")
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
