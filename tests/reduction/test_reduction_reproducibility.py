"""The table in docs/reduction_results.md is true: which reductions have the same bits in each run, size and device.

Every cell that says yes is proven on the device under test. "On other devices" is proven against bits that the host computes
without asking a device: of exact values by Python's integers, of reproducible sums in the documented order of additions. A cell
that says no promises nothing, so that nothing can be shown of it but that rounding made the test worth while.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.arrays.shape import trial
from tests.checkout import ROOT
from tests.reduce.support import put, reducer
from tests.reduce.test_reduction_host_fixed import shapes_for
from tests.reduction.support import STRATEGIES, affine, composed, head, kernel_text, launched, program
from tests.rows import some
from tests.support import scale

PAGE = ROOT / "docs" / "reduction_results.md"

#: How rounded values are combined -> the same bits from run to run, for other launch sizes, on other devices.
ROUNDED_BITS = {
    "within a work-group": (True, False, False),
    "gang level": (True, False, False),
    "gang level, `deterministic=False`": (False, False, False),
    "a grid": (True, False, False),
    "`portbar.reduce`": (True, False, False),
    "`portbar.reduce(deterministic=False)`": (False, False, False),
    "`portbar.reduce(reproducible=True)`": (True, True, True),
}
MATRIX = {(how, "rounded"): bits for how, bits in ROUNDED_BITS.items()} | {
    (how, "exact"): (True, True, True) for how in ROUNDED_BITS
}


def test_the_page_shows_the_table_that_is_proven_here() -> None:
    rows = re.findall(
        r"^\| ([^|]+) \| (exact|rounded) \| (yes|no) \| (yes|no) \| (yes|no) \|$", PAGE.read_text(), re.MULTILINE
    )
    found = {(how, values): tuple(cell == "yes" for cell in cells) for how, values, *cells in rows}
    assert found == MATRIX
    assert len(rows) == len(MATRIX)
    # That reproducible sums and products have the documented bits is shown in tests/reduce/test_reduction_host_fixed.py.
    assert all(MATRIX["`portbar.reduce(reproducible=True)`", "rounded"])


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
ROUNDED = {
    "sum": portbar.Reduction(np.float32, "+"),
    "product": portbar.Reduction(np.float32, "*"),
    "zsum": portbar.Reduction(np.complex64, "+"),
    "zproduct": portbar.Reduction(np.complex64, "*"),
    "many": portbar.Reduction(np.float32, "+", shape=3),
}
#: A third of the exact fields on each of three rows: a compiler takes longer for each that a loop has.
FIELDS = dict(some([*(EXACT | {"map": affine("exact")}).items()], 0))
LOOPS = {
    "exact": portbar.ReductionLoop("exact", FIELDS),
    "loose": portbar.ReductionLoop(
        "exact", {name: EXACT[name] for name in FIELDS if name in EXACT}, deterministic=False
    ),
    "rounded": portbar.ReductionLoop("rounded", ROUNDED),
}

#: Field -> how it takes an element. Each member takes its own in their order, since some operators do not commute.
TAKES = {
    "exact": {
        "sum": "mine.sum += x * 16777259;",
        "product": "mine.product *= (uchar)(x | 1);",
        "least": "mine.least = fmin(mine.least, x + 0.25f);",
        "odd": "mine.odd ^= (char)x;",
        "every": "mine.every = mine.every && x != 0;",
        "first": """
        const portbar_indexed_float f = { (float)(x & 1023), i };
        mine.first = portbar_better_argmin(mine.first, f) ? mine.first : f;""",
        "ones": "mine.ones = mine.ones * (uint)x + mine.ones + (uint)x;",
        "map": """
        const exact_map next = { 2u * (uint)x + 1u, i + 3u }, before = mine.map;
        mine.map.p = before.p * next.p;
        mine.map.q = next.p * before.q + next.q;""",
    },
    # `y` is declared for those that follow.
    "rounded": {
        "sum": "const float y = x * 1.7e-3f; mine.sum += y;",
        "product": "mine.product *= 1.0f + y * 1e-3f;",
        "zsum": "mine.zsum += (float2)(y, 0.3f * y);",
        "zproduct": """
        const float2 z = (float2)(1.0f + y * 1e-3f, y * 1e-4f), p = mine.zproduct;
        mine.zproduct = (float2)(p.x * z.x - p.y * z.y, p.x * z.y + p.y * z.x);""",
        "many": """
        for (int k = 0; k < 3; ++k)
            mine.many[k] += y * (k + 0.1f);""",
    },
}


def source(loop: portbar.ReductionLoop, level: str, *, grid: bool) -> str:
    """Return a kernel that reduces an array at one level into one structure of receivers."""
    name, with_grid, ids = loop.name, "&grid, " if grid else "", "&grid" if grid else ""
    takes = "\n        ".join(TAKES[name][field] for field in loop.fields)
    receivers = ", ".join(
        f"held->{field}, 0u, 0u" if reduction.shape else f"&held->{field}" for field, reduction in loop.fields.items()
    )
    body = f"""
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
    {name}_teardown_{level}({with_grid}scratch, results, mine);"""
    hidden = "grid" if grid else "gangs" if level.startswith("gang") else ""
    parameters = f"global const int *in, uint n, global {name}_local *held"
    return head(128, grid=grid) + kernel_text("k", parameters, body, hidden)


def start_of(loop: portbar.ReductionLoop) -> np.ndarray[Any, Any]:
    """Return the local object from which the loop starts: the neutral elements, but of a sum and of the maps."""
    made = np.zeros(1, loop.local_dtype)
    start = {"sum": 5, "product": 1, "zproduct": 1, "every": 1, "least": np.inf, "first": (np.inf, -1), "map": (5, 11)}
    for field, value in start.items():
        if field in loop.fields:
            made[field] = value
    return made


def on_host(x: np.ndarray[Any, Any], loop: portbar.ReductionLoop) -> np.ndarray[Any, Any]:
    """Return what exact values come to, by integers without a limit."""
    items = [int(item) for item in x]
    small = [item & 1023 for item in items]
    values = {
        "sum": np.int64(5 + sum(items) * 16777259).astype(np.int32),
        "product": functools.reduce(lambda a, b: a * (b | 1) % 256, items, 1),
        "least": min(items) + 0.25,
        "odd": np.bitwise_xor.reduce(x.astype(np.int8)),
        "every": 0 not in items,
        "first": (min(small), small.index(min(small))),
        "ones": functools.reduce(lambda a, b: a * b + a + b, (item % 2**32 for item in items), 0) % 2**32,
        "map": composed(((2 * item + 1, i + 3) for i, item in enumerate(items)), (5, 11))[-1],
    }
    made = start_of(loop)
    for field in loop.fields:
        made[field] = values[field]
    return made


def numbers(n: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(n).integers(-30_000, 30_000, n).astype(np.int32)


def fields_of(found: np.ndarray[Any, Any]) -> tuple[bytes, ...]:
    """Return the bits of each field; padding belongs to none."""
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
    # Four local sizes: some runtimes compile a kernel anew for each.
    return [(1, 1), (1, 33), (7, 33), (40, 5), (300, 5), (3, big)]


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
    found: dict[tuple[int | None, int, int], set[tuple[bytes, ...]]] = {}
    for sizes in sizes_at(context, row, level):
        for _ in range(2 if device.is_simulator else 6):
            launch, (_, held) = launched(queue, made.kernel("k"), *sizes, x, np.uint32(len(x)), start_of(loop))
            # A grid on a CPU that is busy with other work may have fewer work-groups, which counts as another launch size.
            found.setdefault((*sizes, launch.num_groups), set()).add(fields_of(held))
    assert run_to_run
    assert all(len(bits) == 1 for bits in found.values()), found
    distinct = set().union(*found.values())
    if other_sizes:
        assert len(distinct) == 1
    if other_devices:
        assert expected is not None
        assert distinct == {expected}
    if kind == "rounded" and row == "gang level" and level == "gang_worker_vector":
        assert len(distinct) > 1, "no order of additions shows in these values, so that this shows nothing"


SCANS = head(128) + kernel_text(
    "k",
    "global const int *in, global int *sums, global float *floats, global float *totals",
    """
    const uint i = (uint)get_local_id(0);
    const float y = in[i] * 1.7e-3f;
    sums[i] = portbar_work_group_scan_inclusive_xor(scratch, in[i] * 16777259);
    floats[i] = portbar_work_group_scan_inclusive_add(scratch, y);
    totals[i] = portbar_work_group_reduce_add(scratch, y);""",
)


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("how", STRATEGIES)
def test_short_forms_and_scans_keep_to_the_first_rows(context, queue, how):
    kernel = program(context, SCANS, how, ordering="work_group").kernel("k")
    local = max(local for local in scale(context.devices[0]).local_sizes if local <= 128)
    x = numbers(local)
    wrapped = (x.astype(np.int64) * 16777259).astype(np.int32)
    seen = set()
    for _ in range(6):
        empty = [np.zeros(local, dtype) for dtype in (np.int32, np.float32, np.float32)]
        _, (_, sums, floats, totals) = launched(queue, kernel, 1, local, x, *empty)
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
    size = 4099 if scale(queue.device).is_simulator else 300_007
    array = put(queue, numbers(size).astype(np.float32) * np.float32(1.7e-3))
    found = {}
    for groups, size in zip(GROUPS, each_size("`portbar.reduce`", queue), strict=True):
        with size:
            runs = {reduce(array).get(queue).tobytes() for _ in range(8)}
        assert len(runs) == 1, groups
        found[groups] = runs.pop()
    assert len(set(found.values())) > 1, "no order of additions shows in these values, so that this shows nothing"
