"""Sizes of grid launches: bounds on the number of work-groups, and the local size that a kernel suggests."""

from __future__ import annotations

import math
import re

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.device import quirks
from portbar.device.quirks.entry import Quirk
from portbar.launching import plan
from portbar.launching.parameters import KernelParameter
from tests import support

on_device = pytest.mark.device

SOURCE = """
#include "portbar/device_barrier.h"

kernel void launched(PORTBAR_GRID_PARAM, global uint *out)
{
    PORTBAR_ENTER(grid);
    if (!portbar_device_barrier(&grid))
        return;
    if (portbar_global_id(&grid) == 0u) {
        out[0] = (uint)(get_num_groups(0) * get_num_groups(1));
        out[1] = portbar_num_groups(&grid);
    }
}

kernel __attribute__((reqd_work_group_size(4, 2, 1))) void shaped(PORTBAR_GRID_PARAM, global uint *out)
{
    PORTBAR_ENTER(grid);
    if (portbar_global_id(&grid) == 0u)
        out[0] = (uint)get_num_groups(0);
}

kernel void plain(global uint *out)
{
    out[0] = 1u;
}
"""


@pytest.fixture
def launched(context):
    return support.kernel(context, SOURCE, "launched")


@pytest.fixture
def out(queue):
    return support.filled(queue, 2)


def groups_of(queue, kernel, local, out, **bounds):
    launch = kernel(queue, None, local, out, **bounds)
    launch.wait()
    assert launch.num_groups <= support.uints(queue, out)[0]
    return int(support.uints(queue, out)[0])


@on_device
def test_items_and_max_groups_bound_the_groups_of_a_launch(queue, launched, out):
    for local in ((4,), (3, 2)):
        # A busy CPU may hold fewer groups when it is asked first, and more at a later launch.
        holds = max(
            launched.occupancy(queue, local).groups, *(groups_of(queue, launched, local, out) for _ in range(5))
        )
        size = math.prod(local)
        cases = {*range(1, 4), holds - 1, holds, holds + 1, 10**30} - {0}
        # Twice, in turns: plans are remembered from launch to launch.
        for _ in range(2):
            for groups in sorted(cases, reverse=True):
                wanted = min(groups, holds)
                assert groups_of(queue, launched, local, out, max_groups=groups) == wanted
                for items in (groups * size, groups * size - size + 1):
                    assert groups_of(queue, launched, local, out, items=items) == wanted
                assert groups_of(queue, launched, local, out, items=groups * size, max_groups=1) == 1
                assert groups_of(queue, launched, local, out, items=1, max_groups=groups) == 1
            assert groups_of(queue, launched, local, out) == holds
            assert groups_of(queue, launched, list(local), out, items=np.uint32(1)) == 1


@on_device
def test_a_kernel_that_requires_its_local_size_needs_none(context, queue, out):
    shaped = support.kernel(context, SOURCE, "shaped")
    holds = shaped.occupancy(queue, (4, 2, 1)).groups
    assert shaped.suggested_local_size(queue) == (4, 2, 1)
    for items, groups in ((8, 1), (9, min(2, holds)), (10**6, holds)):
        assert groups_of(queue, shaped, None, out, items=items) == groups


@on_device
@pytest.mark.parametrize("what", ["max_groups", "items"])
@pytest.mark.parametrize(
    ("value", "says"),
    [
        (-3, "must be at least {least}, not -3"),
        (2.0, "must be an integer, not 2.0"),
        ("2", "must be an integer, not '2'"),
        ((2,), "must be an integer, not (2,)"),
        (math.nan, "must be an integer, not nan"),
    ],
)
def test_a_bound_that_cannot_be_is_refused_by_name(queue, launched, out, what, value, says):
    launched(queue, None, (4,), out, **{what: 2}).wait()
    says = says.format(least={"items": 0}.get(what, 1))
    with pytest.raises(portbar.LaunchError, match=re.escape(f"kernel 'launched': {what} {says}")):
        launched(queue, None, (4,), out, **{what: value})


@on_device
def test_no_groups_at_all_are_refused(queue, launched, out):
    with pytest.raises(portbar.LaunchError, match=re.escape("max_groups must be at least 1, not 0")):
        launched(queue, None, (4,), out, max_groups=0)


@on_device
@pytest.mark.parametrize("what", ["max_groups", "items"])
def test_a_bound_beside_an_explicit_number_of_groups_is_refused(context, queue, launched, out, what):
    with pytest.raises(portbar.LaunchError, match=f"a global size or {what}, not both"):
        launched(queue, (8,), (4,), out, **{what: 2})
    with pytest.raises(portbar.LaunchError, match=f"num_groups or {what}, not both"):
        launched(queue, None, (4,), out, num_groups=1, **{what: 2})
    with pytest.raises(portbar.LaunchError, match=f"no grid: {what} requires"):
        support.kernel(context, SOURCE, "plain")(queue, (8,), (4,), out, **{what: 2})


def parameters(*types):
    return [
        KernelParameter("p", name, "pointer" if name.endswith("*") else "scalar", access=access)
        for name, access in types
    ]


WRITES = {
    4: parameters(("float*", "writable"), ("double*", "writable"), ("uchar*", ""), ("uint", "")),
    1: parameters(("uchar*", "writable"), ("float*", "writable")),
    8: parameters(("double*", "writable"), ("uint*", "unchanging")),
    16: parameters(("float4*", "writable"), ("float3*", "writable")),
    32: parameters(("double4*", "writable")),
}
STRIDE = "for (uint i = portbar_global_id(&grid); i < n; i += portbar_global_size(&grid))"


@pytest.mark.parametrize("size", WRITES)
def test_on_cpus_a_group_that_strides_fills_a_line_of_the_cache(size):
    assert plan.element_bytes(WRITES[size]) == size
    assert plan.suits_cpu(STRIDE, WRITES[size], 64) == 64 // size
    assert plan.suits_cpu(STRIDE, WRITES[size], 0) == 64 // size
    assert plan.suits_cpu(STRIDE, WRITES[size], 128) == 128 // size
    assert plan.suits_cpu(f"/* {STRIDE} */", WRITES[size], 64) == 1


def test_elements_of_unknown_size_count_as_four_bytes():
    for unknown in (None, parameters(("struct body*", "writable")), parameters(("uint", ""))):
        assert plan.element_bytes(unknown) == 4
    assert plan.suits_cpu(STRIDE, parameters(("long16*", "writable")), 64) == 1


@pytest.mark.parametrize(
    ("limit", "multiple", "size"),
    [(1024, 32, 256), (1024, 64, 256), (256, 32, 256), (200, 32, 192), (128, 64, 128), (20, 32, 20), (1024, 0, 256),
     (1024, 512, 512), (300, 512, 300), (1024, 48, 240), (64, 0, 64)],
)  # fmt: skip
def test_on_other_devices_a_group_has_256_work_items_in_whole_sub_groups_within_the_limit(limit, multiple, size):
    assert plan.suits_gpu(limit, multiple) == size


@on_device
@pytest.mark.parametrize("loop", [STRIDE, "for (uint i = portbar_global_id(&grid); i < n; i += n)"])
def test_a_suggested_local_size_is_one_that_the_kernel_runs_with(context, queue, device, out, loop):
    text = SOURCE.partition("kernel")[0] + (
        "kernel void fill(PORTBAR_GRID_PARAM, global uint *out, uint n)\n"
        f"{{\n    PORTBAR_ENTER(grid);\n    {loop}\n        out[i] = 7u;\n}}\n"
    )
    made = support.kernel(context, text, "fill")
    suggested = made.suggested_local_size(queue)
    assert len(suggested) == 1
    made(queue, None, suggested, out, np.uint32(2), items=2).wait()
    assert support.uints(queue, out).max() == 7
    profile = portbar.describe(device)
    if profile.loop_limit is not None:
        assert suggested[0] >= 32, "each work-item takes fewer turns where there are more"
    elif "CPU" in profile.facts.type:
        assert suggested == ((device.global_mem_cacheline_size or 64) // 4 if loop is STRIDE else 1,)


REDUCING = """
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
kernel void add(PORTBAR_GRID_PARAM, global uint *out)
{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const uint sum = portbar_device_reduce_add(&grid, scratch, 1u);
    if (portbar_global_id(&grid) == 0u)
        out[0] = sum - portbar_global_size(&grid);
}
"""


@on_device
@pytest.mark.parametrize("most", [8, 32])
@pytest.mark.parametrize("exact", ["", "#define PORTBAR_REDUCTION_EXACT\n"])
def test_a_suggested_local_size_is_within_the_memory_of_reductions(context, queue, out, most, exact):
    made = support.kernel(context, f"#define PORTBAR_REDUCTION_LOCAL_SIZE {most}\n{exact}{REDUCING}", "add")
    suggested = made.suggested_local_size(queue)
    assert suggested == (most,) if exact else suggested[0] <= most
    made(queue, None, suggested, out).wait()
    assert support.uints(queue, out)[0] == 0


@on_device
def test_a_suggested_local_size_is_computed_once(context, queue, monkeypatch):
    """Programs ask at each launch, and finding it takes as long as ten launches."""
    made = support.kernel(context, SOURCE, "launched")
    first = made.suggested_local_size(queue)
    monkeypatch.delattr("portbar.launching.kernel.suggested")
    assert made.suggested_local_size(cl.CommandQueue(context)) == first


@pytest.mark.parametrize(("bound", "words"), [(1, "at most 1 work-group of"), (2, "at most 2 work-groups of")])
def test_a_device_with_too_few_groups_is_named_with_their_number(bound: int, words: str) -> None:
    with pytest.raises(portbar.UnsupportedFeatureError, match=words):
        plan.check_least("k", "A device", 3, (64,), bound, None)


TELLS = """
#include "portbar/device_barrier.h"

/* Without a loop, which the quirk pocl-loops-over-dimensions is about. */
#define TELL(values) told[0] = (uint)values(0); told[1] = (uint)values(1); told[2] = (uint)values(2); told += 3;

kernel void plain(global uint *out)
{
    const size_t row = get_global_id(2) * get_global_size(1) + get_global_id(1);
    global uint *told = out + 20 * (row * get_global_size(0) + get_global_id(0));
    TELL(get_global_id) TELL(get_group_id) TELL(get_local_id) TELL(get_global_size) TELL(get_num_groups) TELL(get_local_size)
#if __OPENCL_C_VERSION__ >= 200
    told[0] = (uint)get_global_linear_id();
    told[1] = (uint)get_local_linear_id();
#endif
}

kernel void meets(PORTBAR_GRID_PARAM, global uint *out)
{
    PORTBAR_ENTER(grid);
    if (portbar_device_barrier(&grid))
        out[portbar_global_id(&grid)] = (uint)(get_group_id(1) * get_local_size(1) + get_local_id(1));
}

kernel __attribute__((reqd_work_group_size(1, 3, 2))) void shaped(global uint *out)
{
    out[get_global_id(2) * 6 + get_global_id(1)] = (uint)(get_local_id(2) * 3 + get_local_id(1));
}
"""


@pytest.fixture
def exchanging():
    """Let each device have its launches with two dimensions exchanged."""
    quirk = Quirk("narrow", lambda *_: True, "a fault", "seen", "a workaround", effect=quirks.FIRST_ITEM_TWICE)
    with quirks.registered(quirk):
        yield


@on_device
@pytest.mark.parametrize(
    ("size", "local"),
    [
        ((1, 6), (1, 3)),
        ((4, 6), (1, 3)),
        ((2, 4, 9), (1, 2, 3)),
        ((3, 2, 8), (1, 1, 4)),
        ((3, 2), (1, 1)),
        ((3, 8), None),
    ],
)
def test_a_kernel_does_not_see_that_its_dimensions_are_exchanged(context, queue, exchanging, size, local):
    del exchanging
    out = support.filled(queue, 20 * math.prod(size))
    support.kernel(context, TELLS, "plain")(queue, size, local, out).wait()
    sides = np.array((*size, 1, 1)[:3])
    ids = np.stack(np.unravel_index(np.arange(sides.prod()), sides[::-1]), 1)[:, ::-1]
    told = support.uints(queue, out).reshape(-1, 20)
    locals_ = told[:, 15:18] if local is None else np.broadcast_to((*local, 1, 1)[:3], ids.shape)
    np.testing.assert_array_equal(told[:, 0:3], ids)
    np.testing.assert_array_equal(told[:, 3:6], ids // locals_)
    np.testing.assert_array_equal(told[:, 6:9], ids % locals_)
    np.testing.assert_array_equal(told[:, 9:18], np.concatenate([ids * 0 + sides, sides // locals_, locals_], 1))
    if told[:, 18:].any():
        np.testing.assert_array_equal(told[:, 18], np.arange(len(told)))
        inside = told[:, 6:9]
        np.testing.assert_array_equal(
            told[:, 19], (inside[:, 2] * locals_[:, 1] + inside[:, 1]) * locals_[:, 0] + inside[:, 0]
        )


@on_device
def test_grids_and_required_sizes_are_exchanged_too(context, queue, exchanging):
    del exchanging
    out = support.filled(queue, 12)
    for where in ({"global_size": (1, 6)}, {"global_size": None, "num_groups": 1}):
        support.kernel(context, TELLS, "meets")(queue, where.pop("global_size"), (1, 6), out, **where).wait()
        np.testing.assert_array_equal(support.uints(queue, out)[:6], np.arange(6))
    support.kernel(context, TELLS, "shaped")(queue, (1, 6, 2), (1, 3, 2), out).wait()
    np.testing.assert_array_equal(support.uints(queue, out), [0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5])


@on_device
def test_the_widest_dimension_is_exchanged_where_the_first_is_1(device, exchanging):
    del exchanging
    facts = portbar.describe(device).facts
    for local, other in (((7, 1), 0), ((1, 7), 1), ((1, 2, 7), 2), ((1, 2, 2), 1), ((2, 7), 0), ((1,), 0), (None, 1)):
        assert plan.exchanged_with(facts, (3, 5), local) == other
    assert plan.exchange((1, 2, 3), 2) == (3, 2, 1)


@on_device
def test_kernels_without_barriers_are_not_exchanged(context, queue, exchanging, monkeypatch):
    del exchanging
    made = portbar.Program(context, "kernel void k(global uint *out) { out[get_global_id(1)] = 7u; }").kernel("k")
    out = support.filled(queue, 4)
    monkeypatch.delattr("portbar.launching.build.compile_program")
    made(queue, (1, 4), (1, 4), out).wait()
    assert support.uints(queue, out).tolist() == [7] * 4
