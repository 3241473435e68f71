"""The scan's kernel for NVIDIA's warps, run without one: groups of 32 work-items stand in for warps, barriers for shuffles."""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import portbar
from portbar.arrays.plan import QUEUES
from portbar.arrays.scan import TRIAL
from portbar.arrays.scan_source import ScanJob, quad_of, warps_tile
from portbar.device.tuning import FewTilesShape, ScanShape
from portbar.primitives.reduction.types import type_of
from tests.reduce.support import put, random_of
from tests.support import scale, skipped_where_refused

pytestmark = pytest.mark.device

#: Functions that lanes call together, with what they do where a group is a warp.
TOGETHER = {
    "portbar_item_before": "const uint from = id >= lanes ? id - lanes : id;",
    "portbar_item_behind": "const uint from = id + lanes < 32u ? id + lanes : id;",
    "portbar_item_of": "const uint from = lanes & 31u;",
}
CALLERS = ("portbar_row", "portbar_tree", "portbar_look_at", "portbar_lanes_with", *TOGETHER)
ALONE = {
    "ulong portbar_tagged_load(volatile global ulong *p)": "return *p;",
    "void portbar_tagged_store(volatile global ulong *p, const uint tag, const uint value)": (
        "*p = ((ulong)tag << 32) | value;"
    ),
    "void portbar_tagged_insert(volatile global ulong *p, const ulong seen, const uint tag, const uint value)": (
        "(void)atom_cmpxchg(p, seen, ((ulong)tag << 32) | value);"
    ),
    "void portbar_store_past(global uint4 *p, const uint4 v)": "*p = v;",
}
INLINE = "static inline __attribute__((always_inline)) "


def body_of(text: str, head: str) -> tuple[int, int]:
    """Return where a function begins, and where it ends."""
    begin = text.index(f"static inline {head}")
    return begin, text.index("\n}\n", begin) + 3


def without_warps(text: str) -> str:
    """Return the kernel with plain OpenCL C in place of inline assembly."""
    for head, body in ALONE.items():
        begin, end = body_of(text, head)
        text = f"{text[:begin]}{INLINE}{head}\n{{\n    {body}\n}}\n{text[end:]}"
    for name, place in TOGETHER.items():
        head = f"portbar_item {name}(const portbar_item own, const uint lanes)"
        begin, end = body_of(text, head)
        body = f"""    local portbar_item *room = (local portbar_item *)exchange;
    const uint id = (uint)get_local_id(0);
    {place}
    room[id] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
    const portbar_item found = room[from];
    barrier(CLK_LOCAL_MEM_FENCE);
    return found;
"""
        text = f"{text[:begin]}static inline {head}\n{{\n{body}}}\n{text[end:]}"
    begin, end = body_of(text, "uint portbar_lanes_with(const bool answer)")
    vote = """static inline uint portbar_lanes_with(const bool answer)
{
    local uint *room = (local uint *)exchange;
    room[get_local_id(0)] = answer ? 1u : 0u;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint lanes = 0u;
    for (uint lane = 0; lane < 32u; ++lane)
        lanes |= room[lane] << lane;
    barrier(CLK_LOCAL_MEM_FENCE);
    return lanes;
}
"""
    text = text[:begin] + vote + text[end:]
    for name in CALLERS:
        text = re.sub(
            rf"(?<!static inline portbar_item )(?<!static inline uint )(?<!static inline int )\b{name}\(",
            f"{name}(exchange, ",
            text,
        )
        text = re.sub(rf"static inline (\w+) {name}\(", rf"{INLINE}\1 {name}(local ulong *exchange, ", text)
    assert "__asm__" not in text
    # Statements that some compilers need are before loops.
    text = text.replace("#pragma unroll\n", "")
    head = "#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable\n"
    return head + text.replace(
        "    local uint shared[2];\n", "    local uint shared[2];\n    local ulong exchange[32 * 8];\n", 1
    )


@pytest.fixture
def warps(queue, device, monkeypatch):
    """Return a scan by the kernel for warps, with tiles of this many rows."""
    if "cl_khr_int64_base_atomics" not in device.extensions.split():
        pytest.skip("the device has no atomics of 64 bits")
    if portbar.describe(device).loop_limit is not None:
        pytest.skip("the device ends loops early, and portbar scans by single work-items there")
    if portbar.describe(device).facts.nvidia:
        pytest.skip("NVIDIA's devices run the kernel itself, with real warps")
    if "Portable Computing Language" in device.platform.name:
        pytest.skip("PoCL's compiler ends the process over barriers in such loops")
    with skipped_where_refused():
        portbar.scan(queue, put(queue, [1]))
    text_of = ScanJob.text
    untold: list[str] = []

    def text(job: Any, strategy: Any) -> str:
        made = text_of(replace(job, inlines=True), strategy)
        if untold:
            made, count = re.subn(r"(portbar_publish_item\(PORTBAR_PLACE.*;)", rf"if (!({untold[0]})) \1", made)
            assert count == 2
        return without_warps(made)

    monkeypatch.setattr(ScanJob, "text", text)
    monkeypatch.setattr(QUEUES, "_kept", OrderedDict())

    def call(values: Any, *, rows: int = 2, tiles: str = "", few: Any = (), **more: Any) -> Any:
        untold[:] = [tiles] if tiles else []
        quad = 1 if {"segments", "axis"} & set(more) else quad_of(type_of(values.dtype, "x_type"))
        token = TRIAL.set(warps_tile(ScanShape(local=32, rows=rows, polls=2, few=few), quad, values.size))
        try:
            return portbar.scan(queue, put(queue, values), **more).get()
        finally:
            TRIAL.reset(token)

    return call


@pytest.fixture
def size(device):
    """Return how many elements cross blocks of 32 tiles: more blocks than are looked at together, or two if simulated."""
    return 9_011 if scale(device).is_simulator else 30_011


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("count", [1, 255, 256, 257, None])
def test_sums(warps, size, dtype, count):
    values = random_of(dtype, count or size, 1)
    np.testing.assert_array_equal(warps(values), np.cumsum(values, dtype=dtype))


@pytest.mark.parametrize("tiles", ["tile % 2u == 1u", "tile % 32u == 31u", "true"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64], ids=lambda kind: kind.__name__)
def test_tiles_that_tell_nothing(warps, size, dtype, tiles):
    values = random_of(dtype, size, 2)
    np.testing.assert_array_equal(warps(values, tiles=tiles), np.cumsum(values, dtype=dtype))


@pytest.mark.parametrize("tiles", ["", "tile % 2u == 1u", "true"], ids=["all", "every other", "none"])
def test_few_tiles_are_numbered_as_groups_are(warps, size, tiles):
    few = (FewTilesShape(up_to=1_000, local=32, rows=1, polls=2),)
    values = random_of(np.int32, size, 6)
    np.testing.assert_array_equal(warps(values, few=few, tiles=tiles), np.cumsum(values, dtype=np.int32))


def test_timing_changes_no_bits(warps, size):
    values = random_of(np.float32, size, 3)
    first = warps(values)
    np.testing.assert_allclose(first, np.cumsum(values, dtype=np.float64), atol=1e-3)
    for tiles in ("", "tile % 2u == 1u", "tile % 32u == 31u", "true"):
        np.testing.assert_array_equal(warps(values, tiles=tiles).view(np.uint32), first.view(np.uint32))


def test_exclusive_scans_and_segments(warps, size):
    values = random_of(np.int32, size, 4)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(
            warps(values, exclusive=True, initial=7), np.cumsum(values, dtype=np.int32) - values + np.int32(7)
        )
    lines = values[:-11].reshape(-1, 50)
    np.testing.assert_array_equal(warps(lines, axis=1), np.cumsum(lines, 1, dtype=np.int32))
