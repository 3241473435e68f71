"""The table in docs/reductions.md is true: which reductions have the same bits in each run, for other sizes, on other devices.

Every cell that says yes is proven on the device under test. "On other devices" is proven against bits that the host computes
without asking a device: of exact values by Python's integers, of reproducible sums in the documented order of additions. A cell
that says no promises nothing, so that nothing can be shown of it but that rounding made the test worth while.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import portbar
from portbar.arrays.shape import fixed_part
from tests.checkout import ROOT
from tests.reduce.support import put, reducer
from tests.reduction.support import STRATEGIES, device_array, host_array, program, scale

if TYPE_CHECKING:
    import pyopencl as cl

PAGE = ROOT / "docs" / "reductions.md"

#: How values are combined, what they are -> the same bits from run to run, for other launch sizes, on other devices.
MATRIX = {
    ("within a work-group", "exact"): (True, True, True),
    ("within a work-group", "rounded"): (True, False, False),
    ("gang level", "exact"): (True, True, True),
    ("gang level", "rounded"): (True, False, False),
    ("gang level, `deterministic=False`", "exact"): (True, True, True),
    ("gang level, `deterministic=False`", "rounded"): (False, False, False),
    ("a grid", "exact"): (True, True, True),
    ("a grid", "rounded"): (True, False, False),
    ("`portbar.reduce`", "exact"): (True, True, True),
    ("`portbar.reduce`", "rounded"): (True, False, False),
    ("`portbar.reduce(deterministic=False)`", "exact"): (True, True, True),
    ("`portbar.reduce(deterministic=False)`", "rounded"): (False, False, False),
    ("`portbar.reduce(reproducible=True)`", "exact"): (True, True, True),
    ("`portbar.reduce(reproducible=True)`", "rounded"): (True, True, True),
}


def test_the_page_shows_the_table_that_is_proven_here() -> None:
    rows = re.findall(
        r"^\| ([^|]+) \| (exact|rounded) \| (yes|no) \| (yes|no) \| (yes|no) \|$", PAGE.read_text(), re.MULTILINE
    )
    found = {(how, values): tuple(cell == "yes" for cell in cells) for how, values, *cells in rows}
    assert found == MATRIX
    assert len(rows) == len(MATRIX)


#: Affine maps x -> p * x + q, composed: they do not commute, and wrap, so that every order but one shows.
AFFINE = np.dtype([("p", np.uint32), ("q", np.uint32)], align=True)
COMPOSED = portbar.Operator("((exact_map){ a.p * b.p, b.p * a.q + b.q })", neutral="{ 1u, 0u }", commutative=False)
ONES = portbar.Operator("a * b + a + b", neutral=0)

EXACT = {
    "sum": portbar.Reduction(np.int32, "+"),
    "product": portbar.Reduction(np.uint8, "*"),
    "least": portbar.Reduction(np.float32, "min"),
    "odd": portbar.Reduction(np.int8, "^"),
    "every": portbar.Reduction(np.float32, "&&"),
    "first": portbar.Reduction(np.float32, "argmin"),
    "ones": portbar.Reduction(np.uint32, ONES),
}
IN_ORDER = {"map": portbar.Reduction(AFFINE, COMPOSED)}
ROUNDED = {
    "sum": portbar.Reduction(np.float32, "+"),
    "product": portbar.Reduction(np.float32, "*"),
    "zsum": portbar.Reduction(np.complex64, "+"),
    "zproduct": portbar.Reduction(np.complex64, "*"),
    "many": portbar.Reduction(np.float32, "+", shape=3),
}
LOOPS = {
    "exact": portbar.ReductionLoop("exact", EXACT | IN_ORDER),
    "loose": portbar.ReductionLoop("exact", EXACT, deterministic=False),
    "rounded": portbar.ReductionLoop("rounded", ROUNDED),
}

#: Each takes the elements of one member in their order, since some operators do not commute.
TAKES = {
    "exact": """
        mine.sum += x * 16777259;
        mine.product *= (uchar)(x | 1);
        mine.least = fmin(mine.least, x + 0.25f);
        mine.odd ^= (char)x;
        mine.every = mine.every && x != 0;
        const portbar_indexed_float f = { (float)(x & 1023), i };
        mine.first = portbar_better_argmin(mine.first, f) ? mine.first : f;
        mine.ones = mine.ones * (uint)x + mine.ones + (uint)x;""",
    "map": """
        const exact_map next = { 2u * (uint)x + 1u, i + 3u }, before = mine.map;
        mine.map.p = before.p * next.p;
        mine.map.q = next.p * before.q + next.q;""",
    "rounded": """
        const float y = x * 1.7e-3f;
        mine.sum += y;
        mine.product *= 1.0f + y * 1e-3f;
        const float2 z = (float2)(1.0f + y * 1e-3f, y * 1e-4f), p = mine.zproduct;
        mine.zsum += (float2)(y, 0.3f * y);
        mine.zproduct = (float2)(p.x * z.x - p.y * z.y, p.x * z.y + p.y * z.x);
        for (int k = 0; k < 3; ++k)
            mine.many[k] += y * (k + 0.1f);""",
}


def source(loop: portbar.ReductionLoop, level: str, *, grid: bool) -> str:
    """Return a kernel that reduces an array at one level into one structure of receivers."""
    name, gang = loop.name, level.startswith("gang")
    with_grid = "&grid, " if grid else ""
    takes = TAKES[name] + (TAKES["map"] if "map" in loop.fields else "")
    receivers = ", ".join(
        f"held->{field}, 0u, 0u" if reduction.shape else f"&held->{field}" for field, reduction in loop.fields.items()
    )
    ids = "&grid" if grid else ""
    return f"""
#define PORTBAR_REDUCTION_LOCAL_SIZE 128
{'#include "portbar/device_barrier.h"' if grid else ""}
#include "portbar/reduction.h"
kernel void k({"PORTBAR_GRID_PARAM, " if grid else "PORTBAR_REDUCTION_PARAM, " if gang else ""}global const int *in, uint n,
              global {name}_local *held)
{{
    {"PORTBAR_ENTER(grid);" if grid else ""}
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const {name}_results results = {{ {receivers} }};
    {name}_local mine = {name}_identity();
    mine = {name}_init_{level}({with_grid}scratch, results, {name}_setup_{level}({with_grid}scratch, results, mine));
    const uint count = portbar_loop_count_{level}({ids}), id = portbar_loop_id_{level}({ids});
    const uint share = (n + count - 1u) / count;
    for (uint i = min(id * share, n); i < min((id + 1u) * share, n); ++i) {{
        const int x = in[i];
        {takes}
    }}
    mine = {name}_fini_{level}({with_grid}scratch, results, mine);
    {name}_teardown_{level}({with_grid}scratch, results, mine);
}}
"""


def start_of(loop: portbar.ReductionLoop) -> np.ndarray[Any, Any]:
    """Return the local object from which the loop starts: the neutral elements, but of one sum."""
    made = np.zeros(1, loop.local_dtype)
    for field in ("product", "every", "zproduct"):
        if field in loop.fields:
            made[field] = 1
    for field, value in (("least", np.inf), ("sum", 5)):
        if field in loop.fields and (loop.name == "exact" or field == "sum"):
            made[field] = value
    if "first" in loop.fields:
        made["first"]["value"], made["first"]["index"] = np.inf, -1
    if "map" in loop.fields:
        made["map"]["p"] = 1
    return made


def on_host(x: np.ndarray[Any, Any], loop: portbar.ReductionLoop) -> np.ndarray[Any, Any]:
    """Return what exact values come to, by integers without a limit."""
    items = [int(item) for item in x]
    made = start_of(loop)
    made["sum"] = np.int64(5 + sum(items) * 16777259).astype(np.int32)
    made["product"] = functools.reduce(lambda a, b: a * (b | 1) % 256, items, 1)
    made["least"] = min(items) + 0.25
    made["odd"] = np.bitwise_xor.reduce(x.astype(np.int8))
    made["every"] = 0 not in items
    small = [item & 1023 for item in items]
    made["first"] = (min(small), small.index(min(small)))
    made["ones"] = functools.reduce(lambda a, b: a * b + a + b, (item % 2**32 for item in items), 0) % 2**32
    if "map" in loop.fields:
        p, q = 1, 0
        for i, item in enumerate(items):
            factor = (2 * item + 1) % 2**32
            p, q = p * factor % 2**32, (factor * q + i + 3) % 2**32
        made["map"] = (p, q)
    return made


def numbers(n: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(n).integers(-30_000, 30_000, n).astype(np.int32)


def bits_of(
    queue: cl.CommandQueue, made: portbar.Program, loop: portbar.ReductionLoop, x: Any, sizes: tuple[int | None, int]
) -> tuple[bytes, ...]:
    """Return the bits of each field after one launch of `groups` (None: a grid) of `local`; padding is no field's."""
    groups, local = sizes
    held = device_array(queue, start_of(loop))
    size = None if groups is None else (groups * local,)
    made.kernel("k")(queue, size, (local,), device_array(queue, x), np.uint32(len(x)), held).wait()
    found = host_array(queue, held, loop.local_dtype)
    return fields_of(found)


def fields_of(found: np.ndarray[Any, Any]) -> tuple[bytes, ...]:
    assert found.dtype.names is not None
    parts = []
    for name in found.dtype.names:
        inner = found[name].dtype.names
        parts += [found[name][member].tobytes() for member in inner] if inner else [found[name].tobytes()]
    return tuple(parts)


#: Row of the table -> loops, level, whether in a grid.
INSIDE = {
    "within a work-group": (("exact", "rounded"), ("vector", "worker", "worker_vector"), False),
    "gang level": (("exact", "rounded"), ("gang", "gang_worker_vector"), False),
    "gang level, `deterministic=False`": (("loose",), ("gang_worker_vector",), False),
    "a grid": (("exact", "rounded"), ("gang", "gang_worker_vector"), True),
}
CASES = [
    pytest.param(row, kind, level, how, id=f"{level}-{kind}{'-grid' if grid else ''}-{how}")
    for row, (kinds, levels, grid) in INSIDE.items()
    for kind in kinds
    for level in levels
    # The strategies differ in how they combine a work-group, to which the other levels add nothing.
    for how in (STRATEGIES if level.endswith("worker_vector") and not grid else (None,))
]


def sizes_at(context: cl.Context, row: str, level: str) -> list[tuple[int | None, int]]:
    """Return launch sizes: groups and local size."""
    big = max(local for local in scale(context.devices[0]).local_sizes if local <= 128)
    if row == "a grid":
        return [(None, 1), (None, 5), (None, big)]
    if level == "vector":
        return [(1, 1), (1, 3), (1, 8)]
    if row == "within a work-group":
        return [(1, 1), (1, 5), (1, 33), (1, big)]
    return [(1, 1), (1, 33), (7, 5), (40, 2), (3, big)]


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize(("row", "kind", "level", "how"), CASES)
def test_reductions_inside_kernels_have_the_bits_that_the_table_promises(context, queue, row, kind, level, how):
    loop = LOOPS[kind]
    run_to_run, other_sizes, other_devices = MATRIX[row, "rounded" if kind == "rounded" else "exact"]
    made = program(context, source(loop, level, grid=row == "a grid"), how, loops=[loop])
    device = scale(context.devices[0])
    x = numbers(150 if device.is_simulator else 997)
    expected = fields_of(on_host(x, loop)) if kind != "rounded" else None
    found = {}
    for sizes in sizes_at(context, row, level):
        runs = {bits_of(queue, made, loop, x, sizes) for _ in range(2 if device.is_simulator else 6)}
        assert run_to_run
        assert len(runs) == 1, sizes
        (found[sizes],) = runs
    if other_sizes:
        assert len(set(found.values())) == 1
    if other_devices:
        assert expected is not None
        assert set(found.values()) == {expected}
    if kind == "rounded" and row == "gang level" and level == "gang_worker_vector":
        assert len(set(found.values())) > 1, "no order of additions shows in these values, so that this shows nothing"


SCANS = """
#define PORTBAR_REDUCTION_LOCAL_SIZE 128
#include "portbar/reduction.h"
kernel void k(global const int *in, global int *sums, global float *floats, global float *totals)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const uint i = (uint)get_local_id(0);
    const float y = in[i] * 1.7e-3f;
    sums[i] = portbar_work_group_scan_inclusive_xor(scratch, in[i] * 16777259);
    floats[i] = portbar_work_group_scan_inclusive_add(scratch, y);
    totals[i] = portbar_work_group_reduce_add(scratch, y);
}
"""


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("how", STRATEGIES)
def test_short_forms_and_scans_keep_to_the_first_rows(context, queue, how):
    made = program(context, SCANS, how, ordering="work_group")
    local = max(local for local in scale(context.devices[0]).local_sizes if local <= 128)
    x = numbers(local)
    seen = set()
    for _ in range(6):
        out = [device_array(queue, np.zeros(local, dtype)) for dtype in (np.int32, np.float32, np.float32)]
        made.kernel("k")(queue, (local,), (local,), device_array(queue, x), *out).wait()
        sums, floats, totals = (host_array(queue, held, dtype) for held, dtype in zip(out, "iff", strict=True))
        wrapped = (x.astype(np.int64) * 16777259).astype(np.int32)
        assert sums.tobytes() == np.bitwise_xor.accumulate(wrapped).tobytes()
        assert len(set(totals.tolist())) == 1
        seen.add(floats.tobytes() + totals.tobytes())
    assert len(seen) == 1


@pytest.fixture
def reduce(queue: cl.CommandQueue) -> Any:
    """Return `portbar.reduce` on the queue of the test."""
    return reducer(queue)


OPTIONS = {
    "`portbar.reduce`": {},
    "`portbar.reduce(deterministic=False)`": {"deterministic": False},
    "`portbar.reduce(reproducible=True)`": {"reproducible": True},
}
#: Work-groups that share the array; None is what portbar chooses.
GROUPS = (None, 1, 3, 20)


def each_size(row: str, queue: cl.CommandQueue) -> Any:
    """Return contexts in which `portbar.reduce` launches other sizes; where the order is fixed, other shapes."""
    from portbar.arrays.shape import trial  # noqa: PLC0415
    from tests.reduce.test_reduction_host_fixed import shapes_for  # noqa: PLC0415

    if "reproducible" not in row:
        return [trial(None, groups) for groups in GROUPS]
    # llvmpipe's compiler takes minutes for a body with several outputs and many elements.
    few = scale(queue.device).is_cut_short
    return [trial(shape) for shape in ([None] if few else [None, *shapes_for(queue)[:3]])]


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("row", OPTIONS)
def test_exact_values_of_arrays_have_the_bits_that_the_host_computes(reduce, queue, row):
    assert all(MATRIX[row, "exact"])
    x = numbers(1999 if scale(queue.device).is_simulator or scale(queue.device).is_cut_short else 20_011)
    array = put(queue, x)
    floats = put(queue, x.astype(np.float32))
    outputs = {
        "sum": "+",
        "product": portbar.Reduction(np.int16, "*"),
        "least": "min",
        "odd": "^",
        "every": "&&",
        "last": "argmax",
        "ones": portbar.Reduction(np.uint32, ONES),
    }
    expected = {
        "sum": np.int64(x.sum(dtype=np.int64)).astype(np.int32),
        "product": np.uint16(functools.reduce(lambda a, b: a * (int(b) | 1) % 2**16, x, 1)).astype(np.int16),
        "least": x.min(),
        "odd": np.bitwise_xor.reduce(x),
        "every": np.int32((x != 0).all()),
        "ones": np.uint32(functools.reduce(lambda a, b: (a * int(b) + a + int(b)) % 2**32, x, 0)),
    }
    for size in each_size(row, queue):
        with size:
            for _ in range(2):
                found = reduce(array, outputs=outputs, map={"product": "(short)(x | 1)"}, **OPTIONS[row])
                for name, value in expected.items():
                    assert found[name].get(queue).tobytes() == value.tobytes(), name
                assert found["last"].get(queue)["index"] == int(np.argmax(x))
                assert reduce(floats, "max", **OPTIONS[row]).get(queue) == x.max()


@pytest.mark.device
@pytest.mark.slow
def test_sums_of_arrays_have_the_same_bits_in_each_run(reduce, queue):
    assert MATRIX["`portbar.reduce`", "rounded"] == (True, False, False)
    array = put(queue, numbers(20_011).astype(np.float32) * np.float32(1.7e-3))
    found = {}
    for groups, size in zip(GROUPS, each_size("`portbar.reduce`", queue), strict=True):
        with size:
            runs = {reduce(array).get(queue).tobytes() for _ in range(8)}
        assert len(runs) == 1, groups
        found[groups] = runs.pop()
    assert len(set(found.values())) > 1, "no order of additions shows in these values, so that this shows nothing"


def in_documented_order(parts: Any, combine: Any, neutral: Any, lanes: int) -> Any:
    """Combine in the order that docs/reduce.md describes; `parts` are the parts of a number, one array each."""
    size = len(parts[0])
    part = fixed_part(size, 4096 // lanes)

    def neighbours(held: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        while len(held[0]) > 1:
            held = combine([one[::2] for one in held], [one[1::2] for one in held])
        return held

    totals = []
    for start in range(0, size, part):
        sums = [np.full(lanes, value, np.float32) for value in neutral]
        for row in range(start, min(start + part, size), lanes):
            taken = [one[row : min(row + lanes, start + part, size)] for one in parts]
            padded = [
                np.concatenate([one, np.full(lanes - len(one), value, np.float32)])
                for one, value in zip(taken, neutral, strict=True)
            ]
            sums = combine(sums, padded)
        totals.append(neighbours(sums))
    room = 1 << (len(totals) - 1).bit_length()
    return neighbours(
        [
            np.concatenate([*(total[k] for total in totals), np.full(room - len(totals), neutral[k], np.float32)])
            for k in range(len(parts))
        ]
    )


def added(a, b):
    return [x + y for x, y in zip(a, b, strict=True)]


def multiplied(a, b):
    if len(a) == 1:
        return [a[0] * b[0]]
    return [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("op", ["+", "*"])
@pytest.mark.parametrize("count", [1, 2], ids=["float", "complex"])
def test_reproducible_sums_and_products_have_the_bits_of_the_documented_order(reduce, queue, op, count):
    row = "`portbar.reduce(reproducible=True)`"
    assert all(MATRIX[row, "rounded"])
    size = 3001 if scale(queue.device).is_simulator else 20_011
    parts = [numbers(size)[::step].astype(np.float32) * np.float32(1.7e-6) for step in (1, -1)][:count]
    if op == "*":
        parts[0] = parts[0] + np.float32(1)
    combine, neutral = (added, [0, 0]) if op == "+" else (multiplied, [1, 0])
    wanted = np.concatenate(in_documented_order(parts, combine, neutral[:count], 1024 // count))
    values = parts[0] if count == 1 else (parts[0] + 1j * parts[1]).astype(np.complex64)
    array = put(queue, values)
    for trial_of in each_size(row, queue):
        with trial_of:
            for _ in range(2):
                found = reduce(array, op, reproducible=True).get(queue)
                assert found.tobytes() == wanted.tobytes()
    assert np.add.reduce(values).tobytes() != wanted.tobytes()
