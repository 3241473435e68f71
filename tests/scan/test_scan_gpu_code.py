"""`portbar.scan` and `portbar/scan.h` compile for GPUs of every kind, whatever is asked for."""

from __future__ import annotations

import re
from itertools import cycle

import numpy as np
import pytest

import portbar
from portbar.arrays.request import outputs_of
from portbar.arrays.scan_source import TILES, ScanJob, quad_of, warps_tile
from portbar.arrays.shape import Shape, SizedShape
from portbar.arrays.statement import Statement
from portbar.device.tuning import FewTilesShape, ScanShape
from portbar.primitives.headers import resolve_includes
from portbar.primitives.reduction.types import type_of
from tests.gpu_code import TARGETS, assembled, clang, compiled_alone, strategy_for

pytestmark = pytest.mark.skipif(clang() is None, reason="no clang: apt-get install clang")

PAIR = np.dtype([("a", np.float32), ("b", np.int64)], align=True)


def job_of(dtype, cut, mapped=None, **more):
    """Return the kernel of a sum."""
    kind = type_of(dtype, "x_type")
    wanted = outputs_of(("x",), np.dtype(dtype), "+", mapped, None, None, None, neighbours=True)
    shape = Shape(local=cut.local, load_bytes=cut.load_bytes, loads=1, sets=1, per_unit=1)
    return ScanJob((("x", kind),), wanted, SizedShape(shape, 1), cut=cut, **more)


def compiles(target, text, tmp_path):
    compiled_alone(target, text, tmp_path)
    if target.assemble_for:
        assembled(target, tmp_path)


WRITES = Statement("y[i] = item + prev_item + last_item;", (("y", type_of(np.int32, "x")),))
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


@pytest.mark.parametrize("asked", JOBS)
@pytest.mark.parametrize("target", [t for t in TARGETS if t.atomics != "ptx"], ids=lambda target: target.name)
def test_kernels_for_groups_compile(target, asked, tmp_path):
    mapped, more = JOBS[asked]
    strategy = strategy_for(target)
    text = resolve_includes(job_of(np.int32, TILES["gpu"], mapped, **more).text(strategy), strategy)
    assert len(re.findall(r"\bkernel\b", text)) == 1
    compiles(target, text, tmp_path)


TEXT = Statement("y[i] = item;", (("y", type_of(np.float32, "y_type")),))
WARP_JOBS = {
    "bytes": (np.int8, {}),
    "floats, exclusive": (np.float32, {"exclusive": True}),
    "longs": (np.int64, {}),
    "pairs": (PAIR, {"exclusive": True}),
    "floats by flags": (np.float32, {"segments": "uchar"}),
    "longs by lines": (np.int64, {"segments": "lines", "near": False}),
    "a statement": (np.float32, {"writes": False, "statement": TEXT}),
}


def test_the_first_shape_whose_tiles_suffice_is_taken():
    few = (FewTilesShape(up_to=64, local=256, rows=4, polls=8), FewTilesShape(up_to=128, local=256, rows=8, polls=8))
    shape = ScanShape(local=128, rows=22, polls=2, few=few)
    for quad in (1, 2, 4):
        most = [one.up_to * one.local * one.rows * quad for one in few]
        found = [warps_tile(shape, quad, n) for n in (1, most[0], most[0] + 1, most[1], most[1] + 1)]
        assert [tile.length // quad for tile in found] == [4, 4, 8, 8, 22]
        assert [tile.ordered for tile in found] == [False] * 4 + [True]


# In turn, since both compile the same text of a job.
@pytest.mark.parametrize("elements", [1000, 1 << 30], ids=["few", "many"])
@pytest.mark.parametrize(("asked", "target"), list(zip(WARP_JOBS, cycle(t for t in TARGETS if t.atomics == "ptx"))))
def test_kernels_for_warps_assemble(target, asked, elements, tmp_path):
    dtype, more = WARP_JOBS[asked]
    quad = 1 if "segments" in more else quad_of(type_of(dtype, "x_type"))
    strategy = strategy_for(target)
    assert strategy.tuning.arrays.scan is not None
    job = job_of(dtype, warps_tile(strategy.tuning.arrays.scan, quad, elements), **more)
    compiles(target, job.text(strategy), tmp_path)


SOURCE = """
#include "portbar/scan.h"
kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void scans(PORTBAR_SCAN_PARAM, global KIND_value *out)
{
    local KIND_scan scan;
    const uint tile = KIND_begin(&scan);
    KIND_publish(&scan, out[64u * tile + get_local_id(0)]);
    while (KIND_missing(&scan))
        KIND_supply(&scan, out[64u * KIND_missing_tile(&scan) + get_local_id(0)]);
    out[1000u + 64u * tile + get_local_id(0)] = KIND_exclusive(&scan);
    out[2000u + 64u * tile + get_local_id(0)] = KIND_inclusive(&scan);
}
"""
MIXED = np.dtype([("p", np.uint64), ("q", np.uint32)], align=True)
SCANS = (
    portbar.DeviceScan("small", np.uint8, "max"),
    portbar.DeviceScan("number", np.float32),
    portbar.DeviceScan(
        "pair", MIXED, portbar.Operator("((pair_value){ a.p + b.p, b.q })", neutral="((pair_value){ 0 })")
    ),
)


@pytest.mark.parametrize("declared", SCANS, ids=lambda scan: scan.name)
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_scans_in_kernels_compile(target, declared, tmp_path):
    compiles(
        target,
        resolve_includes(SOURCE.replace("KIND", declared.name), strategy_for(target), scans=(declared,)),
        tmp_path,
    )
