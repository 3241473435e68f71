"""`portbar/scan.h`: scans over all work-groups inside kernels, whatever the other work-groups do."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyopencl.cltypes as types
import pytest

import portbar
from portbar.launching import partials
from portbar.launching.compiled import CompiledProgram
from portbar.primitives.scan.look_back import LookBack
from tests.reduce.support import affine, composition, need, put, random_of
from tests.support import skipped_where_refused

pytestmark = pytest.mark.device

SOURCE = """
#include "portbar/scan.h"

static uint place(uint tile)
{
    return tile * (uint)(get_local_size(0) * get_local_size(1))
           + (uint)(get_local_id(0) + get_local_size(0) * get_local_id(1));
}
static sum_value element(global const sum_value *values, uint n, uint tile)
{
    return place(tile) < n ? values[place(tile)] : sum_neutral();
}

kernel void prefixes(PORTBAR_SCAN_PARAM, global const sum_value *values, global sum_value *inclusive,
                     global sum_value *exclusive, const uint n)
{
    local sum_scan scan;
    const uint tile = sum_begin(&scan);
    sum_publish(&scan, element(values, n, tile));
    while (sum_missing(&scan))
        sum_supply(&scan, element(values, n, sum_missing_tile(&scan)));
    if (place(tile) < n) {
        inclusive[place(tile)] = sum_inclusive(&scan);
        exclusive[place(tile)] = sum_exclusive(&scan);
    }
}
"""


@pytest.fixture
def prefixes(queue: Any) -> Any:
    """Return a call that scans by the kernel above: declaration, values, local size -> inclusive and exclusive prefixes."""

    def call(declared: portbar.DeviceScan, values: Any, local: tuple[int, ...] = (8,), source: str = SOURCE) -> Any:
        with skipped_where_refused():
            program = portbar.Program(queue.context, source, scans=(declared,))
        return launched(queue, program, values, local)

    return call


def launched(queue: Any, program: Any, values: Any, local: tuple[int, ...]) -> Any:
    """Return inclusive and exclusive prefixes."""
    if np.prod(local) > queue.device.max_work_group_size:
        pytest.skip("work-groups of the device are smaller")
    x, inclusive, exclusive = (put(queue, one) for one in (values, np.zeros_like(values), np.zeros_like(values)))
    groups = -(-len(values) // int(np.prod(local)))
    size = (groups * local[0], *local[1:])
    program.kernel("prefixes")(queue, size, local, x, inclusive, exclusive, np.uint32(len(values))).wait()
    return inclusive.get(), exclusive.get()


@pytest.mark.parametrize("local", [(1,), (7,), (16,), (4, 3)], ids=str)
def test_tiles_of_every_shape(prefixes, local):
    declared = portbar.DeviceScan("sum", np.int32)
    for size in (1, 16, 17, 500):
        values = random_of(np.int32, size, size)
        inclusive, exclusive = prefixes(declared, values, local)
        right = np.cumsum(values, dtype=np.int32)
        np.testing.assert_array_equal(inclusive, right)
        np.testing.assert_array_equal(exclusive, right - values)


@pytest.mark.parametrize(
    "kind", [np.uint8, np.int16, np.uint64, np.float16, np.float32, np.float64], ids=lambda kind: kind.__name__
)
@pytest.mark.parametrize("op", ["+", "max"])
def test_numbers_of_every_size(prefixes, device, kind, op):
    need(device, kind)
    values = random_of(kind, 333, 1)
    if kind is np.float16:
        values = (np.arange(333) % 7).astype(kind)
    inclusive, exclusive = prefixes(portbar.DeviceScan("sum", kind, op), values)
    ufunc = {"+": np.add, "max": np.maximum}[op]
    np.testing.assert_allclose(inclusive, ufunc.accumulate(values, dtype=kind), atol=1e-4)
    np.testing.assert_array_equal(exclusive[1:], inclusive[:-1])
    lowest = {"+": 0, "max": -np.inf if np.dtype(kind).kind == "f" else np.iinfo(kind).min}[op]
    assert exclusive[0] == lowest


@pytest.mark.parametrize("wide", [np.uint32, np.uint64], ids=lambda kind: kind.__name__)
def test_structures_whose_operator_does_not_commute(prefixes, wide):
    values, right = affine(wide, 300, 3)
    inclusive, exclusive = prefixes(portbar.DeviceScan("sum", values.dtype, composition("sum_value")), values)
    np.testing.assert_array_equal(inclusive, right)
    np.testing.assert_array_equal(exclusive[1:], right[:-1])
    assert exclusive[0].tolist() == (1, 0)


@pytest.mark.parametrize("tiles", ["tile % 2u == 1u", "true"])
@pytest.mark.parametrize("what", ["own", "own all"])
def test_tiles_that_tell_nothing_change_no_bits(prefixes, monkeypatch, tiles, what):
    values = random_of(np.float32, 203, 6)
    declared = portbar.DeviceScan("sum", np.float32)
    before = prefixes(declared, values)[0]
    told, tells = LookBack.store_release, {"own": "2u * epoch", "all": "2u * epoch + 1u"}
    silent = [tells[name] for name in what.split()]
    monkeypatch.setattr(
        LookBack,
        "store_release",
        lambda by, at, value: f"if (!({tiles} && {int(value in silent)})) {told(by, at, value)}",
    )
    for _ in range(2):
        found = prefixes(declared, values, source=f"{SOURCE}/* {tiles} {what} */\n")[0]
        np.testing.assert_array_equal(found.view(np.uint32), before.view(np.uint32))


def test_launches_of_one_queue_after_each_other(queue, prefixes, monkeypatch):
    """Groups of 8 work-items publish nothing: stale words of earlier launches with the same numbers would be used."""
    declared = portbar.DeviceScan("sum", np.uint32)
    prefixes(declared, np.ones(1, np.uint32))
    text_of = CompiledProgram._text

    def silent(compiled: Any, device: Any, strategy: Any) -> str:
        # Values as well: where those are of this launch, a stale word does no harm.
        tells = r"^( +)(?=tiles\[2u \* tile.*\] = |portbar_\w+\(flags \+ tile, 2u \* epoch)"
        made, count = re.subn(
            tells, r"\1if (portbar_scan_size() != 8u) ", text_of(compiled, device, strategy), flags=re.MULTILINE
        )
        assert count == 4
        return str(made)

    monkeypatch.setattr(CompiledProgram, "_text", silent)
    program = portbar.Program(queue.context, SOURCE, scans=declared)
    monkeypatch.setattr(partials, "MOST_EPOCHS", 3)
    for local, size in ((4, 30), (4, 200), (4, 9), (8, 70), (8, 300), (8, 90), (4, 1_000), (8, 17)):
        values = random_of(np.uint32, size, size)
        inclusive, _ = launched(queue, program, values, (local,))
        np.testing.assert_array_equal(inclusive, np.cumsum(values, dtype=np.uint32))


TWO = """
#include "portbar/scan.h"

kernel void totals(PORTBAR_SCAN_PARAM, global ulong2 *out)
{
    local wide_scan scan;
    const uint tile = wide_begin(&scan);
    wide_publish(&scan, (wide_value)(tile, 1u));
    while (wide_missing(&scan))
        wide_supply(&scan, (wide_value)(wide_missing_tile(&scan), 1u));
    const wide_value all = wide_inclusive(&scan);
    if (get_local_id(0) == get_local_size(0) - 1)
        out[tile] = all;
}
kernel void lengths(PORTBAR_SCAN_PARAM, global uchar *out)
{
    local small_scan scan;
    const uint tile = small_begin(&scan);
    small_publish(&scan, 1);
    while (small_missing(&scan))
        small_supply(&scan, 1);
    out[tile * get_local_size(0) + get_local_id(0)] = small_exclusive(&scan);
}
"""


def test_scans_of_several_kinds_in_a_program(queue, prefixes):
    prefixes(portbar.DeviceScan("sum", np.uint32), np.ones(1, np.uint32))
    declared = portbar.DeviceScan("wide", types.ulong2), portbar.DeviceScan("small", np.uint8)
    program = portbar.Program(queue.context, TWO, scans=declared)
    out = put(queue, np.zeros((20, 2), np.uint64))
    program.kernel("totals")(queue, (80,), (4,), out).wait()
    tiles = np.arange(20)
    np.testing.assert_array_equal(out.get(), np.stack([np.cumsum(4 * tiles), 4 * (tiles + 1)], axis=1))
    found = put(queue, np.zeros(80, np.uint8))
    program.kernel("lengths")(queue, (80,), (4,), found).wait()
    np.testing.assert_array_equal(found.get(), np.arange(80))


def test_scans_beside_reductions_of_the_group(queue, prefixes):
    prefixes(portbar.DeviceScan("sum", np.uint32), np.ones(1, np.uint32))
    source = """
#include "portbar/reduction.h"
#include "portbar/scan.h"
kernel void both(PORTBAR_SCAN_PARAM, global uint *out)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    local sum_scan scan;
    const uint tile = sum_begin(&scan);
    const uint most = portbar_work_group_reduce_max(scratch, tile + (uint)get_local_id(0));
    sum_publish(&scan, most);
    while (sum_missing(&scan))
        sum_supply(&scan, sum_missing_tile(&scan) + (uint)get_local_size(0) - 1u);
    out[tile * get_local_size(0) + get_local_id(0)] = sum_inclusive(&scan);
}
"""
    program = portbar.Program(queue.context, source, scans=portbar.DeviceScan("sum", np.uint32))
    out = put(queue, np.zeros(80, np.uint32))
    program.kernel("both")(queue, (80,), (4,), out).wait()
    np.testing.assert_array_equal(out.get(), np.cumsum(np.repeat(np.arange(20) + 3, 4)))


def test_the_scan_of_another_kernel_bounds_no_local_size(queue, prefixes):
    """Also one that a function after the kernel names."""
    prefixes(portbar.DeviceScan("sum", np.uint32), np.ones(1, np.uint32))
    helper = "uint wide_tile(local wide_scan *scan) { return wide_missing_tile(scan); }\n"
    first, second = TWO.split("kernel void lengths")
    source = f"{first.replace('totals', 'others')}kernel void lengths{second}{helper}"
    declared = portbar.DeviceScan("wide", types.ulong2, local_size=4), portbar.DeviceScan("small", np.uint8)
    program = portbar.Program(queue.context, source, scans=declared)
    if queue.device.max_work_group_size < 8:
        pytest.skip("work-groups of the device are smaller")
    found = put(queue, np.zeros(80, np.uint8))
    program.kernel("lengths")(queue, (80,), (8,), found).wait()
    np.testing.assert_array_equal(found.get(), np.arange(80))


def test_invalid_launches_are_refused(queue, prefixes):
    prefixes(portbar.DeviceScan("sum", np.uint32), np.ones(1, np.uint32))
    program = portbar.Program(queue.context, SOURCE, scans=portbar.DeviceScan("sum", np.uint32, local_size=4))
    kernel, x = program.kernel("prefixes"), put(queue, np.zeros(64, np.uint32))
    with pytest.raises(portbar.LaunchError, match=r"memory for 4: declare DeviceScan\('sum', ..., local_size=8\)"):
        kernel(queue, (64,), (8,), x, x, x, np.uint32(64))
    with pytest.raises(portbar.LaunchError, match="requires work-groups of equal size"):
        kernel(queue, (63,), (4,), x, x, x, np.uint32(63))
    with pytest.raises(portbar.LaunchError, match="a scan needs a local size"):
        kernel(queue, (64,), None, x, x, x, np.uint32(64))
    # The declaration in a macro, and the whole kernel in one.
    for text in (
        SOURCE.replace("    local sum_scan scan;", "    DECLARED").replace(
            "kernel", "#define DECLARED local sum_scan scan;\nkernel"
        ),
        SOURCE.replace("kernel void prefixes(", "#define KERNEL(name) kernel void name\nKERNEL(prefixes)("),
    ):
        program = portbar.Program(queue.context, text, scans=portbar.DeviceScan("sum", np.uint32, local_size=4))
        with pytest.raises(portbar.LaunchError, match="memory for 4"):
            program.kernel("prefixes")(queue, (64,), (8,), x, x, x, np.uint32(64))
    moved = "PORTBAR_SCAN_PARAM, global const sum_value *values,"
    text = SOURCE.replace(moved, "global const sum_value *values, PORTBAR_SCAN_PARAM,")
    program = portbar.Program(queue.context, text, scans=portbar.DeviceScan("sum", np.uint32))
    with pytest.raises(portbar.LaunchError, match="must be the first parameter"):
        program.kernel("prefixes")


def test_invalid_programs_are_refused(context):
    declared = portbar.DeviceScan("sum", np.uint32)
    loop = SOURCE[SOURCE.index("    while") : SOURCE.index("    if (place")]
    cases = {
        "would have to wait for work-groups": (SOURCE.replace(loop, ""), declared),
        'add #include "portbar/scan.h"': (SOURCE.replace('#include "portbar/scan.h"', ""), declared),
        "declares no portbar.DeviceScan": (SOURCE, ()),
        "make PORTBAR_SCAN_PARAM the first parameter of kernel 'prefixes'": (
            SOURCE.replace("PORTBAR_SCAN_PARAM, ", ""),
            declared,
        ),
        # One kernel of two never supplies missing tiles, and macros that paste names hide nothing.
        "sum_missing in kernel 'waits' would have to wait": (
            "#define CALL(part) sum_##part(&scan)\n"
            + SOURCE.replace("sum_missing(&scan)", "CALL(missing)")
            + SOURCE[SOURCE.index("kernel") :].replace(loop, "").replace("prefixes", "waits"),
            declared,
        ),
        "'sum_combine' is defined in the source": (
            SOURCE + "int sum_combine(int a, int b) { return a + b; }\n",
            declared,
        ),
    }
    for says, (text, declared) in cases.items():
        with pytest.raises(portbar.BuildError, match=says):
            portbar.Program(context, text, scans=declared)
