"""`portbar/scan.h` compiles for GPUs of every kind, with scans of numbers and of structures."""

from __future__ import annotations

import numpy as np
import pytest

import portbar
from portbar.primitives.headers import resolve_includes
from tests.gpu_code import TARGETS, assembled, clang, compiled_alone, strategy_for

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
PAIR = np.dtype([("p", np.uint64), ("q", np.uint32)], align=True)
SCANS = (
    portbar.DeviceScan("small", np.uint8, "max"),
    portbar.DeviceScan("number", np.float32),
    portbar.DeviceScan(
        "pair", PAIR, portbar.Operator("((pair_value){ a.p + b.p, b.q })", neutral="((pair_value){ 0 })")
    ),
)


@pytest.mark.parametrize("declared", SCANS, ids=lambda scan: scan.name)
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_scans_compile(target, declared, tmp_path):
    if clang() is None:
        pytest.skip("no clang is installed")
    text = resolve_includes(SOURCE.replace("KIND", declared.name), strategy_for(target), scans=(declared,))
    compiled_alone(target, text, tmp_path)
    if target.assemble_for:
        assembled(target, tmp_path)
