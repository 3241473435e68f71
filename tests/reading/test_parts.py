"""Programs of whose parts between barriers PoCL 5.0 found none, or parts that begin with what two branches have together."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pytest

import portbar
from tests import support

pytestmark = pytest.mark.device

LOCAL_SIZES = (1, 8, 13)
_HEAD = """
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
#include "portbar/atomics.h"
"""
_KERNEL = """
kernel void k(PORTBAR_GRID_PARAM, global uint *out, global uint *cells, const uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const uint lid = (uint)get_local_id(0), items = (uint)get_local_size(0);
    uint v = 0u;
    %s
    out[lid] = v;
}
"""
_SUMS_IN_ONE_BRANCH = """
    n != 5u ? cells[lid] : portbar_work_group_broadcast(scratch, n, 1u % items);
    v = portbar_work_group_broadcast(scratch, lid + 1u, 2u % items);
"""
_ALL_LEAVE_A_TURN = """
    for (uint i = 0u; i < n; ++i) {
        uint k = 0u;
        do {
            ++k;
            uint most = 7u;
            if (portbar_work_group_reduce_xor(scratch, most + i) % 3u != 0u)
                break;
        } while (portbar_device_barrier_any(&grid, k < ((i ^ n) % 4u)));
        v += i + 1u;
    }
"""
_BRANCHES_TWICE = """
    for (uint i = 0u; i < n; ++i) {
        portbar_device_barrier(&grid);
        v += (lid & 1u) != 0u ? ((lid & 2u) != 0u ? atomic_add(cells, 0u) : atomic_sub(cells + 1, 0u))
            : ((lid & 2u) != 0u ? atomic_or(cells + 2, 3u) : atomic_xor(cells + 3, 0u));
        v &= 4u;
        portbar_device_barrier(&grid);
    }
"""
_RETURNS = """
uint returned(global uint *cells, uint lid)
{
    if ((lid & 1u) != 0u) {
        if ((lid & 2u) != 0u) {
            atomic_add(cells + 1, 1u);
            return 1u;
        }
        atomic_sub(cells + 2, 2u);
        return 2u;
    }
    if ((lid & 2u) != 0u) {
        atomic_or(cells + 3, 1u);
        return 3u;
    }
    atomic_xor(cells + 4, 1u);
    return 4u;
}
"""
_CALLS = """
    for (uint i = 0u; i < n; ++i) {
        portbar_device_barrier(&grid);
        v += returned(cells, lid);
        portbar_device_barrier(&grid);
    }
"""
_BEGINS_WITH_A_LOOP = """
    for (uint i = 0u; i < n; ++i) {
        for (uint j = 3u; j > 0u; --j)
            atomic_max(cells + 1, lid == n ? 1u : 0u);
        for (uint j = 0u; j < n; ++j) {
            atomic_add(cells + 2, 2u);
            atomic_max(cells + 3, (v & i) | n);
            v += 1u;
        }
    }
    portbar_device_barrier(&grid);
"""
#: Functions, statements, and what each work-item ends with.
PROGRAMS = {
    "sums in one branch": ("", _SUMS_IN_ONE_BRANCH, lambda _lid, items: 2 % items + 1),
    "all leave a turn": ("", _ALL_LEAVE_A_TURN, lambda _lid, _items: 1 + 2 + 3),
    "branches twice": ("", _BRANCHES_TWICE, lambda _lid, _items: 0),
    "returns": (_RETURNS, _CALLS, lambda lid, _items: 3 * {3: 1, 1: 2, 2: 3, 0: 4}[lid & 3]),
    "begins with a loop": ("", _BEGINS_WITH_A_LOOP, lambda _lid, _items: 9),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_part_is_found(queue: cl.CommandQueue, name: str) -> None:
    functions, statements, expected = PROGRAMS[name]
    kernel = portbar.Program(queue.context, _HEAD + functions + _KERNEL % statements).kernel("k")
    for items in LOCAL_SIZES:
        out, cells = support.filled(queue, items), support.filled(queue, 32)
        kernel(queue, None, (items,), out, cells, np.uint32(3), num_groups=1).wait()
        assert support.uints(queue, out).tolist() == [expected(lid, items) for lid in range(items)]
