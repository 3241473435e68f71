"""The kernels of `portbar.scan` for groups that share local memory compile for GPUs, whatever is asked for."""

from __future__ import annotations

import re

import numpy as np
import pytest

from portbar.arrays.request import outputs_of
from portbar.arrays.scan_source import TILES, ScanJob
from portbar.arrays.shape import Layout, Shape
from portbar.arrays.statement import Statement
from portbar.primitives.headers import resolve_includes
from portbar.primitives.reduction.types import type_of
from tests.gpu_code import TARGETS, assembled, clang, compiled_alone, strategy_for

INT = type_of(np.int32, "x")
WRITES = Statement("y[i] = item + prev_item + last_item;", (("y", INT),))
#: Map expression, and what else a job says.
JOBS = {
    "plain": (None, {}),
    "exclusive": (None, {"exclusive": True}),
    "around": ("i == 0 || x != x[i - 1]", {}),
    "statement": (None, {"writes": False, "statement": WRITES}),
    "flags": ("x + 1", {"segments": "uchar"}),
    "rows": (None, {"segments": "lines", "exclusive": True}),
    "columns": (None, {"segments": "lines", "near": False, "wide": True}),
}


#: Those with PTX's memory model take the kernel for warps: test_scan_source.py.
OTHERS = [target for target in TARGETS if target.atomics != "ptx"]


@pytest.mark.parametrize("asked", JOBS)
@pytest.mark.parametrize("target", OTHERS, ids=lambda target: target.name)
def test_kernels_compile(target, asked, tmp_path):
    if clang() is None:
        pytest.skip("no clang is installed")
    mapped, more = JOBS[asked]
    wanted = outputs_of(("x",), INT.dtype, "+", mapped, None, None, None, neighbours=True)
    cut = TILES["gpu"]
    shape = Shape(local=cut.local, load_bytes=4, loads=1, sets=1, per_unit=1)
    job = ScanJob((("x", INT),), wanted, Layout(shape, 1), cut=cut, **more)
    strategy = strategy_for(target)
    text = resolve_includes(job.text(strategy), strategy)
    assert len(re.findall(r"\bkernel\b", text)) == 1
    compiled_alone(target, text, tmp_path)
    if target.assemble_for:
        assembled(target, tmp_path)
