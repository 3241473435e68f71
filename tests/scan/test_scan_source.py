"""The text of the scan's kernels for NVIDIA's GPUs, compiled and assembled without one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from models.weak_memory.programs import clang
from portbar.arrays.request import outputs_of
from portbar.arrays.scan_source import WARPS, ScanJob, quad_of
from portbar.arrays.shape import Layout, Shape
from portbar.arrays.statement import Statement
from portbar.primitives.reduction.types import type_of
from tests.gpu_code import TARGETS, assembled, compiled_alone, strategy_for

#: The oldest and the newest: between them the words differ in nothing else.
PTX = [target for target in TARGETS if target.atomics == "ptx"][::2]
LAYOUT = Layout(Shape(local=128, load_bytes=1, loads=1, sets=1, per_unit=1), 1)


def job_of(dtype, *, segments="", **more):
    """Return the kernel of a sum."""
    kind = type_of(dtype, "x_type")
    wanted = outputs_of(("x",), np.dtype(dtype), "+", None, None, None, None)
    cut = WARPS if segments else replace(WARPS, length=WARPS.length * quad_of(kind))
    return ScanJob((("x", kind),), wanted, LAYOUT, cut=cut, segments=segments, **more)


PAIR = np.dtype([("a", np.float32), ("b", np.int64)], align=True)
TEXT = Statement("y[i] = item;", (("y", type_of(np.float32, "y_type")),))
CASES = {
    "bytes": (np.int8, {}),
    "floats, exclusive": (np.float32, {"exclusive": True}),
    "longs": (np.int64, {}),
    "pairs": (PAIR, {"exclusive": True}),
    "floats by flags": (np.float32, {"segments": "uchar"}),
    "longs by lines": (np.int64, {"segments": "lines", "near": False}),
    "a statement": (np.float32, {"writes": False, "statement": TEXT}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("target", PTX, ids=lambda target: target.name)
def test_kernels_for_warps_assemble(target, case, tmp_path):
    if clang() is None:
        pytest.skip("no clang: apt-get install clang")
    dtype, more = CASES[case]
    compiled_alone(target, job_of(dtype, **more).text(strategy_for(target)), tmp_path)
    assembled(target, tmp_path)
