"""The text of the sort's kernels for NVIDIA's GPUs, compiled and assembled without one."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from models.weak_memory.programs import clang
from portbar.arrays.sort_source import SHAPES, SortJob, warps_shape
from tests.gpu_code import TARGETS, assembled, compiled_alone, strategy_for

pytestmark = pytest.mark.skipif(clang() is None, reason="no clang: apt-get install clang")

PTX = [target for target in TARGETS if target.atomics == "ptx"]


@pytest.mark.parametrize(("key_bytes", "value_bytes"), [(1, 0), (2, 3), (4, 4), (8, 8), (4, 32)])
@pytest.mark.parametrize("target", PTX, ids=lambda target: target.name)
def test_kernels_for_warps_assemble_in_48_kib(target, key_bytes, value_bytes, tmp_path):
    strategy = strategy_for(target)
    tuned = {shape.key_bytes: shape for shape in strategy.tuning.arrays.sort}
    job = SortJob(
        "f" if key_bytes == 4 else "i", key_bytes, value_bytes, value_bytes in (4, 8), True, key_bytes,
        warps_shape(tuned[key_bytes], value_bytes),
    )  # fmt: skip
    for kernel in ("portbar_sort_small", "portbar_sort_pass"):
        text = compiled_alone(target, replace(job, kernel=kernel).text(strategy), tmp_path)
        assembled(target, tmp_path)
    for kernel in ("portbar_sort_pass", "portbar_sort_count"):
        used = [int(size) for size in re.findall(rf"\.shared .*\b{kernel}\S*\[(\d+)\];", text)]
        assert 1024 <= sum(used) <= 48 * 1024, kernel


@pytest.mark.parametrize("target", [target for target in TARGETS if target.name == "gfx90a c11"], ids=lambda t: t.name)
def test_kernels_for_groups_compile(target, tmp_path):
    job = SortJob("u", 4, 4, numbers=True, descending=False, digits=4, shape=SHAPES["gpu"])
    compiled_alone(target, job.text(strategy_for(target)), tmp_path)
