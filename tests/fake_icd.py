"""Builds drivers that misbehave on purpose, from `fake_icd.c`, for tests of what portbar does then."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_suffix(".c")


@functools.cache
def _built() -> bytes:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to build a fake driver with")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "libfake.so")
        subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"], check=True)
        return library.read_bytes()


def vendors(folder: Path, *behaviours: str) -> Path:
    """Make a vendor folder with one fake driver for each behaviour, such as `hang-load` or `fine-none`."""
    made = folder / "vendors"
    made.mkdir(parents=True)
    for behaviour in behaviours:
        library = folder / f"libfake-{behaviour}.so"
        library.write_bytes(_built())
        (made / f"{behaviour}.icd").write_text(f"{library}\n", encoding="utf-8")
    return made
