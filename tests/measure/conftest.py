"""Runs benchmarks and pieces of them in processes of their own, and checks their lines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.checkout import ROOT

Done = subprocess.CompletedProcess[str]

#: The fields of each line of a benchmark, and further ones of lines with a target.
REQUIRED = {"benchmark", "device", "peer", "ratio", "ours_us", "peer_us", "samples"}
TARGETED = REQUIRED | {"target", "met"}


def _run(*arguments: str, **environment: str) -> Done:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def run(module: str, *arguments: str, **environment: str) -> Done:
    """Run a benchmark."""
    return _run("-m", f"benchmarks.{module}", *arguments, **environment)


def python(code: str, *arguments: str, **environment: str) -> Done:
    """Run a piece of Python, which has to end well."""
    done = _run("-c", code, *arguments, **environment)
    assert done.returncode == 0, done.stderr
    return done


def rows_of(done: Done) -> list[dict[str, Any]]:
    """The lines of a benchmark that ended well."""
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def measured(module: str, selector: str, *arguments: str, **environment: str) -> tuple[list[dict[str, Any]], str]:
    """The lines of a quick run of a benchmark on a device, and what it said beside them."""
    done = run(module, "--json", "--quick", "--device", selector, *arguments, **environment)
    return rows_of(done), done.stderr


def check_row(row: dict[str, Any]) -> None:
    """A line of a benchmark with a peer."""
    assert set(row) >= REQUIRED
    assert row["samples"] >= 5
    assert min(row["ours_us"], row["peer_us"]) > 0
    assert row["ratio"] == pytest.approx(row["ours_us"] / row["peer_us"])


def check_targeted(row: dict[str, Any]) -> None:
    """A line of a benchmark whose rows have targets; a wrong result would be one without times."""
    assert set(row) >= TARGETED
    assert "error" not in row
    assert row["samples"] >= 5
    assert min(row["ours_us"], row["peer_us"], row["ratio"]) > 0
    assert row["met"] == (None if row["target"] is None else row["ratio"] <= row["target"])


@pytest.fixture
def on_device(selector: str) -> Callable[..., Done]:
    """Return what runs a piece of Python that finds the device under test as `device`."""
    head = "import sys\nimport pyopencl as cl\nfrom portbar.device.addresses import select_devices\n"

    def call(code: str) -> Done:
        return python(f"{head}device = select_devices(sys.argv[1:])[0][1]\n{code}", selector)

    return call
