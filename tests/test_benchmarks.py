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
REQUIRED = {"benchmark", "device", "peer", "ratio", "ours_us", "peer_us", "samples"}


def run(*arguments: str, path: str | None = None, timeout: float = 110) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ)
    if path is not None:
        environment["PATH"] = path
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.device_barrier", *arguments],
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
