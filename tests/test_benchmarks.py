"""The benchmarks run, each line of theirs is valid, and a missing peer is skipped with a reason."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import pyopencl as cl

    from portbar.findings import Findings

ROOT = Path(__file__).parent.parent
CALLS = {"operation", "type", "place", "order", "strategy", "target", "met"}
REQUIRED = {"benchmark", "device", "peer", "ratio", "ours_us", "peer_us", "samples"}


def run(
    *arguments: str, module: str = "device_barrier", path: str | None = None, timeout: float = 110
) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ)
    if path is not None:
        environment["PATH"] = path
    return subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def rows_of(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_row(row: dict[str, Any]) -> None:
    assert set(row) >= REQUIRED
    assert row["samples"] >= 5
    assert row["ours_us"] > 0
    if row["benchmark"] == "discovery-recall":
        assert row["peer_us"] is None
        assert 0 <= row["ratio"] <= 1
        assert row["ratio"] == row["missed"] / row["samples"]
    else:
        assert row["peer_us"] > 0
        assert row["ratio"] == pytest.approx(row["ours_us"] / row["peer_us"])


@pytest.fixture
def platform(device: cl.Device, findings: Findings | None) -> str:
    return f"{device.platform.name.strip()} {device.platform.version.strip()}"


@pytest.mark.device
@pytest.mark.slow
def test_every_line_of_the_device_barrier_benchmark_is_valid(platform: str) -> None:
    done = run("--json", "--quick", "--platform", platform)
    rows = rows_of(done)
    for row in rows:
        check_row(row)
    peers = {row["peer"] for row in rows}
    assert {"relaunch", "ticket-discovery", "spin-discovery", "expected-count", "raw-enqueue"} <= peers
    measured = {row["local_size"] for row in rows if row["peer"] == "relaunch"}
    assert measured == {1, 64} or (measured == {1} and "above the kernel's limit" in done.stderr)
    if "libgomp" not in peers:
        assert "libgomp" in done.stderr


@pytest.mark.device
def test_libgomp_is_skipped_with_the_reason_without_a_compiler(platform: str, tmp_path: Path) -> None:
    done = run("--json", "--quick", "--local", "1", "--only", "barrier", "--platform", platform, path=str(tmp_path))
    rows = rows_of(done)
    assert [row["peer"] for row in rows] == ["relaunch"]
    check_row(rows[0])
    assert "libgomp skipped: there is no C compiler" in done.stderr


@pytest.mark.device
def test_without_json_there_is_a_table(platform: str) -> None:
    done = run("--quick", "--local", "1", "--only", "recall", "--platform", platform)
    assert done.returncode == 0, done.stderr
    assert "benchmark" in done.stdout
    assert not done.stdout.lstrip().startswith("{")


@pytest.mark.parametrize("arguments", [("--only", "nothing"), ("--local", "many"), ("--local", "0"), ("--unknown",)])
def test_wrong_command_line_ends_with_status_2(arguments: tuple[str, ...]) -> None:
    pytest.importorskip("pyopencl")
    done = run(*arguments)
    assert done.returncode == 2
    assert "usage" in done.stderr


def test_no_matching_device_ends_with_status_3() -> None:
    pytest.importorskip("pyopencl")
    done = run("--json", "--platform", "no such platform")
    assert done.returncode == 3
    assert done.stdout == ""
    assert "no" in done.stderr


def selector(device: cl.Device) -> str:
    from portbar.device import address_of  # noqa: PLC0415 (a host test's own imports decide what it needs)

    address = address_of(device)
    return f"{address.platform_index}:{address.device_index}"


@pytest.mark.device
@pytest.mark.slow
def test_atomics_benchmark_prints_one_document_with_right_sums(device: cl.Device, findings: Findings | None) -> None:
    done = run("--json", "--quick", "--device", selector(device), module="atomics")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["benchmark"], document["quick"]) == ("atomics", True)
    rows = document["rows"]
    for row in rows:
        assert set(row) >= REQUIRED | CALLS
        # A wrong sum on portbar's side is a row without times, which ends with status 1.
        assert "error" not in row
        assert row["samples"] >= 5
        assert min(row["ours_us"], row["peer_us"], row["ratio"], row["control"], row["rounds"], row["work_items"]) > 0
        assert row["met"] == (None if row["target"] is None else row["ratio"] <= row["target"])
        assert row["cores"] is None or row["cores"] > 0
        # A device that ends loops early would leave wrong sums.
        limit = findings.loop_limit if findings is not None else None
        assert limit is None or row["rounds"] < limit
    raw = {(row["operation"], row["place"]) for row in rows if row["peer"] == "atomic_add"}
    assert raw == {(call, place) for call in ("fetch_add", "add") for place in ("contended", "uncontended")}
    assert {row["target"] for row in rows if row["benchmark"] == "fetch_add"} == {1.02}
    floats = [row for row in rows if row["benchmark"] == "float_add" and row["peer"].startswith("loop-")]
    for kind in {row["type"] for row in floats} | {"float"}:
        own = [row for row in floats if row["type"] == kind]
        assert {row["place"] for row in own} == {"contended", "contended_64", "uncontended"}
        assert all(row["target"] == (None if row["native"] else 1.1) for row in own)
        assert all(row["ratio"] == max(row["ratios"].values()) for row in own)


@pytest.mark.device
def test_kernels_of_both_sides_leave_the_same_words_and_sums(device: cl.Device, findings: Findings | None) -> None:
    code = (
        "import sys\n"
        "import numpy as np, pyopencl as cl\n"
        "from benchmarks.atomics import *\n"
        "device = select_devices(sys.argv[1:])[0][1]\n"
        "bench = Bench(Session(device, device.name, cl.Context([device]), True))\n"
        "for place in PLACES:\n"
        "    task = Task('fetch_add', bench.kinds[0], place)\n"
        "    for side in (\n"
        "        bench.build(HEADER, {'k': (task, ours(task))}, ours=True),\n"
        "        bench.build('', {'k': (task, 'atomic_add(p, 1u)')}),\n"
        "        # Twice the value: the check must tell.\n"
        "        bench.build('', {'k': (task, 'atomic_add(p, 2u)')}),\n"
        "    ):\n"
        "        bench._launch(task, side['k'], bench.items, 3)\n"
        "        print(place, bench._fault(task, bench.items, 3) or 'right')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, selector(device)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    for place in ("contended", "contended_64", "uncontended"):
        ours, raw, doubled = (line.removeprefix(f"{place} ") for line in lines if line.startswith(f"{place} "))
        assert (ours, raw) == ("right", "right")
        assert "a word holds" in doubled


@pytest.mark.device
def test_a_side_with_wrong_sums_is_left_out_and_ours_makes_the_row_an_error(
    device: cl.Device, findings: Findings | None
) -> None:
    code = (
        "import sys\n"
        "import pyopencl as cl\n"
        "from benchmarks.atomics import *\n"
        "device = select_devices(sys.argv[1:])[0][1]\n"
        "bench = Bench(Session(device, device.name, cl.Context([device]), True))\n"
        "task = Task('add', bench.kinds[0], 'contended')\n"
        "right, wrong = (bench.build('', {'k': (task, f'atomic_add(p, {n}u)')})['k'] for n in (1, 2))\n"
        "rows = list(rows_of(bench, 'fetch_add', task, {'portbar': right, 'good': right, 'bad': wrong}))\n"
        "print([row.peer for row in rows])\n"
        "rows = list(rows_of(bench, 'fetch_add', task, {'portbar': wrong, 'good': right}))\n"
        "print([(row.ratio, row.extra['error']) for row in rows])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, selector(device)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "['good']"
    assert "bad left out" in done.stderr
    assert "(None, 'portbar: a word holds" in second


@pytest.mark.device
@pytest.mark.slow
def test_atomics_benchmark_says_in_a_table_whether_targets_are_met(
    device: cl.Device, findings: Findings | None
) -> None:
    done = run("--quick", "--device", selector(device), module="atomics")
    assert done.returncode == 0, done.stderr
    assert "target met" in done.stdout
    assert "(1.02)" in done.stdout
    assert not done.stdout.lstrip().startswith("{")


@pytest.mark.parametrize(("arguments", "status"), [(("--unknown",), 2), (("--json", "--device", "no such device"), 3)])
def test_atomics_benchmark_refuses_what_it_cannot_measure(arguments: tuple[str, ...], status: int) -> None:
    pytest.importorskip("pyopencl")
    done = run(*arguments, module="atomics")
    assert done.returncode == status
    assert done.stdout == ""
    assert done.stderr


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_libgomp_program_counts_its_own_barriers() -> None:
    pytest.importorskip("pyopencl")
    code = (
        "from benchmarks.device_barrier import *\n"
        "with libgomp() as binary:\n"
        "    assert binary is None or gomp_us(binary, 2, 500) > 0\n"
        "    print('compiled' if binary else 'refused')\n"
        "assert binary is None or not binary.exists()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "compiled" or "libgomp skipped" in done.stderr
