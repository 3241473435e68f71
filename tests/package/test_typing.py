"""A user's mypy sees portbar's types: a wheel in an environment of its own, and a small program checked with --strict."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.checkout import ran
from tests.package.test_packaging import wheel

__all__ = ["wheel"]  # a fixture

PROGRAM = '''
"""A user's program, as in the README."""

from __future__ import annotations

import numpy as np
import portbar
import pyopencl as cl


def smooth(queue: cl.CommandQueue, source: str, a: cl.Buffer, n: int) -> int:
    program = portbar.Program(queue.context, source)
    kernel: portbar.Kernel = program.kernel("smooth")
    local = kernel.suggested_local_size(queue)
    launch: portbar.Launch = kernel(queue, None, local, a, np.uint32(n))
    try:
        launch.wait()
    except portbar.BarrierTimeoutError as error:
        print(error)
    return launch.num_groups


def main(device: cl.Device) -> str:
    strategy: portbar.Strategy = portbar.choose(portbar.describe(device))
    return f"{portbar.__version__} {strategy.summary()} {portbar.render(device, ('device_barrier',))}"
'''

#: The replacement of a part of the program, and mypy's message.
MISTAKES = [
    ("portbar.Program(queue.context, source)", "portbar.Program(queue.context, 3)", "arg-type"),
    ("launch.num_groups", "launch.number_of_groups", "attr-defined"),
    ("-> str:", "-> int:", "return-value"),
    ("portbar.BarrierTimeoutError", "portbar.BarrierTimeout", "attr-defined"),
]


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, and this one's packages for its dependencies; mypy asks it where packages are."""
    if importlib.util.find_spec("mypy") is None:
        pytest.skip('mypy is not installed: pip install "portbar[dev]"')
    folder = tmp_path_factory.mktemp("user")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=180)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    asked = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
    zipfile.ZipFile(wheel).extractall(packages)
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return python


def mypy(python: Path, folder: Path, programs: dict[str, str], cache: str = "cache") -> tuple[int, str]:
    """Check these files in one run, which reads the types of NumPy and PyOpenCL once for all."""
    for name, program in programs.items():
        (folder / name).write_text(program, encoding="utf-8")
    # A checkout in the path would take the place of the wheel.
    env = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "MYPYPATH"}}
    options = ["--strict", "--config-file=", f"--cache-dir={python.parent.parent / cache}"]
    command = ["mypy", *options, f"--python-executable={python}", *programs]
    done = ran(sys.executable, "-m", *command, cwd=folder, env=env)
    return done.returncode, done.stdout + done.stderr


def test_a_users_program_is_type_checked_and_mistakes_are_found(python: Path, tmp_path: Path) -> None:
    assert all(old in PROGRAM for old, _, _ in MISTAKES)
    wrong = {f"mistake_{i}.py": PROGRAM.replace(old, new) for i, (old, new, _) in enumerate(MISTAKES)}
    status, said = mypy(python, tmp_path, {"program.py": PROGRAM, **wrong})
    assert status == 1
    found = set(re.findall(r"^(\w+\.py):\d+: error: .*\[([\w-]+)\]$", said, re.MULTILINE))
    assert found >= {(name, code) for name, (_, _, code) in zip(wrong, MISTAKES, strict=True)}, said
    assert {name for name, _ in found} == set(wrong), said


def test_without_the_marker_there_are_no_types(python: Path, tmp_path: Path) -> None:
    """The test above depends on portbar's py.typed, not on luck."""
    environment = python.parent.parent
    # The cache holds the types of all packages; those of portbar must be read again.
    if (environment / "cache").exists():
        shutil.copytree(environment / "cache", environment / "other", ignore=shutil.ignore_patterns("portbar*"))
    (marker,) = environment.rglob("portbar/py.typed")
    marker.unlink()
    try:
        status, said = mypy(python, tmp_path, {"program.py": PROGRAM}, "other")
    finally:
        marker.touch()
    assert status == 1
    assert "py.typed marker" in said
