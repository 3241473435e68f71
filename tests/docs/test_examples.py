"""Every example runs, on the device under test, and finds its own result right."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyopencl as cl
import pytest

import portbar
from portbar.device.findings import Findings
from tests.checkout import ROOT, environment, ran

EXAMPLES = ROOT / "examples"
#: Those on graphs come first.
ALL = [
    *("search", "paths", "components", "independent", "colouring", "pagerank"),
    *("gradients", "jacobi", "life", "bitonic", "triangular", "decoding"),
]
#: A circle of six vertices with a chord; each edge stands for both directions.
CIRCLE = """%%MatrixMarket matrix coordinate pattern symmetric
% a comment
6 6 7
2 1
3 2
4 3
5 4
6 5
6 1
4 1
"""


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return ran(sys.executable, *arguments, cwd=ROOT, env=environment())


def platform_of(device: cl.Device) -> str:
    return os.environ.get("PORTBAR_TEST_PLATFORM") or f"{device.platform.name} {device.platform.version}"


def test_there_are_examples_and_the_readme_names_each() -> None:
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    found = sorted(EXAMPLES.glob("*.py"))
    assert found
    for path in found:
        assert f"({path.name})" in readme


@pytest.mark.device
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_example_runs_and_asserts_its_result(path: Path, device: cl.Device, findings: Findings | None) -> None:
    done = run(path, "--platform", platform_of(device))
    assert done.returncode == 0, done.stderr
    assert device.name.strip() in done.stdout


def run_applications(device: cl.Device, *arguments: str) -> list[str]:
    """The lines that the applications print of themselves."""
    if portbar.describe(device).loop_limit is not None:
        pytest.skip("the device ends loops before a search of all vertices is done")
    done = run("-m", "examples.applications", "--platform", platform_of(device), *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[1:]


@pytest.mark.device
@pytest.mark.parametrize("name", ALL)
def test_applications_agree_with_the_host_both_ways(device: cl.Device, name: str) -> None:
    lines = run_applications(device, name)
    assert [line.split()[0] for line in lines] == [name]


@pytest.mark.device
def test_applications_on_graphs_take_a_file(device: cl.Device, tmp_path: Path) -> None:
    path = tmp_path / "circle.mtx"
    path.write_text(CIRCLE, encoding="utf-8")
    lines = run_applications(device, "--graph", str(path))
    assert [line.split()[0] for line in lines] == ALL[:6]
    assert all(f"of {path}, 6 vertices and 14 edges:" in line for line in lines)


@pytest.mark.device
def test_applications_take_small_sizes(device: cl.Device) -> None:
    names = [name for name in ALL if name != "life"]
    lines = run_applications(device, *names, "--size", "8")
    assert [line.split(":")[0] for line in lines] == [f"  {name} of 8" for name in names]


@pytest.mark.parametrize(
    ("name", "size"),
    [*((name, size) for name in ALL for size in (-1, 0)), ("life", 1), ("gradients", 3), ("decoding", 12)],
)
def test_a_size_that_an_application_cannot_have_is_wrong_usage(
    name: str, size: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyopencl")
    from examples.applications import __main__  # noqa: PLC0415 (needs PyOpenCL)

    monkeypatch.setattr(sys, "argv", ["applications", name, f"--size={size}"])
    with pytest.raises(SystemExit) as left:
        __main__.main()
    assert left.value.code == 2
    assert f"--size of {name} must be in" in capsys.readouterr().err


def test_the_readme_names_the_applications() -> None:
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert "(applications)" in readme
    assert {path.stem for path in (EXAMPLES / "applications").glob("[!_]*.py")} == {*ALL, "common", "inputs"}


def test_jacobi_names_a_platform_that_does_not_exist() -> None:
    done = run(EXAMPLES / "jacobi.py", "--platform", "no such platform")
    assert done.returncode != 0
    assert "no such platform" in done.stderr or "no OpenCL platform" in done.stderr
